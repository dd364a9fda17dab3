//! Sources that are late, silent, dying, coming back; messages that are lost, doubled, overtaken.

mod harness;

use forebay_emu::world::Layer;
use forebay_emu::{Config as Emulated, Fault, FaultRule, Group, Pick};
use forebay_evb::{Cause, Completion, Config, SubEventDrop};
use harness::world::{Run, run, run_hostile};
use harness::{MS, Rig, subs};

const N: usize = 6;
const BAD: usize = 3;
const EVENTS: u64 = 2_000;

fn emulated(seed: u64, water_mark_bytes: Option<u32>) -> Emulated {
    let mut emulated = Emulated::new(seed, vec![Group::new(N, 116, 10.0)], 10_000.0);
    emulated.limit.events = Some(EVENTS);
    emulated.transport.water_mark_bytes = water_mark_bytes;
    emulated.transport.flush_ns = Some(20 * MS);
    emulated
}

fn config() -> Config {
    let mut config = Config::new(N);
    config.timeout_ns = 100 * MS;
    config
}

/// Runs with one fault of source [`BAD`]; all events must be there and the other sources must not notice.
fn with_fault(rule: FaultRule, water_mark_bytes: Option<u32>) -> Run {
    let mut emulated = emulated(5, water_mark_bytes);
    emulated.faults = vec![rule];
    let run = run(&emulated, Vec::new(), config());
    assert_eq!(run.check.events.len() as u64, EVENTS);
    for source in (0..N).filter(|source| *source != BAD) {
        assert_eq!(
            run.check.sources[source].all_dropped(),
            0,
            "source {source}"
        );
        assert_eq!(run.check.sources[source].missing, 0, "source {source}");
    }
    run
}

fn bad(fault: Fault) -> FaultRule {
    FaultRule::new(BAD, fault)
}

#[test]
fn single_skipped_triggers() {
    for mark in [None, Some(2_000)] {
        let run = with_fault(bad(Fault::Silent).pick(Pick::Every(50)), mark);
        let skipped: Vec<u32> = (0..EVENTS as u32)
            .filter(|trigger| trigger % 50 == 0)
            .collect();
        assert_eq!(run.check.without(BAD), skipped);
        assert_eq!(run.foreign, 0);
    }
}

/// It is waited for once, and not again until it speaks: the first message of its return may be late.
#[test]
fn a_source_that_dies_and_comes_back() {
    for (mark, late) in [(None, 0), (Some(2_000), 20)] {
        let run = with_fault(bad(Fault::Silent).during(500..1_500), mark);
        let without = run.check.without(BAD);
        assert!(
            without.iter().is_sorted_by(|a, b| **b == **a + 1),
            "{without:?}"
        );
        assert_eq!(without[0], 500);
        let source = run.check.sources[BAD];
        assert!(source.all_dropped() <= late, "{source:?}");
        assert_eq!(source.missing, 1_000, "what came late is not lost as well");
    }
}

/// Numbers that tell of a silence: whether it lasts, events without the source since its last message, and all that ended.
fn silence(rig: &mut Rig, source: usize) -> (bool, u64, [u64; 3]) {
    rig.commit();
    let (book, accounts) = rig.book();
    let words = &accounts.sources[source];
    let ended = words.ended.map(|word| book.value(word));
    (
        book.value(words.silent) == 1,
        book.value(words.unheard),
        ended,
    )
}

#[test]
fn a_silence_is_counted_from_the_last_message_and_its_totals_stay() {
    for completion in [Completion::Partial, Completion::Wait] {
        let mut config = Config::new(3);
        config.timeout_ns = 100 * MS;
        config.completion = completion;
        let mut rig = Rig::new(config);
        rig.pass(7 * MS);
        (0..2).for_each(|source| rig.send(source, &subs(0..40)));
        // It leaves out a trigger before it stops: that is no silence.
        rig.send(2, &[subs(0..4), subs(5..10)].concat());
        rig.poll();
        assert_eq!(silence(&mut rig, 2), (false, 0, [0; 3]));
        rig.pass(5_000 * MS);
        assert_eq!(silence(&mut rig, 2), (true, 30, [0; 3]), "{completion:?}");
        rig.restart();
        rig.pass(1_000 * MS);
        rig.send_all(&subs(40..50));
        rig.poll();
        let ended = [1, 6_000 * MS, 30];
        assert_eq!(silence(&mut rig, 2), (false, 0, ended), "{completion:?}");
        // Sources that close are not silent.
        rig.send(0, &subs(50..60));
        (0..3).for_each(|source| rig.close(source));
        rig.pass(1_000 * MS);
        for source in [1, 2] {
            let ended = if source == 2 { ended } else { [0; 3] };
            assert_eq!(silence(&mut rig, source), (false, 0, ended));
        }
        rig.finish();
    }
}

#[test]
fn a_source_that_is_never_there() {
    let run = with_fault(bad(Fault::Silent), Some(2_000));
    assert_eq!(run.check.partial, EVENTS);
    assert_eq!(run.check.causes(BAD).len(), 1, "one range of lost triggers");
}

#[test]
fn a_source_late_by_less_than_the_time_out_costs_nothing() {
    let run = with_fault(bad(Fault::Late { ns: 50 * MS }), Some(2_000));
    assert_eq!(run.check.complete, EVENTS);
}

#[test]
fn a_source_late_by_more_than_the_time_out_is_dropped_as_late() {
    let mut emulated = emulated(5, None);
    emulated.limit.events = Some(12_000);
    emulated.faults = vec![bad(Fault::Late { ns: 500 * MS }).during(0..1_000)];
    let run = run(&emulated, Vec::new(), config());
    let source = run.check.sources[BAD];
    assert!(source.lost(SubEventDrop::Late) > 1_000, "{source:?}");
    assert_eq!(source.all_dropped(), source.lost(SubEventDrop::Late));
    assert_eq!(source.missing, 0, "all of it came");
    // Half a second is 5,000 events; then it is in time again.
    let recovered = run.check.without(BAD).into_iter().max();
    assert!(recovered < Some(7_000), "late for ever: {recovered:?}");
}

#[test]
fn lost_messages_are_missing_where_they_were() {
    for mark in [None, Some(2_000)] {
        let run = with_fault(bad(Fault::DropMessage).pick(Pick::Chance(0.1)), mark);
        let lost = EVENTS - run.sent[BAD];
        assert!(lost > 50, "{lost}");
        assert_eq!(run.check.sources[BAD].missing, lost);
        assert_eq!(run.check.sources[BAD].all_dropped(), 0);
    }
}

#[test]
fn duplicated_messages_are_dropped_whole() {
    for mark in [None, Some(2_000)] {
        let run = with_fault(bad(Fault::DuplicateMessage).pick(Pick::Every(9)), mark);
        let twice = run.sent[BAD] - EVENTS;
        assert_eq!(run.check.complete, EVENTS);
        assert_eq!(run.check.sources[BAD].lost(SubEventDrop::Duplicate), twice);
    }
}

#[test]
fn overtaken_messages_are_late_and_not_missing() {
    for mark in [None, Some(2_000)] {
        let run = with_fault(bad(Fault::ReorderMessage).pick(Pick::Every(10)), mark);
        let source = run.check.sources[BAD];
        assert_eq!(source.missing, 0, "all of it came");
        // What overtakes is out of order if it is there with what it overtook; else that is late.
        let named = source.lost(SubEventDrop::Late) + source.lost(SubEventDrop::OutOfWindow);
        assert_eq!(named, source.all_dropped());
        assert!(source.all_dropped() <= EVENTS / 5, "{source:?}");
    }
}

#[test]
fn wrong_tags_and_wrong_numbers_cost_themselves_only() {
    let faults = [
        (Fault::WrongTag, SubEventDrop::TagMismatch),
        (Fault::Ahead { triggers: 300 }, SubEventDrop::OutOfWindow),
        (
            Fault::Ahead { triggers: 1 << 20 },
            SubEventDrop::OutOfWindow,
        ),
    ];
    for (fault, reason) in faults {
        for mark in [None, Some(2_000)] {
            let run = with_fault(bad(fault).pick(Pick::Every(70)), mark);
            let source = run.check.sources[BAD];
            let wrong = EVENTS.div_ceil(70);
            assert_eq!(
                (source.missing, source.lost(reason)),
                (0, wrong),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn numbers_that_are_behind_cost_themselves_only() {
    // Number and tag are those of a trigger that was built: it is one that came twice, as far as anybody can tell.
    for mark in [None, Some(2_000)] {
        let rule = bad(Fault::Ahead { triggers: -300 }).during(400..2_000);
        let run = with_fault(rule.pick(Pick::Every(70)), mark);
        let source = run.check.sources[BAD];
        assert_eq!(
            (source.missing, source.all_dropped()),
            (23, 23),
            "{source:?}"
        );
    }
}

#[test]
fn data_errors_are_flagged() {
    let run = with_fault(bad(Fault::DataError).pick(Pick::Every(40)), Some(2_000));
    let errors = run
        .check
        .events
        .iter()
        .filter(|event| event.id.has_data_error());
    assert_eq!((errors.count(), run.check.complete), (50, EVENTS));
}

#[test]
fn broken_sizes_cost_the_rest_of_their_message() {
    let run = with_fault(bad(Fault::BadSize).pick(Pick::Every(100)), Some(2_000));
    let source = run.check.sources[BAD];
    assert_eq!(source.all_dropped(), 0, "the receiving side cuts it off");
    assert!((20..600).contains(&source.missing), "{source:?}");
}

/// A network that loses, doubles, delays and reorders datagrams of all sources.
#[test]
fn a_bad_network() {
    for seed in 0..8 {
        println!("seed {seed}");
        for mark in [None, Some(2_000)] {
            let layers = vec![
                Layer::Lose(0.01),
                Layer::Duplicate(0.01),
                Layer::Reorder {
                    chance: 0.01,
                    ns: 3 * MS,
                },
            ];
            let run = run(&emulated(seed, mark), layers, config());
            // Of six sources 1 % is lost each: 94 % of the events are complete in the mean, and nothing but a loss costs one.
            let complete = run.check.complete;
            assert!(
                complete > EVENTS / 100 * 88 && complete < EVENTS,
                "{complete} complete, mark {mark:?}"
            );
            assert_eq!((run.foreign, run.check.resynchronised), (0, 0));
        }
    }
}

#[test]
fn bits_flipped_on_the_way() {
    for seed in 0..8 {
        println!("seed {seed}");
        let layers = vec![Layer::Corrupt(0.02)];
        let run = run_hostile(&emulated(seed, Some(2_000)), layers, config());
        assert!(run.check.complete > EVENTS / 3, "{}", run.check.complete);
        assert_eq!(run.check.resynchronised, 0);
    }
}

/// A source that ends before the others.
#[test]
fn a_closed_source_is_not_waited_for() {
    let mut rig = Rig::new(config());
    rig.send_all(&subs(0..100));
    rig.poll();
    rig.close(BAD);
    for source in (0..N).filter(|source| *source != BAD) {
        rig.send(source, &subs(100..200));
    }
    rig.poll();
    assert_eq!((rig.sink.events.len(), rig.now_ns), (200, 0));
    let check = rig.finish();
    assert_eq!(check.causes(BAD), [(Cause::Closed, 100, 199)]);
}

/// A dead source costs one time-out, and none for each event.
#[test]
fn a_dead_source_costs_one_time_out() {
    let mut rig = Rig::new(config());
    rig.send_all(&subs(0..100));
    let alive: Vec<usize> = (0..N).filter(|source| *source != BAD).collect();
    alive
        .iter()
        .for_each(|source| rig.send(*source, &subs(100..110)));
    rig.pass(99 * MS);
    assert_eq!(rig.sink.events.len(), 100);
    rig.pass(MS);
    assert_eq!(rig.sink.events.len(), 110);
    alive
        .iter()
        .for_each(|source| rig.send(*source, &subs(110..200)));
    rig.poll();
    assert_eq!(rig.sink.events.len(), 200);
    rig.finish();
}
