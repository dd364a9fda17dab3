//! The parts of the bench, one after another.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::disk::{Dd, dd};
use super::line::{Goal, Line};
use super::search::{Highest, Limit, Sample, WITHIN, highest};
use super::{Lines, Session, bare, sink};
use crate::chain::{self, Measured, Setup, Sink};
use forebay_report::statistics::{Spread, spread};
use forebay_sys::clock::thread_cpu_ns;

const KIB: u32 = 1024;
/// Length of a run that only feels its way, in s.
const SHORT_S: f64 = 1.5;
const WARM_S: f64 = 1.0;
/// What a run into files in memory writes, about, in bytes, so that all runs use the same pages over again: memory that was not touched
/// for a while is first provided by the host of a virtual machine, at a third of the rate (`dd` of 10 GB shows it).
const MEMORY_BYTES: f64 = 5e9;
/// Shortest run that counts, in s.
const COUNTS_S_MIN: f64 = 1.0;
/// Wake-ups of a run that does nothing else.
const WAKES: u32 = 1_000;
/// Where files lie in memory.
pub(super) const MEMORY: &str = "/dev/shm";

fn run(setup: &Setup, session: &Session) -> Result<Measured> {
    session.go_on()?;
    let measured = chain::measure(
        setup,
        &session.work.join(format!(".run-{}", std::process::id())),
    )?;
    if measured.interrupted {
        bail!("interrupted");
    }
    Ok(measured)
}

fn at(setup: &Setup, rate_hz: f64, counts: bool, session: &Session) -> Setup {
    let measure_s = if counts { session.seconds() } else { SHORT_S };
    Setup {
        rate_hz,
        warm_s: WARM_S,
        measure_s,
        ..setup.clone()
    }
}

/// The highest rate of the chain without a loss.
fn highest_of_chain(setup: &Setup, start_hz: f64, session: &Session) -> Result<Highest> {
    highest(start_hz, WITHIN, session.runs(), |rate_hz, counts| {
        let mut setup = at(setup, rate_hz, counts, session);
        if matches!(&setup.sink, Sink::Files { directory, .. } if directory.starts_with(MEMORY)) {
            let most_s = MEMORY_BYTES / (rate_hz * setup.event_bytes()) - setup.warm_s;
            setup.measure_s = setup.measure_s.min(most_s.max(COUNTS_S_MIN));
        }
        let measured = run(&setup, session)?;
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
            cpu_us_per_datagram: measured.cpu_percent("receiver") * 1e4 / measured.datagrams_hz,
        })
    })
}

/// The highest rate of the bare loop without a loss.
fn highest_of_bare(setup: &Setup, start_hz: f64, session: &Session) -> Result<Highest> {
    highest(start_hz, WITHIN, session.runs(), |rate_hz, counts| {
        let sample = bare::receive(&at(setup, rate_hz, counts, session), session)?;
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

/// Rates at which much of the CPU time is for waking up, in Hz, and the most CPU time for an event there, in µs.
const MODERATE: [(f64, f64); 2] = [(4_000.0, 15.0), (32_000.0, 10.0)];
const BARE: &str = "bare recvmmsg loop, same sockets";

/// The highest rates of the chain and of the bare loop beside it, and what held each.
fn highest_of_both(
    setup: &Setup,
    start_hz: f64,
    session: &Session,
) -> Result<(Highest, Highest, String)> {
    let ours = highest_of_chain(setup, start_hz, session)?;
    let bare = highest_of_bare(setup, start_hz, session)?;
    let note = format!(
        "asked {:.0} Hz, {}; bare loop: {}",
        ours.rate_hz,
        ours.limit.words(),
        bare.limit.words()
    );
    Ok((ours, bare, note))
}

pub(super) fn chain(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let setup = Setup::test2(0.0);
    let (ours, bare, note) = highest_of_both(&setup, 16_000.0, session)?;
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
    lines.put_all([rate, data, cpu]);
    Ok(())
}

pub(super) fn mark(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let marks = if session.quick {
        &[4, 32][..]
    } else {
        &[1, 4, 16, 32, 60]
    };
    for kib in marks {
        let setup = Setup {
            water_mark_bytes: Some(kib * KIB),
            ..Setup::test2(8000.0)
        };
        let setup = at(&setup, 8000.0, true, session);
        let per_gigabyte = |measured: &Measured| {
            measured.cpu_us_per_event * measured.built_hz / measured.built_bytes_per_s * 1e3
        };
        let runs = repeat(session, || Ok(per_gigabyte(&run(&setup, session)?)))?;
        lines.put(Line::new(
            format!("CPU per gigabyte at 8 kHz, water mark {kib} KiB"),
            "s/GB",
            runs,
        ));
    }
    for (rate_hz, most_us) in MODERATE {
        lines.put(moderate(rate_hz, most_us, session)?);
    }
    let wakes = repeat(session, || Ok(wake_cpu_us()))?;
    lines.put(
        Line::new(
            "CPU of a thread that sleeps 1 ms at a time and does nothing else, for each time it wakes",
            "µs",
            wakes,
        )
        .note("receiver and builder wake some 1,500 times a second at 4 kHz"),
    );
    Ok(())
}

/// What the machine asks for a wake-up alone, in µs of CPU time.
fn wake_cpu_us() -> f64 {
    let begun_ns = thread_cpu_ns();
    for _ in 0..WAKES {
        std::thread::sleep(Duration::from_millis(1));
    }
    (thread_cpu_ns() - begun_ns) as f64 / 1e3 / f64::from(WAKES)
}

/// CPU for one event at a rate that leaves the machine time, in turns with the bare loop, with the latency of events beside it.
fn moderate(rate_hz: f64, most_us: f64, session: &Session) -> Result<Line> {
    let setup = at(&Setup::test2(rate_hz), rate_hz, true, session);
    let (mut ours, mut reference, mut lost) = (Vec::new(), Vec::new(), 0);
    let mut latency_ms = [Vec::new(), Vec::new()];
    for _ in 0..session.runs() {
        let measured = run(&setup, session)?;
        lost += measured.lost();
        ours.push(measured.cpu_us_per_event);
        for (all, one_ns) in latency_ms.iter_mut().zip(measured.latency_ns) {
            all.push(one_ns as f64 / 1e6);
        }
        reference.push(bare::receive(&setup, session)?.cpu_us_per_event);
    }
    let of = |values| spread(values).context("nothing was measured");
    let [p50, p99] = latency_ms.map(of);
    let (p50, p99) = (p50?.median, p99?.median);
    let name = format!(
        "CPU of receiver and builder per event at {:.0} kHz, water mark 32 KiB",
        rate_hz / 1e3
    );
    Ok(Line::new(name, "µs", of(ours)?)
        .beside(BARE, of(reference)?)
        .goal(Goal::AtMost(most_us))
        .note(format!(
            "in turns; {lost} items lost; latency of events {p50:.1} ms (half of them) and {p99:.1} ms (99 %)"
        )))
}

/// What lies in the cache need not be fetched: the same work with rings of several sizes.
pub(super) fn ring(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let sizes = if session.quick {
        &[512, 4096][..]
    } else {
        &[512, 1024, 2048, 4096]
    };
    for kib in sizes {
        let setup = at(
            &Setup {
                ring_bytes: Some(kib << 10),
                ..Setup::test2(0.0)
            },
            24_000.0,
            true,
            session,
        );
        let mut lost = 0;
        let runs = repeat(session, || {
            let measured = run(&setup, session)?;
            lost += measured.lost();
            Ok(measured.cpu_us_per_event)
        })?;
        let line = Line::new(
            format!("CPU per event at 24 kHz, ring of {kib} KiB for each source"),
            "µs",
            runs,
        );
        lines.put(line.note(format!("{lost} items lost")));
    }
    Ok(())
}

pub(super) fn small(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let setup = Setup {
        water_mark_bytes: None,
        ..Setup::test2(0.0)
    };
    let (ours, bare, note) = highest_of_both(&setup, 2000.0, session)?;
    let rate = Line::new(
        "no water mark: datagrams without a loss",
        "1/s",
        ours.of(|sample| sample.datagrams_hz)?,
    )
    .beside(BARE, bare.of(|sample| sample.datagrams_hz)?)
    .ratio_goal(Goal::AtLeast(0.8))
    .note(note);
    // Two lower bounds have no ratio: then only what a datagram costs each of them compares them.
    let rate = if (ours.limit, bare.limit) == (Limit::Sources, Limit::Sources) {
        rate.undecided()
    } else {
        rate
    };
    let cost = Line::new(
        "no water mark: CPU of the receiver for a datagram at that rate",
        "µs",
        ours.of(|sample| sample.cpu_us_per_datagram)?,
    )
    .beside(BARE, bare.of(|sample| sample.cpu_us_per_datagram)?)
    .ratio_goal(Goal::AtMost(1.25));
    let moonshot = Line::new(
        "the same against the goal",
        "1/s",
        ours.of(|sample| sample.datagrams_hz)?,
    )
    .goal(Goal::AtLeast(1e6));
    lines.put_all([rate, cost, moonshot]);
    Ok(())
}

pub(super) fn huge(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let setup = Setup {
        huge: Some((1000, 100_000)),
        ..Setup::test2(0.0)
    };
    for rate_hz in [24_000.0, 32_000.0] {
        let setup = at(&setup, rate_hz, true, session);
        let mut built = Vec::new();
        let mut behind = false;
        let lost = repeat(session, || {
            let measured = run(&setup, session)?;
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
        lines.put(line);
    }
    Ok(())
}

pub(super) fn tmpfs(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let directory = tempdir(Path::new(MEMORY))?;
    let result = (|| {
        sink::in_memory(&directory, session, lines)?;
        let setup = Setup {
            sink: Sink::Files {
                directory: directory.clone(),
                sync: false,
            },
            ..Setup::test2(0.0)
        };
        let ours = highest_of_chain(&setup, 8000.0, session)?;
        // As many bytes as a run writes: what has not been touched for a while is dearer than the same pages over again.
        let bytes = ours.of(|sample| sample.bytes_per_s)?.median * (WARM_S + session.seconds());
        let bytes = bytes.min(MEMORY_BYTES);
        let mib = (bytes / f64::from(1 << 20)) as usize;
        let reference = repeat(session, || Ok(dd(&directory, mib, Dd::Cached)?.bytes_per_s))?;
        let line = Line::new(
            "chain into files in memory (tmpfs) without a loss",
            "MB/s",
            scaled(ours.of(|sample| sample.bytes_per_s)?, 1e-6),
        )
        .beside(format!("dd bs=1M, {mib} MiB"), scaled(reference, 1e-6))
        .goal(Goal::AtLeast(1000.0))
        .note(format!(
            "asked {:.0} Hz, {}",
            ours.rate_hz,
            ours.limit.words()
        ));
        lines.put(line);
        Ok(())
    })();
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("removing {}", directory.display()))?;
    result
}

/// More than the disk takes is offered; what counts is what is on the device at the end, for both.
pub(super) fn disk(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let directory = tempdir(&session.work)?;
    let result = (|| {
        sink::on_disk(&directory, session, lines)?;
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
            session,
        );
        let (mut ours, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..session.runs() {
            let measured = run(&setup, session)?;
            ours.push(measured.bytes_written as f64 / measured.whole_s);
            let mib = (measured.bytes_written >> 20).max(1) as usize;
            reference.push(dd(&directory, mib, Dd::Synced)?.bytes_per_s);
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
        lines.put(line);
        Ok(())
    })();
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("removing {}", directory.display()))?;
    result
}

pub(super) fn memory(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let setup = at(&Setup::test2(0.0), 16_000.0, true, session);
    let (mut shared, mut own, mut announced, mut sockets) =
        (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..session.runs() {
        let measured = run(&setup, session)?;
        let sum = |kind: usize| {
            let stages = ["receiver", "builder"]
                .iter()
                .filter_map(|name| measured.resident.get(*name));
            stages
                .map(|resident| resident[kind] as f64 / 1e6)
                .sum::<f64>()
        };
        shared.push(sum(1));
        own.push(sum(0));
        let memory = &measured.memory;
        announced.push((memory.source_rings_bytes + memory.sink_queues_bytes) as f64 / 1e6);
        sockets = memory.socket_buffers_bytes as f64 / 1e6;
    }
    let shared = Line::new(
        "shared memory resident, both stages (rings, queues, ledger)",
        "MB",
        spread(shared).context("nothing was measured")?,
    )
    .beside(
        "announced at start: rings and queues",
        spread(announced).context("nothing was measured")?,
    )
    .ratio_goal(Goal::AtMost(1.1))
    .note(format!(
        "socket buffers come on top: at most {sockets:.0} MB of kernel memory"
    ));
    let own = spread(own).context("nothing was measured")?;
    let own = Line::new("memory of both stages of their own", "MB", own);
    lines.put_all([shared, own]);
    Ok(())
}

fn repeat(session: &Session, mut measure: impl FnMut() -> Result<f64>) -> Result<Spread> {
    let values: Vec<f64> = (0..session.runs())
        .map(|_| measure())
        .collect::<Result<_>>()?;
    spread(values).context("nothing was measured")
}

pub(super) fn scaled(value: Spread, scale: f64) -> Spread {
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
