//! Why the receiving side refuses datagrams: each reason has a name of its own in the ledger.

/// Why datagrams are dropped on the receiving side; the order is that of the ledger's reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reject {
    /// Too short for a message.
    Short,
    /// Neither byte order makes a decoding word of it, or the size field is smaller than the header.
    BadHeader,
    /// Children are not padded to 8 bytes.
    BadAlignment,
    /// The datagram's length is not the message's.
    BadLength,
    /// The trailer is not a copy of the first 32 bytes.
    BadTrailer,
    /// A piece of a message of several datagrams is missing.
    FragmentMissing,
    /// The message is longer than the limit.
    TooLong,
    /// The datagram was longer than the buffer.
    Truncated,
    /// No source is configured for it.
    UnknownSource,
    /// The source's queue had no room.
    RingFull,
}

impl Reject {
    /// All reasons, in the ledger's order.
    pub const ALL: [Self; 10] = [
        Self::Short,
        Self::BadHeader,
        Self::BadAlignment,
        Self::BadLength,
        Self::BadTrailer,
        Self::FragmentMissing,
        Self::TooLong,
        Self::Truncated,
        Self::UnknownSource,
        Self::RingFull,
    ];

    /// The reason's name in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "malformed_short",
            Self::BadHeader => "malformed_header",
            Self::BadAlignment => "malformed_alignment",
            Self::BadLength => "malformed_length",
            Self::BadTrailer => "malformed_trailer",
            Self::FragmentMissing => "fragment_missing",
            Self::TooLong => "message_too_long",
            Self::Truncated => "datagram_truncated",
            Self::UnknownSource => "unknown_source",
            Self::RingFull => "ring_full",
        }
    }
}
