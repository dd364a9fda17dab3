//! What must hold for any bytes taken as a frame, through all tunnels in it. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; what a header carries lies behind it, within the frame.

use forebay_wire::packet::gre::Gre;
use forebay_wire::packet::gtpu::{GTPU_PORT, Gtpu};
use forebay_wire::packet::icmp::Message;
use forebay_wire::packet::link::{EtherType, ethernet};
use forebay_wire::packet::mpls::Stack;
use forebay_wire::packet::sctp::Packet;
use forebay_wire::packet::tcp::Segment;
use forebay_wire::packet::udp::Datagram;
use forebay_wire::packet::vxlan::{VXLAN_PORT, Vxlan};
use forebay_wire::packet::{GRE, ICMP, ICMPV6, Ip, PacketError, SCTP, TCP, UDP};

/// Tunnels in each other that are followed.
const DEPTH_MAX: usize = 8;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    // What is wrong is told, or not: both are fine.
    let _ = frame(bytes, 0);
}

/// What a header carries begins behind it and ends where it does, or before.
fn inside<'a>(outer: &[u8], part: &'a [u8]) -> &'a [u8] {
    let (outer, inner) = (outer.as_ptr_range(), part.as_ptr_range());
    assert!(part.is_empty() || outer.start < inner.start && inner.end <= outer.end);
    part
}

fn frame(bytes: &[u8], depth: usize) -> Result<(), PacketError> {
    let link = ethernet(bytes)?;
    carried(link.ethertype, inside(bytes, link.payload), depth + 1)
}

fn carried(ethertype: EtherType, bytes: &[u8], depth: usize) -> Result<(), PacketError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    if ethertype == EtherType::ETHERNET {
        return frame(bytes, depth);
    }
    if ethertype.is_mpls() {
        let stack = Stack::parse(bytes)?;
        assert!(stack.top < 1 << 20 && (1..=16).contains(&stack.labels));
        return ip(inside(bytes, stack.payload), depth);
    }
    if ethertype.is_ip() {
        return ip(bytes, depth);
    }
    Ok(())
}

fn ip(bytes: &[u8], depth: usize) -> Result<(), PacketError> {
    let ip = Ip::parse(bytes)?;
    let captured = inside(bytes, ip.captured_payload());
    let said = ip.length.unwrap_or(bytes.len());
    assert!(captured.len() < said.min(bytes.len()));
    assert_eq!(ip.payload().is_ok(), said <= bytes.len());
    if let Some(place) = ip.fragment {
        assert!(place.start > 0 || !place.is_last);
        assert!(place.start < 1 << 16 && place.start.is_multiple_of(8));
    }
    let payload = ip.payload()?;
    assert_eq!(payload, captured);
    if ip.fragment.is_some() {
        return Ok(());
    }
    match ip.protocol {
        UDP => datagram(payload, depth),
        TCP => {
            let segment = Segment::new_checked(payload)?;
            inside(payload, segment.payload());
            assert!(segment.options().count() <= 20);
            Ok(())
        }
        ICMP | ICMPV6 => Message::new_checked(payload).map(|message| {
            inside(payload, message.payload());
        }),
        SCTP => Packet::new_checked(payload).map(|packet| {
            let values = packet.chunks();
            let bytes: usize = values.map(|chunk| inside(payload, chunk.value).len()).sum();
            assert!(bytes <= payload.len());
        }),
        GRE => {
            let gre = Gre::parse(payload)?;
            carried(gre.ethertype, inside(payload, gre.payload), depth + 1)
        }
        _ => Ok(()),
    }
}

fn datagram(bytes: &[u8], depth: usize) -> Result<(), PacketError> {
    let datagram = Datagram::new_checked(bytes)?;
    let payload = inside(bytes, datagram.payload());
    match datagram.destination_port() {
        VXLAN_PORT => {
            let vxlan = Vxlan::parse(payload)?;
            assert!(vxlan.network < 1 << 24);
            carried(EtherType::ETHERNET, inside(payload, vxlan.frame), depth + 1)
        }
        GTPU_PORT => match Gtpu::parse(payload)?.packet {
            Some(packet) if depth < DEPTH_MAX => ip(inside(payload, packet), depth + 1),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
