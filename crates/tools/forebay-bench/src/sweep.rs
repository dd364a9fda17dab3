//! All combinations of some settings of messaging, each measured several times, beside other programs.

mod grid;
mod store;
mod summary;

use forebay_run::Stop;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::net::peer::{Peer, Peers};
use crate::net::perf::{BOOKS_OPEN, Perf};
use crate::net::{Ground, Interrupted, PeerHost, Skipped};
use crate::progress::Progress;
use forebay_report::conditions::Conditions;
use forebay_report::rows::Row;
use grid::{Point, Task};
use store::Store;
pub use summary::{PointSummary, Report};

/// What a run costs beyond the time that is measured.
const RUN_OVERHEAD: Duration = Duration::from_millis(60);

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Schemes of addresses.
    pub backends: Vec<String>,
    /// Payload that a buffer takes, in bytes.
    pub buffer_bytes: Vec<u32>,
    /// Buffers of a connection.
    pub buffer_count: Vec<u32>,
    /// Payload of a message, in bytes; that of the buffer when there is none.
    pub message_bytes: Vec<u32>,
    /// Runs of each point.
    pub repeats: usize,
    /// How long a run sends.
    pub duration: Duration,
    /// Round-trip times too.
    pub rtt: bool,
    /// Other programs too.
    pub references: bool,
    /// Decides the order of the points.
    pub seed: u64,
    /// Each side in a network namespace of its own.
    pub apart: bool,
    /// Another host, on which the listening side runs.
    pub peer: Option<PeerHost>,
    /// Only what the directory lacks.
    pub resume: bool,
    /// Where the rows go.
    pub out: PathBuf,
    /// A file for that directory, by name and content: what the sweep was begun with.
    pub begun_with: Option<(&'static str, String)>,
    /// `forebay`, which both sides are.
    pub program: PathBuf,
}

/// Carries out a sweep; `say` is given what a user wants to know before it is over.
///
/// # Errors
/// A directory or a file that cannot be had, rows that another version wrote, namespaces without the privilege.
pub fn run(options: &Options, say: impl Fn(&str)) -> Result<Report> {
    let asked = Stop::of_process()?;
    let stop = || asked.is_asked();
    let conditions = Conditions::now();
    let program = options.program.clone();
    let ground = match &options.peer {
        Some(peer) => {
            say(&format!("connecting to {}", peer.target));
            Ground::away(program, peer.clone(), &stop)?
        }
        None if options.apart => Ground::apart(program, &stop)?,
        None => Ground::host(program, &stop),
    };
    let mut store = Store::open(&options.out, options.resume)?;
    if let Some((name, text)) = &options.begun_with {
        let file = options.out.join(name);
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    let mut sweep = Sweep {
        options,
        conditions,
        ground,
        peers: Peers::default(),
        skipped: Vec::new(),
        failed: Vec::new(),
    };
    let interrupted = match sweep.carry_out(&mut store, &say) {
        Ok(()) => false,
        Err(error) if error.is::<Interrupted>() => true,
        Err(error) => return Err(error),
    };
    store.finish()?;
    Ok(sweep.report(&store, interrupted))
}

/// A sweep under way.
struct Sweep<'a> {
    options: &'a Options,
    conditions: Conditions,
    ground: Ground<'a>,
    peers: Peers,
    skipped: Vec<Skipped>,
    failed: Vec<Skipped>,
}

impl Sweep<'_> {
    fn carry_out(&mut self, store: &mut Store, say: &impl Fn(&str)) -> Result<()> {
        let backends = self.usable()?;
        let mut points = grid::points(self.options, &backends);
        if self.options.references {
            self.add_peers(&mut points, &backends);
        }
        grid::shuffle(&mut points, self.options.seed);
        let all = points.len();
        anyhow::ensure!(
            all > 0,
            "there is nothing to measure: no backend can be used, or no message fits into a buffer; {}",
            self.skipped
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        );
        points.retain(|point| {
            !store.has(
                &point.labels(self.options, &self.ground.name()),
                self.options.repeats,
            )
        });
        say(&format!(
            "{all} points, {} of them to be measured, {} runs of {:?} each, order from seed {}",
            points.len(),
            self.options.repeats,
            self.options.duration,
            self.options.seed
        ));
        self.skipped
            .iter()
            .for_each(|skipped| say(&skipped.to_string()));
        let total = points.len() * self.options.repeats;
        let mut progress = Progress::new(total, self.options.duration + RUN_OVERHEAD);
        let done = points
            .iter()
            .try_for_each(|point| self.measure(point, store, &mut progress));
        progress.end();
        done
    }

    /// The backends that work here; the others are noted with the reason that the program gives.
    fn usable(&mut self) -> Result<Vec<String>> {
        let mut usable = Vec::new();
        for backend in &self.options.backends {
            match Perf::trial(backend, &self.ground)? {
                None => usable.push(backend.clone()),
                Some(skipped) => self.skipped.push(skipped),
            }
        }
        Ok(usable)
    }

    fn add_peers(&mut self, points: &mut Vec<Point>, backends: &[String]) {
        let peers = grid::peers(self.options, backends);
        let wanted: Vec<Peer> = peers.iter().filter_map(Point::peer).collect();
        self.peers = Peers::find(&wanted, &self.ground);
        self.skipped.extend(self.peers.skipped().cloned());
        let there = |point: &Point| point.peer().is_some_and(|peer| self.peers.has(peer));
        points.extend(peers.into_iter().filter(there));
    }

    /// All repeats of one point, or none of them.
    fn measure(&mut self, point: &Point, store: &mut Store, progress: &mut Progress) -> Result<()> {
        let mut rows = Vec::new();
        for repeat in 1..=self.options.repeats {
            progress.next(&format!(
                "{} (run {repeat} of {})",
                point.name(),
                self.options.repeats
            ));
            let load_before = Conditions::load();
            let measured = match self.run(point) {
                Ok(measured) => measured,
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => {
                    self.failed.push(Skipped {
                        what: point.name(),
                        reason: format!("{error:#}"),
                    });
                    return Ok(());
                }
            };
            rows.push(self.row(point, repeat, load_before, &measured));
        }
        store.add(rows)
    }

    fn run(&self, point: &Point) -> Result<Row> {
        match &point.task {
            Task::Perf(perf) => perf.measure(&self.ground),
            Task::Peer(peer) => self.peers.measure(
                *peer,
                &point.backend,
                point.message_bytes,
                self.options.duration,
                &self.ground,
            ),
        }
    }

    fn row(&self, point: &Point, repeat: usize, load_before: f64, measured: &Row) -> Row {
        let mut row = point.labels(self.options, &self.ground.name());
        row.add("repeat", repeat);
        row.add("repeats", self.options.repeats);
        row.extend(measured);
        let left = ["residual_items", "residual_bytes", BOOKS_OPEN];
        let left = left.map(|name| measured.number(name));
        row.add(
            "books",
            if left.iter().any(|left| *left > 0.0) {
                "DO NOT CLOSE"
            } else {
                ""
            },
        );
        row.add("load_before", load_before);
        row.add("seed", self.options.seed);
        row.add("version", env!("CARGO_PKG_VERSION"));
        row.extend(&self.conditions.row());
        if let Some(told) = self.ground.told() {
            row.extend(&told.row());
        }
        row
    }

    fn report(self, store: &Store, interrupted: bool) -> Report {
        let mut warnings = self.conditions.doubts();
        warnings.extend(self.conditions.clock_drift());
        warnings.extend(store.foreign(&self.conditions));
        if let Some(told) = self.ground.told() {
            let of_peer = told.warnings.iter();
            warnings.extend(of_peer.map(|warning| format!("{}: {warning}", told.host)));
            if told.commit != self.conditions.commit {
                warnings.push(format!(
                    "{} has another build ({}, here {})",
                    told.host, told.commit, self.conditions.commit
                ));
            }
        }
        let points = summary::points(store.rows());
        warnings.extend(summary::doubts(&points, self.options));
        Report {
            rows_with_residual: store
                .rows()
                .iter()
                .filter(|row| !row.text("books").is_empty())
                .count(),
            conditions: self.conditions,
            seed: self.options.seed,
            points,
            skipped: self.skipped,
            failed: self.failed,
            warnings,
            interrupted,
            csv: store.csv(),
            parquet: store.parquet(),
        }
    }
}

/// A directory that is there.
fn directory(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    path.canonicalize()
        .with_context(|| format!("finding {}", path.display()))
}
