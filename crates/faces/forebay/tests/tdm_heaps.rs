//! Messages through time-division UDP with the real binary: they keep their boundaries, arrive whole or not at all, and each is counted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_wire::heap::Piece;
use rig::{Run, audit, audit_json, forebay, number, start};
use serde_json::Value;

/// Tag and payload of each record of a file of heaps, by the layout of `docs/wire/heaps.md`.
fn records(path: &Path) -> Vec<(u64, u64, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while !rest.is_empty() {
        assert_eq!((&rest[..2], rest[2]), (&b"FH"[..], 1));
        let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(rest[at..at + 8].try_into().unwrap());
        let length = word(4) as usize;
        assert_eq!((word(24) as usize, word(28)), (length, 0), "a whole heap");
        records.push((long(8), long(16), rest[36..36 + length].to_vec()));
        rest = &rest[36 + length..];
    }
    records
}

struct Session {
    directory: tempfile::TempDir,
    address: String,
    channel: String,
}

impl Session {
    fn new(name: &str) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            address: format!("127.0.0.1:{}", rig::free_ports(1)),
            channel: format!("shm://tdm-{name}-{}", std::process::id()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn receive(&self, more: &[&str]) -> Run {
        let mut command = forebay();
        command.args(["tdm", "receive", "--format", "json", "--senders", "1"]);
        command.args(["--bind", &self.address, "--silence", "1500ms"]);
        if !more.contains(&"--link-rate") {
            command.args(["--link-rate", "200M"]);
        }
        start(command.args(more))
    }

    /// A sender at work by way of the losing port of a switch.
    fn send_by(&self, port: &LosingPort) -> Run {
        let mut command = rig::tdm_send(&port.address.to_string(), "north");
        start(command.args(["--input", &self.channel, "--heaps"]))
    }

    /// A sender that takes messages at the session's channel.
    fn send(&self, more: &[&str]) -> Run {
        let mut command = rig::tdm_send(&self.address, "north");
        start(command.args(["--input", &self.channel]).args(more))
    }

    /// A process that has messages.
    fn give(&self, more: &[&str]) -> Run {
        let mut command = forebay();
        command.args(["net", "send", &self.channel, "--format", "json"]);
        start(command.args(more))
    }

    /// Lines of different lengths, some of them empty, the longest of many packets.
    fn lines(&self, count: usize) -> (PathBuf, Vec<Vec<u8>>) {
        let line = |number: usize| {
            let length = match number % 7 {
                0 => 0,
                1 => 20_000 + number,
                _ => number * 37 % 900,
            };
            let letters = (0..length).map(|at| b'a' + ((number + at) % 26) as u8);
            letters.collect::<Vec<u8>>()
        };
        let lines: Vec<Vec<u8>> = (0..count).map(line).collect();
        let path = self.path("lines.txt");
        let text: Vec<u8> = lines
            .iter()
            .flat_map(|line| [line.as_slice(), b"\n"].concat())
            .collect();
        fs::write(&path, text).unwrap();
        (path, lines)
    }
}

fn heaps(received: &Value) -> &Value {
    &received["by_sender"][0]["heaps"]
}

/// Whole and dropped heaps are all that were sent, here and in the ledger, which closes.
fn assert_closed(received: &Value, out: &Path, sent: u64) -> u64 {
    let heaps = heaps(received);
    let dropped = heaps["dropped"].as_object().unwrap();
    let dropped: u64 = dropped.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(number(heaps, "sent"), sent, "{received}");
    assert_eq!(number(heaps, "whole") + dropped, sent, "{received}");
    rig::stream::assert_nothing_left(received);
    let ended = audit(out);
    assert_eq!(ended.code(), Some(0), "{}", ended.stdout);
    let verdict = audit_json(out);
    let incoming = rig::account_items(&verdict, ("heaps", "messages"), "incoming");
    assert_eq!(incoming, sent);
    dropped
}

#[test]
fn messages_of_a_ring_arrive_as_they_were() {
    let session = Session::new("ring");
    let (input, lines) = session.lines(400);
    let out = session.path("out");
    let receiver = session.receive(&["--output", out.to_str().unwrap(), "--link-rate", "2G"]);
    let sender = session.send(&["--heaps"]);
    let giver = session.give(&[
        "--input",
        input.to_str().unwrap(),
        "--tag",
        "42",
        "--tags",
        "3",
    ]);
    giver.end().json_of(0);
    let sent = sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    let count = lines.len() as u64;
    assert_eq!(
        sent["heaps"],
        serde_json::json!({"came": count, "sent": count, "not_sent": 0})
    );
    let dropped = assert_closed(&received, &out, count);
    // A machine that is busy may lose packets; what is whole is there as it was, and all the others are listed.
    let records = records(&out.join("north.heaps"));
    assert_eq!(records.len() as u64 + dropped, count);
    for (heap, tag, payload) in &records {
        assert_eq!(*tag, 42 + heap % 3);
        assert!(*payload == lines[*heap as usize], "heap {heap}");
    }
    let list = fs::read_to_string(out.join("north.heaps.lost.csv")).unwrap();
    assert_eq!(number(heaps(&received), "broken_packets"), 0);
    assert_eq!(
        list.lines().next(),
        Some("heap,heaps,bytes,missing_bytes,why")
    );
}

#[test]
fn whole_heaps_go_on_as_messages() {
    let session = Session::new("on");
    let (input, lines) = session.lines(300);
    let (out, got) = (session.path("out"), session.path("got.txt"));
    let far = format!("shm://tdm-far-{}-north", std::process::id());
    let mut taker = forebay();
    taker.args([
        "net",
        "recv",
        &far,
        "--once",
        "--format",
        "json",
        "--output",
        got.to_str().unwrap(),
    ]);
    let taker = start(&mut taker);
    let to = format!("shm://tdm-far-{}-{{name}}", std::process::id());
    let receiver = session.receive(&["--output", &to, "--out", out.to_str().unwrap()]);
    let sender = session.send(&["--heaps"]);
    session
        .give(&["--input", input.to_str().unwrap()])
        .end()
        .json_of(0);
    sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    taker.end().json_of(0);
    let dropped = assert_closed(&received, &out, lines.len() as u64);
    assert_eq!(
        number(&received["by_sender"][0]["handed_on"], "messages"),
        number(heaps(&received), "whole")
    );
    // Those that came are whole, in their order.
    let text = fs::read(&got).unwrap();
    let came: Vec<&[u8]> = text
        .strip_suffix(b"\n")
        .unwrap()
        .split(|it| *it == b'\n')
        .collect();
    assert_eq!(came.len() as u64 + dropped, lines.len() as u64);
    let mut rest = lines.iter();
    for line in came {
        assert!(rest.any(|it| it == line), "{} bytes", line.len());
    }
}

/// Passes datagrams on between a sender and a receiver, but for each so-many-th with data; knows which heaps were in those.
struct LosingPort {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, BTreeMap<u64, u64>)>,
}

impl LosingPort {
    fn new(receiver: &str, one_of: u64) -> Self {
        let (here, there) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        there.connect(receiver).unwrap();
        let address = here.local_addr().unwrap();
        for socket in [&here, &there] {
            socket
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, backwards) = (Arc::clone(&stop), Arc::clone(&stop));
        let (back_to, back_from) = (here.try_clone().unwrap(), there.try_clone().unwrap());
        let sender = Arc::new(Mutex::new(None));
        let whom = Arc::clone(&sender);
        let back = std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while !backwards.load(Ordering::Relaxed) {
                let to: Option<SocketAddr> = *whom.lock().unwrap();
                if let (Ok(length), Some(to)) = (back_from.recv(&mut bytes), to) {
                    let _ = back_to.send_to(&bytes[..length], to);
                }
            }
        });
        let thread = std::thread::spawn(move || {
            let (mut bytes, mut lost, mut heaps) = ([0; 65_536], 0, BTreeMap::new());
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = here.recv_from(&mut bytes) else {
                    continue;
                };
                *sender.lock().unwrap() = Some(from);
                let datagram = &bytes[..length];
                let is_data = datagram[5] == 8;
                if is_data && u64::from_be_bytes(datagram[24..32].try_into().unwrap()) % one_of == 3
                {
                    lost += 1;
                    let mut rest = &datagram[56..];
                    while let Ok((piece, behind)) = Piece::parse(rest) {
                        *heaps.entry(piece.heap).or_default() += piece.bytes.len() as u64;
                        rest = behind;
                    }
                } else {
                    let _ = there.send(datagram);
                }
            }
            back.join().unwrap();
            (lost, heaps)
        });
        Self {
            address,
            stop,
            thread,
        }
    }

    /// Packets that it lost, and of each heap that was in them, how many bytes.
    fn end(self) -> (u64, BTreeMap<u64, u64>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn heaps_with_holes_are_counted_exactly_and_all_others_are_whole() {
    let session = Session::new("lost");
    let (input, lines) = session.lines(500);
    let out = session.path("out");
    let receiver = session.receive(&["--output", out.to_str().unwrap(), "--link-rate", "20M"]);
    let port = LosingPort::new(&session.address, 29);
    let sender = session.send_by(&port);
    session
        .give(&["--input", input.to_str().unwrap()])
        .end()
        .json_of(0);
    sender.end().json_of(0);
    let received = receiver.end().json_of(0);
    let (lost, hurt) = port.end();
    let count = lines.len() as u64;
    assert_closed(&received, &out, count);
    assert!(
        lost > 20 && hurt.len() < lines.len() / 2,
        "{lost} {}",
        hurt.len()
    );
    let losses = received["by_sender"][0]["lost"].as_object().unwrap();
    let losses: u64 = losses.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(losses >= lost, "{received}");
    let records = records(&out.join("north.heaps"));
    for (heap, _, payload) in &records {
        assert!(*payload == lines[*heap as usize], "heap {heap}");
    }
    let list = fs::read_to_string(out.join("north.heaps.lost.csv")).unwrap();
    let mut listed = BTreeMap::new();
    for line in list.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (heap, heaps): (u64, u64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
        for heap in heap..heap + heaps {
            let missing = fields[3].parse::<u64>().unwrap();
            assert!(
                listed
                    .insert(heap, (missing, fields[4].to_owned()))
                    .is_none(),
                "{line}"
            );
        }
    }
    assert_eq!(records.len() + listed.len(), lines.len());
    // A machine that is busy may lose more than the port did; each heap that the port hurt is listed in any case.
    for (heap, bytes) in &hurt {
        let (missing, why) = &listed[heap];
        match why.as_str() {
            "heap_with_hole" => assert!(missing >= bytes && *missing > 0, "{heap}"),
            "heap_lost" => assert!(*bytes as usize <= lines[*heap as usize].len(), "{heap}"),
            other => panic!("{heap}: {other}"),
        }
    }
    if losses == lost {
        assert_eq!(
            listed.keys().collect::<Vec<_>>(),
            hurt.keys().collect::<Vec<_>>()
        );
    }
}

#[test]
fn messages_without_boundaries_are_a_stream_of_bytes() {
    let session = Session::new("bytes");
    let (input, lines) = session.lines(100);
    let out = session.path("out");
    let receiver = session.receive(&["--output", out.to_str().unwrap()]);
    let sender = session.send(&[]);
    session
        .give(&["--input", input.to_str().unwrap()])
        .end()
        .json_of(0);
    let sent = sender.end().json_of(0);
    receiver.end().json_of(0);
    let expected = lines.concat();
    assert_eq!(number(&sent, "payload_bytes"), expected.len() as u64);
    assert_eq!(number(&sent["messages"], "messages"), lines.len() as u64);
    rig::stream::assert_stream(&out.join("north"), &expected, number(&sent, "lost"));
}

#[test]
fn bytes_for_messages_and_boundaries_of_files_are_refused_with_the_remedy() {
    let session = Session::new("refused");
    let far = format!("shm://tdm-nobody-{}", std::process::id());
    let receiver = session.receive(&["--output", &far]);
    let mut bytes = rig::tdm_send(&session.address, "plain");
    start(bytes.args(["--bytes", "1M"])).end();
    let ended = receiver.end();
    assert_eq!(ended.code(), Some(2));
    assert!(
        ended.stderr.contains("plain sends bytes") && ended.stderr.contains("--heaps"),
        "{}",
        ended.stderr
    );
    for (arguments, expected) in [
        (&["--input", "lines.txt", "--heaps"][..], "--input shm://"),
        (&["--input", "shm://x", "--repeat"], "--repeat"),
        (&["--input", "nowhere://x"], "nowhere://x"),
    ] {
        let mut command = forebay();
        command
            .args(["tdm", "send", &session.address])
            .args(arguments);
        let ended = start(&mut command).end();
        assert_eq!(ended.code(), Some(2), "{arguments:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn a_leak_is_found_where_it_is() {
    for (hop, unit) in [
        ("datagrams", "datagrams"),
        ("hand_over", "packets"),
        ("writer_queue", "packets"),
        ("write", "packets"),
        ("windows", "packets"),
        ("heaps", "messages"),
    ] {
        let session = Session::new(&format!("leak-{hop}"));
        let (input, _) = session.lines(50);
        let out = session.path("out");
        let mut command = forebay();
        command.args(["tdm", "receive", "--format", "json", "--senders", "1"]);
        command.args(["--bind", &session.address, "--silence", "1500ms"]);
        command.args(["--output", out.to_str().unwrap()]);
        let receiver = start(command.env("FOREBAY_LEAK", format!("{hop}:3")));
        let sender = session.send(&["--heaps"]);
        session
            .give(&["--input", input.to_str().unwrap()])
            .end()
            .json_of(0);
        sender.end().json_of(0);
        let received = receiver.end().json_of(1);
        // What vanished in a queue is still said to be in it.
        let left = number(&received, "residual_items") + number(&received, "left_items");
        assert_eq!(left, 3, "{hop}: {received}");
        rig::offenders::assert_leaked(&out, hop, unit, 3);
    }
}
