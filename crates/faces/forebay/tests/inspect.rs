//! `forebay inspect` on a file that others made: sound, cut, damaged, recovered.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const START_BYTES: usize = 32;
const FIRST_EVENT_BYTES: usize = 2_048;

fn data(name: &str) -> PathBuf {
    let data = forebay_testing::root().join("crates/ground/forebay-wire/tests/data");
    data.join(name)
}

fn inspect(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let command = command.current_dir(folder).arg("inspect").args(args);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A folder with a copy of the sound file, changed.
fn with_file(change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut bytes = std::fs::read(data("six_sources.hld")).unwrap();
    change(&mut bytes);
    std::fs::write(folder.path().join("a.hld"), bytes).unwrap();
    folder
}

#[test]
fn a_sound_file_is_summed_up() {
    let folder = with_file(|_| {});
    let output = inspect(folder.path(), &["a.hld", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let facts = json(&output);
    assert_eq!(facts["file"], "a.hld");
    assert_eq!(facts["bytes"], 74_624);
    assert_eq!(
        (&facts["events"], &facts["subevents"]),
        (&16.into(), &96.into())
    );
    assert_eq!(facts["start_event"], true);
    assert_eq!(facts["stop_event"], true);
    assert_eq!(facts["clean_end"], true);
    assert_eq!(facts["run"], 595_289_095);
    assert_eq!(
        (&facts["first_sequence"], &facts["last_sequence"]),
        (&1.into(), &16.into())
    );
    assert_eq!(facts["sequence_jumps"], 0);
    assert_eq!(facts["ids"]["0x8003"]["subevents"], 16);
    assert_eq!(facts["broken"], Value::Array(Vec::new()));
    assert!(text(&inspect(folder.path(), &["a.hld"])).starts_with("a.hld: sound\n"));
}

#[test]
fn events_and_words_are_the_lines_of_the_independent_reader() {
    let folder = with_file(|_| {});
    for (flag, golden) in [
        ("--events", "six_sources.events.txt"),
        ("--raw", "six_sources.raw2.txt"),
    ] {
        let golden = std::fs::read_to_string(data(golden)).unwrap();
        let printed = text(&inspect(folder.path(), &["a.hld", flag]));
        let expected = format!("Try to open a.hld\n{golden}");
        assert!(printed.starts_with(&expected), "{flag} differs");
        assert!(printed.contains("\na.hld: sound\n"));
    }
}

#[test]
fn events_in_json_are_one_list() {
    let folder = with_file(|_| {});
    let facts = json(&inspect(
        folder.path(),
        &["a.hld", "--raw", "--stat", "--format", "json"],
    ));
    let list = facts["event_list"].as_array().unwrap();
    assert_eq!(list.len(), 16);
    assert_eq!(
        (&list[0]["sequence"], &list[0]["id"]),
        (&1.into(), &"0x200d".into())
    );
    assert_eq!(list[0]["offset"], START_BYTES);
    let sub = &list[0]["subevents"][0];
    assert_eq!(
        (&sub["id"], &sub["size"], &sub["tag"]),
        (&"0x8000".into(), &156.into(), &13.into())
    );
    assert_eq!(
        (&sub["trigger"], &sub["words"][0]),
        (&0x00ff_ff00.into(), &0x0020_c000.into())
    );
    assert_eq!(facts["subsubevent_ids"]["0x5555"]["words"], 96);
}

#[test]
fn a_damaged_event_is_reported_and_the_others_are_kept() {
    let folder = with_file(|bytes| bytes[START_BYTES + 32] = 0xff);
    let output = inspect(folder.path(), &["a.hld", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let facts = json(&output);
    assert_eq!(facts["events"], 15);
    assert_eq!(facts["broken"].as_array().unwrap().len(), 1);
    let broken = &facts["broken"][0];
    assert_eq!(
        (&broken["offset"], &broken["bytes"]),
        (&START_BYTES.into(), &FIRST_EVENT_BYTES.into())
    );
    assert_eq!(broken["reason"], "subevent_overrun");
    assert_eq!(facts["clean_end"], true);
    let printed = text(&inspect(folder.path(), &["a.hld", "--events"]));
    assert!(printed.contains("!!! Broken at byte 32: bad sub-event"));
    assert!(printed.contains("a.hld: broken\n"));
}

#[test]
fn a_file_cut_anywhere_is_recovered() {
    let whole = std::fs::read(data("six_sources.hld")).unwrap();
    let cuts = [
        40,
        START_BYTES + FIRST_EVENT_BYTES,
        2_200,
        9_000,
        whole.len() - 40,
        whole.len() - 1,
    ];
    for cut in cuts {
        let folder = with_file(|bytes| bytes.truncate(cut));
        let output = inspect(
            folder.path(),
            &["a.hld", "--recover", "b.hld", "--format", "json"],
        );
        assert_eq!(output.status.code(), Some(1), "cut at {cut}");
        let broken = json(&output);
        let complete = broken["complete_end"].as_u64().unwrap();
        assert_eq!(broken["recovered"]["left_out_bytes"], cut as u64 - complete);
        assert_eq!(broken["recovered"]["added_stop_events"], 1);
        let recovered = std::fs::read(folder.path().join("b.hld")).unwrap();
        assert_eq!(recovered.len() as u64, complete + 32);
        assert_eq!(recovered[..complete as usize], whole[..complete as usize]);
        let output = inspect(folder.path(), &["b.hld", "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "cut at {cut}");
        assert_eq!(json(&output)["events"], broken["events"]);
    }
}

#[test]
fn recovery_adds_a_missing_start_event_and_never_overwrites() {
    let folder = with_file(|bytes| drop(bytes.drain(..START_BYTES)));
    let output = inspect(folder.path(), &["a.hld", "--recover", "b.hld"]);
    assert!(
        text(&output).contains("added           1 start and 0 stop events"),
        "{}",
        text(&output)
    );
    assert_eq!(inspect(folder.path(), &["b.hld"]).status.code(), Some(0));
    let again = inspect(folder.path(), &["a.hld", "--recover", "b.hld"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("cannot make b.hld"));
}

#[test]
fn nothing_to_recover_is_said_and_no_file_is_made() {
    let folder = with_file(|bytes| bytes.truncate(20));
    let output = inspect(folder.path(), &["a.hld", "--recover", "b.hld"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!folder.path().join("b.hld").exists());
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = with_file(|_| {});
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command
        .current_dir(folder.path())
        .args(["inspect", "a.hld", "--raw"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn what_cannot_be_read_is_an_error_of_its_own() {
    let folder = TempDir::new().unwrap();
    for missing in ["none.hld", "."] {
        let output = inspect(folder.path(), &[missing]);
        assert_eq!(output.status.code(), Some(2));
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn whole_recording_when_it_is_there() {
    let Some(folder) = std::env::var_os("FOREBAY_VECTORS").map(|f| PathBuf::from(f).join("hades"))
    else {
        forebay_testing::skip!("FOREBAY_VECTORS names no folder with the whole recording");
        return;
    };
    let golden = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    let printed = text(&inspect(&folder, &["mixed_6src.hld", "--events"]));
    assert!(printed.starts_with(&golden("mixed_6src.hldprint.txt")));
    let printed = text(&inspect(&folder, &["mixed_6src.hld", "--stat"]));
    assert!(printed.starts_with(&golden("mixed_6src.hldprint-stat.txt")));
    let printed = text(&inspect(&folder, &["mixed_6src.hld", "--raw"]));
    assert!(printed.starts_with(golden("mixed_6src.hldprint-raw3.txt").trim_start()));
    let facts = json(&inspect(&folder, &["mixed_6src.hld", "--format", "json"]));
    let check: Value = serde_json::from_str(&golden("mixed_6src.hldcheck.json")).unwrap();
    for (ours, theirs) in [
        ("bytes", "bytes"),
        ("run", "run"),
        ("events", "events"),
        ("subevents", "subevents"),
        ("broken_bytes", "trailing"),
        ("trigger_mismatch_events", "trig_mismatch"),
        ("tag_mismatch_events", "tag_mismatch"),
        ("data_error_events", "evt_dataerr"),
        ("data_error_subevents", "sub_dataerr"),
        ("largest_event_bytes", "max_evt"),
        ("first_sequence", "seq_first"),
        ("last_sequence", "seq_last"),
        ("sequence_jumps", "seq_jumps"),
    ] {
        assert_eq!(facts[ours], check[theirs], "{ours}");
    }
}
