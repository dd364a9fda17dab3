//! Any number of sources from 1 to 1,024 (the system that this one stands for broke at 96), and trigger numbers that wrap.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use rig::{assert_closed, demo, evb, files, forebay, free_ports, hld, number, signal, start};
use tempfile::TempDir;

fn all_arrive(sources: u16, rate: &str, events: u64) {
    let folder = TempDir::new().unwrap();
    let json = start(&mut demo(
        folder.path(),
        &[
            "--sources",
            &sources.to_string(),
            "--rate",
            rate,
            "--duration",
            "1s",
        ],
    ))
    .end()
    .json_of(0);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (events, 0),
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
    all_arrive(1, "1000", 1000);
}

#[test]
fn around_the_old_limit() {
    for sources in [95, 96, 97] {
        all_arrive(sources, "200", 200);
    }
}

#[test]
fn up_to_256() {
    for sources in [128, 256] {
        all_arrive(sources, "100", 100);
    }
}

#[test]
fn a_thousand_and_twenty_four() {
    all_arrive(1024, "50", 50);
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
}

#[test]
fn sixteen_bits_wrap() {
    wraps("16", 0xffff - 700);
}

#[test]
fn twenty_four_bits_wrap() {
    wraps("24", 0xff_ffff - 700);
}
