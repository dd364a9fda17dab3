//! Why a datagram is refused.

use thiserror::Error;

use super::{Kind, VERSION};

/// What makes bytes no datagram of time-division UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TdmError {
    /// Fewer bytes than the fields take.
    #[error("{have} bytes are left, the next field takes {need}")]
    Truncated {
        /// Bytes that are needed.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// Another protocol's bytes.
    #[error("{found:02x?} does not begin a datagram of time-division UDP")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// Another version.
    #[error("version {found}; {VERSION} is spoken here")]
    Version {
        /// The version byte.
        found: u8,
    },
    /// A kind that this version does not have.
    #[error("no datagram is of kind {found}")]
    Kind {
        /// The kind byte.
        found: u8,
    },
    /// The length in the head is not the datagram's.
    #[error("a {kind} of {have} bytes says that it has {bytes}")]
    Length {
        /// The kind.
        kind: Kind,
        /// Bytes by the head, or by the fields.
        bytes: usize,
        /// Bytes that came.
        have: usize,
    },
    /// Head and fields were damaged on the way.
    #[error("CRC-32C {found:#010x} of head and fields, {check:#010x} by the head")]
    Check {
        /// What was computed.
        found: u32,
        /// What the head says.
        check: u32,
    },
    /// A field with a value that it cannot have.
    #[error("{field} of a {kind} is {found}")]
    Field {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// What it is.
        found: u64,
    },
}

impl TdmError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Magic { .. } => "not_the_protocol",
            Self::Version { .. } => "version",
            Self::Kind { .. } => "unknown_kind",
            Self::Length { .. } => "bad_length",
            Self::Check { .. } => "damaged",
            Self::Field { .. } => "bad_field",
        }
    }
}
