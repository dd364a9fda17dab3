//! What was sent, counted packet by packet.

use std::net::IpAddr;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the source of the row.
    Forward,
    /// To it.
    Reverse,
}

/// What a flow is known by, seen in its forward direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Address of the side that sends forward.
    pub source: IpAddr,
    /// Address of the other side.
    pub destination: IpAddr,
    /// What IP carries.
    pub protocol: u8,
    /// Port of the side that sends forward; packets of TCP and UDP alone have it.
    pub source_port: u16,
    /// Port of the other side.
    pub destination_port: u16,
}

/// What one direction of a flow sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTruth {
    /// Packets.
    pub packets: u64,
    /// Octets of IP.
    pub octets: u64,
    /// First packet, ns; 0 where there was none.
    pub first_ns: u64,
    /// Last packet, ns; 0 where there was none.
    pub last_ns: u64,
    /// All flags of its segments, where it is of TCP.
    pub tcp_flags: u8,
}

impl SideTruth {
    /// Counts a packet at this instant, in ns, with its octets of IP.
    #[inline]
    pub fn count(&mut self, at_ns: u64, octets: u32, tcp_flags: u8) {
        if self.packets == 0 {
            self.first_ns = at_ns;
        }
        self.packets += 1;
        self.octets += u64::from(octets);
        self.last_ns = at_ns;
        self.tcp_flags |= tcp_flags;
    }
}

/// What a flow sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTruth {
    /// The number of its row, from 0.
    pub row: u64,
    /// What it is known by.
    pub key: FlowKey,
    /// From the source of the row.
    pub forward: SideTruth,
    /// To it.
    pub reverse: SideTruth,
    /// No packets have the sum of octets that the row says.
    pub is_adjusted: bool,
}

/// What was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows that were taken.
    pub rows: u64,
    /// Flows that ended.
    pub flows: u64,
    /// Rows without any packet, of which no flow was made.
    pub empty_rows: u64,
    /// Rows whose octets no packets add up to, those without any packet included.
    pub adjusted_flows: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were made smaller than they should be ([`crate::Config::ip_bytes_max`]).
    pub shortened_packets: u64,
    /// Octets of IP that these lack.
    pub shortened_octets: u64,
    /// Octets of IP.
    pub octets: u64,
    /// Bytes of the frames, whole.
    pub wire_bytes: u64,
    /// Most flows at one time.
    pub alive_max: usize,
}
