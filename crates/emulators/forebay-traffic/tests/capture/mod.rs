//! What a decoder reads in a frame, with all checksums looked at.

use std::net::IpAddr;

use forebay_wire::packet::link::{EtherType, ethernet};
use forebay_wire::packet::tcp::Segment;
use forebay_wire::packet::udp::Datagram;
use forebay_wire::packet::{ICMP, ICMPV6, Ip, TCP, UDP, icmp};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ip_bytes: u32,
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) tcp_flags: u8,
    /// Of an echo; 0 in others.
    pub(crate) identifier: u16,
    pub(crate) payload_bytes: u32,
}

pub(crate) fn decode(frame: &[u8]) -> Read {
    let link = ethernet(frame).unwrap();
    let ip = Ip::parse(link.payload).unwrap();
    let carried = ip.payload().unwrap();
    let header = match link.ethertype {
        EtherType::IPV4 => 20,
        EtherType::IPV6 => 40,
        other => panic!("{other:?}"),
    };
    assert!(header == 40 || sum(&link.payload[..20]) == 0xffff);
    assert_eq!(ip.fragment, None);
    let is_padding = |byte: &u8| *byte == 0;
    assert!(
        link.payload[header + carried.len()..]
            .iter()
            .all(is_padding)
    );
    let addresses = &link.payload[if header == 20 { 12..20 } else { 8..40 }];
    let pseudo = [
        addresses,
        &[0, ip.protocol],
        &(carried.len() as u32).to_be_bytes(),
    ]
    .concat();
    let with_pseudo = [&pseudo, carried].concat();
    let mut read = Read {
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        ip_bytes: (header + carried.len()) as u32,
        ports: None,
        sequence: 0,
        acknowledgement: 0,
        tcp_flags: 0,
        identifier: 0,
        payload_bytes: 0,
    };
    match ip.protocol {
        TCP => {
            assert_eq!(sum(&with_pseudo), 0xffff);
            let segment = Segment::new_checked(carried).unwrap();
            read.ports = Some((segment.source_port(), segment.destination_port()));
            read.sequence = segment.sequence();
            read.acknowledgement = segment.acknowledgement();
            read.tcp_flags = segment.flags();
            read.payload_bytes = segment.payload().len() as u32;
        }
        UDP => {
            assert!(sum(&with_pseudo) == 0xffff && carried[6..8] != [0, 0]);
            let datagram = Datagram::new_checked(carried).unwrap();
            read.ports = Some((datagram.source_port(), datagram.destination_port()));
            assert_eq!(datagram.payload().len() + 8, carried.len());
        }
        ICMP => assert_eq!(sum(carried), 0xffff),
        ICMPV6 => assert_eq!(sum(&with_pseudo), 0xffff),
        _ => {}
    }
    if let ICMP | ICMPV6 = ip.protocol {
        let message = icmp::Message::new_checked(carried).unwrap();
        assert!([0, 8, 128, 129].contains(&message.kind()));
        read.identifier = message.identifier();
    }
    read
}

/// RFC 1071, as it is written there.
fn sum(bytes: &[u8]) -> u32 {
    let word =
        |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    let step = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step)
}
