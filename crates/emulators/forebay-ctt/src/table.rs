//! The table: packets in, each answered or dropped.

use std::collections::VecDeque;

use crate::latency::Latencies;
use crate::memory::Memory;
use crate::outcome::Outcome;
use crate::parameters::{Parameters, TableParameters};
use crate::retained::Retained;

/// Bits of a line at 1 Mb/s take so many ps each.
const PS_PER_BIT_AT_MBPS: u64 = 1_000_000;

/// What is known of a flow; all times in ps.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// When its context is on the chip.
    ready_ps: u64,
    /// When its stay there ends.
    until_ps: u64,
    /// When its next update can begin.
    free_ps: u64,
}

/// A packet that waits in the FIFO.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    release_ps: u64,
    bytes: u64,
}

/// The model of a table: packets are offered to it one after the other, back to back on the line.
#[derive(Debug)]
pub struct Table {
    parameters: TableParameters,
    cycle_ps: u64,
    write_back_ps: u64,
    /// Bits that went by on the line.
    line_bits: u128,
    arrival_ps: u64,
    bus_free_ps: u64,
    table_free_ps: u64,
    release_ps: u64,
    fifo: VecDeque<Waiting>,
    fifo_bytes: u64,
    flows: Vec<Flow>,
    memory: Memory,
    retained: Retained,
    latencies: Latencies,
    counts: Outcome,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        let table = parameters.table.clone();
        let cycle_ps = (1_000_000_000 / table.clock_khz.max(1)).max(1);
        Self {
            cycle_ps,
            write_back_ps: parameters.memory.write_back_ns * 1_000,
            line_bits: 0,
            arrival_ps: 0,
            bus_free_ps: 0,
            table_free_ps: 0,
            release_ps: 0,
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            flows: Vec::new(),
            memory: Memory::new(parameters),
            retained: Retained::new(table.contexts),
            latencies: Latencies::new(cycle_ps, table.latency_clip_ns * 1_000),
            counts: Outcome::default(),
            parameters: table,
        }
    }

    /// The next packet on the line, of this flow and with so many bytes. Flows are numbered from 0; memory grows with the highest number.
    #[inline]
    pub fn offer(&mut self, flow: u32, bytes: u32) {
        let bytes = u64::from(bytes);
        self.counts.packets_in += 1;
        self.counts.bytes_in += bytes;
        let at_ps = self.arrive(bytes);
        self.release(at_ps);
        let is_full = self.fifo_bytes + bytes > self.parameters.fifo_bytes
            || self.fifo.len() as u64 >= self.parameters.fifo_packets;
        if is_full {
            self.counts.packets_dropped += 1;
            self.counts.bytes_dropped += bytes;
            return;
        }
        let answer_ps = self.look_up(flow, at_ps);
        self.latencies.count(answer_ps - self.arrival_ps);
        // In order, whatever the order of answers.
        self.release_ps = self.release_ps.max(answer_ps);
        self.fifo_bytes += bytes;
        self.fifo.push_back(Waiting {
            release_ps: self.release_ps,
            bytes,
        });
    }

    /// When the packet is in the FIFO, if it has room: the line brings it, and the bus takes it.
    #[inline]
    fn arrive(&mut self, bytes: u64) -> u64 {
        let TableParameters {
            line_rate_mbps,
            line_overhead_bytes,
            bus_bits,
            ..
        } = self.parameters;
        self.line_bits += u128::from((bytes + line_overhead_bytes) * 8);
        let ps =
            self.line_bits * u128::from(PS_PER_BIT_AT_MBPS) / u128::from(line_rate_mbps.max(1));
        self.arrival_ps = ps as u64;
        let at_ps = self.arrival_ps.max(self.bus_free_ps);
        self.bus_free_ps = at_ps + bytes * 8 * self.cycle_ps / bus_bits.max(1);
        at_ps
    }

    /// Lets go of packets whose turn came until then.
    #[inline]
    fn release(&mut self, at_ps: u64) {
        while let Some(first) = self.fifo.front()
            && first.release_ps <= at_ps
        {
            self.counts.packets_out += 1;
            self.counts.bytes_out += first.bytes;
            self.fifo_bytes -= first.bytes;
            self.fifo.pop_front();
        }
    }

    /// When a packet that came at `at_ps` is answered.
    #[inline]
    fn look_up(&mut self, flow: u32, at_ps: u64) -> u64 {
        let place = flow as usize;
        if place >= self.flows.len() {
            self.flows.resize(place + 1, Flow::default());
        }
        let mut turn_ps = at_ps.max(self.table_free_ps);
        if turn_ps < self.flows[place].until_ps {
            self.counts.hits += 1;
            if self.parameters.retention_renewed {
                let known = &mut self.flows[place];
                known.until_ps = known
                    .until_ps
                    .max(turn_ps + self.parameters.retention_ns * 1_000);
            }
        } else {
            self.counts.misses += 1;
            turn_ps = self.fetch(flow, turn_ps);
        }
        self.table_free_ps = turn_ps + self.cycle_ps / self.parameters.records_per_clock.max(1);
        let known = &mut self.flows[place];
        let begin_ps = turn_ps.max(known.ready_ps).max(known.free_ps);
        known.free_ps = begin_ps + self.parameters.modify_cycles * self.cycle_ps;
        begin_ps + self.parameters.hit_latency_ns * 1_000
    }

    /// Asks for the context of a flow; says when that could be done, as all packets behind it wait until then.
    fn fetch(&mut self, flow: u32, turn_ps: u64) -> u64 {
        let Self {
            retained, flows, ..
        } = self;
        let turn_ps = retained.room_ps(turn_ps, |flow| flows[flow as usize].until_ps);
        let turn_ps = self.memory.room_ps(flow, turn_ps);
        let known = &mut self.flows[flow as usize];
        // What is being written is no context yet.
        let is_known = known.until_ps > 0;
        let written_ps = if is_known {
            known.until_ps + self.write_back_ps
        } else {
            0
        };
        known.ready_ps = self.memory.fetch_ps(flow, turn_ps.max(written_ps));
        known.until_ps = known
            .ready_ps
            .max(turn_ps + self.parameters.retention_ns * 1_000);
        self.retained.take(flow, known.until_ps);
        turn_ps
    }

    /// What came of all packets so far; those in the FIFO are still held.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome {
            packets_held: self.fifo.len() as u64,
            bytes_held: self.fifo.iter().map(|waiting| waiting.bytes).sum(),
            contexts_fetched: self.retained.fetched,
            contexts_written: self.retained.written,
            contexts_held: self.retained.held(),
            duration_ns: self.arrival_ps as f64 / 1e3,
            latency_ns_mean: self.latencies.mean_ns(),
            latency_ns_p25: self.latencies.at_ns(0.25),
            latency_ns_p50: self.latencies.at_ns(0.5),
            latency_ns_p75: self.latencies.at_ns(0.75),
            ..self.counts
        }
    }
}
