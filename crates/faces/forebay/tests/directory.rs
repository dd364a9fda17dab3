//! The directory of a run and its addresses: what is taken, what is kept, what is refused and how that is said.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rig::{assert_closed, audit, demo, evb, files, forebay, free_ports, number, signal, start};
use serde_json::Value;
use tempfile::TempDir;

const SHORT: [&str; 6] = ["--sources", "3", "--rate", "1000", "--duration", "300ms"];

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(3);
    let _taken = UdpSocket::bind(("127.0.0.1", base_port + 1)).unwrap();
    let ended = start(&mut evb(
        &folder.path().join("out"),
        3,
        base_port,
        &["--duration", "1s"],
    ))
    .end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains(&format!("127.0.0.1:{}", base_port + 1)),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("in use") && ended.stderr.contains(':'),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.is_empty());
    assert!(!folder.path().join("out/ledger").exists());
}

#[test]
fn ports_beyond_the_last_are_refused() {
    let folder = TempDir::new().unwrap();
    let ended = start(&mut evb(folder.path(), 100, 65_500, &["--duration", "1s"])).end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("65535"), "{}", ended.stderr);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    let ended = start(&mut demo(&file.join("out"), &SHORT)).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("creating directory") && ended.stderr.contains("file/out"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_directory_that_is_not_ours_to_write_is_named() {
    // /proc is nobody's to write, root included.
    let ended = start(&mut demo(Path::new("/proc/forebay"), &SHORT)).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("/proc/forebay"), "{}", ended.stderr);
    let folder = TempDir::new().unwrap();
    let mut rights = folder.path().metadata().unwrap().permissions();
    rights.set_mode(0o555);
    std::fs::set_permissions(folder.path(), rights).unwrap();
    if std::fs::write(folder.path().join("probe"), "").is_ok() {
        forebay_testing::skip!("the rest: this user may write anywhere");
        return;
    }
    let ended = start(&mut demo(folder.path(), &SHORT)).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
}

#[test]
fn a_second_run_keeps_ledger_record_and_files_of_the_first() {
    let folder = TempDir::new().unwrap();
    let first = start(&mut demo(folder.path(), &SHORT)).end().json_of(0);
    let bytes = std::fs::read(&files(&first)[0]).unwrap();
    let second = start(&mut demo(folder.path(), &SHORT)).end().json_of(0);
    assert_ne!(files(&first), files(&second));
    assert_eq!(std::fs::read(&files(&first)[0]).unwrap(), bytes);
    let id = first["run_id"].as_str().unwrap();
    let record: Value = serde_json::from_slice(
        &std::fs::read(folder.path().join(format!("run-{id}.json"))).unwrap(),
    )
    .unwrap();
    assert_eq!(record["run_id"], first["run_id"]);
    let kept = audit(&folder.path().join(format!("ledger-{id}")));
    assert_eq!(kept.code(), Some(0), "{}", kept.stdout);
    assert!(kept.stdout.contains(id));
    assert_closed(&second, folder.path());
}

#[test]
fn a_directory_with_a_live_run_is_refused() {
    let folder = TempDir::new().unwrap();
    let first = start(&mut demo(
        folder.path(),
        &["--sources", "3", "--rate", "1000", "--duration", "2s"],
    ));
    first.wait_stages(&["generator", "receiver", "builder"]);
    let ended = start(&mut demo(folder.path(), &SHORT)).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains(&format!("a run is going on there (pid {})", first.pid())),
        "{}",
        ended.stderr
    );
    let json = first.end().json_of(0);
    assert_eq!(number(&json, "events_built"), 2000, "{json}");
    assert_closed(&json, folder.path());
}

#[test]
fn nothing_is_left_in_memory() {
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "3", "--rate", "1000", "--duration", "1s"],
    ));
    run.wait_stages(&["generator"]);
    let live = std::fs::read_link(folder.path().join("ledger")).unwrap();
    assert!(live.starts_with("/dev/shm") && live.exists());
    run.end().json_of(0);
    assert!(!live.exists());
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().ends_with(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_stage_that_cannot_start_ends_the_run_at_once() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    // Fewer descriptors than the receiver needs for its sockets: it can be started, but not begin.
    let script = format!(
        "ulimit -n 60; exec {:?} evb --sources 40 --base-port {} --duration 5s --format json --out {out:?}",
        rig::forebay().get_program(),
        free_ports(40)
    );
    let begin = std::time::Instant::now();
    let ended = start(std::process::Command::new("sh").args(["-c", &script])).end();
    assert_eq!(ended.code(), Some(2), "{}\n{}", ended.stdout, ended.stderr);
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    assert!(!ended.stderr.is_empty());
}

#[test]
fn without_data_a_run_closes_empty_books() {
    let folder = TempDir::new().unwrap();
    let run = start(&mut evb(
        folder.path(),
        2,
        free_ports(2),
        &["--duration", "300ms"],
    ));
    let json = run.end().json_of(0);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "bytes_in"),
            files(&json).len()
        ),
        (0, 0, 0),
        "{json}"
    );
    assert_closed(&json, folder.path());
    let run = start(&mut evb(folder.path(), 2, free_ports(2), &[]));
    run.wait_stages(&["receiver", "builder"]);
    signal("TERM", run.pid());
    run.end().json_of(0);
}

#[test]
fn runs_in_one_second_tell_their_files_apart() {
    let folder = TempDir::new().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let args = ["--sources", "1", "--rate", "1000", "--duration", "100ms"];
        let json = start(&mut demo(folder.path(), &args)).end().json_of(0);
        assert_eq!(files(&json).len(), 1, "{json}");
        assert!(seen.insert(files(&json)), "{json}");
    }
}

#[test]
fn ports_beyond_the_last_are_refused_and_not_wrapped() {
    let folder = TempDir::new().unwrap();
    let group = ["--base-port", "65530"];
    let emulate = start(
        forebay()
            .args(["emulate", "hades", "--group", "10:116"])
            .args(group),
    );
    let evb = start(&mut evb(folder.path(), 10, 65530, &[]));
    let mut demo = demo(folder.path(), &["--sources", "10"]);
    for refused in [emulate.end(), evb.end(), start(demo.args(group)).end()] {
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("10 ports from 65530 on"),
            "{}",
            refused.stderr
        );
    }
}
