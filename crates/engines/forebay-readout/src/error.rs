//! Why a block gives no chunks.

use thiserror::Error;

/// What is wrong with a block as a whole. It is dropped, and the chunk that was open on its E-link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// It has another size than the format.
    #[error("{found} bytes; a block has {expected}")]
    Bytes {
        /// Bytes that there are.
        found: usize,
        /// Bytes of a block.
        expected: usize,
    },
    /// It does not begin as blocks of the format do: nothing in it can be trusted, its E-link neither.
    #[error("it begins with the marker {found:#06x}, not {expected:#06x}")]
    Marker {
        /// What is there.
        found: u16,
        /// What belongs there.
        expected: u16,
    },
    /// The words do not tile it: one of them says more than there is.
    #[error(
        "the subchunk whose word is at {at} is said to have {said} bytes, and there are {room}"
    )]
    Untiled {
        /// Where the word is.
        at: usize,
        /// What it says, with its filling.
        said: usize,
        /// What there is.
        room: usize,
    },
    /// The word from which it is read is of no kind.
    #[error("the word at {at} is of no kind that there is")]
    Undefined {
        /// Where.
        at: usize,
    },
}

impl BlockError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Bytes { .. } => "block_bytes",
            Self::Marker { .. } => "marker",
            Self::Untiled { .. } => "untiled",
            Self::Undefined { .. } => "undefined_kind",
        }
    }
}
