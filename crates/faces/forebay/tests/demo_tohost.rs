//! `forebay demo tohost`: the chain of link readout in one command, on good days and on bad ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::path::Path;

use rig::{Run, account_items, at_work, audit_json, children_of, forebay, signal, start, wait_for};
use serde_json::Value;

fn demo(out: &Path, args: &[&str]) -> Run {
    let mut command = forebay();
    command.args(["demo", "tohost", "--format", "json", "--out"]);
    start(command.arg(out).args(args))
}

fn number(summary: &Value, key: &str) -> u64 {
    let found = summary[key].as_u64();
    found.unwrap_or_else(|| panic!("{key} in {summary}"))
}

#[test]
fn every_chunk_of_every_trigger_arrives_and_the_books_of_three_processes_close() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let run = demo(
        &out,
        &["--trigger-hz", "20000", "--duration", "1s", "--links", "10"],
    );
    let summary = run.end().json_of(0);
    assert_eq!(number(&summary, "triggers"), 20_000);
    for key in ["chunks_expected", "chunks_published", "chunks_received"] {
        assert_eq!(number(&summary, key), 200_000, "{key}");
    }
    for key in [
        "chunks_truncated",
        "payload_mismatches",
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert_eq!(number(&summary, key), 0, "{key}");
    }
    assert_eq!(summary["drops"], serde_json::json!({}));
    assert_eq!(summary["link_limited"], false);
    // Each 256th trigger, on each link.
    let latency = &summary["latency_ns"];
    assert_eq!(number(latency, "count"), 79 * 10);
    assert_eq!(number(latency, "unknown"), 0);
    assert!(
        number(latency, "p50") <= number(latency, "p999"),
        "{latency}"
    );
    let pids = summary["pids"].as_object().unwrap();
    let mut pids: Vec<u64> = pids.values().map(|pid| pid.as_u64().unwrap()).collect();
    pids.dedup();
    assert_eq!(pids.len(), 3, "{summary}");
    for name in [
        "card",
        "tohost",
        "tohost/publisher3",
        "swrod",
        "swrod/check",
    ] {
        assert_eq!(audit_json(&out.join(name))["closed"], true, "{name}");
    }
    for name in ["card", "tohost"] {
        let top = start(forebay().arg("top").arg(out.join(name))).end();
        assert!(
            top.stdout.contains("200000 chunks, 0 lost by name"),
            "{}",
            top.stdout
        );
    }
    // All of them at once.
    let all = audit_json(&out);
    assert_eq!(all["closed"], true);
    assert_eq!(all["runs"].as_object().unwrap().len(), 8, "{all}");
    // What the end point delivered the checker has looked at: counted by two.
    let delivered = audit_json(&out.join("swrod"));
    let checked = audit_json(&out.join("swrod/check"));
    for term in ["incoming", "outgoing"] {
        let delivered = account_items(&delivered, ("deliver", "messages"), term);
        let checked = account_items(&checked, ("check", "chunks"), term);
        assert_eq!((delivered, checked), (200_000, 200_000), "{term}");
    }
}

#[test]
fn a_link_that_is_full_holds_triggers_back_at_its_budget() {
    let directory = tempfile::tempdir().unwrap();
    // 1 KiB is 259 words of 240 million a second: 926,641 Hz of the million asked for. This host need not move that in real time.
    let args = [
        "--links",
        "1",
        "--chunk-bytes",
        "1024",
        "--duration",
        "20ms",
        "--time-dilation",
        "50",
    ];
    let summary = demo(directory.path(), &args).end().json_of(0);
    assert_eq!(summary["link_limited"], true);
    assert!(number(&summary, "held_by_link") > 0);
    assert_eq!(summary["drops"], serde_json::json!({}));
    assert_eq!(
        number(&summary, "chunks_received"),
        number(&summary, "triggers")
    );
    let rate = summary["trigger_rate_hz"].as_f64().unwrap();
    assert!((900_000.0..950_000.0).contains(&rate), "{rate}");
    assert_eq!(number(&summary, "time_dilation"), 50);
}

#[test]
fn an_order_to_end_ends_it_with_its_books_closed() {
    let directory = tempfile::tempdir().unwrap();
    let run = endless(directory.path(), "10000");
    let parts = children_of(run.pid());
    assert_eq!(parts.len(), 3);
    assert!(signal("INT", run.pid()));
    let summary = run.end().json_of(0);
    assert!(number(&summary, "triggers") > 0);
    assert_eq!(
        number(&summary, "chunks_received"),
        number(&summary, "chunks_expected")
    );
    assert!(!parts.into_iter().any(rig::is_alive));
}

/// A chain that goes on until it is told to end, at work.
fn endless(out: &Path, trigger_hz: &str) -> Run {
    let run = demo(out, &["--trigger-hz", trigger_hz, "--duration", "60s"]);
    at_work(&out.join("tohost"), 10_001);
    run
}

/// The process of this member of the chain.
fn part(run: &Run, member: &str) -> u32 {
    let runs = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == member.as_bytes())
    };
    children_of(run.pid()).into_iter().find(runs).unwrap()
}

/// No interrupt waits for this process, or it is gone.
fn has_taken(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut waits = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("ShdPnd:")?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    waits.all(|mask| mask & 2 == 0)
}

#[test]
fn who_asks_three_times_does_not_wait_for_a_part_that_stands_still() {
    let directory = tempfile::tempdir().unwrap();
    let run = endless(directory.path(), "5000");
    let parts = children_of(run.pid());
    assert!(signal("STOP", part(&run, "card")));
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        assert!(signal("INT", run.pid()));
        // Two that wait at once would be one.
        wait_for("whoever takes the order", || {
            has_taken(run.pid()).then_some(())
        });
    }
    let ended = run.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stdout);
    assert!(begun.elapsed().as_secs() < 30);
    assert!(
        ended.json()["failed"].to_string().contains("card"),
        "{}",
        ended.stdout
    );
    assert!(!parts.into_iter().any(rig::is_alive));
}

#[test]
fn a_chain_whose_parts_could_not_find_each_other_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = demo(directory.path(), &["--backend", "tcp://127.0.0.1:0"]).end();
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("name one"), "{}", refused.stderr);
    let deep = directory.path().join("x".repeat(120));
    let refused = demo(&deep, &[]).end();
    assert_eq!(refused.code(), Some(2));
    assert!(
        refused.stderr.contains("shorter --out"),
        "{}",
        refused.stderr
    );
    let first = endless(directory.path(), "5000");
    let written = || std::fs::read_to_string(directory.path().join("chain.toml")).unwrap();
    let before = written();
    let second = demo(directory.path(), &["--chunk-bytes", "64"]).end();
    assert_eq!(second.code(), Some(2));
    assert_eq!(written(), before, "the file of the chain at work");
    assert!(
        second.stderr.contains("another chain is at work"),
        "{}",
        second.stderr
    );
    assert!(signal("INT", first.pid()));
    assert_eq!(first.end().code(), Some(0));
}

fn killed(member: &str) -> (Value, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let run = endless(directory.path(), "10000");
    let parts = children_of(run.pid());
    assert!(signal("KILL", part(&run, member)));
    let ended = run.end();
    assert_ne!(ended.code(), Some(0), "{}", ended.stdout);
    assert!(!parts.into_iter().any(rig::is_alive), "nothing is left");
    let summary = ended.json();
    let failed = summary["failed"].to_string();
    assert!(failed.contains("signal: 9"), "{failed}");
    // Those that lived on have closed their books; those of the killed process are as of its last sign of life.
    for name in ["card", "tohost", "swrod"] {
        let verdict = audit_json(&directory.path().join(name));
        assert_eq!(verdict["closed"], true, "{name}: {verdict}");
    }
    (summary, directory)
}

#[test]
fn a_killed_card_ends_the_chain_with_its_books_closed() {
    let (summary, _directory) = killed("card");
    assert_eq!(
        number(&summary, "chunks_received"),
        number(&summary, "chunks_published")
    );
}

#[test]
fn a_killed_tohost_ends_the_chain_with_its_books_closed() {
    let (summary, _directory) = killed("tohost");
    assert!(number(&summary, "chunks_received") > 0);
}

#[test]
fn a_killed_subscriber_ends_the_chain_with_its_books_closed() {
    let (summary, _directory) = killed("swrod");
    assert!(number(&summary, "chunks_published") > 0);
}

#[test]
fn a_killed_head_takes_its_chain_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let run = endless(directory.path(), "10000");
    let parts = children_of(run.pid());
    assert!(signal("KILL", run.pid()));
    run.end();
    wait_for("the end of all", || {
        (!parts.iter().any(|pid| rig::is_alive(*pid))).then_some(())
    });
    for name in ["card", "tohost"] {
        let verdict = audit_json(&directory.path().join(name));
        assert_eq!(verdict["closed"], true, "{name}: {verdict}");
        assert_ne!(verdict["condition"], "running", "{name}: {verdict}");
    }
}
