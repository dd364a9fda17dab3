//! How fast a capture is played.

/// When a datagram is due, by its capture stamp.
#[derive(Debug, Clone)]
pub struct Pace {
    speed_milli: u64,
    /// Stamp of the first datagram, and when it was taken.
    start: Option<(u64, u64)>,
}

impl Pace {
    /// Plays at `speed_milli` thousandths of the speed of the capture.
    #[must_use]
    pub fn new(speed_milli: u64) -> Self {
        let speed_milli = speed_milli.max(1);
        Self {
            speed_milli,
            start: None,
        }
    }

    /// When what is stamped `timestamp_ns` is due, by the clock of `now_ns`. The first one is due at once, and none before it.
    pub fn due_ns(&mut self, timestamp_ns: u64, now_ns: u64) -> u64 {
        let (first_ns, start_ns) = *self.start.get_or_insert((timestamp_ns, now_ns));
        let elapsed = u128::from(timestamp_ns.saturating_sub(first_ns)) * 1_000;
        let paced = elapsed / u128::from(self.speed_milli);
        start_ns.saturating_add(u64::try_from(paced).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_follows_the_stamps_and_never_goes_back() {
        let mut pace = Pace::new(500);
        assert_eq!(pace.due_ns(1_000, 77), 77);
        assert_eq!(pace.due_ns(2_000, 99), 77 + 2_000);
        assert_eq!(pace.due_ns(500, 99), 77);
        assert_eq!(Pace::new(0).due_ns(5, 9), 9);
    }
}
