//! What passed, and what became of it.

/// What goes wrong within a block or between two, each with a counter of its own. Dropped are only those marked so; the others are flagged on the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Damage {
    /// The sequence number of an E-link jumped: blocks are missing.
    Gap,
    /// A chunk began on an E-link before the one before it had ended.
    Unended,
    /// A middle or an end came without a beginning. Its data is dropped.
    Orphan,
    /// A subchunk of a kind that there is not. Its data is dropped.
    UndefinedKind,
    /// A chunk is longer than the limit. What is beyond is dropped.
    TooLong,
    /// A chunk was still open when the run ended.
    Unfinished,
    /// A chunk was open when a block of its E-link was dropped.
    Interrupted,
}

impl Damage {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Gap,
        Self::Unended,
        Self::Orphan,
        Self::UndefinedKind,
        Self::TooLong,
        Self::Unfinished,
        Self::Interrupted,
    ];

    /// Its name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Unended => "unended",
            Self::Orphan => "orphan",
            Self::UndefinedKind => "undefined_kind",
            Self::TooLong => "too_long",
            Self::Unfinished => "unfinished",
            Self::Interrupted => "interrupted",
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
    /// Blocks dropped, by reason: of another size, marker, not tiled, of an undefined kind.
    pub dropped_blocks: [u64; 4],
    /// Pieces of chunks that were in the blocks decoded so far.
    pub pieces: Items,
    /// Pieces in the chunks that were taken.
    pub joined: Items,
    /// Pieces dropped by [`Damage`]; of one that is too long the bytes alone.
    pub dropped: [Items; Damage::ALL.len()],
    /// Pieces that lie in the block and were not looked at, or in the buffers of chunks that were not taken.
    pub held: Items,
    /// Chunks taken.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Bytes copied to join chunks.
    pub copied_bytes: u64,
    /// How often each [`Damage`] happened.
    pub damage: [u64; Damage::ALL.len()],
    /// Blocks that are missing at least, by sequence numbers: 32 in a row leave no trace.
    pub missing_blocks: u64,
    /// Chunks taken, by each bit of their status.
    pub flagged: [u64; 6],
}

/// Names of the reasons for which blocks are dropped.
pub const BLOCK_REASONS: [&str; 4] = ["block_bytes", "marker", "untiled", "undefined_kind"];

impl Account {
    /// Blocks dropped, by name.
    pub fn dropped_blocks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        BLOCK_REASONS.into_iter().zip(self.dropped_blocks)
    }

    /// What does not add up, of blocks, of pieces and of bytes: nothing in a program without mistakes.
    #[must_use]
    pub fn residual(&self) -> [i128; 3] {
        let sum = |of: &[u64]| -> i128 { of.iter().map(|one| i128::from(*one)).sum() };
        let blocks = i128::from(self.blocks) - i128::from(self.decoded) - sum(&self.dropped_blocks);
        let rest = |unit: usize| {
            let dropped: Vec<u64> = self.dropped.iter().map(|items| items[unit]).collect();
            i128::from(self.pieces[unit])
                - i128::from(self.joined[unit])
                - i128::from(self.held[unit])
                - sum(&dropped)
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
