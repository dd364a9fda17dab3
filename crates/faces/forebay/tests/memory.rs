//! Memory is bounded by the configuration, and what was announced holds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::time::Duration;

use rig::{assert_closed, demo, number, start};
use tempfile::TempDir;

/// Code, stacks, books and batch buffers of one stage, in kB: an unoptimised binary with debug information.
const OWN_KB: u64 = 48 << 10;
/// The receiver's arena: 64 slots of 64 KiB.
const ARENA_KB: u64 = 5 << 10;

fn status_kb(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Shared memory of a process in kB, each page divided by how often it is mapped anywhere.
fn shmem_kb(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss_Shmem:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn every_stage_stays_below_what_was_announced() {
    let folder = TempDir::new().unwrap();
    let run = start(&mut demo(
        folder.path(),
        &["--sources", "90", "--rate", "4000", "--duration", "3s"],
    ));
    let stages = run.wait_stages(&["generator", "receiver", "builder"]);
    std::thread::sleep(Duration::from_millis(2500));
    // Anonymous memory is a stage's own; shared memory (rings, queues, arena, ledger) is what was announced, and counted once per stage
    // that has touched it. Each ring is mapped twice in a row, and its pages count twice.
    let own: Vec<_> = stages
        .iter()
        .map(|(name, pid)| {
            (
                name.clone(),
                status_kb(*pid, "RssAnon:"),
                status_kb(*pid, "RssShmem:"),
                status_kb(*pid, "VmHWM:"),
            )
        })
        .collect();
    // What is shared is divided by all that map it, so that the sum has each page once.
    let pids = stages.values().copied().chain([run.pid()]);
    let shared_kb: u64 = pids.map(shmem_kb).sum();
    let json = run.end().json_of(0);
    let rings_kb = number(&json["memory"], "source_rings_bytes") >> 10;
    let queues_kb = number(&json["memory"], "sink_queues_bytes") >> 10;
    let all_kb = rings_kb + queues_kb;
    println!("{shared_kb} kB shared, {all_kb} kB announced");
    assert!(
        shared_kb <= all_kb + all_kb / 10,
        "{shared_kb} kB are shared, {all_kb} kB were announced"
    );
    assert!(shared_kb > 0);
    for (name, anonymous, shared, peak) in own {
        println!("{name}: {anonymous} kB of its own, {shared} kB shared, at most {peak} kB in all");
        let announced = match name.as_str() {
            "receiver" => 2 * rings_kb + ARENA_KB,
            "builder" => 2 * rings_kb + 4 * queues_kb,
            _ => 0,
        };
        assert!(anonymous < OWN_KB, "{name}: {anonymous} kB of its own");
        assert!(
            peak < announced + OWN_KB + (32 << 10),
            "{name}: {peak} kB, {announced} kB announced"
        );
    }
    assert_closed(&json, folder.path());
}
