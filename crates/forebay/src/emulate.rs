//! `forebay emulate`: sources that send what real ones would.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use forebay_run::generator::{self, GeneratorPlan};

use crate::output::{Format, bytes, parse_bytes, parse_duration, print_line};

/// Sends what real sources would.
#[derive(Debug, clap::Args)]
pub(crate) struct EmulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Hades(HadesArgs),
}

/// Soft readouts of HADES: each source a socket of its own, source n to port BASE+n.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay emulate hades --group 60:116 20:338 10:1170 --rate 4000 --duration 10s"
)]
struct HadesArgs {
    /// Where to send to.
    #[arg(long, default_value = "127.0.0.1")]
    dest: IpAddr,
    /// First UDP port.
    #[arg(long, default_value_t = 50000)]
    base_port: u16,
    /// Groups of sources, as COUNT:BYTES or COUNT:BYTES:SIGMA (bytes of a sub-event with its 16-byte header).
    #[arg(long, num_args = 1.., required = true, value_name = "COUNT:BYTES", value_parser = parse_group)]
    group: Vec<(usize, u32, f64)>,
    /// Water mark in bytes; 0: one sub-event per datagram.
    #[arg(long, default_value = "32Ki", value_parser = parse_bytes)]
    water_mark: u64,
    /// Triggers per second.
    #[arg(long, default_value_t = 4000.0)]
    rate: f64,
    /// Random distances between triggers.
    #[arg(long)]
    poisson: bool,
    /// Every N-th sub-event of each source is huge; 0: none.
    #[arg(long, default_value_t = 0, value_name = "N")]
    huge_every: u32,
    /// Size of a huge sub-event in bytes.
    #[arg(long, default_value = "100000", value_parser = parse_bytes)]
    huge_size: u64,
    /// Longest time a partly filled queue is held back.
    #[arg(long, default_value = "200ms", value_parser = parse_duration)]
    flush: Duration,
    /// Width of the trigger number, 16 or 24.
    #[arg(long, default_value_t = 24)]
    trigger_bits: u32,
    /// First trigger number.
    #[arg(long, default_value_t = 0)]
    first_trigger: u32,
    /// How long to send.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Number of triggers, if that ends the run.
    #[arg(long)]
    events: Option<u64>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_group(text: &str) -> Result<(usize, u32, f64), String> {
    let wrong = || format!("{text:?} is no group; write it as 60:116 or 20:338:34");
    let mut parts = text.split(':');
    let mut part = || parts.next();
    let count = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
    let size = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
    let sigma = part().map_or(Ok(0.0), |p| p.parse().map_err(|_| wrong()))?;
    if part().is_some() {
        Err(wrong())
    } else {
        Ok((count, size, sigma))
    }
}

pub(crate) fn run(args: &EmulateArgs) -> Result<ExitCode> {
    let What::Hades(args) = &args.what;
    let mut plan = GeneratorPlan::test2(SocketAddr::new(args.dest, args.base_port), args.rate);
    plan.groups.clone_from(&args.group);
    plan.poisson = args.poisson;
    plan.water_mark_bytes = u32::try_from(args.water_mark)
        .ok()
        .filter(|bytes| *bytes > 0);
    plan.flush_ms = u64::try_from(args.flush.as_millis()).unwrap_or(u64::MAX);
    plan.huge_every = args.huge_every;
    plan.huge_bytes = u32::try_from(args.huge_size).context("--huge-size is too large")?;
    plan.trigger_bits = args.trigger_bits;
    plan.first_trigger = args.first_trigger;
    plan.duration_ms = u64::try_from(args.duration.as_millis()).ok();
    plan.events = args.events;
    plan.seed = args.seed;
    let signals = forebay_run::signals()?;
    let report = generator::run(&plan, None, forebay_ledger::Leak::off(), || {
        signals.count() > 0
    })?;
    match args.format {
        Format::Json => print_line(format_args!("{}", serde_json::to_string(&report)?)),
        Format::Text => print_line(format_args!(
            "{} events, {} sub-events, {} datagrams ({} refused), {} in {:.2} s{}",
            report.events_sent,
            report.subevents_sent,
            report.datagrams_sent,
            report.datagrams_refused,
            bytes(report.bytes_sent as f64),
            report.duration_s,
            if report.behind {
                "; the emulator could not keep up"
            } else {
                ""
            },
        )),
    }
    Ok(ExitCode::SUCCESS)
}
