//! The multiplexer under load: clients of a user without rights, the daemon on a virtual wire, and generated load at its far end; and beside it, in the same run, plain sockets
//! of Linux that send back what comes.
//!
//! Hosts are network namespaces that go with their last process. Each client's packets are followed over the whole way, from the generator back to the generator, and each hop is
//! counted by the parties on both of its sides: `account`.

mod account;
mod baseline;
pub mod demo;
mod file;
mod ground;
mod session;
mod share;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_ledger::{Closed, Condition, Reason};
use forebay_run::record::{Envelope, Record};
use forebay_run::{Host, Stop, System};
use forebay_run_mux::config::PolicyChoice;
use serde::Serialize;
use serde_json::Value;

pub use account::Check;
use ground::{Ground, Wire};
pub use share::CpuShare;
use share::Sharing;

/// The name of the program in records.
const PROGRAM: &str = "mux-bench";
/// The soaker and the kernel's own account may differ by so much of the host, before it is told.
const SHARES_DIFFER: f64 = 0.03;

/// Most clients.
pub const CLIENTS_MAX: usize = 64;
/// Bytes of UDP payload of a packet: the head of the load, and what an Ethernet of 1500 bytes takes.
pub const SIZE_BYTES: RangeInclusive<u16> = 24..=1_472;
/// Bytes of a frame of clients without a stack: the same with the headers of Ethernet, IPv4 and UDP, as the sockets beside them have it.
pub const FRAME_BYTES: RangeInclusive<u16> = 66..=1_514;
/// Receive buffers: at least, and for each client.
const RECEIVE_BUFFERS: [u32; 2] = [1_024, 64];

/// Receive buffers of so many clients together, where nothing is said.
#[must_use]
pub fn receive_buffers(clients: usize) -> u32 {
    let [least, each] = RECEIVE_BUFFERS;
    least.max(each * clients as u32)
}

/// What clients do with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Each datagram goes back.
    Echo,
    /// Every 10,000th goes back.
    RxMostly,
    /// Each goes back 10,000 times.
    TxMostly,
    /// The first one goes back so many times as the rate and the duration come to.
    TxInitiated,
    /// Each is copied and added up ten times, and goes back.
    Heavy,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Echo,
        Self::RxMostly,
        Self::TxMostly,
        Self::TxInitiated,
        Self::Heavy,
    ];

    /// As `forebay mux client` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::RxMostly => "rx-mostly",
            Self::TxMostly => "tx-mostly",
            Self::TxInitiated => "tx-initiated",
            Self::Heavy => "heavy",
        }
    }

    /// Whether clients send by themselves, so that the generator asks for little.
    #[must_use]
    pub const fn is_sending(self) -> bool {
        matches!(self, Self::TxMostly | Self::TxInitiated)
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Bits of UDP payload in a second that are asked of it; of frames, where clients are raw.
    pub load_bps: u64,
    /// Bits of UDP payload in a second that it may send, or of frames; none: as many as there is room for.
    pub limit_bps: Option<u64>,
    /// Most received frames that it may hold.
    pub rx_queue: u32,
    /// Most frames of it that wait to be sent.
    pub tx_queue: u32,
    /// Received frames that it may always hold.
    pub guarantee: u32,
    /// Longest that a frame of it waits to be sent, in µs; none: without a bound.
    pub sojourn_max_us: Option<u64>,
    /// How much less CPU its process gets than others (`nice(1)`), 0 to 19.
    pub niceness: u8,
    /// How many times `heavy` works on each datagram; none: as often as the client does by itself.
    pub rounds: Option<u32>,
    /// Its packets are copied when they go, and not when they are handed over.
    pub is_trusted: bool,
}

impl Default for ClientOptions {
    /// As the original: queues of 512, and no limit.
    fn default() -> Self {
        Self {
            load_bps: 100_000_000,
            limit_bps: None,
            rx_queue: 512,
            tx_queue: 512,
            guarantee: 16,
            sojourn_max_us: None,
            niceness: 0,
            rounds: None,
            is_trusted: false,
        }
    }
}

/// Where processes run; none: where the kernel puts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// CPU of the daemon.
    pub daemon: Option<usize>,
    /// CPU of all clients, or of the sockets in their place.
    pub clients: Option<usize>,
    /// CPU of the generator.
    pub generator: Option<usize>,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// What clients do.
    pub workload: Workload,
    /// Clients have no IP stack, and load is frames without datagrams: sizes and rates are of frames. For the echo alone.
    pub is_raw: bool,
    /// Which client sends next.
    pub policy: PolicyChoice,
    /// The clients, A, B, …
    pub clients: Vec<ClientOptions>,
    /// Bytes of UDP payload of a packet; of the frame, where clients are raw.
    pub size_bytes: usize,
    /// How long packets are sent.
    pub duration: Duration,
    /// Receive buffers of all clients together.
    pub receive_buffers: u32,
    /// Rate of the wire in bit/s, each way, by a token bucket; none: as fast as the hosts are.
    pub wire_bps: Option<u64>,
    /// Bits in a second that the daemon gives the card; none: as many as the card takes.
    pub link_bps: Option<u64>,
    /// `gather_us` of the daemon; none: its default.
    pub gather_us: Option<u32>,
    /// Real-time priority of the daemon.
    pub real_time: Option<u8>,
    /// Threads of the daemon's driver, 1 or 2: with 2, frames go in one of their own.
    pub driver_threads: u8,
    /// Whether plain sockets are measured as well.
    pub has_baseline: bool,
    /// Whether threads that take what nobody else wants measure the host's CPU time, too. A CPU that runs one is not idle: the kernel does not move waiting processes to it.
    pub has_soaker: bool,
    /// Where processes run.
    pub placement: Placement,
}

/// What became of a client's packets. Rates are bits of UDP payload, or of frames where clients are raw, in a second of the duration.
#[derive(Clone, Debug, Serialize)]
pub struct ClientReport {
    /// A, B, …
    pub name: String,
    /// Its packets were copied when they went, and not when it handed them over: as the daemon has it.
    pub is_trusted: bool,
    /// What was asked of it.
    pub requested_bps: f64,
    /// What the generator had back in time; of `rx-mostly` what the client had; of clients that send by themselves all that the generator had.
    pub achieved_bps: f64,
    /// Round-trip times, as `forebay load` has them.
    pub rtt_ns: Value,
    /// The longest that a packet of it waited until the card had it.
    pub sojourn_ns_max: u64,
    /// The bound of that; none: without one.
    pub sojourn_ns_bound: Option<u64>,
    /// What it may send; none: as much as there is room for.
    pub limit_bps: Option<u64>,
    /// Packets that were lost, by place and reason, on the whole way.
    pub drops: BTreeMap<String, u64>,
    /// Packets at each hop, in the order of the way.
    pub counts: account::Hops,
}

/// Plain sockets of Linux that send back what comes, with the same load.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// What they are.
    pub what: &'static str,
    /// What was asked of all.
    pub requested_bps: f64,
    /// What all sent back in time.
    pub achieved_bps: f64,
    /// Round-trip times of the first one.
    pub rtt_ns: Value,
    /// Each socket, as the clients of the multiplexer.
    pub clients: Vec<SocketReport>,
    /// Part of the host's CPU time that was used, from `/proc/stat`.
    pub cpu_fraction: f64,
    /// The same by the soaker.
    pub cpu_fraction_soaker: Option<f64>,
    /// Packets that the sockets' programs took and sent for each second of their CPU time.
    pub packets_per_cpu_second: f64,
    /// Packets that were lost, by place and reason.
    pub drops: BTreeMap<String, u64>,
    /// What does not add up.
    pub residual_items: u64,
    /// What held the generator, if it was the limit.
    pub generator_limit: Option<String>,
}

/// A socket.
#[derive(Clone, Debug, Serialize)]
pub struct SocketReport {
    /// A, B, …
    pub name: String,
    /// What was asked of it.
    pub requested_bps: f64,
    /// What it sent back in time.
    pub achieved_bps: f64,
    /// Round-trip times.
    pub rtt_ns: Value,
}

/// What came of it, beside what every record says. `residual_items` of the record is that of the whole way.
#[derive(Clone, Debug, Serialize)]
pub struct MuxBenchSummary {
    /// What clients did.
    pub workload: Workload,
    /// They had no IP stack: sizes and rates are of frames.
    pub is_raw: bool,
    /// Which client sent next.
    pub policy: &'static str,
    /// Bytes of UDP payload of a packet; of the frame, where clients were raw.
    pub size_bytes: usize,
    /// How long packets were sent, in s.
    pub sending_s: f64,
    /// Rate of the wire; none: as fast as the hosts are.
    pub wire_bps: Option<u64>,
    /// Where processes ran.
    pub placement: Placement,
    /// CPUs of the host.
    pub cpus: usize,
    /// Threads of the daemon's driver, as its record says.
    pub driver_threads: u64,
    /// Client by client.
    pub clients: Vec<ClientReport>,
    /// What all achieved.
    pub achieved_bps: f64,
    /// Part of the host's CPU time that was used while packets were sent, from `/proc/stat`; all processes of the measurement are in it.
    pub cpu_fraction: f64,
    /// The same by threads that take what nobody else wants (`SCHED_IDLE`); none: without them.
    pub cpu_fraction_soaker: Option<f64>,
    /// Packets that the daemon gave to clients and to the card, for each second of its CPU time.
    pub packets_per_cpu_second: f64,
    /// Times that the daemon woke a client, and that it heard a client ring, for each packet that it gave or took.
    pub signals_per_packet: f64,
    /// Packets that were lost on the wire and at the card, by place and reason: those of all clients together.
    pub wire_drops: BTreeMap<String, u64>,
    /// What two parties counted of one thing, and is not the same.
    pub disagreements: Vec<Check>,
    /// What held the generator, if it was the limit.
    pub generator_limit: Option<String>,
    /// Plain sockets in the same run.
    pub baseline: Option<Baseline>,
    /// Ended by Ctrl-C or SIGTERM.
    pub interrupted: bool,
}

/// The record of a bench.
pub type MuxBenchRecord = Record<MuxBenchSummary>;

/// Measures the sockets alone.
///
/// # Errors
/// As [`measure`].
pub fn measure_sockets(options: &Options, stop: &Stop) -> Result<Baseline> {
    let work = session::Work::make(&options.program, None)?;
    baseline::run(options, &options.ground()?, &work, stop)
}

/// Measures once.
///
/// # Errors
/// Network namespaces may not be made, a program is not there or does not begin: each names what to do.
pub fn measure(options: &Options, stop: &Stop) -> Result<MuxBenchRecord> {
    let begun = std::time::Instant::now();
    let work = session::Work::make(&options.program, None)?;
    let ground = options.ground()?;
    let (mut summary, books) = with_share(options, &ground, &work, stop)?;
    let wants_more = options.has_baseline && !stop.is_asked();
    let baseline = wants_more.then(|| baseline::run(options, &ground, &work, stop));
    let baseline = baseline.transpose().context("the sockets beside it")?;
    let run_id = format!("{PROGRAM}-{}", std::process::id());
    let mut envelope = Envelope::of_process(PROGRAM, &run_id, begun.elapsed().as_secs_f64());
    let of_baseline = baseline.as_ref().map_or(0, |it| it.residual_items);
    envelope.books = books.with(&Closed {
        residual_items: of_baseline,
        ..Closed::default()
    });
    envelope.condition = Condition::Ended;
    let reason = stop.reason();
    envelope.reason = reason.unwrap_or(Reason::LimitReached);
    summary.interrupted = stop.is_asked();
    envelope.warnings = warnings(&summary, baseline.as_ref());
    summary.baseline = baseline;
    Ok(Record { envelope, summary })
}

/// One session, and what part of the host it takes.
fn with_share(
    options: &Options,
    ground: &Ground,
    work: &session::Work,
    stop: &Stop,
) -> Result<(MuxBenchSummary, Closed)> {
    let mut sharing = Sharing::of(options);
    let told = session::run(options, ground, work, (stop, &mut sharing))?;
    told.summed_up(options, sharing.share())
}

fn warnings(summary: &MuxBenchSummary, baseline: Option<&Baseline>) -> Vec<String> {
    let mut warnings = Vec::new();
    let ours = Some(("", summary.cpu_fraction, summary.cpu_fraction_soaker));
    let theirs = baseline.map(|it| ("of the sockets, ", it.cpu_fraction, it.cpu_fraction_soaker));
    for (of, kernel, soaker) in ours.into_iter().chain(theirs) {
        let Some(soaker) = soaker else { continue };
        if (kernel - soaker).abs() > SHARES_DIFFER {
            warnings.push(format!(
                "{of}the CPU that was used is {kernel:.3} of the host by /proc/stat and {soaker:.3} by the soaker: other programs with a niceness, or a hypervisor, took the rest"
            ));
        }
    }
    if let Some(limit) = &summary.generator_limit {
        warnings.push(format!("the generator was the limit: {limit}"));
    }
    warnings
}

impl Options {
    fn ground(&self) -> Result<Ground> {
        Ground::make(self.clients.len(), self.wire_bps.map(Wire::even))
    }
}

impl System for Options {
    const HOPS: &'static [&'static str] = &[];
    type Summary = MuxBenchSummary;
    type Error = anyhow::Error;

    fn run(self, host: &Host) -> Result<MuxBenchRecord> {
        let record = measure(&self, &host.stop)?;
        for warning in &record.envelope.warnings {
            host.warn(warning);
        }
        Ok(record)
    }
}
