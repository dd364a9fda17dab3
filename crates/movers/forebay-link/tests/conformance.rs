//! One suite for every datagram source: the UDP port on loopback and its emulated twin.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use forebay_link::emulated::{self, EmulatedPort};
use forebay_link::udp::{self, PortState, UdpPort};
use forebay_link::{Adopted, Ancillary, BatchMode, BatchTag, DatagramSource, Drops, RecvBatch};
use forebay_sys::socket::{UdpOptions, connect_udp};
use forebay_sys::udp_batch::{Outgoing, SendBatch};

const LIMIT: Duration = Duration::from_secs(20);
const SLOTS: usize = 16;
const BUFFER_BYTES: u32 = 64 << 10;

/// A sender and the source under test.
trait Rig {
    fn send(&mut self, payload: &[u8]);
    fn source(&mut self) -> &mut dyn Source;
    /// Kills the receiver and starts its successor, which knows what was committed.
    fn restart(&mut self, committed: PortState);
    /// What the receiver would commit now.
    fn state(&mut self) -> PortState;
}

/// The methods of [`DatagramSource`] that can be called through a pointer: all of them.
trait Source: DatagramSource {}
impl<T: DatagramSource> Source for T {}

struct UdpRig {
    port: UdpPort,
    sender: OwnedFd,
    batch: SendBatch,
}

impl UdpRig {
    fn with_buffer(bytes: u32) -> Self {
        let config = udp::Config {
            receive_buffer_bytes: bytes,
            stamps: true,
            ..udp::Config::default()
        };
        let (port, shortfall) = UdpPort::bind(&config).unwrap();
        assert_eq!(shortfall, None);
        let sender = connect_udp(port.address(), &UdpOptions::default()).unwrap();
        Self {
            port,
            sender,
            batch: SendBatch::new(1),
        }
    }
}

impl Rig for UdpRig {
    fn send(&mut self, payload: &[u8]) {
        let sent = self
            .batch
            .send(self.sender.as_fd(), &[Outgoing::connected(payload)]);
        assert_eq!(sent.count, 1, "{sent:?}");
    }

    fn source(&mut self) -> &mut dyn Source {
        &mut self.port
    }

    fn restart(&mut self, committed: PortState) {
        let socket = self.port.as_fd().try_clone_to_owned().unwrap();
        let words = committed.to_words();
        self.port = UdpPort::resume(socket, false, PortState::from_words(words)).unwrap();
    }

    fn state(&mut self) -> PortState {
        self.port.drops().unwrap();
        self.port.state()
    }
}

struct EmulatedRig {
    port: EmulatedPort,
    now_ns: u64,
}

impl EmulatedRig {
    fn with_buffer(bytes: u32) -> Self {
        let config = emulated::Config {
            buffer_bytes: bytes.into(),
            delay_ns: 500,
            ..emulated::Config::default()
        };
        Self {
            port: EmulatedPort::new(config).unwrap(),
            now_ns: 0,
        }
    }
}

impl Rig for EmulatedRig {
    fn send(&mut self, payload: &[u8]) {
        self.port.offer(self.now_ns, payload);
        self.now_ns += 1_000;
        self.port.advance(self.now_ns);
    }

    fn source(&mut self) -> &mut dyn Source {
        &mut self.port
    }

    fn restart(&mut self, committed: PortState) {
        self.port.restart_receiver(committed.received);
    }

    fn state(&mut self) -> PortState {
        PortState {
            received: self.port.received(),
            ..PortState::default()
        }
    }
}

fn tag(batch_id: u64) -> BatchTag {
    BatchTag {
        batch_id,
        socket: 3,
        words: [11, 12],
    }
}

fn batch() -> RecvBatch {
    RecvBatch::private(
        SLOTS,
        Ancillary {
            addresses: true,
            control: true,
        },
    )
    .unwrap()
}

/// Receives until what came and what was dropped make up `sent`.
fn drain(rig: &mut impl Rig, batch: &mut RecvBatch, sent: u64) -> Vec<Vec<u8>> {
    let start = Instant::now();
    let mut all = Vec::new();
    loop {
        let count = rig.source().receive_scratch(batch, SLOTS, tag(1)).unwrap();
        all.extend((0..count).map(|index| batch.payload(index).to_vec()));
        if count == 0 && all.len() as u64 + rig.source().drops().unwrap().count() >= sent {
            return all;
        }
        assert!(start.elapsed() < LIMIT, "{} of {sent} came", all.len());
    }
}

/// Waits for one datagram into `buffer`.
fn receive_one(rig: &mut impl Rig, batch: &mut RecvBatch, buffer: &mut [u8], tag: BatchTag) {
    let start = Instant::now();
    while !rig.source().receive_into(batch, buffer, tag).unwrap() {
        assert!(start.elapsed() < LIMIT, "nothing came");
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + len) as u8).collect()
}

fn order_is_kept<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let payloads: Vec<_> = (0..1_000_u32)
        .map(|number| number.to_le_bytes().to_vec())
        .collect();
    payloads.iter().for_each(|payload| rig.send(payload));
    assert_eq!(drain(&mut rig, &mut batch(), 1_000), payloads);
    assert_eq!(rig.source().drops().unwrap(), Drops::Exact(0));
}

fn every_length_comes_whole<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let payloads: Vec<_> = [0, 1, 7, 1_472, 1_473, 9_000, 32_768, 65_506, 65_507, 0]
        .map(pattern)
        .into();
    payloads.iter().for_each(|payload| rig.send(payload));
    assert_eq!(
        drain(&mut rig, &mut batch(), payloads.len() as u64),
        payloads
    );
    let received = rig.source().received();
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    assert_eq!(
        (received.datagrams, received.bytes, received.truncated),
        (10, bytes as u64, 0)
    );
}

fn overload_loses_exactly_what_it_says<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(BUFFER_BYTES);
    assert_eq!(rig.source().fill().unwrap().used_bytes, 0);
    for number in 0..2_000_u32 {
        rig.send(&[&number.to_le_bytes()[..], &pattern(700)].concat());
    }
    let full = rig.source().fill().unwrap();
    assert!(full.ratio() > 0.9, "{full:?}");
    assert!(full.used_bytes <= full.limit_bytes + 4_096, "{full:?}");
    let survivors = drain(&mut rig, &mut batch(), 2_000);
    let drops = rig.source().drops().unwrap();
    assert!(
        matches!(drops, Drops::Exact(count) if count > 1_000),
        "{drops:?}"
    );
    assert_eq!(survivors.len() as u64 + drops.count(), 2_000);
    assert_eq!(rig.source().received().datagrams, survivors.len() as u64);
    assert_eq!(rig.source().fill().unwrap().used_bytes, 0);
    // What survived came in order, and none twice.
    let numbers: Vec<_> = survivors
        .iter()
        .map(|bytes| u32::from_le_bytes(bytes[..4].try_into().unwrap()))
        .collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

fn drops_are_counted_on_after_a_restart<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(BUFFER_BYTES);
    let mut batch = batch();
    let send = |rig: &mut R| (0..500).for_each(|_| rig.send(&pattern(700)));
    send(&mut rig);
    let first = drain(&mut rig, &mut batch, 500).len();
    let committed = rig.state();
    // Dropped while the receiver is dead.
    send(&mut rig);
    rig.restart(committed);
    let second = drain(&mut rig, &mut batch, 1_000 - first as u64).len();
    let drops = rig.source().drops().unwrap().count();
    assert_eq!((first + second) as u64 + drops, 1_000);
    assert_eq!(rig.source().received().datagrams, (first + second) as u64);
}

fn a_successor_accounts_what_its_predecessor_received<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let arena = RecvBatch::create_arena(SLOTS).unwrap();
    let mut batch =
        RecvBatch::attach(arena.try_clone().unwrap(), SLOTS, Ancillary::default()).unwrap();
    (0..5).for_each(|number| rig.send(&pattern(100 + number)));
    let committed = rig.state();
    let start = Instant::now();
    let mut count = 0;
    while count == 0 {
        count = rig.source().receive_scratch(&mut batch, 3, tag(8)).unwrap();
        assert!(start.elapsed() < LIMIT, "nothing came");
    }
    drop(batch);
    rig.restart(committed);

    let mut batch = RecvBatch::attach(arena, SLOTS, Ancillary::default()).unwrap();
    let adopted = Adopted {
        tag: tag(8),
        mode: BatchMode::Scratch,
        count,
    };
    assert_eq!(batch.adopt(), Some(adopted));
    rig.source().count_adopted(&batch);
    let mut all: Vec<_> = (0..count)
        .map(|index| batch.payload(index).to_vec())
        .collect();
    batch.disarm();
    all.extend(drain(&mut rig, &mut batch, 5 - count as u64));
    assert_eq!(
        all,
        (0..5)
            .map(|number| pattern(100 + number))
            .collect::<Vec<_>>()
    );
    assert_eq!(rig.source().received().datagrams, 5);
}

fn a_direct_receive_is_adopted<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let arena = RecvBatch::create_arena(SLOTS).unwrap();
    let mut batch =
        RecvBatch::attach(arena.try_clone().unwrap(), SLOTS, Ancillary::default()).unwrap();
    let mut ring = vec![0; 1_000];
    rig.send(&pattern(900));
    receive_one(&mut rig, &mut batch, &mut ring, tag(21));
    drop(batch);
    let mut batch = RecvBatch::attach(arena, SLOTS, Ancillary::default()).unwrap();
    assert_eq!(
        batch.adopt(),
        Some(Adopted {
            tag: tag(21),
            mode: BatchMode::Direct,
            count: 1
        })
    );
    assert_eq!(
        (batch.datagram(0).len, &ring[..900]),
        (900, &pattern(900)[..])
    );
}

fn scratch_and_direct_take_turns<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let mut batch = batch();
    for round in 0..50 {
        let (one, two) = (pattern(round), pattern(round + 1_000));
        rig.send(&one);
        rig.send(&two);
        let mut ring = vec![0; 4_096];
        receive_one(&mut rig, &mut batch, &mut ring, tag(1));
        assert_eq!(ring[..batch.datagram(0).len], one);
        let rest = drain(&mut rig, &mut batch, 1);
        assert_eq!(rest, [two]);
    }
}

fn a_datagram_too_long_for_its_memory_is_cut_and_told<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let mut batch = batch();
    for room in [0, 1, 999] {
        rig.send(&pattern(1_000));
        let mut ring = vec![0; room];
        receive_one(&mut rig, &mut batch, &mut ring, tag(1));
        let datagram = batch.datagram(0);
        assert_eq!((datagram.len, datagram.truncated), (1_000, true));
        assert_eq!(ring, pattern(1_000)[..room]);
    }
    rig.send(&pattern(1_000));
    let mut ring = vec![0; 1_000];
    receive_one(&mut rig, &mut batch, &mut ring, tag(1));
    assert!(!batch.datagram(0).truncated);
    let received = rig.source().received();
    assert_eq!(
        (received.datagrams, received.bytes, received.truncated),
        (4, 4_000, 3)
    );
}

fn stamps_and_addresses_are_told<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let mut batch = batch();
    let mut last_ns = 0;
    for _ in 0..3 {
        rig.send(b"x");
        receive_one(&mut rig, &mut batch, &mut [0; 4], tag(1));
        let datagram = batch.datagram(0);
        let stamp_ns = datagram.stamp_ns.unwrap();
        assert!(stamp_ns > last_ns, "{stamp_ns} after {last_ns}");
        last_ns = stamp_ns;
        assert!(datagram.from.unwrap().ip().is_loopback());
    }
}

fn nothing_is_nothing<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(4 << 20);
    let mut batch = batch();
    assert_eq!(
        rig.source()
            .receive_scratch(&mut batch, SLOTS, tag(1))
            .unwrap(),
        0
    );
    assert!(
        !rig.source()
            .receive_into(&mut batch, &mut [0; 8], tag(2))
            .unwrap()
    );
    rig.send(b"stays");
    assert_eq!(
        rig.source().receive_scratch(&mut batch, 0, tag(3)).unwrap(),
        0
    );
    assert_eq!(batch.adopt(), None);
    assert_eq!(drain(&mut rig, &mut batch, 1), [b"stays"]);
}

/// Empty datagrams take buffer but give no bytes; they must neither stall nor miscount.
fn a_flood_of_empty_datagrams_is_counted<R: Rig>(make: fn(u32) -> R) {
    let mut rig = make(BUFFER_BYTES);
    (0..3_000).for_each(|_| rig.send(b""));
    let survivors = drain(&mut rig, &mut batch(), 3_000);
    assert!(survivors.iter().all(Vec::is_empty));
    let drops = rig.source().drops().unwrap().count();
    assert!(
        drops > 0 && survivors.len() as u64 + drops == 3_000,
        "{drops}"
    );
    assert_eq!(rig.source().received().bytes, 0);
}

macro_rules! on_every_source {
    ($(#[test] fn $test:ident();)*) => {
        mod udp_port {
            use super::*;
            $(#[test] fn $test() { super::$test(UdpRig::with_buffer) })*
        }
        mod emulated_port {
            use super::*;
            $(#[test] fn $test() { super::$test(EmulatedRig::with_buffer) })*
        }
    };
}

on_every_source! {
    #[test]
    fn order_is_kept();
    #[test]
    fn every_length_comes_whole();
    #[test]
    fn overload_loses_exactly_what_it_says();
    #[test]
    fn drops_are_counted_on_after_a_restart();
    #[test]
    fn a_successor_accounts_what_its_predecessor_received();
    #[test]
    fn a_direct_receive_is_adopted();
    #[test]
    fn scratch_and_direct_take_turns();
    #[test]
    fn a_datagram_too_long_for_its_memory_is_cut_and_told();
    #[test]
    fn stamps_and_addresses_are_told();
    #[test]
    fn nothing_is_nothing();
    #[test]
    fn a_flood_of_empty_datagrams_is_counted();
}

#[test]
fn a_buffer_that_cannot_be_had_is_told() {
    let config = udp::Config {
        receive_buffer_bytes: 1 << 30,
        ..udp::Config::default()
    };
    let (port, shortfall) = UdpPort::bind(&config).unwrap();
    let granted = port.fill().unwrap().limit_bytes / 2;
    match shortfall {
        Some(shortfall) => assert!(
            shortfall.to_string().contains("net.core.rmem_max"),
            "{shortfall}"
        ),
        // Privileged: the kernel grants its largest buffer, one byte short of the range's end.
        None => assert!(granted >= (1 << 30) - 1, "{granted}"),
    }
}
