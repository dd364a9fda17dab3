//! Bursts into a queue that is full, over a slow virtual link in a network namespace that ends with its thread.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use forebay_sys::clock::phc_of;
use forebay_sys::gso::{GsoMode, GsoSend, Segment};
use forebay_sys::socket::{UdpOptions, connect_udp, path_mtu, payload_max_bytes, report_errors};
use forebay_sys::stamped::await_receive_stamps;
use forebay_sys::udp_batch::{SendStop, Sent};

/// A link of 1 Mb/s whose queue holds `limit_bytes`; nobody listens at its other end.
fn slow_link(limit_bytes: u32) -> Result<(), String> {
    // SAFETY: only this thread, which the test made for it, moves to the new namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!(
            "no network namespace may be made (needs root): {error}"
        ));
    }
    let queue = format!("tc qdisc add dev near root tbf rate 1mbit burst 10k limit {limit_bytes}");
    for line in [
        "ip link add near type veth peer name far",
        "ip address add 10.0.0.1/24 dev near",
        "ip link set near up",
        "ip link set far up",
        "ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev near",
        &queue,
    ] {
        let mut words = line.split(' ');
        let answer = Command::new(words.next().unwrap()).args(words).output();
        match answer {
            Ok(answer) if answer.status.success() => {}
            Ok(answer) => {
                return Err(format!(
                    "{line}: {}",
                    String::from_utf8_lossy(&answer.stderr)
                ));
            }
            Err(why) => return Err(format!("{line}: {why}")),
        }
    }
    Ok(())
}

/// Runs in a thread, with the link or not at all.
fn over_slow_link(limit_bytes: u32, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || match slow_link(limit_bytes) {
        Ok(()) => test(),
        Err(why) => forebay_testing::skip!("{why}"),
    });
    thread.join().unwrap();
}

fn peer() -> SocketAddr {
    "10.0.0.2:5000".parse().unwrap()
}

fn sender(send_buffer_bytes: usize) -> OwnedFd {
    let options = UdpOptions {
        send_buffer_bytes: Some(send_buffer_bytes),
        ..UdpOptions::default()
    };
    connect_udp(peer(), &options).unwrap()
}

/// 200 datagrams of `bytes` bytes, in bursts.
fn send(socket: &OwnedFd, bytes: usize) -> Sent {
    let payload = vec![0; bytes - 8];
    let segment = Segment {
        head: &[0; 8],
        payload: &payload,
    };
    GsoSend::new().send(socket.as_fd(), &[segment; 200])
}

#[test]
fn a_full_queue_is_silent_unless_errors_are_reported() {
    over_slow_link(20_000, || {
        let socket = sender(4 << 20);
        let silent = send(&socket, 1472);
        assert_eq!(
            silent.count, 200,
            "the manual of `GsoSend` says so: {silent:?}"
        );
        report_errors(&socket, true).unwrap();
        let told = send(&socket, 1472);
        assert!(
            matches!(told.stopped, Some(SendStop::NoBuffers)),
            "{told:?}"
        );
        assert!(told.count < 200);
    });
}

#[test]
fn a_full_send_buffer_is_told_with_what_was_taken() {
    over_slow_link(4 << 20, || {
        let socket = sender(64 << 10);
        let sent = send(&socket, 1472);
        assert!(
            matches!(sent.stopped, Some(SendStop::WouldBlock)),
            "{sent:?}"
        );
        assert!((44..200).contains(&sent.count), "{sent:?}");
    });
}

#[test]
fn segments_longer_than_the_links_mtu_are_refused_and_not_sent_singly() {
    over_slow_link(4 << 20, || {
        let socket = sender(4 << 20);
        let longest = payload_max_bytes(path_mtu(&socket).unwrap(), peer().ip());
        assert_eq!(longest, 1472);
        let payload = vec![0; longest + 1];
        let segment = Segment {
            head: b"",
            payload: &payload,
        };
        let mut burst = GsoSend::new();
        let sent = burst.send(socket.as_fd(), &[segment; 4]);
        let why = sent.stopped.unwrap();
        assert_eq!((sent.count, why.errno()), (0, Some(libc::EMSGSIZE)));
        assert_eq!(burst.mode(), GsoMode::Untried);
        assert_eq!(send(&socket, longest).count, 200);
    });
}

#[test]
fn a_virtual_link_has_no_hardware_clock_and_loopback_that_is_down_is_named() {
    over_slow_link(20_000, || {
        let clock = phc_of("10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!((clock.interface.as_str(), clock.phc_index), ("near", None));
        assert!(clock.transmit_software && !clock.transmit_hardware);
        let error = await_receive_stamps(Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("ip link set lo up"), "{error}");
    });
}
