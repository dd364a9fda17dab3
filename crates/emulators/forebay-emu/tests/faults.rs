//! Each fault, alone, strikes where it should, is counted, and leaves the books closed.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

mod receiver;

use forebay_emu::world::World;
use forebay_emu::{Config, Fault, FaultRule, Group, Mismatch, Pick, SoftReadouts, SourceTotals};
use receiver::{Receiver, Seen};

const EVENTS: u64 = 2000;
/// The source with the fault; its neighbours must not notice.
const BAD: usize = 1;

fn config(water_mark_bytes: Option<u32>) -> Config {
    let mut config = Config::new(11, vec![Group::new(3, 338, 30.0)], 10_000.0);
    config.limit.events = Some(EVENTS);
    config.transport.water_mark_bytes = water_mark_bytes;
    config
}

/// Runs with the rules; checks the neighbours and the books.
fn run(mut config: Config, rules: Vec<FaultRule>) -> (Receiver, SourceTotals) {
    config.faults = rules;
    let mut world = World::new(0, SoftReadouts::new(&config).unwrap(), Vec::new());
    let mut receiver = Receiver::new(&config);
    world.run(&mut receiver);
    let totals = world.readouts.totals();
    assert_eq!(totals.events, EVENTS);
    for (source, books) in totals.by_source.iter().enumerate() {
        assert_eq!(
            (books.residual(), books.residual_datagrams()),
            ((0, 0), (0, 0))
        );
        if source != BAD {
            let all: Vec<u32> = (0..EVENTS as u32).collect();
            assert_eq!(receiver.numbers(source), all);
            assert_eq!(books.made.items, EVENTS);
        }
    }
    (receiver, totals.by_source[BAD])
}

fn one(fault: Fault) -> FaultRule {
    FaultRule::new(BAD, fault)
}

fn spoiled(receiver: &Receiver) -> Vec<u32> {
    let seen = receiver.seen[&BAD].iter();
    seen.filter(|s| !s.intact).map(|s| s.number).collect()
}

#[test]
fn silent_for_a_while_and_for_single_triggers() {
    let rules = vec![
        one(Fault::Silent).during(100..200),
        one(Fault::Silent)
            .during(1000..u64::MAX)
            .pick(Pick::Every(50)),
    ];
    let (receiver, books) = run(config(Some(8192)), rules);
    let want: Vec<u32> = (0..EVENTS as u32)
        .filter(|n| !(100..200).contains(n) && (*n < 1000 || n % 50 != 0))
        .collect();
    assert_eq!(receiver.numbers(BAD), want);
    assert_eq!((books.silent, books.made.items), (120, EVENTS - 120));
}

#[test]
fn dropped_messages_are_missing_and_charged() {
    for mark in [None, Some(8192)] {
        let rule = one(Fault::DropMessage).pick(Pick::Chance(0.1));
        let (receiver, books) = run(config(mark), vec![rule]);
        let lost = EVENTS - receiver.seen[&BAD].len() as u64;
        assert_eq!(books.dropped_message.items, lost);
        assert!(lost > 0 && lost < EVENTS / 2, "{lost}");
        assert_eq!(books.made.items, EVENTS);
        assert_eq!(receiver.mismatches, []);
    }
}

#[test]
fn all_messages_dropped_is_a_source_that_nobody_hears() {
    for mark in [None, Some(8192)] {
        let (receiver, books) = run(config(mark), vec![one(Fault::DropMessage)]);
        assert!(!receiver.seen.contains_key(&BAD));
        assert_eq!(books.dropped_message, books.made);
    }
}

#[test]
fn duplicated_messages_come_twice_in_a_row() {
    let rule = one(Fault::DuplicateMessage).pick(Pick::Every(7));
    let (receiver, books) = run(config(Some(4096)), vec![rule]);
    let numbers = receiver.numbers(BAD);
    assert_eq!(numbers.len() as u64, EVENTS + books.duplicated.items);
    assert_eq!(books.made.items, books.sent.items);
    assert!(books.duplicated.items > EVENTS / 10);
    assert_eq!(receiver.mismatches, []);
    let mut distinct = numbers;
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len() as u64, EVENTS);
}

#[test]
fn reordered_messages_swap_with_their_successor() {
    let rule = one(Fault::ReorderMessage).pick(Pick::Every(10));
    let mut config = config(None);
    config.limit.events = Some(EVENTS);
    let (receiver, books) = run(config, vec![rule]);
    let mut want: Vec<u32> = (0..EVENTS as u32).collect();
    want.chunks_mut(10).for_each(|ten| ten.swap(0, 1));
    assert_eq!(receiver.numbers(BAD), want);
    assert_eq!(books.reordered_messages, EVENTS / 10);
    assert_eq!(books.sent.items, EVENTS);
}

#[test]
fn the_last_message_is_not_held_back_for_ever() {
    let (receiver, books) = run(config(Some(60_000)), vec![one(Fault::ReorderMessage)]);
    assert_eq!(receiver.seen[&BAD].len() as u64, EVENTS);
    assert!(books.reordered_messages > 1);
}

#[test]
fn a_corrupt_trailer_breaks_the_whole_message() {
    let rule = one(Fault::CorruptTrailer).pick(Pick::Every(4));
    let (receiver, books) = run(config(Some(8192)), vec![rule]);
    assert_eq!(receiver.broken_messages, books.corrupted_messages);
    assert!(books.corrupted_messages > 10);
    assert_eq!(books.sent.items, EVENTS, "the sender does not know");
    assert!((receiver.seen[&BAD].len() as u64) < EVENTS);
    assert_eq!(receiver.mismatches, []);
}

/// A byte anywhere is noticed: by the frame, by the walk, or by the verifier; unless it is padding.
#[test]
fn a_corrupt_byte_is_noticed() {
    let (receiver, books) = run(config(None), vec![one(Fault::CorruptByte)]);
    let bad = receiver.broken_messages + spoiled(&receiver).len() as u64;
    assert_eq!(books.corrupted_messages, EVENTS);
    // Half of the messages have 4 bytes of padding in about 380: 0.5 % of the flips.
    assert!(bad > EVENTS - 40 && bad < EVENTS, "{bad}");
}

#[test]
fn a_header_only_subevent_is_legal_and_found() {
    for mark in [None, Some(8192)] {
        let (receiver, books) = run(config(mark), vec![one(Fault::HeaderOnly).during(5..10)]);
        assert_eq!(spoiled(&receiver), [5, 6, 7, 8, 9]);
        let sizes = |s: &Seen| (5..10).contains(&s.number) == (s.bytes == 16);
        assert!(receiver.seen[&BAD].iter().all(sizes));
        assert_eq!((receiver.broken_messages, books.spoiled_subevents), (0, 5));
        assert!(matches!(
            receiver.mismatches[0],
            Mismatch::Size { said: 16, .. }
        ));
    }
}

#[test]
fn a_wrong_size_breaks_the_message_though_its_trailer_is_right() {
    for mark in [None, Some(8192)] {
        let rule = one(Fault::BadSize).pick(Pick::Every(100));
        let (receiver, books) = run(config(mark), vec![rule]);
        assert_eq!(books.spoiled_subevents, EVENTS / 100);
        assert!(receiver.broken_messages >= EVENTS / 100 / 2);
        assert_eq!(receiver.mismatches, []);
    }
}

#[test]
fn a_wrong_tag_and_an_error_bit_are_in_the_header() {
    let rules = vec![
        one(Fault::WrongTag).during(3..4),
        one(Fault::DataError).during(7..9),
    ];
    let (receiver, books) = run(config(Some(8192)), rules);
    assert_eq!(spoiled(&receiver), [3, 7, 8]);
    assert_ne!(receiver.seen[&BAD][3].tag, receiver.seen[&0][3].tag);
    let kinds = &receiver.mismatches;
    assert!(matches!(
        kinds[0],
        Mismatch::Byte {
            at: 15,
            number: 3,
            ..
        }
    ));
    assert!(matches!(
        kinds[1..],
        [Mismatch::ErrorBit { .. }, Mismatch::ErrorBit { .. }]
    ));
    assert_eq!(books.spoiled_subevents, 3);
}

#[test]
fn late_sends_everything_in_order_later() {
    let rule = one(Fault::Late { ns: 3_000_000 }).during(100..200);
    let (receiver, _) = run(config(None), vec![rule]);
    let all: Vec<u32> = (0..EVENTS as u32).collect();
    assert_eq!(receiver.numbers(BAD), all);
    for seen in &receiver.seen[&BAD] {
        let wait = seen.now_ns - u64::from(seen.number) * 100_000;
        match seen.number {
            100..200 => assert_eq!(wait, 3_000_000),
            // Those behind the late ones queue up behind them.
            200..230 => assert_eq!(
                wait,
                19_900_000 + 3_000_000 - u64::from(seen.number) * 100_000
            ),
            _ => assert_eq!(wait, 0, "{}", seen.number),
        }
    }
}

#[test]
fn a_late_source_makes_what_the_others_made_when_the_run_ends() {
    let rule = one(Fault::Late {
        ns: 3_600_000_000_000,
    });
    let mut config = config(Some(8192));
    config.faults = vec![rule];
    let mut readouts = SoftReadouts::new(&config).unwrap();
    readouts.handle_time(0);
    readouts.handle_time(50_000_000);
    while readouts.poll_datagram().is_some() {}
    assert_eq!(readouts.totals().by_source[BAD].made.items, 0);
    readouts.finish(60_000_000);
    while readouts.poll_datagram().is_some() {}
    let totals = readouts.totals();
    assert_eq!(totals.events, 501);
    assert!(totals.by_source.iter().all(|s| s.sent.items == 501));
    assert!(readouts.is_finished());
}

#[test]
fn ahead_and_behind() {
    let rules = vec![
        one(Fault::Ahead { triggers: 5 }).during(0..100),
        one(Fault::Ahead { triggers: -5 }).during(500..600),
    ];
    let (receiver, _) = run(config(None), rules);
    let numbers = receiver.numbers(BAD);
    assert_eq!((numbers[0], numbers[99], numbers[100]), (5, 104, 100));
    assert_eq!((numbers[500], numbers[600]), (495, 600));
    assert_eq!(
        receiver.mismatches,
        [],
        "they are what is sent for these numbers"
    );
}

#[test]
fn a_restart_loses_the_queue_and_starts_at_zero_or_goes_on() {
    for from_zero in [true, false] {
        let rule = one(Fault::Restart { from_zero }).during(1000..u64::MAX);
        let (receiver, books) = run(config(Some(8192)), vec![rule]);
        let numbers = receiver.numbers(BAD);
        assert!(books.restart.items > 0);
        assert_eq!(numbers.len() as u64, EVENTS - books.restart.items);
        let before = 1000 - books.restart.items as usize;
        assert_eq!(numbers[before - 1], before as u32 - 1);
        assert_eq!(numbers[before], if from_zero { 0 } else { 1000 });
        assert_eq!(numbers.last(), Some(&if from_zero { 999 } else { 1999 }));
    }
}

#[test]
fn a_rule_for_a_source_that_is_not_there_is_refused() {
    let mut config = config(None);
    config.faults = vec![FaultRule::new(3, Fault::Silent)];
    assert!(SoftReadouts::new(&config).is_err());
    config.faults = vec![one(Fault::Silent).pick(Pick::Chance(1.5))];
    assert!(SoftReadouts::new(&config).is_err());
    config.faults = vec![one(Fault::Silent).pick(Pick::Every(0))];
    assert!(SoftReadouts::new(&config).is_err());
}

/// A message held back lies among the datagrams ready until these are sent: in a burst it must not be
/// overwritten by the next one held back.
#[test]
fn reordering_in_a_burst_loses_and_repeats_nothing() {
    let mut config = config(None);
    config.faults = vec![one(Fault::ReorderMessage).pick(Pick::Chance(0.5))];
    let mut readouts = SoftReadouts::new(&config).unwrap();
    let mut sent = Vec::new();
    for now_ns in [0, 1_000_000_000] {
        readouts.handle_time(now_ns);
        while let Some(batch) = readouts.poll_batch(64) {
            let own = batch.datagrams().filter(|d| d.source == BAD);
            sent.extend(own.map(|d| d.bytes.to_vec()));
        }
    }
    readouts.finish(1_000_000_000);
    while let Some(datagram) = readouts.poll_datagram() {
        sent.push(datagram.bytes.to_vec());
    }
    assert!(readouts.totals().by_source[BAD].reordered_messages > 10);
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len() as u64, EVENTS);
}
