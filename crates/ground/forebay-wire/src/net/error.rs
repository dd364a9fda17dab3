//! Why bytes are refused.

use thiserror::Error;

use super::{Kind, VERSION};

/// What makes bytes no frame, or a frame none of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetError {
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
    /// A body that is shorter or longer than its kind, or than both sides agreed.
    #[error("a {kind} of {body_bytes} bytes; {least} to {most} are allowed")]
    Length {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of the body by the head.
        body_bytes: u32,
        /// Least allowed.
        least: u32,
        /// Most allowed.
        most: u32,
    },
    /// A field with a value that it cannot have.
    #[error("{field} of a {kind} is {found}")]
    Field {
        /// The frame's kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// What it is.
        found: u64,
    },
}

impl NetError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Magic { .. } => "not_the_protocol",
            Self::Version { .. } => "version",
            Self::Kind { .. } => "unknown_kind",
            Self::Length { .. } => "bad_length",
            Self::Field { .. } => "bad_field",
        }
    }
}
