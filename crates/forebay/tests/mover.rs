//! `forebay mover` and the `tcp` sink: equal files, deaths of either side, stalled and hostile peers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod replaying;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use forebay_wire::mover::{BlockFields, Frame, Hello, Refusal};
use replaying::*;
use serde_json::Value;
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
        let mut command = forebay();
        command.args(["mover", "--listen", &listen.to_string(), "--format", "json"]);
        command.arg("--out").arg(out).args(args);
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
    assert_eq!(stream["condition"], "complete");
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
    }
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
    let taint = summary["taints"][0].as_str().unwrap();
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
    let taint = summary["taints"][0].as_str().unwrap();
    assert!(taint.starts_with("mover_mismatch: 26 events"), "{taint}");
    assert_eq!(summary["condition"], "tainted");
    let (code, moved) = mover.end();
    assert_eq!(code, Some(1), "{moved}");
    assert_eq!(moved["residual_items"], 1);
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
