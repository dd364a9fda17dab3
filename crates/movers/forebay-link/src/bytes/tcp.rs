//! Over TCP.

mod wire;

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use super::tls::TlsFault;
use super::{Address, ByteLink, ByteLinkError, Door, DoorError, FDS_MAX, Received};
pub use wire::Round;
pub(super) use wire::{Reach, Wire};

/// Room for what was received at the least: so much comes in one system call.
const ROOM_BYTES_MIN: usize = 256 << 10;
/// Room for what a stranger says of himself: anybody may connect.
const STRANGER_ROOM_BYTES: usize = 4 << 10;
/// How one is answered that speaks TLS: as a frame begins, by which it knows what this side is.
const PLAIN_ANSWER: [u8; 3] = *b"FN\x01";
/// Parts of a `send` that go into one system call; the others go into the next.
const PARTS_MAX: usize = 16;

/// A connection over TCP, or one that is being made.
#[derive(Debug)]
pub struct TcpLink {
    wire: Wire,
    memory: Vec<u8>,
    from: usize,
    to: usize,
    /// The first bytes were looked at.
    looked: bool,
    /// The last read left nothing behind: the next one would find nothing.
    is_drained: bool,
}

impl TcpLink {
    /// Begins to connect to the first address that the host's name has.
    ///
    /// # Errors
    /// The name is unknown, or the system refuses at once.
    pub fn connect(host: &str, port: u16) -> Result<Self, ByteLinkError> {
        let mut round = Round::default();
        let wire = Wire::connect(host, port, Reach::Everywhere, &mut round)?;
        Ok(Self::new(wire))
    }

    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            memory: vec![0; STRANGER_ROOM_BYTES],
            from: 0,
            to: 0,
            looked: false,
            is_drained: false,
        }
    }

    /// Looks at the first bytes: a peer that speaks TLS says nothing that is understood here, and is told what this side is.
    fn look(&mut self) -> Result<(), ByteLinkError> {
        if self.looked || self.to < 2 {
            return Ok(());
        }
        self.looked = true;
        if self.from == 0 && matches!(self.memory[..2], [0x15 | 0x16, 3]) {
            // A peer that is gone does not want to know.
            let _ = (&self.wire.socket).write(&PLAIN_ANSWER);
            return Err(ByteLinkError::Tls {
                peer: self.wire.peer.clone(),
                fault: TlsFault::TlsPeer,
            });
        }
        Ok(())
    }

    /// Brings what is unused to the front when less than half is left behind it.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.to == self.memory.len()
            || self.memory.len() - self.to < self.memory.len() / 2
        {
            self.memory.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
    }
}

impl ByteLink for TcpLink {
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError> {
        if !self.wire.is_connected()? {
            return Ok(0);
        }
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        let count = parts.len().min(PARTS_MAX);
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        loop {
            return match (&self.wire.socket).write_vectored(&slices[..count]) {
                Ok(taken) => Ok(taken),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(self.wire.lost(error)),
            };
        }
    }

    fn receive(&mut self) -> Result<Received, ByteLinkError> {
        if !self.wire.is_connected()? {
            return Ok(Received::Nothing);
        }
        if std::mem::take(&mut self.is_drained) {
            return Ok(Received::Nothing);
        }
        self.make_room();
        loop {
            let room = &mut self.memory[self.to..];
            if room.is_empty() {
                return Ok(Received::Nothing);
            }
            return match (&self.wire.socket).read(room) {
                Ok(0) => Ok(Received::Ended),
                Ok(count) => {
                    self.is_drained = count < room.len();
                    self.to += count;
                    self.look()?;
                    Ok(Received::Some)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(self.wire.lost(error)),
            };
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.to]
    }

    fn used(&mut self, count: usize) {
        self.from = (self.from + count).min(self.to);
    }

    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError> {
        // Twice, so that a frame's beginning is seldom moved to the front.
        let wanted = bytes_max.saturating_mul(2).max(ROOM_BYTES_MIN);
        if wanted > self.memory.len() {
            self.memory.resize(wanted, 0);
        }
        Ok(())
    }

    fn finish(&mut self) {
        // A connection that is gone has ended already.
        let _ = self.wire.socket.shutdown(std::net::Shutdown::Write);
    }

    fn arm(&mut self, _for_room: bool) -> Result<bool, ByteLinkError> {
        Ok(true)
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.wire.socket.as_fd()), None]
    }

    fn room_is_writable(&self) -> bool {
        true
    }

    fn peer(&self) -> &str {
        &self.wire.peer
    }
}

/// Where TCP connections come in.
#[derive(Debug)]
pub struct TcpDoor {
    listener: TcpListener,
    address: String,
}

impl TcpDoor {
    /// Listens on the first address that the host's name has.
    ///
    /// # Errors
    /// The name is unknown, or the address in use or not of this host.
    pub fn listen(host: &str, port: u16) -> Result<Self, DoorError> {
        Self::open(host, port, Reach::Everywhere)
    }

    pub(super) fn open(host: &str, port: u16, reach: Reach) -> Result<Self, DoorError> {
        let (listener, address) = wire::listen(host, port, reach)?;
        Ok(Self { listener, address })
    }

    /// The next peer that has come.
    pub(super) fn take(&mut self) -> Result<Option<Wire>, DoorError> {
        loop {
            let refused = |source| DoorError::Accept {
                address: self.address.clone(),
                source,
            };
            return match self.listener.accept() {
                Ok((socket, peer)) => Wire::accepted(socket, peer).map(Some).map_err(refused),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => Ok(None),
                    // The caller's fault, and over.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => Err(refused(error)),
                },
            };
        }
    }
}

impl Door for TcpDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError> {
        let came = self.take()?;
        Ok(came.map(|wire| Box::new(TcpLink::new(wire)) as Box<dyn ByteLink>))
    }

    fn address(&self) -> Result<Address, DoorError> {
        let found = self.listener.local_addr();
        let found = found.map_err(|source| DoorError::Accept {
            address: self.address.clone(),
            source,
        })?;
        Ok(Address::Tcp {
            host: found.ip().to_string(),
            port: found.port(),
        })
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.listener.as_fd()), None]
    }
}
