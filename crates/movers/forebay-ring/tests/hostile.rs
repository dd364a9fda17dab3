//! A peer that writes anything at any time: named errors, never a panic, never a byte from outside.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_ring::{
    Consumers, Full, HEADER_BYTES, Meta, PeerFault, Producers, RingError, RingSetMemory,
    RingSetSpec, record_bytes,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const CAPACITY: u64 = 64 * 1024;
const RECORD_MAX: u32 = 8_000;
const POSITION_AT: u64 = 128;
const CLOSED_AT: u64 = 136;

/// The honest ends of a ring, and the files as the peer of each can write them.
struct World {
    producers: Producers,
    consumers: Consumers,
    data: OwnedFd,
    producer_page: OwnedFd,
    consumer_page: OwnedFd,
}

fn world() -> World {
    let spec = RingSetSpec::new("hostile", vec![CAPACITY], RECORD_MAX);
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut of_producer = memory.producer_fds().unwrap();
    let mut of_consumer = memory.consumer_fds().unwrap();
    World {
        producers: Producers::map(&spec, memory.producer_fds().unwrap()).unwrap(),
        consumers: Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap(),
        producer_page: of_producer.remove(1),
        data: of_producer.remove(0),
        consumer_page: of_consumer.remove(2),
    }
}

fn poke(fd: &OwnedFd, at: u64, bytes: &[u8]) {
    assert_eq!(rustix::io::pwrite(fd, bytes, at).unwrap(), bytes.len());
}

fn poke_word(fd: &OwnedFd, at: u64, word: u64) {
    poke(fd, at, &word.to_ne_bytes());
}

#[derive(Debug, Clone)]
enum Move {
    Write(usize),
    Publish,
    Next,
    ReleaseAll,
    ProducerIndex(u64),
    ConsumerIndex(u64),
    Closed(u64),
    Data(u64, Vec<u8>),
    Restart,
}

fn index() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4 * CAPACITY,
        (0..4000u64).prop_map(|n| n * 32)
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..9_000usize).prop_map(Move::Write),
        3 => Just(Move::Publish),
        6 => Just(Move::Next),
        3 => Just(Move::ReleaseAll),
        1 => index().prop_map(Move::ProducerIndex),
        1 => index().prop_map(Move::ConsumerIndex),
        1 => any::<u64>().prop_map(Move::Closed),
        2 => (0..CAPACITY - 64, prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(at, bytes)| Move::Data(at, bytes)),
        // A header that is nearly right.
        2 => (0..2048u64, 0..2 * RECORD_MAX).prop_map(|(at, len)| Move::Data(at * 32, len.to_ne_bytes().to_vec())),
        1 => Just(Move::Restart),
    ]
}

impl World {
    fn apply(&mut self, step: &Move) {
        match step {
            Move::Write(len) => self.write(*len),
            Move::Publish => self.producers.rings[0].publish(),
            Move::Next => self.next(),
            Move::ReleaseAll => {
                let ring = &mut self.consumers.rings[0];
                assert!(ring.release(ring.read_position()));
            }
            Move::ProducerIndex(word) => poke_word(&self.producer_page, POSITION_AT, *word),
            Move::ConsumerIndex(word) => poke_word(&self.consumer_page, POSITION_AT, *word),
            Move::Closed(word) => poke_word(&self.producer_page, CLOSED_AT, *word),
            Move::Data(at, bytes) => poke(&self.data, *at, bytes),
            Move::Restart => {
                let (producer, consumer) =
                    (&mut self.producers.rings[0], &mut self.consumers.rings[0]);
                let _ = producer.resume(producer.position());
                let _ = consumer.resume(consumer.read_position());
            }
        }
        let (producer, consumer) = (&self.producers.rings[0], &self.consumers.rings[0]);
        assert!(producer.fill_bytes() <= CAPACITY && producer.free_bytes() <= CAPACITY);
        assert!(consumer.fill_bytes() <= CAPACITY);
        consumer.is_closed();
    }

    fn write(&mut self, len: usize) {
        let ring = &mut self.producers.rings[0];
        let was = ring.fault();
        match ring.reserve(len) {
            Ok(mut loan) => {
                loan.fill(0x5a);
                loan.commit(len, Meta::default());
            }
            Err(Full::Peer(fault)) => assert!(was.is_none_or(|was| was == fault)),
            Err(Full::TooLong { len, max }) => assert!(len > max as usize),
            Err(Full::NoSpace {
                needed_bytes,
                free_bytes,
            }) => assert!(free_bytes < needed_bytes),
        }
    }

    fn next(&mut self) {
        let ring = &mut self.consumers.rings[0];
        let (was, calls, at) = (ring.fault(), ring.refused_calls(), ring.read_position());
        match ring.next() {
            Ok(None) => assert!(was.is_none()),
            Ok(Some(record)) => {
                assert!(was.is_none() && record.len <= RECORD_MAX);
                assert_eq!(record.position, at.wrapping_add(HEADER_BYTES));
                assert_eq!(
                    record.end,
                    at.wrapping_add(record_bytes(u64::from(record.len)))
                );
                assert_eq!(
                    ring.view(record.position, record.len as usize)
                        .unwrap()
                        .to_vec()
                        .len(),
                    record.len as usize
                );
            }
            Err(RingError::Peer { ring: 0, fault }) => {
                assert!(was.is_none_or(|was| was == fault), "the first fault stays");
                assert_eq!(
                    (ring.fault(), ring.refused_calls()),
                    (Some(fault), calls + 1)
                );
                assert_eq!(ring.read_position(), at);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
 ..ProptestConfig::default() })]
    #[test]
    fn garbage_never_panics_nor_leaves_the_ring(moves in prop::collection::vec(any_move(), 1..100)) {
        let mut world = world();
        for step in &moves {
            world.apply(step);
        }
    }
}

/// One honest record of 100 bytes, published.
fn with_record() -> World {
    let mut world = world();
    world.producers.rings[0]
        .reserve(100)
        .unwrap()
        .commit(100, Meta::default());
    world.producers.rings[0].publish();
    world
}

fn fault_of(world: &mut World) -> PeerFault {
    let first = world.consumers.rings[0].next().unwrap_err();
    assert_eq!(
        world.consumers.rings[0].next().unwrap_err(),
        first,
        "the ring stays in the error state"
    );
    assert_eq!(world.consumers.poisoned(), 1);
    let RingError::Peer { fault, .. } = first else {
        panic!("{first}")
    };
    fault
}

type Lie<'a> = &'a dyn Fn(&World);

#[test]
fn each_lie_of_a_producer_has_a_name() {
    let lies: [(Lie<'_>, PeerFault); 7] = [
        (
            &|w| poke_word(&w.producer_page, POSITION_AT, 0u64.wrapping_sub(32)),
            PeerFault::IndexBackwards {
                found: 0u64.wrapping_sub(32),
                last: 0,
            },
        ),
        (
            &|w| poke_word(&w.producer_page, POSITION_AT, CAPACITY + 32),
            PeerFault::IndexBeyond {
                found: CAPACITY + 32,
                limit: CAPACITY,
            },
        ),
        (
            &|w| poke_word(&w.producer_page, POSITION_AT, 31),
            PeerFault::HeaderCut {
                position: 0,
                available: 31,
            },
        ),
        (
            &|w| poke_word(&w.producer_page, POSITION_AT, 159),
            PeerFault::RecordBeyondTail {
                position: 0,
                len: 100,
                available: 159,
            },
        ),
        (
            &|w| poke(&w.data, 0, &(RECORD_MAX + 1).to_ne_bytes()),
            PeerFault::RecordTooLong {
                position: 0,
                len: RECORD_MAX + 1,
                max: RECORD_MAX,
            },
        ),
        (
            &|w| poke(&w.data, 0, &129u32.to_ne_bytes()),
            PeerFault::RecordBeyondTail {
                position: 0,
                len: 129,
                available: 160,
            },
        ),
        (
            &|w| poke_word(&w.data, 24, 64),
            PeerFault::RecordMisplaced {
                position: 0,
                found: 64,
            },
        ),
    ];
    for (lie, expected) in lies {
        let mut world = with_record();
        lie(&world);
        assert_eq!(fault_of(&mut world), expected);
    }
}

#[test]
fn each_lie_of_a_consumer_has_a_name() {
    for (index, expected) in [
        (
            64,
            PeerFault::IndexBackwards {
                found: 64,
                last: 160,
            },
        ),
        (
            192,
            PeerFault::IndexBeyond {
                found: 192,
                limit: 160,
            },
        ),
    ] {
        let mut world = with_record();
        world.consumers.rings[0].next().unwrap();
        world.consumers.rings[0].release(160);
        let ring = &mut world.producers.rings[0];
        while ring
            .reserve(7_000)
            .map(|loan| loan.commit(7_000, Meta::default()))
            .is_ok()
        {}
        poke_word(&world.consumer_page, POSITION_AT, index);
        assert_eq!(ring.reserve(7_000).unwrap_err(), Full::Peer(expected));
        poke_word(&world.consumer_page, POSITION_AT, 160);
        assert_eq!(
            ring.reserve(7_000).unwrap_err(),
            Full::Peer(expected),
            "it stays in the error state"
        );
    }
}

/// The peer writes while this side reads: what is found may be anything, but it is either a checked record or a named fault.
#[test]
fn a_peer_that_writes_at_the_same_time_is_survived() {
    let seed = std::env::var("FOREBAY_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed_u64);
    println!("FOREBAY_SEED={seed}");
    let over = AtomicBool::new(false);
    let (mut records, mut faults) = (0u64, 0u64);
    for round in 0..20 {
        let mut world = world();
        over.store(false, Ordering::Relaxed);
        let (data, page) = (
            world.data.try_clone().unwrap(),
            world.producer_page.try_clone().unwrap(),
        );
        std::thread::scope(|scope| {
            let over = &over;
            scope.spawn(move || scribble(seed + round, &data, &page, over));
            for _ in 0..200_000 {
                world.write(300);
                world.producers.rings[0].publish();
                world.next();
                let ring = &mut world.consumers.rings[0];
                ring.release(ring.read_position());
                if ring.fault().is_some() {
                    faults += 1;
                    break;
                }
                records += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    println!("{records} records, {faults} faults");
    assert!(faults > 0, "the attacker never hit");
}

fn scribble(seed: u64, data: &OwnedFd, page: &OwnedFd, over: &AtomicBool) {
    let mut state = seed | 1;
    while !over.load(Ordering::Relaxed) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let word = state >> 20;
        poke_word(data, word % (CAPACITY / 8) * 8, state);
        if word.is_multiple_of(64) {
            poke_word(page, POSITION_AT, word % CAPACITY);
        }
    }
}
