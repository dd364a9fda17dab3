//! `forebay demo tohost`: the whole chain of link readout in one command.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_run::Stop;
use forebay_run::hops::{VARIABLE, part_of};
use forebay_run_emu::demo::{self, DemoPlan, DemoSummary};
use forebay_run_emu::hops::DEMO_TOHOST;
use forebay_run_net::Address;

use crate::output::{Format, note_line, print_line};
use crate::range;
use crate::totals::exit_code;
use forebay_report::text::{bytes, si};
use forebay_run::hops::text_from_env;

/// Runs link readout on this machine: an emulated card, to-host and a subscriber, as three processes.
///
/// The card makes a chunk on each of its links (FULL mode, 9.6 Gb/s) for every trigger, and writes them as blocks into DMA buffers in shared memory; to-host decodes
/// these and publishes the chunks by E-link; the subscriber checks every byte and every trigger number. Then the books of the three are held against each other.
/// A trigger that a link has no room for is held back by BUSY, as by a real card; it is no loss.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay demo tohost --links 12 --trigger-hz 100000 --chunk-bytes 64 --duration 5s\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done."
)]
pub(crate) struct ToHostArgs {
    /// Links, 1 to 24.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=24))]
    links: u16,
    /// DMA buffers, 1 to 8; links take turns in them.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=8))]
    dma_buffers: u16,
    /// Triggers asked for per second.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    trigger_hz: u64,
    /// Size of a chunk, 8 to 65,535 bytes.
    #[arg(long, default_value = "16", value_name = "SIZE", value_parser = chunk_bytes)]
    chunk_bytes: u32,
    /// How long triggers come.
    #[arg(long, default_value = "10s", value_parser = range::duration)]
    duration: Duration,
    /// Size of a block: 1Ki, 2Ki, 4Ki, 8Ki or 16Ki.
    #[arg(long, default_value = "4Ki", value_name = "SIZE", value_parser = block_bytes)]
    block_bytes: u32,
    /// Where the first DMA buffer is published; the others follow. Without it shared memory.
    #[arg(long, value_name = "ADDRESS")]
    backend: Option<Address>,
    /// How much slower than real time the card lives: what this host cannot move in real time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    time_dilation: u64,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the files of the chain, ledgers and records.
    #[arg(long, default_value = "forebay-demo-tohost", value_name = "DIR")]
    out: PathBuf,
    /// Serves Prometheus' text of the card at GET /metrics there, as 127.0.0.1:9401, and of to-host and the subscriber at the next two ports.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics)]
    metrics: Option<SocketAddr>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn metrics(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if (1..=65_533).contains(&address.port()) => Ok(address),
        _ => Err("write an address and the first of three ports, as 127.0.0.1:9401".into()),
    }
}

fn chunk_bytes(text: &str) -> Result<u32, String> {
    match crate::output::parse_bytes(text)? {
        bytes @ 8..=65_535 => Ok(bytes as u32),
        _ => Err("write a size from 8 to 65535 bytes".into()),
    }
}

fn block_bytes(text: &str) -> Result<u32, String> {
    match crate::output::parse_bytes(text)? {
        bytes @ (1024 | 2048 | 4096 | 8192 | 16_384) => Ok(bytes as u32),
        _ => Err("write 1Ki, 2Ki, 4Ki, 8Ki or 16Ki".into()),
    }
}

pub(crate) fn run(args: &ToHostArgs) -> Result<ExitCode> {
    let backend = match &args.backend {
        Some(address) => address.clone(),
        None => format!("shm://forebay-demo-{}", std::process::id()).parse()?,
    };
    let leak = match text_from_env() {
        Some(text) => {
            let member = part_of(&text, &DEMO_TOHOST).context(VARIABLE)?;
            Some((member.to_owned(), text))
        }
        None => None,
    };
    let plan = DemoPlan {
        links: args.links,
        dma_buffers: args.dma_buffers.min(args.links),
        trigger_hz: args.trigger_hz,
        chunk_bytes: args.chunk_bytes,
        duration_ms: (args.duration.as_millis() as u64).max(1),
        block_bytes: args.block_bytes,
        backend,
        time_dilation: args.time_dilation,
        seed: args.seed,
        out: args.out.clone(),
        metrics: args.metrics,
        leak,
    };
    if args.format == Format::Text {
        note_line(format_args!(
            "{} links, {} at {}, chunks of {}, for {:?}{}; records in {}",
            plan.links,
            plan.dma_buffers,
            si(plan.trigger_hz as f64, "Hz"),
            bytes(plan.chunk_bytes.into()),
            args.duration,
            if plan.time_dilation > 1 {
                format!(
                    " of the card's time, which is {} times slower",
                    plan.time_dilation
                )
            } else {
                String::new()
            },
            plan.out.display(),
        ));
    }
    let stop = Stop::of_process()?;
    let summary = demo::run(&plan, &stop, |text| {
        note_line(format_args!("forebay: {text}"));
    })?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&summary)?),
        Format::Text => print(&summary),
    }
    for failed in &summary.failed {
        note_line(format_args!("forebay: {failed}"));
    }
    Ok(exit_code(
        summary.books.is_closed(),
        summary.failed.is_empty(),
    ))
}

fn print(summary: &DemoSummary) {
    let lines = [
        ("triggers", summary.triggers),
        ("held back: a link is full", summary.held_by_link),
        ("held back: a DMA buffer is full", summary.held_by_dma),
        ("chunks expected", summary.chunks_expected),
        ("chunks published", summary.chunks_published),
        ("chunks received", summary.chunks_received),
        ("cut off", summary.chunks_truncated),
        ("with a wrong payload", summary.payload_mismatches),
    ];
    for (name, count) in lines {
        print_line(format_args!("{name:32}{count:>16}"));
    }
    for (reason, count) in &summary.drops {
        match reason.ends_with("no_subscriber") {
            true => print_line(format_args!("not subscribed: {reason:16}{count:>16}")),
            false => print_line(format_args!("lost: {reason:26}{count:>16}")),
        }
    }
    for (place, rest) in &summary.residuals {
        print_line(format_args!("LEFT OVER: {place:21}{rest:>16}"));
    }
    print_line(format_args!(
        "{} triggers, {} chunks; BUSY {:.2} % of the time{}",
        si(summary.trigger_rate_hz, "Hz"),
        si(summary.chunk_rate_hz, "Hz"),
        100.0 * summary.busy_fraction,
        if summary.host_limited {
            "; this host was the limit"
        } else {
            ""
        }
    ));
    let latency = |name: &str| summary.latency_ns.as_ref()?.get(name)?.as_f64();
    if let (Some(median), Some(p99)) = (latency("p50"), latency("p99")) {
        print_line(format_args!(
            "trigger to subscriber: median {:.3} ms, 99 % {:.3} ms",
            median / 1e6,
            p99 / 1e6
        ));
    }
    let cpu = summary.cpu_s.iter();
    let cpu: Vec<String> = cpu.map(|(name, s)| format!("{name} {s:.2} s")).collect();
    print_line(format_args!("CPU: {}", cpu.join(", ")));
    print_line(summary.closing());
}
