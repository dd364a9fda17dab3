//! Whether chunks are what the data generator and the trigger system make, and follow each other.

use std::fmt;

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::felix::{
    Elink, Generated, GeneratedError, TTC_MESSAGE_BYTES, TtcError, TtcMessage,
};

use crate::Status;
use crate::numbers::{LowBits, Step, Triggers};

/// What chunks are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// On the E-link of messages about triggers those; on any other one generated chunks from the first on that looks like one.
    #[default]
    Auto,
    /// Generated chunks; on the E-link of messages about triggers those, unless they look generated.
    Generated,
    /// Messages about triggers on all E-links.
    Ttc,
    /// Nothing.
    None,
}

/// What the chunks of an E-link are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expected {
    /// That shows when one looks like something.
    #[default]
    Undecided,
    Generated,
    Ttc,
}

/// What is known of an E-link's chunks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    expected: Expected,
    low: LowBits,
    triggers: Triggers,
}

/// Why a chunk is wrong; the text is made when somebody wants it.
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    /// It is no generated chunk.
    Generated(GeneratedError),
    /// It is no message about a trigger.
    Ttc(TtcError),
}

reasons! {
    /// In which way a chunk is wrong: the kinds of [`Wrong`], for counters.
    pub enum WrongKind {
        /// A generated chunk that ends within its head.
        Short = "short",
        /// A generated chunk whose head is another one.
        Head = "head",
        /// A generated chunk of another length than its head says.
        Length = "length",
        /// A generated chunk with a wrong byte.
        Ramp = "ramp",
        /// A message about a trigger of another length.
        TtcBytes = "ttc_bytes",
        /// A message about a trigger of another layout.
        TtcFormat = "ttc_format",
        /// A message about a trigger whose two numbers differ.
        TtcNumbers = "ttc_numbers",
    }
}

/// A value for each way in which a chunk can be wrong.
pub type PerWrong<T> = PerReason<WrongKind, T, { WrongKind::COUNT }>;

impl Wrong {
    /// In which way.
    #[must_use]
    pub fn kind(&self) -> WrongKind {
        match self {
            Self::Generated(error) => match error {
                GeneratedError::Short { .. } => WrongKind::Short,
                GeneratedError::Head { .. } => WrongKind::Head,
                GeneratedError::Length { .. } => WrongKind::Length,
                GeneratedError::Ramp { .. } => WrongKind::Ramp,
            },
            Self::Ttc(error) => match error {
                TtcError::Bytes { .. } => WrongKind::TtcBytes,
                TtcError::Format { .. } => WrongKind::TtcFormat,
                TtcError::Numbers { .. } => WrongKind::TtcNumbers,
            },
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(error) => error.fmt(f),
            Self::Ttc(error) => error.fmt(f),
        }
    }
}

/// Where the two bytes are that all generated chunks have.
fn looks_generated(chunk: &[u8]) -> bool {
    matches!(chunk, [_, _, _, _, _, 0xbb, 0xaa, _, ..])
}

impl Stream {
    /// Holds the next chunk against what is expected: what is wrong with it, and how its trigger number follows the one before.
    #[inline]
    pub fn verify(
        &mut self,
        against: Payload,
        elink: Elink,
        status: Status,
        chunk: &[u8],
    ) -> (Option<Wrong>, Step) {
        if self.expected == Expected::Undecided {
            match (against, looks_generated(chunk)) {
                (Payload::None, _) => return (None, Step::First),
                (Payload::Ttc, _) => self.expected = Expected::Ttc,
                (_, true) => self.expected = Expected::Generated,
                (_, false) if elink == Elink::TTC_TO_HOST => self.expected = Expected::Ttc,
                (Payload::Generated, false) => self.expected = Expected::Generated,
                (Payload::Auto, false) => return (None, Step::First),
            }
        }
        let (wrong, step) = if self.expected == Expected::Generated {
            self.generated(chunk)
        } else {
            self.trigger(chunk)
        };
        // It is known already that something is wrong with it.
        let is_whole = status.is_good() || status == Status::FW_BUSY;
        (wrong.filter(|_| is_whole), step)
    }

    /// The low 8 bits of the trigger number of a chunk that was verified, where they can be read.
    #[inline]
    #[must_use]
    pub fn low_bits(&self, chunk: &[u8]) -> Option<u8> {
        match self.expected {
            Expected::Generated if looks_generated(chunk) => Some(chunk[3]),
            Expected::Ttc if chunk.len() == TTC_MESSAGE_BYTES => Some(chunk[4]),
            _ => None,
        }
    }

    #[inline]
    fn generated(&mut self, chunk: &[u8]) -> (Option<Wrong>, Step) {
        match Generated::parse(chunk) {
            Ok(one) => (None, self.low.step(one.l1id)),
            Err(error) => {
                let step = if looks_generated(chunk) {
                    self.low.step(chunk[3])
                } else {
                    self.low.pass();
                    Step::Next
                };
                (Some(Wrong::Generated(error)), step)
            }
        }
    }

    fn trigger(&mut self, chunk: &[u8]) -> (Option<Wrong>, Step) {
        match TtcMessage::parse(chunk) {
            Ok(one) => (None, self.triggers.step(one.l1id, one.resets)),
            Err(error) => {
                self.triggers.pass();
                (Some(Wrong::Ttc(error)), Step::Next)
            }
        }
    }
}
