//! Whole trigger numbers from the low bits that chunks say, the same for all E-links.

/// Above what may be subtracted from the first number.
const MARGIN: u64 = 1;

/// One E-link.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// One more than its last number; 0 before its first.
    last: u64,
    /// The same before the last one, if that one did not follow it; else 0.
    trusted: u64,
}

/// Counts of all E-links of a reader: each unwraps its numbers by its own count, and the first one of each is the closest to where the first E-link began.
///
/// A single number that does not follow the one before, while the next one does, is taken as wrong: it costs no more than its own chunk. An E-link that loses as
/// many chunks in a row as the bits can tell apart is one round behind from then on: with 8 bits that are 256.
#[derive(Clone, Debug)]
pub struct Unwrap {
    bits: u32,
    links: Box<[Count]>,
    begun: usize,
    /// The first trigger that all E-links that have begun can have.
    first: u64,
    /// Where the first E-link began; 0 before.
    anchor: u64,
    /// The least number that the first one may have.
    least: u64,
    newest: u64,
    /// E-links begin together while the newest number is no farther from the anchor than this.
    window: u64,
}

impl Unwrap {
    /// For so many E-links, whose chunks say so many low bits of their number, 1 to 32.
    #[must_use]
    pub fn new(links: usize, bits: u32, window: u64) -> Self {
        Self {
            bits,
            links: vec![Count::default(); links].into(),
            begun: 0,
            first: 0,
            anchor: 0,
            least: MARGIN + (1 << bits),
            newest: 0,
            window,
        }
    }

    /// Goes on behind the number that was the newest before this life.
    pub fn resume(&mut self, newest: u64) {
        self.least = self.least.max(newest);
    }

    /// One more than the whole number of a chunk.
    #[inline]
    pub fn number(&mut self, link: usize, low: u32) -> u64 {
        let Count { last, .. } = self.links[link];
        let number = if last > 0 && self.ahead(last - 1, low) == 1 {
            self.links[link] = Count {
                last: last + 1,
                trusted: 0,
            };
            last + 1
        } else {
            self.step(link, low)
        };
        self.newest = self.newest.max(number);
        number
    }

    /// The first number of an E-link, or one that does not follow the one before.
    #[cold]
    fn step(&mut self, link: usize, low: u32) -> u64 {
        let Count { last, trusted } = self.links[link];
        let next = if last == 0 {
            let last = self.begin(low);
            Count { last, trusted: 0 }
        } else if trusted > 0 && self.ahead(trusted - 1, low) == 2 {
            let last = trusted + 2;
            Count { last, trusted: 0 }
        } else {
            let ahead = self.ahead(last - 1, low);
            Count {
                last: last + ahead,
                trusted: last,
            }
        };
        self.links[link] = next;
        next.last
    }

    /// How far the low bits are ahead of those of a number.
    #[inline]
    fn ahead(&self, of: u64, low: u32) -> u64 {
        u64::from(low).wrapping_sub(of) & ((1 << self.bits) - 1)
    }

    /// The first number of an E-link. E-links begin together, so it is the one closest to where the first of them began; an E-link that begins when that has left the
    /// window is where the newest is.
    fn begin(&mut self, low: u32) -> u64 {
        let round = 1 << self.bits;
        let closest = |to: u64| {
            let ahead = self.ahead(to - 1, low);
            let back = if ahead >= round / 2 { round } else { 0 };
            (to + ahead).saturating_sub(back).max(1)
        };
        let number = if self.begun == 0 {
            self.anchor = self.least + self.ahead(self.least - 1, low);
            self.anchor
        } else if self.anchor + self.window > self.newest {
            closest(self.anchor)
        } else {
            closest(self.newest)
        };
        self.begun += 1;
        self.first = self.first.max(number);
        number
    }

    /// Whether all E-links have begun.
    pub fn all_begun(&self) -> bool {
        self.begun == self.links.len()
    }

    /// The first trigger that all E-links that have begun can have.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The largest number so far; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The number that every E-link has reached that has begun; none before the first.
    pub fn reached(&self) -> Option<u64> {
        let begun = self.links.iter().map(|link| link.last);
        begun.filter(|last| *last > 0).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_over_the_end_of_their_bits_in_every_width() {
        for bits in [8, 16, 24, 32] {
            let round = 1_u64 << bits;
            let begin = round - 3;
            let mut unwrap = Unwrap::new(2, bits, 256);
            let low = |number: u64| (number & (round - 1)) as u32;
            let first = unwrap.number(0, low(begin));
            // The second E-link had begun two triggers earlier.
            assert_eq!(unwrap.number(1, low(begin - 2)), first - 2);
            for step in 1..10 {
                assert_eq!(unwrap.number(0, low(begin + step)), first + step);
            }
            assert_eq!((unwrap.first(), unwrap.newest()), (first, first + 9));
            assert_eq!(unwrap.reached(), Some(first - 2));
        }
    }

    #[test]
    fn a_number_that_is_wrong_costs_its_own_chunk_and_a_gap_is_a_gap() {
        let mut unwrap = Unwrap::new(1, 8, 256);
        let first = unwrap.number(0, 250);
        let mut number = |low: u8| unwrap.number(0, u32::from(low)) - first;
        assert_eq!([number(251), number(252)], [1, 2]);
        // In place of 253 something else comes once.
        assert_eq!(number(90), 96);
        assert_eq!([number(254), number(255)], [4, 5]);
        // 200 are lost.
        assert_eq!([number(200), number(201)], [206, 207]);
        assert_eq!([number(201), number(202), number(204)], [207, 208, 210]);
        assert_eq!(number(205), 211);
    }

    #[test]
    fn who_goes_on_after_a_restart_begins_behind_what_was_there() {
        let mut unwrap = Unwrap::new(2, 8, 256);
        unwrap.resume(100_000);
        let first = unwrap.number(0, 7);
        assert!((100_000..100_256).contains(&first) && (first - 1) as u8 == 7);
        assert_eq!(unwrap.number(1, 5), first - 2);
        assert!(unwrap.all_begun());
    }
}
