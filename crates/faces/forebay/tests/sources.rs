//! Any number of sources from 1 to 1,024 (the system that this one stands for broke at 96), and trigger numbers that wrap.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use rig::sender::{Sender, message};
use rig::{
    assert_closed, audit_json, demo, evb, files, forebay, free_ports, hld, number, signal, start,
    wait_for, wait_items,
};
use serde_json::Value;
use tempfile::TempDir;

/// Sends so many events of all sources, no more at a time than the smallest buffer of a socket takes.
fn all_arrive(sources: u16, events: u32) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(sources);
    let run = start(&mut evb(folder.path(), sources, base_port, &[]));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for first in (0..events).step_by(50) {
        for source in 0..sources {
            sender.send(source, &message(source, first..first + 50, 100));
        }
        let sent = u64::from(sources) * u64::from(first + 50);
        wait_items(folder.path(), ("queue", "subevents"), "outgoing", sent);
    }
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (u64::from(events), 0),
        "{sources}: {json}"
    );
    let events = hld::events(&files(&json));
    assert!(
        events
            .iter()
            .all(|event| event.subs.len() == usize::from(sources) && !event.incomplete)
    );
    assert_eq!(hld::count_once(&events), number(&json, "subevents_in"));
    assert_closed(&json, folder.path());
}

#[test]
fn one() {
    all_arrive(1, 1000);
}

#[test]
fn around_the_old_limit() {
    for sources in [95, 96, 97] {
        all_arrive(sources, 200);
    }
}

#[test]
fn up_to_256() {
    for sources in [128, 256] {
        all_arrive(sources, 100);
    }
}

#[test]
fn a_thousand_and_twenty_four() {
    all_arrive(1024, 50);
}

/// Trigger numbers of `bits` that pass their end during the run.
fn wraps(bits: &str, first: u32) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(3);
    let run = start(&mut evb(
        folder.path(),
        3,
        base_port,
        &["--trigger-bits", bits],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let mut command = forebay();
    command.args([
        "emulate", "hades", "--group", "3:100", "--rate", "2000", "--events", "1500", "--flush",
        "20ms", "--format", "json",
    ]);
    command.args([
        "--trigger-bits",
        bits,
        "--first-trigger",
        &first.to_string(),
        "--base-port",
        &base_port.to_string(),
    ]);
    let sent = start(&mut command).end().json_of(0);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(number(&sent, "events_sent"), 1500);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (1500, 0),
        "{json}"
    );
    let events = hld::events(&files(&json));
    let triggers: Vec<_> = events.iter().map(|event| event.subs[0].1).collect();
    let mask = if bits == "16" { 0xffff } else { 0xff_ffff };
    let expected: Vec<_> = (0..1500).map(|index| (first + index) & mask).collect();
    assert!(
        triggers.iter().map(|trigger| trigger & mask).eq(expected),
        "{triggers:?}"
    );
    assert_closed(&json, folder.path());
    let mismatches = |bits: &str| -> u64 {
        let inspect = |file| {
            let mut command = forebay();
            command.args(["inspect", "--format", "json", "--trigger-bits", bits]);
            start(command.arg(file)).end().json_of(0)
        };
        let facts = files(&json).into_iter().map(inspect);
        facts
            .map(|facts| number(&facts, "trigger_mismatch_events"))
            .sum()
    };
    assert_eq!(mismatches(bits), 0);
    // The numbers of the sources differ above 16 bits.
    assert_eq!(mismatches("24"), if bits == "16" { 1500 } else { 0 });
}

#[test]
fn sixteen_bits_wrap() {
    wraps("16", 0xffff - 700);
}

#[test]
fn twenty_four_bits_wrap() {
    wraps("24", 0xff_ffff - 700);
}

/// Three emulated readouts without water mark, into a run that counts; what each of them said.
fn emulated(arguments: &[&str]) -> (Value, Value) {
    emulated_into(3, arguments)
}

/// The same, into a run of `sources`.
fn emulated_into(sources: u16, arguments: &[&str]) -> (Value, Value) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(sources);
    let run = start(&mut evb(
        folder.path(),
        sources,
        base_port,
        &["--sink", "null"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    wait_for("readiness", || {
        (audit_json(folder.path())["condition"] == "running").then_some(())
    });
    let mut sender = forebay();
    sender.args(["emulate", "hades", "--group", "3:116", "--water-mark", "0"]);
    sender.args(["--format", "json", "--base-port", &base_port.to_string()]);
    let sent = start(sender.args(arguments)).end().json_of(0);
    rig::wait_arrived(folder.path(), number(&sent, "datagrams_sent"));
    signal("INT", run.pid());
    let built = run.end().json_of(0);
    assert_closed(&built, folder.path());
    (sent, built)
}

#[test]
fn a_fault_of_one_emulated_source_is_missing_in_its_events() {
    let (sent, built) = emulated(&[
        "--rate",
        "5000",
        "--events",
        "1000",
        "--fault",
        "1:drop,every=10",
    ]);
    assert_eq!(number(&sent, "events_sent"), 1000);
    assert_eq!(number(&sent, "subevents_sent"), 2900);
    assert_eq!(number(&built, "events_built"), 900);
    assert_eq!(number(&built, "events_partial"), 100);
}

#[test]
fn emulated_beam_comes_in_spills() {
    let (sent, built) = emulated(&[
        "--rate",
        "10000",
        "--events",
        "500",
        "--spill",
        "100ms:10ms",
    ]);
    assert_eq!(number(&built, "events_built"), 500);
    // 100 triggers in each spill: the last of five begins after 400 ms. Without spills it would take 50 ms.
    let seconds = sent["duration_s"].as_f64().unwrap();
    assert!(seconds > 0.4, "{seconds}");
}

#[test]
fn what_is_no_fault_is_refused_with_what_there_is() {
    let refused = start(forebay().args([
        "emulate",
        "hades",
        "--group",
        "1:116",
        "--fault",
        "0:explode",
    ]))
    .end();
    assert_eq!(refused.code(), Some(2));
    assert!(
        refused.stderr.contains("explode") && refused.stderr.contains("duplicate"),
        "{}",
        refused.stderr
    );
}

#[test]
fn rates_are_those_of_the_data_also_when_a_source_is_silent() {
    let (sent, built) = emulated_into(4, &["--rate", "1000", "--duration", "2s"]);
    let events = number(&sent, "events_sent");
    assert_eq!(number(&built, "events_partial"), events, "{built}");
    assert_eq!(number(&built, "subevents_missing"), events, "{built}");
    // Events wait for the silent source and come out at once when it is given up: no reason for a higher rate.
    let rate = built["event_rate_hz"].as_f64().unwrap();
    assert!((500.0..1_100.0).contains(&rate), "{rate}");
}

#[test]
fn efficiency_counts_triggers_that_no_source_brought() {
    let folder = TempDir::new().unwrap();
    // Every other sub-event is longer than the receiver takes.
    let mut command = demo(folder.path(), &["--sources", "2", "--rate", "200"]);
    command.args([
        "--duration",
        "1s",
        "--huge-every",
        "2",
        "--huge-size",
        "300000",
    ]);
    let json = start(&mut command).end().json_of(0);
    let (built, efficiency) = (
        number(&json, "events_built"),
        json["efficiency"].as_f64().unwrap(),
    );
    assert!(built > 50, "{json}");
    assert!((0.4..0.6).contains(&efficiency), "{json}");
}
