//! `populate_queues`: what of the queues is in the page tables of the stages when the run is ready.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use forebay_run_evb::presets;
use forebay_run_evb::supervisor::Supervisor;

const SOURCES: usize = 4;
const RING_BYTES: u64 = 1 << 20;

/// Bytes of this process's mappings of the sources' rings that have their pages, by the kernel (proc_pid_smaps(5)).
fn resident_bytes() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_ring = false;
    let mut kib = 0;
    for line in smaps.lines() {
        if line
            .split(' ')
            .next()
            .is_some_and(|range| range.contains('-'))
        {
            is_ring = line.contains("forebay-sources:data");
        } else if let Some(rss) = line.strip_prefix("Rss:").filter(|_| is_ring) {
            kib += rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    kib * 1024
}

/// Runs the stages as threads of this process; returns what is resident at the first look at the run.
fn at_begin(populates: bool) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut plan = presets::plan("populate", directory.path(), local, 0, SOURCES);
    plan.ports.iter_mut().for_each(|port| port.set_port(0));
    plan.sinks = vec![presets::null_sink()];
    plan.receiver.populate_queues = populates;
    for source in &mut plan.sources {
        source.ring_bytes = RING_BYTES;
    }
    let mut first = None;
    let supervisor = Supervisor::open(plan, false).unwrap();
    supervisor
        .run(Some(Duration::ZERO), |_| {
            first.get_or_insert_with(resident_bytes);
        })
        .unwrap();
    first.unwrap()
}

/// Each ring is mapped twice in a row at each of its two ends.
#[test]
fn queues_are_there_when_the_run_begins_if_that_is_asked() {
    let whole = 4 * SOURCES as u64 * RING_BYTES;
    assert_eq!(at_begin(true), whole);
    let without = at_begin(false);
    assert!(without < whole / 4, "{without} of {whole}");
}
