//! Captures made and files read by the tests of `replay` and `mover`.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_wire::hadtu::{ByteOrder, MTU_BYTES, MessageWriter};
use forebay_wire::hld_scan::{Ending, Item, Scanner};
use forebay_wire::subevent::SubEventRepr;
use serde_json::Value;

/// A file of the carried recording.
pub(crate) fn data(name: &str) -> PathBuf {
    let data = forebay_testing::root().join("crates/ground/forebay-wire/tests/data");
    data.join(name)
}

/// The program under test.
pub(crate) fn forebay() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
}

/// Runs `forebay replay CAPTURE --out OUT --format json …`.
pub(crate) fn replay(capture: &Path, out: &Path, args: &[&str]) -> Output {
    replay_command(capture, out, args).output().unwrap()
}

pub(crate) fn replay_command(capture: &Path, out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command.arg("replay").arg(capture).arg("--out").arg(out);
    command.args(["--format", "json"]).args(args);
    command.stdin(Stdio::null());
    command
}

/// The one JSON object on standard output.
pub(crate) fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}; {stderr}"))
}

/// Items lost under a name, 0 when the name is not there.
pub(crate) fn dropped(summary: &Value, name: &str) -> u64 {
    summary["drops"][name]["items"].as_u64().unwrap_or(0)
}

pub(crate) fn files(summary: &Value) -> Vec<PathBuf> {
    let files = summary["files"].as_array().unwrap().iter();
    files.map(|file| file.as_str().unwrap().into()).collect()
}

/// What of an event must be equal between builders.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) sequence: u32,
    /// Id word without the data-error bit.
    pub(crate) id: u32,
    pub(crate) data_error: bool,
    pub(crate) size: u32,
    pub(crate) subs: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            sequence, id, size, ..
        } = self;
        let lengths: Vec<_> = self.subs.iter().map(Vec::len).collect();
        write!(f, "event {sequence} id {id:#x} of {size}: {lengths:?}")
    }
}

/// The events of a file that must be sound.
pub(crate) fn events(path: &Path) -> Vec<Event> {
    let mut scanner = Scanner::new();
    scanner.feed(&std::fs::read(path).unwrap());
    scanner.finish();
    let mut events = Vec::new();
    while let Some(item) = scanner.poll_item() {
        match item {
            Item::Event(found) => {
                let header = found.event.header();
                let subs = found.event.sub_events();
                events.push(Event {
                    sequence: header.sequence,
                    id: header.id.0 & 0x7fff_ffff,
                    data_error: header.id.has_data_error(),
                    size: header.size,
                    subs: subs.map(|sub| sub.unwrap().as_bytes().to_vec()).collect(),
                });
            }
            Item::Broken(broken) => panic!("{}: {broken}", path.display()),
            Item::Start { .. } | Item::Stop { .. } => {}
        }
    }
    assert_eq!(scanner.ending(), Some(Ending::Clean), "{}", path.display());
    events
}

/// The events of all files of a directory, in the order of their sequence numbers.
pub(crate) fn events_in(directory: &Path) -> Vec<Event> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "hld") {
            all.extend(events(&path));
        }
    }
    all.sort_by_key(|event| event.sequence);
    all
}

/// A classic pcap file of UDP datagrams over Ethernet.
pub(crate) struct Pcap {
    bytes: Vec<u8>,
    packets: u64,
}

impl Pcap {
    pub(crate) fn new() -> Self {
        let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0]);
        for word in [0_u32, 0, 262_144, 1] {
            bytes.extend(word.to_le_bytes());
        }
        Self { bytes, packets: 0 }
    }

    /// Adds a datagram; `stamp_us` counts from the start.
    pub(crate) fn push(&mut self, stamp_us: u64, port: u16, payload: &[u8]) {
        let frame = frame(port, payload);
        self.push_frame(stamp_us, &frame, frame.len());
    }

    /// Adds the first `kept` bytes of a frame.
    pub(crate) fn push_frame(&mut self, stamp_us: u64, frame: &[u8], kept: usize) {
        let seconds = 1_700_000_000 + stamp_us / 1_000_000;
        let words = [
            seconds as u32,
            (stamp_us % 1_000_000) as u32,
            kept as u32,
            frame.len() as u32,
        ];
        for word in words {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(&frame[..kept]);
        self.packets += 1;
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn write(&self, path: &Path) {
        std::fs::write(path, &self.bytes).unwrap();
    }
}

/// An Ethernet frame with a UDP datagram to `port`; sources have an address of their own.
pub(crate) fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((payload.len() as u16 + 28).to_be_bytes());
    frame.extend([0, 7, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([10, 0, 0, 2]);
    frame.extend(4_000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend((payload.len() as u16 + 8).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// A message of `count` sub-events of source `id` from trigger `first` on.
pub(crate) fn message(id: u32, first: u32, count: u32, payload_bytes: usize) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    for trigger in first..first + count {
        let sub = SubEventRepr {
            id,
            trigger_word: trigger << 8 | 0x42,
            ..SubEventRepr::default()
        };
        let byte = (trigger ^ id) as u8;
        writer.push(&sub, &vec![byte; payload_bytes]).unwrap();
    }
    writer.finish().to_vec()
}

/// A capture of several sources, each sending one message per `per_message` triggers.
pub(crate) struct Traffic {
    pub(crate) sources: u16,
    pub(crate) events: u32,
    pub(crate) per_message: u32,
    pub(crate) payload_bytes: usize,
    pub(crate) spacing_us: u64,
}

impl Traffic {
    pub(crate) fn write(&self, path: &Path) {
        let mut pcap = Pcap::new();
        for first in (0..self.events).step_by(self.per_message as usize) {
            let stamp_us = u64::from(first) * self.spacing_us;
            let count = self.per_message.min(self.events - first);
            for source in 0..self.sources {
                let id = 0x8000 + u32::from(source);
                let message = message(id, first, count, self.payload_bytes);
                for datagram in message.chunks(MTU_BYTES) {
                    pcap.push(stamp_us, 50_000 + source, datagram);
                }
            }
        }
        pcap.write(path);
    }
}

/// A program that is killed when the test gives up.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end, which must come in time.
    pub(crate) fn output(mut self, limit: Duration) -> Output {
        let end = Instant::now() + limit;
        // What it says may be more than a pipe holds.
        let stdout = read_all(self.0.stdout.take());
        let stderr = read_all(self.0.stderr.take());
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "still running after {limit:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Output {
            status: self.0.wait().unwrap(),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut all).unwrap();
        }
        all
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Sends a signal by its name to one process.
pub(crate) fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success() || name == "KILL", "{kill}");
}

/// The process of a stage of the run under `supervisor`, once it is there.
pub(crate) fn stage(supervisor: u32, role: &str) -> u32 {
    wait_for(&format!("stage {role}"), || {
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(|pid| is_stage(*pid, supervisor, role))
    })
}

fn is_stage(pid: u32, supervisor: u32, role: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    parent == Some(supervisor) && command.ends_with(format!("stage\0{role}\0").as_bytes())
}

/// Looks until `found` says so; bounded.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes of HLD files in a directory.
pub(crate) fn written_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = paths.filter(|path| path.extension().is_some_and(|e| e == "hld"));
    files
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum()
}
