//! The first sub-event of each source that is not consumed, laid open.

use forebay_wire::subevent::{SubEventHeader, TriggerBits};

/// Key of a source that shows no sub-event.
pub(crate) const NO_HEAD: u64 = u64::MAX;

/// No trigger number: they have at most 24 bits.
const NO_TRIGGER: u32 = u32::MAX;

/// `size` rounded up to the container's alignment of 8 bytes.
#[inline]
pub(crate) fn padded(size: u32) -> u32 {
    size.saturating_add(7) & !7
}

/// All that a complete event touches of one source, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Head {
    /// Its header as it was read and checked: the queue's memory may change later.
    pub(crate) raw: [u8; 16],
    /// Its position in the source's queue.
    pub(crate) at: u64,
    /// Receive stamp of its message.
    pub(crate) stamp_ns: u64,
    /// Bytes that went into events and are not yet in the book.
    pub(crate) built_bytes: u64,
    /// Sub-events that went into events and are not yet in the book.
    pub(crate) built_items: u32,
    /// Bytes up to the next sub-event.
    pub(crate) padded: u32,
    /// Bytes of its message from its start on.
    pub(crate) room: u32,
    /// Sub-events of its message from itself on, as the receiver counted them.
    pub(crate) left: u32,
    last: u32,
    pub(crate) data_error: bool,
    /// Its decoding word is one that no reader can follow.
    pub(crate) odd_decoding: bool,
}

impl Head {
    const NONE: Self = Self {
        raw: [0; 16],
        at: 0,
        stamp_ns: 0,
        built_bytes: 0,
        built_items: 0,
        padded: 0,
        room: 0,
        left: 0,
        last: NO_TRIGGER,
        data_error: false,
        odd_decoding: false,
    };

    /// Trigger number last built or given up from this source.
    #[inline]
    pub(crate) fn last(&self) -> Option<u32> {
        (self.last != NO_TRIGGER).then_some(self.last)
    }

    #[inline]
    pub(crate) fn set_last(&mut self, trigger: Option<u32>) {
        self.last = trigger.unwrap_or(NO_TRIGGER);
    }

    /// The header's words; `None` when no head was ever read.
    pub(crate) fn header(&self) -> Option<SubEventHeader> {
        SubEventHeader::parse(&self.raw).ok()
    }
}

/// Heads of all sources; the keys in a column of their own, so that one pass over it finds a complete event.
#[derive(Debug)]
pub(crate) struct Heads {
    pub(crate) key: Vec<u64>,
    pub(crate) of: Vec<Head>,
    bits: TriggerBits,
    tag_mask: u64,
}

impl Heads {
    pub(crate) fn new(sources: usize, bits: TriggerBits, check_tag: bool) -> Self {
        let tag_mask = if check_tag { 0xff } else { 0 };
        Self {
            key: vec![NO_HEAD; sources],
            of: vec![Head::NONE; sources],
            bits,
            tag_mask,
        }
    }

    /// Takes `raw`, at the place that the head of `source` points to, as its header. False when it
    /// cannot be true or does not end within its message.
    #[inline]
    pub(crate) fn show(&mut self, source: usize, raw: [u8; 16]) -> bool {
        let Ok(header) = SubEventHeader::parse(&raw) else {
            return false;
        };
        let head = &mut self.of[source];
        let padded = padded(header.size);
        if padded > head.room {
            return false;
        }
        head.raw = raw;
        head.padded = padded;
        head.data_error = header.has_data_error();
        head.odd_decoding = header.has_odd_decoding();
        self.key[source] = self.key_of(header.trigger_word);
        true
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
        (key != NO_HEAD).then_some(trigger_of(key))
    }

    /// Tag of the head of `source`, checked or not.
    pub(crate) fn tag(&self, source: usize) -> u8 {
        self.of[source].header().map_or(0, |header| header.tag())
    }

    /// The key that every source shows, if they all show the same.
    #[inline]
    pub(crate) fn agreed(&self) -> Option<u64> {
        let first = *self.key.first()?;
        let differences = self.key.iter().fold(0, |seen, key| seen | (key ^ first));
        (differences == 0 && first != NO_HEAD).then_some(first)
    }
}

/// The trigger number in a key.
#[inline]
pub(crate) fn trigger_of(key: u64) -> u32 {
    (key >> 8) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_complete_event_touches_is_one_cache_line() {
        assert_eq!(size_of::<Head>(), 64);
    }
}
