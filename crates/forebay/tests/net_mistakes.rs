//! What people get wrong with messaging, and what they are told: what is wrong, and what would be right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs::{self, File};
use std::process::Command;

use rig::{Ended, forebay, start};

/// An address on the loopback network that nobody else has.
fn address(number: u8) -> String {
    let pid = std::process::id();
    let [high, low] = [1 + (pid >> 8) % 250, pid % 256];
    format!("tcp://127.{high}.{low}.{number}:7300")
}

fn net(arguments: &[&str]) -> Command {
    let mut command = forebay();
    command.arg("net").args(arguments);
    command
}

/// It could not be done, and all of `said` is told.
fn refused(arguments: &[&str], said: &[&str]) -> Ended {
    let ended = start(&mut net(arguments)).end();
    assert_eq!(ended.code(), Some(2), "{arguments:?}: {}", ended.stderr);
    for text in said {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    ended
}

#[test]
fn a_measurement_to_which_nobody_came_is_no_result() {
    for (role, peer, number) in [
        ("recv", "sender", 1),
        ("echo", "sender", 2),
        ("sub", "publisher", 3),
    ] {
        let address = address(number);
        let said = [
            &format!("no {peer} came at {address} within 0.3 s")[..],
            "--role",
        ];
        let arguments = ["perf", &address, "--role", role, "--duration", "300ms"];
        refused(&arguments, &said);
        let json = refused(&[&arguments[..], &["--format", "json"]].concat(), &said);
        let result = json.json();
        assert_eq!(result["messages"], 0, "{result}");
        assert!(
            result["nobody_came"].as_str().unwrap().contains(peer),
            "{result}"
        );
    }
}
