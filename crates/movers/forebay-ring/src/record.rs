//! The record: a header of 32 bytes, the payload, padding up to a multiple of 32.

use std::ptr::NonNull;

/// Bytes of a record's header.
pub const HEADER_BYTES: u64 = 32;

/// Records begin at multiples of this.
pub const RECORD_ALIGN: u64 = 32;

/// What travels with a payload, free for the users of the ring to define.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meta {
    /// Kind of record.
    pub tag: u32,
    /// Number of units in it (sub-events, events).
    pub items: u32,
    /// Flags.
    pub flags: u32,
    /// A time in nanoseconds, usually that of arrival.
    pub stamp_ns: u64,
}

/// A record that the consumer has found and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Position of the payload.
    pub position: u64,
    /// Bytes of the payload.
    pub len: u32,
    /// What came with it.
    pub meta: Meta,
    /// Position after the record: what `release` takes.
    pub end: u64,
}

/// What went through one end of a ring, counted there record by record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Records.
    pub records: u64,
    /// The units in them, by their [`Meta`].
    pub items: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Carried {
    /// Records, units and bytes, in this order.
    #[must_use]
    pub const fn counts(&self) -> [u64; 3] {
        [self.records, self.items, self.bytes]
    }

    #[inline]
    pub(crate) fn add(&mut self, items: u32, bytes: u32) {
        self.records += 1;
        self.items += u64::from(items);
        self.bytes += u64::from(bytes);
    }
}

/// Bytes that a record of `len` payload bytes takes in a ring.
#[inline]
pub const fn record_bytes(len: u64) -> u64 {
    HEADER_BYTES + len.next_multiple_of(RECORD_ALIGN)
}

/// The header as it lies in memory: four words in native order, both sides being on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) len: u32,
    pub(crate) meta: Meta,
    /// The record's own position: a record found elsewhere is not one.
    pub(crate) position: u64,
}

impl Header {
    /// # Safety
    /// `at` is 8-aligned and 32 bytes from there are writable and belong to this producer.
    #[inline]
    pub(crate) unsafe fn write(self, at: NonNull<u8>) {
        let words = [
            u64::from(self.len) | u64::from(self.meta.tag) << 32,
            u64::from(self.meta.items) | u64::from(self.meta.flags) << 32,
            self.meta.stamp_ns,
            self.position,
        ];
        // SAFETY: by the caller's promise.
        unsafe { at.cast::<[u64; 4]>().write(words) }
    }

    /// Each word is read once, whatever the producer does meanwhile.
    ///
    /// # Safety
    /// `at` is 8-aligned and 32 bytes from there are mapped.
    #[inline]
    pub(crate) unsafe fn read(at: NonNull<u8>) -> Self {
        let at = at.cast::<u64>();
        // SAFETY: by the caller's promise; volatile, so that the compiler neither reads a word twice nor assumes that it stays.
        let word = |i: usize| unsafe { at.add(i).read_volatile() };
        let (first, second) = (word(0), word(1));
        Header {
            len: first as u32,
            meta: Meta {
                tag: (first >> 32) as u32,
                items: second as u32,
                flags: (second >> 32) as u32,
                stamp_ns: word(2),
            },
            position: word(3),
        }
    }
}
