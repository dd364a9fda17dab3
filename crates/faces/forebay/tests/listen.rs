//! Nothing is open to the network unless it is asked for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::collections::BTreeSet;
use std::fs;

use rig::sockets::{listeners, loopback};
use rig::{evb, forebay, free_ports, signal, stages_of, start, wait_for};
use tempfile::TempDir;

/// What `pid` and its stages listen on.
fn all_listeners(pid: u32) -> BTreeSet<String> {
    let stages = stages_of(pid).into_values();
    stages.chain([pid]).flat_map(listeners).collect()
}

#[test]
fn nothing_listens_to_the_network_unasked() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(4);
    let metrics = format!("127.0.0.1:{}", base_port + 3);
    let run = start(&mut evb(
        folder.path(),
        3,
        base_port,
        &["--metrics", &metrics],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let found = wait_for("the listeners", || {
        Some(all_listeners(run.pid())).filter(|found| found.len() >= 4)
    });
    assert_eq!(found.len(), 4, "three sources and the metrics: {found:?}");
    assert!(
        found.iter().all(|address| address.starts_with(&loopback())),
        "{found:?}"
    );
    signal("TERM", run.pid());
    run.end().json_of(0);
}

#[test]
fn bind_opens_what_it_names() {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let run = start(&mut evb(
        folder.path(),
        2,
        base_port,
        &["--bind", "0.0.0.0"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let found = wait_for("the listeners", || {
        Some(all_listeners(run.pid())).filter(|found| found.len() >= 2)
    });
    let wanted: BTreeSet<String> = (0..2)
        .map(|source| format!("00000000:{:04X}", base_port + source))
        .collect();
    assert_eq!(found, wanted);
    signal("TERM", run.pid());
    run.end().json_of(0);
}

#[test]
fn the_emulator_listens_on_nothing_open() {
    let base_port = free_ports(2);
    let sender = start(forebay().args([
        "emulate",
        "hades",
        "--group",
        "2:200",
        "--duration",
        "20s",
        "--base-port",
        &base_port.to_string(),
    ]));
    let found = wait_for("its sockets", || {
        let found: Vec<String> = fs::read_dir(format!("/proc/{}/fd", sender.pid()))
            .ok()?
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .filter_map(|target| target.to_str().map(str::to_owned))
            .filter(|target| target.starts_with("socket:"))
            .collect();
        (found.len() >= 2).then_some(found)
    });
    // Connected sockets take datagrams from their peer only; unconnected or listening ones would be open to anybody.
    assert_eq!(listeners(sender.pid()), BTreeSet::new(), "{found:?}");
    signal("TERM", sender.pid());
    assert_eq!(sender.end().code(), Some(0));
}
