//! Flows that are fast.

use super::{FlowView, Policy};

const SECOND_NS: u128 = 1_000_000_000;

/// Lends a flow whose packets have come at a rate since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Packets each second, at least.
    pub rate_hz: u64,
    /// Packets that it must have had, so that a burst of two is no rate.
    pub packets_min: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            rate_hz: 1000,
            packets_min: 30,
        }
    }
}

impl Policy for Rate {
    fn wants(&mut self, flow: &FlowView) -> bool {
        let packets = flow.packets[0] + flow.packets[1];
        let lived_ns = u128::from(flow.last_ns - flow.first_ns);
        // Neither product is above 2^128.
        packets >= self.packets_min
            && u128::from(packets) * SECOND_NS >= u128::from(self.rate_hz) * lived_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow;
    use super::*;

    #[test]
    fn a_rate_holds_over_the_life_of_a_flow() {
        let mut policy = Rate {
            rate_hz: 100,
            packets_min: 10,
        };
        assert!(policy.wants(&flow([5, 5], 7, 100_000_007)));
        assert!(!policy.wants(&flow([5, 5], 7, 100_000_008)));
        assert!(!policy.wants(&flow([9, 0], 7, 7)));
        assert!(policy.wants(&flow([10, 0], 7, 7)));
    }
}
