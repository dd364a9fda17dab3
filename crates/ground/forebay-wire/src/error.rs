//! Why bytes were refused: one variant for each reason, with the numbers that show it.

/// The reason why a message, sub-event, event or header was refused.
///
/// All of them are the peer's fault (or the file's): nothing here depends on configuration or resources.
/// [`Error::reason`] is the name to count under.
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
    /// The name of this reason, fit for a counter or a metric's label.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Decoding { .. } => "bad_decoding",
            Self::Alignment { .. } => "bad_alignment",
            Self::SizeBelowHeader { .. } => "size_below_header",
            Self::Length { .. } => "bad_length",
            Self::Trailer { .. } => "bad_trailer",
            Self::Overrun { .. } => "subevent_overrun",
            Self::Leftover { .. } => "leftover_bytes",
            Self::NotAnEvent { .. } => "not_an_event",
            Self::TooLarge { .. } => "too_large",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_every_reason_has_a_name_of_its_own() {
        let (need, have, size, offset, room) = (8, 3, 4, 16, 2);
        let decoding = 7;
        let errors = [
            (Error::Truncated { need, have }, "truncated"),
            (Error::Decoding { word: 1 }, "bad_decoding"),
            (Error::Alignment { decoding }, "bad_alignment"),
            (
                Error::SizeBelowHeader { size, least: 8 },
                "size_below_header",
            ),
            (
                Error::Length {
                    size,
                    need: 9,
                    have,
                },
                "bad_length",
            ),
            (Error::Trailer { at: 3 }, "bad_trailer"),
            (Error::Overrun { offset, size, room }, "subevent_overrun"),
            (Error::Leftover { offset, room }, "leftover_bytes"),
            (Error::NotAnEvent { decoding }, "not_an_event"),
            (Error::TooLarge { bytes: 1 << 33 }, "too_large"),
        ];
        for (error, name) in errors {
            assert_eq!(error.reason(), name);
        }
    }
}
