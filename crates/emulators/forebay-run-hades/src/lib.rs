//! Emulated readouts of HADES: soft readouts over real sockets, with their books; and files read back against what they sent.

#![forbid(unsafe_code)]

mod books;
mod fault_texts;
pub mod verify;

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use forebay_emu::FaultRule;
use forebay_emu::{Config, ConfigError, Group, Huge, SoftReadouts, Spacing, Spill};
use forebay_ledger::Leak;
use forebay_run::error::RunError;
use forebay_run::ports::nth_port;
use forebay_sys::clock;
use forebay_sys::socket::{UdpOptions, connect_udp};
use forebay_sys::udp_batch::{Outgoing, SendBatch, SendStop};
use forebay_wire::subevent::TriggerBits;

use thiserror::Error;

pub use books::{Booked, GeneratorWords, HadesSender, SenderSummary};

/// Where a sender with books of its own can be made to lose items uncounted.
pub const HOPS: &[&str] = &["generator"];
/// Datagrams of one source per system call.
const BATCH: usize = 64;
/// Most bytes that the kernel cuts into datagrams in one go.
const RUN_BYTES_MAX: usize = 60_000;
/// How often the books are committed, at least.
const COMMIT_NS: u64 = 10_000_000;
/// Batches after which they are committed earlier.
const BATCHES_PER_COMMIT: u32 = 64;
/// Most datagrams that were sent and are not in the books yet.
pub const UNBOOKED_DATAGRAMS: u64 = BATCH as u64 * (BATCHES_PER_COMMIT as u64 + 1);
/// How long to wait when the kernel has no room.
const FULL_SLEEP: Duration = Duration::from_micros(200);
/// Send buffer asked for per socket: large enough that a batch does not stop half-way.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// What the emulator shall send, in a form that can be passed on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorPlan {
    /// Where the first source sends to; the others to the ports after it.
    pub dest: SocketAddr,
    /// Groups of sources: count, mean sub-event bytes, standard deviation in bytes.
    pub groups: Vec<(usize, u32, f64)>,
    /// Triggers per second.
    pub rate_hz: f64,
    /// `fixed` or `poisson`.
    pub poisson: bool,
    /// Spill period and length in ms.
    pub spill_ms: Option<(u64, u64)>,
    /// Water mark in bytes; none: one sub-event per datagram.
    pub water_mark_bytes: Option<u32>,
    /// Longest time a queue is held back, in ms.
    pub flush_ms: u64,
    /// One sub-event in so many is huge; 0: none.
    pub huge_every: u32,
    /// Bytes of a huge one.
    pub huge_bytes: u32,
    /// Width of trigger numbers.
    pub trigger_bits: u32,
    /// First trigger number.
    pub first_trigger: u32,
    /// How many sources share one port.
    pub sources_per_port: usize,
    /// Length of the run in ms; none: until told to stop.
    pub duration_ms: Option<u64>,
    /// Number of triggers; none: no limit.
    pub events: Option<u64>,
    /// What goes wrong, in which source and when.
    #[serde(with = "fault_texts", default)]
    pub faults: Vec<FaultRule>,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Eq for GeneratorPlan {}

impl GeneratorPlan {
    /// The HADES Test-2 mix at `rate_hz` to `dest`.
    #[must_use]
    pub fn test2(dest: SocketAddr, rate_hz: f64) -> Self {
        Self {
            dest,
            groups: vec![(60, 116, 0.0), (20, 338, 0.0), (10, 1170, 0.0)],
            rate_hz,
            poisson: false,
            spill_ms: None,
            water_mark_bytes: Some(32 << 10),
            flush_ms: 200,
            huge_every: 0,
            huge_bytes: 100_000,
            trigger_bits: 24,
            first_trigger: 0,
            sources_per_port: 1,
            duration_ms: None,
            events: None,
            faults: Vec::new(),
            seed: 2,
        }
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.groups.iter().map(|group| group.0).sum()
    }

    /// Most datagrams in a second that one source sends in the mean.
    pub fn datagrams_hz_max(&self) -> f64 {
        let largest = if self.huge_every > 0 {
            self.huge_bytes
        } else {
            0
        };
        let pieces = largest as usize / forebay_wire::hadtu::MTU_BYTES + 1;
        self.rate_hz * pieces as f64
    }

    /// Where the source of this number sends to.
    ///
    /// # Errors
    /// There are not so many ports behind the first one.
    pub fn address(&self, source: usize) -> Result<SocketAddr, RunError> {
        let per_port = self.sources_per_port.max(1);
        let ports = self.sources().div_ceil(per_port);
        let mut address = self.dest;
        address.set_port(nth_port(address.port(), source / per_port, ports)?);
        Ok(address)
    }

    /// The emulator's own configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        let groups = self
            .groups
            .iter()
            .map(|(count, mean, sigma)| Group::new(*count, *mean, *sigma))
            .collect();
        let mut config = Config::new(self.seed, groups, self.rate_hz);
        config.trigger.spacing = if self.poisson {
            Spacing::Poisson
        } else {
            Spacing::Fixed
        };
        config.trigger.spill = self.spill_ms.map(|(period, length)| Spill {
            period_ns: period * 1_000_000,
            length_ns: length * 1_000_000,
        });
        config.trigger.bits = TriggerBits::from_bits(self.trigger_bits).unwrap_or_default();
        config.trigger.first = self.first_trigger;
        config.transport.water_mark_bytes = self.water_mark_bytes;
        config.transport.flush_ns = Some(self.flush_ms * 1_000_000);
        config.transport.sources_per_port = self.sources_per_port;
        config.huge = (self.huge_every > 0).then_some(Huge {
            every_events: self.huge_every,
            bytes: self.huge_bytes,
        });
        config.limit.duration_ns = self.duration_ms.map(|ms| ms * 1_000_000);
        config.limit.events = self.events;
        config.faults.clone_from(&self.faults);
        config
    }
}

/// The emulator's settings are wrong.
fn wrong(error: ConfigError) -> RunError {
    RunError::Failure(Box::new(HadesError(error)))
}

/// The emulator's settings are out of range.
#[derive(Debug, Error)]
#[error("emulator: {0}")]
struct HadesError(#[source] ConfigError);

/// What the emulator did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// Triggers given.
    pub events_sent: u64,
    /// Sub-events in datagrams that the kernel took.
    pub subevents_sent: u64,
    /// Bytes of those datagrams.
    pub bytes_sent: u64,
    /// Datagrams.
    pub datagrams_sent: u64,
    /// Datagrams that the kernel refused.
    pub datagrams_refused: u64,
    /// Whether the emulator was the limit.
    pub behind: bool,
    /// Largest lag of a trigger, in ns.
    pub lag_ns_max: u64,
}

/// Sends until the plan's limit, or until `stop` says so.
///
/// # Errors
/// The settings are out of range, or a socket cannot be made.
pub fn run(
    generator: &GeneratorPlan,
    mut booked: Option<&mut Booked>,
    leak: Leak,
    mut stop: impl FnMut() -> bool,
) -> Result<GeneratorReport, RunError> {
    let config = generator.config();
    let mut readouts = SoftReadouts::new(&config).map_err(wrong)?.with_leak(leak);
    let sockets = connect(generator)?;
    let mut send = SendBatch::new(BATCH);
    let start_ns = clock::monotonic_ns();
    if let Some(booked) = &mut booked {
        booked.begin(start_ns);
    }
    let mut commit_ns = start_ns;
    let mut unbooked = 0;
    let mut stopped = false;
    loop {
        let now_ns = clock::monotonic_ns();
        readouts.handle_time(now_ns);
        let mut full = false;
        while !full && let Some(turn) = send_one(&mut readouts, &sockets, &mut send) {
            full = turn == Turn::Full;
            unbooked += 1;
            if unbooked >= BATCHES_PER_COMMIT {
                unbooked = 0;
                commit(booked.as_deref_mut(), &readouts);
            }
        }
        if now_ns >= commit_ns {
            commit_ns = now_ns + COMMIT_NS;
            commit(booked.as_deref_mut(), &readouts);
            if !stopped && stop() {
                stopped = true;
                readouts.finish(clock::monotonic_ns());
            }
        }
        if readouts.is_finished() {
            break;
        }
        let now_ns = clock::monotonic_ns();
        if full {
            // No room in the kernel: the clock, the books and the order to stop go on meanwhile.
            std::thread::sleep(FULL_SLEEP);
            continue;
        }
        let wake_ns = readouts
            .poll_timeout()
            .map_or(COMMIT_NS, |at| at.saturating_sub(now_ns))
            .min(COMMIT_NS);
        if wake_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wake_ns));
        }
    }
    commit(booked, &readouts);
    Ok(report(&readouts))
}

fn connect(generator: &GeneratorPlan) -> Result<Vec<OwnedFd>, RunError> {
    let options = UdpOptions {
        send_buffer_bytes: Some(SEND_BUFFER_BYTES),
        ..UdpOptions::default()
    };
    (0..generator.sources())
        .map(|source| Ok(connect_udp(generator.address(source)?, &options)?))
        .collect()
}

/// What the kernel made of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It took it, or refused a part.
    Sent,
    /// It has no room for more now.
    Full,
}

/// Hands one batch of one source to the kernel; none when nothing is due.
fn send_one(
    readouts: &mut SoftReadouts,
    sockets: &[OwnedFd],
    send: &mut SendBatch,
) -> Option<Turn> {
    let batch = readouts.poll_batch(BATCH)?;
    let source = batch.source;
    let mut runs = 0;
    let mut outgoing = [Outgoing::connected(&[]); BATCH];
    let mut counts = [0; BATCH];
    for run in batch.runs(RUN_BYTES_MAX).take(BATCH) {
        outgoing[runs] = Outgoing {
            segment_bytes: (run.count > 1).then_some(run.datagram_bytes as u16),
            ..Outgoing::connected(run.bytes)
        };
        counts[runs] = run.count;
        runs += 1;
    }
    let sent = send.send(sockets[source].as_fd(), &outgoing[..runs]);
    if sent.count < runs {
        readouts.handle_sent(counts[..sent.count].iter().sum());
        // The other reasons pass: a full buffer empties, and a refusal tells of an earlier datagram, not of this one.
        if let Some(SendStop::Failed(error)) = sent.stopped {
            tracing::debug!(source, %error, "datagrams refused");
            readouts.handle_refused(counts[sent.count]);
        } else if let Some(SendStop::WouldBlock | SendStop::NoBuffers) = sent.stopped {
            return Some(Turn::Full);
        }
    }
    Some(Turn::Sent)
}

fn commit(booked: Option<&mut Booked>, readouts: &SoftReadouts) {
    if let Some(booked) = booked {
        booked.commit(&readouts.totals(), &readouts.behind());
    }
}

fn report(readouts: &SoftReadouts) -> GeneratorReport {
    let totals = readouts.totals();
    let behind = readouts.behind();
    let sum = |of: fn(&forebay_emu::SourceTotals) -> u64| totals.by_source.iter().map(of).sum();
    GeneratorReport {
        events_sent: totals.events,
        subevents_sent: sum(|books| books.sent.items),
        bytes_sent: sum(|books| books.datagrams_sent.bytes),
        datagrams_sent: sum(|books| books.datagrams_sent.items),
        datagrams_refused: sum(|books| books.datagrams_refused.items),
        behind: behind.generator_limited,
        lag_ns_max: behind.lag_ns_max,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A peer that reads nothing.
    #[test]
    fn a_full_socket_is_told_and_not_tried_again_at_once() {
        let mut plan = GeneratorPlan::test2(([127, 0, 0, 1], 1).into(), 1e6);
        plan.groups = vec![(1, 116, 0.0)];
        plan.water_mark_bytes = None;
        let mut readouts = SoftReadouts::new(&plan.config()).unwrap();
        let (near, _far) = UnixDatagram::pair().unwrap();
        let sockets = [OwnedFd::from(near)];
        let mut send = SendBatch::new(BATCH);
        readouts.handle_time(0);
        readouts.handle_time(100_000_000);
        let mut turns = 0;
        while send_one(&mut readouts, &sockets, &mut send) == Some(Turn::Sent) {
            turns += 1;
            assert!(turns < 100_000, "it is tried for ever");
        }
        assert_eq!(
            send_one(&mut readouts, &sockets, &mut send),
            Some(Turn::Full)
        );
    }
}
