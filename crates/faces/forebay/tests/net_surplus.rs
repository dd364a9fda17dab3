//! What a receiver was sent and did not want has a name in its books.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use rig::{Ended, forebay, number, start};
use serde_json::Value;

fn address(number: u32) -> String {
    format!("shm://surplus-{}-{number}", std::process::id())
}

fn net(verb: &str, address: &str, more: &[&str]) -> Command {
    let mut command = forebay();
    command
        .args(["net", verb, address, "--format", "json"])
        .args(more);
    command
}

/// Messages that fill a buffer many times over.
fn generate(address: &str, out: &Path) -> Ended {
    let generated = ["--input", "generate", "--message-bytes", "8"];
    let bounds = ["--count", "30000", "--out", out.to_str().unwrap()];
    start(net("send", address, &generated).args(bounds)).end()
}

/// A summary whose books close.
fn closed(summary: &Value) {
    assert_eq!(summary["residual_items"], 0, "{summary}");
    assert_eq!(summary["residual_bytes"], 0, "{summary}");
    assert_eq!(summary["held"], 0, "{summary}");
}

/// Messages that came to the account `deliver`, and those that were taken from there, as `forebay audit` reads them.
fn deliver(out: &Path) -> [u64; 2] {
    let verdict = rig::audit_json(out);
    let of = ("deliver", "messages");
    ["incoming", "outgoing"].map(|term| rig::account_items(&verdict, of, term))
}

#[test]
fn what_comes_after_the_last_one_that_was_asked_for_is_lost_by_name() {
    let (address, directory) = (address(0), tempfile::tempdir().unwrap());
    let out = directory.path().join("recv");
    let to = directory.path().join("to");
    let ends = ["--count", "5", "--out", out.to_str().unwrap()];
    let output = ["--output", to.to_str().unwrap()];
    let receiver = start(net("recv", &address, &ends).args(output));
    generate(&address, &directory.path().join("send"));
    let summary = receiver.end().json_of(0);
    closed(&summary);
    let came = number(&summary, "messages");
    assert!(came > 5, "{summary}");
    let lost = rig::lost(&summary, "not_wanted");
    assert_eq!((lost, number(&summary, "dropped")), (came - 5, came - 5));
    assert_eq!(deliver(&out), [came, 5]);
    assert_eq!(std::fs::read_to_string(&to).unwrap().lines().count(), 5);
}

#[test]
fn what_a_closed_pipe_does_not_take_is_lost_by_name() {
    let (address, directory) = (address(1), tempfile::tempdir().unwrap());
    let out = directory.path().join("recv");
    let more = ["--as", "raw", "--out", out.to_str().unwrap()];
    let mut receiver = net("recv", &address, &more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = receiver.stdout.take().unwrap();
    let sender = {
        let (address, out) = (address, directory.path().join("send"));
        std::thread::spawn(move || generate(&address, &out))
    };
    // Two messages, and no more.
    pipe.read_exact(&mut [0; 16]).unwrap();
    drop(pipe);
    let mut said = BufReader::new(receiver.stderr.take().unwrap()).lines();
    let summary = said.find_map(|line| serde_json::from_str::<Value>(&line.unwrap()).ok());
    let summary = summary.unwrap();
    assert!(receiver.wait().unwrap().success(), "{summary}");
    sender.join().unwrap();
    closed(&summary);
    let came = number(&summary, "messages");
    let lost = rig::lost(&summary, "not_wanted");
    assert!(lost > 0 && lost < came, "{summary}");
    // A pipe holds 64 KiB.
    assert!(came - lost <= 2 + (64 << 10) / 8, "{summary}");
    assert_eq!(deliver(&out), [came, came - lost]);
}

#[test]
fn what_a_full_disk_does_not_take_is_lost_by_name() {
    let (address, directory) = (address(2), tempfile::tempdir().unwrap());
    let out = directory.path().join("recv");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = net("recv", &address, &["--out", out.to_str().unwrap()]);
    let receiver = command
        .stdout(Stdio::from(full.unwrap()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    generate(&address, &directory.path().join("send"));
    let ended = receiver.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("writing to -"), "{said}");
    let summary = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    let summary: Value = summary.unwrap();
    closed(&summary);
    let came = number(&summary, "messages");
    assert!(came > 0, "{summary}");
    assert_eq!(rig::lost(&summary, "not_written"), came);
    assert_eq!(deliver(&out), [came, 0]);
}
