//! `forebay evb`: builds events from real traffic.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_run::hops::text_from_env;
use forebay_run::ports::nth_port;
use forebay_run_evb::config::needs::Memory;
use forebay_run_evb::config::{self, Chain, SinkSettings};
use forebay_run_evb::plan::{Backpressure, BuilderPlan, Plan, SinkKind, SinkPlan};
use forebay_run_evb::presets;
use forebay_run_evb::supervisor::Supervisor;

use crate::flags::Flags;
use crate::metrics;
use crate::output::{Format, parse_bytes};
use crate::range;
use crate::session::{Manner, carry_out, check_leak_of_stages, conclude, run_id, stall_from_env};
use crate::set::SetArg;

/// Receives sub-events of many sources over UDP, or chunks of E-links that to-host publishes, builds events and records them.
///
/// A chain file says everything (see `forebay check`); flags take precedence over it. Without a file, source n is received on port
/// BASE+n. Listens on 127.0.0.1 unless told otherwise. Ends after its duration, or by Ctrl-C or SIGTERM, with the last complete event
/// written and the books closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  forebay evb --sources 4 --base-port 50000 --out run1 --duration 10s
  forebay evb examples/chunks.toml")]
pub(crate) struct EvbArgs {
    /// Chain file in TOML.
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) set: SetArg,
    /// Number of sources, 1 to 1024; in the place of all sources of the file.
    #[arg(long, required_unless_present = "file", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sources: Option<u16>,
    /// First UDP port; without a file 50000.
    #[arg(long)]
    base_port: Option<u16>,
    /// Address to listen on; without a file 127.0.0.1.
    #[arg(long, value_name = "ADDR", value_parser = crate::address::host)]
    bind: Option<IpAddr>,
    /// Ends the run after this time.
    #[arg(long, value_parser = range::duration)]
    duration: Option<Duration>,
    /// Serves Prometheus' text at GET /metrics there, as 127.0.0.1:9400.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket_or_port)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    build: BuildArgs,
}

/// Keys of sinks that only those have that write files here.
const FILE_KEYS: [&str; 2] = ["prefix", "io"];

/// What `evb` and `replay` share.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// Directory for files, ledger and record; forebay-run unless a file says otherwise.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    builder: Flags<BuilderPlan>,
    /// Where events go: file, null, or tcp://HOST:PORT for a `forebay mover`; may be given several times. Several sinks stall one
    /// another in nothing: each drops events, counted, when its queue is full. A single one holds the builder for up to
    /// 10 s before it does.
    #[arg(long, value_name = "SINK", value_parser = parse_sink)]
    sink: Vec<SinkArg>,
    /// What a full queue of a sink does instead: drop, or block=TIME for at most so long.
    #[arg(long, value_name = "POLICY", value_parser = parse_backpressure)]
    sink_full: Option<Backpressure>,
    #[command(flatten)]
    sinks: Flags<SinkSettings>,
    /// Runs the stages as threads of one process.
    #[arg(long)]
    threads: bool,
    /// Exits with 3 when anything was lost, even by name.
    #[arg(long)]
    strict: bool,
    /// Receive buffer of each socket in bytes.
    #[arg(long, hide = true, value_parser = parse_bytes)]
    socket_buffer: Option<u64>,
    /// Lets the kernel merge datagrams.
    #[arg(long, hide = true)]
    gro: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
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
    let peer = crate::address::socket(address)?;
    if peer.port() == 0 {
        return Err(
            "port 0 is none that can be connected to; write that of the mover's --listen".into(),
        );
    }
    Ok(SinkArg::Tcp(peer))
}

fn parse_backpressure(text: &str) -> Result<Backpressure, String> {
    if text == "drop" {
        return Ok(Backpressure::Drop);
    }
    let limit = text
        .strip_prefix("block=")
        .ok_or_else(|| format!("{text:?} is no policy; write drop or block=10s"))?;
    let limit_ms = range::number(range::key::<SinkSettings>("block_ms_max"), limit)?;
    Ok(Backpressure::Block { limit_ms })
}

pub(crate) fn parse_trigger_bits(text: &str) -> Result<u32, String> {
    match text {
        "16" => Ok(16),
        "24" => Ok(24),
        _ => Err(format!("{text:?} is neither 16 nor 24")),
    }
}

impl BuildArgs {
    fn says_flags(&self) -> bool {
        self.out.is_some()
            || !self.builder.is_empty()
            || !self.sink.is_empty()
            || self.sink_full.is_some()
            || !self.sinks.is_empty()
            || self.threads
            || self.strict
            || self.socket_buffer.is_some()
            || self.gro
    }

    /// Directory of the run, unless a file names another.
    pub(crate) fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new("forebay-run"))
    }

    /// Writes what is given into a plan.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<()> {
        let builder = &mut plan.builder;
        self.builder.apply(builder);
        builder.window_events = builder.window_events.min(1 << (builder.trigger_bits - 2));
        if let Some(out) = &self.out {
            move_run(plan, out);
        }
        self.apply_sinks(plan)?;
        plan.leak = text_from_env();
        plan.stall = stall_from_env();
        crate::demo::tune(plan, self.socket_buffer, self.gro);
        Ok(())
    }

    /// Sinks named on the command line take the place of all others.
    fn apply_sinks(&self, plan: &mut Plan) -> Result<()> {
        if !self.sink.is_empty() {
            let chosen = self.sink.iter().enumerate();
            plan.sinks = chosen
                .map(|(index, choice)| sink(&plan.run_dir, index, *choice))
                .collect();
            if let [_, _, ..] = plan.sinks.as_slice() {
                plan.sinks
                    .iter_mut()
                    .for_each(|sink| sink.backpressure = Backpressure::Drop);
            }
        } else if plan.sinks.is_empty() {
            plan.sinks = vec![sink(&plan.run_dir, 0, SinkArg::File)];
        }
        for sink in &mut plan.sinks {
            if sink.kind != SinkKind::Null {
                sink.backpressure = self.sink_full.unwrap_or(sink.backpressure);
            }
            sink.change(|said| self.sinks.apply(said));
        }
        let writes_files = |sink: &SinkPlan| matches!(sink.kind, SinkKind::File(_));
        for key in FILE_KEYS {
            if let Some(flag) = self.sinks.said(key)
                && !plan.sinks.iter().any(writes_files)
            {
                bail!(
                    "--{flag} has no meaning: no sink of this run writes files here; take it out, or add --sink file"
                );
            }
        }
        Ok(())
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

/// The sink of that kind, with a name of its own from the second one on.
fn sink(run_dir: &Path, index: usize, choice: SinkArg) -> SinkPlan {
    let mut sink = match choice {
        SinkArg::Null => presets::null_sink(),
        SinkArg::Tcp(peer) => SinkPlan {
            backpressure: Backpressure::Block { limit_ms: 10_000 },
            ..presets::tcp_sink(peer)
        },
        SinkArg::File => presets::file_sink(run_dir.to_path_buf(), "be"),
    };
    if index > 0 {
        sink.name = format!("{}{}", sink.name, index + 1);
    }
    sink
}

/// Gives the run another directory; files that lay in the old one go with it.
fn move_run(plan: &mut Plan, out: &Path) {
    for sink in &mut plan.sinks {
        if let SinkKind::File(file) = &mut sink.kind
            && file.directory == plan.run_dir
        {
            file.directory = out.to_path_buf();
        }
    }
    plan.run_dir = out.to_path_buf();
}

impl EvbArgs {
    /// Text or JSON.
    pub(crate) fn format(&self) -> Format {
        self.build.format
    }

    /// Whether a flag says something of an event builder.
    pub(crate) fn says_flags(&self) -> bool {
        self.sources.is_some()
            || self.base_port.is_some()
            || self.bind.is_some()
            || self.duration.is_some()
            || self.metrics.is_some()
            || self.build.says_flags()
    }

    /// What the file says, or as much as a run without one.
    fn chain(&self) -> Result<Chain> {
        let Some(file) = &self.file else {
            let bind = Ipv4Addr::LOCALHOST.into();
            return Ok(Chain {
                plan: presets::plan(&run_id(), self.build.out(), bind, 50000, 0),
                duration: None,
                processes: true,
                metrics: None,
                memory_bytes_max: None,
            });
        };
        Ok(config::of_source(&self.set.source(file)?, &run_id())?)
    }

    /// Writes what is given into the chain.
    fn apply(&self, chain: &mut Chain) -> Result<()> {
        let plan = &mut chain.plan;
        if plan.elinks.is_some()
            && (self.sources.is_some() || self.base_port.is_some() || self.bind.is_some())
        {
            bail!(
                "the sources of this file are E-links: --sources, --base-port and --bind are of datagrams; name other E-links in the file"
            );
        }
        if let Some(sources) = self.sources {
            let bind = plan
                .ports
                .first()
                .map_or(Ipv4Addr::LOCALHOST.into(), SocketAddr::ip);
            let base_port = self.base_port.unwrap_or(50000);
            let fresh = presets::plan("", Path::new(""), bind, base_port, usize::from(sources));
            (plan.ports, plan.sources) = (fresh.ports, fresh.sources);
            if self.file.is_none() {
                plan.receiver = fresh.receiver;
            }
        }
        if let Some(bind) = self.bind {
            plan.receiver.bind = bind;
        }
        let count = plan.ports.len();
        for (index, port) in plan.ports.iter_mut().enumerate() {
            port.set_ip(self.bind.unwrap_or_else(|| port.ip()));
            if let Some(base_port) = self.base_port {
                port.set_port(nth_port(base_port, index, count)?);
            }
        }
        self.build.apply(plan)?;
        chain.duration = self.duration.or(chain.duration);
        chain.processes &= !self.build.threads;
        chain.metrics = self.metrics.or(chain.metrics);
        Ok(())
    }
}

pub(crate) fn run(args: &EvbArgs) -> Result<ExitCode> {
    check_leak_of_stages()?;
    let mut chain = args.chain()?;
    args.apply(&mut chain)?;
    let memory = Memory::of(&chain.plan)?;
    if let Err(need) = memory.within(chain.memory_bytes_max) {
        bail!(
            "the run can take {memory}, more than memory_bytes_max = {}",
            need.limit_bytes
        );
    }
    let manner = Manner {
        processes: chain.processes,
        ..args.build.manner(chain.duration)
    };
    let supervisor = Supervisor::open(chain.plan, manner.processes)?;
    let _metrics = metrics::serve(chain.metrics, supervisor.reader())?;
    let done = carry_out(supervisor, &manner)?;
    conclude(&done, &manner, (true, None), serde_json::json!({}))
}
