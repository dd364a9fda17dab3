//! How late records of an interface are written: with packets at half of what the probe can take, with few, and with none.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use forebay_report::statistics::spread;
use serde_json::Value;

use super::{FLOWS, Far, Wire, taken};
use crate::bench::Lines;
use crate::bench::line::{Goal, Line};
use crate::child::Child;
use crate::live_pair::NEAR;

/// A record is written so long after its time-out at most, in s.
const GOAL_S: f64 = 1.0;
const ACTIVE_TIMEOUT: &str = "2s";
const IDLE_TIMEOUT: &str = "1s";
/// Behind the last packet, so that the idle time-out is over, and what is late has its time.
const SILENCE: Duration = Duration::from_secs(3);
/// Packets are sent for so long, in s: flows end twice by the active time-out.
const SECONDS: f64 = 4.5;
/// Of what the generator sends, as the kernel repeats no frames so seldom.
const FEW_HZ: f64 = 1e3;
/// The rate of those that none follow, and for how long they are sent, in s.
const BURST_HZ: f64 = 100e3;
const BURST_S: f64 = 0.1;
const RECORDS: &str = "records.jsonl";
/// Reasons of records that are written while the probe runs: by a time-out, or as the flow itself says.
const IN_TIME: [&str; 3] = ["active_timeout", "idle_timeout", "end_of_flow"];

/// What is sent before the silence.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// A burst of a few flows that nothing follows.
    None,
    /// Flows as GEANT's, few packets a second.
    Few,
    /// Heavy flows at this rate.
    Many(f64),
}

impl Load {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "no packets",
            Self::Few => "few packets",
            Self::Many(_) => "half of what it takes with the offload off",
        }
    }

    fn words(self) -> String {
        match self {
            Self::None => format!("{FLOWS} flows in {BURST_S} s, and nothing behind them"),
            Self::Few => format!("{FEW_HZ:.0} packets/s of geant-like-morning for {SECONDS} s"),
            Self::Many(rate_hz) => {
                format!("{FLOWS} flows, {rate_hz:.0} packets/s for {SECONDS} s")
            }
        }
    }

    /// Sends; how many packets it was.
    fn send(self, wire: &Wire<'_>, far: Far) -> Result<u64> {
        let (rate_hz, seconds) = match self {
            Self::None => (BURST_HZ, BURST_S),
            Self::Few => return few(wire),
            Self::Many(rate_hz) => (rate_hz, SECONDS),
        };
        Ok(wire.send(far, rate_hz, seconds)?.frames)
    }
}

/// Has the generator send.
fn few(wire: &Wire<'_>) -> Result<u64> {
    let mut command = wire.ground.command("taskset");
    command.args(["--cpu-list", &wire.cpus[0].to_string()]);
    command.arg(&wire.session.program);
    command.args(["emulate", "traffic", "--interface", NEAR]);
    command.args(["--profile", "geant-like-morning", "--snap", "128"]);
    command.args(["--rate", &FEW_HZ.to_string()]);
    command.args(["--packets", &(FEW_HZ * SECONDS).to_string()]);
    command.args(["--format", "json"]);
    let record = Child::start(&mut command, "the generator")?.record()?;
    let sent = record["packets"].as_u64();
    sent.with_context(|| format!("the generator's record says nothing of packets: {record}"))
}

/// Lines of what came of packets at half of this rate, of few, and of none.
pub(super) fn measure(wire: &Wire<'_>, most_hz: f64, lines: &mut Lines<'_>) -> Result<()> {
    for load in [Load::None, Load::Few, Load::Many(most_hz / 2.0)] {
        for far in [Far::Off, Far::Xdp] {
            let of = || format!("{}, offload {}", load.name(), far.name());
            let mut late_s = Vec::new();
            for _ in 0..wire.session.runs() {
                wire.session.go_on()?;
                late_s.push(run(wire, far, load).with_context(of)?);
            }
            let all = spread(late_s).context("nothing was measured")?;
            // Every record has to be in time: the latest of all runs counts.
            let latest = spread([all.high]).context("nothing was measured")?;
            let what = format!("probe live, latest record behind its time-out, {}", of());
            let note = format!(
                "latest of {} runs, median {:.2} s; {}, then {} s of silence; time-outs {ACTIVE_TIMEOUT} and {IDLE_TIMEOUT}, JSON lines",
                all.runs,
                all.median,
                load.words(),
                SILENCE.as_secs()
            );
            let line = Line::new(what, "s", latest).goal(Goal::AtMost(GOAL_S));
            lines.put(line.note(note));
        }
    }
    Ok(())
}

/// By how much the latest record of a run was behind its time-out, in s.
fn run(wire: &Wire<'_>, far: Far, load: Load) -> Result<f64> {
    let out = tempfile::TempDir::new_in(&wire.session.work).context("making a place")?;
    let records = out.path().join(RECORDS);
    let books = out.path().join("out");
    let mut command = wire.probe(far, &books);
    command.arg("--export").arg(&records);
    command.args(["--active-timeout", ACTIVE_TIMEOUT]);
    command.args(["--idle-timeout", IDLE_TIMEOUT]);
    let probe = Wire::begin(&mut command, &books)?;
    let sent = load.send(wire, far)?;
    sleep(SILENCE);
    let record = probe.end()?;
    let all = taken(&record)?;
    ensure!(all == sent, "{all} packets in records, {sent} sent");
    let written = in_time(&records)?;
    ensure!(
        written > 0 && record["flows_exported"].as_u64() == Some(written),
        "{written} records were written in time, of {}: others say nothing of how late they are",
        record["flows_exported"]
    );
    let late_ns = record["export_late_max_ns"].as_u64();
    Ok(late_ns.context("the record says nothing of late records")? as f64 / 1e9)
}

/// Records of a file that were not formed as the probe ended.
fn in_time(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut count = 0;
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let reason = record["end_reason"].as_str().unwrap_or_default();
        count += u64::from(IN_TIME.contains(&reason));
    }
    Ok(count)
}
