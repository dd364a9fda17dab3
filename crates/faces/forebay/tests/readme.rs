//! What the README prints runs as it stands there, in its order, in one shell in a directory that has the program and the examples.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::array::from_fn;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use forebay_testing::root;
use rig::{files, number};
use serde_json::Value;

/// Commands of the script, which installs and builds: a test does neither.
const OF_THE_SCRIPT: [&str; 3] = ["./x demo", "./x test", "./x build"];

/// The commands in the console blocks.
fn commands(text: &str) -> Vec<&str> {
    let mut fence = None;
    let mut commands = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            (None, Some("console")) => commands.extend(line.strip_prefix("$ ")),
            _ => {}
        }
    }
    commands
}

#[test]
fn every_command_of_the_readme_runs_as_printed() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let all = commands(&text);
    let is_of_the_script =
        |line: &&str| OF_THE_SCRIPT.contains(&line.split(" #").next().unwrap().trim());
    let (script, lines): (Vec<_>, Vec<_>) = all.iter().partition(|line| is_of_the_script(line));
    assert_eq!(script.len(), OF_THE_SCRIPT.len(), "{script:?}");
    assert!(lines.len() > 8, "{lines:?}");
    if !rig::may_have_network() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::create_dir_all(place.join("target/release")).unwrap();
    let program = env!("CARGO_BIN_EXE_forebay");
    symlink(program, place.join("target/release/forebay")).unwrap();
    symlink(root().join("examples"), place.join("examples")).unwrap();
    // The ports that it names are free in a network of its own.
    let shell = format!("set -e\nip link set lo up\n{}\nwait\n", lines_of(&lines));
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", &shell])
        .current_dir(place)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{shell}\n{said}");
    let record = fs::read(place.join("data/run.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let record = &record;
    // What the emulator says that it sent is what came, or what the kernel says that it dropped.
    let said = String::from_utf8_lossy(&ran.stdout);
    let sent = said.lines().find(|line| line.contains(" refused), "));
    let mut sent = sent.unwrap().split(|it: char| !it.is_ascii_digit());
    let mut next = || sent.by_ref().find(|it| !it.is_empty()).unwrap().parse();
    let [events, subevents, datagrams, refused]: [Result<u64, _>; 4] = from_fn(|_| next());
    assert_eq!((events, subevents), (Ok(16_000), Ok(16_000 * 90)), "{said}");
    assert_eq!(refused, Ok(0), "{said}");
    let verdict = rig::audit_json(&place.join("data"));
    let links = verdict["balance"]["links"].as_array().unwrap().iter();
    let socket = links.clone().find(|line| line["place"] == "socket");
    let unread = socket.unwrap()["dropped"][0]["items"].as_u64().unwrap_or(0);
    let came = rig::account_items(&verdict, ("receiver", "datagrams"), "incoming");
    assert_eq!(Ok(came + unread), datagrams, "{said}\n{verdict}");
    if unread == 0 {
        assert_eq!(number(record, "events_built"), 16_000, "{record}");
    }
    assert_eq!(files(record).len(), 1, "{record}");
    let received = fs::read_to_string(place.join("received")).unwrap();
    let numbers = received.lines().map(|line| line.parse::<u32>().unwrap());
    assert!(numbers.eq(1..=1_000), "{received}");
}

fn lines_of(lines: &[&&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| **line).collect();
    lines.join("\n")
}
