//! The CSV of the original tool: its names and columns, and the same numbers as the books.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;

use rig::{forebay, number, start};
use serde_json::Value;

/// A session of two senders with 12 windows each; gives what the receiver says and the lines of the file.
fn session(csv: &[&str], file: &str) -> (Value, Vec<Vec<f64>>) {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let mut receiver = forebay();
    receiver.args(["tdm", "receive", "--format", "json", "--bind", &address]);
    receiver.args(["--senders", "2", "--windows", "12", "--link-rate", "100M"]);
    receiver.args(["--window", "5ms", "--dead-time", "2ms", "--output"]);
    let receiver = start(receiver.arg(directory.path()).args(csv));
    let senders: Vec<_> = ["north", "south"]
        .iter()
        .map(|name| start(&mut rig::tdm_send(&address, name)))
        .collect();
    for sender in senders {
        sender.end().json_of(0);
    }
    let said = receiver.end().json_of(0);
    let text = fs::read_to_string(directory.path().join(file)).unwrap();
    let lines: Vec<Vec<f64>> = text
        .lines()
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    for (row, line) in lines.iter().enumerate() {
        assert_eq!(line[0], row as f64, "rows are numbered from 0");
    }
    (said, lines)
}

#[test]
fn windows_have_the_originals_columns_and_the_numbers_of_the_books() {
    let (said, lines) = session(&["--csv", "per-window"], "tdm_N12_W5000_D2000_T2.csv");
    assert_eq!(lines.len() as u64, number(&said, "windows"));
    let scheme = &said["schemes"][0];
    let sum = |column: usize| lines.iter().map(|line| line[column]).sum::<f64>() as u64;
    assert_eq!(sum(3), number(scheme, "received"));
    assert_eq!(sum(4), number(scheme, "sent") - number(scheme, "received"));
    assert_eq!(sum(11) + sum(12), number(scheme, "overlaps"));
    for line in &lines {
        assert_eq!(line.len(), 17);
        // Mean, smallest and largest way.
        assert!(line[9] <= line[8] && line[8] <= line[10], "{line:?}");
        // Start and end, sent and received, in seconds of the Unix epoch.
        assert!(line[13] <= line[14] && line[15] <= line[16], "{line:?}");
    }
    for sender in [0.0, 1.0] {
        let windows: Vec<f64> = lines
            .iter()
            .filter(|line| line[1] == sender)
            .map(|line| line[2])
            .collect();
        assert!(windows.is_sorted(), "{windows:?}");
    }
}

#[test]
fn packets_have_the_originals_columns_and_each_that_came_has_a_line() {
    let (said, lines) = session(
        &["--csv", "per-packet", "--csv-prefix", "night"],
        "night_N12_W5000_D2000_T2.csv",
    );
    assert_eq!(lines.len() as u64, number(&said["schemes"][0], "received"));
    let mut seen = std::collections::BTreeSet::new();
    for line in &lines {
        assert_eq!(line.len(), 6);
        assert!(line[2] < 12.0, "{line:?}");
        assert!(seen.insert((line[1] as u64, line[3] as u64)), "{line:?}");
        // One host and one clock: a packet comes after it was sent, within the session; its error is bounded by a millisecond.
        let way = line[5] - line[4];
        assert!((-1e-3..10.0).contains(&way), "{line:?}");
        assert!(line[4] > 1.6e9, "{line:?}");
    }
}

#[test]
fn a_prefix_that_leaves_the_directory_and_an_output_without_one_are_refused() {
    for arguments in [
        &[
            "--output",
            "x",
            "--csv",
            "per-window",
            "--csv-prefix",
            "../up",
        ][..],
        &["--output", "-", "--senders", "1", "--csv", "per-window"],
        &["--csv", "per-packet"],
    ] {
        let mut command = forebay();
        let done = command.args(["tdm", "receive"]).args(arguments).output();
        let done = done.unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert!(
            text.contains("--csv") || text.contains("--output"),
            "{text}"
        );
    }
}

#[test]
fn a_file_that_is_there_is_told_before_anybody_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let name = "tdm_N12_W5000_D2000_T2.csv";
    for (there, remedy) in [(name, "--csv-prefix"), ("windows.csv", "--output")] {
        let path = directory.path().join(there);
        fs::write(&path, "mine").unwrap();
        let mut receiver = forebay();
        let address = format!("127.0.0.1:{}", rig::free_ports(1));
        receiver.args(["tdm", "receive", "--bind", &address, "--link-rate", "100M"]);
        receiver.args(["--senders", "2", "--windows", "12", "--window", "5ms"]);
        receiver.args(["--dead-time", "2ms", "--per-window", "--csv", "per-window"]);
        let ended = start(receiver.arg("--output").arg(directory.path())).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(there), "{}", ended.stderr);
        assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
    }
}
