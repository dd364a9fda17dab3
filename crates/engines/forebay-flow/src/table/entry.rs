//! What the table has of a flow: a line of the cache for each packet, and the rest.

use core::net::{IpAddr, Ipv6Addr};

use super::list::{Links, Node};
use crate::key::FlowKey;
use crate::offload::Lent;
use crate::record::{EndReason, FlowRecord};

use forebay_wire::packet::tcp::{FIN, RST};

/// What each packet changes. Index 0 is from the initiator, 1 to it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Hot {
    pub(super) octets: [u64; 2],
    pub(super) packets: [u64; 2],
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Of the wheel.
    pub(super) links: Links,
    pub(super) tcp_flags: [u8; 2],
    /// The initiator is the destination of the key.
    pub(super) turned: bool,
    pub(super) lent: Lent,
}

const _: () = assert!(size_of::<Hot>() == 64 && align_of::<Hot>() == 64);

/// What is compared to find it, and changes only where a flow begins or ends. State that plugins keep of a flow belongs beside it, by the same place.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Cold {
    pub(super) key: FlowKey,
    pub(super) hash: u64,
    /// Of the list of all flows, by their begin.
    pub(super) links: Links,
}

const _: () = assert!(size_of::<Cold>() == 64);

impl Node for Hot {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Node for Cold {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Cold {
    /// A place without a flow, which the index never finds.
    pub(super) const FREE: Self = Self {
        key: FlowKey::new(NOBODY, NOBODY, 0),
        hash: 0,
        links: Links::NONE,
    };
}

const NOBODY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

impl Hot {
    /// A place without a flow: it has no packets.
    pub(super) const FREE: Self = Self {
        octets: [0; 2],
        packets: [0; 2],
        first_ns: 0,
        last_ns: 0,
        links: Links::NONE,
        tcp_flags: [0; 2],
        turned: false,
        lent: Lent::No,
    };

    /// TCP told the end of the flow.
    #[inline]
    pub(super) const fn has_ended(&self, biflow: bool) -> bool {
        let [from, to] = self.tcp_flags;
        let by_all = if biflow { from & to } else { from };
        by_all & FIN != 0 || (from | to) & RST != 0
    }

    #[inline]
    pub(super) fn record(&self, key: FlowKey, end_reason: EndReason) -> FlowRecord {
        FlowRecord {
            key: if self.turned { key.turned() } else { key },
            packets: self.packets[0],
            octets: self.octets[0],
            packets_rev: self.packets[1],
            octets_rev: self.octets[1],
            start_ns: self.first_ns,
            end_ns: self.last_ns,
            tcp_flags: self.tcp_flags[0],
            tcp_flags_rev: self.tcp_flags[1],
            end_reason,
        }
    }
}
