//! The door of a card as `forebay tohost` and `forebay toflx` find it: a process there that says nothing, and places where no card will ever be.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rig::{Run, forebay, signal, start, wait_for};

/// Longer than any test may take: a process that waits so long for a card is seen.
const CARD_WAIT_S: u32 = 600;

/// To-host, to-host that knows which buffer it wants, and to-flx, each for the card at that path.
fn all(name: &str, directory: &Path, socket: &Path) -> Vec<Run> {
    let of_tohost = ["tohost", "", "address = \"shm://door\"\n"];
    let of_buffer = [
        "tohost",
        "",
        "address = \"shm://door-0\"\ndma_buffers = [0]\n",
    ];
    let of_toflx = ["toflx", "address = \"shm://door-flx\"\n", ""];
    let kinds = [of_tohost, of_buffer, of_toflx].into_iter().enumerate();
    let started = kinds.map(|(number, [command, whole, device])| {
        let out = directory.join(format!("out{number}"));
        let text = format!(
            "[{command}]\ndirectory = {out:?}\ncard_wait_s = {CARD_WAIT_S}\n{whole}[[devices]]\nsocket = {socket:?}\n{device}"
        );
        let text = text.replace("shm://door", &format!("shm://{name}-{}", std::process::id()));
        let file = directory.join(format!("{number}.toml"));
        fs::write(&file, text).unwrap();
        start(forebay().arg(command).arg(file))
    });
    started.collect()
}

/// Whether a process listens at a path; its name is there a moment before.
fn takes_calls(socket: &Path) -> bool {
    const LISTENS: &str = "00010000";
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    sockets.lines().any(|line| {
        line.ends_with(socket.to_str().unwrap()) && line.split_whitespace().nth(3) == Some(LISTENS)
    })
}

/// Whether a process has an answer to SIGINT.
fn hears(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0)
}

#[test]
fn a_card_that_says_nothing_holds_no_order_up() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card.sock");
    let file = directory.path().join("card.toml");
    let card = format!("[card]\nsocket = {socket:?}\ndrain_s = 1\n[[links]]\nlinks = [0]\n");
    fs::write(&file, card).unwrap();
    let card = start(forebay().args(["emulate", "card"]).arg(&file));
    wait_for("the card", || takes_calls(&socket).then_some(()));
    assert!(signal("STOP", card.pid()));
    for run in all("silent", directory.path(), &socket) {
        wait_for("somebody who hears", || hears(run.pid()).then_some(()));
        let begun = Instant::now();
        assert!(signal("INT", run.pid()));
        let ended = run.end();
        // By itself it would ask for 5 s.
        assert!(begun.elapsed() < Duration::from_secs(3), "{}", ended.stderr);
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("has not answered"),
            "{}",
            ended.stderr
        );
    }
    assert!(signal("CONT", card.pid()));
    assert!(signal("INT", card.pid()));
    card.end();
}

#[test]
fn where_no_card_will_ever_be_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "data").unwrap();
    for (place, says) in [
        (directory.path().to_path_buf(), "is a directory"),
        (directory.path().join("file"), "is a file"),
        (directory.path().join("file/card.sock"), "cannot be asked"),
    ] {
        for run in all("nowhere", directory.path(), &place) {
            let ended = run.end();
            assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
            assert!(ended.stderr.contains(says), "{}", ended.stderr);
            let remedy = "name the";
            assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
        }
    }
}
