//! What is missing of a sender's stream, in bytes.

use std::collections::VecDeque;

/// Holes that are kept while they may still be filled; beyond it the oldest counts as lost.
const HOLES_MAX: usize = 4096;

/// Bytes of a stream that did not come. For each start of a sender what came and what is told here is the whole stream from its first byte on: what
/// it sent to another session, or before it came back into this one, is a range at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The sender's index.
    pub sender: u16,
    /// Which start of the sender under its name, from 0.
    pub restarts: u32,
    /// Where it begins in the stream.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// The holes of one stream.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// The end of what came furthest.
    next: u64,
    /// In order, none touching another: begin and end.
    holes: VecDeque<(u64, u64)>,
    lost: VecDeque<(u32, u64, u64)>,
    start: u32,
}

impl Gaps {
    /// The stream of another start, from its first byte on: nothing of the one before comes any more.
    pub(super) fn restart(&mut self) {
        self.close(u64::MAX);
        self.start += 1;
        self.next = 0;
    }

    /// The stream begins at `offset` here.
    pub(super) fn begin(&mut self, offset: u64) {
        self.lose(self.next, offset);
        self.next = self.next.max(offset);
    }

    fn lose(&mut self, begin: u64, end: u64) {
        if begin < end {
            self.lost.push_back((self.start, begin, end));
        }
    }

    /// Bytes came that were not there before.
    pub(super) fn came(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        if offset >= self.next {
            if offset > self.next {
                self.holes.push_back((self.next, offset));
                if self.holes.len() > HOLES_MAX
                    && let Some((begin, end)) = self.holes.pop_front()
                {
                    self.lose(begin, end);
                }
            }
            self.next = end;
            return;
        }
        // One that was overtaken: it fills a hole, or a part of one.
        let at = self
            .holes
            .partition_point(|(_, hole_end)| *hole_end <= offset);
        let Some(&(begin, hole_end)) = self.holes.get(at) else {
            return;
        };
        if begin >= end {
            return;
        }
        self.holes.remove(at);
        if end < hole_end {
            self.holes.insert(at, (end, hole_end));
        }
        if begin < offset {
            self.holes.insert(at, (begin, offset));
        }
    }

    /// Nothing that ends below `offset` comes any more.
    pub(super) fn close(&mut self, offset: u64) {
        while let Some(&(begin, end)) = self.holes.front() {
            if end >= offset {
                break;
            }
            self.holes.pop_front();
            self.lose(begin, end);
        }
    }

    /// The stream is so long, and nothing more comes.
    pub(super) fn end(&mut self, length: u64) {
        self.close(u64::MAX);
        self.begin(length);
    }

    /// Holes that may still be filled, and those that were not taken.
    pub(super) fn waiting(&self) -> usize {
        self.holes.len() + self.lost.len()
    }

    /// The end of what came furthest.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// The next range that is lost for good: of which start, its begin and its end.
    pub(super) fn poll(&mut self) -> Option<(u32, u64, u64)> {
        self.lost.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever order pieces come in: at the end exactly those that did not come are lost.
        #[test]
        fn what_did_not_come_is_lost(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle(), lost in 0..40_usize, piece in 1_u64..100) {
            let mut gaps = Gaps::default();
            let (came, missing) = order.split_at(40 - lost);
            for at in came {
                gaps.came(at * piece, piece);
            }
            gaps.end(40 * piece);
            let mut bytes = vec![false; (40 * piece) as usize];
            while let Some((_, begin, end)) = gaps.poll() {
                for byte in &mut bytes[begin as usize..end as usize] {
                    prop_assert!(!std::mem::replace(byte, true), "told twice");
                }
            }
            for at in 0..40 {
                let is_lost = bytes[(at * piece) as usize..((at + 1) * piece) as usize].iter().all(|lost| *lost);
                prop_assert_eq!(is_lost, missing.contains(&at));
            }
        }
    }

    #[test]
    fn each_start_of_a_stream_is_told_from_its_first_byte_on() {
        let mut gaps = Gaps::default();
        gaps.begin(1_000);
        gaps.came(1_000, 10);
        gaps.came(1_020, 10);
        gaps.restart();
        gaps.begin(0);
        gaps.came(10, 10);
        gaps.end(30);
        let told: Vec<_> = std::iter::from_fn(|| gaps.poll()).collect();
        assert_eq!(
            told,
            [(0, 0, 1_000), (0, 1_010, 1_020), (1, 0, 10), (1, 20, 30)]
        );
    }

    #[test]
    fn a_stream_with_endless_holes_keeps_no_more_than_the_limit() {
        let mut gaps = Gaps::default();
        for at in 0..3 * HOLES_MAX as u64 {
            gaps.came(2 * at + 1, 1);
        }
        assert_eq!(gaps.holes.len(), HOLES_MAX);
        let mut told = 0;
        while gaps.poll().is_some() {
            told += 1;
        }
        assert_eq!(told, 2 * HOLES_MAX);
    }
}
