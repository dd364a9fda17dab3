//! From trigger to subscriber: how long chunks took whose trigger's time is known.
//!
//! A generated chunk says the low 8 bits of its trigger's number. An E-link whose first chunk has 0 there is taken to have begun with the first trigger of
//! the run; from then on its chunks are counted, missing ones included. That holds for an emulated card that resets no numbers, and for a subscriber that was there
//! before the first trigger. A trigger that BUSY held back has no number, and none is skipped for it.

use std::path::{Path, PathBuf};

use forebay_ledger::{HistogramWriter, LedgerReader};
use forebay_readout::numbers::Step;
use forebay_run::error::RunError;
use forebay_sys::clock;
use serde::Serialize;

use crate::trigger_times::{EVERY, SeenTimes};

/// Percentiles in ns, at most 1.6 % off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyReport {
    /// Chunks that were measured.
    pub count: u64,
    /// Least, exact.
    pub min: u64,
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Greatest, exact.
    pub max: u64,
    /// Chunks that should have been measured, and of whose trigger no time is known.
    pub unknown: u64,
}

/// Which trigger an E-link's last chunk was of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Number {
    /// Nothing came yet.
    #[default]
    None,
    /// It did not begin with the first trigger.
    Unknown,
    Is(u64),
}

impl Number {
    /// A chunk more; the low bits of its number where they can be read.
    #[inline]
    pub(super) fn step(&mut self, step: Step, low: Option<u8>) -> Option<u64> {
        *self = match (*self, step) {
            (Self::None, _) if low == Some(0) => Self::Is(0),
            (Self::None | Self::Unknown, _) => Self::Unknown,
            (Self::Is(last), Step::Jumped(missing)) => Self::Is(last + 1 + u64::from(missing)),
            (Self::Is(last), Step::Repeated) => Self::Is(last),
            (Self::Is(last), Step::First | Step::Next) => Self::Is(last + 1),
        };
        match (*self, step) {
            (Self::Is(_), Step::Repeated) => None,
            (Self::Is(number), _) if number % EVERY == 0 => Some(number),
            _ => None,
        }
    }
}

/// Latencies of all E-links.
#[derive(Debug)]
pub(super) struct Latency {
    path: PathBuf,
    times: Option<SeenTimes>,
    histogram: HistogramWriter,
    pub(super) unknown: u64,
}

impl Latency {
    pub(super) fn new(path: &Path, histogram: HistogramWriter) -> Self {
        Self {
            path: path.to_path_buf(),
            times: None,
            histogram,
            unknown: 0,
        }
    }

    /// Opens the card's file, once: the first chunk is there, so the card has made it.
    pub(super) fn open(&mut self) -> Result<(), RunError> {
        if self.times.is_none() {
            self.times = Some(SeenTimes::open(&self.path)?);
        }
        Ok(())
    }

    /// A chunk of this trigger is here.
    #[inline(never)]
    pub(super) fn record(&mut self, number: u64) {
        let due_ns = self.times.as_ref().and_then(|times| times.due_ns(number));
        match due_ns {
            Some(due_ns) => {
                let took_ns = clock::monotonic_ns().saturating_sub(due_ns);
                self.histogram.record(took_ns);
            }
            None => self.unknown += 1,
        }
    }

    /// What was measured.
    pub(super) fn report(&self, books: &LedgerReader) -> Result<Option<LatencyReport>, RunError> {
        let snapshot = books.snapshot()?;
        let histogram = snapshot.histograms.first();
        Ok(histogram.map(|histogram| {
            let of = histogram.summary();
            LatencyReport {
                count: of.count,
                min: of.min,
                mean: of.mean,
                p50: of.p50,
                p90: of.p90,
                p99: of.p99,
                p999: of.p999,
                max: of.max,
                unknown: self.unknown,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_e_link_counts_its_triggers_from_the_first_one_on() {
        let mut number = Number::default();
        assert_eq!(number.step(Step::First, Some(0)), Some(0));
        assert_eq!(number.step(Step::Repeated, Some(0)), None);
        for low in 1..=199 {
            assert_eq!(number.step(Step::Next, Some(low)), None);
        }
        // 200 to 255 are missing.
        assert_eq!(number.step(Step::Jumped(56), Some(0)), Some(256));
        assert_eq!(number.step(Step::Jumped(255), Some(0)), Some(512));
        let mut late = Number::default();
        assert_eq!(late.step(Step::First, Some(7)), None);
        assert_eq!(late.step(Step::Jumped(248), Some(0)), None);
    }
}
