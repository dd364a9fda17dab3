//! How late triggers are made, and whether the emulator itself was the limit.
//!
//! The lag of a trigger is the time between its due time and the `now` at which it was made. A
//! thread that sleeps is always woken a little late, so a lag alone is no shortage; the emulator is
//! *behind* while a trigger that was due more than `behind_after_ns` ago is not yet made.
//! It was **the limit of the run** when it was behind for more than 1 % of it.

const BUCKETS_PER_OCTAVE_LOG2: u32 = 4;
const BUCKETS: usize = 61 << BUCKETS_PER_OCTAVE_LOG2;
/// The share of a run above which being behind makes the emulator the limit.
const LIMITED_SHARE: f64 = 0.01;

/// The measure of lateness of a run.
#[derive(Debug, Clone)]
pub(crate) struct Lag {
    behind_after_ns: u64,
    buckets: Vec<u64>,
    made: u64,
    max_ns: u64,
    behind_ns: u64,
    seen: Option<(u64, u64)>,
}

/// How far behind its schedule the emulator was.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Behind {
    /// Largest lag of a trigger.
    pub lag_ns_max: u64,
    /// 99th percentile of the lag, rounded up by at most 1/16.
    pub lag_ns_p99: u64,
    /// Time during which a trigger overdue by more than `behind_after_ns` was not yet made.
    pub behind_ns: u64,
    /// Time from the first `now` to the last at which a trigger was still to come.
    pub run_ns: u64,
    /// Whether it was behind for more than 1 % of the run, so that rates measured are its own limit.
    pub generator_limited: bool,
}

impl Lag {
    pub(crate) fn new(behind_after_ns: u64) -> Self {
        Self {
            behind_after_ns,
            buckets: vec![0; BUCKETS],
            made: 0,
            max_ns: 0,
            behind_ns: 0,
            seen: None,
        }
    }

    /// The time went on to `now` while the trigger due at `oldest_ns`, past or to come, was the next
    /// one. Without one the run is over, and what follows is not part of it.
    pub(crate) fn handle_time(&mut self, now_ns: u64, oldest_ns: Option<u64>) {
        let (first, last) = self.seen.unwrap_or((now_ns, now_ns));
        if let Some(due) = oldest_ns {
            let since = due.saturating_add(self.behind_after_ns).max(last);
            self.behind_ns += now_ns.saturating_sub(since);
            self.seen = Some((first, now_ns.max(last)));
        }
    }

    /// A trigger was made so late.
    pub(crate) fn record(&mut self, lag_ns: u64) {
        self.buckets[bucket(lag_ns)] += 1;
        self.made += 1;
        self.max_ns = self.max_ns.max(lag_ns);
    }

    pub(crate) fn behind(&self) -> Behind {
        let run_ns = self.seen.map_or(0, |(first, last)| last - first);
        Behind {
            lag_ns_max: self.max_ns,
            lag_ns_p99: self.p99(),
            behind_ns: self.behind_ns,
            run_ns,
            generator_limited: self.behind_ns as f64 > LIMITED_SHARE * run_ns as f64,
        }
    }

    fn p99(&self) -> u64 {
        let wanted = self.made - self.made / 100;
        let mut sum = 0;
        let reached = |&count: &u64| {
            sum += count;
            sum >= wanted
        };
        let at = self.buckets.iter().position(reached).unwrap_or(0);
        upper(at).min(self.max_ns)
    }
}

/// Buckets are exact below 16, then 16 for each octave.
fn bucket(value: u64) -> usize {
    let shift = (value.max(1).ilog2()).saturating_sub(BUCKETS_PER_OCTAVE_LOG2);
    ((shift as usize) << BUCKETS_PER_OCTAVE_LOG2) + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper(at: usize) -> u64 {
    let octave = 1 << BUCKETS_PER_OCTAVE_LOG2;
    let shift = (at / octave).saturating_sub(1);
    let mantissa = (at - shift * octave) as u128 + 1;
    ((mantissa << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..64).flat_map(|s| [0, 1, 7].map(|d| (1_u64 << s).wrapping_add(d))) {
            let at = bucket(value);
            assert!(at < BUCKETS, "{value}");
            assert!(upper(at) >= value, "{value} {}", upper(at));
            assert!(upper(at) - value <= value / 16, "{value} {}", upper(at));
            assert!(at == 0 || upper(at - 1) < value, "{value}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentile_and_maximum() {
        let mut lag = Lag::new(0);
        (0..990).for_each(|_| lag.record(10));
        (0..10).for_each(|_| lag.record(1000));
        assert_eq!(
            (lag.behind().lag_ns_p99, lag.behind().lag_ns_max),
            (10, 1000)
        );
        lag.record(1000);
        assert!(lag.behind().lag_ns_p99 >= 1000);
    }

    #[test]
    fn behind_counts_only_the_time_beyond_the_allowance() {
        let mut lag = Lag::new(10);
        lag.handle_time(0, Some(0));
        lag.handle_time(8, Some(0));
        assert_eq!(lag.behind().behind_ns, 0);
        lag.handle_time(15, Some(0));
        assert_eq!(lag.behind().behind_ns, 5);
        lag.handle_time(20, Some(3));
        assert_eq!(lag.behind().behind_ns, 10);
        lag.handle_time(30, None);
        assert_eq!(lag.behind().behind_ns, 10);
        assert!(lag.behind().generator_limited);
        lag.handle_time(2000, Some(5000));
        assert!(!lag.behind().generator_limited, "10 of 2000");
    }
}
