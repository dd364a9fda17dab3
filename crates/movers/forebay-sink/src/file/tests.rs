use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::block::Bytes;
use crate::books::declare_writer;
use crate::plan::Io;
use forebay_ledger::{RunWriter, SchemaBuilder, Words};
use forebay_wire::hld::EventHeader;
use forebay_wire::hld_scan::{Ending, Item, Scanner};

const RUN: u32 = 77;

/// Whole events of a header only, with sequence numbers of their own.
fn events(sequences: std::ops::Range<u32>) -> Vec<u8> {
    let event = |sequence| {
        let mut header = EventHeader::new(EventId::data(1), 0, RUN);
        header.sequence = sequence;
        header.to_bytes()
    };
    sequences.flat_map(event).collect()
}

/// Sequence numbers of the events in a file that must be sound.
fn read(path: &std::path::Path) -> Vec<u32> {
    let mut scanner = Scanner::new();
    scanner.feed(&std::fs::read(path).unwrap());
    scanner.finish();
    let mut found = Vec::new();
    while let Some(item) = scanner.poll_item() {
        match item {
            Item::Event(event) => found.push(event.event.header().sequence),
            Item::Broken(broken) => panic!("{broken}"),
            Item::Start { .. } | Item::Stop { .. } => {}
        }
    }
    assert_eq!(scanner.ending(), Some(Ending::Clean));
    found
}

#[test]
fn a_block_that_does_not_reach_the_device_is_not_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = FilePlan {
        directory: folder.path().into(),
        prefix: "be".into(),
        builder_number: 1,
        bytes_max: 0,
        events_max: 0,
        seconds_max: 0,
        sync: true,
        io: Io::Buffered,
    };
    let mut schema = SchemaBuilder::new("run");
    let (words, _) = declare_writer(&mut schema, "sink", "files");
    let schema = schema.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 1).unwrap();
    let mut books = SinkBooks::attach(&schema, &memory, words).unwrap();
    let mut out = HldWriter::resume(file, &mut books).unwrap();
    assert!(out.prepare(RUN, &mut books));
    let path = out.open.as_ref().unwrap().path.clone();
    let mut write = |out: &mut HldWriter, sequences: std::ops::Range<u32>| {
        let bytes = events(sequences.clone());
        let block = Block {
            bytes: Bytes::Own(&bytes),
            run: RUN,
            events: sequences.len() as u64,
        };
        out.write_block(&block, &mut books);
    };
    write(&mut out, 0..3);
    out.sync_block = |_| Err(io::ErrorKind::Other.into());
    write(&mut out, 3..60);
    assert_eq!(path.metadata().unwrap().len(), 4 * 32);
    out.sync_block = File::sync_data;
    write(&mut out, 60..61);
    out.finish(&mut books);
    assert_eq!(read(&path), [0, 1, 2, 60]);
    let account = &books.words.account;
    let lost = account.lost(SinkDrop::WriteError);
    assert_eq!(books.book.tally(lost).0, 57);
    assert_eq!(books.book.tally(account.outgoing).0, 4);
}

/// Seconds since 1970 of a date and a time word, by the calendar and not by the code that made them.
fn unix_s(date: u32, time: u32) -> i64 {
    let (year, month) = (1900 + i64::from(date >> 16), i64::from(date >> 8 & 0xff));
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: i64 = (1970..year)
        .map(|year| if leap(year) { 366 } else { 365 })
        .sum();
    let months: i64 = lengths[..month as usize].iter().sum();
    let days = years + months + i64::from(date & 0xff) - 1;
    let [hour, minute, second] = [time >> 16, time >> 8 & 0xff, time & 0xff].map(i64::from);
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

#[test]
fn a_file_begins_and_ends_with_its_run_and_the_moment() {
    let unix_now = || (clock::realtime_ns() / 1_000_000_000).cast_signed();
    let before_s = unix_now();
    let start = frame(EventId::START, RUN);
    let stop = frame(EventId::STOP, RUN);
    for (head, id) in [(start, 0x0001_0002), (stop, 0x0001_0003)] {
        let words: Vec<u32> = head
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[..4], [32, 0x0003_0001, id, 0]);
        assert_eq!(words[6..], [RUN, 0]);
        let at_s = unix_s(words[4], words[5]);
        assert!((before_s..=unix_now()).contains(&at_s), "{at_s}");
    }
}

/// Files in a directory of the disk that this is built on, and the books of their writer.
struct Files {
    folder: tempfile::TempDir,
    plan: FilePlan,
    books: SinkBooks,
}

impl Files {
    /// None where the file system does not write past the page cache.
    fn direct() -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        if !forebay_sys::direct::is_taken_in(folder.path()).unwrap() {
            forebay_testing::skip!("this file system does not write past the page cache");
            return None;
        }
        let plan = FilePlan {
            io: Io::Direct,
            ..FilePlan::of_streams(folder.path().into())
        };
        let mut schema = SchemaBuilder::new("run");
        let (words, _) = declare_writer(&mut schema, "sink", "files");
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        let books = SinkBooks::attach(&schema, &memory, words).unwrap();
        Some(Self {
            folder,
            plan,
            books,
        })
    }

    fn open(&mut self) -> HldWriter {
        HldWriter::resume(self.plan.clone(), &mut self.books).unwrap()
    }

    fn write(&mut self, out: &mut HldWriter, sequences: Range<u32>) {
        out.prepare(RUN, &mut self.books);
        let bytes = events(sequences.clone());
        let block = Block {
            bytes: Bytes::Own(&bytes),
            run: RUN,
            events: sequences.len() as u64,
        };
        out.write_block(&block, &mut self.books);
    }

    /// Waits until so many blocks are decided.
    fn settle(&mut self, out: &mut HldWriter, blocks: u64) {
        let mut decided = 0;
        while decided < blocks {
            decided += out.settle(&mut self.books);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!((decided, out.patience()), (blocks, None));
    }

    /// Events written, events dropped as write errors, events removed.
    fn counts(&self) -> [u64; 3] {
        let words = &self.books.words;
        let lost = words.account.lost(SinkDrop::WriteError);
        [words.account.outgoing, lost, words.removed].map(|term| self.books.book.tally(term).0)
    }

    /// All files, by their names.
    fn paths(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

#[test]
fn blocks_of_any_length_go_past_the_cache_in_order() {
    let Some(mut files) = Files::direct() else {
        return;
    };
    let mut out = files.open();
    let (mut next, mut blocks) = (0, 0);
    // With pieces of 64 KiB: some blocks fill several, some end on a page, most do not.
    for count in [1, 3, 2_047, 127, 128, 10_000, 1, 5_000, 63] {
        files.write(&mut out, next..next + count);
        (next, blocks) = (next + count, blocks + 1);
    }
    assert!(out.patience().is_some(), "nothing waits for more");
    files.settle(&mut out, blocks);
    let path = files.paths().remove(0);
    assert_eq!(path.metadata().unwrap().len(), 32 * (u64::from(next) + 1));
    // The next piece begins within a page.
    files.write(&mut out, next..next + 4_000);
    out.finish(&mut files.books);
    assert_eq!(out.settle(&mut files.books), 1);
    assert_eq!(read(&path), (0..next + 4_000).collect::<Vec<_>>());
    assert_eq!(files.counts(), [u64::from(next) + 4_000, 0, 0]);
    let data = path.metadata().unwrap();
    assert!(
        data.blocks() * 512 < data.len() + (1 << 20),
        "the room behind its end is still taken"
    );
}

#[test]
fn a_piece_that_does_not_reach_the_device_is_not_in_the_file() {
    let Some(mut files) = Files::direct() else {
        return;
    };
    files.plan.sync = true;
    let mut out = files.open();
    files.write(&mut out, 0..3);
    files.settle(&mut out, 1);
    out.sync_block = |_| Err(io::ErrorKind::Other.into());
    files.write(&mut out, 3..6_000);
    files.write(&mut out, 6_000..6_001);
    files.settle(&mut out, 2);
    assert_eq!(files.counts(), [3, 5_998, 0]);
    let path = files.paths().remove(0);
    assert_eq!(path.metadata().unwrap().len(), 4 * 32);
    out.sync_block = File::sync_data;
    files.write(&mut out, 7_000..9_000);
    out.finish(&mut files.books);
    let expected: Vec<_> = (0..3).chain(7_000..9_000).collect();
    assert_eq!(read(&path), expected);
    assert_eq!(files.counts(), [2_003, 5_998, 0]);
}

#[test]
fn a_successor_cuts_what_its_books_do_not_know_and_goes_on() {
    let Some(mut files) = Files::direct() else {
        return;
    };
    let mut out = files.open();
    files.write(&mut out, 0..5_001);
    files.settle(&mut out, 1);
    let known = files
        .books
        .words
        .file
        .map(|word| files.books.book.value(word));
    files.write(&mut out, 5_001..9_000);
    files.settle(&mut out, 1);
    // As if it had been killed before it committed the second one.
    for (word, value) in files.books.words.file.into_iter().zip(known) {
        files.books.book.set(word, value);
    }
    drop(out);
    let mut out = files.open();
    files.write(&mut out, 5_001..12_000);
    out.finish(&mut files.books);
    let paths = files.paths();
    assert_eq!(paths.len(), 1);
    assert_eq!(read(&paths[0]), (0..12_000).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_cut_while_blocks_are_on_their_way_has_no_hole() {
    let Some(mut files) = Files::direct() else {
        return;
    };
    let mut out = files.open();
    files.write(&mut out, 0..5_000);
    files.settle(&mut out, 1);
    // This one is not full, and waits.
    files.write(&mut out, 5_000..5_500);
    let path = files.paths().remove(0);
    let cut = File::options().write(true).open(&path).unwrap();
    // Within an event.
    cut.set_len(1_001 * 32 + 16).unwrap();
    files.write(&mut out, 5_500..6_000);
    out.finish(&mut files.books);
    assert_eq!(read(&path), (0..1_000).collect::<Vec<_>>());
    assert_eq!(files.counts(), [5_500, 500, 4_000]);
    let paths = files.paths();
    let after = paths.iter().find(|it| **it != path).unwrap();
    assert_eq!(read(after), (5_500..6_000).collect::<Vec<_>>());
}

#[test]
fn a_directory_that_is_not_on_a_disk_is_told() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        forebay_testing::skip!("there is no /dev/shm");
        return;
    };
    let Some(mut files) = Files::direct() else {
        return;
    };
    files.plan.directory = folder.path().into();
    let told = HldWriter::resume(files.plan.clone(), &mut files.books).unwrap_err();
    assert!(
        told.to_string().contains("remedy: io = \"buffered\""),
        "{told}"
    );
    files.plan.io = Io::Buffered;
    let mut out = files.open();
    files.write(&mut out, 0..3);
    assert_eq!((out.settle(&mut files.books), out.patience()), (1, None));
}
