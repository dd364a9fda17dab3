//! Settings of a connection.

use forebay_settings::{OutOfRange, in_range};
use forebay_wire::net::{BUFFER_BYTES_MAX, BUFFER_COUNT_MAX, DATA_FIELDS_BYTES, HEAD_BYTES, Slow};
use forebay_wire::netio3::HEAD_BYTES_MAX;

/// How a connection gathers and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of payload that a buffer takes at least, 1 to 64 MiB less 13 bytes: a message of that size fits, its head comes on top.
    /// Default 64 KiB: what netio's users run; much larger ones cost cache, much smaller ones system calls.
    pub buffer_bytes: u32,
    /// Buffers of a connection, 1 to 65,536: those being filled, waiting and on their way. Default 64.
    pub buffer_count: u32,
    /// A buffer goes out when so many bytes are in it, 1 to `buffer_bytes`; default `buffer_bytes`: when no more fits.
    pub water_mark_bytes: u32,
    /// A buffer goes out at the latest so long after its first message, in ns; 0: at once. Default 1 ms.
    pub flush_ns: u64,
    /// What a receiver costs that is too slow.
    pub slow: Slow,
    /// How long `Slow::Block` waits for it before it is given up, in ns. Default 10 s.
    pub block_ns: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer_bytes: 64 << 10,
            buffer_count: 64,
            water_mark_bytes: u32::MAX,
            flush_ns: 1_000_000,
            slow: Slow::Block,
            block_ns: 10_000_000_000,
        }
    }
}

impl Config {
    /// Most bytes of payload of a buffer: the head of a message comes on top.
    pub const BUFFER_BYTES_MOST: u64 = BUFFER_BYTES_MAX as u64 - HEAD_BYTES_MAX as u64;
    /// Most buffers of a connection.
    pub const BUFFER_COUNT_MOST: u64 = BUFFER_COUNT_MAX as u64;

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        in_range(
            "buffer_bytes",
            self.buffer_bytes.into(),
            1,
            Self::BUFFER_BYTES_MOST,
        )?;
        in_range(
            "buffer_count",
            self.buffer_count.into(),
            1,
            Self::BUFFER_COUNT_MOST,
        )?;
        in_range(
            "water_mark_bytes",
            self.water_mark_bytes.into(),
            1,
            u32::MAX.into(),
        )
    }

    /// Bytes of memory that a buffer needs: a frame of it, from the first byte to the last.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        HEAD_BYTES + DATA_FIELDS_BYTES + self.area_bytes()
    }

    /// Bytes of messages, heads included, that a buffer takes.
    #[inline]
    pub(crate) fn area_bytes(&self) -> usize {
        self.buffer_bytes as usize + HEAD_BYTES_MAX
    }
}
