//! What is counted of each target.
//!
//! | place | in | out | dropped | held |
//! |---|---|---|---|---|
//! | `load_send` | packets that were due and made | those that the kernel took | what it refused | those that wait for room |
//! | `load_flight` | packets that left | answered in time | lost | those whose answer is waited for |
//! | `load_answer` | packets that came | answers in time | late, duplicate, corrupt, foreign | – |

use forebay_ledger::{DropReason, PerReason, reasons};

reasons! {
    /// Why a packet that was due did not leave.
    pub enum SendDrop {
        /// It is longer than the way takes.
        TooLong = "too_long",
        /// The host or its card had no buffer.
        NoBuffer = "no_buffer",
        /// The kernel refused it for another reason.
        Refused = "refused",
        /// The connection to its target is lost.
        Disconnected = "disconnected",
        /// The run ended before there was room.
        NotSent = "not_sent",
    }
}

reasons! {
    /// Why a packet that left is not answered.
    pub enum FlightDrop {
        /// No answer came in time.
        TimeOut = "time_out",
        /// More were on their way than are remembered.
        WindowFull = "window_full",
        /// The connection to its target is lost.
        ConnectionLost = "connection_lost",
        /// The run ended before its time was over.
        RunEnded = "run_ended",
    }
}

reasons! {
    /// Why a packet that came is no answer in time.
    pub enum AnswerDrop {
        /// What it answers was given up before.
        Late = "late",
        /// What it answers was answered before.
        Duplicate = "duplicate",
        /// Its bytes are not those that were sent.
        Corrupt = "corrupt",
        /// It is of another sender, run or target, or nothing of the kind.
        Foreign = "foreign",
    }
}

/// Packets, and the bytes of their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Amount {
    /// One more packet.
    #[inline]
    pub const fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl core::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// Of packets that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Those that were made.
    pub due: Amount,
    /// Those that the kernel took.
    pub taken: Amount,
    /// Those that it did not.
    pub dropped: PerReason<SendDrop, Amount, { SendDrop::COUNT }>,
}

/// Of packets that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlightCounts {
    /// All of them.
    pub sent: Amount,
    /// Those that were answered in time.
    pub answered: Amount,
    /// Those that were not.
    pub lost: PerReason<FlightDrop, Amount, { FlightDrop::COUNT }>,
}

/// Of packets that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// All of them.
    pub came: Amount,
    /// Answers in time.
    pub matched: Amount,
    /// The others.
    pub dropped: PerReason<AnswerDrop, Amount, { AnswerDrop::COUNT }>,
}

/// All that is counted of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of packets that were due.
    pub send: SendCounts,
    /// Those that wait for room now.
    pub waiting: Amount,
    /// Of packets that left.
    pub flight: FlightCounts,
    /// Those whose answer is waited for now.
    pub in_flight: Amount,
    /// Of packets that came.
    pub answer: AnswerCounts,
    /// Answers in time to packets that were sent before one that was answered already.
    pub reordered: u64,
}
