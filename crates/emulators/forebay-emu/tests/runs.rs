//! Runs of neighbouring datagrams are the datagrams themselves, in their order.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use forebay_emu::{Config, Group, Huge, SoftReadouts};

/// Polls everything that `config` sends in 20 ms; returns datagrams and runs seen.
fn compare(config: &Config) -> (usize, usize) {
    let mut readouts = SoftReadouts::new(config).unwrap();
    let (mut datagrams, mut runs) = (0, 0);
    for now_ms in 0..20 {
        readouts.handle_time(now_ms * 1_000_000);
        while let Some(batch) = readouts.poll_batch(64) {
            let single: Vec<&[u8]> = batch.datagrams().map(|datagram| datagram.bytes).collect();
            let mut joined: Vec<&[u8]> = Vec::new();
            for run in batch.runs(60_000) {
                assert!(run.count == 1 || run.bytes.len() <= 60_000);
                assert_eq!(run.bytes.len(), run.count * run.datagram_bytes);
                joined.extend(run.bytes.chunks(run.datagram_bytes));
                runs += 1;
            }
            assert_eq!(single, joined);
            datagrams += single.len();
        }
    }
    (datagrams, runs)
}

#[test]
fn datagrams_of_one_size_are_joined() {
    let mut config = Config::new(1, vec![Group::new(3, 116, 0.0)], 100_000.0);
    config.transport.water_mark_bytes = None;
    let (datagrams, runs) = compare(&config);
    assert!(
        datagrams > 1000 && runs * 10 < datagrams,
        "{datagrams} in {runs} runs"
    );
}

#[test]
fn datagrams_of_many_sizes_stay_what_they_are() {
    let mut config = Config::new(
        3,
        vec![Group::new(2, 300, 80.0), Group::new(1, 1170, 0.0)],
        50_000.0,
    );
    config.transport.water_mark_bytes = None;
    config.huge = Some(Huge {
        every_events: 50,
        bytes: 100_000,
    });
    let (datagrams, runs) = compare(&config);
    assert!(datagrams > 1000 && runs <= datagrams);
}
