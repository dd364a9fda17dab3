//! Whether chunks are what the data generator and the trigger system make, and follow each other.

use std::fmt;

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

impl Wrong {
    /// The names of all reasons, fit for counters.
    pub const REASONS: [&str; 7] = [
        "short",
        "head",
        "length",
        "ramp",
        "ttc_bytes",
        "ttc_format",
        "ttc_numbers",
    ];

    /// Its place among the reasons.
    #[must_use]
    pub fn place(&self) -> usize {
        match self {
            Self::Generated(error) => match error {
                GeneratedError::Short { .. } => 0,
                GeneratedError::Head { .. } => 1,
                GeneratedError::Length { .. } => 2,
                GeneratedError::Ramp { .. } => 3,
            },
            Self::Ttc(error) => match error {
                TtcError::Bytes { .. } => 4,
                TtcError::Format { .. } => 5,
                TtcError::Numbers { .. } => 6,
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
