//! `forebay fcheck` on files as a card writes them: sound, damaged, from a pipe, and none.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rig::blocks::blocks;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a file of these bytes.
fn with_file(bytes: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.dat"), bytes).unwrap();
    folder
}

fn fcheck(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let command = command.current_dir(folder).arg("fcheck").args(args);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_sound_file_is_told_by_e_link() {
    let folder = with_file(&blocks(20).concat());
    let output = fcheck(folder.path(), &["a.dat", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let facts = json_of(&output);
    assert_eq!(
        (&facts["blocks"], &facts["chunks"], &facts["errors"]),
        (&json!(40), &json!(400), &json!({}))
    );
    assert_eq!(
        facts["blocks_format"],
        "0xc3ce, 4096 bytes, 32-bit trailers"
    );
    assert_eq!(facts["bytes"], 40 * 4096);
    let elinks = facts["elinks"].as_array().unwrap();
    assert_eq!(elinks.len(), 2);
    assert_eq!(
        (
            &elinks[1]["elink"],
            &elinks[1]["blocks"],
            &elinks[1]["chunks"]
        ),
        (&json!(64), &json!(20), &json!(200))
    );
    assert_eq!(elinks[1]["chunk_bytes_min"], 100);
    assert_eq!(elinks[1]["chunk_bytes_mean"], 104.5);
    assert_eq!(elinks[1]["chunk_bytes_max"], 109);
    assert_eq!(elinks[1]["subchunks"], json!({"both": 200, "timeout": 20}));
    assert_eq!(facts["residual"]["file_bytes"], 0);

    let output = fcheck(folder.path(), &["a.dat"]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stdout);
    assert!(told.starts_with("a.dat: sound\n"), "{told}");
    assert!(
        told.contains(" 0x040      20     200  20900       100  104.5      109"),
        "{told}"
    );
}

#[test]
fn errors_are_counted_by_kind_and_end_with_1() {
    let mut all = blocks(20);
    all[8][30] ^= 0xff;
    all.remove(5);
    all[30][2] ^= 0xff;
    let mut file = all.concat();
    file.splice(20 * 4096..20 * 4096, [0x55; 77]);
    file.truncate(file.len() - 1);
    let folder = with_file(&file);
    let output = fcheck(folder.path(), &["a.dat", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let facts = json_of(&output);
    assert_eq!(
        facts["errors"],
        json!({"gap": 2, "l1id_jump": 2, "marker": 1, "payload_ramp": 1, "resync": 1, "tail": 1})
    );
    assert_eq!(
        (&facts["skipped_bytes"], &facts["tail_bytes"]),
        (&json!(77), &json!(4095))
    );
    let framed = facts["blocks"].as_u64().unwrap() * 4096 + 77 + 4095;
    assert_eq!(facts["bytes"], framed);
    assert_eq!(facts["first_errors"].as_array().unwrap().len(), 8);

    let output = fcheck(folder.path(), &["a.dat", "--errors", "2"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(told.starts_with("a.dat: 8 errors\n"), "{told}");
    assert!(told.contains("skipped  77 bytes\n"), "{told}");
    assert!(
        told.contains("E-link 0x040: gap: sequence 3, expected 2: at least 1 missing"),
        "{told}"
    );
    assert!(
        told.contains("… and 6 more: --errors N lists N of them"),
        "{told}"
    );

    // The E-link of which no block is missing has the wrong byte, and lost one by its marker.
    let output = fcheck(
        folder.path(),
        &["a.dat", "--elink", "0x40", "--format", "json"],
    );
    let facts = json_of(&output);
    assert_eq!(facts["elinks"].as_array().unwrap().len(), 1);
    assert_eq!(facts["elinks"][0]["errors"]["gap"], 2);
    assert_eq!(facts["chunks"], facts["elinks"][0]["chunks"]);
}

#[test]
fn blocks_and_chunks_are_shown() {
    let folder = with_file(&blocks(2).concat());
    let output = fcheck(
        folder.path(),
        &["a.dat", "--dump", "1", "--chunks", "1", "--elink", "64"],
    );
    let told = text(&output.stdout);
    let begin = "block at 4096: marker 0xc3ce, E-link 0x040, sequence 0\n      4  both, 100 bytes              aa 00 5c 00 00 bb aa 10 00 01";
    assert!(told.starts_with(begin), "{told}");
    assert!(
        told.contains("\nchunk of E-link 0x040, block at 4096: 100 bytes, good\n"),
        "{told}"
    );
    assert!(told.contains("\n  00010  08 09 0a"), "{told}");
    assert_eq!(told.matches("block at").count(), 2, "{told}");
    let all = fcheck(folder.path(), &["a.dat", "--dump"]);
    assert_eq!(text(&all.stdout).matches("\nblock at").count() + 1, 4);
    let both = fcheck(folder.path(), &["a.dat", "--dump", "--format", "json"]);
    assert_eq!(
        both.status.code(),
        Some(2),
        "one object has no place for them"
    );
}

#[test]
fn standard_input_is_read_without_an_end_in_sight() {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(["fcheck", "-", "--format", "json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // In pieces that end anywhere.
    let file = blocks(100).concat();
    for piece in file.chunks(10_007) {
        input.write_all(piece).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let facts = json_of(&output);
    assert_eq!(
        (&facts["blocks"], &facts["file"]),
        (&json!(200), &json!("-"))
    );
}

#[test]
fn what_cannot_be_checked_ends_with_2_and_says_why() {
    let folder = with_file(&[0x11; 5000]);
    std::fs::write(folder.path().join("empty.dat"), []).unwrap();
    for (args, says) in [
        (&["none.dat"][..], "cannot open none.dat"),
        (&["."], "is a directory"),
        (&["empty.dat"], "it is empty"),
        (&["a.dat"], "no block of a FELIX card"),
        (&["a.dat", "--blocks", "abcd"], "no block of a FELIX card"),
        (&["a.dat", "--blocks", "4096"], "c0ce-1Ki to c0ce-16Ki"),
        (&["a.dat", "--elink", "2048"], "up to 2047"),
    ] {
        let output = fcheck(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let told = text(&output.stderr);
        assert!(told.contains(says), "{args:?}: {told}");
    }
}
