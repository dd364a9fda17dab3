//! The writer's queue, as the thread that empties the socket sees it.
//!
//! The thread that empties a socket waits for no disk: payloads, lost ranges and closed windows go in blocks to a thread of their own, which writes them. What lies in the queue is
//! bounded. A packet that finds no room is dropped by name (`queue_full`), and its range goes to the lists as soon as there is room.

mod block;
mod books;
mod thread;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::{LostRange, Row, Unwritten};
use forebay_wire::tdm::Carries;

use super::super::TdmError;
use super::outputs::Files;
use super::streams::{Output, Streams};
use super::watch::Came;
pub(super) use block::Sum;
use block::{BLOCK_BYTES, Block, Op};
pub(super) use books::{WriterBooks, WriterWords};
use thread::Taker;
pub(super) use thread::{Ended, Told};

/// Bytes that may wait for the disk: the least and the most that may be set.
pub const QUEUE_BYTES_MIN: u64 = 4 << 20;
/// The most.
pub const QUEUE_BYTES_MAX: u64 = 1 << 40;
/// Unless it is set, what comes at the port's rate in so long a time, in ns ...
const QUEUE_NS: u64 = 3_000_000_000;
/// ... but no less and no more than this, in bytes.
const DEFAULT_BYTES: (u64, u64) = (64 << 20, 1 << 30);

/// How much may wait for the disk, unless it is set: 3 s at the port's rate, 64 MiB at least and 1 GiB at most.
#[must_use]
pub fn default_queue_bytes(link_rate_bps: u64) -> u64 {
    let bytes = u128::from(link_rate_bps) * u128::from(QUEUE_NS) / 8_000_000_000;
    u64::try_from(bytes)
        .unwrap_or(u64::MAX)
        .clamp(DEFAULT_BYTES.0, DEFAULT_BYTES.1)
}

/// Why nothing more is written when the thread is gone before its time.
pub(super) const PANICKED: &str = "the thread that writes streams has panicked";

/// What both threads know.
#[derive(Debug, Default)]
struct Shared {
    /// Blocks that were written.
    taken: AtomicU64,
    /// Empty blocks on their way back.
    free: AtomicU64,
    /// Zeroes are due that no turn had room for.
    is_behind: AtomicBool,
    /// By sender, of its present start: packets that were taken and could not be written, and their bytes.
    unwritten: Vec<[AtomicU64; 2]>,
    /// Nobody waits for the writer any more, and its books are another's: held while they are committed, and a block that is in them counts as written.
    given_up: Mutex<bool>,
}

impl Shared {
    fn of(senders: usize) -> Self {
        let mut unwritten = Vec::new();
        unwritten.resize_with(senders, Default::default);
        Self {
            unwritten,
            ..Self::default()
        }
    }

    /// Does something to the writer's books, unless they are another's.
    fn unless_given_up(&self, commit: impl FnOnce()) -> bool {
        let given_up = self.given_up.lock();
        let given_up = given_up.unwrap_or_else(PoisonError::into_inner);
        if !*given_up {
            commit();
        }
        !*given_up
    }

    fn give_up(&self) {
        let given_up = self.given_up.lock();
        *given_up.unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// From look to look at a writer that is to end.
const LOOK: Duration = Duration::from_millis(2);

/// Which streams' payloads are needed, not their lengths alone.
fn needs_bytes(output: &Output, carries: Carries) -> bool {
    *output != Output::Discard || carries == Carries::Heaps
}

/// What one block more or less means to the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) sender: u16,
    pub(super) handed: Sum,
}

/// The near end of the queue.
pub(super) struct Writer {
    output: Output,
    block: Block,
    keeps: Vec<bool>,
    /// By sender, of its present start: what found no room.
    missed: Vec<Sum>,
    given: u64,
    /// What is in the last blocks that were given, by sender: in those at least that nobody has written.
    out: VecDeque<Vec<Sum>>,
    blocks_max: u64,
    most: u64,
    shared: Arc<Shared>,
    to: Option<Sender<Block>>,
    empty: Receiver<Block>,
    told: Receiver<Told>,
    thread: Option<JoinHandle<Ended>>,
}

impl Writer {
    /// Starts the thread, with so many bytes between it and us.
    pub(super) fn start(
        output: Output,
        queue_bytes: u64,
        files: Files,
        books: WriterBooks,
    ) -> Result<Self, TdmError> {
        let (to, blocks) = channel();
        let (back, empty) = channel();
        let (tell, told) = channel();
        let shared = Arc::new(Shared::of(books.senders()));
        let taker = Taker {
            streams: Streams::new(output.clone()),
            files,
            books,
            shared: Arc::clone(&shared),
            back,
            tell,
            failed: None,
        };
        let thread = std::thread::Builder::new()
            .name("tdm writer".to_owned())
            .spawn(move || taker.run(&blocks))
            .map_err(TdmError::file("starting a thread for", "the writer"))?;
        Ok(Self {
            output,
            block: Block::default(),
            keeps: Vec::new(),
            missed: vec![Sum::default(); shared.unwritten.len()],
            given: 0,
            out: VecDeque::new(),
            blocks_max: (queue_bytes / BLOCK_BYTES as u64).max(1),
            most: 0,
            shared,
            to: Some(to),
            empty,
            told,
            thread: Some(thread),
        })
    }

    /// Payload that came for the first time. False where it finds no room.
    #[inline]
    pub(super) fn data(
        &mut self,
        came: &Came,
        offset: u64,
        payload: &[u8],
        wall_ns: Option<i64>,
    ) -> bool {
        if self.block.is_full() && !self.has_room() {
            self.block.miss(came.sender, offset, payload.len() as u64);
            if let Some(missed) = self.missed.get_mut(usize::from(came.sender)) {
                missed.packets += 1;
                missed.bytes += payload.len() as u64;
            }
            return false;
        }
        let keep = self
            .keeps
            .get(usize::from(came.sender))
            .copied()
            .unwrap_or(true);
        self.block.data(came.sender, offset, payload, keep);
        if let Some(wall_ns) = wall_ns {
            self.block.line(*came, wall_ns);
        }
        true
    }

    /// Bytes that will not come.
    pub(super) fn lost(&mut self, range: LostRange, begins: u64) {
        self.block.push(Op::Lost(range, begins));
    }

    /// Sender number `sender` has begun, for the first time or anew.
    pub(super) fn open(&mut self, sender: usize, name: &str, carries: Carries) {
        if self.keeps.len() <= sender {
            self.keeps.resize(sender + 1, true);
        }
        if let Some(keeps) = self.keeps.get_mut(sender) {
            *keeps = needs_bytes(&self.output, carries);
        }
        if let Some(missed) = self.missed.get_mut(sender) {
            *missed = Sum::default();
        }
        self.block.push_always(Op::Open {
            sender,
            name: name.to_owned(),
            carries,
        });
    }

    /// There is a plan.
    pub(super) fn planned(&mut self, plan: &Plan) {
        self.block.push_always(Op::Planned(Box::new(plan.clone())));
    }

    /// A window is closed.
    pub(super) fn window(&mut self, row: &Row, wall_ns: i64) {
        self.block.push(Op::Row(Box::new(*row), wall_ns));
    }

    /// Is there room for another block?
    pub(super) fn has_room(&self) -> bool {
        self.waiting() < self.blocks_max && self.is_there()
    }

    fn waiting(&self) -> u64 {
        self.given - self.shared.taken.load(Ordering::Acquire)
    }

    /// Whether the thread is at work.
    pub(super) fn is_there(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Whether half of the queue is full.
    pub(super) fn is_half_full(&self) -> bool {
        self.waiting() * 2 > self.blocks_max
    }

    /// What is gathered is to be handed over: a block is full, or nobody waits for the disk.
    pub(super) fn is_due(&self) -> bool {
        !self.block.is_empty() && self.has_room() && (self.block.is_full() || self.waiting() == 0)
    }

    /// The block is full, and there is room for it.
    #[inline]
    pub(super) fn is_due_when_full(&self) -> bool {
        self.block.is_full() && self.has_room()
    }

    /// What handing over the block means to the books; it is committed before [`Self::give`].
    pub(super) fn sums(&self) -> impl Iterator<Item = Given> {
        let sums = self.block.sums().iter().enumerate();
        sums.filter(|(_, sum)| sum.packets > 0)
            .map(|(sender, sum)| Given {
                sender: sender as u16,
                handed: *sum,
            })
    }

    /// Hands the block over.
    pub(super) fn give(&mut self) {
        let next = match self.empty.try_recv() {
            Ok(block) => {
                self.shared.free.fetch_sub(1, Ordering::Relaxed);
                block
            }
            Err(_) => Block::default(),
        };
        let block = std::mem::replace(&mut self.block, next);
        let mut sums = Vec::new();
        while self.out.len() as u64 > self.waiting() {
            sums = self.out.pop_front().unwrap_or_default();
        }
        sums.clear();
        sums.extend_from_slice(block.sums());
        self.out.push_back(sums);
        self.given += 1;
        self.most = self.most.max(self.waiting());
        if let Some(to) = &self.to {
            // A writer that is gone took nothing: the block stays in the queue for the books.
            let _ = to.send(block);
        }
    }

    /// Everything up to now is to be on its way to the disk: this is reached when [`Self::has_taken`] says so.
    pub(super) fn settle(&mut self) -> u64 {
        self.block.push_always(Op::Flush);
        self.given + 1
    }

    /// Whether so many blocks were written. Of a thread that has panicked nobody knows what it wrote beyond those that it has given back.
    pub(super) fn has_taken(&self, blocks: u64) -> bool {
        self.shared.taken.load(Ordering::Acquire) >= blocks
    }

    /// What came of this sender's present start and is not written, when [`Self::has_taken`] all of it: it found no room, or the writer could not write it.
    pub(super) fn unwritten(&self, sender: u16) -> Unwritten {
        let at = usize::from(sender);
        let missed = self.missed.get(at).copied().unwrap_or_default();
        let [packets, bytes] = match self.shared.unwritten.get(at) {
            Some(far) => std::array::from_fn(|at| far[at].load(Ordering::Acquire)),
            None => [0, 0],
        };
        Unwritten {
            packets: missed.packets + packets,
            bytes: missed.bytes + bytes,
        }
    }

    /// Everything is written.
    pub(super) fn is_idle(&self) -> bool {
        let is_behind = self.shared.is_behind.load(Ordering::Acquire);
        self.block.is_empty() && self.has_taken(self.given) && !is_behind
    }

    /// What the writer has to say.
    pub(super) fn poll(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// Bytes that may wait, and blocks' worth of them that waited at most.
    pub(super) const fn bytes(&self) -> (u64, u64) {
        let block = BLOCK_BYTES as u64;
        (self.blocks_max * block, self.most * block)
    }

    /// The writer stands still, as at a disk, until what this returns is dropped.
    #[cfg(test)]
    fn hold(&mut self) -> Sender<()> {
        let (hold, held) = channel();
        self.block.push_always(Op::Hold(held));
        hold
    }

    /// The writer panics when it comes to this.
    #[cfg(test)]
    fn panic(&mut self) {
        self.block.push_always(Op::Panic);
    }

    /// What is in blocks that were given and not written, by sender; after a writer that was given up it does not change any more.
    pub(super) fn outstanding(&self) -> Vec<Sum> {
        let mut all = vec![Sum::default(); self.missed.len()];
        let waiting = self.waiting() as usize;
        for block in self.out.iter().rev().take(waiting) {
            for (sum, more) in all.iter_mut().zip(block) {
                sum.packets += more.packets;
                sum.bytes += more.bytes;
            }
        }
        all
    }

    /// Nothing more comes; each sender may have said how many heaps it sent. The last block must have been booked. As long as all is not written `waits` is asked, with the
    /// number of blocks that are; none when it says no: the writer's books are the caller's then.
    pub(super) fn finish(
        &mut self,
        heaps_sent: Vec<Option<u64>>,
        mut waits: impl FnMut(u64) -> bool,
    ) -> Result<Option<Ended>, String> {
        self.block.push_always(Op::End(heaps_sent));
        self.give();
        drop(self.to.take());
        let Some(thread) = self.thread.take() else {
            return Err(PANICKED.to_owned());
        };
        while !thread.is_finished() {
            if !waits(self.shared.taken.load(Ordering::Acquire)) {
                self.shared.give_up();
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
        let ended = thread.join().map(Some);
        ended.map_err(|_| PANICKED.to_owned())
    }
}

#[cfg(test)]
mod tests;
