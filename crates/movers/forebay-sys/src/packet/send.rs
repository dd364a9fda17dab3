//! A packet socket that sends and takes nothing (packet(7)).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interface::{Interface, InterfaceState};
use super::socket::{be_promiscuous, bind, is_up, open_socket};
use super::transmit_ring::TransmitRing;
use crate::SysError;
use crate::socket::set_int;
use crate::udp_batch::{SendStop, Sent};

/// Bytes of an Ethernet header with a VLAN tag.
const HEADER_BYTES: usize = 18;

/// A packet socket of one interface that sends whole frames, past the queueing disciplines of the interface (`PACKET_QDISC_BYPASS`).
///
/// Bound to no protocol, it never gets a packet. Frames are sent by [`SendBatch`](crate::udp_batch::SendBatch), as of a connected socket; or the socket becomes
/// one that sends through a [`ring`](Self::ring).
#[derive(Debug)]
pub struct FrameSocket {
    fd: OwnedFd,
    interface: Interface,
    hardware_type: u16,
}

impl FrameSocket {
    /// Opens one.
    ///
    /// # Errors
    /// The interface is not there or down, or the process may not (`CAP_NET_RAW`).
    pub fn open(interface: &str) -> Result<Self, SysError> {
        let fd = open_socket(interface, "sending")?;
        let found = Interface::find(fd.as_fd(), interface)?;
        set_int(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
            .map_err(|error| SysError::new("setsockopt(PACKET_QDISC_BYPASS)", interface, error))?;
        is_up(fd.as_fd(), &found)?;
        let hardware_type = bind(fd.as_fd(), found.index, 0)
            .map_err(|error| SysError::new("bind", interface, error))?;
        Ok(Self {
            fd,
            interface: found,
            hardware_type,
        })
    }

    /// Opens one of an interface that may be down, through which it is asked how it is.
    ///
    /// # Errors
    /// The interface is not there, or the process may not (`CAP_NET_RAW`).
    pub fn open_beside(interface: &str) -> Result<Self, SysError> {
        let fd = open_socket(interface, "sending")?;
        let found = Interface::find(fd.as_fd(), interface)?;
        let hardware_type = bind(fd.as_fd(), found.index, 0)
            .map_err(|error| SysError::new("bind", interface, error))?;
        Ok(Self {
            fd,
            interface: found,
            hardware_type,
        })
    }

    /// The same socket, which sends through memory that is shared with the kernel (`PACKET_TX_RING`) and in no other way, of frames of at most so many bytes.
    ///
    /// # Errors
    /// There is no memory for it, frames are longer than 65,550 bytes, or the interface is loopback, which reads a frame after it has given its place back.
    pub fn ring(self, frame_bytes: usize) -> Result<RingSocket, SysError> {
        if self.interface.is_loopback {
            let (call, name) = ("setsockopt(PACKET_TX_RING)", &*self.interface.name);
            let error = SysError::new(call, name, std::io::ErrorKind::Unsupported);
            return Err(error.with_remedy(
                "loopback reads a frame after it has given its place back: send without a ring",
            ));
        }
        let ring = TransmitRing::make(self.fd.as_fd(), &self.interface.name, frame_bytes)?;
        Ok(RingSocket {
            ring,
            socket: self,
            longest_bytes: usize::MAX,
        })
    }

    /// The interface.
    #[must_use]
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The kind of its frames (`ARPHRD_*`, `linux/if_arp.h`).
    #[must_use]
    pub const fn hardware_type(&self) -> u16 {
        self.hardware_type
    }

    /// Has the interface take all frames that it sees, as long as this socket is open: for others, as this one takes none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn be_promiscuous(&self) -> Result<(), SysError> {
        be_promiscuous(self.fd.as_fd(), &self.interface)
    }
}

/// Ready for writing when the kernel has room for a frame.
impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A [`FrameSocket`] whose frames go through a ring.
#[derive(Debug)]
pub struct RingSocket {
    // The ring is unmapped before the socket is closed.
    ring: TransmitRing,
    socket: FrameSocket,
    /// The longest frame that the interface took when one was last refused, with a VLAN tag, in bytes.
    longest_bytes: usize,
}

impl RingSocket {
    /// Sends frames, in order and without waiting, until all are taken or one is not: that one and those behind it were not sent.
    ///
    /// Of frames that are too long (`EMSGSIZE`) the kernel sees one each time that the interface's MTU is lowered, as it writes a line into its log for each that it
    /// sees (`tpacket_parse_header`).
    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> Sent {
        let Self {
            ring,
            socket,
            longest_bytes,
        } = self;
        let is_too_long = |bytes| {
            if bytes <= *longest_bytes {
                return false;
            }
            // Of one that is down or gone the kernel says it, before it looks at the length.
            let longest = longest_bytes_of(socket);
            *longest_bytes = longest.unwrap_or(*longest_bytes);
            longest.is_some_and(|longest| bytes > longest)
        };
        let sent = ring.send_on(socket.as_fd(), frames, is_too_long);
        let errno = sent.stopped.as_ref().and_then(SendStop::errno);
        if errno == Some(libc::EMSGSIZE) {
            *longest_bytes = longest_bytes_of(socket).unwrap_or(*longest_bytes);
        }
        sent
    }

    /// Whether the last send ended at a place of the ring that the device is not done with: the socket may be ready for writing all the time, and nothing tells when
    /// the place is free.
    #[must_use]
    pub const fn is_place_busy(&self) -> bool {
        self.ring.is_place_busy()
    }

    /// The interface.
    #[must_use]
    pub const fn interface(&self) -> &Interface {
        self.socket.interface()
    }
}

/// Ready for writing when the kernel has room for a frame in the socket's buffer.
impl AsFd for RingSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Longer frames are too long for the interface as it is now, in bytes: those of an MTU with their header and a VLAN tag. Nothing of one that is down or gone.
fn longest_bytes_of(socket: &FrameSocket) -> Option<usize> {
    let interface = &socket.interface;
    let mtu_bytes = interface.mtu_bytes(socket).ok();
    mtu_bytes
        .filter(|_| interface.state(socket) == InterfaceState::Up)
        .map(|bytes| bytes as usize + HEADER_BYTES)
}
