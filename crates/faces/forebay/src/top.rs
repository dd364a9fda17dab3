//! `forebay top`: a run while it goes on, or as it ended.
//!
//! It maps the ledger and reads; the data path does not notice.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
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
use serde_json::{Map, json};

use crate::audit::parts;
use crate::output::{Format, parse_duration, print_line};

/// Shortest and longest time between two looks.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3600));
/// How often a waiting `--follow` looks whether it shall end.
const REACTION: Duration = Duration::from_millis(50);

/// Shows a run live: rates, fills, losses by reason and owner, residual, latencies; also after its end.
///
/// The directory of a chain shows all of its members, page by page; the live view is of one of them.
/// Keys: q quit, p pause, Tab sources one by one, s sort them, arrows scroll. Without a terminal it prints one page, as with --once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay top forebay-demo")]
pub(crate) struct TopArgs {
    /// The run's directory, or its ledger; or that of a chain.
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

/// A run that is looked at.
struct Look {
    /// Its directory below the one that was named; none where that is its own.
    name: Option<String>,
    reader: LedgerReader,
    watch: Watch,
}

impl Look {
    fn open(name: Option<String>, run: &Path) -> Result<Self> {
        let reader = open_ledger(run).with_context(|| {
            let path = run.display();
            format!("no run in {path}: name the directory that its --out named")
        })?;
        let watch = Watch::default();
        Ok(Self {
            name,
            reader,
            watch,
        })
    }

    fn view(&mut self) -> Result<View> {
        Ok(self.watch.view(Sample::take(&self.reader)?))
    }
}

pub(crate) fn run(args: &TopArgs) -> Result<ExitCode> {
    let for_people = args.format == Format::Text && !args.once && !args.follow;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let parts = parts(&args.run);
    let named = parts.iter().map(|part| {
        let name = part.strip_prefix(&args.run).unwrap_or(part);
        Look::open(Some(name.display().to_string()), part)
    });
    let mut looks = named.collect::<Result<Vec<_>>>()?;
    if looks.is_empty() {
        let look = Look::open(None, &args.run)?;
        if for_people && is_terminal {
            terminal::watch(&args.run, look.reader, args.interval)?;
            return Ok(ExitCode::SUCCESS);
        }
        looks.push(look);
    }
    print(args, &mut looks)?;
    Ok(ExitCode::SUCCESS)
}

/// One page of each, or one per interval until all have ended.
fn print(args: &TopArgs, looks: &mut [Look]) -> Result<()> {
    let stop = Stop::of_process()?;
    let first = views(looks)?;
    if first.iter().all(|view| view.state != State::Live) {
        return show_all(args, looks, &first);
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
        let views = views(looks)?;
        show_all(args, looks, &views)?;
        if !args.follow || views.iter().all(|view| view.state != State::Live) {
            return Ok(());
        }
    }
}

fn views(looks: &mut [Look]) -> Result<Vec<View>> {
    looks.iter_mut().map(Look::view).collect()
}

/// The pages one below the other, each below its name; as JSON one object with a key for each, unless there is but the one that was named.
fn show_all(args: &TopArgs, looks: &[Look], views: &[View]) -> Result<()> {
    let mut told = Map::new();
    for (look, view) in looks.iter().zip(views) {
        match (&look.name, args.format) {
            (None, _) => show(args, view)?,
            (Some(name), Format::Text) => {
                print_line(format_args!("== {name} =="));
                show(args, view)?;
            }
            (Some(name), Format::Json) => {
                told.insert(name.clone(), serde_json::to_value(view)?);
            }
        }
    }
    if !told.is_empty() {
        print_line(json!({ "runs": told }));
    }
    Ok(())
}

fn show(args: &TopArgs, view: &View) -> Result<()> {
    match args.format {
        Format::Json => print_line(format_args!("{}", serde_json::to_string(view)?)),
        Format::Text => {
            let wish = Wish {
                sources: args.sources,
                ..Wish::default()
            };
            print_line(format_args!("{}", page::text(view, &wish)));
            if args.follow {
                print_line(format_args!(""));
            }
        }
    }
    Ok(())
}
