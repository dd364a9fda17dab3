//! The thread that writes: files, lists and lines, each in its turn. It may wait for a disk as long as that takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use forebay_run_net::NetRecord;
use forebay_sys::watched::LOOK;

use super::super::found::Found;
use super::super::heaps::HeapTally;
use super::super::outputs::Files;
use super::super::streams::{Streams, Written};
use super::block::{Block, Op};
use super::{Shared, WriterBooks};

/// Payload is gathered no longer than this.
const FLUSH: Duration = Duration::from_millis(100);
/// One wait for a block; then what became of heaps that were handed on is asked for.
const WAIT: Duration = Duration::from_millis(20);
/// Empty blocks that go back, at most: what a long wait for the disk has taken is given up again.
const FREE_MAX: u64 = 8;

/// What the thread that receives should know.
#[derive(Debug)]
pub(in super::super) enum Told {
    /// A line for the operator.
    Line(String),
    /// Something cannot be written: the session ends.
    Failed(String),
}

/// What the writer leaves.
#[derive(Default)]
pub(in super::super) struct Ended {
    pub(in super::super) heaps: Vec<HeapTally>,
    pub(in super::super) written: Vec<Written>,
    /// Bytes and ranges of streams that came and are missing in what was written.
    pub(in super::super) unwritten: (u64, u64),
    pub(in super::super) wrong: u64,
    pub(in super::super) handed_on: Vec<Option<NetRecord>>,
    pub(in super::super) failed: Option<String>,
}

pub(super) struct Taker {
    pub(super) streams: Streams,
    pub(super) files: Files,
    pub(super) books: WriterBooks,
    pub(super) shared: Arc<Shared>,
    pub(super) back: Sender<Block>,
    pub(super) tell: Sender<Told>,
    /// What failed first.
    pub(super) failed: Option<String>,
}

impl Taker {
    pub(super) fn run(mut self, blocks: &Receiver<Block>) -> Ended {
        let (mut flushed, mut looked) = (Instant::now(), Instant::now());
        loop {
            let wait = if self.streams.is_behind() {
                Duration::ZERO
            } else {
                WAIT
            };
            match blocks.recv_timeout(wait) {
                Ok(block) => self.take(block),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            if let Some((sender, written)) = self.streams.turn() {
                self.written(sender, &written);
            }
            if flushed.elapsed() >= FLUSH {
                self.flush();
                flushed = Instant::now();
            }
            if looked.elapsed() >= LOOK {
                self.look_at_files();
                looked = Instant::now();
            }
            self.look_at_streams();
            if !self.commit() {
                return Ended::default();
            }
            let is_behind = self.streams.is_behind();
            self.shared.is_behind.store(is_behind, Ordering::Release);
            self.look_at_failure();
        }
    }

    pub(super) fn take(&mut self, mut block: Block) {
        let mut at = 0;
        let mut ops = std::mem::take(&mut block.ops);
        for op in ops.drain(..) {
            self.handle(op, &block.bytes, &mut at);
        }
        block.ops = ops;
        if block.untold > 0 {
            let untold = block.untold;
            let told = format!(
                "{untold} lost ranges and windows found no room in the writer's queue, and are in no file"
            );
            self.fail(told);
        }
        self.look_at_failure();
        self.look_at_streams();
        let (books, shared) = (&mut self.books, &self.shared);
        shared
            .is_behind
            .store(self.streams.is_behind(), Ordering::Release);
        // The books first: a thread that sees the block gone finds it there.
        shared.unless_given_up(|| {
            books.commit();
            shared.taken.fetch_add(1, Ordering::AcqRel);
        });
        block.clear();
        if self.shared.free.fetch_add(1, Ordering::Relaxed) < FREE_MAX {
            // Nobody fills any more when the session is over.
            let _ = self.back.send(block);
        } else {
            self.shared.free.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn handle(&mut self, op: Op, bytes: &[u8], at: &mut usize) {
        match op {
            Op::Data {
                sender,
                kept,
                length,
                offset,
            } => self.data(sender, offset, (kept, length), bytes, at),
            Op::Came(came, wall_ns) => self.files.packet(&came, wall_ns),
            Op::Missed {
                sender,
                offset,
                bytes,
            } => {
                self.books.missed(bytes);
                let written = self.streams.missed(sender, offset, bytes);
                self.written(sender, &written);
            }
            Op::Lost(range, begins) => {
                let written = self.streams.lost(&range, begins);
                self.written(range.sender, &written);
            }
            Op::Open {
                sender,
                name,
                carries,
            } => {
                let written = self.streams.close(sender);
                self.written(sender as u16, &written);
                if let Some(unwritten) = self.shared.unwritten.get(sender) {
                    unwritten
                        .iter()
                        .for_each(|it| it.store(0, Ordering::Release));
                }
                if let Some(path) = self.streams.open(sender, &name, carries) {
                    let _ = self
                        .tell
                        .send(Told::Line(format!("the stream of {name} goes to {path}")));
                }
            }
            Op::Planned(plan) => {
                if let Err(error) = self.files.planned(&plan) {
                    self.fail(error.to_string());
                }
            }
            Op::Row(row, wall_ns) => self.files.window(&row, wall_ns),
            Op::Flush => self.flush(),
            #[cfg(test)]
            Op::Hold(held) => drop(held.recv()),
            #[cfg(test)]
            Op::Panic => panic!("a test wants it"),
            Op::End(heaps_sent) => {
                for (sender, written) in self.streams.finish(&heaps_sent) {
                    self.written(sender, &written);
                }
            }
        }
    }

    #[inline]
    fn data(
        &mut self,
        sender: u16,
        offset: u64,
        (kept, length): (bool, u32),
        bytes: &[u8],
        at: &mut usize,
    ) {
        let length = length as usize;
        let from = *at;
        *at += if kept { length } else { 0 };
        if self.books.leaks() {
            return;
        }
        self.books.took(sender, length as u64);
        let written = if kept {
            let payload = bytes.get(from..from + length).unwrap_or_default();
            self.streams.write(sender, offset, payload)
        } else {
            Written::nowhere(length as u64)
        };
        self.written(sender, &written);
        self.books.advance(sender, 1, length as u64);
    }

    /// In the books, and where the thread that receives sees what its sender is not to take for written.
    #[inline]
    fn written(&mut self, sender: u16, written: &Written) {
        self.books.written(sender, written);
        let lost = written.unwritten();
        if lost.packets > 0
            && let Some([packets, bytes]) = self.shared.unwritten.get(usize::from(sender))
        {
            packets.fetch_add(lost.packets, Ordering::AcqRel);
            bytes.fetch_add(lost.bytes, Ordering::AcqRel);
        }
    }

    pub(super) fn flush(&mut self) {
        for (sender, written) in self.streams.flush() {
            self.written(sender, &written);
        }
    }

    /// Before the books are shown: what has become of heaps, and what lies in each stream now.
    fn look_at_streams(&mut self) {
        for (sender, became) in self.streams.heaps_became() {
            self.books.heaps(sender, &became);
        }
        for (sender, packets, heaps) in self.streams.held() {
            self.books.holds(sender, packets, heaps);
        }
    }

    /// What somebody did to files is counted and told.
    pub(super) fn look_at_files(&mut self) {
        let mut found = self.streams.look();
        self.files.look(&mut found);
        self.found(found);
    }

    fn found(&mut self, found: Found) {
        for (kind, gone) in &found.gone {
            self.books.gone(*kind, gone);
            let _ = self.tell.send(Told::Line(gone.told(kind.items())));
        }
        for note in found.notes {
            let _ = self.tell.send(Told::Line(note));
        }
    }

    /// Shows the books; false when they are another's.
    pub(super) fn commit(&mut self) -> bool {
        let books = &mut self.books;
        self.shared.unless_given_up(|| books.commit())
    }

    fn look_at_failure(&mut self) {
        if self.failed.is_none()
            && let Some(failure) = self.streams.failure()
        {
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: String) {
        // It is in the summary whether or not somebody listens, and only what comes before the end is listened to.
        self.failed.get_or_insert_with(|| failure.clone());
        let _ = self.tell.send(Told::Failed(failure));
    }

    fn end(mut self) -> Ended {
        self.look_at_streams();
        let mut found = self.streams.look();
        self.files.end(&mut found);
        self.found(found);
        self.commit();
        let failed = self.failed.take();
        let failed = failed.or(self.streams.failure());
        let failed = failed.or(self.files.failed.take());
        let (heaps, written, unwritten) = self.books.end();
        Ended {
            heaps,
            written,
            unwritten,
            wrong: self.streams.wrong,
            handed_on: std::mem::take(&mut self.streams.handed_on),
            failed,
        }
    }
}
