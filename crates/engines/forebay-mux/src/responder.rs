//! Answers questions for the Ethernet addresses of all clients: ARP (RFC 826) and neighbour discovery (RFC 4861).
//!
//! A frame in, a frame out. It answers for an address that a client has, in the client's VLAN, and for no other one; it starts nothing, keeps nothing of what
//! other stations say, and so cannot be filled or poisoned.

pub(crate) mod arp;
mod neighbour;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::packet::link::{self, ETHERNET_HEADER_BYTES, EtherType, VLAN_TAGS_MAX};
use thiserror::Error;

use self::neighbour::Solicitation;
use crate::client::ClientId;
use crate::mac::Mac;

pub(crate) use self::neighbour::NEIGHBOUR_SOLICITATION;

/// What a frame with a packet of ARP is of.
pub(crate) const ARP: EtherType = EtherType(0x0806);
/// Most bytes of an answer: a frame with four VLAN tags and an advertisement.
pub const ANSWER_BYTES_MAX: usize =
    ETHERNET_HEADER_BYTES + 4 * VLAN_TAGS_MAX + neighbour::ANSWER_PACKET_BYTES;
/// Least bytes of a frame of Ethernet, without its check sum: a shorter answer is filled up with zeroes.
const FRAME_BYTES_MIN: usize = 60;

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
                let question = arp::Packet::new_checked(link.payload);
                let question = question.ok_or(ResponderDrop::Malformed)?;
                let mac = self.asked_by_arp(question, link.vlan)?;
                Ok(emit(
                    answer,
                    header,
                    (question.sender(), mac),
                    &question.answer(mac),
                ))
            }
            EtherType::IPV6 => {
                let question = Solicitation::parse(link.payload)?;
                let mac = self.mac_of(question.target.into(), link.vlan)?;
                let (to, packet) = question.answer(mac, source);
                Ok(emit(answer, header, (to, mac), &packet))
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
    fn asked_by_arp(
        &self,
        packet: arp::Packet<'_>,
        vlan: Option<u16>,
    ) -> Result<Mac, ResponderDrop> {
        let (sender, target) = packet.addresses().ok_or(ResponderDrop::NoQuestion)?;
        let mac = self.mac_of(target.into(), vlan);
        if sender == target {
            let is_conflict = mac.is_ok_and(|mac| mac != packet.sender());
            return Err(if is_conflict {
                ResponderDrop::Conflict
            } else {
                ResponderDrop::Gratuitous
            });
        }
        if !packet.is_request() {
            return Err(ResponderDrop::NoQuestion);
        }
        if packet.sender().is_group() || sender.is_multicast() || sender.is_broadcast() {
            return Err(ResponderDrop::Malformed);
        }
        mac
    }
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
