//! The plainest `recvmmsg` loop, as the reference that benchmarks divide by.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `recvmmsg` into private memory: no adoption, no addresses, no stamps, no true lengths, nothing reset between calls.
pub struct BareRecv {
    headers: Box<[libc::mmsghdr]>,
    _iovecs: Box<[libc::iovec]>,
    _memory: Box<[u8]>,
}

impl std::fmt::Debug for BareRecv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareRecv")
            .field("slots", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl BareRecv {
    /// Room for `slots` datagrams (at least 1) of `slot_bytes` (at least 1).
    #[must_use]
    pub fn new(slots: usize, slot_bytes: usize) -> Self {
        let mut memory = vec![0_u8; slots.max(1) * slot_bytes.max(1)].into_boxed_slice();
        let mut iovecs: Box<[libc::iovec]> = memory
            .chunks_exact_mut(slot_bytes.max(1))
            .map(|slot| libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            })
            .collect();
        let headers = iovecs.iter_mut().map(header_of).collect();
        Self {
            headers,
            _iovecs: iovecs,
            _memory: memory,
        }
    }

    /// Receives without waiting; an empty queue is 0.
    ///
    /// # Errors
    /// The socket's own error.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let slots = self.headers.len() as libc::c_uint;
        // SAFETY: each header points to an iovec and each iovec to a slot of memory that `self` owns and nobody reads.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                slots,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }
}

fn header_of(iovec: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is valid: null pointers with zero lengths.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = iovec;
    header.msg_hdr.msg_iovlen = 1;
    header
}
