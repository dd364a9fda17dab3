//! The batch layer on loopback sockets: what is received, what is adopted, what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use forebay_sys::socket::{BoundUdp, UdpOptions, bind_udp, connect_udp, mem_info};
use forebay_sys::udp_batch::{
    Adopted, Ancillary, Arrived, BatchMode, BatchTag, Outgoing, RecvBatch, SLOT_CAPACITY_BYTES,
    SendBatch, SendStop,
};

fn loopback(options: &UdpOptions) -> BoundUdp {
    bind_udp("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn sender_to(address: SocketAddr) -> OwnedFd {
    connect_udp(address, &UdpOptions::default()).unwrap()
}

fn send_all(sender: &OwnedFd, payloads: &[&[u8]]) {
    let outgoing: Vec<_> = payloads
        .iter()
        .map(|payload| Outgoing::connected(payload))
        .collect();
    let sent = SendBatch::new(64).send(sender.as_fd(), &outgoing);
    assert_eq!(sent.count, payloads.len(), "{:?}", sent.stopped);
}

fn tag(batch_id: u64) -> BatchTag {
    BatchTag {
        batch_id,
        socket: 17,
        words: [5, u64::MAX],
    }
}

#[test]
fn datagrams_come_in_order_with_their_lengths() {
    let bound = loopback(&UdpOptions::default());
    let sender = sender_to(bound.address);
    send_all(&sender, &[b"one", b"", b"three"]);
    let mut batch = RecvBatch::private(8, Ancillary::default()).unwrap();
    assert_eq!(
        batch.receive_scratch(bound.fd.as_fd(), 8, tag(1)).unwrap(),
        3
    );
    let payloads: Vec<&[u8]> = (0..3).map(|index| batch.payload(index)).collect();
    assert_eq!(payloads, [b"one" as &[u8], b"", b"three"]);
    let first = batch.datagram(0);
    assert_eq!(
        (first.len, first.truncated, first.stamp_ns, first.from),
        (3, false, None, None)
    );
}

#[test]
fn a_call_takes_at_most_max_and_the_rest_stays() {
    let bound = loopback(&UdpOptions::default());
    send_all(&sender_to(bound.address), &[b"1", b"2", b"3", b"4", b"5"]);
    let mut batch = RecvBatch::private(3, Ancillary::default()).unwrap();
    let counts: Vec<_> = [2, 99, 99]
        .map(|max| {
            batch
                .receive_scratch(bound.fd.as_fd(), max, tag(1))
                .unwrap()
        })
        .into();
    assert_eq!(counts, [2, 3, 0]);
}

#[test]
fn stamps_and_addresses_when_asked() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let options = UdpOptions {
            stamps: true,
            ..UdpOptions::default()
        };
        let Ok(bound) = bind_udp(address.parse().unwrap(), &options) else {
            forebay_testing::skip!("{address}: no such address here");
            continue;
        };
        let sender = UdpSocket::bind(address).unwrap();
        let before = forebay_sys::clock::realtime_ns();
        sender.send_to(b"x", bound.address).unwrap();
        let mut batch = RecvBatch::private(
            2,
            Ancillary {
                addresses: true,
                control: true,
            },
        )
        .unwrap();
        assert_eq!(
            batch.receive_scratch(bound.fd.as_fd(), 2, tag(1)).unwrap(),
            1
        );
        let datagram = batch.datagram(0);
        assert_eq!(datagram.from, Some(sender.local_addr().unwrap()));
        let stamp = datagram.stamp_ns.unwrap();
        assert!(
            (before..=forebay_sys::clock::realtime_ns()).contains(&stamp),
            "{before} {stamp}"
        );
    }
}

#[test]
fn the_longest_datagram_fits_and_a_short_buffer_tells_the_true_length() {
    let bound = loopback(&UdpOptions::default());
    let sender = sender_to(bound.address);
    let long: Vec<u8> = (0..65_507_u32).map(|at| at as u8).collect();
    send_all(&sender, &[&long]);
    send_all(&sender, &[&long]);
    let mut batch = RecvBatch::private(1, Ancillary::default()).unwrap();
    assert_eq!(
        batch.receive_scratch(bound.fd.as_fd(), 1, tag(1)).unwrap(),
        1
    );
    assert_eq!(batch.payload(0), long);
    let mut short = [0; 100];
    assert!(
        batch
            .receive_into(bound.fd.as_fd(), &mut short, tag(2))
            .unwrap()
            .is_some()
    );
    assert_eq!(
        (batch.datagram(0).len, batch.datagram(0).truncated),
        (65_507, true)
    );
    assert_eq!(short[..], long[..100]);
}

#[test]
fn a_successor_adopts_what_was_received_and_not_accounted() {
    let bound = loopback(&UdpOptions {
        stamps: true,
        ..UdpOptions::default()
    });
    let sender = sender_to(bound.address);
    let ancillary = Ancillary {
        addresses: true,
        control: true,
    };
    let arena = RecvBatch::create_arena(8).unwrap();
    send_all(&sender, &[b"first", b"second"]);
    let mut batch = RecvBatch::attach(arena.try_clone().unwrap(), 8, ancillary).unwrap();
    assert_eq!(batch.adopt(), None, "a fresh arena has nothing to adopt");
    batch.receive_scratch(bound.fd.as_fd(), 8, tag(41)).unwrap();
    let seen: Vec<_> = (0..2).map(|index| batch.datagram(index)).collect();
    drop(batch);

    let mut successor = RecvBatch::attach(arena.try_clone().unwrap(), 8, ancillary).unwrap();
    assert_eq!(
        successor.adopt(),
        Some(Adopted {
            tag: tag(41),
            mode: BatchMode::Scratch,
            count: 2
        })
    );
    assert_eq!(
        (successor.payload(0), successor.payload(1)),
        (b"first" as &[u8], b"second" as &[u8])
    );
    assert_eq!(vec![successor.datagram(0), successor.datagram(1)], seen);
    drop(successor);

    // Killed again while adopting: nothing is lost. Only disarm (or the next receive) ends it.
    let mut third = RecvBatch::attach(arena.try_clone().unwrap(), 8, ancillary).unwrap();
    assert_eq!(third.adopt().unwrap().count, 2);
    third.disarm();
    drop(third);
    assert_eq!(
        RecvBatch::attach(arena, 8, ancillary).unwrap().adopt(),
        None
    );
}

#[test]
fn a_shorter_batch_after_a_longer_one_adopts_only_its_own() {
    let bound = loopback(&UdpOptions::default());
    let sender = sender_to(bound.address);
    let arena = RecvBatch::create_arena(8).unwrap();
    let mut batch = RecvBatch::attach(arena.try_clone().unwrap(), 8, Ancillary::default()).unwrap();
    send_all(&sender, &[b"a", b"b", b"c", b"d", b"e"]);
    assert_eq!(
        batch.receive_scratch(bound.fd.as_fd(), 8, tag(1)).unwrap(),
        5
    );
    send_all(&sender, &[b"f"]);
    assert_eq!(
        batch.receive_scratch(bound.fd.as_fd(), 8, tag(2)).unwrap(),
        1
    );
    drop(batch);
    let mut successor = RecvBatch::attach(arena, 8, Ancillary::default()).unwrap();
    assert_eq!(
        successor.adopt(),
        Some(Adopted {
            tag: tag(2),
            mode: BatchMode::Scratch,
            count: 1
        })
    );
    assert_eq!(successor.payload(0), b"f");
}

#[test]
fn a_direct_receive_is_adopted_with_the_callers_words() {
    let bound = loopback(&UdpOptions::default());
    send_all(&sender_to(bound.address), &[b"loaned"]);
    let arena = RecvBatch::create_arena(2).unwrap();
    let mut ring = [0; 32];
    let mut batch = RecvBatch::attach(arena.try_clone().unwrap(), 2, Ancillary::default()).unwrap();
    batch
        .receive_into(bound.fd.as_fd(), &mut ring, tag(7))
        .unwrap()
        .unwrap();
    drop(batch);
    let mut successor = RecvBatch::attach(arena, 2, Ancillary::default()).unwrap();
    assert_eq!(
        successor.adopt(),
        Some(Adopted {
            tag: tag(7),
            mode: BatchMode::Direct,
            count: 1
        })
    );
    assert_eq!(&ring[..successor.datagram(0).len], b"loaned");
    // The successor's scratch is its own again.
    send_all(&sender_to(bound.address), &[b"next"]);
    assert_eq!(
        successor
            .receive_scratch(bound.fd.as_fd(), 2, tag(8))
            .unwrap(),
        1
    );
    assert_eq!(
        (successor.payload(0), &ring[..6]),
        (b"next" as &[u8], b"loaned" as &[u8])
    );
}

#[test]
fn an_empty_receive_leaves_nothing_to_adopt() {
    let bound = loopback(&UdpOptions::default());
    let arena = RecvBatch::create_arena(2).unwrap();
    let mut batch = RecvBatch::attach(arena.try_clone().unwrap(), 2, Ancillary::default()).unwrap();
    assert_eq!(
        batch.receive_scratch(bound.fd.as_fd(), 2, tag(3)).unwrap(),
        0
    );
    assert!(
        batch
            .receive_into(bound.fd.as_fd(), &mut [0; 4], tag(4))
            .unwrap()
            .is_none()
    );
    drop(batch);
    assert_eq!(
        RecvBatch::attach(arena, 2, Ancillary::default())
            .unwrap()
            .adopt(),
        None
    );
}

#[test]
fn an_emulated_delivery_reads_like_a_received_one() {
    let ancillary = Ancillary {
        addresses: true,
        control: true,
    };
    let mut batch = RecvBatch::private(4, ancillary).unwrap();
    let from: SocketAddr = "[::1]:9".parse().unwrap();
    let mut lengths = [3, SLOT_CAPACITY_BYTES + 1].into_iter();
    let count = batch.deliver_scratch(4, tag(1), |slot| {
        slot[..3].copy_from_slice(b"abc");
        lengths.next().map(|len| Arrived {
            len,
            stamp_ns: Some(77),
            from: Some(from),
        })
    });
    assert_eq!((count, batch.payload(0)), (2, b"abc" as &[u8]));
    assert_eq!(
        (batch.datagram(0).stamp_ns, batch.datagram(0).from),
        (Some(77), Some(from))
    );
    assert_eq!(
        (batch.datagram(1).truncated, batch.payload(1).len()),
        (true, SLOT_CAPACITY_BYTES)
    );
}

#[test]
fn an_arena_of_another_layout_is_refused() {
    let arena = RecvBatch::create_arena(4).unwrap();
    assert!(RecvBatch::attach(arena.try_clone().unwrap(), 8, Ancillary::default()).is_err());
    assert!(RecvBatch::attach(arena, 4, Ancillary::default()).is_ok());
    assert!(RecvBatch::private(0, Ancillary::default()).is_err());
}

#[test]
fn a_refused_connection_is_reported_by_count_and_sending_goes_on() {
    let bound = loopback(&UdpOptions::default());
    let sender = sender_to(bound.address);
    drop(bound);
    let mut batch = SendBatch::new(1);
    let outgoing = [Outgoing::connected(b"x"); 3];
    let sent = batch.send(sender.as_fd(), &outgoing);
    // The first is taken; its ICMP answer, immediate on loopback, fails the second.
    assert!(
        matches!((sent.count, &sent.stopped), (1, Some(SendStop::Refused))),
        "{sent:?}"
    );
    assert_eq!(batch.send(sender.as_fd(), &outgoing[..1]).count, 1);
}

#[test]
fn a_too_long_datagram_is_reported_by_count() {
    let bound = loopback(&UdpOptions::default());
    let long = vec![0; 70_000];
    let outgoing = [
        Outgoing::connected(b"fits"),
        Outgoing::connected(&long),
        Outgoing::connected(b"never"),
    ];
    let sent = SendBatch::new(8).send(sender_to(bound.address).as_fd(), &outgoing);
    assert_eq!(sent.count, 1);
    assert!(
        matches!(sent.stopped, Some(SendStop::Failed(error)) if error.raw_os_error() == Some(90))
    );
}

#[test]
fn a_segmented_send_arrives_as_datagrams() {
    let bound = loopback(&UdpOptions::default());
    let outgoing = Outgoing {
        segment_bytes: Some(4),
        ..Outgoing::addressed(b"aaaabbbbcc", bound.address)
    };
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent = SendBatch::new(1).send(sender.as_fd(), &[outgoing]);
    assert_eq!(sent.count, 1, "{sent:?}");
    let mut batch = RecvBatch::private(8, Ancillary::default()).unwrap();
    let count = batch.receive_scratch(bound.fd.as_fd(), 8, tag(1)).unwrap();
    let payloads: Vec<_> = (0..count).map(|index| batch.payload(index)).collect();
    assert_eq!(payloads, [b"aaaa" as &[u8], b"bbbb", b"cc"]);
}

#[test]
fn drops_of_a_full_buffer_are_counted_exactly() {
    let options = UdpOptions {
        receive_buffer_bytes: Some(16_384),
        ..UdpOptions::default()
    };
    let bound = loopback(&options);
    let sender = sender_to(bound.address);
    let payload = [0_u8; 1000];
    send_all(&sender, &[&payload as &[u8]; 500]);
    let mut batch = RecvBatch::private(64, Ancillary::default()).unwrap();
    let mut received = 0;
    loop {
        match batch.receive_scratch(bound.fd.as_fd(), 64, tag(1)).unwrap() {
            0 => break,
            count => received += count,
        }
    }
    let drops = mem_info(&bound.fd).unwrap().drops as usize;
    assert!(drops > 0, "the buffer was not overrun");
    assert_eq!(received + drops, 500);
}
