//! Flows that are counted below user space: their records against those of a probe that reads all packets itself, and against what was sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use forebay_testing::wire::is_at_wire;
use rig::{Ended, Run, forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Octets of the headers of a datagram.
const HEADERS: u64 = 28;

fn captured(folder: &Path, profile: &str) -> PathBuf {
    let pcap = folder.join(format!("{profile}.pcap"));
    let mut command = forebay();
    command.args(["emulate", "traffic", "--profile", profile]);
    command.args(["--packets", "40k", "--snap", "128", "--format", "json"]);
    start(command.arg("--pcap").arg(&pcap)).end().json_of(0);
    pcap
}

/// The records of a capture in an order of their own, and what the run came to.
fn records(pcap: &Path, args: &[&str]) -> (Vec<String>, Value) {
    let jsonl = pcap.with_extension("jsonl");
    let mut command = forebay();
    command.arg("probe").arg("--read").arg(pcap);
    command.arg("--export").arg(&jsonl).args(args);
    let json = start(command.args(["--format", "json"])).end().json_of(0);
    let text = fs::read_to_string(&jsonl).unwrap();
    fs::remove_file(&jsonl).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, json)
}

/// A probe's numbers that the offload must not change.
fn volumes(json: &Value) -> [&Value; 6] {
    [
        "packets_in",
        "octets_in",
        "packets_exported",
        "octets_exported",
        "residual_packets",
        "residual_octets",
    ]
    .map(|key| &json[key])
}

#[test]
fn records_of_every_profile_are_the_same_with_the_offload_on() {
    let folder = TempDir::new().unwrap();
    let listed = start(forebay().args(["emulate", "traffic", "--list", "--format", "json"]));
    let listed = listed.end().json_of(0);
    let names: Vec<_> = listed["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 7, "{listed}");
    for (n, name) in names.into_iter().enumerate() {
        let pcap = captured(folder.path(), name);
        let common: &[&str] = match n % 3 {
            0 => &["--plugins", "basic,pstats,tls,dns,http,quic"],
            1 => &["--filter", "drop port 53", "--filter", "trim 64 udp"],
            _ => &[],
        };
        let (alone, off) = records(&pcap, common);
        assert_eq!(off["packets_offloaded"], 0);
        for policy in ["packets", "rate", "heavy-hitter"] {
            let offload = ["--offload", "software", "--offload-policy", policy];
            let (lending, on) = records(&pcap, &[&offload, common].concat());
            assert_eq!(volumes(&on), volumes(&off), "{name} {policy}");
            assert!(lending == alone, "{name} {policy}: {on}");
            let offloaded = on["packets_offloaded"].as_u64().unwrap();
            assert_eq!(on["offload"]["frames_counted"], offloaded, "{on}");
            assert!(policy != "packets" || offloaded > 4_000, "{name}: {on}");
        }
        fs::remove_file(&pcap).unwrap();
    }
}

#[test]
fn a_table_without_room_leaves_flows_where_they_are() {
    let folder = TempDir::new().unwrap();
    let pcap = captured(folder.path(), "nix-like-morning");
    let (alone, off) = records(&pcap, &[]);
    let small = [
        "--offload",
        "software",
        "--offload-after",
        "1",
        "--offload-flows",
        "20",
    ];
    let (lending, on) = records(&pcap, &small);
    assert!(on["offload"]["flows_not_lent"].as_u64() > Some(0), "{on}");
    assert_eq!(volumes(&on), volumes(&off));
    assert!(lending == alone, "{on}");
}

#[test]
fn counts_come_up_after_so_many_packets_and_their_flow_stays_below() {
    let folder = TempDir::new().unwrap();
    let pcap = captured(folder.path(), "geant-like-morning");
    let (alone, off) = records(&pcap, &[]);
    let software = ["--offload", "software"];
    let (_, never) = records(&pcap, &software);
    assert_eq!(never["offload"]["exports"]["limit"], 0, "{never}");
    for (limit, said) in [(1, "1"), (100, "100")] {
        let limited = [&software[..], &["--offload-limit", said]].concat();
        let (lending, on) = records(&pcap, &limited);
        assert_eq!(volumes(&on), volumes(&off), "{on}");
        assert!(lending == alone, "{on}");
        let exports = on["offload"]["exports"]["limit"].as_u64().unwrap();
        let counted = on["offload"]["frames_counted"].as_u64().unwrap();
        assert!(0 < exports && exports * limit <= counted, "{on}");
        for same in ["frames_counted", "flows_lent"] {
            assert_eq!(on["offload"][same], never["offload"][same], "{on}");
        }
    }
}

/// The places of accounts that do not close.
fn open_accounts(out: &Path) -> Vec<String> {
    let verdict = rig::audit_json(out);
    let accounts = verdict["balance"]["accounts"].as_array().unwrap().iter();
    let open = accounts.filter(|line| line["residual"]["items"] != 0);
    open.map(|line| line["place"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_vanishes_on_its_way_from_below_is_found() {
    let folder = TempDir::new().unwrap();
    let pcap = captured(folder.path(), "geant-like-morning");
    for hop in ["below", "offload"] {
        let out = folder.path().join(hop);
        let mut command = forebay();
        command
            .arg("probe")
            .arg("--read")
            .arg(&pcap)
            .arg("--out")
            .arg(&out);
        command.args(["--offload", "software", "--format", "json"]);
        let json = start(command.env("FOREBAY_LEAK", format!("{hop}:2")))
            .end()
            .json_of(1);
        assert!(json["residual_items"].as_u64() >= Some(2), "{hop}: {json}");
        assert_eq!(open_accounts(&out), [hop]);
    }
}

#[test]
fn what_no_offload_can_do_is_named() {
    for (args, wrong) in [
        (
            &["--read", "-", "--offload", "xdp"][..],
            "--offload software",
        ),
        (
            &["--read", "-", "--offload", "software", "--uniflow", "on"],
            "leave --uniflow out",
        ),
        (
            &[
                "--read",
                "-",
                "--offload",
                "software",
                "--filter",
                "drop src-port 53",
            ],
            "'drop src-port 53' tells apart packets of one flow",
        ),
        (
            &[
                "--read",
                "-",
                "--offload",
                "software",
                "--export-packets",
                "p.pcapng",
            ],
            "leave one of them out",
        ),
        (
            &[
                "--interface",
                "lo",
                "--offload",
                "xdp",
                "--vlan-in-key",
                "on",
            ],
            "leave --vlan-in-key out",
        ),
        (
            &["--interface", "lo", "--offload", "xdp"],
            "lo has the address 127.0.0.1: --offload xdp drops frames of heavy flows, this host's own among them; give --offload filter",
        ),
        (
            &["--read", "-", "--offload", "filter"],
            "--offload filter is for an interface",
        ),
        (&["--read", "-", "--offload", "xpd"], "xdp"),
    ] {
        let ended = start(forebay().arg("probe").args(args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(wrong), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_file_whose_keys_do_not_go_together_is_told_so() {
    let folder = TempDir::new().unwrap();
    for (keys, wrong) in [
        ("read = \"a.pcap\"\noffload = \"xdp\"", "--offload software"),
        (
            "read = \"a.pcap\"\noffload = \"software\"\nuniflow = true",
            "--uniflow",
        ),
        (
            "read = \"a.pcap\"\nfilter = [\"export\"]",
            "--export-packets FILE.pcapng",
        ),
    ] {
        let path = folder.path().join("probe.toml");
        fs::write(&path, format!("[probe]\n{keys}\n")).unwrap();
        let ended = start(forebay().arg("check").arg(&path)).end();
        assert_eq!(ended.code(), Some(2), "{keys}: {}", ended.stderr);
        let told = ended.stderr + &ended.stdout;
        assert!(
            told.contains(wrong) && told.contains("probe.toml"),
            "{keys}: {told}"
        );
    }
}

/// A probe with the program of the kernel at `far`; none where there is no program.
fn with_program(out: &Path, leak: &str, args: &[&str]) -> Option<Run> {
    let mut command = forebay();
    command.args([
        "probe",
        "--interface",
        "far",
        "--queues",
        "2",
        "--format",
        "json",
    ]);
    command.args([
        "--offload",
        "xdp",
        "--offload-after",
        "5",
        "--idle-timeout",
        "5s",
    ]);
    command.args(args);
    command.arg("--export").arg(out.with_extension("jsonl"));
    if !leak.is_empty() {
        command.env("FOREBAY_LEAK", leak);
    }
    let mut run = start(command.arg("--out").arg(out));
    let begun = wait_for("the ledger or an end", || {
        if out.join("ledger").exists() {
            return Some(true);
        }
        run.is_over().then_some(false)
    });
    if begun {
        return Some(run);
    }
    let Ended { stderr, .. } = run.end();
    assert!(stderr.contains("Install clang"), "{stderr}");
    forebay_testing::skip!("this build has no program for the kernel: {stderr}");
    None
}

/// Sends on all sockets until so many packets were counted below; packets and octets of each by its port.
fn send_until_counted(out: &Path, packets: u64) -> BTreeMap<u64, [u64; 2]> {
    let sockets: Vec<_> = (0..20)
        .map(|_| UdpSocket::bind("10.0.0.1:0").unwrap())
        .collect();
    let mut sent: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    wait_for("packets that are counted below", || {
        for round in 0..50 {
            for socket in &sockets {
                let payload = vec![7; 1 + round * 37 % 1_400];
                socket.send_to(&payload, "10.0.0.2:5000").unwrap();
                let port = socket.local_addr().unwrap().port();
                let sum = sent.entry(port.into()).or_default();
                *sum = [sum[0] + 1, sum[1] + HEADERS + payload.len() as u64];
            }
        }
        (rig::account_items(&rig::audit_json(out), ("offload", "packets"), "incoming") >= packets)
            .then_some(())
    });
    sent
}

/// Packets and octets in the records of a run, by the source's port.
fn found(out: &Path) -> BTreeMap<u64, [u64; 2]> {
    let mut found: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for line in fs::read_to_string(out.with_extension("jsonl"))
        .unwrap()
        .lines()
    {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let sum = found.entry(number("src_port")).or_default();
        *sum = [sum[0] + number("packets"), sum[1] + number("octets")];
        assert!(
            line["start_ns"].as_u64() < line["end_ns"].as_u64(),
            "{line}"
        );
    }
    found
}

#[test]
fn counts_come_up_from_the_kernel_while_their_flow_stays_below() {
    if !is_at_wire("counts_come_up_from_the_kernel_while_their_flow_stays_below") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let Some(run) = with_program(&out, "", &["--offload-limit", "50"]) else {
        return;
    };
    let sent = send_until_counted(&out, 5_000);
    // While the run goes on, and no flow has ended.
    wait_for("counts that came up", || {
        let told = rig::audit_json(&out);
        (rig::account_items(&told, ("offload", "packets"), "outgoing") > 0).then_some(())
    });
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(found(&out), sent);
    assert!(
        json["offload"]["exports"]["limit"].as_u64() >= Some(20),
        "{json}"
    );
    assert_eq!(
        json["packets_offloaded"], json["offload"]["frames_counted"],
        "{json}"
    );
    rig::assert_closed(&json, &out);
}

#[test]
fn the_kernel_counts_and_every_packet_is_in_its_record() {
    if !is_at_wire("the_kernel_counts_and_every_packet_is_in_its_record") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let Some(run) = with_program(&out, "", &[]) else {
        return;
    };
    let sent = send_until_counted(&out, 10_000);
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(found(&out), sent);
    let offload = &json["offload"];
    assert!(
        offload["kind"].as_str().unwrap().starts_with("xdp"),
        "{json}"
    );
    assert!(json["packets_offloaded"].as_u64() >= Some(10_000), "{json}");
    assert_eq!(
        json["packets_offloaded"], offload["frames_counted"],
        "{json}"
    );
    // Once each, and again after a pause of a time-out on a busy host.
    assert!(offload["flows_lent"].as_u64() >= Some(20), "{json}");
    rig::assert_closed(&json, &out);
}

#[test]
fn rights_that_a_process_lacks_are_named() {
    if !is_at_wire("rights_that_a_process_lacks_are_named") {
        return;
    }
    for (kept, missing) in [
        ("+net_raw", "needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON,"),
        ("+net_raw,+bpf,+net_admin", "needs CAP_PERFMON,"),
    ] {
        let own = forebay();
        let mut command = std::process::Command::new("setpriv");
        let sets = ["--inh-caps", "--bounding-set"].map(|set| format!("{set}=-all,{kept}"));
        command.args(sets).arg(own.get_program());
        command.args(["probe", "--interface", "far", "--offload", "xdp"]);
        let ended = start(&mut command).end();
        assert_eq!(ended.code(), Some(2), "{kept}: {}", ended.stderr);
        if ended.stderr.contains("Install clang") {
            forebay_testing::skip!("this build has no program for the kernel: {}", ended.stderr);
            return;
        }
        assert!(ended.stderr.contains(missing), "{kept}: {}", ended.stderr);
    }
}

#[test]
fn what_the_kernel_counted_and_nobody_got_is_found() {
    if !is_at_wire("what_the_kernel_counted_and_nobody_got_is_found") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let Some(run) = with_program(&out, "offload:1", &[]) else {
        return;
    };
    send_until_counted(&out, 2_000);
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(1);
    assert!(json["residual_items"].as_u64() > Some(0), "{json}");
    assert_eq!(open_accounts(&out), ["offload"]);
}

/// What the kernel says of the programs at the far end of the wire.
fn programs_at_far() -> String {
    let shown = std::process::Command::new("ip")
        .args(["-d", "link", "show", "far"])
        .output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

#[test]
fn a_killed_probe_leaves_no_program_and_books_that_say_what_was_in_flight() {
    if !is_at_wire("a_killed_probe_leaves_no_program_and_books_that_say_what_was_in_flight") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("killed");
    let Some(mut run) = with_program(&out, "", &[]) else {
        return;
    };
    let sent = send_until_counted(&out, 2_000);
    assert!(programs_at_far().contains("prog/xdp"));
    assert!(signal("KILL", run.pid()));
    wait_for("the end of the killed probe", || {
        run.is_over().then_some(())
    });
    wait_for("the end of its program", || {
        (!programs_at_far().contains("prog/xdp")).then_some(())
    });
    let told = rig::audit_json(&out);
    assert_eq!(
        (&told["condition"], &told["closed"]),
        (&"interrupted".into(), &true.into())
    );
    let held: u64 = told["underway"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["unit"] == "packets")
        .map(|line| line["amount"]["items"].as_u64().unwrap())
        .sum();
    let all: u64 = sent.values().map(|[packets, _]| packets).sum();
    assert!((2_000..=all).contains(&held), "{held} of {all}: {told}");

    let out = folder.path().join("next");
    let run = with_program(&out, "", &[]).unwrap();
    let sent = send_until_counted(&out, 2_000);
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(0);
    let all: u64 = sent.values().map(|[packets, _]| packets).sum();
    assert_eq!(json["packets_exported"].as_u64(), Some(all), "{json}");
    rig::assert_closed(&json, &out);
}
