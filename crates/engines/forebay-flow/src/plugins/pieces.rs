//! A fixed number of buffers in which the begin of a stream is put together from pieces that come in any order.

/// Bytes of a stream that are kept.
pub(super) const PIECES_BYTES: usize = 4096;
/// Pieces with gaps between them, at most.
const RANGES_MAX: usize = 24;
/// Buffers of a plugin, at most.
const BUFFERS_MAX: usize = 1024;
/// No buffer.
pub(super) const NO_BUFFER: u16 = u16::MAX;

/// The begin of one stream.
#[derive(Clone, Debug)]
struct Pieces {
    bytes: Box<[u8]>,
    /// What is there, from and to, in order and apart from each other.
    ranges: Vec<(u16, u16)>,
}

impl Pieces {
    fn new() -> Self {
        Self {
            bytes: vec![0; PIECES_BYTES].into(),
            ranges: Vec::with_capacity(RANGES_MAX + 1),
        }
    }

    /// Puts in what has room; whether it was remembered.
    fn put(&mut self, offset: usize, piece: &[u8]) -> bool {
        if offset >= PIECES_BYTES || piece.is_empty() {
            return true;
        }
        let piece = &piece[..piece.len().min(PIECES_BYTES - offset)];
        let (mut from, mut to) = (offset as u16, (offset + piece.len()) as u16);
        let meets = |&(a, b): &(u16, u16)| a <= to && from <= b;
        let begin = self.ranges.iter().take_while(|(_, b)| *b < from).count();
        let met = self.ranges[begin..].iter().take_while(|r| meets(r)).count();
        if met == 0 && self.ranges.len() >= RANGES_MAX {
            return false;
        }
        self.bytes[offset..offset + piece.len()].copy_from_slice(piece);
        for (a, b) in self.ranges.drain(begin..begin + met) {
            (from, to) = (from.min(a), to.max(b));
        }
        self.ranges.insert(begin, (from, to));
        true
    }

    /// The begin without a gap.
    fn begin(&self) -> &[u8] {
        match self.ranges.first() {
            Some(&(0, to)) => &self.bytes[..usize::from(to)],
            _ => &[],
        }
    }
}

/// The buffers of one plugin. 4 KiB each; a flow that finds none free gets none.
#[derive(Debug)]
pub(super) struct Pool {
    all: Vec<Pieces>,
    free: Vec<u16>,
}

impl Pool {
    /// Makes a buffer for each of so many flows, 1,024 at most.
    pub(super) fn new(places: usize) -> Self {
        let buffers = places.min(BUFFERS_MAX);
        Self {
            all: vec![Pieces::new(); buffers],
            free: (0..buffers as u16).rev().collect(),
        }
    }

    /// Takes a buffer, unless there is one, and puts a piece into it; the begin so far, or none without a buffer and where there are too many pieces.
    pub(super) fn put(&mut self, buffer: &mut u16, offset: usize, piece: &[u8]) -> Option<&[u8]> {
        if *buffer == NO_BUFFER {
            *buffer = self.free.pop()?;
            self.all[usize::from(*buffer)].ranges.clear();
        }
        let pieces = &mut self.all[usize::from(*buffer)];
        pieces.put(offset, piece).then(|| pieces.begin())
    }

    /// Gives a buffer back.
    pub(super) fn give_back(&mut self, buffer: &mut u16) {
        if *buffer != NO_BUFFER {
            self.free.push(*buffer);
            *buffer = NO_BUFFER;
        }
    }

    #[cfg(test)]
    pub(super) const fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buffers_are_bounded_and_come_back() {
        let mut pool = Pool::new(2);
        let mut buffers = [NO_BUFFER; 3];
        assert_eq!(pool.put(&mut buffers[0], 0, b"a"), Some(&b"a"[..]));
        assert_eq!(pool.put(&mut buffers[1], 1, b"b"), Some(&b""[..]));
        assert_eq!(pool.put(&mut buffers[2], 0, b"c"), None);
        pool.give_back(&mut buffers[0]);
        assert_eq!(buffers[0], NO_BUFFER);
        assert_eq!(pool.put(&mut buffers[2], 0, b"c"), Some(&b"c"[..]));
        assert_eq!(pool.put(&mut buffers[1], 0, b"a"), Some(&b"ab"[..]));
        assert_eq!(pool.free(), 0);
    }

    #[test]
    fn more_gaps_than_there_is_room_for_are_told() {
        let mut pool = Pool::new(1);
        let mut buffer = NO_BUFFER;
        for n in 1..=RANGES_MAX {
            assert!(pool.put(&mut buffer, n * 2, b"x").is_some());
        }
        assert_eq!(pool.put(&mut buffer, 2 * RANGES_MAX + 2, b"x"), None);
        assert_eq!(pool.put(&mut buffer, 0, b"abcd"), Some(&b"abcdx"[..]));
    }

    proptest! {
        /// Against a map of the bytes that came.
        #[test]
        fn pieces_in_any_order_make_the_stream(
            pieces in proptest::collection::vec((0..4200_usize, 0..900_usize), 0..20),
        ) {
            let stream: Vec<u8> = (0..6000_u32).map(|n| (n * 7 % 251) as u8).collect();
            let mut pool = Pool::new(1);
            let mut buffer = NO_BUFFER;
            let mut is_there = vec![false; PIECES_BYTES];
            for (offset, bytes) in pieces {
                let begin = pool.put(&mut buffer, offset, &stream[offset..offset + bytes]);
                let to = (offset + bytes).min(PIECES_BYTES);
                is_there[offset.min(to)..to].fill(true);
                let expected = is_there.iter().take_while(|there| **there).count();
                prop_assert_eq!(begin, Some(&stream[..expected]));
            }
        }
    }
}
