//! What a collector is told of a probe's own losses, and what a killed probe leaves: IPFIX read by no part of the product, against what was sent and what came.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

use forebay_testing::wire::is_at_wire;
use rig::at_far::{end, probe};
use rig::{forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Enterprise and number of an element.
type Element = (u64, u64);

const PACKETS: Element = (0, 2);
const OCTETS: Element = (0, 1);
const IGNORED_PACKETS: Element = (0, 164);
const NOT_SENT_FLOWS: Element = (0, 166);
const NOT_SENT_PACKETS: Element = (0, 167);
const NOT_SENT_OCTETS: Element = (0, 168);
const SELECTOR: Element = (0, 302);
const OBSERVED_PACKETS: Element = (0, 318);
const SELECTED_PACKETS: Element = (0, 319);
const UNREAD_PACKETS: Element = (32_473, 120);
const FILTERED_OCTETS: Element = (32_473, 121);
/// Of the other direction.
const REVERSE: u64 = 29_305;

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// All records of a session or a file, flows and options, in their order; without lists.
fn records(mut bytes: &[u8]) -> Vec<BTreeMap<Element, u64>> {
    let (mut templates, mut records) = (BTreeMap::new(), Vec::new());
    // The last message of a process that was killed may be cut.
    while bytes.len() >= 16
        && let Some((message, rest)) = bytes.split_at_checked(number(&bytes[2..4]) as usize)
    {
        bytes = rest;
        let mut sets = &message[16..];
        while !sets.is_empty() {
            let (set, rest) = sets.split_at(number(&sets[2..4]) as usize);
            sets = rest;
            let (id, mut body) = (number(&set[..2]), &set[4..]);
            while !body.is_empty() {
                if let 2 | 3 = id {
                    let (template, count) = (number(&body[..2]), number(&body[2..4]));
                    body = &body[if id == 2 { 4 } else { 6 }..];
                    let mut fields: Vec<(Element, usize)> = Vec::new();
                    for _ in 0..count {
                        let (element, length) = (number(&body[..2]), number(&body[2..4]));
                        let is_own = element >= 0x8000;
                        let enterprise = if is_own { number(&body[4..8]) } else { 0 };
                        fields.push(((enterprise, element & 0x7fff), length as usize));
                        body = &body[if is_own { 8 } else { 4 }..];
                    }
                    templates.insert(template, fields);
                    continue;
                }
                let mut record = BTreeMap::new();
                for (element, length) in &templates[&id] {
                    let (value, rest) = body.split_at(*length);
                    record.insert(*element, number(&value[length.saturating_sub(8)..]));
                    body = rest;
                }
                records.push(record);
            }
        }
    }
    records
}

/// Of the records of flows: how many, packets and octets of both directions.
fn exported(records: &[BTreeMap<Element, u64>]) -> [u64; 3] {
    let flows = records
        .iter()
        .filter(|record| record.contains_key(&PACKETS));
    flows.fold([0; 3], |sum, flow| {
        let of = |element: Element| {
            let back = flow.get(&(REVERSE, element.1)).copied();
            flow[&element] + back.unwrap_or(0)
        };
        [sum[0] + 1, sum[1] + of(PACKETS), sum[2] + of(OCTETS)]
    })
}

/// What was told last of each of these.
fn told<const N: usize>(records: &[BTreeMap<Element, u64>], elements: [Element; N]) -> [u64; N] {
    elements.map(|element| {
        let mut latest = records.iter().rev();
        let found = latest.find_map(|record| record.get(&element).copied());
        found.unwrap_or_else(|| panic!("{element:?} was not told"))
    })
}

/// Sends datagrams from as many sockets as there are flows, so that each is a flow of its own; their octets.
fn send(flows: usize, each: usize) -> u64 {
    let sockets = (0..flows).map(|_| UdpSocket::bind("10.0.0.1:0").unwrap());
    let sockets: Vec<_> = sockets.collect();
    let mut octets = 0;
    for number in 0..flows * each {
        let payload = vec![7; 1 + number * 37 % 1_400];
        let socket = &sockets[number % flows];
        socket.send_to(&payload, "10.0.0.2:5000").unwrap();
        octets += 28 + payload.len() as u64;
    }
    octets
}

#[test]
fn a_collector_that_was_away_is_told_of_each_record_without_room() {
    if !is_at_wire("a_collector_that_was_away_is_told_of_each_record_without_room") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let export = format!("ipfix+tcp://{address}");
    let run = probe(&out, &["--queue", "256", "--export", &export]);
    // It goes before there is a record.
    drop(listener.accept().unwrap());
    drop(listener);
    wait_for("the news", || run.said().contains("is away").then_some(()));
    // Twice as many as wait at the exporter have come to it, and then more at once than the lane has room for.
    let mut octets = 0;
    for wave in 1..=4 {
        octets += send(128, 1);
        rig::wait_items(&out, ("queue", "flows"), "incoming", 128 * wave);
    }
    octets += send(900, 1);
    rig::wait_items(&out, ("records", "flows"), "incoming", 512 + 900);
    let listener = TcpListener::bind(address).unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let collector = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let json = end(run);
    let records = records(&collector.join().unwrap());
    let [flows, packets, received_octets] = exported(&records);
    let [lost, lost_packets, lost_octets] = told(
        &records,
        [NOT_SENT_FLOWS, NOT_SENT_PACKETS, NOT_SENT_OCTETS],
    );
    assert_eq!(json["flows_exported"], flows, "{json}");
    assert!(
        flows > 0 && rig::dropped_in_all(&json, "export.queue_full") >= 256,
        "{json}"
    );
    assert_eq!([flows + lost, packets + lost_packets], [1_412; 2], "{json}");
    assert_eq!(received_octets + lost_octets, octets, "{json}");
    assert_eq!(told(&records, [IGNORED_PACKETS, UNREAD_PACKETS]), [0, 0]);
    rig::assert_closed(&json, &out);
}

#[test]
fn packets_that_the_kernel_lost_are_told_with_the_records_of_the_others() {
    if !is_at_wire("packets_that_the_kernel_lost_are_told_with_the_records_of_the_others") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (out, file) = (folder.path().join("out"), folder.path().join("it.ipfix"));
    let export = file.display().to_string();
    let run = probe(&out, &["--ring", "512KiB", "--export", &export]);
    // A reader that is stopped reads nothing.
    assert!(signal("STOP", run.pid()));
    send(10, 400);
    assert!(signal("CONT", run.pid()));
    rig::wait_items(&out, ("ring", "packets"), "incoming", 4_000);
    let json = end(run);
    let records = records(&fs::read(&file).unwrap());
    let [_, packets, _] = exported(&records);
    let [unread, not_sent] = told(&records, [UNREAD_PACKETS, NOT_SENT_FLOWS]);
    assert!(unread > 1_000, "{json}");
    assert_eq!((packets + unread, not_sent), (4_000, 0), "{json}");
    assert_eq!(json["packets_dropped_by_kernel"], unread, "{json}");
    rig::assert_closed(&json, &out);
}

#[test]
fn what_the_filter_discards_is_told_in_packets_and_octets() {
    let folder = TempDir::new().unwrap();
    let made = |args: &[&str]| {
        let mut command = forebay();
        command.current_dir(folder.path()).args(args);
        start(command.args(["--format", "json"])).end().json_of(0)
    };
    let traffic = ["emulate", "traffic", "--profile", "nix-like-morning"];
    let to = ["--packets", "20k", "--snap", "128", "--pcap", "it.pcap"];
    let truth = ["--truth", "truth.csv"];
    made(&[&traffic[..], &to, &truth].concat());
    // By the truth: protocol, packets and octets both ways are the columns from the sixth on.
    let text = fs::read_to_string(folder.path().join("truth.csv")).unwrap();
    let (mut all, mut udp) = ([0; 2], [0; 2]);
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [protocol, packets, octets, back, octets_back] =
            [5, 6, 7, 8, 9].map(|at| cells[at].parse::<u64>().unwrap());
        let sums = [Some(&mut all), (protocol == 17).then_some(&mut udp)];
        for sum in sums.into_iter().flatten() {
            *sum = [sum[0] + packets + back, sum[1] + octets + octets_back];
        }
    }
    assert!(udp[0] > 100 && udp[0] < all[0], "{udp:?} of {all:?}");
    for (file, rules) in [
        ("some.ipfix", &["--filter", "drop udp"][..]),
        ("all.ipfix", &[]),
    ] {
        let read = ["probe", "--read", "it.pcap", "--export", file];
        let json = made(&[&read, rules].concat());
        let records = records(&fs::read(folder.path().join(file)).unwrap());
        let [_, packets, octets] = exported(&records);
        if rules.is_empty() {
            assert_eq!([packets, octets], all, "{json}");
            let has_selector = records.iter().any(|one| one.contains_key(&SELECTOR));
            assert!(!has_selector, "no filter is there");
            continue;
        }
        let [observed, selected, filtered_octets] = told(
            &records,
            [OBSERVED_PACKETS, SELECTED_PACKETS, FILTERED_OCTETS],
        );
        assert_eq!([observed - selected, filtered_octets], udp, "{json}");
        assert_eq!([packets, octets], [selected, all[1] - udp[1]], "{json}");
        assert_eq!(observed, all[0]);
    }
}

/// Packets by source port, and how many records, of what a file of JSON lines or of IPFIX messages has as far as it is whole.
fn by_port(bytes: &[u8], is_ipfix: bool) -> (BTreeMap<u64, u64>, u64) {
    let pairs: Vec<_> = if is_ipfix {
        let whole = records(bytes).into_iter();
        let flows = whole.filter(|record| record.contains_key(&PACKETS));
        flows.map(|flow| (flow[&(0, 7)], flow[&PACKETS])).collect()
    } else {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let lines = text.split_inclusive('\n');
        let whole = lines.filter(|line| line.ends_with('\n'));
        let values = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap();
        let pair = |value: Value| (number(&value, "src_port"), number(&value, "packets"));
        values.map(pair).collect()
    };
    let (mut sums, records) = (BTreeMap::new(), pairs.len() as u64);
    for (port, packets) in pairs {
        *sums.entry(port).or_default() += packets;
    }
    (sums, records)
}

/// Packets that came to a probe: to its ring, or to the table in front of that.
fn came(out: &Path, offload: &str) -> u64 {
    let place = if offload == "filter" { "below" } else { "ring" };
    rig::account_items(&rig::audit_json(out), (place, "packets"), "incoming")
}

#[test]
fn a_killed_probe_keeps_what_it_wrote_and_the_next_one_begins() {
    if !is_at_wire("a_killed_probe_keeps_what_it_wrote_and_the_next_one_begins") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for offload in ["off", "software", "filter"] {
        for export in ["jsonl", "ipfix", "tcp"] {
            if !killed_and_begun_again(folder.path(), offload, export) {
                break;
            }
        }
    }
}

/// Whether this build has what counts below user space.
fn killed_and_begun_again(folder: &Path, offload: &str, export: &str) -> bool {
    const EACH: usize = 50;
    let case = format!("{offload}-{export}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let collector = (export == "tcp").then(|| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // The end of a process that is killed may be a reset.
            let _ = listener.accept().unwrap().0.read_to_end(&mut bytes);
            bytes
        })
    });
    let file = folder.join(format!("{case}.{export}"));
    let to = match export {
        "tcp" => format!("ipfix+tcp://{address}"),
        _ => file.display().to_string(),
    };
    let out = folder.join(&case);
    let mut args = vec!["probe", "--interface", "far", "--idle-timeout", "1s"];
    args.extend(["--offload", offload, "--format", "json"]);
    if offload != "off" {
        args.extend(["--offload-after", "5"]);
    }
    let begin = |out: &Path, to: &str| {
        let mut command = forebay();
        command.args(&args).args(["--export", to]);
        let mut run = start(command.arg("--out").arg(out));
        let has_begun = wait_for("the ledger or an end", || {
            let has_begun = out.join("ledger").exists();
            (has_begun || run.is_over()).then_some(has_begun)
        });
        if has_begun {
            return Some(run);
        }
        let said = run.end().stderr;
        assert!(said.contains("Install clang"), "{said}");
        forebay_testing::skip!("this build has no program for the kernel: {said}");
        None
    };
    let Some(mut run) = begin(&out, &to) else {
        return false;
    };
    send(20, EACH);
    // All of the first are in records, and the others under way, when it is killed.
    rig::wait_items(&out, ("export", "flows"), "outgoing", 20);
    send(20, EACH);
    wait_for("packets under way", || {
        let told = rig::audit_json(&out);
        let closed = told["closed"] == true;
        // With a program at the sockets, what is held is under way between two readings: all of it has come up.
        let held = || rig::account_items(&told, ("below", "packets"), "held");
        let is_up = offload != "filter" || held() == 0;
        (came(&out, offload) >= 2_000 && closed && is_up).then_some(())
    });
    assert!(signal("KILL", run.pid()));
    wait_for("its end", || run.is_over().then_some(()));
    let told = rig::audit_json(&out);
    assert_eq!(told["condition"], "interrupted", "{case}: {told}");
    assert_eq!(told["closed"], true, "{case}: {told}");
    assert_eq!(came(&out, offload), 2_000, "{case}: {told}");
    let written = rig::account_items(&told, ("export", "flows"), "outgoing");
    let bytes = match collector {
        Some(collector) => collector.join().unwrap(),
        None => {
            assert!(!file.exists(), "{case}: it is not whole");
            fs::read(format!("{}.part", file.display())).unwrap()
        }
    };
    let (found, records) = by_port(&bytes, export != "jsonl");
    // What is written is in the books a moment later.
    assert!(
        written >= 20 && records >= written,
        "{case}: {records} of {written}"
    );
    // A port may have been given twice; a flow that was not over is in no record yet.
    let is_whole = |packets: &u64| [50, 100].contains(packets);
    assert!(
        found.values().filter(|sum| is_whole(sum)).count() >= 20,
        "{case}: {found:?}"
    );
    let all: u64 = found.values().sum();
    assert!((1_000..=2_000).contains(&all), "{case}: {all}");
    // Another one, with what it writes to beside it.
    let (out, next) = (
        folder.join(format!("{case}-next")),
        folder.join(format!("{case}-next.jsonl")),
    );
    let run = begin(&out, &next.display().to_string()).unwrap();
    send(20, EACH);
    wait_for("packets", || (came(&out, offload) >= 1_000).then_some(()));
    let json = end(run);
    let (found, _) = by_port(&fs::read(&next).unwrap(), false);
    let found: u64 = found.values().sum();
    assert_eq!(
        (found, &json["packets_exported"]),
        (1_000, &1_000.into()),
        "{case}: {json}"
    );
    rig::assert_closed(&json, &out);
    true
}
