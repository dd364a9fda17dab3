//! Frames past the kernel's stack, in and out of one queue of an interface: an AF_XDP socket (`Documentation/networking/af_xdp.rst`).
//!
//! ```text
//!  buffers here ─▶ fill ring ─▶ kernel ─▶ receive ring ─▶ frames ─▶ buffers here
//!  buffers here ─▶ send ring ─▶ kernel ─▶ completion ring ─────────▶ buffers here
//! ```
//!
//! A [`Port`] has memory for frames in buffers of one size. Each of them is in one place at a time, which [`Port::buffers`] says. Frames that come lie in this memory
//! and are visited there; nothing is copied but a frame of several pieces. Frames come to a port only where a [`Redirect`](crate::Redirect) steers them to it.
//!
//! There is no time with a frame in copy mode, nor one that all drivers have in zero-copy mode: read the clock once for what one [`Port::receive`] is asked for. Such a
//! time is when the frame was read. It came earlier, by as much as it waited in the ring.
//!
//! # What is lost, and the kernel's word for it
//!
//! Found by experiment on Linux 6.18 in copy mode, where the tests of `tests/socket.rs` hold it, for a program that redirected a frame to a port:
//!
//! - The receive ring is full: [`Statistics::ring_full`] counts the frame, and nothing else does.
//! - No buffer is there to be filled: [`Statistics::dropped`] counts the frame, and [`Statistics::fill_empty`] the look into the empty fill ring. The same loss is in
//!   both, so that only one of them may be a term of a sum; a frame of several pieces, or a driver that asks ahead, need not have one look for each loss.
//! - The frame is longer than a buffer, and the port takes no pieces: [`Statistics::dropped`].
//!
//! So, of each queue, when no frame is under way: frames redirected (the program's count) = received (this end's count) + `dropped` + `ring_full` + those that lie in
//! the receive ring ([`Port::held`]). A frame that the program redirects while the port is being closed is in none of them: take the program off first. The kernel
//! writes down how far it has read the fill ring only when it looks for the next buffer, so that [`Buffers`] may tell a buffer there that it has taken already.

mod account;
mod config;
mod open;
mod receiving;
mod rings;
mod shared;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::XdpError;
use crate::sys::umem::{Buffer, Place, Umem};
use crate::sys::xsk::{CONTINUED, Descriptor, Socket};
pub use account::{Buffers, PortCounts, Statistics};
pub use config::{Copying, PortConfig};
use receiving::Receiving;
use rings::{Giving, Taking};
pub use shared::{Arrived, SharedBuffers};

/// Of each buffer for a frame that comes the kernel leaves so many bytes free in front.
const HEADROOM_BYTES: usize = 256;
/// Length of the shortest frame that is sent: the header of Ethernet, in bytes.
const FRAME_BYTES_MIN: usize = 14;

/// Why a frame was not taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// All buffers are on their way: a later [`Port::flush`] frees some.
    #[error("all buffers of the port are on their way")]
    Full,
    /// It is no Ethernet frame that a buffer has room for.
    #[error("a frame of {frame_bytes} bytes; from {least_bytes} to {most_bytes} are sent")]
    Length {
        /// Its length.
        frame_bytes: usize,
        /// The least.
        least_bytes: usize,
        /// The most.
        most_bytes: usize,
    },
    /// The function that was to write it did not.
    #[error("its bytes were not written")]
    Unfilled,
}

#[derive(Debug)]
struct Sending {
    ring: Giving<Descriptor>,
    free: Vec<Buffer>,
}

/// A socket for the frames of one queue of an interface.
#[derive(Debug)]
pub struct Port {
    // The socket is closed before its memory goes.
    socket: Socket,
    fill: Giving<u64>,
    completion: Taking<u64>,
    receiving: Option<Receiving>,
    sending: Option<Sending>,
    umem: Umem,
    counts: PortCounts,
    interface: String,
    number: u32,
    queue: u32,
    is_zero_copy: bool,
    takes_pieces: bool,
    /// Frames come into memory that others read.
    is_sharing: bool,
    /// Buffers of that memory that the kernel has, or which lie in its ring, and most of them.
    lent: u32,
    lent_max: u32,
}

impl Port {
    /// What its interface was called when it was opened.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    pub(crate) const fn interface_number(&self) -> u32 {
        self.number
    }

    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The queue that it has.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the driver reads and writes the port's memory itself.
    #[must_use]
    pub const fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// The longest frame that comes in one piece, in bytes. Longer ones come where [`takes_pieces`](Self::takes_pieces) says so.
    #[must_use]
    pub fn piece_bytes_max(&self) -> usize {
        self.umem.buffer_bytes() - HEADROOM_BYTES
    }

    /// Whether frames that are longer than a buffer come (Linux 6.6). If not, they are lost, and counted as [`Statistics::dropped`].
    #[must_use]
    pub const fn takes_pieces(&self) -> bool {
        self.takes_pieces
    }

    /// Frames, or pieces of frames, that are there now, and that [`receive`](Self::receive) will read.
    pub fn look(&mut self) -> u32 {
        self.receiving
            .as_mut()
            .map_or(0, |receiving| receiving.ring.look())
    }

    /// Reads at most so many of the frames, or pieces of frames, that the last [`look`](Self::look) saw, and visits each frame that is whole; gives their number. The
    /// bytes of each are there for its visit alone. Of a port with [`SharedBuffers`], [`take`](Self::take) reads them.
    pub fn receive(&mut self, most: u32, mut taken: impl FnMut(&[u8])) -> u64 {
        let before = self.counts.received;
        let Some(receiving) = self.receiving.as_mut().filter(|_| !self.is_sharing) else {
            return 0;
        };
        for _ in 0..most {
            let Some(descriptor) = receiving.ring.pop() else {
                break;
            };
            receiving.take(&mut self.umem, &mut self.counts, &descriptor, &mut taken);
        }
        receiving.ring.give_back();
        self.refill();
        self.counts.received - before
    }

    /// Lends the kernel all buffers that are free for frames that come.
    fn refill(&mut self) {
        let Some(receiving) = &mut self.receiving else {
            return;
        };
        if receiving.free.is_empty() {
            return;
        }
        // The kernel shows a frame before it says that it has read the place of its buffer, so that a ring with a place for each buffer may seem full.
        while self.fill.has_room()
            && let Some(buffer) = receiving.free.pop()
        {
            self.fill.push(self.umem.lend(buffer, Place::Receiving));
        }
        self.fill.show();
        if self.fill.needs_wakeup() {
            // What it says is told by the next call, too.
            let _ = self.socket.wake_receiver();
        }
    }

    /// Frames that lie in the receive ring.
    #[must_use]
    pub fn held(&self) -> u64 {
        let is_last = |piece: &Descriptor| piece.options & CONTINUED == 0;
        let count = |receiving: &Receiving| receiving.ring.there().filter(is_last).count();
        self.receiving.as_ref().map_or(0, count) as u64
    }

    /// Takes a copy of a frame for sending. The kernel sees it after [`flush`](Self::flush).
    ///
    /// # Errors
    /// All buffers are on their way, or the frame is too short or too long.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        self.send_with(frame.len(), &mut |place| {
            place.copy_from_slice(frame);
            true
        })
    }

    /// Takes a frame of so many bytes for sending, which `fill` writes to where it lies. The kernel sees it after [`flush`](Self::flush).
    ///
    /// # Errors
    /// All buffers are on their way, the frame is too short or too long, or `fill` gives false: then nothing of it is sent.
    pub fn send_with(
        &mut self,
        bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), NotSent> {
        let most_bytes = self.umem.buffer_bytes();
        if !(FRAME_BYTES_MIN..=most_bytes).contains(&bytes) {
            return Err(NotSent::Length {
                frame_bytes: bytes,
                least_bytes: FRAME_BYTES_MIN,
                most_bytes,
            });
        }
        let mut buffer = self.send_buffer().ok_or(NotSent::Full)?;
        let sending = self.sending.as_mut().ok_or(NotSent::Full)?;
        // The buffer may be back before the kernel says that it has read its place.
        if !sending.ring.has_room() {
            sending.free.push(buffer);
            return Err(NotSent::Full);
        }
        let place = self.umem.bytes_mut(&mut buffer, bytes);
        if !place.is_some_and(fill) {
            sending.free.push(buffer);
            return Err(NotSent::Unfilled);
        }
        let descriptor = Descriptor {
            address: self.umem.lend(buffer, Place::Sending),
            length: bytes as u32,
            options: 0,
        };
        sending.ring.push(descriptor);
        self.counts.sent += 1;
        self.counts.sent_octets += bytes as u64;
        Ok(())
    }

    fn send_buffer(&mut self) -> Option<Buffer> {
        if self.sending.as_ref()?.free.is_empty() {
            self.reap();
        }
        self.sending.as_mut()?.free.pop()
    }

    /// Takes back the buffers of frames that went.
    fn reap(&mut self) {
        let Some(sending) = &mut self.sending else {
            return;
        };
        self.completion.look();
        while let Some(address) = self.completion.pop() {
            if let Some((buffer, _)) = self.umem.take_back(address, Place::Sending) {
                sending.free.push(buffer);
                self.counts.completed += 1;
            }
        }
        self.completion.give_back();
    }

    /// Shows the kernel the frames that were taken for sending, and has it send them as long as it goes on; gives how many it has not looked at yet.
    ///
    /// # Errors
    /// The interface is down, or there no more.
    pub fn flush(&mut self) -> Result<u32, XdpError> {
        let Some(sending) = &mut self.sending else {
            return Ok(0);
        };
        sending.ring.show();
        loop {
            let waiting = sending.ring.waiting();
            if waiting == 0 || !sending.ring.needs_wakeup() {
                break;
            }
            match self.socket.wake_sender() {
                Ok(()) => {}
                Err(error) if is_later(&error) => {}
                Err(source) => {
                    return Err(XdpError::System {
                        call: "sendto(AF_XDP)",
                        target: self.interface.clone(),
                        source,
                    });
                }
            }
            // A call sends some 32 frames, or as many as its socket may have under way.
            if sending.ring.waiting() == waiting {
                break;
            }
        }
        let waiting = sending.ring.waiting();
        self.reap();
        Ok(waiting)
    }

    /// What this end has counted.
    #[must_use]
    pub const fn counts(&self) -> PortCounts {
        self.counts
    }

    /// What the kernel has counted.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn statistics(&self) -> Result<Statistics, XdpError> {
        let raw = self
            .socket
            .statistics()
            .map_err(|source| XdpError::System {
                call: "getsockopt(XDP_STATISTICS)",
                target: self.interface.clone(),
                source,
            })?;
        Ok(Statistics {
            dropped: raw.dropped,
            invalid_fill: raw.invalid_fill,
            invalid_send: raw.invalid_send,
            ring_full: raw.ring_full,
            fill_empty: raw.fill_empty,
            send_empty: raw.send_empty,
        })
    }

    /// Where its buffers are, by a census of them and by the rings. While frames move, what is between two rings may be off by those.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        let (lent, sent) = (
            self.umem.count(Place::Receiving),
            self.umem.count(Place::Sending),
        );
        let receiving = self.receiving.as_ref();
        let received = receiving.map_or(0, |receiving| receiving.ring.waiting().into());
        let fill = self.fill.waiting().into();
        let send = self
            .sending
            .as_ref()
            .map_or(0, |sending| sending.ring.waiting().into());
        let completed = self.completion.waiting().into();
        let free = receiving.map_or(0, |receiving| receiving.free.len())
            + self
                .sending
                .as_ref()
                .map_or(0, |sending| sending.free.len());
        Buffers {
            total: self.umem.total() as u64,
            free: free as u64,
            shared: self.umem.count(Place::Shared),
            fill,
            kernel_receiving: between(lent, [fill, received]),
            received,
            send,
            kernel_sending: between(sent, [send, completed]),
            completed,
        }
    }
}

/// Readable when a frame is there, or when the socket has an error: its interface is gone.
impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Buffers that the kernel has between two rings: those that are out, without those in one of both.
fn between(out: u64, [to, from]: [u64; 2]) -> u64 {
    out.saturating_sub(to + from)
}

/// The kernel has no room or no time now.
fn is_later(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_neither_ring_is_between_them() {
        let between = [(9, [2, 4]), (9, [4, 0]), (9, [9, 0]), (8, [4, 5])]
            .map(|(out, rings)| between(out, rings));
        assert_eq!(between, [3, 5, 0, 0]);
    }
}
