//! Histograms of latencies and sizes in the mapped file: log-linear buckets, one writer.
//!
//! Values below 32 have a bucket each; above, each octave has 32 buckets. A percentile is the middle of
//! its bucket and so at most 1.6 % off. Values of 2^40 and more (18 minutes in ns) go into the last
//! bucket; the maximum stays exact. Histograms are no term of an account: they are written at once, not
//! committed, and a reader may see a value in one word before the others.

use serde::Serialize;

use crate::error::LedgerError;
use crate::schema::{HistogramId, Schema};
use crate::snapshot::Snapshot;
use crate::sync::{AtomicU64, Ordering};
use crate::words::Words;

const LINEAR_BITS: u32 = 5;
const LINEAR: usize = 1 << LINEAR_BITS;
/// Values from here on are clamped into the last bucket.
const RANGE_BITS: u32 = 40;
/// Buckets of one histogram.
pub const BUCKETS: usize = (RANGE_BITS - LINEAR_BITS + 1) as usize * LINEAR;

const AT_SUM: usize = 0;
const AT_MAX: usize = 1;
/// The complement of the minimum, so that fresh words mean "none yet".
const AT_MIN_COMPLEMENT: usize = 2;
const AT_BUCKETS: usize = crate::layout::LINE_WORDS;
/// Words of one histogram.
pub(crate) const WORDS: usize = AT_BUCKETS + BUCKETS;

/// The bucket of a value.
#[inline]
const fn bucket_of(value: u64) -> usize {
    if value < LINEAR as u64 {
        return value as usize;
    }
    let octave = value.ilog2();
    if octave >= RANGE_BITS {
        return BUCKETS - 1;
    }
    let shift = octave - LINEAR_BITS;
    shift as usize * LINEAR + (value >> shift) as usize
}

/// First value of a bucket, and how many values it holds.
const fn bucket_span(bucket: usize) -> (u64, u64) {
    if bucket < 2 * LINEAR {
        return (bucket as u64, 1);
    }
    let shift = bucket / LINEAR - 1;
    (((bucket % LINEAR + LINEAR) as u64) << shift, 1 << shift)
}

/// The one writer of one histogram.
#[derive(Debug)]
pub struct HistogramWriter {
    words: Words,
    start: usize,
}

impl HistogramWriter {
    /// Attaches to a histogram of a formatted ledger and goes on with what it holds.
    ///
    /// # Errors
    /// The memory is not the ledger of this schema, or the histogram is not of this schema.
    pub fn attach(
        schema: &Schema,
        words: &Words,
        histogram: HistogramId,
    ) -> Result<Self, LedgerError> {
        schema.check(words)?;
        let index = histogram.0 as usize;
        let start = schema.layout.histograms.get(index).copied();
        let start = start.ok_or(LedgerError::OutOfBounds {
            what: "histogram",
            index,
        })?;
        Ok(Self {
            words: words.clone(),
            start,
        })
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Records a value that occurred `times`.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        let words = &self.words[self.start..self.start + WORDS];
        // One writer: a load and a store cost a third of an atomic addition.
        let add = |at: usize, n: u64| {
            words[at].store(
                words[at].load(Ordering::Relaxed).wrapping_add(n),
                Ordering::Relaxed,
            );
        };
        let raise = |at: usize, n: u64| {
            if words[at].load(Ordering::Relaxed) < n {
                words[at].store(n, Ordering::Relaxed);
            }
        };
        add(AT_BUCKETS + bucket_of(value), times);
        add(AT_SUM, value.wrapping_mul(times));
        raise(AT_MAX, value);
        raise(AT_MIN_COMPLEMENT, !value);
    }
}

/// A histogram as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Its name, with the unit last.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Whose values they are; may be empty.
    pub owner: String,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<u64>,
}

/// What a histogram says, in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistogramSummary {
    /// Its name, with the unit last.
    pub name: String,
    /// Whose values they are; may be empty.
    pub owner: String,
    /// Number of values.
    pub count: u64,
    /// Least value, exact.
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
    /// Greatest value, exact.
    pub max: u64,
}

impl Histogram {
    pub(crate) fn read(words: &[AtomicU64], entry: &crate::directory::HistogramEntry) -> Self {
        let load = |at: usize| words[at].load(Ordering::Relaxed);
        let buckets: Vec<u64> = (AT_BUCKETS..WORDS).map(load).collect();
        let count = buckets.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        Self {
            name: entry.name.clone(),
            unit: entry.unit.clone(),
            owner: entry.owner.clone(),
            count,
            sum: load(AT_SUM),
            min: if count == 0 {
                0
            } else {
                !load(AT_MIN_COMPLEMENT)
            },
            max: load(AT_MAX),
            buckets,
        }
    }

    /// Number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Least value; 0 when there is none.
    #[must_use]
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// Greatest value; 0 when there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Arithmetic mean; 0 when there is no value.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The value below or at which `percent` (0 to 100) of all values lie, at most 1.6 % off; 0 when there is none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * self.count as f64)
            .ceil()
            .max(1.0) as u64;
        let mut below = 0u64;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            below = below.saturating_add(n);
            if n > 0 && below >= rank {
                return self.value_in(bucket);
            }
        }
        self.max
    }

    /// All numbers at once.
    #[must_use]
    pub fn summary(&self) -> HistogramSummary {
        HistogramSummary {
            name: self.name.clone(),
            owner: self.owner.clone(),
            count: self.count,
            min: self.min,
            mean: self.mean(),
            p50: self.percentile(50.0),
            p90: self.percentile(90.0),
            p99: self.percentile(99.0),
            p999: self.percentile(99.9),
            max: self.max,
        }
    }

    /// What came since an earlier look at the same histogram. Its least and greatest value are those of the buckets, at most 3.2 % off.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let first = buckets.iter().position(|&n| n > 0);
        let last = buckets.iter().rposition(|&n| n > 0);
        let last_value = |bucket| {
            let (first, width) = bucket_span(bucket);
            match bucket {
                _ if bucket == BUCKETS - 1 => self.max,
                _ => (first + width - 1).min(self.max),
            }
        };
        Self {
            count: buckets.iter().fold(0u64, |sum, &n| sum.saturating_add(n)),
            sum: self.sum.wrapping_sub(before.sum),
            min: first.map_or(0, |bucket| bucket_span(bucket).0.max(self.min)),
            max: last.map_or(0, last_value),
            buckets,
            name: self.name.clone(),
            unit: self.unit.clone(),
            owner: self.owner.clone(),
        }
    }

    /// Upper bound (inclusive) and count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|&(_, &n)| n > 0);
        filled.map(|(bucket, &n)| {
            let (first, width) = bucket_span(bucket);
            (first + width - 1, n)
        })
    }

    /// The middle of a bucket, but never outside what was recorded.
    fn value_in(&self, bucket: usize) -> u64 {
        if bucket == BUCKETS - 1 {
            return self.max;
        }
        let (first, width) = bucket_span(bucket);
        (first + width / 2).min(self.max).max(self.min)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_without_gap() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (first, width) = bucket_span(bucket);
            assert_eq!(first, next, "bucket {bucket}");
            assert_eq!(bucket_of(first), bucket);
            assert_eq!(bucket_of(first + width - 1), bucket);
            assert!(width == 1 || width as f64 / first as f64 <= 1.0 / 32.0);
            next = first + width;
        }
        assert_eq!(next, 1 << RANGE_BITS);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
/// Percentiles of a histogram, as records of runs have them; all 0 without values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

impl Percentiles {
    /// Of the histogram of this name.
    #[must_use]
    pub fn of(snapshot: &Snapshot, name: &str) -> Self {
        let mut all = snapshot.histograms.iter();
        let Some(histogram) = all.find(|histogram| histogram.name == name) else {
            return Self::default();
        };
        let at = |percent| histogram.percentile(percent);
        Self {
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            max: at(100.0),
        }
    }
}
