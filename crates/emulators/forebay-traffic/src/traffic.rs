//! The packets of all flows, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::Peekable;

use crate::config::Config;
use crate::error::ProfileError;
use crate::flow::Flow;
use crate::frame::{self, Payloads};
use crate::profile::Row;
use crate::truth::{Direction, FlowKey, FlowTruth, Totals};

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it is sent, ns on the profile's clock.
    pub at_ns: u64,
    /// The row of its flow, from 0.
    pub row: u64,
    /// Which way it goes.
    pub direction: Direction,
    /// Octets of IP.
    pub ip_bytes: u32,
    /// Bytes of its frame, without the check sequence; at least 60.
    pub wire_bytes: usize,
    /// Bytes of it that were written: less where the buffer is shorter.
    pub captured_bytes: usize,
    /// The flags of its segment, where it is of TCP.
    pub tcp_flags: u8,
    /// Its flow has no further one.
    pub is_last: bool,
}

/// The packets of a profile's flows, in order of time: of those at one instant the lower row first.
#[derive(Debug)]
pub struct Traffic<R: Iterator<Item = Result<Row, ProfileError>>> {
    rows: Peekable<R>,
    config: Config,
    payloads: Payloads,
    /// When each flow that is alive sends next; its row; its place.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    ended: Option<FlowTruth>,
    /// The place of the flow whose packet was polled last.
    last: usize,
    totals: Totals,
}

impl<R: Iterator<Item = Result<Row, ProfileError>>> Traffic<R> {
    /// Of these rows, which are sorted by their start; [`crate::Profile`] is such an iterator.
    pub fn new(rows: R, config: &Config) -> Self {
        Self {
            rows: rows.peekable(),
            config: *config,
            payloads: Payloads::new(config.seed),
            due: BinaryHeap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            ended: None,
            last: 0,
            totals: Totals::default(),
        }
    }

    /// Writes the next packet's frame, cut to the buffer; nothing is left when there is none.
    ///
    /// # Errors
    /// The next row is none. Flows before it may have packets left; they are sent when it is asked again.
    #[inline]
    pub fn poll_packet(&mut self, frame: &mut [u8]) -> Result<Option<Packet>, ProfileError> {
        self.ended = None;
        self.admit()?;
        let Some(mut due) = self.due.peek_mut() else {
            return Ok(None);
        };
        let Reverse((at_ns, row, place)) = *due;
        let slot = &mut self.flows[place];
        let Some(flow) = slot else {
            // Not reached: what is due is alive.
            PeekMut::pop(due);
            return Ok(None);
        };
        let (direction, packet) = flow.next_packet();
        let (wire_bytes, captured_bytes) = frame::write(flow.key(), &packet, &self.payloads, frame);
        flow.sent(direction, &packet);
        let is_last = flow.left() == 0;
        if !is_last {
            due.0.0 = flow.due_ns();
        } else {
            PeekMut::pop(due);
            self.ended = slot.take().map(|flow| flow.truth());
            self.free.push(place);
            self.totals.flows += 1;
        }
        self.last = place;
        self.totals.packets += 1;
        self.totals.shortened_packets += u64::from(packet.cut_bytes > 0);
        self.totals.shortened_octets += u64::from(packet.cut_bytes);
        self.totals.octets += u64::from(packet.bytes);
        self.totals.wire_bytes += wire_bytes as u64;
        Ok(Some(Packet {
            at_ns,
            row,
            direction,
            ip_bytes: packet.bytes,
            wire_bytes,
            captured_bytes,
            tcp_flags: packet.tcp_flags,
            is_last,
        }))
    }

    /// The truth of the flow whose last packet was the last one polled.
    #[must_use]
    pub const fn ended(&self) -> Option<&FlowTruth> {
        self.ended.as_ref()
    }

    /// What the flow is known by whose packet was polled last; nothing before the first one.
    #[must_use]
    pub fn key(&self) -> Option<&FlowKey> {
        let alive = || self.flows.get(self.last)?.as_ref().map(Flow::key);
        self.ended.as_ref().map(|truth| &truth.key).or_else(alive)
    }

    /// The truth so far of each flow that has packets left, of those that have sent any.
    pub fn alive(&self) -> impl Iterator<Item = FlowTruth> {
        let flows = self.flows.iter().flatten().map(Flow::truth);
        flows.filter(|truth| truth.forward.packets + truth.reverse.packets > 0)
    }

    /// What was sent so far.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Takes the rows that begin before the next packet, or with it.
    #[inline]
    fn admit(&mut self) -> Result<(), ProfileError> {
        loop {
            let due_ns = self.due.peek().map(|Reverse((due_ns, ..))| *due_ns);
            let is_due = |row: &Result<Row, ProfileError>| match (row, due_ns) {
                (Ok(row), Some(due_ns)) => row.start_ms * 1_000_000 <= due_ns,
                (Ok(_), None) | (Err(_), _) => true,
            };
            match self.rows.next_if(is_due) {
                None => return Ok(()),
                Some(row) => self.begin(&row?),
            }
        }
    }

    fn begin(&mut self, row: &Row) {
        let flow = Flow::new(row, self.totals.rows, &self.config);
        self.totals.rows += 1;
        self.totals.adjusted_flows += u64::from(flow.is_adjusted());
        if flow.left() == 0 {
            self.totals.empty_rows += 1;
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() - 1
        });
        let due = Reverse((flow.due_ns(), flow.row(), place));
        self.flows[place] = Some(flow);
        self.due.push(due);
        self.totals.alive_max = self.totals.alive_max.max(self.due.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_flows_that_ended_are_taken_again() {
        let row = |at: u64| Row {
            start_ms: at * 10,
            end_ms: at * 10 + 25,
            is_ipv6: false,
            protocol: 17,
            source_port: 1,
            destination_port: 2,
            packets: 4,
            bytes: 400,
            packets_reverse: 0,
            bytes_reverse: 0,
            addresses: None,
        };
        let mut traffic = Traffic::new((0..1_000).map(|at| Ok(row(at))), &Config::default());
        while let Ok(Some(_)) = traffic.poll_packet(&mut []) {}
        assert_eq!(
            (traffic.totals().flows, traffic.totals().alive_max),
            (1_000, 3)
        );
        assert_eq!((traffic.flows.len(), traffic.free.len()), (3, 3));
    }
}
