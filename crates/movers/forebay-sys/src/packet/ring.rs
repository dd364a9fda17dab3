//! The ring of blocks that the kernel fills and this process gives back.

use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::MapFlags;

use super::socket::{ReceiveRing, set_plain};
use crate::SysError;
use crate::mapping::{Access, Pages};

/// Where the status of a block lies in it.
const STATUS_OFFSET: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
/// Where the number of its packets lies.
const PACKETS_OFFSET: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, num_pkts);
/// The pages that a block is made of, in bytes.
const PAGE_BYTES: u32 = 4_096;

/// How large a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSize {
    /// Bytes of a block: a power of two of at least 64 KiB, so that every frame of an ordinary interface fits.
    pub block_bytes: u32,
    /// Blocks, 2 at least.
    pub blocks: u32,
    /// A block that has a packet is handed over after so long, in ms, 1 at least.
    pub block_timeout_ms: u32,
}

impl RingSize {
    /// What the kernel is asked for; `frame_bytes` is of no meaning for this version of the ring but must divide a block.
    fn request(&self) -> Option<libc::tpacket_req3> {
        let is_right = self.block_bytes.is_power_of_two()
            && self.block_bytes >= 16 * PAGE_BYTES
            && self.blocks >= 2
            && self.block_timeout_ms >= 1;
        let frames = (self.block_bytes / PAGE_BYTES).checked_mul(self.blocks)?;
        is_right.then_some(libc::tpacket_req3 {
            tp_block_size: self.block_bytes,
            tp_block_nr: self.blocks,
            tp_frame_size: PAGE_BYTES,
            tp_frame_nr: frames,
            tp_retire_blk_tov: self.block_timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        })
    }

    /// All blocks, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.block_bytes as usize * self.blocks as usize
    }
}

/// The mapped ring of one socket.
#[derive(Debug)]
pub struct Ring {
    pages: Pages,
    block_bytes: usize,
    blocks: usize,
    /// The block that the kernel hands over next.
    next: usize,
}

impl ReceiveRing for Ring {
    type Size = RingSize;
    const VERSION: i32 = libc::tpacket_versions::TPACKET_V3 as i32;

    fn make(socket: BorrowedFd<'_>, size: RingSize) -> Result<Self, SysError> {
        let failed = |error: std::io::Error| {
            let what = format!("{} blocks of {} bytes", size.blocks, size.block_bytes);
            SysError::new("setsockopt(PACKET_RX_RING)", what, error)
        };
        let request = size.request().ok_or_else(|| {
            failed(std::io::ErrorKind::InvalidInput.into())
                .with_remedy("a block has a power of two of bytes, 64 KiB at least; there are two at least, and a time-out of 1 ms at least")
        })?;
        set_plain(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(|error| {
            failed(error).with_remedy("a smaller ring needs less memory of the kernel")
        })?;
        Self::map(socket, size)
    }

    fn held(&self) -> u64 {
        let mut held = 0;
        for block in 0..self.blocks {
            let packets = self.word(block, PACKETS_OFFSET).load(Ordering::Relaxed);
            held += u64::from(packets);
        }
        held
    }

    fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }
}

impl Ring {
    /// Maps the ring that `socket` was given.
    fn map(socket: impl AsFd, size: RingSize) -> Result<Self, SysError> {
        Ok(Self {
            pages: Pages::map(socket, size.bytes(), Access::ReadWrite, MapFlags::empty())?,
            block_bytes: size.block_bytes as usize,
            blocks: size.blocks as usize,
            next: 0,
        })
    }

    fn block_start(&self) -> *mut u8 {
        // SAFETY: `next` is below `blocks`, and `pages` has `blocks * block_bytes` bytes.
        unsafe { self.pages.start().add(self.next * self.block_bytes) }
    }

    /// A word of the head of a block.
    fn word(&self, block: usize, offset: usize) -> &AtomicU32 {
        let at = block % self.blocks * self.block_bytes + offset;
        // SAFETY: the word lies within a block, is aligned to 4 as blocks are to pages, and stays mapped as long as `self`
        // lives. The kernel writes it as a whole.
        unsafe { AtomicU32::from_ptr(self.pages.start().add(at).cast()) }
    }

    fn status(&self) -> &AtomicU32 {
        self.word(self.next, STATUS_OFFSET)
    }

    /// The next block, if the kernel has handed it over.
    pub fn take(&mut self) -> Option<Block<'_>> {
        self.is_ready().then(|| Block { ring: self })
    }
}

/// A block of packets, which is given back to the kernel when it is dropped.
#[derive(Debug)]
pub struct Block<'a> {
    ring: &'a mut Ring,
}

impl Deref for Block<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped and initialised by the kernel, which writes nothing to a block between the status that
        // `take` saw and the one that `drop` stores; this value borrows the ring alone, so that no other reference into it is there.
        unsafe { std::slice::from_raw_parts(self.ring.block_start(), self.ring.block_bytes) }
    }
}

impl DerefMut for Block<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.ring.block_start(), self.ring.block_bytes) }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let ring = &mut *self.ring;
        // The kernel counts anew when it begins the block; until then nothing is in it.
        ring.word(ring.next, PACKETS_OFFSET)
            .store(0, Ordering::Relaxed);
        ring.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        ring.next = (ring.next + 1) % ring.blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::sealed_memfd;

    const SIZE: RingSize = RingSize {
        block_bytes: 65_536,
        blocks: 2,
        block_timeout_ms: 1,
    };

    /// A ring that no kernel fills.
    fn ring() -> Ring {
        Ring::map(sealed_memfd("ring", SIZE.bytes() as u64).unwrap(), SIZE).unwrap()
    }

    #[test]
    fn blocks_come_in_turn_and_are_given_back_when_dropped() {
        let mut ring = ring();
        assert!(ring.take().is_none());
        for round in 0..5_u8 {
            ring.status().store(
                libc::TP_STATUS_USER | libc::TP_STATUS_BLK_TMO,
                Ordering::Release,
            );
            let mut block = ring.take().unwrap();
            assert_eq!(block.len(), 65_536);
            // What was written two blocks ago is there again.
            assert_eq!(block[100], round.saturating_sub(1));
            block[100] = round + 1;
            block[PACKETS_OFFSET..PACKETS_OFFSET + 4].copy_from_slice(&7_u32.to_ne_bytes());
            drop(block);
            assert!(!ring.is_ready());
            assert_eq!(ring.held(), 0);
            ring.word(ring.next, PACKETS_OFFSET)
                .store(3, Ordering::Relaxed);
            assert_eq!(ring.held(), 3);
        }
    }

    #[test]
    fn sizes_that_the_kernel_would_refuse_are_none() {
        let is_right = |size: RingSize| size.request().is_some();
        assert!(is_right(SIZE));
        for wrong in [
            RingSize {
                block_bytes: 65_535,
                ..SIZE
            },
            RingSize {
                block_bytes: 32_768,
                ..SIZE
            },
            RingSize { blocks: 1, ..SIZE },
            RingSize {
                blocks: u32::MAX,
                ..SIZE
            },
            RingSize {
                block_timeout_ms: 0,
                ..SIZE
            },
        ] {
            assert!(!is_right(wrong), "{wrong:?}");
        }
    }
}
