//! One measured run of the chain: emulated sources, receiver and builder as processes over real UDP sockets.

mod probe;
mod result;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use forebay_run::RunError;
use forebay_run_evb::books::Books;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::presets;
use forebay_run_evb::summary::Summary;
use forebay_run_evb::supervisor::{End, Supervisor};
use forebay_run_hades::GeneratorPlan;

use probe::Probe;
pub use result::{Fill, Measured};

/// First ports that are tried.
const BASE_PORTS: std::ops::Range<u16> = 50..64;
/// The sources go on a little longer than is looked at.
const TAIL_MS: u64 = 200;

/// The sizes of HADES' Test-2: sources, bytes of a sub-event with its header, spread.
pub const TEST2: [(usize, u32, f64); 3] = [(60, 116, 0.0), (20, 338, 0.0), (10, 1170, 0.0)];

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Counted and forgotten.
    Null,
    /// HLD files in this directory; they are removed after the run.
    Files {
        /// The directory.
        directory: PathBuf,
        /// Whether each block is on the device before it counts.
        sync: bool,
    },
}

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Groups of sources: count, bytes of a sub-event, standard deviation.
    pub groups: Vec<(usize, u32, f64)>,
    /// Triggers per second.
    pub rate_hz: f64,
    /// Water mark of the sources; none: one sub-event per datagram.
    pub water_mark_bytes: Option<u32>,
    /// One sub-event in so many is huge, and its bytes.
    pub huge: Option<(u32, u32)>,
    /// Not looked at: caches and the balance of the stages settle.
    pub warm_s: f64,
    /// Looked at.
    pub measure_s: f64,
    /// Receiver and builder share one core, so that the sources have the others.
    pub one_core: bool,
    /// Size of each source's ring, a power of two; none: the default.
    pub ring_bytes: Option<u64>,
    /// Where events go.
    pub sink: Sink,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Setup {
    /// Test-2 at `rate_hz` into the null sink.
    #[must_use]
    pub fn test2(rate_hz: f64) -> Self {
        Self {
            groups: TEST2.to_vec(),
            rate_hz,
            water_mark_bytes: Some(32 << 10),
            huge: None,
            warm_s: 1.0,
            measure_s: 3.0,
            one_core: false,
            ring_bytes: None,
            sink: Sink::Null,
            seed: 2,
        }
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.groups.iter().map(|group| group.0).sum()
    }

    /// Bytes of sub-events in a mean event.
    #[must_use]
    pub fn event_bytes(&self) -> f64 {
        let usual: f64 = self
            .groups
            .iter()
            .map(|group| group.0 as f64 * f64::from(group.1))
            .sum();
        let Some((every, bytes)) = self.huge else {
            return usual;
        };
        let more: f64 = self
            .groups
            .iter()
            .map(|group| group.0 as f64 * (f64::from(bytes) - f64::from(group.1)))
            .sum();
        usual + more / f64::from(every)
    }

    fn plan(&self, directory: &Path, base_port: u16) -> Plan {
        let local = Ipv4Addr::LOCALHOST;
        let run_id = format!("measure-{}", std::process::id());
        let mut plan = presets::plan(&run_id, directory, local.into(), base_port, self.sources());
        plan.sinks = vec![match &self.sink {
            Sink::Null => presets::null_sink(),
            Sink::Files { directory, sync } => {
                let mut sink = presets::file_sink(directory.clone(), "be");
                if let forebay_run_evb::plan::SinkKind::File(file) = &mut sink.kind {
                    file.sync = *sync;
                }
                sink
            }
        }];
        if let Some(bytes) = self.ring_bytes {
            plan.sources
                .iter_mut()
                .for_each(|source| source.ring_bytes = bytes);
        }
        // A run of seconds is no measure of queues that fill a GiB of fresh memory meanwhile.
        plan.receiver.populate_queues = true;
        let cpus = forebay_sys::sched::cpu_count();
        if self.one_core && cpus > 1 {
            plan.receiver.cpu = Some(cpus - 1);
            plan.builder.cpu = Some(cpus - 1);
        }
        let mut generator = GeneratorPlan::test2((local, base_port).into(), self.rate_hz);
        generator.groups.clone_from(&self.groups);
        generator.water_mark_bytes = self.water_mark_bytes;
        if let Some((every, bytes)) = self.huge {
            generator.huge_every = every;
            generator.huge_bytes = bytes;
        }
        generator.duration_ms = Some(((self.warm_s + self.measure_s) * 1e3) as u64 + TAIL_MS);
        generator.seed = self.seed;
        plan.generator = Some(generator);
        plan
    }
}

/// Runs `setup` once, its record in `directory` (made and removed here).
///
/// # Errors
/// The chain cannot be started, or a stage cannot be kept alive.
pub fn measure(setup: &Setup, directory: &Path) -> Result<Measured> {
    let done = carry_out(setup, directory);
    std::fs::remove_dir_all(directory).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error).with_context(|| format!("removing {}", directory.display())),
    })?;
    done
}

fn carry_out(setup: &Setup, directory: &Path) -> Result<Measured> {
    let supervisor = open(setup, directory)?;
    let plan = supervisor.plan().clone();
    let books = Books::declare(&plan)?;
    let mut probe = Probe::new(setup, &plan, &books);
    let (supervisor, outcome) = supervisor.run(None, |reader| probe.tick(reader))?;
    if outcome.end == End::StageLost {
        bail!(
            "a stage was lost: {}",
            outcome
                .taints
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        );
    }
    let snapshot = supervisor.reader().snapshot()?;
    let first_ns = snapshot.value(books.span[0]);
    let (summary, verdict) = Summary::of(&plan, &books, &snapshot, &outcome)?;
    for file in &summary.files {
        let opened =
            std::fs::File::open(file).with_context(|| format!("opening {}", file.display()))?;
        opened
            .sync_all()
            .with_context(|| format!("flushing {}", file.display()))?;
    }
    let end_ns = forebay_sys::clock::monotonic_ns();
    for file in &summary.files {
        std::fs::remove_file(file).with_context(|| format!("removing {}", file.display()))?;
    }
    let events_sent = books
        .generator
        .as_ref()
        .map_or(0, |words| snapshot.value(words.events));
    let mut measured = Measured::of(setup, &probe, &summary, &verdict, events_sent);
    measured.whole_s = end_ns.saturating_sub(first_ns) as f64 / 1e9;
    measured.interrupted = outcome.end == End::Requested;
    Ok(measured)
}

/// Opens the run on the first free range of ports.
fn open(setup: &Setup, directory: &Path) -> Result<Supervisor> {
    for thousand in BASE_PORTS {
        match Supervisor::open(setup.plan(directory, thousand * 1000), true) {
            Ok(supervisor) => return Ok(supervisor),
            Err(RunError::System(error)) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!(
        "no free range of {} UDP ports between {}000 and {}000",
        setup.sources(),
        BASE_PORTS.start,
        BASE_PORTS.end
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_test_2_has_25_kilobytes() {
        assert!((Setup::test2(1.0).event_bytes() - 25_420.0).abs() < 1e-9);
        let huge = Setup {
            huge: Some((1000, 100_000)),
            ..Setup::test2(1.0)
        };
        assert!(
            (huge.event_bytes() - 34_394.6).abs() < 0.1,
            "{}",
            huge.event_bytes()
        );
    }
}
