//! Files and directories that somebody removes or cuts while a run writes into them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::sender::{Sender, message};
use rig::{
    Run, assert_closed, audit, audit_json, demo, evb, files, forebay, free_ports, hld, number,
    signal, start, wait_for,
};
use serde_json::Value;
use tempfile::TempDir;

/// A run of one source whose events are built one by one.
struct Taking {
    _folder: TempDir,
    out: PathBuf,
    run: Run,
    sender: Sender,
}

impl Taking {
    fn start() -> Self {
        Self::start_as(|out, base_port| evb(out, 1, base_port, &[]))
    }

    /// A run by the command for its directory and its first port.
    fn start_as(command: impl FnOnce(&Path, u16) -> Command) -> Self {
        let folder = TempDir::new().unwrap();
        let out = folder.path().join("out");
        let base_port = free_ports(1);
        let run = start(&mut command(&out, base_port));
        run.wait_stages(&["receiver", "builder"]);
        Self {
            _folder: folder,
            out,
            run,
            sender: Sender::new(base_port),
        }
    }

    /// Sends events and waits for a file that has them, and no others.
    fn send(&mut self, triggers: std::ops::Range<u32>) -> PathBuf {
        let wanted: Vec<u32> = triggers.clone().collect();
        for first in triggers.step_by(50) {
            let part = first..(first + 50).min(wanted[0] + wanted.len() as u32);
            self.sender.send(0, &message(0, part, 500));
        }
        wait_for("a file with these events", || {
            let mut paths = hld_files(&self.out).into_iter();
            paths.find(|path| triggers_in(path) == wanted)
        })
    }

    fn wait_until_noticed(&self, how: &str) {
        wait_for("the notice", || self.run.said().contains(how).then_some(()));
    }

    fn end(self) -> (PathBuf, Value, TempDir) {
        signal("INT", self.run.pid());
        let json = self.run.end().json_of(1);
        assert_eq!(json["condition"], "tainted", "{json}");
        assert_eq!(json["reason"], "output_removed", "{json}");
        let taint = rig::taint(&json);
        assert!(taint.starts_with("output_removed: "), "{json}");
        (self.out, json, self._folder)
    }
}

fn hld_files(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "hld"))
        .collect()
}

fn triggers_in(path: &Path) -> Vec<u32> {
    let events = hld::read(path).events;
    events.iter().map(|event| event.subs[0].1).collect()
}

/// Files, events and bytes that are told to be gone.
fn gone(json: &Value) -> [u64; 3] {
    ["files", "events", "bytes"].map(|key| number(&json["output_removed"], key))
}

/// The last line, which says first what is gone, and how many events that is.
fn last_words(text: &str, events: u64) -> &str {
    let last = text.trim_end().lines().last().unwrap();
    let gone = format!("Gone: {events} events (");
    assert!(last.starts_with(&gone), "{text}");
    assert!(last.contains("accounted for: the books close"), "{text}");
    last
}

/// Asserts that the books close and that the audit tells what is gone as the run did; its exit code is 1 then.
fn assert_told(json: &Value, out: &Path) {
    let residual = ["residual_items", "residual_bytes"].map(|key| number(json, key));
    assert_eq!(residual, [0; 2], "{json}");
    let [_, events, _] = gone(json);
    let sheet = audit(out);
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    last_words(&sheet.stdout, events);
    let told = audit_json(out);
    assert_eq!(told["closed"], true, "{told}");
    assert_eq!(gone(&told), gone(json), "{told}");
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn a_removed_file_is_noticed_told_and_followed_by_another() {
    let mut taking = Taking::start();
    let path = taking.send(0..100);
    let bytes = path.metadata().unwrap().len() - 32;
    fs::remove_file(&path).unwrap();
    // Before anything else comes.
    taking.wait_until_noticed("was removed while it was written: 100 events");
    let next = taking.send(100..150);
    let (out, json, _folder) = taking.end();
    assert_eq!(gone(&json), [1, 100, bytes], "{json}");
    assert_eq!(files(&json), [next.canonicalize().unwrap()]);
    let file = hld::read(&next);
    assert!(file.is_ended && file.broken == 0);
    assert_eq!(number(&json, "events_built"), 150);
    assert_told(&json, &out);
}

#[test]
fn what_is_gone_is_said_first_at_the_end_and_by_the_audits() {
    let mut taking = Taking::start_as(|out, base_port| {
        let mut command = forebay();
        command.args(["evb", "--sources", "1", "--out"]).arg(out);
        command.args(["--base-port", &base_port.to_string()]);
        command
    });
    let path = taking.send(0..100);
    let bytes = path.metadata().unwrap().len() - 32;
    cut(&path, 0);
    taking.wait_until_noticed("was cut to 0 bytes while it was written: 100 events");
    taking.send(100..150);
    signal("INT", taking.run.pid());
    let ended = taking.run.end();
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    let last = last_words(&ended.stdout, 100);
    let kilobytes = format!("({:.1} kB)", bytes as f64 / 1e3);
    assert!(last.contains(&kilobytes), "{kilobytes}: {last}");
    assert!(last.contains("removed or cut 1 file"), "{last}");
    let sheet = audit(&taking.out);
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    assert_eq!(last_words(&sheet.stdout, 100), last);
    // As one of several.
    let whole = TempDir::new().unwrap();
    let of_demo = start(&mut demo(whole.path(), &["--duration", "200ms"])).end();
    assert_eq!(of_demo.code(), Some(0), "{}", of_demo.stdout);
    let mut command = forebay();
    command.arg("audit").arg(&taking.out).arg(whole.path());
    let joined = start(&mut command).end();
    assert_eq!(joined.code(), Some(1), "{}", joined.stdout);
    let mut lines = joined.stdout.lines();
    let party = format!("{}: run ", taking.out.display());
    assert!(
        lines.any(|line| line.starts_with(&party)),
        "{party}: {}",
        joined.stdout
    );
    let first = lines.next().unwrap();
    let named = format!("  Gone: 100 events {kilobytes}");
    assert!(first.starts_with(&named), "{named}: {}", joined.stdout);
}

#[test]
fn a_removed_directory_is_made_again_and_the_record_goes_to_standard_output() {
    let mut taking = Taking::start();
    taking.send(0..100);
    fs::remove_dir_all(&taking.out).unwrap();
    taking.wait_until_noticed("was removed while it was written: 100 events");
    let next = taking.send(100..150);
    let (out, json, _folder) = taking.end();
    assert_eq!(gone(&json)[..2], [1, 100], "{json}");
    assert_eq!(files(&json), [next.canonicalize().unwrap()]);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("goes to standard output"), "{warnings}");
    assert_eq!(json["events_built"], 150);
    assert!(!out.join("run.json").exists(), "it is another's by now");
    // The ledger is where the warning says.
    let memory = warnings.split("forebay audit ").nth(1).unwrap();
    let memory = Path::new(memory.split('`').next().unwrap());
    let sheet = audit(memory);
    fs::remove_file(memory).unwrap();
    assert_eq!(sheet.code(), Some(1), "{}", sheet.stdout);
    last_words(&sheet.stdout, 100);
    assert!(
        sheet.stdout.contains("tainted (output was removed)"),
        "{}",
        sheet.stdout
    );
}

#[test]
fn a_file_that_is_cut_keeps_its_whole_events_and_has_no_zeros() {
    let mut taking = Taking::start();
    let first = taking.send(0..100);
    let event = (first.metadata().unwrap().len() - 32) / 100;
    let left = 32 + 60 * event + 10;
    cut(&first, left);
    // Events that come before the builder has counted those that it can see in the file are on their way to it, and dropped (`file_cut`).
    taking.wait_until_noticed(&format!(
        "was cut to {left} bytes while it was written: 40 events"
    ));
    let second = taking.send(100..150);
    cut(&second, 0);
    taking.wait_until_noticed("was cut to 0 bytes while it was written: 50 events");
    let third = taking.send(150..160);
    let (out, json, _folder) = taking.end();
    assert_eq!(gone(&json), [2, 40 + 50, (40 + 50) * event], "{json}");
    assert_eq!(triggers_in(&first), (0..60).collect::<Vec<_>>());
    assert_eq!(triggers_in(&third), (150..160).collect::<Vec<_>>());
    for path in files(&json) {
        let file = hld::read(&path);
        assert!(file.is_ended && file.broken == 0, "{}", path.display());
    }
    assert_told(&json, &out);
}

#[test]
fn a_renamed_file_is_written_on_by_the_builder_that_is_started_again() {
    let mut taking = Taking::start();
    let path = taking.send(0..100);
    let builder = taking.run.stages()["builder"];
    // Stopped, it cannot look.
    signal("STOP", builder);
    let now = taking.out.join("kept.hld");
    fs::rename(&path, &now).unwrap();
    signal("KILL", builder);
    taking.sender.send(0, &message(0, 100..150, 500));
    wait_for("events behind those that were there", || {
        (triggers_in(&now) == (0..150).collect::<Vec<_>>()).then_some(())
    });
    signal("INT", taking.run.pid());
    let json = taking.run.end().json_of(0);
    assert_eq!(gone(&json), [0; 3], "{json}");
    assert_eq!(json["restarts"]["builder"], 1, "{json}");
    let warnings = json["warnings"].to_string();
    let named = format!("it is now {}", now.canonicalize().unwrap().display());
    assert!(warnings.contains(&named), "{warnings}");
    let file = hld::read(&now);
    assert!(file.is_ended && file.broken == 0);
    assert_eq!(hld_files(&taking.out), [now]);
    assert_closed(&json, &taking.out);
}

#[test]
fn what_was_removed_before_the_builder_died_is_counted_by_its_successor() {
    let mut taking = Taking::start();
    let path = taking.send(0..100);
    let builder = taking.run.stages()["builder"];
    // Stopped, it cannot look.
    signal("STOP", builder);
    fs::remove_file(&path).unwrap();
    signal("KILL", builder);
    taking.send(100..150);
    let (out, json, _folder) = taking.end();
    assert_eq!(gone(&json)[..2], [1, 100], "{json}");
    assert_eq!(json["restarts"]["builder"], 1, "{json}");
    assert_told(&json, &out);
}
