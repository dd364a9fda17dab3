//! `forebay replay`: builds events from a capture of real traffic.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run_evb::replay::{self, Selection, SourceBy};
use forebay_run_evb::supervisor::Supervisor;

use crate::evb::BuildArgs;
use crate::range;
use crate::session::{carry_out, check_leak_of_stages, conclude, run_id};

/// Builds events from a capture (pcap or pcapng) of what sources sent.
///
/// Each UDP port that a HADTU message was sent to is a source. The file is read as fast as events are built and written: a full
/// queue holds it back, and nothing is lost to speed. Ends with the file, or by Ctrl-C or SIGTERM, with the last complete
/// event written and the books closed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay replay run.pcap --completion discard --check-tag off --out run1"
)]
pub(crate) struct ReplayArgs {
    /// The capture.
    #[arg(value_name = "FILE.pcap")]
    file: PathBuf,
    /// What tells sources apart.
    #[arg(long, value_enum, default_value_t)]
    source_by: By,
    /// First UDP port that is replayed (with --source-by id or sender: the only one).
    #[arg(long)]
    base_port: Option<u16>,
    /// Number of sources; without it all that are in the capture.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sources: Option<u16>,
    /// Speed by the stamps of the capture, 1.0 as it was; without it as fast as it goes.
    #[arg(long, value_parser = parse_speed)]
    speed: Option<f64>,
    /// Ends the run after this time.
    #[arg(long, value_parser = range::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    build: BuildArgs,
}

/// What tells sources apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The UDP port that a datagram was sent to.
    #[default]
    Port,
    /// The id of a message's first sub-event.
    Id,
    /// The sender's address and port.
    Sender,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a speed; write a number from 0.001 to 1000000");
    let speed: f64 = text.parse().map_err(|_| wrong())?;
    if (0.001..=1e6).contains(&speed) {
        Ok(speed)
    } else {
        Err(wrong())
    }
}

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode> {
    check_leak_of_stages()?;
    let manner = args.build.manner(args.duration);
    let selection = Selection {
        by: match args.source_by {
            By::Port => SourceBy::Port,
            By::Id => SourceBy::Id,
            By::Sender => SourceBy::Sender,
        },
        base_port: args.base_port,
        sources: args.sources,
        speed: args.speed,
    };
    let mut plan = replay::plan(&run_id(), args.build.out(), &args.file, &selection)?;
    args.build.apply(&mut plan)?;
    let supervisor = Supervisor::open(plan, manner.processes)?;
    let done = carry_out(supervisor, &manner)?;
    conclude(&done, &manner, (true, None), serde_json::json!({}))
}
