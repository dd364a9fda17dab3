//! Publishers are found on a bus, come and go, and those that die vanish.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rig::{Run, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn signal(run: &Run, signal: Signal) {
    kill_process(Pid::from_raw(run.pid() as i32).unwrap(), signal).unwrap();
}

/// A registry on a host of its own on the loopback network: where it is.
fn registry(number: u8) -> (Run, String) {
    registry_saying(number, "json")
}

fn registry_saying(number: u8, format: &str) -> (Run, String) {
    let pid = std::process::id();
    let address = format!("127.{}.{}.{number}:7300", 1 + (pid >> 8) % 250, pid % 256);
    let run = start(forebay().args([
        "net",
        "bus",
        &format!("tcp://{address}"),
        "--format",
        format,
    ]));
    wait_for("the registry", || TcpStream::connect(&address).ok());
    (run, address)
}

/// What a registry answers to one line.
fn ask(stream: &mut TcpStream, line: &str) -> Value {
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(&*stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn offers(address: &str) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).unwrap();
    ask(&mut stream, "\"find\"")["offers"]
        .as_array()
        .unwrap()
        .clone()
}

fn publisher(bus: &str, tag: &str, more: &[&str]) -> Run {
    let generated = [
        "--input",
        "generate",
        "--message-bytes",
        "8",
        "--tag",
        tag,
        "--name",
        "p",
    ];
    start(
        forebay()
            .args([
                "net",
                "pub",
                "tcp://127.0.0.1:0",
                "--format",
                "json",
                "--bus",
                bus,
            ])
            .args(generated)
            .args(more),
    )
}

fn subscriber(bus: &str, tags: &str, to: &Path) -> Run {
    let to = ["--as", "raw", "--output", to.to_str().unwrap()];
    start(
        forebay()
            .args([
                "net", "sub", "--bus", bus, "--format", "json", "--tag", tags,
            ])
            .args(to),
    )
}

/// Messages of 8 bytes.
fn written(to: &Path) -> u64 {
    std::fs::metadata(to).map_or(0, |file| file.len()) / 8
}

/// Publishers of two tags come and go; a subscriber of both finds each of them, and not the third.
fn found_on(bus: &str) {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    let subscriber = subscriber(bus, "5,6", &to);
    let first = publisher(bus, "5", &["--count", "100"]);
    let second = publisher(bus, "6", &["--count", "200"]);
    let other = publisher(bus, "7", &["--count", "400"]);
    for run in [first, second] {
        assert_eq!(run.end().json_of(0)["residual_items"], 0);
    }
    wait_for("all messages", || (written(&to) == 300).then_some(()));
    // One more, after the others have gone.
    publisher(bus, "6", &["--count", "50"]).end();
    wait_for("the messages of the last one", || {
        (written(&to) == 350).then_some(())
    });
    signal(&other, Signal::INT);
    assert_eq!(
        other.end().json_of(0)["messages"],
        0,
        "nobody has asked for it"
    );
    signal(&subscriber, Signal::INT);
    let got = subscriber.end().json_of(0);
    assert_eq!(
        (&got["messages"], &got["connections_made"]),
        (&json!(350), &json!(3)),
        "{got}"
    );
}

#[test]
fn publishers_are_found_by_a_registry() {
    let (registry, address) = registry(1);
    found_on(&format!("tcp://{address}"));
    assert_eq!(offers(&address), [] as [Value; 0]);
    signal(&registry, Signal::INT);
    let summary = registry.end().json_of(0);
    assert_eq!(
        (&summary["offers"], &summary["expired"]),
        (&json!(4), &json!(0)),
        "{summary}"
    );
}

#[test]
fn publishers_are_found_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let bus = directory.path().join("bus");
    found_on(&format!("dir:{}", bus.display()));
    let left: Vec<_> = std::fs::read_dir(&bus).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_dead_publisher_vanishes() {
    let (registry, address) = registry(2);
    let directory = tempfile::tempdir().unwrap();
    let bus = directory.path().join("bus");
    let in_directory = format!("dir:{}", bus.display());
    let runs =
        [format!("tcp://{address}"), in_directory.clone()].map(|bus| publisher(&bus, "9", &[]));
    wait_for("the offers", || {
        let files = std::fs::read_dir(&bus).map_or(0, Iterator::count);
        (offers(&address).len() == 1 && files == 1).then_some(())
    });
    for run in &runs {
        signal(run, Signal::KILL);
    }
    runs.into_iter().for_each(|run| drop(run.end()));
    wait_for("the registry to forget", || {
        offers(&address).is_empty().then_some(())
    });
    // The file is still there, and counts for nothing when its lease is over: it is as old as that.
    let files = std::fs::read_dir(&bus).unwrap().flatten();
    let dead: Vec<_> = files.map(|file| file.path()).collect();
    assert_eq!(dead.len(), 1, "{dead:?}");
    let file = File::options().append(true).open(&dead[0]).unwrap();
    let long_ago = SystemTime::now() - Duration::from_millis(5_100);
    file.set_modified(long_ago).unwrap();
    // A subscriber that has found another publisher has seen that file, too.
    let other = publisher(&in_directory, "9", &["--rate", "100"]);
    let to = directory.path().join("to");
    let late = subscriber(&in_directory, "9", &to);
    wait_for("the messages of another one", || {
        (written(&to) > 0).then_some(())
    });
    signal(&late, Signal::INT);
    let late = late.end().json_of(0);
    assert_eq!(late["connections_made"], 1, "{late}");
    assert_eq!(late["attempts"], 1, "{late}");
    signal(&other, Signal::INT);
    other.end();
    signal(&registry, Signal::INT);
    registry.end();
}

#[test]
fn a_silent_offer_ends_with_its_lease_and_garbage_costs_nobody_else() {
    let (registry, address) = registry(3);
    let offer = |name: &str| {
        json!({"announce": {"name": name, "address": "tcp://10.0.0.1:1", "tags": [{"tag": 1, "mask": 255}], "host": "h", "pid": 1}}).to_string()
    };
    let mut silent = TcpStream::connect(&address).unwrap();
    assert_eq!(ask(&mut silent, &offer("silent")), json!("kept"));
    for garbage in ["GET / HTTP/1.1", "{}", "\"steal\"", &offer("../../etc")] {
        let mut stranger = TcpStream::connect(&address).unwrap();
        assert!(
            ask(&mut stranger, garbage)["refused"].is_string(),
            "{garbage}"
        );
    }
    let mut endless = TcpStream::connect(&address).unwrap();
    // Let go in the middle of it.
    let _ = endless.write_all(&vec![b'x'; 5 << 20]);
    assert_eq!(offers(&address)[0]["name"], "silent");
    wait_for("the end of the lease", || {
        offers(&address).is_empty().then_some(())
    });
    // It may come again on the same connection.
    assert_eq!(ask(&mut silent, &offer("silent")), json!("kept"));
    assert_eq!(offers(&address).len(), 1);
    signal(&registry, Signal::INT);
    let summary = registry.end().json_of(0);
    assert_eq!(summary["expired"], 1, "{summary}");
    assert_eq!(
        summary["refused"],
        json!({"not_understood": 4, "too_long": 1}),
        "{summary}"
    );
}

#[test]
fn people_are_told_who_was_let_go() {
    let (registry, address) = registry_saying(4, "text");
    let mut stranger = TcpStream::connect(&address).unwrap();
    assert!(ask(&mut stranger, "HELO")["refused"].is_string());
    signal(&registry, Signal::INT);
    let ended = registry.end();
    let let_go = "1 client let go: not_understood\n";
    assert!(ended.stdout.ends_with(let_go), "{}", ended.stdout);
}
