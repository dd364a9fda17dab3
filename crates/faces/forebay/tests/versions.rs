//! What the version before has left is still read: a ledger with its record of an emulator, which lie beside this file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::path::PathBuf;

use rig::{forebay, start};

/// A copy of the directory of that run.
fn kept() -> (PathBuf, tempfile::TempDir) {
    let here: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/version1"]
        .iter()
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    for name in ["ledger", "run.json"] {
        std::fs::copy(here.join(name), run.join(name)).unwrap();
    }
    (run, folder)
}

#[test]
fn audit_and_top_read_what_the_version_before_has_left() {
    let (run, _folder) = kept();
    let verdict = rig::audit_json(&run);
    assert_eq!(verdict["closed"], true, "{verdict}");
    assert_eq!(
        rig::account_items(&verdict, ("generator", "subevents"), "outgoing"),
        10
    );
    // From the record alone.
    let lost = &verdict["host_counters"]["lost"];
    assert_eq!(lost["Udp.InErrors"], 3, "{verdict}");
    let mut command = forebay();
    command
        .args(["top", "--once", "--format", "json"])
        .arg(&run);
    let view = start(&mut command).end();
    assert_eq!(view.code(), Some(0), "{}", view.stderr);
    assert_eq!(view.json()["condition"], "ended", "{}", view.stdout);
}

#[test]
fn the_next_run_in_its_directory_puts_it_aside_by_its_name() {
    let (run, _folder) = kept();
    let port = rig::free_ports(1).to_string();
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", "1:100", "--events", "3"]);
    command.args(["--base-port", &port, "--out"]).arg(&run);
    let ended = start(&mut command).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    let record = std::fs::read(run.join("run.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(
        (&record["record_version"], &record["events_sent"]),
        (&2.into(), &3.into())
    );
    for name in ["ledger-emulate-5836", "run-emulate-5836.json"] {
        assert!(run.join(name).exists(), "{name}");
    }
}
