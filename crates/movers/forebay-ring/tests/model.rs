//! The ring against a model of two queues: random operations in random order, restarts included, also across the wrap of the positions.
//! A failure prints the shortest sequence of operations that shows it.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use std::collections::VecDeque;

use forebay_ring::{
    Consumers, Full, Meta, Producers, Record, RingError, RingSetMemory, RingSetSpec, VIEWS_MAX,
    record_bytes, write_views, write_views_at,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const CAPACITY: u64 = 64 * 1024;
const RECORD_MAX: u32 = 40_000;

#[derive(Debug, Clone)]
enum Op {
    Write { len: usize, used: usize },
    DropLoan { len: usize },
    Publish,
    Next,
    Release { nth: usize },
    RestartProducer { kept: usize },
    RestartConsumer { kept: usize },
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![4 => 0..2_000usize, 2 => 0..RECORD_MAX as usize + 3];
    prop_oneof![
        8 => (len.clone(), 0..5usize).prop_map(|(len, quarters)| Op::Write { len, used: len * quarters / 4 }),
        1 => len.prop_map(|len| Op::DropLoan { len }),
        4 => Just(Op::Publish),
        8 => Just(Op::Next),
        4 => (0..6usize).prop_map(|nth| Op::Release { nth }),
        1 => (0..4usize).prop_map(|kept| Op::RestartProducer { kept }),
        1 => (0..4usize).prop_map(|kept| Op::RestartConsumer { kept }),
        1 => Just(Op::Close),
    ]
}

/// What the ring must hold: the number of each record (its content follows from it), its length and its end.
#[derive(Debug, Clone, Copy)]
struct Item {
    number: u32,
    len: usize,
    end: u64,
}

#[derive(Default)]
struct Model {
    committed: VecDeque<Item>,
    published: VecDeque<Item>,
    read: VecDeque<Item>,
    position: u64,
    released: u64,
    closed: bool,
}

impl Model {
    fn free(&self) -> u64 {
        CAPACITY - self.position.wrapping_sub(self.released)
    }

    fn publish(&mut self) {
        self.published.append(&mut self.committed);
    }
}

struct World {
    spec: RingSetSpec,
    memory: RingSetMemory,
    producers: Producers,
    consumers: Consumers,
    model: Model,
    number: u32,
}

fn content(number: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (number as usize * 31 + i * 7) as u8)
        .collect()
}

impl World {
    fn new(start: u64) -> Self {
        let spec = RingSetSpec::new("model", vec![CAPACITY], RECORD_MAX);
        let memory = RingSetMemory::create(&spec).unwrap();
        // Both pages say that the ring has come this far: a slot's position is its first word, the first slot lies at 128.
        for fd in [
            &memory.producer_fds().unwrap()[1],
            &memory.consumer_fds().unwrap()[2],
        ] {
            rustix::io::pwrite(fd, &start.to_ne_bytes(), 128).unwrap();
        }
        let producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
        let model = Model {
            position: start,
            released: start,
            ..Model::default()
        };
        World {
            spec,
            memory,
            producers,
            consumers,
            model,
            number: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Write { len, used } => self.write(len, Some(used)),
            Op::DropLoan { len } => self.write(len, None),
            Op::Publish => {
                self.producers.rings[0].publish();
                self.model.publish();
            }
            Op::Next => self.next(),
            Op::Release { nth } => self.release(nth),
            Op::RestartProducer { kept } => self.restart_producer(kept),
            Op::RestartConsumer { kept } => self.restart_consumer(kept),
            Op::Close => {
                self.producers.rings[0].close();
                self.model.closed = true;
            }
        }
        self.compare();
    }

    fn write(&mut self, len: usize, used: Option<usize>) {
        let (ring, free_bytes) = (&mut self.producers.rings[0], self.model.free());
        let needed_bytes = record_bytes(len as u64);
        match ring.reserve(len) {
            Err(full) if len > RECORD_MAX as usize => assert_eq!(
                full,
                Full::TooLong {
                    len,
                    max: RECORD_MAX
                }
            ),
            Err(full) => {
                assert!(needed_bytes > free_bytes);
                assert_eq!(
                    full,
                    Full::NoSpace {
                        needed_bytes,
                        free_bytes
                    }
                );
            }
            Ok(mut loan) => {
                assert!(needed_bytes <= free_bytes && len <= RECORD_MAX as usize);
                assert_eq!(loan.len(), len);
                loan.copy_from_slice(&content(self.number, len));
                let Some(used) = used else { return };
                let meta = Meta {
                    tag: self.number,
                    items: 2,
                    flags: 3,
                    stamp_ns: u64::from(self.number) << 32,
                };
                let end = loan.commit(used, meta);
                let len = used.min(len);
                self.model.position = self.model.position.wrapping_add(record_bytes(len as u64));
                assert_eq!(end, self.model.position);
                self.model.committed.push_back(Item {
                    number: self.number,
                    len,
                    end,
                });
                self.number += 1;
            }
        }
    }

    fn next(&mut self) {
        let ring = &mut self.consumers.rings[0];
        let found = ring.next().unwrap();
        let expected = self.model.published.pop_front();
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(record), Some(item)) = (found, expected) {
            assert_eq!(
                (record.len as usize, record.end, record.meta.tag),
                (item.len, item.end, item.number)
            );
            assert_eq!(record.meta.stamp_ns, u64::from(item.number) << 32);
            self.model.read.push_back(item);
        }
    }

    fn release(&mut self, nth: usize) {
        let ring = &mut self.consumers.rings[0];
        let Some(item) = self.model.read.get(nth).copied() else {
            assert!(!ring.release(ring.read_position().wrapping_add(32)));
            assert!(!ring.release(ring.released().wrapping_add(1)));
            return;
        };
        assert!(ring.release(item.end));
        self.model.released = item.end;
        self.model.read.drain(..=nth);
    }

    /// Killed with only the first `kept` of the committed records in its book.
    fn restart_producer(&mut self, kept: usize) {
        let model = &mut self.model;
        model.committed.truncate(kept);
        let published = self.producers.rings[0].published();
        let book = model.committed.back().map_or(published, |item| item.end);
        // A dead process has nothing mapped.
        self.producers.rings.clear();
        self.producers = Producers::map(&self.spec, self.memory.producer_fds().unwrap()).unwrap();
        self.producers.rings[0].resume(book).unwrap();
        model.position = book;
        model.closed = false;
        model.publish();
    }

    /// Killed with only the first `kept` of the read and unreleased records in its book.
    fn restart_consumer(&mut self, kept: usize) {
        let model = &mut self.model;
        let kept = kept.min(model.read.len());
        let book = if kept == 0 {
            model.released
        } else {
            model.read[kept - 1].end
        };
        self.consumers.rings.clear();
        self.consumers = Consumers::map(&self.spec, self.memory.consumer_fds().unwrap()).unwrap();
        self.consumers.rings[0].resume(book).unwrap();
        model.released = book;
        model.read.drain(..kept);
        while let Some(item) = model.read.pop_back() {
            model.published.push_front(item);
        }
    }

    fn compare(&mut self) {
        let (producer, consumer, model) = (
            &self.producers.rings[0],
            &self.consumers.rings[0],
            &self.model,
        );
        assert_eq!(
            (producer.position(), producer.free_bytes()),
            (model.position, model.free())
        );
        assert_eq!(consumer.released(), model.released);
        assert_eq!(
            consumer.fill_bytes(),
            producer.published().wrapping_sub(model.released)
        );
        assert_eq!(
            consumer.is_closed(),
            model.closed && model.published.is_empty()
        );
        for item in &model.read {
            let start = item
                .end
                .wrapping_sub(record_bytes(item.len as u64))
                .wrapping_add(32);
            let view = consumer.view(start, item.len).unwrap();
            assert_eq!(view.to_vec(), content(item.number, item.len));
        }
        assert!(consumer.view(consumer.read_position(), 1).is_none());
        assert!(
            consumer
                .view(consumer.released().wrapping_sub(1), 1)
                .is_none()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
 ..ProptestConfig::default() })]
    #[test]
    fn ring_is_a_queue(start in prop_oneof![Just(0), (1u64..4000).prop_map(|n| 0u64.wrapping_sub(n * 32))],
                       ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new(start);
        for op in &ops {
            world.apply(op);
        }
    }
}

fn one_record(world: &mut World) -> Record {
    world.write(100, Some(100));
    world.producers.rings[0].publish();
    world.consumers.rings[0].next().unwrap().unwrap()
}

#[test]
fn resume_refuses_positions_that_cannot_be_its_own() {
    let mut world = World::new(0);
    let record = one_record(&mut world);
    let producer = &mut world.producers.rings[0];
    for impossible in [0, record.end - 32, record.end + 1, CAPACITY + 32] {
        assert!(
            matches!(producer.resume(impossible), Err(RingError::Resume { given, .. }) if given == impossible)
        );
    }
    producer.resume(record.end).unwrap();
    let consumer = &mut world.consumers.rings[0];
    for impossible in [record.end + 32, 1, 0u64.wrapping_sub(32)] {
        assert!(
            matches!(consumer.resume(impossible), Err(RingError::Resume { given, .. }) if given == impossible)
        );
    }
    consumer.resume(record.end).unwrap();
    assert!(
        matches!(consumer.resume(0), Err(RingError::Resume { lowest, .. }) if lowest == record.end)
    );
}

#[test]
fn views_read_words_in_both_orders_and_nothing_outside() {
    let mut world = World::new(0);
    let mut loan = world.producers.rings[0].reserve(12).unwrap();
    loan.copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    loan.commit(12, Meta::default());
    world.producers.rings[0].publish();
    let record = world.consumers.rings[0].next().unwrap().unwrap();
    let view = world.consumers.rings[0].view(record.position, 12).unwrap();
    assert_eq!(view.read_u32_le(0), Some(0x0403_0201));
    assert_eq!(view.read_u32_be(1), Some(0x0203_0405));
    assert_eq!(view.read_u16_be(10), Some(0x0b0c));
    assert_eq!(view.read_u64_le(3), Some(0x0b0a_0908_0706_0504));
    assert_eq!(view.read_u64_le(5), None);
    assert_eq!(view.read_u16_le(usize::MAX), None);
    assert_eq!(view.array::<3>(9), Some([10, 11, 12]));
    assert_eq!(view.array::<3>(10), None);
    let mut bytes = [0; 4];
    assert!(!view.copy_to(9, &mut bytes) && bytes == [0; 4]);
    assert_eq!(view.part(4, 4).unwrap().to_vec(), [5, 6, 7, 8]);
}

#[test]
fn a_view_is_looked_at_in_blocks_and_appended_whole() {
    let mut world = World::new(0);
    // Two blocks and a rest.
    let sent: Vec<u8> = (0..9000_u32).map(|at| (at % 251) as u8).collect();
    let mut loan = world.producers.rings[0].reserve(sent.len()).unwrap();
    loan.copy_from_slice(&sent);
    loan.commit(sent.len(), Meta::default());
    world.producers.rings[0].publish();
    let record = world.consumers.rings[0].next().unwrap().unwrap();
    let view = world.consumers.rings[0]
        .view(record.position, sent.len())
        .unwrap();
    let (mut seen, mut blocks) = (Vec::new(), 0);
    view.each_block(|block| {
        seen.extend_from_slice(block);
        blocks += 1;
    });
    assert_eq!((&seen, blocks), (&sent, 3));
    let mut appended = vec![255];
    view.append_to(&mut appended);
    assert_eq!((appended[0], &appended[1..]), (255, sent.as_slice()));
    view.part(0, 0)
        .unwrap()
        .each_block(|_| panic!("there is nothing in it"));
}

#[test]
fn a_view_goes_to_a_file_without_a_copy() {
    let mut world = World::new(0u64.wrapping_sub(64));
    let record = one_record(&mut world);
    let view = world.consumers.rings[0].view(record.position, 100).unwrap();
    let file = rustix::fs::memfd_create("out", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(view.write_to(&file).unwrap(), 100);
    assert_eq!(view.write_at(&file, 50).unwrap(), 100);
    let mut bytes = [0; 150];
    assert_eq!(rustix::io::pread(&file, &mut bytes, 0).unwrap(), 150);
    assert_eq!(bytes[50..], content(0, 100));
    let parts = [
        view.part(10, 20).unwrap(),
        view.part(0, 0).unwrap(),
        view.part(90, 10).unwrap(),
    ];
    let too_many = [[view.part(0, 1).unwrap(); VIEWS_MAX + 1].as_slice(), &parts].concat();
    assert_eq!(write_views_at(&file, &parts, 1000).unwrap(), 30);
    assert_eq!(write_views(&file, &too_many).unwrap(), VIEWS_MAX);
    let mut bytes = [0; 30];
    assert_eq!(rustix::io::pread(&file, &mut bytes, 1000).unwrap(), 30);
    let whole = content(0, 100);
    // The second call went on after the first write, from byte 100 to 1124.
    assert_eq!(bytes, [whole[0]; 30]);
    assert_eq!(write_views_at(&file, &parts, 1000).unwrap(), 30);
    assert_eq!(rustix::io::pread(&file, &mut bytes, 1000).unwrap(), 30);
    assert_eq!(bytes.to_vec(), [&whole[10..30], &whole[90..]].concat());
}
