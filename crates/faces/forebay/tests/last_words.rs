//! What a run says last: that nothing came, what nobody had asked for, and what was dropped unread.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;

use rig::sender::{Sender, message};
use rig::{
    Ended, audit, audit_json, evb, forebay, free_ports, number, signal, start, wait_for, wait_items,
};
use tempfile::TempDir;

/// What a run said, on both outputs; it ended well.
fn said(ended: &Ended) -> String {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code(), Some(0), "{said}");
    said
}

fn address() -> String {
    format!("127.0.0.1:{}", free_ports(1))
}

fn verdict(out: &Path) -> String {
    said(&audit(out))
}

fn top(out: &Path) -> String {
    said(&start(forebay().arg("top").arg(out).arg("--once")).end())
}

/// Starts a program, asks it to end when it is at work, and gives what it said.
fn ended_at_once(words: &[&str], at_work: impl Fn() -> bool) -> String {
    let run = start(forebay().args(words));
    wait_for("work", || at_work().then_some(()));
    assert!(signal("INT", run.pid()));
    said(&run.end())
}

#[test]
fn a_run_that_saw_nothing_says_so() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("recv");
    let is_open = |address: &str| {
        let address = address.to_owned();
        move || std::net::TcpStream::connect(&address).is_ok()
    };
    let address = self::address();
    let at = format!("tcp://{address}");
    let words = ["net", "recv", &at, "--out", out.to_str().unwrap()];
    let recv = ended_at_once(&words, is_open(&address));
    assert!(
        recv.contains("nothing came: there was no message"),
        "{recv}"
    );
    let told = verdict(&out);
    assert!(
        told.trim_end().ends_with("Nothing came. The books close."),
        "{told}"
    );

    let address = self::address();
    let files = folder.path().join("files");
    let words = [
        "mover",
        "--listen",
        &address,
        "--out",
        files.to_str().unwrap(),
    ];
    let mover = ended_at_once(&words, is_open(&address));
    assert!(
        mover.contains("Nothing came: no stream of events began"),
        "{mover}"
    );

    let out = folder.path().join("evb");
    let run = start(&mut evb(&out, 2, free_ports(2), &[]));
    run.wait_stages(&["receiver", "builder"]);
    assert!(signal("INT", run.pid()));
    run.end().json_of(0);
    let told = verdict(&out);
    assert!(told.contains("Nothing came. No event was built."), "{told}");
}

#[test]
fn messages_that_nobody_had_asked_for_are_not_subscribed() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("pub");
    let at = format!("tcp://{}", address());
    let mut publisher = forebay();
    publisher.args([
        "net", "pub", &at, "--tag", "42", "--input", "generate", "--count", "1000",
    ]);
    publisher.args(["--message-bytes", "8", "--subscribers", "1", "--out"]);
    let publisher = start(publisher.arg(&out));
    let subscriber = start(forebay().args(["net", "sub", &at, "--tag", "7", "--once"]));
    let told = said(&publisher.end());
    assert!(told.contains("1000 messages not subscribed"), "{told}");
    said(&subscriber.end());
    for (what, told) in [("audit", verdict(&out)), ("top", top(&out))] {
        assert!(!told.contains("Lost by name"), "{what}: {told}");
        assert!(!told.contains("1000 lost by name"), "{what}: {told}");
    }
    assert!(verdict(&out).contains("Not subscribed: 1,000 messages"));
    assert!(top(&out).contains("0 lost by name, 1000 not subscribed"));
}

/// Nobody knows what a datagram held whose length is wrong: the inference says that it may have been that.
#[test]
fn what_was_dropped_unread_may_be_what_never_came() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = start(&mut evb(
        folder.path(),
        2,
        base_port,
        &["--timeout", "100ms"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for first in (0..100).step_by(10) {
        for source in 0..2 {
            let mut bytes = message(source, first..first + 10, 40);
            // One of source 1 alone, and one of both.
            if first == 50 || (first, source) == (20, 1) {
                bytes.extend([0; 8]);
            }
            sender.send(source, &bytes);
        }
    }
    wait_items(folder.path(), ("builder", "subevents"), "incoming", 170);
    wait_for("the last trigger", || {
        let seen = &audit_json(folder.path())["triggers"]["triggers_span"];
        (seen.as_u64()? >= 100).then_some(())
    });
    assert!(signal("INT", run.pid()));
    let json = run.end().json_of(0);
    assert_eq!(number(&json, "triggers_missing"), 10, "{json}");
    assert_eq!(number(&json, "subevents_missing"), 10, "{json}");
    let told = verdict(folder.path());
    let missing = "seen by no source but in datagrams that were dropped unread";
    assert!(told.contains(missing), "{told}");
    let among = "what 3 datagrams held that were dropped unread is among them";
    assert!(told.contains(among), "{told}");
}
