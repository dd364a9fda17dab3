//! The multiplexer: its ring alone, and the whole of it between network namespaces, beside plain sockets of Linux with the same load.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use forebay_report::statistics::{Spread, spread};
use forebay_ring::{Consumers, Meta, Producers, RingSetMemory, RingSetSpec};
use forebay_run_mux::config::PolicyChoice;
use forebay_sys::clock::thread_cpu_ns;
use forebay_sys::sched;
use serde_json::Value;

use super::line::{Goal, Line};
use super::search::{Highest, Sample, highest};
use super::{Lines, Session};
use crate::mux::{
    Baseline, ClientOptions, MuxBenchRecord, Options, Placement, Workload, measure,
    measure_sockets, receive_buffers,
};

/// Bytes of UDP payload of a packet, of the ring as well.
const SIZE_BYTES: usize = 1_472;
/// Packets through the ring in a run.
const RING_PACKETS: usize = 2_000_000;
const RING_BYTES: u64 = 4 << 20;
/// Packets between two publishes, and between two releases.
const RING_BATCH: usize = 512;
const RING_WAIT: Duration = Duration::from_millis(20);
/// Bits of payload in a second that two clients share.
const LOAD_BPS: u64 = 960_000_000;
const LIMIT_BPS: u64 = 100_000_000;
const SOJOURN_MAX_US: u64 = 10_000;
/// A pause in which packets gather.
const GATHER_US: u32 = 50;
/// Asked of each of two clients over a wire: beside its switch and the multiplexer, a generator on one of two CPUs makes hardly more. The wire takes both.
const WIRED_BPS: u64 = 450_000_000;
/// Asked of each of two clients that work hard: more than one CPU can do for both, and what the wire takes.
const OVERLOAD_BPS: u64 = 480_000_000;
const WIRE_BPS: u64 = 1_000_000_000;
/// What the daemon gives the card of both together: less than two clients ask for.
const LINK_BPS: u64 = 500_000_000;
/// Where the search for the highest rate begins.
const START_BPS: f64 = 800e6;
/// And where it ends: the two rates are compared.
const BOTH_WITHIN: f64 = 1.02;
/// Received frames that the favoured client may always hold.
const GUARANTEE: u32 = 256;
/// Of the client that is not favoured: what stands for the priorities of the original's processes.
const NICENESS: u8 = 10;
const MANY: usize = 64;
/// All but what is due at the very end.
const AS_ASKED: f64 = 0.99;

pub(super) fn mux(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    ring(session, lines)?;
    echo(session, lines, None)?;
    echo(session, lines, Some(GATHER_US))?;
    highest_of_both(session, lines)?;
    limiters(session, lines)?;
    favoured(session, lines)?;
    overloaded(session, lines)?;
    many(session, lines)
}

/// One run of the ring: packets for each CPU-second of the dearer side, signals for each packet.
struct Through {
    packets_hz: f64,
    signals: f64,
}

fn through_ring() -> Result<Through> {
    let spec = RingSetSpec {
        populate: true,
        ..RingSetSpec::new("bench", vec![RING_BYTES], 2_048)
    };
    let memory = RingSetMemory::create(&spec)?;
    let mut producers = Producers::map(&spec, memory.producer_fds()?)?;
    let mut consumers = Consumers::map(&spec, memory.consumer_fds()?)?;
    let (written, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&mut consumers));
        let written = write(&mut producers);
        let read = reader.join();
        (
            written,
            read.unwrap_or_else(|_| bail!("the reader panicked")),
        )
    });
    let ((writer_ns, to_reader), (reader_ns, to_writer)) = (written?, read?);
    let packets = RING_PACKETS as f64;
    Ok(Through {
        packets_hz: packets / writer_ns.max(reader_ns) as f64 * 1e9,
        signals: (to_reader + to_writer) as f64 / packets,
    })
}

/// Copies packets in; its CPU time in ns, and how often it rang.
fn write(producers: &mut Producers) -> Result<(u64, u64)> {
    let (begun_ns, payload, mut rung) = (thread_cpu_ns(), vec![0x5a; SIZE_BYTES], 0);
    for sent in 1..=RING_PACKETS {
        loop {
            let ring = &mut producers.rings[0];
            if let Ok(mut loan) = ring.reserve(SIZE_BYTES) {
                loan.copy_from_slice(&payload);
                loan.commit(SIZE_BYTES, Meta::default());
                break;
            }
            ring.publish();
            rung += u64::from(producers.notify());
            // Half of the ring, so that it sleeps seldom.
            producers.wait_space(0, RING_BYTES as usize / 2, RING_WAIT)?;
        }
        if sent % RING_BATCH == 0 || sent == RING_PACKETS {
            producers.rings[0].publish();
            rung += u64::from(producers.notify());
        }
    }
    Ok((thread_cpu_ns() - begun_ns, rung))
}

/// Copies packets out; its CPU time in ns, and how often it rang.
fn read(consumers: &mut Consumers) -> Result<(u64, u64)> {
    let (begun_ns, mut out, mut rung, mut left) =
        (thread_cpu_ns(), vec![0; SIZE_BYTES], 0, RING_PACKETS);
    while left > 0 {
        let ring = &mut consumers.rings[0];
        let mut taken = 0;
        while taken < RING_BATCH {
            let Some(record) = ring.next()? else { break };
            let view = ring.view(record.position, record.len as usize);
            let view = view.context("a packet is not where the ring says")?;
            ensure!(view.copy_to(0, &mut out), "a packet was taken back");
            black_box(&out);
            taken += 1;
        }
        left -= taken;
        if taken == 0 {
            consumers.wait(RING_WAIT)?;
            continue;
        }
        ring.release(ring.read_position());
        rung += u64::from(consumers.notify_space());
    }
    Ok((thread_cpu_ns() - begun_ns, rung))
}

/// Packets that one CPU copies in a second, through as much memory.
fn memcpy() -> f64 {
    let (payload, mut buffer) = (vec![0x5a_u8; SIZE_BYTES], vec![0_u8; RING_BYTES as usize]);
    let room = RING_BYTES as usize - SIZE_BYTES;
    buffer.fill(1);
    let begun_ns = thread_cpu_ns();
    for packet in 0..RING_PACKETS {
        let at = packet * SIZE_BYTES % room;
        buffer[at..at + SIZE_BYTES].copy_from_slice(&payload);
        black_box(&buffer[at]);
    }
    RING_PACKETS as f64 / (thread_cpu_ns() - begun_ns) as f64 * 1e9
}

fn ring(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    while session.wants_more(found[0].len(), &found[..1]) {
        session.go_on()?;
        let Through {
            packets_hz,
            signals,
        } = through_ring()?;
        found[0].push(packets_hz);
        found[1].push(signals * 1e3);
        found[2].push(memcpy());
    }
    let [packets, signals, copies] = found.map(spread);
    let lack = "nothing was measured";
    lines.put_all([
        Line::new(
            "mux, ring alone, 1472 B copied in and out: packets per CPU-second of the dearer side",
            "1/s",
            packets.context(lack)?,
        )
        .beside("memcpy", copies.context(lack)?)
        .goal(Goal::AtLeast(6e6)),
        Line::new(
            "mux, ring alone: signals per 1,000 packets",
            "1",
            signals.context(lack)?,
        )
        .goal(Goal::AtMost(5.0)),
    ]);
    Ok(())
}

/// Without a soaker: a CPU that runs one is not idle, and the kernel moves no waiting process to it.
fn options(session: &Session, clients: Vec<ClientOptions>) -> Options {
    Options {
        program: session.program.clone(),
        workload: Workload::Echo,
        policy: PolicyChoice::RoundRobin,
        receive_buffers: receive_buffers(clients.len()),
        clients,
        size_bytes: SIZE_BYTES,
        duration: Duration::from_secs_f64(session.seconds()),
        wire_bps: None,
        link_bps: None,
        gather_us: None,
        real_time: None,
        is_raw: false,
        driver_threads: 1,
        has_baseline: false,
        has_soaker: false,
        placement: Placement::default(),
    }
}

fn of(load_bps: u64) -> ClientOptions {
    ClientOptions {
        load_bps,
        ..ClientOptions::default()
    }
}

/// One run, whose books must close.
fn run(session: &Session, options: &Options) -> Result<MuxBenchRecord> {
    session.go_on()?;
    let record = measure(options, &session.stop)?;
    session.go_on()?;
    ensure!(
        record.is_closed(),
        "the books do not close: {:?}",
        record.summary.disagreements
    );
    Ok(record)
}

/// As many runs as make a median.
fn runs(session: &Session, options: &Options) -> Result<Vec<MuxBenchRecord>> {
    (0..session.runs()).map(|_| run(session, options)).collect()
}

fn median_of(records: &[MuxBenchRecord], of: impl Fn(&MuxBenchRecord) -> f64) -> Result<Spread> {
    spread(records.iter().map(of)).context("nothing was measured")
}

/// The same of the sockets beside them.
fn median_of_sockets(records: &[MuxBenchRecord], of: fn(&Baseline) -> f64) -> Result<Spread> {
    median_of(records, |it| {
        it.summary.baseline.as_ref().map_or(f64::NAN, of)
    })
}

fn us(rtt: &Value, key: &str) -> f64 {
    rtt[key].as_f64().unwrap_or(f64::NAN) / 1e3
}

/// What each client lost, of all runs, for a note.
fn lost(records: &[MuxBenchRecord]) -> String {
    let clients = records.iter().flat_map(|record| &record.summary.clients);
    let drops = clients.flat_map(|client| {
        let named = client.drops.iter();
        named.map(|(why, packets)| format!("{} {why} {packets}", client.name))
    });
    let drops: Vec<String> = drops.take(8).collect();
    let limits = records
        .iter()
        .filter(|it| it.summary.generator_limit.is_some());
    let used = records.iter().map(|it| it.summary.cpu_fraction * 100.0);
    let used = used.fold(0.0, f64::max);
    match (drops.is_empty(), limits.count()) {
        (true, 0) => format!("nothing lost; {used:.0} % of the host's CPUs used at most"),
        (_, limits) => format!(
            "lost: {}; the generator was the limit in {limits} runs; {used:.0} % of the host's CPUs used at most",
            drops.join(", ")
        ),
    }
}

/// With the daemon's own pauses, or with such.
fn echo(session: &Session, lines: &mut Lines<'_>, gather_us: Option<u32>) -> Result<()> {
    let options = Options {
        gather_us,
        has_baseline: true,
        has_soaker: true,
        ..options(session, vec![of(LOAD_BPS)])
    };
    let records = runs(session, &options)?;
    let ours = |of: fn(&MuxBenchRecord) -> f64| median_of(&records, of);
    let theirs = |of: fn(&Baseline) -> f64| median_of_sockets(&records, of);
    let note = lost(&records);
    let gathers = gather_us.map_or(String::new(), |us| format!(", gather_us = {us}"));
    lines.put_all([
        Line::new(
            format!("mux, echo of 1472 B, 960 Mbit/s asked{gathers}: answered"),
            "Mbit/s",
            ours(|it| it.summary.achieved_bps / 1e6)?,
        )
        .beside("sockets", theirs(|it| it.achieved_bps / 1e6)?)
        .ratio_goal(Goal::AtLeast(AS_ASKED))
        .note(note),
        Line::new(
            format!("mux, the same{gathers}: CPU of the whole host"),
            "%",
            ours(|it| it.summary.cpu_fraction * 100.0)?,
        )
        .beside("sockets", theirs(|it| it.cpu_fraction * 100.0)?)
        .ratio_goal(Goal::AtMost(1.0)),
    ]);
    Ok(())
}

/// The highest rate of both at which all is answered, and round trips at half of the smaller one.
fn highest_of_both(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let at = |rate_bps: f64, counts: bool| Options {
        duration: Duration::from_secs_f64(if counts { session.seconds() } else { 1.5 }),
        ..options(session, vec![of(rate_bps as u64)])
    };
    let sample = |achieved_bps: f64, rate_bps: f64, is_limit: bool| Sample {
        lossless: achieved_bps >= rate_bps * AS_ASKED && !is_limit,
        full_rate: !is_limit,
        events_hz: achieved_bps / 8.0 / SIZE_BYTES as f64,
        datagrams_hz: achieved_bps / 8.0 / SIZE_BYTES as f64,
        bytes_per_s: achieved_bps / 8.0,
        cpu_us_per_event: 0.0,
        cpu_us_per_datagram: 0.0,
    };
    let ours = highest(
        START_BPS,
        BOTH_WITHIN,
        session.runs(),
        |rate_bps, counts| {
            let summary = run(session, &at(rate_bps, counts))?.summary;
            let is_limit = summary.generator_limit.is_some();
            Ok(sample(summary.achieved_bps, rate_bps, is_limit))
        },
    )?;
    let sockets = highest(
        START_BPS,
        BOTH_WITHIN,
        session.runs(),
        |rate_bps, counts| {
            session.go_on()?;
            let found = measure_sockets(&at(rate_bps, counts), &session.stop)?;
            session.go_on()?;
            let is_limit = found.generator_limit.is_some();
            Ok(sample(found.achieved_bps, rate_bps, is_limit))
        },
    )?;
    let mbps = |of: &Highest| of.of(|sample| sample.bytes_per_s * 8e-6);
    lines.put(
        Line::new(
            "mux, echo of 1472 B: the highest rate that is answered",
            "Mbit/s",
            mbps(&ours)?,
        )
        .beside("sockets", mbps(&sockets)?)
        .ratio_goal(Goal::AtLeast(1.0))
        .note(format!(
            "mux: {}; sockets: {}",
            ours.limit.words(),
            sockets.limit.words()
        )),
    );
    let half_bps = ours.rate_hz.min(sockets.rate_hz) / 2.0;
    let half = Options {
        has_baseline: true,
        ..at(half_bps, true)
    };
    round_trips(session, lines, &half)
}

/// Longest round trips, of a daemon as other programs and, where this process may have that, of one with real-time priority, in turns.
fn round_trips(session: &Session, lines: &mut Lines<'_>, usual: &Options) -> Result<()> {
    let real_time = Options {
        real_time: Some(1),
        ..usual.clone()
    };
    // On a thread of its own, which ends with it.
    let tried = std::thread::spawn(|| sched::real_time(1)).join();
    let may_have_it = tried.is_ok_and(|tried| tried.is_ok());
    let (mut ordinary, mut preferred) = (Vec::new(), Vec::new());
    for _ in 0..session.runs() {
        ordinary.push(run(session, usual)?);
        if may_have_it {
            preferred.push(run(session, &real_time)?);
        }
    }
    let mbps = usual.clients[0].load_bps as f64 / 1e6;
    for (how, records) in [("", ordinary), (", real_time = 1", preferred)] {
        if records.is_empty() {
            continue;
        }
        let ours = median_of(&records, |it| us(&it.summary.clients[0].rtt_ns, "p99"))?;
        let theirs = median_of_sockets(&records, |it| us(&it.rtt_ns, "p99"))?;
        lines.put(
            Line::new(
                format!("mux, echo at half of that ({mbps:.0} Mbit/s){how}: round trip p99"),
                "µs",
                ours,
            )
            .beside("sockets", theirs)
            .ratio_goal(Goal::AtMost(1.0))
            .note(lost(&records)),
        );
    }
    Ok(())
}

fn limiters(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    for policy in [PolicyChoice::TokenBucket, PolicyChoice::Window] {
        let limited = ClientOptions {
            limit_bps: Some(LIMIT_BPS),
            sojourn_max_us: Some(SOJOURN_MAX_US),
            ..of(LOAD_BPS / 4)
        };
        let options = Options {
            policy,
            ..options(session, vec![of(LOAD_BPS / 4), limited])
        };
        let records = runs(session, &options)?;
        let off = |it: &MuxBenchRecord| {
            100.0 * (it.summary.clients[1].achieved_bps / LIMIT_BPS as f64 - 1.0).abs()
        };
        let waited = |it: &MuxBenchRecord| it.summary.clients[1].sojourn_ns_max as f64 / 1e3;
        let name = policy.name();
        lines.put_all([
            Line::new(
                format!("mux, {name}: rate of a client off its limit of 100 Mbit/s, 240 asked"),
                "%",
                median_of(&records, off)?,
            )
            .goal(Goal::AtMost(1.0)),
            Line::new(
                format!("mux, {name}: longest wait of a packet of that client"),
                "µs",
                median_of(&records, waited)?,
            )
            .goal(Goal::AtMost(SOJOURN_MAX_US as f64)),
        ]);
    }
    Ok(())
}

/// What the favoured client gets of what is asked of it.
fn part_of_a(it: &MuxBenchRecord) -> f64 {
    let favoured = &it.summary.clients[0];
    favoured.achieved_bps / favoured.requested_bps
}

/// What another client gets of what is asked of it.
fn part_of_b(it: &MuxBenchRecord) -> f64 {
    let other = &it.summary.clients[1];
    other.achieved_bps / other.requested_bps
}

fn behind(load_bps: u64) -> ClientOptions {
    ClientOptions {
        niceness: NICENESS,
        ..of(load_bps)
    }
}

fn favoured(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let wired = Options {
        policy: PolicyChoice::Priority,
        wire_bps: Some(WIRE_BPS),
        ..options(session, vec![of(WIRED_BPS), behind(WIRED_BPS)])
    };
    let contended = Options {
        link_bps: Some(LINK_BPS),
        ..wired.clone()
    };
    for (what, options) in [("1 Gbit/s", wired), ("a link of 500 Mbit/s", contended)] {
        let records = runs(session, &options)?;
        lines.put(
            Line::new(
                format!("mux, priority, 450 and 450 Mbit/s asked on {what}: answered of what is asked of the favoured client"),
                "1",
                median_of(&records, part_of_a)?,
            )
            .beside("the other client", median_of(&records, part_of_b)?)
            .goal(Goal::AtLeast(AS_ASKED))
            .note(lost(&records)),
        );
    }
    Ok(())
}

/// The favoured client of two that work hard, with the guaranteed minimum of receive buffers and with less of it, in turns.
fn overloaded(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    // The generator stands for another host: it has a CPU of its own, and the overload is of daemon and clients on theirs.
    let cpus = sched::cpus();
    let with = |guarantee: u32| {
        let favoured = ClientOptions {
            guarantee,
            ..of(OVERLOAD_BPS)
        };
        Options {
            workload: Workload::Heavy,
            policy: PolicyChoice::Priority,
            wire_bps: Some(WIRE_BPS),
            receive_buffers: 512,
            placement: Placement {
                daemon: cpus.last().copied(),
                clients: cpus.last().copied(),
                generator: cpus.first().copied(),
            },
            ..options(session, vec![favoured, behind(OVERLOAD_BPS)])
        }
    };
    let usual = ClientOptions::default().guarantee;
    let (mut guaranteed, mut others) = (Vec::new(), Vec::new());
    for _ in 0..session.runs() {
        guaranteed.push(run(session, &with(GUARANTEE))?);
        others.push(run(session, &with(usual))?);
    }
    let other = median_of(&guaranteed, part_of_b)?.median;
    lines.put(
        Line::new(
            "mux, heavy, 480 and 480 Mbit/s asked, daemon and clients on one CPU, 512 receive buffers, 256 of them guaranteed: answered of what is asked of the favoured client",
            "1",
            median_of(&guaranteed, part_of_a)?,
        )
        .beside(format!("with {usual} guaranteed"), median_of(&others, part_of_a)?)
        .goal(Goal::AtLeast(AS_ASKED))
        .note(format!("the other client had {other:.2} of it; {}", lost(&guaranteed))),
    );
    Ok(())
}

/// The daemon's CPU for a packet with many clients and with two.
fn many(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let with = |clients: usize| {
        let each = LOAD_BPS / 2 / clients as u64;
        let records = runs(session, &options(session, vec![of(each); clients]))?;
        median_of(&records, |it| 1e9 / it.summary.packets_per_cpu_second)
    };
    lines.put(
        Line::new(
            "mux, 64 clients, 480 Mbit/s in all: CPU of the daemon for a packet",
            "ns",
            with(MANY)?,
        )
        .beside("2 clients", with(2)?)
        .ratio_goal(Goal::AtMost(1.2)),
    );
    Ok(())
}
