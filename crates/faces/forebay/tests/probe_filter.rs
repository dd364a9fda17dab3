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
    // The same from standard input, by a file of settings.
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
