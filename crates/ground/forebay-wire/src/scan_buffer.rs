//! The bytes that a scanner holds: filled at the end, consumed at the front, moved down only when room runs out.

use alloc::vec::Vec;

/// A sliding window over a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct ScanBuffer {
    bytes: Vec<u8>,
    head: usize,
    tail: usize,
    /// The stream's offset of `head`.
    offset: u64,
}

impl ScanBuffer {
    /// The bytes that were filled and not consumed.
    pub(crate) fn held(&self) -> &[u8] {
        self.bytes.get(self.head..self.tail).unwrap_or_default()
    }

    /// The stream's offset of the first byte held.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Room of at least `least` bytes behind what is held.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.tail < least {
            self.bytes.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
            let needed = self.tail + least;
            if self.bytes.len() < needed {
                self.bytes.resize(needed.max(self.tail * 2), 0);
            }
        }
        &mut self.bytes[self.tail..]
    }

    /// The first `count` bytes of the room are data now; more than the room's length counts as all of it.
    pub(crate) fn filled(&mut self, count: usize) {
        self.tail = (self.tail + count).min(self.bytes.len());
    }

    /// Gives up the first `count` bytes and lends them out for the last time.
    pub(crate) fn consume(&mut self, count: usize) -> &[u8] {
        let start = self.head;
        let count = count.min(self.tail - start);
        self.head += count;
        self.offset += count as u64;
        &self.bytes[start..start + count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_come_out_as_they_went_in() {
        let mut buffer = ScanBuffer::default();
        buffer.room(4)[..4].copy_from_slice(&[0x20, 0, 0, 1]);
        buffer.filled(4);
        assert_eq!(buffer.consume(1), [0x20]);
        assert_eq!(buffer.held(), [0, 0, 1]);
        assert_eq!(buffer.consume(9), [0, 0, 1], "no more than is held");
    }

    #[test]
    fn holds_what_was_filled_and_not_consumed() {
        let mut buffer = ScanBuffer::default();
        for round in 0..100_u8 {
            let room = buffer.room(7);
            room[..7].fill(round);
            buffer.filled(7);
            if round % 2 == 1 {
                assert_eq!(buffer.consume(13)[0], round - 1);
                assert_eq!(buffer.consume(1), [round]);
            }
        }
        assert!(buffer.held().is_empty());
        assert_eq!(buffer.offset(), 700);
        assert!(buffer.bytes.len() < 64, "memory stays bounded");
    }
}
