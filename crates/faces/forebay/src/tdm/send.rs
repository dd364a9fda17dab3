//! `forebay tdm send`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_run::record::Record;
use forebay_run_net::Address;
use forebay_run_tdm::read_key;
use forebay_run_tdm::send::{self, LaunchTimes, MessageInput, SendPlan, SendSummary};
use forebay_run_tdm::{EmulatedClock, PORT};

use crate::output::{Format, counted, note_line, parse_bytes, parse_duration, print_line};
use crate::record::{To, recorded};
use forebay_report::text::bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LaunchTimesArg {
    /// Where they are kept no worse than this process would.
    Auto,
    /// Where they are kept, however late: this process need not spin.
    Kept,
    /// Never.
    Off,
}

/// Sends a stream to a receiver of time-division UDP, in the windows that it gives.
///
/// Without --input it sends a test stream, for as many windows as the receiver says.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay tdm send 192.0.2.1 --id north --input north.dat\n  With messages: forebay tdm send 192.0.2.1 --id north --input shm://daq --heaps, and beside it: forebay net send shm://daq --input lines.txt\n\nExit codes: 0 the receiver has said what came and nothing is left over, 1 something is left over, 2 it could not be done, was stopped before it began, or the receiver ended it, or its windows before the input did, 4 the receiver did not confirm: what came is not known. With --repeat each session counts."
)]
pub(crate) struct SendArgs {
    /// Where the receiver listens: HOST or HOST:PORT.
    #[arg(value_name = "HOST[:PORT]")]
    receiver: String,
    /// The sender's name at the receiver, 1 to 64 bytes; else host and process.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// What to send: a file, - for standard input, or messages that others send here, as `forebay net send shm://daq` does: shm://NAME, tcp://127.0.0.1:PORT,
    /// fabric+PROVIDER://PLACE. Messages are the input until all that sent some have ended.
    #[arg(long, value_name = "FILE|-|ADDRESS")]
    input: Option<String>,
    /// Messages of --input keep their boundaries, tags and statuses, and arrive as they were, or not at all.
    #[arg(long, requires = "input", conflicts_with = "repeat")]
    heaps: bool,
    /// Length of the test stream; else as long as windows go.
    #[arg(long, value_name = "BYTES", conflicts_with = "input", value_parser = parse_bytes)]
    bytes: Option<u64>,
    /// Its part of the port against the others'.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    share: u16,
    /// Most bytes of a datagram; else what the path's MTU carries in one piece.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(128..=65507))]
    packet_bytes: Option<u16>,
    /// After a session wait for the next one, and send the whole input again: a file or the test stream. Its summary at the end is of all sessions.
    #[arg(long)]
    repeat: bool,
    /// How long to wait for a receiver, and at the end for what it says has come; 0: without end.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    wait: Duration,
    /// Do not ask for real-time priority.
    #[arg(long)]
    no_realtime: bool,
    /// Give bursts to the kernel ahead, with a launch time (SO_TXTIME), where control datagrams show that a queue on the way keeps such times (tc qdisc replace
    /// dev INTERFACE root fq).
    #[arg(long, value_enum, default_value_t = LaunchTimesArg::Auto)]
    launch_times: LaunchTimesArg,
    /// Let idle CPUs of this host sleep. Otherwise they are kept awake during a session (/dev/cpu_dma_latency): one that sleeps wakes up late.
    #[arg(long)]
    cpus_may_sleep: bool,
    /// File with the receiver's key.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Run on this CPU.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Send each datagram by itself.
    #[arg(long)]
    plain: bool,
    /// Directory of ledger and record, for `forebay audit` and `forebay top`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Answer Prometheus at this address, as 127.0.0.1:9100.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// For tests: a clock that shows NS more and gains PPB, as 5000000,100000.
    #[arg(long, value_name = "NS,PPB", hide = true, allow_hyphen_values = true, value_parser = parse_clock)]
    emulate_clock: Option<EmulatedClock>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

fn parse_clock(text: &str) -> Result<EmulatedClock, String> {
    let parsed = text.split_once(',').and_then(|(offset, skew)| {
        Some(EmulatedClock {
            offset_ns: offset.parse().ok()?,
            skew_ppb: skew.parse().ok()?,
        })
    });
    parsed.ok_or_else(|| format!("{text:?} is no clock; write NS,PPB as 5000000,100000"))
}

/// A pipe, or standard input by another name that is one.
fn comes_once(path: &Path) -> bool {
    let kind = std::fs::metadata(path).map(|it| it.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

fn resolve(text: &str) -> Result<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(ip, PORT));
    }
    let named = match text.rsplit_once(':') {
        Some((host, port)) => (
            host,
            port.parse()
                .with_context(|| format!("{text}: {port:?} is no port"))?,
        ),
        None => (text, PORT),
    };
    let mut found = named
        .to_socket_addrs()
        .with_context(|| format!("{text} is not known; write HOST or HOST:PORT"))?;
    match found.next() {
        Some(address) => Ok(address),
        None => bail!("{text} has no address"),
    }
}

/// A file, or messages at an address.
fn input(args: &SendArgs) -> Result<(Option<PathBuf>, Option<MessageInput>)> {
    let Some(text) = args.input.as_deref() else {
        return Ok((None, None));
    };
    if !text.contains("://") {
        if args.heaps {
            bail!(
                "--heaps keeps the boundaries of messages, and --input {text} has none: give an address (--input shm://NAME), and send to it with `forebay net send`"
            );
        }
        if args.repeat && text == "-" {
            bail!(
                "--repeat sends its input again, and standard input comes once: leave it out, or give a file (--input FILE)"
            );
        }
        if args.repeat && comes_once(Path::new(text)) {
            bail!(
                "--repeat sends its input again, and --input {text} is a pipe, which comes once: leave it out, or give a file"
            );
        }
        return Ok((Some(PathBuf::from(text)), None));
    }
    if args.repeat {
        bail!(
            "--repeat sends its input again, and messages come once: leave it out, or give a file (--input FILE)"
        );
    }
    let address: Address = text
        .parse()
        .with_context(|| format!("--input {text} is no address of messages"))?;
    let heaps = args.heaps;
    Ok((None, Some(MessageInput { address, heaps })))
}

pub(crate) fn run(args: &SendArgs) -> Result<ExitCode> {
    let name = args.id.clone().unwrap_or_else(send::default_name);
    let (input, messages) = input(args)?;
    let plan = SendPlan {
        receiver: resolve(&args.receiver)?,
        name,
        share: args.share,
        input,
        messages,
        bytes: args.bytes,
        packet_bytes: args.packet_bytes,
        repeat: args.repeat,
        wait: (args.wait > Duration::ZERO).then_some(args.wait),
        real_time: !args.no_realtime,
        cpus_may_sleep: args.cpus_may_sleep,
        launch_times: match args.launch_times {
            LaunchTimesArg::Auto => LaunchTimes::Auto,
            LaunchTimesArg::Kept => LaunchTimes::Kept,
            LaunchTimesArg::Off => LaunchTimes::Off,
        },
        key: args.key.as_deref().map(read_key).transpose()?,
        cpu: args.cpu,
        plain: args.plain,
        out: args.out.clone(),
        metrics: args.metrics,
        clock: args.emulate_clock,
    };
    let (record, code) = recorded(plan, args.format, To::Stdout, print)?;
    let untold = record.why.as_ref();
    if let Some(why) = untold.filter(|_| record.envelope.failed.is_none()) {
        note_line(format_args!("forebay: {why}"));
    }
    Ok(code)
}

fn print(record: &Record<SendSummary>) {
    let Record { envelope, summary } = record;
    let received = match (summary.received, summary.lost) {
        (Some(received), Some(lost)) => format!("{received} came, {lost} lost"),
        _ => "the receiver has not said what came".to_owned(),
    };
    if summary.sessions > 1 {
        print_line(format_args!(
            "{}: {} ended by the receiver, {} that no receiver confirmed ({})",
            counted(summary.sessions, "session"),
            summary.sessions_stopped,
            summary.sessions_unconfirmed,
            counted(summary.packets_unconfirmed, "packet"),
        ));
    }
    print_line(format_args!(
        "{}: {}; {} of {} in {}; {received}; {} late, {} preempted, {} carried, {} withheld",
        summary.name,
        summary.end,
        counted(summary.packets, "packet"),
        bytes(summary.payload_bytes as f64),
        counted(summary.windows, "window"),
        summary.late,
        summary.preempted,
        summary.carried,
        summary.withheld,
    ));
    print_line(format_args!(
        "clock by {}: {}; {}",
        summary.clock.base, summary.clock.base_why, summary.clock.hardware
    ));
    if let Some(heaps) = &summary.heaps {
        print_line(format_args!(
            "heaps: {} came, {} sent, {} not sent",
            heaps.came, heaps.sent, heaps.not_sent
        ));
    }
    match &summary.launches.why_not {
        None => print_line(format_args!(
            "launch times: kept, bursts given {} us ahead; the queue was late by {} us (99 %), at most {} us",
            summary.launches.lead_ns as f64 / 1e3,
            summary.launches.late_ns_p99 as f64 / 1e3,
            summary.launches.late_ns_max as f64 / 1e3,
        )),
        Some(why) => print_line(format_args!("launch times: not used: {why}")),
    }
    print_line(format_args!(
        "clock: {} ns off, {} ppb fast, within {} ns; woke up late by {} us (99 %); {:.2} s, CPU {:.2} s",
        summary.clock.offset_ns,
        summary.clock.skew_ppb,
        summary.clock.error_ns,
        summary.lateness.p99_ns as f64 / 1e3,
        envelope.duration_s,
        envelope.cpu_s(),
    ));
    print_line(send::closing(record));
}
