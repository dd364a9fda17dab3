//! A packet socket that sends and takes nothing (packet(7)).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interface::Interface;
use super::socket::{be_promiscuous, bind, is_up, open_socket};
use crate::SysError;
use crate::socket::set_int;

/// A packet socket of one interface that sends whole frames, past the queueing disciplines of the interface (`PACKET_QDISC_BYPASS`).
///
/// Bound to no protocol, it never gets a packet. Frames are sent by [`SendBatch`](crate::udp_batch::SendBatch), as of a connected socket.
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
