//! Flows whose packets are counted elsewhere, below user space, and how what was counted comes back.
//!
//! The table stays the owner of each flow. It *lends* heavy ones ([`Policy`]) to a table below ([`Lower`]), and takes what was counted back before it decides
//! anything about the flow: its end, or that it lives on. So the records are those of a table that saw all packets itself.
//!
//! Packets are under way from below to the table meanwhile, and order between them and what is counted below must not matter. A flow is lent in two steps for that.
//! First it is *watched*: packets still come up, and one that may begin another record (SYN, FIN, RST, or a time-out) closes it below. When the table's clock is past
//! the begin of the watch, all packets from before have been handled: from then on none under way can be such a one, and the flow is *counted* below. All that is still
//! under way belongs to the same record as what is counted, so that it is added in any order.
//!
//! A flow of which headers alone are wanted ([`crate::Watch::wants_payload`]) may be watched so that its packets come up cut ([`Lower::trim`]): all of them, in their order. It is counted when nothing is wanted any more.
//!
//! Four things are not as they would be without it: after a clock that jumped forward and back by more than the idle time-out, records of packets that are late may be cut at another packet; [`crate::Counts::out_of_order`] counts fewer packets; when a full table lets a flow go, the one that was idle
//! longest may be found a moment later ([`crate::Eviction::Oldest`]) or be a lent one ([`crate::Eviction::LineLru`]); and a packet that comes later than 30 others which
//! are younger than it, and is older than the first of its flow, moves the begin of a record without moving its active time-out below.

mod heavy_hitter;
mod packets;
mod rate;

use core::fmt::Debug;
use std::collections::VecDeque;

pub use self::heavy_hitter::HeavyHitter;
pub use self::packets::Packets;
pub use self::rate::Rate;
use crate::key::FlowKey;
use crate::record::Volume;

/// What the table knows of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// Its canonical key.
    pub key: FlowKey,
    /// Its packets, from the initiator and to it.
    pub packets: [u64; 2],
    /// Their octets.
    pub octets: [u64; 2],
    /// Earliest time of them, ns.
    pub first_ns: u64,
    /// Latest time of them, ns.
    pub last_ns: u64,
}

/// The flows that are lent.
pub trait Policy: Debug + Send {
    /// Is asked after each packet that the table has counted of a flow that is not lent.
    fn wants(&mut self, flow: &FlowView) -> bool;
}

/// What below has to know of a flow that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Time of the latest packet that the table knows of, ns.
    pub heard_ns: u64,
    /// From when on packets are of another record, ns.
    pub active_due_ns: u64,
}

/// What was counted of a flow below. Index 0 is in the direction of the canonical key, 1 against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: [u64; 2],
    /// Octets of their IP packets, headers included.
    pub octets: [u64; 2],
    /// All their TCP flags.
    pub tcp_flags: [u8; 2],
    /// Earliest time of them, ns; of no meaning without packets.
    pub first_ns: u64,
    /// Latest time of them, ns; of no meaning without packets.
    pub last_ns: u64,
}

impl Counted {
    /// Packets and octets of both directions.
    #[must_use]
    pub const fn volume(&self) -> Volume {
        Volume {
            packets: self.packets[0] + self.packets[1],
            octets: self.octets[0] + self.octets[1],
        }
    }
}

/// What becomes of a flow that shall be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is watched since this time, ns.
    Since(u64),
    /// There is no room for now.
    Full,
    /// Another table has lent it: packets of one flow come to both, as fragments may. It stays where it is.
    Elsewhere,
}

/// Counts packets below user space. Its clock is that of the packets' times, and its idle time-out at most the table's.
///
/// It counts a packet of a flow only if it comes before the idle time-out after the one before it and before [`Loan::active_due_ns`], and has none of SYN, FIN and RST.
/// From the first that is otherwise it counts none of the flow any more. What it does not count goes up to the table.
pub trait Lower: Debug + Send {
    /// Watches a flow by its canonical key.
    fn watch(&mut self, key: &FlowKey, loan: &Loan) -> Answer;

    /// Whether it can do [`Self::trim`].
    fn trims(&self) -> bool;

    /// As [`Self::watch`], and from now on packets come up without what is behind their headers. All else of them is as it was.
    fn trim(&mut self, key: &FlowKey, loan: &Loan) -> Answer;

    /// Counts a flow from now on that is watched. False: it was closed meanwhile.
    fn count(&mut self, key: &FlowKey, loan: &Loan) -> bool;

    /// Gives a flow back with all that was counted. None if it is not known, which the table counts as [`OffloadCounts::missing`].
    fn take(&mut self, key: &FlowKey) -> Option<Counted>;

    /// Gives what was counted of a flow until now, and counts it anew: it stays below. None if it is not known.
    fn collect(&mut self, key: &FlowKey) -> Option<Counted>;
}

/// What happened to flows that were lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadCounts {
    /// Flows that were watched.
    pub watched: u64,
    /// Of them those whose packets came up without what is behind their headers at first.
    pub trimmed: u64,
    /// Of them those that were counted below.
    pub counted: u64,
    /// How often there was no room below for a flow.
    pub refused: u64,
    /// Flows that another table had lent.
    pub elsewhere: u64,
    /// Flows that came back.
    pub returned: u64,
    /// How often what was counted of a flow came back without it.
    pub collected: u64,
    /// Flows that below did not know any more: what it had counted of them is lost.
    pub missing: u64,
}

/// How long nothing is lent after there was no room for a flow, ns.
pub(crate) const PAUSE_NS: u64 = 100_000_000;

/// How much younger than the begin of a watch a packet has to be, ns: two that come on two CPUs may be a little out of order.
pub(crate) const GUARD_NS: u64 = 1_000_000;

/// Where a flow is, beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lent {
    No,
    /// It is not to be lent: another table has done that.
    Elsewhere,
    Watched,
    /// It is watched, and its packets come up cut.
    Trimming,
    /// The same, and all packets from before have been handled.
    Trimmed,
    Counted,
}

/// What a table has for it.
#[derive(Debug)]
pub(crate) struct Offload {
    pub(crate) lower: Box<dyn Lower>,
    pub(crate) policy: Box<dyn Policy>,
    /// Since when flows are watched, in that order.
    pub(crate) watched: VecDeque<(u64, u32)>,
    pub(crate) paused_until_ns: u64,
    pub(crate) counts: OffloadCounts,
    /// What was counted below, by what came back.
    pub(crate) offloaded: Volume,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow of so many packets, in both directions.
    pub(super) fn flow(packets: [u64; 2], first_ns: u64, last_ns: u64) -> FlowView {
        FlowView {
            key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6),
            packets,
            octets: packets.map(|packets| packets * 100),
            first_ns,
            last_ns,
        }
    }
}
