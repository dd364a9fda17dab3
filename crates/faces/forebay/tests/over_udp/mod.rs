//! IPFIX over UDP from an interface: nothing holds a sender back, and no record shall wait.

#![allow(clippy::print_stdout, reason = "what was measured")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::rig;
use super::rig::nfcapd::Nfcapd;
use super::{SECOND_NS, end, is_at_wire, number, probe, realtime_ns, wait_packets};

/// Flows of one datagram each, which all go to ports of their own; `pause` comes behind each hundred.
fn flows(sockets: u16, each: u16, mut pause: impl FnMut(u64)) {
    let sockets: Vec<_> = (0..sockets)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    let mut sent = 0;
    for port in 1..=each {
        for socket in &sockets {
            socket.send_to(b"flow", ("10.0.0.2", port)).unwrap();
            sent += 1;
            if sent % 100 == 0 {
                pause(sent);
            }
        }
    }
}

#[test]
fn nfcapd_loses_none_of_20_000_flows_a_second() {
    if !is_at_wire("over_udp::nfcapd_loses_none_of_20_000_flows_a_second") {
        return;
    }
    // Where others have the CPUs for long the collector is not woken in time, which says nothing of the pace.
    let mut had = Vec::new();
    while had.len() < 3 && had.last() != Some(&60_000) {
        match to_nfcapd() {
            Some(flows) => had.push(flows),
            None => return,
        }
    }
    assert_eq!(had.last(), Some(&60_000), "{had:?}");
}

/// Flows that nfcapd has of 60,000, which end as 20,000 in a second; none where it is not installed.
fn to_nfcapd() -> Option<u64> {
    const FLOWS_HZ: u64 = 20_000;
    let folder = TempDir::new().unwrap();
    let collector = Nfcapd::start(&folder.path().join("nfcapd"))?;
    let out = folder.path().join("out");
    let export = format!("ipfix+udp://127.0.0.1:{}", collector.port);
    let run = probe(&out, &["--export", &export]);
    let begun = Instant::now();
    // A sender that was late catches up, so that the rate is held in the mean.
    flows(1, 60_000, |sent| {
        let at = begun + Duration::from_nanos(sent * SECOND_NS / FLOWS_HZ);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    });
    let sent_hz = 60_000.0 / begun.elapsed().as_secs_f64();
    wait_packets(&out, 60_000);
    rig::wait_items(&out, ("export", "flows"), "outgoing", 60_000);
    let json = end(run);
    let received = collector.end();
    let [flows, packets, failures] =
        ["Flows:", "Packets:", "Sequence failures:"].map(|key| received.number(key));
    println!("nfcapd has {flows} of 60000 flows, which came at {sent_hz:.0} a second");
    assert_eq!(json["flows_exported"], 60_000, "{json}");
    assert_eq!(json["drops"], serde_json::json!({}), "{json}");
    assert_eq!(packets, flows, "{}", received.0);
    assert!(flows < 60_000 || failures == 0, "{}", received.0);
    rig::assert_closed(&json, &out);
    Some(flows)
}

/// 200,000 records go at the usual pace in 10 s.
#[test]
fn records_over_udp_come_in_time_however_many_end_at_once() {
    if !is_at_wire("over_udp::records_over_udp_come_in_time_however_many_end_at_once") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let export = format!("ipfix+udp://{}", collector.local_addr().unwrap());
    let last_ns = Arc::new(AtomicU64::new(0));
    let seen_ns = Arc::clone(&last_ns);
    std::thread::spawn(move || {
        let mut room = [0; 65_536];
        while let Ok(bytes) = collector.recv(&mut room) {
            // The count of records that went before is the sequence number; what comes behind that of the last one has nothing new.
            if number(&room[8..12]) < 200_000 && bytes > 200 {
                seen_ns.store(realtime_ns(), Ordering::Relaxed);
            }
        }
    });
    let run = probe(
        &out,
        &["--export", &export, "--flows", "262144", "--ring", "128MiB"],
    );
    flows(4, 50_000, |_| ());
    let sent_ns = realtime_ns();
    wait_packets(&out, 200_000);
    rig::wait_items(&out, ("export", "flows"), "outgoing", 200_000);
    let json = end(run);
    let late_ns = last_ns
        .load(Ordering::Relaxed)
        .saturating_sub(sent_ns + SECOND_NS);
    assert!(
        last_ns.load(Ordering::Relaxed) > sent_ns,
        "none came: {json}"
    );
    println!("the last record came {late_ns} ns after the time-out of the last flow");
    assert!(late_ns < 5 * SECOND_NS, "{late_ns} ns: {json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}
