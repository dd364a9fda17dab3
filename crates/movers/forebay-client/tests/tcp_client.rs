//! Connections of TCP over a stack: two clients in one process, with a daemon between that carries frames.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod place;
mod station;

use std::time::{Duration, Instant};

use forebay_client::ip::{IpClient, IpError, SocketId, TcpCounts, TcpLimits, UdpLimits};
use forebay_testing::wait_for;
use station::{Station, carry, to};

const PORT: u16 = 9500;
const SMALL: TcpLimits = TcpLimits {
    receive_bytes: 4_096,
    send_bytes: 4_096,
    timeout: Duration::from_secs(20),
};

/// Carries frames until it is so: an acknowledgement waits for 10 ms.
fn carry_until(a: &mut Station, b: &mut Station, is_so: impl Fn(&IpClient, &IpClient) -> bool) {
    wait_for(|| {
        carry(a, b);
        is_so(&a.ip, &b.ip)
    });
}

/// All that was handed over at either side has been confirmed.
fn is_confirmed(a: &IpClient, b: &IpClient) -> bool {
    [a, b].map(|ip| ip.counts().tcp.unacknowledged_bytes) == [0; 2]
}

/// Both equations of the bytes, and of the frames as the ring counted them.
#[track_caller]
fn assert_closed(ip: &IpClient) -> TcpCounts {
    let totals = ip.counts();
    let of = totals.tcp;
    let came = of.taken_bytes + of.unread_bytes + of.closed_unread_bytes;
    assert_eq!(of.received_bytes, came, "{of:?}");
    let gone = of.acknowledged_bytes + of.unacknowledged_bytes + of.closed_unacknowledged_bytes;
    assert_eq!(of.asked_bytes, gone, "{of:?}");
    let device = totals.device;
    let frames = totals.udp.sent.items + device.segments_sent + device.others_sent;
    assert_eq!(frames, ip.client().counts().sent, "{device:?}");
    of
}

/// A connection from the first to the second; its two ends.
fn connected(a: &mut Station, b: &mut Station, host: &str) -> [SocketId; 2] {
    let listener = b.ip.tcp_listen(PORT, 2, SMALL).unwrap();
    let of_a = a.ip.tcp_connect(to(host, PORT), SMALL).unwrap();
    assert!(!a.ip.tcp_is_connected(of_a).unwrap());
    carry(a, b);
    assert!(a.ip.tcp_is_connected(of_a).unwrap());
    assert!(a.ip.wait(Instant::now()).unwrap(), "it is made");
    assert!(!a.ip.wait(Instant::now()).unwrap(), "it was told");
    assert!(b.ip.is_ready());
    let of_b = b.ip.tcp_accept(listener).unwrap().unwrap();
    assert_eq!(b.ip.tcp_accept(listener).unwrap(), None);
    b.ip.tcp_close(listener).unwrap();
    assert_eq!(a.ip.tcp_peer(of_a).unwrap(), to(host, PORT));
    assert_eq!(b.ip.tcp_port(of_b).unwrap(), PORT);
    let own = a.ip.tcp_port(of_a).unwrap();
    assert_eq!(b.ip.tcp_peer(of_b).unwrap().port(), own);
    [of_a, of_b]
}

#[test]
fn more_than_the_windows_hold_goes_both_ways_by_both_versions_and_in_a_vlan() {
    for (vlan, host) in [(None, "10.0.0.2"), (None, "fd00::2"), (Some(7), "10.0.0.2")] {
        let (mut a, mut b) = (Station::new(1, vlan), Station::new(2, vlan));
        // One whose receiver is not there holds up no connection.
        let udp = a.ip.udp(1, UdpLimits::default()).unwrap();
        a.ip.send_to(udp, to("10.0.0.77", 9), b"lost").unwrap();
        a.turn();
        let [of_a, of_b] = connected(&mut a, &mut b, host);
        let sent: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
        // There, and back again.
        for at in [0, 1] {
            let mut ends = [(&mut a, of_a), (&mut b, of_b)];
            ends.rotate_left(at);
            let [(one, of_one), (other, of_other)] = ends;
            let (mut put, mut came) = (0, Vec::new());
            let mut room = [0; 3_000];
            wait_for(|| {
                if put < sent.len() {
                    put += one.ip.tcp_send(of_one, &sent[put..]).unwrap();
                }
                carry(one, other);
                assert_closed(&one.ip);
                while let Some(bytes @ 1..) = other.ip.tcp_receive(of_other, &mut room).unwrap() {
                    came.extend_from_slice(&room[..bytes]);
                }
                came.len() == sent.len()
            });
            assert!(came == sent);
        }
        carry_until(&mut a, &mut b, is_confirmed);
        for station in [&a, &b] {
            let of = assert_closed(&station.ip);
            assert_eq!([of.asked_bytes, of.acknowledged_bytes], [60_000; 2]);
            assert_eq!([of.received_bytes, of.taken_bytes], [60_000; 2]);
            assert_eq!([of.refused, of.reset, of.timed_out], [0; 3]);
        }
        let (of_a, of_b) = (a.ip.counts().device, b.ip.counts().device);
        assert!(of_a.segments_sent_bytes >= 60_000, "{of_a:?}");
        // The wire here loses nothing.
        assert_eq!(of_a.segments_sent, of_b.segments_received);
        assert_eq!(of_b.segments_sent_bytes, of_a.segments_received_bytes);
    }
}

#[test]
fn each_side_may_close_first_and_what_was_said_comes() {
    for a_is_first in [true, false] {
        let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
        let [of_a, of_b] = connected(&mut a, &mut b, "10.0.0.2");
        let mut ends = [(&mut a, of_a), (&mut b, of_b)];
        if !a_is_first {
            ends.reverse();
        }
        let [(one, of_one), (other, of_other)] = ends;
        one.ip.tcp_send(of_one, b"last").unwrap();
        one.ip.tcp_shut_down(of_one).unwrap();
        let again = one.ip.tcp_send(of_one, b"more");
        assert!(matches!(again, Err(IpError::ShutDown { .. })), "{again:?}");
        carry(one, other);
        let mut room = [0; 100];
        assert_eq!(other.ip.tcp_receive(of_other, &mut room).unwrap(), Some(4));
        assert!(other.ip.is_ready(), "the end is there");
        assert_eq!(other.ip.tcp_receive(of_other, &mut room).unwrap(), Some(0));
        assert!(!other.ip.is_ready(), "it was told");
        // The other direction is open.
        other.ip.tcp_send(of_other, b"answer").unwrap();
        other.ip.tcp_close(of_other).unwrap();
        assert!(other.ip.tcp_send(of_other, b"none").is_err());
        carry(one, other);
        // smoltcp forgets what it has after 10 s.
        assert_eq!(one.ip.tcp_receive(of_one, &mut room).unwrap(), Some(6));
        assert_eq!(one.ip.tcp_receive(of_one, &mut room).unwrap(), Some(0));
        one.ip.tcp_close(of_one).unwrap();
        carry_until(one, other, is_confirmed);
        for station in [&a, &b] {
            let of = assert_closed(&station.ip);
            assert_eq!(of.asked_bytes, of.acknowledged_bytes, "{of:?}");
            assert_eq!(of.received_bytes, of.taken_bytes, "{of:?}");
            assert_eq!([of.refused, of.reset, of.timed_out], [0; 3]);
        }
    }
}

#[test]
fn a_connection_that_fails_has_a_name_and_its_bytes_an_end() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    // Nobody listens.
    let none = a.ip.tcp_connect(to("10.0.0.2", 1), SMALL).unwrap();
    carry(&mut a, &mut b);
    let refused = a.ip.tcp_is_connected(none);
    assert!(
        matches!(refused, Err(IpError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(b.ip.counts().segments_unclaimed, 1);
    a.ip.tcp_close(none).unwrap();
    // The peer closes with something unread.
    let [of_a, of_b] = connected(&mut a, &mut b, "10.0.0.2");
    a.ip.tcp_send(of_a, b"unread").unwrap();
    carry_until(&mut a, &mut b, is_confirmed);
    b.ip.tcp_close(of_b).unwrap();
    b.ip.client_mut().flush();
    b.place.taken().iter().for_each(|frame| a.place.give(frame));
    a.ip.turn().unwrap();
    assert!(a.ip.is_ready());
    let mut room = [0; 100];
    let reset = a.ip.tcp_receive(of_a, &mut room);
    assert!(matches!(reset, Err(IpError::Reset { .. })), "{reset:?}");
    assert!(!a.ip.is_ready(), "it was told");
    let reset = a.ip.tcp_send(of_a, b"more");
    assert!(matches!(reset, Err(IpError::Reset { .. })), "{reset:?}");
    a.ip.tcp_close(of_a).unwrap();
    carry(&mut a, &mut b);
    let of = assert_closed(&b.ip);
    assert_eq!((of.closed_unread_bytes, of.unread_bytes), (6, 0));
    // The peer says nothing any more.
    let brief = TcpLimits {
        timeout: Duration::from_secs(2),
        ..SMALL
    };
    let listener = b.ip.tcp_listen(PORT, 1, SMALL).unwrap();
    let of_a = a.ip.tcp_connect(to("10.0.0.2", PORT), brief).unwrap();
    carry(&mut a, &mut b);
    a.ip.tcp_send(of_a, b"into the dark").unwrap();
    wait_for(|| {
        a.turn();
        a.ip.is_ready()
    });
    let silent = a.ip.tcp_receive(of_a, &mut room);
    assert!(
        matches!(
            silent,
            Err(IpError::TimedOut {
                waited_ms: 2_000,
                ..
            })
        ),
        "{silent:?}"
    );
    a.ip.tcp_close(of_a).unwrap();
    b.ip.tcp_close(listener).unwrap();
    // One whose host is not there is given up as well.
    let dead = a.ip.tcp_connect(to("10.0.0.77", PORT), brief).unwrap();
    wait_for(|| {
        a.turn();
        a.ip.tcp_is_connected(dead).is_err()
    });
    let silent = a.ip.tcp_is_connected(dead);
    assert!(
        matches!(silent, Err(IpError::TimedOut { .. })),
        "{silent:?}"
    );
    let last = a.ip.close_all().tcp;
    assert_closed(&a.ip);
    assert_eq!([last.refused, last.reset, last.timed_out], [1, 1, 2]);
    assert_eq!((last.unacknowledged_bytes, last.unread_bytes), (0, 0));
    assert_eq!(last.closed_unacknowledged_bytes, 13);
    assert_closed(&b.ip);
}

#[test]
fn a_connection_that_waits_for_late_segments_lets_the_program_sleep() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let brief = TcpLimits {
        timeout: Duration::from_secs(2),
        ..SMALL
    };
    let listener = b.ip.tcp_listen(PORT, 1, SMALL).unwrap();
    let of_a = a.ip.tcp_connect(to("10.0.0.2", PORT), brief).unwrap();
    carry(&mut a, &mut b);
    let of_b = b.ip.tcp_accept(listener).unwrap().unwrap();
    a.ip.tcp_close(of_a).unwrap();
    let closed = Instant::now();
    carry(&mut a, &mut b);
    // The peer closes late, so that its last segments are waited for behind the time-out.
    wait_for(|| closed.elapsed() > brief.timeout / 2);
    b.ip.tcp_close(of_b).unwrap();
    carry(&mut a, &mut b);
    wait_for(|| closed.elapsed() > brief.timeout);
    let sleep = a.ip.arm(Duration::from_secs(60)).unwrap().unwrap();
    assert!(sleep > Duration::from_millis(1), "{sleep:?}");
}

#[test]
fn what_no_connection_can_be_is_told_and_limits_hold() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let mut refused = |address, port| {
        let refused = a.ip.tcp_connect(to(address, port), SMALL);
        refused.unwrap_err().to_string()
    };
    assert!(refused("10.0.0.2", 0).contains("port 0"));
    assert!(refused("192.0.2.1", 1).contains("no way"));
    assert!(refused("224.0.0.1", 1).contains("no way"));
    for limits in [
        TcpLimits {
            receive_bytes: 100,
            ..SMALL
        },
        TcpLimits {
            timeout: Duration::ZERO,
            ..SMALL
        },
    ] {
        let wrong = a.ip.tcp_listen(PORT, 1, limits).unwrap_err().to_string();
        assert!(wrong.contains("can be asked for"), "{wrong}");
    }
    let wrong = a.ip.tcp_listen(PORT, 65, SMALL);
    assert!(matches!(wrong, Err(IpError::Queue { .. })), "{wrong:?}");
    let listener = b.ip.tcp_listen(PORT, 1, SMALL).unwrap();
    let taken = b.ip.tcp_listen(PORT, 1, SMALL);
    assert!(matches!(taken, Err(IpError::PortTaken { port: PORT })));
    // One waits for the program, and the next one is refused.
    let [one, other] = [0; 2].map(|_| {
        let id = a.ip.tcp_connect(to("10.0.0.2", PORT), SMALL).unwrap();
        carry(&mut a, &mut b);
        id
    });
    assert!(a.ip.tcp_is_connected(one).unwrap());
    assert!(a.ip.tcp_is_connected(other).is_err());
    assert_eq!(b.ip.counts().tcp.backlog_full, 1);
    b.ip.tcp_accept(listener).unwrap().unwrap();
    let third = a.ip.tcp_connect(to("10.0.0.2", PORT), SMALL).unwrap();
    carry(&mut a, &mut b);
    assert!(a.ip.tcp_is_connected(third).unwrap());
    // A connection that the program did not accept ends with its listener.
    b.ip.tcp_close(listener).unwrap();
    carry(&mut a, &mut b);
    assert_eq!(a.ip.tcp_receive(third, &mut [0]).unwrap(), Some(0));
    for id in [listener, SocketId(99)] {
        let none = b.ip.tcp_accept(id);
        assert!(matches!(none, Err(IpError::NoSocket { .. })), "{none:?}");
    }
    while a.ip.tcp_listen(0, 1, SMALL).is_ok() {}
    let many = a.ip.tcp_listen(0, 1, SMALL);
    assert!(
        matches!(many, Err(IpError::TooMany { most: 64 })),
        "{many:?}"
    );
}

#[test]
fn connections_that_come_are_no_more_than_a_client_may_have() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let listener = b.ip.tcp_listen(PORT, 64, SMALL).unwrap();
    for _ in 0..40 {
        b.ip.udp(0, UdpLimits::default()).unwrap();
    }
    let calls = [0; 40].map(|_| {
        let id = a.ip.tcp_connect(to("10.0.0.2", PORT), SMALL).unwrap();
        carry(&mut a, &mut b);
        id
    });
    // A listener, 40 sockets of UDP, and these.
    let made = calls.map(|id| a.ip.tcp_is_connected(id).is_ok());
    assert_eq!(made.iter().filter(|is_made| **is_made).count(), 23);
    assert_eq!(b.ip.counts().tcp.backlog_full, 17);
    assert_eq!(a.ip.counts().tcp.refused, 17);
    // One that is closed is room for another one.
    let first = b.ip.tcp_accept(listener).unwrap().unwrap();
    b.ip.tcp_close(first).unwrap();
    carry(&mut a, &mut b);
    let late = a.ip.tcp_connect(to("10.0.0.2", PORT), SMALL).unwrap();
    carry(&mut a, &mut b);
    assert!(a.ip.tcp_is_connected(late).unwrap());
}

#[test]
fn each_listener_hears_and_calls_that_wait_already_are_no_more_than_may_come() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    for port in [PORT, PORT + 1] {
        b.ip.tcp_listen(port, 64, SMALL).unwrap();
    }
    let calls = [PORT, PORT + 1].map(|port| {
        let id = a.ip.tcp_connect(to("10.0.0.2", port), SMALL).unwrap();
        carry(&mut a, &mut b);
        id
    });
    assert!(calls.iter().all(|id| a.ip.tcp_is_connected(*id).unwrap()));
    // Ten calls are in the ring when the program opens sockets: two listeners, two connections and 60 sockets are all that it may have.
    let calls = [0; 10].map(|_| a.ip.tcp_connect(to("10.0.0.2", PORT), SMALL).unwrap());
    a.turn().iter().for_each(|frame| b.place.give(frame));
    for _ in 0..60 {
        b.ip.udp(0, UdpLimits::default()).unwrap();
    }
    carry(&mut a, &mut b);
    assert!(calls.iter().all(|id| a.ip.tcp_is_connected(*id).is_err()));
    assert_eq!(b.ip.counts().tcp.backlog_full, 10);
}

#[test]
fn a_closed_connection_whose_peer_does_not_close_is_given_up_and_counted() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let [of_a, of_b] = connected(&mut a, &mut b, "10.0.0.2");
    a.ip.tcp_send(of_a, b"last").unwrap();
    carry_until(&mut a, &mut b, is_confirmed);
    a.ip.tcp_close(of_a).unwrap();
    let brief = TcpLimits {
        timeout: Duration::from_secs(2),
        ..SMALL
    };
    let listener = b.ip.tcp_listen(PORT, 1, SMALL).unwrap();
    let other = a.ip.tcp_connect(to("10.0.0.2", PORT), brief).unwrap();
    carry(&mut a, &mut b);
    b.ip.tcp_accept(listener).unwrap().unwrap();
    a.ip.tcp_close(other).unwrap();
    // The peer is there, and says so when it is asked.
    carry_until(&mut a, &mut b, |a, _| a.counts().tcp.given_up > 0);
    let of = assert_closed(&a.ip);
    assert_eq!([of.given_up, of.timed_out, of.reset], [1, 0, 0]);
    assert!(b.ip.tcp_is_connected(of_b).unwrap());
}
