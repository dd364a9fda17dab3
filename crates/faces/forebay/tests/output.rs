//! Standard output that takes nothing: said, and seen in the exit code, unless its reader has gone on purpose.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rig::{Ended, forebay, free_ports, number, signal, start, wait_for};
use tempfile::TempDir;

/// What a pipe takes while nobody reads.
const PIPE_BYTES: usize = 64 << 10;

fn program() -> String {
    Path::new(forebay().get_program()).display().to_string()
}

/// Runs `forebay ARGUMENTS REDIRECTION` by a shell.
fn redirected(arguments: &str, redirection: &str) -> Ended {
    let script = format!("{} {arguments} {redirection}", program());
    start(Command::new("sh").args(["-c", &script])).end()
}

fn each_verb(out: &Path) -> [String; 4] {
    let out = out.display();
    [
        format!("demo --sources 2 --duration 100ms --sink null --format json --out {out}"),
        format!("demo --sources 2 --duration 100ms --sink null --out {out}"),
        format!("audit {out}"),
        // To nobody: the usual port may be that of another test's run.
        format!(
            "emulate hades --group 1:116 --events 1 --base-port {}",
            free_ports(1)
        ),
    ]
}

#[test]
fn a_result_that_cannot_be_written_is_said_and_exits_with_2() {
    let folder = TempDir::new().unwrap();
    for verb in each_verb(folder.path()) {
        for (sink, why) in [("> /dev/full", "No space left"), (">&-", "it is closed")] {
            let ended = redirected(&verb, sink);
            assert_eq!(ended.code(), Some(2), "{verb} {sink}: {}", ended.stderr);
            let said = ended.stderr.matches("could not be written").count();
            assert_eq!(said, 1, "{verb} {sink}: {}", ended.stderr);
            assert!(ended.stderr.contains(why), "{verb}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_reader_that_goes_changes_nothing() {
    let folder = TempDir::new().unwrap();
    for verb in each_verb(folder.path()) {
        // What reads the pipe is gone before the first line comes.
        let script = format!(
            "{{ sleep 0.2; {} {verb}; echo code $? >&2; }} | :",
            program()
        );
        let ended = start(Command::new("sh").args(["-c", &script])).end();
        assert!(ended.stderr.contains("code 0"), "{verb}: {}", ended.stderr);
        assert!(!ended.stderr.contains("written"), "{}", ended.stderr);
        let quiet = redirected(&verb, "> /dev/null");
        assert_eq!(quiet.code(), Some(0), "{verb}: {}", quiet.stderr);
    }
}

#[test]
fn each_verbs_help_shows_its_own_name() {
    for verb in ["run", "evb"] {
        let help = start(forebay().args([verb, "--help"])).end().stdout;
        assert!(help.contains(&format!("Usage: forebay {verb} ")), "{help}");
        let (_, examples) = help.split_once("Example").unwrap();
        let mut commands = examples.lines().filter(|line| line.contains("forebay "));
        let own = format!("forebay {verb} ");
        let first = commands.next().unwrap();
        assert!(
            first.contains(&own) && commands.all(|line| line.contains(&own)),
            "{help}"
        );
    }
}

#[test]
fn a_standard_error_that_nobody_reads_holds_up_no_work() {
    const STRANGERS: u64 = 1_500;
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Somebody holds the pipe and does not read: it takes 64 KiB.
    let _unread = File::options().read(true).write(true).open(&pipe).unwrap();
    let address = format!("127.0.0.1:{}", free_ports(1));
    let mut mover = Command::new("sh");
    mover.args(["-c", "pipe=$1; shift; exec \"$@\" 2>\"$pipe\"", "sh"]);
    mover.arg(&pipe).arg(program());
    mover.args(["mover", "--format", "json", "--listen", &address, "--out"]);
    let mover = start(mover.arg(folder.path().join("out")));
    // Each of them is worth a line of the log.
    for number in 0..STRANGERS {
        let mut stranger = wait_for("the mover", || TcpStream::connect(&address).ok());
        stranger.write_all(&[0xee; 64]).unwrap();
        stranger
            .set_read_timeout(Some(std::time::Duration::from_secs(20)))
            .unwrap();
        // It is answered, or let go, not left alone.
        let heard = stranger.read(&mut [0; 64]).map_err(|error| error.kind());
        assert!(
            !matches!(heard, Err(std::io::ErrorKind::WouldBlock)),
            "stranger {number}"
        );
    }
    assert!(signal("TERM", mover.pid()));
    let summary = mover.end().json_of(0);
    let refused = summary["refused"].as_object().unwrap().keys();
    let refused: u64 = refused.map(|why| number(&summary["refused"], why)).sum();
    assert_eq!(refused, STRANGERS, "{summary}");
}

/// The supervisor starts a dead stage again, whether or not its line of each second is read.
#[test]
fn a_standard_error_that_nobody_reads_keeps_no_stage_dead() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let unread = File::options().read(true).write(true).open(&pipe).unwrap();
    // Not one line finds room: what is written here is all that the pipe takes.
    (&unread).write_all(&[b'.'; PIPE_BYTES]).unwrap();
    let port = free_ports(1).to_string();
    let mut evb = Command::new("sh");
    evb.args(["-c", "pipe=$1; shift; exec \"$@\" 2>\"$pipe\"", "sh"]);
    evb.arg(&pipe).arg(program());
    evb.args(["evb", "--sources", "1", "--base-port", &port]);
    evb.args(["--format", "text", "--out"]);
    let evb = start(evb.arg(folder.path().join("out")));
    let old = evb.wait_stages(&["receiver", "builder"])["builder"];
    // Two lines are due by then.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(signal("KILL", old));
    wait_for("the successor", || {
        evb.stages()
            .get("builder")
            .filter(|pid| **pid != old)
            .copied()
    });
    assert!(signal("INT", evb.pid()));
    assert_eq!(evb.end().code(), Some(0));
}
