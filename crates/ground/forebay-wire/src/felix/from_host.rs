//! From-host packets: messages to E-links, in packets of 32 bytes.
//!
//! ```text
//! packet   29 … 0: payload bytes, the first one last | 30..31: header, little-endian
//! header   Rm5   15..5 E-link | 4..0  31: full, and the message goes on; 0 to 30: bytes of the last packet
//!          Rm4   15..5 E-link | 4..1  words of 16 bits | 0  end of the message
//! ```
//!
//! What is certain: the size, both headers and the reversed order, from `flxdefs.h` and `FlxUpload.cpp` of ftools (Apache-2.0). What is not: newer firmware also has a
//! layout with the header in front, and packets of 64 bytes and more for wider DMA; their details are not public, and they are not offered here.
//!
//! | message | `Rm5` | `Rm4` |
//! |---|---|---|
//! | of no bytes | one packet of length 0 | one packet of 0 words, with its end |
//! | of n × 30 bytes | n packets, the last one with length 30 | n packets of 15 words, the last one with its end |
//! | of odd length | as it is | cannot be said: it is refused ([`OddLength`]), since a byte more would be another message |
//!
//! A reader takes a packet of length 0 as the end of a longer message, too: other writers may end one of n × 30 bytes so.

mod decoder;

use core::fmt;

use thiserror::Error;

use super::elink::Elink;
pub use decoder::{FromHostAccount, FromHostDecoder, FromHostLoss, FromHostLost, Pieces, Taken};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 32;
/// Payload bytes of a packet.
pub const PACKET_PAYLOAD_BYTES: usize = 30;
const HEADER_AT: usize = PACKET_PAYLOAD_BYTES;
/// Length of a packet that is not the last one, in `Rm5`.
const GOES_ON: u16 = 0x1f;

/// How a packet says its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketFormat {
    /// 5 bits of length in bytes: Phase II, the default.
    #[default]
    Rm5,
    /// 4 bits of length in words of 16 bits, and a bit for the end: Phase I.
    Rm4,
}

/// A message of an odd number of bytes, which packets of Phase I cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a message of {bytes} bytes: packets of Phase I count words of 2 bytes; send an even number"
)]
pub struct OddLength {
    /// Its length.
    pub bytes: usize,
}

/// What the header of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// Where its message goes.
    pub elink: Elink,
    /// Payload bytes of it, 0 to 30.
    pub bytes: u8,
    /// Whether the message ends with it.
    pub is_last: bool,
}

impl PacketFormat {
    /// Its name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rm5 => "rm5",
            Self::Rm4 => "rm4",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Rm5, Self::Rm4]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// Reads a header; every value of it says something.
    #[inline]
    #[must_use]
    pub const fn head(self, header: u16) -> PacketHead {
        let elink = Elink::from_bits(header >> 5);
        let low = header & 0x1f;
        let (bytes, is_last) = match self {
            Self::Rm5 if low == GOES_ON => (PACKET_PAYLOAD_BYTES as u8, false),
            Self::Rm5 => (low as u8, true),
            Self::Rm4 => ((low >> 1) as u8 * 2, low & 1 == 1),
        };
        PacketHead {
            elink,
            bytes,
            is_last,
        }
    }

    /// The header that says this; of an odd length in `Rm4` it says one byte less.
    #[inline]
    const fn header(self, head: PacketHead) -> u16 {
        let low = match self {
            Self::Rm5 if !head.is_last => GOES_ON,
            Self::Rm5 => head.bytes as u16,
            Self::Rm4 => (head.bytes as u16 / 2) << 1 | head.is_last as u16,
        };
        head.elink.number() << 5 | low
    }
}

impl fmt::Display for PacketFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Packets that a message of so many bytes takes, at least one.
#[inline]
#[must_use]
pub const fn packets_of(bytes: usize) -> usize {
    if bytes == 0 {
        1
    } else {
        bytes.div_ceil(PACKET_PAYLOAD_BYTES)
    }
}

/// A message as packets, one after the other.
///
/// ```
/// use forebay_wire::felix::{Elink, PACKET_BYTES, PacketFormat, PacketWriter};
///
/// let mut packet = [0; PACKET_BYTES];
/// let mut writer = PacketWriter::begin(PacketFormat::Rm5, Elink::from_bits(5), &[7; 40])?;
/// while writer.emit(&mut packet) {
///     // … into the card's ring
/// }
/// assert_eq!((packet[31], packet[30]), (0x00, 0xaa)); // E-link 5, 10 bytes
/// # Ok::<(), forebay_wire::felix::OddLength>(())
/// ```
#[derive(Debug)]
pub struct PacketWriter<'a> {
    format: PacketFormat,
    elink: Elink,
    rest: &'a [u8],
    is_done: bool,
}

impl<'a> PacketWriter<'a> {
    /// A message for an E-link.
    ///
    /// # Errors
    /// Packets of Phase I cannot say an odd length.
    pub const fn begin(
        format: PacketFormat,
        elink: Elink,
        message: &'a [u8],
    ) -> Result<Self, OddLength> {
        let bytes = message.len();
        if matches!(format, PacketFormat::Rm4) && bytes % 2 == 1 {
            return Err(OddLength { bytes });
        }
        Ok(Self {
            format,
            elink,
            rest: message,
            is_done: false,
        })
    }

    /// Writes the next packet; false, and nothing written, when there is none any more.
    #[inline]
    pub fn emit(&mut self, packet: &mut [u8; PACKET_BYTES]) -> bool {
        if self.is_done {
            return false;
        }
        let (piece, rest) = match self.rest.split_at_checked(PACKET_PAYLOAD_BYTES) {
            Some(split) => split,
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        self.is_done = rest.is_empty();
        let (payload, header) = packet.split_at_mut(HEADER_AT);
        let (filler, reversed) = payload.split_at_mut(PACKET_PAYLOAD_BYTES - piece.len());
        filler.fill(0);
        for (to, from) in reversed.iter_mut().rev().zip(piece) {
            *to = *from;
        }
        let head = PacketHead {
            elink: self.elink,
            bytes: piece.len() as u8,
            is_last: self.is_done,
        };
        header.copy_from_slice(&self.format.header(head).to_le_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use alloc::vec::Vec;

    use super::*;

    fn packets(format: PacketFormat, elink: u16, message: &[u8]) -> Vec<[u8; PACKET_BYTES]> {
        let elink = Elink::new(elink).unwrap();
        let mut writer = PacketWriter::begin(format, elink, message).unwrap();
        let mut packets = Vec::new();
        let mut packet = [0xff; PACKET_BYTES];
        while writer.emit(&mut packet) {
            packets.push(packet);
        }
        packets
    }

    fn headers(format: PacketFormat, bytes: usize) -> Vec<u16> {
        let message: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        packets(format, 0x21, &message)
            .iter()
            .map(|packet| u16::from_le_bytes([packet[30], packet[31]]))
            .collect()
    }

    #[test]
    fn golden_bytes_of_both_formats() {
        let message: Vec<u8> = (1..=34).collect();
        // E-link 0x08a = 4 << 5 | 10: its 11 bits stand above the low 5.
        let rm5 = packets(PacketFormat::Rm5, 0x08a, &message);
        let full: [u8; 32] = [
            30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9,
            8, 7, 6, 5, 4, 3, 2, 1, 0x5f, 0x11,
        ];
        let mut last = [0; 32];
        last[26..].copy_from_slice(&[34, 33, 32, 31, 0x44, 0x11]);
        assert_eq!(rm5, [full, last]);
        let rm4 = packets(PacketFormat::Rm4, 0x08a, &message);
        let (mut full4, mut last4) = (full, last);
        // 15 words, not the end; 2 words, the end.
        full4[30..].copy_from_slice(&[0x5e, 0x11]);
        last4[30..].copy_from_slice(&[0x45, 0x11]);
        assert_eq!(rm4, [full4, last4]);
        assert_eq!(
            packets(PacketFormat::Rm5, 2047, &[9])[0][29..],
            [9, 0xe1, 0xff]
        );
    }

    #[test]
    fn lengths_at_the_edges_are_said_as_the_table_has_it() {
        let elink = 0x21 << 5;
        assert_eq!(headers(PacketFormat::Rm5, 0), [elink]);
        assert_eq!(headers(PacketFormat::Rm4, 0), [elink | 1]);
        assert_eq!(headers(PacketFormat::Rm5, 30), [elink | 30]);
        assert_eq!(headers(PacketFormat::Rm4, 30), [elink | 31]);
        assert_eq!(headers(PacketFormat::Rm5, 60), [elink | 31, elink | 30]);
        assert_eq!(headers(PacketFormat::Rm4, 60), [elink | 30, elink | 31]);
        assert_eq!(headers(PacketFormat::Rm5, 31), [elink | 31, elink | 1]);
        let odd = PacketWriter::begin(PacketFormat::Rm4, Elink::default(), &[0; 31]);
        assert_eq!(odd.unwrap_err(), OddLength { bytes: 31 });
        assert_eq!([0, 1, 30, 31, 60].map(packets_of), [1, 1, 1, 2, 2]);
    }

    #[test]
    fn every_header_is_read_as_it_is_written() {
        for format in [PacketFormat::Rm5, PacketFormat::Rm4] {
            for header in 0..=u16::MAX {
                assert_eq!(format.header(format.head(header)), header, "{format}");
            }
            assert_eq!(PacketFormat::of_name(format.name()), Some(format));
        }
    }
}
