//! What a card should be, and what its tests allow.

use forebay_wire::felix::board::{BOARD_BUFFERS, BOARD_LINKS};

/// What a card should say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The kind of card. Default 0x712.
    pub board_id: u64,
    /// Its firmware. Default 5.2.3.
    pub firmware_version: u64,
    /// First 32 bits of the commit that it was built from.
    pub firmware_commit: u64,
    /// What its links speak. Default 1, FULL mode.
    pub firmware_mode: u64,
    /// Bytes of a block, 1,024 to 16,384. Default 4,096.
    pub block_bytes: usize,
    /// Links, 1 to 24. Default 12.
    pub links: usize,
    /// DMA buffers, 1 to 8. Default 4.
    pub buffers: usize,
    /// Bytes of the queue behind a link. Default 65,536.
    pub fifo_bytes: u64,
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            board_id: 0x712,
            firmware_version: 0x0502_0003,
            firmware_commit: 0x1f3c_9a7e,
            firmware_mode: 1,
            block_bytes: 4096,
            links: 12,
            buffers: 4,
            fifo_bytes: 64 << 10,
        }
    }
}

impl Expected {
    pub(super) fn links(&self) -> usize {
        self.links.min(BOARD_LINKS)
    }

    pub(super) fn buffers(&self) -> usize {
        self.buffers.min(BOARD_BUFFERS)
    }

    /// A bit for each link.
    pub(super) fn link_mask(&self) -> u64 {
        (1 << self.links()) - 1
    }
}

/// Upper bounds of the mean, at 95 % confidence, when so many errors were seen (0, 1, …): the quantiles of the Poisson law. A rate of bit errors is below a bound when
/// (that number) / (bits compared) is. Source: the exact Poisson limits, as in J. Redd, "Calculating statistical confidence levels for error-probability estimates",
/// Lightwave, April 2000.
pub const PRBS_BOUNDS: [f64; 5] = [2.996, 4.744, 6.296, 7.754, 9.154];

/// Limits of links and of their bit errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkLimits {
    /// How often links are reset. Default 64: one that fails in 5 % of its resets is seen with 96 %.
    pub align_tries: u32,
    /// How long a link may take to align, in nanoseconds. Default 2 ms.
    pub align_ns: u64,
    /// The share of wrong bits that a link must be shown to be below, at 95 % confidence. Default 1e-12, what 10 Gb/s Ethernet asks of its links (IEEE 802.3, clause 52).
    pub error_rate: f64,
    /// Bits of a link in a second: how long that takes. Default 9.6 Gb/s.
    pub lane_bps: f64,
}

/// Limits of DMA buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DmaLimits {
    /// Blocks of each pattern but the last. Default 64.
    pub blocks: u64,
    /// Blocks of the last pattern, which looks random. Default 1,024: a buffer that loses one of so many is seen.
    pub blocks_random: u64,
    /// Least bytes in a second; none: not measured. Default 5.76 GB/s, nine tenths of what eight lanes of PCIe 3.0 carry, about (6.4 GB/s).
    pub bytes_per_s_min: Option<f64>,
    /// How long the card works between two looks, in nanoseconds. Default 10 µs.
    pub step_ns: u64,
    /// Looks without a new block after which no more are waited for. Default 200.
    pub idle_steps: u32,
}

/// Limits of the TTC input: counters must agree exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtcLimits {
    /// What is sent. Default 100 kHz for 1 s, with an ECR every 100 ms.
    pub burst: super::Burst,
}

/// All limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Links and bit errors.
    pub links: LinkLimits,
    /// DMA buffers.
    pub dma: DmaLimits,
    /// The TTC input.
    pub ttc: TtcLimits,
    /// Repairs of a card, at most. Default 4.
    pub repairs_most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            links: LinkLimits {
                align_tries: 64,
                align_ns: 2_000_000,
                error_rate: 1e-12,
                lane_bps: 9.6e9,
            },
            dma: DmaLimits {
                blocks: 64,
                blocks_random: 1024,
                bytes_per_s_min: Some(5.76e9),
                step_ns: 10_000,
                idle_steps: 200,
            },
            ttc: TtcLimits {
                burst: super::Burst {
                    rate_hz: 100_000,
                    for_ns: 1_000_000_000,
                    ecr_period_ns: 100_000_000,
                },
            },
            repairs_most: 4,
        }
    }
}

impl Limits {
    /// For a card whose time is that of the host: bit errors down to 1e-9, which takes a third of a second, and no measure of its speed, since that would be the host's.
    #[must_use]
    pub fn in_real_time() -> Self {
        let usual = Self::default();
        Self {
            links: LinkLimits {
                error_rate: 1e-9,
                ..usual.links
            },
            dma: DmaLimits {
                bytes_per_s_min: None,
                step_ns: 2_000_000,
                idle_steps: 1000,
                ..usual.dma
            },
            repairs_most: 0,
            ..usual
        }
    }
}
