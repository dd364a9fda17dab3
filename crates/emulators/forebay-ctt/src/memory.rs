//! The channels of the memory: when a context that is asked for is there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_emu::rng::{Xoshiro256, mix};

use crate::parameters::{MemoryParameters, Parameters};

#[derive(Debug)]
struct Channel {
    /// When its queue can give it the next request, ps.
    free_ps: u64,
    /// When each bank takes its next one, ps.
    banks: Vec<u64>,
    /// When each request under way is answered, ps.
    under_way: BinaryHeap<Reverse<u64>>,
    /// Its refreshes are so much later than those of the first channel, ps.
    refresh_shift_ps: u64,
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Memory {
    channels: Vec<Channel>,
    random: Xoshiro256,
    context_ps: u64,
    latency_ps: u64,
    spread_ps: u64,
    bank_cycle_ps: u64,
    refresh_interval_ps: u64,
    refresh_ps: u64,
    outstanding: usize,
}

impl Memory {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let MemoryParameters {
            channels,
            banks,
            latency_ns,
            latency_spread_permille,
            bank_cycle_ns,
            outstanding,
            refresh_interval_ns,
            refresh_ns,
            ..
        } = parameters.memory;
        let refresh_interval_ps = refresh_interval_ns.max(1) * 1_000;
        let channel = |number| Channel {
            free_ps: 0,
            banks: vec![0; banks.max(1) as usize],
            under_way: BinaryHeap::new(),
            refresh_shift_ps: number * refresh_interval_ps / channels.max(1),
        };
        Self {
            channels: (0..channels.max(1)).map(channel).collect(),
            random: Xoshiro256::new(1),
            context_ps: parameters.context_ps(),
            latency_ps: latency_ns * 1_000,
            spread_ps: latency_ns * latency_spread_permille.min(1_000),
            bank_cycle_ps: bank_cycle_ns * 1_000,
            refresh_interval_ps,
            // One that never ends would be no memory.
            refresh_ps: (refresh_ns * 1_000).min(refresh_interval_ps / 2),
            outstanding: outstanding.max(1) as usize,
        }
    }

    /// The channel that has the context of a flow, and the bank in it.
    fn place(&self, flow: u32) -> (usize, usize) {
        let hash = mix(u64::from(flow) ^ 0x5bd1_e995_9e37_79b9);
        let channel = (hash as u32 as usize) % self.channels.len();
        let banks = self.channels[channel].banks.len();
        (channel, (hash >> 32) as usize % banks)
    }

    /// When the queue of this flow's channel takes one more request, from `at_ps` on.
    pub(crate) fn room_ps(&mut self, flow: u32, at_ps: u64) -> u64 {
        let (channel, _) = self.place(flow);
        let under_way = &mut self.channels[channel].under_way;
        while under_way
            .peek()
            .is_some_and(|Reverse(end_ps)| *end_ps <= at_ps)
        {
            under_way.pop();
        }
        if under_way.len() < self.outstanding {
            return at_ps;
        }
        under_way.pop().map_or(at_ps, |Reverse(end_ps)| end_ps)
    }

    /// When the context of a flow that is asked for at `at_ps` is there; there is room for the request.
    pub(crate) fn fetch_ps(&mut self, flow: u32, at_ps: u64) -> u64 {
        let (channel, bank) = self.place(flow);
        let drawn_ps = self.random.below(2 * self.spread_ps + 1);
        let channel = &mut self.channels[channel];
        let turn_ps = at_ps.max(channel.free_ps);
        let phase_ps = (turn_ps + channel.refresh_shift_ps) % self.refresh_interval_ps;
        let turn_ps = turn_ps + self.refresh_ps.saturating_sub(phase_ps);
        channel.free_ps = turn_ps + self.context_ps;
        let begin_ps = turn_ps.max(channel.banks[bank]);
        channel.banks[bank] = begin_ps + self.bank_cycle_ps;
        let end_ps = begin_ps + self.latency_ps - self.spread_ps + drawn_ps;
        channel.under_way.push(Reverse(end_ps));
        end_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(set: &[(&str, u64)]) -> Memory {
        let mut parameters = Parameters::default();
        let plain = [
            ("channels", 1),
            ("efficiency_permille", 650),
            ("latency_ns", 1_000),
            ("banks", 1),
            ("latency_spread_permille", 0),
            ("refresh_ns", 0),
            ("bank_cycle_ns", 0),
        ];
        for (key, value) in plain.iter().chain(set) {
            assert!(parameters.set(&format!("memory.{key}"), *value), "{key}");
        }
        Memory::new(&parameters)
    }

    #[test]
    fn a_channel_takes_contexts_one_after_the_other() {
        // Two words each way, at 650 of 1,000.
        let mut memory = memory(&[]);
        assert_eq!(memory.fetch_ps(1, 0), 1_000_000);
        assert_eq!(memory.fetch_ps(2, 0), 1_000_000 + 18_461);
        assert_eq!(memory.fetch_ps(3, 50_000), 1_050_000);
    }

    #[test]
    fn a_bank_and_a_refresh_are_waited_for() {
        let mut one_bank = memory(&[("bank_cycle_ns", 90)]);
        assert_eq!(one_bank.fetch_ps(1, 0), 1_000_000);
        assert_eq!(one_bank.fetch_ps(2, 0), 1_090_000);
        let mut refreshed = memory(&[("refresh_ns", 260)]);
        assert_eq!(refreshed.fetch_ps(1, 0), 1_260_000);
        assert_eq!(refreshed.fetch_ps(2, 3_899_999), 4_899_999);
        assert_eq!(refreshed.fetch_ps(2, 3_950_000), 5_160_000);
    }

    #[test]
    fn a_full_queue_is_waited_for() {
        let mut memory = memory(&[("outstanding", 2)]);
        let first = memory.fetch_ps(1, 0);
        let second = memory.fetch_ps(2, 0);
        assert_eq!(memory.room_ps(3, 10), first);
        memory.fetch_ps(3, first);
        assert_eq!(memory.room_ps(4, first), second);
    }
}
