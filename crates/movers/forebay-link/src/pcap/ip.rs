//! IPv4, IPv6 and UDP headers (RFC 791, RFC 8200, RFC 768), as far as a datagram needs them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Content, Skip};

const PROTOCOL_UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;

/// A whole UDP datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Udp<'a> {
    pub(super) from: (IpAddr, u16),
    pub(super) to: (IpAddr, u16),
    pub(super) payload: &'a [u8],
}

/// A part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) id: u32,
    pub(super) start: usize,
    pub(super) is_last: bool,
    pub(super) bytes: &'a [u8],
}

/// Reads an IP packet. `is_cut`: the capture holds less of it than there was.
pub(super) fn content(packet: &[u8], is_cut: bool) -> Result<Content<'_>, Skip> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet, is_cut),
        Some(6) => ipv6(packet, is_cut),
        Some(_) => Err(Skip::NotUdp),
        None => Err(short(is_cut, "no IP header")),
    }
}

fn ipv4(packet: &[u8], is_cut: bool) -> Result<Content<'_>, Skip> {
    let header = packet
        .get(..20)
        .ok_or(short(is_cut, "shorter than an IPv4 header"))?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // 0 stands in captures of a sender that leaves the cutting to its network card.
    let total = if total == 0 { packet.len() } else { total };
    if header_bytes < 20 || total < header_bytes {
        return Err(Skip::Malformed("IPv4 lengths contradict each other"));
    }
    if header[9] != PROTOCOL_UDP {
        return Err(Skip::NotUdp);
    }
    let body = packet
        .get(header_bytes..total)
        .ok_or(short(is_cut, "shorter than its IPv4 length"))?;
    let source = IpAddr::V4(Ipv4Addr::new(
        header[12], header[13], header[14], header[15],
    ));
    let destination = IpAddr::V4(Ipv4Addr::new(
        header[16], header[17], header[18], header[19],
    ));
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (more, start) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
    if more || start > 0 {
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        let bytes = body;
        return Ok(Content::Fragment(Fragment {
            source,
            destination,
            id,
            start,
            is_last: !more,
            bytes,
        }));
    }
    udp(source, destination, body, is_cut).map(Content::Datagram)
}

fn ipv6(packet: &[u8], is_cut: bool) -> Result<Content<'_>, Skip> {
    let header = packet
        .get(..40)
        .ok_or(short(is_cut, "shorter than an IPv6 header"))?;
    let total = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| {
        header[at..at + 16]
            .try_into()
            .map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets)))
    };
    let (Ok(source), Ok(destination)) = (address(8), address(24)) else {
        return Err(Skip::Malformed("shorter than an IPv6 header"));
    };
    let end = if total == 0 { packet.len() } else { 40 + total };
    let body = packet
        .get(40..end)
        .ok_or(short(is_cut, "shorter than its IPv6 length"))?;
    let body = past_extensions(header[6], body)?;
    udp(source, destination, body, is_cut).map(Content::Datagram)
}

/// Skips hop-by-hop (0), routing (43) and destination (60) headers; fragments of IPv6 are not put together.
fn past_extensions(mut next: u8, mut body: &[u8]) -> Result<&[u8], Skip> {
    const EXTENSIONS_MAX: usize = 8;
    for _ in 0..EXTENSIONS_MAX {
        match next {
            PROTOCOL_UDP => return Ok(body),
            0 | 43 | 60 => {
                let &[following, units, ..] = body else { break };
                next = following;
                body = body
                    .get((usize::from(units) + 1) * 8..)
                    .ok_or(Skip::Malformed("IPv6 extension too long"))?;
            }
            44 => return Err(Skip::Malformed("IPv6 fragments are not put together")),
            _ => return Err(Skip::NotUdp),
        }
    }
    Err(Skip::Malformed("IPv6 extensions without an end"))
}

/// Reads a UDP header and takes its payload.
pub(super) fn udp(
    source: IpAddr,
    destination: IpAddr,
    body: &[u8],
    is_cut: bool,
) -> Result<Udp<'_>, Skip> {
    let header = body
        .get(..UDP_HEADER_BYTES)
        .ok_or(short(is_cut, "shorter than a UDP header"))?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = match usize::from(half(4)) {
        0 => body.len(),
        length => length,
    };
    if length < UDP_HEADER_BYTES {
        return Err(Skip::Malformed("UDP length below 8"));
    }
    let payload = body
        .get(UDP_HEADER_BYTES..length)
        .ok_or(short(is_cut, "shorter than its UDP length"))?;
    Ok(Udp {
        from: (source, half(0)),
        to: (destination, half(2)),
        payload,
    })
}

/// Too few bytes are the capture's fault if it was cut, else the packet's.
fn short(is_cut: bool, what: &'static str) -> Skip {
    if is_cut {
        Skip::Truncated
    } else {
        Skip::Malformed(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
    const GOLDEN: [u8; 30] = [
        0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3,
        0x51, 0, 10, 0, 0, b'h', b'i',
    ];

    fn skip_of(packet: &[u8], is_cut: bool) -> Option<Skip> {
        content(packet, is_cut).err()
    }

    #[test]
    fn golden_ipv4() {
        let Ok(Content::Datagram(udp)) = content(&GOLDEN, false) else {
            panic!("no datagram")
        };
        assert_eq!(udp.from, (IpAddr::from([10, 0, 0, 1]), 50_000));
        assert_eq!(
            (udp.to, udp.payload),
            ((IpAddr::from([10, 0, 0, 2]), 50_001), b"hi" as &[u8])
        );
    }

    #[test]
    fn trailing_bytes_of_a_short_frame_are_no_payload() {
        let padded = [&GOLDEN[..], &[0; 18]].concat();
        let Ok(Content::Datagram(udp)) = content(&padded, false) else {
            panic!("no datagram")
        };
        assert_eq!(udp.payload, b"hi");
    }

    #[test]
    fn golden_ipv6_with_an_extension() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 18, 0, 64];
        packet.extend([0; 15].into_iter().chain([1]).chain([0; 15]).chain([2]));
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(&GOLDEN[20..]);
        let Ok(Content::Datagram(udp)) = content(&packet, false) else {
            panic!("no datagram")
        };
        assert_eq!(
            (udp.from.0, udp.payload),
            ("::1".parse().unwrap(), b"hi" as &[u8])
        );
    }

    #[test]
    fn a_cut_packet_is_truncated_and_a_lying_one_is_malformed() {
        for end in 0..GOLDEN.len() {
            assert_eq!(
                skip_of(&GOLDEN[..end], true),
                Some(Skip::Truncated),
                "{end}"
            );
            assert!(
                matches!(skip_of(&GOLDEN[..end], false), Some(Skip::Malformed(_))),
                "{end}"
            );
        }
    }

    #[test]
    fn other_protocols_are_skipped() {
        let mut tcp = GOLDEN;
        tcp[9] = 6;
        assert_eq!(skip_of(&tcp, false), Some(Skip::NotUdp));
    }

    #[test]
    fn a_fragment_is_told_from_a_datagram() {
        let mut packet = GOLDEN;
        packet[6..8].copy_from_slice(&0x2003_u16.to_be_bytes());
        let Ok(Content::Fragment(fragment)) = content(&packet, false) else {
            panic!("no fragment")
        };
        assert_eq!(
            (
                fragment.start,
                fragment.is_last,
                fragment.id,
                fragment.bytes.len()
            ),
            (24, false, 7, 10)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            first in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            is_cut: bool,
        ) {
            bytes.insert(0, first);
            let _ = content(&bytes, is_cut);
        }
    }
}
