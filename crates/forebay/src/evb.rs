//! `forebay evb`: builds events from real traffic.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run::plan::{Backpressure, CompletionName, Plan, SinkKind};
use forebay_run::presets;
use forebay_run::supervisor::Supervisor;

use crate::output::{Format, parse_bytes, parse_duration};
use crate::session::{Manner, carry_out, conclude, leak_from_env, run_id};

/// Receives sub-events of many sources over UDP, builds events and records them.
///
/// Source n is received on port BASE+n. Listens on 127.0.0.1 unless --bind says otherwise. Ends after --duration, or by Ctrl-C or
/// SIGTERM, with the last complete event written and the books closed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay evb --sources 4 --base-port 50000 --out run1 --duration 10s"
)]
pub(crate) struct EvbArgs {
    /// Number of sources, 1 to 1024.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sources: u16,
    /// First UDP port.
    #[arg(long, default_value_t = 50000)]
    base_port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Ends the run after this time.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    build: BuildArgs,
}

/// What `evb` and `replay` share.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// Directory for files, ledger and record.
    #[arg(long, default_value = "forebay-run", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// What becomes of events that lack a source.
    #[arg(long, value_enum, default_value_t)]
    completion: CompletionChoice,
    /// Whether the sub-events of an event must carry the same tag.
    #[arg(long, value_enum, default_value_t)]
    check_tag: Switch,
    /// Width of the trigger number.
    #[arg(long, default_value_t = 24, value_parser = parse_trigger_bits)]
    trigger_bits: u32,
    /// Longest wait for a source; 1 s unless a capture is replayed, whose time is not ours.
    #[arg(long, value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Where events go: file, null, or tcp://HOST:PORT for a `forebay mover`. May be given several times.
    #[arg(long, value_name = "SINK", value_parser = parse_sink)]
    sink: Vec<SinkArg>,
    /// What becomes of events when a sink's queue is full: drop, or block=TIME for at most so long. Without it files block for 10 s,
    /// and a mover's events are dropped.
    #[arg(long, value_name = "POLICY", value_parser = parse_backpressure)]
    sink_full: Option<Backpressure>,
    /// How long a silent mover is waited for.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    mover_timeout: Duration,
    /// Letters at the front of file names.
    #[arg(long, default_value = "be")]
    prefix: String,
    /// Size at which a new file begins; 0: never.
    #[arg(long, default_value = "2G", value_parser = parse_bytes)]
    file_size: u64,
    /// Number of events after which a new file begins; 0: never.
    #[arg(long, default_value_t = 0)]
    file_events: u64,
    /// Time after which a new file begins.
    #[arg(long, value_parser = parse_duration)]
    file_time: Option<Duration>,
    /// Runs the stages as threads of one process.
    #[arg(long)]
    threads: bool,
    /// Exits with 3 when anything was lost, even by name.
    #[arg(long)]
    strict: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// A switch that is named on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    #[default]
    On,
    /// No.
    Off,
}

/// Completion policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CompletionChoice {
    /// Each event waits for every source, up to the time-out.
    Wait,
    /// What came is written and flagged.
    #[default]
    Partial,
    /// Only complete events are written.
    Discard,
}

/// Where events go, as named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinkArg {
    File,
    Null,
    Tcp(SocketAddr),
}

fn parse_sink(text: &str) -> Result<SinkArg, String> {
    match text {
        "file" => return Ok(SinkArg::File),
        "null" => return Ok(SinkArg::Null),
        _ => {}
    }
    let address = text
        .strip_prefix("tcp://")
        .ok_or_else(|| format!("{text:?} is no sink; write file, null or tcp://HOST:PORT"))?;
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| format!("{address:?} is no address of a mover: {error}"))?;
    let first = found.next().map(SinkArg::Tcp);
    first.ok_or_else(|| format!("{address:?} has no address"))
}

fn parse_backpressure(text: &str) -> Result<Backpressure, String> {
    if text == "drop" {
        return Ok(Backpressure::Drop);
    }
    let limit = text
        .strip_prefix("block=")
        .ok_or_else(|| format!("{text:?} is no policy; write drop or block=10s"))?;
    let limit_ms = u64::try_from(parse_duration(limit)?.as_millis()).unwrap_or(u64::MAX);
    Ok(Backpressure::Block { limit_ms })
}

fn parse_trigger_bits(text: &str) -> Result<u32, String> {
    match text {
        "16" => Ok(16),
        "24" => Ok(24),
        _ => Err(format!("{text:?} is neither 16 nor 24")),
    }
}

impl BuildArgs {
    /// Writes the arguments into a plan.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        let builder = &mut plan.builder;
        builder.completion = match self.completion {
            CompletionChoice::Wait => CompletionName::Wait,
            CompletionChoice::Partial => CompletionName::Partial,
            CompletionChoice::Discard => CompletionName::Discard,
        };
        builder.check_tag = self.check_tag == Switch::On;
        builder.trigger_bits = self.trigger_bits;
        builder.window_events = builder.window_events.min(1 << (self.trigger_bits - 2));
        if let Some(timeout) = self.timeout {
            builder.timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        }
        let chosen = if self.sink.is_empty() {
            &[SinkArg::File][..]
        } else {
            &self.sink
        };
        plan.sinks = chosen
            .iter()
            .enumerate()
            .map(|(index, choice)| self.sink(index, *choice))
            .collect();
        plan.leak = leak_from_env();
    }

    fn sink(&self, index: usize, choice: SinkArg) -> forebay_run::plan::SinkPlan {
        let mut sink = match choice {
            SinkArg::Null => presets::null_sink(),
            SinkArg::Tcp(peer) => presets::tcp_sink(peer),
            SinkArg::File => presets::file_sink(self.out.clone(), &self.prefix),
        };
        let seconds = self.file_time.map_or(0, |time| time.as_secs().max(1));
        match &mut sink.kind {
            SinkKind::File(file) => {
                file.bytes_max = self.file_size;
                file.events_max = self.file_events;
                file.seconds_max = seconds;
            }
            SinkKind::Tcp(tcp) => {
                tcp.bytes_max = self.file_size;
                tcp.events_max = self.file_events;
                tcp.seconds_max = seconds;
                tcp.patience_ms = u64::try_from(self.mover_timeout.as_millis()).unwrap_or(u64::MAX);
            }
            SinkKind::Null => {}
        }
        if let Some(policy) = self.sink_full
            && sink.kind != SinkKind::Null
        {
            sink.backpressure = policy;
        }
        if index > 0 {
            sink.name = format!("{}{}", sink.name, index + 1);
        }
        sink
    }

    /// How the run is carried out.
    pub(crate) fn manner(&self, duration: Option<Duration>) -> Manner {
        Manner {
            duration,
            processes: !self.threads,
            format: self.format,
            strict: self.strict,
        }
    }
}

pub(crate) fn run(args: &EvbArgs) -> Result<ExitCode> {
    let manner = args.build.manner(args.duration);
    let mut plan = presets::plan(
        &run_id(),
        &args.build.out,
        args.bind,
        args.base_port,
        usize::from(args.sources),
    );
    args.build.apply(&mut plan);
    let supervisor = Supervisor::open(plan, manner.processes)?;
    let done = carry_out(supervisor, &manner)?;
    conclude(&done, &manner, true, serde_json::json!({}))
}
