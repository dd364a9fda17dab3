use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

use super::udp::Datagram;
use super::*;

/// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
pub(super) const GOLDEN: [u8; 30] = [
    0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3, 0x51,
    0, 10, 0, 0, b'h', b'i',
];

pub(super) fn error_of(packet: &[u8]) -> Option<PacketError> {
    let datagram = Ip::parse(packet).and_then(|ip| Datagram::new_checked(ip.payload()?));
    datagram.err()
}

/// `::1` → `::2`, with these extension headers, and "hi" from GOLDEN.
pub(super) fn ipv6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let length = (extensions.len() + 10) as u8;
    let mut packet = vec![0x60, 0, 0, 0, 0, length, next, 64];
    packet.extend([0; 15].into_iter().chain([1]).chain([0; 15]).chain([2]));
    packet.extend(extensions);
    packet.extend(&GOLDEN[20..]);
    packet
}

#[test]
fn a_packet_cut_anywhere_is_short() {
    let six = ipv6(0, &[UDP, 0, 0, 0, 0, 0, 0, 0]);
    for packet in [&GOLDEN[..], &six] {
        assert_eq!(error_of(packet), None);
        for end in 0..packet.len() {
            let error = error_of(&packet[..end]).unwrap();
            assert!(error.is_short(), "{end}: {error}");
        }
    }
}

#[test]
fn a_packet_without_a_length_that_ends_within_its_options_is_short() {
    let mut packet = GOLDEN;
    packet[0] = 0x48;
    packet[3] = 0;
    assert_eq!(error_of(&packet), Some(PacketError::Ipv4Header));
}

#[test]
fn what_a_cut_packet_carries_is_known() {
    for (packet, headers) in [(&GOLDEN[..], 20), (&ipv6(UDP, &[]), 40)] {
        for end in headers..packet.len() {
            let ip = Ip::parse(&packet[..end]).unwrap();
            assert_eq!((ip.protocol, ip.length), (UDP, Some(packet.len())));
            assert!(ip.payload().unwrap_err().is_short());
            assert_eq!(ip.captured_payload(), &packet[headers..end]);
        }
    }
}

#[test]
fn a_packet_that_ends_within_its_options_is_short() {
    let mut packet = GOLDEN;
    packet[0] = 0x46;
    assert_eq!(error_of(&packet[..23]), Some(PacketError::Ipv4Header));
}

#[test]
fn other_versions_are_no_fault_of_the_capture() {
    let mut packet = GOLDEN;
    packet[0] = 0x55;
    let error = error_of(&packet).unwrap();
    assert_eq!(error, PacketError::IpVersion(5));
    for error in [error, PacketError::Ipv4Lengths, PacketError::UdpLength] {
        assert!(!error.is_short());
    }
}

#[test]
fn trailing_bytes_of_a_short_frame_are_no_payload() {
    for (packet, headers) in [(GOLDEN.to_vec(), 20), (ipv6(UDP, &[]), 40)] {
        let padded = [&packet[..], &[0; 18]].concat();
        let ip = Ip::parse(&padded).unwrap();
        assert_eq!(ip.payload(), Ok(&packet[headers..]));
        assert_eq!(ip.captured_payload(), &packet[headers..]);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        first in prop_oneof![0x45_u8..0x48, Just(0x60), any::<u8>()],
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = (link::ethernet(&bytes), link::linux_sll(&bytes), link::linux_sll2(&bytes));
        let segment = tcp::Segment::new_checked(&bytes);
        let _ = segment.map(|segment| segment.options().count());
        let chunks = sctp::Packet::new_checked(&bytes);
        let _ = chunks.map(|packet| packet.chunks().count());
        let _ = (icmp::Message::new_checked(&bytes), mpls::Stack::parse(&bytes));
        let _ = (gre::Gre::parse(&bytes), vxlan::Vxlan::parse(&bytes), gtpu::Gtpu::parse(&bytes));
        bytes.insert(0, first);
        let _ = error_of(&bytes);
        if let Ok(ip) = Ip::parse(&bytes) {
            let captured = ip.captured_payload();
            prop_assert!(ip.payload().is_ok_and(|whole| whole == captured) || ip.payload().is_err());
            let said = ip.length.unwrap_or(bytes.len());
            prop_assert_eq!(ip.payload().is_ok(), said <= bytes.len());
            prop_assert!(captured.len() < said.min(bytes.len()));
        }
    }
}
