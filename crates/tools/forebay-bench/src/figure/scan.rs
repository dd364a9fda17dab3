//! Carrying out the points of a figure, several times each, and keeping every row at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_run::Stop;

use super::Options;
use super::batch::Batch;
use super::components::Component;
use super::ctt::Model;
use super::mux::{self, MuxTask};
use super::offload::{self, Pair};
use super::tdm::{self, TdmTask};
use crate::chain::{self, Setup};
use crate::net::perf::Perf;
use crate::net::{Ground, Interrupted, Skipped};
use crate::profile;
use crate::progress::Progress;
use crate::readout::{self, Setup as Readout, Slower};
use crate::udp::{self, Offer};
use forebay_report::conditions::Conditions;
use forebay_report::rows::{CsvFile, Row};

/// Runs of each point.
const REPEATS: usize = 3;
/// The same of the offload, which shares a CPU with what it is tried with.
const REPEATS_OFFLOAD: usize = 5;

/// What is done at one point.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Chain(Setup),
    Loss(Offer),
    Net(Perf),
    Readout(Readout, Slower),
    /// A batch of cards, in virtual time.
    Batch(Batch),
    /// A part of the flow probe.
    Component(Component),
    /// The flow probe on a virtual wire.
    Offload(Pair),
    /// The multiplexer between network namespaces.
    Mux(MuxTask),
    /// The model of the connection table, in its own time.
    Model(Model),
    /// Time-division UDP.
    Tdm(TdmTask),
    /// To-host of such a chain, under `perf`: a row for each stack.
    Profile(Readout),
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
    /// What does not receive UDP needs no large buffers of sockets.
    fn warnings(&self, conditions: &Conditions) -> Vec<String> {
        let is_udp = |point: &ScanPoint| matches!(point.task, Task::Chain(_) | Task::Loss(_));
        if !self.points.iter().any(is_udp) {
            conditions.doubts()
        } else {
            conditions.warnings()
        }
    }

    fn repeats(&self, quick: bool) -> usize {
        let is_offload = |point: &ScanPoint| matches!(point.task, Task::Offload(_));
        match (quick, self.points.iter().any(is_offload)) {
            (true, _) => 1,
            (false, true) => REPEATS_OFFLOAD,
            (false, false) => REPEATS,
        }
    }

    fn expected(&self) -> Duration {
        let seconds = |point: &ScanPoint| match &point.task {
            Task::Chain(setup) => setup.warm_s + setup.measure_s + 1.0,
            Task::Loss(offer) => offer.seconds + 0.1,
            Task::Net(perf) => perf.duration.as_secs_f64() + 0.1,
            Task::Batch(_) => 10.0,
            Task::Model(_) | Task::Component(_) => 1.0,
            Task::Tdm(task) => task.seconds(),
            Task::Offload(pair) => pair.seconds(),
            Task::Mux(task) => task.seconds(),
            Task::Readout(setup, _) | Task::Profile(setup) => setup.real_ms as f64 * 1e-3 + 1.0,
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
    stop: &Stop,
) -> Result<Scanned> {
    let repeats = scan.repeats(options.quick);
    let program = std::env::current_exe().context("finding this program")?;
    let is_asked = || stop.is_asked();
    let ground = Ground::host(program, &is_asked);
    let mut csv = CsvFile::create(file)?;
    let mut done = Scanned {
        rows: Vec::new(),
        csv: file.to_path_buf(),
        interrupted: false,
        skipped: Vec::new(),
        warnings: scan.warnings(conditions),
        repeats,
    };
    let points = match usable(scan, options, (&ground, stop), &mut done.skipped) {
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
            let measured = match perform(&point.task, run, options, &ground, stop) {
                Err(error) if error.is::<Interrupted>() => Vec::new(),
                measured => measured.with_context(|| format!("measuring {}", point.name))?,
            };
            if measured.is_empty() || stop.is_asked() {
                done.interrupted = true;
                break 'runs;
            }
            for cells in measured {
                let mut row = row.clone();
                row.extend(&cells);
                row.extend(&conditions.row());
                csv.write(&row)?;
                done.rows.push(row);
            }
        }
    }
    progress.end();
    Ok(done)
}

/// The points, with their numbers, whose backend works here.
fn usable<'a>(
    scan: &'a Scan,
    options: &Options,
    (ground, stop): (&Ground<'_>, &Stop),
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
        if let Task::Profile(_) = &point.task
            && let Some(why) = profile::trial(&options.out)
        {
            skipped.push(why);
            continue;
        }
        if let Task::Tdm(task) = &point.task {
            if !tried.contains(&scan.name) {
                tried.push(scan.name);
                skipped.extend(task.trial());
            }
            if tdm::is_skipped(point, skipped) {
                continue;
            }
        }
        if let Task::Offload(pair) = point.task {
            if !tried.contains(&scan.name) {
                tried.push(scan.name);
                skipped.extend(pair.trial(&options.out, stop));
            }
            if skipped.iter().any(|skipped| skipped.what == offload::WIRE) {
                continue;
            }
        }
        if let Task::Mux(task) = point.task {
            if !tried.contains(&scan.name) {
                tried.push(scan.name);
                skipped.extend(task.trial(stop));
            }
            if skipped.iter().any(|skipped| skipped.what == mux::HOSTS) {
                continue;
            }
        }
        usable.push((number, point));
    }
    Ok(usable)
}

/// Cells of the rows that come of a task.
fn perform(
    task: &Task,
    run: usize,
    options: &Options,
    ground: &Ground<'_>,
    stop: &Stop,
) -> Result<Vec<Row>> {
    let directory = options.out.join(format!(".run-{}", std::process::id()));
    let mut row = Row::default();
    match task {
        Task::Net(perf) => {
            row.extend(&perf.labels());
            row.extend(&perf.measure(ground)?);
        }
        Task::Batch(batch) => {
            let measured = batch.measure(run, &|| stop.is_asked())?;
            row.extend(&measured.ok_or(Interrupted)?);
        }
        Task::Component(component) => {
            row.extend(&component.measure(&options.out, &|| stop.is_asked())?);
        }
        Task::Offload(pair) => row.extend(&pair.measure(&options.out, run, stop)?),
        Task::Mux(task) => row.extend(&task.measure(stop)?),
        Task::Model(model) => row.extend(&model.compute(run)?),
        Task::Tdm(task) => return task.measure(run, &|| stop.is_asked()),
        Task::Loss(offer) => {
            let outcome = udp::exchange(offer)?;
            row.add("seconds", outcome.seconds);
            row.extend(&outcome.row(offer));
        }
        Task::Chain(setup) => {
            let measured = chain::measure(setup, &directory)?;
            if measured.interrupted {
                return Err(Interrupted.into());
            }
            row.extend(&configuration(setup));
            row.extend(&measured.row());
        }
        Task::Readout(setup, slower) => {
            let (setup, measured) = setup.measure_slower(*slower, &directory, stop)?;
            row.extend(&setup.row(&measured));
        }
        Task::Profile(setup) => return profiled(setup, options, &directory, stop),
    }
    Ok(vec![row])
}

/// A row for each stack of to-host.
fn profiled(setup: &Readout, options: &Options, directory: &Path, stop: &Stop) -> Result<Vec<Row>> {
    let file = options.out.join(format!(".perf-{}", std::process::id()));
    let recorded = readout::beside(setup, directory, stop, |over| {
        profile::record("tohost", "fb-dma", &file, over)
    });
    let stacks = recorded.and_then(|(summary, recorded)| {
        recorded?;
        Ok((summary, profile::stacks(&file)?))
    });
    // It is not there when nothing was recorded.
    let _ = std::fs::remove_file(&file);
    let (summary, stacks) = stacks?;
    if stacks.is_empty() {
        bail!("perf found to-host at work not once");
    }
    let row = |(stack, samples): (Vec<String>, u64)| {
        let mut row = Row::default();
        row.add("links", f64::from(setup.links));
        row.add("asked_hz", setup.trigger_hz);
        row.add("chunk_bytes", f64::from(setup.chunk_bytes));
        row.add("trigger_hz", summary.trigger_rate_hz);
        row.add("chunks_received", summary.chunks_received);
        row.add("residual_items", summary.books.residual_items);
        row.add("samples", samples);
        row.add("stack", super::profile::cell(&stack));
        row
    };
    Ok(stacks.into_iter().map(row).collect())
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
