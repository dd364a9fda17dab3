//! `forebay mux`: one network card, shared by many untrusted clients.

mod control;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_report::text::bytes;
use forebay_run::record::Record;
use forebay_run_mux::{MuxPlan, MuxSummary};

use crate::output::{Format, parse_duration, print_line};
use crate::record::{To, carry_out as run_system, print_closing};
use crate::set::SetArg;

/// Shares a network card between clients that need no privileges and are not trusted: each has its own frames, its own policy, and its own account.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay mux run mux.toml --duration 1m")]
pub(crate) struct MuxArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Run(MuxRunArgs),
    Client(crate::mux_client::MuxClientArgs),
    Hostile(crate::mux_hostile::MuxHostileArgs),
    Status(control::MuxStatusArgs),
    Set(control::MuxSetArgs),
    Bench(crate::mux_bench::MuxBenchArgs),
}

/// Owns the card that a file names, and takes clients in at a socket.
///
/// A client is a process of any user that the file gives a place: it comes in by the place's name, and gets two pools of frames in shared memory. It can read what it is
/// given, and write what it sends, and nothing else; what it says of both is checked, and a lie is counted under its name. Nothing that it does or leaves undone costs another client what that one is guaranteed.
/// Needs CAP_NET_RAW. Ends by Ctrl-C or SIGTERM with its books closed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay mux run examples/mux.toml --duration 1m --format json\n\nExit codes: 0 the books close, 1 they do not, or somebody removed the directory of the run, 2 it could not be done: a mistake in the file, no such interface, no right to it (CAP_NET_RAW), another process at the socket, or the interface went away."
)]
struct MuxRunArgs {
    /// The file: `docs/CONFIGURATION.md` has its keys.
    file: PathBuf,
    #[command(flatten)]
    set: SetArg,
    /// Ends after so long.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &MuxArgs) -> Result<ExitCode> {
    match &args.verb {
        Verb::Run(args) => run_daemon(args),
        Verb::Client(args) => crate::mux_client::run(args),
        Verb::Hostile(args) => crate::mux_hostile::run(args),
        Verb::Status(args) => control::status(args),
        Verb::Set(args) => control::set(args),
        Verb::Bench(args) => crate::mux_bench::run(args),
    }
}

fn run_daemon(args: &MuxRunArgs) -> Result<ExitCode> {
    let mut plan: MuxPlan = args.set.load(&args.file)?;
    if let Some(duration) = args.duration {
        if duration < Duration::from_secs(1) || duration.subsec_nanos() != 0 {
            bail!("--duration {duration:?}: whole seconds, 1 at least");
        }
        plan.settings.duration_s = Some(duration.as_secs());
    }
    carry_out(plan, args.format)
}

/// Runs a multiplexer, and tells how it ended.
pub(crate) fn carry_out(plan: MuxPlan, format: Format) -> Result<ExitCode> {
    run_system(plan, format, To::Stdout, print_text)
}

/// Whether a client that is parted with so has done something that it may not.
fn is_its_fault(why: &str) -> bool {
    !matches!(why, "left" | "end")
}

fn print_text(record: &Record<MuxSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{}: {} frames in, {} out, in {:.2} s",
        summary.interface, summary.frames_in, summary.frames_out, envelope.duration_s,
    ));
    for client in &summary.clients {
        print_line(format_args!(
            "{}: {} frames given ({}), {} of {} packets sent ({}), longest wait {} us",
            client.name,
            client.frames_given,
            bytes(client.bytes_given as f64),
            client.packets_sent,
            client.packets_asked,
            bytes(client.bytes_sent as f64),
            client.sojourn_ns_max / 1000,
        ));
        for (lie, times) in &client.lies {
            print_line(format_args!("{} lied: {lie}, {times} times", client.name));
        }
        for (why, times) in client.parted.iter().filter(|(why, _)| is_its_fault(why)) {
            print_line(format_args!(
                "{} was disconnected: {why}, {times} times",
                client.name
            ));
        }
    }
    for change in &summary.changes {
        print_line(format_args!(
            "after {:.1} s: {}",
            change.at_s, change.change
        ));
    }
    for (reason, count) in &summary.refused {
        print_line(format_args!("refused: {count} connections, {reason}"));
    }
    print_closing(record);
}
