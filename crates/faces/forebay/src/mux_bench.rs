//! `forebay mux bench`: the multiplexer under load between network namespaces, beside plain sockets of Linux.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_bench::mux::{
    self, CLIENTS_MAX, ClientOptions, FRAME_BYTES, MuxBenchSummary, Options, Placement, SIZE_BYTES,
    Workload,
};
use forebay_report::text::si;
use forebay_run::record::Record;
use forebay_run_load::target_name;
use forebay_run_mux::config::PolicyChoice;
use forebay_sys::sched::cpu_count;

use crate::load::position;
use crate::output::{Format, parse_bytes, parse_duration, print_line};
use crate::record::{To, carry_out, print_closing};

/// Bits of payload in a second that all clients share, where nothing else is said: about a wire of 1 Gb/s.
const LOAD_BPS: u64 = 960_000_000;
/// Least rate of a wire.
const WIRE_BPS_MIN: u64 = 1_000_000;
/// Longest wait of a limited client's packets, where nothing else is said, in µs.
const SOJOURN_MAX_US: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WorkloadArg {
    /// Each datagram goes back.
    Echo,
    /// Every 10,000th datagram goes back.
    RxMostly,
    /// Each datagram goes back 10,000 times.
    TxMostly,
    /// The first datagram goes back as often as the load comes to, and the client ends.
    TxInitiated,
    /// Each datagram is copied and added up ten times, and goes back.
    Heavy,
}

impl WorkloadArg {
    const fn workload(self) -> Workload {
        match self {
            Self::Echo => Workload::Echo,
            Self::RxMostly => Workload::RxMostly,
            Self::TxMostly => Workload::TxMostly,
            Self::TxInitiated => Workload::TxInitiated,
            Self::Heavy => Workload::Heavy,
        }
    }
}

/// Measures the multiplexer on this machine: a generator, the daemon and its clients, and after them plain sockets of Linux with the same load.
///
/// Generator and card are network namespaces, joined by a virtual cable; clients are processes of a user without rights, called A, B, C … Rates and --client-limit are of UDP payload, or with --raw of frames. What the generator
/// sent to each client, what the daemon gave it, what it counted, and what came back is compared hop by hop; residual_items is that of the whole way. CPU is that of the whole host. Nothing of it
/// touches the host's own network, and no process or network of it is left when it ends or is killed (with SIGKILL a folder for temporary files is); Ctrl-C closes the books. Needs root, to make network namespaces and to start processes of another user.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay mux bench --workload echo --clients 2 --policy round-robin --duration 5s\n  forebay mux bench --workload echo --clients 2 --policy token-bucket --client-limit B=100M --format json\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done."
)]
pub(crate) struct MuxBenchArgs {
    /// What clients do with what comes.
    #[arg(long, value_enum, default_value = "echo")]
    workload: WorkloadArg,
    /// Clients, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX as i64))]
    clients: u32,
    /// Which client sends next: signalled, round-robin, deficit-round-robin, priority (A first), token-bucket, window, tdm (windows of equal length).
    #[arg(long, value_name = "POLICY", default_value = "round-robin", value_parser = policy)]
    policy: PolicyChoice,
    /// Bits of payload in a second that are asked of each client, or of one, as 100M or B=100M (default: 960M, shared by all).
    #[arg(long, value_name = "[NAME=]BITS", value_parser = named)]
    load_bps: Vec<Named>,
    /// Most bits of payload in a second that a client may send, as B=100M.
    #[arg(long, value_name = "[NAME=]BITS", value_parser = named)]
    client_limit: Vec<Named>,
    /// Most received frames that a client may hold (default: 512).
    #[arg(long, value_name = "[NAME=]N", value_parser = named)]
    rx_queue: Vec<Named>,
    /// Most frames of a client that wait to be sent (default: 512).
    #[arg(long, value_name = "[NAME=]N", value_parser = named)]
    tx_queue: Vec<Named>,
    /// Received frames that a client may always hold (default: 16).
    #[arg(long, value_name = "[NAME=]N", value_parser = named)]
    guarantee: Vec<Named>,
    /// Longest that a frame of a client waits to be sent, in us (default: 10000 with a limit, else without a bound).
    #[arg(long, value_name = "[NAME=]US", value_parser = named)]
    sojourn_max: Vec<Named>,
    /// A client whose packets are copied when they go, and not when it hands them over; all of them without a name.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    trusted: Vec<String>,
    /// Receive buffers of all clients together (default: 1024, or 64 for each client).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    receive_buffers: Option<u32>,
    /// Clients have no IP stack, and load is frames: sizes, rates and limits are of whole frames, without their check sums. For the workload echo. Beside it stand sockets with datagrams in frames of the same length.
    #[arg(long)]
    raw: bool,
    /// Bytes of payload of a packet, 24 to 1472, or with --raw of a frame, 66 to 1514 (default: the most).
    #[arg(long, value_name = "BYTES")]
    size: Option<u16>,
    /// Rate of the wire in bit/s, each way, by a token bucket (tbf) on a switch (default: as fast as the hosts are).
    #[arg(long, value_name = "BITS", value_parser = parse_bytes)]
    wire_rate: Option<u64>,
    /// Bits in a second that the daemon gives the card, with 24 bytes for each frame, so that its policy decides what waits (default: as many as the card takes).
    #[arg(long, value_name = "BITS", value_parser = parse_bytes)]
    link_rate: Option<u64>,
    /// How long the daemon leaves frames and packets to gather when much comes, 0 to 500 us, 0: never (default: that of `forebay mux run`).
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=500))]
    gather_us: Option<u32>,
    /// Real-time priority of the daemon, 1 to 99 (default: none, as other programs).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    real_time: Option<u8>,
    /// Threads of the daemon's driver: with 2, frames go out in a thread of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    driver_threads: u8,
    /// Leaves out the sockets beside it.
    #[arg(long)]
    no_baseline: bool,
    /// Measures the host's CPU time by /proc/stat alone. The soaker, a thread on each CPU that takes what nobody else wants, keeps the kernel from moving waiting processes to idle CPUs: round trips are shorter without it.
    #[arg(long)]
    no_soaker: bool,
    /// How long packets are sent.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    duration: Duration,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A number, of one client or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: Option<String>,
    value: u64,
}

fn named(text: &str) -> Result<Named, String> {
    let (name, number) = match text.split_once('=') {
        Some((name, number)) => (Some(name), number),
        None => (None, text),
    };
    // `100MB` is of bytes, and none of these.
    let number = Some(number).filter(|number| !number.ends_with(['B', 'b']));
    let value = number.and_then(|number| parse_bytes(number).ok());
    let value =
        value.ok_or_else(|| format!("write {text:?} as 100M, or as B=100M for client B"))?;
    let name = name.map(str::to_owned);
    Ok(Named { name, value })
}

fn policy(text: &str) -> Result<PolicyChoice, String> {
    let known = || format!("known are {}", PolicyChoice::NAMES.join(", "));
    PolicyChoice::named(text).ok_or_else(known)
}

/// The value of each client: its own one, or that of all.
fn each(flag: &str, all: &[Named], clients: usize) -> Result<Vec<Option<u64>>> {
    let general = all.iter().rev().find(|it| it.name.is_none());
    let mut values = vec![general.map(|it| it.value); clients];
    for Named { name, value } in all {
        let Some(name) = name else { continue };
        match position(name).and_then(|at| values.get_mut(at)) {
            Some(place) => *place = Some(*value),
            None => bail!(
                "{flag} {name}={value}: there is no client {name}; the first is A, and there are {clients}"
            ),
        }
    }
    Ok(values)
}

/// The same where one of these holds for each, within limits.
fn each_within(
    flag: &str,
    all: &[Named],
    clients: usize,
    (default, limits): (u64, std::ops::RangeInclusive<u64>),
) -> Result<Vec<u64>> {
    let values = each(flag, all, clients)?;
    let values: Vec<u64> = values.into_iter().map(|it| it.unwrap_or(default)).collect();
    if let Some(wrong) = values.iter().find(|value| !limits.contains(value)) {
        bail!(
            "{flag} {wrong}: give {} to {}",
            limits.start(),
            limits.end()
        );
    }
    Ok(values)
}

/// Which clients are named; an empty name is of all.
fn which(flag: &str, names: &[String], clients: usize) -> Result<Vec<bool>> {
    let mut are = vec![false; clients];
    for name in names {
        if name.is_empty() {
            are.fill(true);
            continue;
        }
        match position(name).and_then(|at| are.get_mut(at)) {
            Some(is) => *is = true,
            None => bail!(
                "{flag} {name}: there is no client {name}; the first is A, and there are {clients}"
            ),
        }
    }
    Ok(are)
}

fn options(args: &MuxBenchArgs) -> Result<Options> {
    let count = args.clients as usize;
    let within = |flag, all: &[Named], default, least: u64, most: u64| {
        each_within(flag, all, count, (default, least..=most))
    };
    let queues = 65_536;
    let loads = within(
        "--load-bps",
        &args.load_bps,
        LOAD_BPS / u64::from(args.clients),
        1_000,
        1_000_000_000_000,
    )?;
    let limits = each("--client-limit", &args.client_limit, count)?;
    if let Some(wrong) = limits.iter().flatten().find(|it| **it < 8_000) {
        bail!("--client-limit {wrong}: give 8000 bit/s at least");
    }
    let rx_queues = within("--rx-queue", &args.rx_queue, 512, 1, queues)?;
    let tx_queues = within("--tx-queue", &args.tx_queue, 512, 1, queues)?;
    let guarantees = within("--guarantee", &args.guarantee, 16, 0, queues)?;
    let said = within("--guarantee", &args.guarantee, 0, 0, queues)?;
    if let Some(at) = (0..count).find(|at| said[*at] > rx_queues[*at]) {
        let (name, queue) = (target_name(at), rx_queues[at]);
        bail!(
            "--guarantee {name}={}: its queue has {queue} frames; give {queue} or less, or --rx-queue {name}={}",
            said[at],
            said[at]
        );
    }
    let sojourns = each("--sojourn-max", &args.sojourn_max, count)?;
    let trusted = which("--trusted", &args.trusted, count)?;
    let client = |at: usize| ClientOptions {
        load_bps: loads[at],
        limit_bps: limits[at],
        rx_queue: rx_queues[at] as u32,
        tx_queue: tx_queues[at] as u32,
        guarantee: guarantees[at].min(rx_queues[at]) as u32,
        sojourn_max_us: sojourns[at].or_else(|| limits[at].map(|_| SOJOURN_MAX_US)),
        niceness: 0,
        rounds: None,
        is_trusted: trusted[at],
    };
    if let Some(rate) = args.wire_rate.filter(|rate| *rate < WIRE_BPS_MIN) {
        bail!(
            "--wire-rate {rate}: 1M at least: what waits in its ports, 512 KiB each way, is waited for"
        );
    }
    if args.duration < Duration::from_millis(100) {
        bail!("--duration {:?}: 100ms at least", args.duration);
    }
    if args.raw && args.workload != WorkloadArg::Echo {
        bail!("--raw: clients without a stack have the workload echo alone; leave one of both out");
    }
    let sizes = if args.raw { FRAME_BYTES } else { SIZE_BYTES };
    let size = args.size.unwrap_or(*sizes.end());
    if !sizes.contains(&size) {
        let of = if args.raw { "of a frame" } else { "of payload" };
        bail!(
            "--size {size}: give {} to {} bytes {of}",
            sizes.start(),
            sizes.end()
        );
    }
    let clients: Vec<_> = (0..count).map(client).collect();
    let guaranteed: u32 = clients.iter().map(|client| client.guarantee).sum();
    if let Some(buffers) = args.receive_buffers.filter(|buffers| *buffers < guaranteed) {
        bail!(
            "--receive-buffers {buffers}: the clients are guaranteed {guaranteed} of them; give as many or more, or less by --guarantee"
        );
    }
    Ok(Options {
        program: std::env::current_exe().context("finding this program")?,
        workload: args.workload.workload(),
        policy: args.policy,
        clients,
        is_raw: args.raw,
        size_bytes: usize::from(size),
        duration: args.duration,
        receive_buffers: args
            .receive_buffers
            .unwrap_or_else(|| mux::receive_buffers(count)),
        wire_bps: args.wire_rate,
        link_bps: args.link_rate,
        gather_us: args.gather_us,
        real_time: args.real_time,
        driver_threads: args.driver_threads,
        has_baseline: !args.no_baseline,
        has_soaker: !args.no_soaker,
        placement: Placement::default(),
    })
}

pub(crate) fn run(args: &MuxBenchArgs) -> Result<ExitCode> {
    carry_out(options(args)?, args.format, To::Stdout, print)
}

/// Round trips in words, if there was one.
fn round_trip(rtt_ns: &serde_json::Value) -> String {
    let us = ["p50", "p99", "p999"].map(|key| rtt_ns[key].as_f64().map(|ns| ns / 1e3));
    match us {
        [Some(p50), Some(p99), Some(p999)] => {
            format!("round trip p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0} us")
        }
        _ => "no round trip".to_owned(),
    }
}

fn print(record: &Record<MuxBenchSummary>) {
    let summary = &record.summary;
    let rate = |bps: f64| si(bps, "bit/s");
    for client in &summary.clients {
        let trusted = if client.is_trusted { " (trusted)" } else { "" };
        print_line(format_args!(
            "{}{trusted}: {} requested, {} achieved; {}; longest wait to be sent {} us",
            client.name,
            rate(client.requested_bps),
            rate(client.achieved_bps),
            round_trip(&client.rtt_ns),
            client.sojourn_ns_max / 1000,
        ));
        for (reason, packets) in &client.drops {
            print_line(format_args!("  {reason}: {packets}"));
        }
    }
    let soaker = summary.cpu_fraction_soaker;
    let soaker = soaker.map_or(String::new(), |it| {
        format!(" (soaker: {:.0} %)", it * 100.0)
    });
    print_line(format_args!(
        "{} in all, {:.0} % of {} CPUs used{soaker}; {:.0} packets per CPU-second of the daemon (driver threads: {}), {:.4} signals per packet",
        rate(summary.achieved_bps),
        summary.cpu_fraction * 100.0,
        cpu_count(),
        summary.packets_per_cpu_second,
        summary.driver_threads,
        summary.signals_per_packet,
    ));
    if let Some(sockets) = &summary.baseline {
        print_line(format_args!(
            "sockets: {} in all, {:.0} % used; {}; {:.0} packets per CPU-second of their programs",
            rate(sockets.achieved_bps),
            sockets.cpu_fraction * 100.0,
            round_trip(&sockets.rtt_ns),
            sockets.packets_per_cpu_second,
        ));
    }
    for check in &summary.disagreements {
        print_line(format_args!(
            "NOT THE SAME: {}: {} and {}",
            check.what, check.one, check.other
        ));
    }
    print_closing(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_one_client_or_of_all() {
        let all = [named("16").unwrap(), named("B=32").unwrap()];
        let values = each("--rx-queue", &all, 3).unwrap();
        assert_eq!(values, [Some(16), Some(32), Some(16)]);
        assert_eq!(each("--rx-queue", &[], 2).unwrap(), [None, None]);
        let error = each("--rx-queue", &[named("C=1").unwrap()], 2).unwrap_err();
        assert!(error.to_string().contains("no client C"), "{error}");
        for wrong in ["", "x", "B=", "B=100MB"] {
            assert!(named(wrong).unwrap_err().contains("B=100M"), "{wrong}");
        }
        let limits = (5, 1..=10);
        let error = each_within("--x", &[named("11").unwrap()], 1, limits.clone()).unwrap_err();
        assert!(error.to_string().contains("1 to 10"), "{error}");
        assert_eq!(each_within("--x", &[], 1, limits).unwrap(), [5]);
    }

    #[test]
    fn a_name_is_of_one_client_and_no_name_of_all() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let which = |said: &[&str]| which("--trusted", &names(said), 3);
        assert_eq!(which(&[]).unwrap(), [false; 3]);
        assert_eq!(which(&["B"]).unwrap(), [false, true, false]);
        assert_eq!(which(&["B", ""]).unwrap(), [true; 3]);
        let error = which(&["D"]).unwrap_err().to_string();
        assert!(error.contains("no client D"), "{error}");
    }

    #[test]
    fn policies_are_those_of_the_file() {
        assert_eq!(policy("round-robin"), Ok(PolicyChoice::RoundRobin));
        assert!(policy("fair").unwrap_err().contains("signalled"));
    }
}
