//! An output that takes no more: what could not be written is confirmed to nobody.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;
mod small_disk;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use rig::{Ended, forebay, number, start};
use serde_json::Value;
use small_disk::on_small_disk;

fn net(verb: &str, address: &str, more: &[&str]) -> Command {
    let mut command = forebay();
    command.args(["net", verb, address, "--format", "json"]);
    command.args(more);
    command
}

fn shared_memory(test: &str) -> String {
    format!("shm://full-{test}-{}", std::process::id())
}

/// An address on the loopback network of this test's own, and its host.
fn host(number: u8) -> (String, String) {
    let pid = std::process::id();
    let host = format!("127.{}.{}.{number}", 1 + (pid >> 8) % 250, pid % 256);
    (format!("tcp://{host}:7401"), host)
}

/// Messages and bytes.
fn pair(of: &Value, messages: &str, bytes: &str) -> [u64; 2] {
    [number(of, messages), number(of, bytes)]
}

/// What a receiver whose output took nothing says: all that came is lost by one name, its books close, and its connection ended in order, for which nobody waited. How many
/// messages and bytes that is.
fn nothing_written(ended: &Ended, out: &Path) -> [u64; 2] {
    let summary = ended.json_of(2);
    assert!(
        ended.stderr.contains("writing to /dev/full"),
        "{}",
        ended.stderr
    );
    let residual = ["residual_items", "residual_bytes", "held"].map(|key| number(&summary, key));
    assert_eq!(residual, [0; 3], "{summary}");
    assert_eq!(summary["connections"][0]["end"], "over", "{summary}");
    let came = pair(&summary, "messages", "bytes");
    let lost = ["not_written", "not_wanted"].map(|name| rig::lost(&summary, name));
    assert_eq!(lost.iter().sum::<u64>(), came[0], "{summary}");
    assert!(lost[0] > 0, "{summary}");
    let verdict = rig::audit_json(out);
    let taken = rig::account_items(&verdict, ("deliver", "messages"), "outgoing");
    assert_eq!((verdict["closed"].as_bool(), taken), (Some(true), 0));
    let how = (&verdict["condition"], &verdict["reason"]);
    assert_eq!(how, (&"tainted".into(), &"write_failed".into()));
    came
}

/// All that a sender sent is unconfirmed, by messages and bytes; `takes` are further options of the receiver.
fn nothing_is_confirmed(address: &str, takes: &[&str], options: &[String]) {
    let directory = tempfile::tempdir().unwrap();
    let [to, from] = ["to", "from"].map(|name| directory.path().join(name));
    let output = ["--output", "/dev/full", "--as", "raw"];
    let mut command = net("recv", address, &output);
    let receiver = start(command.args(takes).args(options).arg("--out").arg(&to));
    let generated = ["--input", "generate", "--message-bytes", "8"];
    let mut command = net("send", address, &generated);
    command.args(["--count", "30000"]).args(options);
    let sent = start(command.arg("--out").arg(&from)).end();
    let came = nothing_written(&receiver.end(), &to);
    let summary = sent.json_of(4);
    let unconfirmed = pair(&summary, "unconfirmed", "unconfirmed_bytes");
    assert_eq!(unconfirmed, pair(&summary, "messages", "bytes"));
    assert_eq!(unconfirmed, came, "{summary}");
    let told = format!("it had confirmed 0 of {} messages", came[0]);
    assert!(sent.stderr.contains(&told), "{}", sent.stderr);
    assert_eq!(rig::audit_json(&from)["closed"], true);
}

#[test]
fn what_could_not_be_written_is_unconfirmed_over_shared_memory() {
    nothing_is_confirmed(&shared_memory("memory"), &[], &[]);
}

#[test]
fn what_could_not_be_written_is_unconfirmed_over_tcp() {
    nothing_is_confirmed(&host(1).0, &[], &[]);
}

#[test]
fn what_could_not_be_written_is_unconfirmed_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let (address, host) = host(2);
    let options = rig::certificates::make(directory.path(), vec![host]);
    nothing_is_confirmed(&address, &[], &options);
}

/// What comes behind those that were asked for is lost by another name, and lies behind what could not be written.
#[test]
fn what_is_not_wanted_is_not_confirmed_before_what_could_not_be_written() {
    nothing_is_confirmed(&shared_memory("count"), &["--count", "5"], &[]);
}

#[test]
fn a_publisher_is_told_nothing_of_what_a_subscriber_could_not_write() {
    let (address, directory) = (shared_memory("sub"), tempfile::tempdir().unwrap());
    let out = directory.path().join("out");
    let generated = ["--input", "generate", "--message-bytes", "8"];
    let publisher = start(net("pub", &address, &generated).args(["--count", "30000"]));
    let output = ["--output", "/dev/full", "--as", "raw"];
    let subscriber = start(net("sub", &address, &output).arg("--out").arg(&out));
    let came = nothing_written(&subscriber.end(), &out);
    let summary = publisher.end().json_of(4);
    let to_it = &summary["connections"][0];
    let unconfirmed = pair(to_it, "unconfirmed", "unconfirmed_bytes");
    assert_eq!(unconfirmed, came, "{summary}");
    assert_eq!(unconfirmed, pair(to_it, "messages_sent", "bytes_sent"));
}

/// A pipe from which a sender reads numbered lines without end, `NAME 1` and so on.
fn endless(directory: &Path, name: &'static str) -> String {
    let path = directory.join(name);
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let to = path.clone();
    std::thread::spawn(move || {
        let mut to = BufWriter::new(File::options().write(true).open(to).unwrap());
        // Until the sender has gone.
        (1..).all(|line| writeln!(to, "{name} {line}").is_ok())
    });
    path.to_str().unwrap().to_owned()
}

/// Two senders write on, through a receiver onto a disk that is soon full. What they were told is written is on the disk, and nothing else.
fn what_is_confirmed_is_on_the_disk(address: &str) {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut plain = net("recv", address, &["--output"]);
    plain.arg(disk.join("lines"));
    let Some(mut command) = on_small_disk(&plain, &disk, 1 << 20) else {
        return;
    };
    let receiver = start(&mut command);
    let names = ["north", "south"];
    let senders = names.map(|name| {
        let input = endless(directory.path(), name);
        start(&mut net("send", address, &["--input", &input]))
    });
    let sent = senders.map(|sender| sender.end().json_of(4));
    let received = receiver.end();
    let received = received.json_of(2);
    let written = fs::read_to_string(directory.path().join("disk.kept/lines")).unwrap();
    // A last line without its end is none.
    let written = &written[..=written.rfind('\n').unwrap()];
    let mut confirmed_by_both = 0;
    for (name, sent) in names.iter().zip(&sent) {
        let confirmed = number(sent, "messages") - number(sent, "unconfirmed");
        let lines = written.lines().filter(|line| line.starts_with(name));
        let expected = (1..=confirmed).map(|line| format!("{name} {line}"));
        assert!(lines.eq(expected), "{confirmed} confirmed: {sent}");
        confirmed_by_both += confirmed;
    }
    assert!(confirmed_by_both > 10_000, "{sent:?}");
    let lost = rig::lost(&received, "not_written");
    assert_eq!(number(&received, "messages") - lost, confirmed_by_both);
    assert_eq!(number(&received, "residual_items"), 0, "{received}");
}

#[test]
fn what_is_confirmed_is_on_the_disk_over_shared_memory() {
    what_is_confirmed_is_on_the_disk(&shared_memory("disk"));
}

#[test]
fn what_is_confirmed_is_on_the_disk_over_tcp() {
    what_is_confirmed_is_on_the_disk(&host(3).0);
}
