//! What became of one DMA buffer.

use std::collections::BTreeMap;

use forebay_readout::{Account as Decoded, Status};
use serde::Serialize;

use forebay_run_net::NetRecord;

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CardEnd {
    /// The card ended, and everything was read.
    InOrder,
    /// The card is gone without having said so; everything that it had shown was read.
    Lost,
    /// This side was told to stop.
    Stopped,
    /// This side could not go on.
    Failed,
}

/// What became of one DMA buffer.
#[derive(Clone, Debug, Serialize)]
pub struct BufferSummary {
    /// Its number in the books.
    pub number: usize,
    /// Which DMA buffer of its card.
    pub buffer: usize,
    /// Where its chunks were published.
    pub address: String,
    /// How it ended.
    pub end: CardEnd,
    /// Why this side could not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Blocks read.
    pub blocks: u64,
    /// Blocks dropped by reason.
    pub blocks_dropped: BTreeMap<&'static str, u64>,
    /// Blocks missing by their sequence numbers, at least.
    pub missing_blocks: u64,
    /// Blocks that the card had shown and that were not read when this side was told to stop.
    pub blocks_left: u64,
    /// Blocks read that could not be given back, since a subscriber still looked at chunks in them: the next reader reads them again.
    pub blocks_kept: u64,
    /// Chunks found, flagged ones among them.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Chunks that went to a subscriber or to several.
    pub chunks_published: u64,
    /// Chunks that did not, by reason.
    pub chunks_dropped: BTreeMap<&'static str, u64>,
    /// Chunks by each bit of their status.
    pub chunks_flagged: BTreeMap<&'static str, u64>,
    /// What was wrong within blocks and between them.
    pub damage: BTreeMap<&'static str, u64>,
    /// Bytes copied to join chunks of several blocks.
    pub joined_bytes: u64,
    /// Bytes copied into network buffers, once for each subscriber.
    pub copied_bytes: u64,
    /// Chunks that stayed where they were.
    pub chunks_by_reference: u64,
    /// For how long subscribers held the buffer up, in s.
    pub held_up_s: f64,
    /// The publisher's own record; none where it failed.
    pub publisher: Option<NetRecord>,
}

/// Those that happened.
pub(crate) fn counted(
    all: impl IntoIterator<Item = (&'static str, u64)>,
) -> BTreeMap<&'static str, u64> {
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// What the decoder says; the rest is empty.
pub(crate) fn of_decoder(decoded: &Decoded) -> BufferSummary {
    let blocks_dropped = decoded.dropped_blocks.iter();
    let blocks_dropped = blocks_dropped.map(|(why, count)| (why.name(), count));
    let damage = decoded
        .damage
        .iter()
        .map(|(damage, count)| (damage.name(), count));
    let flagged = Status::NAMES.map(|(_, name)| name).into_iter();
    BufferSummary {
        number: 0,
        buffer: 0,
        address: String::new(),
        end: CardEnd::InOrder,
        failed: None,
        blocks: decoded.blocks,
        blocks_dropped: counted(blocks_dropped),
        missing_blocks: decoded.missing_blocks,
        blocks_left: 0,
        blocks_kept: 0,
        chunks: decoded.chunks,
        chunk_bytes: decoded.chunk_bytes,
        chunks_published: 0,
        chunks_dropped: BTreeMap::new(),
        chunks_flagged: counted(flagged.zip(decoded.flagged)),
        damage: counted(damage),
        joined_bytes: decoded.copied_bytes,
        copied_bytes: 0,
        chunks_by_reference: 0,
        held_up_s: 0.0,
        publisher: None,
    }
}
