//! What the two stages and the E-links are told: sections of a chain file, and parts of the plan as they are.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use forebay_evb::Completion;
use forebay_msg::Config;
use forebay_run_net::section::SecuritySettings;
use forebay_settings::{choices, settings};
use serde::{Deserialize, Serialize};

/// Largest ring or queue, in bytes.
pub(crate) const QUEUE_BYTES_MAX: u64 = 1 << 36;
/// A source's queue, in bytes: it has room for a datagram of 64 KiB behind a message.
pub(crate) const SOURCE_QUEUE_BYTES: RangeInclusive<u64> = 1 << 17..=QUEUE_BYTES_MAX;

/// Defaults of the builder engine.
fn usual() -> forebay_evb::Config {
    forebay_evb::Config::new(1)
}

choices! {
    /// What the receiver does when a source's queue is full.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FullPolicy {
        /// Leave the data in the socket buffer; what overflows there the kernel counts. The default for a port with one source.
        #[default]
        Hold = "hold",
        /// Receive and drop, charged to the source; the others on the port go on.
        Drop = "drop",
    }
}

settings! {
    /// The receiver stage: datagrams off the sockets, checked, into one queue per source.
    #[derive(Serialize, Deserialize)]
    pub struct ReceiverPlan in [receiver] {
        /// Address to listen on. "0.0.0.0": all of this host's; anyone who can reach it can then send.
        bind: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// Queue of each source, unless its block says otherwise: the bytes of one source in the longest stall of the builder that shall lose nothing. One that holds less than twice timeout_ms at the rate of its source is warned of.
        queue_bytes: Option<u64> [pow2 SOURCE_QUEUE_BYTES] => "2 GiB over all sources, or a quarter of the memory of host or control group if that is less; 256 KiB to 16 MiB each",
        /// Receive buffer asked of the kernel for each socket. It holds what comes while the receiver is not running. Beyond net.core.rmem_max it needs a privilege.
        socket_buffer_bytes: Option<usize> [1 << 16..=1 << 30] => "1 GiB over all ports, 1 to 4 MiB each",
        /// Longest message accepted; a longer one is a named loss.
        message_bytes_max: u32 [64..=64 << 20] = 256 << 10,
        /// Datagrams taken from one socket before the next one has its turn.
        batch_datagrams: usize [1..=64] = 64,
        /// How long to look for data before sleeping: lower latency for CPU time.
        spin_us: u64 [0..=1_000_000] = 0,
        /// How long a datagram may wait in its socket's buffer for others, so that one wake-up does for all of them: less CPU time for as much latency. Shorter where buffers fill up, and never longer than the smallest buffer leaves time: 0.8 ms where it was granted 4 MiB; the start of the run tells when that is less than what was said. 0: gather_us decides.
        latency_budget_us: Option<u64> [0..=1_000_000] => "1000, and 0 with spin_us, gather_us or real_time",
        /// Without a budget, and where buffers are too small for one: how long to let datagrams gather after a round that found few of them. 0: not at all.
        gather_us: Option<u64> [0..=1_000_000] => "200",
        /// Whether the kernel stamps each datagram; without it there is no latency histogram.
        stamps: bool = true,
        /// Whether the kernel may merge datagrams. Its drop counter is then a lower bound.
        gro: bool = false,
        /// When a queue is full. Hold: data waits in the socket's buffer, and what overflows there the kernel counts. Drop: it is received, dropped, and charged to the source.
        full: FullPolicy = FullPolicy::Hold,
        /// Whether the memory of the sources' queues is taken before the run is ready. The run then starts later, by 1 to 4 s for each GiB. Without it, a thread that runs when a CPU is idle takes it while data flow.
        populate_queues: bool = false,
        /// CPU to run on.
        cpu: Option<usize> [0..=8191] => "not pinned",
        /// Real-time priority (SCHED_FIFO), with memory locked. Low values, and a core of its own.
        real_time: Option<u8> [1..=99] => "off",
    }
}

impl ReceiverPlan {
    /// What is usual for one that need not look without sleeping.
    const LATENCY_BUDGET_US: u64 = 1_000;
    const GATHER_US: u64 = 200;

    /// How long a datagram may wait for others, if that is said or usual.
    #[must_use]
    pub fn latency_budget(&self) -> Option<Duration> {
        let wants_less = self.spin_us > 0 || self.gather_us.is_some() || self.real_time.is_some();
        let usual = u64::from(!wants_less) * Self::LATENCY_BUDGET_US;
        let budget_us = self.latency_budget_us.unwrap_or(usual);
        (budget_us > 0).then(|| Duration::from_micros(budget_us))
    }

    /// How long datagrams may gather after a round that found few of them.
    #[must_use]
    pub fn gather(&self) -> Duration {
        Duration::from_micros(self.gather_us.unwrap_or(Self::GATHER_US))
    }
}

settings! {
    /// The builder stage: sub-events of all sources matched by trigger number.
    #[derive(Serialize, Deserialize)]
    pub struct BuilderPlan in [builder] {
        /// An event that lacks a source. Wait: each waits for every source up to the time-out, then what came is written. Partial: the same, but a source waited for in vain is not waited for again until it speaks. Discard: only complete events are written.
        #[flag = "completion"]
        completion: Completion = Completion::default(),
        /// Width of the trigger number on the wire.
        #[flag = "trigger-bits"]
        trigger_bits: u32 [16 or 24] = 24,
        /// How far one trigger number is from the next: more than 1 where triggers are dealt out to a farm of builders. Numbers between are not missing.
        #[flag = "trigger-step"]
        trigger_step: u32 [1..=4096] = usual().trigger_step,
        /// Whether the sub-events of an event must carry the same tag: a wrong tag shows a readout that counts wrongly.
        #[flag = "check-tag"]
        check_tag: bool = usual().check_tag,
        /// Longest wait for a source after the first sub-event of an event came. Longer than the slowest source takes to fill its water mark; a replay, whose time is not ours, takes one minute unless it is told.
        #[flag = "timeout"]
        timeout_ms: u64 [1..=3_600_000] = usual().timeout_ns / 1_000_000,
        /// How many later events may pile up before the oldest stops waiting; not with "wait".
        timeout_events: u32 [1..=1_000_000] = usual().timeout_events,
        /// How far ahead of the others a trigger number is believed; at most a quarter of the range.
        window_events: u32 [1..=1 << 22] = usual().window_events,
        /// Largest event built; a larger one is a named loss. Half of each sink's queue at most; with a tcp sink 67108864.
        #[flag = "event-size"]
        event_bytes_max: usize [1 << 10..=1 << 31] = 24 << 20,
        /// Where messages come again within this time, how long to let them gather before the next look: less CPU time for as much latency. 0: not at all.
        gather_us: u64 [0..=1_000_000] = 500,
        /// CPU to run on.
        cpu: Option<usize> [0..=8191] => "not pinned",
        /// Real-time priority (SCHED_FIFO), with memory locked.
        real_time: Option<u8> [1..=99] => "off",
    }
}

settings! {
    /// How chunks of E-links become sub-events; for sources that name `elinks`. A chunk is the payload of its sub-event as it came; one with something wrong in its status has the data-error bit.
    #[derive(Serialize, Deserialize)]
    pub struct ElinkSettings in [elinks] {
        /// Where in a chunk its trigger number (L1ID) begins, little-endian; by default as FELIX's data generator has it.
        l1id_offset_bytes: u32 [0..=65535] = 3,
        /// How many bytes of its trigger number a chunk has. With fewer than trigger_bits the rest is counted, E-link by E-link from where they began together: one that loses all of 256 chunks in a row (with 1 byte) is matched one round too early from then on.
        l1id_bytes: u32 [1..=4] = 1,
        /// Size of the buffers of a connection to a publisher.
        buffer_bytes: u32 [64..=Config::BUFFER_BYTES_MOST] = Config::default().buffer_bytes,
        /// Buffers of a connection: what may be on its way.
        buffer_count: u32 [1..=Config::BUFFER_COUNT_MOST] = Config::default().buffer_count,
        ..security: SecuritySettings,
    }
}
