//! What passed, and what became of it.

use forebay_ledger::{DropReason, PerReason, reasons};

use crate::BlockError;

reasons! {
    /// What goes wrong within a block or between two, each with a counter of its own. What is dropped for it is in [`PieceDrop`]; the others are flagged on the chunk.
    pub enum Damage {
        /// The sequence number of an E-link jumped: blocks are missing.
        Gap = "gap",
        /// A chunk began on an E-link before the one before it had ended.
        Unended = "unended",
        /// A middle or an end came without a beginning. Its data is dropped.
        Orphan = "orphan",
        /// A subchunk of a kind that there is not. Its data is dropped.
        UndefinedKind = "undefined_kind",
        /// A chunk is longer than the limit. What is beyond is dropped.
        TooLong = "too_long",
        /// A chunk was still open when the run ended.
        Unfinished = "unfinished",
        /// A chunk was open when a block of its E-link was dropped.
        Interrupted = "interrupted",
    }
}

reasons! {
    /// Why pieces of chunks are dropped.
    pub enum PieceDrop {
        /// It came without a beginning.
        Orphan = "orphan",
        /// It is of a kind that there is not.
        UndefinedKind = "undefined_kind",
        /// It is beyond the limit of a chunk: the bytes alone.
        TooLong = "too_long",
    }
}

impl From<PieceDrop> for Damage {
    fn from(why: PieceDrop) -> Self {
        match why {
            PieceDrop::Orphan => Self::Orphan,
            PieceDrop::UndefinedKind => Self::UndefinedKind,
            PieceDrop::TooLong => Self::TooLong,
        }
    }
}

reasons! {
    /// Why a block is dropped as a whole, as [`BlockError`] has it.
    pub enum BlockDrop {
        /// It has another size.
        Bytes = "block_bytes",
        /// It does not begin as blocks do.
        Marker = "marker",
        /// Its subchunks do not tile it.
        Untiled = "untiled",
        /// The word from which it is read is of no kind.
        UndefinedKind = "undefined_kind",
    }
}

impl From<&BlockError> for BlockDrop {
    fn from(error: &BlockError) -> Self {
        match error {
            BlockError::Bytes { .. } => Self::Bytes,
            BlockError::Marker { .. } => Self::Marker,
            BlockError::Untiled { .. } => Self::Untiled,
            BlockError::Undefined { .. } => Self::UndefinedKind,
        }
    }
}

/// Pairs of a number of items and their bytes.
pub(crate) type Items = [u64; 2];

/// The decoder's books, counted where things happen; what is held is not counted, but measured where it lies.
///
/// Blocks: `blocks` = `decoded` + `dropped_blocks`. Pieces, which are subchunks with data of chunks, and their bytes: `pieces` = `joined` + `dropped` + `held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Blocks that came.
    pub blocks: u64,
    /// Blocks whose subchunks were read.
    pub decoded: u64,
    /// Blocks dropped.
    pub dropped_blocks: PerReason<BlockDrop, u64, { BlockDrop::COUNT }>,
    /// Pieces of chunks that were in the blocks decoded so far.
    pub pieces: Items,
    /// Pieces in the chunks that were taken.
    pub joined: Items,
    /// Pieces dropped; of one that is too long the bytes alone.
    pub dropped: PerReason<PieceDrop, Items, { PieceDrop::COUNT }>,
    /// Pieces that lie in the block and were not looked at, or in the buffers of chunks that were not taken.
    pub held: Items,
    /// Chunks taken.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Bytes copied to join chunks.
    pub copied_bytes: u64,
    /// How often each [`Damage`] happened.
    pub damage: PerReason<Damage, u64, { Damage::COUNT }>,
    /// Blocks that are missing at least, by sequence numbers: 32 in a row leave no trace.
    pub missing_blocks: u64,
    /// Chunks taken, by each bit of their status.
    pub flagged: [u64; 6],
}

impl Account {
    /// What does not add up, of blocks, of pieces and of bytes: nothing in a program without mistakes.
    #[must_use]
    pub fn residual(&self) -> [i128; 3] {
        let dropped = i128::from(self.dropped_blocks.total());
        let blocks = i128::from(self.blocks) - i128::from(self.decoded) - dropped;
        let rest = |unit: usize| {
            let dropped: i128 = self
                .dropped
                .iter()
                .map(|(_, it)| i128::from(it[unit]))
                .sum();
            i128::from(self.pieces[unit])
                - i128::from(self.joined[unit])
                - i128::from(self.held[unit])
                - dropped
        };
        [blocks, rest(0), rest(1)]
    }
}

/// What one E-link had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAccount {
    /// Blocks decoded.
    pub blocks: u64,
    /// Chunks taken.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks of them with a status other than good.
    pub flagged: u64,
    /// How often its sequence number jumped.
    pub gaps: u64,
}
