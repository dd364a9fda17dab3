//! Pseudorandom bit sequences of ITU-T O.150: a shift register each, whose new bit is the sum of two of its bits.

/// A sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prbs {
    order: u32,
    tap: u32,
    state: u32,
}

impl Prbs {
    /// The sequence of this order, from a state; none when there is no such order. A state without a one would never leave it.
    pub(super) fn new(order: u64, state: u32) -> Option<Self> {
        let tap = match order {
            7 => 6,
            15 => 14,
            23 => 18,
            31 => 28,
            _ => return None,
        };
        let order = order as u32;
        let state = state & (u32::MAX >> (32 - order));
        (state != 0).then_some(Self { order, tap, state })
    }

    /// The next bit.
    pub(super) fn bit(&mut self) -> bool {
        let bit = (self.state >> (self.order - 1) ^ self.state >> (self.tap - 1)) & 1;
        self.state = (self.state << 1 | bit) & (u32::MAX >> (32 - self.order));
        bit == 1
    }
}

/// Bits that a checker compares before it says that it has found the sequence.
const PROOF_BITS: u32 = 256;
/// Of them so many may be wrong.
const WRONG_MOST: u32 = 8;

/// Whether a checker finds the sequence in what comes: it takes as many bits as the register has, and compares the next ones. From then on it goes its own way, so
/// that each wrong bit counts once: what it finds is the sum of the two sequences, which is that of the errors alone.
pub(super) fn is_found(order: u64, mut bits: impl FnMut() -> bool) -> bool {
    let state = (0..order.min(32)).fold(0, |state: u32, _| state << 1 | u32::from(bits()));
    let Some(mut own) = Prbs::new(order, state) else {
        return false;
    };
    let wrong = (0..PROOF_BITS).filter(|_| own.bit() != bits()).count();
    wrong as u32 <= WRONG_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_have_the_whole_period() {
        for order in [7, 15, 23] {
            let begin = Prbs::new(order, 1).unwrap();
            let mut prbs = begin;
            let mut ones = 0_u32;
            let mut period = 0_u32;
            loop {
                ones += u32::from(prbs.bit());
                period += 1;
                if prbs == begin {
                    break;
                }
            }
            assert_eq!(period, (1 << order) - 1, "PRBS{order}");
            assert_eq!(ones, 1 << (order - 1));
        }
    }

    /// x^7 + x^6 + 1, from a register full of ones: after them come six zeros and a one.
    #[test]
    fn prbs7_begins_as_its_polynomial_says() {
        let mut prbs = Prbs::new(7, 0x7f).unwrap();
        let bits: Vec<u8> = (0..14).map(|_| u8::from(prbs.bit())).collect();
        assert_eq!(bits, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_checker_finds_its_sequence_and_no_other() {
        for order in [7, 15, 23, 31] {
            let mut sent = Prbs::new(order, 0x1234_5677).unwrap();
            assert!(is_found(order, || sent.bit()));
            assert!(!is_found(order, || false), "silence is no sequence");
            assert!(!is_found(order, || true));
        }
        let mut other = Prbs::new(15, 99).unwrap();
        assert!(!is_found(31, || other.bit()));
        assert!(Prbs::new(9, 1).is_none() && Prbs::new(31, 0).is_none());
    }

    /// That errors may be counted instead of bits compared.
    #[test]
    fn a_checker_that_goes_its_own_way_counts_each_wrong_bit_once() {
        let mut sent = Prbs::new(31, 77).unwrap();
        let mut own = sent;
        let wrong = (0..100_000_u32).filter(|n| {
            let flips = n % 997 == 5;
            own.bit() != (sent.bit() ^ flips)
        });
        assert_eq!(wrong.count(), 101);
    }
}
