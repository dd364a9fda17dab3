//! What a card has to say at its end.

use std::collections::BTreeMap;

use serde::Serialize;

/// What became of one DMA buffer.
#[derive(Clone, Debug, Serialize)]
pub struct DmaSummary {
    /// Blocks shown to its reader.
    pub blocks: u64,
    /// Of these, blocks that nobody has given back.
    pub blocks_unread: u64,
    /// Blocks of the buffer.
    pub capacity_blocks: u64,
}

/// What one E-link had.
#[derive(Clone, Debug, Serialize)]
pub struct ElinkSummary {
    /// Its number.
    pub elink: u16,
    /// The DMA buffer that its blocks went into.
    pub dma_buffer: usize,
    /// Chunks of its front end.
    pub chunks: u64,
    /// Chunks in the DMA buffer.
    pub chunks_out: u64,
    /// Chunks that lost their end behind the link.
    pub truncated: u64,
    /// Blocks that went out full, by time, and at the end.
    pub blocks: [u64; 3],
    /// How often its front end was told to stop.
    pub xoff: u64,
    /// Most bytes behind the link.
    pub fifo_peak_bytes: u64,
}

/// What a card did.
#[derive(Clone, Debug, Serialize)]
pub struct CardSummary {
    /// Triggers asked for.
    pub triggers_requested: u64,
    /// Triggers given.
    pub triggers: u64,
    /// Triggers held back by BUSY: a link could not carry more.
    pub held_by_link: u64,
    /// Triggers held back by BUSY: a DMA buffer was full.
    pub held_by_dma: u64,
    /// Triggers held back by dead time.
    pub held_by_dead_time: u64,
    /// Chunks of all front ends: one for each trigger and E-link.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Chunks in DMA buffers.
    pub chunks_out: u64,
    /// Bytes of them.
    pub chunk_bytes_out: u64,
    /// Chunks that lost their end in the card.
    pub chunks_truncated: u64,
    /// Chunks lost in the card, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Bytes lost in the card, by reason.
    pub dropped_bytes: BTreeMap<&'static str, u64>,
    /// Faults that were injected, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Chunks that were still in the card at its end.
    pub held: u64,
    /// Share of the card's time in which BUSY was up, 0 to 1.
    pub busy_fraction: f64,
    /// Triggers given per second of the card's time.
    pub trigger_rate_hz: f64,
    /// How long triggers came, in seconds of the card's time.
    pub seconds: f64,
    /// How much slower than real time it lived.
    pub time_dilation: u64,
    /// Whether the host was too slow for the card, so that rates are not the card's own limit.
    pub host_limited: bool,
    /// 99th percentile of the lateness of triggers, in ns of the card's time.
    pub lag_ns_p99: u64,
    /// What the books leave over, in triggers and chunks.
    pub residual_items: u64,
    /// What they leave over in bytes.
    pub residual_bytes: u64,
    /// Readers that were turned away.
    pub readers_refused: u64,
    /// CPU time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Its process.
    pub pid: u32,
    /// The DMA buffers.
    pub dma: Vec<DmaSummary>,
    /// The E-links, that of messages about triggers last.
    pub elinks: Vec<ElinkSummary>,
}
