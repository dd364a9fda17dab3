//! What a client's run came to.

use std::fmt;
use std::net::IpAddr;

use forebay_client::protocol::Welcome;
use forebay_run::record::Record;
use serde::Serialize;

use crate::counts::{TcpCounts, WorkDrop};
use crate::run::Work;

/// The record of a client of the multiplexer.
pub type MuxClientRecord = Record<MuxClientSummary>;

/// What it has to say beside what every record says. Datagrams are those of UDP to its port, and their bytes those of the payload.
#[derive(Clone, Debug, Serialize)]
pub struct MuxClientSummary {
    /// What it did.
    pub workload: &'static str,
    /// The name of its place.
    pub name: String,
    /// Without an IP stack.
    pub raw: bool,
    /// What it had at its place.
    #[serde(flatten)]
    pub place: Place,
    /// Times that it had the place.
    pub connections: u64,
    /// Times that the multiplexer went away.
    pub daemon_gone: u64,
    /// Frames that the multiplexer gave.
    pub frames_received: u64,
    /// Their bytes.
    pub frames_received_bytes: u64,
    /// Frames that it was handed.
    pub frames_sent: u64,
    /// Their bytes.
    pub frames_sent_bytes: u64,
    /// Frames that were neither for the stack nor datagrams for a raw echo.
    pub frames_other: u64,
    /// Times that something waited as all buffers were on their way.
    pub no_room: u64,
    /// Frames that the stack made as an answer of its own, and that found no buffer.
    pub answers_lost: u64,
    /// Datagrams that came.
    pub datagrams_came: u64,
    /// Those that are answered, with one datagram or more.
    pub datagrams_answered: u64,
    /// Those that the workload does not answer.
    pub datagrams_by_design: u64,
    /// Those that came while as many waited as can.
    pub datagrams_no_room: u64,
    /// Datagrams that were sent.
    pub datagrams_sent: u64,
    /// Bytes of their payload.
    pub datagrams_sent_bytes: u64,
    /// Connections of TCP, read by read.
    pub tcp: TcpSummary,
    /// Sum of the bytes that `heavy` has added up, modulo 2^64.
    pub byte_sum: u64,
}

/// What came over TCP.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TcpSummary {
    /// Bytes that came.
    pub came_bytes: u64,
    /// Bytes that went back.
    pub returned_bytes: u64,
}

impl From<&TcpCounts> for TcpSummary {
    fn from(counts: &TcpCounts) -> Self {
        Self {
            came_bytes: counts.came.bytes,
            returned_bytes: counts.returned.bytes,
        }
    }
}

/// What a client has at its place.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Its Ethernet address.
    pub mac: String,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Its VLAN.
    pub vlan: Option<u16>,
    /// MTU of the link in bytes.
    pub mtu_bytes: u32,
}

impl Place {
    pub(crate) fn of(welcome: &Welcome) -> Self {
        let mac = welcome.mac.map(|byte| format!("{byte:02x}")).join(":");
        Self {
            mac,
            addresses: welcome.addresses.clone(),
            vlan: welcome.vlan,
            mtu_bytes: welcome.mtu_bytes,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mac)?;
        self.addresses
            .iter()
            .try_for_each(|address| write!(f, ", {address}"))
    }
}

impl MuxClientSummary {
    pub(crate) fn of(work: &Work<'_>, place: Place) -> Self {
        let (plan, totals) = (work.plan, &work.totals);
        let counts = work.counts();
        Self {
            workload: plan.workload.name(),
            name: plan.name.clone(),
            raw: plan.raw,
            place,
            connections: work.connections,
            daemon_gone: work.gone,
            frames_received: totals.frames.received,
            frames_received_bytes: totals.frames.received_bytes,
            frames_sent: totals.frames.sent,
            frames_sent_bytes: totals.frames.sent_bytes,
            frames_other: totals.frames.others,
            no_room: totals.frames.no_room,
            answers_lost: totals.frames.answers_lost,
            datagrams_came: counts.came.packets,
            datagrams_answered: counts.answered.packets,
            datagrams_by_design: counts.dropped[WorkDrop::ByDesign].packets,
            datagrams_no_room: counts.dropped[WorkDrop::NoRoom].packets,
            datagrams_sent: totals.send.sent.packets,
            datagrams_sent_bytes: totals.send.sent.bytes,
            tcp: (&totals.tcp).into(),
            byte_sum: work.workload.byte_sum(),
        }
    }
}
