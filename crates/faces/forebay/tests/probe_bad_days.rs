//! The flow probe on bad days: a flood of flows with one packet each, and captures whose times jump or are out of order. All accounts are exact.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;

use rig::{forebay, start};
use serde_json::Value;
use tempfile::TempDir;

const SYN: u8 = 2;
const ACK: u8 = 16;
const BEGIN_MS: u64 = 1_700_000_000_000;

/// A segment of TCP without a payload from 10.x.x.x to 192.0.2.1:80 at a time in ms.
#[derive(Clone, Copy)]
struct Segment {
    time_ms: u64,
    host: u32,
    flags: u8,
}

/// A capture of Ethernet, in ms.
fn capture(segments: &[Segment]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    for field in [0_u32, 0, 65_535, 1] {
        file.extend(field.to_le_bytes());
    }
    for segment in segments {
        let us = (segment.time_ms % 1000) as u32 * 1000;
        for field in [(segment.time_ms / 1000) as u32, us, 54, 54] {
            file.extend(field.to_le_bytes());
        }
        let [_, b, c, d] = segment.host.to_be_bytes();
        file.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        file.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, b, c, d]);
        file.extend([192, 0, 2, 1, 0xc3, 0x50, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend([0x50, segment.flags, 0, 0, 0, 0, 0, 0]);
    }
    file
}

/// What the probe says of these packets, and its records. Its books are closed.
fn probed(segments: &[Segment], args: &[&str]) -> (Value, Vec<Value>) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("it.pcap"), capture(segments)).unwrap();
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["probe", "--read", "it.pcap", "--export", "it.jsonl"]);
    command
        .args(["--out", "books", "--format", "json"])
        .args(args);
    let json = start(&mut command).end().json_of(0);
    let text = fs::read_to_string(folder.path().join("it.jsonl")).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    let lines: Vec<Value> = text.lines().map(line).collect();
    let packets = segments.len() as u64;
    let number = |key: &str| json[key].as_u64().unwrap();
    let recorded = number("packets_exported") + number("packets_filtered");
    assert_eq!((number("packets_in"), recorded), (packets, packets));
    let recorded = number("octets_exported") + number("octets_filtered");
    assert_eq!(recorded, 40 * packets, "{json}");
    rig::assert_closed(&json, &folder.path().join("books"));
    (json, lines)
}

fn by<'a>(lines: &'a [Value], key: &str) -> BTreeMap<String, Vec<&'a Value>> {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for line in lines {
        let name = line[key].as_str().unwrap().to_owned();
        groups.entry(name).or_default().push(line);
    }
    groups
}

/// 20,000 flows are over within a second of the capture's time, and then come many packets, few, or none for ten minutes.
#[test]
fn records_of_a_capture_are_in_time_at_any_packet_rate_none_included() {
    const FLOWS: u32 = 20_000;
    let segment = |time_ms: u64, host| Segment {
        time_ms: BEGIN_MS + time_ms,
        host,
        flags: ACK,
    };
    let begin: Vec<Segment> = (1..=FLOWS)
        .map(|host| segment(u64::from(host) / 20, host))
        .collect();
    // One host goes on, so many ms between its packets.
    let goes_on = |every_ms: u64| {
        let until_ms = 60_000.max(8 * every_ms);
        (1..until_ms / every_ms).map(move |n| segment(1_000 + n * every_ms, FLOWS + 1))
    };
    for every_ms in [5, 100, 1_500, 10_000, 600_000] {
        for offload in ["off", "software"] {
            let segments: Vec<Segment> = begin.iter().copied().chain(goes_on(every_ms)).collect();
            let (json, lines) = probed(&segments, &["--offload", offload]);
            let idle = &by(&lines, "end_reason")["idle_timeout"];
            assert!(idle.len() >= FLOWS as usize, "{}", idle.len());
            let late_ns = json["export_late_max_ns"].as_u64().unwrap();
            assert!(
                (1..1_000_000_000).contains(&late_ns),
                "{late_ns} ns late with a packet every {every_ms} ms, offload {offload}"
            );
        }
    }
}

/// Nothing of what the filter discards is in a record, but time goes on by it.
#[test]
fn a_flow_that_is_silent_ends_in_time_while_others_are_filtered() {
    let segment = |second: u64, host| Segment {
        time_ms: BEGIN_MS + 1000 * second,
        host,
        flags: ACK,
    };
    let mut segments = vec![segment(0, 1)];
    segments.extend((1..60).map(|second| segment(second, 2)));
    for offload in ["off", "software"] {
        let filter = ["--filter", "drop net 10.0.0.2/32", "--offload", offload];
        let (json, lines) = probed(&segments, &filter);
        assert_eq!(json["packets_filtered"], 59);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["end_reason"], "idle_timeout", "{lines:?}");
    }
}

/// A host whose clock is a day ahead sends among others: it is not believed, whether its packets come to the table or not.
#[test]
fn times_of_the_future_are_not_believed_with_the_offload_either() {
    const DAY_S: u64 = 86_400;
    let mut segments = Vec::new();
    for n in 0..400_u64 {
        for (host, ahead_ms) in [(1, 0), (2, 1000 * DAY_S), (3, 0)] {
            segments.push(Segment {
                time_ms: BEGIN_MS + 10 * n + ahead_ms,
                host,
                flags: ACK,
            });
        }
    }
    let told = ["off", "software"].map(|offload| {
        let (json, mut lines) = probed(&segments, &["--offload", offload]);
        let offloaded = json["packets_offloaded"].as_u64().unwrap();
        assert_eq!(offloaded > 500, offload == "software", "{json}");
        lines.sort_by_key(ToString::to_string);
        (lines, json["times_disbelieved"].clone())
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].1.as_u64() > Some(300), "{told:?}");
}

/// 20,000 hosts send one SYN each, and one connection goes on among them.
#[test]
fn a_flood_of_syns_is_in_records_to_the_last_packet_and_spares_a_flow_at_work() {
    let hosts = 20_000_u32;
    let mut segments = Vec::new();
    for host in 1..=hosts {
        let time_ms = BEGIN_MS + u64::from(host);
        segments.push(Segment {
            time_ms,
            host,
            flags: SYN,
        });
        if host % 100 == 0 {
            segments.push(Segment {
                time_ms,
                host: 1 << 20,
                flags: ACK,
            });
        }
    }
    for eviction in ["oldest", "line-lru"] {
        let (_, lines) = probed(&segments, &["--flows", "1024", "--eviction", eviction]);
        let by_host = by(&lines, "src");
        assert_eq!(by_host.len(), 20_001);
        let at_work = &by_host["10.16.0.0"];
        let packets: u64 = at_work
            .iter()
            .map(|line| line["packets"].as_u64().unwrap())
            .sum();
        assert_eq!(packets, 200);
        let flood = by_host.iter().filter(|(host, _)| *host != "10.16.0.0");
        for (host, lines) in flood {
            assert!(
                lines.len() == 1 && lines[0]["packets"] == 1,
                "{host}: {lines:?}"
            );
            assert_eq!(lines[0]["tcp_flags"], SYN);
        }
        let by_reason = by(&lines, "end_reason");
        let of = |reason: &str| by_reason.get(reason).map_or(0, Vec::len);
        assert_eq!(of("lack_of_resources") + of("forced_end"), lines.len());
        if eviction == "oldest" {
            // All room is used, and the flow at work is never the one that was idle longest.
            assert_eq!((at_work.len(), of("forced_end")), (1, 1024));
        } else {
            assert!((1..=1024).contains(&of("forced_end")));
        }
    }
}

/// Ten flows, each with a packet every 100 ms.
fn steady() -> Vec<Segment> {
    let segment = |n: u32| Segment {
        time_ms: BEGIN_MS + 10 * u64::from(n),
        host: n % 10,
        flags: ACK,
    };
    (0..1000).map(segment).collect()
}

#[test]
fn a_packet_of_the_future_ends_no_other_flow() {
    let mut segments = steady();
    // In 2100, of a host of its own.
    let time_ms = 4_102_444_800_000;
    segments.insert(
        500,
        Segment {
            time_ms,
            host: 77,
            flags: ACK,
        },
    );
    let (json, lines) = probed(&segments, &[]);
    assert_eq!(
        (&json["times_disbelieved"], &json["out_of_order"]),
        (&1.into(), &0.into())
    );
    assert_eq!(lines.len(), 11);
    for line in &lines {
        let is_it = line["src"] == "10.0.0.77";
        assert_eq!(line["packets"], if is_it { 1 } else { 100 }, "{line}");
        assert_eq!(
            line["start_ns"].as_u64().unwrap() == time_ms * 1_000_000,
            is_it,
            "{line}"
        );
    }
}

/// Two packets agree on a day to come, and all others go on as before.
#[test]
fn a_time_that_two_packets_were_wrong_about_is_begun_anew() {
    let mut segments = steady();
    for segment in &mut segments[300..302] {
        segment.time_ms += 86_400_000;
    }
    let (json, lines) = probed(&segments, &[]);
    assert_eq!(json["times_set_back"], 1);
    // Ten before, both, those that were late until it was sure, and ten behind.
    assert!(lines.len() <= 10 + 2 + 64 + 10, "{}", lines.len());
    let packets = |line: &Value| line["packets"].as_u64().unwrap();
    assert_eq!(lines.iter().map(packets).sum::<u64>(), 1000);
    let behind: Vec<u64> = lines
        .iter()
        .map(packets)
        .filter(|count| *count > 60)
        .collect();
    assert_eq!(behind.len(), 10, "{behind:?}");
}

#[test]
fn a_clock_that_jumps_for_all_ends_each_flow_once() {
    let mut segments = steady();
    let jump_ms = 3_600_000;
    segments[500..]
        .iter_mut()
        .for_each(|segment| segment.time_ms += jump_ms);
    let (json, lines) = probed(&segments, &[]);
    assert_eq!(
        (&json["times_disbelieved"], &json["out_of_order"]),
        (&0.into(), &0.into())
    );
    assert_eq!(lines.len(), 20);
    assert!(lines.iter().all(|line| line["packets"] == 50));
    let by_reason = by(&lines, "end_reason");
    assert_eq!(
        (
            by_reason["idle_timeout"].len(),
            by_reason["forced_end"].len()
        ),
        (10, 10)
    );
}

/// Packets change places over up to 64 of them; the count of those that are late is that of a walk through the capture.
#[test]
fn packets_out_of_order_are_counted_with_their_own_times() {
    let mut segments = steady();
    let mut seed = 7_u64;
    for at in 0..segments.len() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = (at + (seed >> 58) as usize).min(segments.len() - 1);
        segments.swap(at, other);
    }
    let (mut latest, mut late) = (0, 0);
    for segment in &segments {
        late += u64::from(segment.time_ms < latest);
        latest = latest.max(segment.time_ms);
    }
    assert!(late > 300, "{late}");
    let (json, lines) = probed(&segments, &[]);
    assert_eq!(json["out_of_order"], late, "{json}");
    assert_eq!(lines.len(), 10);
    for (n, host) in (0..10_u64).map(|n| (n, format!("10.0.0.{n}"))) {
        let line = by(&lines, "src")[&host][0].clone();
        let time = |n: u64| (BEGIN_MS + 10 * n) * 1_000_000;
        assert_eq!(
            (&line["start_ns"], &line["end_ns"]),
            (&time(n).into(), &time(990 + n).into())
        );
        assert_eq!(line["packets"], 100);
    }
}
