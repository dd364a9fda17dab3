//! What parts of the flow probe cost: its engine over frames in memory, in this process, and the whole program over a capture, as a process of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use forebay_flow::plugins::{Fields, PluginKind, Plugins};
use forebay_flow::{
    Batch, Config, DecodeConfig, Decoder, FlowRecord, Frame, LinkType, Table, Volume,
};
use forebay_sys::clock::thread_cpu_ns;
use serde_json::Value;
use tempfile::TempDir;

use crate::net::Interrupted;

/// Bytes that are kept of each frame.
const SNAP_BYTES: &str = "256";
/// Packets that the table gets together, as in the probe.
const BATCH_PACKETS: usize = 64;
/// One look at a process at work.
const LOOK: Duration = Duration::from_millis(1);
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

/// A capture that is made when it is first asked for, and removed with the last of its clones.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    packets: u64,
    made: Arc<Mutex<Option<TempDir>>>,
}

impl Capture {
    /// Of so many packets.
    pub(crate) fn new(packets: u64) -> Self {
        Self {
            packets,
            made: Arc::default(),
        }
    }

    /// Where it is; it is made in `directory`.
    fn path(&self, directory: &Path, stop: &dyn Fn() -> bool) -> Result<PathBuf> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*made {
            return Ok(folder.path().join("it.pcap"));
        }
        let folder = TempDir::new_in(directory).context("making a place for a capture")?;
        let path = folder.path().join("it.pcap");
        let mut command = program()?;
        command.args(["emulate", "traffic", "--profile", "geant-like-morning"]);
        command.args(["--snap", SNAP_BYTES, "--format", "json"]);
        command.args(["--packets", &self.packets.to_string(), "--pcap"]);
        watched(command.arg(&path), stop)?;
        *made = Some(folder);
        Ok(path)
    }
}

fn program() -> Result<Command> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(Command::new(program))
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Frames are looked at, and nothing else.
    Frames,
    /// They are decoded.
    Decode,
    /// They are decoded, and counted in a table.
    Table,
    /// The whole program with room for so few flows that the table is next to nothing.
    FewFlows,
    /// The whole program, without plugins, to nobody.
    Program,
    /// The same with a plugin.
    Plugin(PluginKind),
    /// The same with records to a file with this ending.
    Export(&'static str),
}

/// What it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) packets: u64,
    pub(crate) flows: u64,
    pub(crate) cpu_ns: u64,
    /// Most memory that was resident, in bytes; of a part of the engine it is not known.
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) residual_items: u64,
}

impl Part {
    /// Carries it out over the capture, which is made in `directory`.
    pub(crate) fn measure(
        self,
        capture: &Capture,
        directory: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Cost> {
        let path = capture.path(directory, stop)?;
        match self {
            Self::Frames => in_memory(&path, walked),
            Self::Decode => in_memory(&path, decoded),
            Self::Table => in_memory(&path, counted),
            Self::FewFlows => probed(&path, &["--flows", "16"], stop),
            Self::Program => probed(&path, &[], stop),
            Self::Plugin(kind) => probed(&path, &["--plugins", kind.name()], stop),
            Self::Export(ending) => exported(&path, ending, directory, stop),
        }
    }
}

fn in_memory(path: &Path, pass: impl Fn(&[u8]) -> Result<Cost>) -> Result<Cost> {
    let capture = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    pass(&capture)
}

/// The frames of a capture of this program's own, with times in ns in the order of bytes of this machine or of little end.
fn frames(capture: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = capture.get(FILE_HEADER_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (header, behind) = rest.split_at_checked(PACKET_HEADER_BYTES)?;
        let word = |at: usize| {
            let bytes = header.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let (bytes, behind) = behind.split_at_checked(word(8) as usize)?;
        rest = behind;
        Some(Frame {
            time_ns: u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)),
            link: Some(LinkType::Ethernet),
            bytes,
            wire_bytes: word(12),
        })
    })
}

fn cost(begun_ns: u64, packets: u64) -> Cost {
    Cost {
        packets,
        flows: 0,
        cpu_ns: thread_cpu_ns() - begun_ns,
        resident_bytes: None,
        residual_items: 0,
    }
}

fn walked(capture: &[u8]) -> Result<Cost> {
    let begun_ns = thread_cpu_ns();
    let mut packets = 0;
    for frame in frames(capture) {
        std::hint::black_box((frame.bytes.first(), frame.wire_bytes));
        packets += 1;
    }
    Ok(cost(begun_ns, packets))
}

fn decoded(capture: &[u8]) -> Result<Cost> {
    let mut decoder = Decoder::new(&DecodeConfig::default())?;
    let begun_ns = thread_cpu_ns();
    let (mut packets, mut good) = (0, 0);
    for frame in frames(capture) {
        packets += 1;
        good += u64::from(std::hint::black_box(decoder.handle_frame(&frame)).is_ok());
    }
    let cost = cost(begun_ns, packets);
    ensure!(
        good == packets,
        "{} packets could not be decoded",
        packets - good
    );
    Ok(cost)
}

fn counted(capture: &[u8]) -> Result<Cost> {
    let mut decoder = Decoder::new(&DecodeConfig::default())?;
    let mut table = Table::new(&Config::default())?;
    let mut plugins = Plugins::new(&[], table.places());
    let mut batch = Batch::new(BATCH_PACKETS);
    let (mut flows, mut recorded) = (0, Volume::default());
    let mut ended = |record: &FlowRecord, _: Fields| {
        flows += 1;
        recorded.packets += record.packets + record.packets_rev;
    };
    let begun_ns = thread_cpu_ns();
    let mut packets = 0;
    for frame in frames(capture) {
        packets += 1;
        if let Ok(packet) = decoder.handle_frame(&frame) {
            plugins.batch(&mut batch, &packet);
        }
        if batch.is_full() {
            table.handle_batch(&batch, &mut plugins.watch(&mut ended));
            batch.clear();
        }
    }
    table.handle_batch(&batch, &mut plugins.watch(&mut ended));
    table.end_all_watched(&mut plugins.watch(&mut ended));
    let cost = cost(begun_ns, packets);
    Ok(Cost {
        flows,
        residual_items: packets.abs_diff(recorded.packets),
        ..cost
    })
}

/// The program over a capture, with records to a new file.
fn exported(
    capture: &Path,
    ending: &str,
    directory: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Cost> {
    let folder = TempDir::new_in(directory).context("making a place for records")?;
    let file = folder.path().join(format!("flows.{ending}"));
    let cost = probed(capture, &["--export", &file.display().to_string()], stop)?;
    ensure!(file.exists(), "{} was not written", file.display());
    Ok(cost)
}

fn probed(capture: &Path, args: &[&str], stop: &dyn Fn() -> bool) -> Result<Cost> {
    let mut command = program()?;
    command.arg("probe").arg("--read").arg(capture);
    let (json, resident_bytes) = watched(command.args(["--format", "json"]).args(args), stop)?;
    let number = |key: &str| json[key].as_u64();
    let of_processes = json["cpu_s"].as_object();
    let cpu_s = of_processes.map(|all| all.values().filter_map(Value::as_f64).sum::<f64>());
    let missing = || format!("the probe's record says too little: {json}");
    Ok(Cost {
        packets: number("packets_in").with_context(missing)?,
        flows: number("flows_exported").with_context(missing)?,
        cpu_ns: (cpu_s.with_context(missing)? * 1e9) as u64,
        resident_bytes: Some(resident_bytes),
        residual_items: number("residual_items").with_context(missing)?,
    })
}

/// A process that does not outlive what it is run for.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it to its end: its record, and the most memory that was resident, as the kernel had it at most [`LOOK`] before the end.
fn watched(command: &mut Command, stop: &dyn Fn() -> bool) -> Result<(Value, u64)> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = Guarded(child.context("starting this program")?);
    let status = format!("/proc/{}/status", child.0.id());
    let mut resident_bytes = 0;
    let ended = loop {
        if stop() {
            return Err(Interrupted.into());
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        resident_bytes = resident_bytes.max(peak_bytes(&text));
        if let Some(ended) = child.0.try_wait().context("waiting for this program")? {
            break ended;
        }
        std::thread::sleep(LOOK);
    };
    let said = |pipe: Option<&mut dyn std::io::Read>| -> Result<String> {
        let mut text = String::new();
        if let Some(pipe) = pipe {
            pipe.read_to_string(&mut text)?;
        }
        Ok(text)
    };
    let complains = said(child.0.stderr.as_mut().map(|pipe| pipe as _))?;
    let text = said(child.0.stdout.as_mut().map(|pipe| pipe as _))?;
    if !ended.success() {
        bail!("{command:?} ended with {ended}: {}", complains.trim());
    }
    let json = serde_json::from_str(&text).context("reading a record")?;
    Ok((json, resident_bytes))
}

/// The most that was resident (`VmHWM` of proc(5)), in bytes; 0 where it is not said.
fn peak_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|text| text.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_as_the_kernel_says_it() {
        let status = "VmPeak:\t    9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(peak_bytes(status), 2 << 20);
        assert_eq!(peak_bytes("VmHWM:\t none\n"), 0);
    }

    #[test]
    fn frames_of_a_capture_are_read_until_one_is_cut() {
        let mut capture = vec![0; FILE_HEADER_BYTES];
        for (number, frame) in [&b"one"[..], b"three"].into_iter().enumerate() {
            let words = [7, number as u32, frame.len() as u32, 100];
            capture.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            capture.extend(frame);
        }
        let read = |capture: &[u8]| -> Vec<(u64, usize, u32)> {
            let frames = frames(capture);
            frames
                .map(|frame| (frame.time_ns, frame.bytes.len(), frame.wire_bytes))
                .collect()
        };
        let both = [(7_000_000_000, 3, 100), (7_000_000_001, 5, 100)];
        assert_eq!(read(&capture), both);
        assert_eq!(read(&capture[..capture.len() - 1]), both[..1]);
        assert!(read(&capture[..10]).is_empty());
    }
}
