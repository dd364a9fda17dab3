//! A UDP port that is received from, with its kernel's books.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_sys::socket::{self, DropCounter, Shortfall, UdpOptions};
use forebay_sys::udp_batch::{BatchTag, RecvBatch, Totals};

use crate::{BufferFill, ConfigError, DatagramSource, Drops, LinkError};

/// How a port is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Where to listen. Default 127.0.0.1, any port: nothing is open to the network unless asked for.
    pub bind: SocketAddr,
    /// Receive buffer, 4 KiB to 1 GiB. Linux doubles it and charges whole kernel buffers (measured on loopback: 832 bytes
    /// for a datagram of 116, 1,280 for 300, 16,640 for 8,000, 33,600 for 32 kB). Default 4 MiB: 250 datagrams of
    /// 32 kB or 6,500 of 300 bytes, which bridges 0.3 s for one of 90 sources that send 2 GB/s together.
    pub receive_buffer_bytes: u32,
    /// Let several sockets bind this port. Default no: they would share the datagrams.
    pub reuse_address: bool,
    /// Have the kernel stamp each datagram. Default no: with the addresses it makes receiving small datagrams about
    /// a fifth dearer (`benches/udp.rs`). The batch needs [`control`](crate::Ancillary::control) to see the stamps.
    pub stamps: bool,
    /// Have the kernel merge datagrams (GRO). Default no: a dropped merged buffer counts as one drop, the books of
    /// the socket become a lower bound. The batch needs [`control`](crate::Ancillary::control) to cut the buffers.
    pub merge: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            receive_buffer_bytes: 4 << 20,
            reuse_address: false,
            stamps: false,
            merge: false,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bytes = u64::from(self.receive_buffer_bytes);
        ConfigError::check(
            "receive_buffer_bytes",
            bytes,
            4_096..=1 << 30,
            "4096 … 1073741824",
        )
    }

    fn options(&self) -> UdpOptions {
        UdpOptions {
            reuse_address: self.reuse_address,
            receive_buffer_bytes: Some(self.receive_buffer_bytes as usize),
            send_buffer_bytes: None,
            stamps: self.stamps,
            gro: self.merge,
        }
    }
}

/// What a port has counted, as words for the book of the stage that owns it.
///
/// A successor resumes from the committed words; the kernel's counter goes on where it was as the socket is the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PortState {
    /// What was received.
    pub received: Totals,
    /// What the kernel dropped.
    pub drops: DropCounter,
}

impl PortState {
    /// How many words it takes.
    pub const WORDS: usize = 6;

    /// As words.
    #[must_use]
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let Self { received, drops } = self;
        [
            received.datagrams,
            received.bytes,
            received.truncated,
            drops.epoch,
            u64::from(drops.last),
            drops.total,
        ]
    }

    /// From words.
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [datagrams, bytes, truncated, epoch, last, total] = words;
        let drops = DropCounter {
            epoch,
            last: last as u32,
            total,
        };
        Self {
            received: Totals {
                datagrams,
                bytes,
                truncated,
            },
            drops,
        }
    }
}

/// A bound UDP socket that is received from.
#[derive(Debug)]
pub struct UdpPort {
    socket: OwnedFd,
    address: SocketAddr,
    cookie: u64,
    merge: bool,
    state: PortState,
}

impl UdpPort {
    /// Opens a port. The second part is set when the receive buffer came out smaller than asked for: data may be lost
    /// that a larger one would hold, so say it to the user.
    ///
    /// # Errors
    /// When a setting is out of range or the address cannot be bound.
    pub fn bind(config: &Config) -> Result<(Self, Option<Shortfall>), LinkError> {
        config.validate()?;
        let bound = socket::bind_udp(config.bind, &config.options())?;
        Ok((
            Self::resume(bound.fd, config.merge, PortState::default())?,
            bound.shortfall,
        ))
    }

    /// Takes a bound socket that another process holds or held, with what is booked of it so far. With the default state,
    /// everything the kernel ever dropped at this socket is this port's.
    ///
    /// # Errors
    /// When it is not a bound socket.
    pub fn resume(socket: OwnedFd, merge: bool, state: PortState) -> Result<Self, LinkError> {
        let (address, cookie) = (socket::local_address(&socket)?, socket::cookie(&socket)?);
        Ok(Self {
            socket,
            address,
            cookie,
            merge,
            state,
        })
    }

    /// As [`resume`](Self::resume), for a stage that books datagrams by source itself and keeps of the port only `total`
    /// drops, booked when the kernel's counter stood at `last`. The socket must be the same one.
    ///
    /// # Errors
    /// When it is not a bound socket.
    pub fn resume_drops(
        socket: OwnedFd,
        merge: bool,
        total: u64,
        last: u32,
    ) -> Result<Self, LinkError> {
        let mut port = Self::resume(socket, merge, PortState::default())?;
        port.state.drops = DropCounter {
            epoch: port.cookie,
            last,
            total,
        };
        Ok(port)
    }

    /// As [`receive_scratch`](DatagramSource::receive_scratch), for a stage that counts what comes by source itself: the port's own
    /// totals stay as they are, and the batch is gone through once.
    ///
    /// # Errors
    /// When the socket itself fails.
    pub fn take_scratch(
        &self,
        batch: &mut RecvBatch,
        max: usize,
        tag: BatchTag,
    ) -> Result<usize, LinkError> {
        batch
            .receive_scratch(self.socket.as_fd(), max, tag)
            .map_err(|source| self.failed(source))
    }

    /// As [`receive_into`](DatagramSource::receive_into), without counting.
    ///
    /// # Errors
    /// When the socket itself fails.
    pub fn take_into(
        &self,
        batch: &mut RecvBatch,
        buffer: &mut [u8],
        tag: BatchTag,
    ) -> Result<bool, LinkError> {
        let received = batch
            .receive_into(self.socket.as_fd(), buffer, tag)
            .map_err(|source| self.failed(source))?;
        Ok(received.is_some())
    }

    /// Takes one reading of the kernel's books: its drops so far, and how full the buffer is.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn observe(&mut self) -> Result<(DropCounter, BufferFill), LinkError> {
        let info = socket::mem_info(&self.socket)?;
        self.state.drops.observe(self.cookie, info.drops);
        Ok((self.state.drops, fill_of(&info)))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is counted so far, for the book; call [`drops`](DatagramSource::drops) before to have the latest.
    #[must_use]
    pub fn state(&self) -> PortState {
        self.state
    }

    /// Gives the socket away; it stays open and goes on receiving.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.socket
    }

    fn failed(&self, source: std::io::Error) -> LinkError {
        LinkError::Receive {
            address: self.address,
            source,
        }
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl DatagramSource for UdpPort {
    fn receive_scratch(
        &mut self,
        batch: &mut RecvBatch,
        max: usize,
        tag: BatchTag,
    ) -> Result<usize, LinkError> {
        let count = self.take_scratch(batch, max, tag)?;
        self.state.received += batch.totals();
        Ok(count)
    }

    fn receive_into(
        &mut self,
        batch: &mut RecvBatch,
        buffer: &mut [u8],
        tag: BatchTag,
    ) -> Result<bool, LinkError> {
        let received = self.take_into(batch, buffer, tag)?;
        self.state.received += batch.totals();
        Ok(received)
    }

    fn received(&self) -> Totals {
        self.state.received
    }

    fn count_adopted(&mut self, batch: &RecvBatch) {
        self.state.received += batch.totals();
    }

    fn drops(&mut self) -> Result<Drops, LinkError> {
        let total = self.observe()?.0.total;
        Ok(if self.merge {
            Drops::AtLeast(total)
        } else {
            Drops::Exact(total)
        })
    }

    fn fill(&self) -> Result<BufferFill, LinkError> {
        Ok(fill_of(&socket::mem_info(&self.socket)?))
    }
}

fn fill_of(info: &socket::MemInfo) -> BufferFill {
    BufferFill {
        used_bytes: info.rmem_alloc_bytes.into(),
        limit_bytes: info.rcvbuf_bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_from_its_words() {
        let state = PortState {
            received: Totals {
                datagrams: 1,
                bytes: 2,
                truncated: 3,
            },
            drops: DropCounter {
                epoch: u64::MAX,
                last: u32::MAX,
                total: 6,
            },
        };
        assert_eq!(PortState::from_words(state.to_words()), state);
    }

    #[test]
    fn an_impossible_buffer_is_named() {
        let error = UdpPort::bind(&Config {
            receive_buffer_bytes: 100,
            ..Config::default()
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "receive_buffer_bytes = 100 is outside 4096 … 1073741824"
        );
    }
}
