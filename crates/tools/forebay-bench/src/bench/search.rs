//! The highest rate at which nothing is lost.

use anyhow::{Result, bail};

use forebay_report::statistics::{Spread, spread};

/// Growth of the rate while nothing is lost.
const STEP: f64 = 1.4;
/// As a rule the search ends when the highest good and the lowest bad rate are this near.
pub(super) const WITHIN: f64 = 1.08;
/// Attempts to confirm, each at a lower rate.
const CONFIRMATIONS: usize = 10;
/// After so many attempts in vain the steps down grow.
const SMALL_STEPS: usize = 3;
/// A large step down.
const STEP_DOWN: f64 = 1.25;
/// It is no larger than so many small ones.
const LARGE_OF_SMALL: i32 = 4;
/// Short runs at one rate before it counts as too high: other programs on the machine take a CPU away now and then.
const TRIES: usize = 3;

/// One run at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Nothing was lost and the books close.
    pub(super) lossless: bool,
    /// The sources gave what was asked.
    pub(super) full_rate: bool,
    /// Events per second while looked at.
    pub(super) events_hz: f64,
    /// Datagrams per second while looked at.
    pub(super) datagrams_hz: f64,
    /// Bytes per second while looked at.
    pub(super) bytes_per_s: f64,
    /// CPU of the receiving side for an event, in µs.
    pub(super) cpu_us_per_event: f64,
    /// CPU of what empties the sockets, for a datagram, in µs.
    pub(super) cpu_us_per_datagram: f64,
}

/// The runs at the highest rate.
#[derive(Debug, Clone)]
pub(super) struct Highest {
    /// The rate asked for.
    pub(super) rate_hz: f64,
    /// What came of it, run by run.
    pub(super) samples: Vec<Sample>,
    /// What ended the search.
    pub(super) limit: Limit,
}

/// Why the rate does not go higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Something is lost above.
    Loss,
    /// The emulated sources give no more.
    Sources,
}

impl Limit {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Loss => "above it something is lost",
            Self::Sources => "the emulated sources give no more: a lower bound",
        }
    }
}

impl Highest {
    /// The spread of one quantity over the runs.
    pub(super) fn of(&self, of: fn(&Sample) -> f64) -> Result<Spread> {
        spread(self.samples.iter().map(of)).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
    }
}

/// Searches from `start_hz` up with short runs, then confirms with `runs` long ones, stepping down while any of them loses.
///
/// It ends when the highest good and the lowest bad rate are by no more than the factor `near` apart, and steps down by as much. `measure` is given the rate and whether the run counts.
pub(super) fn highest(
    start_hz: f64,
    near: f64,
    runs: usize,
    mut measure: impl FnMut(f64, bool) -> Result<Sample>,
) -> Result<Highest> {
    let (mut rate_hz, mut limit) = climb(start_hz, near, &mut measure)?;
    for attempt in 0..CONFIRMATIONS {
        let mut samples = Vec::new();
        for _ in 0..runs {
            let sample = measure(rate_hz, true)?;
            if !sample.lossless {
                break;
            }
            samples.push(sample);
        }
        if samples.len() == runs {
            return Ok(Highest {
                rate_hz,
                samples,
                limit,
            });
        }
        limit = Limit::Loss;
        rate_hz /= if attempt < SMALL_STEPS {
            near
        } else {
            STEP_DOWN.min(near.powi(LARGE_OF_SMALL))
        };
    }
    bail!("no rate down to {rate_hz:.0} Hz was without a loss in {runs} runs");
}

fn climb(
    start_hz: f64,
    near: f64,
    measure: &mut impl FnMut(f64, bool) -> Result<Sample>,
) -> Result<(f64, Limit)> {
    let (mut good, mut bad) = (None, None);
    let mut rate_hz = start_hz;
    loop {
        let sample = best_of(TRIES, rate_hz, measure)?;
        match (sample.lossless, sample.full_rate) {
            (true, true) => good = Some(rate_hz),
            (true, false) => return Ok((rate_hz, Limit::Sources)),
            (false, _) => bad = Some(rate_hz),
        }
        rate_hz = match (good, bad) {
            (Some(good), None) => good * STEP,
            (None, Some(bad)) if bad > 50.0 => bad / STEP,
            (Some(good), Some(bad)) if bad / good > near => (good * bad).sqrt(),
            (Some(good), Some(_)) => return Ok((good, Limit::Loss)),
            (None, _) => bail!("something is lost even at {rate_hz:.0} Hz"),
        };
    }
}

/// The first run of at most `tries` that loses nothing at the full rate; else the best of them.
fn best_of(
    tries: usize,
    rate_hz: f64,
    measure: &mut impl FnMut(f64, bool) -> Result<Sample>,
) -> Result<Sample> {
    let mut best = measure(rate_hz, false)?;
    for _ in 1..tries {
        if best.lossless && best.full_rate {
            break;
        }
        let next = measure(rate_hz, false)?;
        if (next.lossless, next.full_rate) > (best.lossless, best.full_rate) {
            best = next;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(lossless: bool, full_rate: bool) -> Sample {
        Sample {
            lossless,
            full_rate,
            events_hz: 0.0,
            datagrams_hz: 0.0,
            bytes_per_s: 0.0,
            cpu_us_per_event: 0.0,
            cpu_us_per_datagram: 0.0,
        }
    }

    #[test]
    fn the_rate_found_is_just_below_the_limit() {
        for near in [WITHIN, 1.01] {
            let is_good = |rate| rate <= 31_000.0;
            let found = highest(1000.0, near, 5, |rate, _| Ok(sample(is_good(rate), true)));
            let found = found.unwrap();
            assert!(
                (31_000.0 / near..=31_000.0).contains(&found.rate_hz),
                "{}",
                found.rate_hz
            );
            assert_eq!((found.samples.len(), found.limit), (5, Limit::Loss));
        }
    }

    #[test]
    fn a_rate_that_fails_when_it_counts_is_lowered() {
        let found = highest(1000.0, WITHIN, 3, |rate, counts| {
            Ok(sample(
                rate <= if counts { 20_000.0 } else { 31_000.0 },
                true,
            ))
        })
        .unwrap();
        assert!(
            found.rate_hz <= 20_000.0 && found.rate_hz > 17_000.0,
            "{}",
            found.rate_hz
        );
    }

    #[test]
    fn one_bad_run_of_three_does_not_end_the_climb() {
        let mut run = 0;
        let found = highest(1000.0, WITHIN, 1, |rate, counts| {
            run += 1;
            let unlucky = !counts && run % 3 == 1;
            Ok(sample(!unlucky && rate <= 31_000.0, !unlucky))
        })
        .unwrap();
        assert!(
            (31_000.0 / WITHIN..=31_000.0).contains(&found.rate_hz),
            "{}",
            found.rate_hz
        );
        assert_eq!(found.limit, Limit::Loss);
    }

    #[test]
    fn far_below_the_first_guess_the_steps_grow() {
        let mut asked = Vec::new();
        let found = highest(1000.0, WITHIN, 2, |rate, counts| {
            if counts {
                asked.push(rate);
            }
            Ok(sample(
                rate <= if counts { 10_000.0 } else { 31_000.0 },
                true,
            ))
        })
        .unwrap();
        assert!(found.rate_hz <= 10_000.0 && found.rate_hz > 8_000.0);
        assert!(asked.len() < 11, "{asked:?}");
    }

    #[test]
    fn sources_that_give_no_more_end_the_search() {
        let found = highest(1000.0, WITHIN, 1, |rate, _| Ok(sample(true, rate < 5000.0))).unwrap();
        assert_eq!(found.limit, Limit::Sources);
    }
}
