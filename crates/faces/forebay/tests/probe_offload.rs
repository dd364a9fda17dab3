//! Flows that are counted below user space: their records against those of a probe that reads all packets itself, and against what was sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::{Path, PathBuf};

use forebay_testing::wire::is_at_wire;
use rig::below::{
    Sums, found, programs_at_far, send_on_until_counted, send_some, send_until_counted, sockets,
    with_program,
};
use rig::{forebay, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

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
    for none in [
        &never["offload"]["exports"]["limit"],
        &never["offload"]["collected"],
    ] {
        assert_eq!(*none, 0, "{never}");
    }
    for (limit, said) in [(1, "1"), (100, "100")] {
        let limited = [&software[..], &["--offload-limit", said]].concat();
        let (lending, on) = records(&pcap, &limited);
        assert_eq!(volumes(&on), volumes(&off), "{on}");
        assert!(lending == alone, "{on}");
        let exports = on["offload"]["exports"]["limit"].as_u64().unwrap();
        let counted = on["offload"]["frames_counted"].as_u64().unwrap();
        assert!(0 < exports && exports * limit <= counted, "{on}");
        // Each telling has one collect at most: a flow may have ended meanwhile.
        let collected = on["offload"]["collected"].as_u64().unwrap();
        assert!((1..=exports).contains(&collected), "{on}");
        for same in ["frames_counted", "flows_lent"] {
            assert_eq!(on["offload"][same], never["offload"][same], "{on}");
        }
    }
}

#[test]
fn frames_come_up_cut_while_plugins_want_headers_and_records_are_the_same() {
    let folder = TempDir::new().unwrap();
    for name in ["geant-like-morning", "nix-like-night"] {
        let pcap = captured(folder.path(), name);
        for (plugins, counts_many) in [("basic,pstats,tls", true), ("bursts,rtt,dns", false)] {
            let common = ["--plugins", plugins];
            let (alone, off) = records(&pcap, &common);
            let software = ["--offload", "software", "--offload-after", "5"];
            let lent = [&common[..], &software].concat();
            let (_, whole) = records(&pcap, &lent);
            assert_eq!(whole["offload"]["frames_trimmed"], 0, "{whole}");
            let (lending, on) = records(&pcap, &[&lent[..], &["--offload-trim", "on"]].concat());
            assert_eq!(volumes(&on), volumes(&off), "{name} {plugins}");
            assert!(lending == alone, "{name} {plugins}: {on}");
            let number = |json: &Value, key: &str| json["offload"][key].as_u64().unwrap();
            assert!(number(&on, "frames_trimmed") > 1_000, "{name}: {on}");
            assert_eq!(
                number(&on, "frames_counted") > 2_000,
                counts_many,
                "{name} {plugins}: {on}"
            );
            assert!(
                number(&on, "flows_lent") > number(&whole, "flows_lent"),
                "{name}: {on}"
            );
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
        (
            &[
                "--interface",
                "lo",
                "--offload",
                "xdp",
                "--offload-trim",
                "on",
            ],
            "leave --offload-trim out",
        ),
        (
            &["--read", "-", "--offload-limit", "9"],
            "--offload-limit is of flows that --offload has counted below",
        ),
        (
            &["--read", "-", "--offload-trim", "on"],
            "or leave --offload-trim out",
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

#[test]
fn counts_come_up_from_the_kernel_while_their_flow_stays_below() {
    if !is_at_wire("counts_come_up_from_the_kernel_while_their_flow_stays_below") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let args = ["--offload-limit", "50", "--idle-timeout", "60s"];
    let Some(run) = with_program(&out, "", &args) else {
        return;
    };
    let sent = send_until_counted(&out, 5_000);
    let records = |told: &Value| rig::account_items(told, ("records", "flows"), "incoming");
    // While the run goes on, and no flow has ended.
    wait_for("counts that came up", || {
        let told = rig::audit_json(&out);
        assert_eq!(records(&told), 0, "{told}");
        (rig::account_items(&told, ("offload", "packets"), "outgoing") > 0).then_some(())
    });
    assert!(signal("TERM", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(found(&out), sent);
    assert!(records(&rig::audit_json(&out)) >= 20);
    let collected = json["offload"]["collected"].as_u64();
    assert!(
        collected > Some(0) && collected <= json["offload"]["exports"]["limit"].as_u64(),
        "{json}"
    );
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
    assert_eq!(offload["is_taken_off"], false, "{json}");
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

#[test]
fn a_probe_whose_program_was_taken_off_says_so_and_loses_nothing() {
    if !is_at_wire("a_probe_whose_program_was_taken_off_says_so_and_loses_nothing") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let Some(run) = with_program(&out, "", &[]) else {
        return;
    };
    let sockets = sockets();
    let mut sent = Sums::new();
    send_on_until_counted(&sockets, &mut sent, &out, 2_000);
    let before: u64 = sent.values().map(|[packets, _]| packets).sum();
    // None is under way: the cable may throw those away.
    rig::wait_items(&out, ("below", "packets"), "incoming", before);
    let shown = programs_at_far();
    let (_, number) = shown.split_once("prog/xdp id ").unwrap();
    let number = number.split_whitespace().next().unwrap().parse().unwrap();
    // It is the probe's, and this is another process.
    assert!(forebay_xdp::take_off_program(number).unwrap());
    assert!(!forebay_xdp::take_off_program(number).unwrap());
    assert!(!programs_at_far().contains("prog/xdp"));
    wait_for("a word of it", || {
        run.said()
            .contains("far no longer has the XDP program")
            .then_some(())
    });
    let sockets_of_others = rig::below::sockets();
    // The same flows, some of which are lent, and others.
    for _ in 0..3 {
        send_some(&sockets, &mut sent);
        send_some(&sockets_of_others, &mut sent);
    }
    assert!(signal("TERM", run.pid()));
    let ended = run.end();
    assert_eq!(
        ended
            .stderr
            .matches("no longer has the XDP program")
            .count(),
        1
    );
    let json = ended.json_of(0);
    assert_eq!(found(&out), sent);
    let offload = &json["offload"];
    assert_eq!(offload["is_taken_off"], true, "{json}");
    let frames = offload["frames"].as_u64().unwrap();
    assert!(
        (2_000..=before).contains(&frames),
        "{frames} of {before}: {json}"
    );
    assert_eq!(
        json["packets_offloaded"], offload["frames_counted"],
        "{json}"
    );
    rig::assert_closed(&json, &out);
}
