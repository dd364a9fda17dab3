//! `forebay mover` and the `tcp` sink: equal files, deaths of either side, stalled and hostile peers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod replaying;
mod rig;
mod small_disk;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_wire::mover::{BlockFields, Frame, Hello, Refusal, Totals};
use replaying::*;
use serde_json::Value;
use small_disk::on_small_disk;
use tempfile::TempDir;

/// A mover on a port of its own.
struct Mover {
    running: Running,
    address: SocketAddr,
}

impl Mover {
    fn start(out: &Path, args: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap(), out, args)
    }

    fn start_on(listen: SocketAddr, out: &Path, args: &[&str]) -> Self {
        Self::spawn(mover_command(listen, out, args))
    }

    /// Starts what will be a mover.
    fn spawn(mut command: Command) -> Self {
        let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let stderr = running.0.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().parse();
        let address = address.unwrap_or_else(|_| panic!("the mover says {line:?}"));
        // Whatever else it says is read, so that it never waits for us.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Self { running, address }
    }

    fn sink(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Its summary after its own end.
    fn end(self) -> (Option<i32>, Value) {
        let output = self.running.output(Duration::from_secs(15));
        (output.status.code(), json(&output))
    }

    /// Its summary after it was asked to end.
    fn stop(self) -> (Option<i32>, Value) {
        signal(self.running.pid(), "TERM");
        self.end()
    }
}

fn mover_command(listen: SocketAddr, out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["mover", "--listen", &listen.to_string(), "--format", "json"]);
    command.arg("--out").arg(out).args(args);
    command
}

/// A port that nobody listens on just now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn capture_of(folder: &TempDir, traffic: &Traffic) -> PathBuf {
    let capture = folder.path().join("traffic.pcap");
    traffic.write(&capture);
    capture
}

/// About two seconds of 5 kB events when paced.
const PACED: Traffic = Traffic {
    sources: 3,
    events: 8_000,
    per_message: 4,
    payload_bytes: 400,
    spacing_us: 250,
};

/// All bytes of a file but the moments at which it was begun and ended.
fn unstamped(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    let stop = bytes.len() - 32;
    for frame in [0, stop] {
        bytes[frame + 16..frame + 24].fill(0);
    }
    bytes
}

#[test]
fn the_files_of_the_mover_equal_those_of_the_local_sink() {
    let folder = TempDir::new().unwrap();
    let (local, remote) = (folder.path().join("local"), folder.path().join("remote"));
    let mover = Mover::start(&remote, &["--once"]);
    let args = [
        "--sink",
        "file",
        "--sink",
        &mover.sink(),
        "--file-events",
        "7",
    ];
    let output = replay(&data("six_sources.pcap"), &local, &args);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["drops"], serde_json::json!({}));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    let stream = &moved["streams"][0];
    assert_eq!(stream["condition"], "ended");
    assert_eq!(stream["events_sent"], 26);
    assert_eq!(stream["events_written"], 26);
    assert_eq!(
        (&moved["residual_items"], &moved["residual_bytes"]),
        (&0.into(), &0.into())
    );
    let (ours, theirs) = (files(&summary), files(&moved));
    assert_eq!((ours.len(), theirs.len()), (4, 4));
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our.file_name(), their.file_name());
        assert_eq!(events(our), events(their));
        assert!(unstamped(our) == unstamped(their), "{}", our.display());
    }
    let left = format!("run-{}.json", moved["run_id"].as_str().unwrap());
    let left = std::fs::read(remote.join(left)).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&left).unwrap(), moved);
    let audit = forebay()
        .arg("audit")
        .arg(stream["ledger"].as_str().unwrap())
        .output();
    assert_eq!(audit.unwrap().status.code(), Some(0));
}

#[test]
fn a_killed_mover_goes_on_with_nothing_lost_and_nothing_twice() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let (local, remote) = (folder.path().join("local"), folder.path().join("remote"));
    let mut mover = Mover::start(&remote, &["--once"]);
    let args = ["--sink", "file", "--sink", &mover.sink(), "--speed", "1"];
    let mut command = replay_command(&capture, &local, &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    for kill in 1..=3 {
        wait_for("bytes at the mover", || {
            (written_bytes(&remote) >= kill * 2_000_000).then_some(())
        });
        let address = mover.address;
        signal(mover.running.pid(), "KILL");
        drop(mover);
        mover = Mover::start_on(address, &remote, &["--once"]);
    }
    let output = running.output(Duration::from_secs(20));
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 8_000);
    assert_eq!(summary["drops"], serde_json::json!({}));
    assert_eq!(summary["taints"], serde_json::json!([]));
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(warning.contains("was lost"), "{warning}");
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["streams"][0]["events_written"], 8_000);
    assert_eq!(events_in(&remote), events_in(&local));
}

#[test]
fn a_killed_sender_goes_on_with_nothing_lost_and_nothing_twice() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let (local, remote) = (folder.path().join("local"), folder.path().join("remote"));
    let mover = Mover::start(&remote, &["--once"]);
    let args = ["--sink", "file", "--sink", &mover.sink(), "--speed", "1"];
    let mut command = replay_command(&capture, &local, &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    for kill in 1..=3 {
        wait_for("bytes at the mover", || {
            (written_bytes(&remote) >= kill * 2_000_000).then_some(())
        });
        signal(stage(running.pid(), "builder"), "KILL");
    }
    let output = running.output(Duration::from_secs(20));
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["restarts"]["builder"], 3);
    assert_eq!(summary["drops"], serde_json::json!({}));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["streams"][0]["events_written"], 8_000);
    assert_eq!(events_in(&remote), events_in(&local));
}

#[test]
fn a_file_of_the_mover_that_somebody_removes_is_told_with_what_was_in_it() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let (local, remote) = (folder.path().join("local"), folder.path().join("remote"));
    let mover = Mover::start(&remote, &["--once"]);
    let args = ["--sink", &mover.sink(), "--speed", "1"];
    let mut command = replay_command(&capture, &local, &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    wait_for("bytes at the mover", || {
        (written_bytes(&remote) >= 2_000_000).then_some(())
    });
    let mut entries = std::fs::read_dir(&remote).unwrap().flatten();
    let path = entries
        .find_map(|entry| {
            Some(entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "hld"))
        })
        .unwrap();
    std::fs::remove_file(path).unwrap();
    let output = running.output(Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(0));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(1), "{moved}");
    let stream = &moved["streams"][0];
    assert_eq!(stream["condition"], "tainted", "{moved}");
    let taint = rig::taint(stream);
    assert!(taint.starts_with("output_removed: "), "{moved}");
    let removed = stream["output_removed"]["events"].as_u64().unwrap();
    let left: usize = files(&moved).iter().map(|path| events(path).len()).sum();
    assert_eq!(left as u64 + removed, 8_000, "{moved}");
    assert!(removed > 0 && left > 0, "{moved}");
}

#[test]
fn a_mover_that_stops_reading_stalls_nothing_else() {
    let folder = TempDir::new().unwrap();
    let traffic = Traffic {
        sources: 3,
        events: 4_000,
        per_message: 4,
        payload_bytes: 2_500,
        spacing_us: 400,
    };
    let capture = capture_of(&folder, &traffic);
    let (local, remote) = (folder.path().join("local"), folder.path().join("remote"));
    let mover = Mover::start(&remote, &[]);
    let args = ["--sink", "file", "--sink", &mover.sink(), "--speed", "1"];
    let args = [
        &args[..],
        &[
            "--sink-full",
            "drop",
            "--sink-queue",
            "4Mi",
            "--event-size",
            "2Mi",
            "--mover-timeout",
            "2s",
        ],
    ]
    .concat();
    let mut command = replay_command(&capture, &local, &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    wait_for("bytes at the mover", || {
        (written_bytes(&remote) >= 1_000_000).then_some(())
    });
    signal(mover.running.pid(), "STOP");
    let output = running.output(Duration::from_secs(20));
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["residual_items"], 0);
    let in_file = events_in(&local);
    assert_eq!(in_file.len(), 4_000, "the local sink lost events");
    let queue_full = dropped(&summary, "offer.queue_full.tcp2");
    let peer_lost = dropped(&summary, "sink.peer_lost.tcp2");
    assert!(queue_full > 0 && peer_lost > 0, "{}", summary["drops"]);
    assert_eq!(dropped(&summary, "offer.queue_full.file"), 0);
    assert_eq!(summary["condition"], "tainted");
    signal(mover.running.pid(), "CONT");
    let (code, moved) = mover.stop();
    assert_eq!(code, Some(0), "{moved}");
    let stream = &moved["streams"][0];
    assert_eq!(stream["condition"], "interrupted");
    // What it wrote is a sound beginning of what the local sink has; of what the sender dropped some had arrived.
    let there = events_in(&remote);
    assert_eq!(there, in_file[..there.len()]);
    assert!(there.len() as u64 + queue_full + peer_lost >= 4_000);
}

#[test]
fn a_mover_that_never_comes_costs_its_own_events_by_name() {
    let folder = TempDir::new().unwrap();
    let sink = format!("tcp://{}", free_address());
    let args = ["--sink", &sink, "--mover-timeout", "300ms"];
    let start = Instant::now();
    let output = replay(&data("six_sources.pcap"), folder.path(), &args);
    assert!(start.elapsed() < Duration::from_secs(10));
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(dropped(&summary, "sink.peer_lost.tcp"), 26);
    let taint = rig::taint(&summary);
    assert!(taint.starts_with("peer_lost: 26 events"), "{taint}");
}

#[test]
fn a_mover_that_comes_late_gets_everything() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let remote = folder.path().join("remote");
    let address = free_address();
    let args = [
        "--sink",
        &format!("tcp://{address}"),
        "--sink",
        "file",
        "--speed",
        "1",
    ];
    let local = folder.path().join("local");
    let mut command = replay_command(&capture, &local, &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    wait_for("bytes on disk", || {
        (written_bytes(&local) >= 2_000_000).then_some(())
    });
    let mover = Mover::start_on(address, &remote, &["--once"]);
    let summary = json(&running.output(Duration::from_secs(20)));
    assert_eq!(summary["drops"], serde_json::json!({}));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(events_in(&remote), events_in(&local));
}

#[test]
fn a_mover_that_takes_over_elsewhere_names_what_came_before() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mover = Mover::start(&first, &[]);
    let address = mover.address;
    let args = ["--sink", &mover.sink(), "--speed", "1"];
    let mut command = replay_command(&capture, &folder.path().join("out"), &args);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    wait_for("bytes at the mover", || {
        (written_bytes(&first) >= 3_000_000).then_some(())
    });
    let (code, before) = mover.stop();
    assert_eq!(code, Some(0), "{before}");
    let mover = Mover::start_on(address, &second, &["--once"]);
    let output = running.output(Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(0));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    let stream = &moved["streams"][0];
    let elsewhere = dropped(stream, "stream.before_this_mover.tcp");
    assert!(elsewhere > 0, "{stream}");
    assert_eq!(
        stream["events_written"].as_u64().unwrap() + elsewhere,
        8_000
    );
    let mut sequences: Vec<u32> = events_in(&first).iter().map(|e| e.sequence).collect();
    sequences.extend(events_in(&second).iter().map(|e| e.sequence));
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences, (1..=8_000).collect::<Vec<_>>());
}

#[test]
fn events_lost_between_the_books_are_found_by_both_sides() {
    let folder = TempDir::new().unwrap();
    let mover = Mover::start(&folder.path().join("remote"), &["--once"]);
    let args = ["--sink", &mover.sink()];
    let mut command = replay_command(&data("six_sources.pcap"), &folder.path().join("o"), &args);
    let output = command.env("FOREBAY_LEAK", "stream:1").output().unwrap();
    let summary = json(&output);
    let taint = rig::taint(&summary);
    assert!(taint.starts_with("mover_mismatch: 26 events"), "{taint}");
    assert_eq!(summary["condition"], "tainted");
    let (code, moved) = mover.end();
    assert_eq!(code, Some(1), "{moved}");
    assert_eq!(moved["residual_items"], 1);
}

#[test]
fn events_that_vanish_in_the_sink_over_tcp_are_named() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("o");
    let mover = Mover::start(&folder.path().join("remote"), &["--once"]);
    let args = ["--sink", &mover.sink()];
    let mut command = replay_command(&data("six_sources.pcap"), &out, &args);
    let output = command.env("FOREBAY_LEAK", "sink:4").output().unwrap();
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(1), "{summary}");
    assert_eq!(summary["residual_items"], 4, "{summary}");
    assert_eq!(summary["left_items"], 0, "{summary}");
    rig::offenders::assert_only(&out, "sink", "events", 4);
    mover.end();
}

#[test]
fn events_that_vanish_at_the_mover_are_named() {
    for hop in ["stream", "mover"] {
        let folder = TempDir::new().unwrap();
        let remote = folder.path().join("remote");
        let mut command = mover_command("127.0.0.1:0".parse().unwrap(), &remote, &["--once"]);
        command.env("FOREBAY_LEAK", format!("{hop}:3"));
        let mover = Mover::spawn(command);
        let args = ["--sink", &mover.sink()];
        let out = folder.path().join("o");
        replay(&data("six_sources.pcap"), &out, &args);
        let (code, moved) = mover.end();
        assert_eq!(code, Some(1), "{hop}: {moved}");
        assert_eq!(moved["residual_items"], 3, "{hop}: {moved}");
        let ledger = moved["streams"][0]["ledger"].as_str().unwrap();
        rig::offenders::assert_only(Path::new(ledger), hop, "events", 3);
    }
}

fn hello(run_id: &str) -> Vec<u8> {
    let hello = Hello {
        run_id,
        sink: "tcp",
        position: 0,
        events: 0,
        bytes: 0,
    };
    Frame::Hello(hello).emit()
}

/// Sends bytes and reads until the mover closes.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    // The mover may close with our bytes unread.
    let _ = socket.read_to_end(&mut answer);
    answer
}

/// The frames of an answer, in words.
fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let Ok(Some((frame, length))) = Frame::parse(bytes) {
        frames.push(format!("{frame:?}"));
        bytes = &bytes[length..];
    }
    frames
}

#[test]
fn strangers_are_refused_by_reason_and_the_mover_goes_on() {
    let folder = TempDir::new().unwrap();
    let remote = folder.path().join("remote");
    let mover = Mover::start(&remote, &["--once"]);
    let refused = |reason: Refusal| vec![format!("{:?}", Frame::Refuse(Ok(reason)))];
    let address = mover.address;
    let http = b"GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n";
    assert_eq!(frames(&answer(address, http)), refused(Refusal::Malformed));
    answer(address, &[0xa5; 100_000]);
    // A length that would take all memory; a name that leads out of the directory; events before a hello.
    answer(address, &[b'F', b'B', 1, 4, 0xff, 0xff, 0xff, 0xff]);
    answer(address, &hello("../../etc/x"));
    let block = BlockFields {
        begin: 0,
        end: 64,
        events_total: 1,
        bytes_total: 8,
        run: 1,
        events: 1,
        crc32: 0,
        bytes: 8,
    };
    answer(address, &Frame::Block(block, &[0; 8]).emit());
    // Known senders that send what is wrong: a gap, a wrong checksum, what is no event.
    let gap = BlockFields { begin: 32, ..block };
    let gap = [hello("gap"), Frame::Block(gap, &[0; 8]).emit()].concat();
    let answers = frames(&answer(address, &gap));
    assert_eq!(answers, ["Welcome(0)", &refused(Refusal::OutOfOrder)[0]]);
    let sum = [hello("sum"), Frame::Block(block, &[0; 8]).emit()].concat();
    assert_eq!(
        frames(&answer(address, &sum))[1],
        refused(Refusal::Checksum)[0]
    );
    let no_event = BlockFields {
        crc32: 0x6522_df69,
        ..block
    };
    let no_event = [hello("none"), Frame::Block(no_event, &[0; 8]).emit()].concat();
    assert_eq!(
        frames(&answer(address, &no_event))[1],
        refused(Refusal::Malformed)[0]
    );
    // Half a frame, and silence.
    drop(
        TcpStream::connect(address)
            .unwrap()
            .write_all(&hello("half")[..50]),
    );
    let _silent = TcpStream::connect(address).unwrap();

    let args = ["--sink", &mover.sink()];
    let output = replay(&data("six_sources.pcap"), &folder.path().join("out"), &args);
    assert_eq!(output.status.code(), Some(0));
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["events_written"], 26);
    let count = |reason: &str| moved["refused"][reason].as_u64().unwrap_or(0);
    assert_eq!(count("not_the_protocol"), 2, "{}", moved["refused"]);
    assert_eq!(count("bad_length"), 1);
    assert_eq!(count("bad_name"), 1);
    assert_eq!(count("malformed"), 2);
    assert_eq!(count("out_of_order"), 1);
    assert_eq!(count("checksum"), 1);
    assert_eq!(count("silent"), 1);
    assert!(!folder.path().join("etc").exists());
}

/// Connects, says hello and hears the welcome.
fn welcomed(address: SocketAddr, run_id: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    let limit = Some(Duration::from_secs(10));
    socket.set_read_timeout(limit).unwrap();
    socket.write_all(&hello(run_id)).unwrap();
    let mut answer = [0; 16];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(frames(&answer), ["Welcome(0)"], "{run_id}");
    socket
}

#[test]
fn a_mover_takes_more_streams_in_its_life_than_it_keeps_open() {
    let folder = TempDir::new().unwrap();
    let mover = Mover::start(&folder.path().join("remote"), &[]);
    let end = Frame::End(Totals::default()).emit();
    for stream in 0..300 {
        let run_id = format!("ended-{stream}");
        let answers = frames(&answer(
            mover.address,
            &[hello(&run_id), end.clone()].concat(),
        ));
        assert_eq!(answers.len(), 2, "{run_id}: {answers:?}");
        assert!(answers[1].starts_with("Farewell"), "{answers:?}");
    }
    // A sender that comes, says its name and goes keeps no place either; and a sender that comes again finds its stream.
    let first = welcomed(mover.address, "comes-back");
    drop(first);
    for stream in 0..70 {
        drop(welcomed(mover.address, &format!("gone-{stream}")));
    }
    drop(welcomed(mover.address, "comes-back"));
    let args = ["--sink", &mover.sink()];
    let output = replay(&data("six_sources.pcap"), &folder.path().join("out"), &args);
    assert_eq!(json(&output)["taints"], serde_json::json!([]));
    let (code, moved) = mover.stop();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["refused"], serde_json::json!({}));
    assert_eq!(moved["streams_ended"], 301);
    // 71 that went away and one that came back; the replay needed room too, when 64 were open.
    let evicted = moved["streams_evicted"].as_u64().unwrap();
    assert!((8..=10).contains(&evicted), "{evicted}");
    let streams = moved["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 256);
    assert_eq!(moved["unlisted"]["streams"], 300 + 71 + 1 - 256);
    assert_eq!(moved["unlisted"]["unclosed"], 0);
    assert_eq!(moved["events_written"], 26);
    let back = |stream: &&Value| stream["run_id"] == "comes-back";
    assert_eq!(streams.iter().filter(back).count(), 1);
}

#[test]
fn a_mover_that_is_full_says_so() {
    let folder = TempDir::new().unwrap();
    let mover = Mover::start(&folder.path().join("remote"), &[]);
    let kept: Vec<_> = (0..16)
        .map(|one| welcomed(mover.address, &format!("one-{one}")))
        .collect();
    let busy = format!("{:?}", Frame::Refuse(Ok(Refusal::Busy)));
    assert_eq!(frames(&answer(mover.address, &hello("one-more"))), [busy]);
    drop(kept);
    let args = ["--sink", &mover.sink()];
    let output = replay(&data("six_sources.pcap"), &folder.path().join("out"), &args);
    assert_eq!(json(&output)["drops"], serde_json::json!({}));
    let (code, moved) = mover.stop();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["refused"]["busy"], 1);
    assert_eq!(moved["events_written"], 26);
}

/// Peak of a process's memory in kB: what was in use, and what was asked for.
fn peaks_kb(pid: u32) -> [u64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    ["VmHWM:", "VmPeak:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.unwrap().trim().trim_end_matches(" kB");
        number.parse().unwrap()
    })
}

#[test]
fn strangers_take_no_memory() {
    let folder = TempDir::new().unwrap();
    let mover = Mover::start(&folder.path().join("remote"), &[]);
    let pid = mover.running.pid();
    let garbage = vec![0xa5; 100_000];
    let strangers = |count: u32| {
        for number in 0..count {
            // Of whatever length they speak: none of it is kept, and none of it is made room for.
            let length = (1 << 20) * (1 + number % 4095);
            let mut frame = vec![b'F', b'B', 1, 4];
            frame.extend(length.to_le_bytes());
            frame.extend(&garbage);
            answer(mover.address, &frame);
            answer(mover.address, &garbage);
            // Half a hello, and gone.
            let mut half = TcpStream::connect(mover.address).unwrap();
            let _ = half.write_all(&hello("half")[..50]);
        }
    };
    strangers(4);
    let before = peaks_kb(pid);
    strangers(200);
    let after = peaks_kb(pid);
    for (before, after) in before.into_iter().zip(after) {
        assert!(after <= before + 4096, "{before} kB, and then {after} kB");
    }
    let (code, moved) = mover.stop();
    assert_eq!(code, Some(0), "{moved}");
    assert_eq!(moved["refused"]["not_the_protocol"], 204, "{moved}");
}

/// Open descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// How often a process has slept.
fn sleeps(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// CPU time of a process in clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = fields[11..13].iter().map(|field| field.parse::<u64>());
    ticks.map(Result::unwrap).sum()
}

#[test]
fn a_mover_without_free_descriptors_waits_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let plain = mover_command(listen, &folder.path().join("remote"), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 18; exec \"$@\"", "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    let mover = Mover::spawn(command);
    let pid = mover.running.pid();
    let crowd: Vec<_> = (0..15)
        .map(|_| TcpStream::connect(mover.address).unwrap())
        .collect();
    rig::wait_for("a mover without descriptors", || {
        (descriptors(pid) >= 17).then_some(())
    });
    let (begun, before, slept) = (Instant::now(), cpu_ticks(pid), sleeps(pid));
    rig::wait_for("thirty more sleeps", || {
        (sleeps(pid) >= slept + 30).then_some(())
    });
    let used = cpu_ticks(pid) - before;
    let ticks = begun.elapsed().as_millis() as u64 / 10;
    assert!(
        used <= 2 + ticks / 5,
        "{used} of {ticks} ticks: the mover spins"
    );
    drop(crowd);
    let args = ["--sink", &mover.sink()];
    let output = replay(&data("six_sources.pcap"), &folder.path().join("out"), &args);
    assert_eq!(json(&output)["drops"], serde_json::json!({}));
    let (code, moved) = mover.stop();
    assert_eq!(code, Some(0), "{moved}");
    let errors = moved["accept_errors"].as_u64().unwrap();
    // One in a tenth of a second.
    let most = 10 + begun.elapsed().as_millis() as u64 / 100;
    assert!((5..=most).contains(&errors), "{errors} errors");
    assert_eq!(moved["events_written"], 26);
}

#[test]
fn a_sender_gone_without_a_word_holds_no_mover_up() {
    let folder = TempDir::new().unwrap();
    let remote = folder.path().join("remote");
    let mover = Mover::start(&remote, &["--once", "--idle-limit", "500ms"]);
    let _half_open = welcomed(mover.address, "half-open");
    // One that has nothing to send for longer than that is no loss, and is not gone.
    let mut pcap = Pcap::new();
    for (trigger, stamp_us) in [(0, 0), (1, 1_500_000), (2, 3_000_000)] {
        for source in 0..2 {
            let message = message(0x8000 + u32::from(source), trigger, 1, 400);
            pcap.push(stamp_us, 50_000 + source, &message);
        }
    }
    let capture = folder.path().join("slow.pcap");
    pcap.write(&capture);
    let args = ["--sink", &mover.sink(), "--speed", "1"];
    let output = replay(&capture, &folder.path().join("out"), &args);
    let summary = json(&output);
    assert_eq!(summary["drops"], serde_json::json!({}));
    assert_eq!(summary["warnings"], serde_json::json!([]));
    assert_eq!(summary["events_built"], 3);
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    let idle = moved["refused"]["idle"].as_u64().unwrap();
    assert!((3..=8).contains(&idle), "{moved}");
    assert_eq!(moved["events_written"], 3);
    assert_eq!(events_in(&remote).len(), 3);
}

#[test]
fn a_full_disk_at_the_mover_is_told_at_both_ends_and_harms_nothing_written() {
    let folder = TempDir::new().unwrap();
    let capture = capture_of(&folder, &PACED);
    let remote = folder.path().join("remote");
    std::fs::create_dir(&remote).unwrap();
    let plain = mover_command("127.0.0.1:0".parse().unwrap(), &remote, &["--once"]);
    let Some(command) = on_small_disk(&plain, &remote, 4 << 20) else {
        return;
    };
    let mover = Mover::spawn(command);
    let args = ["--sink", &mover.sink()];
    let output = replay(&capture, &folder.path().join("out"), &args);
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["events_built"], 8_000);
    assert_eq!(summary["condition"], "tainted");
    let (code, moved) = mover.end();
    assert_eq!(code, Some(0), "{moved}");
    let stream = &moved["streams"][0];
    let lost = dropped(stream, "mover.disk_full.tcp");
    assert!(lost > 0, "{stream}");
    assert_eq!(stream["condition"], "tainted");
    let taint = rig::taint(stream);
    assert!(taint.starts_with("disk_full: "), "{taint}");
    let told = format!("could not write {lost} events");
    let taint = rig::taint(&summary);
    assert!(taint.contains(&told), "{taint}");
    assert_eq!(stream["events_written"], 8_000 - lost);
    assert_eq!(moved["residual_items"], 0);
    let written = events_in(&folder.path().join("remote.kept"));
    assert_eq!(written.len() as u64, 8_000 - lost);
    let sequences: Vec<u32> = written.iter().map(|event| event.sequence).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b));
}

#[test]
fn what_a_mover_would_not_take_is_said_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    let refused = |text: &str, verb: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = forebay();
        command.arg(verb[0]).arg(&file).args(&verb[1..]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        String::from_utf8(output.stderr).unwrap()
    };
    let long = |name: usize| "n".repeat(name);
    let source = "[[sources]]\nport = 0\n";
    let sink = "[[sinks]]\nkind = \"tcp\"\naddress = \"127.0.0.1:9\"\n";
    let text = format!("{source}{sink}name = \"{}\"\n", long(37));
    let said = refused(&text, &["check"]);
    assert!(
        said.contains("chain.toml:6:8: sinks[0].name = \"nnn"),
        "{said}"
    );
    assert!(said.contains("at most 32 characters"), "{said}");
    // A file that is good for itself, and flags that bring a mover in.
    let flags = ["evb", "--sink", "tcp://127.0.0.1:9", "--duration", "1s"];
    let text = format!("[run]\nname = \"{}\"\n{source}", long(48));
    let said = refused(&text, &flags);
    assert!(
        said.contains("at most 42 characters ([run] name)"),
        "{said}"
    );
    let text = format!(
        "[builder]\nevent_bytes_max = 67_108_865\n{source}[[sinks]]\nkind = \"file\"\nqueue_bytes = 268435456\n"
    );
    let said = refused(&text, &flags);
    assert!(said.contains("event_bytes_max is 67108865"), "{said}");
}

#[test]
fn two_movers_do_not_share_a_directory() {
    let folder = TempDir::new().unwrap();
    let _first = Mover::start(folder.path(), &[]);
    let mut second = forebay();
    second.args(["mover", "--listen", "127.0.0.1:0", "--out"]);
    let output = second.arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another mover"));
}
