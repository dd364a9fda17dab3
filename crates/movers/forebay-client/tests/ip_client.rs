//! Sockets over a stack: two clients in one process, with a daemon between that carries frames. The stack's time is the test's own where it matters.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod place;
mod station;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use forebay_client::ip::{
    Datagrams, Ends, Fate, IpClient, IpError, IpTotals, Network, PATIENCE_NS, Stack, UdpLimits,
};
use forebay_testing::wait_for;
use place::{FRAMES, place};
use station::{Station, carry, to};

const PORT: u16 = 9500;

fn some(items: u64, bytes: u64) -> Datagrams {
    Datagrams { items, bytes }
}

/// Both equations, and what was sent as the sockets and the ring below them counted it.
#[track_caller]
fn assert_closed(totals: &IpTotals) {
    assert_closed_beside(totals, Datagrams::default());
}

/// The same where the test sent frames of its own past the stack.
#[track_caller]
fn assert_closed_beside(totals: &IpTotals, own: Datagrams) {
    let of = totals.udp;
    let sum = |terms: &[Datagrams]| {
        let mut sum = Datagrams::default();
        terms.iter().for_each(|term| sum += *term);
        sum
    };
    let ends = [of.taken, of.queue_full, of.unread, of.closed_unread];
    assert_eq!(of.received, sum(&ends), "{of:?}");
    let lost = [of.unresolved, of.no_way, of.unsent, of.closed_unsent];
    assert_eq!(of.asked, sum(&[&lost[..], &[of.sent]].concat()), "{of:?}");
    let (items, bytes) = (
        totals.device.datagrams_sent,
        totals.device.datagrams_sent_bytes,
    );
    let by_ring = some(items - own.items, bytes - own.bytes);
    assert_eq!(of.sent, by_ring);
}

#[test]
fn datagrams_go_there_and_back_with_their_senders_by_both_versions_and_in_a_vlan() {
    for vlan in [None, Some(7)] {
        let (mut a, mut b) = (Station::new(1, vlan), Station::new(2, vlan));
        let of_b = b.ip.udp(PORT, UdpLimits::default()).unwrap();
        let of_a = a.ip.udp(0, UdpLimits::default()).unwrap();
        let own = a.ip.port(of_a).unwrap();
        assert!(own >= 49_152);
        for (there, here) in [("10.0.0.2", "10.0.0.1"), ("fd00::2", "fd00::1")] {
            // More than there are buffers, before the neighbour is known.
            for number in 0..3 * FRAMES as u8 {
                let payload = vec![number; 100 + usize::from(number)];
                a.ip.send_to(of_a, to(there, PORT), &payload).unwrap();
            }
            wait_for(|| {
                carry(&mut a, &mut b);
                a.ip.counts().udp.unsent.items == 0
            });
            carry(&mut a, &mut b);
            for number in 0..3 * FRAMES as u8 {
                let next_bytes = b.ip.next_bytes(of_b).unwrap();
                assert_eq!(next_bytes, Some(100 + usize::from(number)));
                let came = b.ip.take(of_b).unwrap().unwrap();
                assert_eq!(came.from, to(here, own));
                assert_eq!(came.to, Some(there.parse::<IpAddr>().unwrap()));
                assert_eq!(came.payload, vec![number; 100 + usize::from(number)]);
                b.ip.send_to(of_b, came.from, &came.payload).unwrap();
                carry(&mut a, &mut b);
                let back = a.ip.take(of_a).unwrap().unwrap();
                assert_eq!((back.from, back.payload), (to(there, PORT), came.payload));
            }
        }
        assert_eq!(b.ip.next_bytes(of_b).unwrap(), None);
        for station in [&a, &b] {
            let totals = station.ip.counts();
            assert_closed(&totals);
            assert_eq!(totals.udp.sent.items, 6 * u64::from(FRAMES));
            assert_eq!(totals.udp.taken, totals.udp.sent);
            assert_eq!(totals.unclaimed, 0);
        }
    }
}

#[test]
fn each_datagram_that_is_lost_has_its_name() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let of_a = a.ip.udp(PORT, UdpLimits::default()).unwrap();
    let limits = UdpLimits {
        unread_max: 2,
        unsent_max: 3,
    };
    let of_b = b.ip.udp(PORT, limits).unwrap();
    for bytes in [10, 20, 30, 40] {
        let payload = vec![1; bytes];
        a.ip.send_to(of_a, to("10.0.0.2", PORT), &payload).unwrap();
        carry(&mut a, &mut b);
    }
    a.ip.send_to(of_a, to("10.0.0.2", 9), b"nobody").unwrap();
    carry(&mut a, &mut b);
    assert_eq!(b.ip.take(of_b).unwrap().unwrap().payload.len(), 10);
    let counts = b.ip.udp_counts(of_b).unwrap();
    assert_eq!(counts.received, some(4, 100));
    assert_eq!(counts.queue_full, some(2, 70));
    assert_eq!((counts.taken, counts.unread), (some(1, 10), some(1, 20)));
    assert_eq!(b.ip.counts().unclaimed, 1);
    // Of a neighbour that says nothing.
    for bytes in [1, 2, 3] {
        let payload = vec![2; bytes];
        b.ip.send_to(of_b, to("10.0.0.77", PORT), &payload).unwrap();
    }
    let full = b.ip.send_to(of_b, to("10.0.0.77", PORT), b"4");
    assert!(matches!(full, Err(IpError::Full { most: 3 })), "{full:?}");
    assert!(!b.ip.has_room(of_b).unwrap());
    let counts = b.ip.udp_counts(of_b).unwrap();
    assert_eq!((counts.asked, counts.unsent), (some(3, 6), some(3, 6)));
    assert_eq!(counts.refused_full, 1);
    assert_closed(&b.ip.counts());
    let last = b.ip.close(of_b).unwrap();
    assert_eq!(last.closed_unsent, some(3, 6));
    assert_eq!(last.closed_unread, some(1, 20));
    assert_eq!(b.ip.counts().udp, last);
    assert_closed(&b.ip.counts());
    assert_closed(&a.ip.counts());
    // The port is free again, and its number is another one.
    let again = b.ip.udp(PORT, UdpLimits::default()).unwrap();
    assert!(again > of_b);
    let gone = b.ip.take(of_b);
    assert!(matches!(gone, Err(IpError::NoSocket { .. })), "{gone:?}");
}

#[test]
fn what_was_sent_before_goes_first_and_may_leave_room() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let limits = UdpLimits {
        unsent_max: 1,
        ..UdpLimits::default()
    };
    let of_a = a.ip.udp(PORT, limits).unwrap();
    b.ip.udp(PORT, UdpLimits::default()).unwrap();
    let send = |a: &mut Station| a.ip.send_to(of_a, to("10.0.0.2", PORT), &[1; 1_472]);
    send(&mut a).unwrap();
    carry(&mut a, &mut b);
    // A buffer each, and one that waits for one.
    for _ in 0..=FRAMES {
        assert!(a.ip.has_room(of_a).unwrap());
        send(&mut a).unwrap();
    }
    assert!(!a.ip.has_room(of_a).unwrap());
    assert!(matches!(send(&mut a), Err(IpError::Full { most: 1 })));
    // The daemon takes them: there is room, without a turn of the stack.
    a.ip.client_mut().flush();
    assert_eq!(a.place.taken().len(), FRAMES as usize);
    send(&mut a).unwrap();
    assert_eq!(a.ip.counts().udp.refused_full, 1);
}

#[test]
fn what_waits_when_the_client_closes_has_its_name() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let of_b = b.ip.udp(PORT, UdpLimits::default()).unwrap();
    let ports = [1, 2].map(|port| a.ip.udp(port, UdpLimits::default()).unwrap());
    b.ip.send_to(of_b, to("10.0.0.1", 1), b"unread").unwrap();
    carry(&mut a, &mut b);
    for (port, bytes) in ports.into_iter().zip([7, 8]) {
        let payload = vec![0; bytes];
        a.ip.send_to(port, to("10.0.0.77", 9), &payload).unwrap();
        a.ip.send_to(port, to("10.0.0.77", 9), &payload).unwrap();
    }
    assert_eq!(a.ip.counts().udp.unsent, some(4, 30));
    let last = a.ip.close_all();
    assert_eq!(last.udp.closed_unsent, some(4, 30));
    assert_eq!(last.udp.closed_unread, some(1, 6));
    assert_eq!((last.udp.unsent, last.udp.unread), (some(0, 0), some(0, 0)));
    assert_closed(&last);
    assert_eq!(a.ip.counts(), last);
    assert!(a.ip.port(ports[0]).is_err());
}

#[test]
fn what_cannot_be_sent_is_told_and_not_counted() {
    let mut a = Station::new(1, None);
    let udp = a.ip.udp(PORT, UdpLimits::default()).unwrap();
    let mut sent = |address, port, bytes: usize| {
        let sent = a.ip.send_to(udp, to(address, port), &vec![0; bytes]);
        sent.unwrap_err().to_string()
    };
    assert!(sent("10.0.0.2", 0, 1).contains("port 0 of 10.0.0.2"));
    assert!(sent("192.0.2.1", 1, 1).contains("no way to 192.0.2.1"));
    assert!(sent("0.0.0.0", 1, 1).contains("no way"));
    assert!(sent("fd01::1", 1, 1).contains("no way"));
    let long = sent("10.0.0.2", 1, 1473);
    assert!(long.contains("1473 bytes; 0 to 1472"), "{long}");
    assert!(sent("fd00::2", 1, 1453).contains("0 to 1452"));
    assert_eq!(a.ip.counts(), IpTotals::default());
    let taken = a.ip.udp(PORT, UdpLimits::default());
    assert!(matches!(taken, Err(IpError::PortTaken { port: PORT })));
    for found in [0, 65_537] {
        let limits = UdpLimits {
            unread_max: found,
            ..UdpLimits::default()
        };
        assert!(matches!(a.ip.udp(1, limits), Err(IpError::Queue { .. })));
    }
    for _ in 1..64 {
        a.ip.udp(0, UdpLimits::default()).unwrap();
    }
    let many = a.ip.udp(0, UdpLimits::default());
    assert!(matches!(many, Err(IpError::TooMany { most: 64 })));
    let (client, _place) = place(3, None, &[]);
    let none = IpClient::open(client, &Network::default());
    assert!(matches!(none, Err(IpError::NoAddress)));
    let (client, _place) = place(3, None, &["10.0.0.3"]);
    let longest = Network {
        prefix_v4: 32,
        prefix_v6: 128,
        ..Network::default()
    };
    assert!(IpClient::check(&client, &longest).is_ok());
    let network = Network {
        prefix_v6: 129,
        ..Network::default()
    };
    let long = IpClient::open(client, &network);
    assert!(matches!(long, Err(IpError::Prefix { version: 6, .. })));
    let v4 = ["0.0.0.0", "224.0.0.1", "255.255.255.255"].map(|way| Network {
        gateway_v4: Some(way.parse().unwrap()),
        ..Network::default()
    });
    let v6 = ["::", "ff02::1"].map(|way| Network {
        gateway_v6: Some(way.parse().unwrap()),
        ..Network::default()
    });
    for network in [v4.as_slice(), v6.as_slice()].concat() {
        let (client, _place) = place(3, None, &["10.0.0.3"]);
        let none = IpClient::open(client, &network);
        assert!(matches!(none, Err(IpError::Gateway { .. })), "{network:?}");
    }
}

#[test]
fn a_gateway_is_the_way_to_other_networks() {
    let (client, mut at) = place(1, None, &["10.0.0.1"]);
    let network = Network {
        gateway_v4: Some([10, 0, 0, 254].into()),
        ..Network::default()
    };
    let mut ip = IpClient::open(client, &network).unwrap();
    let udp = ip.udp(PORT, UdpLimits::default()).unwrap();
    ip.send_to(udp, to("192.0.2.1", 7), b"far").unwrap();
    ip.client_mut().flush();
    let asked = at.taken();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0][12..14], [8, 6], "a question by ARP");
    assert_eq!(asked[0][38..42], [10, 0, 0, 254]);
}

#[test]
fn a_way_leads_to_the_own_networks_to_groups_and_by_a_gateway_to_all() {
    let ways = |addresses: &[&str], gateways: [bool; 2]| {
        let (client, _at) = place(1, None, addresses);
        let network = Network {
            gateway_v4: gateways[0].then_some([10, 0, 0, 254].into()),
            gateway_v6: gateways[1].then(|| "fd00::fe".parse().unwrap()),
            ..Network::default()
        };
        let stack = Stack::open(client, &network, 0);
        [
            "10.0.0.9",
            "192.0.2.1",
            "224.0.0.1",
            "255.255.255.255",
            "0.0.0.0",
            "fd00::9",
            "2001:db8::1",
            "ff02::1",
            "::",
        ]
        .map(|to| stack.has_way(to.parse().unwrap()))
    };
    let both = ["10.0.0.1", "fd00::1"];
    let (y, n) = (true, false);
    assert_eq!(ways(&both, [n, n]), [y, n, y, y, n, y, n, y, n]);
    assert_eq!(ways(&both, [y, n]), [y, y, y, y, n, y, n, y, n]);
    assert_eq!(ways(&both, [n, y]), [y, n, y, y, n, y, y, y, n]);
    assert_eq!(ways(&both[..1], [n, n]), [y, n, y, y, n, n, n, n, n]);
    assert_eq!(ways(&both[1..], [n, n]), [n, n, n, n, n, y, n, y, n]);
}

#[test]
fn a_receiver_that_nobody_knows_is_given_up_after_3_s_and_holds_up_its_port_alone() {
    let (client, mut at) = place(1, None, &["10.0.0.1"]);
    let mut stack = Stack::open(client, &Network::default(), 0);
    let (one, other) = (stack.bind(1).unwrap(), stack.bind(2).unwrap());
    assert_eq!(stack.bind(2), None);
    let ends = |address| Ends {
        remote: to(address, 9),
        local: None,
    };
    let mut told = Vec::new();
    assert!(stack.put(one, ends("10.0.0.77"), b"lost", 0));
    assert!(!stack.put(one, ends("10.0.0.77"), b"lost", 0));
    // To all, for which nobody is asked.
    assert!(stack.put(other, ends("10.0.0.255"), b"all", 0));
    let mut turn = |stack: &mut Stack, now_ns| {
        stack.egress(now_ns, |port, waiting, fate| {
            told.push((port, waiting.bytes, fate));
        });
        stack.client_mut().flush();
        told.clone()
    };
    assert_eq!(turn(&mut stack, 0), [(other, 3, Fate::Sent)]);
    let most = Duration::from_secs(60);
    assert!(stack.patience(0, most) <= Duration::from_secs(1));
    assert_eq!(turn(&mut stack, PATIENCE_NS - 1).len(), 1);
    let last = stack.patience(PATIENCE_NS - 1, most);
    assert_eq!(last, Duration::from_nanos(1));
    let told = turn(&mut stack, PATIENCE_NS);
    assert_eq!(told[1..], [(one, 4, Fate::Unresolved)]);
    // The port takes the next one at once.
    assert!(stack.put(one, ends("10.0.0.255"), b"again", PATIENCE_NS));
    let mut fates = Vec::new();
    stack.egress(PATIENCE_NS, |_, _, fate| fates.push(fate));
    assert_eq!(fates, [Fate::Sent]);
    stack.client_mut().flush();
    let mut frames = at.taken();
    // One that no frame holds, and one for nobody.
    for (remote, bytes) in [("10.0.0.255", 1_480), ("0.0.0.0", 1)] {
        assert!(stack.put(one, ends(remote), &vec![0; bytes], PATIENCE_NS));
        let mut fates = Vec::new();
        stack.egress(PATIENCE_NS, |_, _, fate| fates.push(fate));
        assert_eq!(fates, [Fate::NoWay], "{remote}");
    }
    stack.check().unwrap();
    stack.client_mut().flush();
    frames.extend(at.taken());
    let questions = frames
        .iter()
        .filter(|frame| frame[12..14] == [8, 6])
        .count();
    assert!((2..=4).contains(&questions), "{questions}");
}

#[test]
fn without_a_buffer_the_time_of_a_datagram_stands_still() {
    const MS: u64 = 1_000_000;
    let (client, mut at) = place(1, None, &["10.0.0.1"]);
    let mut stack = Stack::open(client, &Network::default(), 0);
    let port = stack.bind(1).unwrap();
    let mut fates = Vec::new();
    let mut turn = |stack: &mut Stack, now_ns| {
        stack.egress(now_ns, |_, _, fate| fates.push(fate));
        fates.clone()
    };
    let fill = |stack: &mut Stack| {
        while stack.client_mut().is_ready().unwrap() {
            stack.client_mut().send(&[2; 60]).unwrap();
        }
        stack.client_mut().flush();
    };
    let ends = Ends {
        remote: to("10.0.0.77", 9),
        local: None,
    };
    assert!(stack.put(port, ends, b"waits", 0));
    // Nobody can be asked, as long as that may be.
    fill(&mut stack);
    assert_eq!(turn(&mut stack, 2 * PATIENCE_NS), []);
    assert_eq!(stack.device().counts().no_room, 1);
    at.taken();
    let begun_ns = 3 * PATIENCE_NS;
    assert_eq!(turn(&mut stack, begun_ns), []);
    // A second passes, and another one without a buffer, which is not the receiver's.
    assert_eq!(turn(&mut stack, begun_ns + 1_000 * MS), []);
    fill(&mut stack);
    assert_eq!(turn(&mut stack, begun_ns + 1_000 * MS), []);
    assert_eq!(turn(&mut stack, begun_ns + 2_000 * MS), []);
    at.taken();
    assert_eq!(turn(&mut stack, begun_ns + 2_000 * MS), []);
    assert_eq!(turn(&mut stack, begun_ns + 3_999 * MS), []);
    let fates = turn(&mut stack, begun_ns + 4_000 * MS);
    assert_eq!(fates, [Fate::Unresolved]);
}

/// The addresses that were asked for, by ARP and neighbour discovery.
fn questions(frames: &[Vec<u8>]) -> Vec<IpAddr> {
    let of = |frame: &Vec<u8>| match frame[12..14] {
        [8, 6] => <[u8; 4]>::try_from(&frame[38..42]).ok().map(IpAddr::from),
        [0x86, 0xdd] if frame[54] == 135 => {
            <[u8; 16]>::try_from(&frame[62..78]).ok().map(IpAddr::from)
        }
        _ => None,
    };
    frames.iter().filter_map(of).collect()
}

#[test]
fn each_receiver_is_asked_for_and_none_is_given_up_for_the_sake_of_another() {
    const MS: u64 = 1_000_000;
    let (client, mut at) = place(1, Some(7), &["10.0.0.1", "fd00::1"]);
    let mut stack = Stack::open(client, &Network::default(), 0);
    let hosts = ["10.0.0.77", "10.0.0.2", "fd00::2"];
    let ports = [1, 2, 3].map(|number| stack.bind(number).unwrap());
    for (port, host) in ports.into_iter().zip(hosts) {
        let remote = to(host, 9);
        let local = None;
        assert!(stack.put(port, Ends { remote, local }, b"waits", 0));
    }
    let mut fates = Vec::new();
    let mut turn = |stack: &mut Stack, now_ns| {
        stack.egress(now_ns, |port, _, fate| fates.push((port, fate)));
        stack.client_mut().flush();
        fates.clone()
    };
    // Each is asked for at once, and again in a second.
    for second in 0..3 {
        assert_eq!(turn(&mut stack, second * 1_000 * MS), []);
        let mut frames = at.taken();
        frames.iter_mut().for_each(|frame| {
            assert_eq!(frame[12..16], [0x81, 0, 0, 7]);
            frame.drain(12..16);
        });
        let all = hosts.map(|host| host.parse::<IpAddr>().unwrap());
        assert_eq!(questions(&frames), all, "second {second}");
        assert_eq!(turn(&mut stack, second * 1_000 * MS + 999 * MS), []);
        assert!(at.taken().is_empty());
        let most = Duration::from_secs(9);
        let sleep = stack.patience(second * 1_000 * MS + 999 * MS, most);
        assert!(sleep <= Duration::from_millis(1), "{sleep:?}");
    }
    // The second one answers late.
    let mut answer = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 7, 8, 6];
    answer.extend([0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
    answer.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    at.give(&answer);
    assert_eq!(stack.receive(2_999 * MS, 1, |_, _, _| {}), 1);
    assert_eq!(turn(&mut stack, 2_999 * MS), [(ports[1], Fate::Sent)]);
    let fates = turn(&mut stack, 3_000 * MS);
    let lost = [ports[0], ports[2]].map(|port| (port, Fate::Unresolved));
    assert_eq!(fates[1..], lost);
}

#[test]
fn a_datagram_behind_a_question_for_its_receiver_sleeps_until_the_next_one() {
    const MS: u64 = 1_000_000;
    let (client, mut at) = place(1, None, &["10.0.0.1"]);
    let mut stack = Stack::open(client, &Network::default(), 0);
    let ports = [1, 2].map(|number| stack.bind(number).unwrap());
    let ends = || Ends {
        remote: to("10.0.0.77", 9),
        local: None,
    };
    let mut fates = Vec::new();
    let mut turn = |stack: &mut Stack, now_ns| {
        stack.egress(now_ns, |port, _, fate| fates.push((port, fate)));
        stack.client_mut().flush();
        fates.clone()
    };
    assert!(stack.put(ports[0], ends(), b"one", 0));
    assert_eq!(turn(&mut stack, 0), []);
    assert!(stack.put(ports[1], ends(), b"two", 500 * MS));
    assert_eq!(turn(&mut stack, 500 * MS), []);
    assert_eq!(questions(&at.taken()).len(), 1);
    let sleep = stack.patience(500 * MS, Duration::from_secs(9));
    assert_eq!(sleep, Duration::from_millis(500));
    // The time of the second one begins with the question behind it.
    assert_eq!(turn(&mut stack, 1_000 * MS), []);
    assert_eq!(questions(&at.taken()).len(), 1);
    let lost = ports.map(|port| (port, Fate::Unresolved));
    assert_eq!(turn(&mut stack, 3_999 * MS), lost[..1]);
    assert_eq!(turn(&mut stack, 4_000 * MS), lost);
}

#[test]
fn a_dead_receiver_of_one_socket_keeps_no_datagram_of_another_back() {
    let (mut a, mut b) = (Station::new(1, None), Station::new(2, None));
    let dead = a.ip.udp(1, UdpLimits::default()).unwrap();
    let live = a.ip.udp(2, UdpLimits::default()).unwrap();
    let of_b = b.ip.udp(PORT, UdpLimits::default()).unwrap();
    a.ip.send_to(dead, to("10.0.0.77", PORT), b"lost").unwrap();
    a.ip.send_to(live, to("10.0.0.2", PORT), b"comes").unwrap();
    carry(&mut a, &mut b);
    assert_eq!(b.ip.take(of_b).unwrap().unwrap().payload, b"comes");
    let counts = a.ip.udp_counts(live).unwrap();
    assert_eq!((counts.sent, counts.unresolved), (some(1, 5), some(0, 0)));
    assert_closed(&a.ip.counts());
}

#[test]
fn a_wait_tells_what_has_come_and_room_once() {
    let mut a = Station::new(1, None);
    let limits = UdpLimits {
        unread_max: 1,
        unsent_max: 1,
    };
    let udp = a.ip.udp(PORT, limits).unwrap();
    let soon = || Instant::now() + Duration::from_millis(20);
    assert!(!a.ip.wait(soon()).unwrap(), "nothing has come");
    let sleep = a.ip.arm(Duration::from_secs(9)).unwrap();
    assert_eq!(sleep, Some(Duration::from_secs(9)));
    for _ in 0..FRAMES {
        a.ip.client_mut().send(&[2; 60]).unwrap();
    }
    // To all, for which nobody is asked; but there is no buffer.
    a.ip.send_to(udp, to("10.0.0.255", 9), b"first").unwrap();
    let full = a.ip.send_to(udp, to("10.0.0.255", 9), b"second");
    assert!(matches!(full, Err(IpError::Full { most: 1 })));
    assert!(!a.ip.wait(soon()).unwrap());
    a.place.taken();
    assert!(a.ip.wait(Instant::now() + Duration::from_secs(60)).unwrap());
    assert!(!a.ip.wait(soon()).unwrap(), "it was told");
    a.ip.send_to(udp, to("10.0.0.255", 9), b"second").unwrap();
    let own = some(u64::from(FRAMES), 60 * u64::from(FRAMES));
    assert_closed_beside(&a.ip.counts(), own);
}
