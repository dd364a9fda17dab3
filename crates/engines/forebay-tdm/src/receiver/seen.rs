//! Which packets of one sender have come: a window of bits over their numbers, as wide as what is open.

/// Numbers that the window covers: half a second of the smallest packets at 100 Gb/s.
pub(super) const COVERED: u64 = 1 << 22;
/// What it covers at first: windows of most plans.
const COVERED_FIRST: u64 = 1 << 12;
const BITS: u64 = u64::BITS as u64;

/// What a packet's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is new.
    New,
    /// It came before.
    Again,
    /// Its window is closed.
    Late,
    /// It lies beyond what is covered.
    Ahead,
    /// It cannot belong to its window, by what is known of others.
    Contradiction,
}

/// What is missing of a range, by its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// In front of the first that came.
    pub(super) before: u64,
    /// Between those that came.
    pub(super) inside: u64,
    /// Behind the last that came.
    pub(super) tail: u64,
    /// All of it.
    pub(super) whole: u64,
}

#[derive(Debug)]
pub(super) struct Seen {
    words: Vec<u64>,
    /// All below it are closed.
    base: u64,
    /// The one after the highest that came.
    next: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            words: vec![0; (COVERED_FIRST / BITS) as usize],
            base: 0,
            next: 0,
        }
    }
}

impl Seen {
    pub(super) const fn base(&self) -> u64 {
        self.base
    }

    /// The one after the highest that came.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Numbers that it covers now.
    const fn covered(&self) -> u64 {
        self.words.len() as u64 * BITS
    }

    /// Covers so many numbers, and more, from its base on.
    #[cold]
    fn widen(&mut self, numbers: u64) {
        let (before, covered) = (self.covered(), numbers.next_power_of_two().min(COVERED));
        let mut words = vec![0; (covered / BITS) as usize];
        for packet in self.base..self.next {
            let ((from, bit), (to, _)) = (place(packet, before), place(packet, covered));
            if let (Some(from), Some(to)) = (self.words.get(from), words.get_mut(to)) {
                *to |= from & bit;
            }
        }
        self.words = words;
    }

    pub(super) fn mark(&mut self, packet: u64) -> Mark {
        if packet < self.base {
            return Mark::Late;
        }
        if packet - self.base >= COVERED {
            return Mark::Ahead;
        }
        if packet - self.base >= self.covered() {
            self.widen(packet - self.base + 1);
        }
        let (at, bit) = place(packet, self.covered());
        let Some(word) = self.words.get_mut(at) else {
            return Mark::Ahead;
        };
        if *word & bit != 0 {
            return Mark::Again;
        }
        *word |= bit;
        self.next = self.next.max(packet + 1);
        Mark::New
    }

    /// Closes all numbers below `end`, and counts what is missing of them.
    pub(super) fn close(&mut self, end: u64) -> Missing {
        let mut missing = Missing::default();
        let mut run = 0;
        let mut any = false;
        let width = self.covered();
        let covered = end.min(self.base.saturating_add(width));
        let mut at = self.base;
        while at < covered {
            let (index, _) = place(at, width);
            let bits = (BITS - at % BITS).min(covered - at);
            let mask = if bits == BITS {
                u64::MAX
            } else {
                ((1 << bits) - 1) << (at % BITS)
            };
            let Some(word) = self.words.get_mut(index) else {
                break;
            };
            let came = *word & mask;
            *word &= !mask;
            if came == mask {
                // The common case: all of them came.
                if any {
                    missing.inside += run;
                } else {
                    missing.before = run;
                }
                (run, any) = (0, true);
            } else if came == 0 {
                run += bits;
            } else {
                for bit in 0..bits {
                    if came >> (at % BITS + bit) & 1 == 0 {
                        run += 1;
                        continue;
                    }
                    if any {
                        missing.inside += run;
                    } else {
                        missing.before = run;
                    }
                    (run, any) = (0, true);
                }
            }
            at += bits;
        }
        run += end.saturating_sub(covered.max(self.base));
        if any {
            missing.tail = run;
        } else {
            missing.whole = run;
        }
        self.base = self.base.max(end);
        self.next = self.next.max(self.base);
        missing
    }
}

const fn place(packet: u64, covered: u64) -> (usize, u64) {
    ((packet % covered / BITS) as usize, 1 << (packet % BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_place_has_its_count() {
        let mut seen = Seen::default();
        for packet in [2, 3, 5, 6] {
            assert_eq!(seen.mark(packet), Mark::New);
        }
        assert_eq!(seen.mark(3), Mark::Again);
        assert_eq!(seen.mark(COVERED), Mark::Ahead);
        let missing = seen.close(10);
        assert_eq!(
            missing,
            Missing {
                before: 2,
                inside: 1,
                tail: 3,
                whole: 0
            }
        );
        assert_eq!(seen.mark(9), Mark::Late);
        assert_eq!(seen.close(20).whole, 10);
        assert_eq!(seen.mark(COVERED), Mark::New);
        assert_eq!((seen.base(), seen.next()), (20, COVERED + 1));
    }

    #[test]
    fn it_is_as_wide_as_what_is_open_and_keeps_what_came() {
        let mut seen = Seen::default();
        assert_eq!(seen.words.len() * 8, 512);
        for packet in (0..COVERED_FIRST).step_by(3) {
            assert_eq!(seen.mark(packet), Mark::New);
        }
        assert_eq!(seen.mark(5 * COVERED_FIRST), Mark::New);
        assert_eq!(seen.covered(), 8 * COVERED_FIRST);
        for packet in (0..COVERED_FIRST).step_by(3) {
            assert_eq!(seen.mark(packet), Mark::Again);
            assert_eq!(seen.mark(packet + 1), Mark::New);
        }
        seen.close(COVERED_FIRST);
        assert_eq!(seen.mark(5 * COVERED_FIRST), Mark::Again);
        // Far numbers make it no wider than it may be.
        assert_eq!(seen.mark(COVERED_FIRST + COVERED - 1), Mark::New);
        assert_eq!(seen.mark(COVERED_FIRST + COVERED), Mark::Ahead);
        assert_eq!(seen.covered(), COVERED);
    }

    #[test]
    fn a_range_that_is_longer_than_what_is_covered_is_missing_as_a_whole() {
        let mut seen = Seen::default();
        seen.mark(0);
        assert_eq!(seen.close(3 * COVERED).tail, 3 * COVERED - 1);
        assert_eq!(seen.mark(3 * COVERED), Mark::New);
    }

    proptest! {
        /// Against a set of numbers.
        #[test]
        fn it_counts_what_a_set_counts(steps in prop::collection::vec((prop_oneof![0_u64..500, 0_u64..20_000], 0_u64..400), 1..60)) {
            let mut seen = Seen::default();
            let mut set = BTreeSet::new();
            let mut base = 0;
            for (packet, close) in steps {
                let packet = base + packet;
                let expected = if set.insert(packet) { Mark::New } else { Mark::Again };
                prop_assert_eq!(seen.mark(packet), expected);
                if close < 200 {
                    let end = base + close;
                    let came: Vec<u64> = set.range(base..end).copied().collect();
                    let missing = seen.close(end);
                    match (came.first(), came.last()) {
                        (Some(first), Some(last)) => {
                            prop_assert_eq!(missing.before, first - base);
                            prop_assert_eq!(missing.tail, end - 1 - last);
                            prop_assert_eq!(missing.inside, last - first + 1 - came.len() as u64);
                            prop_assert_eq!(missing.whole, 0);
                        }
                        _ => prop_assert_eq!(missing, Missing { whole: close, ..Missing::default() }),
                    }
                    set = set.split_off(&end);
                    base = end;
                }
            }
        }
    }
}
