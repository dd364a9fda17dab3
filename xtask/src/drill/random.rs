//! A small generator (splitmix64): all that is random in a round follows from the seed and the round's number.

use std::time::Duration;

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64, round: u64) -> Self {
        let mut random = Self(seed ^ round.wrapping_mul(0xd134_2543_de82_ef95));
        random.below(2);
        random
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// One of `from` to `to` milliseconds.
    pub(crate) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_repeats_and_differs_from_the_next_one() {
        let draw = |round| {
            let mut random = Random::of(7, round);
            [random.below(1000), random.below(1000), random.below(1000)]
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
