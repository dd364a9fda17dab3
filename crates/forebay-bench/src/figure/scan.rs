//! Carrying out the points of a figure, several times each, and keeping every row at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::Options;
use crate::chain::{self, Setup};
use crate::conditions::Conditions;
use crate::net::perf::Perf;
use crate::net::{Ground, Interrupted, Skipped};
use crate::progress::Progress;
use crate::rows::{CsvFile, Row};
use crate::udp::{self, Offer};

/// Runs of each point.
const REPEATS: usize = 3;

/// What is done at one point.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Chain(Setup),
    Loss(Offer),
    Net(Perf),
}

/// One point of a figure.
#[derive(Debug, Clone)]
pub(super) struct ScanPoint {
    /// For the line of progress.
    pub(super) name: String,
    /// What distinguishes it.
    pub(super) labels: Row,
    pub(super) task: Task,
}

/// All points; figures with scans of the same name share them.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    pub(super) name: &'static str,
    pub(super) points: Vec<ScanPoint>,
}

/// What came of a scan.
#[derive(Debug, Clone)]
pub(super) struct Scanned {
    pub(super) rows: Vec<Row>,
    pub(super) csv: PathBuf,
    pub(super) interrupted: bool,
    /// What cannot be measured here.
    pub(super) skipped: Vec<Skipped>,
    /// What makes the numbers doubtful.
    pub(super) warnings: Vec<String>,
    pub(super) repeats: usize,
}

impl Scan {
    /// Two processes that send messages to each other are no chain, and need no large buffers of sockets.
    fn warnings(&self, conditions: &Conditions) -> Vec<String> {
        let is_net = |point: &ScanPoint| matches!(point.task, Task::Net(_));
        if self.points.iter().all(is_net) {
            conditions.doubts()
        } else {
            conditions.warnings()
        }
    }

    fn expected(&self) -> Duration {
        let seconds = |point: &ScanPoint| match &point.task {
            Task::Chain(setup) => setup.warm_s + setup.measure_s + 1.0,
            Task::Loss(offer) => offer.seconds + 0.1,
            Task::Net(perf) => perf.duration.as_secs_f64() + 0.1,
        };
        Duration::from_secs_f64(
            self.points.iter().map(seconds).sum::<f64>() / self.points.len().max(1) as f64,
        )
    }
}

/// Carries out `scan`: all points once, then all of them again, so that what changes with time meets them alike.
pub(super) fn carry_out(
    scan: &Scan,
    file: &Path,
    options: &Options,
    conditions: &Conditions,
    stop: impl Fn() -> bool,
) -> Result<Scanned> {
    let repeats = if options.quick { 1 } else { REPEATS };
    let program = std::env::current_exe().context("finding this program")?;
    let ground = Ground::host(program, &stop);
    let mut csv = CsvFile::create(file)?;
    let mut done = Scanned {
        rows: Vec::new(),
        csv: file.to_path_buf(),
        interrupted: false,
        skipped: Vec::new(),
        warnings: scan.warnings(conditions),
        repeats,
    };
    let points = match usable(scan, &ground, &mut done.skipped) {
        Err(error) if error.is::<Interrupted>() => {
            done.interrupted = true;
            return Ok(done);
        }
        points => points?,
    };
    let mut progress = Progress::new(points.len() * repeats, scan.expected());
    'runs: for run in 1..=repeats {
        for (number, point) in points.iter().copied() {
            progress.next(&format!("{} (run {run} of {repeats})", point.name));
            let mut row = Row::default();
            row.add("point", number);
            row.add("run", run);
            row.add("runs", repeats);
            row.extend(&point.labels);
            row.add("load_before", Conditions::load());
            let outcome = perform(&point.task, options, &ground, &mut row)
                .with_context(|| format!("measuring {}", point.name))?;
            if outcome == Outcome::Interrupted || stop() {
                done.interrupted = true;
                break 'runs;
            }
            row.extend(&conditions.row());
            csv.write(&row)?;
            done.rows.push(row);
        }
    }
    progress.end();
    Ok(done)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Interrupted,
}

/// The points, with their numbers, whose backend works here.
fn usable<'a>(
    scan: &'a Scan,
    ground: &Ground<'_>,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<(usize, &'a ScanPoint)>> {
    let mut usable = Vec::new();
    let mut tried: Vec<&str> = Vec::new();
    for (number, point) in scan.points.iter().enumerate() {
        if let Task::Net(perf) = &point.task {
            let backend = perf.backend.as_str();
            if !tried.contains(&backend) {
                tried.push(backend);
                skipped.extend(Perf::trial(backend, ground)?);
            }
            if skipped.iter().any(|skipped| skipped.what == backend) {
                continue;
            }
        }
        usable.push((number, point));
    }
    Ok(usable)
}

fn perform(task: &Task, options: &Options, ground: &Ground<'_>, row: &mut Row) -> Result<Outcome> {
    match task {
        Task::Net(perf) => {
            row.extend(&perf.labels());
            match perf.measure(ground) {
                Err(error) if error.is::<Interrupted>() => return Ok(Outcome::Interrupted),
                measured => row.extend(&measured?),
            }
            Ok(Outcome::Done)
        }
        Task::Loss(offer) => {
            let outcome = udp::exchange(offer)?;
            row.add("seconds", outcome.seconds);
            row.extend(&outcome.row(offer));
            Ok(Outcome::Done)
        }
        Task::Chain(setup) => {
            let directory = options.out.join(format!(".run-{}", std::process::id()));
            let measured = chain::measure(setup, &directory)?;
            if measured.interrupted {
                return Ok(Outcome::Interrupted);
            }
            row.extend(&configuration(setup));
            row.extend(&measured.row());
            Ok(Outcome::Done)
        }
    }
}

/// The settings of a run as cells.
fn configuration(setup: &Setup) -> Row {
    let mut row = Row::default();
    let groups: Vec<String> = setup
        .groups
        .iter()
        .map(|(count, bytes, sigma)| format!("{count}:{bytes}:{sigma}"))
        .collect();
    row.add("groups", groups.join(" "));
    row.add("sources", setup.sources());
    row.add("rate_hz", setup.rate_hz);
    row.add(
        "water_mark_bytes",
        setup.water_mark_bytes.map_or(0.0, f64::from),
    );
    row.add(
        "huge_every",
        setup.huge.map_or(0.0, |huge| f64::from(huge.0)),
    );
    row.add(
        "huge_bytes",
        setup.huge.map_or(0.0, |huge| f64::from(huge.1)),
    );
    row.add("one_core", setup.one_core);
    row.add("warm_s", setup.warm_s);
    row.add("measure_s", setup.measure_s);
    row.add("seed", setup.seed);
    row
}
