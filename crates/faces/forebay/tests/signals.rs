//! Ctrl-C and SIGTERM: the last complete event is written, the books are closed, the record is there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::time::{Duration, Instant};

use rig::{
    Run, account_items, assert_closed, audit, audit_json, demo, evb, files, forebay, free_ports,
    hld, number, signal, start,
};
use tempfile::TempDir;

const SOURCES: u16 = 6;

fn emulate(base_port: u16) -> Run {
    let mut command = forebay();
    command.args([
        "emulate",
        "hades",
        "--group",
        &format!("{SOURCES}:200"),
        "--rate",
        "2000",
        "--duration",
        "30s",
        "--flush",
        "20ms",
    ]);
    start(command.args([
        "--water-mark",
        "4000",
        "--format",
        "json",
        "--base-port",
        &base_port.to_string(),
    ]))
}

/// Ends an `evb` with live senders by `signals`, 60 ms apart.
fn end_by(signals: &[&str]) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(SOURCES);
    let run = start(&mut evb(folder.path(), SOURCES, base_port, &[]));
    run.wait_stages(&["receiver", "builder"]);
    let sender = emulate(base_port);
    rig::wait_items(folder.path(), ("sink", "events"), "outgoing", 501);
    for name in signals {
        assert!(signal(name, run.pid()));
        std::thread::sleep(Duration::from_millis(60));
    }
    let json = run.end().json_of(0);
    signal("TERM", sender.pid());
    assert!(number(&sender.end().json_of(0), "events_sent") > 0);
    assert_eq!(
        (&json["condition"], &json["reason"]),
        (&"ended".into(), &"requested".into()),
        "{json}"
    );
    let events = hld::events(&files(&json));
    assert!(events.len() > 500, "{} events", events.len());
    assert_eq!(
        events.len() as u64,
        number(&json, "events_built") + number(&json, "events_partial")
    );
    // Whatever the receiver took and the builder did not drop by name lies in the files, up to the last event.
    let subs = hld::count_once(&events);
    assert_closed(&json, folder.path());
    let verdict = audit_json(folder.path());
    let of_builder = |term| account_items(&verdict, ("builder", "subevents"), term);
    let queued = account_items(&verdict, ("queue", "subevents"), "outgoing");
    assert_eq!(
        (of_builder("incoming"), of_builder("outgoing")),
        (queued, subs)
    );
    let sequences: Vec<u32> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u32).collect::<Vec<_>>());
}

#[test]
fn control_c_ends_in_order() {
    end_by(&["INT"]);
}

#[test]
fn sigterm_ends_in_order() {
    end_by(&["TERM"]);
}

#[test]
fn a_second_signal_corrupts_nothing() {
    end_by(&["INT", "TERM"]);
}

#[test]
fn stages_leave_signals_to_their_supervisor() {
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "3", "--rate", "1000", "--duration", "1500ms"],
    ));
    let stages = run.wait_stages(&["generator", "receiver", "builder"]);
    rig::wait_items(folder.path(), ("sink", "events"), "outgoing", 100);
    for pid in stages.values() {
        for name in ["INT", "TERM", "HUP"] {
            signal(name, *pid);
        }
    }
    let json = run.end().json_of(0);
    assert!(
        json["restarts"]
            .as_object()
            .unwrap()
            .values()
            .all(|count| count == 0),
        "{json}"
    );
    assert_eq!(number(&json, "events_built"), 1500);
}

#[test]
fn a_signal_while_starting_ends_in_order() {
    for delay_ms in [0, 5, 15, 30, 60, 100] {
        let folder = TempDir::new().unwrap();
        let run = start(&mut evb(folder.path(), SOURCES, free_ports(SOURCES), &[]));
        // The handlers are there before the first file is.
        rig::wait_for("the ledger", || {
            folder.path().join("ledger").exists().then_some(())
        });
        std::thread::sleep(Duration::from_millis(delay_ms));
        // As a terminal does it: to everybody.
        let stages = run.stages();
        signal("INT", run.pid());
        for pid in stages.values() {
            signal("INT", *pid);
        }
        let json = run.end().json_of(0);
        assert_eq!(json["reason"], "requested", "after {delay_ms} ms: {json}");
        assert_closed(&json, folder.path());
    }
}

#[test]
fn a_live_audit_takes_what_is_under_way_for_what_it_is() {
    let folder = TempDir::new().unwrap();
    let begun = Instant::now();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "20", "--rate", "4000", "--duration", "10m"],
    ));
    run.wait_stages(&["generator", "receiver", "builder"]);
    rig::wait_items(folder.path(), ("sink", "events"), "outgoing", 1);
    let at_work = Instant::now();
    for _ in 0..25 {
        let says = audit(folder.path());
        assert_eq!(says.code(), Some(0), "{}", says.stdout);
    }
    let least = at_work.elapsed();
    signal("INT", run.pid());
    run.end().json_of(0);
    let ended = audit_json(folder.path());
    assert_eq!(ended["phase"], "ended");
    // As it says itself, not as its dates do.
    let lasted = Duration::from_nanos(number(&ended["balance"]["run"], "elapsed_ns"));
    assert!(lasted >= least && lasted <= begun.elapsed(), "{lasted:?}");
}

/// A stage dies at its very start as it may die later.
fn killed_at_its_start(stage: &str) {
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "40", "--rate", "500", "--duration", "1s"],
    ));
    let pid = rig::wait_for("the stage", || run.stages().get(stage).copied());
    assert!(signal("KILL", pid));
    let json = run.end().json_of(0);
    assert!(number(&json["restarts"], stage) >= 1, "{json}");
    assert_eq!(number(&json, "events_built"), 500, "{json}");
    assert_closed(&json, folder.path());
}

#[test]
fn a_builder_killed_at_its_start_is_started_again() {
    killed_at_its_start("builder");
}

#[test]
fn a_receiver_killed_at_its_start_is_started_again() {
    killed_at_its_start("receiver");
}

/// A start without an end: as of rings whose memory is hard to come by.
#[test]
fn a_start_that_takes_long_hears_a_signal() {
    for name in ["TERM", "INT"] {
        let folder = TempDir::new().unwrap();
        let mut command = evb(folder.path(), 1, free_ports(1), &[]);
        let (_hold, told) = rig::held_up(folder.path(), "builder");
        let run = start(command.env("FOREBAY_STALL", told));
        run.wait_stages(&["builder"]);
        signal(name, run.pid());
        // Before, it was waited for as long as a start may take: longer than `end` waits.
        let json = run.end().json_of(0);
        assert_eq!(
            (&json["condition"], &json["reason"]),
            (&"ended".into(), &"requested".into()),
            "{json}"
        );
        assert_closed(&json, folder.path());
    }
}
