//! Bursts and merged buffers over real sockets on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use forebay_sys::clock::realtime_ns;
use forebay_sys::gso::{GroReceive, GsoMode, GsoSend, SEGMENTS_MAX, Segment};
use forebay_sys::socket::{
    BoundUdp, UdpOptions, bind_udp, connect_udp, local_address, mem_info, set_gro,
};
use forebay_sys::stamped::{Stamped, await_receive_stamps};
use forebay_sys::udp_batch::SendStop;

const LOOPBACKS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn bound(address: &str, gro: bool) -> Option<BoundUdp> {
    let options = UdpOptions {
        gro,
        receive_buffer_bytes: Some(4 << 20),
        ..UdpOptions::default()
    };
    match bind_udp(address.parse().unwrap(), &options) {
        Ok(bound) => Some(bound),
        Err(why) => {
            forebay_testing::skip!("{address}: {why}");
            None
        }
    }
}

fn sender_to(address: SocketAddr) -> OwnedFd {
    connect_udp(address, &UdpOptions::default()).unwrap()
}

/// So many datagrams of `bytes` bytes: a head of 8 with the number, and a payload full of it; the last has `last` bytes.
struct Burst(Vec<Vec<u8>>);

impl Burst {
    fn of(count: usize, bytes: usize, last: usize) -> Self {
        let datagram = |index: usize| {
            let len = if index + 1 == count { last } else { bytes };
            let number = (index as u64).to_be_bytes();
            let mut datagram = vec![index as u8; len];
            let head = len.min(8);
            datagram[..head].copy_from_slice(&number[..head]);
            datagram
        };
        Self((0..count).map(datagram).collect())
    }

    fn segments(&self) -> Vec<Segment<'_>> {
        let cut = |datagram: &'_ Vec<u8>| datagram.len().min(8);
        let segment = |datagram| {
            let (head, payload) = Vec::as_slice(datagram).split_at(cut(datagram));
            Segment { head, payload }
        };
        self.0.iter().map(segment).collect()
    }
}

/// All datagrams that lie in the socket, and in how many buffers they came.
fn drain(socket: &impl AsFd) -> (Vec<Vec<u8>>, usize) {
    let mut receive = GroReceive::new(8).unwrap();
    let (mut datagrams, mut buffers) = (Vec::new(), 0);
    while receive.receive(socket.as_fd()).unwrap() > 0 {
        for buffer in receive.buffers() {
            assert!(!buffer.truncated);
            datagrams.extend(buffer.datagrams().map(<[u8]>::to_vec));
            buffers += 1;
        }
    }
    (datagrams, buffers)
}

#[test]
fn a_burst_comes_whole_merged_or_not() {
    for address in LOOPBACKS {
        for (gro, buffers) in [(true, 1), (false, 40)] {
            let Some(receiver) = bound(address, gro) else {
                continue;
            };
            let burst = Burst::of(40, 1472, 100);
            let mut send = GsoSend::new();
            assert_eq!(send.mode(), GsoMode::Untried);
            let sender = sender_to(receiver.address);
            let sent = send.send(sender.as_fd(), &burst.segments());
            assert_eq!(sent.count, 40, "{sent:?}");
            assert_eq!(send.mode(), GsoMode::Segmented);
            assert_eq!(drain(&receiver.fd), (burst.0, buffers));
        }
    }
}

#[test]
fn a_burst_longer_than_a_datagram_goes_in_several_calls() {
    let receiver = bound("127.0.0.1:0", true).unwrap();
    let sender = sender_to(receiver.address);
    for (count, bytes) in [(SEGMENTS_MAX, 1472), (200, 1472), (5, 32_753), (2, 65_507)] {
        let burst = Burst::of(count, bytes, bytes);
        let sent = GsoSend::new().send(sender.as_fd(), &burst.segments());
        assert_eq!(sent.count, count, "{sent:?}");
        assert!(drain(&receiver.fd).0 == burst.0, "{count} of {bytes} bytes");
    }
}

#[test]
fn a_buffer_tells_who_and_when_and_how_long() {
    let receiver = bound("127.0.0.1:0", true).unwrap();
    let address = receiver.address;
    let receiver = Stamped::new(receiver.fd).unwrap();
    assert!(await_receive_stamps(Duration::from_secs(30)).unwrap());
    let sender = sender_to(address);
    let before = realtime_ns();
    let burst = Burst::of(3, 500, 400);
    GsoSend::new().send(sender.as_fd(), &burst.segments());
    let mut receive = GroReceive::new(2).unwrap();
    assert_eq!(receive.receive(receiver.as_fd()).unwrap(), 1);
    let buffer = receive.buffers().next().unwrap();
    assert_eq!(buffer.from, local_address(&sender).ok());
    assert_eq!(
        (
            buffer.segment_bytes,
            buffer.bytes.len(),
            buffer.datagrams().len()
        ),
        (Some(500), 1400, 3)
    );
    let stamp = buffer.stamp_ns.unwrap();
    assert!(
        (before..=realtime_ns()).contains(&stamp),
        "{before} {stamp}"
    );
    // A lone datagram and an empty one are one each; and a call that finds nothing leaves nothing.
    for payload in [b"lone" as &[u8], b""] {
        rustix::net::send(&sender, payload, rustix::net::SendFlags::empty()).unwrap();
        assert_eq!(receive.receive(receiver.as_fd()).unwrap(), 1);
        let buffer = receive.buffers().next().unwrap();
        assert!(buffer.datagrams().eq([payload]), "{buffer:?}");
    }
    assert_eq!(receive.receive(receiver.as_fd()).unwrap(), 0);
    assert_eq!(receive.buffers().len(), 0);
}

#[test]
fn a_kernel_that_refuses_to_cut_gets_single_datagrams() {
    let receiver = bound("127.0.0.1:0", false).unwrap();
    let sender = sender_to(receiver.address);
    // Without checksums there is no segmentation: `udp_send_skb` says EINVAL.
    let on = 1_i32;
    // SAFETY: the kernel reads 4 bytes from `on`, which lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            4,
        )
    };
    assert_eq!(answer, 0);
    let burst = Burst::of(100, 1200, 7);
    let mut send = GsoSend::new();
    for _ in 0..2 {
        let sent = send.send(sender.as_fd(), &burst.segments());
        assert_eq!(sent.count, 100, "{sent:?}");
        let refused = GsoMode::Single {
            errno: libc::EINVAL,
        };
        assert_eq!(send.mode(), refused);
        assert_eq!(drain(&receiver.fd).0, burst.0);
    }
}

#[test]
fn single_datagrams_by_choice() {
    let receiver = bound("127.0.0.1:0", false).unwrap();
    let sender = sender_to(receiver.address);
    let burst = Burst::of(70, 1472, 9);
    let mut send = GsoSend::single();
    assert_eq!(send.send(sender.as_fd(), &burst.segments()).count, 70);
    assert_eq!(send.mode(), GsoMode::Single { errno: 0 });
    assert_eq!(drain(&receiver.fd).0, burst.0);
}

#[test]
fn unequal_segments_are_refused_before_any_is_sent() {
    let receiver = bound("127.0.0.1:0", false).unwrap();
    let sender = sender_to(receiver.address);
    let segment = |payload| Segment { head: b"", payload };
    for (burst, complaint) in [
        ([b"aaaa" as &[u8], b"bb", b"cccc"], "segment 1"),
        ([b"aaaa", b"bbbb", b"ccccc"], "segment 2"),
        ([b"aaaa", b"bbbb", b""], "empty"),
    ] {
        let sent = GsoSend::new().send(sender.as_fd(), &burst.map(segment));
        let Some(SendStop::Failed(error)) = &sent.stopped else {
            panic!("{sent:?}");
        };
        assert_eq!(
            (sent.count, error.kind()),
            (0, std::io::ErrorKind::InvalidInput)
        );
        assert!(error.to_string().contains(complaint), "{error}");
        assert_eq!(sent.stopped.as_ref().unwrap().errno(), None);
    }
    assert_eq!(GsoSend::new().send(sender.as_fd(), &[]).count, 0);
    assert_eq!(drain(&receiver.fd).1, 0);
}

#[test]
fn what_stops_a_burst_is_told_with_its_count() {
    let receiver = bound("127.0.0.1:0", false).unwrap();
    let sender = sender_to(receiver.address);
    drop(receiver);
    let burst = Burst::of(88, 1472, 1472);
    let mut send = GsoSend::new();
    // The first call of 44 is taken; its ICMP answer, immediate on loopback, fails the second.
    let sent = send.send(sender.as_fd(), &burst.segments());
    assert_eq!(sent.count, 44, "{sent:?}");
    let why = sent.stopped.unwrap();
    assert!(matches!(why, SendStop::Refused), "{why:?}");
    assert!(why.concerns_one_datagram());
    let long = vec![0; 70_000];
    let long = Segment {
        head: b"",
        payload: &long,
    };
    // The answer to the datagram before it may still be pending.
    let sent = send.send(sender.as_fd(), &[long]);
    let why = sent.stopped.unwrap();
    assert_eq!((sent.count, why.errno()), (0, Some(libc::EMSGSIZE)));
    assert!(why.concerns_one_datagram());
}

/// Overloads a socket; tells how many datagrams were sent, how many came, and the socket's drops.
fn overload(gro: bool) -> (usize, usize, usize) {
    let options = UdpOptions {
        receive_buffer_bytes: Some(256 << 10),
        ..UdpOptions::default()
    };
    let receiver = bind_udp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    set_gro(&receiver.fd, gro).unwrap();
    let sender = sender_to(receiver.address);
    let burst = Burst::of(40, 1472, 1472);
    let mut send = GsoSend::new();
    let bursts = 100;
    for _ in 0..bursts {
        assert_eq!(send.send(sender.as_fd(), &burst.segments()).count, 40);
    }
    let (came, _) = drain(&receiver.fd);
    let drops = mem_info(&receiver.fd).unwrap().drops as usize;
    (bursts * 40, came.len(), drops)
}

#[test]
fn drops_are_exact_without_merging_and_a_lower_bound_with_it() {
    let (sent, came, drops) = overload(false);
    assert!(drops > 0, "the buffer was not overrun");
    assert_eq!(came + drops, sent);
    let (sent, came, drops) = overload(true);
    assert!(drops > 0, "the buffer was not overrun");
    assert_eq!(came + 40 * drops, sent, "each drop is a buffer of 40");
}
