//! Settings of the decoder.

use thiserror::Error;

/// How chunks are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Longest chunk that is joined of several blocks, in bytes, 1 to 64 MiB; what is beyond it is dropped and the chunk flagged. Default 1 MiB: far above what
    /// front ends send, and with 2,048 E-links that lose their ends still within the memory of a host.
    pub chunk_bytes_max: usize,
}

impl Config {
    /// Most that [`chunk_bytes_max`](Self::chunk_bytes_max) may be.
    pub const CHUNK_BYTES_MOST: usize = 64 << 20;

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the setting that is outside.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let value = self.chunk_bytes_max;
        if (1..=Self::CHUNK_BYTES_MOST).contains(&value) {
            return Ok(());
        }
        Err(ConfigError {
            name: "chunk_bytes_max",
            value,
            low: 1,
            high: Self::CHUNK_BYTES_MOST,
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chunk_bytes_max: 1 << 20,
        }
    }
}

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value}; it must be from {low} to {high}")]
pub struct ConfigError {
    /// Which setting.
    pub name: &'static str,
    /// What it is.
    pub value: usize,
    /// Least allowed.
    pub low: usize,
    /// Most allowed.
    pub high: usize,
}
