//! Where the payload comes from: a file, standard input, messages, or a pattern that the receiver can check.

mod messages;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use forebay_run_net::NetRecord;
use forebay_sys::eventfd::EventFd;
use forebay_sys::input::{Input as Waited, wait_input};
use forebay_tdm::heaps::{Cutter, Heap};
use forebay_tdm::pattern;

use super::super::TdmError;
use super::{MessageInput, SendPlan};
use messages::Messages;

/// Bytes of a block that is read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks that are read ahead.
const BLOCKS: usize = 16;
/// The bytes of a writer that writes little are sent after so long.
const FLUSH: Duration = Duration::from_millis(2);
/// With so many bytes of heaps at hand no more are taken for now.
const HEAPS_BYTES: usize = 4 << 20;

/// What a sender sends.
pub(super) enum Input {
    /// A test stream, as long as windows go, or this many bytes.
    Pattern { bytes: Vec<u8>, left: Option<u64> },
    /// What a thread reads.
    Read(Reading),
    /// Messages that keep their boundaries.
    Heaps(Box<HeapReading>),
}

pub(super) struct Reading {
    blocks: Receiver<io::Result<Vec<u8>>>,
    arrived: EventFd,
    block: Vec<u8>,
    at: usize,
    ended: bool,
    failed: Option<io::Error>,
    /// Where the blocks are messages'.
    messages: Option<Messages>,
}

pub(super) struct HeapReading {
    batches: Receiver<io::Result<Vec<Heap>>>,
    arrived: EventFd,
    cutter: Cutter,
    came: u64,
    ended: bool,
    failed: Option<io::Error>,
    messages: Option<Messages>,
}

/// Heaps of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HeapsSent {
    /// Messages that came.
    pub came: u64,
    /// Of them, those that were wholly given to the kernel.
    pub sent: u64,
    /// Of them, those that were not when it ended; of one of them a part may have been.
    pub not_sent: u64,
}

/// What an input has to say at its end.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) heaps: Option<HeapsSent>,
    pub(super) messages: Option<NetRecord>,
}

impl Input {
    fn pattern(limit: Option<u64>) -> Self {
        Self::Pattern {
            bytes: pattern::bytes(),
            left: limit,
        }
    }

    /// What the plan says.
    pub(super) fn of(plan: &SendPlan) -> Result<Self, TdmError> {
        match (&plan.messages, &plan.input) {
            (Some(messages), _) => Self::listen(messages),
            (None, Some(path)) => Self::open(path),
            (None, None) => Ok(Self::pattern(plan.bytes)),
        }
    }

    /// Messages that others send to an address.
    fn listen(of: &MessageInput) -> Result<Self, TdmError> {
        let arrived = EventFd::create()?;
        if of.heaps {
            let (messages, batches) = Messages::listen(&of.address, &arrived)?;
            return Ok(Self::Heaps(Box::new(HeapReading {
                batches,
                arrived,
                cutter: Cutter::default(),
                came: 0,
                ended: false,
                failed: None,
                messages: Some(messages),
            })));
        }
        let (messages, blocks) = Messages::listen(&of.address, &arrived)?;
        Ok(Self::Read(Reading::of(blocks, arrived, Some(messages))))
    }

    /// A file, or standard input (`-`).
    fn open(path: &Path) -> Result<Self, TdmError> {
        let source: Box<dyn Source> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(open(path)?)
        };
        let (give, blocks) = sync_channel(BLOCKS);
        let arrived = EventFd::create()?;
        let signal = EventFd::from_fd(arrived.share_fd()?);
        std::thread::Builder::new()
            .name("tdm input".to_owned())
            .spawn(move || read(source, &give, &signal))
            .map_err(TdmError::file("starting a thread for", path))?;
        Ok(Self::Read(Reading::of(blocks, arrived, None)))
    }

    /// Packets that can be sent now, and whether no more will come.
    pub(super) fn ready(&mut self, payload_bytes: usize) -> (u64, bool) {
        let payload = payload_bytes.max(1) as u64;
        match self {
            Self::Pattern { left: None, .. } => (u64::MAX, false),
            Self::Pattern {
                left: Some(left), ..
            } => (left.div_ceil(payload), true),
            Self::Read(reading) => {
                reading.look();
                let left = (reading.block.len() - reading.at) as u64;
                (left.div_ceil(payload), reading.ended)
            }
            Self::Heaps(heaps) => heaps.ready(payload_bytes),
        }
    }

    /// The next bytes, at most so many, that lie `ahead` bytes behind the next one of the stream at `offset`.
    pub(super) fn peek(&self, offset: u64, ahead: usize, most: usize) -> &[u8] {
        match self {
            Self::Pattern { bytes, left } => {
                let room = left.map_or(most as u64, |left| left.saturating_sub(ahead as u64));
                let most = most.min(usize::try_from(room).unwrap_or(usize::MAX));
                pattern::at(bytes, offset + ahead as u64, most)
            }
            Self::Read(reading) => {
                let rest = reading.block.get(reading.at + ahead..).unwrap_or_default();
                rest.get(..most.min(rest.len())).unwrap_or_default()
            }
            Self::Heaps(heaps) => heaps.cutter.peek(ahead),
        }
    }

    /// It is a test stream without an end.
    pub(super) const fn is_endless(&self) -> bool {
        matches!(self, Self::Pattern { left: None, .. })
    }

    /// So many bytes have been sent.
    pub(super) fn take(&mut self, bytes: u64) {
        match self {
            Self::Pattern { left, .. } => *left = left.map(|left| left.saturating_sub(bytes)),
            Self::Read(reading) => reading.at += bytes as usize,
            Self::Heaps(heaps) => heaps.cutter.take(bytes as usize),
        }
    }

    /// Readable when there is more; none for what is always there.
    pub(super) fn arrived(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pattern { .. } => None,
            Self::Read(reading) => Some(reading.arrived.as_fd()),
            Self::Heaps(heaps) => Some(heaps.arrived.as_fd()),
        }
    }

    /// Why it could not be read to its end.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        match self {
            Self::Pattern { .. } => None,
            Self::Read(reading) => reading.failed.as_ref(),
            Self::Heaps(heaps) => heaps.failed.as_ref(),
        }
    }

    /// Its heaps; none where the stream is of bytes.
    pub(super) fn heaps(&self) -> Option<&HeapReading> {
        match self {
            Self::Pattern { .. } | Self::Read(_) => None,
            Self::Heaps(heaps) => Some(heaps),
        }
    }

    /// Nothing more is wanted of it.
    pub(super) fn end(&mut self) -> Ended {
        match self {
            Self::Pattern { .. } => Ended::default(),
            Self::Read(reading) => Ended {
                heaps: None,
                messages: reading.messages.take().and_then(Messages::end),
            },
            Self::Heaps(heaps) => heaps.end(),
        }
    }
}

impl HeapReading {
    pub(super) const fn came(&self) -> u64 {
        self.came
    }

    /// Those of which at least a part was sent.
    pub(super) fn begun(&self) -> u64 {
        self.cutter.begun()
    }

    /// Those that were wholly sent.
    pub(super) const fn done(&self) -> u64 {
        self.cutter.done()
    }

    /// Those that came and were not wholly sent.
    pub(super) fn waiting(&self) -> u64 {
        self.cutter.waiting()
    }

    fn ready(&mut self, payload_bytes: usize) -> (u64, bool) {
        while !self.ended && self.cutter.waiting_bytes() < HEAPS_BYTES {
            self.arrived.drain();
            match self.batches.try_recv() {
                Ok(Ok(batch)) => {
                    self.came += batch.len() as u64;
                    batch.into_iter().for_each(|heap| self.cutter.push(heap));
                    self.messages.iter().for_each(Messages::room);
                }
                Ok(Err(error)) => (self.failed, self.ended) = (Some(error), true),
                Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => break,
            }
        }
        let packets = if payload_bytes == 0 {
            // There is no session yet.
            u64::from(self.cutter.waiting_bytes() > 0)
        } else {
            self.cutter.ready(payload_bytes)
        };
        (packets, self.ended)
    }

    fn end(&mut self) -> Ended {
        let messages = self.messages.take().and_then(Messages::end);
        for batch in self.batches.try_iter().flatten() {
            self.came += batch.len() as u64;
            batch.into_iter().for_each(|heap| self.cutter.push(heap));
        }
        let heaps = HeapsSent {
            came: self.came,
            sent: self.cutter.done(),
            not_sent: self.cutter.waiting(),
        };
        Ended {
            heaps: Some(heaps),
            messages,
        }
    }
}

impl Reading {
    const fn of(
        blocks: Receiver<io::Result<Vec<u8>>>,
        arrived: EventFd,
        messages: Option<Messages>,
    ) -> Self {
        Self {
            blocks,
            arrived,
            block: Vec::new(),
            at: 0,
            ended: false,
            failed: None,
            messages,
        }
    }

    fn look(&mut self) {
        if self.at < self.block.len() || self.ended {
            return;
        }
        self.arrived.drain();
        match self.blocks.try_recv() {
            Ok(Ok(block)) => {
                (self.block, self.at) = (block, 0);
                self.messages.iter().for_each(Messages::room);
            }
            Ok(Err(error)) => (self.failed, self.ended) = (Some(error), true),
            Err(TryRecvError::Disconnected) => self.ended = true,
            Err(TryRecvError::Empty) => {}
        }
    }
}

fn open(path: &Path) -> Result<File, TdmError> {
    let unread = |source, remedy| TdmError::Unread {
        path: path.to_path_buf(),
        option: "--input",
        source,
        remedy,
    };
    if path.is_dir() {
        return Err(unread(
            io::ErrorKind::IsADirectory.into(),
            "a stream is one file: give one of its files, or pipe all of them, as `tar -c DIR | forebay tdm send HOST --input -`",
        ));
    }
    File::open(path).map_err(|source| unread(source, "give a file that can be read"))
}

/// A stream that says whether more lies ready.
trait Source: Read + AsFd + Send {}
impl<T: Read + AsFd + Send> Source for T {}

/// Reads block after block; what has come goes on when nothing follows it for a while.
fn read(mut source: Box<dyn Source>, give: &SyncSender<io::Result<Vec<u8>>>, signal: &EventFd) {
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let mut filled = 0;
        let end = loop {
            let rest = block.get_mut(filled..).unwrap_or_default();
            let follows = filled == 0 || wait_input(source.as_fd(), FLUSH) == Waited::Ready;
            if rest.is_empty() || !follows {
                break None;
            }
            match source.read(rest) {
                Ok(0) => break Some(Ok(())),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(Err(error)),
            }
        };
        block.truncate(filled);
        if filled > 0 && give.send(Ok(block)).is_err() {
            return;
        }
        if let Some(Err(error)) = end {
            let _ = give.send(Err(error));
            signal.signal();
            return;
        }
        signal.signal();
        if end.is_some() {
            return;
        }
    }
}
