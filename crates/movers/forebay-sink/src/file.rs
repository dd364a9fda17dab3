//! HLD files: a start event, blocks of events as they come, a stop event.
//!
//! Position, counters and queue cursor commit as one record. A predecessor killed after a `write` and before the
//! commit left bytes that the books do not know: they are cut off and written again from the queue.
//!
//! A file that somebody removes or cuts meanwhile takes every write without an error. It is looked at before each block and
//! every `LOOK`: what was in it is counted and told, and a new file begins. Writes go to the file's end, wherever that is, so
//! that one that was cut never has a hole in it.

mod altered;
mod open;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use forebay_ledger::{Taint, TaintKind};
use forebay_sys::clock;
use forebay_sys::watched::{Fate, fate};
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventId};

use crate::begun::create_new;
use crate::block::Block;
use crate::books::{SinkBooks, SinkDrop};
use crate::direct::{DirectOut, FILE_CUT, Sync};
use crate::error::SinkError;
use crate::io::{Because, FileIo};
use crate::name;
use crate::plan::FilePlan;
use crate::writer::{Told, Writer};
pub(crate) use open::Asked;
use open::{Open, Staged, frame, open_again};

/// What does not fill a piece goes to the disk after so long, if that has nothing to do, in ns.
const FILL_NS: u64 = 20_000_000;
/// While the disk works it is asked so often.
const ASK: Duration = Duration::from_millis(2);

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
    /// How the thread that writes is started; tests make it fail.
    start_out: fn(u64, Arc<AtomicU64>) -> io::Result<DirectOut>,
    /// How files shall be written.
    asked: Asked,
    /// Why files went through the page cache all the same, as it was told last.
    fallback_told: Option<FileIo>,
    out: Option<DirectOut>,
    /// Goes up with each piece that is written past the page cache.
    progress: Arc<AtomicU64>,
    /// Blocks of the open file on their way to the disk.
    staged: VecDeque<Staged>,
    /// Blocks that were decided and not asked for yet.
    decided: u64,
}

impl HldWriter {
    /// Goes on with the file that the books name, cut to what they hold. What is not there any more is counted: the books must be
    /// committed then.
    ///
    /// # Errors
    /// The directory cannot be made, or the file cannot be opened or cut.
    pub fn resume(plan: FilePlan, books: &mut SinkBooks) -> Result<Self, SinkError> {
        Self::resume_telling(plan, books, Arc::default())
    }

    /// The same; `progress` goes up while a write past the page cache gets on.
    pub(crate) fn resume_telling(
        plan: FilePlan,
        books: &mut SinkBooks,
        progress: Arc<AtomicU64>,
    ) -> Result<Self, SinkError> {
        std::fs::create_dir_all(&plan.directory).map_err(SinkError::directory(&plan.directory))?;
        let [run, suffix, offset, events, identity @ ..] =
            books.words.file.map(|word| books.book.value(word));
        let asked = Asked::new(plan.io, books.book.value(books.words.capacity));
        if let Some(io) = asked.look(&plan.directory)? {
            tracing::info!(directory = %plan.directory.display(), io = io.word(), because = io.because(), "files are written");
            books.book.set(books.words.file_io, io.number());
        }
        let mut writer = Self {
            plan,
            asked,
            fallback_told: None,
            out: None,
            progress,
            staged: VecDeque::new(),
            decided: 0,
            open: None,
            refused: None,
            tainted: None,
            reports: Vec::new(),
            removed_told: 0,
            sync_block: File::sync_data,
            start_out: DirectOut::start,
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
        let opened = Open::new(file, path.clone(), run as u32, (offset, events), asked);
        let mut open = opened.map_err(SinkError::file("looking at", &path))?;
        open.identity = identity;
        open.has_room = true;
        writer.open = Some(open);
        writer.begin_direct(books);
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
        self.open = Some(Open::new(file, path, run, (offset, 0), self.asked)?);
        self.begin_direct(books);
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
        self.drain(books);
        self.look(books);
        let Some(mut open) = self.open.take() else {
            return;
        };
        let stop = frame(EventId::STOP, open.run);
        if let Err(error) = open.file.write_all_at(&stop, open.offset) {
            // What was written stays valid without it.
            open.cut_back();
            self.taint(&error, &open.path);
        } else {
            open.offset += stop.len() as u64;
            books.book.add(books.words.written, stop.len() as u64);
        }
        if open.has_room
            && let Ok(data) = open.file.metadata()
        {
            // The room behind its end goes back. One that was cut meanwhile is made no longer.
            let _ = open.file.set_len(open.offset.min(data.len()));
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

    /// Begins to write the open file past the page cache, if it is such a one, and says how it is written.
    fn begin_direct(&mut self, books: &mut SinkBooks) {
        let Some(open) = self.open.as_mut() else {
            return;
        };
        if open.direct.is_some() {
            let queue_bytes = books.book.value(books.words.capacity);
            let out = match self.out.take() {
                Some(out) => Ok(out),
                None => (self.start_out)(queue_bytes, Arc::clone(&self.progress)),
            };
            match out {
                Ok(mut out) => {
                    out.begin_at(open.offset);
                    self.out = Some(out);
                }
                Err(error) => {
                    tracing::warn!(%error, "no thread that writes, or no memory for it");
                    open.give_direct_up(Because::NoThread);
                }
            }
        }
        let io = open.io;
        self.note_io(io, books);
    }

    /// Writes down how the open file is written, and tells it when that is not how it was meant to be.
    fn note_io(&mut self, io: FileIo, books: &mut SinkBooks) {
        let word = books.words.file_io;
        let was_direct = FileIo::of_number(books.book.value(word)) == Some(FileIo::Direct);
        books.book.set(word, io.number());
        if was_direct && io != FileIo::Direct && self.fallback_told != Some(io) {
            self.fallback_told = Some(io);
            let (directory, because) = (self.plan.directory.display(), io.because());
            let text = format!("files in {directory} go through the page cache: {because}");
            tracing::warn!("{text}");
            self.reports.push(Told::Warning(text));
        }
    }

    /// What brings it to the device, if that is wanted.
    fn sync(&self) -> Sync {
        self.plan.sync.then_some(self.sync_block)
    }

    /// Writes a block, or hands it over to be written: then it is decided later.
    fn write(&mut self, block: &Block<'_>, books: &mut SinkBooks) -> io::Result<()> {
        let (sync, bytes) = (self.sync(), block.bytes.len() as u64);
        // As a rule `prepare` has opened it; when the disk was full then, this tells how it is now.
        let Some(open) = self.open.as_mut().filter(|open| open.run == block.run) else {
            return Err(self
                .refused
                .take()
                .unwrap_or_else(|| io::ErrorKind::NotFound.into()));
        };
        if let (Some(file), Some(out)) = (&open.direct, &mut self.out) {
            out.put(file, &block.bytes, sync, clock::monotonic_ns());
            let before = self.staged.back().map_or(open.offset, |it| it.end);
            self.staged.push_back(Staged {
                end: before + bytes,
                events: block.events,
                bytes,
            });
            return Ok(());
        }
        let mut written = block.bytes.write_to(&open.file, open.offset);
        if let Some(sync) = sync {
            written = written.and_then(|()| sync(&open.file));
        }
        if let Err(error) = written {
            // Nothing that was written before is harmed: the block, torn or whole, is cut off again. It is counted as
            // dropped, so no reader may find it.
            open.cut_back();
            return Err(error);
        }
        self.count_written(block.events, bytes, books);
        Ok(())
    }

    /// A block is in the open file.
    fn count_written(&mut self, events: u64, bytes: u64, books: &mut SinkBooks) {
        let Some(open) = &mut self.open else { return };
        open.offset += bytes;
        open.events += events;
        self.decided += 1;
        let suffix = books.book.value(books.words.file[1]);
        books.book.add(books.words.written, bytes);
        books.written(events, bytes);
        self.note(suffix, books);
    }

    /// Hands over all that is on its way, and waits until it is decided.
    fn drain(&mut self, books: &mut SinkBooks) {
        if self.staged.is_empty() {
            return;
        }
        let sync = self.sync();
        if let (Some(open), Some(out)) = (&self.open, &mut self.out)
            && let Some(file) = &open.direct
        {
            out.drain(file, sync);
        }
        self.decide(books);
    }

    /// Counts what the disk has decided.
    fn decide(&mut self, books: &mut SinkBooks) {
        let Some(out) = self.out.as_mut().filter(|_| !self.staged.is_empty()) else {
            return;
        };
        let (written, failed) = out.settle();
        let is_written = |block: &&Staged| block.end <= written;
        let count = self.staged.iter().take_while(is_written).count();
        for block in self.staged.drain(..count).collect::<Vec<_>>() {
            self.count_written(block.events, block.bytes, books);
        }
        let Some(error) = failed else { return };
        // What came behind what was written is cut off again: it is counted as dropped, so no reader may find it.
        if let Some(open) = &self.open {
            open.cut_back();
            if let Some(out) = &mut self.out {
                out.begin_at(open.offset);
            }
        }
        self.drop_staged(&error, books);
    }

    fn drop_staged(&mut self, error: &io::Error, books: &mut SinkBooks) {
        let path = self.path();
        let is_cut = error.kind() == FILE_CUT;
        let reason = match is_cut {
            // Nothing failed: they have no place any more.
            true => SinkDrop::FileCut,
            false => self.taint(error, &path),
        };
        let (mut events, mut bytes) = (0, 0);
        for block in std::mem::take(&mut self.staged) {
            books.dropped(reason, block.events, block.bytes);
            (events, bytes) = (events + block.events, bytes + block.bytes);
            self.decided += 1;
        }
        if is_cut {
            self.tell_waiting(&path, events, bytes);
        }
    }

    /// Where blocks go now.
    fn path(&self) -> PathBuf {
        let open = self.open.as_ref();
        open.map_or_else(|| self.plan.directory.clone(), |open| open.path.clone())
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
                | SinkDrop::TooLong
                | SinkDrop::FileCut => TaintKind::WriteError,
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
        if let Err(error) = self.write(block, books) {
            let path = self.path();
            let reason = self.taint(&error, &path);
            books.dropped(reason, block.events, block.bytes.len() as u64);
            self.decided += 1;
        }
    }

    fn settle(&mut self, books: &mut SinkBooks) -> u64 {
        let sync = self.sync();
        if let (Some(open), Some(out)) = (&self.open, &mut self.out)
            && let Some(file) = open.direct.as_ref().filter(|_| !self.staged.is_empty())
        {
            let since_ns = clock::monotonic_ns().saturating_sub(FILL_NS);
            out.submit_older(file, sync, since_ns);
        }
        self.decide(books);
        std::mem::take(&mut self.decided)
    }

    fn patience(&self) -> Option<Duration> {
        (!self.staged.is_empty()).then_some(ASK)
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

#[cfg(test)]
mod tests;
