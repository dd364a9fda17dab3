//! Why bytes were refused: one variant for each reason, with the numbers that show it.

/// The reason why a message, sub-event, event or header was refused.
///
/// All of them are the peer's fault (or the file's): nothing here depends on configuration or resources.
/// [`Error::reason`] is the name to count under, [`Error::index`] its place in [`Error::REASONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the smallest legal unit of this kind.
    #[error("{have} bytes, a header takes {need}")]
    Truncated {
        /// Bytes that the header takes.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A decoding word that is legal in neither byte order.
    #[error("decoding word {word:#010x} is legal in neither byte order")]
    Decoding {
        /// The word, read as little-endian.
        word: u32,
    },
    /// An alignment beyond 8 bytes in the decoding word of a container.
    #[error("decoding word {decoding:#010x} asks for an alignment beyond 8 bytes")]
    Alignment {
        /// The decoding word in the unit's own order.
        decoding: u32,
    },
    /// A size field smaller than the unit's own header.
    #[error("size field says {size} bytes, the header alone takes {least}")]
    SizeBelowHeader {
        /// The size field.
        size: u32,
        /// Bytes that the header takes.
        least: u32,
    },
    /// A message whose length differs from what its size field asks for (a cut or a glued message).
    #[error("message has {have} bytes, its size field {size} asks for {need}")]
    Length {
        /// The size field.
        size: u32,
        /// `round_up(size, 8) + 32`.
        need: u64,
        /// Bytes that are there.
        have: usize,
    },
    /// A message whose last 32 bytes are not a copy of its first 32 bytes.
    #[error("trailer differs from the head at byte {at}")]
    Trailer {
        /// The first byte that differs, counted from the trailer's start.
        at: usize,
    },
    /// A sub-event that is larger than what is left of its container.
    #[error("sub-event at byte {offset} has {size} bytes, {room} are left")]
    Overrun {
        /// Where the sub-event starts, from the container's start.
        offset: usize,
        /// Its size field.
        size: u32,
        /// Bytes left in the container.
        room: usize,
    },
    /// Left-over bytes at the end of a container, too few for a sub-event's header.
    #[error("{room} bytes are left at byte {offset}, a sub-event's header takes 16")]
    Leftover {
        /// Where they start, from the container's start.
        offset: usize,
        /// How many they are.
        room: usize,
    },
    /// An HLD event header with a decoding word of another type.
    #[error("decoding word {decoding:#010x} is not an event's")]
    NotAnEvent {
        /// The decoding word in the unit's own order.
        decoding: u32,
    },
    /// A unit that would grow beyond what its 32-bit size field can say.
    #[error("{bytes} bytes do not fit into a 32-bit size field")]
    TooLarge {
        /// The bytes that were asked for.
        bytes: u64,
    },
}

impl Error {
    /// The names of all reasons, in the order of [`Error::index`].
    pub const REASONS: [&'static str; 10] = [
        "truncated",
        "bad_decoding",
        "bad_alignment",
        "size_below_header",
        "bad_length",
        "bad_trailer",
        "subevent_overrun",
        "leftover_bytes",
        "not_an_event",
        "too_large",
    ];

    /// The place of this reason in [`Error::REASONS`]: an index for an array of counters.
    pub const fn index(&self) -> usize {
        match self {
            Self::Truncated { .. } => 0,
            Self::Decoding { .. } => 1,
            Self::Alignment { .. } => 2,
            Self::SizeBelowHeader { .. } => 3,
            Self::Length { .. } => 4,
            Self::Trailer { .. } => 5,
            Self::Overrun { .. } => 6,
            Self::Leftover { .. } => 7,
            Self::NotAnEvent { .. } => 8,
            Self::TooLarge { .. } => 9,
        }
    }

    /// The name of this reason, fit for a counter or a metric's label.
    pub const fn reason(&self) -> &'static str {
        Self::REASONS[self.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_every_reason_has_a_name_of_its_own() {
        let mut names = Error::REASONS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Error::REASONS.len());
        assert_eq!(Error::Trailer { at: 3 }.reason(), "bad_trailer");
        assert_eq!(Error::TooLarge { bytes: 1 << 33 }.reason(), "too_large");
    }
}
