//! Headers of a capture file in pcap's first form, with times in ns (tcpdump.org/manpages/pcap-savefile.5.html).
//!
//! ```text
//! file    +0 magic 0xa1b23c4d u32   +4 version 2.4 u16 u16   +8 zero u64   +16 most bytes of a packet u32   +20 link type u32
//! packet  +0 s since 1970 u32   +4 ns u32   +8 bytes that follow u32   +12 bytes that it had u32
//! ```
//!
//! All numbers are written in little-endian order; they are read in both orders, and times in µs as well (magic 0xa1b2c3d4).

use crate::unit::ByteOrder;

/// Bytes of a file's header.
pub const FILE_HEADER_BYTES: usize = 24;
/// Bytes in front of each packet.
pub const PACKET_HEADER_BYTES: usize = 16;

const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_US: u32 = 0xa1b2_c3d4;
/// The upper bits of a link type hold the length of the frame check sequence.
const LINK_TYPE: u32 = 0x0fff_ffff;
const VERSION: [u16; 2] = [2, 4];
const SECOND_NS: u64 = 1_000_000_000;

/// The header of a file whose packets are cut to so many bytes.
#[must_use]
pub const fn file_header(link_type: u32, snap_bytes: u32) -> [u8; FILE_HEADER_BYTES] {
    let [m0, m1, m2, m3] = MAGIC_NS.to_le_bytes();
    let [major, minor] = VERSION;
    let [a0, a1] = major.to_le_bytes();
    let [b0, b1] = minor.to_le_bytes();
    let [s0, s1, s2, s3] = snap_bytes.to_le_bytes();
    let [l0, l1, l2, l3] = link_type.to_le_bytes();
    [
        m0, m1, m2, m3, a0, a1, b0, b1, 0, 0, 0, 0, 0, 0, 0, 0, s0, s1, s2, s3, l0, l1, l2, l3,
    ]
}

/// What stands in front of a packet, of which `captured_bytes` follow. Times end in 2106.
#[must_use]
pub const fn packet_header(
    time_ns: u64,
    captured_bytes: u32,
    wire_bytes: u32,
) -> [u8; PACKET_HEADER_BYTES] {
    let [s0, s1, s2, s3] = ((time_ns / SECOND_NS) as u32).to_le_bytes();
    let [n0, n1, n2, n3] = ((time_ns % SECOND_NS) as u32).to_le_bytes();
    let [c0, c1, c2, c3] = captured_bytes.to_le_bytes();
    let [w0, w1, w2, w3] = wire_bytes.to_le_bytes();
    [
        s0, s1, s2, s3, n0, n1, n2, n3, c0, c1, c2, c3, w0, w1, w2, w3,
    ]
}

/// What the header of a file says of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// How its numbers are written.
    pub order: ByteOrder,
    /// Whether times are in ns; if not, they are in µs.
    pub has_ns: bool,
    /// Number of the link type (tcpdump.org/linktypes.html).
    pub link_type: i32,
}

impl FileHeader {
    /// That of a file that begins with these bytes; none of one in another form, or of fewer bytes than a header has.
    #[must_use]
    pub fn parse(file: &[u8]) -> Option<Self> {
        let header: &[u8; FILE_HEADER_BYTES] = file.first_chunk()?;
        let [m0, m1, m2, m3, .., l0, l1, l2, l3] = *header;
        let magic = [m0, m1, m2, m3];
        let (order, has_ns) =
            [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .find_map(|order| match order.u32(magic) {
                    MAGIC_NS => Some((order, true)),
                    MAGIC_US => Some((order, false)),
                    _ => None,
                })?;
        Some(Self {
            order,
            has_ns,
            link_type: (order.u32([l0, l1, l2, l3]) & LINK_TYPE).cast_signed(),
        })
    }

    /// Whether these bytes, in the place of what stands in front of a packet, are the begin of another file, as where two were joined: its magic, its version, and
    /// the zeros behind it, which would be a packet without a byte.
    #[must_use]
    pub fn begins_at(bytes: &[u8; PACKET_HEADER_BYTES]) -> bool {
        let [m0, m1, m2, m3, a0, a1, b0, b1, zeros @ ..] = *bytes;
        let is_header = |order: ByteOrder| {
            matches!(order.u32([m0, m1, m2, m3]), MAGIC_NS | MAGIC_US)
                && [order.u16([a0, a1]), order.u16([b0, b1])] == VERSION
        };
        zeros == [0; 8]
            && [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .any(is_header)
    }

    /// What stands in front of a packet in such a file.
    #[must_use]
    #[inline]
    pub const fn packet(self, header: &[u8; PACKET_HEADER_BYTES]) -> PacketHeader {
        let [
            s0,
            s1,
            s2,
            s3,
            f0,
            f1,
            f2,
            f3,
            c0,
            c1,
            c2,
            c3,
            w0,
            w1,
            w2,
            w3,
        ] = *header;
        let order = self.order;
        let fraction_ns = if self.has_ns { 1 } else { 1_000 };
        let captured_bytes = order.u32([c0, c1, c2, c3]);
        let wire_bytes = order.u32([w0, w1, w2, w3]);
        PacketHeader {
            time_ns: order.u32([s0, s1, s2, s3]) as u64 * SECOND_NS
                + order.u32([f0, f1, f2, f3]) as u64 * fraction_ns,
            captured_bytes,
            // Some writers leave it out.
            wire_bytes: if wire_bytes < captured_bytes {
                captured_bytes
            } else {
                wire_bytes
            },
        }
    }
}

/// What stands in front of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// When it was captured, in ns since 1970.
    pub time_ns: u64,
    /// Bytes that follow.
    pub captured_bytes: u32,
    /// Bytes that it had on the wire, no fewer than follow.
    pub wire_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_begins_where_its_header_stands_whole() {
        let little = file_header(1, 128);
        let mut big = little;
        for number in [0..4, 4..6, 6..8] {
            big[number].reverse();
        }
        for header in [little, big] {
            let bytes: [u8; PACKET_HEADER_BYTES] = *header.first_chunk().unwrap();
            assert!(FileHeader::begins_at(&bytes));
            for at in 0..PACKET_HEADER_BYTES {
                let mut other = bytes;
                other[at] ^= 0x10;
                assert!(!FileHeader::begins_at(&other), "{at}");
            }
        }
        assert!(!FileHeader::begins_at(&packet_header(7, 0, 60)));
    }

    #[test]
    fn golden_headers() {
        let golden = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 1, 0, 0, 0,
        ];
        assert_eq!(file_header(1, 128), golden);
        let golden = [2, 0, 0, 0, 7, 0, 0, 0, 60, 0, 0, 0, 0xdc, 5, 0, 0];
        assert_eq!(packet_header(2_000_000_007, 60, 1500), golden);
    }

    #[test]
    fn headers_are_read_in_both_orders_and_resolutions() {
        let ns = FileHeader {
            order: ByteOrder::Little,
            has_ns: true,
            link_type: 1,
        };
        assert_eq!(FileHeader::parse(&file_header(0x1000_0001, 128)), Some(ns));
        let packet = PacketHeader {
            time_ns: 2_000_000_007,
            captured_bytes: 60,
            wire_bytes: 1_500,
        };
        assert_eq!(ns.packet(&packet_header(2_000_000_007, 60, 1_500)), packet);
        let mut big = [0; FILE_HEADER_BYTES];
        big[..4].copy_from_slice(&[0xa1, 0xb2, 0xc3, 0xd4]);
        big[23] = 113;
        let us = FileHeader::parse(&big).unwrap();
        assert_eq!(
            (us.order, us.has_ns, us.link_type),
            (ByteOrder::Big, false, 113)
        );
        let header = [0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 60, 0, 0, 0, 0];
        let packet = PacketHeader {
            time_ns: 2_000_007_000,
            captured_bytes: 60,
            wire_bytes: 60,
        };
        assert_eq!(us.packet(&header), packet);
        assert_eq!(FileHeader::parse(&big[..23]), None);
        big[0] = 0;
        assert_eq!(FileHeader::parse(&big), None);
    }
}
