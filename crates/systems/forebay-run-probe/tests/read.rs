//! A capture through the whole probe: what its records say against what was written into it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::path::Path;

use forebay_ledger::Leak;
use forebay_run::{Host, Stop, System};
use forebay_run_probe::config::{OffloadChoice, ProbeSettings};
use forebay_run_probe::hops::PROBE;
use forebay_run_probe::{ProbePlan, ProbeRecord};
use forebay_wire::ipfix::{Messages, SetKind, TemplateCache};
use forebay_wire::pcap::{file_header, packet_header};

const SECOND_NS: u64 = 1_000_000_000;
const ETHERNET: u32 = 1;
/// Octets of the IP packet of each frame.
const OCTETS: u64 = 30;

/// A datagram of UDP from a port.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, OCTETS as u8, 0, 7, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0x13, 0x88, 0, 10, 0, 0, b'h', b'i']);
    frame
}

/// A frame that carries no IP packet.
fn other() -> Vec<u8> {
    let mut frame = frame(1);
    frame[12..14].copy_from_slice(&[8, 6]);
    frame
}

fn write(path: &Path, frames: &[(u64, Vec<u8>)]) {
    let mut bytes = file_header(ETHERNET, 65_535).to_vec();
    for (time_ns, frame) in frames {
        let length = frame.len() as u32;
        bytes.extend(packet_header(*time_ns, length, length));
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

/// Packets by the port of their sender, and why their flows ended.
type Found = BTreeMap<u64, (u64, Vec<String>)>;

/// What a probe says of these frames, and what the records of each of its two exporters have.
fn probed(
    frames: &[(u64, Vec<u8>)],
    leak: &str,
    settings: ProbeSettings,
) -> (ProbeRecord, [Found; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("it.pcap"), frames);
    let outputs = ["a.jsonl", "b.jsonl"].map(path);
    let export = |path: &std::path::PathBuf| path.display().to_string().parse().unwrap();
    let plan = ProbePlan {
        read: path("it.pcap"),
        out: None,
        settings: ProbeSettings {
            export: outputs.iter().map(export).collect(),
            ..settings
        },
    };
    let leak = match leak {
        "" => Leak::off(),
        leak => Leak::parse(leak, PROBE).unwrap(),
    };
    let host = Host::new(Stop::of_library().unwrap(), leak, ());
    let record = plan.run(&host).unwrap();
    let found = outputs.map(|path| {
        let mut found = Found::new();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let number = |key: &str| line[key].as_u64().unwrap();
            let (packets, ends) = found.entry(number("src_port")).or_default();
            *packets += number("packets");
            ends.push(line["end_reason"].as_str().unwrap().to_owned());
        }
        found
    });
    (record, found)
}

#[test]
fn what_is_over_in_a_silence_is_in_records_at_its_time_and_none_is_lost() {
    let ports = 1..=20_000;
    let mut frames: Vec<_> = ports.clone().map(|port| (SECOND_NS, frame(port))).collect();
    frames.extend([(9_000 * SECOND_NS, frame(1)), (9_001 * SECOND_NS, frame(1))]);
    let settings = ProbeSettings {
        queue_flows: 256,
        ..ProbeSettings::default()
    };
    let (record, found) = probed(&frames, "", settings);
    assert!(record.is_closed());
    let said = &record.summary;
    assert_eq!(
        [said.packets_in, said.octets_in, said.packets_exported],
        [20_002, 20_002 * OCTETS, 20_002]
    );
    assert_eq!(said.flows_exported, 20_001);
    for export in &said.exports {
        assert_eq!((export.late_max_ns, export.flows_without_fields), (None, 0));
    }
    assert!(said.export_late_max_ns < SECOND_NS, "{said:?}");
    for found in &found {
        assert!(found.keys().copied().eq(ports.clone().map(u64::from)));
        // The flow of the end is forced to end.
        assert_eq!(
            found[&1],
            (3, vec!["idle_timeout".to_owned(), "forced_end".to_owned()])
        );
        assert!((2..=20_000).all(|port| found[&port] == (1, vec!["idle_timeout".to_owned()])));
    }
}

#[test]
fn time_goes_on_with_frames_that_are_in_no_record() {
    let at = |tenths: u64, frame| (tenths * SECOND_NS / 10, frame);
    // Refused, and filtered: of the packet behind each the time is before theirs.
    let frames = [
        at(100, frame(1)),
        at(101, frame(1)),
        at(103, other()),
        at(102, frame(1)),
        at(105, frame(2)),
        at(104, frame(1)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let settings = ProbeSettings {
        export_packets: Some(folder.path().join("passed.pcapng")),
        filter: vec!["drop src-port 2".parse().unwrap()],
        ..ProbeSettings::default()
    };
    let (record, found) = probed(&frames, "", settings);
    let said = &record.summary;
    assert!(record.is_closed());
    assert_eq!(
        [said.packets_in, said.packets_filtered, said.octets_filtered],
        [6, 1, OCTETS]
    );
    assert_eq!(said.out_of_order, 2);
    // Those that pass are in the file of packets, whole.
    let packets = said.export_packets.as_ref().unwrap();
    assert_eq!([packets.packets, packets.bytes], [4, 4 * (14 + OCTETS)]);
    for found in found {
        assert_eq!(
            found,
            Found::from([(1, (4, vec!["forced_end".to_owned()]))])
        );
    }
}

#[test]
fn what_is_counted_in_software_comes_back_and_is_collected_meanwhile() {
    let ms = SECOND_NS / 1_000;
    let frames: Vec<_> = (1..=5_000).map(|n| (n * ms, frame(1))).collect();
    let settings = ProbeSettings {
        offload: OffloadChoice::Software,
        offload_limit_packets: Some(100),
        ..ProbeSettings::default()
    };
    let (record, found) = probed(&frames, "", settings);
    let said = &record.summary;
    assert!(record.is_closed());
    let offload = said.offload.as_ref().unwrap();
    assert_eq!(
        [offload.frames, said.packets_in, said.packets_exported],
        [5_000; 3]
    );
    assert_eq!(offload.frames_counted, said.packets_offloaded);
    assert!(
        said.packets_offloaded > 4_800 && offload.collected > 0,
        "{offload:?}"
    );
    for found in found {
        assert_eq!(
            found,
            Found::from([(1, (5_000, vec!["forced_end".to_owned()]))])
        );
    }
}

/// What vanishes on its way to the first exporter alone, or to both.
#[test]
fn what_vanishes_lacks_where_it_vanished() {
    let frames: Vec<_> = (1..=600).map(|port| (SECOND_NS, frame(port))).collect();
    for (hop, lacking) in [
        ("packets", [2, 2]),
        ("records", [2, 2]),
        ("queue", [2, 2]),
        ("fan_out", [2, 0]),
        ("export", [2, 0]),
    ] {
        let (record, found) = probed(&frames, &format!("{hop}:2"), ProbeSettings::default());
        assert!(!record.is_closed(), "{hop}");
        let lacks = found.map(|found| 600 - found.len());
        assert_eq!(lacks, lacking, "{hop}");
        let written = [0, 1].map(|place| 600 - record.summary.exports[place].flows as usize);
        assert_eq!(written, lacking, "{hop}");
    }
}

/// Frames that are all late by more than the idle time-out: with the 64th of them time begins anew.
#[test]
fn a_capture_whose_time_goes_back_begins_its_time_anew() {
    let early = (0..5).map(|n| ((1_000 + n) * SECOND_NS, frame(1)));
    let late = (0..100).map(|n| (10 * SECOND_NS + n, frame(2)));
    let frames: Vec<_> = early.chain(late).collect();
    let (record, found) = probed(&frames, "", ProbeSettings::default());
    assert!(record.is_closed());
    assert_eq!(record.summary.times_set_back, 1);
    for found in found {
        let (packets, ends) = &found[&2];
        assert_eq!((*packets, found[&1].0), (100, 5));
        // 63 that each end the flow of the one before, and then a flow of all others.
        assert_eq!(ends.len(), 64, "{ends:?}");
    }
}

/// By as much as the idle time-out a frame may be late.
#[test]
fn frames_that_are_late_by_just_the_idle_time_out_are_on_time() {
    let settings = ProbeSettings::default();
    let late_ns = (1_000 - settings.idle_timeout_s) * SECOND_NS;
    for (late_ns, times) in [(late_ns, 0), (late_ns - 1, 1)] {
        let late = (0..100).map(|_| (late_ns, frame(2)));
        let early = [990, 995, 1_000].map(|second| (second * SECOND_NS, frame(1)));
        let frames: Vec<_> = early.into_iter().chain(late).collect();
        let (record, _) = probed(&frames, "", ProbeSettings::default());
        assert!(record.is_closed());
        assert_eq!(record.summary.times_set_back, times);
    }
}

/// Data records of a file of IPFIX with this template.
fn records(file: &Path, template: u16) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let mut cache = TemplateCache::new(16, 4096);
    let mut found = 0;
    for message in Messages::new(&bytes) {
        let message = message.unwrap();
        for set in message.sets() {
            match set.kind() {
                SetKind::Data(id) if id == template => {
                    let template = cache.template(message.header().domain, id).unwrap();
                    found += template.records(set.body()).count();
                }
                SetKind::Data(_) | SetKind::Reserved(_) => {}
                SetKind::Templates | SetKind::OptionsTemplates => {
                    for told in set.templates() {
                        let domain = message.header().domain;
                        cache.learn(domain, told.unwrap(), 0).unwrap();
                    }
                }
            }
        }
    }
    found
}

/// A run of less than a minute tells what was lost at its end, and at no other time.
#[test]
fn what_was_lost_is_told_once_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it.ipfix");
    let settings = ProbeSettings {
        export: vec![file.display().to_string().parse().unwrap()],
        ..ProbeSettings::default()
    };
    let path = folder.path().join("it.pcap");
    let frames: Vec<_> = (1..=1_000).map(|port| (SECOND_NS, frame(port))).collect();
    write(&path, &frames);
    let plan = ProbePlan {
        read: path,
        out: None,
        settings,
    };
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    assert!(plan.run(&host).unwrap().is_closed());
    // What the exporting process did not send has template 259, and flows of IPv4 have 256.
    assert_eq!(
        [259, 256].map(|template| records(&file, template)),
        [1, 1_000]
    );
}
