//! `forebay demo mux`: what it tells is what each of its programs recorded and what the kernels counted; the policy really changes; nothing is left behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_testing::wire::sh;
use rig::{children_of, forebay, is_alive, number, start, wait_for, wait_items};
use serde_json::{Value, json};
use tempfile::TempDir;

const CLIENTS: [&str; 3] = ["A", "B", "C"];

/// Rates that a build without optimisation on a busy host is asked for without pain: twice what the line takes.
fn demo(out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["demo", "mux", "--format", "json", "--out"]);
    command.arg(out).args(["--rate", "1M", "--flood", "8M"]);
    command
        .args(["--wire-rate", "8M", "--limit", "3M"])
        .args(args);
    command
}

/// The network namespaces of processes, held open: they and their devices, with all that the kernel counts there, stay until this is dropped.
struct Networks(BTreeMap<u64, File>);

impl Networks {
    fn of(family: &[u32]) -> Self {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let all = family
            .iter()
            .filter_map(|pid| File::open(format!("/proc/{pid}/ns/net")).ok());
        let numbered = all.map(|file| (file.metadata().unwrap().ino(), file));
        Self(numbered.filter(|(number, _)| *number != own).collect())
    }

    /// What a command line says in the one that has this device.
    fn at(&self, device: &str, line: &str) -> String {
        let said = self.0.values().find_map(|network| {
            let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={path}")).args(["sh", "-c"]);
            let out = command
                .arg(format!("grep -q '^ *{device}:' /proc/net/dev && {line}"))
                .output()
                .unwrap();
            out.status
                .success()
                .then(|| String::from_utf8(out.stdout).unwrap())
        });
        said.unwrap_or_else(|| panic!("no network has {device}"))
    }

    /// Frames that the kernel has counted at a device, received and sent.
    fn frames(&self, device: &str) -> [u64; 2] {
        let line = self.at(device, &format!("grep '^ *{device}:' /proc/net/dev"));
        let (_, numbers) = line.split_once(':').unwrap();
        let numbers: Vec<u64> = numbers
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        [numbers[1], numbers[9]]
    }

    /// Packets that the queue of a device has dropped.
    fn dropped(&self, device: &str) -> u64 {
        let said = self.at(device, &format!("tc -s -j qdisc show dev {device}"));
        let said: Value = serde_json::from_str(&said).unwrap();
        number(&said[0], "drops")
    }

    /// Processes that are in one of them.
    fn inhabitants(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").unwrap();
        let all = all.filter_map(|entry| Some(entry.ok()?.path().join("ns/net")));
        all.filter(|path| fs::metadata(path).is_ok_and(|it| self.0.contains_key(&it.ino())))
            .collect()
    }
}

fn record(out: &Path, of: &str) -> Value {
    let path = out.join(of).join("run.json");
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Sum of a client's losses at places that begin so.
fn lost(client: &Value, place: &str) -> u64 {
    lost_in(&client["drops"], place)
}

fn lost_in(drops: &Value, place: &str) -> u64 {
    let all = drops.as_object().unwrap().iter();
    let of_place = all.filter(|(name, _)| name.starts_with(place));
    of_place.map(|(_, packets)| packets.as_u64().unwrap()).sum()
}

/// Part of what was asked of those that behave that was answered, in whole percent.
fn percent(span: &Value) -> String {
    let clients = span["clients"].as_array().unwrap().iter();
    let (mut asked, mut answered) = (0, 0);
    for client in clients.filter(|client| client["is_flood"] == false) {
        asked += number(client, "asked_packets");
        answered += number(client, "answered_packets");
    }
    let share = (answered as f64 / asked as f64).min(1.0);
    format!("{:.0} %", 100.0 * share)
}

#[test]
fn the_sheet_is_that_of_all_parties_and_the_policy_is_changed_half_way() {
    if !rig::may_have_network() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(folder.path(), &["--duration", "4s"]));
    wait_for("the load", || {
        folder.path().join("load/ledger").exists().then_some(())
    });
    let networks = Networks::of(&children_of(run.pid()));
    assert_eq!(networks.0.len(), 3, "generator, switch and card");
    let json = run.end().json_of(0);
    assert_eq!(
        (&json["disagreements"], &json["interrupted"]),
        (&json!([]), &json!(false)),
        "{json}"
    );
    for open in [
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert_eq!(number(&json, open), 0, "{open}: {json}");
    }

    // Each program's own record.
    let (load, mux) = (record(folder.path(), "load"), record(folder.path(), "mux"));
    let mut line_lost = 0;
    for (at, name) in CLIENTS.iter().enumerate() {
        let client = &json["clients"][at];
        assert_eq!(client["name"], *name);
        let counts = &client["counts"];
        let own = record(folder.path(), &format!("clients/{name}"));
        for (key, other, of) in [
            ("generator_sent", "packets_sent", &load["targets"][at]),
            ("daemon_gave", "frames_given", &mux["clients"][at]),
            ("client_received", "frames_received", &own),
            ("daemon_sent", "packets_sent", &mux["clients"][at]),
        ] {
            assert_eq!(number(counts, key), number(of, other), "{name}: {key}");
        }
        // What went and did not come back is lost by name.
        let gone = number(counts, "generator_sent") - number(counts, "generator_came");
        let left = lost(client, "") - lost(client, "load_send.");
        assert_eq!(gone, left, "{client}");
        line_lost += lost(client, "wire_back.");
        // Those that behave lose nothing in the multiplexer, and the one that floods under its own name.
        let is_flood = *name == "C";
        assert_eq!(lost(client, "mux_") > 0, is_flood, "{client}");
    }

    // The kernels, which know no clients.
    let [came, taken] = networks.frames("card");
    assert_eq!(taken, number(&mux, "frames_out"));
    assert_eq!(
        came,
        number(&mux, "frames_in") + lost_in(&json["wire_drops"], "mux_card_in.")
    );
    let [back, sent] = networks.frames("wire");
    assert_eq!(sent, came + networks.dropped("tocard"));
    assert_eq!(taken, back + networks.dropped("tofar"));
    assert_eq!(line_lost, networks.dropped("tofar"), "{json}");
    assert!(line_lost > 0, "{json}");

    // The policy was changed, once, by the demonstration.
    assert_eq!(json["changes"], mux["changes"]);
    let changes = mux["changes"].as_array().unwrap();
    let said: Vec<_> = changes
        .iter()
        .map(|it| (&it["key"], &it["before"], &it["now"]))
        .collect();
    let key = |key: &str| said.iter().find(|it| *it.0 == key).unwrap();
    assert_eq!(
        (key("policy").1, key("policy").2),
        (&json!("round-robin"), &json!("token-bucket"))
    );
    assert_eq!(
        (key("rate_bps").1, key("rate_bps").2),
        (&json!(null), &json!(3_000_000))
    );
    let (before, after) = (&json["before"], &json["after"]);
    assert_eq!(before["policy"], "round-robin");
    assert_eq!(after["policy"], "token-bucket");
    assert_eq!(before["clients"][2]["drops"], json!({}), "{before}");
    assert!(lost(&after["clients"][2], "mux_transmit.") > 0, "{after}");
    let seen = json["seen"].as_str().unwrap();
    for part in [percent(before), percent(after)] {
        assert!(
            seen.contains(&format!("A and B got {part}"))
                || seen.contains(&format!("they got {part}")),
            "{part}: {seen}"
        );
    }
    assert!(["helped", "not_needed", "did_not_help"].contains(&json["verdict"].as_str().unwrap()));
}

#[test]
fn ctrl_c_tells_what_there_is_and_leaves_nothing() {
    if !rig::may_have_network() {
        return;
    }
    let (folder, work) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = demo(folder.path(), &["--duration", "10m"]);
    let run = start(command.env("TMPDIR", work.path()).process_group(0));
    let load = folder.path().join("load");
    wait_items(&load, ("load_flight", "packets"), "incoming", 500);
    let family = children_of(run.pid());
    // Holders of three networks, the daemon, three clients and the generator.
    assert!(family.len() >= 8, "{family:?}");
    let networks = Networks::of(&family);
    assert_eq!(networks.0.len(), 3);
    assert!(networks.inhabitants().len() >= 8);
    assert!(fs::read_dir(work.path()).unwrap().next().is_some());
    // A terminal sends it to the whole group of processes.
    sh(&format!("kill -INT -{}", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(
        (&json["interrupted"], &json["verdict"], &json["changes"]),
        (&json!(true), &json!("not_measured"), &json!([]))
    );
    assert_eq!(json["disagreements"], json!([]), "{json}");
    let sent: u64 = json["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|client| number(&client["counts"], "generator_sent"))
        .sum();
    assert!(sent >= 500, "{json}");
    assert!(!family.iter().any(|pid| is_alive(*pid)));
    assert_eq!(networks.inhabitants(), Vec::<PathBuf>::new());
    assert!(fs::read_dir(work.path()).unwrap().next().is_none());
}

#[test]
fn what_is_missing_or_cannot_be_is_told_with_its_remedy() {
    let folder = TempDir::new().unwrap();
    let refused = |programs: &[&str]| {
        let path = TempDir::new().unwrap();
        for name in programs {
            symlink("/bin/true", path.path().join(name)).unwrap();
        }
        let mut command = demo(folder.path(), &[]);
        let ended = start(command.env("PATH", path.path())).end();
        assert_eq!(
            (ended.code(), &ended.stdout[..]),
            (Some(2), ""),
            "{}",
            ended.stderr
        );
        ended.stderr
    };
    let no_tc = refused(&["unshare", "setpriv", "nsenter", "ip"]);
    assert!(
        no_tc.contains("`tc`") && no_tc.contains("package iproute2"),
        "{no_tc}"
    );
    // Here the program that makes namespaces makes none, as it does without root.
    let no_root = refused(&["unshare", "setpriv", "nsenter", "ip", "tc"]);
    assert!(
        no_root.contains("needs root") && no_root.contains("as with sudo"),
        "{no_root}"
    );
    for (args, wrong) in [
        (&["--duration", "1s"][..], "2s at least"),
        (&["--limit", "3MB"], "write \"3MB\" as 4M"),
    ] {
        let ended = start(&mut demo_of(folder.path(), args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}");
        assert!(ended.stderr.contains(wrong), "{args:?}: {}", ended.stderr);
    }
}

/// Without rates of its own.
fn demo_of(out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["demo", "mux", "--out"]).arg(out).args(args);
    command
}
