//! How fast: each line a median of several runs beside a reference of the same run.

mod bare;
mod decode;
mod disk;
mod heaps;
mod line;
mod mux;
mod net;
mod parts;
mod probe;
mod probe_flows;
mod probe_live;
mod readout;
mod search;
mod sink;
mod tdm;
mod tdm_long;
mod traffic;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use forebay_run::Stop;
use forebay_sys::host::CpuTicks;

use forebay_report::conditions::Conditions;
use forebay_report::statistics::is_settled;
pub use line::{Failed, Line, Report};

/// How benches are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer and shorter runs: for a look, not for a result.
    pub quick: bool,
    /// Where runs keep their records meanwhile, and where the disk is measured.
    pub work: PathBuf,
    /// Program that emulates sources for the references: this one.
    pub program: PathBuf,
}

/// One call of [`run`].
struct Session {
    options: Options,
    stop: Stop,
}

impl Session {
    /// Fails when the user wants the bench to end.
    fn go_on(&self) -> Result<()> {
        if self.stop.is_asked() {
            bail!("interrupted");
        }
        Ok(())
    }
}

impl std::ops::Deref for Session {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

impl Options {
    /// Runs of a measurement.
    fn runs(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// Whether one more round of turns shall follow so many, after these results of each: as many as are asked for, and up to three times as many while
    /// some median is not settled.
    fn wants_more(&self, rounds: usize, found: &[Vec<f64>]) -> bool {
        let least = self.runs();
        let is_settled = |values: &Vec<f64>| values.is_empty() || is_settled(values);
        let most = if self.quick { least } else { 3 * least };
        rounds < least || (rounds < most && !found.iter().all(is_settled))
    }

    /// How long a run that counts is looked at, in s.
    fn seconds(&self) -> f64 {
        if self.quick { 2.0 } else { 5.0 }
    }
}

/// CPU time since the last line, in ticks of the kernel, from which on it is one of another measurement.
const MEASUREMENT_TICKS: u64 = 10;

/// Where the parts put their lines, each as soon as it is known: what comes behind it may take long, fail, or be interrupted.
struct Lines<'a> {
    kept: Vec<Line>,
    /// Load average before the part at hand.
    load_before: f64,
    /// What the CPUs had spent when the last measurement was over.
    spent: CpuTicks,
    /// What a hypervisor took of them in the last measurement.
    stolen_part: f64,
    show: &'a mut dyn FnMut(&Line),
}

impl Lines<'_> {
    fn put(&mut self, line: Line) {
        self.put_all([line]);
    }

    /// Lines of one measurement, or more of the last one.
    fn put_all(&mut self, lines: impl IntoIterator<Item = Line>) {
        let spent = CpuTicks::read();
        if spent.with_work_since(self.spent) >= MEASUREMENT_TICKS {
            self.stolen_part = spent.stolen_since(self.spent);
            self.spent = spent;
        }
        for mut line in lines {
            (line.load_before, line.stolen) = (self.load_before, self.stolen_part);
            (self.show)(&line);
            self.kept.push(line);
        }
    }
}

/// A part: its name, what it measures, and how.
type Part = (
    &'static str,
    &'static str,
    fn(&Session, &mut Lines<'_>) -> Result<()>,
);

const PARTS: &[Part] = &[
    (
        "chain",
        "highest rate without a loss, 90 sources, water mark 32 kB, null sink",
        parts::chain,
    ),
    ("mark", "CPU per gigabyte over water marks", parts::mark),
    (
        "ring",
        "CPU per event over the size of the rings",
        parts::ring,
    ),
    (
        "small",
        "one sub-event per datagram, against a bare recvmmsg loop",
        parts::small,
    ),
    (
        "huge",
        "100 kB sub-events once per 1,000 events in every source",
        parts::huge,
    ),
    (
        "tmpfs",
        "files in memory: the sink alone against dd, and the chain",
        parts::tmpfs,
    ),
    (
        "disk",
        "files on disk: the sink alone, past the page cache and through it, and the chain, against dd",
        parts::disk,
    ),
    ("memory", "memory announced and used", parts::memory),
    (
        "net",
        "messaging over TCP, shared memory and libfabric, against iperf3, libzmq and a bare loop",
        net::net,
    ),
    (
        "readout",
        "the decoder of link readout alone, against a bare loop and memcpy; card, to-host and subscriber together",
        readout::readout,
    ),
    (
        "probe",
        "the flow probe on captures, against softflowd and nfpcapd",
        probe::probe,
    ),
    (
        "probe-flows",
        "the engine of the flow probe with a million flows at a time: memory, and how long it is away from packets",
        probe_flows::probe_flows,
    ),
    (
        "probe-live",
        "the flow probe on a virtual wire with heavy flows: the highest rate without a loss, offload off and on, against XDP_DROP",
        probe_live::probe_live,
    ),
    (
        "traffic",
        "the generator of traffic into captures in memory, against dd of as many bytes",
        traffic::traffic,
    ),
    (
        "mux",
        "the multiplexer: its ring alone against memcpy; echo, limiters, priority, overload and 64 clients between network namespaces, against sockets of Linux",
        mux::mux,
    ),
    (
        "tdm",
        "time-division UDP: one sender against a bare loop, and three schemes on a shallow port between network namespaces",
        tdm::tdm,
    ),
    (
        "tdm-long",
        "time-division UDP for five minutes in windows of 200 us: what memory and output grow by",
        tdm_long::tdm_long,
    ),
];

/// Name and purpose of every part.
#[must_use]
pub fn list() -> Vec<(&'static str, &'static str)> {
    PARTS.iter().map(|part| (part.0, part.1)).collect()
}

/// Carries out the parts named; all of them when none is. `show` is given each line as soon as it is there.
///
/// # Errors
/// An unknown part, or a directory that cannot be made. A part that fails is in the report, with the lines that it has given before, and the others go on.
pub fn run(names: &[String], options: &Options, mut show: impl FnMut(&Line)) -> Result<Report> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !PARTS.iter().any(|part| part.0 == *name))
    {
        let known: Vec<_> = PARTS.iter().map(|part| part.0).collect();
        bail!(
            "there is no bench {unknown:?}; known are {}",
            known.join(", ")
        );
    }
    std::fs::create_dir_all(&options.work)
        .with_context(|| format!("making {}", options.work.display()))?;
    let options = Options {
        work: options
            .work
            .canonicalize()
            .with_context(|| format!("finding {}", options.work.display()))?,
        ..options.clone()
    };
    let session = Session {
        options,
        stop: Stop::of_process()?,
    };
    let wanted = PARTS
        .iter()
        .filter(|part| names.is_empty() || names.iter().any(|name| name == part.0));
    Ok(carry_out(wanted, &session, &mut show))
}

fn carry_out<'a>(
    parts: impl Iterator<Item = &'a Part>,
    session: &Session,
    show: &mut dyn FnMut(&Line),
) -> Report {
    let conditions = Conditions::now();
    let (mut failed, mut interrupted) = (Vec::new(), false);
    let mut lines = Lines {
        kept: Vec::new(),
        load_before: 0.0,
        spent: CpuTicks::default(),
        stolen_part: 0.0,
        show,
    };
    for (name, purpose, measure) in parts {
        eprintln!("{name}: {purpose}");
        (lines.load_before, lines.spent) = (Conditions::load(), CpuTicks::read());
        lines.stolen_part = 0.0;
        match measure(session, &mut lines) {
            Ok(()) => {}
            Err(_) if session.go_on().is_err() => {
                interrupted = true;
                break;
            }
            Err(error) => {
                eprintln!("{name}: FAILED: {error:#}");
                failed.push(Failed {
                    part: (*name).into(),
                    reason: format!("{error:#}"),
                });
            }
        }
    }
    Report {
        warnings: conditions.warnings_after(),
        conditions,
        quick: session.quick,
        lines: lines.kept,
        failed,
        interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_report::statistics::spread;

    fn line(what: &str) -> Result<Line> {
        let value = spread([1.0]).context("a value")?;
        Ok(Line::new(what, "s", value))
    }

    #[test]
    fn a_line_is_there_as_soon_as_it_is_known() -> Result<()> {
        let parts: [Part; 2] = [
            ("first", "fails behind its first line", |_, lines| {
                lines.put(line("one")?);
                bail!("behind it")
            }),
            ("second", "goes on", |_, lines| {
                lines.put(line("two")?);
                Ok(())
            }),
        ];
        let session = Session {
            options: Options {
                quick: true,
                work: PathBuf::new(),
                program: PathBuf::new(),
            },
            stop: Stop::of_process()?,
        };
        let mut shown = Vec::new();
        let report = carry_out(parts.iter(), &session, &mut |line| {
            shown.push(line.what.clone());
        });
        assert_eq!(shown, ["one", "two"]);
        assert_eq!((report.lines.len(), report.failed.len()), (2, 1));
        assert_eq!(report.failed[0].part, "first");
        Ok(())
    }
}
