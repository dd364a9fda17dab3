//! Values of flags: what is out of range is refused before anything is made, with flag, value and range.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;

use rig::{forebay, start};
use tempfile::TempDir;

/// Runs `forebay ARGUMENTS --out OUT` and asserts that it is refused with every one of `parts`, and made nothing.
fn assert_refused(arguments: &[&str], out: Option<&Path>, parts: &[&str]) {
    let mut command = forebay();
    command.args(arguments);
    if let Some(out) = out {
        command.arg("--out").arg(out);
    }
    let ended = start(&mut command).end();
    assert_eq!(ended.code(), Some(2), "{arguments:?}: {}", ended.stderr);
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "{arguments:?}: no {part:?} in {}",
            ended.stderr
        );
    }
    assert!(out.is_none_or(|out| !out.exists()), "{arguments:?}");
}

#[test]
fn a_prefix_cannot_lead_out_of_the_directory() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("a/b");
    let long = "a".repeat(250);
    for prefix in ["../../x", "a/b", "", ".x", &long] {
        let flags = ["--prefix", prefix];
        let right = ["--prefix", "1 to 48 letters, digits"];
        let evb = [
            &["evb", "--sources", "2", "--duration", "100ms"],
            &flags[..],
        ]
        .concat();
        assert_refused(&evb, Some(&out), &right);
        let mover = [&["mover", "--listen", "127.0.0.1:0"], &flags[..]].concat();
        assert_refused(&mover, Some(&out), &right);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn flags_have_the_ranges_of_the_chain_file() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let cases = [
        ("--timeout", "0", "from 1ms to 1h"),
        ("--timeout", "2h", "from 1ms to 1h"),
        ("--sink-full", "block=0", "from 1ms to 1h"),
        ("--sink-queue", "3Mi", "power of two from 64Ki to 64Gi"),
        ("--mover-timeout", "0s", "from 1ms to 1h"),
        ("--file-size", "1", "0 or a size from 64Ki to 16Ti"),
        ("--file-time", "1500ms", "whole s"),
        ("--file-events", "1e9", "0 to 17592186044416"),
        ("--duration", "0s", "from 1ms to 8760h"),
        ("--sink", "tcp://127.0.0.1:0", "port 0"),
    ];
    for (flag, value, right) in cases {
        let evb = ["evb", "--sources", "2", flag, value];
        assert_refused(&evb, Some(&out), &[flag, value, right]);
        assert_refused(
            &["replay", "no.pcap", flag, value],
            Some(&out),
            &[flag, right],
        );
    }
}

#[test]
fn the_emulators_numbers_are_checked_before_anything_is_made() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let group = ["emulate", "hades", "--group", "1:116"];
    let rates = ["0", "1e308", "200000000", "nan", "inf", "-inf"];
    let rates = rates.map(|rate| ("--rate", rate, "from 0.001 to 100000000"));
    let others = [
        ("--huge-size", "10G", "from 16 to 16Mi"),
        ("--water-mark", "4Gi", "64 to 4294967295 bytes"),
        ("--duration", "0s", "from 1ms to 8760h"),
        ("--base-port", "0", "1..=65535"),
    ];
    for (flag, value, right) in rates.iter().chain(&others) {
        let parts = [*flag, value, right];
        assert_refused(&["demo", flag, value], Some(&out), &parts);
        assert_refused(&[&group[..], &[flag, value]].concat(), None, &parts);
    }
    for (flag, value, right) in [
        ("--group", "0:116", "1 to 4096"),
        ("--group", "1:10", "from 24 to 16777216"),
        ("--group", "1:116:nan", "from 0 to"),
        ("--flush", "9999h", "from 0s to 1h"),
        ("--trigger-bits", "7", "neither 16 nor 24"),
        ("--first-trigger", "16777216", "24 bits"),
    ] {
        assert_refused(&[&group[..], &[flag, value]].concat(), None, &[flag, right]);
    }
}
