//! What can be wrong with a file of blocks, by name.

use std::fmt;

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_readout::payload::{Wrong, WrongKind};
use forebay_readout::{BlockError, Damage};
use forebay_wire::felix::Elink;
use serde::Serialize;

reasons! {
    /// One kind of error. What the firmware itself says of a chunk, its flags, is none.
    #[derive(PartialOrd, Ord)]
    pub enum Fault {
    /// A block does not begin as blocks of the format do.
    Marker = "marker",
    /// The subchunks of a block do not tile it.
    Untiled = "untiled",
    /// The word from which a block is read is of no kind.
    BlockUndefinedKind = "block_undefined_kind",
    /// Blocks of an E-link are missing, by its sequence number.
    Gap = "gap",
    /// A chunk began before the one before it had ended.
    Unended = "unended",
    /// A part of a chunk without its beginning.
    Orphan = "orphan",
    /// A subchunk of a kind that there is not.
    UndefinedKind = "undefined_kind",
    /// A chunk longer than the limit.
    TooLong = "too_long",
    /// A chunk was open when the file ended.
    Unfinished = "unfinished",
    /// A chunk was open when a damaged block of its E-link came.
    Interrupted = "interrupted",
    /// No block began where one should; bytes were skipped up to the next one.
    Resync = "resync",
    /// The file ends within a block.
    Tail = "tail",
    /// A generated chunk that ends within its head.
    PayloadShort = "payload_short",
    /// A generated chunk whose head is another one.
    PayloadHead = "payload_head",
    /// A generated chunk of another length than its head says.
    PayloadLength = "payload_length",
    /// A generated chunk with a wrong byte.
    PayloadRamp = "payload_ramp",
    /// A message about a trigger of another length.
    TtcBytes = "ttc_bytes",
    /// A message about a trigger of another layout.
    TtcFormat = "ttc_format",
    /// A message about a trigger whose two numbers differ.
    TtcNumbers = "ttc_numbers",
    /// A trigger number is not the next one.
    L1idJump = "l1id_jump",
    /// A trigger number comes once more.
    L1idRepeat = "l1id_repeat",
    }
}

/// How often each kind of error was found.
pub type Faults = PerReason<Fault, u64, { Fault::COUNT }>;

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Gap => Self::Gap,
            Damage::Unended => Self::Unended,
            Damage::Orphan => Self::Orphan,
            Damage::UndefinedKind => Self::UndefinedKind,
            Damage::TooLong => Self::TooLong,
            Damage::Unfinished => Self::Unfinished,
            Damage::Interrupted => Self::Interrupted,
        }
    }
}

impl From<&BlockError> for Fault {
    fn from(error: &BlockError) -> Self {
        match error {
            // Blocks are handed on whole: one of another size cannot be.
            BlockError::Bytes { .. } | BlockError::Untiled { .. } => Self::Untiled,
            BlockError::Marker { .. } => Self::Marker,
            BlockError::Undefined { .. } => Self::BlockUndefinedKind,
        }
    }
}

impl From<&Wrong> for Fault {
    fn from(wrong: &Wrong) -> Self {
        match wrong.kind() {
            WrongKind::Short => Self::PayloadShort,
            WrongKind::Head => Self::PayloadHead,
            WrongKind::Length => Self::PayloadLength,
            WrongKind::Ramp => Self::PayloadRamp,
            WrongKind::TtcBytes => Self::TtcBytes,
            WrongKind::TtcFormat => Self::TtcFormat,
            WrongKind::TtcNumbers => Self::TtcNumbers,
        }
    }
}

/// An error where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Byte of the file at which the block begins, or what is skipped.
    pub offset: u64,
    /// Whose it is, where that is known.
    #[serde(serialize_with = "number")]
    pub elink: Option<Elink>,
    /// What.
    #[serde(serialize_with = "name")]
    pub kind: Fault,
    /// More about it.
    pub text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn number<S: serde::Serializer>(elink: &Option<Elink>, to: S) -> Result<S::Ok, S::Error> {
    elink.map(Elink::number).serialize(to)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn name<S: serde::Serializer>(fault: &Fault, to: S) -> Result<S::Ok, S::Error> {
    fault.name().serialize(to)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", self.offset)?;
        if let Some(elink) = self.elink {
            write!(f, ", E-link {elink}")?;
        }
        write!(f, ": {}", self.kind.name())?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}
