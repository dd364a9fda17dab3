//! `forebay inspect FILE.hld`: what is in a file of events, and where it is broken.
//!
//! Exit codes: 0 the file is sound, 1 it is broken (a missing start or stop event included), 2 it cannot be read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use forebay_wire::hld_scan::{Item, Scanner};

mod json;
mod recover;
mod tally;
mod text;
mod triggers;

use forebay_run_evb::plan::BuilderPlan;

use crate::evb::parse_trigger_bits;
use crate::range;
use json::JsonReport;
use recover::Recovery;
use tally::Tally;
use text::TextReport;
use triggers::Triggers;

/// Bytes asked for by one `read`.
const READ_BYTES: usize = 1 << 20;

/// Shows the events of an HLD file and the places where it is broken.
///
/// Exits with 0 for a sound file, 1 for a broken one, 2 when it cannot be read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The file.
    #[arg(value_name = "FILE.hld")]
    pub(crate) file: PathBuf,
    /// Lists every event with its sub-events.
    #[arg(long)]
    pub(crate) events: bool,
    /// Lists every event with its sub-events and their words.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Adds counts and average lengths by id (boards behind a source in words, all else in bytes).
    #[arg(long)]
    pub(crate) stat: bool,
    /// Width of the trigger number, 16 or 24.
    #[arg(long, default_value_t = 24, value_parser = parse_trigger_bits)]
    pub(crate) trigger_bits: u32,
    /// How far one trigger number is from the next, 1 to 4096.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = trigger_step)]
    pub(crate) trigger_step: u64,
    /// Writes a sound file of all complete events; OUT.hld must not exist yet.
    #[arg(long, value_name = "OUT.hld")]
    pub(crate) recover: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// How the result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines for people; those of `--events`, `--raw` and `--stat` are compatible with hldprint.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

impl InspectArgs {
    const fn lists_events(&self) -> bool {
        self.events || self.raw
    }
}

/// Reads the file once, from start to end, and prints what was asked for.
///
/// # Errors
/// When the file cannot be read, or what was asked for cannot be written. A closed pipe is no error.
fn trigger_step(text: &str) -> Result<u64, String> {
    range::number(range::key::<BuilderPlan>("trigger_step"), text)
}

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let result = match args.format {
        Format::Text => inspect(args, &mut TextReport::new(out, args)),
        Format::Json => inspect(args, &mut JsonReport::new(out, args)),
    };
    match result {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::from(1)),
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

/// What comes out on the way and at the end.
trait Report {
    fn start(&mut self) -> io::Result<()>;
    fn item(&mut self, item: &Item<'_>) -> io::Result<()>;
    fn finish(&mut self, tally: &Tally, recovery: Option<&Recovery>) -> io::Result<()>;
}

/// A reader that has gone away, as `head` does; only the reports use pipes.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns whether the file is sound.
fn inspect(args: &InspectArgs, report: &mut impl Report) -> anyhow::Result<bool> {
    let mut file = open(&args.file)?;
    let mut tally = Tally::new(
        args.stat,
        Triggers::new(args.trigger_bits, args.trigger_step as u32),
    );
    let mut recovery = args.recover.as_deref().map(Recovery::to);
    report.start()?;
    let mut scanner = Scanner::new();
    loop {
        let room = &mut scanner.room(READ_BYTES)[..READ_BYTES];
        let count = match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.with_context(|| format!("cannot read {}", args.file.display()))?,
        };
        tally.bytes += count as u64;
        match count {
            0 => scanner.finish(),
            _ => scanner.filled(count),
        }
        while let Some(item) = scanner.poll_item() {
            tally.add(&item);
            report.item(&item)?;
            if let Some(recovery) = &mut recovery {
                recovery.add(&item)?;
            }
        }
        if count == 0 {
            break;
        }
    }
    tally.end(&scanner);
    if let Some(recovery) = &mut recovery {
        recovery.finish()?;
    }
    report.finish(&tally, recovery.as_ref())?;
    Ok(tally.is_sound())
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        anyhow::bail!("{} is a directory, not an HLD file", path.display());
    }
    Ok(file)
}
