//! The fault switch: items that vanish at any one hop are found, and the hop and their number are named.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use rig::{audit, audit_json, demo, start};
use tempfile::TempDir;

/// Leaks `items` at `hop`; the audit must say so, and nothing else.
fn leak(hop: &str, items: i64, unit: &str) {
    leak_into("file", hop, items, unit);
}

fn leak_into(sink: &str, hop: &str, items: i64, unit: &str) {
    let folder = TempDir::new().unwrap();
    // Few bytes per message, so that there are many datagrams.
    let args = [
        "--sources",
        "3",
        "--rate",
        "1000",
        "--duration",
        "800ms",
        "--water-mark",
        "1000",
        "--sink",
        sink,
    ];
    let ended =
        start(demo(folder.path(), &args).env("FOREBAY_LEAK", format!("{hop}:{items}"))).end();
    assert_eq!(
        ended.code(),
        Some(1),
        "{hop}: {}\n{}",
        ended.stdout,
        ended.stderr
    );
    assert!(
        ended.json()["residual_items"].as_i64() == Some(items),
        "{hop}: {}",
        ended.stdout
    );
    let text = audit(folder.path());
    assert_eq!(text.code(), Some(1), "{hop}: {}", text.stdout);
    let named = |line: &str| {
        line.trim_start().starts_with(&format!("{hop} "))
            && line.contains(&format!(": {items} {unit}, "))
    };
    assert!(
        text.stdout.lines().any(named),
        "{hop}:{items} is not named in\n{}",
        text.stdout
    );
    let verdict = audit_json(folder.path());
    let offenders = verdict["offenders"].as_array().unwrap();
    assert!(
        offenders.iter().all(|line| line["place"] == hop),
        "{offenders:?}"
    );
    assert_eq!(
        offenders
            .iter()
            .map(|line| line["residual"]["items"].as_i64().unwrap())
            .sum::<i64>(),
        items,
        "{offenders:?}"
    );
}

#[test]
fn at_the_generator() {
    leak("generator", 5, "subevents");
}

#[test]
fn at_the_socket() {
    leak("socket", 7, "datagrams");
}

#[test]
fn at_the_receiver() {
    leak("receiver", 4, "datagrams");
}

#[test]
fn at_the_queue() {
    leak("queue", 11, "subevents");
}

#[test]
fn at_the_ring() {
    leak("ring", 6, "subevents");
}

#[test]
fn at_the_builder() {
    leak("builder", 13, "subevents");
}

#[test]
fn at_the_events() {
    leak("events", 9, "events");
}

#[test]
fn at_the_fan_out() {
    leak("fan_out", 7, "events");
}

#[test]
fn at_the_offer() {
    leak("offer", 8, "events");
}

#[test]
fn at_the_queue_of_the_sink() {
    leak("sink_queue", 3, "events");
}

#[test]
fn at_the_sink() {
    leak("sink", 2, "events");
}

/// A null sink has no queue and no thread, and still books of its own.
#[test]
fn before_a_null_sink() {
    leak_into("null", "sink_queue", 3, "events");
}

#[test]
fn at_a_null_sink() {
    leak_into("null", "sink", 2, "events");
}

#[test]
fn nothing_leaks_by_itself() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--sources",
        "3",
        "--rate",
        "1000",
        "--duration",
        "500ms",
        "--water-mark",
        "1000",
    ];
    let json = start(&mut demo(folder.path(), &args)).end().json_of(0);
    rig::assert_closed(&json, folder.path());
}

#[test]
fn a_run_that_leaks_says_so_while_it_goes_on() {
    let folder = TempDir::new().unwrap();
    let mut command = rig::forebay();
    command.args([
        "demo",
        "--sources",
        "3",
        "--rate",
        "1000",
        "--duration",
        "4s",
        "--sink",
        "null",
        "--out",
    ]);
    let ended = start(command.arg(folder.path()).env("FOREBAY_LEAK", "builder:5")).end();
    assert_eq!(ended.code(), Some(1));
    let told = |line: &str| line.starts_with("RESIDUAL at builder source0: ");
    assert!(ended.stderr.lines().any(told), "{}", ended.stderr);
    let live = |line: &str| line.contains("  fill: ") && line.ends_with("residual 5");
    assert!(ended.stderr.lines().any(live), "{}", ended.stderr);
}

#[test]
fn what_vanishes_in_a_link_readout_is_found_where_it_did() {
    // At `send` the publisher's books have it, under the name that the tests of messaging hold, and the subscriber's tell of nothing: it never left.
    for (hop, unit, of) in [
        ("card", "chunks", "card"),
        ("dma", "blocks", "tohost"),
        ("decode", "subchunks", "tohost"),
        ("publish", "chunks", "tohost"),
        ("send", "messages", "tohost/publisher0"),
        ("check", "chunks", "swrod/check"),
    ] {
        let folder = TempDir::new().unwrap();
        let args = [
            "demo",
            "tohost",
            "--links",
            "2",
            "--dma-buffers",
            "2",
            "--trigger-hz",
            "1000",
            "--duration",
            "500ms",
            "--format",
            "json",
        ];
        let mut command = rig::forebay();
        command.args(args).arg("--out").arg(folder.path());
        let ended = start(command.env("FOREBAY_LEAK", format!("{hop}:5"))).end();
        let json = ended.json_of(1);
        let left = json["residual_items"].as_i64().unwrap();
        assert!(left >= 5, "{hop}: {json}");
        if hop != "send" {
            rig::offenders::assert_named(&folder.path().join(of), hop, unit, 5);
        }
        for other in [
            "card",
            "tohost",
            "tohost/publisher0",
            "swrod",
            "swrod/check",
        ] {
            let verdict = audit_json(&folder.path().join(other));
            assert_eq!(verdict["closed"], other != of, "{hop}: {other}: {verdict}");
        }
    }
}

#[test]
fn a_hop_that_a_program_does_not_have_is_refused_with_those_that_it_has() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let listen = "127.0.0.1:0";
    let programs: [(&[&str], &str); 11] = [
        (
            &["mover", "--listen", listen, "--out", out],
            "stream, mover",
        ),
        (&["demo", "--out", out], "socket"),
        (&["evb", "--sources", "1", "--out", out], "socket"),
        (&["net", "send", "tcp://127.0.0.1:1"], "deliver"),
        (&["net", "sub", "shm://nobody"], "deliver"),
        (&["tdm", "send", "127.0.0.1:1"], "send"),
        (&["tdm", "receive", "--bind", "127.0.0.1:0"], "datagrams"),
        (&["replay", "none.pcap", "--out", out], "capture"),
        (&["swrod", "shm://nobody"], "deliver"),
        (
            &["demo", "tohost", "--out", out],
            "dma, decode, publish, send, card, from_host, deliver, check",
        ),
        (&["emulate", "card", "--replay", "none.dat"], "file, card"),
    ];
    for (arguments, hop) in programs {
        let mut command = rig::forebay();
        command.args(arguments).env("FOREBAY_LEAK", "soket:7");
        let ended = start(&mut command).end();
        let said = &ended.stderr;
        assert_eq!(ended.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("no hop \"soket\""), "{arguments:?}: {said}");
        let listed = said.split("its hops are ").nth(1).unwrap();
        assert!(listed.contains(hop), "{arguments:?}: {said}");
    }
}
