//! Rings of blocks of one length, without headers: a DMA buffer that a card writes and a program reads.
//!
//! It is a ring of the same kind as those of records: two memory files for the indices, one for the data, 64-bit positions that only grow, and each side
//! believes its own. A block never wraps.
//!
//! ```
//! use std::time::Duration;
//! use forebay_ring::{BlockConsumer, BlockProducer, BlockRingMemory, BlockRingSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = BlockRingSpec { name: "dma0".into(), block_bytes: 1024, blocks: 64, populate: false };
//! let memory = BlockRingMemory::create(&spec)?;
//! let mut card = BlockProducer::map(&spec, memory.producer_fds()?)?; // in the card's process
//! let mut reader = BlockConsumer::map(&spec, memory.consumer_fds()?)?; // in the reader's
//!
//! card.reserve()?.fill(7);
//! card.commit();
//! card.publish();
//! card.notify();
//!
//! assert!(reader.wait(Duration::from_secs(1))?);
//! assert_eq!(reader.look()?, 1);
//! assert_eq!(reader.block(0).ok_or("gone")?.to_vec(), [7; 1024]);
//! reader.take(1);
//! // … when nobody looks at it any more:
//! reader.release(reader.read_position());
//! reader.notify();
//! assert_eq!(card.free_blocks(), 64);
//! # Ok(())
//! # }
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::time::Duration;

use crate::bell::{Notifier, Waiter};
use crate::error::{Full, PeerFault, RingError, SpecFault};
use crate::index::{Head, Tail};
use crate::memory;
use crate::region::Region;
use crate::set::{RingParts, RingSetMemory, SIDE_FDS, Side, map_side};
use crate::spec::{CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, RingSetSpec};
use crate::view::View;

const BLOCKS: &str = "blocks";
const NO_FDS: RingError = RingError::Descriptors {
    expected: SIDE_FDS,
    found: 0,
};

/// Least bytes of a block.
pub const BLOCK_BYTES_MIN: u32 = 32;
/// Most bytes of a block: the least capacity of a ring.
pub const BLOCK_BYTES_MAX: u32 = CAPACITY_BYTES_MIN as u32;

/// The shape of a ring of blocks. Both sides get it from the one that made the memory; nothing of it is read from shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRingSpec {
    /// Shows up in `/proc/PID/maps`.
    pub name: String,
    /// Bytes of a block, a power of two from [`BLOCK_BYTES_MIN`] to [`BLOCK_BYTES_MAX`].
    pub block_bytes: u32,
    /// Blocks, a power of two; together from [`CAPACITY_BYTES_MIN`] to [`CAPACITY_BYTES_MAX`].
    pub blocks: u64,
    /// Fault all pages in when mapping.
    pub populate: bool,
}

impl BlockRingSpec {
    /// All bytes of the blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes.into())
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// A number is no power of two, or too small, or too large.
    pub fn validate(&self) -> Result<(), RingError> {
        let block_bytes = self.block_bytes;
        let fits = (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes);
        if !fits || !block_bytes.is_power_of_two() {
            return Err(self.refuse(SpecFault::BlockBytes {
                found: block_bytes,
                min: BLOCK_BYTES_MIN,
                max: BLOCK_BYTES_MAX,
            }));
        }
        let bytes = self.bytes();
        let fits = (CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX).contains(&bytes);
        if !fits || !self.blocks.is_power_of_two() {
            return Err(self.refuse(SpecFault::Blocks {
                found: self.blocks,
                min: CAPACITY_BYTES_MIN / u64::from(block_bytes),
                max: CAPACITY_BYTES_MAX / u64::from(block_bytes),
            }));
        }
        Ok(())
    }

    fn refuse(&self, fault: SpecFault) -> RingError {
        RingError::Spec {
            name: self.name.clone(),
            fault,
        }
    }

    fn as_set(&self) -> RingSetSpec {
        RingSetSpec {
            populate: self.populate,
            ..RingSetSpec::new(self.name.clone(), vec![self.bytes()], 0)
        }
    }
}

/// The memory of a ring of blocks. Its owner keeps it as long as either side may be started again.
#[derive(Debug)]
pub struct BlockRingMemory(RingSetMemory);

impl BlockRingMemory {
    /// Makes the memory; pages are allocated when first touched.
    ///
    /// # Errors
    /// The shape cannot be, or the system has not so much memory.
    pub fn create(spec: &BlockRingSpec) -> Result<Self, RingError> {
        spec.validate()?;
        RingSetMemory::create(&spec.as_set()).map(Self)
    }

    /// For the side that writes: see [`BlockProducer::map`].
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn producer_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        self.0.producer_fds()
    }

    /// For the side that reads: see [`BlockConsumer::map`].
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn consumer_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        self.0.consumer_fds()
    }
}

fn only(mut rings: Vec<RingParts>) -> Result<RingParts, RingError> {
    rings.pop().ok_or(RingError::Descriptors {
        expected: 1,
        found: 0,
    })
}

/// The side that writes blocks.
#[derive(Debug)]
pub struct BlockProducer {
    tail: Tail,
    parts: RingParts,
    block_bytes: u64,
    fault: Option<PeerFault>,
    data: Notifier,
    space: Waiter,
}

impl BlockProducer {
    /// Maps what [`BlockRingMemory::producer_fds`] gave, and goes on behind the last block that was published.
    ///
    /// # Errors
    /// A file has another size or no seals, or another producer has the ring.
    pub fn map(spec: &BlockRingSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        spec.validate()?;
        let set = map_side(&spec.as_set(), fds, Side::Producer)?;
        let parts = only(set.rings)?;
        Ok(Self {
            tail: Tail::new(parts.capacity, &parts.own),
            parts,
            block_bytes: spec.block_bytes.into(),
            fault: None,
            data: set.notifier,
            space: set.waiter,
        })
    }

    /// Memory of the next block, which nobody else sees. The same until it is committed.
    ///
    /// # Errors
    /// All blocks are unread, or the reader's index is one that cannot be.
    #[inline]
    pub fn reserve(&mut self) -> Result<&mut [u8], Full> {
        if self.tail.free() < self.block_bytes {
            self.make_room()?;
        }
        let offset = self.tail.private() & (self.parts.capacity - 1);
        // SAFETY: the offset is a multiple of the block's length within the ring, whose memory is mapped, and the block is free: the reader has released it, and
        // reads nothing that is not published.
        let bytes = unsafe {
            let at = self.parts.data.base().add(offset as usize);
            slice::from_raw_parts_mut(at.as_ptr(), self.block_bytes as usize)
        };
        Ok(bytes)
    }

    #[cold]
    fn make_room(&mut self) -> Result<(), Full> {
        self.reload()?;
        let free_bytes = self.tail.free();
        if free_bytes < self.block_bytes {
            return Err(Full::NoSpace {
                needed_bytes: self.block_bytes,
                free_bytes,
            });
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), Full> {
        if let Some(fault) = self.fault {
            return Err(Full::Peer(fault));
        }
        self.tail.reload(&self.parts.peer).map_err(|fault| {
            self.fault = Some(fault);
            Full::Peer(fault)
        })
    }

    /// The block that was reserved is complete. True unless there was none to reserve.
    #[inline]
    pub fn commit(&mut self) -> bool {
        let is_free = self.tail.free() >= self.block_bytes;
        if is_free {
            self.tail.advance(self.block_bytes);
        }
        is_free
    }

    /// Shows the reader everything that was committed.
    #[inline]
    pub fn publish(&mut self) {
        self.tail.publish(&self.parts.own);
    }

    /// After a batch: wakes the reader if it asked for it.
    pub fn notify(&self) -> bool {
        self.data.notify()
    }

    /// Blocks that are free as of now, of [`blocks`](Self::blocks); 0 where the reader's index is one that cannot be.
    pub fn free_blocks(&mut self) -> u64 {
        match self.reload() {
            Ok(()) => self.tail.free() / self.block_bytes,
            Err(_) => 0,
        }
    }

    /// All blocks of the ring.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.parts.capacity / self.block_bytes
    }

    /// Bytes of all blocks ever committed.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.tail.private()
    }

    /// What put this side into the error state.
    #[must_use]
    pub fn fault(&self) -> Option<PeerFault> {
        self.fault
    }

    /// Sleeps until blocks are released or the time is over; whether there is a free one.
    ///
    /// # Errors
    /// The reader's index is one that cannot be, or the system refuses to wait.
    pub fn wait_space(&mut self, most: Duration) -> Result<bool, RingError> {
        self.wait_blocks(1, most)
    }

    /// The same, and with the same errors, for so many free ones at a time; woken by fewer, or by a reader that reads no more, it returns.
    pub fn wait_blocks(&mut self, blocks: u64, most: Duration) -> Result<bool, RingError> {
        self.space.prepare();
        let over = self.free_blocks() >= blocks || self.fault.is_some() || self.is_read_no_more();
        let slept = (!over).then(|| self.space.sleep(most)).transpose();
        self.space.finish();
        slept?;
        let is_free = self.free_blocks() >= blocks;
        self.fault
            .map_or(Ok(is_free), |fault| Err(RingError::Peer { ring: 0, fault }))
    }

    /// Marks the end of the stream, after the last publish.
    pub fn close(&mut self) {
        self.parts.own.close();
    }

    /// Whether the reader has said that it reads no more.
    #[must_use]
    pub fn is_read_no_more(&self) -> bool {
        self.parts.peer.is_closed()
    }
}

/// The side that reads blocks. Two cursors: what was taken (private), and what was released, which may be written again.
#[derive(Debug)]
pub struct BlockConsumer {
    head: Head,
    parts: RingParts,
    block_bytes: u64,
    fault: Option<PeerFault>,
    space: Notifier,
    data: Waiter,
    /// Its memory, for reading.
    memory: OwnedFd,
}

impl BlockConsumer {
    /// Maps what [`BlockRingMemory::consumer_fds`] gave, and goes on at the first block that was not released.
    ///
    /// # Errors
    /// A file has another size or no seals, or another consumer has the ring.
    pub fn map(spec: &BlockRingSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        spec.validate()?;
        let memory = memory::duplicate(BLOCKS, fds.first().ok_or(NO_FDS)?)?;
        let set = map_side(&spec.as_set(), fds, Side::Consumer)?;
        let parts = only(set.rings)?;
        Ok(Self {
            head: Head::new(parts.capacity, &parts.own),
            parts,
            block_bytes: spec.block_bytes.into(),
            fault: None,
            space: set.notifier,
            data: set.waiter,
            memory,
        })
    }

    /// Its memory as a region, of which ranges can be shown to others: those of a block at [`offset`](Self::offset), as long as it is not released.
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn region(&self) -> Result<Region, RingError> {
        Region::foreign(
            memory::read_only(BLOCKS, &self.memory)?,
            self.parts.capacity,
        )
    }

    /// Looks what is there: blocks that are published and not taken.
    ///
    /// # Errors
    /// The writer's index is one that cannot be; it stays so.
    #[inline]
    pub fn look(&mut self) -> Result<u64, RingError> {
        let looked = self
            .fault
            .map_or_else(|| self.head.reload(&self.parts.peer), Err);
        let unread = self.head.unread();
        let uneven = unread % self.block_bytes;
        let looked = looked.and(if uneven == 0 {
            Ok(unread / self.block_bytes)
        } else {
            Err(PeerFault::IndexUneven {
                found: self.head.read().wrapping_add(unread),
                step: self.block_bytes,
            })
        });
        looked.map_err(|fault| {
            self.fault = Some(fault);
            RingError::Peer { ring: 0, fault }
        })
    }

    /// A block that is not taken, `ahead` blocks behind the next one; none if [`look`](Self::look) has not shown it.
    #[inline]
    #[must_use]
    pub fn block(&self, ahead: u64) -> Option<View<'_>> {
        let from = ahead.checked_mul(self.block_bytes)?;
        if from >= self.head.unread() {
            return None;
        }
        let at = self.head.read().wrapping_add(from);
        let offset = self.offset(at);
        // SAFETY: the offset is a multiple of the block's length within the ring, whose memory is mapped as long as `self` is borrowed.
        Some(unsafe {
            View::new(
                self.parts.data.base().add(offset as usize),
                self.block_bytes as usize,
            )
        })
    }

    /// Where a position lies in the ring's memory, in bytes from its begin.
    #[inline]
    #[must_use]
    pub fn offset(&self, position: u64) -> u64 {
        position & (self.parts.capacity - 1) & !(self.block_bytes - 1)
    }

    /// Moves the read cursor over so many blocks, at most those that were shown: how many it were.
    #[inline]
    pub fn take(&mut self, blocks: u64) -> u64 {
        let taken = blocks.min(self.head.unread() / self.block_bytes);
        self.head.advance(taken * self.block_bytes);
        taken
    }

    /// Gives everything before `position`, the end of a block, back to the writer. False, and nothing done, if it is not between what was released and what was
    /// taken.
    pub fn release(&mut self, position: u64) -> bool {
        position.is_multiple_of(self.block_bytes) && self.head.release(position, &self.parts.own)
    }

    /// After a batch of releases: wakes the writer if it asked for it.
    pub fn notify(&self) -> bool {
        self.space.notify()
    }

    /// Where the next block to be taken begins: bytes of all blocks ever taken.
    #[must_use]
    pub fn read_position(&self) -> u64 {
        self.head.read()
    }

    /// What was released.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.head.released()
    }

    /// Blocks that the writer cannot use now: taken or not, but not released.
    #[must_use]
    pub fn fill_blocks(&self) -> u64 {
        let known = self.head.read().wrapping_add(self.head.unread());
        let end = self.head.look(&self.parts.peer).unwrap_or(known);
        end.wrapping_sub(self.head.released()) / self.block_bytes
    }

    /// All blocks of the ring.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.parts.capacity / self.block_bytes
    }

    /// Says that this side reads no more, after the last release: what is unread stays so.
    pub fn close(&mut self) {
        self.parts.own.close();
        self.space.notify();
    }

    /// Whether the writer has ended the stream and everything was taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.parts.peer.is_closed() && self.head.look(&self.parts.peer) == Ok(self.head.read())
    }

    /// What put this side into the error state.
    #[must_use]
    pub fn fault(&self) -> Option<PeerFault> {
        self.fault
    }

    /// Asks to be woken by the next blocks: look again, and sleep on [the descriptor](AsFd) only if there are none.
    pub fn prepare_wait(&self) {
        self.data.prepare();
    }

    /// Awake again.
    pub fn finish_wait(&self) {
        self.data.finish();
    }

    /// Sleeps until there are blocks to take, or the end, or the time is over; whether there are blocks.
    ///
    /// # Errors
    /// The writer's index is one that cannot be, or the system refuses to wait.
    pub fn wait(&mut self, most: Duration) -> Result<bool, RingError> {
        self.data.prepare();
        let slept = match self.look() {
            Ok(0) if !self.is_closed() => self.data.sleep(most).map(drop),
            looked => looked.map(drop),
        };
        self.data.finish();
        slept?;
        Ok(self.look()? > 0)
    }
}

impl AsFd for BlockConsumer {
    /// For epoll: readable when the writer has woken this side, until [`finish_wait`](Self::finish_wait).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}
