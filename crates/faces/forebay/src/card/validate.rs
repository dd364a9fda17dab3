//! `forebay card validate`: the diagnostics of cards as a campaign.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_config::load;
use forebay_run::Stop;
use forebay_run_emu::validate::{self, BatchPlan, BatchReport, Step, Verdict};

use super::text;
use crate::figure::INTERRUPTED;
use crate::output::{Format, print_line};
use crate::session::BROKEN;
use crate::set::SetArg;

/// Validates a batch of emulated cards, of which some are faulty: tests, diagnosis, repairs, and the yield.
///
/// Each card is tested in virtual time: registers, alignment of links, bit errors (PRBS), DMA buffers, TTC input, queues. What is wrong is named from its symptoms alone;
/// a repair is tried, and the card tested again. What the emulator knows of each card is then compared: false alarms, faults missed, faults called by another name.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  forebay card validate
  forebay card validate --cards 400 --faulty 100 --seed 7 --out /tmp/batch --format json
  forebay card validate examples/batch.toml
  forebay card validate --device card0.sock

Exit codes:
  0    every card is good in the end, or after its repairs
  1    a card was rejected, or the one at --device did not pass
  2    it could not be done: a mistake on the command line or in the file, or something that the host refuses
  130  it was interrupted: what is told is that of the cards so far")]
pub(super) struct ValidateArgs {
    /// A batch with its limits, and the faults of each card; `forebay check --reference` lists all keys.
    #[arg(value_name = "FILE.toml", conflicts_with_all = ["cards", "faulty", "seed", "links", "dma_buffers"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    set: SetArg,
    /// Tests the card that listens there instead, in its own time, beside its work: where `forebay emulate card` has its socket.
    ///
    /// DMA buffers that nobody reads are tested; they take test blocks only meanwhile, and data that lay in them are thrown away. Bit errors are shown to be below 1e-9, speed is not measured.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["file", "cards", "faulty", "seed", "links", "dma_buffers"])]
    device: Option<PathBuf>,
    /// How many cards.
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    cards: u16,
    /// How many of them have a fault, of any kind, anywhere.
    #[arg(long, default_value_t = 10, value_name = "N")]
    faulty: u16,
    /// Which cards and which faults, and all noise, follow from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Links of each card.
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=24))]
    links: u8,
    /// DMA buffers of each card.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    dma_buffers: u8,
    /// Directory for a report of each card, as text and as JSON, and one of the batch.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &ValidateArgs) -> Result<ExitCode> {
    if let Some(socket) = &args.device {
        return run_device(args, socket);
    }
    let plan = match &args.file {
        Some(file) => load(file, &args.set.keys)?,
        None => BatchPlan::drawn(
            args.cards.into(),
            args.faulty.into(),
            args.seed,
            args.links.into(),
            args.dma_buffers.into(),
        )
        .context("--faulty")?,
    };
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    }
    let stop = Stop::of_process()?;
    let mut progress = Progress::new();
    let report = validate::run(&plan, |step| progress.show(step), || stop.is_asked())?;
    progress.end();
    if let Some(out) = &args.out {
        write(out, &report)?;
    }
    match args.format {
        Format::Json => print_line(serde_json::to_string(&report)?),
        Format::Text => print_line(text::batch(&report)),
    }
    Ok(if report.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if report.summary.rejected > 0 {
        ExitCode::from(BROKEN)
    } else {
        ExitCode::SUCCESS
    })
}

fn run_device(args: &ValidateArgs, socket: &Path) -> Result<ExitCode> {
    let mut progress = Progress::new();
    let report = validate::device(socket, |test| {
        progress.show(Step {
            card: 0,
            cards: 1,
            repairs: 0,
            test,
        });
    })?;
    progress.end();
    let told = text::report(&report.name, &report.report);
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
        let json = serde_json::to_string_pretty(&report)?;
        for (ending, text) in [("txt", &told), ("json", &json)] {
            let path = out.join(format!("{}.{ending}", report.name));
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    match args.format {
        Format::Json => print_line(serde_json::to_string(&report)?),
        Format::Text => print_line(told.trim_end()),
    }
    Ok(match report.report.verdict {
        Verdict::Passed | Verdict::Recovered => ExitCode::SUCCESS,
        Verdict::Rejected => ExitCode::from(BROKEN),
    })
}

fn write(out: &Path, report: &BatchReport) -> Result<()> {
    let put = |name: String, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    for card in &report.cards {
        put(format!("{}.txt", card.name), text::card(card))?;
        let json = serde_json::to_string_pretty(card)?;
        put(format!("{}.json", card.name), json)?;
    }
    put("batch.txt".into(), format!("{}\n", text::batch(report)))?;
    put("batch.json".into(), serde_json::to_string_pretty(report)?)
}

/// Where the campaign is, on standard error: overwritten on a terminal, otherwise a line each ten seconds.
struct Progress {
    terminal: bool,
    told: Instant,
    has_told: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            told: Instant::now(),
            has_told: false,
        }
    }

    fn show(&mut self, step: Step) {
        let every = Duration::from_millis(if self.terminal { 100 } else { 10_000 });
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        self.has_told = true;
        let line = format!(
            "[{}/{}] {}{}",
            step.card + 1,
            step.cards,
            step.test.name(),
            match step.repairs {
                0 => String::new(),
                repairs => format!(", after repair {repairs}"),
            }
        );
        let mut out = std::io::stderr().lock();
        // Nobody is harmed when the terminal is gone.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{line}")
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
    }

    fn end(&self) {
        if self.terminal && self.has_told {
            // As above.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
