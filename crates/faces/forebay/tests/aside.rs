//! What lies in a run's directory from before it: renamed and named, never destroyed, and put back by a run that is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rig::{Ended, audit, demo, evb, files, free_ports, start};
use tempfile::TempDir;

const NULL: [&str; 6] = ["--sources", "2", "--duration", "100ms", "--sink", "null"];

/// Every file of a directory with what is in it.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn run_in(directory: &Path) -> Ended {
    let ended = start(&mut demo(directory, &NULL)).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    ended
}

/// Asserts that `ended` warned of a file that now has that name and holds `bytes`.
fn assert_kept(directory: &Path, ended: &Ended, name: &str, bytes: &[u8]) {
    let kept = directory.join(name);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes, "{name}");
    let warned = format!("kept as {}", kept.display());
    assert!(ended.stderr.contains(&warned), "{}", ended.stderr);
    let warnings = ended.json()["warnings"].to_string();
    assert!(warnings.contains(&warned), "{warnings}");
}

#[test]
fn files_that_are_no_runs_are_kept_under_another_name() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().canonicalize().unwrap();
    std::fs::write(out.join("ledger"), "my notebook").unwrap();
    std::fs::write(out.join("run.json"), "my shoes").unwrap();
    let first = run_in(&out);
    assert_kept(&out, &first, "ledger-old", b"my notebook");
    assert_kept(&out, &first, "run-old.json", b"my shoes");
    let id = first.json()["run_id"].as_str().unwrap().to_owned();
    // Once more: names that are taken stay so.
    let ledger = std::fs::read(out.join("ledger")).unwrap();
    std::fs::write(out.join("run.json"), "my hat").unwrap();
    let second = run_in(&out);
    assert_kept(&out, &second, "run-old-2.json", b"my hat");
    let kept = std::fs::read(out.join(format!("ledger-{id}"))).unwrap();
    assert_eq!(kept, ledger);
    assert_eq!(
        std::fs::read(out.join("run-old.json")).unwrap(),
        b"my shoes"
    );
}

#[test]
fn a_damaged_or_missing_ledger_costs_no_record() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().canonicalize().unwrap();
    for damage in ["cut", "byte", "gone"] {
        let id = run_in(&out).json()["run_id"].as_str().unwrap().to_owned();
        let path = out.join("ledger");
        let mut bytes = std::fs::read(&path).unwrap();
        match damage {
            "cut" => bytes.truncate(1000),
            _ => bytes[0] ^= 0xff,
        }
        std::fs::write(&path, &bytes).unwrap();
        if damage == "gone" {
            std::fs::remove_file(&path).unwrap();
        }
        let record = std::fs::read(out.join("run.json")).unwrap();
        let next = run_in(&out);
        assert_kept(&out, &next, &format!("run-{id}.json"), &record);
        if damage != "gone" {
            assert_kept(&out, &next, &format!("ledger-{id}"), &bytes);
        }
    }
}

#[test]
fn a_pipe_where_the_ledger_goes_is_refused() {
    let folder = TempDir::new().unwrap();
    for name in ["ledger", "run.json"] {
        let pipe = folder.path().join(name);
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let ended = start(&mut demo(folder.path(), &NULL)).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("a pipe"), "{}", ended.stderr);
        assert_eq!(audit(folder.path()).code(), Some(2));
        std::fs::remove_file(&pipe).unwrap();
    }
}

#[test]
fn a_refused_start_leaves_the_directory_as_it_was() {
    let folder = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap().to_string();
    let out = folder.path().join("new");
    let refuse = || {
        let args = ["--duration", "1s", "--metrics", &metrics];
        let ended = start(&mut evb(&out, 2, free_ports(2), &args)).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    };
    refuse();
    assert!(!out.exists());
    let first = start(&mut demo(&out, &["--sources", "2", "--duration", "100ms"])).end();
    assert_eq!(files(&first.json_of(0)).len(), 1);
    std::fs::write(out.join("run.json"), "mine").unwrap();
    let before = contents(&out);
    refuse();
    assert_eq!(contents(&out), before);
}
