//! The flow probe on captures in the page cache, in turns with softflowd and nfpcapd on the same ones.
//!
//! Each program reads the whole capture on one CPU and forms its records: the probe and softflowd send them nowhere, nfpcapd writes its files. What counts is the CPU time of the
//! process (`wait4`), which a busy neighbour changes less than the time that passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_report::statistics::{Spread, spread};
use forebay_sys::process::{self, Reaped};
use serde_json::Value;

use super::line::{Goal, Line};
use super::sink::check_room;
use super::{Lines, Session};

/// Profiles, and how many times the packets of a CPU-second of each peer are wanted.
const PROFILES: [(&str, f64); 2] = [("geant-like-morning", 2.0), ("nix-like-morning", 4.0)];
/// CPU for a packet without plugins, in µs.
const BARE_US: f64 = 0.25;
/// What the probe reads of each flow beside its counts, in the second of its lines, …
const PLUGINS: &str = "tls,dns,http,quic,pstats";
/// … and the CPU for a packet with them, in µs.
const PLUGINS_US: f64 = 0.6;
/// Frames are cut to so many bytes, as probes do.
const CUT: &[&str] = &["--snap", "128"];
/// Those that plugins read are whole; their payload is made up, so that few are what a plugin looks for. At its start the probe touches the memory of five plugins (290 MB, some
/// 0.2 s of CPU): spread over so many packets it adds 0.2 µs to each.
const WHOLE: &[&str] = &["--packets", "1200k"];
/// The same for a quick run, where the start adds 0.8 µs to each: it has no goal.
const WHOLE_QUICK: &[&str] = &["--packets", "300k"];
/// Room for the whole frames of the profile with the larger ones, with some to spare, in MiB.
const WHOLE_MIB: usize = 1_600;
/// Flows that there is room for, in softflowd too: the probe's default, and more than the profiles have at a time. The probe takes its memory at the start: with room for a million
/// flows 0.05 s of CPU go into touching 160 MB.
const FLOWS: &str = "131072";
/// A run of a program takes a few seconds; one that takes so long has come to a stop.
const RUN_MOST: Duration = Duration::from_secs(60);
/// One look at whether it has ended.
const LOOK: Duration = Duration::from_millis(1);
/// Other programs that form flow records of a capture.
const PEERS: [Peer; 2] = [Peer::Softflowd, Peer::Nfpcapd];

#[derive(Clone, Copy)]
enum Peer {
    Softflowd,
    Nfpcapd,
}

impl Peer {
    const fn name(self) -> &'static str {
        match self {
            Self::Softflowd => "softflowd",
            Self::Nfpcapd => "nfpcapd",
        }
    }

    /// The Debian package that it is of.
    const fn package(self) -> &'static str {
        match self {
            Self::Softflowd => "softflowd",
            Self::Nfpcapd => "nfdump",
        }
    }

    fn command(self, capture: &Path, out: &Path) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Self::Softflowd => {
                command.args(["-m", FLOWS, "-6", "-d", "-v", "10", "-r"]);
                command.arg(capture).arg("-p").arg(out.join("pid"));
                // The time-outs of the others.
                for timeout in ["maxlife=300", "general=30", "tcp=30", "udp=30"] {
                    command.args(["-t", timeout]);
                }
            }
            Self::Nfpcapd => {
                command.args(["-e", "300,30", "-r"]).arg(capture);
                command.arg("-w").arg(out);
            }
        }
        command
    }

    /// Packets that it has in its records; none where it does not say so.
    fn packets(self, out: &Path) -> Result<Option<f64>> {
        if !matches!(self, Self::Nfpcapd) {
            return Ok(None);
        }
        let told = Command::new("nfdump").arg("-I").arg("-R").arg(out).output();
        let told = told.context("starting nfdump")?;
        let text = String::from_utf8_lossy(&told.stdout);
        let packets = text.lines().find_map(|line| line.strip_prefix("Packets: "));
        let packets = packets.and_then(|packets| packets.trim().parse().ok());
        Ok(Some(packets.with_context(|| {
            format!("nfdump said no packets: {text}")
        })?))
    }

    /// CPU time that it took, in s; none where it is not installed.
    fn run(self, capture: &Path, out: &Path, packets: f64) -> Result<Option<f64>> {
        empty(out)?;
        let mut command = self.command(capture, out);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        match reaped(&mut command) {
            Ok(reaped) => {
                ensure!(
                    reaped.status.success(),
                    "{} ended with {}",
                    self.name(),
                    reaped.status
                );
                let counted = self.packets(out)?.unwrap_or(packets);
                ensure!(
                    counted == packets,
                    "{} has {counted} packets of {packets}",
                    self.name()
                );
                Ok(Some(cpu_s(&reaped)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(self.name()),
        }
    }
}

fn cpu_s(reaped: &Reaped) -> f64 {
    (reaped.cpu.user_ns + reaped.cpu.system_ns) as f64 / 1e9
}

/// Runs a program to its end. One that does not come to it is killed.
fn reaped(command: &mut Command) -> std::io::Result<Reaped> {
    let mut child = command.spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(reaped) = process::reap(child.id()).map_err(std::io::Error::other)? {
            return Ok(reaped);
        }
        if begun.elapsed() >= RUN_MOST {
            child.kill()?;
            child.wait()?;
            let text = format!("it did not end within {RUN_MOST:?}");
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
        }
        std::thread::sleep(LOOK);
    }
}

fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

pub(super) fn probe(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    for (profile, goal) in PROFILES {
        session.go_on()?;
        let bed = Bed::prepare(session, profile, CUT)?;
        measure(session, lines, &bed, goal)?;
        drop(bed);
        let whole = if session.quick {
            WHOLE_QUICK
        } else {
            check_room(&session.work, WHOLE_MIB)?;
            WHOLE
        };
        measure_plugins(session, lines, &Bed::prepare(session, profile, whole)?)?;
    }
    Ok(())
}

/// A capture, and where the programs write.
struct Bed {
    profile: &'static str,
    directory: PathBuf,
    capture: PathBuf,
    packets: f64,
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Bed {
    fn prepare(session: &Session, profile: &'static str, args: &[&str]) -> Result<Self> {
        let directory = session.work.join(format!("probe-{profile}"));
        empty(&directory)?;
        let capture = directory.join("packets.pcap");
        let mut command = Command::new(&session.program);
        command.args(["emulate", "traffic", "--profile", profile]);
        command.args(args).args(["--format", "json", "--pcap"]);
        let record = json_of(command.arg(&capture))?;
        Ok(Self {
            profile,
            directory,
            capture,
            packets: number(&record, "packets")?,
        })
    }

    /// CPU time of a run of the probe, in s, and the most memory that it had, in bytes. Its record must have all packets of the capture.
    fn probe(&self, session: &Session, plugins: &[&str]) -> Result<(f64, f64)> {
        let told = self.directory.join("record.json");
        let out = fs::File::create(&told).with_context(|| format!("making {}", told.display()))?;
        let mut command = Command::new(&session.program);
        command.args(["probe", "--flows", FLOWS, "--format", "json"]);
        command.args(plugins).arg("--read");
        let reaped = reaped(command.arg(&self.capture).stdout(out)).context("the probe")?;
        ensure!(
            reaped.status.success(),
            "the probe ended with {}",
            reaped.status
        );
        let record: Value = serde_json::from_slice(&fs::read(&told)?)?;
        let exported = number(&record, "packets_exported")?;
        ensure!(
            exported == self.packets,
            "the probe exported {exported} packets of {}",
            self.packets
        );
        Ok((cpu_s(&reaped), reaped.resident_max_bytes as f64))
    }
}

pub(super) fn json_of(command: &mut Command) -> Result<Value> {
    let output = command.output().context("starting this program")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(super) fn number(record: &Value, key: &str) -> Result<f64> {
    record[key]
        .as_f64()
        .with_context(|| format!("a record without {key}"))
}

fn measure(session: &Session, lines: &mut Lines<'_>, bed: &Bed, goal: f64) -> Result<()> {
    // Once for nothing: the capture is in the page cache, and the programs are loaded.
    bed.probe(session, &[])?;
    let (mut own, mut memory) = (Vec::new(), Vec::new());
    let mut peers = [const { Vec::new() }; PEERS.len()];
    let mut rounds = 0;
    loop {
        session.go_on()?;
        let (cpu_s, resident_bytes) = bed.probe(session, &[])?;
        own.push(bed.packets / cpu_s);
        memory.push(resident_bytes / 1e6);
        for (peer, found) in PEERS.iter().zip(&mut peers) {
            let cpu_s = peer.run(&bed.capture, &bed.directory.join(peer.name()), bed.packets)?;
            found.extend(cpu_s.map(|cpu_s| bed.packets / cpu_s));
        }
        rounds += 1;
        let found = [vec![own.clone()], peers.to_vec()].concat();
        if !session.wants_more(rounds, &found) {
            break;
        }
    }
    let rate_hz = of(&own)?;
    let named = |what: &str| format!("probe, {}, {what}", bed.profile);
    let cpu_us = of(&own.iter().map(|hz| 1e6 / hz).collect::<Vec<_>>())?;
    let mut found = vec![
        Line::new(named("CPU of a packet"), "us", cpu_us).goal(Goal::AtMost(BARE_US)),
        Line::new(named("memory"), "MB", of(&memory)?).note(format!(
            "with room for {FLOWS} flows, the capture's pages apart"
        )),
    ];
    for (peer, hz) in PEERS.iter().zip(&peers) {
        let line = Line::new(named("packets"), "packets/CPU-s", rate_hz);
        found.push(match hz.as_slice() {
            [] => line.note(format!(
                "{} is not there: apt-get install {}",
                peer.name(),
                peer.package()
            )),
            hz => line
                .beside(peer.name(), of(hz)?)
                .ratio_goal(Goal::AtLeast(goal)),
        });
    }
    lines.put_all(found);
    Ok(())
}

/// CPU of a packet where applications are looked for.
fn measure_plugins(session: &Session, lines: &mut Lines<'_>, bed: &Bed) -> Result<()> {
    let plugins = ["--plugins", PLUGINS];
    bed.probe(session, &plugins)?;
    let mut cpu_us = Vec::new();
    loop {
        session.go_on()?;
        let (cpu_s, _) = bed.probe(session, &plugins)?;
        cpu_us.push(cpu_s / bed.packets * 1e6);
        if !session.wants_more(cpu_us.len(), std::slice::from_ref(&cpu_us)) {
            break;
        }
    }
    let what = format!("probe, {}, CPU of a packet with plugins", bed.profile);
    let mut line = Line::new(what, "us", of(&cpu_us)?);
    if !session.quick {
        line = line.goal(Goal::AtMost(PLUGINS_US));
    }
    lines.put(line.note(format!(
        "{PLUGINS}; {} whole frames, made-up payload, the start included",
        bed.packets
    )));
    Ok(())
}

pub(super) fn of(values: &[f64]) -> Result<Spread> {
    spread(values.iter().copied()).context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_reaped_with_its_cpu_time_and_one_that_is_not_there_is_told() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        assert!(cpu_s(&reaped(&mut busy).unwrap()) > 0.0);
        let absent = reaped(&mut Command::new("/nonexistent/softflowd")).unwrap_err();
        assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
    }
}
