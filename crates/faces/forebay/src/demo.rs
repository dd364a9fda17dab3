//! `forebay demo`: the main job in one command.

mod mux;
mod probe;
mod tohost;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_ledger::TaintKind;
use forebay_run::RunError;
use forebay_run::hops::text_from_env;
use forebay_run::ports::nth_port;
use forebay_run_evb::config::IoWord;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::presets;
use forebay_run_evb::supervisor::Supervisor;
use forebay_run_hades::GeneratorPlan;
use forebay_run_hades::verify;

use crate::output::{Format, parse_bytes};
use crate::range;
use crate::session::{Manner, carry_out, check_leak_of_stages, conclude, run_id, stall_from_env};
use forebay_report::text::bytes;

/// Runs the main job on this machine: emulated sources, receiver, builder, files, and the balance sheet.
///
/// Sources send HADES sub-events over real UDP sockets on 127.0.0.1, in the sizes of HADES' "Test-2": of 90 sources 60 send
/// 116 B, 20 send 338 B and 10 send 1170 B per trigger. Generator, receiver and builder are three processes.
/// Exits with 0 when the books close and the files verify, 1 when not, 3 with --strict when anything was lost.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: forebay demo --rate 20000 --duration 5s --out /tmp/demo"
)]
pub(crate) struct DemoArgs {
    /// Another job than the event builder's.
    #[command(subcommand)]
    job: Option<Job>,
    /// Number of sources, 1 to 1024, in the proportions of Test-2.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sources: u16,
    /// Triggers per second.
    #[arg(long, default_value_t = 4000.0, value_parser = range::rate, allow_hyphen_values = true)]
    rate: f64,
    /// How long to run.
    #[arg(long, default_value = "15s", value_parser = range::duration)]
    duration: Duration,
    /// Directory for files, ledger and record.
    #[arg(long, default_value = "forebay-demo", value_name = "DIR")]
    out: PathBuf,
    /// Water mark of the sources in bytes; 0: one sub-event per datagram.
    #[arg(long, default_value = "32Ki", value_name = "SIZE", value_parser = range::water_mark)]
    water_mark: u32,
    /// Sends every N-th sub-event of each source as a huge one.
    #[arg(long, default_value_t = 0, value_name = "N")]
    huge_every: u32,
    /// Size of a huge sub-event in bytes.
    #[arg(long, default_value = "100000", value_name = "SIZE", value_parser = range::sub_event)]
    huge_size: u32,
    /// Where events go.
    #[arg(long, value_enum, default_value_t)]
    sink: SinkChoice,
    /// Writes files past the page cache, or through it; without it past it where the file system does that.
    #[arg(long, value_enum)]
    file_io: Option<IoChoice>,
    /// Runs the stages as threads of one process.
    #[arg(long)]
    threads: bool,
    /// First UDP port; without it the first free range from 50000 on.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    base_port: Option<u16>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Receive buffer of each socket in bytes.
    #[arg(long, hide = true, value_parser = parse_bytes)]
    socket_buffer: Option<u64>,
    /// Lets the kernel merge datagrams.
    #[arg(long, hide = true)]
    gro: bool,
    /// Serves Prometheus' text at GET /metrics there, as 127.0.0.1:9400.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket_or_port)]
    metrics: Option<std::net::SocketAddr>,
    /// Exits with 3 when anything was lost, even by name.
    #[arg(long)]
    strict: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Job {
    #[command(name = "tohost")]
    ToHost(tohost::ToHostArgs),
    Probe(probe::ProbeArgs),
    Mux(mux::MuxArgs),
}

/// Where events go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SinkChoice {
    /// HLD files.
    #[default]
    File,
    /// Nowhere: counted and forgotten.
    Null,
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IoChoice {
    /// Past the page cache.
    Direct,
    /// Through it.
    Buffered,
}

/// First ports that are tried.
const BASE_PORTS: std::ops::Range<u16> = 50..64;

pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    match &args.job {
        Some(Job::ToHost(args)) => return tohost::run(args),
        Some(Job::Probe(args)) => return probe::run(args),
        Some(Job::Mux(args)) => return mux::run(args),
        None => {}
    }
    check_leak_of_stages()?;
    let manner = Manner {
        duration: None,
        processes: !args.threads,
        format: args.format,
        strict: args.strict,
    };
    let supervisor = open(args, manner.processes)?;
    let _metrics = crate::metrics::serve(args.metrics, supervisor.reader())?;
    let done = carry_out(supervisor, &manner)?;
    let found = verify::verify(&done.record.files, done.details.plan.generator.as_ref())?;
    let events = done.record.events_built + done.record.events_partial;
    let lost = done
        .details
        .verdict
        .balance
        .accounts
        .iter()
        .filter(|line| line.place == "sink" || line.place == "offer");
    let lost: u64 = lost
        .flat_map(|line| &line.dropped)
        .map(|drop| drop.items)
        .sum();
    let whole = args.sink == SinkChoice::Null || found.events + lost == events;
    // Without its emulator a demo shows nothing.
    let complete = !done.record.envelope.is_tainted(TaintKind::StageLost);
    let good = found.is_good() && whole && complete;
    let text = (args.sink == SinkChoice::File).then(|| {
        format!(
            "Read back: {} events, {} sub-events, {} in {} file(s); {} broken, {} with a wrong payload{}",
            found.events,
            found.subevents,
            bytes(found.bytes as f64),
            found.files,
            found.broken,
            found.payload_mismatches,
            if whole { "" } else { ": NOT what was built" },
        )
    });
    conclude(
        &done,
        &manner,
        (good, text.as_deref()),
        serde_json::json!({ "verified": found }),
    )
}

/// Opens the run on the first free range of ports.
fn open(args: &DemoArgs, processes: bool) -> Result<Supervisor> {
    let candidates: Vec<u16> = args.base_port.map_or_else(
        || BASE_PORTS.map(|thousand| thousand * 1000).collect(),
        |port| vec![port],
    );
    let mut last = None;
    let sources = usize::from(args.sources);
    for base_port in candidates {
        nth_port(base_port, sources.saturating_sub(1), sources)?;
        match Supervisor::open(plan(args, base_port), processes) {
            Ok(supervisor) => return Ok(supervisor),
            Err(RunError::System(error)) if error.kind() == std::io::ErrorKind::AddrInUse => {
                last = Some(error)
            }
            Err(error) => return Err(error.into()),
        }
    }
    match last {
        Some(error) => Err(error.into()),
        None => bail!("no port to try"),
    }
}

fn plan(args: &DemoArgs, base_port: u16) -> Plan {
    let sources = usize::from(args.sources);
    let local = std::net::Ipv4Addr::LOCALHOST;
    let mut plan = presets::plan(&run_id(), &args.out, local.into(), base_port, sources);
    plan.sinks = vec![match args.sink {
        SinkChoice::File => presets::file_sink(args.out.clone(), "be"),
        SinkChoice::Null => presets::null_sink(),
    }];
    for sink in &mut plan.sinks {
        let io = args.file_io.map(|io| match io {
            IoChoice::Direct => IoWord::Direct,
            IoChoice::Buffered => IoWord::Buffered,
        });
        sink.change(|said| said.io = io);
    }
    plan.leak = text_from_env();
    plan.stall = stall_from_env();
    tune(&mut plan, args.socket_buffer, args.gro);
    let mut generator = GeneratorPlan::test2((local, base_port).into(), args.rate);
    generator.groups = mix(sources);
    generator.water_mark_bytes = Some(args.water_mark).filter(|bytes| *bytes > 0);
    generator.huge_every = args.huge_every;
    generator.huge_bytes = args.huge_size;
    generator.duration_ms = u64::try_from(args.duration.as_millis()).ok();
    generator.seed = args.seed;
    plan.generator = Some(generator);
    plan
}

/// Settings of the sockets that a run can do without.
pub(crate) fn tune(plan: &mut Plan, socket_buffer: Option<u64>, gro: bool) {
    if let Some(bytes) = socket_buffer {
        plan.receiver.socket_buffer_bytes = usize::try_from(bytes).ok();
    }
    plan.receiver.gro |= gro;
}

/// The sizes of Test-2 for any number of sources: two thirds small, two ninths middle, the rest large.
fn mix(sources: usize) -> Vec<(usize, u32, f64)> {
    let middle = sources * 2 / 9;
    let large = sources / 9;
    let groups = [
        (sources - middle - large, 116, 0.0),
        (middle, 338, 0.0),
        (large, 1170, 0.0),
    ];
    groups.into_iter().filter(|group| group.0 > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_sources_are_the_mix_of_test_2() {
        assert_eq!(
            mix(90),
            vec![(60, 116, 0.0), (20, 338, 0.0), (10, 1170, 0.0)]
        );
        for sources in [1, 2, 9, 95, 96, 1024] {
            assert_eq!(
                mix(sources).iter().map(|group| group.0).sum::<usize>(),
                sources
            );
        }
    }
}
