//! Why a mover says no.

/// Why a mover refuses a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// The frame could not be read.
    Malformed = 1,
    /// As many senders as it serves are connected.
    Busy = 2,
    /// Its file or ledger cannot be opened.
    Storage = 3,
    /// A block that does not begin where the last one ended.
    OutOfOrder = 4,
    /// A block whose checksum is not that of its events.
    Checksum = 5,
    /// The stream was ended before.
    Ended = 6,
    /// Nothing came for as long as a connection is kept; a sender that has something to send connects again.
    Idle = 7,
}

impl Refusal {
    pub(super) const ALL: [Self; 7] = [
        Self::Malformed,
        Self::Busy,
        Self::Storage,
        Self::OutOfOrder,
        Self::Checksum,
        Self::Ended,
        Self::Idle,
    ];

    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Busy => "busy",
            Self::Storage => "storage",
            Self::OutOfOrder => "out_of_order",
            Self::Checksum => "checksum",
            Self::Ended => "ended",
            Self::Idle => "idle",
        }
    }
}
