//! How it went.

use forebay_wire::tdm::{EndReason, Kind, RefuseReason, TdmError};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Both sides have told each other their totals.
    Complete,
    /// The same, and somebody had asked for the end.
    Interrupted,
    /// The receiver ended the session.
    Stopped(EndReason),
    /// It may not take part.
    Refused(RefuseReason),
    /// No receiver answered, or none any more.
    NoReceiver,
}

/// Why a datagram that came was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is none of this protocol.
    #[error(transparent)]
    Malformed(#[from] TdmError),
    /// Its keyed hash is wrong, or there is none where there should be one.
    #[error("its keyed hash is not that of our key")]
    Key,
    /// It belongs to another session.
    #[error("it belongs to the session {0:016x}, which is not ours")]
    Foreign(u64),
    /// Nothing of the kind is expected now.
    #[error("a {0} is not expected now")]
    Unexpected(Kind),
}

/// What it has sent, and why not more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Windows with at least one packet.
    pub windows: u64,
    /// Packets given to the kernel, refused ones included.
    pub packets: u64,
    /// Of them, refused by the kernel.
    pub errors: u64,
    /// Bytes of payload in all of them.
    pub payload_bytes: u64,
    /// Windows of which the first packet left 20 us late or more.
    pub late: u64,
    /// Windows that were over before all had left that was planned for them and lay ready.
    pub cut: u64,
    /// Windows that were over before it woke up.
    pub preempted: u64,
    /// Windows that were left out because the clocks contradicted each other.
    pub withheld: u64,
    /// Packets that no longer fitted into their window and went with a later one.
    pub carried: u64,
    /// Reports that were given up without an answer.
    pub reports_given_up: u64,
    /// Times that a receiver was lost.
    pub receivers_lost: u64,
    /// Datagrams that came and were not taken.
    pub not_taken: u64,
    /// Of them, those of other sessions.
    pub foreign: u64,
}
