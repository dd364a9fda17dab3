mod disks;

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

use super::*;
use crate::block::Bytes;
use crate::books::declare_writer;
use crate::io::Io;
use disks::Disk;
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

/// Files in a directory, and the books of their writer.
struct Files {
    disk: Disk,
    plan: FilePlan,
    books: SinkBooks,
}

impl Files {
    fn on(disk: Disk, io: Io) -> Self {
        let plan = FilePlan {
            io,
            ..FilePlan::of_streams(disk.path.clone())
        };
        let mut schema = SchemaBuilder::new("run");
        let (words, _) = declare_writer(&mut schema, "sink", "files");
        let schema = schema.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 1).unwrap();
        let books = SinkBooks::attach(&schema, &memory, words).unwrap();
        Self { disk, plan, books }
    }

    /// On each disk here that is written past the page cache.
    fn direct() -> Vec<Self> {
        let disks = [Disk::of_the_build(), Disk::xfs()].into_iter().flatten();
        disks.map(|disk| Self::on(disk, Io::Direct)).collect()
    }

    fn io(&self) -> Option<FileIo> {
        FileIo::of_number(self.books.book.value(self.books.words.file_io))
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

    /// Events written, events dropped as write errors, events dropped with a file that was cut, events removed.
    fn counts(&self) -> [u64; 4] {
        let words = &self.books.words;
        let lost = |why| words.account.lost(why);
        let (failed, cut) = (lost(SinkDrop::WriteError), lost(SinkDrop::FileCut));
        [words.account.outgoing, failed, cut, words.removed]
            .map(|term| self.books.book.tally(term).0)
    }

    /// All files, by their names.
    fn paths(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.disk.path).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

#[test]
fn blocks_of_any_length_go_past_the_cache_in_order() {
    for mut files in Files::direct() {
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
        assert_eq!(files.counts(), [u64::from(next) + 4_000, 0, 0, 0]);
        let data = path.metadata().unwrap();
        assert!(
            data.blocks() * 512 < data.len() + (1 << 20),
            "the room behind its end is still taken"
        );
    }
}

#[test]
fn a_piece_that_does_not_reach_the_device_is_not_in_the_file() {
    for mut files in Files::direct() {
        files.plan.sync = true;
        let mut out = files.open();
        files.write(&mut out, 0..3);
        files.settle(&mut out, 1);
        out.sync_block = |_| Err(io::ErrorKind::Other.into());
        files.write(&mut out, 3..6_000);
        files.write(&mut out, 6_000..6_001);
        files.settle(&mut out, 2);
        assert_eq!(files.counts(), [3, 5_998, 0, 0]);
        let path = files.paths().remove(0);
        assert_eq!(path.metadata().unwrap().len(), 4 * 32);
        out.sync_block = File::sync_data;
        files.write(&mut out, 7_000..9_000);
        out.finish(&mut files.books);
        let expected: Vec<_> = (0..3).chain(7_000..9_000).collect();
        assert_eq!(read(&path), expected);
        assert_eq!(files.counts(), [2_003, 5_998, 0, 0]);
    }
}

#[test]
fn a_successor_cuts_what_its_books_do_not_know_and_goes_on() {
    for mut files in Files::direct() {
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
}

#[test]
fn a_file_that_is_cut_while_blocks_are_on_their_way_has_no_hole() {
    for mut files in Files::direct() {
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
        // Those that waited were not written, and nothing failed to write them.
        assert_eq!(files.counts(), [5_500, 0, 500, 4_000]);
        let told: Vec<_> = out
            .reports()
            .into_iter()
            .map(|told| match told {
                Told::Tainted(taint) => (taint.kind, taint.text),
                Told::Warning(text) => panic!("{text}"),
            })
            .collect();
        assert!(
            told.iter()
                .all(|(kind, _)| *kind == TaintKind::OutputRemoved),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|(_, text)| text.contains("500 events (16000 bytes) were on their way")),
            "{told:?}"
        );
        let paths = files.paths();
        let after = paths.iter().find(|it| **it != path).unwrap();
        assert_eq!(read(after), (5_500..6_000).collect::<Vec<_>>());
    }
}

#[test]
fn direct_on_a_file_system_that_does_not_do_it_is_refused_and_by_default_goes_through_the_cache() {
    let Some(memory) = Disk::memory() else {
        return;
    };
    let mut files = Files::on(memory, Io::Direct);
    let told = HldWriter::resume(files.plan.clone(), &mut files.books).unwrap_err();
    assert!(
        told.to_string().contains("remedy: io = \"buffered\""),
        "{told}"
    );
    assert_eq!(files.io(), None);
    files.plan.io = Io::Auto;
    let mut out = files.open();
    let buffered = FileIo::Buffered(Because::FileSystem);
    assert_eq!(files.io(), Some(buffered), "it is known at the start");
    files.write(&mut out, 0..3);
    assert_eq!((out.settle(&mut files.books), out.patience()), (1, None));
    out.finish(&mut files.books);
    assert_eq!(read(&files.paths()[0]), [0, 1, 2]);
    assert_eq!((files.io(), out.reports()), (Some(buffered), vec![]));
}

#[test]
fn files_go_past_the_cache_by_default_where_that_can_be() {
    for mut files in Files::direct() {
        files.plan.io = Io::Auto;
        let mut out = files.open();
        assert_eq!(files.io(), Some(FileIo::Direct), "it is known at the start");
        files.write(&mut out, 0..3);
        assert!(out.patience().is_some(), "it was written at once");
        out.finish(&mut files.books);
        assert_eq!((files.io(), out.reports()), (Some(FileIo::Direct), vec![]));
        assert_eq!(read(&files.paths()[0]), [0, 1, 2]);
    }
}

#[test]
fn files_go_through_the_cache_when_asked_or_with_a_short_queue() {
    let mut disks = Files::direct().into_iter();
    let Some(mut files) = disks.next() else {
        return;
    };
    for (io, queue_bytes, because) in [
        (Io::Buffered, 64 << 20, Because::Asked),
        (Io::Auto, 512 << 10, Because::ShortQueue),
    ] {
        files.plan.io = io;
        let capacity = files.books.words.capacity;
        files.books.book.set(capacity, queue_bytes);
        let mut out = files.open();
        assert_eq!(files.io(), Some(FileIo::Buffered(because)));
        files.write(&mut out, 0..3);
        assert_eq!((out.settle(&mut files.books), out.patience()), (1, None));
        out.finish(&mut files.books);
        assert_eq!(files.io(), Some(FileIo::Buffered(because)));
    }
}

#[test]
fn a_thread_that_cannot_be_had_is_in_the_books_and_told_once() {
    for mut files in Files::direct() {
        let mut out = files.open();
        assert_eq!(files.io(), Some(FileIo::Direct));
        out.start_out = |_, _| Err(io::ErrorKind::WouldBlock.into());
        files.write(&mut out, 0..3);
        assert_eq!((out.settle(&mut files.books), out.patience()), (1, None));
        let without = FileIo::Buffered(Because::NoThread);
        assert_eq!(files.io(), Some(without));
        out.end(&mut files.books);
        files.write(&mut out, 3..6);
        out.finish(&mut files.books);
        let told = out.reports();
        let [Told::Warning(text)] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert!(text.contains(without.because()), "{text}");
        assert_eq!((files.io(), files.counts()), (Some(without), [6, 0, 0, 0]));
    }
}

#[test]
fn each_piece_that_is_written_is_progress_also_when_nothing_is_committed() {
    for mut files in Files::direct() {
        files.plan.sync = true;
        let (plan, progress) = (files.plan.clone(), Arc::new(AtomicU64::new(0)));
        let ticks = Arc::clone(&progress);
        let mut out = HldWriter::resume_telling(plan, &mut files.books, ticks).unwrap();
        // 32 KB in pieces of 4 KiB, of which three at most are not written.
        files.write(&mut out, 0..1_000);
        assert!(progress.load(Ordering::Relaxed) >= 5);
        out.finish(&mut files.books);
        assert_eq!(progress.load(Ordering::Relaxed), 8);
        assert_eq!(files.counts(), [1_000, 0, 0, 0]);
    }
}

/// Bytes that a file takes of its disk.
fn taken(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

#[test]
fn room_that_a_killed_sink_asked_for_is_behind_the_end_of_its_file_and_goes_back() {
    for mut files in Files::direct() {
        let room = |files: &Files| taken(&files.paths()[0]) > 32 << 20;
        let mut out = files.open();
        files.write(&mut out, 0..3_000);
        files.settle(&mut out, 1);
        // Killed here: nobody ends the file.
        drop(out);
        let path = files.paths().remove(0);
        assert!(room(&files), "no room was asked for");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 32 * 3_001, "it is longer than what is in it");
        let mut scanner = Scanner::new();
        scanner.feed(&bytes);
        scanner.finish();
        let mut events = 0;
        while let Some(item) = scanner.poll_item() {
            events += u32::from(matches!(item, Item::Event(_)));
        }
        assert_eq!(events, 3_000);
        // A successor gives it back at the end of the file, also one that writes through the cache.
        files.plan.io = Io::Buffered;
        let mut out = files.open();
        files.write(&mut out, 3_000..3_001);
        out.finish(&mut files.books);
        assert_eq!(read(&path), (0..3_001).collect::<Vec<_>>());
        assert!(taken(&path) < 1 << 20, "{} bytes are taken", taken(&path));
    }
}

/// What `docs/TUNING.md` says of files that nobody ends.
#[test]
fn room_behind_the_end_of_a_file_goes_back_by_truncate() {
    for mut files in Files::direct() {
        let mut out = files.open();
        files.write(&mut out, 0..3_000);
        files.settle(&mut out, 1);
        drop(out);
        let path = files.paths().remove(0);
        let before = std::fs::read(&path).unwrap();
        let mut command = std::process::Command::new("truncate");
        let done = command.args(["--size", "+0"]).arg(&path).status().unwrap();
        assert!(done.success() && taken(&path) < 1 << 20);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_full_disk_past_the_cache_is_named_and_what_was_written_stays_whole() {
    let Some(disk) = Disk::xfs() else {
        return;
    };
    let mut files = Files::on(disk, Io::Direct);
    let mut out = files.open();
    files.write(&mut out, 0..10);
    files.settle(&mut out, 1);
    let filler = files.disk.path.join("filler");
    let file = File::create(&filler).unwrap();
    let mut end = 0;
    for bytes in [64 << 20, 1 << 20, 4 << 10] {
        while forebay_sys::direct::reserve(&file, end, bytes).is_ok() {
            end += bytes;
        }
    }
    files.write(&mut out, 10..6_000);
    files.settle(&mut out, 1);
    let full = files.books.words.account.lost(SinkDrop::DiskFull);
    assert_eq!(files.books.book.tally(full), (5_990, 5_990 * 32));
    std::fs::remove_file(&filler).unwrap();
    drop(file);
    files.write(&mut out, 7_000..9_000);
    out.finish(&mut files.books);
    let expected: Vec<_> = (0..10).chain(7_000..9_000).collect();
    assert_eq!(read(&files.paths()[0]), expected);
    assert_eq!(files.counts(), [2_010, 0, 0, 0]);
}
