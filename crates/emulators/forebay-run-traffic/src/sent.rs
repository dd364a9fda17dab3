//! What was sent of each flow, where not all that is made is sent.

use std::collections::BTreeMap;

use forebay_traffic::{Direction, FlowKey, FlowTruth, Packet, SideTruth};

use crate::TrafficError;
use crate::truth::Truth;

/// The truth of flows by what was sent of them, at the times of sending.
pub(crate) struct SentTruth {
    to: Truth,
    /// Flows that have packets left, by their rows.
    flows: BTreeMap<u64, FlowTruth>,
}

impl SentTruth {
    pub(crate) const fn new(to: Truth) -> Self {
        Self {
            to,
            flows: BTreeMap::new(),
        }
    }

    /// A packet of this flow is made.
    pub(crate) fn begin(&mut self, row: u64, key: &FlowKey) {
        self.flows.entry(row).or_insert_with(|| FlowTruth {
            row,
            key: *key,
            forward: SideTruth::default(),
            reverse: SideTruth::default(),
            is_adjusted: false,
        });
    }

    /// A packet is sent.
    pub(crate) fn count(&mut self, packet: &Packet, at_ns: u64) {
        if let Some(flow) = self.flows.get_mut(&packet.row) {
            let side = match packet.direction {
                Direction::Forward => &mut flow.forward,
                Direction::Reverse => &mut flow.reverse,
            };
            side.count(at_ns, packet.ip_bytes, packet.tcp_flags);
        }
    }

    /// A packet is sent or refused: of a flow's last one the truth is written.
    pub(crate) fn settle(&mut self, packet: &Packet) -> Result<(), TrafficError> {
        if !packet.is_last {
            return Ok(());
        }
        let ended = self.flows.remove(&packet.row);
        ended.map_or(Ok(()), |flow| self.write(&flow))
    }

    fn write(&mut self, flow: &FlowTruth) -> Result<(), TrafficError> {
        if flow.forward.packets + flow.reverse.packets == 0 {
            return Ok(());
        }
        self.to.take(flow, 0)
    }

    /// Writes the flows that have packets left.
    pub(crate) fn cut(&mut self) -> Result<(), TrafficError> {
        let flows = std::mem::take(&mut self.flows);
        flows.values().try_for_each(|flow| self.write(flow))
    }

    /// Gives the table its name.
    pub(crate) fn finish(self) -> Result<(), TrafficError> {
        self.to.finish()
    }
}
