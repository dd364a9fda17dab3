//! Sending many datagrams per call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sockaddr;

/// One datagram to send.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its bytes.
    pub payload: &'a [u8],
    /// Where to; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// The kernel shall cut the payload into datagrams of this size (`UDP_SEGMENT`); `None`: send it as it is.
    pub segment_bytes: Option<u16>,
}

impl<'a> Outgoing<'a> {
    /// A datagram on a connected socket.
    #[must_use]
    pub fn connected(payload: &'a [u8]) -> Self {
        Self {
            payload,
            to: None,
            segment_bytes: None,
        }
    }

    /// A datagram to `to`.
    #[must_use]
    pub fn addressed(payload: &'a [u8], to: SocketAddr) -> Self {
        Self {
            payload,
            to: Some(to),
            segment_bytes: None,
        }
    }
}

/// Why a send stopped before its last datagram; the datagram at which it stopped was not sent.
#[derive(Debug)]
pub enum SendStop {
    /// The socket's send buffer is full.
    WouldBlock,
    /// The kernel or the device has no buffers left (`ENOBUFS`).
    NoBuffers,
    /// An earlier datagram met no listener (`ECONNREFUSED`, connected sockets only); sending again is allowed.
    Refused,
    /// Anything else.
    Failed(io::Error),
}

impl SendStop {
    /// Tells whether it concerns one datagram only: that at which it stopped, which this host forbids or finds too long, or
    /// (`Refused`) an earlier one. Going on with the next may succeed. The others concern the socket, the host or the way.
    #[must_use]
    pub fn concerns_one_datagram(&self) -> bool {
        match self {
            Self::Refused => true,
            Self::Failed(error) => {
                matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EPERM))
            }
            Self::WouldBlock | Self::NoBuffers => false,
        }
    }

    /// The kernel's error number; none for what was refused before it reached the kernel.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::WouldBlock => Some(libc::EAGAIN),
            Self::NoBuffers => Some(libc::ENOBUFS),
            Self::Refused => Some(libc::ECONNREFUSED),
            Self::Failed(error) => error.raw_os_error(),
        }
    }

    pub(crate) fn of(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Self::WouldBlock,
            Some(libc::ENOBUFS) => Self::NoBuffers,
            Some(libc::ECONNREFUSED) => Self::Refused,
            _ => Self::Failed(error),
        }
    }
}

/// What became of a send.
#[derive(Debug)]
pub struct Sent {
    /// How many leading datagrams the kernel took.
    pub count: usize,
    /// Why not all of them.
    pub stopped: Option<SendStop>,
}

const CONTROL_BYTES: usize = 24;

/// Room for what one header points to.
#[repr(C, align(8))]
struct Part {
    control: [u8; CONTROL_BYTES],
    name: [u8; sockaddr::SOCKADDR_BYTES],
    iovec: libc::iovec,
}

/// `sendmmsg` with headers that are allocated once.
pub struct SendBatch {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[Part]>,
}

// SAFETY: the raw pointers inside lead into `parts`, which moves along with the headers, or to payloads that are
// borrowed only while `send` runs; nothing dereferences them between calls.
unsafe impl Send for SendBatch {}

impl std::fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendBatch")
            .field("capacity", &self.headers.len())
            .finish()
    }
}

impl SendBatch {
    /// Room for `capacity` datagrams per system call (at least 1, at most the kernel's 1,024).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1024);
        // SAFETY: an all-zero mmsghdr is valid: null pointers with zero lengths.
        let headers = (0..capacity)
            .map(|_| unsafe { std::mem::zeroed() })
            .collect();
        let iovec = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let part = || Part {
            control: [0; CONTROL_BYTES],
            name: [0; sockaddr::SOCKADDR_BYTES],
            iovec,
        };
        Self {
            headers,
            parts: (0..capacity).map(|_| part()).collect(),
        }
    }

    /// Sends the datagrams in order, without waiting, until all are sent or the kernel takes no more.
    pub fn send(&mut self, socket: BorrowedFd<'_>, outgoing: &[Outgoing<'_>]) -> Sent {
        let mut count = 0;
        while count < outgoing.len() {
            match self.send_chunk(socket, &outgoing[count..]) {
                Ok(sent) => count += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Sent {
                        count,
                        stopped: Some(SendStop::of(error)),
                    };
                }
            }
        }
        Sent {
            count,
            stopped: None,
        }
    }

    fn send_chunk(
        &mut self,
        socket: BorrowedFd<'_>,
        outgoing: &[Outgoing<'_>],
    ) -> io::Result<usize> {
        let chunk = outgoing.len().min(self.headers.len());
        for (index, datagram) in outgoing[..chunk].iter().enumerate() {
            self.point(index, datagram);
        }
        let headers = self.headers.as_mut_ptr();
        // SAFETY: `chunk` headers were just pointed at parts of `self` and at payloads borrowed for this call; the
        // kernel only reads through them.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers,
                chunk as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn point(&mut self, index: usize, datagram: &Outgoing<'_>) {
        let part = &mut self.parts[index];
        let header = &mut self.headers[index].msg_hdr;
        part.iovec.iov_base = datagram.payload.as_ptr().cast_mut().cast();
        part.iovec.iov_len = datagram.payload.len();
        header.msg_iov = &raw mut part.iovec;
        header.msg_iovlen = 1;
        let name_len = datagram
            .to
            .map_or(0, |to| sockaddr::emit(to, &mut part.name));
        header.msg_name = if name_len > 0 {
            part.name.as_mut_ptr().cast()
        } else {
            std::ptr::null_mut()
        };
        header.msg_namelen = name_len as libc::socklen_t;
        match datagram.segment_bytes {
            Some(segment) => {
                emit_segment(segment, &mut part.control);
                header.msg_control = part.control.as_mut_ptr().cast();
                header.msg_controllen = CONTROL_BYTES as _;
            }
            None => {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
        }
    }
}

/// Writes a `UDP_SEGMENT` control message: header of 16 bytes, then the size as u16.
pub(crate) fn emit_segment(segment: u16, out: &mut [u8; CONTROL_BYTES]) {
    out.fill(0);
    out[0..8].copy_from_slice(&18_u64.to_ne_bytes());
    out[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    out[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    out[16..18].copy_from_slice(&segment.to_ne_bytes());
}
