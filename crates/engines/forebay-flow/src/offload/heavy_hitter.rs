//! Flows that have a share of all packets.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::{FlowView, Policy};
use crate::key::FlowKey;

/// Lends a flow that has a share of the packets that the table has to count itself.
///
/// Of each window of packets the frequent flows are found by the counters of Misra and Gries (Science of Computer Programming 2, 1982): with `k` counters the count of
/// a flow is at most `window / (k + 1)` too low, and never too high. Half of the share in the counters is therefore enough to find each flow that has the whole share,
/// and none that has less than half of it.
#[derive(Debug)]
pub struct HeavyHitter {
    window_packets: u32,
    counters: usize,
    enough: u32,
    seen: u32,
    counts: HashMap<FlowKey, u32, FixedState>,
}

impl HeavyHitter {
    /// Flows that have at least one of so many packets (2 to 4096) in a window of so many (at least 8 times as many). With a seed of the hash, as
    /// [`crate::Config::hash_seed`].
    #[must_use]
    pub fn new(one_of: u32, window_packets: u32, hash_seed: u64) -> Self {
        let one_of = one_of.clamp(2, 4096);
        let window_packets = window_packets.max(8 * one_of);
        Self {
            window_packets,
            counters: 2 * one_of as usize,
            enough: window_packets / one_of / 2,
            seen: 0,
            counts: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
        }
    }
}

impl Default for HeavyHitter {
    fn default() -> Self {
        Self::new(1000, 1 << 17, 0)
    }
}

impl Policy for HeavyHitter {
    fn wants(&mut self, flow: &FlowView) -> bool {
        if self.seen == self.window_packets {
            self.seen = 0;
            self.counts.clear();
        }
        self.seen += 1;
        if let Some(count) = self.counts.get_mut(&flow.key) {
            *count += 1;
            return *count >= self.enough;
        }
        if self.counts.len() < self.counters {
            self.counts.insert(flow.key, 1);
            return self.enough <= 1;
        }
        self.counts.retain(|_, count| {
            *count -= 1;
            *count > 0
        });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow;
    use super::*;

    /// A share that is exactly the asked one is found among flows of one packet each, in the window's worst order as well.
    #[test]
    fn a_flow_with_its_share_is_found_and_one_with_less_than_half_is_not() {
        for (heavy, is_first, is_found) in
            [(100, true, true), (100, false, true), (49, true, false)]
        {
            let mut policy = HeavyHitter::new(10, 1000, 1);
            let mut found = false;
            for n in 0..1000_u32 {
                let is_heavy = if is_first {
                    n < heavy
                } else {
                    n >= 1000 - heavy
                };
                let mut view = flow([1, 0], 0, 0);
                view.key.source_port = if is_heavy { 0 } else { n as u16 + 1 };
                found |= policy.wants(&view) && is_heavy;
            }
            assert_eq!(found, is_found, "{heavy} {is_first}");
        }
    }

    #[test]
    fn a_window_forgets_the_one_before() {
        let mut policy = HeavyHitter::new(10, 1000, 1);
        let mut wanted = 0;
        for n in 0..4000_u32 {
            let mut view = flow([1, 0], 0, 0);
            view.key.source_port = if n % 25 == 0 { 0 } else { n as u16 | 1 };
            wanted += u32::from(policy.wants(&view));
        }
        // 40 of 1000 are less than half of the share.
        assert_eq!(wanted, 0);
    }

    /// With the least window, 16 packets, and 4 counters: 4 packets of a flow are enough.
    #[test]
    fn a_flow_is_wanted_from_its_last_packet_that_is_lacking_on() {
        let mut policy = HeavyHitter::new(2, 1, 1);
        let mut wants = |flows: &str| -> Vec<bool> {
            let wants = flows.bytes().map(|name| {
                let mut view = flow([1, 0], 0, 0);
                view.key.source_port = name.into();
                policy.wants(&view)
            });
            wants.collect()
        };
        assert_eq!(wants("aaa"), [false; 3]);
        // The fifth flow takes one off all of them, and is itself not counted: only the first one is left.
        assert_eq!(wants("bcde"), [false; 4]);
        assert_eq!(wants("a"), [false]);
        assert_eq!(wants("fgh"), [false; 3]);
        assert_eq!(wants("aaf"), [true, true, false]);
        assert_eq!(wants("gg"), [false; 2]);
        // A window has 16 packets, and the next one begins without any.
        assert_eq!(wants("aaaa"), [false, false, false, true]);
    }
}
