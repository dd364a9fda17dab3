//! What waits of each source: messages in order of arrival, and the head sub-event laid open.

use std::collections::VecDeque;

use forebay_wire::hadtu::ByteOrder;
use forebay_wire::subevent::SubEventHeader;

use forebay_wire::subevent::TriggerBits;

/// One HADTU message in a source's queue: where its sub-events lie and how many the receiver counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Position of the first sub-event in the source's queue, in bytes.
    pub at: u64,
    /// Bytes of all sub-events, padding included.
    pub len: u32,
    /// Number of sub-events that the receiver found.
    pub items: u32,
    /// Position to free the queue up to when the message is consumed.
    pub end: u64,
    /// When the kernel received the message, in ns of the receiver's stamp clock; 0 when unknown.
    pub stamp_ns: u64,
}

/// Where the engine reads the bytes of its sources. Memory that another process may write:
/// the engine reads a header once, believes only its own copy, and checks every length.
pub trait Input {
    /// The 16 bytes at `at` in the queue of `source`, or `None` outside the queue.
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]>;
    /// Copies the bytes at `at` into `into`; false (and `into` unspecified) outside the queue.
    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool;
    /// Hints that `len` bytes at `at` will be read soon.
    fn prefetch(&self, _source: usize, _at: u64, _len: usize) {}
}

/// Key of a source that shows no sub-event.
pub(crate) const NO_HEAD: u64 = u64::MAX;

/// The first sub-event of a source that is not consumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) header: SubEventHeader,
    pub(crate) at: u64,
}

impl Head {
    /// Stands where a source shows nothing; never read while its key is [`NO_HEAD`].
    pub(crate) const NONE: Self = Self {
        header: SubEventHeader {
            size: 16,
            decoding: 1,
            id: 0,
            trigger_word: 0,
            order: ByteOrder::NATIVE,
        },
        at: 0,
    };

    /// Bytes up to the next sub-event.
    #[inline]
    pub(crate) fn padded(&self) -> u32 {
        padded(self.header.size)
    }
}

/// `size` rounded up to the container's alignment of 8 bytes.
#[inline]
pub(crate) fn padded(size: u32) -> u32 {
    size.saturating_add(7) & !7
}

/// A message with the time the engine first saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) message: Message,
    pub(crate) arrived_ns: u64,
}

/// What is known of one source apart from its head.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) messages: VecDeque<Arrived>,
    /// Consumed bytes of the first message.
    pub(crate) offset: u32,
    /// Sub-events of the first message still to come, as the receiver counted them.
    pub(crate) left: u32,
    /// Sub-events and bytes waiting.
    pub(crate) held_items: u64,
    pub(crate) held_bytes: u64,
    /// Trigger number last consumed.
    pub(crate) last: Option<u32>,
    /// Waited for in vain, and nothing came since.
    pub(crate) silent: bool,
    /// Nothing will come any more.
    pub(crate) closed: bool,
    /// Its queue is nearly full.
    pub(crate) pressed: bool,
    /// Since when its head is far ahead of all others.
    pub(crate) far_since_ns: Option<u64>,
    /// Position up to which the queue may be freed.
    pub(crate) released: u64,
    /// Position up to which messages were taken in.
    pub(crate) pulled: u64,
}

/// Heads of all sources, in columns, so that one pass over a column decides a complete event.
#[derive(Debug)]
pub(crate) struct Heads {
    pub(crate) key: Vec<u64>,
    pub(crate) head: Vec<Head>,
    bits: TriggerBits,
    tag_mask: u64,
}

impl Heads {
    pub(crate) fn new(sources: usize, bits: TriggerBits, check_tag: bool) -> Self {
        let tag_mask = if check_tag { 0xff } else { 0 };
        Self {
            key: vec![NO_HEAD; sources],
            head: vec![Head::NONE; sources],
            bits,
            tag_mask,
        }
    }

    /// Trigger number and (when checked) tag of a header, as one number.
    #[inline]
    pub(crate) fn key_of(&self, trigger_word: u32) -> u64 {
        let trigger = (trigger_word >> 8) & self.bits.mask();
        (u64::from(trigger) << 8) | (u64::from(trigger_word) & self.tag_mask)
    }

    /// Trigger number of the head of `source`.
    #[inline]
    pub(crate) fn trigger(&self, source: usize) -> Option<u32> {
        let key = self.key[source];
        (key != NO_HEAD).then_some((key >> 8) as u32)
    }

    /// The key that every source shows, if they all show the same.
    #[inline]
    pub(crate) fn agreed(&self) -> Option<u64> {
        let first = *self.key.first()?;
        let differences = self.key.iter().fold(0, |seen, key| seen | (key ^ first));
        (differences == 0 && first != NO_HEAD).then_some(first)
    }
}
