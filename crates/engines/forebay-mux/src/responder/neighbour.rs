//! Neighbour discovery of IPv6 (RFC 4861): the solicitation that asks, and the advertisement that answers.
//!
//! ```text
//! +0   type: 135 asks, 136 answers     +4   asks: 0; answers: flags in the first byte
//! +1   code, 0                         +8   address that is asked for
//! +2   checksum                        +24  options: kind, length in units of 8 bytes, value
//! ```

use core::net::{IpAddr, Ipv6Addr};

use forebay_wire::packet::{ICMPV6, Ip};

use super::ResponderDrop;
use crate::mac::Mac;

/// Type of the message that asks.
pub(crate) const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// No router forwards such a message (section 7.1.1).
const HOP_LIMIT: u8 = 255;
const IPV6_HEADER_BYTES: usize = 40;
const HEADER_BYTES: usize = 24;
const UNIT_BYTES: usize = 8;
/// Bytes of an advertisement with one option.
const ANSWER_BYTES: usize = HEADER_BYTES + UNIT_BYTES;
/// Bytes of it with the header of IPv6.
pub(crate) const ANSWER_PACKET_BYTES: usize = IPV6_HEADER_BYTES + ANSWER_BYTES;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// All stations of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

/// A solicitation that is as section 7.1.1 of RFC 4861 asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Solicitation {
    pub(crate) target: Ipv6Addr,
    source: Ipv6Addr,
    source_mac: Option<Mac>,
}

impl Solicitation {
    /// Reads an IPv6 packet.
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, ResponderDrop> {
        let ip = Ip::parse(packet).map_err(|_| ResponderDrop::Malformed)?;
        let body = ip.payload().map_err(|_| ResponderDrop::Malformed)?;
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (ip.source, ip.destination) else {
            return Err(ResponderDrop::NoQuestion);
        };
        if ip.protocol != ICMPV6 || body.first() != Some(&NEIGHBOUR_SOLICITATION) {
            return Err(ResponderDrop::NoQuestion);
        }
        let header: &[u8; HEADER_BYTES] = body.first_chunk().ok_or(ResponderDrop::Malformed)?;
        let &[_, code, _, _, _, _, _, _, ref target @ ..] = header;
        let target = Ipv6Addr::from(*target);
        let is_sound = ip.hop_limit == HOP_LIMIT
            && code == 0
            && ip.fragment.is_none()
            && checksum(source, destination, body) == 0
            && !target.is_multicast()
            && !source.is_multicast();
        if !is_sound {
            return Err(ResponderDrop::Malformed);
        }
        let source_mac = source_mac(&body[HEADER_BYTES..])?;
        if source.is_unspecified() && (source_mac.is_some() || !is_solicited_node(destination)) {
            return Err(ResponderDrop::Malformed);
        }
        Ok(Self {
            target,
            source,
            source_mac,
        })
    }

    /// Where the answer goes: to the sender of the question, or to all stations if it wants to take the address itself (section 7.2.4).
    fn asker(&self, frame_source: Mac) -> (Mac, Ipv6Addr, u8) {
        if self.source.is_unspecified() {
            return (ALL_NODES_MAC, ALL_NODES, OVERRIDE);
        }
        let mac = self.source_mac.unwrap_or(frame_source);
        (mac, self.source, SOLICITED | OVERRIDE)
    }

    /// The answer that its target is at `mac`, and the station that it goes to.
    pub(crate) fn answer(&self, mac: Mac, frame_source: Mac) -> (Mac, [u8; ANSWER_PACKET_BYTES]) {
        let (to, destination, flags) = self.asker(frame_source);
        let mut packet = [0; ANSWER_PACKET_BYTES];
        let (header, body) = packet.split_at_mut(IPV6_HEADER_BYTES);
        header[0] = 0x60;
        header[5] = ANSWER_BYTES as u8;
        (header[6], header[7]) = (ICMPV6, HOP_LIMIT);
        header[8..24].copy_from_slice(&self.target.octets());
        header[24..40].copy_from_slice(&destination.octets());
        (body[0], body[4]) = (NEIGHBOUR_ADVERTISEMENT, flags);
        body[8..24].copy_from_slice(&self.target.octets());
        (body[24], body[25]) = (TARGET_LINK_ADDRESS, 1);
        body[26..32].copy_from_slice(&mac.0);
        let sum = checksum(self.target, destination, body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        (to, packet)
    }
}

/// A multicast address that is made of the last 24 bits of the one asked for (RFC 4291, section 2.7.1).
fn is_solicited_node(address: Ipv6Addr) -> bool {
    let prefix = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    address.octets().starts_with(&prefix)
}

/// The sender's Ethernet address, if its options name it.
fn source_mac(mut options: &[u8]) -> Result<Option<Mac>, ResponderDrop> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let length = usize::from(units) * UNIT_BYTES;
        let option = options.get(..length).filter(|option| !option.is_empty());
        let option = option.ok_or(ResponderDrop::Malformed)?;
        if let (SOURCE_LINK_ADDRESS, &[_, _, a, b, c, d, e, f]) = (kind, option) {
            found = Some(Mac([a, b, c, d, e, f]));
        }
        options = &options[length..];
    }
    if !options.is_empty() || found.is_some_and(Mac::is_group) {
        return Err(ResponderDrop::Malformed);
    }
    Ok(found)
}

/// The checksum of a message (RFC 4443, section 2.3): of one that has its own, 0.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, body: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks(2);
        pairs
            .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
            .sum()
    };
    let mut sum = words(&source.octets()) + words(&destination.octets()) + words(body);
    sum += body.len() as u64 + u64::from(ICMPV6);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
