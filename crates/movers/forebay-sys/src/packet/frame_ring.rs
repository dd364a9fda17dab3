//! The ring of frames that the kernel fills and this process gives back, one by one (`TPACKET_V2`).
//!
//! The kernel writes a frame and then its status, and wakes the thread that waits. When the next place is not free, it drops the frame: there is nothing to be told of later.

use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::MapFlags;

use super::socket::{ReceiveRing, set_plain};
use crate::SysError;
use crate::mapping::{Access, Pages};

const STATUS_OFFSET: usize = offset_of!(libc::tpacket2_hdr, tp_status);
/// Places of a block, so that those of all blocks lie one behind the other.
const BLOCK_FRAMES: u32 = 64;
/// Places are a multiple of so many bytes: those of a block are whole pages then, of up to 64 KiB.
const STEP_BYTES: u32 = 1024;
/// What the kernel may put in front of a frame, in bytes: its head, the sender's address, the room that was asked for, and alignment.
const HEAD_BYTES: u32 = 96;
/// So many free places in a row behind the next one are the end of those that wait: a frame that one CPU writes may be behind one of another CPU that is ready.
const GAP_FRAMES: usize = 16;

/// How large a ring of frames is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRingSize {
    /// Bytes of the longest frame that comes whole, 1 to 65,536.
    pub frame_bytes: u32,
    /// Places for frames, a multiple of 64.
    pub frames: u32,
}

impl FrameRingSize {
    /// Bytes of a place.
    const fn place_bytes(&self) -> u32 {
        (self.frame_bytes + HEAD_BYTES).next_multiple_of(STEP_BYTES)
    }

    /// What the kernel is asked for.
    fn request(&self) -> Option<libc::tpacket_req> {
        let is_right = (1..=1 << 16).contains(&self.frame_bytes)
            && self.frames > 0
            && self.frames.is_multiple_of(BLOCK_FRAMES);
        is_right.then(|| libc::tpacket_req {
            tp_block_size: self.place_bytes() * BLOCK_FRAMES,
            tp_block_nr: self.frames / BLOCK_FRAMES,
            tp_frame_size: self.place_bytes(),
            tp_frame_nr: self.frames,
        })
    }

    const fn bytes(&self) -> usize {
        self.place_bytes() as usize * self.frames as usize
    }
}

/// The mapped ring of one socket.
#[derive(Debug)]
pub struct FrameRing {
    pages: Pages,
    place_bytes: usize,
    frames: usize,
    /// The place that the kernel fills next, of those that were not taken.
    next: usize,
}

impl ReceiveRing for FrameRing {
    type Size = FrameRingSize;
    const VERSION: i32 = libc::tpacket_versions::TPACKET_V2 as i32;

    fn make(socket: BorrowedFd<'_>, size: FrameRingSize) -> Result<Self, SysError> {
        let failed = |error: std::io::Error| {
            let what = format!("{} frames of {} bytes", size.frames, size.frame_bytes);
            SysError::new("setsockopt(PACKET_RX_RING)", what, error)
        };
        let request = size.request().ok_or_else(|| {
            failed(std::io::ErrorKind::InvalidInput.into()).with_remedy(
                "a frame has 1 to 65,536 bytes, and there is a multiple of 64 places for them",
            )
        })?;
        set_plain(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(|error| {
            failed(error).with_remedy("a smaller ring needs less memory of the kernel")
        })?;
        Self::map(socket, size)
    }

    #[inline]
    fn is_ready(&self) -> bool {
        self.is_full(self.next)
    }

    fn held(&self) -> u64 {
        let mut held = 0;
        for place in 0..self.frames {
            held += u64::from(self.is_full(place));
        }
        held
    }
}

impl FrameRing {
    /// Maps the ring that `socket` was given.
    fn map(socket: impl AsFd, size: FrameRingSize) -> Result<Self, SysError> {
        Ok(Self {
            pages: Pages::map(socket, size.bytes(), Access::ReadWrite, MapFlags::empty())?,
            place_bytes: size.place_bytes() as usize,
            frames: size.frames as usize,
            next: 0,
        })
    }

    fn place_start(&self, place: usize) -> *mut u8 {
        // A division is dear, and hardly ever due.
        let place = if place < self.frames {
            place
        } else {
            place % self.frames
        };
        // SAFETY: `place` is below `frames`, and `pages` has `frames * place_bytes` bytes.
        unsafe { self.pages.start().add(place * self.place_bytes) }
    }

    #[inline]
    fn status(&self, place: usize) -> &AtomicU32 {
        // SAFETY: the word lies within a place, is aligned to 4 as places are to 64, and stays mapped as long as `self` lives. The kernel writes it as a whole.
        unsafe { AtomicU32::from_ptr(self.place_start(place).add(STATUS_OFFSET).cast()) }
    }

    /// Whether a place has a frame that was not given back.
    #[inline]
    fn is_full(&self, place: usize) -> bool {
        self.status(place).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Frames from the next one on that wait to be taken: those alone are looked at.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let (mut waiting, mut gap) = (0, 0);
        for place in self.next..self.next + self.frames {
            if self.is_full(place) {
                waiting += 1;
                gap = 0;
            } else {
                gap += 1;
            }
            if gap == GAP_FRAMES {
                break;
            }
        }
        waiting
    }

    /// The next frame, if the kernel has handed it over.
    #[inline]
    pub fn take(&mut self) -> Option<Slot<'_>> {
        self.is_ready().then(|| Slot { ring: self })
    }
}

/// A frame in its place, with its head, which is given back to the kernel when it is dropped.
#[derive(Debug)]
pub struct Slot<'a> {
    ring: &'a mut FrameRing,
}

impl Deref for Slot<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.ring.place_start(self.ring.next);
        // SAFETY: the bytes are mapped and initialised by the kernel, which writes nothing to a place between the status that `take` saw and the one that `drop`
        // stores; this value borrows the ring alone, so that no other reference into it is there.
        unsafe { std::slice::from_raw_parts(start, self.ring.place_bytes) }
    }
}

impl DerefMut for Slot<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.ring.place_start(self.ring.next);
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(start, self.ring.place_bytes) }
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        let ring = &mut *self.ring;
        ring.status(ring.next)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        ring.next += 1;
        if ring.next == ring.frames {
            ring.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::sealed_memfd;

    const SIZE: FrameRingSize = FrameRingSize {
        frame_bytes: 1_518,
        frames: 64,
    };

    /// A ring that no kernel fills.
    fn ring() -> FrameRing {
        FrameRing::map(sealed_memfd("ring", SIZE.bytes() as u64).unwrap(), SIZE).unwrap()
    }

    fn fill(ring: &FrameRing, place: usize) {
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_LOSING;
        ring.status(place).store(status, Ordering::Release);
    }

    #[test]
    fn frames_come_in_turn_and_are_given_back_when_dropped() {
        let mut ring = ring();
        assert!(ring.take().is_none());
        for round in 0..200_u8 {
            assert_eq!((ring.held(), ring.waiting()), (0, 0));
            fill(&ring, usize::from(round));
            fill(&ring, usize::from(round) + 1);
            assert_eq!((ring.held(), ring.waiting()), (2, 2));
            let mut slot = ring.take().unwrap();
            assert_eq!(slot.len(), 2_048);
            // What was written a lap ago is there again.
            assert_eq!(slot[100], round.saturating_sub(64));
            slot[100] = round;
            drop(slot);
            assert_eq!((ring.held(), ring.is_ready()), (1, true));
            ring.status(usize::from(round) + 1)
                .store(libc::TP_STATUS_KERNEL, Ordering::Relaxed);
            assert!(!ring.is_ready());
        }
    }

    #[test]
    fn a_frame_behind_one_that_is_being_written_waits_and_one_that_was_passed_is_held() {
        let mut ring = ring();
        fill(&ring, 1);
        assert_eq!(
            (ring.is_ready(), ring.waiting(), ring.held()),
            (false, 1, 1)
        );
        fill(&ring, 0);
        drop(ring.take());
        drop(ring.take());
        fill(&ring, 0);
        assert_eq!((ring.is_ready(), ring.held()), (false, 1));
    }

    #[test]
    fn sizes_that_the_kernel_would_refuse_are_none() {
        let is_right = |size: FrameRingSize| size.request().is_some();
        assert!(is_right(SIZE));
        for frame_bytes in [0, 65_537, u32::MAX] {
            assert!(!is_right(FrameRingSize {
                frame_bytes,
                ..SIZE
            }));
        }
        for frames in [0, 1, 65] {
            assert!(!is_right(FrameRingSize { frames, ..SIZE }));
        }
        let request = SIZE.request().unwrap();
        assert_eq!(request.tp_block_size % 4_096, 0);
        assert_eq!(request.tp_block_size, request.tp_frame_size * 64);
        assert_eq!(request.tp_block_nr * 64, request.tp_frame_nr);
    }
}
