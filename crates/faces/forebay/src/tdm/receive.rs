//! `forebay tdm receive`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_report::tdm::{SessionReport, WindowFile};
use forebay_run::record::Record;
use forebay_run_net::Address;
use forebay_run_tdm::receive::{
    self, CsvOf, OriginalCsv, Output, ReceivePlan, ReceiveSession, ReceiveSummary, SenderSummary,
    Watch,
};
use forebay_run_tdm::{PORT, read_key};

use super::port::PortArgs;
use crate::output::{Format, counted, note_line, parse_bytes, parse_duration, print_line};
use crate::record::{To, recorded};
use crate::session::{LOST, gone};
use forebay_report::text::{bytes, si};

/// Least and most time of silence.
const SILENCE_LEAST: Duration = Duration::from_millis(100);
const SILENCE_MOST: Duration = Duration::from_secs(3_600);
/// Most time from a window's report until it is closed.
const SETTLE_MOST: Duration = Duration::from_secs(60);

/// Receives one session: waits for its senders, gives each its windows, and writes what comes.
///
/// With --output DIR each sender's stream becomes a file of its name there, with the ranges that were lost beside it (NAME.lost.csv); heaps become NAME.heaps. --output - writes one sender's
/// stream to standard output, with zeroes where bytes are lost. Ends when all senders have ended, or by Ctrl-C, which lets them tell their totals first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay tdm receive --bind 0.0.0.0:8081 --key tdm.key --senders 3 --link-rate 10G --port-buffer 256K --output data\n         forebay tdm receive --senders 3 --report session.html --rows windows.parquet --histograms times.hlog\n\nExit codes: 0 the books close, 1 they do not, or somebody removed what was written, 2 it could not be done, a sender died, or --verify found packets that differ from the test stream, 3 with --strict: packets were lost."
)]
pub(crate) struct ReceiveArgs {
    /// Where to listen; without a port at 8081. Where other hosts come to it, with --key or --no-key.
    #[arg(long, value_name = "ADDR[:PORT]", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)), value_parser = parse_bind)]
    bind: SocketAddr,
    /// Senders that take part, 1 to 1024.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    senders: u16,
    #[command(flatten)]
    port: PortArgs,
    /// Windows of each sender; 0: until their inputs end.
    #[arg(long, value_name = "N", default_value_t = 0)]
    windows: u32,
    /// Directory for a file of each sender, or - for standard output; heaps also go on as messages to whoever runs `forebay net recv` at an address
    /// (shm://NAME, tcp://127.0.0.1:PORT, fabric+PROVIDER://PLACE), in which {name} stands for the sender's name. Without it payloads are counted alone.
    #[arg(long, value_name = "DIR|-|ADDRESS")]
    output: Option<PathBuf>,
    /// Compare payloads with the test stream that senders without --input send.
    #[arg(long, conflicts_with = "output")]
    verify: bool,
    /// Directory of ledger and record, for `forebay audit`; else that of --output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A line for each window into windows.csv of --output.
    #[arg(long, requires = "output", conflicts_with = "verify")]
    per_window: bool,
    /// A row for each window into this Parquet file, written as the session goes and whole at its end. Units stand in the names of its columns; cells for which
    /// there is nothing are null.
    #[arg(long, value_name = "FILE.parquet", value_parser = parse_parquet)]
    rows: Option<PathBuf>,
    /// Histograms of each sender at the end of the session: travel time of each packet, lateness of each window, bound of the clock's error. It is an HDR histogram
    /// log (version 2), a line for each, with tags as travel_ns:NAME, window_lateness_ns:NAME and clock_error_ns:NAME.
    #[arg(long, value_name = "FILE.hlog")]
    histograms: Option<PathBuf>,
    /// One HTML page about the session when it has ended, for any browser: travel time of each sender over its windows, overlaps, every packet of the first 30 ms, all that is
    /// told of windows, the summary and the ledger. It needs nothing from elsewhere. Windows of long sessions are drawn together, with their smallest, mean and largest.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// A file in the form of the original tool into --output: 17 columns for each window or 6 for each packet, without a heading, times in seconds. It is named
    /// PREFIX_N(windows)_W(window in us)_D(dead time in us)_T(senders).csv.
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        requires = "output",
        conflicts_with = "verify"
    )]
    csv: Option<CsvArg>,
    /// Begin of that file's name.
    #[arg(long, value_name = "PREFIX", default_value = "tdm", requires = "csv", value_parser = parse_prefix)]
    csv_prefix: String,
    /// Begin with those that are ready when so much time has passed since the first was; else, or with 0, wait for all.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// From the plan to the first window.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    lead: Duration,
    /// A sender that says nothing for so long is taken for dead; 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_silence)]
    silence: Duration,
    /// A window is closed so long after its report; at most half of --silence, and 1m.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration)]
    settle: Duration,
    /// File with a key of at least 16 bytes that senders must have, too. Without one anybody may send, and what guards payloads is UDP's checksum of 16 bits alone.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// No key, also beyond this host: whoever comes to --bind may send, and take a sender's place before it is there.
    #[arg(long, conflicts_with = "key")]
    no_key: bool,
    /// Answer Prometheus at this address, as 127.0.0.1:9100.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Run on this CPU.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// What may wait for the disk (or whoever takes the streams), in bytes, 4M to 1T; without it what comes in 3 s at --link-rate, 64M at least and 1G at most. Memory is
    /// taken as it is needed. What finds no room is dropped by name (queue_full).
    #[arg(long, value_name = "BYTES", value_parser = parse_queue)]
    writer_queue: Option<u64>,
    /// Take each datagram by itself (no generic receive offload): the kernel's count of drops is exact then, and it costs more.
    #[arg(long)]
    no_gro: bool,
    /// Was renamed.
    #[arg(long, hide = true)]
    plain: bool,
    /// Let idle CPUs of this host sleep. Otherwise they are kept awake during a session (/dev/cpu_dma_latency): one that sleeps stamps datagrams late.
    #[arg(long)]
    cpus_may_sleep: bool,
    /// Losses, even by name, make the exit code 3.
    #[arg(long)]
    strict: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CsvArg {
    PerWindow,
    PerPacket,
}

fn parse_prefix(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('.') || text.contains(['/', '\\']) {
        return Err(format!(
            "{text:?} cannot begin the name of a file; write a word, as tdm"
        ));
    }
    Ok(text.to_owned())
}

fn parse_bind(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.trim_start_matches('[').trim_end_matches(']').parse();
    let address = text.parse();
    let address = address.or_else(|_| bare().map(|ip| SocketAddr::new(ip, PORT)));
    address.map_err(|_| {
        format!("{text:?} is no address of this host; write ADDR or ADDR:PORT with numbers, as 0.0.0.0, 192.0.2.1:8081 or [::1]:8081")
    })
}

/// Senders speak several times in it, or nobody would get on.
fn parse_silence(text: &str) -> Result<Duration, String> {
    let silence = parse_duration(text)?;
    if (SILENCE_LEAST..=SILENCE_MOST).contains(&silence) {
        Ok(silence)
    } else {
        Err("senders speak some times in it, and it is 100ms to 1h; 2s is usual".to_owned())
    }
}

/// A window that is closed late holds up the end of its session, and senders that wait for it would count as dead.
fn check_settle(args: &ReceiveArgs) -> Result<()> {
    let most = (args.silence / 2).min(SETTLE_MOST);
    if args.settle > most {
        bail!(
            "--settle is {} s; with --silence {} s it is at most {} s, 10ms is usual",
            args.settle.as_secs_f64(),
            args.silence.as_secs_f64(),
            most.as_secs_f64()
        );
    }
    Ok(())
}

/// A file of another kind would look like one that its readers can read.
fn parse_parquet(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|it| it == "parquet") {
        Ok(path)
    } else {
        Err("it is written as Parquet: give it a name that ends in .parquet; CSV is written by --per-window and --csv".to_owned())
    }
}

/// Heaps go on to an address, which is looked at before anybody is waited for.
fn messages(address: &str) -> Result<Output> {
    let example = address.replace("{name}", "north");
    let parsed = example.parse::<Address>();
    parsed.with_context(|| format!("--output {address} is no address of messages"))?;
    Ok(Output::Messages(address.to_owned()))
}

/// Files of the session may lie in the directory of its streams, which the session would make later.
fn make_directory(args: &ReceiveArgs, output: &Output) -> Result<()> {
    let Output::Directory(directory) = output else {
        return Ok(());
    };
    let files = [&args.rows, &args.histograms, &args.report];
    let lies_there = |path: &PathBuf| path.parent() == Some(directory.as_path());
    if files.into_iter().flatten().any(lies_there) {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("making --output {}", directory.display()))?;
    }
    Ok(())
}

fn parse_queue(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if (receive::QUEUE_BYTES_MIN..=receive::QUEUE_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("it is 4M to 1T; what comes in 3 s is usual".to_owned())
    }
}

fn writer_queue(args: &ReceiveArgs) -> u64 {
    let usual = || receive::default_queue_bytes(args.port.input().link_rate_bps);
    args.writer_queue.unwrap_or_else(usual)
}

pub(crate) fn run(args: &ReceiveArgs) -> Result<ExitCode> {
    if args.plain {
        bail!("--plain is --no-gro now: it takes each datagram by itself");
    }
    check_settle(args)?;
    let output = match &args.output {
        Some(path) if path.as_os_str() == "-" => Output::Stdout,
        Some(path) if path.to_string_lossy().contains("://") => messages(&path.to_string_lossy())?,
        Some(path) => Output::Directory(path.clone()),
        None if args.verify => Output::Verify,
        None => Output::Discard,
    };
    let to_stdout = output == Output::Stdout;
    let to_messages = matches!(output, Output::Messages(_));
    if (to_stdout || to_messages) && (args.csv.is_some() || args.per_window) {
        bail!(
            "--csv and --per-window write a file beside the streams: give a directory (--output DIR)"
        );
    }
    let plan = ReceivePlan {
        bind: args.bind,
        senders: args.senders,
        port: args.port.input(),
        windows: args.windows,
        wait: args.wait,
        lead: args.lead,
        silence: args.silence,
        settle: args.settle,
        key: args.key.as_deref().map(read_key).transpose()?,
        no_key: args.no_key,
        output,
        out: args.out.clone(),
        rows: args.per_window,
        csv: args.csv.map(|what| OriginalCsv {
            of: match what {
                CsvArg::PerWindow => CsvOf::Windows,
                CsvArg::PerPacket => CsvOf::Packets,
            },
            prefix: args.csv_prefix.clone(),
        }),
        histograms: args.histograms.clone(),
        metrics: args.metrics,
        cpu: args.cpu,
        cpus_may_sleep: args.cpus_may_sleep,
        writer_queue_bytes: writer_queue(args),
        no_gro: args.no_gro,
    };
    make_directory(args, &plan.output)?;
    let mut rows = args.rows.as_deref().map(WindowFile::create).transpose()?;
    let report = args.report.as_deref();
    let mut report = report
        .map(|path| SessionReport::create(path, args.senders))
        .transpose()?;
    let mut watches: Vec<&mut dyn Watch> = Vec::new();
    watches.extend(rows.as_mut().map(|it| it as &mut dyn Watch));
    watches.extend(report.as_mut().map(|it| it as &mut dyn Watch));
    let session = ReceiveSession { plan, watches };
    let to = To::beside(to_stdout);
    let tables = |record: &Record<ReceiveSummary>| print(record, to_stdout);
    let (record, code) = recorded(session, args.format, to, tables)?;
    let lost = record
        .schemes
        .iter()
        .any(|scheme| scheme.sent > scheme.received);
    let unwritten = |it: &SenderSummary| it.not_written.values().any(|packets| *packets > 0);
    let lost = lost || record.by_sender.iter().any(unwritten);
    Ok(match args.strict && lost {
        true if code == ExitCode::SUCCESS => ExitCode::from(LOST),
        _ => code,
    })
}

fn print(record: &Record<ReceiveSummary>, to_stderr: bool) {
    let Record { envelope, summary } = record;
    let say = |line: std::fmt::Arguments<'_>| {
        if to_stderr {
            note_line(line);
        } else {
            print_line(line);
        }
    };
    for sender in &summary.by_sender {
        let lost: u64 = sender.lost.values().sum();
        let interrupted = if sender.interrupted {
            ", interrupted there"
        } else {
            ""
        };
        say(format_args!(
            "{}: {}{interrupted}; {} of {} came ({}), {lost} lost, {} twice, {} carried, {} preempted",
            sender.name,
            sender.state,
            sender.received,
            counted(sender.sent, "packet"),
            bytes(sender.payload_bytes as f64),
            sender.duplicates,
            sender.carried,
            sender.preempted,
        ));
        if let Some(heaps) = &sender.heaps {
            say(format_args!(
                "  heaps: {} of {} whole ({})",
                heaps.whole,
                heaps.sent,
                bytes(heaps.bytes as f64)
            ));
            for (why, dropped) in heaps.dropped.iter().filter(|(_, dropped)| **dropped > 0) {
                say(format_args!("  heaps dropped, {why}: {dropped}"));
            }
        }
        for (why, packets) in sender.not_written.iter().filter(|(_, it)| **it > 0) {
            say(format_args!("  came and not written, {why}: {packets}"));
        }
        for (cause, packets) in sender.lost.iter().filter(|(_, packets)| **packets > 0) {
            say(format_args!("  {}", summary.lost_in_words(cause, *packets)));
        }
    }
    for sender in &summary.by_sender {
        if let Some(not_known) = &sender.not_known {
            say(format_args!("{not_known}"));
        }
    }
    for scheme in &summary.schemes {
        say(format_args!(
            "{}: window {} us, guard {} us; {:.1} % of the port, {} of payload; began late by {} us, clocks within {} us (99 %); {} overlaps",
            scheme.scheme,
            scheme.window_ns / 1_000,
            scheme.guard_ns / 1_000,
            scheme.port_utilisation * 100.0,
            si(scheme.goodput_bps, "bit/s"),
            scheme.window_lateness_ns_p99 as f64 / 1e3,
            scheme.clock_error_ns_p99 as f64 / 1e3,
            scheme.overlaps,
        ));
    }
    if summary.stalls.times > 0 {
        say(format_args!(
            "this host did not read its socket in time: {}, {:.3} s at the longest, {:.3} s together",
            counted(summary.stalls.times, "time"),
            summary.stalls.longest_ns as f64 / 1e9,
            summary.stalls.total_ns as f64 / 1e9,
        ));
    }
    strangers(summary)
        .iter()
        .for_each(|line| say(format_args!("{line}")));
    say(format_args!(
        "{}: {} in {:.2} s; CPU {:.2} s; {} lost in {}; residual {} items, {} bytes",
        summary.end,
        counted(summary.windows, "window"),
        envelope.duration_s,
        envelope.cpu_s(),
        bytes(summary.lost_bytes as f64),
        counted(summary.lost_ranges, "range"),
        envelope.books.residual_items,
        envelope.books.residual_bytes,
    ));
    let closing = receive::closing(record, gone(&summary.output_removed));
    say(format_args!("{closing}"));
}

/// Hellos that got no place, lines that were not told, and datagrams without the key.
fn strangers(summary: &ReceiveSummary) -> Vec<String> {
    let refused = summary.hellos_refused.iter();
    let mut lines: Vec<String> = refused
        .map(|(why, times)| format!("refused a place, {why}: {}", counted(*times, "time")))
        .collect();
    if summary.hellos_unanswered > 0 {
        let hellos = counted(summary.hellos_unanswered, "hello");
        lines.push(format!(
            "took no place: {hellos} whose sender did not answer"
        ));
    }
    if summary.lines_untold > 0 {
        let untold = counted(summary.lines_untold, "line");
        lines.push(format!(
            "nobody read standard error in time: {untold} not told"
        ));
    }
    let strangers = summary.datagrams.get("wrong_key").copied().unwrap_or(0);
    if strangers > 0 {
        let strangers = counted(strangers, "datagram");
        lines.push(format!("refused: {strangers} without the right key"));
    }
    lines
}
