//! What a sub-event carries: words, and in a TRB3's case sub-sub-events, `count << 16 | address` and `count` words each.

use core::slice::ChunksExact;

use crate::unit::ByteOrder;

/// Address of the sub-sub-event that ends the payload of a TRB3: one word, its status.
pub const STATUS_ADDRESS: u16 = 0x5555;

/// The payload words of a sub-event, in its byte order.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    chunks: ChunksExact<'a, u8>,
    order: ByteOrder,
}

impl<'a> Words<'a> {
    /// Cuts a payload into words of 1, 2 or 4 bytes (8 counts as 4).
    pub(crate) fn new(payload: &'a [u8], word_bytes: usize, order: ByteOrder) -> Self {
        let chunks = payload.chunks_exact(word_bytes.clamp(1, 4));
        Self { chunks, order }
    }
}

impl Iterator for Words<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        match *self.chunks.next()? {
            [a, b, c, d] => Some(self.order.u32([a, b, c, d])),
            [a, b] => Some(u32::from(self.order.u16([a, b]))),
            [a] => Some(u32::from(a)),
            _ => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl ExactSizeIterator for Words<'_> {}

/// One sub-sub-event: the data of one board behind the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubSubEvent<'a> {
    /// The board's address; [`STATUS_ADDRESS`] for the status.
    pub address: u16,
    /// Its words' bytes, in the sub-event's order.
    pub payload: &'a [u8],
}

/// Walks over the sub-sub-events of a payload; ends where a count exceeds what is left.
#[derive(Clone, Debug)]
pub struct SubSubEvents<'a> {
    words: &'a [u8],
    order: ByteOrder,
}

impl<'a> SubSubEvents<'a> {
    pub(crate) const fn new(payload: &'a [u8], order: ByteOrder) -> Self {
        Self {
            words: payload,
            order,
        }
    }
}

impl<'a> Iterator for SubSubEvents<'a> {
    type Item = SubSubEvent<'a>;

    fn next(&mut self) -> Option<SubSubEvent<'a>> {
        let (head, rest) = self.words.split_first_chunk()?;
        let head = self.order.u32(*head);
        let (payload, rest) = rest.split_at_checked((head >> 16) as usize * 4)?;
        self.words = rest;
        Some(SubSubEvent {
            address: head as u16,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subevent::SubEvent;
    use std::vec::Vec;

    #[test]
    fn golden_sub_sub_events() {
        let mut bytes = std::vec![0, 0, 0, 0x24, 0, 2, 0, 0xd1, 0, 0, 0x80, 0, 0, 0, 1, 7];
        bytes.extend([0, 2, 0xc0, 0, 0, 0, 0, 1, 0, 0, 0, 2]); // two words of board 0xc000
        bytes.extend([0, 1, 0x55, 0x55, 0, 0, 0, 1]); // status 1
        let sub = SubEvent::new_checked(&bytes).unwrap();
        let parts: Vec<_> = sub
            .sub_sub_events()
            .map(|s| (s.address, s.payload.len()))
            .collect();
        assert_eq!(parts, [(0xc000, 8), (STATUS_ADDRESS, 4)]);
        assert_eq!(sub.status_word(), Some(1));
    }

    #[test]
    fn a_count_beyond_the_end_ends_the_walk() {
        let payload = [0, 0, 0, 1, 0, 2, 0, 2, 0, 0, 0, 0];
        let parts: Vec<_> = SubSubEvents::new(&payload, ByteOrder::Big).collect();
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].address, parts[0].payload.len()), (1, 0));
    }

    #[test]
    fn words_leave_out_what_is_not_whole() {
        let payload = [1, 2, 3, 4, 5];
        let words = |bytes| Words::new(&payload, bytes, ByteOrder::Big).collect::<Vec<_>>();
        assert_eq!(words(1), [1, 2, 3, 4, 5]);
        assert_eq!(words(2), [0x0102, 0x0304]);
        assert_eq!(words(4), [0x0102_0304]);
        assert_eq!(words(8), [0x0102_0304]);
    }
}
