//! The flow probe past the kernel's stack (AF_XDP): the far end of a virtual wire in a network namespace that ends with its test. What was sent is known to the test, and
//! to a probe that reads the near end by a packet socket.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_testing::wire::{self as namespace, carries, lay, sh};
use rig::{Run, forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Octets of the headers of a datagram.
const HEADERS: u64 = 28;

/// Packets and octets by source port.
type Sent = BTreeMap<u64, [u64; 2]>;

/// Whether this process is in a namespace of its own, with a wire of so many queues, and this binary has programs for the kernel. If not, the test named runs in one, as a
/// process of its own.
fn is_inside(test: &str, queues: u32) -> bool {
    if !namespace::is_inside(test) {
        return false;
    }
    match queues {
        1 => lay(),
        _ => {
            let ends = format!("numtxqueues {queues} numrxqueues {queues}");
            sh(&format!(
                "ip link add near {ends} type veth peer name far {ends}"
            ));
            for end in ["near", "far"] {
                sh(&format!(
                    "f=/proc/sys/net/ipv6/conf/{end}/disable_ipv6; [ ! -e $f ] || echo 1 > $f; ip link set {end} up"
                ));
            }
        }
    }
    sh("ip link set lo up; ip address add 10.0.0.1/24 dev near");
    sh("ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near");
    carries();
    has_program()
}

/// Without clang at the build there is no program, which the probe says.
fn has_program() -> bool {
    let mut command = forebay();
    command.args(["probe", "--input", "xdp", "--duration", "1s", "--interface"]);
    let ended = start(command.arg("far")).end();
    let is_built = !ended.stderr.contains("apt-get install clang");
    if !is_built {
        forebay_testing::skip!("clang was not there at the build (apt-get install clang)");
    }
    is_built
}

/// Whether no thread of a process runs: each of them stops by itself when it sees the signal (`proc_pid_stat(5)`).
fn all_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    })
}

/// Sends datagrams from so many sockets in turn; what each of them sent is added to `sent`.
fn send(sockets: usize, datagrams: usize, sent: &mut Sent) {
    let sockets: Vec<_> = (0..sockets)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    for number in 0..datagrams {
        let socket = &sockets[number % sockets.len()];
        let payload = vec![7; 1 + number * 37 % 1_400];
        let bytes = socket.send_to(&payload, "10.0.0.2:5000").unwrap();
        assert_eq!(bytes, payload.len());
        let port = socket.local_addr().unwrap().port();
        let sum = sent.entry(port.into()).or_default();
        *sum = [sum[0] + 1, sum[1] + HEADERS + payload.len() as u64];
    }
}

fn total(sent: &Sent) -> [u64; 2] {
    sent.values()
        .fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

fn probe(interface: &str, out: &Path, args: &[&str], leak: &str) -> Run {
    let mut command = forebay();
    command.args(["probe", "--format", "json", "--interface", interface]);
    command.args(args).arg("--out").arg(out);
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    let run = start(&mut command);
    // The books are made when the interface is read.
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    run
}

fn past_stack(out: &Path, args: &[&str]) -> Run {
    probe("far", out, &[&["--input", "xdp"], args].concat(), "")
}

fn end(run: Run) -> Value {
    assert!(signal("TERM", run.pid()));
    run.end().json_of(0)
}

/// Waits until so many packets, read or lost in a ring, are in the books.
fn wait_packets(out: &Path, packets: u64) {
    rig::wait_items(out, ("ring", "packets"), "incoming", packets);
}

/// What came to all accounts of a place.
fn incoming(out: &Path, place: &str) -> u64 {
    let json = rig::audit_json(out);
    let accounts = json["balance"]["accounts"].as_array().unwrap().iter();
    let of_place = accounts.filter(|line| line["place"] == place);
    of_place
        .map(|line| line["incoming"]["items"].as_u64().unwrap())
        .sum()
}

/// Packets and octets of the flows of a file, by source port.
fn records(path: &Path) -> Sent {
    let mut sent = Sent::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["src"], &line["dst"]),
            (&"10.0.0.1".into(), &"10.0.0.2".into())
        );
        let number = |key: &str| line[key].as_u64().unwrap();
        let sum = sent.entry(number("src_port")).or_default();
        *sum = [sum[0] + number("packets"), sum[1] + number("octets")];
    }
    sent
}

/// Both probes have the packets that were sent, each in its own way, and records of them.
fn assert_same(queues: u32) {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let export = |name: &str| path(name).with_extension("jsonl").display().to_string();
    let count = queues.to_string();
    let beside = probe(
        "near",
        &path("packet"),
        &["--export", &export("packet")],
        "",
    );
    let past = past_stack(
        &path("xdp"),
        &["--queues", &count, "--export", &export("xdp")],
    );
    let mut sent = Sent::new();
    send(40, 4_000, &mut sent);
    // Four of them are longer than the wire takes then, and go as two fragments each.
    sh("ip link set near mtu 1280");
    send(5, 50, &mut sent);
    let came = |name: &str| {
        wait_for("all packets", || {
            (incoming(&path(name), "ring") >= 4_054).then_some(())
        });
    };
    came("packet");
    came("xdp");
    let [past, beside] = [past, beside].map(end);
    for json in [&past, &beside] {
        assert_eq!(json["packets_dropped_by_kernel"], 0, "{json}");
        assert_eq!(json["packets_in"], json["packets_exported"], "{json}");
    }
    assert_eq!(past["packets_in"], 4_054, "{past}");
    for key in [
        "packets_in",
        "octets_in",
        "packets_exported",
        "octets_exported",
    ] {
        assert_eq!(past[key], beside[key], "{key}: {past} {beside}");
    }
    assert_eq!(past["input"], "xdp, in the driver, copied", "{past}");
    assert_eq!(beside["input"], "packet socket", "{beside}");
    let of = |name: &str| records(&path(name).with_extension("jsonl"));
    assert_eq!(of("xdp"), of("packet"));
    for (json, name) in [(&past, "xdp"), (&beside, "packet")] {
        rig::assert_closed(json, &path(name));
    }
}

#[test]
fn records_past_the_stack_are_those_of_the_packet_socket() {
    if is_inside("records_past_the_stack_are_those_of_the_packet_socket", 1) {
        assert_same(1);
    }
}

#[test]
fn each_queue_has_a_thread_and_records_are_the_same() {
    if is_inside("each_queue_has_a_thread_and_records_are_the_same", 4) {
        assert_same(4);
        let mut command = forebay();
        command.args([
            "probe",
            "--input",
            "xdp",
            "--interface",
            "far",
            "--queues",
            "2",
        ]);
        let ended = start(&mut command).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("give --queues 4"), "{}", ended.stderr);
    }
}

#[test]
fn what_a_slow_reader_loses_past_the_stack_is_found_by_name() {
    if !is_inside(
        "what_a_slow_reader_loses_past_the_stack_is_found_by_name",
        1,
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = past_stack(&out, &["--ring", "512KiB"]);
    let mut sent = Sent::new();
    // A reader that is stopped reads nothing.
    assert!(signal("STOP", run.pid()));
    wait_for("all of its threads to stop", || {
        all_stopped(run.pid()).then_some(())
    });
    send(10, 4_000, &mut sent);
    assert!(signal("CONT", run.pid()));
    wait_packets(&out, 4_000);
    let json = end(run);
    let lost = rig::dropped_in_all(&json, "ring.kernel_no_buffer");
    // There are 128 buffers.
    assert!(lost >= 3_800, "{json}");
    assert_eq!(json["packets_dropped_by_kernel"], lost);
    assert_eq!(json["packets_in"], 4_000 - lost, "{json}");
    assert_eq!(json["packets_exported"], json["packets_in"]);
    rig::assert_closed(&json, &out);
}

/// The end comes while packets do: the program goes, and what it had steered until then is read.
#[test]
fn the_end_under_load_leaves_nothing_behind() {
    if !is_inside("the_end_under_load_leaves_nothing_behind", 4) {
        return;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    send(4, 4_000, &mut Sent::new());
                }
            });
        }
        for ring in ["512KiB", "32MiB"] {
            for more in [&[][..], &["--offload", "software", "--offload-after", "5"]] {
                let folder = TempDir::new().unwrap();
                let out = folder.path().join("out");
                let args = [&["--queues", "4", "--ring", ring], more].concat();
                let run = past_stack(&out, &args);
                let of_rings = || incoming(&out, "ring");
                wait_for("packets", || (of_rings() > 10_000).then_some(()));
                let json = end(run);
                let lost = json["packets_dropped_by_kernel"].as_u64().unwrap();
                let came = json["packets_in"].as_u64().unwrap();
                assert_eq!(came + lost, of_rings(), "{json}");
                assert_eq!(json["packets_exported"], came, "{json}");
                let offloaded = json["packets_offloaded"].as_u64().unwrap();
                assert_eq!(offloaded > 0, !more.is_empty(), "{json}");
                rig::assert_closed(&json, &out);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_vanishes_past_the_stack_is_found() {
    if !is_inside("what_vanishes_past_the_stack_is_found", 1) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = probe("far", &out, &["--input", "xdp"], "ring:2");
    send(5, 50, &mut Sent::new());
    wait_packets(&out, 50);
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(1);
    assert_eq!(json["residual_items"], 2, "{json}");
}

#[test]
fn an_interface_that_comes_and_goes_is_told_past_the_stack_too() {
    if !is_inside(
        "an_interface_that_comes_and_goes_is_told_past_the_stack_too",
        1,
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = past_stack(&out, &[]);
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
    let came = [&json["packets_in"], &json["octets_in"]];
    assert_eq!(came, total(&sent).map(Value::from).each_ref(), "{json}");
    let left = (&json["residual_items"], &json["left_items"]);
    assert_eq!(left, (&0.into(), &0.into()));
}

#[test]
fn what_would_cut_a_host_off_or_cannot_be_is_refused_with_a_remedy() {
    if !is_inside(
        "what_would_cut_a_host_off_or_cannot_be_is_refused_with_a_remedy",
        1,
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let run = past_stack(&out, &[]);
    for (args, remedy) in [
        (&["--interface", "near"][..], "give --input packet"),
        (&["--interface", "lo"], "lo has the address 127.0.0.1"),
        (
            &["--interface", "far"],
            "has an XDP program of another user",
        ),
        (&["--interface", "no-such-if"], "`ip link` lists"),
        (
            &["--interface", "far", "--offload", "xdp"],
            "give --offload software",
        ),
        (
            &["--interface", "far", "--vlan-in-key", "on"],
            "leave --vlan-in-key out",
        ),
        (&["--read", "-"], "give --interface in place of --read"),
    ] {
        let ended = start(forebay().args(["probe", "--input", "xdp"]).args(args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(remedy), "{args:?}: {}", ended.stderr);
    }
    // The one that has it goes on.
    let mut sent = Sent::new();
    send(3, 30, &mut sent);
    wait_packets(&out, 30);
    assert_eq!(end(run)["packets_in"], 30);
}
