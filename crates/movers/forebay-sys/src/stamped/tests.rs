//! Stamps over real sockets on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::clock::realtime_ns;
use crate::socket::{UdpOptions, bind_udp, connect_udp, raise_receive_buffer, report_errors};
use crate::udp_batch::{Outgoing, SendBatch};

const LOOPBACKS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn bound(address: &str) -> Option<(Stamped, SocketAddr)> {
    let address: SocketAddr = address.parse().unwrap();
    match bind_udp(address, &UdpOptions::default()) {
        Ok(bound) => Some((Stamped::new(bound.fd).unwrap(), bound.address)),
        Err(why) => {
            forebay_testing::skip!("{address}: {why}");
            None
        }
    }
}

fn sender_to(address: SocketAddr) -> Stamped {
    Stamped::new(connect_udp(address, &UdpOptions::default()).unwrap()).unwrap()
}

fn stamp(socket: &Stamped) -> Option<SentStamp> {
    match socket.poll_sent().unwrap() {
        Some(Queued::Sent(stamp)) => Some(stamp),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

/// Sends on the socket without asking for stamps.
fn send_plain(socket: &Stamped, payloads: &[&[u8]]) {
    let outgoing: Vec<_> = payloads
        .iter()
        .map(|payload| Outgoing::connected(payload))
        .collect();
    assert_eq!(
        SendBatch::new(8).send(socket.as_fd(), &outgoing).count,
        payloads.len()
    );
}

#[test]
fn stamps_of_both_ends_lie_between_before_and_after_in_order() {
    for address in LOOPBACKS {
        let Some((receiver, address)) = bound(address) else {
            continue;
        };
        let mut sender = sender_to(address);
        assert!(await_receive_stamps(Duration::from_secs(30)).unwrap());
        let before = realtime_ns();
        assert_eq!(sender.send_stamped(b"ping", None).unwrap(), 0);
        let mut bytes = [0; 16];
        let came = receiver.receive(&mut bytes).unwrap().unwrap();
        let after = realtime_ns();
        let sent = stamp(&sender).unwrap();
        let stamped = came.stamp_ns.unwrap();
        assert!(
            before <= sent.realtime_ns && sent.realtime_ns <= stamped && stamped <= after,
            "{before} {sent:?} {came:?} {after}"
        );
        assert_eq!((sent.id, came.len, &bytes[..4]), (0, 4, b"ping" as &[u8]));
        assert_eq!(came.from, crate::socket::local_address(&sender).ok());
        assert_eq!(
            (receiver.receive(&mut bytes).unwrap(), stamp(&sender)),
            (None, None)
        );
    }
}

#[test]
fn ids_count_what_asked_and_nothing_else() {
    for ids in [Ids::Given, Ids::Counted { base: 0 }] {
        let (_receiver, address) = bound("127.0.0.1:0").unwrap();
        let mut sender = sender_to(address);
        sender.ids = ids;
        for wanted in 0..20 {
            send_plain(&sender, &[b"bulk", b"bulk", b"bulk"]);
            assert_eq!(sender.send_stamped(b"ask", None).unwrap(), wanted);
        }
        let seen: Vec<_> = std::iter::from_fn(|| stamp(&sender)).collect();
        assert!(seen.iter().map(|stamp| stamp.id).eq(0..20), "{seen:?}");
        assert!(seen.is_sorted_by_key(|stamp| stamp.realtime_ns));
        assert_eq!(sender.ids, ids, "this kernel's way was not kept");
    }
}

#[test]
fn a_failed_send_takes_no_id() {
    for ids in [Ids::Given, Ids::Counted { base: 0 }] {
        let (_receiver, address) = bound("127.0.0.1:0").unwrap();
        let mut sender = sender_to(address);
        sender.ids = ids;
        let too_long = vec![0; 70_000];
        assert_eq!(sender.send_stamped(b"one", None).unwrap(), 0);
        assert_eq!(stamp(&sender).unwrap().id, 0);
        let error = sender.send_stamped(&too_long, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(sender.send_stamped(b"two", None).unwrap(), 1);
        assert_eq!(stamp(&sender).unwrap().id, 1);
    }
}

#[test]
fn a_kernel_that_counts_is_asked_to_count() {
    let (_receiver, address) = bound("127.0.0.1:0").unwrap();
    let mut sender = sender_to(address);
    // Without SOF_TIMESTAMPING_OPT_ID the kernel refuses our id with EINVAL, as one that does not know it.
    set_timestamping(sender.as_fd(), false).unwrap();
    assert_eq!(sender.send_stamped(b"one", None).unwrap(), 0);
    assert_eq!(sender.ids, Ids::Counted { base: 0 });
}

#[test]
fn an_unconnected_socket_sends_stamped_to_many() {
    let (one, to_one) = bound("127.0.0.1:0").unwrap();
    let (two, to_two) = bound("127.0.0.1:0").unwrap();
    let (mut sender, from) = bound("127.0.0.1:0").unwrap();
    for (id, to) in [to_one, to_two, to_one].into_iter().enumerate() {
        assert_eq!(sender.send_stamped(b"x", Some(to)).unwrap() as usize, id);
        assert_eq!(stamp(&sender).unwrap().id as usize, id);
    }
    for (receiver, count) in [(&one, 2), (&two, 1)] {
        let came = std::iter::from_fn(|| receiver.receive(&mut [0; 4]).unwrap());
        assert_eq!(came.filter(|came| came.from == Some(from)).count(), count);
    }
}

#[test]
fn a_short_buffer_tells_the_true_length() {
    let (receiver, address) = bound("127.0.0.1:0").unwrap();
    send_plain(&sender_to(address), &[b"0123456789"]);
    let came = receiver.receive(&mut [0; 4]).unwrap().unwrap();
    assert_eq!((came.len, came.truncated), (10, true));
}

#[test]
fn an_icmp_error_is_told_apart_from_a_stamp() {
    for address in LOOPBACKS {
        let Some((receiver, address)) = bound(address) else {
            continue;
        };
        drop(receiver);
        let mut sender = sender_to(address);
        report_errors(&sender, true).unwrap();
        sender.send_stamped(b"nobody", None).unwrap();
        let entries: Vec<_> = std::iter::from_fn(|| sender.poll_sent().unwrap()).collect();
        let errors = entries.iter().filter_map(|entry| match entry {
            Queued::Error(error) => Some(*error),
            Queued::Sent(_) => None,
        });
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else {
            panic!("{entries:?}");
        };
        assert_eq!(entries.len(), 2, "one stamp, one error: {entries:?}");
        assert_eq!(error.errno, libc::ECONNREFUSED);
        assert!(matches!(error.origin, 2 | 3), "{error:?}");
        assert_eq!(error.to, Some(address));
        assert_eq!(error.reported_by.unwrap().ip(), address.ip());
    }
}

#[test]
fn a_full_receive_buffer_swallows_transmit_stamps() {
    let (mut socket, address) = bound("127.0.0.1:0").unwrap();
    let (_sink, elsewhere) = bound("127.0.0.1:0").unwrap();
    raise_receive_buffer(&socket, 4096).unwrap();
    let filler = sender_to(address);
    for _ in 0..100 {
        send_plain(&filler, &[b"x"]);
    }
    let asked = 20;
    for id in 0..asked {
        assert_eq!(socket.send_stamped(b"when", Some(elsewhere)).unwrap(), id);
    }
    let seen = std::iter::from_fn(|| stamp(&socket)).count();
    assert!(seen < asked as usize, "all {seen} stamps found room");
    while socket.receive(&mut [0; 4]).unwrap().is_some() {}
    for id in asked..2 * asked {
        socket.send_stamped(b"when", Some(elsewhere)).unwrap();
        assert_eq!(stamp(&socket).unwrap().id, id);
    }
}
