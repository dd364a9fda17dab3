//! A clock that is off by an offset and a rate, and that may be set while it runs; the truth is known.

const PPB: i128 = 1_000_000_000;

/// From one setting of the clock to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    from_ns: u64,
    shown_ns: i128,
}

/// A clock. Between two settings it shows `offset + true time * (1 + skew)`, in whole ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffineClock {
    skew_ppb: i64,
    pieces: Vec<Piece>,
}

impl AffineClock {
    /// A clock that shows `offset_ns` at the true time 0 and gains `skew_ppb` ns in a second (above −10⁹). It shows 0 where it would be below.
    #[must_use]
    pub fn new(offset_ns: i64, skew_ppb: i64) -> Self {
        Self {
            skew_ppb: skew_ppb.max(1 - PPB as i64),
            pieces: vec![Piece {
                from_ns: 0,
                shown_ns: i128::from(offset_ns),
            }],
        }
    }

    /// What it shows at a true time.
    #[must_use]
    pub fn shows(&self, true_ns: u64) -> u64 {
        let at = self
            .pieces
            .partition_point(|piece| piece.from_ns <= true_ns);
        let piece = at.checked_sub(1).and_then(|at| self.pieces.get(at));
        let shown_ns = piece.map_or(0, |piece| self.shown(*piece, true_ns));
        u64::try_from(shown_ns.max(0)).unwrap_or(u64::MAX)
    }

    /// The first true time of the last setting at which it shows `local_ns` or more.
    #[must_use]
    pub fn truth(&self, local_ns: u64) -> u64 {
        let Some(piece) = self.pieces.last() else {
            return 0;
        };
        let ahead = i128::from(local_ns) - piece.shown_ns;
        if ahead <= 0 {
            return piece.from_ns;
        }
        // The inverse of the rounding down in `shown`.
        let rate = PPB + i128::from(self.skew_ppb);
        let since = (ahead * PPB + rate - 1) / rate;
        let true_ns = i128::from(piece.from_ns) + since;
        u64::try_from(true_ns).unwrap_or(u64::MAX)
    }

    /// Sets it forth or back by so much at a true time no earlier than that of the last setting.
    pub fn step(&mut self, true_ns: u64, by_ns: i64) {
        if let Some(piece) = self.pieces.last() {
            let shown_ns = self.shown(*piece, true_ns) + i128::from(by_ns);
            self.pieces.push(Piece {
                from_ns: true_ns.max(piece.from_ns),
                shown_ns,
            });
        }
    }

    fn shown(&self, piece: Piece, true_ns: u64) -> i128 {
        let since = i128::from(true_ns) - i128::from(piece.from_ns);
        piece.shown_ns + (since * (PPB + i128::from(self.skew_ppb))).div_euclid(PPB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Xoshiro256;

    #[test]
    fn offset_and_skew() {
        let clock = AffineClock::new(-5_000, 100_000);
        assert_eq!(clock.shows(0), 0, "no time is below 0");
        assert_eq!(clock.shows(10_000_000_000), 10_000_995_000);
        assert_eq!(clock.truth(10_000_995_000), 10_000_000_000);
        let slow = AffineClock::new(7, -100_000);
        assert_eq!(slow.shows(1_000_000_000), 999_900_007);
    }

    #[test]
    fn a_step_changes_what_it_shows_and_not_its_rate() {
        let mut clock = AffineClock::new(0, 50_000);
        clock.step(1_000_000_000, -1_000_000);
        assert_eq!(clock.shows(999_999_999), 1_000_049_998);
        assert_eq!(clock.shows(1_000_000_000), 999_050_000);
        assert_eq!(clock.shows(2_000_000_000), 1_999_100_000);
        assert_eq!(
            clock.truth(1_000_049_998),
            1_000_999_949,
            "the second time that it shows it"
        );
        assert_eq!(clock.truth(5), 1_000_000_000, "shown before the step only");
    }

    #[test]
    fn the_truth_is_the_first_time_at_which_it_is_shown() {
        for seed in 0..200 {
            let mut random = Xoshiro256::new(seed);
            let clock = AffineClock::new(
                random.below(1 << 50) as i64,
                random.below(1_000_000) as i64 - 500_000,
            );
            for _ in 0..50 {
                let local = clock.shows(0) + 1 + random.below(1 << 50);
                let truth = clock.truth(local);
                assert!(clock.shows(truth) >= local, "seed {seed}");
                assert!(clock.shows(truth - 1) < local, "seed {seed}");
            }
        }
    }
}
