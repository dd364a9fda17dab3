//! Where things lie in a receive arena.
//!
//! ```text
//! 0        control words (magic, slots, armed, tag)        one page
//! 4096     mmsghdr[slots]     64 B each, written by the kernel
//!          iovec[slots]       16 B each
//!          meta[slots]        address 32 B, control messages 96 B
//! page     scratch[slots]     SLOT_STRIDE_BYTES each
//! ```

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::ancillary::CONTROL_BYTES;
use super::recv::{BatchMode, BatchTag};

/// The largest datagram a scratch slot holds; a UDP payload is at most 65,507 bytes over IPv4.
pub const SLOT_CAPACITY_BYTES: usize = 65_536;

/// From one scratch slot to the next: an odd number of cache lines, so that slots do not share cache sets.
pub const SLOT_STRIDE_BYTES: usize = SLOT_CAPACITY_BYTES + 192;

pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const NAME_BYTES: usize = 32;
pub(crate) const META_STRIDE_BYTES: usize = 128;
const HEADER_BYTES: usize = size_of::<libc::mmsghdr>();
const IOVEC_BYTES: usize = size_of::<libc::iovec>();

const _: () = assert!(NAME_BYTES + CONTROL_BYTES <= META_STRIDE_BYTES);
const _: () = assert!(SLOT_STRIDE_BYTES / 64 % 2 == 1 && SLOT_STRIDE_BYTES.is_multiple_of(64));

/// Offsets of an arena's parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) slots: usize,
    pub(crate) headers: usize,
    pub(crate) iovecs: usize,
    pub(crate) meta: usize,
    pub(crate) scratch: usize,
    pub(crate) bytes: usize,
}

impl Layout {
    pub(crate) const fn of(slots: usize) -> Self {
        let headers = PAGE_BYTES;
        let iovecs = headers + slots * HEADER_BYTES;
        let meta = (iovecs + slots * IOVEC_BYTES).next_multiple_of(64);
        let scratch = (meta + slots * META_STRIDE_BYTES).next_multiple_of(PAGE_BYTES);
        let bytes = (scratch + slots * SLOT_STRIDE_BYTES).next_multiple_of(PAGE_BYTES);
        Self {
            slots,
            headers,
            iovecs,
            meta,
            scratch,
            bytes,
        }
    }
}

/// How large the memfd of a receive arena with `slots` slots (1 to 1,024) must be.
#[must_use]
pub const fn arena_bytes(slots: usize) -> u64 {
    Layout::of(slots).bytes as u64
}

const MAGIC: u64 = u64::from_le_bytes(*b"fbrecv01");

const WORD_MAGIC: usize = 0;
const WORD_SLOTS: usize = 1;
const WORD_ARMED: usize = 2;
const WORD_ARMED_SLOTS: usize = 3;
const WORD_BATCH_ID: usize = 4;
const WORD_SOCKET: usize = 5;
const WORD_CALLER: usize = 6;
/// Number of words that the control page uses.
pub(crate) const CONTROL_WORDS: usize = 8;

/// The control words of an arena: what is armed, and for which socket and caller.
///
/// The order of stores matters for a process that is killed between two of them, hence atomics and compiler fences;
/// no other thread reads them meanwhile.
pub(crate) struct ControlPage<'a>(pub(crate) &'a [AtomicU64]);

impl ControlPage<'_> {
    fn load(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }

    /// Tells whether the arena was never used.
    pub(crate) fn is_fresh(&self) -> bool {
        self.load(WORD_MAGIC) == 0
    }

    /// Tells whether the arena was laid out for so many slots by this version.
    pub(crate) fn fits(&self, slots: usize) -> bool {
        self.load(WORD_MAGIC) == MAGIC && self.load(WORD_SLOTS) == slots as u64
    }

    pub(crate) fn initialise(&self, slots: usize) {
        self.store(WORD_SLOTS, slots as u64);
        self.store(WORD_ARMED, 0);
        compiler_fence(Ordering::SeqCst);
        self.store(WORD_MAGIC, MAGIC);
    }

    pub(crate) fn disarm(&self) {
        self.store(WORD_ARMED, 0);
        compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn arm(&self, mode: BatchMode, slots: usize, tag: BatchTag) {
        self.store(WORD_BATCH_ID, tag.batch_id);
        self.store(WORD_SOCKET, u64::from(tag.socket));
        self.store(WORD_CALLER, tag.words[0]);
        self.store(WORD_CALLER + 1, tag.words[1]);
        self.store(WORD_ARMED_SLOTS, slots as u64);
        compiler_fence(Ordering::SeqCst);
        self.store(WORD_ARMED, mode.word());
        compiler_fence(Ordering::SeqCst);
    }

    /// What is armed: the mode, how many slots, the tag.
    pub(crate) fn armed(&self) -> Option<(BatchMode, usize, BatchTag)> {
        let mode = BatchMode::of_word(self.load(WORD_ARMED))?;
        let slots = usize::try_from(self.load(WORD_ARMED_SLOTS)).ok()?;
        let tag = BatchTag {
            batch_id: self.load(WORD_BATCH_ID),
            socket: u32::try_from(self.load(WORD_SOCKET)).ok()?,
            words: [self.load(WORD_CALLER), self.load(WORD_CALLER + 1)],
        };
        Some((mode, slots, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        for slots in [1, 7, 64, 1024] {
            let layout = Layout::of(slots);
            assert!(layout.headers + slots * HEADER_BYTES <= layout.iovecs);
            assert!(layout.iovecs + slots * IOVEC_BYTES <= layout.meta);
            assert!(layout.meta + slots * META_STRIDE_BYTES <= layout.scratch);
            assert!(layout.scratch + slots * SLOT_STRIDE_BYTES <= layout.bytes);
            assert_eq!(arena_bytes(slots) % PAGE_BYTES as u64, 0);
        }
    }
}
