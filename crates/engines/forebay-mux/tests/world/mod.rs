//! A link in virtual time: it takes one packet after the other at its rate, and sleeps to the very time that it is told.

#![allow(dead_code, clippy::unwrap_used)]

use forebay_mux::ClientId;
use forebay_mux::policy::{PerClient, PolicyConfig, Schedule, Slot};
use forebay_mux::transmit::{ClassConfig, Next, Packet, Sender, Transmit};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn id(client: u8) -> ClientId {
    ClientId::new(client)
}

pub(crate) fn packet(buffer: u32, bytes: u32) -> Packet {
    Packet {
        buffer,
        offset: 0,
        bytes,
        arrival_ns: 0,
    }
}

pub(crate) fn one_class(policy: PolicyConfig) -> Transmit {
    Transmit::new(&[ClassConfig {
        policy,
        guard_ns: None,
    }])
    .unwrap()
}

pub(crate) const SENDER: Sender = Sender {
    class: 0,
    queue_packets: 512,
    sojourn_max_ns: None,
};

pub(crate) fn bucket(rate_bps: u64, burst_bytes: u32) -> PolicyConfig {
    PolicyConfig::TokenBucket {
        rate_bps: PerClient::all(Some(rate_bps)),
        burst_bytes: PerClient::all(burst_bytes),
        uncounted_bytes: 0,
    }
}

pub(crate) fn window(rate_bps: u64) -> PolicyConfig {
    PolicyConfig::Window {
        window_ns: 10 * MS,
        rate_bps: PerClient::all(Some(rate_bps)),
        uncounted_bytes: 0,
    }
}

/// Of each of so many clients a window of 1 ms, with 0.2 ms between them.
pub(crate) fn schedule(clients: u8, link_rate_bps: u64) -> Schedule {
    let slots = (0..clients).map(|client| Slot {
        client: id(client),
        offset_ns: u64::from(client) * 1_200_000,
        window_ns: MS,
    });
    let cycle_ns = u64::from(clients) * 1_200_000;
    Schedule::new(slots.collect(), cycle_ns, 0, link_rate_bps, 24).unwrap()
}

/// A packet as it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) client: u8,
    pub(crate) at_ns: u64,
    pub(crate) bytes: u32,
    pub(crate) buffer: u32,
}

/// Clients that keep their queues full with packets of these lengths in turn, over a link: what left until the end.
pub(crate) struct Full<'a> {
    pub(crate) link_rate_bps: u64,
    pub(crate) lengths: &'a [&'a [u32]],
    pub(crate) until_ns: u64,
    /// How many packets each keeps in its queue.
    pub(crate) depth: usize,
}

impl Full<'_> {
    pub(crate) fn run(&self, transmit: &mut Transmit) -> Vec<Left> {
        let (mut now_ns, mut left, mut asks) = (0, Vec::new(), 0_u64);
        let mut next = vec![0_usize; self.lengths.len()];
        while now_ns < self.until_ns {
            for (client, lengths) in self.lengths.iter().enumerate() {
                while transmit.waiting(id(client as u8)) < self.depth && !lengths.is_empty() {
                    let of = &mut next[client];
                    transmit
                        .offer(
                            id(client as u8),
                            packet(*of as u32, lengths[*of % lengths.len()]),
                            now_ns,
                        )
                        .unwrap();
                    *of += 1;
                }
            }
            match transmit.poll(now_ns, |_, _| {}) {
                Next::Send(client, packet) => {
                    let (bytes, buffer) = (packet.bytes, packet.buffer);
                    left.push(Left {
                        client: client.index() as u8,
                        at_ns: now_ns,
                        bytes,
                        buffer,
                    });
                    transmit.finish(client, packet, true);
                    now_ns += u64::from(bytes) * 8 * SECOND_NS / self.link_rate_bps;
                }
                Next::AskAt(at_ns) => {
                    assert!(at_ns > now_ns, "{at_ns} after {now_ns}");
                    now_ns = at_ns;
                    asks += 1;
                }
                Next::Idle => break,
            }
        }
        assert!(
            asks <= 2 * left.len() as u64 + 2000,
            "{asks} asks for {} packets: that is polling",
            left.len()
        );
        left
    }
}

pub(crate) fn bytes_of(left: &[Left], client: u8) -> u64 {
    left.iter()
        .filter(|left| left.client == client)
        .map(|left| u64::from(left.bytes))
        .sum()
}
