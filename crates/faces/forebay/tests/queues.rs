//! A queue that is too short for the time-out is told of with numbers and a remedy; one that is long enough is not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;

use rig::{Run, forebay, free_ports, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// A run from a file, with two sources and `queue` in the section of the receiver.
fn builder(directory: &Path, base_port: u16, queue: &str) -> Run {
    let text = format!(
        "[run]\ndirectory = \"run\"\n[receiver]\nmessage_bytes_max = 16384\n{queue}[[sources]]\nname = \"large\"\nport = {base_port}\n\
         [[sources]]\nname = \"small\"\nport = {}\n[[sinks]]\nkind = \"null\"\n",
        base_port + 1
    );
    let file = directory.join("chain.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = forebay();
    let run = start(
        command
            .args(["evb", "--format", "json", "--out"])
            .arg(directory.join("run"))
            .arg(&file),
    );
    run.wait_stages(&["receiver", "builder"]);
    run
}

fn emulator(base_port: u16, duration: &str) -> Run {
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", "1:1170", "1:60"]);
    command.args(["--rate", "300", "--water-mark", "4Ki"]);
    command.args(["--base-port", &base_port.to_string()]);
    start(command.args(["--duration", duration]))
}

fn warnings(json: &Value) -> Vec<&str> {
    let all = json["warnings"].as_array().unwrap().iter();
    let texts = all.filter_map(Value::as_str);
    texts
        .filter(|text| text.contains("less than twice the time-out"))
        .collect()
}

#[test]
fn a_queue_that_is_too_short_for_the_time_out_is_said() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = builder(folder.path(), base_port, "queue_bytes = 131072\n");
    let _emulator = emulator(base_port, "60s");
    wait_for("the warning", || {
        run.said()
            .contains("less than twice the time-out")
            .then_some(())
    });
    let said = run.said();
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    let [warning] = warnings(&json)[..] else {
        panic!("{json}")
    };
    // 300 sub-events of 1,170 bytes in a second and what a queue adds; the other source needs 40 kB.
    assert!(
        warning.starts_with("large: its queue of 128 KiB holds 0.")
            && warning.ends_with("(--timeout)"),
        "{warning}"
    );
    let words: Vec<&str> = warning.split(' ').collect();
    let before = |unit: &str| -> f64 {
        let at = words.iter().position(|word| *word == unit).unwrap();
        words[at - 1].parse().unwrap()
    };
    assert!((0.2..0.6).contains(&before("MB/s,")), "{warning}");
    assert!((0.2..0.6).contains(&before("s")), "{warning}");
    assert!(warning.contains("to at least 1048576,"), "{warning}");
    assert!(said.contains(warning), "{said}");
    let record = std::fs::read(folder.path().join("run/run.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(warnings(&record), [warning]);
}

#[test]
fn the_default_queue_is_long_enough() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = builder(folder.path(), base_port, "");
    emulator(base_port, "4s").end();
    signal("INT", run.pid());
    let ended = run.end();
    assert_eq!(warnings(&ended.json_of(0)), [""; 0]);
    // This emulator would not fill a shorter one either: that it can wait for a dead source at more is by its size.
    let record = std::fs::read(folder.path().join("run/run.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let sources = record["plan"]["sources"].as_array().unwrap().iter();
    let rings: Vec<_> = sources.map(|source| number(source, "ring_bytes")).collect();
    assert_eq!(rings, [16 << 20; 2]);
    assert!(!ended.stderr.contains("its queue of"), "{}", ended.stderr);
}
