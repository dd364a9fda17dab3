//! The parts of the bench, one after another.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::line::{Goal, Line};
use super::search::{Highest, Sample, highest};
use super::{Options, bare, disk as dd};
use crate::chain::{self, Measured, Setup, Sink};
use crate::statistics::{Spread, spread};

const KIB: u32 = 1024;
/// Length of a run that only feels its way, in s.
const SHORT_S: f64 = 1.5;
const WARM_S: f64 = 1.0;
/// Where files lie in memory.
const MEMORY: &str = "/dev/shm";

fn run(setup: &Setup, options: &Options) -> Result<Measured> {
    let measured = chain::measure(
        setup,
        &options.work.join(format!(".run-{}", std::process::id())),
    )?;
    if measured.interrupted {
        bail!("interrupted");
    }
    Ok(measured)
}

fn at(setup: &Setup, rate_hz: f64, counts: bool, options: &Options) -> Setup {
    let measure_s = if counts { options.seconds() } else { SHORT_S };
    Setup {
        rate_hz,
        warm_s: WARM_S,
        measure_s,
        ..setup.clone()
    }
}

/// The highest rate of the chain without a loss.
fn highest_of_chain(setup: &Setup, start_hz: f64, options: &Options) -> Result<Highest> {
    highest(start_hz, options.runs(), |rate_hz, counts| {
        let setup = at(setup, rate_hz, counts, options);
        let measured = run(&setup, options)?;
        eprintln!(
            "  {rate_hz:8.0} Hz: {:8.0} Hz built, {} lost, {} incomplete, {:.1} µs per event{}  {}",
            measured.built_hz,
            measured.lost(),
            measured.events_sent - measured.events_complete,
            measured.cpu_us_per_event,
            if measured.generator_limited {
                ", sources behind"
            } else {
                ""
            },
            measured
                .drops
                .iter()
                .map(|(name, items)| format!("{name}={items}"))
                .collect::<Vec<_>>()
                .join(" "),
        );
        Ok(Sample {
            lossless: measured.is_lossless(),
            full_rate: measured.built_hz > 0.97 * rate_hz,
            events_hz: measured.built_hz,
            datagrams_hz: measured.datagrams_hz,
            bytes_per_s: measured.built_bytes_per_s,
            cpu_us_per_event: measured.cpu_us_per_event,
        })
    })
}

/// The highest rate of the bare loop without a loss.
fn highest_of_bare(setup: &Setup, start_hz: f64, options: &Options) -> Result<Highest> {
    highest(start_hz, options.runs(), |rate_hz, counts| {
        let sample = bare::receive(&at(setup, rate_hz, counts, options), options)?;
        eprintln!(
            "  bare {rate_hz:8.0} Hz: {:8.0} datagrams/s, {}{}",
            sample.datagrams_hz,
            if sample.lossless {
                "nothing lost"
            } else {
                "LOST"
            },
            if sample.full_rate {
                ""
            } else {
                ", sources behind"
            }
        );
        Ok(sample)
    })
}

const BARE: &str = "bare recvmmsg loop, same sockets";

/// The highest rates of the chain and of the bare loop beside it, and what held each.
fn highest_of_both(
    setup: &Setup,
    start_hz: f64,
    options: &Options,
) -> Result<(Highest, Highest, String)> {
    let ours = highest_of_chain(setup, start_hz, options)?;
    let bare = highest_of_bare(setup, start_hz, options)?;
    let note = format!(
        "asked {:.0} Hz, {}; bare loop: {}",
        ours.rate_hz,
        ours.limit.words(),
        bare.limit.words()
    );
    Ok((ours, bare, note))
}

pub(super) fn chain(options: &Options) -> Result<Vec<Line>> {
    let setup = Setup::test2(0.0);
    let (ours, bare, note) = highest_of_both(&setup, 16_000.0, options)?;
    let rate = Line::new(
        "chain, 90 sources, 32 kB: events without a loss",
        "Hz",
        ours.of(|sample| sample.events_hz)?,
    )
    .beside(BARE, bare.of(|sample| sample.events_hz)?)
    .goal(Goal::AtLeast(80_000.0))
    .note(note);
    let data = Line::new(
        "the same in bytes",
        "MB/s",
        scaled(ours.of(|sample| sample.bytes_per_s)?, 1e-6),
    )
    .beside(BARE, scaled(bare.of(|sample| sample.bytes_per_s)?, 1e-6));
    let cpu = Line::new(
        "CPU of receiver and builder per event at that rate",
        "µs",
        ours.of(|sample| sample.cpu_us_per_event)?,
    )
    .beside(BARE, bare.of(|sample| sample.cpu_us_per_event)?)
    .goal(Goal::AtMost(7.0));
    Ok(vec![rate, data, cpu])
}

pub(super) fn mark(options: &Options) -> Result<Vec<Line>> {
    let marks = if options.quick {
        &[4, 32][..]
    } else {
        &[1, 4, 16, 32, 60]
    };
    let measure = |kib: &u32| {
        let setup = Setup {
            water_mark_bytes: Some(kib * KIB),
            ..Setup::test2(8000.0)
        };
        let setup = at(&setup, 8000.0, true, options);
        let per_gigabyte = |measured: &Measured| {
            measured.cpu_us_per_event * measured.built_hz / measured.built_bytes_per_s * 1e3
        };
        let runs = repeat(options, || Ok(per_gigabyte(&run(&setup, options)?)))?;
        Ok(Line::new(
            format!("CPU per gigabyte at 8 kHz, water mark {kib} KiB"),
            "s/GB",
            runs,
        ))
    };
    marks.iter().map(measure).collect()
}

/// What lies in the cache need not be fetched: the same work with rings of several sizes.
pub(super) fn ring(options: &Options) -> Result<Vec<Line>> {
    let sizes = if options.quick {
        &[512, 4096][..]
    } else {
        &[512, 1024, 2048, 4096]
    };
    let measure = |kib: &u64| {
        let setup = at(
            &Setup {
                ring_bytes: Some(kib << 10),
                ..Setup::test2(0.0)
            },
            24_000.0,
            true,
            options,
        );
        let mut lost = 0;
        let runs = repeat(options, || {
            let measured = run(&setup, options)?;
            lost += measured.lost();
            Ok(measured.cpu_us_per_event)
        })?;
        Ok(Line::new(
            format!("CPU per event at 24 kHz, ring of {kib} KiB for each source"),
            "µs",
            runs,
        )
        .note(format!("{lost} items lost")))
    };
    sizes.iter().map(measure).collect()
}

pub(super) fn small(options: &Options) -> Result<Vec<Line>> {
    let setup = Setup {
        water_mark_bytes: None,
        ..Setup::test2(0.0)
    };
    let (ours, bare, note) = highest_of_both(&setup, 2000.0, options)?;
    let rate = Line::new(
        "no water mark: datagrams without a loss",
        "1/s",
        ours.of(|sample| sample.datagrams_hz)?,
    )
    .beside(BARE, bare.of(|sample| sample.datagrams_hz)?)
    .ratio_goal(Goal::AtLeast(0.8))
    .note(note);
    let moonshot = Line::new(
        "the same against the goal",
        "1/s",
        ours.of(|sample| sample.datagrams_hz)?,
    )
    .goal(Goal::AtLeast(1e6));
    Ok(vec![rate, moonshot])
}

pub(super) fn huge(options: &Options) -> Result<Vec<Line>> {
    let setup = Setup {
        huge: Some((1000, 100_000)),
        ..Setup::test2(0.0)
    };
    let mut lines = Vec::new();
    for rate_hz in [24_000.0, 32_000.0] {
        let setup = at(&setup, rate_hz, true, options);
        let mut built = Vec::new();
        let mut behind = false;
        let lost = repeat(options, || {
            let measured = run(&setup, options)?;
            built.push(measured.built_hz);
            behind |= measured.generator_limited;
            Ok((measured.lost() + measured.events_sent - measured.events_complete) as f64)
        })?;
        let built = spread(built).context("nothing was measured")?;
        let sources = if behind {
            ", the sources fell behind"
        } else {
            ""
        };
        let line = Line::new(
            format!(
                "100 kB once per 1,000 events in every source at {:.0} kHz: lost",
                rate_hz / 1e3
            ),
            "items",
            lost,
        )
        .goal(Goal::AtMost(0.0))
        .note(format!(
            "{:.0} Hz built{sources}; worst run {:.0} lost",
            built.median, lost.high
        ));
        lines.push(line);
    }
    Ok(lines)
}

pub(super) fn tmpfs(options: &Options) -> Result<Vec<Line>> {
    let directory = tempdir(Path::new(MEMORY))?;
    let result = (|| {
        let setup = Setup {
            sink: Sink::Files {
                directory: directory.clone(),
                sync: false,
            },
            ..Setup::test2(0.0)
        };
        let ours = highest_of_chain(&setup, 8000.0, options)?;
        let reference = repeat(options, || dd::dd(&directory, 2048, false))?;
        let line = Line::new(
            "chain into files in memory (tmpfs) without a loss",
            "MB/s",
            scaled(ours.of(|sample| sample.bytes_per_s)?, 1e-6),
        )
        .beside("dd bs=1M", scaled(reference, 1e-6))
        .goal(Goal::AtLeast(1000.0))
        .note(format!(
            "asked {:.0} Hz, {}",
            ours.rate_hz,
            ours.limit.words()
        ));
        Ok(vec![line])
    })();
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("removing {}", directory.display()))?;
    result
}

/// More than the disk takes is offered; what counts is what is on the device at the end, for both.
pub(super) fn disk(options: &Options) -> Result<Vec<Line>> {
    let directory = tempdir(&options.work)?;
    let result = (|| {
        let sink = Sink::Files {
            directory: directory.clone(),
            sync: false,
        };
        let setup = at(
            &Setup {
                sink,
                ..Setup::test2(0.0)
            },
            48_000.0,
            true,
            options,
        );
        let (mut ours, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..options.runs() {
            let measured = run(&setup, options)?;
            ours.push(measured.bytes_written as f64 / measured.whole_s);
            let mib = (measured.bytes_written >> 20).max(1) as usize;
            reference.push(dd::dd(&directory, mib, true)?);
            eprintln!(
                "  disk: {:.0} MB/s, dd {:.0} MB/s, {mib} MiB each",
                ours[ours.len() - 1] / 1e6,
                reference[reference.len() - 1] / 1e6
            );
        }
        let [ours, reference] = [ours, reference].map(spread);
        let line = Line::new("files on disk, on the device at the end", "MB/s", scaled(ours.context("no run")?, 1e-6))
            .beside("dd bs=1M conv=fdatasync, as many bytes", scaled(reference.context("no run")?, 1e-6))
            .ratio_goal(Goal::AtLeast(0.9))
            .note("alternating runs; more is offered than the disk takes, so that the sink is the limit; the time ends when all files are flushed to the device");
        Ok(vec![line])
    })();
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("removing {}", directory.display()))?;
    result
}

pub(super) fn memory(options: &Options) -> Result<Vec<Line>> {
    let setup = at(&Setup::test2(0.0), 16_000.0, true, options);
    let measured = run(&setup, options)?;
    let announced = measured.memory.source_rings_bytes + measured.memory.sink_queues_bytes;
    let sum = |kind: usize| {
        let stages = ["receiver", "builder"]
            .iter()
            .filter_map(|name| measured.resident.get(*name));
        stages
            .map(|resident| resident[kind] as f64 / 1e6)
            .sum::<f64>()
    };
    let one = |megabytes: f64| Spread {
        median: megabytes,
        low: megabytes,
        high: megabytes,
        runs: 1,
    };
    let sockets = measured.memory.socket_buffers_bytes as f64 / 1e6;
    let shared = Line::new(
        "shared memory resident, both stages (rings, queues, ledger)",
        "MB",
        one(sum(1)),
    )
    .beside(
        "announced at start: rings and queues",
        one(announced as f64 / 1e6),
    )
    .ratio_goal(Goal::AtMost(1.1))
    .note(format!(
        "socket buffers come on top: at most {sockets:.0} MB of kernel memory"
    ));
    let own = Line::new("memory of both stages of their own", "MB", one(sum(0)));
    Ok(vec![shared, own])
}

fn repeat(options: &Options, mut measure: impl FnMut() -> Result<f64>) -> Result<Spread> {
    let values: Vec<f64> = (0..options.runs())
        .map(|_| measure())
        .collect::<Result<_>>()?;
    spread(values).context("nothing was measured")
}

fn scaled(value: Spread, scale: f64) -> Spread {
    Spread {
        median: value.median * scale,
        low: value.low * scale,
        high: value.high * scale,
        ..value
    }
}

/// A directory of this process in `parent`.
fn tempdir(parent: &Path) -> Result<std::path::PathBuf> {
    let directory = parent.join(format!("forebay-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}
