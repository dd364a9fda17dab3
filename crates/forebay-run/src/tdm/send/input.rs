//! Where the payload comes from: a file, standard input, or a pattern that the receiver can check.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use forebay_sys::eventfd::EventFd;
use forebay_sys::input::{Input as Waited, wait_input};

use super::super::TdmError;
use crate::tdm::pattern;

/// Bytes of a block that is read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks that are read ahead.
const BLOCKS: usize = 16;
/// Whoever writes little gets it sent after so long.
const FLUSH: Duration = Duration::from_millis(2);

/// What a sender sends.
pub(super) enum Input {
    /// A test stream, as long as windows go, or this many bytes.
    Pattern { bytes: Vec<u8>, left: Option<u64> },
    /// What a thread reads.
    Read(Reading),
}

pub(super) struct Reading {
    blocks: Receiver<io::Result<Vec<u8>>>,
    arrived: EventFd,
    block: Vec<u8>,
    at: usize,
    ended: bool,
    failed: Option<io::Error>,
}

impl Input {
    pub(super) fn pattern(limit: Option<u64>) -> Self {
        Self::Pattern {
            bytes: pattern::bytes(),
            left: limit,
        }
    }

    /// A file, or standard input (`-`).
    pub(super) fn open(path: &Path) -> Result<Self, TdmError> {
        let source: Box<dyn Source> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(TdmError::file("opening the input", path))?)
        };
        let (give, blocks) = sync_channel(BLOCKS);
        let arrived = EventFd::create()?;
        let signal = EventFd::from_fd(arrived.share_fd()?);
        std::thread::Builder::new()
            .name("tdm input".to_owned())
            .spawn(move || read(source, &give, &signal))
            .map_err(TdmError::file("starting a thread for", path))?;
        Ok(Self::Read(Reading {
            blocks,
            arrived,
            block: Vec::new(),
            at: 0,
            ended: false,
            failed: None,
        }))
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
        }
    }

    /// So many bytes have been sent.
    pub(super) fn take(&mut self, bytes: u64) {
        match self {
            Self::Pattern { left, .. } => *left = left.map(|left| left.saturating_sub(bytes)),
            Self::Read(reading) => reading.at += bytes as usize,
        }
    }

    /// Readable when there is more; none for what is always there.
    pub(super) fn arrived(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pattern { .. } => None,
            Self::Read(reading) => Some(reading.arrived.as_fd()),
        }
    }

    /// Why it could not be read to its end.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        match self {
            Self::Pattern { .. } => None,
            Self::Read(reading) => reading.failed.as_ref(),
        }
    }
}

impl Reading {
    fn look(&mut self) {
        if self.at < self.block.len() || self.ended {
            return;
        }
        self.arrived.drain();
        match self.blocks.try_recv() {
            Ok(Ok(block)) => (self.block, self.at) = (block, 0),
            Ok(Err(error)) => (self.failed, self.ended) = (Some(error), true),
            Err(TryRecvError::Disconnected) => self.ended = true,
            Err(TryRecvError::Empty) => {}
        }
    }
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
