//! The twin of a UDP port for tests: a link that misbehaves by a seed, and a socket buffer that overflows.
//!
//! It lives in virtual time: [`EmulatedPort::offer`] puts a datagram on the link at a given time,
//! [`EmulatedPort::advance`] lets everything arrive that is due. Each event is counted where it happens, so
//!
//! ```text
//! offered + duplicated = lost + link_full + on the link + dropped + in the buffer + received
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

use forebay_sys::udp_batch::{Arrived, BatchTag, RecvBatch, Totals};

use crate::{BufferFill, ConfigError, DatagramSource, Drops, LinkError};

/// What a datagram takes in the buffer beyond its payload: what Linux charges on loopback for an empty one (its steps
/// for middle sizes are not emulated).
pub const OVERHEAD_BYTES: u64 = 832;

/// The most datagrams on the link at one time.
pub const LINK_MAX_DATAGRAMS: usize = 65_536;

const MILLION: u64 = 1_000_000;

/// How the link misbehaves. Rates are in parts per million of datagrams, 0 to 1,000,000, default 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Seeds every decision; the same seed and calls give the same course. Any value, default 1.
    pub seed: u64,
    /// Datagrams that never arrive.
    pub loss_ppm: u32,
    /// Datagrams that arrive twice.
    pub duplicate_ppm: u32,
    /// Datagrams held back for [`reorder_ns`](Self::reorder_ns), so that later ones overtake.
    pub reorder_ppm: u32,
    /// Datagrams of which one bit is turned.
    pub corrupt_ppm: u32,
    /// Time on the link, ns, up to an hour. Default 0.
    pub delay_ns: u64,
    /// How long a reordered datagram is held back, ns, up to an hour. Default 1 ms.
    pub reorder_ns: u64,
    /// The buffer, 1 byte to 1 GiB, counting payload and [`OVERHEAD_BYTES`] each. Default 4 MiB.
    pub buffer_bytes: u64,
    /// The address that the datagrams seem to come from. Default 127.0.0.1:9.
    pub from: SocketAddr,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            corrupt_ppm: 0,
            delay_ns: 0,
            reorder_ns: 1_000_000,
            buffer_bytes: 4 << 20,
            from: SocketAddr::from(([127, 0, 0, 1], 9)),
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let rates = [
            ("loss_ppm", self.loss_ppm),
            ("duplicate_ppm", self.duplicate_ppm),
            ("reorder_ppm", self.reorder_ppm),
            ("corrupt_ppm", self.corrupt_ppm),
        ];
        for (field, rate) in rates {
            ConfigError::check(field, rate.into(), 0..=MILLION, "0 … 1000000")?;
        }
        ConfigError::check("delay_ns", self.delay_ns, 0..=HOUR_NS, "0 … one hour")?;
        ConfigError::check("reorder_ns", self.reorder_ns, 0..=HOUR_NS, "0 … one hour")?;
        ConfigError::check(
            "buffer_bytes",
            self.buffer_bytes,
            1..=1 << 30,
            "1 … 1073741824",
        )
    }
}

/// What happened on the link, in datagrams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LinkCounters {
    /// Put on the link by the sender.
    pub offered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Lost as the link held [`LINK_MAX_DATAGRAMS`].
    pub link_full: u64,
    /// Lost as the buffer was full.
    pub dropped: u64,
}

/// A datagram under way; ordered by arrival, then by when it was sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    arrival_ns: u64,
    order: u64,
    payload: Vec<u8>,
}

/// A link and the port at its end.
#[derive(Debug)]
pub struct EmulatedPort {
    config: Config,
    random: SplitMix,
    link: BinaryHeap<Reverse<UnderWay>>,
    order: u64,
    buffer: VecDeque<(u64, Vec<u8>)>,
    buffer_used_bytes: u64,
    counters: LinkCounters,
    received: Totals,
}

impl EmulatedPort {
    /// Makes an empty link.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn new(config: Config) -> Result<Self, LinkError> {
        config.validate()?;
        Ok(Self {
            config,
            random: SplitMix(config.seed),
            link: BinaryHeap::new(),
            order: 0,
            buffer: VecDeque::new(),
            buffer_used_bytes: 0,
            counters: LinkCounters::default(),
            received: Totals::default(),
        })
    }

    /// Puts a datagram on the link at `now_ns`.
    pub fn offer(&mut self, now_ns: u64, payload: &[u8]) {
        self.counters.offered += 1;
        let lost = self.random.hits(self.config.loss_ppm);
        let duplicate = self.random.hits(self.config.duplicate_ppm);
        if lost {
            self.counters.lost += 1;
        } else {
            self.depart(now_ns, payload);
        }
        if duplicate {
            self.counters.duplicated += 1;
            self.depart(now_ns, payload);
        }
    }

    /// Lets everything arrive that is due at `now_ns`; what the buffer cannot hold is dropped.
    pub fn advance(&mut self, now_ns: u64) {
        while self
            .link
            .peek()
            .is_some_and(|Reverse(next)| next.arrival_ns <= now_ns)
            && let Some(Reverse(next)) = self.link.pop()
        {
            self.arrive(next);
        }
    }

    /// As after a kill of the receiver: its count goes back to what it had committed; link and buffer stay.
    pub fn restart_receiver(&mut self, committed: Totals) {
        self.received = committed;
    }

    /// When the next datagram arrives, if one is under way.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.link.peek().map(|Reverse(next)| next.arrival_ns)
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Datagrams on the link now.
    #[must_use]
    pub fn on_link(&self) -> u64 {
        self.link.len() as u64
    }

    /// Datagrams in the buffer now.
    #[must_use]
    pub fn in_buffer(&self) -> u64 {
        self.buffer.len() as u64
    }

    fn depart(&mut self, now_ns: u64, payload: &[u8]) {
        if self.link.len() >= LINK_MAX_DATAGRAMS {
            self.counters.link_full += 1;
            return;
        }
        let mut payload = payload.to_vec();
        if self.random.hits(self.config.corrupt_ppm) && !payload.is_empty() {
            let bit = self.random.below(payload.len() as u64 * 8);
            payload[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        let mut arrival_ns = now_ns.saturating_add(self.config.delay_ns);
        if self.random.hits(self.config.reorder_ppm) {
            arrival_ns = arrival_ns.saturating_add(self.config.reorder_ns);
            self.counters.reordered += 1;
        }
        self.order += 1;
        self.link.push(Reverse(UnderWay {
            arrival_ns,
            order: self.order,
            payload,
        }));
    }

    /// As Linux does: a datagram is taken while the buffer's use does not exceed its limit, whatever its own size.
    fn arrive(&mut self, datagram: UnderWay) {
        if self.buffer_used_bytes > self.config.buffer_bytes {
            self.counters.dropped += 1;
            return;
        }
        self.buffer_used_bytes += charge_bytes(&datagram.payload);
        self.buffer
            .push_back((datagram.arrival_ns, datagram.payload));
    }
}

fn charge_bytes(payload: &[u8]) -> u64 {
    payload.len() as u64 + OVERHEAD_BYTES
}

/// Takes the oldest datagram out of the buffer and into `slot`.
fn take(
    buffer: &mut VecDeque<(u64, Vec<u8>)>,
    used_bytes: &mut u64,
    from: SocketAddr,
    slot: &mut [u8],
) -> Option<Arrived> {
    let (stamp_ns, payload) = buffer.pop_front()?;
    *used_bytes -= charge_bytes(&payload);
    let stored = payload.len().min(slot.len());
    slot[..stored].copy_from_slice(&payload[..stored]);
    Some(Arrived {
        len: payload.len(),
        stamp_ns: Some(stamp_ns),
        from: Some(from),
    })
}

impl DatagramSource for EmulatedPort {
    fn receive_scratch(
        &mut self,
        batch: &mut RecvBatch,
        max: usize,
        tag: BatchTag,
    ) -> Result<usize, LinkError> {
        let (buffer, used, from) = (
            &mut self.buffer,
            &mut self.buffer_used_bytes,
            self.config.from,
        );
        let count = batch.deliver_scratch(max, tag, |slot| take(buffer, used, from, slot));
        self.received += batch.totals();
        Ok(count)
    }

    fn receive_into(
        &mut self,
        batch: &mut RecvBatch,
        buffer: &mut [u8],
        tag: BatchTag,
    ) -> Result<bool, LinkError> {
        let (queue, used, from) = (
            &mut self.buffer,
            &mut self.buffer_used_bytes,
            self.config.from,
        );
        let received = batch.deliver_into(buffer, tag, |slot| take(queue, used, from, slot));
        self.received += batch.totals();
        Ok(received.is_some())
    }

    fn received(&self) -> Totals {
        self.received
    }

    fn count_adopted(&mut self, batch: &RecvBatch) {
        self.received += batch.totals();
    }

    fn drops(&mut self) -> Result<Drops, LinkError> {
        Ok(Drops::Exact(self.counters.dropped))
    }

    fn fill(&self) -> Result<BufferFill, LinkError> {
        Ok(BufferFill {
            used_bytes: self.buffer_used_bytes,
            limit_bytes: self.config.buffer_bytes,
        })
    }
}

/// A small generator with a 64-bit state (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn hits(&mut self, ppm: u32) -> bool {
        self.below(MILLION) < u64::from(ppm)
    }
}
