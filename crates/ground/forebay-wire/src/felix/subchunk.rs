//! Words that say what a subchunk is.

use core::fmt;

/// How subchunks lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// 16-bit words behind their data.
    Trailers16,
    /// 32-bit words behind their data.
    Trailers32,
    /// 32-bit words in front of their data; a block is filled up with words of the kind [`Kind::Null`]. Of this project alone.
    Headers32,
}

impl Layout {
    /// Bytes of the word, up to a multiple of which data is filled with zeros.
    #[inline]
    #[must_use]
    pub const fn word_bytes(self) -> usize {
        match self {
            Self::Trailers16 => 2,
            Self::Trailers32 | Self::Headers32 => 4,
        }
    }

    /// Most bytes of data that the word can say.
    #[must_use]
    pub const fn data_bytes_max(self) -> usize {
        match self {
            Self::Trailers16 => 0x3ff,
            Self::Trailers32 | Self::Headers32 => 0xffff,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trailers16 => "16-bit trailers",
            Self::Trailers32 => "32-bit trailers",
            Self::Headers32 => "32-bit headers",
        })
    }
}

/// Which part of a chunk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Nothing: what is left of a block.
    Null = 0,
    /// A chunk begins and goes on.
    First = 1,
    /// A chunk ends.
    Last = 2,
    /// A whole chunk.
    Both = 3,
    /// A chunk goes on.
    Middle = 4,
    /// The block was let go because of time. Its data is filling; or, if truncated, the end of a chunk.
    Timeout = 5,
    /// There is no such kind.
    Undefined = 6,
    /// Something beside the chunks, without data.
    OutOfBand = 7,
}

impl Kind {
    /// All of them, by number.
    pub const ALL: [Self; 8] = [
        Self::Null,
        Self::First,
        Self::Last,
        Self::Both,
        Self::Middle,
        Self::Timeout,
        Self::Undefined,
        Self::OutOfBand,
    ];

    /// The low three bits.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self::ALL[(bits & 7) as usize]
    }

    /// Its name in tables and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
            Self::Middle => "middle",
            Self::Timeout => "timeout",
            Self::Undefined => "undefined",
            Self::OutOfBand => "out_of_band",
        }
    }
}

/// What the firmware says of a subchunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// Nothing is wrong.
    pub const NONE: Self = Self(0);
    /// The front end was busy; only 32-bit words say it.
    pub const BUSY: Self = Self(1);
    /// The check sum is wrong.
    pub const CRC: Self = Self(2);
    /// The link or the front end made a mistake.
    pub const ERROR: Self = Self(4);
    /// Something was cut off.
    pub const TRUNCATED: Self = Self(8);

    /// The low four bits: busy, CRC, error, truncated.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0xf)
    }

    /// The bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has all of `other`.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The word of a subchunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subchunk {
    /// The part.
    pub kind: Kind,
    /// What the firmware says of it.
    pub flags: Flags,
    /// Bytes of data, without the zeros behind them.
    pub bytes: u16,
}

impl Subchunk {
    /// The fields of a 32-bit word.
    #[inline]
    #[must_use]
    pub const fn from_word32(word: u32) -> Self {
        Self {
            kind: Kind::from_bits(word >> 29),
            flags: Flags::from_bits((word >> 25) as u8),
            bytes: word as u16,
        }
    }

    /// The fields of a 16-bit word.
    #[inline]
    #[must_use]
    pub const fn from_word16(word: u16) -> Self {
        Self {
            kind: Kind::from_bits((word >> 13) as u32),
            flags: Flags::from_bits((word >> 10 & 7) as u8 * 2),
            bytes: word & 0x3ff,
        }
    }

    /// The 32-bit word.
    #[inline]
    #[must_use]
    pub const fn word32(self) -> u32 {
        (self.kind as u32) << 29 | (self.flags.bits() as u32) << 25 | self.bytes as u32
    }

    /// The 16-bit word, which has no place for busy and 10 bits for the length.
    #[inline]
    #[must_use]
    pub const fn word16(self) -> u16 {
        (self.kind as u16) << 13 | (self.flags.bits() as u16 >> 1) << 10 | self.bytes & 0x3ff
    }

    /// Writes the word at the beginning of `place`. Nothing happens where none fits.
    #[inline]
    pub fn emit(self, layout: Layout, place: &mut [u8]) {
        match layout {
            Layout::Trailers16 => {
                if let Some(word) = place.first_chunk_mut() {
                    *word = self.word16().to_le_bytes();
                }
            }
            Layout::Trailers32 | Layout::Headers32 => {
                if let Some(word) = place.first_chunk_mut() {
                    *word = self.word32().to_le_bytes();
                }
            }
        }
    }

    /// Bytes that lie in the block: kinds without data say their length for people only.
    #[inline]
    #[must_use]
    pub const fn data_bytes(self) -> usize {
        match self.kind {
            Kind::Null | Kind::OutOfBand => 0,
            _ => self.bytes as usize,
        }
    }
}

impl fmt::Display for Subchunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.kind.name(), self.bytes)?;
        for (flag, name) in [
            (Flags::TRUNCATED, "truncated"),
            (Flags::ERROR, "error"),
            (Flags::CRC, "CRC error"),
            (Flags::BUSY, "busy"),
        ] {
            if self.flags.has(flag) {
                write!(f, ", {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn golden_words_of_both_widths() {
        let whole = Subchunk {
            kind: Kind::Both,
            flags: Flags::NONE,
            bytes: 16,
        };
        assert_eq!(whole.word32(), 0x6000_0010);
        assert_eq!(whole.word16(), 0x6010);
        let written = |layout, bytes: usize| {
            let mut place = [0xff; 5];
            whole.emit(layout, &mut place[..bytes]);
            place
        };
        assert_eq!(written(Layout::Trailers32, 5), [0x10, 0, 0, 0x60, 0xff]);
        assert_eq!(written(Layout::Headers32, 4), [0x10, 0, 0, 0x60, 0xff]);
        assert_eq!(
            written(Layout::Trailers16, 5),
            [0x10, 0x60, 0xff, 0xff, 0xff]
        );
        assert_eq!(written(Layout::Trailers32, 3), [0xff; 5]);
        let cut = Subchunk {
            kind: Kind::Timeout,
            flags: Flags::TRUNCATED.and(Flags::CRC),
            bytes: 1000,
        };
        assert_eq!(cut.word32(), 5 << 29 | 1 << 28 | 1 << 26 | 1000);
        assert_eq!(cut.word16(), 5 << 13 | 1 << 12 | 1 << 10 | 1000);
        for subchunk in [whole, cut] {
            assert_eq!(Subchunk::from_word32(subchunk.word32()), subchunk);
            assert_eq!(Subchunk::from_word16(subchunk.word16()), subchunk);
        }
        let busy = Subchunk::from_word32(0x6200_0000);
        assert!(busy.flags.has(Flags::BUSY) && !busy.flags.has(Flags::CRC));
        assert_eq!(cut.to_string(), "timeout, 1000 bytes, truncated, CRC error");
    }

    #[test]
    fn kinds_without_data_take_none() {
        for (kind, bytes) in [
            (Kind::Null, 0),
            (Kind::OutOfBand, 0),
            (Kind::Timeout, 9),
            (Kind::Last, 9),
        ] {
            let subchunk = Subchunk {
                kind,
                flags: Flags::NONE,
                bytes: 9,
            };
            assert_eq!(subchunk.data_bytes(), bytes, "{kind:?}");
        }
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
