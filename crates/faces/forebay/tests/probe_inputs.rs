//! What the probe says of captures that are cut, joined or empty, and of words that do not go together.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use rig::{Ended, forebay, start};
use tempfile::TempDir;

const PACKETS: u64 = 5_000;

/// A capture of so many packets.
fn capture(folder: &Path) -> Vec<u8> {
    let mut command = forebay();
    command.current_dir(folder).args(["emulate", "traffic"]);
    command.args(["--profile", "nix-like-morning", "--snap", "96"]);
    command.args(["--packets", &PACKETS.to_string(), "--pcap", "made.pcap"]);
    let made = start(&mut command).end();
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    fs::read(folder.join("made.pcap")).unwrap()
}

fn probe(folder: &Path, args: &[&str]) -> Ended {
    let mut command = forebay();
    start(command.current_dir(folder).arg("probe").args(args)).end()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

#[test]
fn a_compressed_capture_that_is_cut_says_so_and_ends_as_one_that_is_not_compressed() {
    let folder = TempDir::new().unwrap();
    let plain = capture(folder.path());
    for (name, bytes, why) in [
        ("cut.pcap", plain.clone(), "the file ends within packet "),
        ("cut.gz", gzip(&plain), "its gzip stream ends early"),
        (
            "cut.zst",
            zstd::encode_all(&plain[..], 1).unwrap(),
            "its Zstandard stream ends early",
        ),
    ] {
        fs::write(folder.path().join(name), &bytes[..bytes.len() * 2 / 3]).unwrap();
        let json = probe(folder.path(), &["--read", name, "--format", "json"]).json_of(0);
        assert_eq!(json["condition"], "tainted", "{json}");
        let taint = rig::taint(&json);
        let begin = format!("capture_broken: {name}: {why}");
        assert!(taint.starts_with(&begin), "{taint}");
        let read = json["packets_exported"].as_u64().unwrap();
        assert!(read > PACKETS / 4 && read < PACKETS, "{json}");
    }
}

#[test]
fn captures_that_were_joined_are_in_records_whole() {
    let folder = TempDir::new().unwrap();
    let plain = capture(folder.path());
    // As pigz and bgzip write them, and as cat makes them of two files.
    let (begin, end) = plain.split_at(plain.len() / 2);
    let parts = [gzip(begin), gzip(end), gzip(&[])].concat();
    let files = [gzip(&plain), gzip(&plain)].concat();
    for (name, bytes, captures) in [("parts.gz", parts, 1), ("files.gz", files, 2)] {
        fs::write(folder.path().join(name), bytes).unwrap();
        let json = probe(folder.path(), &["--read", name, "--format", "json"]).json_of(0);
        assert_eq!(json["condition"], "ended", "{json}");
        assert_eq!(json["packets_exported"], captures * PACKETS, "{json}");
    }
}

/// What is refused on the command line is refused in a file, too.
#[test]
fn what_is_of_an_interface_is_refused_where_a_capture_is_read() {
    let folder = TempDir::new().unwrap();
    for (flag, value, line) in [
        ("--input", "packet", "input = \"packet\""),
        ("--input", "xdp", "input = \"xdp\""),
        ("--queues", "2", "queues = 2"),
        ("--ring", "1M", "ring_bytes = 1_048_576"),
        ("--snap", "128", "snap_bytes = 128"),
        ("--promiscuous", "on", "promiscuous = true"),
    ] {
        // It is told before the capture, which is not there, is looked for.
        let told = probe(folder.path(), &["--read", "none.pcap", flag, value]);
        assert_eq!(told.code(), Some(2), "{}", told.stderr);
        let said = format!(
            "forebay: {flag} is for an interface; give --interface in place of --read, or leave {flag} out"
        );
        assert!(told.stderr.starts_with(&said), "{}", told.stderr);
        let file = folder.path().join("probe.toml");
        fs::write(&file, format!("[probe]\nread = \"none.pcap\"\n{line}\n")).unwrap();
        let told = start(forebay().arg("check").arg(&file)).end();
        let key = line.split_once(' ').unwrap().0;
        assert_eq!(told.code(), Some(2), "{}", told.stderr);
        let is_told = told.stderr.contains(&format!("probe.{key} ="))
            && told.stderr.contains("a capture is read, and no interface")
            && told.stderr.matches("remedy:").count() == 1;
        assert!(is_told, "{}", told.stderr);
    }
}

#[test]
fn a_plugin_is_not_asked_for_twice() {
    let folder = TempDir::new().unwrap();
    for plugins in [
        &["--plugins", "dns,tls,dns"][..],
        &["--plugins", "dns", "--plugins", "tls,dns"],
    ] {
        let args = [&["--read", "none.pcap"], plugins].concat();
        let told = probe(folder.path(), &args);
        assert_eq!(told.code(), Some(2), "{}", told.stderr);
        let said = "forebay: --plugins has dns twice; leave one of them out";
        assert!(told.stderr.starts_with(said), "{}", told.stderr);
    }
    let file = folder.path().join("probe.toml");
    let text = "[probe]\nread = \"none.pcap\"\nplugins = [\"dns\", \"dns\"]\n";
    fs::write(&file, text).unwrap();
    let told = start(forebay().arg("check").arg(&file)).end();
    assert_eq!(told.code(), Some(2), "{}", told.stderr);
    assert_eq!(told.stderr.matches("remedy:").count(), 1, "{}", told.stderr);
}

#[test]
fn books_of_an_earlier_probe_in_the_same_directory_are_kept() {
    let folder = TempDir::new().unwrap();
    capture(folder.path());
    let mut earlier: Vec<(String, Vec<u8>)> = Vec::new();
    for _ in 0..3 {
        let args = ["--read", "made.pcap", "--out", "out", "--format", "json"];
        let json = probe(folder.path(), &args).json_of(0);
        let out = folder.path().join("out");
        for (name, bytes) in &earlier {
            assert_eq!(&fs::read(out.join(name)).unwrap(), bytes, "{name}");
        }
        let id = json["run_id"].as_str().unwrap();
        let file = |name: &str| fs::read(out.join(name)).unwrap();
        earlier.push((format!("ledger-{id}"), file("ledger")));
        earlier.push((format!("run-{id}.json"), file("run.json")));
    }
}
