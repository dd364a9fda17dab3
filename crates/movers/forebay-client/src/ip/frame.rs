//! What is in a frame, and questions for neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6ExtHeader, Ipv6Packet,
    Ipv6Repr, NdiscRepr, TcpPacket, UdpPacket,
};

use crate::protocol::HEADER_BYTES;

/// Hop limit of a question, by which its receiver sees that no router passed it on (RFC 4861, 7.1.1).
const HOPS: u8 = 255;

/// What a frame has for the stack's accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// A datagram of UDP.
    Datagram {
        /// Port of its sender.
        from_port: u16,
        /// Bytes of its payload.
        bytes: usize,
    },
    /// A segment of TCP.
    Segment {
        /// Its sender.
        from: SocketAddr,
        /// Its receiver.
        to: SocketAddr,
        /// Bytes of its payload.
        bytes: usize,
        /// Up to where its sender has all that the receiver sent, by the numbers of that one (RFC 9293, 3.1).
        confirms: Option<u32>,
        /// Whether it asks for a connection.
        is_call: bool,
    },
    /// A question for the Ethernet address of this one, by ARP or neighbour discovery.
    Question(IpAddr),
    /// Something else, or nothing that can be read.
    Other,
}

impl Inside {
    /// Of a frame without a tag.
    pub(super) fn of(frame: &[u8]) -> Self {
        read(frame).unwrap_or(Self::Other)
    }

    pub(super) const fn is_datagram(self) -> bool {
        matches!(self, Self::Datagram { .. })
    }
}

fn read(frame: &[u8]) -> Option<Inside> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            let ends = [packet.src_addr().into(), packet.dst_addr().into()];
            carried(packet.next_header(), ends, packet.payload())
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
            let ends = [packet.src_addr().into(), packet.dst_addr().into()];
            let (protocol, payload) = behind_options(packet.next_header(), packet.payload())?;
            carried(protocol, ends, payload)
        }
        EthernetProtocol::Arp => {
            let packet = ArpPacket::new_checked(frame.payload()).ok()?;
            let target = <[u8; 4]>::try_from(packet.target_protocol_addr()).ok()?;
            let is_question = packet.operation() == ArpOperation::Request;
            is_question.then(|| Inside::Question(Ipv4Addr::from(target).into()))
        }
        _ => None,
    }
}

/// Passes options for each hop over (RFC 8200, 4.3), as the stack does: they stand first, and once.
fn behind_options(protocol: IpProtocol, payload: &[u8]) -> Option<(IpProtocol, &[u8])> {
    if protocol != IpProtocol::HopByHop {
        return Some((protocol, payload));
    }
    let header = Ipv6ExtHeader::new_checked(payload).ok()?;
    // In units of 8 bytes, the first of which is not counted.
    let bytes = (usize::from(header.header_len()) + 1) * 8;
    Some((header.next_header(), payload.get(bytes..)?))
}

fn carried(protocol: IpProtocol, ends: [IpAddr; 2], payload: &[u8]) -> Option<Inside> {
    match protocol {
        IpProtocol::Udp => {
            let packet = UdpPacket::new_checked(payload).ok()?;
            Some(Inside::Datagram {
                from_port: packet.src_port(),
                bytes: packet.payload().len(),
            })
        }
        IpProtocol::Tcp => {
            let packet = TcpPacket::new_checked(payload).ok()?;
            let [from, to] = ends;
            Some(Inside::Segment {
                from: SocketAddr::new(from, packet.src_port()),
                to: SocketAddr::new(to, packet.dst_port()),
                bytes: packet.payload().len(),
                confirms: packet.ack().then(|| packet.ack_number().0.cast_unsigned()),
                is_call: packet.syn() && !packet.ack(),
            })
        }
        IpProtocol::Icmpv6 => {
            let packet = Icmpv6Packet::new_checked(payload).ok()?;
            let is_question = packet.msg_type() == Icmpv6Message::NeighborSolicit;
            is_question.then(|| Inside::Question(packet.target_addr().into()))
        }
        _ => None,
    }
}

/// A question for the Ethernet address of a neighbour, by ARP (RFC 826) or neighbour discovery (RFC 4861), as a frame without a tag. None: asker and
/// neighbour are of different versions of IP.
pub(super) fn question(mac: [u8; 6], from: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (from, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => Some(by_arp(mac, from, target)),
        (IpAddr::V6(from), IpAddr::V6(target)) => Some(by_discovery(mac, from, target)),
        _ => None,
    }
}

fn by_arp(mac: [u8; 6], from: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let asked = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(mac),
        source_protocol_addr: from,
        target_hardware_addr: EthernetAddress::BROADCAST,
        target_protocol_addr: target,
    };
    let mut bytes = vec![0; HEADER_BYTES + asked.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    frame.set_src_addr(EthernetAddress(mac));
    frame.set_dst_addr(EthernetAddress::BROADCAST);
    frame.set_ethertype(EthernetProtocol::Arp);
    asked.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

fn by_discovery(mac: [u8; 6], from: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let asked = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
        target_addr: target,
        lladdr: Some(EthernetAddress(mac).into()),
    });
    // RFC 4291, 2.7.1: the group of all addresses that end like this.
    let [.., a, b, c] = target.octets();
    let low = u16::from_be_bytes([b, c]);
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low);
    let header = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmpv6,
        payload_len: asked.buffer_len(),
        hop_limit: HOPS,
    };
    let mut bytes = vec![0; HEADER_BYTES + header.buffer_len() + asked.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    frame.set_src_addr(EthernetAddress(mac));
    // RFC 2464, 7: the last four bytes of the group.
    frame.set_dst_addr(EthernetAddress([0x33, 0x33, 0xff, a, b, c]));
    frame.set_ethertype(EthernetProtocol::Ipv6);
    let mut packet = Ipv6Packet::new_unchecked(frame.payload_mut());
    header.emit(&mut packet);
    let mut asking = Icmpv6Packet::new_unchecked(packet.payload_mut());
    asked.emit(&from, &to, &mut asking, &ChecksumCapabilities::default());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const TO: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    /// A frame over IPv6 with this behind its header.
    fn frame(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend([next_header, 64]);
        frame.extend(FROM.octets());
        frame.extend(TO.octets());
        frame.extend(payload);
        frame
    }

    /// Port 5,000 to port 80, number 7, confirms 9, ACK, "abc" (RFC 9293, 3.1).
    const SEGMENT: [u8; 23] = [
        0x13, 0x88, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0, b'a', b'b', b'c',
    ];

    #[test]
    fn options_for_each_hop_are_passed_over() {
        let plain = Inside::Segment {
            from: SocketAddr::new(FROM.into(), 5_000),
            to: SocketAddr::new(TO.into(), 80),
            bytes: 3,
            confirms: Some(9),
            is_call: false,
        };
        assert_eq!(Inside::of(&frame(6, &SEGMENT)), plain);
        // Padding of 4 and of 12 bytes (PadN).
        let short = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &SEGMENT].concat();
        let long = [&[6, 1, 1, 12][..], &[0; 12], &SEGMENT].concat();
        for options in [&short, &long] {
            assert_eq!(Inside::of(&frame(0, options)), plain, "{options:?}");
        }
        // Cut within the options, and twice over: the stack takes neither.
        let twice = [&[0, 0, 1, 4, 0, 0, 0, 0][..], &short].concat();
        for options in [&long[..15], &long[..1], &[][..], &twice] {
            assert_eq!(Inside::of(&frame(0, options)), Inside::Other, "{options:?}");
        }
    }
}
