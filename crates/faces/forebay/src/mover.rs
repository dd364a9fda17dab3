//! `forebay mover`: writes the files of event builders elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run_evb::plan::FilePlan;
use forebay_run_mover::config::IDLE_LIMIT_MIN_MS;
use forebay_run_mover::{MoverPlan, MoverSummary};

use crate::output::{Format, parse_duration, print_line};
use crate::record::{To, carry_out as run_system};
use crate::session::closing;
use forebay_report::text::bytes;

/// Least time that a silent connection is kept.
const IDLE_LIMIT_MIN: Duration = Duration::from_millis(IDLE_LIMIT_MIN_MS);

/// Writes HLD files of what `forebay evb … --sink tcp://HOST:PORT` builds on other machines.
///
/// Each sender's stream has a ledger in the directory. A mover that was killed and is started again with the same --out goes on
/// where it stopped, with nothing lost and nothing twice. Ends by Ctrl-C or SIGTERM. Exits with 0 when all books
/// close, the senders' included, 1 when not, and when somebody removed what was being written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay mover --listen 127.0.0.1:9400 --out /data")]
pub(crate) struct MoverArgs {
    /// Where to listen. Nothing is encrypted and nobody is asked who he is: use a network of your own.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket)]
    listen: SocketAddr,
    /// Directory for files and ledgers.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Letters at the front of file names.
    #[arg(long, default_value = "be", value_parser = crate::range::name)]
    prefix: String,
    /// Number of the event builder at the end of file names.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=99))]
    builder_number: u8,
    /// Flushes each block to the device before it is acknowledged (against power loss).
    #[arg(long)]
    sync: bool,
    /// Ends when one stream has ended in order.
    #[arg(long)]
    once: bool,
    /// How long a connection is kept on which nothing comes: its sender may be gone without a word. One that only had nothing to
    /// send connects again.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_idle_limit)]
    idle_limit: Duration,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_idle_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text)?;
    if limit < IDLE_LIMIT_MIN {
        return Err(format!(
            "{text:?} is less than {IDLE_LIMIT_MIN:?}: senders would do nothing but connect"
        ));
    }
    Ok(limit)
}

pub(crate) fn run(args: &MoverArgs) -> Result<ExitCode> {
    let plan = MoverPlan {
        listen: args.listen,
        file: FilePlan {
            prefix: args.prefix.clone(),
            builder_number: args.builder_number,
            sync: args.sync,
            ..FilePlan::of_streams(args.out.clone())
        },
        once: args.once,
        idle_limit_ms: u64::try_from(args.idle_limit.as_millis()).unwrap_or(u64::MAX),
    };
    carry_out(plan, args.format)
}

/// Runs a mover, and tells how it ended.
pub(crate) fn carry_out(plan: MoverPlan, format: Format) -> Result<ExitCode> {
    run_system(plan, format, To::Stdout, print_text)
}

fn print_text(summary: &Record<MoverSummary>) {
    for stream in &summary.streams {
        print_line(format_args!(
            "{} {}: {}; {} events in, {} written ({})",
            stream.envelope.run_id,
            stream.sink,
            stream.envelope.condition.name(),
            stream.events_in,
            stream.events_written,
            bytes(stream.bytes_written as f64),
        ));
        let closing = closing(&stream.verdict, None, &stream.output_removed);
        print_line(format_args!("{}\n{closing}", stream.verdict.tables()));
        for taint in &stream.envelope.taints {
            print_line(format_args!("TAINTED: {taint}"));
        }
        for file in &stream.files {
            print_line(file.display());
        }
    }
    let unlisted = &summary.unlisted;
    if summary.streams.is_empty() && unlisted.streams == 0 {
        print_line("Nothing came: no stream of events began");
    }
    if unlisted.streams > 0 {
        print_line(format_args!(
            "{} streams before these; of {} the books do not close ({} events left over)",
            unlisted.streams, unlisted.unclosed, unlisted.books.residual_items
        ));
    }
    if summary.streams_evicted > 0 {
        print_line(format_args!(
            "{} streams were closed to make room for others",
            summary.streams_evicted
        ));
    }
    if summary.accept_errors > 0 {
        print_line(format_args!(
            "connections could not be accepted {} times",
            summary.accept_errors
        ));
    }
    for (reason, count) in &summary.refused {
        print_line(format_args!("refused: {count} connections, {reason}"));
    }
}
