//! Packets themselves, exported with what is known of them: from the threads that capture to one that writes a capture file.

mod file;
mod lane;

pub use file::PacketsSummary;
pub(crate) use file::{PacketFile, Written};
pub(crate) use lane::{Lane, Tap};

use std::ops::AddAssign;

use forebay_flow::{FlowKey, LinkType};

/// Packets, and the bytes of them that are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bulk {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl AddAssign for Bulk {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) time_ns: u64,
    pub(crate) link: LinkType,
    pub(crate) wire_bytes: u32,
    /// Bytes that the capture had of it.
    pub(crate) captured_bytes: u32,
    /// Bytes of it that are exported.
    pub(crate) bytes: u32,
    pub(crate) key: FlowKey,
    /// The place of the rule that it met, from 0.
    pub(crate) rule: Option<u16>,
}

/// Packets that go together.
#[derive(Debug, Default)]
pub(crate) struct Bunch {
    pub(crate) known: Vec<Known>,
    pub(crate) bytes: Vec<u8>,
}

impl Bunch {
    pub(crate) fn amount(&self) -> Bulk {
        let mut sum = Bulk::default();
        for known in &self.known {
            sum += Bulk::of(known);
        }
        sum
    }
}

impl Bulk {
    pub(crate) fn of(known: &Known) -> Self {
        Self {
            packets: 1,
            bytes: known.bytes.into(),
        }
    }
}
