//! Settings of the decoder.

use forebay_settings::{OutOfRange, in_range};

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
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let value = self.chunk_bytes_max as u64;
        in_range("chunk_bytes_max", value, 1, Self::CHUNK_BYTES_MOST as u64)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chunk_bytes_max: 1 << 20,
        }
    }
}
