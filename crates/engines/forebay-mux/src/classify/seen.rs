//! What a frame says of itself, as far as rules ask.

use forebay_wire::packet::arp::{self, ArpError, ArpRepr};
use forebay_wire::packet::link::{self, EtherType};
use forebay_wire::packet::neighbour::SOLICITATION;
use forebay_wire::packet::tcp::Segment;
use forebay_wire::packet::udp::Datagram;
use forebay_wire::packet::{ICMPV6, Ip, PacketError, TCP, UDP};

use super::rule::{number, version};
use crate::mac::Mac;
use crate::responder::ARP;

/// A frame with what rules ask of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) destination_mac: Mac,
    pub(super) vlan: Option<u16>,
    pub(super) addresses: Option<Addresses>,
    pub(super) protocol: Option<u8>,
    /// Of the sender and of the receiver.
    pub(super) ports: Option<(u16, u16)>,
    pub(super) is_fragment: bool,
    /// It asks for the Ethernet address of an IP address.
    pub(super) is_question: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) version: u8,
    pub(super) source: u128,
    pub(super) destination: u128,
}

impl Seen {
    #[inline]
    pub(super) fn of(frame: &[u8]) -> Result<Self, PacketError> {
        let link = link::ethernet(frame)?;
        let mut mac = [0; 6];
        mac.copy_from_slice(frame.get(..6).ok_or(PacketError::LinkHeader)?);
        let mut seen = Self {
            destination_mac: Mac(mac),
            vlan: link.vlan,
            addresses: None,
            protocol: None,
            ports: None,
            is_fragment: false,
            is_question: false,
        };
        match link.ethertype {
            ethertype if ethertype.is_ip() => seen.look_at_ip(link.ethertype, link.payload)?,
            ARP => seen.look_at_arp(link.payload)?,
            _ => {}
        }
        Ok(seen)
    }

    #[inline]
    fn look_at_ip(&mut self, ethertype: EtherType, packet: &[u8]) -> Result<(), PacketError> {
        let ip = Ip::parse(packet)?;
        let body = ip.payload()?;
        let addresses = Addresses {
            version: version(ip.destination),
            source: number(ip.source),
            destination: number(ip.destination),
        };
        if (addresses.version == 4) != (ethertype == EtherType::IPV4) {
            return Err(PacketError::IpVersion(addresses.version));
        }
        self.addresses = Some(addresses);
        self.protocol = Some(ip.protocol);
        self.is_fragment = ip.fragment.is_some();
        if self.is_fragment {
            return Ok(());
        }
        match ip.protocol {
            UDP => {
                let datagram = Datagram::new_checked(body)?;
                self.ports = Some((datagram.source_port(), datagram.destination_port()));
            }
            TCP => {
                let segment = Segment::new_checked(body)?;
                self.ports = Some((segment.source_port(), segment.destination_port()));
            }
            ICMPV6 => self.is_question = body.first() == Some(&SOLICITATION),
            _ => {}
        }
        Ok(())
    }

    /// The addresses of an ARP packet stand where those of an IP packet would, so that an answer finds the client that asked, by its address as well.
    fn look_at_arp(&mut self, packet: &[u8]) -> Result<(), PacketError> {
        let arp = match ArpRepr::parse(packet) {
            Ok(arp) => arp,
            Err(ArpError::Short(_)) => return Err(PacketError::NoIp),
            Err(ArpError::Kind { .. }) => return Ok(()),
        };
        self.is_question = arp.operation == arp::REQUEST;
        self.addresses = Some(Addresses {
            version: 4,
            source: arp.sender.to_bits().into(),
            destination: arp.target.to_bits().into(),
        });
        Ok(())
    }
}
