//! Flows of an interface that are counted below user space, by two threads in one table of the kernel: what their records have, against what was sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use forebay_ledger::Leak;
use forebay_run::{Host, Stop, System, Urgency};
use forebay_run_probe::config::{OffloadChoice, ProbeSettings};
use forebay_run_probe::{ProbePlan, ProbeRecord};
use forebay_testing::wire::is_at_wire;

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

/// What a probe of two threads says of what was sent; nothing where the kernel takes no program of this process.
fn probed(offload: OffloadChoice) -> Option<ProbeRecord> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let jsonl = folder.path().join("flows.jsonl");
    let settings = ProbeSettings {
        interface: Some("far".into()),
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
            forebay_testing::skip!("{error}");
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let sent = send();
    stop.order(Urgency::Drain);
    let record = probe.join().unwrap().unwrap();
    assert_eq!(sums(&jsonl), sent);
    Some(record)
}

#[track_caller]
fn assert_counted(record: &ProbeRecord, kind: &str) {
    assert!(record.is_closed());
    let all = (FLOWS * ROUNDS) as u64;
    let said = &record.summary;
    let offload = said.offload.as_ref().unwrap();
    assert!(offload.kind.starts_with(kind), "{}", offload.kind);
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
        && let Some(record) = probed(OffloadChoice::Xdp)
    {
        assert_counted(&record, "xdp");
    }
}

#[test]
fn by_a_program_at_the_sockets() {
    if is_at_wire("by_a_program_at_the_sockets")
        && let Some(record) = probed(OffloadChoice::Filter)
    {
        assert_counted(&record, "filter");
    }
}
