//! What a client can lie about, and how it can end its connection.

/// A lie that costs a packet or a buffer, and the connection if it is told often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// A packet in a buffer that is not there.
    BufferUnknown,
    /// A packet in a buffer that was handed over a moment before, with a packet that is sound.
    BufferInUse,
    /// A packet that reaches over the end of its buffer.
    Range,
    /// A packet that is no frame.
    TooShort,
    /// A packet that the link does not take.
    TooLong,
    /// A packet in the name of another station.
    ForeignSource,
    /// A packet for another VLAN than its own, if it has one.
    ForeignVlan,
    /// A buffer that is not there, given back.
    ReturnUnknown,
    /// A buffer given back twice, if it has one.
    ReturnTwice,
}

/// All of them.
pub(super) const LIES: [Lie; 9] = [
    Lie::BufferUnknown,
    Lie::BufferInUse,
    Lie::Range,
    Lie::TooShort,
    Lie::TooLong,
    Lie::ForeignSource,
    Lie::ForeignVlan,
    Lie::ReturnUnknown,
    Lie::ReturnTwice,
];

impl Lie {
    /// The name that the multiplexer counts it under.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::BufferUnknown => "send.buffer_unknown",
            Self::BufferInUse => "send.buffer_in_use",
            Self::Range => "send.range",
            Self::TooShort => "send.too_short",
            Self::TooLong => "send.too_long",
            Self::ForeignSource => "send.foreign_source",
            Self::ForeignVlan => "send.foreign_vlan",
            Self::ReturnUnknown => "return.buffer_unknown",
            Self::ReturnTwice => "return.not_held",
        }
    }
}

/// A position of a ring that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Packets that it sent before are not sent.
    SentBack,
    /// It has sent more than there is room for.
    SentBeyond,
    /// Buffers that it gave back before are not given back.
    FreedBack,
    /// It has given back more than it was given.
    FreedBeyond,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By a position that cannot be.
    Position(Position),
    /// By one lie, told until the multiplexer has heard enough.
    Insists(Lie),
    /// It goes, with all that it holds.
    Leaves,
}

/// One connection after the other.
pub(super) const ENDS: [End; 7] = [
    End::Leaves,
    End::Position(Position::SentBack),
    End::Position(Position::SentBeyond),
    End::Insists(Lie::ForeignSource),
    End::Position(Position::FreedBack),
    End::Position(Position::FreedBeyond),
    End::Insists(Lie::ReturnUnknown),
];

/// The name of an end by leaving.
pub(super) const LEAVES: &str = "leaves";

impl End {
    /// Its name in counts.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Position(Position::SentBack) => "sent_back",
            Self::Position(Position::SentBeyond) => "sent_beyond",
            Self::Position(Position::FreedBack) => "freed_back",
            Self::Position(Position::FreedBeyond) => "freed_beyond",
            Self::Insists(_) => "insists",
            Self::Leaves => LEAVES,
        }
    }
}
