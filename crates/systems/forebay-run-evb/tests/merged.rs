//! UDP GRO: the kernel merges datagrams of a sender that lets it segment. They are told apart again, and drops are a bound.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use forebay_run::record::Record;
use forebay_run_evb::summary::Summary;
use forebay_sys::socket::{UdpOptions, connect_udp};
use forebay_sys::udp_batch::{Outgoing, SendBatch};
use rig::{message, plan, run};
use tempfile::TempDir;

/// Messages in one buffer that the kernel cuts.
const SEGMENTS: u32 = 40;

/// Sends bursts of messages of one size, each burst as one buffer; false where the kernel does not segment.
fn send(to: SocketAddr, bursts: u32) -> bool {
    let socket = connect_udp(to, &UdpOptions::default()).unwrap();
    let mut batch = SendBatch::new(1);
    (0..bursts).all(|burst| {
        let messages: Vec<_> = (0..SEGMENTS)
            .map(|index| message(0x8000, [burst * SEGMENTS + index], 1_200))
            .collect();
        let bytes = messages.concat();
        let outgoing = Outgoing {
            segment_bytes: Some(messages[0].len() as u16),
            ..Outgoing::connected(&bytes)
        };
        batch.send(socket.as_fd(), &[outgoing]).count == 1
    })
}

/// A run with `bursts` sent to a socket buffer of `buffer_bytes`.
fn take(buffer_bytes: usize, gro: bool, bursts: u32) -> Option<Record<Summary>> {
    let folder = TempDir::new().unwrap();
    let mut plan = plan(folder.path(), 1);
    plan.receiver.socket_buffer_bytes = Some(buffer_bytes);
    plan.receiver.gro = gro;
    let mut segmented = false;
    let summary = run(plan, Duration::from_millis(500), |plan| {
        segmented = send(plan.ports[0], bursts)
    });
    if !segmented {
        forebay_testing::skip!("this kernel does not segment UDP (UDP_SEGMENT)");
    }
    segmented.then_some(summary)
}

#[test]
fn merged_datagrams_are_messages_of_their_own_again() {
    for gro in [false, true] {
        let Some(summary) = take(4 << 20, gro, 20) else {
            return;
        };
        assert_eq!(
            (summary.events_built, summary.envelope.drops.len()),
            (u64::from(20 * SEGMENTS), 0),
            "gro {gro}: {:?}",
            summary.envelope.drops
        );
        assert_eq!(summary.subevents_in, u64::from(20 * SEGMENTS));
    }
}

#[test]
fn drops_are_exact_without_merging_and_a_bound_with_it() {
    const BURSTS: u32 = 400;
    for gro in [false, true] {
        let Some(summary) = take(8 << 10, gro, BURSTS) else {
            return;
        };
        let lost = u64::from(BURSTS * SEGMENTS) - summary.subevents_in;
        let dropped = summary
            .envelope
            .drops
            .get("socket.buffer_full.source0")
            .copied()
            .unwrap_or_default();
        println!("gro {gro}: {lost} lost, the kernel says {dropped:?}");
        assert!(lost > 0, "not overloaded");
        if gro {
            assert!(
                dropped.items <= lost && lost <= dropped.items_max,
                "{lost} lost, {dropped:?}"
            );
            assert!(
                summary
                    .envelope
                    .warnings
                    .iter()
                    .any(|text| text.contains("lower bound")),
                "{:?}",
                summary.envelope.warnings
            );
        } else {
            assert_eq!((dropped.items, dropped.items_max), (lost, lost));
        }
    }
}
