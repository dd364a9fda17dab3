//! How long chunks are: a function of the seed, the E-link and the trigger.

use std::sync::Arc;

use super::config::CHUNK_BYTES;
use super::ttc::Trigger;
use crate::config::{ConfigError, in_range};
use crate::rng::hash;
use crate::sizes::{SIZE_TABLE_LEN, normal_quantiles};

/// How long chunks are, in bytes from 8 to 65,535.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChunkSizes {
    /// All the same.
    Fixed {
        /// Bytes.
        bytes: u32,
    },
    /// Each size equally often.
    Uniform {
        /// Least bytes.
        min_bytes: u32,
        /// Most bytes.
        max_bytes: u32,
    },
    /// Around a mean, cut at both ends.
    Normal {
        /// Mean, before the cut.
        mean_bytes: f64,
        /// Standard deviation.
        sigma_bytes: f64,
        /// Least bytes.
        min_bytes: u32,
        /// Most bytes.
        max_bytes: u32,
    },
    /// The logarithm is around a mean, as detectors' are that see few large events among many small ones; cut at both ends.
    LogNormal {
        /// Half of the chunks are shorter.
        median_bytes: f64,
        /// Standard deviation of the natural logarithm, 0 to 4.
        sigma: f64,
        /// Least bytes.
        min_bytes: u32,
        /// Most bytes.
        max_bytes: u32,
    },
    /// From one size to another as triggers come, in equal steps, then again from the first.
    Ramp {
        /// Bytes at the first trigger.
        from_bytes: u32,
        /// Bytes at the last trigger.
        to_bytes: u32,
        /// Triggers from first to last, 2 to 2^40.
        triggers: u64,
    },
}

impl ChunkSizes {
    /// From 16 B to 2 KiB over so many triggers.
    #[must_use]
    pub const fn ramp(triggers: u64) -> Self {
        Self::Ramp {
            from_bytes: 16,
            to_bytes: 2048,
            triggers,
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let (low, high) = CHUNK_BYTES;
        match *self {
            Self::Fixed { bytes } => in_range("sizes.bytes", bytes, low, high),
            Self::Uniform {
                min_bytes,
                max_bytes,
            } => bounds(min_bytes, max_bytes),
            Self::Normal {
                mean_bytes,
                sigma_bytes,
                min_bytes,
                max_bytes,
            } => {
                let most = f64::from(high);
                in_range("sizes.mean_bytes", mean_bytes, 0.0, most)?;
                in_range("sizes.sigma_bytes", sigma_bytes, 0.0, most)?;
                bounds(min_bytes, max_bytes)
            }
            Self::LogNormal {
                median_bytes,
                sigma,
                min_bytes,
                max_bytes,
            } => {
                in_range("sizes.median_bytes", median_bytes, 1.0, f64::from(high))?;
                in_range("sizes.sigma", sigma, 0.0, 4.0)?;
                bounds(min_bytes, max_bytes)
            }
            Self::Ramp {
                from_bytes,
                to_bytes,
                triggers,
            } => {
                in_range("sizes.from_bytes", from_bytes, low, high)?;
                in_range("sizes.to_bytes", to_bytes, low, high)?;
                in_range("sizes.triggers", triggers, 2, 1 << 40)
            }
        }
    }
}

fn bounds(min_bytes: u32, max_bytes: u32) -> Result<(), ConfigError> {
    let (low, high) = CHUNK_BYTES;
    in_range("sizes.max_bytes", max_bytes, low, high)?;
    in_range("sizes.min_bytes", min_bytes, low, max_bytes)
}

/// The sizes, ready to be looked up.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Fixed(usize),
    Uniform {
        low: u64,
        count: u64,
    },
    Table(Arc<[u16]>),
    Ramp {
        from: i64,
        step: i64,
        last: u64,
    },
    /// As long as it says: what is sent back has its length where others have a number.
    Told,
}

impl Sizes {
    pub(super) fn new(sizes: &ChunkSizes) -> Self {
        match *sizes {
            ChunkSizes::Fixed { bytes } => Self::Fixed(bytes as usize),
            ChunkSizes::Uniform {
                min_bytes,
                max_bytes,
            } => Self::Uniform {
                low: u64::from(min_bytes),
                count: u64::from(max_bytes - min_bytes) + 1,
            },
            ChunkSizes::Normal {
                mean_bytes,
                sigma_bytes,
                min_bytes,
                max_bytes,
            } => table(min_bytes, max_bytes, |z| mean_bytes + z * sigma_bytes),
            ChunkSizes::LogNormal {
                median_bytes,
                sigma,
                min_bytes,
                max_bytes,
            } => table(min_bytes, max_bytes, |z| median_bytes * (z * sigma).exp()),
            ChunkSizes::Ramp {
                from_bytes,
                to_bytes,
                triggers,
            } => Self::Ramp {
                from: i64::from(from_bytes),
                step: i64::from(to_bytes) - i64::from(from_bytes),
                last: triggers - 1,
            },
        }
    }

    /// Most bytes that a chunk can have.
    pub(super) fn largest(&self) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { low, count } => (low + count - 1) as usize,
            Self::Table(table) => table.iter().copied().max().map_or(0, usize::from),
            Self::Ramp { from, step, .. } => (from + step.max(&0)) as usize,
            Self::Told => u32::MAX as usize,
        }
    }

    /// Bytes of the chunk that an E-link with this key has for a trigger.
    #[inline]
    pub(super) fn bytes(&self, key: u64, trigger: Trigger) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { low, count } => {
                let random = hash(key, u64::from(trigger.l1id)) >> 32;
                (low + ((random * count) >> 32)) as usize
            }
            Self::Table(table) => {
                let random = hash(key, u64::from(trigger.l1id)) as usize;
                usize::from(table[random & (SIZE_TABLE_LEN - 1)])
            }
            Self::Ramp { from, step, last } => {
                let at = (trigger.number % (last + 1)).cast_signed();
                (from + step * at / last.cast_signed()) as usize
            }
            Self::Told => trigger.l1id as usize,
        }
    }
}

fn table(min_bytes: u32, max_bytes: u32, size: impl Fn(f64) -> f64) -> Sizes {
    let (low, high) = (f64::from(min_bytes), f64::from(max_bytes));
    let bytes = normal_quantiles().map(|z| size(z).clamp(low, high).round() as u16);
    Sizes::Table(bytes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sizes: &ChunkSizes, count: u64) -> Vec<usize> {
        assert_eq!(sizes.validate(), Ok(()));
        let sizes = Sizes::new(sizes);
        let largest = sizes.largest();
        let trigger = |number| Trigger {
            number,
            l1id: number as u32,
            at: 0,
        };
        let found: Vec<usize> = (0..count)
            .map(|number| sizes.bytes(7, trigger(number)))
            .collect();
        assert_eq!(found.iter().max(), Some(&largest));
        found
    }

    #[test]
    fn uniform_sizes_meet_both_ends_equally_often() {
        let sizes = ChunkSizes::Uniform {
            min_bytes: 10,
            max_bytes: 13,
        };
        let found = all(&sizes, 40_000);
        for bytes in 10..=13 {
            let count = found.iter().filter(|&&b| b == bytes).count() as f64;
            // 10,000 expected, standard deviation 87.
            assert!((count - 10_000.0).abs() < 440.0, "{bytes}: {count}");
        }
    }

    #[test]
    fn bounded_distributions_keep_their_bounds_and_their_middle() {
        let normal = ChunkSizes::Normal {
            mean_bytes: 500.0,
            sigma_bytes: 50.0,
            min_bytes: 400,
            max_bytes: 600,
        };
        let skewed = ChunkSizes::LogNormal {
            median_bytes: 500.0,
            sigma: 1.0,
            min_bytes: 32,
            max_bytes: 9000,
        };
        for (sizes, low, high) in [(normal, 400, 600), (skewed, 32, 9000)] {
            let found = all(&sizes, 20_000);
            assert!(found.iter().all(|b| (low..=high).contains(b)));
            let below = found.iter().filter(|&&b| b < 500).count() as f64;
            assert!((below - 10_000.0).abs() < 500.0, "{below}");
        }
        let mean = all(&skewed, 20_000).iter().sum::<usize>() as f64 / 20_000.0;
        assert!(mean > 700.0, "the long tail is there: {mean}");
    }

    #[test]
    fn a_ramp_goes_from_end_to_end_and_begins_again() {
        let found = all(&ChunkSizes::ramp(2033), 2034);
        assert_eq!(found[..3], [16, 17, 18]);
        assert_eq!(found[2032..], [2048, 16]);
        let down = ChunkSizes::Ramp {
            from_bytes: 20,
            to_bytes: 8,
            triggers: 4,
        };
        assert_eq!(all(&down, 5), [20, 16, 12, 8, 20]);
    }
}
