//! What stays of an end point that was killed, and what is said of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;

use rig::{audit, audit_json, forebay, start, wait_for};

#[test]
fn an_audit_says_of_when_the_books_of_a_killed_one_are() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let address = format!("shm://killed-{}", std::process::id());
    let receive = |more: &[&str]| {
        let mut command = forebay();
        command
            .args(["net", "recv", &address, "--output", "null", "--out"])
            .arg(&out)
            .args(more);
        start(&mut command)
    };
    let receiver = receive(&[]);
    let sender = start(forebay().args(["net", "send", &address, "--input", "generate"]));
    let taken = || {
        let deliver = audit_json(&out)["balance"]["accounts"]
            .as_array()?
            .iter()
            .find(|line| line["place"] == "deliver")?
            .clone();
        deliver["outgoing"]["items"]
            .as_u64()
            .filter(|items| *items > 0)
    };
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("the first messages in the books", taken);
    assert!(rig::signal("KILL", receiver.pid()));
    receiver.end();
    assert!(rig::signal("INT", sender.pid()));
    assert!(rig::signal("INT", sender.pid()));
    sender.end();
    let memory = fs::read_link(out.join("ledger")).unwrap();
    let ended = audit(&out);
    assert_eq!(ended.code(), Some(0), "{}", ended.stdout);
    for part in [
        "did not end by itself",
        "last sign of life is of 20",
        "UTC",
        ", as of then",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let verdict = audit_json(&out);
    assert_eq!(verdict["condition"], "interrupted", "{verdict}");
    assert!(
        verdict["as_of_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000,
        "{verdict}"
    );
    // The next one takes it out of memory, and its own books are not of any earlier time.
    assert!(memory.exists());
    let next = receive(&["--count", "0"]).end();
    assert_eq!(next.code(), Some(0), "{}", next.stderr);
    assert!(!memory.exists());
    assert!(audit_json(&out)["as_of_ns"].is_null());
}
