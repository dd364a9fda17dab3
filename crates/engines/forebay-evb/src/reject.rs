//! Why the receiving side refuses datagrams: each reason has a name of its own in the ledger.

use forebay_ledger::reasons;

reasons! {
    /// Why datagrams are dropped on the receiving side.
    pub enum Reject {
        /// Too short for a message.
        Short = "malformed_short",
        /// Neither byte order makes a decoding word of it, or the size field is smaller than the header.
        BadHeader = "malformed_header",
        /// Children are not padded to 8 bytes.
        BadAlignment = "malformed_alignment",
        /// The datagram's length is not the message's.
        BadLength = "malformed_length",
        /// The trailer is not a copy of the first 32 bytes.
        BadTrailer = "malformed_trailer",
        /// A piece of a message of several datagrams is missing.
        FragmentMissing = "fragment_missing",
        /// The message is longer than the limit.
        TooLong = "message_too_long",
        /// The datagram was longer than the buffer.
        Truncated = "datagram_truncated",
        /// No source is configured for it.
        UnknownSource = "unknown_source",
        /// The source's queue had no room.
        RingFull = "ring_full",
    }
}

reasons! {
    /// Why a receiver that is started again loses what the one before had in hand.
    pub enum CrashDrop {
        /// It was killed.
        ReceiverCrash = "receiver_crash",
    }
}
