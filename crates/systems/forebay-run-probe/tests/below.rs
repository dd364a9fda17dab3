//! Flows of an interface that are counted below user space, by two threads in one table of the kernel: what their records have, against what was sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use forebay_ledger::Leak;
use forebay_run::{Host, Stop, System, Urgency};
use forebay_run_probe::config::{OffloadChoice, ProbeSettings};
use forebay_run_probe::{ProbeError, ProbePlan, ProbeRecord};
use forebay_testing::wire::{is_at_wire, is_inside, may_have_tun, sh};

const FLOWS: usize = 8;
const ROUNDS: usize = 100;
const PAYLOAD: usize = 100;
/// Octets of a datagram's headers.
const HEADERS: usize = 28;

/// Packets and octets by the sender's port.
type Sums = BTreeMap<u64, [u64; 2]>;

/// Sends so many datagrams of each flow, with time for a probe to see that they are heavy.
fn send() -> Sums {
    let sockets: Vec<_> = (0..FLOWS)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    for _ in 0..ROUNDS {
        for socket in &sockets {
            socket.send_to(&[7; PAYLOAD], "10.0.0.2:5000").unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let ports = sockets.iter().map(|it| it.local_addr().unwrap().port());
    let sum = [ROUNDS, ROUNDS * (PAYLOAD + HEADERS)].map(|it| it as u64);
    ports.map(|port| (port.into(), sum)).collect()
}

fn sums(jsonl: &Path) -> Sums {
    let mut sums = Sums::new();
    for line in std::fs::read_to_string(jsonl).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let sum = sums.entry(number("src_port")).or_default();
        *sum = [sum[0] + number("packets"), sum[1] + number("octets")];
    }
    sums
}

/// What a probe of two threads at `far` says of what was sent; nothing where the kernel takes no program of this process.
fn probed(offload: OffloadChoice, send: impl FnOnce() -> Sums) -> Option<ProbeRecord> {
    let (record, found, sent) = probed_at("far", offload, send)?;
    assert_eq!(found, sent);
    Some(record)
}

/// What a probe at an interface says, what its records have, and what was sent meanwhile.
fn probed_at(
    interface: &str,
    offload: OffloadChoice,
    send: impl FnOnce() -> Sums,
) -> Option<(ProbeRecord, Sums, Sums)> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let jsonl = folder.path().join("flows.jsonl");
    let settings = ProbeSettings {
        interface: Some(interface.into()),
        queues: 2,
        offload,
        offload_after_packets: 5,
        export: vec![jsonl.display().to_string().parse().unwrap()],
        ..ProbeSettings::default()
    };
    let plan = ProbePlan {
        read: "".into(),
        out: Some(out.clone()),
        settings,
    };
    let stop = Stop::of_library().unwrap();
    let host = Host::new(stop.clone(), Leak::off(), ());
    let probe = thread::spawn(move || plan.run(&host));
    // Its books are opened when it takes packets.
    while !out.join("ledger").exists() {
        if probe.is_finished() {
            let error = probe.join().unwrap().unwrap_err();
            assert!(matches!(error, ProbeError::Offload(_)), "{error}");
            forebay_testing::skip!("{error}");
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let sent = send();
    stop.order(Urgency::Drain);
    let record = probe.join().unwrap().unwrap();
    Some((record, sums(&jsonl), sent))
}

#[track_caller]
fn assert_counted(record: &ProbeRecord, kind: &str) {
    assert!(record.is_closed());
    let all = (FLOWS * ROUNDS) as u64;
    let said = &record.summary;
    let offload = said.offload.as_ref().unwrap();
    assert_eq!((offload.kind, offload.is_taken_off), (kind, false));
    assert_eq!(
        [offload.frames, said.packets_in, said.packets_exported],
        [all; 3]
    );
    assert_eq!(offload.frames_counted, said.packets_offloaded);
    assert!(said.packets_offloaded > 0, "{offload:?}");
    assert_eq!(
        [offload.flows_lent, offload.flows_not_lent],
        [FLOWS as u64, 0]
    );
}

#[test]
fn by_a_program_on_the_interface() {
    if is_at_wire("by_a_program_on_the_interface")
        && let Some(record) = probed(OffloadChoice::Xdp, send)
    {
        // A virtual wire has its own place for a program.
        assert_counted(&record, "xdp, in the driver");
    }
}

#[test]
fn by_a_program_at_the_sockets() {
    if is_at_wire("by_a_program_at_the_sockets")
        && let Some(record) = probed(OffloadChoice::Filter, send)
    {
        assert_counted(&record, "filter, at the sockets");
    }
}

/// The number of the program that is on `far`.
fn program_at_far() -> u32 {
    let mut ip = Command::new("ip");
    let shown = ip.args(["-d", "link", "show", "far"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let (_, number) = shown.split_once("prog/xdp id ").unwrap();
    number.split_whitespace().next().unwrap().parse().unwrap()
}

/// What the kernel has counted of an interface.
fn packets(interface: &str, way: &str) -> u64 {
    let mut ip = Command::new("ip");
    let shown = ip.args(["-j", "-s", "link", "show", interface]).output();
    let json: serde_json::Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
    json[0]["stats64"][way]["packets"].as_u64().unwrap()
}

#[test]
fn a_program_that_was_taken_off_is_told_and_loses_nothing() {
    if !is_at_wire("a_program_that_was_taken_off_is_told_and_loses_nothing") {
        return;
    }
    let taken_off_between = || {
        let mut sent = send();
        // None is under way: the cable may throw those away as its driver changes over.
        while packets("far", "rx") < packets("near", "tx") {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(forebay_xdp::take_off_program(program_at_far()).unwrap());
        sent.extend(send());
        sent
    };
    let Some(record) = probed(OffloadChoice::Xdp, taken_off_between) else {
        return;
    };
    assert!(record.is_closed());
    let offload = record.summary.offload.as_ref().unwrap();
    assert!(offload.is_taken_off);
    assert_eq!(offload.frames, (FLOWS * ROUNDS) as u64);
    let all = record.summary.packets_exported;
    assert!(offload.frames < all, "{} of {all}", offload.frames);
}

/// A driver that has no place for a program: that of the loopback interface, which has no address here.
#[test]
fn a_program_behind_a_driver_is_called_so() {
    if !is_inside("a_program_behind_a_driver_is_called_so") {
        return;
    }
    sh("ip link set lo up; ip address flush dev lo");
    let probed = probed_at("lo", OffloadChoice::Xdp, Sums::new);
    if let Some((record, ..)) = probed {
        let offload = record.summary.offload.as_ref().unwrap();
        assert_eq!(offload.kind, "xdp, behind the driver");
    }
}

#[test]
fn an_interface_without_ethernet_has_no_table_at_its_sockets() {
    if !is_inside("an_interface_without_ethernet_has_no_table_at_its_sockets") {
        return;
    }
    if !may_have_tun() {
        return;
    }
    sh("ip tuntap add tun mode tun; ip link set tun up");
    let plan = ProbePlan {
        settings: ProbeSettings {
            interface: Some("tun".into()),
            offload: OffloadChoice::Filter,
            ..ProbeSettings::default()
        },
        ..ProbePlan::default()
    };
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let error = plan.run(&host).unwrap_err();
    assert!(
        matches!(&error, ProbeError::NoEthernet(it) if it == "tun"),
        "{error}"
    );
}
