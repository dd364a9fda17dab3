//! From a captured frame to what its IP packet holds of a UDP datagram.

use std::net::{IpAddr, SocketAddr};

use forebay_wire::packet::link::LinkType;
use forebay_wire::packet::udp::Datagram;
use forebay_wire::packet::{FragmentPlace, Ip, PacketError, UDP};

use super::Skip;

/// Why there is no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// This packet is of no use.
    Skip(Skip),
    /// The whole file is of a kind that is not read.
    LinkType(i32),
}

/// What an IP packet held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Datagram(Udp<'a>),
    Fragment(Fragment<'a>),
}

/// A whole UDP datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Udp<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Reads what a packet between these addresses carried.
    pub(super) fn new(
        source: IpAddr,
        destination: IpAddr,
        bytes: &'a [u8],
    ) -> Result<Self, PacketError> {
        let datagram = Datagram::new_checked(bytes)?;
        Ok(Self {
            from: (source, datagram.source_port()).into(),
            to: (destination, datagram.destination_port()).into(),
            payload: datagram.payload(),
        })
    }
}

/// A part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) place: FragmentPlace,
    pub(super) bytes: &'a [u8],
}

/// Takes the link's header off a frame (link types: tcpdump.org/linktypes.html). `is_cut`: the capture holds less of it than there was.
pub(super) fn network_layer(
    link_type: i32,
    frame: &[u8],
    is_cut: bool,
) -> Result<&[u8], FrameError> {
    let of = LinkType::of(link_type).ok_or(FrameError::LinkType(link_type))?;
    match of.parse(frame) {
        Ok(link) if link.ethertype.is_ip() => Ok(link.payload),
        Ok(_) => Err(FrameError::Skip(Skip::NotUdp)),
        Err(error) => Err(FrameError::Skip(skip(error, is_cut))),
    }
}

/// Reads an IP packet. `is_cut`: the capture holds less of it than there was.
pub(super) fn content(packet: &[u8], is_cut: bool) -> Result<Content<'_>, Skip> {
    let skip = |error| skip(error, is_cut);
    let ip = Ip::parse(packet).map_err(skip)?;
    if ip.fragment.is_some() && ip.source.is_ipv6() {
        return Err(Skip::Ipv6Fragment);
    }
    if ip.protocol != UDP {
        return Err(Skip::NotUdp);
    }
    let (source, destination) = (ip.source, ip.destination);
    let bytes = ip.payload().map_err(skip)?;
    Ok(match ip.fragment {
        Some(place) => Content::Fragment(Fragment {
            source,
            destination,
            place,
            bytes,
        }),
        None => Content::Datagram(Udp::new(source, destination, bytes).map_err(skip)?),
    })
}

/// Too few bytes are the capture's fault if it was cut, else the packet's.
fn skip(error: PacketError, is_cut: bool) -> Skip {
    match error {
        PacketError::IpVersion(_) => Skip::NotUdp,
        error if is_cut && error.is_short() => Skip::Truncated,
        error => Skip::Malformed(error),
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::packet::IPV6_FRAGMENT;

    use super::*;

    /// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
    const GOLDEN: [u8; 30] = [
        0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3,
        0x51, 0, 10, 0, 0, b'h', b'i',
    ];
    const SHORT: FrameError = FrameError::Skip(Skip::Malformed(PacketError::LinkHeader));

    fn skip_of(packet: &[u8], is_cut: bool) -> Option<Skip> {
        content(packet, is_cut).err()
    }

    #[test]
    fn golden_datagram() {
        let udp = Udp {
            from: "10.0.0.1:50000".parse().unwrap(),
            to: "10.0.0.2:50001".parse().unwrap(),
            payload: b"hi",
        };
        assert_eq!(content(&GOLDEN, false), Ok(Content::Datagram(udp)));
    }

    #[test]
    fn golden_headers_are_stripped() {
        let mac = [0_u8; 12];
        let cases: [(i32, Vec<u8>); 5] = [
            (1, [&mac[..], &[0x08, 0x00]].concat()),
            (113, [&[0_u8; 14][..], &[0x08, 0x00]].concat()),
            (276, [&[0x86, 0xdd][..], &[0; 18]].concat()),
            (101, Vec::new()),
            (0, vec![2, 0, 0, 0]),
        ];
        for (link_type, mut frame) in cases {
            frame.extend(b"ip packet");
            let packet = network_layer(link_type, &frame, false);
            assert_eq!(packet, Ok(&b"ip packet"[..]), "{link_type}");
        }
    }

    #[test]
    fn other_protocols_short_frames_and_unknown_links_are_told_apart() {
        let arp = [&[0_u8; 12][..], &[0x08, 0x06]].concat();
        let not_udp = Err(FrameError::Skip(Skip::NotUdp));
        assert_eq!(network_layer(1, &arp, false), not_udp);
        for link_type in [1, 113, 276, 0] {
            assert_eq!(network_layer(link_type, &[0; 3], false), Err(SHORT));
            let truncated = FrameError::Skip(Skip::Truncated);
            assert_eq!(network_layer(link_type, &[0; 3], true), Err(truncated));
        }
        let unknown = Err(FrameError::LinkType(105));
        assert_eq!(network_layer(105, &[], false), unknown);
    }

    #[test]
    fn a_cut_packet_is_truncated_and_a_lying_one_is_malformed() {
        for end in 0..GOLDEN.len() {
            let cut = &GOLDEN[..end];
            assert_eq!(skip_of(cut, true), Some(Skip::Truncated), "{end}");
            let lies = matches!(skip_of(cut, false), Some(Skip::Malformed(_)));
            assert!(lies, "{end}");
        }
    }

    #[test]
    fn other_protocols_are_skipped_also_when_they_are_cut() {
        let mut tcp = GOLDEN;
        tcp[9] = 6;
        assert_eq!(skip_of(&tcp, false), Some(Skip::NotUdp));
        assert_eq!(skip_of(&tcp[..25], true), Some(Skip::NotUdp));
        let mut other = GOLDEN;
        other[0] = 0x55;
        assert_eq!(skip_of(&other, false), Some(Skip::NotUdp));
    }

    #[test]
    fn fragments_are_told_from_datagrams() {
        let mut packet = GOLDEN;
        packet[6..8].copy_from_slice(&0x2003_u16.to_be_bytes());
        let Ok(Content::Fragment(fragment)) = content(&packet, false) else {
            panic!("no fragment")
        };
        assert_eq!((fragment.place.start, fragment.bytes.len()), (24, 10));
        let mut six = vec![0x60, 0, 0, 0, 0, 18, IPV6_FRAGMENT, 64];
        six.extend([0; 32]);
        six.extend([UDP, 0, 0, 0, 0, 0, 0, 7]);
        six.extend(&GOLDEN[20..]);
        // The only one is the whole packet.
        assert!(matches!(content(&six, false), Ok(Content::Datagram(_))));
        six[43] = 1;
        assert_eq!(skip_of(&six, false), Some(Skip::Ipv6Fragment));
    }
}
