//! Time-division UDP for minutes, in many short windows: what memory and output of its processes grow by.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_sys::socket::{UdpOptions, bind_udp};
use serde_json::Value;

use super::line::{Goal, Line};
use super::{Lines, Session};
use crate::messaging::Occupied;
use crate::running::Running;
use crate::tdm::left_over;
use forebay_report::statistics::spread;

/// How long the session is, in s.
const LONG_S: u64 = 300;
const QUICK_S: u64 = 15;
/// A window and the time from one to the next, in us: 3,333 windows a second.
const WINDOW_US: u64 = 200;
const CYCLE_US: u64 = 300;
/// What comes before is the start, and no growth: a part of the session.
const START: f64 = 0.1;
/// Parts of the rest, each with a slope of its own.
const PARTS: usize = 5;
/// From sample to sample.
const EVERY: Duration = Duration::from_millis(250);
/// What a run of eight hours may grow by, in MiB, and so what it may in one.
const GROWTH_MIB: f64 = 8.0;
const HOURS: f64 = 8.0;

/// What was seen at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    receiver_bytes: f64,
    sender_bytes: f64,
    /// Of the receiver that keeps rows.
    keeper_bytes: f64,
    output_bytes: f64,
}

pub(super) fn tdm_long(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let seconds = if session.quick { QUICK_S } else { LONG_S };
    let windows = seconds * 1_000_000 / CYCLE_US;
    let work = session.options.work.join("tdm-long");
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    let rows = work.join("windows.parquet");
    // As long as it is written it has another name.
    let growing = work.join("windows.parquet.part");
    let [mut receiver, sender] = start(session, windows, &[])?;
    let [mut keeper, _other] = start(session, windows, &["--rows", &rows.to_string_lossy()])?;
    let mut samples = Vec::new();
    let begun = Instant::now();
    while receiver.try_wait()?.is_none() || keeper.try_wait()?.is_none() {
        session.go_on()?;
        if begun.elapsed() > Duration::from_secs(2 * seconds + 60) {
            bail!("a session of {seconds} s did not end");
        }
        let resident = [&receiver, &sender, &keeper].map(resident);
        if let [Some(receiver_bytes), Some(sender_bytes), Some(keeper_bytes)] = resident {
            samples.push(Sample {
                seconds: begun.elapsed().as_secs_f64(),
                receiver_bytes,
                sender_bytes,
                keeper_bytes,
                output_bytes: size(&growing),
            });
        }
        std::thread::sleep(EVERY);
    }
    let mut notes = Vec::new();
    for receiver in [receiver, keeper] {
        let came = told(receiver)?;
        let scheme = &came["schemes"][0];
        let is_closed = scheme["residual_items"] == 0 && left_over(&came) == 0;
        if came["end"] != "ended" || !is_closed {
            bail!("a session did not end as it should: {came}");
        }
        notes.push(format!(
            "{} of {} packets came",
            scheme["received"], scheme["sent"]
        ));
    }
    let note = format!("{windows} windows, {}, residual 0", notes.join(" and "));
    let output_bytes = size(&rows);
    let _ = fs::remove_dir_all(&work);
    put_lines(&samples, output_bytes, &note, lines)
}

/// Slopes of what was sampled.
fn put_lines(
    samples: &[Sample],
    output_bytes: f64,
    note: &str,
    lines: &mut Lines<'_>,
) -> Result<()> {
    let from = (samples.len() as f64 * START) as usize;
    let steady = samples.get(from..).unwrap_or_default();
    let per_hour = |bytes: fn(&Sample) -> f64| {
        let parts = steady.chunks((steady.len() / PARTS).max(2)).take(PARTS);
        let slopes = parts.map(|part| slope(part, bytes) * 3600.0 / f64::from(1 << 20));
        spread(slopes).context("the session was too short")
    };
    let whole = slope(steady, |it| it.receiver_bytes) * 3600.0 / f64::from(1 << 20);
    lines.put(
        Line::new(
            "tdm, many short windows: resident memory of the receiver grows by",
            "MiB/h",
            per_hour(|it| it.receiver_bytes)?,
        )
        .goal(Goal::AtMost(GROWTH_MIB / HOURS))
        .note(format!("{note}; over all of the run {whole:.2} MiB/h")),
    );
    lines.put(
        Line::new(
            "tdm, many short windows: resident memory of the sender grows by",
            "MiB/h",
            per_hour(|it| it.sender_bytes)?,
        )
        .goal(Goal::AtMost(GROWTH_MIB / HOURS)),
    );
    lines.put(
        Line::new(
            "tdm, many short windows: resident memory of a receiver that keeps rows of windows grows by",
            "MiB/h",
            per_hour(|it| it.keeper_bytes)?,
        )
        .note("the end of a Parquet file says where each group of rows lies, and is kept until then"),
    );
    let parts = steady.chunks((steady.len() / PARTS).max(2)).take(PARTS);
    let windows_per_s = 1e6 / CYCLE_US as f64;
    let per_window = parts.map(|part| slope(part, |it| it.output_bytes) / windows_per_s);
    lines.put(
        Line::new(
            "tdm, many short windows: rows of windows (Parquet) grow by",
            "B/window",
            spread(per_window).context("the session was too short")?,
        )
        .note(format!("{output_bytes:.0} B in all")),
    );
    Ok(())
}

/// A receiver and its sender.
fn start(session: &Session, windows: u64, more: &[&str]) -> Result<[Running; 2]> {
    let windows = windows.to_string();
    let free = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), &UdpOptions::default())?;
    let address = free.address.to_string();
    drop(free);
    let start = |arguments: &[&str]| -> Result<Running> {
        let mut command = Command::new(&session.program);
        command
            .arg("tdm")
            .args(arguments)
            .args(["--format", "json"]);
        Running::start(&mut command, Stdio::null())
    };
    let (window, dead) = (
        format!("{WINDOW_US}us"),
        format!("{}us", CYCLE_US - WINDOW_US),
    );
    let words = [
        "receive",
        "--bind",
        &address,
        "--senders",
        "1",
        "--link-rate",
        "1G",
        "--port-buffer",
        "128K",
        "--window",
        &window,
        "--dead-time",
        &dead,
        "--windows",
        &windows,
    ];
    let receiver = start(&[&words, more].concat())?;
    let sender = start(&["send", &address, "--wait", "20s", "--no-realtime"])?;
    Ok([receiver, sender])
}

/// Resident memory of a process, in bytes; none when it has ended.
fn resident(process: &Running) -> Option<f64> {
    Occupied::of_process(process.id()).map(|occupied| occupied.resident_bytes as f64)
}

fn size(path: &Path) -> f64 {
    fs::metadata(path).map_or(0.0, |it| it.len() as f64)
}

fn told(mut process: Running) -> Result<Value> {
    let stdout = process.stdout.take().context("its output")?;
    serde_json::from_reader(stdout).context("reading what the receiver said")
}

/// Of the line of least squares, per second.
fn slope(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let count = samples.len().max(1) as f64;
    let mean = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(&|it| it.seconds), mean(&of));
    let above: f64 = samples
        .iter()
        .map(|it| (it.seconds - x) * (of(it) - y))
        .sum();
    let below: f64 = samples.iter().map(|it| (it.seconds - x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_line() {
        let samples: Vec<Sample> = (0..40)
            .map(|at| Sample {
                seconds: f64::from(at) * 0.25,
                receiver_bytes: 1000.0 + 8.0 * f64::from(at),
                sender_bytes: 7.0,
                keeper_bytes: 0.0,
                output_bytes: 0.0,
            })
            .collect();
        assert!((slope(&samples, |it| it.receiver_bytes) - 32.0).abs() < 1e-9);
        assert!(slope(&samples, |it| it.sender_bytes).abs() < 1e-9);
        assert!(slope(&[], |it| it.seconds).abs() < 1e-9);
    }
}
