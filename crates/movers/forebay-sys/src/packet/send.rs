//! A packet socket that sends and takes nothing (packet(7)).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interface::Interface;
use super::socket::{be_promiscuous, bind, is_up, open_socket};
use super::transmit_ring::TransmitRing;
use crate::SysError;
use crate::socket::set_int;
use crate::udp_batch::Sent;

/// A packet socket of one interface that sends whole frames, past the queueing disciplines of the interface (`PACKET_QDISC_BYPASS`).
///
/// Bound to no protocol, it never gets a packet. Frames are sent by [`SendBatch`](crate::udp_batch::SendBatch), as of a connected socket, or by its [`ring`](Self::ring).
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

    /// Memory that is shared with the kernel, for frames of at most so many bytes; it is asked for once. From then on frames are sent through it alone.
    ///
    /// # Errors
    /// There is no memory for it, or frames are longer than 128 KiB.
    pub fn ring(&self, frame_bytes: usize) -> Result<TransmitRing, SysError> {
        TransmitRing::make(self.fd.as_fd(), &self.interface.name, frame_bytes)
    }

    /// Sends frames through its ring, in order and without waiting, until all are taken or one is not: that one and those behind it were not sent.
    pub fn send_ring<'a>(
        &self,
        ring: &mut TransmitRing,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Sent {
        ring.send_on(self.fd.as_fd(), frames)
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
