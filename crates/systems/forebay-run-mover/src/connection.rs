//! One connection of a sender: bytes in, frames out, answers back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use forebay_wire::mover::{Frame, HEAD_BYTES, Head, Kind, MoverError, Refusal};

use crate::Answer;

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Bytes taken from one connection before the next one has its turn.
const TURN_BYTES: usize = 4 << 20;

/// Longest time from the connection to the hello.
const HELLO_LIMIT_NS: u64 = 5_000_000_000;

/// Why a connection ends.
pub(crate) enum Dropped {
    /// The sender closed it, or it broke.
    Closed,
    /// The stream ended in order.
    Farewell,
    /// The sender connected anew.
    Replaced,
    /// It never said its name.
    Silent,
    /// Nothing came from it for long.
    Idle,
    /// What came is no frame of the protocol.
    Garbage(MoverError),
    /// A frame that is not taken.
    Refused(Refusal),
}

impl Dropped {
    /// What the sender is told.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Closed | Self::Farewell | Self::Replaced => None,
            Self::Silent | Self::Garbage(_) => Some(Refusal::Malformed),
            Self::Idle => Some(Refusal::Idle),
            Self::Refused(refusal) => Some(*refusal),
        }
    }

    /// The reason's name in the summary.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Closed | Self::Farewell => "closed",
            Self::Replaced => "replaced",
            Self::Silent => "silent",
            Self::Idle => Refusal::Idle.name(),
            Self::Garbage(error) => error.reason(),
            Self::Refused(refusal) => refusal.name(),
        }
    }
}

impl From<MoverError> for Dropped {
    fn from(error: MoverError) -> Self {
        Self::Garbage(error)
    }
}

pub(crate) struct Connection {
    socket: TcpStream,
    pub(crate) peer: SocketAddr,
    /// When it came.
    pub(crate) since_ns: u64,
    /// When something last came from it.
    pub(crate) heard_ns: u64,
    /// Its stream, once it said which.
    pub(crate) stream: Option<u64>,
    /// Received; read up to `read`.
    inbox: Vec<u8>,
    read: usize,
    /// To be sent. Of acknowledgements only the last matters, so this stays short whatever the peer does.
    outbox: Vec<u8>,
    ack: Option<u64>,
    ending: bool,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream, peer: SocketAddr, now_ns: u64) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            peer,
            since_ns: now_ns,
            heard_ns: now_ns,
            stream: None,
            inbox: Vec::new(),
            read: 0,
            outbox: Vec::new(),
            ack: None,
            ending: false,
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what has come, up to a turn's share and not beyond the frame at hand; true at the end of the stream.
    pub(crate) fn fill(&mut self, now_ns: u64) -> Result<bool, Dropped> {
        self.inbox.drain(..std::mem::take(&mut self.read));
        let mut taken = 0;
        while taken < TURN_BYTES {
            let have = self.inbox.len();
            // A stranger's bytes are looked at before more of them are kept.
            let want = if self.stream.is_some() {
                READ_BYTES
            } else {
                HEAD_BYTES + 128
            };
            self.inbox.resize(have + want, 0);
            let result = self.socket.read(&mut self.inbox[have..]);
            self.inbox.truncate(have + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Ok(true),
                Ok(count) => {
                    taken += count;
                    self.heard_ns = now_ns;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Dropped::Closed),
            }
            self.look_at_head()?;
            if self.stream.is_none() {
                break;
            }
        }
        Ok(false)
    }

    /// Refuses what cannot be right before its body is waited for.
    fn look_at_head(&self) -> Result<(), Dropped> {
        let Some(head) = self.inbox.first_chunk() else {
            return Ok(());
        };
        let head = Head::parse(head)?;
        if self.stream.is_none() && head.kind != Kind::Hello {
            return Err(Dropped::Refused(Refusal::Malformed));
        }
        Ok(())
    }

    /// The next whole frame and its length.
    pub(crate) fn frame(&self) -> Result<Option<(Frame<'_>, usize)>, Dropped> {
        Ok(Frame::parse(&self.inbox[self.read..])?)
    }

    /// The frame was dealt with.
    pub(crate) fn used(&mut self, length: usize) {
        self.read += length;
    }

    pub(crate) fn take_answer(&mut self, answer: Answer) -> Result<(), Dropped> {
        match answer {
            Answer::Welcome { stream, position } => {
                self.stream = Some(stream);
                self.outbox.extend(Frame::Welcome(position).emit());
            }
            Answer::Ack(position) => self.ack = Some(position),
            Answer::Farewell(totals) => {
                self.outbox.extend(Frame::Farewell(totals).emit());
                self.ending = true;
            }
        }
        Ok(())
    }

    /// Sends what the connection takes; the rest goes with the next turn.
    pub(crate) fn flush(&mut self) -> Result<(), Dropped> {
        loop {
            if self.outbox.is_empty()
                && let Some(position) = self.ack.take()
            {
                self.outbox = Frame::Ack(position).emit();
            }
            if self.outbox.is_empty() {
                return if self.ending {
                    Err(Dropped::Farewell)
                } else {
                    Ok(())
                };
            }
            match self.socket.write(&self.outbox) {
                Ok(0) => return Err(Dropped::Closed),
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Dropped::Closed),
            }
        }
    }

    /// Why it is not kept any longer, if so: a sender that says nothing keeps no place, and neither does one that is gone without a word.
    pub(crate) fn overdue(&self, now_ns: u64, idle_limit_ns: u64) -> Option<Dropped> {
        if self.stream.is_none() {
            (now_ns > self.since_ns + HELLO_LIMIT_NS).then_some(Dropped::Silent)
        } else {
            (now_ns > self.heard_ns.saturating_add(idle_limit_ns)).then_some(Dropped::Idle)
        }
    }

    /// Whether answers wait for room in the connection.
    pub(crate) fn has_answers(&self) -> bool {
        !self.outbox.is_empty() || self.ack.is_some()
    }

    /// A last word, if the connection takes it at once.
    pub(crate) fn say_last(&mut self, frame: &Frame<'_>) {
        let _ = self.socket.write(&frame.emit());
    }
}
