//! What was seen to be wrong, and where.

use std::fmt;

use serde::{Serialize, Serializer};

/// A part of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// All of it.
    Card,
    /// A bit of a register.
    Bit {
        /// The register's address.
        address: u32,
        /// The bit.
        bit: u8,
    },
    /// A line of register addresses.
    Line(u8),
    /// A link.
    Link(u8),
    /// Two links, the smaller number first.
    Links(u8, u8),
    /// A DMA buffer.
    Buffer(u8),
    /// A bit of the words of a DMA buffer.
    BufferBit(u8, u8),
    /// A line of the addresses within its blocks.
    BufferLine(u8, u8),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Card => f.write_str("card"),
            Self::Bit { address, bit } => write!(f, "register {address:#05x} bit {bit}"),
            Self::Line(line) => write!(f, "address line {line}"),
            Self::Link(link) => write!(f, "link {link}"),
            Self::Links(a, b) => write!(f, "links {a} and {b}"),
            Self::Buffer(buffer) => write!(f, "DMA buffer {buffer}"),
            Self::BufferBit(buffer, bit) => write!(f, "DMA buffer {buffer} bit {bit}"),
            Self::BufferLine(buffer, line) => write!(f, "DMA buffer {buffer} address line {line}"),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A kind of symptom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// Registers read as all ones.
    AllOnes,
    /// A bit of a register does not take what is written.
    BitStays,
    /// What is written to one register is read from another, as if a line of the address were stuck.
    Aliased,
    /// Registers do not hold what was written, in no way that is known.
    NotHeld,
    /// A bit of one constant is not as it should be.
    ConstantBit,
    /// More than a bit of what names the firmware is not as it should be.
    FirmwareDiffers,
    /// Other constants are not as they should be.
    ConstantDiffers,
    /// A link aligned at no try.
    NeverAligns,
    /// A link aligned at some tries only.
    SometimesAligns,
    /// Two links hear each other.
    Swapped,
    /// A link that is aligned hears nothing, or what nobody says.
    HearsWrong,
    /// A checker of PRBS does not find its sequence.
    NoPrbs,
    /// More wrong bits than the limit allows.
    WrongBits,
    /// The same bit of words in a DMA buffer stays as it is.
    DataBitStays,
    /// Words in a DMA buffer lie where others should, as if a line of the address were stuck.
    WordsMoved,
    /// Words in a DMA buffer are wrong in no way that is known.
    WordsWrong,
    /// Blocks are missing between others.
    BlocksMissing,
    /// Fewer blocks than were asked for came, or none.
    BlocksStop,
    /// Blocks came without an interrupt.
    NoInterrupt,
    /// Blocks came more slowly than the limit.
    Slow,
    /// The TTC input has no clock.
    Unlocked,
    /// Triggers were not counted as they were sent.
    L1aDiffers,
    /// Resets of the bunch counter were not.
    BcrDiffers,
    /// Resets of the trigger number were not.
    EcrDiffers,
    /// XOFF comes and goes at the first marks, whatever was written.
    MarksIgnored,
    /// XOFF is up though the queue is empty.
    XoffStaysUp,
    /// XOFF never comes.
    XoffStaysDown,
    /// XOFF comes or goes at other fills than its marks.
    MarksMissed,
    /// The queue does not hold what was put into it.
    QueueWrong,
}

impl Sign {
    /// Whether what follows would only say the same again.
    #[must_use]
    pub const fn spoils_the_bus(self) -> bool {
        matches!(self, Self::AllOnes | Self::Aliased | Self::NotHeld)
    }
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// Of which kind.
    pub sign: Sign,
    /// Where.
    pub place: Place,
    /// In words, with the numbers.
    pub says: String,
}

impl Symptom {
    pub(super) fn new(sign: Sign, place: Place, says: impl Into<String>) -> Self {
        Self {
            sign,
            place,
            says: says.into(),
        }
    }
}
