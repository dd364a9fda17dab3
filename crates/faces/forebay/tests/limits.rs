//! Limits of the host that a run meets: each is named, with what to do, and none ends a run without a word.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rig::{Ended, Run, audit, evb, forebay, free_ports, signal, start};
use tempfile::TempDir;

/// Starts a command below limits that a shell sets.
fn limited(limits: &str, command: &Command) -> Run {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("{word:?}")).collect();
    let script = format!("{limits}; exec {}", words.join(" "));
    start(Command::new("sh").args(["-c", &script]))
}

fn assert_told(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "no {part:?} in {}",
            ended.stderr
        );
    }
}

#[test]
fn a_limit_of_the_size_of_files_is_a_named_condition() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(1);
    // Above what the rings and the receiver take in memory files, below what the sink is given: 20 MiB.
    let command = evb(
        folder.path(),
        1,
        base_port,
        &["--sink-queue", "1Mi", "--event-size", "256Ki"],
    );
    let run = limited("ulimit -f 40960", &command);
    run.wait_stages(&["receiver", "builder"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let port = base_port.to_string();
    let sender = [
        "emulate", "hades", "--group", "1:20000", "--rate", "1000", "--events", "2000",
    ];
    let sent = start(forebay().args(sender).args(["--base-port", &port])).end();
    assert_eq!(sent.code(), Some(0), "{}", sent.stderr);
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    assert_eq!(json["condition"], "tainted", "{json}");
    assert!(
        json["taints"].to_string().contains("File too large"),
        "{json}"
    );
    assert_eq!(audit(folder.path()).code(), Some(0));
    let refused = limited("ulimit -f 1", &evb(folder.path(), 1, base_port, &[])).end();
    assert_told(&refused, &["File too large", "ulimit -f"]);
}

#[test]
fn what_the_host_lacks_is_told_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let base_port = free_ports(40);
    let few_files = limited("ulimit -n 30", &evb(&out, 40, base_port, &[])).end();
    assert_told(&few_files, &["Too many open files", "ulimit -n 8192"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap().to_string();
    let in_use = start(&mut evb(&out, 1, base_port, &["--metrics", &metrics])).end();
    assert_told(&in_use, &[&metrics, "choose another port"]);
}

#[test]
fn what_has_no_books_is_told_with_what_to_audit() {
    let folder = TempDir::new().unwrap();
    assert_told(
        &audit(Path::new("/no/such/run")),
        &["/no/such/run", "--out of a run"],
    );
    assert_told(&audit(folder.path()), &["--out of a run"]);
    // In a mover's directory each stream has its ledger; this one is none.
    std::fs::write(folder.path().join("mover-1-tcp.ledger"), "").unwrap();
    assert_eq!(audit(folder.path()).code(), Some(2));
}

#[test]
fn names_of_hosts_are_looked_up() {
    let folder = TempDir::new().unwrap();
    let args = ["--bind", "localhost", "--duration", "100ms"];
    start(&mut evb(folder.path(), 1, free_ports(1), &args))
        .end()
        .json_of(0);
    let sender = [
        "emulate",
        "hades",
        "--group",
        "1:116",
        "--events",
        "1",
        "--dest",
        "localhost",
    ];
    let port = free_ports(1).to_string();
    let sent = start(forebay().args(sender).args(["--base-port", &port])).end();
    assert_eq!(sent.code(), Some(0), "{}", sent.stderr);
}
