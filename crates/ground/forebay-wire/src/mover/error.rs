//! Why bytes are refused.

use thiserror::Error;

use super::{Kind, VERSION};

/// What makes bytes no frame, or a frame none of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MoverError {
    /// The first bytes are another protocol's.
    #[error("{found:02x?} does not begin a frame")]
    Magic {
        /// The first two bytes.
        found: [u8; 2],
    },
    /// Another version of the protocol.
    #[error("version {found}; {VERSION} is spoken here")]
    Version {
        /// The version byte.
        found: u8,
    },
    /// A kind that this version does not have.
    #[error("no frame is of kind {found}")]
    Kind {
        /// The kind byte.
        found: u8,
    },
    /// A body that is shorter or longer than its kind allows.
    #[error("a {kind} of {body_bytes} bytes")]
    Length {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of the body by the head.
        body_bytes: u32,
    },
    /// A name that cannot be part of a file's name.
    #[error(
        "a name that is empty, too long or has other signs than letters, digits, '.', '_' and '-'"
    )]
    Name,
    /// A block that ends where it begins or before, or says a length that is not its own.
    #[error("a block from {begin} to {end} with {events} events in {bytes} bytes")]
    Range {
        /// Its begin in the stream.
        begin: u64,
        /// Its end in the stream.
        end: u64,
        /// Its number of events.
        events: u32,
        /// Bytes of events by its field.
        bytes: u32,
    },
}

impl MoverError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Magic { .. } => "not_the_protocol",
            Self::Version { .. } => "version",
            Self::Kind { .. } => "unknown_kind",
            Self::Length { .. } => "bad_length",
            Self::Name => "bad_name",
            Self::Range { .. } => "bad_block",
        }
    }
}
