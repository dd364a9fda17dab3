//! Files of a session that somebody removes, cuts or renames while it writes them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use rig::{Ended, Run, audit, audit_json, forebay, number, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// So many bytes are sent at once: some packets.
const PART_BYTES: usize = 100_000;

/// A receiver of one sender, whose standard input is this test's.
struct Session {
    folder: TempDir,
    receiver: Run,
    sender: Child,
    input: Option<ChildStdin>,
    sent: Vec<u8>,
}

impl Session {
    fn start(format: &str, more: &[&str]) -> Self {
        Self::start_with(format, more, &["--input", "-"])
    }

    fn start_with(format: &str, more: &[&str], of_sender: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", rig::free_ports(1));
        let mut command = forebay();
        command.args(["tdm", "receive", "--bind", &address, "--senders", "1"]);
        command.args(["--link-rate", "200M", "--port-buffer", "128K"]);
        command.args(["--silence", "5s", "--format", format]);
        command.arg("--output").arg(folder.path().join("out"));
        let receiver = start(command.args(more));
        let mut sender = rig::tdm_send(&address, "north")
            .args(of_sender)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = sender.stdin.take();
        Self {
            folder,
            receiver,
            sender,
            input,
            sent: Vec::new(),
        }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Sends a part and waits until a file has it behind `before`, whatever that has become.
    fn send(&mut self, name: &str) -> PathBuf {
        let path = self.out().join(name);
        let seed = self.sent.len() / PART_BYTES + 1;
        let part: Vec<u8> = (0..PART_BYTES)
            .map(|at| (at * seed % 251) as u8 + 1)
            .collect();
        self.input.as_mut().unwrap().write_all(&part).unwrap();
        let begin = self.sent.len();
        self.sent.extend_from_slice(&part);
        wait_for("the part", || {
            let file = fs::read(&path).ok()?;
            (file.get(begin..) == Some(&part[..])).then_some(())
        });
        path
    }

    fn wait_until_said(&self, what: &str) {
        wait_for(what, || self.receiver.said().contains(what).then_some(()));
    }

    fn end(mut self) -> (Ended, Value, TempDir) {
        drop(self.input.take());
        let ended = self.receiver.end();
        let sender = self.sender.wait_with_output().unwrap();
        let sent = serde_json::from_slice(&sender.stdout).unwrap();
        (ended, sent, self.folder)
    }
}

fn gone(json: &Value, key: &str) -> u64 {
    number(&json["output_removed"], key)
}

/// Ranges of a list, by the reason `output_removed`.
fn listed(list: &Path) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(list).unwrap();
    let removed = text
        .lines()
        .filter_map(|line| line.strip_suffix(",output_removed"));
    let ranges = removed.map(|line| line.split_once(',').unwrap());
    ranges
        .map(|(begin, length)| (begin.parse().unwrap(), length.parse().unwrap()))
        .collect()
}

/// Run and audit say the same, and end with 1; the books close.
fn assert_told(json: &Value, out: &Path) {
    assert_eq!(number(json, "residual_items"), 0, "{json}");
    assert_eq!(number(json, "residual_bytes"), 0, "{json}");
    let sheet = audit(out);
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    let last = sheet.stdout.trim_end().lines().last().unwrap();
    assert!(last.starts_with("Gone: "), "{last}");
    let told = audit_json(out);
    assert_eq!(told["output_removed"], json["output_removed"]);
    assert_eq!(told["closed"], true);
    assert_eq!(told["reason"], "output_removed");
}

#[test]
fn a_removed_stream_is_noticed_told_listed_and_followed_by_another_file() {
    let mut session = Session::start("json", &[]);
    let path = session.send("north");
    fs::remove_file(&path).unwrap();
    // Before anything else comes.
    session.wait_until_said("was removed while it was written");
    session.send("north");
    let (out, sent) = (session.out(), session.sent.clone());
    let (ended, told, _folder) = session.end();
    let json = ended.json_of(1);
    assert_eq!(gone(&json, "files"), 1);
    assert_eq!(gone(&json, "bytes"), PART_BYTES as u64);
    // The sender was told that all of it came.
    assert_eq!(
        number(&told, "packets"),
        number(&told, "received"),
        "{told}"
    );
    assert_eq!(number(&told, "packets_unconfirmed"), 0, "{told}");
    let list = out.join("north.lost.csv");
    assert_eq!(listed(&list), [(0, PART_BYTES as u64)]);
    assert_eq!(number(&json, "lost_bytes"), PART_BYTES as u64);
    let file = fs::read(&path).unwrap();
    assert_eq!(file.len(), sent.len());
    assert!(file[..PART_BYTES].iter().all(|byte| *byte == 0));
    assert_told(&json, &out);
}

#[test]
fn packets_of_a_removed_stream_are_counted() {
    let mut session = Session::start("json", &[]);
    let path = session.send("north");
    fs::remove_file(&path).unwrap();
    session.wait_until_said("was removed while it was written");
    let (ended, _, _folder) = session.end();
    let json = ended.json_of(1);
    let received = number(&json["by_sender"][0], "received");
    assert_eq!(gone(&json, "packets"), received, "{json}");
    assert!(!path.exists(), "nothing came after it");
}

#[test]
fn a_stream_that_is_cut_has_a_hole_that_is_listed() {
    let mut session = Session::start("text", &[]);
    let path = session.send("north");
    let cut = File::options().write(true).open(&path).unwrap();
    cut.set_len(0).unwrap();
    session.wait_until_said("was cut to 0 bytes while it was written");
    session.send("north");
    let out = session.out();
    let (ended, _, _folder) = session.end();
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    let last = ended.stdout.trim_end().lines().last().unwrap();
    assert!(last.starts_with("Gone: "), "{last}");
    assert!(last.contains("(100 kB) that were written"), "{last}");
    assert_eq!(
        listed(&out.join("north.lost.csv")),
        [(0, PART_BYTES as u64)]
    );
    assert_eq!(gone(&audit_json(&out), "bytes"), PART_BYTES as u64);
}

#[test]
fn a_renamed_stream_is_written_on_and_is_no_loss() {
    let mut session = Session::start("json", &[]);
    let path = session.send("north");
    let now = session.out().join("kept");
    fs::rename(&path, &now).unwrap();
    session.wait_until_said("it is now");
    session.send("kept");
    let (out, sent) = (session.out(), session.sent.clone());
    let (ended, _, _folder) = session.end();
    let json = ended.json_of(0);
    assert!(json["output_removed"].is_null(), "{json}");
    assert_eq!(fs::read(now).unwrap(), sent);
    assert!(!path.exists());
    assert_eq!(audit(&out).code(), Some(0));
}

#[test]
fn a_session_whose_directory_is_removed_says_so_and_tells_its_record() {
    for format in ["json", "text"] {
        let mut session = Session::start(format, &["--per-window", "--csv", "per-packet"]);
        session.send("north");
        let out = session.out();
        fs::remove_dir_all(&out).unwrap();
        session.wait_until_said("north was removed while it was written");
        session.send("north");
        let (ended, _, _folder) = session.end();
        assert_eq!(ended.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        for said in ["was gone and is made again", "goes to standard output"] {
            assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
        }
        if format == "json" {
            let json = ended.json();
            // The stream and its list, windows.csv, the original's file.
            assert_eq!(gone(&json, "files"), 4, "{json}");
            assert_eq!(json["record_version"], 2, "the record itself: {json}");
            let windows = fs::read_to_string(out.join("windows.csv")).unwrap();
            assert!(windows.starts_with("sender,window,"), "{windows}");
            assert_eq!(
                listed(&out.join("north.lost.csv")),
                [(0, PART_BYTES as u64)]
            );
        } else {
            let said = "the record could not be written into its directory";
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
            assert!(ended.stdout.contains("record_version"), "{}", ended.stdout);
        }
        // The ledger is where the warning says.
        let memory = ended.stderr.split("forebay audit ").nth(1).unwrap();
        let memory = Path::new(memory.split('`').next().unwrap());
        let sheet = audit(memory);
        fs::remove_file(memory).unwrap();
        assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
        let tainted = sheet.stdout.contains("tainted (output was removed)");
        assert!(tainted, "{}", sheet.stdout);
    }
}

#[test]
fn files_that_are_written_whole_outlive_their_removal() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["rows.parquet", "times.hlog", "page.html"].map(|name| folder.path().join(name));
    let texts = files.each_ref().map(|path| path.to_str().unwrap());
    let [rows, histograms, report] = texts;
    let more = [
        "--rows",
        rows,
        "--histograms",
        histograms,
        "--report",
        report,
    ];
    let mut session = Session::start("json", &more);
    session.send("north");
    for text in texts {
        fs::remove_file(format!("{text}.part")).unwrap();
    }
    let (ended, _, _folder) = session.end();
    ended.json_of(0);
    for path in files {
        assert!(path.metadata().unwrap().len() > 100, "{}", path.display());
    }
}

#[test]
fn heaps_of_a_removed_file_are_counted() {
    let messages = format!("shm://tdm-removed-{}", std::process::id());
    let mut session = Session::start_with("json", &[], &["--input", &messages, "--heaps"]);
    let mut from = std::process::Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
        .args(["net", "send", &messages, "--input", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = from.stdin.take().unwrap();
    let path = session.out().join("north.heaps");
    let has = |wanted: &str| {
        let file = fs::read(&path).unwrap_or_default();
        file.windows(wanted.len()).any(|it| it == wanted.as_bytes())
    };
    for heap in 0..40 {
        writeln!(to, "heap {heap:04}").unwrap();
    }
    wait_for("the last heap", || has("heap 0039").then_some(()));
    fs::remove_file(&path).unwrap();
    session.wait_until_said("was removed while it was written: 40 heaps (360 bytes)");
    writeln!(to, "heap 0040").unwrap();
    wait_for("a new file", || has("heap 0040").then_some(()));
    assert!(!has("heap 0039"));
    drop(to);
    from.wait().unwrap();
    session.input = None;
    let out = session.out();
    let (ended, _, _folder) = session.end();
    let json = ended.json_of(1);
    assert_eq!((gone(&json, "heaps"), gone(&json, "packets")), (40, 0));
    assert_eq!(number(&json["by_sender"][0]["heaps"], "whole"), 41);
    assert_told(&json, &out);
}
