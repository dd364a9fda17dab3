//! `forebay check`: what a chain file says, before anything runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use forebay_config::ConfigError;
use forebay_host::doctor::{Check, Facts, Standing, examine};
use forebay_run::chain;
use forebay_run_evb::config::needs::Memory;
use forebay_run_evb::config::{self, Chain};
use forebay_run_evb::plan::{Plan, SinkKind, SinkPlan};
use serde::Serialize;

use crate::chain_needs::ChainNeeds;
use crate::doctor;
use crate::output::{Format, note_line, print_line};
use crate::session::run_id;
use crate::set::SetArg;
use forebay_report::text::bytes;

/// Exit code of a file with mistakes.
const MISTAKEN: u8 = 2;

/// Validates a chain file: what the run would use of this host, and what the host lacks for it.
///
/// Exits with 0 when the run could start, 2 when the file has mistakes: each with line, column, key, value, what would be right, and
/// what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay check examples/hades.toml")]
pub(crate) struct CheckArgs {
    /// Chain file in TOML.
    #[arg(required_unless_present = "reference")]
    file: Option<PathBuf>,
    /// Prints every section and key with range and default, in Markdown.
    #[arg(long, conflicts_with = "file")]
    reference: bool,
    #[command(flatten)]
    set: SetArg,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Most ports that are named one by one.
const PORTS_NAMED: usize = 3;

/// What a good file comes to.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    good: bool,
    sources: usize,
    ports: Vec<String>,
    completion: String,
    processes: bool,
    duration_s: Option<f64>,
    directory: PathBuf,
    metrics: Option<String>,
    sinks: Vec<SinkReport>,
    memory: Memory,
    memory_bytes: u64,
    memory_bytes_max: Option<u64>,
    warnings: Vec<String>,
    host: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct SinkReport {
    name: String,
    kind: &'static str,
    target: String,
    queue_bytes: u64,
    /// How files will be written, and why so, as far as it can be told now.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_io: Option<FileIoReport>,
}

#[derive(Debug, Serialize)]
struct FileIoReport {
    io: &'static str,
    because: &'static str,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let Some(file) = &args.file else {
        print_line(crate::reference::text());
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(chain) = check_chain(file, &args.set)? {
        return match chain {
            Ok(chain) => {
                let report = ChainReport::of(&chain)?;
                match args.format {
                    Format::Json => print_line(serde_json::to_string(&report)?),
                    Format::Text => report.print(),
                }
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => refuse(&error, args.format),
        };
    }
    if let Some(readout) = crate::check_readout::check(file, &args.set.keys) {
        return match readout {
            Ok(report) => {
                match args.format {
                    Format::Json => print_line(serde_json::to_string(&report)?),
                    Format::Text => print_line(&report),
                }
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => refuse(&error, args.format),
        };
    }
    let chain = match config::load(file, &args.set.keys, &run_id()) {
        Ok(chain) => chain,
        Err(error) => return refuse(&error, args.format),
    };
    let report = Report::of(file.display().to_string(), &chain)?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&report)?),
        Format::Text => report.print(),
    }
    Ok(ExitCode::SUCCESS)
}

/// A chain, with all of its members; none when the file is no chain.
///
/// # Errors
/// Keys of the command line are for one program's file.
pub(crate) fn check_chain(
    file: &Path,
    set: &SetArg,
) -> Result<Option<Result<chain::Chain, ConfigError>>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if !chain::is_chain(&text) {
        return Ok(None);
    }
    if !set.keys.is_empty() {
        bail!(
            "--set is for one member of a chain: `forebay run {} --only NAME --set …` takes it, and says what is wrong with a key",
            file.display()
        );
    }
    Ok(Some(chain::Chain::load(file, &crate::run::kinds())))
}

/// What a chain comes to.
#[derive(Debug, Serialize)]
struct ChainReport<'a> {
    file: String,
    good: bool,
    /// `chain`.
    kind: &'static str,
    directory: &'a Path,
    duration_s: Option<f64>,
    members: Vec<MemberReport<'a>>,
    /// Members and addresses of programs outside of the chain.
    open_ends: Vec<(&'a str, &'a str)>,
    /// What is allowed and probably not meant.
    warnings: Vec<String>,
    /// This host against what all members that run on it need together.
    host: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct MemberReport<'a> {
    name: &'a str,
    kind: &'a str,
    connects: &'a [String],
    listens: &'a [String],
}

impl<'a> ChainReport<'a> {
    fn of(chain: &'a chain::Chain) -> Result<Self> {
        let needs = ChainNeeds::of(chain)?;
        let members = chain.members.iter().map(|one| MemberReport {
            name: &one.name,
            kind: one.kind,
            connects: &one.joints.connects,
            listens: &one.joints.listens,
        });
        Ok(Self {
            file: chain.file.display().to_string(),
            good: true,
            kind: "chain",
            directory: &chain.directory,
            duration_s: chain.duration.map(|duration| duration.as_secs_f64()),
            members: members.collect(),
            open_ends: chain.open_ends(),
            host: needs.examine(),
            warnings: needs.warnings,
        })
    }

    fn print(&self) {
        let (file, directory) = (&self.file, self.directory.display());
        print_line(format_args!("{file}: good\n  a chain in {directory}"));
        for one in &self.members {
            print_line(format_args!("  {} ({})", one.name, one.kind));
            for (what, addresses) in [("listens at", one.listens), ("connects to", one.connects)] {
                if !addresses.is_empty() {
                    print_line(format_args!("    {what} {}", addresses.join(", ")));
                }
            }
        }
        for (name, address) in &self.open_ends {
            print_line(format_args!(
                "  warning: {name} connects to {address}, where no member of this chain listens"
            ));
        }
        print_lacking(&self.warnings, &self.host);
    }
}

/// What is probably not meant, and what the host lacks.
fn print_lacking(warnings: &[String], host: &[Check]) {
    for warning in warnings {
        print_line(format_args!("warning: {warning}"));
    }
    let lacking = host
        .iter()
        .filter(|check| check.standing == Standing::Warning);
    lacking.for_each(|check| print_line(doctor::line(check)));
}

fn refuse(error: &ConfigError, format: Format) -> Result<ExitCode> {
    match (format, error) {
        (Format::Json, ConfigError::Mistakes(mistakes)) => {
            let mut object = serde_json::to_value(mistakes)?;
            object["good"] = false.into();
            print_line(object);
        }
        (Format::Json, other) => print_line(format_args!(
            "{}",
            serde_json::json!({ "good": false, "error": other.to_string() })
        )),
        (Format::Text, error) => note_line(error),
    }
    Ok(ExitCode::from(MISTAKEN))
}

impl Report {
    fn of(file: String, chain: &Chain) -> Result<Self> {
        let plan = &chain.plan;
        let memory = Memory::of(plan).context("the ledger of this run")?;
        let needs = plan.host_needs(memory.total_bytes());
        let mut warnings = warnings_of(plan);
        let sinks = plan.sinks.iter();
        let sinks = sinks.map(|sink| SinkReport::of(&file, sink, &mut warnings));
        let sinks: Result<_> = sinks.collect();
        Ok(Self {
            sinks: sinks?,
            file,
            good: true,
            sources: plan.sources.len(),
            ports: match &plan.elinks {
                Some(elinks) => elinks.publishers.clone(),
                None => port_ranges(plan),
            },
            completion: format!("{:?}", plan.builder.completion).to_lowercase(),
            processes: chain.processes,
            duration_s: chain.duration.map(|duration| duration.as_secs_f64()),
            directory: plan.run_dir.clone(),
            metrics: chain.metrics.map(|address| address.to_string()),
            memory,
            memory_bytes: memory.total_bytes(),
            memory_bytes_max: chain.memory_bytes_max,
            warnings,
            host: examine(&Facts::read(needs.socket_buffer_bytes), &needs),
        })
    }

    fn print(&self) {
        let stages = if self.processes {
            "processes"
        } else {
            "threads"
        };
        let end = self.duration_s.map_or_else(
            || "until Ctrl-C or SIGTERM".into(),
            |seconds| format!("for {seconds} s"),
        );
        print_line(format_args!("{}: good", self.file));
        print_line(format_args!(
            "  {} sources on {}",
            self.sources,
            self.ports.join(", ")
        ));
        print_line(format_args!(
            "  completion {}; stages as {stages}; {end}; ledger and record in {}",
            self.completion,
            self.directory.display()
        ));
        for sink in &self.sinks {
            let queue = match sink.queue_bytes {
                0 => String::new(),
                size => format!(", queue {}", bytes(size as f64)),
            };
            let io = match &sink.file_io {
                Some(it) => format!(", io = {:?}: {}", it.io, it.because),
                None if sink.kind == "file" => ", io: the first file tells".to_owned(),
                None => String::new(),
            };
            print_line(format_args!(
                "  sink {}: {}{queue}{io}",
                sink.name, sink.target
            ));
        }
        if let Some(metrics) = &self.metrics {
            print_line(format_args!("  metrics at http://{metrics}/metrics"));
        }
        print_line(format_args!("  memory at most {}", self.memory));
        print_lacking(&self.warnings, &self.host);
    }
}

impl SinkReport {
    /// Looks at the disk of a sink of files. One that cannot write as it is asked for is an error, or a warning where its directory is not there yet.
    fn of(file: &str, sink: &SinkPlan, warnings: &mut Vec<String>) -> Result<Self> {
        let (kind, target, queue_bytes) = match &sink.kind {
            SinkKind::Null => ("null", "counted and forgotten".to_owned(), 0),
            SinkKind::File(file) => (
                "file",
                format!("HLD files in {}", file.directory.display()),
                sink.queue_bytes,
            ),
            SinkKind::Tcp(tcp) => ("tcp", format!("to {}", tcp.peer), sink.queue_bytes),
        };
        let io = match &sink.kind {
            SinkKind::File(plan) => match plan.look(sink.queue_bytes) {
                Ok(io) => io,
                Err(error) if plan.directory.is_dir() => {
                    bail!("{file}: sink {}: {error}", sink.name)
                }
                Err(error) => {
                    warnings.push(format!(
                        "sink {}: {error}; its directory is not there yet, and the one above it was looked at",
                        sink.name
                    ));
                    None
                }
            },
            SinkKind::Null | SinkKind::Tcp(_) => None,
        };
        Ok(Self {
            name: sink.name.clone(),
            kind,
            target,
            queue_bytes,
            file_io: io.map(|io| FileIoReport {
                io: io.word(),
                because: io.because(),
            }),
        })
    }
}

/// Addresses with ports that follow each other joined: `127.0.0.1:50000-50089`.
fn port_ranges(plan: &Plan) -> Vec<String> {
    let mut ranges: Vec<(std::net::IpAddr, u16, u16)> = Vec::new();
    let mut open = 0;
    for port in &plan.ports {
        match ranges.last_mut() {
            _ if port.port() == 0 => open += 1,
            Some((ip, _, last)) if *ip == port.ip() && last.checked_add(1) == Some(port.port()) => {
                *last = port.port()
            }
            _ => ranges.push((port.ip(), port.port(), port.port())),
        }
    }
    let name = |(ip, first, last)| {
        let first = std::net::SocketAddr::new(ip, first);
        if first.port() == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    let mut names: Vec<String> = ranges.into_iter().map(name).collect();
    if open > 0 {
        names.push(format!("{open} free port(s)"));
    }
    names
}

/// What is allowed and probably not meant, and ports that cannot be had now.
pub(crate) fn warnings_of(plan: &Plan) -> Vec<String> {
    [warnings(plan), unbindable(plan)].concat()
}

/// What is allowed and probably not meant.
fn warnings(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if let (Some(receiver), Some(builder)) = (plan.receiver.cpu, plan.builder.cpu)
        && receiver == builder
    {
        warnings.push(format!(
            "receiver and builder are both pinned to CPU {receiver}: they will push each other away"
        ));
    }
    for (stage, cpu) in [
        ("receiver", plan.receiver.cpu),
        ("builder", plan.builder.cpu),
    ] {
        if let Some(cpu) = cpu.filter(|cpu| *cpu >= cpus) {
            warnings.push(format!(
                "{stage}.cpu = {cpu}: this process may use {cpus} CPUs"
            ));
        }
    }
    let open: BTreeSet<_> = plan
        .ports
        .iter()
        .map(|port| port.ip())
        .filter(|ip| ip.is_unspecified())
        .collect();
    for ip in open {
        warnings.push(format!(
            "{ip} is every address of this host: whoever can reach it can send"
        ));
    }
    if plan
        .ports
        .iter()
        .any(|port| (1..1024).contains(&port.port()))
    {
        warnings.push("ports below 1024 need CAP_NET_BIND_SERVICE".into());
    }
    if plan.receiver.gro {
        warnings.push(
            "with gro the kernel's drops count merged buffers: they are a lower bound".into(),
        );
    }
    warnings
}

/// Ports that cannot be had at this moment: tried, and given back.
fn unbindable(plan: &Plan) -> Vec<String> {
    let refused = plan.ports.iter().filter_map(|port| {
        let error = std::net::UdpSocket::bind(port).err()?;
        Some(format!("{port} cannot be had now: {error}"))
    });
    let refused: Vec<String> = refused.collect();
    let more = refused.len().saturating_sub(PORTS_NAMED);
    let mut named: Vec<String> = refused.into_iter().take(PORTS_NAMED).collect();
    if more > 0 {
        named.push(format!("{more} more ports cannot be had now"));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        config::parse("chain.toml", text, "7").unwrap().plan
    }

    #[test]
    fn ports_that_follow_each_other_are_one_range() {
        let plan = plan(
            "[[sources]]\nbase_port = 50000\ncount = 90\n[[sources]]\nports = [7, 9]\n[[sources]]\nport = 0\n",
        );
        let expected = [
            "127.0.0.1:50000-50089",
            "127.0.0.1:7",
            "127.0.0.1:9",
            "1 free port(s)",
        ];
        assert_eq!(port_ranges(&plan), expected);
    }

    #[test]
    fn what_is_probably_not_meant_is_said() {
        let text = "[receiver]\ncpu = 8000\nbind = \"0.0.0.0\"\ngro = true\n[builder]\ncpu = 8000\n[[sources]]\nport = 80\n";
        let said = warnings(&plan(text)).join("\n");
        for part in [
            "both pinned to CPU 8000",
            "builder.cpu = 8000",
            "0.0.0.0",
            "CAP_NET_BIND_SERVICE",
            "lower bound",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(warnings(&plan("[[sources]]\nport = 8080\n")).is_empty());
    }

    #[test]
    fn ports_in_use_are_named() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let said = unbindable(&plan(&format!("[[sources]]\nport = {port}\n")));
        assert!(
            said.len() == 1 && said[0].starts_with(&format!("127.0.0.1:{port} cannot be had now")),
            "{said:?}"
        );
        let foreign =
            plan("[receiver]\nbind = \"192.0.2.1\"\n[[sources]]\nbase_port = 50000\ncount = 5\n");
        let said = unbindable(&foreign);
        assert_eq!(
            (said.len(), said[3].as_str()),
            (4, "2 more ports cannot be had now")
        );
    }
}
