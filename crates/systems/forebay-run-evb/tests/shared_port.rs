//! Several sources on one port, told apart by sub-event id or by sender.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::time::Duration;

use forebay_run_evb::plan::SourceKey;
use forebay_run_hades::verify::verify;
use rig::{dropped, message, plan, run, socket};
use tempfile::TempDir;

const MTU_BYTES: usize = forebay_wire::hadtu::MTU_BYTES;

#[test]
fn by_sub_event_id() {
    let folder = TempDir::new().unwrap();
    let mut plan = plan(folder.path(), 4);
    plan.ports.truncate(1);
    for (index, source) in plan.sources.iter_mut().enumerate() {
        source.port = 0;
        source.key = SourceKey::SubEventId(0x8000 + index as u32);
    }
    let summary = run(plan, Duration::from_millis(600), |plan| {
        let sender = socket();
        for first in (0..400).step_by(20) {
            for source in 0..4 {
                sender
                    .send_to(
                        &message(0x8000 + source, first..first + 20, 100),
                        plan.ports[0],
                    )
                    .unwrap();
            }
            // Of nobody, and of no format.
            sender
                .send_to(&message(0x9999, first..first + 1, 100), plan.ports[0])
                .unwrap();
            sender.send_to(b"what is this", plan.ports[0]).unwrap();
        }
        // A message of several datagrams: only its first one carries an id.
        for source in 0..4 {
            for piece in message(0x8000 + source, [400], 100_000).chunks(MTU_BYTES) {
                sender.send_to(piece, plan.ports[0]).unwrap();
            }
        }
    });
    assert_eq!(
        (summary.events_built, summary.events_partial),
        (401, 0),
        "{:?}",
        summary.envelope.drops
    );
    let stray: u64 = summary
        .envelope
        .drops
        .iter()
        .filter(|(name, _)| name.starts_with("receiver.unknown_source.port"))
        .map(|(_, lost)| lost.items)
        .sum();
    assert_eq!(
        (stray, summary.envelope.drops.len()),
        (40, 1),
        "{:?}",
        summary.envelope.drops
    );
    assert!(verify(&summary.files, None).unwrap().is_good());
}

#[test]
fn by_sender() {
    let folder = TempDir::new().unwrap();
    let senders: Vec<_> = (0..3).map(|_| socket()).collect();
    let mut plan = plan(folder.path(), 3);
    plan.ports.truncate(1);
    for (sender, source) in senders.iter().zip(&mut plan.sources) {
        source.port = 0;
        source.key = SourceKey::Sender(sender.local_addr().unwrap());
    }
    let summary = run(plan, Duration::from_millis(500), |plan| {
        for first in (0..300).step_by(10) {
            for sender in &senders {
                // All with one id: it does not matter here.
                sender
                    .send_to(&message(0x8000, first..first + 10, 100), plan.ports[0])
                    .unwrap();
            }
        }
        socket()
            .send_to(&message(0x8000, [7], 100), plan.ports[0])
            .unwrap();
    });
    assert_eq!(
        (summary.events_built, summary.events_partial),
        (300, 0),
        "{:?}",
        summary.envelope.drops
    );
    assert_eq!(
        summary.envelope.drops.len(),
        1,
        "the stranger: {:?}",
        summary.envelope.drops
    );
}

#[test]
fn a_full_queue_of_one_source_costs_the_others_on_the_port_nothing() {
    let folder = TempDir::new().unwrap();
    let mut plan = plan(folder.path(), 2);
    plan.ports.truncate(1);
    plan.builder.timeout_ms = 100;
    plan.receiver.message_bytes_max = 65_536;
    for (index, source) in plan.sources.iter_mut().enumerate() {
        source.port = 0;
        source.key = SourceKey::SubEventId(0x8000 + index as u32);
        source.ring_bytes = 256 << 10;
    }
    // The builder waits long for the other source, and much comes of this one.
    plan.builder.timeout_ms = 3_600_000;
    plan.builder.timeout_events = 1_000_000;
    plan.builder.completion = forebay_run_evb::plan::Completion::Wait;
    let summary = run(plan, Duration::from_millis(700), |plan| {
        let sender = socket();
        for first in 0..100 {
            sender
                .send_to(&message(0x8000, [first], 8_000), plan.ports[0])
                .unwrap();
            sender
                .send_to(&message(0x8001, [1_000 + first], 10), plan.ports[0])
                .unwrap();
        }
    });
    assert_eq!(
        dropped(&summary, "receiver.ring_full.source1"),
        0,
        "{:?}",
        summary.envelope.drops
    );
}
