//! One message at a time, and what stands in the books then.

use std::path::Path;

use forebay_ledger::{LedgerReader, RunWriter};
use forebay_ring::{Consumers, RingSetMemory};
use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::SubEventRepr;

use super::*;
use crate::plan::SourceKey;
use crate::presets;
use forebay_testing::residuals::off;

/// Bytes of each sub-event, padded.
const SUB_BYTES: usize = 40;

fn plan(sources: usize) -> Plan {
    let local = std::net::Ipv4Addr::LOCALHOST.into();
    let mut plan = presets::plan("test", Path::new("."), local, 50_000, sources);
    plan.sinks = vec![presets::null_sink()];
    plan
}

/// Lanes of the plan's only port, their rings and their ledger.
struct Bench {
    books: Books,
    words: Words,
    lanes: Lanes,
    producers: Producers,
    memory: RingSetMemory,
    plan: Plan,
}

impl Bench {
    fn new(plan: Plan) -> Self {
        let books = Books::declare(&plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        RunWriter::format(&books.schema, &words, 1, 0).unwrap();
        let spec = plan.event_rings();
        let memory = RingSetMemory::create(&spec).unwrap();
        let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let lanes = Lanes::attach(&plan, 0, &books, &words, &mut producers).unwrap();
        Self {
            books,
            words,
            lanes,
            producers,
            memory,
            plan,
        }
    }

    fn take(&mut self, payload: &[u8], leak: &mut Leak) {
        let arrival = Arrival {
            payload,
            from: None,
            stamp_ns: 0,
        };
        self.lanes.count_in(0, payload.len() as u64);
        self.lanes.take(0, &arrival, &mut self.producers, leak);
    }

    /// The lines of the balance that are off, each with its items and bytes.
    fn off(&self) -> Vec<(String, i128, i128)> {
        let snapshot = LedgerReader::open(&self.words).unwrap().snapshot().unwrap();
        off(&snapshot.balance())
    }
}

/// A message of so many sub-events; of a broken one the last has a size that cannot be.
fn message(count: u32, broken: bool) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    for number in 0..count {
        let sub = SubEventRepr {
            id: 0x8000,
            trigger_word: number << 8,
            ..SubEventRepr::default()
        };
        writer.push(&sub, &[1; SUB_BYTES - 16]).unwrap();
    }
    let mut bytes = writer.finish().to_vec();
    if broken {
        let last = UNIT_HEADER_BYTES + (count as usize - 1) * SUB_BYTES;
        bytes[last..last + 4].fill(0x7f);
    }
    bytes
}

#[test]
fn what_comes_to_the_queue_what_goes_and_what_the_ring_carries_are_three_counts() {
    let mut bench = Bench::new(plan(1));
    bench.take(&message(3, false), &mut Leak::off());
    bench.take(&message(2, true), &mut Leak::off());
    bench.lanes.commit(1, &mut bench.producers);
    assert_eq!(bench.off(), []);
    let words = &bench.books.ports[0].sources[0];
    let book = &bench.lanes.book;
    assert_eq!(book.tally(words.queue.incoming), (5, 200));
    assert_eq!(book.tally(words.queue.outgoing), (4, 160));
    assert_eq!(
        book.tally(words.queue.lost(QueueDrop::BrokenSubEvent)),
        (1, 40)
    );
    assert_eq!(book.tally(words.published), (4, 160));
    // The other end counts the same by itself.
    let spec = bench.plan.event_rings();
    let mut consumers = Consumers::map(&spec, bench.memory.consumer_fds().unwrap()).unwrap();
    while consumers.rings[0].next().unwrap().is_some() {}
    let carried = consumers.rings[0].carried();
    let heads = 2 * UNIT_HEADER_BYTES as u64;
    assert_eq!((carried.items, carried.bytes - heads), (4, 160));
}

#[test]
fn a_successor_goes_on_with_what_the_ring_carried_before() {
    let mut bench = Bench::new(plan(1));
    bench.take(&message(3, false), &mut Leak::off());
    bench.lanes.commit(1, &mut bench.producers);
    // In the ring and not in the books: it never was.
    bench.take(&message(9, false), &mut Leak::off());
    drop(bench.producers);
    let spec = bench.plan.event_rings();
    bench.producers = Producers::map(&spec, bench.memory.producer_fds().unwrap()).unwrap();
    let (books, words) = (&bench.books, &bench.words);
    bench.lanes = Lanes::attach(&bench.plan, 0, books, words, &mut bench.producers).unwrap();
    bench.take(&message(2, false), &mut Leak::off());
    bench.lanes.commit(2, &mut bench.producers);
    let published = bench.books.ports[0].sources[0].published;
    assert_eq!(bench.lanes.book.tally(published), (5, 200));
    assert_eq!(bench.off(), []);
}

#[test]
fn a_datagram_of_no_source_comes_in_and_is_dropped() {
    let mut plan = plan(2);
    plan.ports.truncate(1);
    for (index, source) in plan.sources.iter_mut().enumerate() {
        (source.port, source.key) = (0, SourceKey::SubEventId(0x9000 + index as u32));
    }
    let mut bench = Bench::new(plan);
    bench.lanes.stray(77);
    bench.lanes.commit(1, &mut bench.producers);
    assert_eq!(bench.off(), []);
    let stray = bench.books.ports[0].stray.as_ref().unwrap();
    let book = &bench.lanes.book;
    assert_eq!(book.tally(stray.incoming), (1, 77));
    let unknown = stray.lost(ReceiverDrop::First(Reject::UnknownSource));
    assert_eq!(book.tally(unknown), (1, 77));
}
