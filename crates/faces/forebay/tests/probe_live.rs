//! The flow probe on a live interface: the far end of a virtual wire in a network namespace that ends with its test. What was sent is known to the test alone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod over_tls;
mod over_udp;
mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_testing::wire::{carries, is_at_wire, sh};
use rig::at_far::{end, probe};
use rig::{forebay, signal, signal_had, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Octets of the headers of a datagram.
const HEADERS: u64 = 28;
const SECOND_NS: u64 = 1_000_000_000;

/// Packets and octets by source port.
type Sent = BTreeMap<u64, [u64; 2]>;

/// Sends datagrams from so many sockets in turn; what each of them sent is added to `sent`.
fn send(sockets: usize, datagrams: usize, sent: &mut Sent) {
    let sockets: Vec<_> = (0..sockets)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    for number in 0..datagrams {
        let socket = &sockets[number % sockets.len()];
        let payload = vec![7; 1 + number * 37 % 1_400];
        assert_eq!(
            socket.send_to(&payload, "10.0.0.2:5000").unwrap(),
            payload.len()
        );
        let port = socket.local_addr().unwrap().port();
        let sum = sent.entry(port.into()).or_default();
        *sum = [sum[0] + 1, sum[1] + HEADERS + payload.len() as u64];
    }
}

/// What two collectors have together: a port may have been given twice.
fn together(one: Sent, other: Sent) -> Sent {
    other.into_iter().fold(one, |mut all, (port, more)| {
        let sum = all.entry(port).or_default();
        *sum = [sum[0] + more[0], sum[1] + more[1]];
        all
    })
}

/// All 30 flows that were sent are with two collectors together, each once, and in the file beside them; the books close.
fn assert_all_came(
    sessions: [&Mutex<Session>; 2],
    sent: &Sent,
    json: &Value,
    (jsonl, out): (&Path, &Path),
) {
    let [had, came] = sessions.map(|session| session.lock().unwrap().sent().0);
    assert_eq!(together(had, came), *sent);
    assert_eq!(sent_by(&lines(jsonl)), *sent);
    assert_eq!(
        (&json["flows_exported"], &json["drops"]),
        (&30.into(), &serde_json::json!({}))
    );
    rig::assert_closed(json, out);
}

fn total(sent: &Sent) -> [u64; 2] {
    sent.values()
        .fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

/// Waits until so many packets, sent or lost in a ring, are in the books.
fn wait_packets(out: &Path, packets: u64) {
    rig::wait_items(out, ("ring", "packets"), "incoming", packets);
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn sent_by(lines: &[Value]) -> Sent {
    let mut sent = Sent::new();
    for line in lines {
        assert_eq!(
            (&line["src"], &line["dst"]),
            (&"10.0.0.1".into(), &"10.0.0.2".into())
        );
        assert_eq!(
            (&line["dst_port"], &line["packets_rev"]),
            (&5000.into(), &0.into())
        );
        let number = |key: &str| line[key].as_u64().unwrap();
        let sum = sent.entry(number("src_port")).or_default();
        *sum = [sum[0] + number("packets"), sum[1] + number("octets")];
    }
    sent
}

fn realtime_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

#[test]
fn records_of_an_interface_are_what_was_sent_and_come_in_time_without_a_packet() {
    if !is_at_wire("records_of_an_interface_are_what_was_sent_and_come_in_time_without_a_packet") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (out, jsonl) = (folder.path().join("out"), folder.path().join("flows.jsonl"));
    let export = jsonl.display().to_string();
    let begun_ns = realtime_ns();
    let run = probe(&out, &["--queues", "3", "--export", &export]);
    let mut sent = Sent::new();
    send(30, 3_000, &mut sent);
    // They end by the clock of the host: nothing comes any more.
    let part = folder.path().join("flows.jsonl.part");
    let late_ns = wait_for("the records", || {
        let lines = lines(&part);
        let last = lines
            .iter()
            .map(|line| line["end_ns"].as_u64().unwrap())
            .max();
        (total(&sent_by(&lines))[0] == 3_000)
            .then(|| realtime_ns().saturating_sub(last.unwrap() + SECOND_NS))
    });
    assert!(
        late_ns < 5 * SECOND_NS,
        "the last record came {late_ns} ns after its time-out"
    );
    send(30, 300, &mut sent);
    let json = {
        wait_packets(&out, 3_300);
        end(run)
    };
    let [packets, octets] = total(&sent);
    for (key, value) in [
        ("packets_in", packets),
        ("octets_in", octets),
        ("packets_exported", packets),
        ("octets_exported", octets),
        ("packets_dropped_by_kernel", 0),
    ] {
        assert_eq!(json[key], value, "{key}: {json}");
    }
    // No record is written when its time-out is over, and none was late by longer than all of it took.
    let late_ns = json["export_late_max_ns"].as_u64().unwrap();
    let run_ns = realtime_ns() - begun_ns;
    assert!((1..run_ns).contains(&late_ns), "{json}");
    assert_eq!(json["exports"][0]["late_max_ns"], late_ns);
    assert_eq!(sent_by(&lines(&jsonl)), sent);
    rig::assert_closed(&json, &out);
}

#[test]
fn what_a_full_ring_loses_is_found_by_name() {
    if !is_at_wire("what_a_full_ring_loses_is_found_by_name") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = probe(&out, &["--ring", "512KiB"]);
    let mut sent = Sent::new();
    // A reader that is stopped reads nothing.
    assert!(signal("STOP", run.pid()));
    send(10, 4_000, &mut sent);
    assert!(signal("CONT", run.pid()));
    wait_packets(&out, 4_000);
    let json = end(run);
    let lost = rig::dropped_in_all(&json, "ring.kernel_ring_full");
    assert!(lost > 1_000, "{json}");
    assert_eq!(json["packets_dropped_by_kernel"], lost);
    assert_eq!(json["packets_in"], 4_000 - lost, "{json}");
    assert_eq!(json["packets_exported"], json["packets_in"]);
    rig::assert_closed(&json, &out);
}

/// What a collector has read of one connection: messages one after the other, each with what was told before alone.
#[derive(Default)]
struct Session {
    bytes: Vec<u8>,
    is_over: bool,
}

/// Reads one connection to its end.
fn collect(connection: impl Read + Send + 'static) -> Arc<Mutex<Session>> {
    let session = Arc::new(Mutex::new(Session::default()));
    let (own, mut connection) = (Arc::clone(&session), connection);
    std::thread::spawn(move || {
        let mut room = [0; 4096];
        while let Ok(bytes @ 1..) = connection.read(&mut room) {
            own.lock().unwrap().bytes.extend(&room[..bytes]);
        }
        own.lock().unwrap().is_over = true;
    });
    session
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Session {
    fn of(bytes: Vec<u8>) -> Self {
        let is_over = true;
        Self { bytes, is_over }
    }

    /// Packets and octets by source port (elements 7, 2 and 1), of the templates that this session was told.
    fn sent(&self) -> (Sent, usize) {
        let (mut sent, mut records, mut rest) = (Sent::new(), 0, &self.bytes[..]);
        let mut templates: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        while rest.len() >= 16 && rest.len() >= number(&rest[2..4]) as usize {
            let (message, next) = rest.split_at(number(&rest[2..4]) as usize);
            rest = next;
            assert!(
                records > 0 || number(&message[8..12]) == 0,
                "a session counts from 0"
            );
            let mut sets = &message[16..];
            while !sets.is_empty() {
                let (set, next) = sets.split_at(number(&sets[2..4]) as usize);
                sets = next;
                match number(&set[..2]) {
                    2 => templates.extend(Self::templates(&set[4..])),
                    // Options have no flows.
                    3 | 258 | 259 | 32_768 => {}
                    id => {
                        let fields = &templates[&id];
                        let bytes: usize = fields.iter().map(|field| field.1).sum();
                        for record in set[4..].chunks_exact(bytes) {
                            records += 1;
                            let [port, packets, octets] =
                                [7, 2, 1].map(|field| Self::field(fields, record, field));
                            let sum = sent.entry(port).or_default();
                            *sum = [sum[0] + packets, sum[1] + octets];
                        }
                    }
                }
            }
        }
        (sent, records)
    }

    fn field(fields: &[(u64, usize)], record: &[u8], wanted: u64) -> u64 {
        let mut at = 0;
        for (id, bytes) in fields {
            if *id == wanted {
                return number(&record[at..at + bytes]);
            }
            at += bytes;
        }
        panic!("no field {wanted}");
    }

    fn templates(mut set: &[u8]) -> Vec<(u64, Vec<(u64, usize)>)> {
        let mut templates = Vec::new();
        while set.len() >= 4 {
            let (id, count) = (number(&set[..2]), number(&set[2..4]));
            set = &set[4..];
            let mut fields = Vec::new();
            for _ in 0..count {
                let element = number(&set[..2]);
                fields.push((element, number(&set[2..4]) as usize));
                // An element of an enterprise has its number behind.
                set = &set[if element & 0x8000 == 0 { 4 } else { 8 }..];
            }
            templates.push((id, fields));
        }
        templates
    }
}

/// Waits for the records of so many flows in a session.
fn wait_flows(session: &Mutex<Session>, flows: usize) {
    wait_for("flows at the collector", || {
        (session.lock().unwrap().sent().1 >= flows).then_some(())
    });
}

#[test]
fn a_collector_that_was_away_gets_what_waited_for_it_with_the_templates() {
    if !is_at_wire("a_collector_that_was_away_gets_what_waited_for_it_with_the_templates") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let export = format!("ipfix+tcp://{address}");
    let (jsonl, mut sent) = (folder.path().join("flows.jsonl"), Sent::new());
    let file = jsonl.display().to_string();
    let run = probe(&out, &["--export", &export, "--export", &file]);
    let (connection, _) = listener.accept().unwrap();
    let first = collect(connection.try_clone().unwrap());
    send(10, 10, &mut sent);
    wait_flows(&first, 10);
    // It goes, and nobody listens where it was.
    drop(listener);
    connection.shutdown(std::net::Shutdown::Both).unwrap();
    send(20, 20, &mut sent);
    // The other exporter goes on meanwhile.
    let part = folder.path().join("flows.jsonl.part");
    wait_for("the file", || (lines(&part).len() == 30).then_some(()));
    let listener = TcpListener::bind(address).unwrap();
    let second = collect(listener.accept().unwrap().0);
    wait_flows(&second, 20);
    let json = end(run);
    wait_for("the end of the connection", || {
        second.lock().unwrap().is_over.then_some(())
    });
    assert_all_came([&first, &second], &sent, &json, (&jsonl, &out));
}

#[test]
fn a_collector_that_stays_away_costs_records_by_name_and_never_packets() {
    if !is_at_wire("a_collector_that_stays_away_costs_records_by_name_and_never_packets") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let export = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let run = probe(&out, &["--queue", "256", "--export", &export]);
    drop(listener.accept().unwrap());
    drop(listener);
    let mut sent = Sent::new();
    // One of each flow, so that no pause makes two records of it.
    send(600, 600, &mut sent);
    // They end together: some may find no room on their way to the exporter either.
    rig::wait_items(&out, ("records", "flows"), "incoming", 600);
    // Nobody is waited for when it shall hurry.
    assert!(signal_had("TERM", run.pid()) && signal("TERM", run.pid()));
    let json = run.end().json();
    assert_eq!(json["packets_in"], 600, "{json}");
    let places = [
        "records.queue_full",
        "export.queue_full",
        "export.not_written",
    ];
    let [on_the_way, waiting, left] = places.map(|place| rig::dropped_in_all(&json, place));
    let written = json["flows_exported"].as_u64().unwrap();
    assert_eq!(on_the_way + waiting + left + written, 600, "{json}");
    // Neither the way nor the exporter holds more than 256.
    assert!(on_the_way + waiting >= 600 - 2 * 256, "{json}");
    assert!(left + written <= 256, "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn an_interface_that_goes_down_is_awaited_and_one_that_is_gone_ends_the_run() {
    if !is_at_wire("an_interface_that_goes_down_is_awaited_and_one_that_is_gone_ends_the_run") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = probe(&out, &["--queues", "2"]);
    let mut sent = Sent::new();
    send(10, 100, &mut sent);
    wait_packets(&out, 100);
    sh("ip link set far down");
    wait_for("the warning", || {
        run.said().contains("far is down").then_some(())
    });
    sh("ip link set far up");
    carries();
    send(10, 100, &mut sent);
    wait_packets(&out, 200);
    sh("ip link delete far");
    let json = run.end().json_of(0);
    let taint = rig::taint(&json);
    assert!(
        taint.starts_with("capture_broken: far is there no more"),
        "{taint}"
    );
    assert_eq!(
        [&json["packets_in"], &json["octets_in"]],
        total(&sent).map(Value::from).each_ref(),
        "{json}"
    );
    // Set down once, and down again when it was removed.
    let downs = json["interface_downs"].as_u64().unwrap();
    assert!((1..=2).contains(&downs), "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn what_vanishes_between_the_kernel_and_the_exporters_is_found() {
    if !is_at_wire("what_vanishes_between_the_kernel_and_the_exporters_is_found") {
        return;
    }
    for hop in ["ring", "packets", "records", "queue"] {
        let folder = TempDir::new().unwrap();
        let out = folder.path().join("out");
        let mut command = forebay();
        command.args(["probe", "--interface", "far", "--format", "json"]);
        let run = start(
            command
                .env("FOREBAY_LEAK", format!("{hop}:2"))
                .arg("--out")
                .arg(&out),
        );
        wait_for("the ledger", || out.join("ledger").exists().then_some(()));
        send(5, 50, &mut Sent::new());
        wait_packets(&out, 50);
        assert!(signal("TERM", run.pid()));
        let json = run.end().json_of(1);
        assert!(json["residual_items"].as_u64() >= Some(2), "{hop}: {json}");
    }
}

#[test]
fn an_interface_that_is_not_there_and_two_inputs_are_named() {
    for (args, code, wrong) in [
        (&["--interface", "no-such-if"][..], 2, "`ip link` lists"),
        (
            &["--interface", "lo", "--read", "-"],
            2,
            "cannot be used with",
        ),
        (&[], 2, "--read"),
    ] {
        let ended = start(forebay().arg("probe").args(args)).end();
        assert_eq!(ended.code(), Some(code), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(wrong), "{args:?}: {}", ended.stderr);
    }
}
