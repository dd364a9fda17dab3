//! What is handed on of a flow.

use core::ops::{Add, AddAssign, SubAssign};

use crate::key::FlowKey;

/// Why a flow ended, as IPFIX numbers it (`flowEndReason`, element 136; RFC 5102).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for the idle time-out.
    Idle = 1,
    /// The active time-out was over; the flow may go on in another record.
    Active = 2,
    /// TCP told its end: FIN from both sides (of a flow of one direction: from its side), or RST.
    EndDetected = 3,
    /// The table was emptied.
    Forced = 4,
    /// Another flow needed its room.
    LackOfResources = 5,
}

impl EndReason {
    /// All of them, by their numbers.
    pub const ALL: [Self; 5] = [
        Self::Idle,
        Self::Active,
        Self::EndDetected,
        Self::Forced,
        Self::LackOfResources,
    ];
}

/// A flow that has ended. "Reverse" is the direction towards the initiator.
///
/// No counter overflows: a packet has less than 2^32 octets and a record ends with the active time-out, so that the sum of one is below 2^64 at any rate below
/// 1,700 Tb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Its source is the initiator: the sender of the first packet that was seen.
    pub key: FlowKey,
    /// Packets from the initiator.
    pub packets: u64,
    /// Octets of their IP packets, headers included.
    pub octets: u64,
    /// Packets to the initiator; 0 where each direction is a flow.
    pub packets_rev: u64,
    /// Octets of their IP packets, headers included.
    pub octets_rev: u64,
    /// Earliest time of its packets, ns.
    pub start_ns: u64,
    /// Latest time of its packets, ns.
    pub end_ns: u64,
    /// All TCP flags of the packets from the initiator.
    pub tcp_flags: u8,
    /// All TCP flags of the packets to the initiator.
    pub tcp_flags_rev: u8,
    /// Why it ended.
    pub end_reason: EndReason,
}

impl FlowRecord {
    /// Packets and octets of both directions.
    #[must_use]
    pub const fn volume(&self) -> Volume {
        Volume {
            packets: self.packets + self.packets_rev,
            octets: self.octets + self.octets_rev,
        }
    }
}

/// Packets and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of packets.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

impl Add for Volume {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            octets: self.octets + other.octets,
        }
    }
}

impl SubAssign for Volume {
    fn sub_assign(&mut self, other: Self) {
        self.packets -= other.packets;
        self.octets -= other.octets;
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
