//! The HADTU unit: the two words that messages, events and sub-events all start with.
//!
//! ```text
//! +0  size      bytes with the header, without padding
//! +4  decoding  0x00AADDDD: exponent AA of an alignment, type DDDD, whose low byte is never 0
//! ```
//!
//! Since the word's highest byte is always 0 and its lowest never, the word tells the byte order, for each unit by itself.

use core::fmt;
use core::ops::Range;

use crate::Error;

/// Bytes of a unit's header: size and decoding.
pub const UNIT_HEADER_BYTES: usize = 8;
/// The alignment that messages and events use for what they contain.
pub const ALIGNMENT_BYTES: usize = 8;
mod field {
    use super::Range;

    pub(super) const SIZE: Range<usize> = 0..4;
    pub(super) const DECODING: Range<usize> = 4..8;
}

/// The byte order of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first: what an x86 host writes.
    Little,
    /// Most significant byte first: what readout hardware sends.
    #[default]
    Big,
}

impl ByteOrder {
    /// This host's own order.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    /// Reads a word in this order.
    #[inline]
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Reads a half word in this order.
    #[inline]
    pub const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Lays a word down in this order.
    #[inline]
    pub const fn bytes(self, word: u32) -> [u8; 4] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}

/// Rounds a size up to a multiple of 8, as every reader does for messages and events.
#[inline]
pub const fn round_up_8(size: u64) -> u64 {
    (size + 7) & !7
}

/// The alignment in bytes that a decoding word names: `1 << exponent`, or `None` beyond 8 bytes.
#[inline]
pub const fn alignment_bytes(decoding: u32) -> Option<usize> {
    match (decoding >> 16) & 0xff {
        exponent @ 0..=3 => Some(1 << exponent),
        _ => None,
    }
}

/// A decoding word without the bits that vary from one sub-event to the next: the trigger type (bits 7..4)
/// and "alone" (bit 3).
#[inline]
pub const fn decoding_base(decoding: u32) -> u32 {
    decoding & 0xffff_ff07
}

/// The size and decoding words that each unit starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    /// Bytes with the header, without padding (and without a message's trailer).
    pub size: u32,
    /// Alignment exponent in byte 2, type in the low half.
    pub decoding: u32,
    /// The unit's own byte order.
    pub order: ByteOrder,
}

impl UnitHeader {
    /// Reads both words in the order that the decoding word reveals.
    ///
    /// # Errors
    /// [`Error::Decoding`] when the word is legal in neither order.
    #[inline]
    pub const fn parse(head: &[u8; UNIT_HEADER_BYTES]) -> Result<Self, Error> {
        let [s0, s1, s2, s3, d0, d1, d2, d3] = *head;
        let little = u32::from_le_bytes([d0, d1, d2, d3]);
        let order = if little > 0x00ff_ffff {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        };
        let decoding = order.u32([d0, d1, d2, d3]);
        if decoding > 0x00ff_ffff || decoding & 0xff == 0 {
            return Err(Error::Decoding { word: little });
        }
        Ok(Self {
            size: order.u32([s0, s1, s2, s3]),
            decoding,
            order,
        })
    }

    /// Writes both words.
    #[inline]
    pub fn emit(&self, head: &mut [u8; UNIT_HEADER_BYTES]) {
        head[field::SIZE].copy_from_slice(&self.order.bytes(self.size));
        head[field::DECODING].copy_from_slice(&self.order.bytes(self.decoding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: [u8; 8] = [0, 0, 0, 0x38, 0, 3, 0, 0x62];
    const LITTLE: [u8; 8] = [0x38, 0, 0, 0, 0x62, 0, 3, 0];

    #[test]
    fn golden_unit_in_both_orders() {
        for (bytes, order) in [(BIG, ByteOrder::Big), (LITTLE, ByteOrder::Little)] {
            let unit = UnitHeader::parse(&bytes).unwrap();
            assert_eq!((unit.size, unit.decoding), (56, 0x0003_0062));
            assert_eq!(unit.order, order);
            let mut written = [0; 8];
            unit.emit(&mut written);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn a_decoding_word_legal_in_neither_order_is_refused() {
        for decoding in [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0xff; 4]] {
            let [a, b, c, d] = decoding;
            let word = u32::from_le_bytes(decoding);
            let refused = UnitHeader::parse(&[0, 0, 0, 32, a, b, c, d]);
            assert_eq!(refused, Err(Error::Decoding { word }));
        }
    }

    #[test]
    fn alignments_and_bases() {
        assert_eq!(alignment_bytes(0x0000_0001), Some(1));
        assert_eq!(alignment_bytes(0x0003_0001), Some(8));
        assert_eq!(alignment_bytes(0x0004_0001), None);
        assert_eq!(decoding_base(0x0002_00d9), 0x0002_0001);
        assert_eq!((round_up_8(0), round_up_8(1), round_up_8(8)), (0, 8, 8));
    }
}
