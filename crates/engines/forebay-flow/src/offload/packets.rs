//! Flows that have had a number of packets.

use super::{FlowView, Policy};

/// Lends a flow that has had more packets than this, both directions together. 30 is what ipfixprobe hands to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets(pub u64);

impl Default for Packets {
    fn default() -> Self {
        Self(30)
    }
}

impl Policy for Packets {
    fn wants(&mut self, flow: &FlowView) -> bool {
        flow.packets[0] + flow.packets[1] > self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow;
    use super::*;

    #[test]
    fn both_directions_count() {
        let mut policy = Packets::default();
        assert!(!policy.wants(&flow([30, 0], 0, 0)));
        assert!(!policy.wants(&flow([0, 30], 0, 0)));
        assert!(policy.wants(&flow([16, 15], 0, 0)));
    }
}
