//! The generator of traffic into captures in memory, in turns with `dd` of as many bytes: what is left is the cost of making packets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use forebay_report::statistics::Spread;

use super::disk::{Dd, dd};
use super::line::{Goal, Line};
use super::parts::MEMORY;
use super::probe::{json_of, number, of};
use super::{Lines, Session};

const PROFILE: &str = "geant-like-morning";
const KINDS: [Kind; 2] = [
    Kind {
        what: "first 128 bytes",
        args: &["--packets", "2M", "--snap", "128"],
        goal_hz: 1e6,
    },
    Kind {
        what: "whole packets",
        args: &["--packets", "300k"],
        goal_hz: 0.5e6,
    },
];

struct Kind {
    what: &'static str,
    args: &'static [&'static str],
    /// Packets in a second of one CPU.
    goal_hz: f64,
}

/// A file that goes with this.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn traffic(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let memory = Path::new(MEMORY);
    let folder = if memory.is_dir() {
        memory
    } else {
        session.work.as_path()
    };
    for kind in &KINDS {
        // Once for nothing.
        made(session, folder, kind)?;
        let (mut own, mut plain) = (Vec::new(), Vec::new());
        let mut rounds = 0;
        loop {
            session.go_on()?;
            let (packets, rate_hz, bytes) = made(session, folder, kind)?;
            own.push(rate_hz);
            plain.push(packets / written_s(folder, bytes)?);
            rounds += 1;
            if !session.wants_more(rounds, &[own.clone(), plain.clone()]) {
                break;
            }
        }
        lines.put(line(kind, of(&own)?, of(&plain)?, folder));
    }
    Ok(())
}

fn line(kind: &Kind, own: Spread, plain: Spread, folder: &Path) -> Line {
    Line::new(
        format!("traffic into a capture, {}", kind.what),
        "packets/CPU-s",
        own,
    )
    .goal(Goal::AtLeast(kind.goal_hz))
    .beside(Dd::Cached.words(), plain)
    .note(format!("{PROFILE}; as many bytes, in {}", folder.display()))
}

/// A capture: its packets, how many a second of CPU, and its bytes.
fn made(session: &Session, folder: &Path, kind: &Kind) -> Result<(f64, f64, u64)> {
    let to = Scratch(folder.join(format!("forebay-bench-{}.pcap", std::process::id())));
    let _ = fs::remove_file(&to.0);
    let mut command = Command::new(&session.program);
    command.args(["emulate", "traffic", "--profile", PROFILE]);
    command.args(kind.args).args(["--format", "json", "--pcap"]);
    let record = json_of(command.arg(&to.0))?;
    let bytes = fs::metadata(&to.0).context("the capture")?.len();
    let rate_hz = number(&record, "packets_per_cpu_second")?;
    Ok((number(&record, "packets")?, rate_hz, bytes))
}

/// CPU time of `dd` for so many bytes, in s.
fn written_s(folder: &Path, bytes: u64) -> Result<f64> {
    let written = dd(folder, bytes.div_ceil(1 << 20) as usize, Dd::Cached)?;
    Ok(written.cpu_s_per_gb * bytes as f64 / 1e9)
}
