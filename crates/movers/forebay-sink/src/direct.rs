//! Appends past the page cache, by a thread of its own: while the disk has one piece, the next one is filled.
//!
//! ```text
//! blocks ──copy──▶ piece (4 MiB, aligned) ──▶ thread ──append──▶ the file's end
//!        ◀── written up to here, or failed ───┘
//! ```
//!
//! All goes to the file's end in one order, so that a file that was cut never has a hole in it. What does not end on the disk's alignment is
//! appended through the page cache, up to the next multiple.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use forebay_sys::direct::{self, ALIGN_BYTES, DirectMemory};

use crate::block::Bytes;

/// Longest piece, in bytes: longer ones are written no faster.
const PIECE_BYTES_MAX: usize = 4 << 20;
/// Shortest one.
const PIECE_BYTES_MIN: usize = ALIGN_BYTES;
/// One is filled, one is written, one is ready.
const PIECES: usize = 3;
/// So much room is asked for ahead of what is written.
const RESERVE_BYTES: u64 = 64 << 20;

/// What appending says of a file that is shorter than it was left.
pub(crate) const FILE_CUT: io::ErrorKind = io::ErrorKind::UnexpectedEof;

/// A file that is appended to past the page cache.
#[derive(Debug)]
pub(crate) struct DirectFile {
    /// Through the page cache.
    file: File,
    /// Past it.
    direct: File,
    /// Up to where room was asked for; the largest number: it is not asked for again.
    reserved: AtomicU64,
}

impl DirectFile {
    /// The same file once more.
    ///
    /// # Errors
    /// Its file system does not write past the page cache, or descriptors have run out.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self {
            direct: direct::open_again(file)?,
            file: file.try_clone()?,
            reserved: AtomicU64::new(0),
        })
    }

    /// The room behind its end is given back: it is asked for anew.
    pub(crate) fn forget_reserved(&self) {
        self.reserved.store(0, Ordering::Relaxed);
    }

    /// Appends bytes that are to lie from `offset` on. In memory they lie as in the file, by the alignment.
    fn append(&self, piece: &[u8], offset: u64) -> io::Result<()> {
        // Behind the end of a file that was cut nothing is written: what is left would end in the middle of other events.
        let length = self.file.metadata()?.len();
        if length < offset {
            return Err(FILE_CUT.into());
        }
        if length > offset {
            tracing::warn!("what is behind the events of a file is cut off");
            self.file.set_len(offset)?;
            self.forget_reserved();
        }
        let from_page = (offset % ALIGN_BYTES as u64) as usize;
        let head = if from_page == 0 {
            0
        } else {
            piece.len().min(ALIGN_BYTES - from_page)
        };
        let (head, rest) = piece.split_at(head);
        let (body, tail) = rest.split_at(rest.len() / ALIGN_BYTES * ALIGN_BYTES);
        (&self.file).write_all(head)?;
        if !body.is_empty() {
            let begin = offset + head.len() as u64;
            self.reserve(begin, body.len() as u64);
            self.append_aligned(body)?;
        }
        (&self.file).write_all(tail)
    }

    fn append_aligned(&self, mut body: &[u8]) -> io::Result<()> {
        while !body.is_empty() {
            match (&self.direct).write(body) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => body = &body[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Its end is no longer where it was: the file was cut, or the disk took a part.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    return (&self.file).write_all(body);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks for room ahead. Where there is none, the write says so.
    fn reserve(&self, begin: u64, bytes: u64) {
        let reserved = self.reserved.load(Ordering::Relaxed);
        if begin.saturating_add(bytes) <= reserved {
            return;
        }
        let asked = bytes.max(RESERVE_BYTES);
        let until = direct::reserve(&self.file, begin, asked).map_or(u64::MAX, |()| begin + asked);
        self.reserved.store(until, Ordering::Relaxed);
    }
}

/// Memory for bytes on their way to a file, which lie in it as in the file, by the alignment.
#[derive(Debug)]
struct Piece {
    memory: DirectMemory,
    /// Bytes of it that are used, from here on …
    begin: usize,
    /// … to here.
    end: usize,
}

impl Piece {
    fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self {
            memory: DirectMemory::new(bytes)?,
            begin: 0,
            end: 0,
        })
    }

    fn is_full(&self) -> bool {
        self.end == self.memory.len()
    }

    /// Begins anew with bytes that are to lie at this place of a file.
    const fn begin_at(&mut self, offset: u64) {
        self.begin = (offset % ALIGN_BYTES as u64) as usize;
        self.end = self.begin;
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.end]
    }

    /// Takes as many bytes as there is room for, from `from` on; how many.
    fn fill(&mut self, bytes: &Bytes<'_>, from: usize) -> usize {
        let count = (self.memory.len() - self.end).min(bytes.len() - from);
        let into = self.end..self.end + count;
        bytes.copy_part_to(from, &mut self.memory[into]);
        self.end += count;
        count
    }
}

/// How what was appended is brought to the device; none: it is not.
pub(crate) type Sync = Option<fn(&File) -> io::Result<()>>;

/// A piece for the thread.
struct Job {
    file: Arc<DirectFile>,
    piece: Piece,
    offset: u64,
    sync: Sync,
    /// Jobs of one number are no longer written once one of them has failed.
    life: u64,
}

/// What became of it.
struct Done {
    piece: Piece,
    /// Where it ends in the file.
    end: u64,
    result: io::Result<()>,
}

/// Appends to one file after the other.
#[derive(Debug)]
pub(crate) struct DirectOut {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    spare: Vec<Piece>,
    /// What is filled: it has a byte at least.
    filling: Option<Piece>,
    /// Since when the piece that is filled has bytes, in ns of the monotonic clock.
    since_ns: u64,
    in_flight: usize,
    /// Where the next byte is to lie.
    end: u64,
    /// Up to where all is written.
    written: u64,
    failed: Option<io::Error>,
    life: u64,
}

/// Bytes of one piece of a sink whose queue has so many bytes.
fn piece_bytes(queue_bytes: u64) -> usize {
    let share = usize::try_from(queue_bytes / 8).unwrap_or(PIECE_BYTES_MAX);
    share.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX) / ALIGN_BYTES * ALIGN_BYTES
}

/// Bytes of all pieces of a sink with such a queue.
pub(crate) fn pieces_bytes(queue_bytes: u64) -> u64 {
    (PIECES * piece_bytes(queue_bytes)) as u64
}

impl DirectOut {
    /// Starts the thread. `queue_bytes` is the room that blocks have before they are written: pieces take less than half of it together.
    /// `progress` goes up with each piece that is done: a wait for the end sees by it that the end comes nearer.
    pub(crate) fn start(queue_bytes: u64, progress: Arc<AtomicU64>) -> io::Result<Self> {
        let bytes = piece_bytes(queue_bytes);
        let spare: io::Result<Vec<_>> = (0..PIECES).map(|_| Piece::new(bytes)).collect();
        let spare = spare?;
        let (jobs, to_do) = sync_channel(PIECES);
        let (done_in, done) = sync_channel(PIECES);
        thread::Builder::new()
            .name("sink-direct".into())
            .spawn(move || append_all(&to_do, &done_in, &progress))?;
        Ok(Self {
            jobs,
            done,
            spare,
            filling: None,
            since_ns: 0,
            in_flight: 0,
            end: 0,
            written: 0,
            failed: None,
            life: 0,
        })
    }

    /// Begins at the end of a file. Nothing of the one before is on its way.
    pub(crate) fn begin_at(&mut self, offset: u64) {
        debug_assert_eq!(self.in_flight, 0);
        self.spare.extend(self.filling.take());
        (self.end, self.written, self.failed) = (offset, offset, None);
        self.life += 1;
    }

    /// Takes all bytes of a block, and gives the disk each piece that is full. It waits while the disk has all of them.
    pub(crate) fn put(
        &mut self,
        file: &Arc<DirectFile>,
        bytes: &Bytes<'_>,
        sync: Sync,
        now_ns: u64,
    ) {
        let mut from = 0;
        while from < bytes.len() {
            let filling = self.filling.take();
            let Some(mut piece) = filling.or_else(|| self.next_piece(now_ns)) else {
                // The thread is gone.
                self.failed = Some(io::ErrorKind::BrokenPipe.into());
                return;
            };
            let taken = piece.fill(bytes, from);
            from += taken;
            self.end += taken as u64;
            let is_full = piece.is_full();
            self.filling = Some(piece);
            if is_full {
                self.submit(file, sync);
            }
        }
    }

    /// A piece for the bytes that come next, waited for.
    fn next_piece(&mut self, now_ns: u64) -> Option<Piece> {
        while self.spare.is_empty() && self.in_flight > 0 {
            self.hear_one();
        }
        let mut piece = self.spare.pop()?;
        piece.begin_at(self.end);
        self.since_ns = now_ns;
        Some(piece)
    }

    /// Gives the disk what is there.
    fn submit(&mut self, file: &Arc<DirectFile>, sync: Sync) {
        let Some(piece) = self.filling.take() else {
            return;
        };
        let offset = self.end - piece.bytes().len() as u64;
        let job = Job {
            file: Arc::clone(file),
            piece,
            offset,
            sync,
            life: self.life,
        };
        match self.jobs.send(job) {
            Ok(()) => self.in_flight += 1,
            Err(unsent) => {
                self.spare.push(unsent.0.piece);
                self.failed = Some(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Gives the disk a piece that is not full, if it has waited for so long and the disk has nothing to do.
    pub(crate) fn submit_older(&mut self, file: &Arc<DirectFile>, sync: Sync, since_ns: u64) {
        if self.in_flight == 0 && self.since_ns <= since_ns {
            self.submit(file, sync);
        }
    }

    /// Gives the disk everything, and waits until it is done.
    pub(crate) fn drain(&mut self, file: &Arc<DirectFile>, sync: Sync) {
        self.submit(file, sync);
        while self.in_flight > 0 {
            self.hear_one();
        }
    }

    fn hear_one(&mut self) {
        match self.done.recv() {
            Ok(done) => self.hear(done),
            Err(_) => {
                self.in_flight = 0;
                self.failed = Some(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    fn hear(&mut self, done: Done) {
        self.in_flight -= 1;
        self.spare.push(done.piece);
        match done.result {
            Ok(()) if self.failed.is_none() => self.written = done.end,
            Ok(()) => {}
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Up to where all is written, and what failed behind that: then nothing is on its way, and what was not written is forgotten.
    pub(crate) fn settle(&mut self) -> (u64, Option<io::Error>) {
        while let Ok(done) = self.done.try_recv() {
            self.hear(done);
        }
        if self.failed.is_some() {
            while self.in_flight > 0 {
                self.hear_one();
            }
        }
        (self.written, self.failed.take())
    }
}

/// The thread: one piece after the other, until nobody has any more.
fn append_all(jobs: &Receiver<Job>, done: &SyncSender<Done>, progress: &AtomicU64) {
    let mut failed = None;
    for job in jobs {
        let is_over = failed == Some(job.life);
        let result = if is_over {
            Err(io::ErrorKind::Interrupted.into())
        } else {
            let appended = job.file.append(job.piece.bytes(), job.offset);
            appended.and_then(|()| job.sync.map_or(Ok(()), |sync| sync(&job.file.file)))
        };
        if result.is_err() {
            failed = Some(job.life);
        }
        progress.fetch_add(1, Ordering::Relaxed);
        let end = job.offset + job.piece.bytes().len() as u64;
        let piece = job.piece;
        if done.send(Done { piece, end, result }).is_err() {
            return;
        }
    }
}
