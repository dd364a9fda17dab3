//! What the end-to-end tests stand on: the real binary, bounded in time, and its files read back.

#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod at_card;
pub(crate) mod at_far;
pub(crate) mod below;
pub(crate) mod blocks;
pub(crate) mod certificates;
pub(crate) mod hld;
pub(crate) mod nfcapd;
pub(crate) mod offenders;
pub(crate) mod sender;
pub(crate) mod sockets;
pub(crate) mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest time that any one run of the binary may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// The real binary.
pub(crate) fn forebay() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
}

/// A run in progress.
pub(crate) struct Run {
    child: Guarded,
    stdout: Drained,
    stderr: Drained,
    what: String,
}

/// A pipe that a thread empties.
struct Drained {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

/// A process that does not outlive its test, however that ends.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Drained {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                match pipe.read(&mut piece) {
                    Ok(got @ 1..) => into.lock().unwrap().extend_from_slice(&piece[..got]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => break,
                }
            }
        });
        Self { bytes, thread }
    }

    /// What has come until now.
    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// All of it.
    fn text(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

/// Starts `command`.
pub(crate) fn start(command: &mut Command) -> Run {
    let what = format!("{command:?}");
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (stdout, stderr) = (
        Drained::new(child.stdout.take().unwrap()),
        Drained::new(child.stderr.take().unwrap()),
    );
    Run {
        child: Guarded(child),
        stdout,
        stderr,
        what,
    }
}

impl Run {
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_some()
    }

    /// Waits for the end, at most [`LIMIT`].
    pub(crate) fn end(mut self) -> Ended {
        let limit = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > limit {
                self.child.0.kill().unwrap();
                let _ = self.child.0.wait();
                panic!(
                    "{} did not end within {LIMIT:?}\n{}",
                    self.what,
                    self.stderr.so_far()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ended {
            status,
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    /// What is on its standard error until now.
    pub(crate) fn said(&self) -> String {
        self.stderr.so_far()
    }

    /// The stages that live now, by name.
    pub(crate) fn stages(&self) -> BTreeMap<String, u32> {
        stages_of(self.pid())
    }

    /// Waits until `wanted` stages are at work; a run that ends before, or has them not in time, is told with all that it said.
    pub(crate) fn wait_stages(&self, wanted: &[&str]) -> BTreeMap<String, u32> {
        let limit = Instant::now() + LIMIT;
        loop {
            let stages = self.stages();
            if wanted.iter().all(|name| stages.contains_key(*name)) {
                return stages;
            }
            let has_ended = !is_alive(self.pid());
            assert!(
                !has_ended && Instant::now() < limit,
                "{}: of the stages {wanted:?} there are {stages:?}{}; it has said:\n{}{}",
                self.what,
                if has_ended { ", and it has ended" } else { "" },
                self.stdout.so_far(),
                self.stderr.so_far()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}\n{}", self.stdout, self.stderr))
    }

    /// The JSON of a run that must have ended with `code`.
    pub(crate) fn json_of(&self, code: i32) -> Value {
        assert_eq!(self.code(), Some(code), "{}\n{}", self.stdout, self.stderr);
        self.json()
    }
}

/// Waits for something that must come soon.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < limit,
            "{what} did not come within {LIMIT:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Children of `parent` that are stages, by name.
pub(crate) fn stages_of(parent: u32) -> BTreeMap<String, u32> {
    let mut stages = BTreeMap::new();
    for pid in children_of(parent) {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line
            .split(|byte| *byte == 0)
            .map(String::from_utf8_lossy)
            .collect();
        if let [_, stage, name, ..] = words.as_slice()
            && stage == "stage"
        {
            stages.insert(name.to_string(), pid);
        }
    }
    stages
}

/// All processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Processes whose parent is `parent`.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    processes()
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// All processes below `root`.
pub(crate) fn descendants_of(root: u32) -> Vec<u32> {
    let below = |pid: &u32| {
        let mut above = std::iter::successors(parent_of(*pid), |at| parent_of(*at));
        above.any(|at| at == root)
    };
    processes().filter(below).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}

/// Whether a process lives and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    !status.contains("State:\tZ")
}

/// Sends a signal by its name; false when there is no such process. The shell's own `kill` is everywhere.
pub(crate) fn signal(name: &str, pid: u32) -> bool {
    let script = format!("kill -{name} {pid}");
    Command::new("sh")
        .args(["-c", &script])
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

/// Sends a signal and waits until the process has it: two of one kind that wait together are one.
pub(crate) fn signal_had(name: &str, pid: u32) -> bool {
    let is_sent = signal(name, pid);
    wait_for("the end of a signal's wait", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let waiting = status
            .lines()
            .find_map(|line| line.strip_prefix("ShdPnd:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        (waiting.unwrap_or(0) == 0).then_some(())
    });
    is_sent
}

/// Ports that some socket of this network namespace has, as the kernel lists them. Binding to find out is no way: what a test has bound and closed stays
/// bound for some milliseconds where another one has just forked, until the child's `exec`.
fn taken_ports() -> BTreeSet<u16> {
    let tables = ["udp", "udp6", "tcp", "tcp6"].map(|protocol| {
        std::fs::read_to_string(format!("/proc/thread-self/net/{protocol}")).unwrap_or_default()
    });
    let local = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    tables
        .iter()
        .flat_map(|table| table.lines().skip(1).filter_map(local))
        .collect()
}

/// The first of so many ports in a row that nobody has, below those that the kernel gives by itself; each call gives others.
pub(crate) fn free_ports(count: u16) -> u16 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    /// Given to tests of this process, which bind them later.
    static GIVEN: Mutex<Vec<Range<u16>>> = Mutex::new(Vec::new());
    let taken = taken_ports();
    let mut given = GIVEN.lock().unwrap();
    for _ in 0..200 {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let scattered = std::process::id()
            .wrapping_mul(2_654_435_761)
            .wrapping_add(turn.wrapping_mul(40_503))
            >> 4;
        let base = 10_000 + (scattered % (32_000 - 10_000 - u32::from(count))) as u16;
        let ports = base..base + count;
        let is_given = |other: &Range<u16>| other.start < ports.end && ports.start < other.end;
        if taken.range(ports.clone()).next().is_none() && !given.iter().any(is_given) {
            given.push(ports);
            return base;
        }
    }
    panic!("no {count} free ports");
}

/// `forebay demo` with JSON, into `out`.
pub(crate) fn demo(out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command
        .args(["demo", "--format", "json", "--out"])
        .arg(out)
        .args(args);
    command
}

/// `forebay evb` with JSON, into `out`.
pub(crate) fn evb(out: &Path, sources: u16, base_port: u16, args: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["evb", "--format", "json", "--out"]).arg(out);
    command
        .args([
            "--sources",
            &sources.to_string(),
            "--base-port",
            &base_port.to_string(),
        ])
        .args(args);
    command
}

/// `forebay audit`: its exit code and what it says.
pub(crate) fn audit(out: &Path) -> Ended {
    start(forebay().arg("audit").arg(out)).end()
}

/// `forebay audit --format json`.
pub(crate) fn audit_json(out: &Path) -> Value {
    start(forebay().args(["audit", "--format", "json"]).arg(out))
        .end()
        .json()
}

/// A number of the JSON object.
pub(crate) fn number(json: &Value, key: &str) -> u64 {
    json[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} is no number in {json}"))
}

/// Files of the JSON object.
pub(crate) fn files(json: &Value) -> Vec<PathBuf> {
    json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| PathBuf::from(file.as_str().unwrap()))
        .collect()
}

/// Items lost for `key`, as `receiver.malformed_trailer.source0`.
pub(crate) fn dropped(json: &Value, key: &str) -> u64 {
    json["drops"]
        .get(key)
        .map_or(0, |lost| lost["items"].as_u64().unwrap())
}

/// Items lost for all keys that begin with `place_and_reason`.
pub(crate) fn dropped_in_all(json: &Value, place_and_reason: &str) -> u64 {
    let drops = json["drops"].as_object().unwrap().iter();
    let named = drops.filter(|(key, _)| {
        key.strip_prefix(place_and_reason)
            .is_some_and(|rest| rest.starts_with('.'))
    });
    named.map(|(_, lost)| lost["items"].as_u64().unwrap()).sum()
}

/// Asserts that the books of a run close, in the JSON and by `forebay audit`.
pub(crate) fn assert_closed(json: &Value, out: &Path) {
    assert_eq!(
        (
            number(json, "residual_items"),
            number(json, "residual_bytes"),
            json["left_items"].as_u64(),
            json["left_bytes"].as_u64(),
        ),
        (0, 0, Some(0), Some(0)),
        "{json}"
    );
    let audit = audit(out);
    assert_eq!(audit.code(), Some(0), "{}", audit.stdout);
}

/// Whether a network namespace may be made here; where not, the test says so.
pub(crate) fn may_have_network() -> bool {
    forebay_testing::wire::may_have_network()
}

/// Sum of a term (`incoming`, `outgoing`) over the accounts of a place that count in `unit`, in items.
pub(crate) fn account_items(verdict: &Value, (place, unit): (&str, &str), term: &str) -> u64 {
    let lines = verdict["balance"]["accounts"].as_array().unwrap().iter();
    lines
        .filter(|line| line["place"] == place && line["unit"] == unit)
        .map(|line| line[term]["items"].as_u64().unwrap())
        .sum()
}

/// Waits until the books of a run at work have so many items of a term, over the accounts of a place that count in this unit.
pub(crate) fn wait_items(out: &Path, at: (&str, &str), term: &str, least: u64) {
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("items in the books", || {
        (account_items(&audit_json(out), at, term) >= least).then_some(())
    });
}

/// Makes the file that holds the sink or stage `name` of a run up while it is there, and what the run's environment says of it.
pub(crate) fn held_up(folder: &Path, name: &str) -> (PathBuf, String) {
    let file = folder.join("held_up");
    std::fs::write(&file, "").unwrap();
    let told = format!("{name}:{}", file.display());
    (file, told)
}

/// Waits until all of `sent` datagrams to the sockets of a run at work are taken by the receiver, or lost to a full buffer by name.
pub(crate) fn wait_arrived(out: &Path, sent: u64) {
    wait_for("all datagrams in the books", || {
        let verdict = audit_json(out);
        let links = verdict["balance"]["links"].as_array().unwrap().iter();
        let sockets = links.filter(|line| line["place"] == "socket");
        let lost = sockets.filter_map(|line| line["dropped"][0]["items"].as_u64());
        let taken = account_items(&verdict, ("receiver", "datagrams"), "incoming");
        (taken + lost.sum::<u64>() >= sent).then_some(())
    });
}

/// Chunks that a to-host has published so far, by its books.
pub(crate) fn chunks_published(out: &Path) -> u64 {
    account_items(&audit_json(out), ("publish", "chunks"), "outgoing")
}

/// Waits until a to-host has published so many chunks.
pub(crate) fn at_work(out: &Path, chunks: u64) {
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("chunks in the books", || {
        (chunks_published(out) >= chunks).then_some(())
    });
}

/// The page of metrics at an address.
pub(crate) fn scrape(address: &str) -> String {
    use std::io::Write;

    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// `forebay tdm send` with JSON, to a receiver at `address`, under a name. Tests run side by side: none of them is to take the machine from the others.
pub(crate) fn tdm_send(address: &str, name: &str) -> Command {
    let mut command = forebay();
    command.args(["tdm", "send", address, "--format", "json", "--id", name]);
    command.arg("--no-realtime");
    command
}

/// What the kernel has dropped at the socket of `address` on loopback.
pub(crate) fn socket_drops(address: &str) -> u64 {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let own = format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let mut lines = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines
        .find(|cells| cells.get(1) == Some(&own.as_str()))
        .unwrap();
    line.last().unwrap().parse().unwrap()
}

/// Items that a record says were lost for this reason, at all places.
pub(crate) fn lost(record: &Value, reason: &str) -> u64 {
    let drops = record["drops"].as_object().unwrap();
    let drops = drops
        .iter()
        .filter(|(name, _)| name.split('.').nth(1) == Some(reason));
    drops.map(|(_, lost)| lost["items"].as_u64().unwrap()).sum()
}

/// The first taint of a record, as people are told it.
pub(crate) fn taint(record: &Value) -> String {
    let taint = &record["taints"][0];
    let part = |key: &str| taint[key].as_str().unwrap().to_owned();
    format!("{}: {}", part("kind"), part("text"))
}

/// Items lost by `place.reason`, over all owners.
pub(crate) fn lost_by_reason(record: &Value) -> Value {
    let mut sums = BTreeMap::<String, u64>::new();
    for (name, lost) in record["drops"].as_object().unwrap() {
        let reason: Vec<&str> = name.split('.').take(2).collect();
        *sums.entry(reason.join(".")).or_default() += lost["items"].as_u64().unwrap();
    }
    serde_json::to_value(sums).unwrap()
}
