//! One chunk at a time, and what stands in the books then.

use std::path::Path;
use std::time::Duration;

use forebay_ledger::{LedgerReader, RunWriter, Tally};
use forebay_ring::{Consumers, RingSetMemory};
use forebay_sys::control::Control;

use super::*;
use crate::presets;
use forebay_testing::residuals::off;

/// Tags of the two sources, and one of nobody.
const TAGS: [u64; 2] = [0x1000_0000_0000_0000, 0x1000_0000_0001_0000];
const NOBODY: u64 = 7;
/// Bytes of a chunk, and those of its sub-event, padded.
const CHUNK: usize = 13;
const SUB_BYTES: u64 = 32;

fn plan() -> Plan {
    let local = std::net::Ipv4Addr::LOCALHOST.into();
    let mut plan = presets::plan("test", Path::new("."), local, 50_000, 2);
    plan.sinks = vec![presets::null_sink()];
    plan.ports.clear();
    for (source, tag) in plan.sources.iter_mut().zip(TAGS) {
        source.key = SourceKey::Elink(tag);
        source.ring_bytes = 512 << 10;
    }
    plan.receiver.full = FullPolicy::Drop;
    plan.elinks = Some(presets::elinks(&[]));
    plan
}

/// What outlives an intake.
struct Bench {
    plan: Plan,
    books: Books,
    words: Words,
    memory: RingSetMemory,
    control: StageControl,
    _supervisor: Control,
}

impl Bench {
    fn new() -> Self {
        let plan = plan();
        let books = Books::declare(&plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        RunWriter::format(&books.schema, &words, 1, 0).unwrap();
        let memory = RingSetMemory::create(&plan.event_rings()).unwrap();
        let (supervisor, control) = Control::pair(Duration::from_secs(1)).unwrap();
        Self {
            plan,
            books,
            words,
            memory,
            control: StageControl::from(control),
            _supervisor: supervisor,
        }
    }

    fn intake(&self) -> Intake<'_> {
        let elinks = self.plan.elinks.as_ref().unwrap();
        let rings = self.memory.producer_fds().unwrap();
        let (words, leak) = (&self.words, Leak::off());
        Intake::attach(&self.plan, elinks, words, rings, &self.control, leak).unwrap()
    }

    /// What the ledger says of a term.
    fn tally(&self, term: Tally) -> (u64, u64) {
        let reader = LedgerReader::open(&self.words).unwrap();
        reader.snapshot().unwrap().tally(term)
    }

    fn assert_closed(&self) {
        let reader = LedgerReader::open(&self.words).unwrap();
        assert_eq!(off(&reader.snapshot().unwrap().balance()), []);
    }

    fn chunks(&self) -> &ChunkWords {
        self.books.chunks.as_ref().unwrap()
    }

    fn dropped(&self, source: usize, why: ChunkDrop) -> (u64, u64) {
        self.tally(self.chunks().sources[source].receiver.lost(why))
    }
}

/// A chunk comes whole, as messaging brings it.
fn come(intake: &mut Intake<'_>, tag: u64, chunk: &[u8]) {
    intake.arrived(chunk.len() as u64);
    let copy = |into: &mut Vec<u8>| into.extend_from_slice(chunk);
    intake.take(tag, 0, chunk.len() as u64, copy);
}

#[test]
fn what_comes_what_is_made_of_it_and_what_a_ring_carries_are_counts_of_their_own() {
    let bench = Bench::new();
    let mut intake = bench.intake();
    let long = vec![0; intake.chunk_bytes_max + 1];
    for tag in [TAGS[0], TAGS[1], TAGS[0], NOBODY, TAGS[0]] {
        come(&mut intake, tag, &[1; CHUNK]);
    }
    come(&mut intake, TAGS[1], &[1; 3]);
    come(&mut intake, TAGS[0], &long);
    intake.flush();
    bench.assert_closed();
    let long = long.len() as u64;
    let (words, chunk) = (bench.chunks(), CHUNK as u64);
    let arrival = &words.arrival;
    assert_eq!(bench.tally(arrival.incoming), (7, 5 * chunk + 3 + long));
    assert_eq!(bench.tally(arrival.outgoing), (6, 4 * chunk + 3 + long));
    assert_eq!(
        bench.tally(arrival.lost(ArrivalDrop::UnknownElink)),
        (1, chunk)
    );
    for (source, good, bad, bad_bytes) in [(0, 3, 1, long), (1, 1, 1, 3)] {
        let words = &words.sources[source];
        let came = (good + bad, good * chunk + bad_bytes);
        assert_eq!(bench.tally(words.receiver.incoming), came);
        assert_eq!(bench.tally(words.receiver.outgoing), (good, good * chunk));
        assert_eq!(bench.tally(words.receiver.held), (0, 0));
        for term in [words.queue.incoming, words.queue.outgoing, words.published] {
            assert_eq!(bench.tally(term), (good, good * SUB_BYTES), "{source}");
        }
    }
    assert_eq!(bench.dropped(0, ChunkDrop::TooLong), (1, long));
    assert_eq!(bench.dropped(1, ChunkDrop::NoL1id), (1, 3));
    // The other end counts the same by itself.
    let fds = bench.memory.consumer_fds().unwrap();
    let mut consumers = Consumers::map(&bench.plan.event_rings(), fds).unwrap();
    for (ring, good) in consumers.rings.iter_mut().zip([3, 1]) {
        while ring.next().unwrap().is_some() {}
        assert_eq!(ring.carried().items, good);
    }
}

#[test]
fn what_a_full_queue_does_not_take_is_lost_by_name() {
    let bench = Bench::new();
    let mut intake = bench.intake();
    for _ in 0..300 {
        for _ in 0..100 {
            come(&mut intake, TAGS[0], &[1; CHUNK]);
        }
        intake.flush();
    }
    bench.assert_closed();
    let words = &bench.chunks().sources[0];
    let (went, lost) = (
        bench.tally(words.receiver.outgoing).0,
        bench.dropped(0, ChunkDrop::QueueFull).0,
    );
    assert!(went > 0 && lost > 0, "{went} went, {lost} are lost");
    assert_eq!(bench.tally(words.queue.incoming).0, went);
    assert_eq!(intake.book.value(words.unsaid), lost);
}

/// What a receiver had gathered when it was killed is lost to its death, once, and the builder hears of it with the next message.
#[test]
fn what_a_killed_receiver_had_gathered_is_lost_to_the_crash() {
    let bench = Bench::new();
    let mut killed = bench.intake();
    come(&mut killed, TAGS[0], &[1; CHUNK]);
    killed.flush();
    for _ in 0..2 {
        come(&mut killed, TAGS[0], &[1; CHUNK]);
    }
    // In the books and not in the ring.
    killed.commit();
    bench.assert_closed();
    let words = &bench.chunks().sources[0];
    assert_eq!(bench.tally(words.receiver.held), (2, 2 * CHUNK as u64));
    drop(killed);
    for life in 0..2 {
        let mut successor = bench.intake();
        assert_eq!(successor.lanes[0].unsaid, Unsaid::restored(2 * (1 - life)));
        come(&mut successor, TAGS[0], &[1; CHUNK]);
        successor.flush();
        bench.assert_closed();
        assert_eq!(bench.tally(words.receiver.held), (0, 0));
        let crashed = bench.dropped(0, ChunkDrop::Crash);
        assert_eq!(crashed, (2, 2 * CHUNK as u64), "life {life}");
    }
}
