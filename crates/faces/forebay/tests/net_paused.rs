//! An output that takes nothing for a while: nobody is lost for it, and an order to end is obeyed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rig::{Run, audit_json, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// More than a pipe, the connection and all buffers take.
const MESSAGES: u64 = 40_000;
const MESSAGE_BYTES: usize = 1000;
/// Longer than the end of a connection is waited for.
const PAUSE: Duration = Duration::from_secs(12);

struct Paused {
    receiver: Run,
    sender: Run,
    pipe: File,
    _directory: TempDir,
}

fn pipe(directory: &Path) -> PathBuf {
    let path = directory.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    path
}

/// A receiver that writes into a pipe which is open and not read, and its sender.
fn paused(name: &str) -> Paused {
    let directory = tempfile::tempdir().unwrap();
    let path = pipe(directory.path());
    let address = format!("shm://paused-{name}-{}", std::process::id());
    let net = |verb: &str, more: &[&str]| {
        let mut command = forebay();
        command.args(["net", verb, &address, "--format", "json"]);
        start(command.args(more))
    };
    let output = [
        "--once",
        "--buffer-count",
        "4",
        "--output",
        path.to_str().unwrap(),
    ];
    let receiver = net("recv", &output);
    let pipe = File::open(&path).unwrap();
    let (count, bytes) = (MESSAGES.to_string(), MESSAGE_BYTES.to_string());
    let generated = [
        "--input",
        "generate",
        "--count",
        &count,
        "--message-bytes",
        &bytes,
    ];
    let patience = ["--block", "60s", "--buffer-count", "4"];
    let sender = net("send", &[generated.as_slice(), &patience].concat());
    Paused {
        receiver,
        sender,
        pipe,
        _directory: directory,
    }
}

#[test]
fn an_output_that_takes_nothing_for_a_while_costs_no_connection() {
    let paused = paused("while");
    // Longer than a peer may be silent: the pause is what this is about.
    std::thread::sleep(Duration::from_secs(12));
    let mut bytes = 0;
    let mut lines = BufReader::new(paused.pipe);
    let mut line = Vec::new();
    let mut count = 0;
    while lines.read_until(b'\n', &mut line).unwrap() > 0 {
        bytes += line.len();
        count += 1;
        line.clear();
    }
    let sent = paused.sender.end().json_of(0);
    let received = paused.receiver.end().json_of(0);
    for summary in [&sent, &received] {
        assert_eq!(summary["messages"], MESSAGES, "{summary}");
        assert_eq!(summary["connections_made"], 1, "{summary}");
        assert!(
            summary["parted"].as_object().unwrap().is_empty(),
            "{summary}"
        );
    }
    assert!(bytes >= MESSAGES as usize * MESSAGE_BYTES && count >= MESSAGES);
}

#[test]
fn an_order_to_end_is_obeyed_while_nothing_is_taken() {
    let mut paused = paused("end");
    // Something has come, and the rest does not fit.
    paused.pipe.read_exact(&mut [0; 4096]).unwrap();
    let end = |run: &Run| {
        kill_process(Pid::from_raw(run.pid() as i32).unwrap(), Signal::INT).unwrap();
    };
    end(&paused.receiver);
    // The first order lets what has come be written, the second one gives that up.
    wait_for("the end", || {
        end(&paused.receiver);
        paused.receiver.is_over().then_some(())
    });
    let received = paused.receiver.end().json();
    assert_eq!(received["residual_items"], 0, "{received}");
    assert_eq!(received["held"], 0, "{received}");
    let lost = rig::lost(&received, "not_written");
    assert!(lost > 0, "{received}");
    end(&paused.sender);
    // What was given up is confirmed to nobody.
    let sent = paused.sender.end().json_of(4);
    assert!(
        sent["unconfirmed"].as_u64() >= Some(lost),
        "{sent} {received}"
    );
}

#[test]
fn an_output_that_takes_its_time_at_the_end_makes_no_fault_of_an_orderly_one() {
    let directory = tempfile::tempdir().unwrap();
    let (path, out) = (pipe(directory.path()), directory.path().join("out"));
    // More than a pipe takes, and no more than is gathered before nothing more is read.
    let address = format!("shm://paused-late-{}", std::process::id());
    let mut command = forebay();
    command.args(["net", "pub", &address, "--input", "generate"]);
    let publisher = start(command.args(["--block", "60s", "--format", "json"]));
    let begun = Instant::now();
    let mut command = forebay();
    command.args(["net", "sub", &address, "--count", "300", "--as", "raw"]);
    command.args(["--format", "json", "--output"]).arg(&path);
    let subscriber = start(command.arg("--out").arg(&out));
    let mut pipe = File::open(&path).unwrap();
    let mut bytes = vec![0; 1];
    pipe.read_exact(&mut bytes).unwrap();
    std::thread::sleep(PAUSE);
    pipe.read_to_end(&mut bytes).unwrap();
    let received = subscriber.end().json_of(0);
    let audited = audit_json(&out);
    end_publisher(publisher);
    assert_eq!(received["held"], 0, "{received}");
    assert_eq!(received["connections"][0]["end"], "over", "{received}");
    assert_eq!(audited["condition"], "ended", "{}", audited["reason"]);
    let lasted = audited["balance"]["run"]["elapsed_ns"].as_u64().unwrap();
    let lasted = Duration::from_nanos(lasted);
    assert!(lasted >= PAUSE && lasted <= begun.elapsed(), "{lasted:?}");
    assert_eq!(bytes.len() % 300, 0, "whole messages");
}

#[test]
fn what_was_sent_before_an_order_to_end_is_written_however_long_that_takes() {
    let directory = tempfile::tempdir().unwrap();
    let path = pipe(directory.path());
    let address = format!("shm://paused-order-{}", std::process::id());
    let generated = ["--input", "generate", "--message-bytes", "1000"];
    let mut command = forebay();
    command.args(["net", "pub", &address, "--block", "60s", "--format", "json"]);
    let publisher = start(command.args(generated));
    let mut command = forebay();
    command.args(["net", "sub", &address, "--as", "raw", "--format", "json"]);
    let subscriber = start(command.arg("--output").arg(&path));
    let mut pipe = File::open(&path).unwrap();
    let mut bytes = vec![0; 1000 * 1000];
    pipe.read_exact(&mut bytes).unwrap();
    kill_process(Pid::from_raw(subscriber.pid() as i32).unwrap(), Signal::INT).unwrap();
    std::thread::sleep(PAUSE);
    pipe.read_to_end(&mut bytes).unwrap();
    let received = subscriber.end().json_of(0);
    end_publisher(publisher);
    assert_eq!(received["dropped"], 0, "{received}");
    assert_eq!(received["bytes"], bytes.len(), "{received}");
    assert_eq!(received["connections"][0]["end"], "over", "{received}");
}

/// Ends a publisher: nothing that it sent is unconfirmed.
fn end_publisher(publisher: Run) {
    kill_process(Pid::from_raw(publisher.pid() as i32).unwrap(), Signal::INT).unwrap();
    publisher.end().json_of(0);
}
