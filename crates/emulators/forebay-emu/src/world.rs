//! A world in virtual time: soft readouts, a network that misbehaves, and a consumer.
//!
//! Time steps to the next moment at which something is due, so a run of hours takes as long as its
//! datagrams do. What the network does to them follows from its seed; a test that fails prints it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::SoftReadouts;
use crate::rng::Xoshiro256;

/// One thing a network does to datagrams. Layers are stacked: each passes on what the one before
/// let through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layer {
    /// Loses each with this probability.
    Lose(f64),
    /// Delivers each a second time with this probability.
    Duplicate(f64),
    /// Flips one bit of each with this probability.
    Corrupt(f64),
    /// Delays each by `ns`.
    Delay {
        /// By how much.
        ns: u64,
    },
    /// Delays each with probability `chance` by up to `ns`, so that others overtake it.
    Reorder {
        /// How often.
        chance: f64,
        /// By how much at most.
        ns: u64,
    },
}

/// A datagram that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When.
    pub now_ns: u64,
    /// The source that sent it.
    pub source: usize,
    /// The port it was sent to, counted from the base port.
    pub port: usize,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// What is at the other end. A closure that takes an [`Arrival`] is one.
pub trait Consumer {
    /// A datagram has come.
    fn handle_datagram(&mut self, arrival: Arrival<'_>);

    /// The time has come that [`poll_timeout`](Self::poll_timeout) told, or datagrams have come.
    fn handle_time(&mut self, _now_ns: u64) {}

    /// When to be woken at the latest.
    fn poll_timeout(&self) -> Option<u64> {
        None
    }
}

impl<F: FnMut(Arrival<'_>)> Consumer for F {
    fn handle_datagram(&mut self, arrival: Arrival<'_>) {
        self(arrival);
    }
}

/// What the network did, in datagrams: `taken + duplicated = delivered + lost + in flight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkTotals {
    /// Taken from the soft readouts.
    pub taken: u64,
    /// Lost.
    pub lost: u64,
    /// Second copies.
    pub duplicated: u64,
    /// Copies with a bit flipped.
    pub corrupted: u64,
    /// Copies that others may overtake.
    pub reordered: u64,
    /// Handed to the consumer.
    pub delivered: u64,
}

/// A datagram on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at_ns: u64,
    serial: u64,
    source: usize,
    port: usize,
    bytes: Vec<u8>,
}

/// Virtual time, soft readouts and the network behind them.
#[derive(Debug)]
pub struct World {
    /// The senders.
    pub readouts: SoftReadouts,
    seed: u64,
    layers: Vec<Layer>,
    rng: Xoshiro256,
    now_ns: u64,
    flying: BinaryHeap<Reverse<Flying>>,
    by_source: Vec<NetworkTotals>,
    serial: u64,
}

impl World {
    /// A world at time 0 whose network follows from `seed`.
    #[must_use]
    pub fn new(seed: u64, readouts: SoftReadouts, layers: Vec<Layer>) -> Self {
        Self {
            by_source: vec![NetworkTotals::default(); readouts.sources()],
            readouts,
            seed,
            layers,
            rng: Xoshiro256::new(seed),
            now_ns: 0,
            flying: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// The time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What the network did to the datagrams of a source; zeros for an unknown one.
    #[must_use]
    pub fn network(&self, source: usize) -> NetworkTotals {
        self.by_source.get(source).copied().unwrap_or_default()
    }

    /// Datagrams on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Runs until no trigger is left, ends the run, and delivers what is on its way. With a
    /// configuration that has no limit it does not return.
    pub fn run(&mut self, consumer: &mut impl Consumer) {
        while self.readouts.poll_timeout().is_some() {
            self.step(consumer);
        }
        self.readouts.finish(self.now_ns);
        while (!self.readouts.is_finished() || !self.flying.is_empty()) && self.step(consumer) {}
    }

    /// Goes on to the next moment at which something is due, of the three parties. When nothing is,
    /// time stands still and it returns false.
    pub fn step(&mut self, consumer: &mut impl Consumer) -> bool {
        let arrival = self.flying.peek().map(|Reverse(flying)| flying.at_ns);
        let wishes = [
            self.readouts.poll_timeout(),
            arrival,
            consumer.poll_timeout(),
        ];
        let Some(next_ns) = wishes.into_iter().flatten().min() else {
            return false;
        };
        self.now_ns = self.now_ns.max(next_ns);
        self.readouts.handle_time(self.now_ns);
        self.send();
        self.deliver(consumer);
        consumer.handle_time(self.now_ns);
        true
    }

    fn send(&mut self) {
        while let Some(datagram) = self.readouts.poll_datagram() {
            let network = &mut self.by_source[datagram.source];
            let bytes = datagram.bytes.to_vec();
            for passed in pass(&self.layers, &mut self.rng, network, bytes) {
                self.flying.push(Reverse(Flying {
                    at_ns: self.now_ns + passed.delay_ns,
                    serial: self.serial,
                    source: datagram.source,
                    port: datagram.port,
                    bytes: passed.bytes,
                }));
                self.serial += 1;
            }
        }
    }

    fn deliver(&mut self, consumer: &mut impl Consumer) {
        while let Some(Reverse(flying)) = self.flying.peek()
            && flying.at_ns <= self.now_ns
        {
            consumer.handle_datagram(Arrival {
                now_ns: self.now_ns,
                source: flying.source,
                port: flying.port,
                bytes: &flying.bytes,
            });
            self.by_source[flying.source].delivered += 1;
            self.flying.pop();
        }
    }
}

impl Drop for World {
    /// A failing test tells how to repeat it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "world: network seed {}, layers {:?}, at {} ns",
                self.seed, self.layers, self.now_ns
            );
        }
    }
}

/// One copy of what a network was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// By how much the network holds it up, in ns.
    pub delay_ns: u64,
    /// Its bytes, as they arrive.
    pub bytes: Vec<u8>,
}

/// Gives a datagram to a network of these layers: what arrives of it, none, one or several. It counts all terms of `network` but `delivered`.
pub fn pass(
    layers: &[Layer],
    rng: &mut Xoshiro256,
    network: &mut NetworkTotals,
    bytes: Vec<u8>,
) -> Vec<Passed> {
    network.taken += 1;
    let mut copies = vec![Passed { delay_ns: 0, bytes }];
    for layer in layers {
        layer.apply(&mut copies, rng, network);
    }
    copies
}

impl Layer {
    fn apply(self, copies: &mut Vec<Passed>, rng: &mut Xoshiro256, network: &mut NetworkTotals) {
        match self {
            Self::Lose(chance) => copies.retain(|_| {
                let lost = rng.happens(chance);
                network.lost += u64::from(lost);
                !lost
            }),
            Self::Duplicate(chance) => {
                for i in 0..copies.len() {
                    if rng.happens(chance) {
                        network.duplicated += 1;
                        copies.push(copies[i].clone());
                    }
                }
            }
            Self::Corrupt(chance) => copies.iter_mut().for_each(|copy| {
                if rng.happens(chance) && !copy.bytes.is_empty() {
                    network.corrupted += 1;
                    let at = rng.below(copy.bytes.len() as u64) as usize;
                    copy.bytes[at] ^= 1 << rng.below(8);
                }
            }),
            Self::Delay { ns } => copies.iter_mut().for_each(|copy| copy.delay_ns += ns),
            Self::Reorder { chance, ns } => copies.iter_mut().for_each(|copy| {
                if rng.happens(chance) {
                    network.reordered += 1;
                    copy.delay_ns += rng.below(ns.max(1));
                }
            }),
        }
    }
}
