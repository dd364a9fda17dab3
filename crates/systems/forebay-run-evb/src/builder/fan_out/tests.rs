//! What is offered to a sink whose queue is small.

use std::path::Path;

use forebay_ledger::{RunWriter, Tally};
use forebay_ring::RingSetMemory;

use super::*;
use crate::books::OfferDrop;
use crate::plan::{Backpressure, FilePlan};
use crate::presets;

const QUEUE_BYTES: u64 = 1 << 20;

/// One file sink behind a queue of 1 MiB, of which nobody reads.
struct Bench {
    books: Books,
    out: FanOut,
    book: Book,
    now_ns: u64,
    _queue: RingSetMemory,
}

impl Bench {
    fn new(backpressure: Backpressure) -> Self {
        Self::with_file(backpressure, |_| ())
    }

    /// The same with a setting of its file changed.
    fn with_file(backpressure: Backpressure, change: impl FnOnce(&mut FilePlan)) -> Self {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("test", Path::new("."), local, 0, 1);
        let mut sink = presets::file_sink(".".into(), "te");
        (sink.queue_bytes, sink.backpressure) = (QUEUE_BYTES, backpressure);
        if let SinkKind::File(file) = &mut sink.kind {
            change(file);
        }
        plan.sinks = vec![sink];
        let books = Books::declare(&plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        RunWriter::format(&books.schema, &words, 1, 0).unwrap();
        let writer =
            forebay_ledger::GroupWriter::attach(&books.schema, &words, books.builder.group)
                .unwrap();
        let mut book = writer.restore();
        let queue = RingSetMemory::create(&plan.sink_ring(0)).unwrap();
        let mut out = FanOut::new(&plan, &books, &words, Leak::off()).unwrap();
        let fds = queue.producer_fds().unwrap();
        out.add_queue(0, &plan, &books, fds, &mut book).unwrap();
        Self {
            books,
            out,
            book,
            now_ns: 0,
            _queue: queue,
        }
    }

    /// Offers an event of `bytes`; false when the builder has to wait.
    fn offer(&mut self, bytes: u32) -> bool {
        self.now_ns += 1_000;
        self.out.begin(self.now_ns, 1_700_000_000_000_000_000);
        if self.out.reserve(bytes as usize).is_none() {
            return false;
        }
        self.out.commit(&EventMeta {
            bytes,
            trigger: 1,
            sequence: 1,
            subevents: 1,
            complete: true,
            stamp_ns: 0,
        });
        self.out.seal(&mut self.book);
        true
    }

    fn events(&self, term: impl Fn(&Books) -> Tally) -> u64 {
        self.book.tally(term(&self.books)).0
    }

    fn dropped(&self, reason: OfferDrop) -> u64 {
        self.events(|books| books.offers[0].account.lost(reason))
    }
}

#[test]
fn an_event_that_never_fits_is_dropped_at_once_by_its_own_name() {
    let mut bench = Bench::new(Backpressure::Block { limit_ms: 10_000 });
    for _ in 0..5 {
        assert!(bench.offer(600_000), "the builder waits for an idle sink");
    }
    assert!(bench.offer(QUEUE_BYTES as u32 / 2));
    assert_eq!(bench.dropped(OfferDrop::EventTooLong), 5);
    assert_eq!(bench.dropped(OfferDrop::QueueFull), 0);
    assert_eq!(bench.events(|books| books.offers[0].account.outgoing), 1);
    // The file of the one that fits was not begun for those that do not.
    let first_run = bench.book.value(bench.books.offers[0].first_run);
    assert_eq!(bench.out.offers[0].run(), first_run as u32);
}

#[test]
fn a_block_never_grows_beyond_what_a_small_queue_takes() {
    let mut bench = Bench::new(Backpressure::Drop);
    bench.out.begin(1, 1_700_000_000_000_000_000);
    for bytes in [400_000, 300_000] {
        assert!(bench.out.reserve(bytes).is_some());
        bench.out.commit(&EventMeta {
            bytes: bytes as u32,
            trigger: 1,
            sequence: 1,
            subevents: 1,
            complete: true,
            stamp_ns: 0,
        });
    }
    bench.out.seal(&mut bench.book);
    assert_eq!(bench.events(|books| books.offers[0].account.outgoing), 2);
    assert_eq!(bench.dropped(OfferDrop::QueueFull), 0);
}

#[test]
fn an_event_is_given_the_second_of_the_wall_clock_and_the_run_of_its_file() {
    let mut bench = Bench::new(Backpressure::Drop);
    bench.out.begin(1, 1_700_000_000_999_999_999);
    let slot = bench.out.reserve(100).unwrap();
    assert_eq!((slot.unix_s, slot.bytes.len()), (1_700_000_000, 100));
    assert_eq!(i64::from(slot.run), 1_700_000_000 - RUN_EPOCH_S);
}

/// What the queue has published is what its ring counted, block by block.
#[test]
fn events_and_blocks_are_counted_by_two_parties() {
    let mut bench = Bench::new(Backpressure::Drop);
    for bytes in [96, 200, 304] {
        assert!(bench.offer(bytes));
    }
    let tally = |term: Tally| bench.book.tally(term);
    let offer = &bench.books.offers[0];
    assert_eq!(tally(offer.account.incoming), (3, 600));
    assert_eq!(tally(offer.account.outgoing), (3, 600));
    assert_eq!(tally(offer.published), (3, 600));
}

#[test]
fn a_queue_that_stays_full_is_another_reason() {
    let mut bench = Bench::new(Backpressure::Drop);
    for _ in 0..5 {
        assert!(bench.offer(300_000));
    }
    assert_eq!(bench.dropped(OfferDrop::QueueFull), 2);
    assert_eq!(bench.dropped(OfferDrop::EventTooLong), 0);
}

/// The wall clock stands still here: it has no part in this.
#[test]
fn a_file_gets_no_older_than_it_may() {
    const S: u64 = 1_000_000_000;
    let mut bench = Bench::with_file(Backpressure::Drop, |file| file.seconds_max = 3);
    let mut runs = Vec::new();
    for tenth in 0..91 {
        bench.now_ns = 7 * S + tenth * S / 10;
        assert!(bench.offer(100));
        runs.push(bench.book.value(bench.books.offers[0].rotation[0]));
    }
    let changes = (1..runs.len()).filter(|at| runs[*at] != runs[at - 1]);
    assert_eq!(changes.collect::<Vec<_>>(), [30, 60, 90]);
}
