//! Link readout: the decoder alone, and the whole chain of an emulated card, to-host and a subscriber.

use std::cell::RefCell;

use anyhow::{Context, Result};

use super::decode::{self, Buffers, LINKS, Ring};
use super::line::{Goal, Line};
use super::search::{Highest, Sample, WITHIN, highest};
use super::{Lines, Session};
use crate::readout::{self, Measured, Setup};
use forebay_report::statistics::{Spread, fit, spread};

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16_384];
const ELINKS: [u16; 2] = [512, 2048];
/// Sizes of the ramp from which the cost of a chunk and of a byte is fitted.
const RAMP: [u32; 5] = [16, 64, 256, 512, 1024];
/// Rates at which this host is not the limit; two, which tell the cost of a chunk from that of the time that passes.
const RAMP_HZ: [f64; 2] = [20_000.0, 80_000.0];
const START_HZ: f64 = 200_000.0;
/// Length of a run that only feels its way, in ms.
const SHORT_MS: u64 = 1500;

pub(super) fn readout(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let alone = decoder(session, lines)?;
    elinks(session, lines)?;
    lines.put_all(chain(session, &alone)?);
    lines.put_all(ramp(session, &alone)?);
    Ok(())
}

/// References for the chain, of the same run.
struct Alone {
    /// Decoder into network buffers, 16 B, chunks per second.
    chunks_hz: Spread,
    /// `memcpy` of the ring, ns for a byte.
    byte_ns: Spread,
}

fn map(value: &Spread, change: impl Fn(f64) -> f64) -> Spread {
    let (one, other) = (change(value.low), change(value.high));
    Spread {
        median: change(value.median),
        low: one.min(other),
        high: one.max(other),
        runs: value.runs,
    }
}

/// Chunks per second in millions, of ns for one.
fn mega_hz(ns: &Spread) -> Spread {
    map(ns, |ns| 1e3 / ns)
}

fn of(values: &[f64]) -> Result<Spread> {
    spread(values.iter().copied()).context("nothing was measured")
}

/// Decoder, bare loop, references and memcpy in turns, for each size.
fn decoder(session: &Session, lines: &mut Lines<'_>) -> Result<Alone> {
    let (mut smallest, mut byte_ns) = (None, None);
    let mut buffers = Buffers::new();
    for bytes in SIZES {
        let ring = Ring::full_of(bytes, LINKS)?;
        let mut taken: [Vec<f64>; 4] = Default::default();
        for _ in 0..session.runs() {
            session.go_on()?;
            let [ours, bare, references, copies] = &mut taken;
            ours.push(ring.ns_per_chunk(|ring| decode::into_buffers(ring, &mut buffers))?);
            bare.push(ring.ns_per_chunk(|ring| decode::bare_into_buffers(ring, &mut buffers))?);
            references.push(ring.ns_per_chunk(decode::references)?);
            copies.push(ring.ns_per_pass(|ring| decode::memcpy(ring, &mut buffers))?);
        }
        let [ours, bare, references, copies] = taken.map(|values| of(&values));
        let (ours, bare, references) = (ours?, bare?, references?);
        let per_byte = map(&copies?, |ns| ns / Ring::BYTES as f64);
        let what = format!("decoder into network buffers, chunks of {bytes} B, one core");
        let line = Line::new(&what, "M/s", mega_hz(&ours));
        let beside = line.beside("bare loop without checks and counts", mega_hz(&bare));
        lines.put(beside.ratio_goal(Goal::AtLeast(0.9)));
        if bytes == 16 {
            let goal = Line::new("the same against the goal", "M/s", mega_hz(&ours));
            let of_bare = mega_hz(&bare).median;
            lines.put(
                goal.goal(Goal::AtLeast(100.0))
                    .note(format!("the bare loop has {of_bare:.1}")),
            );
            smallest = Some(ours);
        }
        if bytes == 1024 {
            let gigabytes = |ns: &Spread| map(ns, |ns| 1024.0 / ns);
            let line = Line::new(format!("{what}, in bytes"), "GB/s", gigabytes(&ours));
            let copied = map(&per_byte, |ns| 1.0 / ns);
            let line = line.beside("memcpy of the ring into the same buffers", copied);
            lines.put(line.ratio_goal(Goal::AtLeast(0.8)));
            let what = "decoder, references only, chunks of 1024 B, one core";
            let line = Line::new(what, "M/s", mega_hz(&references));
            let line = line.beside("decoder into network buffers", mega_hz(&ours));
            let note = "each fourth chunk lies in two blocks of 4 KiB, and is copied";
            lines.put(line.ratio_goal(Goal::AtLeast(3.0)).note(note));
            byte_ns = Some(per_byte);
        }
    }
    lines.put(in_large_blocks(session, &mut buffers)?);
    Ok(Alone {
        chunks_hz: map(&smallest.context("no smallest size")?, |ns| 1e9 / ns),
        byte_ns: byte_ns.context("no size to copy")?,
    })
}

/// References where most chunks lie in one block.
fn in_large_blocks(session: &Session, buffers: &mut Buffers) -> Result<Line> {
    let ring = Ring::of_blocks(decode::LARGE_BLOCK_BYTES, 1024, LINKS)?;
    let (mut references, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..session.runs() {
        session.go_on()?;
        references.push(ring.ns_per_chunk(decode::references)?);
        ours.push(ring.ns_per_chunk(|ring| decode::into_buffers(ring, buffers))?);
    }
    let what = "decoder, references only, chunks of 1024 B in blocks of 16 KiB, one core";
    let line = Line::new(what, "M/s", mega_hz(&of(&references)?));
    let line = line.beside("decoder into network buffers", mega_hz(&of(&ours)?));
    Ok(line.ratio_goal(Goal::AtLeast(3.0)))
}

/// More E-links than a card of ours has: the decoder has no such limit.
fn elinks(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let few = Ring::full_of(16, LINKS)?;
    let mut buffers = Buffers::new();
    for elinks in ELINKS {
        let many = Ring::full_of(16, elinks)?;
        let (mut ours, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..session.runs() {
            session.go_on()?;
            ours.push(many.ns_per_chunk(|ring| decode::into_buffers(ring, &mut buffers))?);
            beside.push(few.ns_per_chunk(|ring| decode::into_buffers(ring, &mut buffers))?);
        }
        let what = format!("decoder, chunks of 16 B on {elinks} E-links: CPU for one");
        let line = Line::new(what, "ns", of(&ours)?);
        let line = line.beside(format!("on {LINKS}"), of(&beside)?);
        lines.put(line.ratio_goal(Goal::AtMost(1.2)));
    }
    Ok(())
}

fn at(trigger_hz: f64, chunk_bytes: u32, real_ms: u64) -> Setup {
    Setup {
        links: LINKS,
        dma_buffers: 4,
        trigger_hz: trigger_hz as u64,
        chunk_bytes,
        real_ms,
        card_ms_min: 1,
        dilation: 1,
    }
}

fn run(setup: &Setup, session: &Session) -> Result<Measured> {
    session.go_on()?;
    let directory = session
        .work
        .join(format!(".readout-{}", std::process::id()));
    readout::measure(setup, &directory, &session.stop)
}

/// Nothing lost, nothing held back by this host, nothing wrong, nothing left over.
fn is_lossless(measured: &Measured) -> bool {
    let summary = &measured.summary;
    summary.drops.is_empty()
        && summary.held_by_dma == 0
        && summary.payload_mismatches == 0
        && summary.is_closed()
}

/// The highest trigger rate at which nothing is lost or held back by this host, and what each process takes at it.
fn chain(session: &Session, alone: &Alone) -> Result<Vec<Line>> {
    let kept: RefCell<Vec<(f64, Measured)>> = RefCell::default();
    let counts_ms = (session.seconds() * 1e3) as u64;
    let found = highest(START_HZ, WITHIN, session.runs(), |rate_hz, counts| {
        let setup = at(rate_hz, 16, if counts { counts_ms } else { SHORT_MS });
        let measured = run(&setup, session)?;
        let sample = sample(rate_hz, &measured);
        eprintln!(
            "  {rate_hz:8.0} Hz: {:8.0} Hz came, {} held back, {}{}",
            measured.summary.trigger_rate_hz,
            measured.summary.held_by_dma,
            if sample.lossless {
                "nothing lost"
            } else {
                "NOT as asked"
            },
            if measured.summary.host_limited {
                ", the card was late"
            } else {
                ""
            },
        );
        if counts {
            kept.borrow_mut().push((rate_hz, measured));
        }
        Ok(sample)
    })?;
    let runs = kept.into_inner();
    let runs: Vec<&Measured> = runs
        .iter()
        .filter(|(rate_hz, _)| *rate_hz == found.rate_hz)
        .map(|(_, measured)| measured)
        .collect();
    chain_lines(&found, &runs, alone)
}

fn sample(rate_hz: f64, measured: &Measured) -> Sample {
    let summary = &measured.summary;
    let chunks = summary.chunks_received.max(1) as f64;
    Sample {
        lossless: is_lossless(measured),
        full_rate: summary.trigger_rate_hz > 0.97 * rate_hz,
        events_hz: summary.trigger_rate_hz,
        datagrams_hz: summary.chunk_rate_hz,
        bytes_per_s: summary.chunk_rate_hz * summary.bytes_received as f64 / chunks,
        cpu_us_per_event: measured.cpu_s("tohost") * 1e6 / summary.triggers.max(1) as f64,
        cpu_us_per_datagram: measured.cpu_s("tohost") * 1e6 / chunks,
    }
}

fn chain_lines(found: &Highest, runs: &[&Measured], alone: &Alone) -> Result<Vec<Line>> {
    let late = runs.iter().filter(|run| run.summary.host_limited).count();
    let rate = Line::new(
        "card, to-host and subscriber over shared memory, 12 links, 16 B: triggers without a loss",
        "Hz",
        found.of(|sample| sample.events_hz)?,
    )
    .note(format!(
        "asked {:.0} Hz, {}; the emulated card was late in {late} of {} runs; three processes on the CPUs of this host",
        found.rate_hz,
        found.limit.words(),
        runs.len()
    ));
    let chunks = found.of(|sample| sample.datagrams_hz)?;
    let chunks = Line::new("the same in chunks", "M/s", map(&chunks, |hz| hz * 1e-6)).beside(
        "decoder into network buffers alone, one core",
        map(&alone.chunks_hz, |hz| hz * 1e-6),
    );
    let mut lines = vec![rate, chunks];
    for (process, name) in [
        ("card", "the emulated card"),
        ("tohost", "to-host"),
        ("swrod", "the subscriber, which checks every byte"),
    ] {
        let per_million = runs
            .iter()
            .map(|run| run.cpu_s(process) * 1e6 / run.summary.chunks_received.max(1) as f64);
        let per_million: Vec<f64> = per_million.collect();
        let line = Line::new(
            format!("CPU for a million chunks at that rate: {name}"),
            "s",
            of(&per_million)?,
        );
        lines.push(line.beside(
            "decoder alone",
            map(&alone.chunks_hz, |chunks_hz| 1e6 / chunks_hz),
        ));
    }
    Ok(lines)
}

/// What a chunk, a byte, and a second of waiting cost to-host: least squares over sizes of chunks at two rates.
fn ramp(session: &Session, alone: &Alone) -> Result<Vec<Line>> {
    let real_ms = (session.seconds() * 400.0) as u64;
    let asked = || RAMP_HZ.iter().flat_map(|hz| RAMP.map(|bytes| (*hz, bytes)));
    let mut costs: [Vec<f64>; 3] = Default::default();
    let mut residuals: Vec<Vec<f64>> = vec![Vec::new(); asked().count()];
    let mut lost = 0;
    for _ in 0..session.runs() {
        let mut points = Vec::new();
        for (rate_hz, bytes) in asked() {
            let measured = run(&at(rate_hz, bytes, real_ms), session)?;
            lost += usize::from(!is_lossless(&measured));
            let summary = &measured.summary;
            let [chunks, bytes] = [summary.chunks_received, summary.bytes_received];
            let of = [chunks as f64, bytes as f64, measured.card_s()];
            points.push((of, measured.cpu_s("tohost") * 1e9));
        }
        let fitted = fit(&points).context("one point tells nothing")?;
        for ((of, cpu_ns), percent) in points.iter().zip(&mut residuals) {
            let sum: f64 = of.iter().zip(fitted).map(|(n, cost)| n * cost).sum();
            percent.push(100.0 * (cpu_ns / sum - 1.0));
        }
        for (cost, all) in fitted.into_iter().zip(&mut costs) {
            all.push(cost);
        }
    }
    let told = asked().zip(&residuals).map(|((rate_hz, bytes), percent)| {
        let percent = self::of(percent)?.median;
        Ok(format!(
            "{bytes} B at {:.0} kHz {percent:+.0} %",
            rate_hz * 1e-3
        ))
    });
    let told: Vec<String> = told.collect::<Result<_>>()?;
    let lost = match lost {
        0 => String::new(),
        runs => format!("; {runs} run(s) were NOT without a loss"),
    };
    let note = format!(
        "least squares over chunks, bytes and seconds on {LINKS} links; measured over fitted: {}{lost}",
        told.join(", ")
    );
    let [chunk, byte, second] = costs.map(|values| of(&values));
    let chunk = Line::new("to-host: CPU for a chunk", "ns", chunk?);
    let chunk = chunk.beside(
        "decoder alone, 16 B",
        map(&alone.chunks_hz, |chunks_hz| 1e9 / chunks_hz),
    );
    let byte = Line::new("to-host: CPU for a byte", "ns", byte?);
    let byte = byte.beside("memcpy of the ring", alone.byte_ns);
    let second = map(&second?, |ns| ns * 1e-7);
    let second = Line::new(
        "to-host: CPU that goes with time, not with data",
        "%",
        second,
    );
    Ok(vec![chunk.note(note), byte, second])
}
