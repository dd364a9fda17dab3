//! Why merging (GRO) is off where the kernel's drops close the books: a merged buffer counts as one drop.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use forebay_link::udp::{Config, UdpPort};
use forebay_link::{Ancillary, BatchTag, DatagramSource, Drops, RecvBatch};
use forebay_sys::socket::{UdpOptions, connect_udp};
use forebay_sys::udp_batch::{Outgoing, SendBatch};

const SEGMENT_BYTES: usize = 1_400;
const SEGMENTS: usize = 40;
const BURSTS: usize = 100;
const SENT: u64 = (SEGMENTS * BURSTS) as u64;

/// Overloads a small buffer by a sender that lets the kernel segment; tells what came and what was dropped. `None`: this
/// kernel does not segment.
fn overload(merge: bool) -> Option<(u64, Drops)> {
    let config = Config {
        receive_buffer_bytes: 64 << 10,
        merge,
        ..Config::default()
    };
    let (mut port, _) = UdpPort::bind(&config).unwrap();
    let sender = connect_udp(port.address(), &UdpOptions::default()).unwrap();
    let burst = vec![0x5a; SEGMENT_BYTES * SEGMENTS];
    let outgoing = Outgoing {
        segment_bytes: Some(SEGMENT_BYTES as u16),
        ..Outgoing::connected(&burst)
    };
    let mut batch = SendBatch::new(1);
    for _ in 0..BURSTS {
        if batch.send(sender.as_fd(), &[outgoing]).count != 1 {
            return None;
        }
    }
    let mut batch = RecvBatch::private(
        16,
        Ancillary {
            addresses: false,
            control: true,
        },
    )
    .unwrap();
    while port
        .receive_scratch(&mut batch, 16, BatchTag::default())
        .unwrap()
        > 0
    {}
    Some((port.received().datagrams, port.drops().unwrap()))
}

#[test]
fn without_merging_the_books_are_exact() {
    let start = Instant::now();
    loop {
        let Some((received, drops)) = overload(false) else {
            forebay_testing::skip!("this kernel does not segment UDP (UDP_SEGMENT)");
            return;
        };
        println!("GRO off: {SENT} sent, {received} received, {drops:?}");
        assert!(
            matches!(drops, Drops::Exact(count) if count > 0),
            "not overloaded: {drops:?}"
        );
        if received + drops.count() == SENT {
            return;
        }
        // A loaded machine may deliver the last burst after our last look; that is a race of this test, so again.
        assert!(received + drops.count() < SENT && start.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn with_merging_the_drops_are_a_lower_bound() {
    let Some((received, drops)) = overload(true) else {
        forebay_testing::skip!("this kernel does not segment UDP (UDP_SEGMENT)");
        return;
    };
    println!("GRO on: {SENT} sent, {received} received, {drops:?}");
    assert!(
        matches!(drops, Drops::AtLeast(_)),
        "merged drops must not pass for exact: {drops:?}"
    );
    assert!(received + drops.count() <= SENT, "more than was sent");
    if received + drops.count() == SENT {
        forebay_testing::skip!("this kernel counts the parts of a merged buffer");
        return;
    }
    assert!(drops.count() < SENT - received);
}
