//! How fast records go to a collector that nothing holds back: by a rate, and faster where records would wait too long. Told the time.

/// Records in a second: nfcapd loses none of so many.
const RECORDS_HZ: u64 = 20_000;
/// No record waits longer than this for its turn, in ns; records are exported within 1 s of their time-out, and other things have their part of that.
const WAIT_NS: u64 = 500_000_000;
/// What comes late by so much is caught up with, in ns: a sleep is never exact.
const SLACK_NS: u64 = 5_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The pace of one collector.
#[derive(Debug)]
pub struct Pace {
    /// When the next message may go.
    next_ns: u64,
    records_hz: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// The first message may go at once.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next_ns: 0,
            records_hz: RECORDS_HZ,
        }
    }

    /// So many records wait, and none of them shall wait too long: the pace rises with them, and falls when all are gone.
    pub fn load(&mut self, waiting: usize) {
        let wanted_hz = waiting as u64 * SECOND_NS / WAIT_NS;
        self.records_hz = match waiting {
            0 => RECORDS_HZ,
            _ => self.records_hz.max(wanted_hz),
        };
    }

    /// When the next message may go, ns.
    #[must_use]
    pub const fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// A message with so many records went, at this time in ns.
    pub fn went(&mut self, now_ns: u64, records: usize) {
        let from_ns = self.next_ns.max(now_ns.saturating_sub(SLACK_NS));
        self.next_ns = from_ns + records as u64 * SECOND_NS / self.records_hz;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Records of a message.
    const MESSAGE: usize = 18;
    /// An exporter wakes up so late at most, in ns.
    const LATE_NS: u64 = 300_000;

    /// How long the records waited at most, in ns, and when the last one went. `came` says how many come in each millisecond.
    fn played(came: &[usize]) -> (u64, u64) {
        let (mut pace, mut waiting) = (Pace::new(), VecDeque::new());
        let (mut longest_ns, mut last_ns) = (0, 0);
        for step in 0..1_000_000 {
            let now_ns = SECOND_NS + step * LATE_NS;
            let ms = ((step * LATE_NS) / 1_000_000) as usize;
            let before = step.checked_sub(1).map(|step| (step * LATE_NS) / 1_000_000);
            if before != Some(ms as u64) {
                let more = came.get(ms).copied().unwrap_or(0);
                waiting.extend((0..more).map(|_| now_ns));
            }
            if ms >= came.len() && waiting.is_empty() {
                break;
            }
            pace.load(waiting.len());
            while !waiting.is_empty() && pace.next_ns() <= now_ns {
                let records = MESSAGE.min(waiting.len());
                for came_ns in waiting.drain(..records) {
                    longest_ns = longest_ns.max(now_ns - came_ns);
                }
                pace.went(now_ns, records);
                pace.load(waiting.len());
                last_ns = now_ns;
            }
        }
        assert!(waiting.is_empty());
        (longest_ns, last_ns - SECOND_NS)
    }

    #[test]
    fn what_comes_at_the_rate_goes_at_the_rate_and_hardly_waits() {
        let (longest_ns, last_ns) = played(&vec![20; 10_000]);
        assert!(longest_ns < 20_000_000, "{longest_ns}");
        assert!(
            (9_990_000_000..10_050_000_000).contains(&last_ns),
            "{last_ns}"
        );
    }

    #[test]
    fn a_burst_is_spread_and_no_record_of_it_waits_too_long() {
        // Less than the rate would let through in that time: it goes by the rate.
        let (_, last_ns) = played(&[8_000]);
        assert!((390_000_000..410_000_000).contains(&last_ns), "{last_ns}");
        for came in [
            vec![20_000],
            vec![100_000],
            vec![1_000_000],
            vec![100; 3_000],
            vec![1_000; 2_000],
        ] {
            let (longest_ns, _) = played(&came);
            assert!(
                longest_ns <= WAIT_NS + SLACK_NS,
                "{:?}: {longest_ns}",
                (came[0], came.len())
            );
        }
    }

    #[test]
    fn a_pace_that_rose_stays_until_all_are_gone_and_then_falls() {
        let mut pace = Pace::new();
        // How long 1000 records take, in ns.
        let mut took_ns = |waiting, now_ns| {
            pace.load(waiting);
            pace.went(now_ns, 1_000);
            pace.next_ns() - (now_ns - SLACK_NS)
        };
        let taken = [100_000, 1, 0, 1].iter().zip(1_u64..);
        let taken: Vec<_> = taken
            .map(|(waiting, second)| took_ns(*waiting, second * SECOND_NS))
            .collect();
        // At 200 000 records in a second, and at 20 000.
        assert_eq!(taken, [5_000_000, 5_000_000, 50_000_000, 50_000_000]);
    }
}
