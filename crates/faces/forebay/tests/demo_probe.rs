//! `forebay demo probe`: generator, kernel, probe and nfcapd of one command, held against each other and against the ledgers that they leave.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use forebay_testing::wire::sh;
use rig::{Ended, account_items, audit_json, children_of, forebay, start, wait_for, wait_items};
use serde_json::Value;
use tempfile::TempDir;

fn demo(out: &Path, args: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["demo", "probe", "--format", "json", "--out"]);
    command.arg(out).args(args);
    command
}

/// What it came to; none where the build has no program for the kernel, which is said as what the test leaves out.
fn with_program(ended: Ended, code: i32) -> Option<Value> {
    if ended.stderr.contains("Install clang") {
        forebay_testing::skip!("this build has no program for the kernel: Install clang");
        return None;
    }
    Some(ended.json_of(code))
}

fn items(out: &Path, at: (&str, &str), term: &str) -> u64 {
    account_items(&audit_json(out), at, term)
}

#[test]
fn all_parties_have_every_packet_with_the_offload_off_and_on() {
    if !rig::may_have_network() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let args = ["--packets", "30k", "--rate", "20k", "--seed", "7"];
    let ended = start(&mut demo(folder.path(), &args)).end();
    let Some(json) = with_program(ended, 0) else {
        return;
    };
    assert_eq!(
        (&json["agrees"], &json["interrupted"]),
        (&true.into(), &false.into())
    );
    let runs = json["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| &run["offload"]).collect();
    assert_eq!(names, ["off", "xdp"]);
    // The same seed makes the same packets.
    assert_eq!(runs[0]["sent"], runs[1]["sent"]);
    for run in runs {
        let number = |key: &str, of: &str| run[key][of].as_u64().unwrap();
        assert_eq!(number("sent", "packets"), 30_000);
        let lost = number("ring_lost", "packets");
        assert_eq!(number("recorded", "packets") + lost, 30_000, "{run}");
        assert_eq!(run["disagreements"], serde_json::json!([]), "{run}");
        // A second source: what the two programs left in their ledgers.
        let out = folder
            .path()
            .join(format!("offload-{}", run["offload"].as_str().unwrap()));
        assert_eq!(
            items(&out.join("generator"), ("interface", "packets"), "outgoing"),
            30_000
        );
        let probe = out.join("probe");
        assert_eq!(
            items(&probe, ("packets", "packets"), "incoming") + lost,
            30_000
        );
        let offloaded = number("offloaded", "packets");
        let is_lent = run["offload"] == "xdp";
        let below = if is_lent {
            items(&probe, ("offload", "packets"), "outgoing")
        } else {
            0
        };
        assert_eq!((offloaded, offloaded > 10_000), (below, is_lent), "{run}");
        if json["collector"] == "nfcapd" {
            assert_eq!(run["collected"]["packets"], run["recorded"]["packets"]);
            assert_eq!(run["collected"]["octets"], run["recorded"]["octets"]);
        } else {
            assert_eq!(run["collected"], Value::Null);
        }
    }
    // nfcapd's files are gone with it.
    for run in ["offload-off", "offload-xdp"] {
        let left = fs::read_dir(folder.path().join(run)).unwrap();
        assert_eq!(left.count(), 2, "{run}");
    }
}

#[test]
fn packets_that_vanish_are_no_agreement() {
    if !rig::may_have_network() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = demo(folder.path(), &["--packets", "5k", "--rate", "20k"]);
    let ended = start(command.env("FOREBAY_LEAK", "packets:2")).end();
    let Some(json) = with_program(ended, 1) else {
        return;
    };
    assert_eq!(json["agrees"], false);
    for run in json["runs"].as_array().unwrap() {
        assert_eq!(run["agrees"], false, "{run}");
        assert!(run["residual"][0].as_u64() > Some(0), "{run}");
    }
}

#[test]
fn ctrl_c_tells_what_there_is_and_leaves_nobody() {
    if !rig::may_have_network() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = demo(folder.path(), &["--rate", "10k", "--duration", "30s"]);
    let run = start(command.process_group(0));
    let generator = folder.path().join("offload-off/generator");
    wait_for("the generator", || {
        generator.join("ledger").exists().then_some(())
    });
    wait_items(&generator, ("interface", "packets"), "outgoing", 5_000);
    let children = children_of(run.pid());
    assert!(children.len() >= 3, "{children:?}");
    // A terminal sends it to the whole group of processes.
    sh(&format!("kill -INT -{}", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(
        (&json["interrupted"], &json["agrees"]),
        (&true.into(), &true.into())
    );
    let [only] = &json["runs"].as_array().unwrap()[..] else {
        panic!("{json}")
    };
    let sent = only["sent"]["packets"].as_u64().unwrap();
    assert!((5_000..300_000).contains(&sent), "{only}");
    assert_eq!(only["interrupted"], true);
    for pid in children {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} goes on"
        );
    }
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let folder = TempDir::new().unwrap();
    let refused = |programs: &[&str]| {
        let path = TempDir::new().unwrap();
        for name in programs {
            symlink("/bin/true", path.path().join(name)).unwrap();
        }
        let mut command = demo(folder.path(), &["--packets", "5k"]);
        let ended = start(command.env("PATH", path.path())).end();
        assert_eq!(
            (ended.code(), &ended.stdout[..]),
            (Some(2), ""),
            "{}",
            ended.stderr
        );
        ended.stderr
    };
    let none = refused(&[]);
    assert!(
        none.contains("`unshare`") && none.contains("package util-linux"),
        "{none}"
    );
    let no_ip = refused(&["unshare", "setpriv", "nsenter"]);
    assert!(
        no_ip.contains("`ip`") && no_ip.contains("package iproute2"),
        "{no_ip}"
    );
    // Here the program that makes namespaces makes none, as it does without root.
    let no_root = refused(&["unshare", "setpriv", "nsenter", "ip"]);
    assert!(no_root.contains("needs root"), "{no_root}");
    for (args, wrong) in [
        (&["--packets", "5"][..], "packets"),
        (
            &["--packets", "5k", "--duration", "1s"],
            "cannot be used with",
        ),
        (&["--rate", "0"], "write a number as 50k"),
    ] {
        let ended = start(&mut demo(folder.path(), args)).end();
        assert_eq!(ended.code(), Some(2), "{args:?}");
        assert!(ended.stderr.contains(wrong), "{args:?}: {}", ended.stderr);
    }
}
