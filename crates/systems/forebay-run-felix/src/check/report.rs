//! What a file has, in numbers.

use std::collections::BTreeMap;

use forebay_readout::Status;
use forebay_wire::felix::Kind;
use serde::Serialize;

use super::fault::{Faults, Finding};

/// Counts by name; names with 0 are left out.
pub type ByName = BTreeMap<&'static str, u64>;

/// What was found in a file of blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Marker, size of blocks, subchunks.
    pub blocks_format: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of the file: those of its blocks, those skipped, and those of its tail.
    pub bytes: u64,
    /// Whole blocks, damaged ones too, of all E-links.
    pub blocks: u64,
    /// Bytes that belong to no block.
    pub skipped_bytes: u64,
    /// Bytes of the block within which the file ends.
    pub tail_bytes: u64,
    /// Chunks of the E-links that are listed.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Blocks that are missing at least: 32 in a row leave no trace.
    pub missing_blocks: u64,
    /// Errors by kind, of the E-links that are listed and of none.
    pub errors: ByName,
    /// Chunks by what is said of them; several may be said of one.
    pub flagged: ByName,
    /// The E-links that had something, and were asked for.
    pub elinks: Vec<ElinkReport>,
    /// The first errors, up to [`Settings::findings_max`](super::Settings::findings_max).
    pub first_errors: Vec<Finding>,
    /// What does not add up.
    pub residual: Residual,
}

/// What does not add up: nothing in a program without mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Residual {
    /// Bytes of the file that are in no block, not skipped and not in its tail.
    pub file_bytes: i64,
    /// Blocks that were neither decoded nor dropped by name.
    pub blocks: i64,
    /// Pieces of chunks that are in none, and were not dropped by name.
    pub pieces: i64,
    /// Bytes of them.
    pub piece_bytes: i64,
    /// Chunks that are in no E-link's count.
    pub chunks: i64,
}

impl Residual {
    /// Whether all adds up.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Report {
    /// Number of errors of all kinds.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether there are no errors, and the books close.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.errors.is_empty() && self.residual.is_zero()
    }
}

/// What one E-link had.
#[derive(Clone, Debug, Serialize)]
pub struct ElinkReport {
    /// Its number.
    pub elink: u16,
    /// Blocks decoded.
    pub blocks: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of the smallest chunk; 0 without chunks.
    pub chunk_bytes_min: u64,
    /// Mean bytes of a chunk; 0 without chunks.
    pub chunk_bytes_mean: f64,
    /// Bytes of the largest chunk.
    pub chunk_bytes_max: u64,
    /// Chunks with a status other than good.
    pub flagged: u64,
    /// Jumps of its sequence number.
    pub gaps: u64,
    /// Subchunks by kind.
    pub subchunks: ByName,
    /// Errors by kind.
    pub errors: ByName,
}

/// Counts of one E-link on the way.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) chunks: u64,
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) kinds: [u64; Kind::ALL.len()],
    pub(super) faults: Faults,
    pub(super) flagged: [u64; Status::NAMES.len()],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            chunks: 0,
            least: usize::MAX,
            most: 0,
            kinds: [0; _],
            faults: Faults::default(),
            flagged: [0; _],
        }
    }
}

impl Counts {
    #[inline]
    pub(super) fn chunk(&mut self, bytes: usize, status: Status) {
        self.chunks += 1;
        self.least = self.least.min(bytes);
        self.most = self.most.max(bytes);
        if !status.is_good() {
            for (count, (bit, _)) in self.flagged.iter_mut().zip(Status::NAMES) {
                *count += u64::from(status.has(bit));
            }
        }
    }

    pub(super) fn least(&self) -> usize {
        if self.chunks == 0 { 0 } else { self.least }
    }
}

/// Adds counts to those of their names.
pub(super) fn add_faults(to: &mut ByName, counts: &Faults) {
    for (fault, count) in counts.iter().filter(|(_, count)| *count > 0) {
        *to.entry(fault.name()).or_default() += count;
    }
}

pub(super) fn add(to: &mut ByName, names: impl Iterator<Item = &'static str>, counts: &[u64]) {
    for (name, count) in names.zip(counts).filter(|(_, count)| **count > 0) {
        *to.entry(name).or_default() += count;
    }
}
