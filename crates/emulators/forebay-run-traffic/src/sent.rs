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

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(row: u64, direction: Direction, ip_bytes: u32, is_last: bool) -> Packet {
        Packet {
            at_ns: 0,
            row,
            direction,
            ip_bytes,
            wire_bytes: 0,
            captured_bytes: 0,
            tcp_flags: 1 << row,
            is_last,
        }
    }

    /// What is written of a flow is what was sent of it, at the times when it was sent.
    #[test]
    fn a_flow_is_what_was_sent_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let mut sent = SentTruth::new(Truth::create(&path).unwrap());
        let key = |source_port| FlowKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: 6,
            source_port,
            destination_port: 80,
        };
        // Of row 1 the second packet is refused, of row 2 all, and rows 3 and 4 have packets left at the end. Row 1 ends before row 0, and is written before it.
        for row in 0..=4 {
            sent.begin(row, &key(row as u16));
            sent.begin(row, &key(9));
        }
        let mut count = |row, direction, ip_bytes, at_ns, is_last| {
            let packet = packet(row, direction, ip_bytes, is_last);
            if at_ns > 0 {
                sent.count(&packet, at_ns);
            }
            sent.settle(&packet).unwrap();
        };
        let (forward, reverse) = (Direction::Forward, Direction::Reverse);
        count(0, forward, 100, 5, false);
        count(1, reverse, 31, 6, false);
        count(3, forward, 70, 7, false);
        count(0, reverse, 50, 8, false);
        count(1, forward, 40, 0, true);
        count(0, forward, 102, 9, true);
        count(2, forward, 1, 0, true);
        sent.cut().unwrap();
        sent.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "1,10.0.0.1,10.0.0.2,1,80,6,0,0,1,31,6,6,0,2",
                "0,10.0.0.1,10.0.0.2,0,80,6,2,202,1,50,5,9,1,1",
                "3,10.0.0.1,10.0.0.2,3,80,6,1,70,0,0,7,7,8,0",
            ]
        );
    }
}
