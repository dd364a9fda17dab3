//! A small receiver for the tests: puts messages together, parses them with `forebay-wire` and
//! verifies each sub-event.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;

use forebay_emu::world::{Arrival, Consumer};
use forebay_emu::{Config, Mismatch, TriggerBits, Verifier};
use forebay_wire::hadtu::{MTU_BYTES, Queue};

/// One sub-event as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) now_ns: u64,
    pub(crate) number: u32,
    pub(crate) tag: u8,
    pub(crate) bytes: usize,
    pub(crate) intact: bool,
}

/// What came, by source.
pub(crate) struct Receiver {
    verifier: Verifier,
    bits: TriggerBits,
    open: BTreeMap<usize, Vec<u8>>,
    pub(crate) seen: BTreeMap<usize, Vec<Seen>>,
    pub(crate) mismatches: Vec<Mismatch>,
    /// Sizes of queues, in order, by source.
    pub(crate) queues: BTreeMap<usize, Vec<u32>>,
    pub(crate) datagrams: u64,
    pub(crate) datagram_bytes: u64,
    pub(crate) broken_messages: u64,
    pub(crate) messages: u64,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            verifier: Verifier::new(config).unwrap(),
            bits: config.trigger.bits,
            open: BTreeMap::new(),
            seen: BTreeMap::new(),
            mismatches: Vec::new(),
            queues: BTreeMap::new(),
            datagrams: 0,
            datagram_bytes: 0,
            broken_messages: 0,
            messages: 0,
        }
    }

    pub(crate) fn numbers(&self, source: usize) -> Vec<u32> {
        let seen = self.seen.get(&source).into_iter().flatten();
        seen.map(|s| s.number).collect()
    }

    pub(crate) fn subevents(&self) -> u64 {
        self.seen.values().map(|s| s.len() as u64).sum()
    }

    pub(crate) fn subevent_bytes(&self) -> u64 {
        let all = self.seen.values().flatten();
        all.map(|s| s.bytes as u64).sum()
    }

    fn message(&mut self, now_ns: u64, source: usize, message: &[u8]) -> Option<()> {
        let queue = Queue::new_checked(message).ok()?;
        let mut found = Vec::new();
        for sub in queue.sub_events() {
            let sub = sub.ok()?;
            let check = self.verifier.check(sub.as_bytes());
            self.mismatches.extend(check.err());
            found.push(Seen {
                now_ns,
                number: sub.header().trigger(self.bits),
                tag: sub.header().tag(),
                bytes: sub.as_bytes().len(),
                intact: check.is_ok_and(|v| v.source == source),
            });
        }
        self.seen.entry(source).or_default().extend(found);
        self.queues.entry(source).or_default().push(queue.size());
        Some(())
    }
}

impl Consumer for Receiver {
    fn handle_datagram(&mut self, arrival: Arrival<'_>) {
        self.datagrams += 1;
        self.datagram_bytes += arrival.bytes.len() as u64;
        let open = self.open.entry(arrival.source).or_default();
        open.extend_from_slice(arrival.bytes);
        if arrival.bytes.len() == MTU_BYTES {
            return;
        }
        let message = std::mem::take(open);
        self.messages += 1;
        if self
            .message(arrival.now_ns, arrival.source, &message)
            .is_none()
        {
            self.broken_messages += 1;
        }
    }
}
