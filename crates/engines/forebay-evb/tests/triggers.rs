//! Triggers that no source delivered, held against the emulator's own record of those that it gave.

mod harness;

use std::ops::Range;

use forebay_emu::{Config as Emulated, Fault, FaultRule, Group, Pick, Spill};
use forebay_evb::{Cause, Config, SubEventDrop};
use forebay_wire::subevent::TriggerBits;
use harness::world::{Run, run};
use harness::{MS, Rig, Sub, sub, subs};
use proptest::prelude::*;

const N: usize = 4;
const EVENTS: u64 = 1_200;
/// So many triggers missing before number 0 are a restart.
const RESTART_GAP_MIN: u64 = 64;

fn emulated(seed: u64, bits: TriggerBits, first: u32) -> Emulated {
    let mut emulated = Emulated::new(seed, vec![Group::new(N, 60, 5.0)], 10_000.0);
    emulated.limit.events = Some(EVENTS);
    emulated.transport.water_mark_bytes = None;
    emulated.transport.flush_ns = Some(20 * MS);
    (emulated.trigger.bits, emulated.trigger.first) = (bits, first & bits.mask());
    emulated
}

fn config(bits: TriggerBits) -> Config {
    let mut config = Config::new(N);
    (config.timeout_ns, config.trigger_bits) = (100 * MS, bits);
    config
}

/// The same fault in every source.
fn everywhere(fault: Fault, during: Range<u64>) -> Vec<FaultRule> {
    let rule = |source| FaultRule::new(source, fault).during(during.clone());
    (0..N).map(rule).collect()
}

fn bits() -> impl Strategy<Value = TriggerBits> {
    prop_oneof![Just(TriggerBits::Sixteen), Just(TriggerBits::TwentyFour)]
}

/// And a number at which 0 is neither the next one nor one of those built lately: else a restart cannot be seen.
fn bits_and_last() -> impl Strategy<Value = (TriggerBits, u32)> {
    bits().prop_flat_map(|bits| (Just(bits), 20_000..bits.mask() - 100))
}

/// Ranges of triggers that nobody delivers, apart from each other, inside the run.
fn holes() -> impl Strategy<Value = Vec<Range<u64>>> {
    proptest::collection::vec((1..80_u64, 1..200_u64), 0..5).prop_map(|pairs| {
        let mut at = 0;
        let ranges = pairs.into_iter().map(|(before, items)| {
            let first = at + before;
            at = first + items;
            first..at
        });
        ranges.collect()
    })
}

/// What the emulator says was given and made by nobody is what the builder says nobody delivered.
fn assert_true(run: &Run, holes: &[Range<u64>]) {
    let items = |hole: &Range<u64>| hole.end - hole.start;
    let lost: u64 = holes.iter().map(items).sum();
    let silent = run.silent.iter().min().copied().unwrap_or(0);
    assert!(silent >= lost, "{silent} of the emulator, {lost} asked for");
    assert_eq!((run.check.span, run.check.unseen), (run.events, lost));
    let listed: Vec<u64> = run.check.gaps.iter().map(|gap| gap.items).collect();
    assert_eq!(listed, holes.iter().map(items).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Holes in the numbers, in both widths, across their wraps, in spills or not, beside a source with holes of its own.
    #[test]
    fn gaps_are_the_triggers_that_nobody_delivered(
        seed: u64, bits in bits(), first in prop_oneof![any::<u32>(), Just(0), Just(u32::MAX - 300)],
        holes in holes(), spill: bool, water_mark in prop_oneof![Just(None), Just(Some(400))],
    ) {
        // Behind many missing triggers, 0 looks as it does after a restart.
        let at_0 = |hole: &Range<u64>| first.wrapping_add(hole.end as u32) & bits.mask() == 0;
        prop_assume!(!holes.iter().any(|hole| at_0(hole) && hole.end - hole.start >= RESTART_GAP_MIN));
        let mut emulated = emulated(seed, bits, first);
        emulated.transport.water_mark_bytes = water_mark;
        emulated.trigger.spill = spill.then_some(Spill { period_ns: 60 * MS, length_ns: 20 * MS });
        emulated.faults = holes.iter().flat_map(|hole| everywhere(Fault::Silent, hole.clone())).collect();
        emulated.faults.push(FaultRule::new(1, Fault::Silent).pick(Pick::Chance(0.1)));
        let run = run(&emulated, Vec::new(), config(bits));
        assert_true(&run, &holes);
        // What a source never sent for the events that were there is what is inferred of it.
        let sent_by_all = run.events - run.check.unseen;
        for (source, balance) in run.check.sources.iter().enumerate() {
            prop_assert_eq!(balance.missing, sent_by_all - run.sent[source], "source {}", source);
        }
    }

    /// Sources that begin again at 0 lose nothing by it, wherever they were.
    #[test]
    fn a_restart_at_0_is_no_gap(seed: u64, (bits, there) in bits_and_last(), at in 300..900_u64) {
        let mut emulated = emulated(seed, bits, there - at as u32);
        emulated.faults = everywhere(Fault::Restart { from_zero: true }, at..u64::MAX);
        let run = run(&emulated, Vec::new(), config(bits));
        prop_assert_eq!((run.check.span, run.check.unseen), (run.events, 0));
        prop_assert_eq!(run.check.resynchronised, 1);
    }
}

/// A gap that ends right before 0 may as well be a restart: when it is long it is told as one, and nothing is told missing.
#[test]
fn a_long_gap_up_to_0_is_taken_for_a_restart() {
    for bits in [TriggerBits::Sixteen, TriggerBits::TwentyFour] {
        for (items, end, restarts) in [
            (RESTART_GAP_MIN - 1, 0, 0),
            (RESTART_GAP_MIN, 0, 1),
            (200, 0, 1),
            (200, 1, 0),
            (200, bits.mask(), 0),
        ] {
            let hole = 500 - items..500;
            let mut emulated = emulated(3, bits, u32::wrapping_sub(end, 500));
            emulated.faults = everywhere(Fault::Silent, hole);
            let check = run(&emulated, Vec::new(), config(bits)).check;
            let missing = if restarts == 0 { items } else { 0 };
            let told = (check.resynchronised, check.unseen, check.span);
            let gone = items - missing;
            assert_eq!(
                told,
                (restarts, missing, EVENTS - gone),
                "{items} before {end}"
            );
            assert_eq!(check.complete, EVENTS - items);
        }
    }
}

/// What was before the first trigger seen, and behind the last one, is nobody's to say.
#[test]
fn a_run_that_starts_late_has_no_gap() {
    let mut emulated = emulated(3, TriggerBits::TwentyFour, 77_000);
    emulated.faults = everywhere(Fault::Silent, 0..400);
    emulated
        .faults
        .extend(everywhere(Fault::Silent, 1_000..EVENTS));
    let run = run(&emulated, Vec::new(), config(TriggerBits::TwentyFour));
    assert_eq!((run.check.span, run.check.unseen), (600, 0));
}

/// More triggers than the window in which a source may be ahead: all went on counting while nothing of theirs came.
#[test]
fn a_gap_longer_than_the_window_counts() {
    let mut rig = Rig::new(config(TriggerBits::TwentyFour));
    let window = rig.config.window_events;
    for from in [40_000, 40_010 + 3 * window] {
        rig.send_all(&harness::subs(from..from + 10));
        rig.pass(300 * MS);
    }
    let check = rig.finish();
    assert_eq!(
        (check.span, check.unseen),
        (20 + 3 * u64::from(window), 3 * u64::from(window))
    );
}

/// The same where all that came in between was refused, of one source all, of the others every second, third and fourth one.
#[test]
fn what_was_refused_in_a_gap_longer_than_the_window_is_not_missing() {
    for bits in [TriggerBits::Sixteen, TriggerBits::TwentyFour] {
        for all in [true, false] {
            let mut config = config(bits);
            config.window_events = 4_000;
            let mut rig = Rig::new(config);
            let items = 12_000;
            let from = bits.mask() - 20_000;
            rig.send_all(&subs(from..from + 10));
            rig.pass(300 * MS);
            for number in from + 10..from + 10 + items {
                for source in 0..N {
                    let every = source as u32 + if all { 1 } else { 2 };
                    if number.is_multiple_of(every) {
                        rig.drop_sub(source, &sub(number));
                    }
                }
            }
            let last = from + 10 + items;
            rig.send_all(&subs(last..last + 10));
            rig.pass(300 * MS);
            let check = rig.finish();
            let of = |number: &u32| {
                [2, 3, 4, 5]
                    .iter()
                    .any(|every| number.is_multiple_of(*every))
            };
            let came = (from + 10..last).filter(of).count() as u64;
            let dropped = if all { u64::from(items) } else { came };
            assert_eq!(check.resynchronised, 1);
            assert_eq!(
                (check.unbuilt, check.unseen),
                (dropped, u64::from(items) - dropped)
            );
            assert_eq!(check.span, u64::from(items) + 20);
        }
    }
}

/// What a note says of events that were closed before it came is found there, in runs of any step.
#[test]
fn a_note_that_comes_behind_its_events_takes_off_what_it_names() {
    let mut rig = Rig::new(config(TriggerBits::TwentyFour));
    let rest = |rig: &mut Rig| {
        rig.commit();
        let (book, accounts) = rig.book();
        let [missing, dropped] = [accounts.triggers_missing, accounts.triggers_dropped];
        [accounts.sources[0].missing, missing, dropped].map(|word| book.value(word))
    };
    rig.send_all(&subs(0..10));
    (1..N).for_each(|source| rig.send(source, &subs(10..40)));
    rig.send_all(&subs(60..70));
    rig.pass(1_000 * MS);
    assert_eq!(rest(&mut rig), [30, 20, 0]);
    // Of the events of the others every third one, in the gap behind them all that is even; some that are not in the numbering yet, and some that were built.
    (12..40)
        .step_by(3)
        .for_each(|number| rig.drop_sub(0, &sub(number)));
    rig.say_dropped(0);
    assert_eq!(rest(&mut rig), [20, 20, 0]);
    (40..60)
        .step_by(2)
        .for_each(|number| rig.drop_sub(0, &sub(number)));
    (60..70).for_each(|number| rig.drop_sub(0, &sub(number)));
    rig.say_dropped(0);
    assert_eq!(rest(&mut rig), [20, 10, 10]);
    // Another source says the same of some of them, and of one more.
    (44..50)
        .chain([53])
        .for_each(|number| rig.drop_sub(2, &sub(number)));
    rig.say_dropped(2);
    assert_eq!(rest(&mut rig), [20, 6, 14]);
    // The other numbers ahead: one event without the source, one with it.
    (70..75).for_each(|number| rig.drop_sub(0, &sub(number)));
    (1..N).for_each(|source| rig.send(source, &subs(70..72)));
    rig.send_all(&subs(77..80));
    rig.pass(1_000 * MS);
    let check = rig.finish();
    assert_eq!((check.unseen, check.unbuilt), (6 + 2, 14 + 3));
    assert_eq!(check.sources[0].missing, 20);
}

/// Every fourth trigger comes here: the others are none of ours.
#[test]
fn triggers_that_are_dealt_out_are_not_missing() {
    let mut config = config(TriggerBits::Sixteen);
    config.trigger_step = 4;
    let mut rig = Rig::new(config);
    let number = |turn: u32| turn.wrapping_mul(4).wrapping_add(65_001) & 0xffff;
    for turn in (0..400).filter(|turn| !(100..130).contains(turn) && turn % 50 != 49) {
        rig.send_all(&[sub(number(turn))]);
        rig.poll();
    }
    rig.commit();
    rig.restart();
    rig.send_all(&[sub(number(402))]);
    rig.poll();
    let check = rig.finish();
    let (own, alone) = (30, 7);
    assert_eq!((check.span, check.unseen), (403, own + alone + 3));
    let gap = check.gaps[1];
    assert_eq!((gap.first, gap.last), (number(99), number(129)));
}

/// A trigger that sources deliver, but too late, is not missing, and its sub-events are late and nothing else.
#[test]
fn a_trigger_that_comes_behind_its_turn_is_late() {
    let mut rig = Rig::new(config(TriggerBits::TwentyFour));
    rig.send_all(&harness::subs(0..10));
    rig.send(0, &harness::subs(12..20));
    rig.pass(300 * MS);
    (1..N).for_each(|source| rig.send(source, &[sub(10)]));
    rig.poll();
    let check = rig.finish();
    for (source, balance) in check.sources.iter().enumerate().skip(1) {
        let late = balance.lost(SubEventDrop::Late);
        assert_eq!((late, balance.all_dropped()), (1, 1), "source {source}");
        assert_eq!(balance.missing, 8, "source {source}");
    }
    assert_eq!((check.span, check.unseen, check.late), (20, 1, 1));
}

/// What all sources deliver later than what comes behind it, in messages or one by one, was delivered, and the numbering goes on: it is built, or it is late.
#[test]
fn messages_that_changed_places_in_all_sources_make_no_gap() {
    for (sources, items, behind) in [(1, 1, 1), (1, 10, 1), (3, 10, 1), (3, 10, 8), (3, 1, 3)] {
        let mut config = Config::new(sources);
        config.timeout_ns = 100 * MS;
        let mut rig = Rig::new(config);
        let message = |number: u32| subs(1_000 + number * items..1_000 + (number + 1) * items);
        let order = (0..10).chain(11..=10 + behind).chain([10]);
        for number in order.chain(11 + behind..40) {
            rig.send_all(&message(number));
            rig.pass(10 * MS);
        }
        let check = rig.finish();
        let what = format!("{sources} sources, {items} in a message, {behind} before it");
        assert_eq!(check.resynchronised, 0, "{what}");
        let items = u64::from(items);
        assert_eq!((check.span, check.unseen), (40 * items, 0), "{what}");
        assert_eq!(check.complete + check.late, 40 * items, "{what}");
        for balance in &check.sources {
            let dropped =
                balance.lost(SubEventDrop::Late) + balance.lost(SubEventDrop::OutOfWindow);
            assert_eq!(dropped, check.late, "{what}");
            assert_eq!(balance.all_dropped(), check.late, "{what}");
            assert_eq!(balance.missing, 0, "{what}");
        }
    }
}

/// Numbers that step back into a gap and go on from there through those that were built: the gap gets smaller, and there is no other one.
#[test]
fn numbers_that_step_back_and_go_on_from_there_make_no_gap() {
    let mut config = Config::new(1);
    config.timeout_ns = 100 * MS;
    let mut rig = Rig::new(config);
    for numbers in [0..100, 200..1_000, 150..400] {
        for first in numbers.step_by(10) {
            rig.send(0, &subs(first..first + 10));
            rig.pass(MS);
        }
    }
    let check = rig.finish();
    // From 100 to 149, which never came.
    assert_eq!(check.unseen, 50);
    assert_eq!(check.span, check.complete + 50 + check.late);
}

/// What comes once more behind a pause looks as a new life; where the numbers go on behind the old ones, nothing between is missing.
#[test]
fn numbers_that_go_on_behind_repetitions_have_no_gap() {
    let mut config = Config::new(2);
    config.timeout_ns = 100 * MS;
    let mut rig = Rig::new(config);
    let mut send = |numbers: Range<u32>| {
        for first in numbers.step_by(10) {
            rig.send_all(&subs(first..first + 10));
            rig.pass(10 * MS);
        }
        rig.pass(500 * MS);
    };
    send(0..400);
    send(100..110);
    send(400..600);
    let check = rig.finish();
    assert_eq!((check.unseen, check.span), (0, check.complete));
}

/// For each reason, one sender whose sub-events come and are dropped for it: each is told of in one place, and nothing else is.
#[test]
fn what_came_and_was_dropped_is_not_inferred_lost() {
    const TRIGGERS: u32 = 300;
    type Spoil = fn(u32) -> Sub;
    let wrong_tag: Spoil = |trigger| Sub {
        tag: sub(trigger).tag ^ 1,
        ..sub(trigger)
    };
    let ahead: Spoil = |trigger| Sub {
        trigger: trigger + (1 << 20),
        ..sub(trigger)
    };
    for (spoil, reason) in [
        (wrong_tag, SubEventDrop::TagMismatch),
        (ahead, SubEventDrop::OutOfWindow),
        (sub, SubEventDrop::Late),
    ] {
        let mut rig = Rig::new(config(TriggerBits::TwentyFour));
        for trigger in 0..TRIGGERS {
            for source in 0..N {
                // Of each ten the last source sends six that are sound, three that are not, and one never.
                match (source + 1 == N, trigger % 10) {
                    (true, 9) => {}
                    (true, 2 | 5 | 7) if reason == SubEventDrop::Late => {}
                    (true, 2 | 5 | 7) => rig.send(source, &[spoil(trigger)]),
                    _ => rig.send(source, &[sub(trigger)]),
                }
            }
            rig.pass(MS);
            if reason == SubEventDrop::Late && matches!(trigger % 10, 2 | 5 | 7) {
                rig.pass(300 * MS);
                rig.send(N - 1, &[sub(trigger)]);
                rig.pass(MS);
            }
        }
        let check = rig.finish();
        let source = check.sources[N - 1];
        let sent = u64::from(TRIGGERS) * 9 / 10;
        assert_eq!(source.lost(reason), sent / 3, "{reason:?}: {source:?}");
        assert_eq!(source.all_dropped(), sent / 3, "{reason:?}: {source:?}");
        assert_eq!(source.outgoing.0 + source.all_dropped(), sent);
        assert_eq!(source.missing, u64::from(TRIGGERS) / 10, "{reason:?}");
    }
}

/// The next message says what the receiver dropped before it, whether its event is closed by then or not; at the end a note does.
#[test]
fn what_the_receiver_dropped_is_not_inferred_lost() {
    let mut config = Config::new(2);
    config.timeout_ns = 100 * MS;
    let mut rig = Rig::new(config);
    let missing = |rig: &mut Rig| {
        rig.commit();
        let (book, accounts) = rig.book();
        book.value(accounts.sources[1].missing)
    };
    rig.send(0, &subs(0..80));
    // Five never come, ten are dropped and known of before their events are closed.
    rig.send(1, &[subs(0..5), subs(10..20)].concat());
    rig.drop_before(1, 10);
    rig.send(1, &subs(30..40));
    rig.poll();
    assert_eq!(missing(&mut rig), 5);
    // Twenty are waited for in vain, ten of which were dropped: their message is not yet used when the builder is killed.
    rig.send(0, &subs(80..90));
    rig.send(1, &subs(50..70));
    rig.pass(1_000 * MS);
    assert_eq!(missing(&mut rig), 5 + 10 + 20);
    rig.drop_before(1, 8);
    rig.send(1, &subs(90..100));
    assert_eq!(missing(&mut rig), 27, "the oldest that it owes");
    rig.restart();
    assert_eq!(missing(&mut rig), 27, "said once");
    rig.send(0, &subs(90..110));
    rig.pass(1_000 * MS);
    assert_eq!(missing(&mut rig), 37);
    rig.drop_before(1, 3);
    rig.send(1, &[]);
    rig.pass(1_000 * MS);
    assert_eq!(missing(&mut rig), 34);
    let check = rig.finish();
    assert_eq!(check.sources[1].missing, 34);
    assert_eq!(
        check.causes(1)[..2],
        [(Cause::Skipped, 5, 9), (Cause::Dropped, 20, 29)]
    );
}

/// What becomes of some triggers in a row, the same for all of them; bits of `dropped` are sources.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Those sources' sub-events are dropped by the receiver, the others' are sound.
    SomeDropped(u32),
    /// Those sources' sub-events are dropped by the receiver, the others send none.
    NoneSound(u32),
}

/// Rows of triggers; a sound one of all sources lies before each of them.
fn fates() -> impl Strategy<Value = Vec<(Fate, u32)>> {
    let all = 1_u32 << N;
    let fate = prop_oneof![
        (0..all).prop_map(Fate::SomeDropped),
        (0..all).prop_map(Fate::NoneSound),
    ];
    proptest::collection::vec((fate, 1..40_u32), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A trigger of which the receiver dropped all that came is told as that, and neither as one that no source delivered nor as missing in any source;
    /// whatever says so first, and however late the others are.
    #[test]
    fn what_the_receiver_dropped_of_all_sources_was_delivered(
        // Not near 0: a source that is late there looks as one that began anew.
        first in 1_u32 << 20..1 << 23,
        fates in fates(),
        late_ms in proptest::collection::vec(prop_oneof![Just(0), 0..300_u32], N),
    ) {
        let mut all = vec![];
        for (fate, items) in fates {
            all.push(Fate::SomeDropped(0));
            all.extend(vec![fate; items as usize]);
        }
        all.push(Fate::SomeDropped(0));
        let number = |at: usize| first + at as u32;
        let mut rig = Rig::new(config(TriggerBits::TwentyFour));
        for ms in 0..all.len() as u32 + 300 {
            for (source, late_ms) in late_ms.iter().enumerate() {
                let at = ms.checked_sub(*late_ms).map(|at| at as usize);
                let Some((at, fate)) = at.and_then(|at| Some((at, *all.get(at)?))) else { continue };
                let (Fate::SomeDropped(dropped) | Fate::NoneSound(dropped)) = fate;
                match (fate, dropped >> source & 1) {
                    (_, 1) => rig.drop_before(source, 1),
                    (Fate::SomeDropped(_), _) => rig.send(source, &[sub(number(at))]),
                    (Fate::NoneSound(_), _) => {}
                }
            }
            rig.pass(MS);
        }
        rig.pass(1_000 * MS);
        let check = rig.finish();
        let built: Vec<u32> = check.events.iter().map(|event| event.trigger).collect();
        let (mut unseen, mut unbuilt, mut late) = (0, 0, 0);
        let in_none = all.iter().enumerate().filter(|(at, _)| !built.contains(&number(*at)));
        for (_, fate) in in_none {
            match fate {
                Fate::NoneSound(0) => unseen += 1,
                Fate::SomeDropped(0) => late += 1,
                Fate::SomeDropped(_) | Fate::NoneSound(_) => unbuilt += 1,
            }
        }
        prop_assert_eq!((check.unseen, check.unbuilt, check.late), (unseen, unbuilt, late));
        for (source, balance) in check.sources.iter().enumerate() {
            prop_assert_eq!(balance.missing, 0, "source {}", source);
        }
    }
    /// Whatever each source does of each trigger (it delivers, what it sent is refused, or it sends nothing), each sub-event is told of in one place, and each trigger
    /// as what became of it, however late a source is within the time-out.
    #[test]
    fn what_was_not_sent_and_what_was_refused_are_told_apart(
        first in 1_u32 << 20..1 << 23,
        steps in proptest::collection::vec((0..3_u8, 1..4_u32, 1..60_u32), 1..60),
        late_ms in proptest::collection::vec(0..60_u32, N),
        at_random: bool,
        seed: u64,
    ) {
        const SENT: u8 = 0;
        const REFUSED: u8 = 1;
        let mut random = seed | 1;
        let mut next_fate = |fate: u8| {
            if !at_random {
                return fate;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % 3) as u8
        };
        // One row for each trigger; all of a row are sound at both ends and now and then between.
        let mut all = vec![[SENT; N]];
        for (at, (fate, every, items)) in steps.iter().enumerate() {
            for index in 0..*items {
                let other = if index % every == 0 { *fate } else { 2 };
                let mut row = [SENT; N];
                for (source, own) in row.iter_mut().enumerate() {
                    *own = next_fate(if source == at % N { *fate } else { other });
                }
                // One number that nothing else confirms is dropped as one that cannot be true.
                if row.iter().filter(|own| **own == SENT).count() == 1 {
                    row[0..2].fill(SENT);
                }
                all.push(row);
            }
            if at % 3 == 0 {
                all.push([SENT; N]);
            }
        }
        all.push([SENT; N]);
        let number = |at: usize| first + at as u32;
        let mut rig = Rig::new(config(TriggerBits::TwentyFour));
        for ms in 0..all.len() as u32 + 60 {
            for (source, late_ms) in late_ms.iter().enumerate() {
                let at = ms.checked_sub(*late_ms).map(|at| at as usize);
                match at.and_then(|at| Some((at, all.get(at)?[source]))) {
                    Some((at, SENT)) => rig.send(source, &[sub(number(at))]),
                    Some((at, REFUSED)) => rig.drop_sub(source, &sub(number(at))),
                    _ => {}
                }
            }
            rig.pass(MS);
        }
        rig.pass(1_000 * MS);
        let check = rig.finish();
        let built: Vec<u32> = check.events.iter().map(|event| event.trigger).collect();
        let (mut unseen, mut unbuilt, mut missing) = (0, 0, [0; N]);
        for (at, row) in all.iter().enumerate() {
            if built.contains(&number(at)) {
                for (source, fate) in row.iter().enumerate() {
                    missing[source] += u64::from(*fate == 2);
                }
            } else {
                prop_assert!(!row.contains(&SENT), "trigger {}: {:?}", number(at), row);
                let any = row.contains(&REFUSED);
                unbuilt += u64::from(any);
                unseen += u64::from(!any);
            }
        }
        prop_assert_eq!((check.unseen, check.unbuilt, check.late), (unseen, unbuilt, 0));
        for (source, balance) in check.sources.iter().enumerate() {
            prop_assert_eq!(balance.missing, missing[source], "source {}", source);
            prop_assert_eq!(balance.all_dropped(), 0, "source {}", source);
        }
    }
}
