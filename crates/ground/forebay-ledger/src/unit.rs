//! What an account counts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What one item of an account is. Accounts are joined by a link only when their units are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// UDP datagrams.
    Datagrams,
    /// Packets or frames of a network interface.
    Packets,
    /// Messages of a protocol above datagrams (for HADES: HADTU messages).
    Messages,
    /// Sub-events of one source.
    SubEvents,
    /// Built events.
    Events,
    /// Blocks of a DMA buffer.
    Blocks,
    /// Subchunks of blocks, with the data of chunks.
    Subchunks,
    /// Chunks of an E-link.
    Chunks,
    /// Flow records.
    Flows,
    /// Plain bytes: items and bytes are the same number.
    Bytes,
}

impl Unit {
    /// The name in tables, labels and the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "datagrams",
            Self::Packets => "packets",
            Self::Messages => "messages",
            Self::SubEvents => "subevents",
            Self::Events => "events",
            Self::Blocks => "blocks",
            Self::Subchunks => "subchunks",
            Self::Chunks => "chunks",
            Self::Flows => "flows",
            Self::Bytes => "bytes",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
