//! Answers questions for the Ethernet addresses of all clients: ARP (RFC 826) and neighbour discovery (RFC 4861).
//!
//! A frame in, a frame out. It answers for an address that a client has, in the client's VLAN, and for no other one; it starts nothing, keeps nothing of what
//! other stations say, and so cannot be filled or poisoned.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

use foldhash::fast::FixedState;
use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::packet::arp::{self, ArpError, ArpRepr};
use forebay_wire::packet::link::{self, ETHERNET_HEADER_BYTES, EtherType, VLAN_TAGS_MAX};
use forebay_wire::packet::neighbour::{self, Advertisement, NeighbourError, Solicitation};
use thiserror::Error;

use crate::client::ClientId;
use crate::mac::Mac;

/// What a frame with a packet of ARP is of.
pub(crate) const ARP: EtherType = EtherType(0x0806);
/// Most bytes of an answer: a frame with four VLAN tags and an advertisement.
pub const ANSWER_BYTES_MAX: usize =
    ETHERNET_HEADER_BYTES + 4 * VLAN_TAGS_MAX + neighbour::PACKET_BYTES;
/// Least bytes of a frame of Ethernet, without its check sum: a shorter answer is filled up with zeroes.
const FRAME_BYTES_MIN: usize = 60;
/// All stations of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

reasons! {
    /// Why a frame is not answered.
    pub enum ResponderDrop {
        /// It is not whole, contradicts itself, or breaks a rule of its protocol.
        Malformed = "malformed",
        /// It asks for an address that no client has in its VLAN.
        NotOurs = "not_ours",
        /// It tells an address of its own to all, which asks for no answer.
        Gratuitous = "gratuitous",
        /// It tells all that an address of a client is its own.
        Conflict = "conflict",
        /// It asks for nothing.
        NoQuestion = "no_question",
    }
}

/// An address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The client that has it.
    pub client: ClientId,
    /// The address.
    pub ip: IpAddr,
    /// Where it is.
    pub mac: Mac,
    /// Questions of this VLAN alone are answered; without it those of each VLAN, and those without a tag.
    pub vlan: Option<u16>,
}

/// An address that cannot be answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Another client has it.
    #[error("{ip} is the address of {holder}: two clients cannot share it")]
    Taken {
        /// The address.
        ip: IpAddr,
        /// The client that has it.
        holder: ClientId,
    },
    /// No single station can have it.
    #[error("{ip} at {mac} is no address of one station")]
    NoStation {
        /// The address.
        ip: IpAddr,
        /// Where it was to be.
        mac: Mac,
    },
}

/// What came, and what became of it: `asked` = `answered` + `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderCounts {
    /// Frames that came.
    pub asked: u64,
    /// Frames that were answered.
    pub answered: u64,
    /// Frames that were not.
    pub dropped: PerReason<ResponderDrop, u64, { ResponderDrop::COUNT }>,
}

/// The addresses of all clients.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    addresses: HashMap<IpAddr, Address, FixedState>,
    counts: ResponderCounts,
}

impl Responder {
    /// Answers for an address from now on.
    ///
    /// # Errors
    /// Another client has it, or no single station can.
    pub fn add(&mut self, address: Address) -> Result<(), AddressError> {
        let Address { ip, mac, .. } = address;
        if ip.is_multicast() || ip.is_unspecified() || mac.is_group() {
            return Err(AddressError::NoStation { ip, mac });
        }
        if let Some(holder) = self.holder(ip).filter(|holder| *holder != address.client) {
            return Err(AddressError::Taken { ip, holder });
        }
        self.addresses.insert(ip, address);
        Ok(())
    }

    /// Answers for no address of this client any longer.
    pub fn remove_client(&mut self, client: ClientId) {
        self.addresses.retain(|_, address| address.client != client);
    }

    /// The client that has an address.
    #[must_use]
    pub fn holder(&self, ip: IpAddr) -> Option<ClientId> {
        self.addresses.get(&ip).map(|address| address.client)
    }

    /// What came so far.
    #[must_use]
    pub const fn counts(&self) -> &ResponderCounts {
        &self.counts
    }

    /// Answers a frame: the answer is written to the front of `answer`.
    ///
    /// # Errors
    /// There is no answer, by a reason that is counted here.
    pub fn handle_frame<'a>(
        &mut self,
        frame: &[u8],
        answer: &'a mut [u8; ANSWER_BYTES_MAX],
    ) -> Result<&'a [u8], ResponderDrop> {
        self.counts.asked += 1;
        match self.answer(frame, answer) {
            Ok(bytes) => {
                self.counts.answered += 1;
                Ok(&answer[..bytes])
            }
            Err(reason) => {
                self.counts.dropped[reason] += 1;
                Err(reason)
            }
        }
    }

    fn answer(
        &self,
        frame: &[u8],
        answer: &mut [u8; ANSWER_BYTES_MAX],
    ) -> Result<usize, ResponderDrop> {
        let link = link::ethernet(frame).map_err(|_| ResponderDrop::Malformed)?;
        // Addresses, tags and type, as many bytes as the question has of them.
        let (header, _) = frame.split_at(frame.len() - link.payload.len());
        let source = source(header).filter(|mac| !mac.is_group());
        let source = source.ok_or(ResponderDrop::Malformed)?;
        match link.ethertype {
            ARP => {
                let question = ArpRepr::parse(link.payload)?;
                let mac = self.asked_by_arp(&question, link.vlan)?;
                let ends = (Mac(question.sender_mac), mac);
                let reply = question.answered_by(mac.0).emit();
                Ok(emit(answer, header, ends, &reply))
            }
            EtherType::IPV6 => {
                let question = Solicitation::parse(link.payload)?;
                let mac = self.mac_of(question.target.into(), link.vlan)?;
                let (to, reply) = advertisement(&question, mac, source);
                Ok(emit(answer, header, (to, mac), &reply.emit()))
            }
            _ => Err(ResponderDrop::NoQuestion),
        }
    }

    fn mac_of(&self, ip: IpAddr, vlan: Option<u16>) -> Result<Mac, ResponderDrop> {
        let of_vlan = |address: &&Address| address.vlan.is_none() || address.vlan == vlan;
        let address = self.addresses.get(&ip).filter(of_vlan);
        address
            .map(|address| address.mac)
            .ok_or(ResponderDrop::NotOurs)
    }

    /// Where the address is that a packet of ARP asks for.
    fn asked_by_arp(&self, packet: &ArpRepr, vlan: Option<u16>) -> Result<Mac, ResponderDrop> {
        let (sender, sender_mac) = (packet.sender, Mac(packet.sender_mac));
        let mac = self.mac_of(packet.target.into(), vlan);
        if sender == packet.target {
            let is_conflict = mac.is_ok_and(|mac| mac != sender_mac);
            return Err(if is_conflict {
                ResponderDrop::Conflict
            } else {
                ResponderDrop::Gratuitous
            });
        }
        if packet.operation != arp::REQUEST {
            return Err(ResponderDrop::NoQuestion);
        }
        if sender_mac.is_group() || sender.is_multicast() || sender.is_broadcast() {
            return Err(ResponderDrop::Malformed);
        }
        mac
    }
}

impl From<ArpError> for ResponderDrop {
    fn from(error: ArpError) -> Self {
        match error {
            ArpError::Short(_) => Self::Malformed,
            ArpError::Kind { .. } => Self::NoQuestion,
        }
    }
}

impl From<NeighbourError> for ResponderDrop {
    fn from(error: NeighbourError) -> Self {
        match error {
            NeighbourError::NoSolicitation => Self::NoQuestion,
            _ => Self::Malformed,
        }
    }
}

/// The answer that the target is at `mac`, and the station that it goes to: the sender of the question, or all if that wants to take the address itself
/// (RFC 4861, section 7.2.4).
fn advertisement(question: &Solicitation, mac: Mac, frame_source: Mac) -> (Mac, Advertisement) {
    let is_solicited = !question.source.is_unspecified();
    let (to, destination) = match (is_solicited, question.source_mac) {
        (false, _) => (ALL_NODES_MAC, ALL_NODES),
        (true, named) => (named.map_or(frame_source, Mac), question.source),
    };
    let advertisement = Advertisement {
        destination,
        target: question.target,
        target_mac: mac.0,
        is_solicited,
        overrides: true,
    };
    (to, advertisement)
}

/// The sender's address in the header of a frame.
fn source(header: &[u8]) -> Option<Mac> {
    let source: &[u8; 6] = header.get(6..)?.first_chunk()?;
    Some(Mac(*source))
}

/// Writes an answer with the tags and the type of the question: how long it is.
fn emit(
    answer: &mut [u8; ANSWER_BYTES_MAX],
    header: &[u8],
    (to, from): (Mac, Mac),
    body: &[u8],
) -> usize {
    let end = header.len() + body.len();
    answer.fill(0);
    answer[..header.len()].copy_from_slice(header);
    answer[..6].copy_from_slice(&to.0);
    answer[6..12].copy_from_slice(&from.0);
    answer[header.len()..end].copy_from_slice(body);
    end.max(FRAME_BYTES_MIN)
}
