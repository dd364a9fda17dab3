//! The flow probe: what it says of captures, held against what was made.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;
mod small_disk;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rig::nfcapd::Nfcapd;
use rig::{Ended, forebay, start};
use serde_json::Value;
use small_disk::on_small_disk;
use tempfile::TempDir;

/// One direction between two ends: addresses, ports, protocol.
type Way = (String, String, u64, u64, u64);
/// Packets and octets.
type Volume = [u64; 2];

/// Makes the capture of a profile that has flows of all kinds, and its truth.
fn captured(folder: &Path, args: &[&str]) -> (PathBuf, BTreeMap<Way, Volume>) {
    let profile =
        forebay_testing::root().join("crates/emulators/forebay-traffic/tests/profile.csv");
    let (pcap, truth) = (folder.join("it.pcap"), folder.join("truth.csv"));
    let mut command = forebay();
    command.args(["emulate", "traffic", "--format", "json", "--profile"]);
    command.arg(profile).arg("--pcap").arg(&pcap);
    let json = start(command.arg("--truth").arg(&truth).args(args))
        .end()
        .json_of(0);
    let text = fs::read_to_string(&truth).unwrap();
    let ways = ways(text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').skip(1).collect();
        let number = |at: usize| cells[at].parse().unwrap();
        let ends = (cells[0].to_owned(), cells[1].to_owned());
        (ends, std::array::from_fn(|at| number(at + 2)))
    }));
    let packets: u64 = ways.values().map(|volume| volume[0]).sum();
    assert!(packets > 900 && json["packets"] == packets, "{json}");
    (pcap, ways)
}

/// What went each way, of rows with two ends, two ports, a protocol, and packets and octets both ways.
fn ways(rows: impl Iterator<Item = ((String, String), [u64; 7])>) -> BTreeMap<Way, Volume> {
    let mut ways: BTreeMap<Way, Volume> = BTreeMap::new();
    for ((from, to), [port, other, protocol, packets, octets, back, octets_back]) in rows {
        let there = (from.clone(), to.clone(), port, other, protocol);
        let back_way = (to, from, other, port, protocol);
        for (way, volume) in [(there, [packets, octets]), (back_way, [back, octets_back])] {
            let sum = ways.entry(way).or_default();
            sum.iter_mut()
                .zip(volume)
                .for_each(|(sum, more)| *sum += more);
        }
    }
    ways.retain(|_, volume| volume[0] > 0);
    ways
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ways_of_lines(lines: &[Value]) -> BTreeMap<Way, Volume> {
    let keys = [
        "src_port",
        "dst_port",
        "protocol",
        "packets",
        "octets",
        "packets_rev",
        "octets_rev",
    ];
    ways(lines.iter().map(|line| {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let numbers = keys.map(|key| line[key].as_u64().unwrap());
        ((text("src"), text("dst")), numbers)
    }))
}

fn probe(pcap: &Path, args: &[&str]) -> Ended {
    let mut command = forebay();
    command.arg("probe").arg("--read").arg(pcap).args(args);
    start(command.args(["--format", "json"])).end()
}

fn in_folder(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// What a capture has each way, by its own bytes: classic pcap of Ethernet, little-endian, IP without fragments.
fn ways_of_bytes(pcap: &Path) -> BTreeMap<Way, Volume> {
    let bytes = fs::read(pcap).unwrap();
    let mut rest = &bytes[24..];
    let mut ways: BTreeMap<Way, Volume> = BTreeMap::new();
    while let Some((head, more)) = rest.split_first_chunk::<16>() {
        let [.., c0, c1, c2, c3, _, _, _, _] = *head;
        let (frame, more) = more.split_at(u32::from_le_bytes([c0, c1, c2, c3]) as usize);
        rest = more;
        let short = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (kind, ip) = match short(frame, 12) {
            0x8100 => (short(frame, 16), &frame[18..]),
            kind => (kind, &frame[14..]),
        };
        let (ends, octets, protocol, body) = match kind {
            0x0800 => {
                let end = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).unwrap();
                let ends = [end(12), end(16)].map(|end| Ipv4Addr::from(end).to_string());
                let header = usize::from(ip[0] & 15) * 4;
                (ends, u64::from(short(ip, 2)), ip[9], &ip[header..])
            }
            0x86dd => {
                let end = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).unwrap();
                let ends = [end(8), end(24)].map(|end| Ipv6Addr::from(end).to_string());
                (ends, 40 + u64::from(short(ip, 4)), ip[6], &ip[40..])
            }
            other => panic!("a frame of kind {other:#06x}"),
        };
        let port = |at: usize| match protocol {
            6 | 17 | 132 => u64::from(short(body, at)),
            _ => 0,
        };
        let [from, to] = ends;
        let way = (from, to, port(0), port(2), protocol.into());
        let sum = ways.entry(way).or_default();
        *sum = [sum[0] + 1, sum[1] + octets];
    }
    ways
}

/// A profile of FlowTest's form, of another maker: each 12th or 60th of its rows, or all of them where its folder is named.
fn profile(name: &str) -> PathBuf {
    let all = std::env::var_os("FOREBAY_VECTORS").map(PathBuf::from);
    let folder = all.map(|all| all.join("flow"));
    let own = || forebay_testing::root().join("crates/faces/forebay/tests/profiles");
    folder.unwrap_or_else(own).join(name)
}

#[test]
fn records_of_profiles_of_another_maker_are_what_the_bytes_have() {
    let folder = TempDir::new().unwrap();
    for name in ["geant-like-morning.csv", "nix-like-morning.csv"] {
        let pcap = folder.path().join("it.pcap");
        let mut command = forebay();
        command.args(["emulate", "traffic", "--format", "json", "--profile"]);
        command.arg(profile(name)).args(["--snap", "128"]);
        let made = start(command.arg("--pcap").arg(&pcap)).end().json_of(0);
        let ways = ways_of_bytes(&pcap);
        let sum = |at: usize| ways.values().map(|volume| volume[at]).sum::<u64>();
        assert!(sum(0) > 20_000 && made["packets"] == sum(0), "{made}");
        for offload in ["off", "software"] {
            let jsonl = in_folder(&folder, "flows.jsonl");
            let mut args = vec!["--export", &*jsonl, "--offload", offload];
            let collector = Nfcapd::start(&folder.path().join(offload));
            let address = collector
                .as_ref()
                .map(|it| format!("ipfix+udp://127.0.0.1:{}", it.port));
            args.extend(address.iter().flat_map(|address| ["--export", address]));
            let json = probe(&pcap, &args).json_of(0);
            assert!(
                ways_of_lines(&lines(Path::new(&jsonl))) == ways,
                "{name} {offload}: {json}"
            );
            let offloaded = json["packets_offloaded"].as_u64().unwrap();
            assert_eq!(offloaded > 0, offload == "software", "{name}: {json}");
            for key in ["residual_packets", "residual_octets"] {
                assert_eq!(json[key], 0, "{json}");
            }
            if let Some(collector) = collector {
                let told = collector.end();
                assert_eq!(told.number("Packets:"), sum(0), "{}", told.0);
                assert_eq!(told.number("Bytes:"), sum(1), "{}", told.0);
                assert_eq!(told.number("Sequence failures:"), 0, "{}", told.0);
            }
            fs::remove_dir_all(folder.path().join(offload)).unwrap_or(());
            fs::remove_file(&jsonl).unwrap();
        }
        fs::remove_file(&pcap).unwrap();
    }
}

#[test]
fn traffic_that_is_made_in_the_probe_is_that_of_a_capture() {
    let folder = TempDir::new().unwrap();
    let pcap = folder.path().join("traffic.pcap");
    let mut command = forebay();
    command.args(["emulate", "traffic", "--profile", "nix-like-night"]);
    command.args(["--packets", "20k", "--seed", "3", "--format", "json"]);
    start(command.arg("--pcap").arg(&pcap)).end().json_of(0);
    let [of_file, of_profile] = [&pcap, Path::new("traffic:nix-like-night:20000:3")].map(|read| {
        let jsonl = in_folder(&folder, "flows.jsonl");
        let json = probe(read, &["--export", &jsonl, "--plugins", "pstats,dns"]).json_of(0);
        assert_eq!(json["packets_in"], 20_000, "{json}");
        let text = fs::read_to_string(&jsonl).unwrap();
        fs::remove_file(&jsonl).unwrap();
        text
    });
    assert!(of_file == of_profile);
    assert!(of_file.lines().count() > 100);
}

#[test]
fn traffic_that_there_is_not_is_named() {
    for read in ["traffic:night", "traffic:nix-like-night:10"] {
        let ended = probe(Path::new(read), &[]);
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("the profiles are"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn the_records_of_a_capture_are_what_its_maker_says() {
    let folder = TempDir::new().unwrap();
    for (n, args) in [
        &[][..],
        &["--snap", "96"],
        &["--small-packets", "--seed", "7"],
    ]
    .into_iter()
    .enumerate()
    {
        let own = folder.path().join(n.to_string());
        fs::create_dir(&own).unwrap();
        let (pcap, truth) = captured(&own, args);
        let sum = |at: usize| truth.values().map(|volume| volume[at]).sum::<u64>();
        for uniflow in ["off", "on"] {
            let jsonl = own.join(format!("{uniflow}.jsonl"));
            let out = own.join(uniflow);
            let export = jsonl.display().to_string();
            let directory = out.display().to_string();
            let args = [
                "--export",
                &export,
                "--uniflow",
                uniflow,
                "--out",
                &directory,
            ];
            let json = probe(&pcap, &args).json_of(0);
            for (key, value) in [
                ("packets_in", sum(0)),
                ("packets_exported", sum(0)),
                ("octets_in", sum(1)),
                ("octets_exported", sum(1)),
                ("packets_offloaded", 0),
                ("residual_packets", 0),
                ("residual_octets", 0),
            ] {
                assert_eq!(json[key], value, "{key}: {json}");
            }
            let lines = lines(&jsonl);
            assert_eq!(json["flows_exported"], lines.len(), "{json}");
            assert_eq!(ways_of_lines(&lines), truth);
            let one_way = lines.iter().all(|line| line["packets_rev"] == 0);
            assert_eq!(one_way, uniflow == "on");
            rig::assert_closed(&json, &out);
        }
    }
}

/// Flows of a capture of 4 s with time-outs below that, and of one that is longer than the active time-out.
#[test]
fn flows_end_by_their_time_outs_and_say_so() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    let jsonl = in_folder(&folder, "short.jsonl");
    let args = ["--idle-timeout", "1s", "--active-timeout", "2s"];
    let export = ["--export", &jsonl];
    let json = probe(&pcap, &[&args[..], &export].concat()).json_of(0);
    let lines = lines(Path::new(&jsonl));
    assert_eq!(ways_of_lines(&lines), truth, "{json}");
    let ended = |why: &str| {
        lines
            .iter()
            .filter(|line| line["end_reason"] == why)
            .count()
    };
    for why in [
        "idle_timeout",
        "active_timeout",
        "end_of_flow",
        "forced_end",
    ] {
        assert!(ended(why) > 0, "{why}");
    }
    for line in &lines {
        let time = |key: &str| line[key].as_u64().unwrap();
        let lasted_ns = time("end_ns") - time("start_ns");
        assert!(lasted_ns <= 2_000_000_000, "{line}");
    }
}

#[test]
fn a_table_that_is_too_small_loses_no_packet() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    for eviction in ["oldest", "line-lru"] {
        let jsonl = in_folder(&folder, &format!("{eviction}.jsonl"));
        let args = ["--flows", "16", "--eviction", eviction, "--export", &jsonl];
        let json = probe(&pcap, &args).json_of(0);
        let lines = lines(Path::new(&jsonl));
        assert_eq!(ways_of_lines(&lines), truth, "{json}");
        let evicted = lines
            .iter()
            .filter(|line| line["end_reason"] == "lack_of_resources");
        assert!(evicted.count() > 0, "{eviction}");
    }
}

/// A collector of another project over UDP, which has the same totals.
#[test]
fn nfcapd_has_the_same_totals() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    for uniflow in ["off", "on"] {
        let flows = folder.path().join(format!("nfcapd-{uniflow}"));
        let Some(collector) = Nfcapd::start(&flows) else {
            return;
        };
        let address = format!("ipfix+udp://127.0.0.1:{}", collector.port);
        let json = probe(&pcap, &["--export", &address, "--uniflow", uniflow]).json_of(0);
        let told = collector.end();
        let number = |key: &str| told.number(key);
        // Of a flow both ways nfdump adds up one way by protocol.
        let protocols: &[_] = if uniflow == "on" {
            &[None, Some((6, "tcp")), Some((17, "udp"))]
        } else {
            &[None]
        };
        for protocol in protocols {
            let of = truth
                .iter()
                .filter(|(way, _)| protocol.is_none_or(|(of, _)| way.4 == of));
            let volumes: Vec<&Volume> = of.map(|(_, volume)| volume).collect();
            let end = protocol.map_or(":".to_owned(), |(_, name)| format!("_{name}:"));
            for (at, what) in ["Packets", "Bytes"].iter().enumerate() {
                let sum: u64 = volumes.iter().map(|volume| volume[at]).sum();
                assert_eq!(number(&format!("{what}{end}")), sum, "{}", told.0);
            }
        }
        assert_eq!(json["flows_exported"], number("Flows:"), "{}", told.0);
        assert_eq!(number("Sequence failures:"), 0);
    }
}

#[test]
fn a_collector_that_is_not_there_is_told_over_tcp_and_counted_over_udp() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(folder.path(), &[]);
    // Port 1 is nobody's.
    let free = "127.0.0.1:1";
    let told = probe(&pcap, &["--export", &format!("ipfix+tcp://{free}")]);
    assert_eq!(told.code(), Some(2), "{}", told.stdout);
    assert!(
        told.stderr.contains("where a collector listens"),
        "{}",
        told.stderr
    );
    let args = [
        "--export",
        &format!("ipfix+udp://{free}"),
        "--active-timeout",
        "1s",
    ];
    let json = probe(&pcap, &args).json_of(0);
    let lost = rig::dropped_in_all(&json, "export.not_written");
    let flows = json["flows_exported"].as_u64().unwrap();
    // What was sent before the host said that nobody listens is lost, and nobody knows it.
    assert!(lost > 0 && flows > 0, "{json}");
    assert!(rig::taint(&json).starts_with("peer_lost: "), "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn packets_and_records_that_vanish_are_found() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(folder.path(), &[]);
    for hop in ["packets", "records"] {
        let mut command = forebay();
        command
            .arg("probe")
            .arg("--read")
            .arg(&pcap)
            .args(["--format", "json"]);
        let json = start(command.env("FOREBAY_LEAK", format!("{hop}:2")))
            .end()
            .json_of(1);
        assert!(
            json["residual_packets"].as_u64() >= Some(2),
            "{hop}: {json}"
        );
        assert_eq!(json["condition"], "tainted");
    }
}

#[test]
fn a_capture_that_breaks_off_keeps_what_was_before() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    let bytes = fs::read(&pcap).unwrap();
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    let json = probe(&cut, &[]).json_of(0);
    let all: u64 = truth.values().map(|volume| volume[0]).sum();
    assert_eq!(json["packets_exported"], all - 1, "{json}");
    let taint = rig::taint(&json);
    assert!(
        taint.starts_with("capture_broken: ") && taint.contains("cut.pcap"),
        "{taint}"
    );
    // Nothing of it can be read.
    for (text, wrong) in [
        ("no capture at all, whatever its name", "not a capture"),
        ("", "cut.pcap: it is empty (0 bytes)"),
    ] {
        fs::write(&cut, text).unwrap();
        let told = probe(&cut, &[]);
        assert_eq!(told.code(), Some(2), "{}", told.stdout);
        assert!(
            told.stderr.contains(wrong) && told.stderr.contains("cut.pcap"),
            "{}",
            told.stderr
        );
    }
    for (name, wrong) in [("none.pcap", "No such file"), (".", "Is a directory")] {
        let told = probe(&folder.path().join(name), &[]);
        assert_eq!(told.code(), Some(2));
        assert!(
            told.stderr.contains(name) && told.stderr.contains(wrong),
            "{}",
            told.stderr
        );
    }
}

/// Frames that are of no flow, by reason, beside one that is.
#[test]
fn packets_of_no_flow_are_counted_by_reason() {
    let folder = TempDir::new().unwrap();
    let pcap = folder.path().join("bad.pcap");
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    for field in [0_u32, 0, 65_535, 1] {
        file.extend(field.to_le_bytes());
    }
    let mut put = |frame: &[u8], wire: usize| {
        for field in [1_u32, 0, frame.len() as u32, wire as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
    };
    let ethernet = |kind: [u8; 2], rest: &[u8]| [&[0; 12][..], &kind, rest].concat();
    let datagram = [
        0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3,
        0x51, 0, 10, 0, 0, b'h', b'i',
    ];
    let good = ethernet([8, 0], &datagram);
    put(&good, good.len());
    // ARP, 28 octets behind the link header.
    put(&ethernet([8, 6], &[0; 28]), 42);
    // Cut within its addresses, of 1,500 octets.
    put(&good[..30], 1_514);
    // A header of 12 bytes.
    let mut wrong = good.clone();
    wrong[14] = 0x43;
    put(&wrong, good.len());
    // Its length is beyond the frame.
    wrong[14..18].copy_from_slice(&[0x45, 0, 9, 0]);
    put(&wrong, good.len());
    fs::write(&pcap, &file).unwrap();
    let json = probe(&pcap, &[]).json_of(0);
    // A link that is not read (802.11).
    let other = folder.path().join("other.pcap");
    file[20..24].copy_from_slice(&105_u32.to_le_bytes());
    fs::write(&other, &file).unwrap();
    let of_other = probe(&other, &[]).json_of(0);
    let of_link = &of_other["drops"]["packets.link_type.all"];
    assert_eq!(
        (&of_link["items"], &of_link["bytes"]),
        (&5.into(), &1_688.into()),
        "{of_other}"
    );
    let lost = |why: &str| {
        let lost = &json["drops"][format!("packets.{why}.all")];
        [&lost["items"], &lost["bytes"]].map(|count| count.as_u64().unwrap())
    };
    assert_eq!(lost("not_ip"), [1, 28], "{json}");
    assert_eq!(lost("truncated"), [1, 1_500], "{json}");
    assert_eq!(lost("malformed"), [2, 60], "{json}");
    assert_eq!(
        (&json["packets_in"], &json["packets_exported"]),
        (&5.into(), &1.into())
    );
    assert_eq!(
        (&json["octets_in"], &json["octets_exported"]),
        (&1_618.into(), &30.into())
    );
}

/// The record of a probe whose file `name` finds no room on its disk; all that came in is in it, and its books close. None where there can be no small disk.
fn on_full_disk(name: &str, args: &[&str]) -> Option<Value> {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let mut command = forebay();
    command
        .arg("probe")
        .arg("--read")
        .arg(&pcap)
        .arg("--export");
    command.arg(small.join(name)).args(args);
    let mut command = on_small_disk(command.args(["--format", "json"]), &small, 8 << 10)?;
    let json = start(&mut command).end().json_of(2);
    let lost = json["drops"]["export.not_written.exporter0"]["items"].as_u64();
    assert!(lost > Some(0), "{json}");
    assert!(json["failed"].as_str().unwrap().contains(name), "{json}");
    let all: u64 = truth.values().map(|volume| volume[0]).sum();
    assert_eq!(json["packets_in"], all);
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
    Some(json)
}

#[test]
fn records_that_find_no_room_on_the_disk_are_counted() {
    on_full_disk(
        "flows.jsonl",
        &["--uniflow", "on", "--active-timeout", "1s"],
    );
}

/// The cells of a table by their columns' names, as JSON has them; what is not there is left out.
type Cells = BTreeMap<String, Value>;

/// A table of CSV without quoted words.
fn csv(path: &Path) -> Vec<Cells> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().unwrap().collect();
    let cell = |(name, cell): (&&str, &str)| {
        let value = cell.parse::<u64>().map(Value::from);
        let value = value.or_else(|_| cell.parse::<f64>().map(Value::from));
        let value = value.unwrap_or_else(|_| cell.into());
        (!cell.is_empty()).then(|| ((*name).to_owned(), value))
    };
    lines
        .map(|cells| names.iter().zip(cells).filter_map(cell).collect())
        .collect()
}

/// A table of Parquet, read by the library that others read it with.
fn parquet(path: &Path) -> Vec<Cells> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let cell = |(name, field): &(String, Field)| {
        let value = match field {
            Field::Null => return None,
            Field::Long(number) => Value::from(*number),
            Field::Double(number) => Value::from(*number),
            Field::Str(word) if word.is_empty() => return None,
            Field::Str(word) => Value::from(word.as_str()),
            other => panic!("{name}: {other}"),
        };
        Some((name.clone(), value))
    };
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| row.into_columns().iter().filter_map(cell).collect())
        .collect()
}

/// A line of JSON as a table has it: lists are words with blanks between.
fn cells_of(line: &Value) -> Cells {
    let cell = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Array(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(Value::to_string).collect();
                match numbers.as_slice() {
                    [] => return None,
                    // A list of one number is read as that.
                    [one] => serde_json::from_str(one).unwrap(),
                    many => many.join(" ").into(),
                }
            }
            Value::Null => return None,
            other => other.clone(),
        };
        Some((name.clone(), value))
    };
    line.as_object().unwrap().iter().filter_map(cell).collect()
}

#[test]
fn tables_have_what_lines_of_json_have() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    let [jsonl, as_csv, as_parquet] =
        ["it.jsonl", "it.csv", "it.parquet"].map(|name| in_folder(&folder, name));
    let mut args = vec!["--plugins", "basic,pstats,entropy"];
    for export in [&jsonl, &as_csv, &as_parquet] {
        args.extend(["--export", export]);
    }
    let json = probe(&pcap, &args).json_of(0);
    let all: u64 = truth.values().map(|volume| volume[0]).sum();
    assert_eq!(json["packets_exported"], all, "{json}");
    let lines = lines(Path::new(&jsonl));
    assert!(lines.iter().any(|line| line["entropy_bits"].is_number()));
    let expected: Vec<Cells> = lines.iter().map(cells_of).collect();
    for (name, rows) in [
        ("csv", csv(Path::new(&as_csv))),
        ("parquet", parquet(Path::new(&as_parquet))),
    ] {
        assert_eq!(rows.len(), expected.len(), "{name}");
        for (row, expected) in rows.into_iter().zip(&expected) {
            // Of words that are numbers CSV does not say which they are.
            let same = row.iter().all(|(key, cell)| {
                let other = &expected[key];
                other == cell
                    || other.to_string().trim_matches('"') == cell.to_string().trim_matches('"')
            });
            assert!(
                same && row.len() == expected.len(),
                "{name}: {row:?}, {expected:?}"
            );
        }
    }
}

#[test]
fn a_table_of_parquet_without_an_end_counts_as_not_written() {
    let args = ["--active-timeout", "1s", "--plugins", "pstats,entropy"];
    if let Some(json) = on_full_disk("flows.parquet", &args) {
        assert_eq!(json["flows_exported"], 0, "{json}");
    }
}

/// Values by enterprise and element.
type Values = BTreeMap<(u32, u16), Vec<u8>>;

/// What IPFIX messages have in them, read by the standard's own words (RFC 7011, section 3) and nothing of the product.
#[derive(Default)]
struct Decoded {
    /// By template: enterprise, element and bytes of each field.
    templates: BTreeMap<u16, Vec<(u32, u16, usize)>>,
    /// By template: the values of each record.
    records: Vec<(u16, Values)>,
    domain_records: u32,
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Decoded {
    fn of(mut bytes: &[u8]) -> Self {
        let mut decoded = Self::default();
        while !bytes.is_empty() {
            assert_eq!(number(&bytes[..2]), 10, "version");
            let (message, rest) = bytes.split_at(number(&bytes[2..4]) as usize);
            assert_eq!(
                number(&message[8..12]),
                u64::from(decoded.domain_records),
                "sequence"
            );
            decoded.sets(&message[16..]);
            bytes = rest;
        }
        decoded
    }

    fn sets(&mut self, mut sets: &[u8]) {
        while !sets.is_empty() {
            let id = number(&sets[..2]) as u16;
            let (set, rest) = sets.split_at(number(&sets[2..4]) as usize);
            match id {
                2 => self.templates(&set[4..], 4),
                3 => self.templates(&set[4..], 6),
                id => self.data(id, &set[4..]),
            }
            sets = rest;
        }
    }

    fn templates(&mut self, mut body: &[u8], header: usize) {
        while !body.is_empty() {
            let (id, count) = (number(&body[..2]) as u16, number(&body[2..4]));
            body = &body[header..];
            let mut fields = Vec::new();
            for _ in 0..count {
                let (element, bytes) = (number(&body[..2]) as u16, number(&body[2..4]) as usize);
                body = &body[4..];
                let mut enterprise = 0;
                if element >> 15 == 1 {
                    enterprise = number(&body[..4]) as u32;
                    body = &body[4..];
                }
                fields.push((enterprise, element & 0x7fff, bytes));
            }
            self.templates.insert(id, fields);
        }
    }

    fn data(&mut self, id: u16, mut body: &[u8]) {
        let fields = self.templates[&id].clone();
        while !body.is_empty() {
            let mut values = BTreeMap::new();
            for (enterprise, element, bytes) in &fields {
                let (value, rest) = body.split_at(*bytes);
                values.insert((*enterprise, *element), value.to_vec());
                body = rest;
            }
            self.records.push((id, values));
            self.domain_records += 1;
        }
    }

    fn ways(&self) -> BTreeMap<Way, Volume> {
        // packetDeltaCount is of flows alone.
        let flows = self
            .records
            .iter()
            .filter(|(_, values)| values.contains_key(&(0, 2)));
        ways(flows.map(|(_, values)| {
            let address = |four, six| match values.get(&(0, four)) {
                Some(value) => Ipv4Addr::from(<[u8; 4]>::try_from(&value[..]).unwrap()).to_string(),
                None => Ipv6Addr::from(<[u8; 16]>::try_from(&values[&(0, six)][..]).unwrap())
                    .to_string(),
            };
            let of = |enterprise, element| {
                values
                    .get(&(enterprise, element))
                    .map_or(0, |value| number(value))
            };
            let numbers = [
                of(0, 7),
                of(0, 11),
                of(0, 4),
                of(0, 2),
                of(0, 1),
                of(29_305, 2),
                of(29_305, 1),
            ];
            ((address(8, 27), address(12, 28)), numbers)
        }))
    }

    /// Of the last report: packets and octets that were ignored, and flows that were not sent.
    fn reported(&self) -> [u64; 3] {
        let of = |element: u16| {
            let mut records = self.records.iter().rev();
            let found = records.find_map(|(_, values)| values.get(&(0, element)));
            number(found.unwrap())
        };
        [of(164), of(165), of(166)]
    }
}

#[test]
fn an_ipfix_file_and_a_collector_over_tcp_have_every_record() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    // A frame of no flow at the end: ARP, 28 octets behind its link header.
    let mut bytes = fs::read(&pcap).unwrap();
    let (at, frame) = ([0; 8], [&[0; 12][..], &[8, 6], &[0; 28]].concat());
    bytes.extend([&at[..], &[42, 0, 0, 0, 42, 0, 0, 0], &frame].concat());
    fs::write(&pcap, bytes).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    });
    let file = in_folder(&folder, "flows.ipfix");
    let args = [
        "--export",
        &file,
        "--export",
        &address,
        "--active-timeout",
        "1s",
    ];
    let json = probe(&pcap, &args).json_of(0);
    for bytes in [fs::read(&file).unwrap(), collector.join().unwrap()] {
        let decoded = Decoded::of(&bytes);
        assert_eq!(decoded.ways(), truth);
        assert_eq!(json["flows_exported"], decoded.records.len() - 2, "{json}");
        assert_eq!(decoded.reported(), [1, 28, 0]);
    }
}

/// A collector that goes away in the middle, at once or with what its host still takes: what is not sent is counted, and the run fails.
#[test]
fn a_collector_that_is_lost_over_tcp_ends_its_export_and_no_other() {
    for closes_at_once in [true, false] {
        let folder = TempDir::new().unwrap();
        let (pcap, truth) = captured(folder.path(), &[]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
        let jsonl = in_folder(&folder, "flows.jsonl");
        let mut command = forebay();
        command.args([
            "probe", "--read", "-", "--export", &address, "--export", &jsonl,
        ]);
        command.args(["--active-timeout", "1s", "--format", "json"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (connection, _) = listener.accept().unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        let connection = (!closes_at_once).then_some(connection);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&fs::read(&pcap).unwrap()).unwrap();
        drop(stdin);
        let ended = child.wait_with_output().unwrap();
        drop(connection);
        let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{json}");
        assert_eq!(json["reason"], "connection_lost");
        assert!(
            json["failed"].as_str().unwrap().contains(&address),
            "{json}"
        );
        assert_eq!(ways_of_lines(&lines(Path::new(&jsonl))), truth);
        assert_eq!(
            (&json["residual_items"], &json["left_items"]),
            (&0.into(), &0.into())
        );
    }
}

#[test]
fn control_c_ends_a_probe_that_waits_for_standard_input() {
    let folder = TempDir::new().unwrap();
    let (pcap, truth) = captured(folder.path(), &[]);
    let (jsonl, out) = (in_folder(&folder, "flows.jsonl"), folder.path().join("out"));
    let mut command = forebay();
    command
        .args(["probe", "--read", "-", "--export", &jsonl, "--out"])
        .arg(&out);
    let mut child = command
        .args(["--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let all: u64 = truth.values().map(|volume| volume[0]).sum();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&fs::read(&pcap).unwrap()).unwrap();
    // It waits for more when its input is empty.
    rig::wait_for("an empty pipe", || {
        (rustix::io::ioctl_fionread(&stdin).unwrap() == 0).then_some(())
    });
    rig::signal("INT", child.id());
    let ended = child.wait_with_output().unwrap();
    drop(stdin);
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (ended.status.code(), &json["reason"]),
        (Some(0), &"requested".into()),
        "{json}"
    );
    let read = json["packets_in"].as_u64().unwrap();
    assert!(read > 0 && read <= all, "{json}");
    let exported: u64 = ways_of_lines(&lines(Path::new(&jsonl)))
        .values()
        .map(|way| way[0])
        .sum();
    assert_eq!(exported, read);
    rig::assert_closed(&json, &out);
}

#[test]
fn one_output_is_not_asked_for_twice() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(folder.path(), &[]);
    let file = in_folder(&folder, "flows.jsonl");
    let told = probe(&pcap, &["--export", &file, "--export", &file]);
    assert_eq!(told.code(), Some(2), "{}", told.stdout);
    assert!(told.stderr.contains("is given twice"), "{}", told.stderr);
}

/// The same as a file says it, as `forebay run` takes it.
#[test]
fn a_file_says_what_flags_say() {
    let folder = TempDir::new().unwrap();
    let (_, truth) = captured(folder.path(), &[]);
    let file = "[probe]\nread = \"it.pcap\"\nexport = [\"flows.jsonl\", \"none\"]\nuniflow = true\ndirectory = \"books\"\n";
    fs::write(folder.path().join("probe.toml"), file).unwrap();
    let mut command = forebay();
    command.current_dir(folder.path());
    let json = start(command.args(["run", "probe.toml", "--format", "json"]))
        .end()
        .json_of(0);
    let lines = lines(&folder.path().join("flows.jsonl"));
    assert_eq!(ways_of_lines(&lines), truth);
    assert!(lines.iter().all(|line| line["packets_rev"] == 0));
    rig::assert_closed(&json, &folder.path().join("books"));
}

/// Made traffic that is ended in between says what it has made, flow by flow.
#[test]
fn traffic_that_is_stopped_tells_the_truth_of_what_it_made() {
    let folder = TempDir::new().unwrap();
    let mut profile = String::from(
        "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV\n",
    );
    for port in 1..50 {
        profile += &format!("0,1000000,4,17,{port},53,100000000,10000000000,0,0\n");
    }
    fs::write(folder.path().join("long.csv"), &profile).unwrap();
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["emulate", "traffic", "--profile", "long.csv"]);
    command.args([
        "--pcap",
        "it.pcap",
        "--truth",
        "truth.csv",
        "--snap",
        "64",
        "--out",
        "books",
    ]);
    let run = start(command.args(["--format", "json"]));
    rig::wait_items(
        &folder.path().join("books"),
        ("traffic", "packets"),
        "outgoing",
        1_000,
    );
    rig::signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(json["reason"], "requested");
    let truth = fs::read_to_string(folder.path().join("truth.csv")).unwrap();
    let told: u64 = truth
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(6).unwrap().parse::<u64>().unwrap())
        .sum();
    let probed = probe(&folder.path().join("it.pcap"), &[]).json_of(0);
    assert_eq!(
        (&probed["packets_in"], &json["packets"]),
        (&told.into(), &told.into())
    );
    // Times of a capture end in 2106.
    let header = profile.lines().next().unwrap();
    let row = "0,5000,4,17,1,53,9,900,0,0";
    fs::write(folder.path().join("late.csv"), format!("{header}\n{row}\n")).unwrap();
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["emulate", "traffic", "--profile", "late.csv"]);
    command.args([
        "--pcap",
        "late.pcap",
        "--snap",
        "64",
        "--start",
        "4294967295",
        "--format",
        "json",
    ]);
    let json = start(&mut command).end().json_of(2);
    assert!(json["failed"].as_str().unwrap().contains("2106"), "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
    // One path for two outputs.
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["emulate", "traffic", "--profile", "long.csv"]);
    let told = start(command.args(["--pcap", "x", "--truth", "./x"])).end();
    assert_eq!(told.code(), Some(2));
    assert!(
        told.stderr.contains("is being written already"),
        "{}",
        told.stderr
    );
    assert!(!folder.path().join("x.part").exists());
}

/// A collector that comes when the probe is at work already: what it gets from then on it can read.
#[test]
fn templates_are_sent_again_when_a_collector_did_not_take_them() {
    let folder = TempDir::new().unwrap();
    let (pcap, _) = captured(folder.path(), &[]);
    let capture = fs::read(&pcap).unwrap();
    // An address that no other test has.
    let address = "127.87.1.1:4739";
    let out = folder.path().join("out");
    let mut command = forebay();
    command.args([
        "probe",
        "--read",
        "-",
        "--export",
        &format!("ipfix+udp://{address}"),
    ]);
    command.args([
        "--active-timeout",
        "1s",
        "--flows",
        "16",
        "--format",
        "json",
        "--out",
    ]);
    let mut child = command
        .arg(&out)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&capture[..24]).unwrap();
    // The same packets again and again, each time as old as before: flows end for want of room.
    let mut pump = || stdin.write_all(&capture[24..]).unwrap();
    rig::wait_for("records that nobody takes", || {
        pump();
        let sheet = out.join("ledger").exists().then(|| rig::audit_json(&out))?;
        sheet
            .to_string()
            .contains("\"reason\":\"not_written\"")
            .then_some(())
    });
    let collector = UdpSocket::bind(address).unwrap();
    collector.set_nonblocking(true).unwrap();
    let (mut decoded, mut datagram) = (Decoded::default(), [0; 65_536]);
    rig::wait_for("records", || {
        pump();
        while let Ok(bytes) = collector.recv(&mut datagram) {
            decoded.sets(&datagram[16..bytes]);
        }
        (decoded.records.len() > 100).then_some(())
    });
    assert!(decoded.templates.len() >= 2);
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{json}");
    assert!(rig::taint(&json).starts_with("peer_lost: "), "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}

/// At the end there are seconds of records to be sent, and nothing waits for that.
#[test]
fn a_second_signal_ends_what_is_paced() {
    let folder = TempDir::new().unwrap();
    let mut profile = String::from(
        "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV\n",
    );
    for port in 1..=60_000 {
        profile += &format!("0,0,4,17,{port},53,1,60,0,0\n");
    }
    fs::write(folder.path().join("many.csv"), profile).unwrap();
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["emulate", "traffic", "--profile", "many.csv"]);
    let made = start(command.args(["--pcap", "it.pcap", "--snap", "64"])).end();
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = format!("ipfix+udp://{}", collector.local_addr().unwrap());
    let mut command = forebay();
    command
        .current_dir(folder.path())
        .args(["probe", "--read", "it.pcap", "--export", &address]);
    let run = start(command.args(["--format", "json"]));
    // The first record comes when all packets have been read.
    collector.recv(&mut [0; 65_536]).unwrap();
    // Two of one kind may become one.
    rig::signal("INT", run.pid());
    rig::signal("TERM", run.pid());
    let json = run.end().json_of(0);
    let lost = rig::dropped_in_all(&json, "export.not_written");
    let sent = json["flows_exported"].as_u64().unwrap();
    assert!(sent > 0 && lost > 0, "{json}");
    assert_eq!(sent + lost, 60_000, "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
}
