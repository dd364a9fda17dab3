//! `forebay demo`, the main job in one command, as a script sees it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::collections::BTreeSet;
use std::process::Stdio;

use rig::{assert_closed, audit, demo, files, forebay, hld, number, start};
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &[&str]) -> (TempDir, Value) {
    let folder = TempDir::new().unwrap();
    let json = start(&mut demo(&folder.path().join("out"), args))
        .end()
        .json_of(0);
    (folder, json)
}

#[test]
fn the_json_has_every_promised_key() {
    let (folder, json) = run(&["--sources", "9", "--rate", "1000", "--duration", "1500ms"]);
    let out = folder.path().join("out");
    for key in [
        "events_built",
        "events_partial",
        "events_discarded",
        "subevents_in",
        "bytes_in",
        "bytes_written",
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert!(json[key].is_u64(), "{key}: {}", json[key]);
    }
    for key in ["event_rate_hz", "data_rate_bytes_per_s", "efficiency"] {
        assert!(json[key].is_f64(), "{key}: {}", json[key]);
    }
    assert!(
        json["drops"].as_object().unwrap().is_empty(),
        "{}",
        json["drops"]
    );
    assert!(json["generator_limited"].is_boolean());
    let stages = BTreeSet::from(["generator", "receiver", "builder"]);
    for (key, of) in [
        ("cpu_s", Value::is_f64 as fn(&Value) -> bool),
        ("pids", Value::is_u64),
    ] {
        let by_stage = json[key].as_object().unwrap();
        assert_eq!(
            by_stage.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            stages,
            "{key}"
        );
        assert!(by_stage.values().all(of), "{key}: {by_stage:?}");
    }
    let pids: BTreeSet<_> = json["pids"]
        .as_object()
        .unwrap()
        .values()
        .map(Value::to_string)
        .collect();
    assert_eq!(pids.len(), 3, "the stages are processes of their own");
    assert_eq!(number(&json, "events_built"), 1500, "{json}");
    assert_eq!(number(&json, "subevents_in"), 9 * 1500);
    assert!((json["efficiency"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert_closed(&json, &out);
    let files = files(&json);
    assert_eq!(files.len(), 1);
    assert!(files[0].is_absolute() && files[0].is_file(), "{files:?}");
    assert_eq!(
        files[0].metadata().unwrap().len(),
        number(&json, "bytes_written")
    );
    let facts = start(
        forebay()
            .args(["inspect", "--format", "json"])
            .arg(&files[0]),
    )
    .end()
    .json_of(0);
    assert_eq!(
        number(&facts, "events"),
        number(&json, "events_built") + number(&json, "events_partial")
    );
    assert_eq!(number(&facts, "subevents"), number(&json, "subevents_in"));
    let events = hld::events(&files);
    assert_eq!((events.len(), hld::count_once(&events)), (1500, 9 * 1500));
    assert!(out.join("run.json").is_file() && out.join("ledger").is_file());
}

#[test]
fn threads_of_one_process_do_the_same() {
    let (folder, json) = run(&[
        "--sources",
        "5",
        "--rate",
        "1000",
        "--duration",
        "1s",
        "--threads",
    ]);
    let pids: BTreeSet<_> = json["pids"]
        .as_object()
        .unwrap()
        .values()
        .map(Value::to_string)
        .collect();
    assert_eq!(pids.len(), 1);
    assert_eq!(hld::count_once(&hld::events(&files(&json))), 5 * 1000);
    assert_closed(&json, &folder.path().join("out"));
}

#[test]
fn a_null_sink_writes_no_file() {
    let (folder, json) = run(&[
        "--sources",
        "5",
        "--rate",
        "1000",
        "--duration",
        "500ms",
        "--sink",
        "null",
    ]);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "bytes_written")
        ),
        (500, 0)
    );
    assert!(files(&json).is_empty());
    let left: BTreeSet<_> = std::fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, BTreeSet::from(["ledger".into(), "run.json".into()]));
    assert_closed(&json, &folder.path().join("out"));
}

#[test]
fn huge_sub_events_of_several_datagrams_lose_nothing() {
    let (folder, json) = run(&[
        "--sources",
        "4",
        "--rate",
        "1000",
        "--duration",
        "1500ms",
        "--huge-every",
        "100",
        "--huge-size",
        "100000",
    ]);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (1500, 0),
        "{json}"
    );
    let events = hld::events(&files(&json));
    assert_eq!(hld::count_once(&events), 4 * 1500);
    let huge = events
        .iter()
        .flat_map(|event| &event.sizes)
        .filter(|size| **size >= 100_000)
        .count();
    assert!(
        (40..=80).contains(&huge),
        "{huge} huge sub-events of about 60"
    );
    assert_closed(&json, &folder.path().join("out"));
}

#[test]
fn text_for_people_ends_with_the_balance_sheet() {
    let folder = TempDir::new().unwrap();
    let ended = start(forebay().current_dir(&folder).args([
        "demo",
        "--sources",
        "3",
        "--rate",
        "500",
        "--duration",
        "1200ms",
    ]))
    .end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    for wanted in [
        "The books close.",
        "600 complete events",
        "Read back: 600 events",
        "forebay-demo",
    ] {
        assert!(
            ended.stdout.contains(wanted),
            "{wanted:?} is not in\n{}",
            ended.stdout
        );
    }
    assert!(ended.stderr.contains("memory:"), "{}", ended.stderr);
}

#[test]
fn closed_pipes_harm_nothing() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    // Standard output and standard error go to a reader that is gone before the first byte.
    let script = format!(
        "({:?} demo --sources 3 --rate 500 --duration 1s --out {:?}; echo $? > {:?}) 2>&1 | true",
        forebay().get_program(),
        out,
        folder.path().join("code")
    );
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let code = rig::wait_for("the exit code", || {
        std::fs::read_to_string(folder.path().join("code"))
            .ok()
            .filter(|text| text.ends_with('\n'))
    });
    assert_eq!(code.trim(), "0");
    let audit = audit(&out);
    assert_eq!(audit.code(), Some(0), "{}", audit.stdout);
    assert!(audit.stdout.contains(": ended ("), "{}", audit.stdout);
}

#[test]
fn strict_makes_a_named_loss_3() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--sources",
        "3",
        "--rate",
        "4000",
        "--duration",
        "700ms",
        "--water-mark",
        "0",
        "--socket-buffer",
        "4096",
        "--strict",
    ];
    let run = start(&mut demo(folder.path(), &args));
    let receiver = run.wait_stages(&["generator", "receiver"])["receiver"];
    rig::signal("STOP", receiver);
    std::thread::sleep(std::time::Duration::from_millis(200));
    rig::signal("CONT", receiver);
    let json = run.end().json_of(3);
    assert!(
        rig::dropped_in_all(&json, "socket.buffer_full") > 0,
        "{json}"
    );
    assert_closed(&json, folder.path());
}
