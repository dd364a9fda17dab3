//! A file of messages that somebody removes, cuts or renames while it is written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rig::{Ended, Run, audit, audit_json, forebay, number, signal, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// A line of each message, without its end.
const LINE_BYTES: usize = 9;

/// A receiver or a subscriber that writes lines into a file, and the process that sends it these.
struct Taking {
    folder: TempDir,
    run: Run,
    from: Child,
    to: Option<ChildStdin>,
    sent: usize,
}

fn address(test: &str) -> String {
    format!("shm://removed-{test}-{}", std::process::id())
}

impl Taking {
    fn start(test: &str, format: &str) -> Self {
        Self::start_as(test, ("recv", "send"), format)
    }

    fn start_as(test: &str, (taker, giver): (&str, &str), format: &str) -> Self {
        let (folder, address) = (tempfile::tempdir().unwrap(), address(test));
        let own = folder.path().join("own");
        fs::create_dir(&own).unwrap();
        let mut command = forebay();
        command.args(["net", taker, &address, "--once", "--format", format]);
        command.arg("--output").arg(own.join("lines"));
        command.arg("--out").arg(folder.path().join("out"));
        let run = start(&mut command);
        if taker == "recv" {
            wait_for("the address", || {
                run.said().contains("listening on").then_some(())
            });
        }
        let mut from = Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
            .args(["net", giver, &address, "--input", "-", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = from.stdin.take();
        Self {
            folder,
            run,
            from,
            to,
            sent: 0,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("own").join(name)
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Sends so many lines and waits until a file has them, and none but them.
    fn send(&mut self, lines: usize, name: &str) -> PathBuf {
        let path = self.file(name);
        let before = fs::read_to_string(&path).unwrap_or_default();
        let more: String = (0..lines)
            .map(|at| format!("line {:04}\n", self.sent + at))
            .collect();
        self.sent += lines;
        self.to
            .as_mut()
            .unwrap()
            .write_all(more.as_bytes())
            .unwrap();
        let wanted = before + &more;
        wait_for("the lines", || {
            (fs::read_to_string(&path).ok()? == wanted).then_some(())
        });
        path
    }

    fn wait_until_said(&self, what: &str) {
        wait_for(what, || self.run.said().contains(what).then_some(()));
    }

    /// Ends the input, and so both; the sender was told that all of it came.
    fn end(mut self) -> (Ended, TempDir) {
        drop(self.to.take());
        let ended = self.run.end();
        let sender = self.from.wait_with_output().unwrap();
        assert_eq!(sender.status.code(), Some(0));
        let sent: Value = serde_json::from_slice(&sender.stdout).unwrap();
        assert_eq!(number(&sent, "messages"), self.sent as u64);
        assert_eq!(number(&sent, "unconfirmed"), 0, "{sent}");
        (ended, self.folder)
    }
}

/// Files, messages and bytes that are told to be gone.
fn gone(json: &Value) -> [u64; 3] {
    ["files", "messages", "bytes"].map(|key| number(&json["output_removed"], key))
}

/// The same of so many lines, in one file.
fn lines(count: usize) -> [u64; 3] {
    [1, count as u64, (count * LINE_BYTES) as u64]
}

/// Run and audit say the same, and end with 1; the books close.
fn assert_told(json: &Value, out: &Path, expected: [u64; 3]) {
    assert_eq!(gone(json), expected, "{json}");
    let residual = ["residual_items", "residual_bytes", "held"].map(|key| number(json, key));
    assert_eq!(residual, [0; 3], "{json}");
    let sheet = audit(out);
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    let last = sheet.stdout.trim_end().lines().last().unwrap();
    let said = format!("Gone: {} messages (", expected[1]);
    assert!(last.starts_with(&said), "{last}");
    let told = audit_json(out);
    assert_eq!(gone(&told), expected, "{told}");
    assert_eq!(told["closed"], true, "{told}");
    assert_eq!(told["condition"], "tainted", "{told}");
    assert_eq!(told["reason"], "output_removed", "{told}");
}

#[test]
fn a_removed_file_is_noticed_told_and_followed_by_another() {
    let mut taking = Taking::start("file", "json");
    let path = taking.send(100, "lines");
    fs::remove_file(&path).unwrap();
    // Before anything else comes.
    taking.wait_until_said("was removed while it was written: 100 messages (900 bytes)");
    taking.send(50, "lines");
    let out = taking.out();
    let (ended, _folder) = taking.end();
    let json = ended.json_of(1);
    assert_eq!(number(&json, "messages"), 150);
    assert_told(&json, &out, lines(100));
}

#[test]
fn what_is_removed_before_the_end_is_found_at_the_end() {
    let mut taking = Taking::start("end", "text");
    let path = taking.send(30, "lines");
    let held = signal("STOP", taking.run.pid());
    assert!(held);
    fs::remove_file(&path).unwrap();
    drop(taking.to.take());
    assert!(signal("CONT", taking.run.pid()));
    let out = taking.out();
    let (ended, _folder) = taking.end();
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    let last = ended.stderr.trim_end().lines().last().unwrap();
    let said =
        "forebay: Gone: 30 messages (270 B) that were written; somebody removed or cut 1 file";
    assert_eq!(last, said);
    assert_eq!(gone(&audit_json(&out)), lines(30));
    assert!(!path.exists(), "nothing came after it");
}

#[test]
fn a_file_that_is_cut_keeps_its_whole_messages_and_is_followed_by_another() {
    let mut taking = Taking::start("cut", "json");
    let path = taking.send(100, "lines");
    let cut = File::options().write(true).open(&path).unwrap();
    cut.set_len((60 * (LINE_BYTES + 1) + 3) as u64).unwrap();
    taking.wait_until_said("was cut to 603 bytes while it was written: 40 messages");
    taking.send(50, "lines.1");
    let out = taking.out();
    let (ended, _folder) = taking.end();
    assert_told(&ended.json_of(1), &out, lines(40));
    let kept = fs::read_to_string(&path).unwrap();
    assert_eq!(kept.lines().last(), Some("line 0059"));
    assert!(kept.ends_with('\n') && !kept.contains('\0'));
}

#[test]
fn a_removed_directory_is_made_again() {
    let mut taking = Taking::start("directory", "json");
    let path = taking.send(20, "lines");
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    taking.wait_until_said("was removed while it was written: 20 messages");
    taking.send(10, "lines");
    let out = taking.out();
    let (ended, _folder) = taking.end();
    assert!(ended.stderr.contains("is made again"), "{}", ended.stderr);
    assert_told(&ended.json_of(1), &out, lines(20));
}

#[test]
fn a_renamed_file_is_written_on_and_is_no_loss() {
    let mut taking = Taking::start("renamed", "json");
    let path = taking.send(20, "lines");
    let now = taking.file("kept");
    fs::rename(&path, &now).unwrap();
    taking.wait_until_said(&format!("it is now {}", now.display()));
    taking.send(10, "kept");
    let out = taking.out();
    let (ended, _folder) = taking.end();
    let json = ended.json_of(0);
    assert!(json["output_removed"].is_null(), "{json}");
    assert!(!path.exists());
    assert_eq!(audit(&out).code(), Some(0));
}

#[test]
fn a_subscriber_notices_it_too() {
    let mut taking = Taking::start_as("sub", ("sub", "pub"), "json");
    // The first lines find a subscriber, or none: those that come are what counts.
    let path = taking.file("lines");
    wait_for("a first line", || {
        let to = taking.to.as_mut().unwrap();
        to.write_all(b"line 0000\n").unwrap();
        path.metadata().ok().filter(|data| data.len() > 0)
    });
    fs::remove_file(&path).unwrap();
    taking.wait_until_said("was removed while it was written");
    drop(taking.to.take());
    let out = taking.out();
    let ended = taking.run.end();
    let json = ended.json_of(1);
    assert!(gone(&json)[1] > 0, "{json}");
    assert_eq!(gone(&audit_json(&out)), gone(&json));
    taking.from.wait_with_output().unwrap();
}

#[test]
fn a_record_without_its_directory_goes_to_standard_output() {
    for format in ["json", "text"] {
        let mut taking = Taking::start(&format!("record-{format}"), format);
        taking.send(20, "lines");
        fs::remove_dir_all(taking.out()).unwrap();
        let (ended, _folder) = taking.end();
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("goes to standard output"));
        let record = ended.json();
        assert_eq!(number(&record, "messages"), 20, "{record}");
        // The ledger is where the warning says.
        let memory = ended.stderr.split("forebay audit ").nth(1).unwrap();
        let memory = Path::new(memory.split('`').next().unwrap());
        let sheet = audit(memory);
        fs::remove_file(memory).unwrap();
        let tainted = sheet.stdout.contains("tainted (output was removed)");
        assert!(tainted, "{}", sheet.stdout);
    }
}
