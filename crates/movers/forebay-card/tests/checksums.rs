//! A socket on the same host leaves the check sum to a card: a client gets it made. Over a virtual cable in a network namespace that ends with its test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::net::UdpSocket;
use std::os::fd::AsFd;

use forebay_card::{Driver, packet, xdp};
use forebay_mux::Mac;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::wait;
use forebay_testing::wire::{carries, is_inside, lay, may_have_network, sh};
use forebay_xdp::{Redirect, XdpError};

const SECOND_NS: u64 = 1_000_000_000;
const FRAMES: usize = 100;

/// A socket of IPv4 and one of IPv6 at the far end, each with the address at which it reaches the near one.
fn sockets(mac: Mac) -> [(UdpSocket, &'static str); 2] {
    let Mac(bytes) = mac;
    let mac = bytes.map(|byte| format!("{byte:02x}")).join(":");
    sh("echo 0 > /proc/sys/net/ipv6/conf/far/disable_ipv6");
    sh("ip address add 10.9.0.1/24 dev far; ip address add fd00::1/64 dev far nodad");
    sh(&format!(
        "ip neighbour replace 10.9.0.2 lladdr {mac} dev far; ip neighbour replace fd00::2 lladdr {mac} dev far"
    ));
    let v4 = UdpSocket::bind("10.9.0.1:7000").unwrap();
    let v6 = UdpSocket::bind("[fd00::1]:7000").unwrap();
    [(v4, "10.9.0.2:7001"), (v6, "[fd00::2]:7001")]
}

/// Where the addresses and the datagram are in a frame, if it is one of these.
fn datagram(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let (addresses, segment) = match frame.get(12..14)? {
        [8, 0] if frame[23] == 17 => (frame.get(26..34)?, frame.get(34..)?),
        [0x86, 0xdd] if frame[20] == 17 => (frame.get(22..54)?, frame.get(54..)?),
        _ => return None,
    };
    (segment[..2] == 7_000_u16.to_be_bytes()).then_some((addresses, segment))
}

/// The sum over all of it, with its check sum, is ffff (RFC 1071).
fn adds_up(addresses: &[u8], segment: &[u8]) -> bool {
    let bytes = u16::from_be_bytes([segment[4], segment[5]]);
    let mut sum = 17 + u32::from(bytes);
    for part in [addresses, &segment[..usize::from(bytes)]] {
        for (at, byte) in part.iter().enumerate() {
            sum += u32::from(*byte) << (8 * (1 - at % 2));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum == 0xffff
}

fn datagrams(driver: &mut Driver, wanted: usize) -> usize {
    let (never, mut came) = (EventFd::create().unwrap(), 0);
    while came < wanted {
        let until_ns = monotonic_ns() + 20 * SECOND_NS;
        let descriptors = [driver.receive.descriptor(), never.as_fd()];
        wait::sleep_until_or(descriptors, until_ns, 0).unwrap();
        assert!(monotonic_ns() < until_ns, "{came} of {wanted}");
        let visit = &mut |frame: &[u8]| {
            if let Some((addresses, segment)) = datagram(frame) {
                assert!(adds_up(addresses, segment), "{frame:02x?}");
                came += 1;
            }
        };
        driver.receive.receive(64, visit).unwrap();
    }
    came
}

fn all_are_made(mut driver: Driver) {
    for (socket, to) in sockets(driver.card.look().mac) {
        for bytes in 0..FRAMES {
            socket.send_to(&vec![bytes as u8; bytes * 14], to).unwrap();
        }
        assert_eq!(datagrams(&mut driver, FRAMES), FRAMES);
    }
    let counts = driver.receive.counts().unwrap();
    let sent = 2 * FRAMES as u64;
    // Without any that was begun this test would show nothing.
    assert!(
        (sent..sent + 50).contains(&counts.checksums_completed),
        "{counts:?}"
    );
}

#[test]
fn packet_sockets_give_check_sums_that_are_made() {
    if is_inside("packet_sockets_give_check_sums_that_are_made") {
        lay();
        carries();
        all_are_made(packet::open("near", &packet::PacketOptions::default()).unwrap());
    }
}

#[test]
fn ports_past_the_stack_give_check_sums_that_are_made() {
    if !may_have_network() {
        return;
    }
    if let Err(error @ (XdpError::NotBuilt { .. } | XdpError::NotAllowed { .. })) =
        Redirect::attach("nothing")
    {
        forebay_testing::skip!("{error}");
        return;
    }
    if is_inside("ports_past_the_stack_give_check_sums_that_are_made") {
        lay();
        carries();
        all_are_made(xdp::open("near", &xdp::XdpOptions::default()).unwrap());
    }
}
