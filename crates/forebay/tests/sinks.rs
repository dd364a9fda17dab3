//! Where events go: files that follow one another, two sinks at once, one that hangs, a disk that is full.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rig::sender::{Sender, message};
use rig::{
    assert_closed, audit, demo, dropped, evb, files, free_ports, hld, number, signal, start,
};
use serde_json::Value;
use tempfile::TempDir;

/// Runs `evb` with `args` and 1,000 events of about 1 kB from each of two sources, `pause_ms` between tenths.
fn take(args: &[&str], pause_ms: u64) -> (TempDir, Value) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = start(&mut evb(folder.path(), 2, base_port, args));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for part in 0..10 {
        for source in 0..2 {
            for first in (part * 100..part * 100 + 100).step_by(20) {
                sender.send(source, &message(source, first..first + 20, 500));
            }
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (1000, 0),
        "{json}"
    );
    assert_closed(&json, folder.path());
    (folder, json)
}

/// Each file has a name and a run number of its own, which all of its events carry; nothing is missing.
fn assert_rotated(json: &Value) -> Vec<hld::ReadFile> {
    let paths = files(json);
    let mut read: Vec<_> = paths.iter().map(|path| hld::read(path)).collect();
    let runs: BTreeSet<_> = read.iter().map(|file| file.run.unwrap()).collect();
    assert_eq!(runs.len(), paths.len(), "{paths:?}");
    for file in &read {
        assert!(file.is_ended && file.broken == 0);
        assert!(file.events.iter().all(|event| Some(event.run) == file.run));
    }
    assert_eq!(hld::count_once(&hld::events(&paths)), 2000);
    assert_eq!(
        read.iter().map(|file| file.bytes).sum::<u64>(),
        number(json, "bytes_written")
    );
    read.sort_by_key(|file| file.run);
    read
}

#[test]
fn a_new_file_after_so_many_events() {
    let (_folder, json) = take(&["--file-events", "150"], 0);
    let read = assert_rotated(&json);
    assert_eq!(
        read.iter()
            .map(|file| file.events.len())
            .collect::<Vec<_>>(),
        [150, 150, 150, 150, 150, 150, 100]
    );
}

#[test]
fn a_new_file_before_this_one_is_too_large() {
    let (_folder, json) = take(&["--file-size", "100000"], 0);
    let read = assert_rotated(&json);
    assert!(
        read.len() >= 10 && read.iter().all(|file| file.bytes <= 100_000),
        "{} files",
        read.len()
    );
}

#[test]
fn a_new_file_after_so_much_time() {
    let (_folder, json) = take(&["--file-time", "1s"], 300);
    assert!((2..=4).contains(&assert_rotated(&json).len()));
}

#[test]
fn two_file_sinks_in_one_directory_do_not_write_into_each_other() {
    let (_folder, json) = take(
        &[
            "--sink",
            "file",
            "--sink",
            "file",
            "--sink",
            "null",
            "--file-events",
            "250",
        ],
        0,
    );
    let paths = files(&json);
    let names: BTreeSet<_> = paths.iter().collect();
    assert_eq!(
        (paths.len(), names.len()),
        (8, 8),
        "four files of 250 events in each sink: {paths:?}"
    );
    let events = hld::events(&paths);
    assert_eq!(events.len(), 2000);
    let mut sequences: Vec<_> = events.iter().map(|event| event.sequence).collect();
    sequences.sort_unstable();
    assert!(
        sequences.chunks(2).all(|pair| pair[0] == pair[1]),
        "each event is in both"
    );
}

#[test]
fn a_sink_that_hangs_holds_nobody_else_up() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let args = ["--sink", "file", "--sink", "file"];
    let run = start(evb(folder.path(), 2, base_port, &args).env("FOREBAY_STALL", "file2:3000"));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    let begin = Instant::now();
    for first in (0..2000).step_by(50) {
        for source in 0..2 {
            sender.send(source, &message(source, first..first + 50, 500));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let written = rig::wait_for("all events in the other sink", || {
        let verdict = rig::audit_json(folder.path());
        let lines = verdict["balance"]["accounts"].as_array().unwrap();
        let out = |owner: &str| {
            lines
                .iter()
                .find(|line| line["place"] == "sink" && line["owner"] == owner)
                .unwrap()["outgoing"]["items"]
                .as_u64()
        };
        (out("file") == Some(2000)).then(|| out("file2"))
    });
    assert!(
        begin.elapsed() < Duration::from_millis(2900),
        "it took {:?}",
        begin.elapsed()
    );
    assert_eq!(written, Some(0));
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(
        hld::events(&files(&json)).len(),
        4000,
        "what waited in the queue is written in the end"
    );
    assert_closed(&json, folder.path());
}

#[test]
fn a_sink_that_never_ends_is_given_up_by_name() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    let args = ["--sink", "file", "--sink", "file"];
    let run = start(evb(folder.path(), 1, base_port, &args).env("FOREBAY_STALL", "file2:600000"));
    run.wait_stages(&["receiver", "builder"]);
    Sender::new(base_port).send(0, &message(0, 0..100, 500));
    std::thread::sleep(Duration::from_millis(300));
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(json["condition"], "tainted", "{json}");
    assert!(
        json["taints"][0]
            .as_str()
            .unwrap()
            .starts_with("sink_stalled: sink file2"),
        "{json}"
    );
    assert_eq!(dropped(&json, "sink.stalled.file2"), 100, "{json}");
    assert_eq!(hld::events(&files(&json)).len(), 100);
    assert_closed(&json, folder.path());
}

/// Runs `command` where `directory` is a file system of `bytes`, in a mount namespace of its own; none where that is not allowed.
fn on_small_disk(command: &Command, directory: &Path, bytes: u64) -> Option<Command> {
    let probe = Command::new("unshare").args(["--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: no private mount namespace here (needs root and util-linux)");
        return None;
    }
    let mut small = Command::new("unshare");
    let script = format!(
        "mount -t tmpfs -o size={bytes} none {directory:?} && \"$@\"; code=$?; mkdir -p {directory:?}.kept; cp -a {directory:?}/. {directory:?}.kept/; exit $code"
    );
    small
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    Some(small)
}

#[test]
fn a_full_disk_is_a_named_condition_and_harms_nothing_written() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let plain = demo(
        &out,
        &["--sources", "9", "--rate", "4000", "--duration", "2s"],
    );
    let Some(mut command) = on_small_disk(&plain, &out, 8 << 20) else {
        return;
    };
    let ended = start(&mut command).end();
    let json = ended.json_of(0);
    assert_eq!(
        (&json["condition"], &json["reason"]),
        (&"tainted".into(), &"disk full".into()),
        "{json}"
    );
    assert!(
        json["taints"][0]
            .as_str()
            .unwrap()
            .starts_with("disk_full: "),
        "{json}"
    );
    let lost = dropped(&json, "sink.disk_full.file");
    assert!(lost > 0, "{json}");
    let kept = folder.path().join("out.kept");
    let paths: Vec<PathBuf> = files(&json)
        .iter()
        .map(|path| kept.join(path.file_name().unwrap()))
        .collect();
    let events = hld::events(&paths);
    assert_eq!(
        events.len() as u64 + lost,
        number(&json, "events_built") + number(&json, "events_partial")
    );
    assert!(
        hld::count_once(&events) > 9 * 1000,
        "{} events",
        events.len()
    );
    // The ledger and the record had their room from the start.
    assert!(kept.join("run.json").is_file());
    let audit = audit(&kept);
    assert_eq!(audit.code(), Some(0), "{}", audit.stdout);
    assert!(
        audit.stdout.contains("tainted (disk full)"),
        "{}",
        audit.stdout
    );
    assert_eq!(
        (
            number(&json, "residual_items"),
            number(&json, "residual_bytes")
        ),
        (0, 0)
    );
}
