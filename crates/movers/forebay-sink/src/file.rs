//! HLD files: a start event, blocks of events as they come, a stop event.
//!
//! Position, counters and queue cursor commit as one record. A predecessor killed after a `write` and before the
//! commit left bytes that the books do not know: they are cut off and written again from the queue.
//!
//! A file that somebody removes or cuts meanwhile takes every write without an error. It is looked at before each block and
//! every `LOOK`: what was in it is counted and told, and a new file begins. Writes go to the file's end, wherever that is, so
//! that one that was cut never has a hole in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_ledger::{Taint, TaintKind};
use forebay_sys::clock;
use forebay_sys::watched::{Fate, Identity, fate, find, identity, moved_to};
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::begun::{claim, create_new, options};
use crate::block::Block;
use crate::books::{SinkBooks, SinkDrop};
use crate::error::SinkError;
use crate::kept::Kept;
use crate::name;
use crate::plan::FilePlan;
use crate::writer::{Told, Writer};

/// So many removed files are told each by its name; further ones are counted.
const REMOVED_TOLD_MAX: u32 = 16;

/// The open file.
#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    identity: Identity,
    run: u32,
    offset: u64,
    events: u64,
    /// It was told that it lies elsewhere now.
    moved_told: bool,
}

/// Writes HLD files.
#[derive(Debug)]
pub struct HldWriter {
    plan: FilePlan,
    open: Option<Open>,
    /// Why the file of the next block could not be begun.
    refused: Option<io::Error>,
    /// What the supervisor was told already, and what it shall be told.
    tainted: Option<SinkDrop>,
    reports: Vec<Told>,
    /// Removed files that were told.
    removed_told: u32,
    /// How a block is brought to the device; tests make it fail.
    sync_block: fn(&File) -> io::Result<()>,
}

impl HldWriter {
    /// Goes on with the file that the books name, cut to what they hold. What is not there any more is counted: the books must be
    /// committed then.
    ///
    /// # Errors
    /// The directory cannot be made, or the file cannot be opened or cut.
    pub fn resume(plan: FilePlan, books: &mut SinkBooks) -> Result<Self, SinkError> {
        std::fs::create_dir_all(&plan.directory)
            .map_err(SinkError::file("creating directory", &plan.directory))?;
        let [run, suffix, offset, events, identity @ ..] =
            books.words.file.map(|word| books.book.value(word));
        let mut writer = Self {
            plan,
            open: None,
            refused: None,
            tainted: None,
            reports: Vec::new(),
            removed_told: 0,
            sync_block: File::sync_data,
        };
        if run == 0 || offset == 0 {
            return Ok(writer);
        }
        let path = name::path(&writer.plan, run as u32, suffix as u32);
        let opened = open_again(identity, run as u32, &path);
        let Some(file) = opened.map_err(SinkError::file("opening again", &path))? else {
            let bytes = offset - EVENT_HEADER_BYTES as u64;
            writer.count_removed("removed", &path, (events, bytes), books);
            return Ok(writer);
        };
        if matches!(fate(&file, offset), Ok(Fate::Longer)) {
            file.set_len(offset)
                .map_err(SinkError::file("cutting", &path))?;
        }
        writer.open = Some(Open {
            file,
            path,
            identity,
            run: run as u32,
            offset,
            events,
            moved_told: false,
        });
        writer.look(books);
        Ok(writer)
    }

    /// Opens the file of `run` under a name that nobody has.
    fn begin(&mut self, run: u32, books: &mut SinkBooks) -> io::Result<()> {
        self.end(books);
        let (file, path, suffix) = self.create(run)?;
        let offset = EVENT_HEADER_BYTES as u64;
        let written = file.set_len(0);
        let written = written.and_then(|()| file.write_all_at(&frame(EventId::START, run), 0));
        if let Err(error) = written {
            // An empty file is taken over by the next attempt.
            let _ = file.set_len(0);
            return Err(error);
        }
        self.open = Some(Open {
            identity: identity(&file)?,
            file,
            path,
            run,
            offset,
            events: 0,
            moved_told: false,
        });
        books.book.add(books.words.files, 1);
        books.book.add(books.words.written, offset);
        self.note(u64::from(suffix), books);
        Ok(())
    }

    /// A file for `run`, in a directory that is made again when somebody removed it: the events are worth more than its absence.
    fn create(&mut self, run: u32) -> io::Result<(File, PathBuf, u32)> {
        let created = create_new(&self.plan, run);
        if !matches!(&created, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return created;
        }
        let directory = &self.plan.directory;
        std::fs::create_dir_all(directory)?;
        let text = format!("{} was gone and is made again", directory.display());
        tracing::warn!("{text}");
        self.reports.push(Told::Warning(text));
        create_new(&self.plan, run)
    }

    /// Looks whether the open file is as it was left. What is not there any more is counted, and a new file begins with the
    /// next block; true when the books must be committed.
    fn look(&mut self, books: &mut SinkBooks) -> bool {
        let Some(open) = &self.open else { return false };
        let (path, fate) = (open.path.clone(), fate(&open.file, open.offset));
        match fate {
            Ok(Fate::Whole) => false,
            Ok(Fate::Longer) => {
                tracing::warn!(path = %path.display(), "what is behind its events is cut off");
                let _ = open.file.set_len(open.offset);
                false
            }
            Ok(Fate::Removed) => {
                self.lose("removed", None, books);
                true
            }
            Ok(Fate::Cut { bytes }) => {
                let kept = Kept::count(&open.file, open.run, bytes);
                self.lose(&format!("cut to {bytes} bytes"), Some(kept), books);
                true
            }
            Err(error) => {
                self.taint(&error, &path);
                false
            }
        }
    }

    /// Closes a file that somebody removed or cut. What is `kept` of the latter becomes a sound file again.
    fn lose(&mut self, how: &str, kept: Option<Kept>, books: &mut SinkBooks) {
        let Some(open) = self.open.take() else { return };
        if let Some(kept) = kept
            && open.file.set_len(kept.end).is_ok()
            && kept.end > 0
        {
            let stop = frame(EventId::STOP, open.run);
            if open.file.write_all_at(&stop, kept.end).is_ok() {
                books.book.add(books.words.written, stop.len() as u64);
            }
        }
        let kept = kept.unwrap_or_default();
        let events = open.events.saturating_sub(kept.events);
        let bytes = open.offset - kept.end.max(EVENT_HEADER_BYTES as u64);
        self.count_removed(how, &open.path, (events, bytes), books);
    }

    fn count_removed(
        &mut self,
        how: &str,
        path: &Path,
        (events, bytes): (u64, u64),
        books: &mut SinkBooks,
    ) {
        books.book.add(books.words.removed_files, 1);
        books.book.add_tally(books.words.removed, events, bytes);
        for word in books.words.file {
            books.book.set(word, 0);
        }
        if self.removed_told < REMOVED_TOLD_MAX {
            self.removed_told += 1;
            let path = path.display();
            let text = format!(
                "{path} was {how} while it was written: {events} events ({bytes} bytes) that were in it are gone"
            );
            tracing::error!("output_removed: {text}; further events go into a new file");
            let taint = Taint::new(TaintKind::OutputRemoved, text);
            self.reports.push(Told::Tainted(taint));
        }
    }

    /// Tells once that the open file has another name now: its events are there, where nobody may look for them.
    fn look_for_name(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| !open.moved_told) else {
            return;
        };
        if let Some(now) = moved_to(&open.file, &open.path) {
            open.moved_told = true;
            let (path, now) = (open.path.display(), now.display());
            let text = format!("{path} was renamed while it was written; it is now {now}");
            self.reports.push(Told::Warning(text));
        }
    }

    /// Writes down where the file stands.
    fn note(&self, suffix: u64, books: &mut SinkBooks) {
        let Some(open) = &self.open else { return };
        let place = [u64::from(open.run), suffix, open.offset, open.events];
        let values = place.into_iter().chain(open.identity);
        for (word, value) in books.words.file.into_iter().zip(values) {
            books.book.set(word, value);
        }
    }

    /// Ends the open file with a stop event.
    fn end(&mut self, books: &mut SinkBooks) {
        self.look(books);
        let Some(mut open) = self.open.take() else {
            return;
        };
        let stop = frame(EventId::STOP, open.run);
        if let Err(error) = open.file.write_all_at(&stop, open.offset) {
            // What was written stays valid without it.
            let _ = open.file.set_len(open.offset);
            self.taint(&error, &open.path);
        } else {
            open.offset += stop.len() as u64;
            books.book.add(books.words.written, stop.len() as u64);
        }
        if self.plan.sync
            && let Err(error) = open.file.sync_all()
        {
            self.taint(&error, &open.path);
        }
        for word in books.words.file {
            books.book.set(word, 0);
        }
    }

    fn is_open_for(&self, run: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.run == run)
    }

    fn write(&mut self, block: &Block<'_>, books: &mut SinkBooks) -> io::Result<()> {
        // As a rule `prepare` has opened it; when the disk was full then, this tells how it is now.
        let Some(open) = self.open.as_mut().filter(|open| open.run == block.run) else {
            return Err(self
                .refused
                .take()
                .unwrap_or_else(|| io::ErrorKind::NotFound.into()));
        };
        let before = open.offset;
        let mut written = block.bytes.write_to(&open.file, before);
        if self.plan.sync {
            written = written.and_then(|()| (self.sync_block)(&open.file));
        }
        if let Err(error) = written {
            // Nothing that was written before is harmed: the block, torn or whole, is cut off again. It is counted as
            // dropped, so no reader may find it.
            let _ = open.file.set_len(before);
            return Err(error);
        }
        open.offset = before + block.bytes.len() as u64;
        open.events += block.events;
        let suffix = books.book.value(books.words.file[1]);
        books
            .book
            .add(books.words.written, block.bytes.len() as u64);
        self.note(suffix, books);
        Ok(())
    }

    fn taint(&mut self, error: &io::Error, path: &Path) -> SinkDrop {
        let reason = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SinkDrop::DiskFull,
            _ => SinkDrop::WriteError,
        };
        if self.tainted != Some(reason) {
            tracing::error!(%error, path = %path.display(), "writing failed; events are dropped and counted until it works again");
            self.tainted = Some(reason);
            let kind = match reason {
                SinkDrop::DiskFull => TaintKind::DiskFull,
                SinkDrop::WriteError
                | SinkDrop::PeerLost
                | SinkDrop::Stalled
                | SinkDrop::TooLong => TaintKind::WriteError,
            };
            let text = format!("{}: {error}", path.display());
            self.reports.push(Told::Tainted(Taint::new(kind, text)));
        }
        reason
    }
}

impl Writer for HldWriter {
    fn prepare(&mut self, run: u32, books: &mut SinkBooks) -> bool {
        let lost = self.look(books);
        if self.is_open_for(run) {
            return false;
        }
        let ended = lost || self.open.is_some();
        self.refused = self.begin(run, books).err();
        ended || self.refused.is_none()
    }

    fn write_block(&mut self, block: &Block<'_>, books: &mut SinkBooks) {
        let bytes = block.bytes.len() as u64;
        match self.write(block, books) {
            Ok(()) => books.written(block.events, bytes),
            Err(error) => {
                let path = self
                    .open
                    .as_ref()
                    .map_or_else(|| self.plan.directory.clone(), |open| open.path.clone());
                let reason = self.taint(&error, &path);
                books.dropped(reason, block.events, bytes);
            }
        }
    }

    fn watch(&mut self, books: &mut SinkBooks) -> bool {
        self.look_for_name();
        self.look(books)
    }

    fn finish(&mut self, books: &mut SinkBooks) {
        self.look_for_name();
        self.end(books);
    }

    fn reports(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.reports)
    }
}

/// Opens the file that a predecessor wrote at `path`, also when somebody has renamed it since; none when it is not found any more.
fn open_again(of: Identity, run: u32, path: &Path) -> io::Result<Option<File>> {
    let now = find(of, path);
    let file = match options().open(now.as_deref().unwrap_or(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A file system may number its files anew, or give the number of one that is gone to another one and not say when that was made.
    let mut head = [0; EVENT_HEADER_BYTES];
    let begins = file.read_exact_at(&mut head, 0).is_ok();
    let begun = EventHeader::parse(&head).is_ok_and(|it| (it.id, it.run) == (EventId::START, run));
    let is_certain = now.is_some() && identity(&file)?[1] != 0;
    let _ = claim(&file);
    Ok((is_certain || begins && begun).then_some(file))
}

/// Start or stop event, stamped now.
fn frame(id: EventId, run: u32) -> [u8; EVENT_HEADER_BYTES] {
    let unix_s = (clock::realtime_ns() / 1_000_000_000).cast_signed();
    EventHeader::new(id, unix_s, run).to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Bytes;
    use crate::books::declare_writer;
    use forebay_ledger::{RunWriter, SchemaBuilder, Words};
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
}
