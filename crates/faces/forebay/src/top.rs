//! `forebay top`: a run while it goes on, or as it ended.
//!
//! It maps the ledger and reads; the data path does not notice.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_ledger::LedgerReader;
use forebay_report::top::page::{self, Wish};
use forebay_report::top::sample::Sample;
use forebay_report::top::terminal;
use forebay_report::top::view::{State, View, Watch};
use forebay_run::Stop;
use forebay_run::run_dir::open_ledger;

use crate::output::{Format, parse_duration};

/// Shortest and longest time between two looks.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3600));
/// How often a waiting `--follow` looks for stop.
const REACTION: Duration = Duration::from_millis(50);

/// Shows a run live: rates, fills, losses by reason and owner, residual, latencies; also after its end.
///
/// Keys: q quit, p pause, Tab sources one by one, s sort them, arrows scroll. Without a terminal it prints one page, as with --once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay top forebay-demo")]
pub(crate) struct TopArgs {
    /// The run's directory, or its ledger.
    #[arg(value_name = "RUNDIR", default_value = "forebay-demo")]
    run: PathBuf,
    /// Time between two looks, over which rates are taken.
    #[arg(long, default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Prints one page and ends.
    #[arg(long)]
    once: bool,
    /// Prints one page, or one JSON object, per interval, until the run has ended.
    #[arg(long, conflicts_with = "once")]
    follow: bool,
    /// Shows the sources one by one.
    #[arg(long)]
    sources: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let (least, most) = INTERVALS;
    let interval = parse_duration(text)?;
    if (least..=most).contains(&interval) {
        return Ok(interval);
    }
    Err(format!("{text} is out of range; from 50ms to 1h"))
}

pub(crate) fn run(args: &TopArgs) -> Result<ExitCode> {
    let reader = open_ledger(&args.run).with_context(|| {
        let path = args.run.display();
        format!("no run in {path}: name the directory that its --out named")
    })?;
    let for_people = args.format == Format::Text && !args.once && !args.follow;
    if for_people && std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        terminal::watch(&args.run, reader, args.interval)?;
    } else {
        print(args, &reader)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One page, or one per interval.
fn print(args: &TopArgs, reader: &LedgerReader) -> Result<()> {
    let stop = Stop::of_process()?;
    let mut watch = Watch::default();
    let first = watch.view(Sample::take(reader)?);
    if first.state != State::Live {
        return show(args, &first);
    }
    let mut next = Instant::now() + args.interval;
    loop {
        // Asked at least once per look, also when a look takes longer than the interval.
        if stop.is_asked() {
            return Ok(());
        }
        let left = next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left.min(REACTION));
            continue;
        }
        next = Instant::now() + args.interval;
        let view = watch.view(Sample::take(reader)?);
        show(args, &view)?;
        if !args.follow || view.state != State::Live {
            return Ok(());
        }
    }
}

fn show(args: &TopArgs, view: &View) -> Result<()> {
    match args.format {
        Format::Json => crate::output::print_line(format_args!("{}", serde_json::to_string(view)?)),
        Format::Text => {
            let wish = Wish {
                sources: args.sources,
                ..Wish::default()
            };
            crate::output::print_line(format_args!("{}", page::text(view, &wish)));
            if args.follow {
                crate::output::print_line(format_args!(""));
            }
        }
    }
    Ok(())
}
