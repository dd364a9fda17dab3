//! Ports of a live interface, at the end of a virtual wire in a network namespace that ends with its test. What was sent is known to the sender alone, and the
//! kernel's counters of the interface are a third party.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::os::fd::AsFd;

use forebay_link::packet::{Event, PacketPort, PortOptions, RingSize};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::netlink::links;
use forebay_sys::packet::PacketSocket;
use forebay_testing::wire::{carries, is_inside, lay, sh};
use rustix::net::SendFlags;

const SECOND_NS: u64 = 1_000_000_000;
const RING: RingSize = RingSize {
    block_bytes: 1 << 16,
    blocks: 64,
    block_timeout_ms: 5,
};
const OPTIONS: PortOptions = PortOptions {
    queues: 1,
    ring: RING,
    snap_bytes: u32::MAX,
    promiscuous: false,
};

/// Makes the wire: what is sent at `near` comes in at `far`, and nothing else does.
fn wire() -> PacketSocket {
    lay();
    carries();
    PacketSocket::open("near", RING).unwrap()
}

fn send(from: &PacketSocket, frame: &[u8]) {
    let sent = rustix::net::send(from, frame, SendFlags::empty()).unwrap();
    assert_eq!(sent, frame.len());
}

/// A frame of UDP between two ends, with its number as the payload.
fn datagram(from: (u8, u16), to: (u8, u16), number: u32, payload_bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = (28 + payload_bytes) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([
        0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0,
    ]);
    for word in [from.1, to.1, length - 20, 0] {
        frame.extend(word.to_be_bytes());
    }
    let start = frame.len();
    frame.extend(number.to_be_bytes());
    frame.resize(start + payload_bytes, 0);
    frame
}

/// Reads ports until so many frames have come, and then until all of the ports are quiet; what `take` gets.
fn read(ports: &mut [PacketPort], frames: usize, mut take: impl FnMut(usize, &[u8], u32)) -> usize {
    let nothing = EventFd::create().unwrap();
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    let (mut seen, mut is_quiet) = (0, false);
    while seen < frames || !is_quiet {
        assert!(monotonic_ns() < until_ns, "{seen} of {frames} frames came");
        is_quiet = true;
        for (at, port) in ports.iter_mut().enumerate() {
            let look_ns = monotonic_ns() + SECOND_NS / 20;
            while port.wait(nothing.as_fd(), look_ns).unwrap() == Event::Block {
                is_quiet = false;
                let mut block = port.take().unwrap();
                for frame in block.frames() {
                    let frame = frame.unwrap();
                    seen += 1;
                    take(at, frame.bytes, frame.wire_bytes);
                }
            }
        }
    }
    seen
}

/// Packets that came in at `far`, by the counters of the interface.
fn came_in() -> u64 {
    let links = links().unwrap();
    let far = links.iter().find(|link| link.name == "far").unwrap();
    far.counters["rx_packets"]
}

#[test]
fn ports_share_packets_and_both_directions_of_a_flow_come_to_one() {
    if !is_inside("ports_share_packets_and_both_directions_of_a_flow_come_to_one") {
        return;
    }
    let near = wire();
    let options = PortOptions {
        queues: 4,
        ..OPTIONS
    };
    let mut ports = PacketPort::open("far", &options).unwrap();
    let mut sent = BTreeSet::new();
    for number in 0..4_000_u32 {
        let (own, other) = ((1, 1_000 + (number % 200) as u16), (2, 53));
        let frame = match number % 3 {
            0 => datagram(other, own, number, 60),
            _ => datagram(own, other, number, 60),
        };
        send(&near, &frame);
        sent.insert(frame);
    }
    let mut of_flows: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
    let mut of_ports = [0_u64; 4];
    read(&mut ports, 4_000, |at, bytes, wire_bytes| {
        assert!(sent.remove(bytes), "not sent, or read twice");
        assert_eq!(wire_bytes as usize, bytes.len());
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        of_flows
            .entry(port(34).max(port(36)))
            .or_default()
            .insert(at);
        of_ports[at] += 1;
    });
    assert!(sent.is_empty(), "{} frames lack", sent.len());
    assert_eq!(of_flows.len(), 200);
    assert!(
        of_flows.values().all(|ports| ports.len() == 1),
        "{of_flows:?}"
    );
    assert!(of_ports.iter().all(|&seen| seen > 0), "{of_ports:?}");
    assert_eq!(came_in(), 4_000);
    for (port, seen) in ports.iter_mut().zip(of_ports) {
        let counts = port.kernel_counts().unwrap();
        assert_eq!((counts.packets, counts.drops), (seen, 0));
        // The kernel begins anew, and the port does not.
        assert_eq!(port.kernel_counts().unwrap(), counts);
    }
}

#[test]
fn tags_of_vlans_come_back_and_long_frames_are_cut_where_that_is_asked_for() {
    if !is_inside("tags_of_vlans_come_back_and_long_frames_are_cut_where_that_is_asked_for") {
        return;
    }
    let near = wire();
    let frame = datagram((1, 9), (2, 53), 7, 400);
    let tagged = |tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let frames = [
        frame.clone(),
        tagged(&[0x81, 0, 0x60, 5]),
        tagged(&[0x88, 0xa8, 0, 6]),
        tagged(&[0x88, 0xa8, 0, 6, 0x81, 0, 0x20, 7]),
    ];
    for snap_bytes in [u32::MAX, 100] {
        let options = PortOptions {
            snap_bytes,
            promiscuous: true,
            ..OPTIONS
        };
        let mut ports = PacketPort::open("far", &options).unwrap();
        assert_eq!(ports[0].link_type(), 1);
        frames.iter().for_each(|frame| send(&near, frame));
        let mut came = Vec::new();
        read(&mut ports, frames.len(), |_, bytes, wire_bytes| {
            came.push((bytes.to_vec(), wire_bytes))
        });
        assert_eq!(came.len(), frames.len());
        for ((bytes, wire_bytes), frame) in came.iter().zip(&frames) {
            assert!(frame.starts_with(bytes), "{bytes:02x?} for {frame:02x?}");
            assert_eq!(*wire_bytes as usize, frame.len());
            match snap_bytes {
                u32::MAX => assert_eq!(bytes.len(), frame.len()),
                // The kernel's own limit does not count the tag that it took out.
                limit => assert!((limit as usize..=limit as usize + 4).contains(&bytes.len())),
            }
        }
    }
}

#[test]
fn a_port_that_was_opened_shut_takes_nothing_and_no_program_that_is_none() {
    if !is_inside("a_port_that_was_opened_shut_takes_nothing_and_no_program_that_is_none") {
        return;
    }
    let near = wire();
    let mut shut = PacketPort::open_shut("far", &OPTIONS).unwrap();
    let mut open = PacketPort::open("far", &OPTIONS).unwrap();
    for number in 0..10 {
        send(&near, &datagram((1, 1), (2, 2), number, 60));
    }
    assert_eq!(read(&mut open, 10, |_, _, _| ()), 10);
    assert_eq!(shut[0].kernel_counts().unwrap().packets, 0);
    let none = EventFd::create().unwrap();
    let error = shut[0].accept_by(none.as_fd()).unwrap_err().to_string();
    assert!(error.contains("SO_ATTACH_BPF"), "{error}");
    assert_eq!(read(&mut shut, 0, |_, _, _| ()), 0);
}

#[test]
fn what_a_full_ring_loses_is_counted_by_the_kernel() {
    if !is_inside("what_a_full_ring_loses_is_counted_by_the_kernel") {
        return;
    }
    let near = wire();
    let ring = RingSize { blocks: 4, ..RING };
    let mut ports = PacketPort::open("far", &PortOptions { ring, ..OPTIONS }).unwrap();
    let frame = datagram((1, 9), (2, 53), 7, 1_400);
    (0..3_000).for_each(|_| send(&near, &frame));
    let stalled = ports[0].kernel_counts().unwrap();
    assert_eq!(stalled.packets, 3_000);
    assert!(stalled.drops > 2_000 && stalled.freezes > 0, "{stalled:?}");
    assert_eq!(ports[0].held(), stalled.packets - stalled.drops);
    let seen = read(&mut ports, 100, |_, bytes, _| assert_eq!(bytes, frame));
    // It takes packets again; those that came while it was full are lost.
    (0..100).for_each(|_| send(&near, &frame));
    let after = read(&mut ports, 100, |_, _, _| {});
    ports[0].close().unwrap();
    (0..100).for_each(|_| send(&near, &frame));
    assert_eq!(
        read(&mut ports, 0, |_, _, _| {}),
        0,
        "a closed port takes nothing"
    );
    let counts = ports[0].kernel_counts().unwrap();
    assert_eq!((counts.packets, after, ports[0].held()), (3_100, 100, 0));
    assert_eq!(counts.packets, (seen + after) as u64 + counts.drops);
    assert_eq!(came_in(), 3_200);
}

#[test]
fn an_interface_that_goes_down_is_told_once_a_wait_and_one_that_goes_away_too() {
    if !is_inside("an_interface_that_goes_down_is_told_once_a_wait_and_one_that_goes_away_too") {
        return;
    }
    let near = wire();
    let options = PortOptions {
        queues: 2,
        ..OPTIONS
    };
    let mut ports = PacketPort::open("far", &options).unwrap();
    let nothing = EventFd::create().unwrap();
    let event = |ports: &mut [PacketPort], until_ns: u64| {
        ports
            .iter_mut()
            .map(|port| port.wait(nothing.as_fd(), until_ns).unwrap())
            .collect::<Vec<_>>()
    };
    let far_ns = || monotonic_ns() + 20 * SECOND_NS;
    assert_eq!(event(&mut ports, 0), [Event::Quiet; 2]);
    sh("ip link set far down");
    let begun_ns = monotonic_ns();
    assert_eq!(event(&mut ports, far_ns()), [Event::Down; 2]);
    assert!(
        monotonic_ns() < begun_ns + 10 * SECOND_NS,
        "it was waited for"
    );
    // It waits again, and is down still.
    let until_ns = monotonic_ns() + SECOND_NS / 10;
    assert_eq!(event(&mut ports, until_ns), [Event::Down; 2]);
    assert!(monotonic_ns() >= until_ns, "an endless loop");
    sh("ip link set far up");
    carries();
    let frame = datagram((1, 9), (2, 53), 7, 40);
    send(&near, &frame);
    assert_eq!(
        read(&mut ports, 1, |_, bytes, _| assert_eq!(bytes, frame)),
        1
    );
    assert_eq!(event(&mut ports, 0), [Event::Quiet; 2]);
    sh("ip link delete far");
    assert_eq!(event(&mut ports, far_ns()), [Event::Gone; 2]);
    assert_eq!(event(&mut ports, 0), [Event::Gone; 2]);
    let error = PacketPort::open("far", &OPTIONS).unwrap_err().to_string();
    assert!(
        error.contains("far") && error.contains("ip link"),
        "{error}"
    );
}

#[test]
fn a_packet_of_loopback_is_seen_once() {
    if !is_inside("a_packet_of_loopback_is_seen_once") {
        return;
    }
    let error = PacketPort::open("lo", &OPTIONS).unwrap_err().to_string();
    assert!(error.contains("ip link set lo up"), "{error}");
    sh("ip link set lo up");
    for queues in [1, 3] {
        let options = PortOptions { queues, ..OPTIONS };
        let mut ports = PacketPort::open("lo", &options).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = socket.local_addr().unwrap();
        for _ in 0..50 {
            socket.send_to(b"payload", own).unwrap();
        }
        let seen = read(&mut ports, 50, |_, bytes, _| {
            assert!(bytes.ends_with(b"payload"))
        });
        let counts = ports.iter_mut().map(|port| port.kernel_counts().unwrap());
        let packets: u64 = counts.map(|counts| counts.packets).sum();
        assert_eq!((seen, packets), (50, 50), "{queues} queues");
    }
}
