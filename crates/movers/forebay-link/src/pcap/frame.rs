//! From a captured frame to the IP packet in it.

use super::Skip;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and the older double tag.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAGS_MAX: usize = 4;

/// Why there is no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// This packet is of no use.
    Skip(Skip),
    /// The whole file is of a kind that is not read.
    LinkType(i32),
}

/// Strips the link's header (link types: tcpdump.org/linktypes.html).
pub(super) fn network_layer(link_type: i32, frame: &[u8]) -> Result<&[u8], FrameError> {
    match link_type {
        // NULL and LOOP: the address family, in the byte order of some machine; the packet's version tells enough.
        0 | 108 => rest(frame, 4),
        1 => ethernet(frame),
        // RAW, its numbers in some BSD captures, IPV4, IPV6
        12 | 14 | 101 | 228 | 229 => Ok(frame),
        // LINUX_SLL: the protocol is at 14 of 16 bytes; LINUX_SLL2: at 0 of 20.
        113 => tagged(frame, 14, 16),
        276 => tagged(frame, 0, 20),
        other => Err(FrameError::LinkType(other)),
    }
}

fn ethernet(frame: &[u8]) -> Result<&[u8], FrameError> {
    tagged(frame, 12, 14)
}

/// Reads the protocol at `at`, then VLAN tags (each: two bytes of tag, two of protocol) from `header` on.
fn tagged(frame: &[u8], at: usize, header: usize) -> Result<&[u8], FrameError> {
    let mut protocol = be16(frame, at)?;
    let mut start = header;
    for _ in 0..VLAN_TAGS_MAX {
        if !ETHERTYPES_VLAN.contains(&protocol) {
            break;
        }
        protocol = be16(frame, start + 2)?;
        start += 4;
    }
    match protocol {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => rest(frame, start),
        _ => Err(FrameError::Skip(Skip::NotUdp)),
    }
}

fn rest(frame: &[u8], start: usize) -> Result<&[u8], FrameError> {
    frame.get(start..).ok_or(SHORT)
}

const SHORT: FrameError = FrameError::Skip(Skip::Malformed("shorter than its link header"));

fn be16(frame: &[u8], at: usize) -> Result<u16, FrameError> {
    frame
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u16::from_be_bytes)
        .ok_or(SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(prefix: &[u8]) -> Vec<u8> {
        [prefix, b"ip packet"].concat()
    }

    #[test]
    fn golden_headers_are_stripped() {
        let mac = [0_u8; 12];
        let vlan = [&mac[..], &[0x88, 0xa8, 0, 7, 0x81, 0x00, 0, 9, 0x08, 0x00]].concat();
        let sll = [&[0_u8; 14][..], &[0x08, 0x00]].concat();
        let sll2 = [&[0x86, 0xdd][..], &[0; 18]].concat();
        let cases: [(i32, Vec<u8>); 6] = [
            (1, [&mac[..], &[0x08, 0x00]].concat()),
            (1, vlan),
            (113, sll),
            (276, sll2),
            (101, Vec::new()),
            (0, vec![2, 0, 0, 0]),
        ];
        for (link_type, prefix) in cases {
            assert_eq!(
                network_layer(link_type, &with(&prefix)),
                Ok(b"ip packet" as &[u8]),
                "{link_type} {prefix:?}"
            );
        }
    }

    #[test]
    fn other_protocols_short_frames_and_unknown_links_are_told_apart() {
        let arp = [&[0_u8; 12][..], &[0x08, 0x06]].concat();
        assert_eq!(network_layer(1, &arp), Err(FrameError::Skip(Skip::NotUdp)));
        assert_eq!(network_layer(1, &[0; 13]), Err(SHORT));
        assert_eq!(network_layer(105, &[]), Err(FrameError::LinkType(105)));
    }
}
