//! The head of a block, and the formats that blocks have.

use core::fmt;

use thiserror::Error;

use super::elink::Elink;
use super::subchunk::Layout;

/// Bytes in front of the first subchunk.
pub const BLOCK_HEAD_BYTES: usize = 4;
/// Largest block.
pub const BLOCK_BYTES_MAX: usize = 16 << 10;
const KIB: usize = 1 << 10;

/// Marker, size and subchunks: what all blocks of a DMA buffer have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFormat {
    marker: u16,
    bytes: usize,
    layout: Layout,
}

/// There is no such format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockFormatError {
    /// A size that the marker cannot say.
    #[error("blocks of {bytes} bytes; 1024 times 1 to 16 can be")]
    Bytes {
        /// What was asked for.
        bytes: usize,
    },
    /// A marker that is none.
    #[error("{marker:#06x} is no marker of a block; 0xabcd, 0xabce and 0xc0ce to 0xcfce are")]
    Marker {
        /// What was found.
        marker: u16,
    },
}

impl BlockFormat {
    /// Phase I: 1 KiB, 16-bit trailers, marker 0xABCD.
    pub const PHASE1: Self = Self {
        marker: 0xabcd,
        bytes: KIB,
        layout: Layout::Trailers16,
    };
    /// Phase I with 32-bit trailers: 1 KiB, marker 0xABCE.
    pub const PHASE1_WIDE: Self = Self {
        marker: 0xabce,
        bytes: KIB,
        layout: Layout::Trailers32,
    };

    /// Phase II: whole KiB up to 16, 32-bit trailers; the size is in the marker, 0xC0CE for 1 KiB to 0xCFCE.
    ///
    /// # Errors
    /// Another size.
    pub const fn phase2(bytes: usize) -> Result<Self, BlockFormatError> {
        if bytes == 0 || !bytes.is_multiple_of(KIB) || bytes > BLOCK_BYTES_MAX {
            return Err(BlockFormatError::Bytes { bytes });
        }
        Ok(Self {
            marker: 0xc0ce | ((bytes / KIB - 1) as u16) << 8,
            bytes,
            layout: Layout::Trailers32,
        })
    }

    /// The format that a marker stands for.
    ///
    /// # Errors
    /// It is none.
    pub const fn of_marker(marker: u16) -> Result<Self, BlockFormatError> {
        match marker {
            0xabcd => Ok(Self::PHASE1),
            0xabce => Ok(Self::PHASE1_WIDE),
            _ if marker & 0xf0ff == 0xc0ce => {
                Self::phase2(((marker >> 8 & 0xf) as usize + 1) * KIB)
            }
            _ => Err(BlockFormatError::Marker { marker }),
        }
    }

    /// The same with words in front of the data instead of behind: a variant of this project, see [`Layout::Headers32`].
    #[must_use]
    pub const fn with_headers(self) -> Self {
        Self {
            layout: Layout::Headers32,
            ..self
        }
    }

    /// What stands at the beginning of each block.
    #[must_use]
    pub const fn marker(self) -> u16 {
        self.marker
    }

    /// Bytes of a block.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// How subchunks lie in it.
    #[inline]
    #[must_use]
    pub const fn layout(self) -> Layout {
        self.layout
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:#06x}, {} bytes, {}",
            self.marker, self.bytes, self.layout
        )
    }
}

/// The first word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// What it begins with.
    pub marker: u16,
    /// Counts the blocks of the E-link, 0 to 31: exactly 32 lost blocks leave no trace in it.
    pub sequence: u8,
    /// Whose it is.
    pub elink: Elink,
}

impl BlockHead {
    /// Sequence numbers.
    pub const SEQUENCES: u8 = 32;

    /// The head of a block; none if there is not a whole one.
    #[inline]
    #[must_use]
    pub fn of(block: &[u8]) -> Option<Self> {
        let word = block.first_chunk()?;
        Some(Self::from_word(u32::from_le_bytes(*word)))
    }

    /// Writes the head of a block. Nothing happens where none fits.
    #[inline]
    pub fn emit(self, block: &mut [u8]) {
        if let Some(word) = block.first_chunk_mut() {
            *word = self.word().to_le_bytes();
        }
    }

    /// The places at which a block with this marker could begin, in order; its head is whole at each.
    pub fn places(bytes: &[u8], marker: u16) -> impl Iterator<Item = usize> {
        let heads = bytes.windows(BLOCK_HEAD_BYTES).enumerate();
        heads.filter_map(move |(at, head)| (Self::of(head)?.marker == marker).then_some(at))
    }

    /// The fields of the word.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self {
            marker: (word >> 16) as u16,
            sequence: (word >> 11 & 0x1f) as u8,
            elink: Elink::from_bits(word as u16),
        }
    }

    /// The word.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u32 {
        (self.marker as u32) << 16
            | ((self.sequence % Self::SEQUENCES) as u32) << 11
            | self.elink.number() as u32
    }
}

impl fmt::Display for BlockHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "marker {:#06x}, E-link {}, sequence {}",
            self.marker, self.elink, self.sequence
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn golden_head_as_a_card_writes_it() {
        // 4 KiB, link 1, sequence 5: as on disk.
        let block = [0x40, 0x28, 0xce, 0xc3, 0xff];
        let head = BlockHead::of(&block).unwrap();
        assert_eq!(head.elink.link(), 1);
        assert_eq!((head.sequence, head.marker), (5, 0xc3ce));
        let mut written = [0xff; 5];
        head.emit(&mut written);
        assert_eq!(written, block);
        head.emit(&mut written[1..4]);
        assert_eq!(written, block);
        assert_eq!(BlockHead::of(&block[..3]), None);
        assert_eq!(BlockHead::from_word(head.word()), head);
        assert_eq!(BlockFormat::of_marker(head.marker).unwrap().bytes(), 4096);
    }

    #[test]
    fn places_are_those_of_the_marker_behind_which_a_head_is_whole() {
        let bytes = [0, 0, 0xce, 0xc3, 0, 0, 0, 0xce, 0xc3, 0xce, 0xc3];
        let places: std::vec::Vec<_> = BlockHead::places(&bytes, 0xc3ce).collect();
        assert_eq!(places, [0, 5, 7]);
        assert_eq!(BlockHead::places(&bytes[..3], 0xc3ce).count(), 0);
    }

    #[test]
    fn markers_say_size_and_trailers() {
        for (marker, bytes, layout) in [
            (0xabcd, 1024, Layout::Trailers16),
            (0xabce, 1024, Layout::Trailers32),
            (0xc0ce, 1024, Layout::Trailers32),
            (0xcfce, 16_384, Layout::Trailers32),
        ] {
            let format = BlockFormat::of_marker(marker).unwrap();
            assert_eq!(
                (format.marker(), format.bytes(), format.layout()),
                (marker, bytes, layout)
            );
        }
        for marker in [0, 0xffff, 0xd0ce, 0xc0cd, 0xabcf] {
            assert_eq!(
                BlockFormat::of_marker(marker),
                Err(BlockFormatError::Marker { marker })
            );
        }
        for bytes in [0, 1000, 1536, 17 << 10] {
            assert_eq!(
                BlockFormat::phase2(bytes),
                Err(BlockFormatError::Bytes { bytes })
            );
        }
    }
}
