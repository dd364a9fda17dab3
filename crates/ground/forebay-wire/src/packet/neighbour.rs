//! Neighbour discovery of IPv6 (RFC 4861): the solicitation that asks, and the advertisement that answers.
//!
//! ```text
//! +0   type: 135 asks, 136 answers     +4   asks: 0; answers: flags in the first byte
//! +1   code, 0                         +8   address that is asked for
//! +2   checksum                        +24  options: kind, length in units of 8 bytes, value
//! ```

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use super::checksum::{checksum, pseudo_ipv6, sum};
use super::{ICMPV6, Ip, PacketError};

/// Type of the message that asks.
pub const SOLICITATION: u8 = 135;
/// Type of the message that answers.
pub const ADVERTISEMENT: u8 = 136;
/// Bytes of a packet with one option, the header of IPv6 included.
pub const PACKET_BYTES: usize = IPV6_HEADER_BYTES + MESSAGE_BYTES;

/// No router forwards such a message (section 7.1.1).
const HOP_LIMIT: u8 = 255;
const IPV6_HEADER_BYTES: usize = 40;
const HEADER_BYTES: usize = 24;
const UNIT_BYTES: usize = 8;
const MESSAGE_BYTES: usize = HEADER_BYTES + UNIT_BYTES;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeighbourError {
    /// It is no whole IP packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It is of IPv4, of another protocol, or another message.
    #[error("no neighbour solicitation")]
    NoSolicitation,
    /// It ends within its header.
    #[error("a neighbour solicitation of {0} bytes, {HEADER_BYTES} expected at least")]
    Short(usize),
    /// It may be from beyond a router.
    #[error("a hop limit of {0}, {HOP_LIMIT} expected")]
    HopLimit(u8),
    /// It came in parts.
    #[error("a neighbour solicitation in fragments")]
    Fragment,
    /// Its code is not 0.
    #[error("code {0}, 0 expected")]
    Code(u8),
    /// Its checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// It asks for the address of a group, or a group asks.
    #[error("{0} is the address of a group, one of a station expected")]
    Group(Ipv6Addr),
    /// The lengths of its options do not fit it.
    #[error("options contradict their lengths")]
    Options,
    /// Its sender says to be at the Ethernet address of a group.
    #[error("its sender is at the address of a group")]
    SenderGroup,
    /// It is without a sender, and yet says where that is or is not to the group of the address (section 7.1.1).
    #[error("a sender without an address that breaks the rules of one")]
    Unspecified,
}

/// A solicitation that is as section 7.1.1 of RFC 4861 asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Its sender; unspecified if that wants to take the target as its own address.
    pub source: Ipv6Addr,
    /// Where it was sent to: the group of the target, or the target.
    pub destination: Ipv6Addr,
    /// The address that it asks for.
    pub target: Ipv6Addr,
    /// The sender's Ethernet address, if an option names it.
    pub source_mac: Option<[u8; 6]>,
}

impl Solicitation {
    /// Reads an IPv6 packet.
    ///
    /// # Errors
    /// It is something else, or breaks a rule, which the error names.
    pub fn parse(packet: &[u8]) -> Result<Self, NeighbourError> {
        let ip = Ip::parse(packet)?;
        let body = ip.payload()?;
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (ip.source, ip.destination) else {
            return Err(NeighbourError::NoSolicitation);
        };
        if ip.protocol != ICMPV6 || body.first() != Some(&SOLICITATION) {
            return Err(NeighbourError::NoSolicitation);
        }
        let header: &[u8; HEADER_BYTES] = body
            .first_chunk()
            .ok_or(NeighbourError::Short(body.len()))?;
        let &[_, code, _, _, _, _, _, _, ref target @ ..] = header;
        let asked = Self {
            source,
            destination,
            target: Ipv6Addr::from(*target),
            source_mac: None,
        };
        if ip.hop_limit != HOP_LIMIT {
            return Err(NeighbourError::HopLimit(ip.hop_limit));
        }
        if ip.fragment.is_some() {
            return Err(NeighbourError::Fragment);
        }
        if code != 0 {
            return Err(NeighbourError::Code(code));
        }
        if message_checksum(source, destination, body) != 0 {
            return Err(NeighbourError::Checksum);
        }
        let source_mac = source_mac(&body[HEADER_BYTES..])?;
        Self {
            source_mac,
            ..asked
        }
        .checked()
    }

    /// The rules of its addresses.
    fn checked(self) -> Result<Self, NeighbourError> {
        let mut addresses = [self.target, self.source].into_iter();
        if let Some(group) = addresses.find(Ipv6Addr::is_multicast) {
            return Err(NeighbourError::Group(group));
        }
        let is_named = self.source_mac.is_some() || !is_solicited_node(self.destination);
        if self.source.is_unspecified() && is_named {
            return Err(NeighbourError::Unspecified);
        }
        Ok(self)
    }

    /// Writes it as an IPv6 packet, and says how long that is.
    pub fn emit(&self, packet: &mut [u8; PACKET_BYTES]) -> usize {
        let option = self.source_mac.map(|mac| (SOURCE_LINK_ADDRESS, mac));
        let ends = (self.source, self.destination);
        emit(packet, ends, [SOLICITATION, 0], self.target, option)
    }
}

impl fmt::Display for Solicitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "neighbour solicitation: {} asks for {}",
            self.source, self.target
        )
    }
}

/// An answer, or what a station tells of itself. It is sent by the address that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Where it is sent to.
    pub destination: Ipv6Addr,
    /// The address that was asked for, its sender.
    pub target: Ipv6Addr,
    /// Where that is.
    pub target_mac: [u8; 6],
    /// It answers a question of its receiver.
    pub is_solicited: bool,
    /// What its receiver knew before is no longer so.
    pub overrides: bool,
}

impl Advertisement {
    /// Writes it as an IPv6 packet.
    #[must_use]
    pub fn emit(&self) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        let solicited = if self.is_solicited { SOLICITED } else { 0 };
        let overrides = if self.overrides { OVERRIDE } else { 0 };
        let ends = (self.target, self.destination);
        let option = Some((TARGET_LINK_ADDRESS, self.target_mac));
        emit(
            &mut packet,
            ends,
            [ADVERTISEMENT, solicited | overrides],
            self.target,
            option,
        );
        packet
    }
}

impl fmt::Display for Advertisement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "neighbour advertisement: {} to {}",
            self.target, self.destination
        )
    }
}

/// Writes a packet with a message of this type and these flags, and at most one option: how long it is.
fn emit(
    packet: &mut [u8; PACKET_BYTES],
    (source, destination): (Ipv6Addr, Ipv6Addr),
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    option: Option<(u8, [u8; 6])>,
) -> usize {
    let bytes = HEADER_BYTES + option.map_or(0, |_| UNIT_BYTES);
    let (header, body) = packet.split_at_mut(IPV6_HEADER_BYTES);
    header.fill(0);
    header[0] = 0x60;
    (header[5], header[6], header[7]) = (bytes as u8, ICMPV6, HOP_LIMIT);
    header[8..24].copy_from_slice(&source.octets());
    header[24..40].copy_from_slice(&destination.octets());
    body.fill(0);
    (body[0], body[4]) = (kind, flags);
    body[8..24].copy_from_slice(&target.octets());
    if let Some((kind, mac)) = option {
        (body[24], body[25]) = (kind, 1);
        body[26..32].copy_from_slice(&mac);
    }
    let check = message_checksum(source, destination, &body[..bytes]);
    body[2..4].copy_from_slice(&check.to_be_bytes());
    IPV6_HEADER_BYTES + bytes
}

/// A multicast address that is made of the last 24 bits of the one asked for (RFC 4291, section 2.7.1).
fn is_solicited_node(address: Ipv6Addr) -> bool {
    let prefix = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    address.octets().starts_with(&prefix)
}

/// The sender's Ethernet address, if its options name it.
fn source_mac(mut options: &[u8]) -> Result<Option<[u8; 6]>, NeighbourError> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let length = usize::from(units) * UNIT_BYTES;
        let option = options.get(..length).filter(|option| !option.is_empty());
        let option = option.ok_or(NeighbourError::Options)?;
        if let (SOURCE_LINK_ADDRESS, &[_, _, a, b, c, d, e, f]) = (kind, option) {
            found = Some([a, b, c, d, e, f]);
        }
        options = &options[length..];
    }
    if !options.is_empty() {
        return Err(NeighbourError::Options);
    }
    if found.is_some_and(|mac| mac[0] & 1 != 0) {
        return Err(NeighbourError::SenderGroup);
    }
    Ok(found)
}

/// The checksum of a message (RFC 4443, section 2.3): of one that has its own, 0.
fn message_checksum(source: Ipv6Addr, destination: Ipv6Addr, body: &[u8]) -> u16 {
    checksum(pseudo_ipv6(source, destination, ICMPV6, body.len()) + sum(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    const ASKED: Solicitation = Solicitation {
        source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9),
        destination: GROUP,
        target: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        source_mac: Some([2, 0, 0, 0, 0, 7]),
    };
    /// Written by hand after section 4.3 of RFC 4861; the checksum is by a few lines of Python.
    const GOLDEN: [u8; PACKET_BYTES] = [
        0x60, 0, 0, 0, 0, 32, 58, 255, // IPv6
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, // source
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1, // destination
        135, 0, SUM[0], SUM[1], 0, 0, 0, 0, // solicitation
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // target
        1, 1, 2, 0, 0, 0, 0, 7, // option
    ];
    const SUM: [u8; 2] = [0x7a, 0x8b];
    /// After section 4.4.
    const GOLDEN_ANSWER: [u8; PACKET_BYTES] = [
        0x60, 0, 0, 0, 0, 32, 58, 255, // IPv6
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // source
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, // destination
        136, 0, 0x18, 0x15, 0x60, 0, 0, 0, // advertisement
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // target
        2, 1, 2, 0, 0, 0, 0, 1, // option
    ];

    fn emitted(asked: &Solicitation) -> std::vec::Vec<u8> {
        let mut packet = [0xee; PACKET_BYTES];
        let bytes = asked.emit(&mut packet);
        packet[..bytes].to_vec()
    }

    #[test]
    fn golden_question_and_answer() {
        assert_eq!(Solicitation::parse(&GOLDEN), Ok(ASKED));
        assert_eq!(emitted(&ASKED), GOLDEN);
        let answer = Advertisement {
            destination: ASKED.source,
            target: ASKED.target,
            target_mac: [2, 0, 0, 0, 0, 1],
            is_solicited: true,
            overrides: true,
        };
        assert_eq!(answer.emit(), GOLDEN_ANSWER);
        assert_eq!(
            ASKED.to_string(),
            "neighbour solicitation: fe80::9 asks for fe80::1"
        );
        assert_eq!(
            answer.to_string(),
            "neighbour advertisement: fe80::1 to fe80::9"
        );
    }

    #[test]
    fn each_rule_that_is_broken_has_its_name() {
        let changed = |change: fn(&mut [u8; PACKET_BYTES])| {
            let mut packet = GOLDEN;
            change(&mut packet);
            packet[42..44].fill(0);
            let at = |at: usize| Ipv6Addr::from(*packet[at..].first_chunk::<16>().unwrap());
            let check = message_checksum(at(8), at(24), &packet[40..]);
            packet[42..44].copy_from_slice(&check.to_be_bytes());
            Solicitation::parse(&packet)
        };
        assert_eq!(changed(|_| {}), Ok(ASKED));
        assert_eq!(
            changed(|it| it[7] = 254),
            Err(NeighbourError::HopLimit(254))
        );
        assert_eq!(changed(|it| it[41] = 1), Err(NeighbourError::Code(1)));
        let group = |first| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!(
            changed(|it| it[48] = 0xff),
            Err(NeighbourError::Group(group(0xff80)))
        );
        assert!(matches!(
            changed(|it| it[8] = 0xff),
            Err(NeighbourError::Group(_))
        ));
        for units in [0, 2] {
            let options = changed(match units {
                0 => |it| it[65] = 0,
                _ => |it| it[65] = 2,
            });
            assert_eq!(options, Err(NeighbourError::Options));
        }
        assert_eq!(changed(|it| it[66] = 3), Err(NeighbourError::SenderGroup));
        assert_eq!(
            changed(|it| it[8..24].fill(0)),
            Err(NeighbourError::Unspecified)
        );
        assert_eq!(
            changed(|it| it[40] = 136),
            Err(NeighbourError::NoSolicitation)
        );
        assert_eq!(
            changed(|it| it[6] = 17),
            Err(NeighbourError::NoSolicitation)
        );
        let mut wrong = GOLDEN;
        wrong[43] ^= 1;
        assert_eq!(Solicitation::parse(&wrong), Err(NeighbourError::Checksum));
        let short = [&GOLDEN[..5], &[23], &GOLDEN[6..63]].concat();
        assert_eq!(Solicitation::parse(&short), Err(NeighbourError::Short(23)));
        for end in 0..PACKET_BYTES {
            let error = Solicitation::parse(&GOLDEN[..end]).unwrap_err();
            assert!(matches!(error, NeighbourError::Packet(_)), "{end}: {error}");
        }
    }

    #[test]
    fn a_station_that_wants_to_take_an_address_names_no_other_one() {
        let asked = Solicitation {
            source: Ipv6Addr::UNSPECIFIED,
            source_mac: None,
            ..ASKED
        };
        assert_eq!(Solicitation::parse(&emitted(&asked)), Ok(asked));
        let to_the_target = Solicitation {
            destination: asked.target,
            ..asked
        };
        let refused = Solicitation::parse(&emitted(&to_the_target));
        assert_eq!(refused, Err(NeighbourError::Unspecified));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_what_is_parsed(source: u128, target: u128, mac: Option<[u8; 6]>) {
            let asked = Solicitation {
                source: source.into(),
                destination: GROUP,
                target: target.into(),
                source_mac: mac.map(|[a, b, c, d, e, f]| [a & !1, b, c, d, e, f]),
            };
            prop_assert_eq!(Solicitation::parse(&emitted(&asked)), asked.checked());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            changes in proptest::collection::vec((0..PACKET_BYTES, any::<u8>()), 0..4),
            end in 0..=PACKET_BYTES,
        ) {
            let mut packet = GOLDEN;
            changes.iter().for_each(|(at, byte)| packet[*at] = *byte);
            if let Ok(asked) = Solicitation::parse(&packet[..end]) {
                prop_assert!(!asked.target.is_multicast() && !asked.source.is_multicast());
            }
        }
    }
}
