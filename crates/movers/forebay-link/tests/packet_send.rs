//! Frames onto a live interface, at one end of a virtual wire in a network namespace that ends with its test. What comes is counted by the port at the other
//! end, and by the kernel's counters of both interfaces.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use forebay_link::packet::{
    BATCH_FRAMES_MAX, Event, FrameBatch, PacketError, PacketPort, PortOptions, Refusal, RingSize,
    SendPort, SentFrames, Stopped,
};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::netlink::links;
use forebay_sys::tap::Tap;
use forebay_sys::wait::{Woken, sleep_until_room};
use forebay_testing::wire::{carries, lay, may_have_tun, sh};
use rustix::fs::OFlags;

const SECOND_NS: u64 = 1_000_000_000;
const ROOM: Woken = Woken::Ready { index: 0 };
const OPTIONS: PortOptions = PortOptions {
    queues: 1,
    ring: RingSize {
        block_bytes: 1 << 16,
        blocks: 64,
        block_timeout_ms: 5,
    },
    snap_bytes: u32::MAX,
    promiscuous: true,
};

/// How frames come to the kernel.
#[derive(Debug, Clone, Copy)]
enum Way {
    Calls,
    Ring,
}

impl Way {
    fn open(self, interface: &str) -> Result<SendPort, PacketError> {
        let port = SendPort::open(interface)?;
        match self {
            Self::Calls => Ok(port),
            Self::Ring => port.through_ring(9_000),
        }
    }
}

/// Both ends of a wire.
fn ends(way: Way) -> (SendPort, PacketPort) {
    lay();
    carries();
    let far = PacketPort::open("far", &OPTIONS).unwrap().remove(0);
    (way.open("near").unwrap(), far)
}

/// Makes of each of these bodies two tests, one for each way.
macro_rules! both_ways {
    ($($name:ident)*) => {
        mod by_calls {
            $(#[test]
            fn $name() {
                if forebay_testing::wire::is_inside(concat!("by_calls::", stringify!($name))) {
                    super::$name(super::Way::Calls);
                }
            })*
        }
        mod by_ring {
            $(#[test]
            fn $name() {
                if forebay_testing::wire::is_inside(concat!("by_ring::", stringify!($name))) {
                    super::$name(super::Way::Ring);
                }
            })*
        }
    };
}

both_ways! {
    what_the_kernel_took_is_what_both_interfaces_count_and_what_comes
    a_frame_that_is_refused_is_told_once_and_costs_no_other_one
    an_interface_without_carrier_down_or_gone_refuses_by_name
    a_queue_that_is_full_is_busy_and_takes_the_same_frame_later
    a_full_buffer_is_waited_for_and_takes_the_same_frame_later
    a_port_that_sends_takes_no_packet
}

/// A frame of a local experimental EtherType (IEEE 802), with its number behind the header.
fn frame(number: u32, bytes: usize) -> Vec<u8> {
    frame_of(0xb5, number, bytes)
}

/// The same of either of the two: 0x88b5 or 0x88b6.
fn frame_of(kind: u8, number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, kind];
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, number as u8);
    frame
}

fn push(batch: &mut FrameBatch, frame: &[u8]) {
    batch.room().unwrap()[..frame.len()].copy_from_slice(frame);
    batch.push(frame.len());
}

/// Reads until so many frames have come, and then until it is quiet.
fn read(port: &mut PacketPort, frames: usize) -> Vec<Vec<u8>> {
    let nothing = EventFd::create().unwrap();
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    let mut came = Vec::new();
    loop {
        let look_ns = monotonic_ns() + SECOND_NS / 20;
        while port.wait(nothing.as_fd(), look_ns).unwrap() == Event::Block {
            let mut block = port.take().unwrap();
            came.extend(block.frames().map(|frame| frame.unwrap().bytes.to_vec()));
        }
        if came.len() >= frames {
            return came;
        }
        assert!(monotonic_ns() < until_ns, "{} of {frames} came", came.len());
    }
}

fn counter(interface: &str, name: &str) -> u64 {
    let links = links().unwrap();
    let link = links.iter().find(|link| link.name == interface).unwrap();
    link.counters[name]
}

fn what_the_kernel_took_is_what_both_interfaces_count_and_what_comes(way: Way) {
    let (mut near, mut far) = ends(way);
    assert_eq!(near.mtu_bytes().unwrap(), 1_500);
    let (mut batch, mut sent, mut bytes) = (FrameBatch::new(1_514), Vec::new(), 0);
    for round in 0..40 {
        batch.remove_before(BATCH_FRAMES_MAX);
        for number in 0..BATCH_FRAMES_MAX as u32 {
            let frame = frame(round * 64 + number, 60 + (number as usize * 23) % 1_455);
            push(&mut batch, &frame);
            bytes += frame.len() as u64;
            sent.push(frame);
        }
        // From the middle on, and then nothing behind the last one.
        let all = SentFrames {
            frames: BATCH_FRAMES_MAX - 10,
            stopped: None,
        };
        let mut first = FrameBatch::new(1_514);
        (0..10).for_each(|at| push(&mut first, batch.frame(at)));
        assert_eq!(near.send(&first, 0..64).frames, 10);
        assert_eq!(near.send(&batch, 10..64), all);
        assert_eq!(near.send(&batch, 64..90).frames, 0);
    }
    assert_eq!(read(&mut far, sent.len()), sent);
    let frames = sent.len() as u64;
    assert_eq!(counter("near", "tx_packets"), frames);
    assert_eq!(counter("near", "tx_bytes"), bytes);
    assert_eq!(counter("far", "rx_packets"), frames);
}

fn a_frame_that_is_refused_is_told_once_and_costs_no_other_one(way: Way) {
    let (mut near, mut far) = ends(way);
    let mut batch = FrameBatch::new(9_000);
    // Those that are too long are the first, one in the middle, two in a row, and the last.
    let is_long = |number| matches!(number, 0 | 4 | 7 | 8 | 11);
    for number in 0..12 {
        let bytes = if is_long(number) { 1_519 } else { 1_514 };
        push(&mut batch, &frame(number, bytes));
    }
    let (mut from, mut refused, mut taken) = (0, Vec::new(), 0);
    while from < batch.frames() {
        let sent = near.send(&batch, from..64);
        from += sent.frames;
        taken += sent.frames;
        if let Some(stopped) = sent.stopped {
            assert_eq!(stopped, Stopped::Refused(Refusal::TooLong));
            refused.push(from as u32);
            from += 1;
        }
    }
    assert_eq!((refused, taken), (vec![0, 4, 7, 8, 11], 7));
    let came = read(&mut far, 7);
    let wanted = (0..12).filter(|&number| !is_long(number));
    assert_eq!(came, wanted.map(|n| frame(n, 1_514)).collect::<Vec<_>>());
    assert_eq!(counter("near", "tx_packets"), 7);
}

fn an_interface_without_carrier_down_or_gone_refuses_by_name(way: Way) {
    let (mut near, mut far) = ends(way);
    let mut batch = FrameBatch::new(100);
    (0..2).for_each(|number| push(&mut batch, &frame(number, 100)));
    let refused = |refusal| SentFrames {
        frames: 0,
        stopped: Some(Stopped::Refused(refusal)),
    };
    sh("ip link set far down");
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::Device));
    sh("ip link set near down");
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::Down));
    assert_eq!(near.send(&batch, 1..2), refused(Refusal::Down));
    let error = way.open("near").unwrap_err().to_string();
    assert!(error.contains("ip link set near up"), "{error}");
    // It is up again: no refusal is left behind.
    sh("ip link set near up; ip link set far up");
    carries();
    let nothing = EventFd::create().unwrap();
    far.wait(nothing.as_fd(), 0).unwrap();
    assert_eq!(near.send(&batch, 0..64).frames, 2);
    assert_eq!(read(&mut far, 2).len(), 2);
    sh("ip link delete near");
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::Gone));
    assert!(near.mtu_bytes().is_err());
    let error = way.open("near").unwrap_err().to_string();
    assert!(error.contains("ip link"), "{error}");
}

fn a_queue_that_is_full_is_busy_and_takes_the_same_frame_later(way: Way) {
    if !may_have_tun() {
        return;
    }
    // What is sent on it waits in its queue, which has room for 8 frames, until it is taken out here.
    let tap = Tap::open("tap0").unwrap();
    sh(
        "ip link set tap0 txqueuelen 8; f=/proc/sys/net/ipv6/conf/tap0/disable_ipv6; [ ! -e $f ] || echo 1 > $f; ip link set tap0 up",
    );
    let mut port = way.open("tap0").unwrap();
    let mut batch = FrameBatch::new(100);
    (0..20).for_each(|number| push(&mut batch, &frame(number, 100)));
    let busy = |frames| SentFrames {
        frames,
        stopped: Some(Stopped::Busy),
    };
    assert_eq!(port.send(&batch, 0..64), busy(8));
    assert_eq!(port.send(&batch, 8..64), busy(0));
    let mut room = [0; 2048];
    let mut from = 8;
    for number in 0..20 {
        let bytes = tap.receive(&mut room).unwrap();
        assert_eq!(room[..bytes], frame(number, 100));
        from += port.send(&batch, from..64).frames;
    }
    assert_eq!(from, 20);
    sh("ip link set tap0 carrier off");
    (0..20).for_each(|number| push(&mut batch, &frame(number, 100)));
    let refused = port.send(&batch, 20..64).stopped;
    assert_eq!(refused, Some(Stopped::Refused(Refusal::Device)));
}

fn a_port_that_sends_takes_no_packet(way: Way) {
    let (mut near, _far) = ends(way);
    let mut back = way.open("far").unwrap();
    let mut batch = FrameBatch::new(100);
    (0..64).for_each(|number| push(&mut batch, &frame(number, 100)));
    assert_eq!(back.send(&batch, 0..64).frames, 64);
    assert_eq!(counter("near", "rx_packets"), 64);
    let nothing = EventFd::create().unwrap();
    let woken = near.wait_room(nothing.as_fd(), monotonic_ns() + SECOND_NS);
    // It has room, and nothing to read: that would be told first.
    assert_eq!(woken.unwrap(), ROOM);
    assert_eq!(near.send(&batch, 0..64).frames, 64);
}

/// Lays an interface `over` upon `near`, whose frames go by the queueing discipline of `near` and keep their owner there; whether this kernel can.
fn lay_over(discipline: &str) -> bool {
    let line = format!(
        "ip link add link near name over type macvlan mode private && {discipline} && f=/proc/sys/net/ipv6/conf/over/disable_ipv6 && {{ [ ! -e $f ] || echo 1 > $f; }} && ip link set over up"
    );
    let ended = Command::new("sh").args(["-c", &line]).output().unwrap();
    if !ended.status.success() {
        let complains = String::from_utf8_lossy(&ended.stderr);
        forebay_testing::skip!("no queue below a macvlan here: {complains}");
    }
    ended.status.success()
}

fn a_full_buffer_is_waited_for_and_takes_the_same_frame_later(way: Way) {
    let (_, mut far) = ends(way);
    // 10 frames in a second, until it is said otherwise.
    let queue = "root tbf burst 2000 limit 1000000 rate";
    if !lay_over(&format!("tc qdisc add dev near {queue} 8kbit")) {
        return;
    }
    let mut port = way.open("over").unwrap();
    let nothing = EventFd::create().unwrap();
    let frames: Vec<_> = (0..640).map(|number| frame(number, 100)).collect();
    let (mut at, mut waits, mut is_slow) = (0, 0, true);
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    while at < frames.len() {
        let mut batch = FrameBatch::new(100);
        let next = frames[at..].iter().take(BATCH_FRAMES_MAX);
        next.for_each(|frame| push(&mut batch, frame));
        let sent = port.send(&batch, 0..BATCH_FRAMES_MAX);
        at += sent.frames;
        if let Some(stopped) = sent.stopped {
            assert_eq!(stopped, Stopped::Full);
            if std::mem::take(&mut is_slow) {
                // Half of the buffer would have to be free.
                let woken = port.wait_room(nothing.as_fd(), 0).unwrap();
                assert!(matches!(woken, Woken::Due { .. }), "{woken:?}");
                sh(&format!("tc qdisc change dev near {queue} 100mbit"));
            }
            match (way, port.wait_room(nothing.as_fd(), until_ns).unwrap()) {
                (_, ROOM) => waits += 1,
                // The far end takes frames in on the CPU that sent them: one of a CPU that is late may be in its place still, when all behind it have gone.
                (Way::Ring, Woken::Due { .. }) => assert!(monotonic_ns() < until_ns),
                (_, woken) => panic!("{woken:?}"),
            }
        }
    }
    assert!(waits > 0);
    assert_eq!(read(&mut far, frames.len()), frames);
}

#[test]
fn a_place_that_is_late_is_looked_at_again_by_time() {
    if !forebay_testing::wire::is_inside("a_place_that_is_late_is_looked_at_again_by_time") {
        return;
    }
    let (_, mut far) = ends(Way::Ring);
    // Frames of 0x88b6 wait: one of them takes minutes.
    if !lay_over(
        "tc qdisc add dev near root handle 1: htb default 1 && tc class add dev near parent 1: classid 1:1 htb rate 1gbit && tc class add dev near parent 1: classid 1:2 htb rate 80bit && tc filter add dev near parent 1: protocol all u32 match u16 0x88b6 0xffff at -2 classid 1:2",
    ) {
        return;
    }
    let mut port = Way::Ring.open("over").unwrap();
    let nothing = EventFd::create().unwrap();
    let late_ns = || monotonic_ns() + 20 * SECOND_NS;
    let mut batch = FrameBatch::new(1_400);
    (0..8).for_each(|number| push(&mut batch, &frame_of(0xb6, number, 1_400)));
    assert_eq!(port.send(&batch, 0..64).frames, 8);
    // Those behind the first ones wait in their places, until others have gone through all of the ring.
    let full = SentFrames {
        frames: 0,
        stopped: Some(Stopped::Full),
    };
    let one = |number| {
        let mut batch = FrameBatch::new(100);
        push(&mut batch, &frame(number, 100));
        batch
    };
    let mut sent = 0;
    while port.send(&one(sent), 0..1).frames == 1 {
        sent += 1;
        assert!(sent < 1_000);
        // What stops it is not the socket's buffer.
        let woken = sleep_until_room(port.as_fd(), nothing.as_fd(), late_ns());
        assert_eq!(woken.unwrap(), ROOM);
    }
    assert!(sent > 300, "{sent}");
    let batch = one(sent);
    assert_eq!(port.send(&batch, 0..1), full);
    let woken = sleep_until_room(port.as_fd(), nothing.as_fd(), late_ns());
    assert_eq!(woken.unwrap(), ROOM);
    let woken = port.wait_room(nothing.as_fd(), late_ns()).unwrap();
    assert!(matches!(woken, Woken::Due { .. }), "{woken:?}");
    nothing.signal();
    let woken = port.wait_room(nothing.as_fd(), late_ns()).unwrap();
    assert_eq!(woken, Woken::Ready { index: 1 });
    let nothing = EventFd::create().unwrap();
    // The frames that wait are thrown away, so that their places are free.
    sh("tc qdisc delete dev near root");
    let until_ns = late_ns();
    while port.send(&batch, 0..1) == full {
        assert!(monotonic_ns() < until_ns);
        port.wait_room(nothing.as_fd(), until_ns).unwrap();
    }
    let others = 0..=sent;
    let came = read(&mut far, others.clone().count() + 1);
    assert_eq!(came[0], frame_of(0xb6, 0, 1_400));
    let came: Vec<_> = came.into_iter().filter(|it| it.len() == 100).collect();
    let wanted: Vec<_> = others.map(|number| frame(number, 100)).collect();
    assert_eq!(came, wanted);
}

#[test]
fn a_ring_has_room_for_the_longest_frame_that_a_kernel_takes_and_none_on_loopback() {
    if !forebay_testing::wire::is_inside(
        "a_ring_has_room_for_the_longest_frame_that_a_kernel_takes_and_none_on_loopback",
    ) {
        return;
    }
    lay();
    carries();
    sh("ip link set lo up; ip link set near mtu 65535; ip link set far mtu 65535");
    let ring = |interface, bytes| SendPort::open(interface).unwrap().through_ring(bytes);
    let mut port = ring("near", 65_550).unwrap();
    let mut batch = FrameBatch::new(65_549);
    (0..64).for_each(|number| push(&mut batch, &frame(number, 65_549)));
    // Its places begin anywhere in a page.
    let all = SentFrames {
        frames: 64,
        stopped: None,
    };
    assert_eq!(port.send(&batch, 0..64), all);
    assert_eq!(counter("far", "rx_bytes"), 64 * 65_549);
    let error = ring("near", 65_551).unwrap_err().to_string();
    assert!(error.contains("65,550"), "{error}");
    let error = ring("lo", 100).unwrap_err().to_string();
    assert!(
        error.contains("lo") && error.contains("without a ring"),
        "{error}"
    );
}

#[test]
fn the_kernel_tells_its_log_of_one_frame_that_is_too_long_and_a_higher_mtu_takes_them() {
    if !forebay_testing::wire::is_inside(
        "the_kernel_tells_its_log_of_one_frame_that_is_too_long_and_a_higher_mtu_takes_them",
    ) {
        return;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let Ok(mut log) = options.open("/dev/kmsg") else {
        forebay_testing::skip!("the kernel's log cannot be read (/dev/kmsg; needs root)");
        return;
    };
    log.seek(SeekFrom::End(0)).unwrap();
    let (mut near, _far) = ends(Way::Ring);
    let mut batch = FrameBatch::new(1_514);
    (0..64).for_each(|number| push(&mut batch, &frame(number, 1_013)));
    let refused = |refusal| SentFrames {
        frames: 0,
        stopped: Some(Stopped::Refused(refusal)),
    };
    sh("ip link set near mtu 777");
    for _ in 0..1_000 {
        assert_eq!(near.send(&batch, 0..64), refused(Refusal::TooLong));
    }
    let (mut record, mut lines) = ([0; 8192], 0);
    loop {
        match log.read(&mut record) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&record[..bytes]);
                lines += usize::from(text.contains("(1013 > 795)"));
            }
            // Others write as well: older lines were written over.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(lines <= 1, "{lines}");
    // Being down comes first, as with calls.
    sh("ip link set near down");
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::Down));
    sh("ip link set near up");
    carries();
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::TooLong));
    sh("ip link set near mtu 1500");
    assert_eq!(near.send(&batch, 0..64).frames, 64);
    sh("ip link set near mtu 777");
    assert_eq!(near.send(&batch, 0..64), refused(Refusal::TooLong));
}
