//! How long chunks are.

use std::ops::RangeInclusive;

use forebay_config::Block;
use forebay_emu::card::ChunkSizes;
use forebay_settings::settings;

use super::words::SizeWord;

/// Bytes of a chunk: the head of its payload, and what 16 bits can say.
const CHUNK_BYTES: RangeInclusive<u64> = 8..=65_535;

settings! {
    /// What front ends send for a trigger: the payload of FELIX's own data generator, which checks itself.
    pub struct ChunkSettings in [chunks] {
        /// How long chunks are.
        sizes: SizeWord = SizeWord::Fixed,
        /// For fixed: the size. For normal: the mean. For lognormal: the median.
        bytes: u32 [CHUNK_BYTES] = 64,
        /// The least, but for fixed.
        min_bytes: u32 [CHUNK_BYTES] = 16,
        /// The most, but for fixed.
        max_bytes: u32 [CHUNK_BYTES] = 2048,
        /// For normal: the deviation, in per cent of the mean. For lognormal: that of the logarithm, in per cent.
        sigma_percent: u32 [0..=400] = 30,
        /// For ramp: triggers from the least to the most; then again.
        ramp_triggers: u64 [2..=1 << 40] = 1_000_000,
    }
}

impl ChunkSettings {
    /// Sizes of chunks.
    pub(super) fn sizes(&self, block: &Block<'_, '_>) -> ChunkSizes {
        let Self {
            bytes,
            min_bytes,
            max_bytes,
            ..
        } = *self;
        let sigma = f64::from(self.sigma_percent) / 100.0;
        let unused: &[&str] = match self.sizes {
            SizeWord::Uniform => &["bytes", "sigma_percent", "ramp_triggers"],
            SizeWord::Normal | SizeWord::LogNormal => &["ramp_triggers"],
            SizeWord::Ramp => &["bytes", "sigma_percent"],
            SizeWord::Fixed => &["min_bytes", "max_bytes", "sigma_percent", "ramp_triggers"],
        };
        for name in unused {
            block.idle(name, &format!("sizes are {}", self.sizes.name()));
        }
        if self.sizes != SizeWord::Fixed && min_bytes > max_bytes {
            block.complain(
                "min_bytes",
                &format!("it is more than max_bytes, {max_bytes}"),
                &format!("an integer from 8 to {max_bytes} bytes"),
                "make it smaller, or max_bytes larger",
            );
        }
        match self.sizes {
            SizeWord::Uniform => ChunkSizes::Uniform {
                min_bytes,
                max_bytes,
            },
            SizeWord::Normal => ChunkSizes::Normal {
                mean_bytes: bytes.into(),
                sigma_bytes: f64::from(bytes) * sigma,
                min_bytes,
                max_bytes,
            },
            SizeWord::LogNormal => ChunkSizes::LogNormal {
                median_bytes: bytes.into(),
                sigma,
                min_bytes,
                max_bytes,
            },
            SizeWord::Ramp => ChunkSizes::Ramp {
                from_bytes: min_bytes,
                to_bytes: max_bytes,
                triggers: self.ramp_triggers,
            },
            SizeWord::Fixed => ChunkSizes::Fixed { bytes },
        }
    }
}
