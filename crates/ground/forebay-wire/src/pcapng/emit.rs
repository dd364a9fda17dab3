//! Blocks of a pcapng file that is written (draft-ietf-opsawg-pcapng, sections 4.1 to 4.3), little-endian, with times in ns.
//!
//! ```text
//! section     type 0x0a0d0d0a u32   28 u32   0x1a2b3c4d u32   version 1.0 u16 u16   length unknown u64   28 u32
//! interface   type 1 u32   32 u32   link type u16   0 u16   most bytes of a packet, 0: no limit, u32   if_tsresol 9   end   32 u32
//! packet      type 6 u32   length u32   interface u32   time, upper and lower half, u32 u32   bytes that follow u32
//!             bytes that it had u32   bytes, padded to 4   opt_comment   epb_queue   end   length u32
//! ```

use alloc::vec::Vec;

/// Bytes of a section's header.
pub const SECTION_BYTES: usize = 28;
/// Bytes of the description of an interface.
pub const INTERFACE_BYTES: usize = 32;

const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const OPT_COMMENT: u16 = 1;
const IF_TSRESOL: u16 = 9;
const EPB_QUEUE: u16 = 6;
/// Bytes of a packet's block besides the packet, its comment and what pads both.
const PACKET_BYTES: usize = 48;

/// The header of a section, whose length is not told.
#[must_use]
pub fn section() -> Vec<u8> {
    let mut block = Vec::with_capacity(SECTION_BYTES);
    block.extend_from_slice(&super::SECTION_HEADER);
    words(&mut block, &[SECTION_BYTES as u32, 0x1a2b_3c4d, 1]);
    block.extend_from_slice(&u64::MAX.to_le_bytes());
    words(&mut block, &[SECTION_BYTES as u32]);
    block
}

/// An interface with frames of a link type, whose times are in ns. The first in a section is 0.
#[must_use]
pub fn interface(link_type: u16) -> Vec<u8> {
    let mut block = Vec::with_capacity(INTERFACE_BYTES);
    words(
        &mut block,
        &[INTERFACE, INTERFACE_BYTES as u32, link_type.into(), 0],
    );
    option(&mut block, IF_TSRESOL, &[9]);
    option(&mut block, 0, &[]);
    words(&mut block, &[INTERFACE_BYTES as u32]);
    block
}

/// A packet that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRepr<'a> {
    /// The place of its interface in the section, from 0.
    pub interface: u32,
    /// Time of its capture, in ns since 1970.
    pub time_ns: u64,
    /// Bytes that it had on the wire.
    pub wire_bytes: u32,
    /// What there is of it.
    pub bytes: &'a [u8],
    /// What is told of it, up to 65,535 bytes: the rest is cut off.
    pub comment: &'a str,
    /// The queue that it came by.
    pub queue: u32,
}

impl PacketRepr<'_> {
    /// Adds its block.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let comment = self.comment.as_bytes();
        let comment = comment.get(..u16::MAX.into()).unwrap_or(comment);
        let padded = |bytes: usize| bytes.next_multiple_of(4);
        let length = (PACKET_BYTES + padded(self.bytes.len()) + padded(comment.len())) as u32;
        let (upper, lower) = ((self.time_ns >> 32) as u32, self.time_ns as u32);
        let captured = self.bytes.len() as u32;
        words(
            to,
            &[
                ENHANCED_PACKET,
                length,
                self.interface,
                upper,
                lower,
                captured,
                self.wire_bytes,
            ],
        );
        put_padded(to, self.bytes);
        option(to, OPT_COMMENT, comment);
        option(to, EPB_QUEUE, &self.queue.to_le_bytes());
        option(to, 0, &[]);
        words(to, &[length]);
    }
}

fn words(to: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        to.extend_from_slice(&word.to_le_bytes());
    }
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend_from_slice(&code.to_le_bytes());
    to.extend_from_slice(&(value.len() as u16).to_le_bytes());
    put_padded(to, value);
}

fn put_padded(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(bytes);
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    to.extend_from_slice(&[0; 3][..padding]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcapng::{block_length, section_order};
    use crate::unit::ByteOrder;

    #[test]
    fn golden_blocks() {
        let golden = [
            0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255,
            255, 255, 255, 255, 255, 28, 0, 0, 0,
        ];
        assert_eq!(section(), golden);
        assert_eq!(section_order(&golden), Some(ByteOrder::Little));
        let golden = [
            1, 0, 0, 0, 32, 0, 0, 0, 113, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0,
            32, 0, 0, 0,
        ];
        assert_eq!(interface(113), golden);
        let packet = PacketRepr {
            interface: 2,
            time_ns: 0x0102_0304_0506_0708,
            wire_bytes: 1500,
            bytes: b"hello",
            comment: "a=b",
            queue: 7,
        };
        let mut block = Vec::new();
        packet.emit(&mut block);
        let golden = [
            6, 0, 0, 0, 60, 0, 0, 0, 2, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 0xdc, 5, 0, 0,
            b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 1, 0, 3, 0, b'a', b'=', b'b', 0, 6, 0, 4, 0, 7,
            0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0,
        ];
        assert_eq!(block, golden);
    }

    #[test]
    fn a_block_is_as_long_as_it_says() {
        for (bytes, comment) in [(0, 0), (1, 4), (4, 70_000), (1514, 3)] {
            let (bytes, comment) = (alloc::vec![7; bytes], "c".repeat(comment));
            let packet = PacketRepr {
                interface: 0,
                time_ns: 1,
                wire_bytes: 2000,
                bytes: &bytes,
                comment: &comment,
                queue: 0,
            };
            let mut block = Vec::new();
            packet.emit(&mut block);
            let told = block_length(&block, ByteOrder::Little);
            assert_eq!(told, Some(block.len() as u32));
            assert!(block.ends_with(&(block.len() as u32).to_le_bytes()));
        }
    }
}
