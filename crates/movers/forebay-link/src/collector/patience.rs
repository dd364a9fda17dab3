//! How long a collector that takes nothing is waited for at the end of a run. Told the time.

/// A collector that is away is waited for so long since it took something, in ns.
const QUIET_NS: u64 = 10_000_000_000;

/// The wait for one collector.
#[derive(Debug)]
pub struct Patience {
    /// What is left to take.
    left: usize,
    /// Since when that is so, in ns.
    since_ns: u64,
    /// The latest end, in ns.
    until_ns: u64,
}

impl Patience {
    /// Begins at `now_ns`, with so many records that wait, and ends at the latest at `until_ns`.
    #[must_use]
    pub const fn new(left: usize, now_ns: u64, until_ns: u64) -> Self {
        Self {
            left,
            since_ns: now_ns,
            until_ns,
        }
    }

    /// Whether a collector that has so many records left to take at `now_ns` is waited for no longer.
    pub fn is_over(&mut self, left: usize, now_ns: u64) -> bool {
        if left < self.left {
            (self.left, self.since_ns) = (left, now_ns);
        }
        now_ns >= self.until_ns.min(self.since_ns + QUIET_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// When a wait from second 1 on is over, in seconds, with so many records left at each second from 2 on, and none taken any more behind the last of them.
    fn over_s(begun: usize, left: &[usize], until_s: u64) -> u64 {
        let mut patience = Patience::new(begun, SECOND_NS, until_s * SECOND_NS);
        let last = left.last().copied().unwrap_or(begun);
        let all = left.iter().copied().chain(std::iter::repeat(last));
        let mut seconds = (2..).zip(all);
        let over = seconds.find(|(second, left)| patience.is_over(*left, second * SECOND_NS));
        over.unwrap().0
    }

    #[test]
    fn a_collector_has_ten_seconds_since_it_took_something_and_all_have_their_end() {
        assert_eq!(over_s(5, &[], 100), 11);
        assert_eq!(over_s(5, &[5, 5, 4, 4, 3, 3], 100), 16);
        // More may have come meanwhile, which is not that it took something.
        assert_eq!(over_s(5, &[5, 5, 6, 7], 100), 11);
        assert_eq!(over_s(100, &[90, 80, 70, 60, 50, 40, 30], 6), 6);
    }
}
