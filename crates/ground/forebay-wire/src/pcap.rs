//! Headers of a capture file in pcap's first form, with times in ns (tcpdump.org/manpages/pcap-savefile.5.html).
//!
//! ```text
//! file    +0 magic 0xa1b23c4d u32   +4 version 2.4 u16 u16   +8 zero u64   +16 most bytes of a packet u32   +20 link type u32
//! packet  +0 s since 1970 u32   +4 ns u32   +8 bytes that follow u32   +12 bytes that it had u32
//! ```
//!
//! All numbers are little-endian here; a reader takes them in both orders.

/// Bytes of a file's header.
pub const FILE_HEADER_BYTES: usize = 24;
/// Bytes in front of each packet.
pub const PACKET_HEADER_BYTES: usize = 16;

const MAGIC_NS: u32 = 0xa1b2_3c4d;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_headers() {
        let golden = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 1, 0, 0, 0,
        ];
        assert_eq!(file_header(1, 128), golden);
        let golden = [2, 0, 0, 0, 7, 0, 0, 0, 60, 0, 0, 0, 0xdc, 5, 0, 0];
        assert_eq!(packet_header(2_000_000_007, 60, 1500), golden);
    }
}
