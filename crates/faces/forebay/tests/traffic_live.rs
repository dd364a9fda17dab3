//! Emulated traffic onto a live interface: the near end of a virtual wire in a network namespace that ends with its test. What was sent is told by the
//! generator's truth, by the counters of both interfaces, and by a probe at the far end.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_sys::netlink::links;
use forebay_testing::wire::{self as namespace, carries, lay, sh};
use rig::{Run, forebay, signal, start, wait_for, wait_items};
use serde_json::Value;
use tempfile::TempDir;

/// Source, destination, and what they are of: ports and protocol.
type Key = (String, String, [u64; 3]);

/// What one flow sent: packets, octets, and those in reverse; the instants of the first and of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flow {
    amounts: [u64; 4],
    start_ns: u64,
    end_ns: u64,
}

/// Whether this process is in a namespace of its own, with a wire. If not, the test named runs in one, as a process of its own.
fn is_inside(test: &str) -> bool {
    let is_inside = namespace::is_inside(test);
    if is_inside {
        lay();
        carries();
    }
    is_inside
}

fn realtime_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_nanos() as u64
}

fn counter(interface: &str, name: &str) -> u64 {
    let links = links().unwrap();
    let link = links.iter().find(|link| link.name == interface).unwrap();
    link.counters[name]
}

/// A generator at work, and where its books and its truth are.
struct Generator {
    run: Run,
    out: PathBuf,
    truth: PathBuf,
}

fn emulate(folder: &Path, profile: &str, args: &[&str]) -> Generator {
    let (out, truth) = (folder.join("sent"), folder.join("truth.csv"));
    let mut command = forebay();
    command.args(["emulate", "traffic", "--interface", "near", "--profile"]);
    command
        .args([profile, "--format", "json", "--out"])
        .arg(&out);
    command.arg("--truth").arg(&truth).args(args);
    let run = start(&mut command);
    Generator { run, out, truth }
}

impl Generator {
    fn wait(&self, term: &str, least: u64) {
        wait_for("the books", || {
            self.out.join("ledger").exists().then_some(())
        });
        wait_items(&self.out, ("interface", "packets"), term, least);
    }

    /// Its record; its books are closed.
    fn end(self, code: i32) -> (Value, BTreeMap<Key, Flow>) {
        let json = self.run.end().json_of(code);
        rig::assert_closed(&json, &self.out);
        let truth = fs::read_to_string(&self.truth).unwrap_or_default();
        (json, truth_of(&truth))
    }
}

/// The flows of a truth. Of others than TCP and UDP a record has no ports.
fn truth_of(text: &str) -> BTreeMap<Key, Flow> {
    let mut flows = BTreeMap::new();
    for line in text.lines().skip(1) {
        let values: Vec<&str> = line.split(',').collect();
        let number = |at: usize| values[at].parse::<u64>().unwrap();
        let has_ports = matches!(number(5), 6 | 17);
        let port = |at: usize| if has_ports { number(at) } else { 0 };
        let key = (
            values[1].to_owned(),
            values[2].to_owned(),
            [port(3), port(4), number(5)],
        );
        let flow = Flow {
            amounts: [6, 7, 8, 9].map(number),
            start_ns: number(10),
            end_ns: number(11),
        };
        assert!(flows.insert(key, flow).is_none(), "{line}");
    }
    flows
}

/// The flows of records: those that a time-out cut are one again.
fn records(path: &Path) -> BTreeMap<Key, Flow> {
    let mut flows: BTreeMap<Key, Flow> = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let key = (
            text("src"),
            text("dst"),
            ["src_port", "dst_port", "protocol"].map(number),
        );
        let amounts = ["packets", "octets", "packets_rev", "octets_rev"].map(number);
        let (start_ns, end_ns) = (number("start_ns"), number("end_ns"));
        let flow = flows.entry(key).or_insert(Flow {
            amounts: [0; 4],
            start_ns,
            end_ns,
        });
        for (sum, more) in flow.amounts.iter_mut().zip(amounts) {
            *sum += more;
        }
        flow.start_ns = flow.start_ns.min(start_ns);
        flow.end_ns = flow.end_ns.max(end_ns);
    }
    flows
}

fn packets(flows: &BTreeMap<Key, Flow>) -> u64 {
    flows
        .values()
        .map(|flow| flow.amounts[0] + flow.amounts[2])
        .sum()
}

/// A probe at the far end, from when it reads.
fn probe(folder: &Path) -> (Run, PathBuf, PathBuf) {
    let (out, jsonl) = (folder.join("probe"), folder.join("flows.jsonl"));
    let mut command = forebay();
    command.args(["probe", "--interface", "far", "--promiscuous", "on"]);
    command.args(["--format", "json", "--export"]).arg(&jsonl);
    let run = start(command.arg("--out").arg(&out));
    wait_for("the probe", || out.join("ledger").exists().then_some(()));
    (run, out, jsonl)
}

/// How packets come to the kernel.
#[derive(Clone, Copy)]
enum By {
    Sendmmsg,
    Ring,
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Sendmmsg => "sendmmsg",
            Self::Ring => "ring",
        }
    }

    /// Nothing for the default.
    const fn args(self) -> &'static [&'static str] {
        match self {
            Self::Sendmmsg => &[],
            Self::Ring => &["--send-by", "ring"],
        }
    }
}

#[test]
fn what_is_sent_is_what_the_interfaces_count_and_a_probe_records() {
    if is_inside("what_is_sent_is_what_the_interfaces_count_and_a_probe_records") {
        sent_is_counted_and_recorded(By::Sendmmsg);
    }
}

#[test]
fn what_is_sent_through_a_ring_is_what_the_interfaces_count_and_a_probe_records() {
    if is_inside("what_is_sent_through_a_ring_is_what_the_interfaces_count_and_a_probe_records") {
        sent_is_counted_and_recorded(By::Ring);
    }
}

fn sent_is_counted_and_recorded(by: By) {
    let folder = TempDir::new().unwrap();
    let (run, out, jsonl) = probe(folder.path());
    let begun_ns = realtime_ns();
    let args = ["--packets", "20k", "--rate", "20k", "--seed", "7"];
    let how = by.args();
    let args = [&args[..], how].concat();
    let generator = emulate(folder.path(), "nix-like-night", &args);
    let (json, truth) = generator.end(0);
    let ended_ns = realtime_ns();
    assert_eq!(json["interface"]["sent_by"], by.name(), "{json}");
    let reason = match by {
        By::Sendmmsg => "the default",
        By::Ring => "it was asked for",
    };
    assert_eq!(json["interface"]["sent_by_reason"], reason, "{json}");
    assert_eq!(
        (&json["packets"], packets(&truth)),
        (&20_000.into(), 20_000)
    );
    assert_eq!(counter("near", "tx_packets"), 20_000);
    assert_eq!(counter("near", "tx_bytes"), json["wire_bytes"]);
    assert_eq!(counter("far", "rx_packets"), 20_000);
    // Never faster than asked; how much slower is the host's affair.
    assert!(
        json["packet_rate_hz"].as_f64().unwrap() < 20_400.0,
        "{json}"
    );
    assert_eq!(json["interface"]["packet_rate_asked_hz"], 20_000.0);
    assert!(
        json["drops"]
            .as_object()
            .unwrap()
            .values()
            .all(|lost| lost["items"] == 0)
    );
    wait_items(&out, ("ring", "packets"), "incoming", 20_000);
    assert!(signal("TERM", run.pid()));
    let probed = run.end().json_of(0);
    assert_eq!(
        (&probed["packets_in"], &probed["octets_in"]),
        (&json["packets"], &json["octets"])
    );
    let records = records(&jsonl);
    assert_eq!(records.len(), truth.len());
    for (key, sent) in &truth {
        let seen = &records[key];
        assert_eq!(seen.amounts, sent.amounts, "{key:?}");
        // The kernel has a packet after the generator looked at the clock.
        let times = [begun_ns, sent.start_ns, seen.start_ns, ended_ns];
        assert!(times.is_sorted(), "{key:?}: {times:?}");
        assert!(
            sent.end_ns <= seen.end_ns && sent.start_ns <= sent.end_ns,
            "{key:?}"
        );
    }
}

#[test]
fn packets_fit_the_interface_and_what_is_asked_for() {
    if !is_inside("packets_fit_the_interface_and_what_is_asked_for") {
        return;
    }
    sh("ip link set near mtu 1400; ip link set far mtu 1400");
    let mut sent = 0;
    for (at, (snap, octets_max)) in [(None, 1_400), (Some("128"), 114)].into_iter().enumerate() {
        let folder = TempDir::new().unwrap();
        let (run, out, jsonl) = probe(folder.path());
        let mut args = vec!["--packets", "5k", "--rate", "20k"];
        args.extend(snap.iter().flat_map(|bytes| ["--snap", *bytes]));
        let (json, truth) = emulate(folder.path(), "geant-like-morning", &args).end(0);
        let shortened = &json["interface"]["shortened_packets"];
        assert!(shortened.as_u64().unwrap() > 500, "{json}");
        assert_eq!(json["interface"]["mtu_bytes"], 1_400);
        sent += json["packets"].as_u64().unwrap();
        assert_eq!((at as u64 + 1) * 5_000, sent);
        assert_eq!(counter("far", "rx_packets"), sent);
        wait_items(&out, ("ring", "packets"), "incoming", 5_000);
        assert!(signal("TERM", run.pid()));
        // They are whole packets: none is malformed or cut.
        let probed = run.end().json_of(0);
        assert_eq!(probed["octets_in"], json["octets"]);
        let records = records(&jsonl);
        assert_eq!(packets(&records), 5_000, "{probed}");
        for (key, flow) in &records {
            assert_eq!(flow.amounts, truth[key].amounts);
            let [packets, octets, ..] = flow.amounts;
            assert!(octets <= packets * octets_max, "{key:?} {flow:?}");
        }
    }
    let mut command = forebay();
    command.args(["emulate", "traffic", "--profile", "nix-like-night"]);
    let ended = start(command.args(["--interface", "near", "--snap", "73"])).end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("74"), "{}", ended.stderr);
}

#[test]
fn a_generator_that_is_stopped_tells_the_truth_of_what_it_sent() {
    if !is_inside("a_generator_that_is_stopped_tells_the_truth_of_what_it_sent") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "10M", "--rate", "3k"];
    let generator = emulate(folder.path(), "nix-like-morning", &args);
    generator.wait("outgoing", 1_000);
    assert!(signal("INT", generator.run.pid()));
    let (json, truth) = generator.end(0);
    assert_eq!(json["reason"], "requested");
    let sent = json["packets"].as_u64().unwrap();
    assert_eq!(
        (packets(&truth), counter("near", "tx_packets")),
        (sent, sent)
    );
    // A packet that is due in an hour keeps nobody waiting, and is not sent.
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "10k", "--rate", "0.001"];
    let generator = emulate(folder.path(), "nix-like-morning", &args);
    wait_for("the first packet", || {
        (counter("near", "tx_packets") == sent + 1).then_some(())
    });
    assert!(signal("TERM", generator.run.pid()));
    let (json, truth) = generator.end(0);
    assert_eq!((&json["packets"], packets(&truth)), (&1.into(), 1));
    // The next one, and the one behind it, which says that the next one is alone.
    assert_eq!(rig::dropped_in_all(&json, "interface.not_sent"), 2);
}

#[test]
fn what_an_interface_refuses_is_in_the_books_by_name_and_not_in_the_truth() {
    if is_inside("what_an_interface_refuses_is_in_the_books_by_name_and_not_in_the_truth") {
        refused_is_named(By::Sendmmsg);
    }
}

#[test]
fn what_an_interface_refuses_of_a_ring_is_in_the_books_by_name_and_not_in_the_truth() {
    if is_inside("what_an_interface_refuses_of_a_ring_is_in_the_books_by_name_and_not_in_the_truth")
    {
        refused_is_named(By::Ring);
    }
}

fn refused_is_named(by: By) {
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "10M", "--rate", "5k"];
    let args = [&args[..], by.args()].concat();
    let generator = emulate(folder.path(), "nix-like-morning", &args);
    generator.wait("outgoing", 500);
    sh("ip link set near down");
    let down = counter("near", "tx_packets");
    wait_for("refused packets", || {
        let sheet = rig::audit_json(&generator.out).to_string();
        sheet.contains("interface_down").then_some(())
    });
    // Each of them was looked at by the kernel, and is on no wire.
    assert_eq!(counter("near", "tx_packets"), down);
    sh("ip link set near up");
    carries();
    generator.wait("outgoing", down + 500);
    assert!(signal("INT", generator.run.pid()));
    let (json, truth) = generator.end(0);
    let sent = json["packets"].as_u64().unwrap();
    assert_eq!(
        (packets(&truth), counter("near", "tx_packets")),
        (sent, sent)
    );
    assert!(rig::dropped_in_all(&json, "interface.interface_down") > 0);
    // So does one that takes no long packets any more.
    let folder = TempDir::new().unwrap();
    let generator = emulate(folder.path(), "nix-like-morning", &args);
    generator.wait("outgoing", 500);
    sh("ip link set near mtu 600");
    wait_for("packets that are too long", || {
        let sheet = rig::audit_json(&generator.out).to_string();
        sheet.contains("too_long").then_some(())
    });
    assert!(signal("INT", generator.run.pid()));
    let (json, truth) = generator.end(0);
    assert_eq!(json["packets"], packets(&truth));
    assert_eq!(
        counter("near", "tx_packets") - sent,
        json["packets"].as_u64().unwrap()
    );
    assert!(rig::dropped_in_all(&json, "interface.too_long") > 0);
    sh("ip link set near mtu 1500");
    // One that is removed ends it, with the same truth.
    let folder = TempDir::new().unwrap();
    let generator = emulate(folder.path(), "nix-like-morning", &args);
    generator.wait("outgoing", 500);
    sh("ip link delete near");
    let (json, truth) = generator.end(2);
    assert!(json["failed"].as_str().unwrap().contains("near"), "{json}");
    assert_eq!(json["packets"], packets(&truth));
    assert!(rig::dropped_in_all(&json, "interface.interface_gone") > 0);
}

#[test]
fn a_ring_is_refused_on_loopback_with_the_other_way() {
    if !is_inside("a_ring_is_refused_on_loopback_with_the_other_way") {
        return;
    }
    sh("ip link set lo up");
    let run = |how| {
        let mut command = forebay();
        command.args(["emulate", "traffic", "--profile", "nix-like-night"]);
        command.args(["--packets", "2k", "--rate", "20k", "--interface", "lo"]);
        start(command.args(["--format", "json", "--send-by", how])).end()
    };
    let ended = run("ring");
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    let names_both = ended.stderr.contains("lo is loopback");
    assert!(
        names_both && ended.stderr.contains("--send-by sendmmsg"),
        "{}",
        ended.stderr
    );
    // What it names is possible, and was asked for.
    let json = run("sendmmsg").json_of(0);
    assert_eq!(json["packets"], 2_000, "{json}");
    assert_eq!(json["interface"]["sent_by_reason"], "it was asked for");
}

#[test]
fn a_rate_that_is_not_reached_is_told() {
    if !is_inside("a_rate_that_is_not_reached_is_told") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "100k", "--rate", "500M", "--small-packets"];
    let (json, truth) = emulate(folder.path(), "nix-like-morning", &args).end(0);
    assert_eq!(json["interface"]["was_limit"], true);
    assert!(json["interface"]["slipped_s"].as_f64().unwrap() > 0.0);
    let sent = json["packets"].as_u64().unwrap();
    assert_eq!(
        (packets(&truth), counter("near", "tx_packets")),
        (sent, sent)
    );
    // A fiftieth of the time of the profile, which has a million packets a second.
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "20k", "--speed", "0.02"];
    let (json, _) = emulate(folder.path(), "nix-like-morning", &args).end(0);
    let asked_hz = json["interface"]["packet_rate_asked_hz"].as_f64().unwrap();
    assert!((15e3..30e3).contains(&asked_hz), "{json}");
    assert!(
        json["packet_rate_hz"].as_f64().unwrap() < asked_hz * 1.05,
        "{json}"
    );
}

#[test]
fn a_packet_that_vanishes_is_missed() {
    if !is_inside("a_packet_that_vanishes_is_missed") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = forebay();
    command.env("FOREBAY_LEAK", "packets:3");
    command.args(["emulate", "traffic", "--profile", "nix-like-night"]);
    command.args(["--packets", "10k", "--rate", "50k", "--interface", "near"]);
    command.arg("--out").arg(folder.path().join("sent"));
    let json = start(command.args(["--format", "json"])).end().json_of(1);
    assert_eq!(json["residual_items"], 3, "{json}");
    assert_eq!(counter("near", "tx_packets"), json["packets"]);
}
