//! What stays of an end point that was killed, and what is said of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use forebay_ledger::grouped;
use rig::{Run, audit, audit_json, forebay, start, wait_for};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn an_audit_says_of_when_the_books_of_a_killed_one_are() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let address = format!("shm://killed-{}", std::process::id());
    let receive = |more: &[&str]| {
        let mut command = forebay();
        command
            .args(["net", "recv", &address, "--output", "null", "--out"])
            .arg(&out)
            .args(more);
        start(&mut command)
    };
    let receiver = receive(&[]);
    let sender = start(forebay().args(["net", "send", &address, "--input", "generate"]));
    let taken = || {
        let deliver = audit_json(&out)["balance"]["accounts"]
            .as_array()?
            .iter()
            .find(|line| line["place"] == "deliver")?
            .clone();
        deliver["outgoing"]["items"]
            .as_u64()
            .filter(|items| *items > 0)
    };
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("the first messages in the books", taken);
    assert!(rig::signal("KILL", receiver.pid()));
    receiver.end();
    assert!(rig::signal("INT", sender.pid()));
    assert!(rig::signal("INT", sender.pid()));
    sender.end();
    // It may be brought home by any other run meanwhile.
    let memory = fs::read_link(out.join("ledger"));
    let ended = audit(&out);
    assert_eq!(ended.code(), Some(0), "{}", ended.stdout);
    for part in [
        "did not end by itself",
        "last sign of life is of 20",
        "UTC",
        ", as of then",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let verdict = audit_json(&out);
    assert_eq!(verdict["condition"], "interrupted", "{verdict}");
    assert!(
        verdict["as_of_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000,
        "{verdict}"
    );
    // The next one takes it out of memory, and its own books are not of any earlier time.
    let next = receive(&["--count", "0"]).end();
    assert_eq!(next.code(), Some(0), "{}", next.stderr);
    assert!(!memory.is_ok_and(|memory| memory.exists()));
    assert!(audit_json(&out)["as_of_ns"].is_null());
}

/// Messages of the tests below: generated ones begin with their number.
const MESSAGE_BYTES: usize = 200;
/// So many are written before the output takes no more, and as many are left then: each more than pipe, output, connection and buffers hold.
const WRITTEN: u64 = 100_000;
const MESSAGES: u64 = 2 * WRITTEN;
/// What one turn of a receiver reads, and what the credit of a sender allows, in bytes: 64 buffers of 64 KiB.
const TURN_BYTES: u64 = 64 * (64 << 10);
/// What is under way at the most between a sender and what its receiver has written, in bytes: sent and not read; gathered (256 KiB, and a turn) and as much being
/// written; in the pipe.
const UNDER_WAY_BYTES: u64 = TURN_BYTES + 2 * (TURN_BYTES + (256 << 10)) + (64 << 10);
const GENERATED: [&str; 8] = [
    "--input",
    "generate",
    "--count",
    "200000",
    "--message-bytes",
    "200",
    "--format",
    "json",
];

/// The numbers of whole messages in what was written raw; they must be in order.
fn numbers(raw: &[u8]) -> Vec<u64> {
    let message = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let numbers: Vec<u64> = raw.chunks_exact(MESSAGE_BYTES).map(message).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    numbers
}

fn number(of: &Value, key: &str) -> u64 {
    let number = of[key].as_u64();
    number.unwrap_or_else(|| panic!("{key} of {of}"))
}

/// No more is unconfirmed than can have been under way: the sender was told of all that was written before.
fn assert_under_way(unconfirmed: u64) {
    let bytes = unconfirmed * MESSAGE_BYTES as u64;
    assert!(bytes <= UNDER_WAY_BYTES, "{bytes} {UNDER_WAY_BYTES}");
}

/// A receiving end whose output takes little: much has come that it could not write.
struct Behind {
    run: Run,
    pipe: File,
    directory: TempDir,
}

/// `verb` is started with a pipe for its output, then `begin` is called; returns once much is held and some is written.
fn behind(verb: &str, address: &str, options: &[String], begin: impl FnOnce()) -> Behind {
    let directory = tempfile::tempdir().unwrap();
    let [path, out] = ["pipe", "out"].map(|name| directory.path().join(name));
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let mut command = forebay();
    command.args(["net", verb, address, "--as", "raw", "--output"]);
    let run = start(command.arg(&path).arg("--out").arg(&out).args(options));
    let mut pipe = File::open(&path).unwrap();
    begin();
    let mut written = vec![0; MESSAGE_BYTES * WRITTEN as usize];
    pipe.read_exact(&mut written).unwrap();
    wait_for("messages that are held", || {
        let held = audit_json(&out)["balance"]["accounts"]
            .as_array()?
            .iter()
            .find(|line| line["place"] == "deliver")?["held"]["items"]
            .as_u64()?;
        (held > 1000).then_some(())
    });
    Behind {
        run,
        pipe,
        directory,
    }
}

impl Behind {
    /// Kills it: how many messages it has written.
    fn kill(mut self) -> u64 {
        assert!(rig::signal("KILL", self.run.pid()));
        self.run.end();
        let mut rest = Vec::new();
        self.pipe.read_to_end(&mut rest).unwrap();
        let rest = numbers(&rest);
        assert_eq!(
            rest.first(),
            Some(&WRITTEN),
            "in {:?}",
            self.directory.path()
        );
        WRITTEN + rest.len() as u64
    }
}

/// Its books say what its record says is unconfirmed, wherever they are shown, and nothing calls it complete.
fn assert_shown(out: &Path, unconfirmed: u64) {
    let of_messages = unconfirmed * MESSAGE_BYTES as u64;
    let verdict = audit_json(out);
    let lines = verdict["unconfirmed"].as_array().unwrap();
    let sum = |key| lines.iter().map(|line| number(line, key)).sum::<u64>();
    assert_eq!((sum("items"), sum("bytes")), (unconfirmed, of_messages));
    assert!(lines.iter().all(|line| line["place"] == "send"));
    assert_eq!(
        (&verdict["condition"], &verdict["closed"]),
        (&"tainted".into(), &true.into())
    );
    let sheet = audit(out);
    let told = format!("Unconfirmed: {} messages", grouped(unconfirmed.into()));
    let last = sheet.stdout.trim_end().lines().last().unwrap();
    assert!(last.contains(&told), "{}", sheet.stdout);
    assert_eq!(sheet.code(), Some(0), "the books close: {last}");
    let mut page = forebay();
    page.args(["audit", "--format", "prometheus"]).arg(out);
    let page = start(&mut page).end().stdout;
    for (name, amount) in [("items", unconfirmed), ("bytes", of_messages)] {
        let name = format!("forebay_unconfirmed_{name}{{");
        let samples = page.lines().filter(|line| line.starts_with(&name));
        let values = samples.map(|line| line.rsplit(' ').next().unwrap());
        let sum: f64 = values.map(|value| value.parse::<f64>().unwrap()).sum();
        assert_eq!(sum, amount as f64, "{page}");
    }
    let mut top = forebay();
    let top = start(top.args(["top", "--format", "json"]).arg(out)).end();
    let view = &top.json()["messages"];
    assert_eq!(number(view, "unconfirmed"), unconfirmed);
    assert_eq!(number(view, "unconfirmed_bytes"), of_messages);
    let mut top = forebay();
    let page = start(top.args(["top", "--once"]).arg(out)).end().stdout;
    let told = format!(", {unconfirmed} UNCONFIRMED (");
    assert!(page.contains(&told), "{page}");
}

/// Of a killed receiver its sender says how many messages are unconfirmed; all others were written, by the killed one or by the next.
fn a_killed_receiver(address: &str, options: &[String]) {
    let (mut sender, directory) = (None, tempfile::tempdir().unwrap());
    let own = directory.path().join("own");
    let first = behind("recv", address, options, || {
        let mut command = forebay();
        command.args(["net", "send", address]).args(GENERATED);
        command.arg("--out").arg(&own);
        sender = Some(start(command.args(options)));
    });
    let written = first.kill();
    let output = directory.path().join("output");
    let mut command = forebay();
    command.args(["net", "recv", address, "--once", "--as", "raw", "--output"]);
    let second = start(command.arg(&output).args(options)).end();
    assert_eq!(second.code(), Some(0), "{}", second.stderr);
    let sent = sender.unwrap().end().json_of(4);
    let lost = number(&sent, "dropped");
    assert_eq!(rig::lost(&sent, "connection_lost"), lost, "{sent}");
    let unconfirmed = number(&sent, "unconfirmed");
    assert!(unconfirmed > 1000, "{sent}");
    assert_under_way(unconfirmed);
    assert_shown(&own, unconfirmed);
    let next = numbers(&fs::read(&output).unwrap());
    assert_eq!(next.last(), Some(&(MESSAGES - 1)));
    let known = written + next.len() as u64;
    // None is in both, and of the unconfirmed ones some are written.
    assert!(written <= next[0], "{written} {}", next[0]);
    assert!(known + lost <= MESSAGES, "{known} {lost}");
    assert!(known + lost + unconfirmed >= MESSAGES, "{known} {sent}");
}

#[test]
fn what_a_killed_receiver_has_not_written_is_unconfirmed_over_shared_memory() {
    a_killed_receiver(&format!("shm://unwritten-{}", std::process::id()), &[]);
}

#[test]
fn what_a_killed_receiver_has_not_written_is_unconfirmed_over_tcp() {
    let (address, _) = host(1);
    a_killed_receiver(&address, &[]);
}

#[test]
fn what_a_killed_receiver_has_not_written_is_unconfirmed_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let (address, host) = host(2);
    let options = rig::certificates::make(directory.path(), vec![host]);
    a_killed_receiver(&address, &options);
}

/// An address on the loopback network of this test's own, and its host.
fn host(number: u8) -> (String, String) {
    let pid = std::process::id();
    let host = format!("127.{}.{}.{number}", 1 + (pid >> 8) % 250, pid % 256);
    (format!("tcp://{host}:7400"), host)
}

#[test]
fn what_a_killed_subscriber_has_not_written_is_unconfirmed_at_its_publisher() {
    let address = format!("shm://unread-{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own");
    let mut command = forebay();
    command.args(["net", "pub", &address]).args(GENERATED);
    let publisher = start(command.arg("--out").arg(&own));
    let written = behind("sub", &address, &[], || ()).kill();
    let published = publisher.end().json_of(4);
    let to_it = &published["connections"][0];
    let (sent, unconfirmed) = (number(to_it, "messages_sent"), number(to_it, "unconfirmed"));
    assert_eq!(number(&published, "unconfirmed"), unconfirmed);
    assert!(unconfirmed > 1000 && written <= sent, "{written} {to_it}");
    assert!(written + unconfirmed >= sent, "{written} {to_it}");
    assert_under_way(unconfirmed);
    assert_shown(&own, unconfirmed);
    // Of what it published later nobody is said to have got any.
    let all = number(&published, "messages") + number(&published, "dropped");
    assert_eq!(all, MESSAGES, "{published}");
}
