//! One connection to a mover.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use forebay_wire::mover::{BlockFields, Frame, Hello, MoverError, Refusal};
use thiserror::Error;

use crate::block::Bytes;

/// Longest time to connect, and to wait for the welcome.
const OPEN_LIMIT: Duration = Duration::from_secs(1);
/// Bytes read at a time: the mover's frames are short.
const READ_BYTES: usize = 4 << 10;

/// Why a connection ends.
#[derive(Debug, Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the mover closed the connection")]
    Closed,
    #[error("the mover does not answer")]
    Silent,
    #[error("the mover refuses: {}", refusal(*.0))]
    Refused(Result<Refusal, u32>),
    #[error("the mover speaks something else: {0}")]
    Protocol(#[from] MoverError),
    #[error("the mover sends what is not its turn")]
    Unexpected,
    #[error("the mover names a place in the stream that is none")]
    Position,
}

impl LinkError {
    /// Whether the mover only made room, since nothing came for long.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Refused(Ok(Refusal::Idle)))
    }
}

pub(super) struct Link {
    stream: TcpStream,
    /// Received and not read.
    inbox: Vec<u8>,
    /// To be sent, from `sent` on. A block is copied here once, out of the queue.
    outbox: Vec<u8>,
    sent: usize,
}

impl Link {
    /// Connects and introduces the stream; the mover's position comes with the link.
    pub(super) fn open(peer: SocketAddr, hello: &Hello<'_>) -> Result<(Self, u64), LinkError> {
        let stream = TcpStream::connect_timeout(&peer, OPEN_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPEN_LIMIT))?;
        stream.set_write_timeout(Some(OPEN_LIMIT))?;
        (&stream).write_all(&Frame::Hello(*hello).emit())?;
        let mut link = Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
        };
        let mut position = None;
        while position.is_none() {
            let any = link.receive(|frame| match frame {
                Frame::Welcome(at) => {
                    position = Some(at);
                    Ok(())
                }
                Frame::Refuse(reason) => Err(LinkError::Refused(reason)),
                _ => Err(LinkError::Unexpected),
            })?;
            if !any {
                return Err(LinkError::Silent);
            }
        }
        link.stream.set_nonblocking(true)?;
        Ok((link, position.unwrap_or(0)))
    }

    /// Hands each whole frame that has come to `take`; false when nothing came.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(Frame<'_>) -> Result<(), LinkError>,
    ) -> Result<bool, LinkError> {
        let mut bytes = [0; READ_BYTES];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(count) => count,
            Err(error) if is_later(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.inbox.extend_from_slice(&bytes[..count]);
        let mut used = 0;
        while let Some((frame, length)) = Frame::parse(&self.inbox[used..])? {
            if let Frame::Block(..) = frame {
                return Err(LinkError::Unexpected);
            }
            take(frame)?;
            used += length;
        }
        self.inbox.drain(..used);
        // A mover's frames are short; one that begins a long one is none.
        if self.inbox.len() > READ_BYTES {
            return Err(LinkError::Unexpected);
        }
        Ok(true)
    }

    /// Whether something is still to be sent.
    pub(super) fn is_busy(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Puts a block behind what is still to be sent; length and checksum are filled in here.
    pub(super) fn queue_block(&mut self, mut fields: BlockFields, events: &Bytes<'_>) {
        self.trim();
        let start = self.outbox.len();
        let head_bytes = fields.emit().len();
        self.outbox.resize(start + head_bytes + events.len(), 0);
        let (head, body) = self.outbox[start..].split_at_mut(head_bytes);
        events.copy_to(body);
        fields.bytes = body.len() as u32;
        fields.crc32 = crc32fast::hash(body);
        head.copy_from_slice(&fields.emit());
    }

    pub(super) fn queue(&mut self, frame: &Frame<'_>) {
        self.trim();
        self.outbox.extend_from_slice(&frame.emit());
    }

    fn trim(&mut self) {
        if !self.is_busy() {
            self.outbox.clear();
            self.sent = 0;
        }
    }

    /// Sends what the connection takes; false when it took nothing.
    pub(super) fn flush(&mut self) -> Result<bool, LinkError> {
        let before = self.sent;
        while self.is_busy() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.sent += count,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.sent > before)
    }
}

fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// A refusal in words.
fn refusal(reason: Result<Refusal, u32>) -> String {
    reason.map_or_else(
        |code| format!("reason {code}"),
        |known| known.name().to_owned(),
    )
}
