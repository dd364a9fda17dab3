//! Time-division UDP: one sender flat out beside a bare loop, and schemes on a shallow port.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_sys::gso::{GroReceive, GsoSend, Segment};
use forebay_sys::socket::{UdpOptions, bind_udp, connect_udp};
use forebay_sys::{clock, sched, wait};
use serde_json::Value;

use super::heaps::Spead2;
use super::line::{Goal, Line};
use super::{Lines, Session};
use crate::figure::tdm::search::Search;
use crate::tdm::loopback::{self, DATAGRAM_BYTES};
use crate::tdm::{self, Report, Scheme};
use forebay_report::statistics::{Spread, spread};

/// Datagrams of a burst in the bare loop: what fits 64 KiB.
const BURST: usize = 44;
/// What is sent in the bare loop comes out of so much memory in turn, as a test stream does: more than the caches next to a core.
const MEMORY_BYTES: usize = 1 << 20;
/// Bytes of a datagram that lie elsewhere than its payload.
const HEAD_BYTES: usize = 56;
/// Share of the bare loop.
const OF_BARE: f64 = 0.9;
/// Times spead2's best.
const OF_SPEAD2: f64 = 3.0;
/// What paced slots must make of the port.
const UTILISATION: f64 = 0.97;
/// Bounds of what is told of clocks and wake-ups, in us.
const CLOCK_US: f64 = 1.0;
const LATE_US: f64 = 20.0;
/// What a computed guard may be of the smallest that does.
const GUARD_FACTOR: f64 = 2.0;
/// Searches for that one.
const SEARCHES: u32 = 5;
/// Sessions of each scheme.
const SESSIONS: u32 = 10;
/// A bare thread wakes up so often, from time to time, in ns, and spins for the last part.
const WAKES: usize = 300;
const WAKE_EVERY_NS: u64 = 2_500_000;
const SPIN_NS: u64 = 200_000;
/// The real-time priority of a sender.
const PRIORITY: u8 = 40;

pub(super) fn tdm(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    lines.put_all(one_sender(session)?);
    let mut can_make_ports = true;
    for (senders, window) in [
        (3, Some(Duration::from_micros(2500))),
        (3, Some(Duration::from_millis(10))),
        (8, None),
        (32, None),
    ] {
        session.go_on()?;
        let options = tdm::Options {
            program: session.program.clone(),
            senders,
            port_rate_bps: 1_000_000_000,
            port_buffer_bytes: 128 << 10,
            port_burst_bytes: tdm::port_burst_bytes(128 << 10),
            window,
            dead_time: None,
            duration: Duration::from_millis(if session.quick { 500 } else { 1000 }),
            schemes: vec![Scheme::Incast, Scheme::Slots, Scheme::SlotsPaced],
            repeat: if session.quick { 1 } else { SESSIONS },
            clock_seed: Some(1),
            sender_queue: None,
        };
        // Between rounds, so that what else the host does meets both.
        let (mut told, mut bare) = (0, Vec::new());
        let run = tdm::run(&options, |_| {
            told += 1;
            if told % options.schemes.len() == 0 {
                bare.extend(bare_wakes().map(|ns| ns as f64 / 1e3));
            }
        });
        match run {
            Ok(report) => lines.put_all(of_port(&options, &report, spread(bare))?),
            Err(error) => {
                eprintln!("  no port of {senders} senders: {error:#}");
                can_make_ports = senders != 3;
                if !can_make_ports {
                    break;
                }
            }
        }
    }
    if can_make_ports {
        lines.put(guard(session)?);
    }
    Ok(())
}

/// The guard that is computed, beside the smallest that a search finds.
fn guard(session: &Session) -> Result<Line> {
    let mut found = vec![Vec::new(), Vec::new()];
    let runs = if session.quick { 1 } else { SEARCHES };
    for run in 0..runs {
        session.go_on()?;
        let row = Search::of_bench(session.quick).measure(run, &|| session.go_on().is_err())?;
        if let [computed, smallest] = found.as_mut_slice() {
            computed.push(row.number("computed_us"));
            // That it is 0 says no more than that it is below what the search tells apart.
            smallest.push(row.number("smallest_us").max(row.number("resolution_us")));
        }
    }
    let [computed, smallest] = found.as_slice() else {
        bail!("both have values");
    };
    let values = |values: &[f64]| spread(values.iter().copied()).context("no search");
    Ok(Line::new("tdm, 3 senders, windows of 2.5 ms, port of 1 Gb/s with 128 KiB: computed guard", "us", values(computed)?)
        .beside("smallest with which the port drops nothing, no windows overlap, and 99 % of them are whole, by search", values(smallest)?)
        .ratio_goal(Goal::AtMost(GUARD_FACTOR)))
}

/// Numbers of all sessions of a scheme.
fn all(report: &Report, scheme: Scheme, number: impl Fn(&Value) -> f64) -> Result<Spread> {
    let of = report
        .sessions
        .iter()
        .filter(|session| session["scheme"] == scheme.name());
    spread(of.map(number)).context("no session of the scheme")
}

fn of_port(options: &tdm::Options, report: &Report, bare: Option<Spread>) -> Result<Vec<Line>> {
    let window = options
        .window
        .map_or("a window that was computed".to_owned(), |window| {
            format!("windows of {} ms", window.as_secs_f64() * 1e3)
        });
    let what = format!(
        "tdm, {} senders, {window}, port of 1 Gb/s with 128 KiB",
        options.senders
    );
    let lost = |session: &Value| {
        let sent = session["sent"].as_f64().unwrap_or(0.0);
        100.0 * (sent - session["received"].as_f64().unwrap_or(0.0)) / sent.max(1.0)
    };
    let number = |key: &'static str, scale: f64| {
        move |session: &Value| session[key].as_f64().unwrap_or(f64::NAN) / scale
    };
    let paced = Scheme::SlotsPaced;
    let guard = all(report, paced, number("guard_ns", 1e3))?;
    let others = [Scheme::Incast, Scheme::Slots].map(|scheme| all(report, scheme, lost));
    let [incast, slots] = others;
    Ok(vec![
        Line::new(
            format!("{what}: lost, paced slots"),
            "%",
            all(report, paced, lost)?,
        )
        .goal(Goal::AtMost(0.0))
        .note(format!(
            "incast loses {:.1} %, slots that are not paced {:.1} %",
            incast?.median, slots?.median
        )),
        Line::new(
            format!("{what}: the port is used"),
            "of it",
            all(report, paced, number("port_utilisation", 1.0))?,
        )
        .goal(Goal::AtLeast(UTILISATION))
        .note(format!(
            "guard {:.1} us, computed from what senders measured",
            guard.median
        )),
        Line::new(
            format!("{what}: error of the clocks, 99 %"),
            "us",
            all(report, paced, number("clock_error_ns_p99", 1e3))?,
        )
        .goal(Goal::AtMost(CLOCK_US))
        .note("the worst sender; clocks set off by up to 20 ms and 100 ppm, against the truth"),
        Line::new(
            format!("{what}: windows begin late by, 99 %"),
            "us",
            all(report, paced, number("window_lateness_ns_p99", 1e3))?,
        )
        .beside(
            "a bare thread of the same priority that sleeps and spins, alone on the host, between sessions",
            bare.context("no thread could wake up")?,
        )
        .goal(Goal::AtMost(LATE_US)),
    ])
}

/// How late a thread wakes up that does nothing else, at the priority of a sender and with the spin of one: 99 % of wake-ups are better, in ns.
fn bare_wakes() -> Option<u64> {
    let thread = std::thread::spawn(|| {
        let _ = sched::real_time(PRIORITY);
        let _ = wait::set_timer_slack_ns(1);
        let mut late: Vec<u64> = (0..WAKES)
            .map(|_| wait::sleep_until(clock::monotonic_ns() + WAKE_EVERY_NS, SPIN_NS))
            .collect();
        late.sort_unstable();
        late.get(WAKES * 99 / 100).copied()
    });
    thread.join().ok().flatten()
}

/// One sender to one receiver over loopback, flat out, in turns with a bare loop of the same calls and with spead2.
fn one_sender(session: &Session) -> Result<Vec<Line>> {
    let seconds = if session.quick { 0.5 } else { 2.0 };
    let spead2 = Spead2::find(&session.options.work)
        .inspect_err(|error| eprintln!("  no spead2: {error:#}"))
        .ok();
    let mut found = vec![Vec::new(); if spead2.is_some() { 4 } else { 2 }];
    let mut lost = Vec::new();
    let mut rounds = 0;
    while session.wants_more(rounds, &found) {
        session.go_on()?;
        let came = loopback::one_sender(&session.program, seconds, false)?;
        lost.push(came.lost_part * 100.0);
        if let [ours, bare, others @ ..] = found.as_mut_slice() {
            ours.push(came.rate_bps / 1e9);
            bare.push(bare_loop(seconds)? / 1e9);
            for (values, cpus) in others.iter_mut().zip([None, Some([0, 1])]) {
                let spead2 = spead2.as_ref().context("it was found")?;
                values.push(spead2.one_sender(seconds, cpus)? / 1e9);
            }
        }
        rounds += 1;
    }
    let [ours, bare, others @ ..] = found.as_slice() else {
        bail!("two of them take turns at least");
    };
    let values = |values: &[f64]| spread(values.iter().copied()).context("no run");
    let lost = spread(lost).context("no run")?;
    const WHAT: &str = "tdm, one sender flat out over loopback, datagrams of 1472 B that came";
    let mut lines = vec![
        Line::new(WHAT, "Gb/s", values(ours)?)
            .beside("bare GSO and GRO loop", values(bare)?)
            .ratio_goal(Goal::AtLeast(OF_BARE))
            .note(format!("{:.2} % lost in the receiver's socket, by name; each looks at every datagram, the loop at none", lost.median)),
    ];
    let spreads: Result<Vec<Spread>> = others.iter().map(|other| values(other)).collect();
    let best = spreads?
        .into_iter()
        .max_by(|one, other| one.median.total_cmp(&other.median));
    if let (Some(best), Some(spead2)) = (best, &spead2) {
        let name = format!(
            "spead2 {}, the better one of default and pinned",
            spead2.version
        );
        lines.push(
            Line::new(WHAT, "Gb/s", values(ours)?)
                .beside(name, best)
                .ratio_goal(Goal::AtLeast(OF_SPEAD2)),
        );
    }
    Ok(lines)
}

/// The same calls without heads, numbers, clocks and books: bits/s that came.
fn bare_loop(seconds: f64) -> Result<f64> {
    let options = UdpOptions {
        receive_buffer_bytes: Some(8 << 20),
        send_buffer_bytes: Some(4 << 20),
        gro: true,
        stamps: true,
        ..UdpOptions::default()
    };
    let bound = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), &options)?;
    let sending = connect_udp(
        bound.address,
        &UdpOptions {
            gro: false,
            stamps: false,
            ..options
        },
    )?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let memory = vec![0x5a; MEMORY_BYTES];
            let mut send = GsoSend::new();
            let bursts = memory.chunks_exact(BURST * DATAGRAM_BYTES).cycle();
            for burst in bursts.take_while(|_| !over.load(Ordering::Relaxed)) {
                let mut segments = [Segment::default(); BURST];
                for (segment, bytes) in segments.iter_mut().zip(burst.chunks_exact(DATAGRAM_BYTES))
                {
                    let (head, payload) = bytes.split_at(HEAD_BYTES);
                    *segment = Segment { head, payload };
                }
                send.send(sending.as_fd(), &segments);
            }
        });
        let mut receive = GroReceive::new(32)?;
        let mut bytes = 0_u64;
        let mut begun: Option<Instant> = None;
        let result = loop {
            let came = receive.receive(bound.fd.as_fd()).context("receiving")?;
            if came == 0 {
                std::thread::yield_now();
                continue;
            }
            let begun = begun.get_or_insert_with(Instant::now);
            bytes += receive
                .buffers()
                .map(|buffer| buffer.bytes.len() as u64)
                .sum::<u64>();
            let passed = begun.elapsed().as_secs_f64();
            if passed >= seconds {
                break bytes as f64 * 8.0 / passed;
            }
        };
        over.store(true, Ordering::Relaxed);
        if sender.join().is_err() {
            bail!("the bare sender failed");
        }
        Ok(result)
    })
}
