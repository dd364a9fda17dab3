//! What one round of the builder leaves for its commit, and when it says that events were built.

use std::path::Path;

use forebay_ledger::RunWriter;
use forebay_ring::{Meta, Producers, RingSetMemory};
use forebay_sys::control::Control;
use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::SubEventRepr;

use super::*;
use crate::plan::Completion;
use crate::presets;
use crate::stages::{Hello, Role};

/// Bytes behind a message's sub-events.
const TRAILER_BYTES: usize = 32;

fn plan(completion: Completion) -> Plan {
    let local = std::net::Ipv4Addr::LOCALHOST.into();
    let mut plan = presets::plan("test", Path::new("."), local, 1, 2);
    plan.builder.completion = completion;
    plan.sinks = vec![presets::null_sink()];
    plan
}

/// The builder's words, its rings seen from the receiver, and its side of a control channel.
struct Bench {
    books: Books,
    words: Words,
    rings: Producers,
    memory: RingSetMemory,
    control: StageControl,
    _supervisor: Control,
}

impl Bench {
    fn new(plan: &Plan) -> Self {
        let books = Books::declare(plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        RunWriter::format(&books.schema, &words, 1, 0).unwrap();
        let memory = RingSetMemory::create(&plan.event_rings()).unwrap();
        let rings = Producers::map(&plan.event_rings(), memory.producer_fds().unwrap()).unwrap();
        let (near, far) = Control::pair(Duration::from_secs(10)).unwrap();
        let hello = Hello {
            role: Role::Builder,
            plan: plan.clone(),
            restarts: 0,
            fds: Vec::new(),
            supervisor: 0,
        };
        near.send(&serde_json::to_vec(&hello).unwrap(), &[])
            .unwrap();
        let (control, ..) = StageControl::greet::<Role, Plan>(far).unwrap();
        Self {
            books,
            words,
            rings,
            memory,
            control,
            _supervisor: near,
        }
    }

    fn stage<'a>(&'a self, plan: &'a Plan) -> Stage<'a> {
        let parts = BuilderParts {
            words: self.words.clone(),
            rings: self.memory.consumer_fds().unwrap(),
            sinks: vec![SinkParts {
                producer: Vec::new(),
                consumer: Vec::new(),
            }],
        };
        Stage::attach(plan, parts, &self.control, Leak::off()).unwrap()
    }

    fn send(&mut self, source: usize, triggers: impl Iterator<Item = u32>) {
        let mut writer = MessageWriter::new(ByteOrder::Big);
        let mut items = 0;
        for trigger in triggers {
            let sub = SubEventRepr {
                id: 0x8000 + source as u32,
                trigger_word: trigger << 8 | 1,
                ..SubEventRepr::default()
            };
            writer.push(&sub, &[0; 8]).unwrap();
            items += 1;
        }
        let message = writer.finish();
        let kept = &message[..message.len() - TRAILER_BYTES];
        let ring = &mut self.rings.rings[source];
        let mut loan = ring.reserve(kept.len()).unwrap();
        loan.copy_from_slice(kept);
        let meta = Meta {
            items,
            tag: 0,
            flags: 0,
            stamp_ns: 0,
        };
        loan.commit(kept.len(), meta);
        ring.publish();
    }
}

#[test]
fn losses_of_events_given_up_do_not_gather_without_bound() {
    let plan = plan(Completion::Discard);
    let mut bench = Bench::new(&plan);
    // Each of these events lacks source 1, and none follows the one before: a lost range each.
    bench.send(0, (0..4000).map(|index| 2 * index));
    bench.rings.rings[1].close();
    let mut stage = bench.stage(&plan);
    stage.pull(1);
    assert!(!stage.build(1));
    let waiting = std::iter::from_fn(|| stage.builder.poll_loss()).count();
    assert!(
        waiting <= EVENTS_PER_COMMIT as usize,
        "{waiting} lost ranges wait for the loss table"
    );
}

#[test]
fn the_span_begins_with_the_first_message_and_ends_with_the_last_event() {
    let plan = plan(Completion::Partial);
    let mut bench = Bench::new(&plan);
    for source in 0..2 {
        bench.send(source, 0..100);
    }
    let before_ns = clock::monotonic_ns();
    let mut stage = bench.stage(&plan);
    stage.pull(before_ns);
    let unix_now = || (clock::realtime_ns() / 1_000_000_000).cast_signed();
    let before_s = unix_now();
    stage.build(before_ns);
    let built_s = stage.out.unix_s();
    assert!(
        (before_s..=unix_now()).contains(&built_s),
        "events are dated {built_s}"
    );
    stage.commit();
    let [first_ns, last_ns] = bench
        .books
        .span
        .map(|word| stage.writer.restore().value(word));
    assert!(
        before_ns <= first_ns && first_ns < last_ns && last_ns <= clock::monotonic_ns(),
        "{before_ns} {first_ns} {last_ns}"
    );
}

#[test]
fn what_is_taken_off_a_ring_is_counted_once_whoever_reads_it_again() {
    let plan = plan(Completion::Wait);
    let mut bench = Bench::new(&plan);
    // Source 1 sends nothing, so that all of this is held and read again by a successor.
    bench.send(0, 0..100);
    let taken = bench.books.builder.sources[0].taken;
    for life in 0..2 {
        let mut stage = bench.stage(&plan);
        stage.pull(1);
        stage.build(1);
        stage.commit_all();
        let book = stage.writer.restore();
        assert_eq!(book.tally(taken), (100, 2_400), "life {life}");
    }
}
