//! The flow probe at the end of a virtual wire on which the kernel repeats packets of heavy flows: the highest rate without a loss with its offload off and on, and below a
//! program that drops all.
//!
//! The sender is a thread of this process on the first CPU, and the probe is on the last one. On a virtual wire the sender also does what a network card's interrupt does:
//! the program of the kernel runs on its CPU, as the copy into the probe's ring does. Both ends are counted by the kernel, and the probe's record must have all of it.

mod late;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_report::statistics::{Spread, spread};
use forebay_sys::{namespace, sched};
use forebay_xdp::{OneVerdict, Repeat, Repeated, Repeater, Verdict};
use serde_json::Value;

use super::line::{Goal, Line};
use super::search::{Limit, Sample, WITHIN, highest};
use super::{Lines, Session};
use crate::child::{Booked, Child};
use crate::live_pair::{FAR, Ground, NEAR};

/// Times the rate without the offload.
const GOAL: f64 = 2.0;
const PLUGINS: &str = "tls,dns,http,quic,pstats";
/// Room for what comes before flows are counted below user space, in bytes.
const RING_BYTES: &str = "268435456";
const FLOWS: u16 = 64;
const FRAME_BYTES: usize = 128;
const FIRST_PORT: u16 = 40_000;
const START_HZ: f64 = 200e3;
/// The sender has kept its rate if it sent no less than this part less.
const LATE: f64 = 1.02;
/// What was sent is at the far end after so long at most.
const ARRIVE_MOST: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
const MTU_BYTES: u32 = 1_500;

/// What is at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Far {
    /// The probe alone.
    Off,
    /// The probe with its program in the kernel.
    Xdp,
    /// A program that drops all, and nothing else.
    Drop,
}

impl Far {
    const ALL: [Self; 3] = [Self::Off, Self::Xdp, Self::Drop];

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Xdp => "xdp",
            Self::Drop => "XDP_DROP",
        }
    }

    /// Of the programs that this process puts there: a virtual wire takes repeated frames only where one is.
    const fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Off => Some(Verdict::Pass),
            Self::Xdp => None,
            Self::Drop => Some(Verdict::Drop),
        }
    }
}

pub(super) fn probe_live(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let all = sched::cpus();
    let [first, .., last] = all[..] else {
        bail!("sender and probe need a CPU each: this process may use {all:?}");
    };
    let wire = Wire {
        session,
        ground: Ground::make(MTU_BYTES)?,
        frame: frame(),
        cpus: [first, last],
    };
    let mut found = BTreeMap::new();
    for far in Far::ALL {
        let top = highest(START_HZ, WITHIN, session.runs(), |rate_hz, counts| {
            session.go_on()?;
            let seconds = if counts { session.seconds() } else { 1.0 };
            wire.run(far, rate_hz, seconds)
        })
        .with_context(|| format!("offload {}", far.name()))?;
        found.insert(far, (rates(&top.samples)?, top.limit));
    }
    let (ceiling, _) = found[&Far::Drop];
    let (off, off_limit) = found[&Far::Off];
    let (on, on_limit) = found[&Far::Xdp];
    let what = "probe live, heavy flows without a loss, offload";
    let unit = "packets/s";
    lines.put_all([
        Line::new(format!("{what} off"), unit, off)
            .beside("XDP_DROP", ceiling)
            .note(note(off_limit)),
        Line::new(format!("{what} xdp"), unit, on)
            .beside("XDP_DROP", ceiling)
            .note(note(on_limit)),
        Line::new(format!("{what} xdp"), unit, on)
            .beside("off", off)
            .ratio_goal(Goal::AtLeast(GOAL))
            .note(note(on_limit)),
    ]);
    late::measure(&wire, off.median, lines)
}

fn rates(samples: &[Sample]) -> Result<Spread> {
    spread(samples.iter().map(|sample| sample.datagrams_hz)).context("nothing was measured")
}

fn note(limit: Limit) -> String {
    format!(
        "{FLOWS} flows, {FRAME_BYTES} B a frame, --plugins {PLUGINS}; {}",
        limit.words()
    )
}

struct Wire<'a> {
    session: &'a Session,
    ground: Ground,
    frame: Vec<u8>,
    /// Of the sender, and of the probe.
    cpus: [usize; 2],
}

impl Wire<'_> {
    fn run(&self, far: Far, rate_hz: f64, seconds: f64) -> Result<Sample> {
        let out = tempfile::TempDir::new_in(&self.session.work).context("making a place")?;
        let probe = match far {
            Far::Drop => None,
            Far::Off | Far::Xdp => {
                let mut command = self.probe(far, out.path());
                Some(Self::begin(command.args(["--export", "none"]), out.path())?)
            }
        };
        let before = self.ground.wire()?;
        let sent = self.send(far, rate_hz, seconds)?;
        let begun = Instant::now();
        let arrived = loop {
            let arrived = self.ground.wire()?.arrived - before.arrived;
            if arrived >= sent.frames || begun.elapsed() > ARRIVE_MOST {
                break arrived;
            }
            std::thread::sleep(LOOK);
        };
        let record = probe.map(Booked::end).transpose()?;
        let (taken, cpu_s) = match &record {
            Some(record) => (taken(record)?, cpu_s(record)),
            None => (arrived, 0.0),
        };
        let elapsed_s = sent.elapsed_ns as f64 / 1e9;
        Ok(Sample {
            lossless: arrived == sent.frames && taken == sent.frames,
            full_rate: sent.frames as f64 * LATE >= rate_hz * elapsed_s.max(seconds),
            events_hz: taken as f64 / elapsed_s,
            datagrams_hz: arrived as f64 / elapsed_s,
            bytes_per_s: (arrived * FRAME_BYTES as u64) as f64 / elapsed_s,
            cpu_us_per_event: 1e6 * cpu_s / sent.frames as f64,
            cpu_us_per_datagram: 1e6 * cpu_s / sent.frames as f64,
        })
    }

    /// A probe at the far end that keeps its books here; what it writes is to be said.
    fn probe(&self, far: Far, out: &Path) -> Command {
        let mut command = self.ground.command("taskset");
        command.args(["--cpu-list", &self.cpus[1].to_string()]);
        command.arg(&self.session.program);
        command.args(["probe", "--interface", FAR, "--promiscuous", "on"]);
        command.args(["--format", "json", "--offload", far.name()]);
        command.args(["--plugins", PLUGINS, "--ring", RING_BYTES]);
        command.arg("--out").arg(out);
        command
    }

    fn begin(command: &mut Command, out: &Path) -> Result<Booked> {
        Booked::begin(Child::start(command, "the probe")?, out.to_owned())
    }

    /// Sends in a thread of its own, which belongs to the wire from then on.
    fn send(&self, far: Far, rate_hz: f64, seconds: f64) -> Result<Repeated> {
        let holder = self.ground.holder();
        let work = || -> Result<Repeated> {
            namespace::enter_network_of(holder)?;
            let _there = far
                .verdict()
                .map(|verdict| OneVerdict::attach(FAR, verdict))
                .transpose()?;
            sched::pin_to_cpu(self.cpus[0])?;
            let repeater = Repeater::open(NEAR)?;
            let repeat = Repeat {
                frames: (rate_hz * seconds) as u32,
                rate_hz,
                first_port: FIRST_PORT,
                flows: FLOWS,
            };
            Ok(repeater.send(&self.frame, &repeat)?)
        };
        std::thread::scope(|scope| {
            let sender = scope.spawn(work);
            sender
                .join()
                .unwrap_or_else(|_| bail!("the sender panicked"))
        })
    }
}

/// Packets that are in the probe's books, which must close.
fn taken(record: &Value) -> Result<u64> {
    let number = |key: &str| {
        let found = record[key].as_u64();
        found.with_context(|| format!("a record says no {key}: {record}"))
    };
    let residual = [number("residual_packets")?, number("residual_octets")?];
    ensure!(
        residual == [0, 0],
        "the probe's books do not close: {residual:?}"
    );
    number("packets_exported")
}

fn cpu_s(record: &Value) -> f64 {
    let all = record["cpu_s"].as_object();
    all.map_or(0.0, |all| all.values().filter_map(Value::as_f64).sum())
}

/// A UDP packet. Its sums are left out: nothing on this wire looks at them.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let [high, low] = (FRAME_BYTES as u16 - 14).to_be_bytes();
    frame.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(FIRST_PORT.to_be_bytes());
    frame.extend(9_000_u16.to_be_bytes());
    frame.extend((FRAME_BYTES as u16 - 34).to_be_bytes());
    frame.resize(FRAME_BYTES, 0);
    frame
}
