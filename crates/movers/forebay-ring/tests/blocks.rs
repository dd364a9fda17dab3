//! Rings of blocks: a queue whatever the order of operations, restarts included, and named errors for every lie of a peer.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use forebay_ring::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, BlockConsumer, BlockProducer, BlockRingMemory, BlockRingSpec,
    Full, PeerFault, RingError, SpecFault,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 16;
const POSITION_AT: u64 = 128;
const LONG: Duration = Duration::from_secs(20);

fn spec() -> BlockRingSpec {
    BlockRingSpec {
        name: "blocks".into(),
        block_bytes: BLOCK,
        blocks: BLOCKS,
        populate: false,
    }
}

fn ends(memory: &BlockRingMemory) -> (BlockProducer, BlockConsumer) {
    (producer(memory), consumer(memory))
}

fn producer(memory: &BlockRingMemory) -> BlockProducer {
    BlockProducer::map(&spec(), memory.producer_fds().unwrap()).unwrap()
}

fn consumer(memory: &BlockRingMemory) -> BlockConsumer {
    BlockConsumer::map(&spec(), memory.consumer_fds().unwrap()).unwrap()
}

/// What block `number` holds.
fn content(number: u64) -> Vec<u8> {
    let words = (0..u64::from(BLOCK) / 8).map(|word| (number << 16 | word).to_le_bytes());
    words.flatten().collect()
}

#[derive(Clone, Debug)]
enum Op {
    Write,
    Publish,
    Take(u64),
    Release(u64),
    RestartProducer,
    RestartConsumer,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => Just(Op::Write),
        4 => Just(Op::Publish),
        5 => (0..6u64).prop_map(Op::Take),
        5 => (0..6u64).prop_map(Op::Release),
        1 => Just(Op::RestartProducer),
        1 => Just(Op::RestartConsumer),
    ]
}

/// Numbers of blocks, as they stand.
#[derive(Default)]
struct Model {
    committed: VecDeque<u64>,
    published: VecDeque<u64>,
    taken: VecDeque<u64>,
    next: u64,
    released: u64,
}

fn config(cases: u32, name: &'static str) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(name))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(256, "regressions"))]

    #[test]
    fn a_ring_of_blocks_is_a_queue(ops in prop::collection::vec(op(), 1..200)) {
        let memory = BlockRingMemory::create(&spec()).unwrap();
        let (mut writer, mut reader) = ends(&memory);
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Write => {
                    let used = model.committed.len() + model.published.len() + model.taken.len();
                    match writer.reserve() {
                        Ok(block) => {
                            prop_assert!(used < BLOCKS as usize);
                            block.copy_from_slice(&content(model.next));
                            prop_assert!(writer.commit());
                            model.committed.push_back(model.next);
                            model.next += 1;
                        }
                        Err(full) => {
                            prop_assert_eq!(used, BLOCKS as usize);
                            let full_ring = Full::NoSpace { needed_bytes: BLOCK.into(), free_bytes: 0 };
                            prop_assert_eq!(full, full_ring);
                            prop_assert!(!writer.commit());
                        }
                    }
                }
                Op::Publish => {
                    writer.publish();
                    writer.notify();
                    model.published.append(&mut model.committed);
                }
                Op::Take(most) => {
                    let there = reader.look().unwrap();
                    prop_assert_eq!(there, model.published.len() as u64);
                    for (ahead, number) in model.published.iter().enumerate() {
                        let block = reader.block(ahead as u64).unwrap();
                        prop_assert_eq!(block.to_vec(), content(*number));
                    }
                    prop_assert!(reader.block(there).is_none());
                    let taken = reader.take(most);
                    prop_assert_eq!(taken, most.min(there));
                    model.taken.extend(model.published.drain(..taken as usize));
                }
                Op::Release(most) => {
                    let count = most.min(model.taken.len() as u64);
                    model.released += count;
                    prop_assert!(reader.release(model.released * u64::from(BLOCK)));
                    reader.notify();
                    model.taken.drain(..count as usize);
                    prop_assert!(!reader.release(model.released * u64::from(BLOCK) + 1));
                    let beyond = model.released + model.taken.len() as u64 + 1;
                    prop_assert!(!reader.release(beyond * u64::from(BLOCK)));
                }
                Op::RestartProducer => {
                    drop(writer);
                    writer = producer(&memory);
                    // What was not published was never there.
                    model.next -= model.committed.len() as u64;
                    model.committed.clear();
                }
                Op::RestartConsumer => {
                    drop(reader);
                    reader = consumer(&memory);
                    // What was not released comes again.
                    while let Some(last) = model.taken.pop_back() {
                        model.published.push_front(last);
                    }
                }
            }
            let used = model.committed.len() + model.published.len() + model.taken.len();
            prop_assert_eq!(writer.free_blocks(), BLOCKS - used as u64);
            let fill = model.published.len() + model.taken.len();
            prop_assert_eq!(reader.fill_blocks(), fill as u64);
        }
    }

    #[test]
    fn no_index_of_a_peer_makes_a_block_that_is_not_there(
        ours in 0..BLOCKS,
        theirs in prop_oneof![any::<u64>(), 0..4 * BLOCKS * u64::from(BLOCK)],
    ) {
        let memory = BlockRingMemory::create(&spec()).unwrap();
        let pages = (memory.producer_fds().unwrap().remove(1), memory.consumer_fds().unwrap().remove(2));
        let (mut writer, mut reader) = ends(&memory);
        for _ in 0..ours {
            writer.reserve().unwrap();
            writer.commit();
        }
        writer.publish();
        reader.look().unwrap();
        poke(&pages.0, theirs);
        match reader.look() {
            Ok(blocks) => prop_assert_eq!(blocks * u64::from(BLOCK), theirs),
            Err(error) => {
                let RingError::Peer { fault, .. } = error else { panic!("{error}") };
                let reasons = ["index_backwards", "index_beyond", "index_uneven"];
                prop_assert!(reasons.contains(&fault.reason()), "{}", fault);
                prop_assert_eq!(reader.fault(), Some(fault));
                prop_assert!(reader.look().is_err(), "it stays so");
            }
        }
        poke(&pages.1, theirs);
        let free = writer.free_blocks();
        prop_assert!(free <= BLOCKS);
        let honest = theirs <= ours * u64::from(BLOCK);
        prop_assert_eq!(writer.fault().is_none(), honest);
        if !honest {
            prop_assert_eq!(free, 0);
        }
    }
}

fn poke(page: &OwnedFd, word: u64) {
    let bytes = word.to_ne_bytes();
    assert_eq!(rustix::io::pwrite(page, &bytes, POSITION_AT).unwrap(), 8);
}

#[test]
fn an_index_within_a_block_has_a_name() {
    let memory = BlockRingMemory::create(&spec()).unwrap();
    let page = memory.producer_fds().unwrap().remove(1);
    let (_writer, mut reader) = ends(&memory);
    poke(&page, 5000);
    let RingError::Peer { fault, .. } = reader.look().unwrap_err() else {
        panic!("another error");
    };
    let uneven = PeerFault::IndexUneven {
        found: 5000,
        step: BLOCK.into(),
    };
    assert_eq!(fault, uneven);
    assert!(fault.to_string().contains("5000"), "{fault}");
}

#[test]
fn each_end_of_a_ring_of_blocks_has_one_owner() {
    let memory = BlockRingMemory::create(&spec()).unwrap();
    let (writer, reader) = ends(&memory);
    assert!(BlockProducer::map(&spec(), memory.producer_fds().unwrap()).is_err());
    assert!(BlockConsumer::map(&spec(), memory.consumer_fds().unwrap()).is_err());
    drop((writer, reader));
    let (mut writer, mut reader) = ends(&memory);
    assert!(!reader.is_closed());
    writer.close();
    assert!(reader.is_closed());
    assert!(!reader.wait(LONG).unwrap(), "the end wakes");
}

#[test]
fn a_reader_that_reads_no_more_says_so() {
    let memory = BlockRingMemory::create(&spec()).unwrap();
    let (mut writer, mut reader) = ends(&memory);
    while writer.reserve().is_ok() {
        writer.commit();
    }
    writer.publish();
    assert!(!writer.is_read_no_more());
    let closing = std::thread::spawn(move || reader.close());
    while !writer.is_read_no_more() {
        assert!(!writer.wait_space(Duration::from_millis(5)).unwrap());
    }
    closing.join().unwrap();
    assert_eq!(writer.free_blocks(), 0, "what is unread stays so");
}

/// A writer that sleeps on a full ring hears at once that nothing more is read, and one that comes later does not sleep: the word is said once.
#[test]
fn a_reader_that_reads_no_more_wakes_its_writer() {
    for late in [false, true] {
        let memory = BlockRingMemory::create(&spec()).unwrap();
        let (mut writer, mut reader) = ends(&memory);
        while writer.reserve().is_ok() {
            writer.commit();
        }
        writer.publish();
        if late {
            reader.close();
        }
        let waiting = std::thread::spawn(move || {
            let began = Instant::now();
            let is_free = writer.wait_space(LONG).unwrap();
            (is_free, began.elapsed())
        });
        if !late {
            reader.close();
        }
        let (is_free, lasted) = waiting.join().unwrap();
        assert!(!is_free && lasted < LONG / 2, "late {late}: {lasted:?}");
    }
}

#[test]
fn sleepers_are_woken_by_blocks_and_by_space() {
    let memory = BlockRingMemory::create(&spec()).unwrap();
    let (mut writer, mut reader) = ends(&memory);
    let total = 50 * BLOCKS;
    let reading = std::thread::spawn(move || {
        let mut taken = 0;
        while taken < total {
            assert!(reader.wait(LONG).unwrap(), "never woken at {taken}");
            taken += reader.take(3);
            assert!(reader.release(reader.read_position()));
            reader.notify();
        }
    });
    for _ in 0..total {
        while writer.reserve().is_err() {
            assert!(writer.wait_space(LONG).unwrap(), "never woken");
        }
        writer.commit();
        writer.publish();
        writer.notify();
    }
    reading.join().unwrap();
}

#[test]
fn impossible_shapes_are_refused_with_what_would_be_right() {
    let fault = |block_bytes, blocks| {
        let spec = BlockRingSpec {
            block_bytes,
            blocks,
            ..spec()
        };
        match BlockRingMemory::create(&spec) {
            Err(RingError::Spec { fault, .. }) => fault,
            other => panic!("{other:?}"),
        }
    };
    for found in [0, 16, 3072, 2 * BLOCK_BYTES_MAX] {
        let (min, max) = (BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        assert_eq!(fault(found, 64), SpecFault::BlockBytes { found, min, max });
    }
    for (blocks, text) in [(15, "16"), (8, "16"), (0, "16"), (u64::MAX, "16")] {
        let found = fault(BLOCK, blocks);
        assert!(matches!(found, SpecFault::Blocks { .. }), "{found}");
        assert!(found.to_string().contains(text), "{found}");
    }
}
