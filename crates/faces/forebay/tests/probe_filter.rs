//! The packet filter of the flow probe: what rules match, discard and trim, held against a count of the capture's own bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rig::{Ended, forebay, start};
use serde_json::Value;
use tempfile::TempDir;

/// A packet as its bytes say: addresses, ports, protocol, octets.
#[derive(Clone, Copy, Debug)]
struct Plain {
    from: IpAddr,
    to: IpAddr,
    ports: Option<(u16, u16)>,
    protocol: u8,
    octets: u64,
}

/// The packets of a capture of Ethernet frames without options of IPv4 or IPv6.
fn packets(pcap: &Path) -> Vec<Plain> {
    let file = fs::read(pcap).unwrap();
    let (mut rest, mut all) = (&file[24..], Vec::new());
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let ip = &rest[16 + 14..16 + bytes];
        let number = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        let (from, to, protocol, octets, header) = if ip[0] >> 4 == 4 {
            let address = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).unwrap().into();
            (address(12), address(16), ip[9], number(2).into(), 20)
        } else {
            let address = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).unwrap().into();
            (
                address(8),
                address(24),
                ip[6],
                40 + u64::from(number(4)),
                40,
            )
        };
        let has_ports = protocol == 6 || protocol == 17;
        all.push(Plain {
            from,
            to,
            ports: has_ports.then(|| (number(header), number(header + 2))),
            protocol,
            octets,
        });
        rest = &rest[16 + bytes..];
    }
    all
}

fn captured(folder: &TempDir, args: &[&str]) -> (PathBuf, Vec<Plain>) {
    let profile =
        forebay_testing::root().join("crates/emulators/forebay-traffic/tests/profile.csv");
    let pcap = folder.path().join("it.pcap");
    let mut command = forebay();
    command.args(["emulate", "traffic", "--profile"]);
    command.arg(profile).arg("--pcap").arg(&pcap).args(args);
    let made = start(&mut command).end();
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    let packets = packets(&pcap);
    assert!(packets.len() > 900);
    (pcap, packets)
}

fn probe(pcap: &Path, args: &[&str]) -> Ended {
    let mut command = forebay();
    command.arg("probe").arg("--read").arg(pcap).args(args);
    start(command.args(["--format", "json"])).end()
}

fn volume<'a>(of: impl Iterator<Item = &'a Plain>) -> [u64; 2] {
    of.fold([0, 0], |[packets, octets], packet| {
        [packets + 1, octets + packet.octets]
    })
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

const RULES: [&str; 5] = [
    "pass src 10.0.0.0/8 dst-port 443 tcp",
    "drop port 443",
    "drop net 2001:db8:1::/48 icmp6",
    "sample 1/7 icmp",
    "trim 60 src-port 1024-65535 tcp",
];

fn is_in_ten(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(four) if four.octets()[0] == 10)
}

fn is_in_db8_1(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.segments()[..3] == [0x2001, 0xdb8, 1])
}

/// The place of the rule of [`RULES`] that a packet is for.
fn place(packet: &Plain) -> Option<usize> {
    let (from, to) = packet.ports.unwrap_or_default();
    match packet.protocol {
        6 if is_in_ten(packet.from) && to == 443 => Some(0),
        6 | 17 if from == 443 || to == 443 => Some(1),
        58 if is_in_db8_1(packet.from) || is_in_db8_1(packet.to) => Some(2),
        1 => Some(3),
        6 if from >= 1024 => Some(4),
        _ => None,
    }
}

/// Packets and octets by rule: matched and discarded. Those that none matched come last.
fn counted(packets: &[Plain]) -> [[[u64; 2]; 2]; 6] {
    std::array::from_fn(|at| {
        let own = packets
            .iter()
            .filter(|packet| place(packet).unwrap_or(RULES.len()) == at);
        let own: Vec<_> = own.collect();
        let discarded = own.iter().enumerate().filter(|(n, _)| match at {
            1 | 2 => true,
            3 => n % 7 != 0,
            _ => false,
        });
        let discarded = volume(discarded.map(|(_, packet)| *packet));
        [volume(own.into_iter()), discarded]
    })
}

#[test]
fn rules_count_what_the_bytes_of_the_capture_say() {
    let folder = TempDir::new().unwrap();
    let (pcap, packets) = captured(&folder, &[]);
    let counted = counted(&packets);
    assert!(
        counted.iter().all(|[matched, _]| matched[0] > 0),
        "{counted:?}"
    );
    let discarded: [u64; 2] =
        std::array::from_fn(|at| counted.iter().map(|[_, discarded]| discarded[at]).sum());
    let all = volume(packets.iter());
    let flags: Vec<&str> = RULES.iter().flat_map(|rule| ["--filter", rule]).collect();
    let (jsonl, out) = (folder.path().join("it.jsonl"), folder.path().join("out"));
    let (export, directory) = (jsonl.display().to_string(), out.display().to_string());
    let more = ["--export", &export, "--out", &directory];
    let json = probe(&pcap, &[&flags[..], &more].concat()).json_of(0);
    for (key, value) in [
        ("packets_in", all[0]),
        ("octets_in", all[1]),
        ("packets_filtered", discarded[0]),
        ("octets_filtered", discarded[1]),
        ("packets_exported", all[0] - discarded[0]),
        ("octets_exported", all[1] - discarded[1]),
        ("residual_packets", 0),
        ("residual_octets", 0),
    ] {
        assert_eq!(json[key], value, "{key}: {json}");
    }
    let lost = &json["drops"]["packets.filtered.all"];
    assert_eq!(
        (&lost["items"], &lost["bytes"]),
        (&discarded[0].into(), &discarded[1].into())
    );
    for (at, rule) in RULES.iter().enumerate() {
        let told = &json["filter"][at];
        let [matched, discarded] = counted[at];
        let right = serde_json::json!({
            "rule": rule, "packets": matched[0], "octets": matched[1],
            "packets_discarded": discarded[0], "octets_discarded": discarded[1],
            "packets_trimmed": told["packets_trimmed"],
        });
        assert_eq!(*told, right);
        assert_eq!(told["packets_trimmed"] != 0, at == 4, "{told}");
    }
    // A line for each flow that passed, and none of what was dropped.
    for line in lines(&jsonl) {
        let is_web = line["src_port"] == 443 || line["dst_port"] == 443;
        assert!(!is_web || line["protocol"] == 6, "{line}");
        assert_ne!(line["protocol"], 58, "{line}");
    }
    rig::assert_closed(&json, &out);
    // The same by a file of settings.
    let rules: Vec<String> = RULES.iter().map(|rule| format!("{rule:?}")).collect();
    let file = format!(
        "[probe]\nread = \"it.pcap\"\nfilter = [{}]\ndirectory = \"books\"\n",
        rules.join(", ")
    );
    fs::write(folder.path().join("probe.toml"), file).unwrap();
    let mut command = forebay();
    command.current_dir(folder.path());
    let by_file = start(command.args(["run", "probe.toml", "--format", "json"]))
        .end()
        .json_of(0);
    assert_eq!(by_file["filter"], json["filter"]);
}

/// What is trimmed has its whole octets in its record, and its first bytes alone for plugins.
#[test]
fn plugins_see_what_is_left_of_a_trimmed_packet() {
    let folder = TempDir::new().unwrap();
    let (pcap, packets) = captured(&folder, &[]);
    let mut sums = Vec::new();
    for rule in ["pass", "trim 80", "trim 0"] {
        let jsonl = folder.path().join(format!("{rule}.jsonl"));
        let export = jsonl.display().to_string();
        let args = [
            "--filter",
            rule,
            "--plugins",
            "entropy",
            "--export",
            &export,
        ];
        let json = probe(&pcap, &args).json_of(0);
        assert_eq!(json["octets_exported"], volume(packets.iter())[1], "{json}");
        let of = |key: &str| -> u64 {
            let lines = lines(&jsonl);
            lines.iter().filter_map(|line| line[key].as_u64()).sum()
        };
        sums.push(of("entropy_bytes") + of("entropy_bytes_rev"));
    }
    assert!(sums[0] > 2 * sums[1] && sums[1] > 0, "{sums:?}");
    assert_eq!(sums[2], 0);
}

#[test]
fn a_mistake_in_a_rule_is_told_with_its_place_and_its_remedy() {
    let folder = TempDir::new().unwrap();
    let told = probe(Path::new("none.pcap"), &["--filter", "drop src 10.0.0.1/8"]);
    assert_eq!(told.code(), Some(2), "{}", told.stdout);
    for part in ["--filter", "drop src 10.0.0.1/8", "write 10.0.0.0/8"] {
        assert!(told.stderr.contains(part), "{part}: {}", told.stderr);
    }
    let file =
        "[probe]\nread = \"it.pcap\"\nfilter = [\n  \"drop tcp\",\n  \"drop port 70000\",\n]\n";
    fs::write(folder.path().join("probe.toml"), file).unwrap();
    let mut command = forebay();
    command.current_dir(folder.path());
    let told = start(command.args(["check", "probe.toml"])).end();
    let all = told.stdout.clone() + &told.stderr;
    for part in ["probe.toml:5", "filter", "70000", "0 to 65535"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    // More than are tried one after the other.
    let many: Vec<String> = (0..257).map(|port| format!("drop port {port}")).collect();
    let flags: Vec<&str> = many.iter().flat_map(|rule| ["--filter", rule]).collect();
    let (pcap, _) = captured(&folder, &[]);
    let told = probe(&pcap, &flags);
    assert_eq!(told.code(), Some(2));
    assert!(told.stderr.contains("from 0 to 256"), "{}", told.stderr);
}

/// What passes a filter and vanishes is found, and so is a rule's count that is not what was discarded.
#[test]
fn packets_that_vanish_behind_the_filter_are_found() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(&folder, &[]);
    let mut command = forebay();
    command.arg("probe").arg("--read").arg(&pcap);
    command.args(["--filter", "drop udp", "--format", "json"]);
    let json = start(command.env("FOREBAY_LEAK", "packets:3"))
        .end()
        .json_of(1);
    assert_eq!(json["residual_packets"], 3, "{json}");
}

/// A packet of a pcapng file: captured and wire bytes, what its comment says, and its queue.
struct Exported {
    wire_bytes: u32,
    bytes: Vec<u8>,
    comment: String,
    queue: u32,
}

/// The packets of a little-endian file with times in ns, read by its lengths.
fn exported(path: &Path) -> Vec<Exported> {
    let file = fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let (mut at, mut all) = (0, Vec::new());
    while at < file.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length);
        if word(at) == 6 {
            let captured = word(at + 20) as usize;
            let mut packet = Exported {
                wire_bytes: word(at + 24),
                bytes: file[at + 28..at + 28 + captured].to_vec(),
                comment: String::new(),
                queue: u32::MAX,
            };
            let mut option = at + 28 + captured.next_multiple_of(4);
            while half(option) != 0 {
                let value = option + 4;
                let bytes = half(option + 2);
                match half(option) {
                    1 => {
                        packet.comment =
                            String::from_utf8(file[value..value + bytes].to_vec()).unwrap()
                    }
                    6 => packet.queue = word(value),
                    other => panic!("option {other}"),
                }
                option = value + bytes.next_multiple_of(4);
            }
            assert_eq!(option + 8, at + length);
            all.push(packet);
        }
        at += length;
    }
    all
}

/// The frames of a capture of pcap.
fn frames(pcap: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(pcap).unwrap();
    let (mut rest, mut all) = (&file[24..], Vec::new());
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        all.push(rest[16..16 + bytes].to_vec());
        rest = &rest[16 + bytes..];
    }
    all
}

#[test]
fn packets_that_pass_are_exported_with_what_is_known_of_them() {
    let folder = TempDir::new().unwrap();
    let (pcap, packets) = captured(&folder, &[]);
    let frames = frames(&pcap);
    let (file, out) = (folder.path().join("it.pcapng"), folder.path().join("out"));
    let (to, directory) = (file.display().to_string(), out.display().to_string());
    let args = [
        "--filter",
        "drop udp",
        "--filter",
        "trim 80 tcp",
        "--export-packets",
        &to,
        "--out",
        &directory,
    ];
    let json = probe(&pcap, &args).json_of(0);
    let exported = exported(&file);
    let passing = packets
        .iter()
        .zip(&frames)
        .filter(|(packet, _)| packet.protocol != 17);
    let passing: Vec<_> = passing.collect();
    assert_eq!(exported.len(), passing.len());
    let mut by_flow = std::collections::HashMap::new();
    for (exported, (packet, frame)) in exported.iter().zip(&passing) {
        let is_trimmed = packet.protocol == 6 && frame.len() > 80;
        let right = if is_trimmed { &frame[..80] } else { &frame[..] };
        assert_eq!(exported.bytes, right);
        assert_eq!(
            (exported.wire_bytes as usize, exported.queue),
            (frame.len(), 0)
        );
        let mut words = exported.comment.split(' ');
        let flow = words.next().unwrap().strip_prefix("flow=").unwrap();
        let rule = (packet.protocol == 6).then_some("rule=2");
        let trimmed = is_trimmed.then(|| format!("trimmed_from={}", frame.len()));
        assert!(
            words.eq(rule.into_iter().chain(trimmed.as_deref())),
            "{}",
            exported.comment
        );
        // One number for both directions, and another for each flow.
        let ports = packet.ports.unwrap_or_default();
        let mut ends = [(packet.from, ports.0), (packet.to, ports.1)];
        ends.sort();
        let same = by_flow.entry((ends, packet.protocol)).or_insert(flow);
        assert_eq!(*same, flow);
    }
    let numbers: std::collections::HashSet<_> = by_flow.values().collect();
    assert_eq!(numbers.len(), by_flow.len());
    let told = &json["export_packets"];
    let bytes: usize = exported.iter().map(|packet| packet.bytes.len()).sum();
    assert_eq!(
        (&told["packets"], &told["bytes"]),
        (&exported.len().into(), &bytes.into())
    );
    rig::assert_closed(&json, &out);
    // A second reader, of another project, says the same of the file: its records are those of the packets.
    let again = probe(&file, &["--export", "none"]).json_of(0);
    let all = volume(passing.iter().map(|(packet, _)| *packet));
    assert_eq!(
        (&again["packets_exported"], &again["octets_exported"]),
        (&all[0].into(), &all[1].into())
    );
}

#[test]
fn a_rule_says_which_packets_are_exported() {
    let folder = TempDir::new().unwrap();
    let (pcap, packets) = captured(&folder, &[]);
    let file = folder.path().join("it.pcapng");
    let to = file.display().to_string();
    let args = ["--filter", "export 64 udp", "--export-packets", &to];
    let json = probe(&pcap, &args).json_of(0);
    let udp = packets
        .iter()
        .filter(|packet| packet.protocol == 17)
        .count();
    let exported = exported(&file);
    assert_eq!(exported.len(), udp);
    assert!(exported.iter().all(|packet| packet.bytes.len() <= 64));
    assert_eq!(json["packets_exported"], packets.len(), "{json}");
    // Without a file for them, and with one that is there.
    let told = probe(&pcap, &args[..2]);
    assert_eq!(told.code(), Some(2));
    assert!(
        told.stderr.contains("--export-packets FILE.pcapng"),
        "{}",
        told.stderr
    );
    let told = probe(&pcap, &args[2..]);
    assert_eq!(told.code(), Some(2));
    assert!(
        told.stderr.contains("give --export-packets another name"),
        "{}",
        told.stderr
    );
}

#[test]
fn packets_that_vanish_on_their_way_to_the_file_are_found() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(&folder, &[]);
    let mut command = forebay();
    command
        .arg("probe")
        .arg("--read")
        .arg(&pcap)
        .args(["--format", "json"]);
    command
        .arg("--export-packets")
        .arg(folder.path().join("it.pcapng"));
    let json = start(command.env("FOREBAY_LEAK", "packet_queue:2"))
        .end()
        .json_of(1);
    assert_eq!(json["residual_items"], 2, "{json}");
}

/// What a full disk does not take is lost by name, and records are not.
#[test]
fn packets_for_a_full_device_are_counted_as_not_written() {
    let folder = TempDir::new().unwrap();
    let (pcap, packets) = captured(&folder, &[]);
    let full = folder.path().join("it.pcapng.part");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let file = folder.path().join("it.pcapng").display().to_string();
    let json = probe(&pcap, &["--export-packets", &file]).json_of(2);
    assert_eq!(
        rig::dropped_in_all(&json, "packet_file.not_written"),
        packets.len() as u64,
        "{json}"
    );
    assert_eq!(json["packets_exported"], packets.len());
    assert_eq!(
        (&json["residual_items"], &json["reason"]),
        (&0.into(), &"write_failed".into())
    );
}
