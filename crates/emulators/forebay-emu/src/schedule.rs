//! When triggers come: at a fixed spacing, as a Poisson process, in spills.

use crate::config::{Limit, Spacing, Spill, Trigger};
use crate::rng::Xoshiro256;

/// One trigger, the same for all sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// Which trigger of the run, from 0.
    pub(crate) index: u64,
    /// When, in nanoseconds after the start of the run.
    pub(crate) at_ns: u64,
}

/// The sequence of triggers of a run; a clone continues with the same triggers.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    spacing: Spacing,
    period_ns: f64,
    spill: Option<Spill>,
    limit: Limit,
    rng: Xoshiro256,
    /// Time with beam that has passed until the trigger at hand.
    beam_ns: f64,
    next: Option<Due>,
}

impl Schedule {
    pub(crate) fn new(seed: u64, trigger: &Trigger, limit: Limit) -> Self {
        let mut schedule = Self {
            spacing: trigger.spacing,
            period_ns: 1e9 / trigger.rate_hz,
            spill: trigger.spill,
            limit,
            rng: Xoshiro256::new(seed),
            beam_ns: 0.0,
            next: None,
        };
        schedule.next = schedule.at(0);
        schedule
    }

    /// The next trigger, if the run has one more.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Due> {
        self.next
    }

    /// Takes the next trigger.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Due> {
        let due = self.next?;
        self.next = self.at(due.index + 1);
        Some(due)
    }

    /// Takes the next trigger if it is due at `until_ns`.
    #[inline]
    pub(crate) fn take_until(&mut self, until_ns: u64) -> Option<Due> {
        (self.next?.at_ns <= until_ns).then(|| self.take())?
    }

    /// No further triggers.
    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    /// No triggers but the first `events`.
    pub(crate) fn end_at(&mut self, events: u64) {
        self.limit.events = Some(events);
        self.next = self.next.filter(|due| due.index < events);
    }

    fn at(&mut self, index: u64) -> Option<Due> {
        self.beam_ns = match self.spacing {
            Spacing::Fixed => index as f64 * self.period_ns,
            Spacing::Poisson => self.beam_ns - self.rng.unit().ln() * self.period_ns,
        };
        let at_ns = match self.spill {
            None => self.beam_ns as u64,
            Some(spill) => in_spill(self.beam_ns as u64, spill),
        };
        let within = self.limit.events.is_none_or(|n| index < n)
            && self.limit.duration_ns.is_none_or(|d| at_ns < d);
        within.then_some(Due { index, at_ns })
    }
}

/// Wall time of a moment given in time with beam: each period begins with a spill.
fn in_spill(beam_ns: u64, spill: Spill) -> u64 {
    (beam_ns / spill.length_ns) * spill.period_ns + beam_ns % spill.length_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(trigger: &Trigger, limit: Limit, seed: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(seed, trigger, limit);
        std::iter::from_fn(|| schedule.take())
            .map(|due| due.at_ns)
            .collect()
    }

    fn seconds(n: u64) -> Limit {
        Limit {
            events: None,
            duration_ns: Some(n * 1_000_000_000),
        }
    }

    #[test]
    fn fixed_spacing_does_not_drift() {
        let trigger = Trigger::at_rate(3.0);
        let got = times(&trigger, seconds(2), 1);
        assert_eq!(
            got,
            [
                0,
                333_333_333,
                666_666_666,
                1_000_000_000,
                1_333_333_333,
                1_666_666_666
            ]
        );
    }

    #[test]
    fn limit_by_events_and_by_time() {
        let trigger = Trigger::at_rate(1000.0);
        let events = Limit {
            events: Some(7),
            duration_ns: None,
        };
        assert_eq!(times(&trigger, events, 1).len(), 7);
        assert_eq!(times(&trigger, seconds(1), 1).len(), 1000);
    }

    /// 100,000 expected: five standard deviations are 5·√100,000 = 1581 triggers. The spacing's mean
    /// square is twice the squared mean for an exponential law; its relative error here is √(20/n).
    #[test]
    fn poisson_counts_and_spacings() {
        let trigger = Trigger {
            spacing: Spacing::Poisson,
            ..Trigger::at_rate(10_000.0)
        };
        for seed in 0..5 {
            let got = times(&trigger, seconds(10), seed);
            let n = got.len() as f64;
            assert!((n - 100_000.0).abs() < 1581.0, "seed {seed}: {n}");
            let square: f64 = got
                .windows(2)
                .map(|w| ((w[1] - w[0]) as f64 / 1e5).powi(2))
                .sum::<f64>()
                / n;
            assert!(
                (square - 2.0).abs() < 5.0 * 2.0 * (5.0 / n).sqrt() + 0.07,
                "seed {seed}: {square}"
            );
        }
    }

    #[test]
    fn spills_hold_all_triggers_and_keep_the_rate_inside() {
        let spill = Spill {
            period_ns: 1_000_000_000,
            length_ns: 400_000_000,
        };
        for spacing in [Spacing::Fixed, Spacing::Poisson] {
            let trigger = Trigger {
                spacing,
                spill: Some(spill),
                ..Trigger::at_rate(10_000.0)
            };
            let got = times(&trigger, seconds(10), 3);
            assert!(got.iter().all(|t| t % spill.period_ns < spill.length_ns));
            // 40,000 expected; five standard deviations of a Poisson count are 1000.
            let off = got.len() as f64 - 40_000.0;
            assert!(
                off.abs()
                    < if spacing == Spacing::Fixed {
                        1.0
                    } else {
                        1000.0
                    },
                "{off}"
            );
            assert!(got.is_sorted());
        }
    }
}
