//! The engine against a naive model that keeps every packet for ever, in virtual time: with loss, delay, copies and damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};

use forebay_load::account::Counts;
use forebay_load::{
    AnswerDrop, Came, Config, ConfigError, FlightDrop, Load, Pace, Rate, SendDrop, Sizes,
};
use proptest::prelude::*;

const TIME_OUT_NS: u64 = 2_000_000;
const STEP_NS: u64 = 100_000;
/// Most bytes in front of a head.
const FRONT_MAX: usize = 20;

/// What the way does with one packet, by its number modulo the length of the list.
#[derive(Clone, Debug)]
enum Way {
    Answer { after: u64 },
    Twice { after: u64 },
    Damage { after: u64, at: usize },
    Lose,
    Refuse,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        6 => (1..30_u64).prop_map(|after| Way::Answer { after }),
        1 => (1..30_u64).prop_map(|after| Way::Twice { after }),
        1 => (1..30_u64, 0..24_usize).prop_map(|(after, at)| Way::Damage { after, at }),
        1 => Just(Way::Lose),
        1 => Just(Way::Refuse),
    ]
}

/// What a naive observer counts: when each packet left, and whether it was answered.
#[derive(Default)]
struct Model {
    sent: HashMap<u64, u64>,
    answered: HashMap<u64, bool>,
    in_time: u64,
    late: u64,
    duplicate: u64,
    damaged: u64,
    refused: u64,
    rtt_ns: Vec<u64>,
}

impl Model {
    fn answer(&mut self, sequence: u64, now_ns: u64) {
        let rtt_ns = now_ns - self.sent[&sequence];
        let again = self.answered.insert(sequence, true).is_some();
        if again {
            self.duplicate += 1;
        } else if rtt_ns >= TIME_OUT_NS {
            self.late += 1;
        } else {
            self.in_time += 1;
            self.rtt_ns.push(rtt_ns);
        }
    }
}

fn closes(counts: &Counts) {
    let send = &counts.send;
    assert_eq!(
        send.due.packets,
        send.taken.packets
            + packets(send.dropped.iter().map(|(_, it)| it.packets))
            + counts.waiting.packets
    );
    let flight = &counts.flight;
    assert_eq!(
        flight.sent.packets,
        flight.answered.packets
            + packets(flight.lost.iter().map(|(_, it)| it.packets))
            + counts.in_flight.packets
    );
    assert_eq!(
        flight.sent.bytes,
        flight.answered.bytes
            + packets(flight.lost.iter().map(|(_, it)| it.bytes))
            + counts.in_flight.bytes
    );
    let answer = &counts.answer;
    assert_eq!(
        answer.came.packets,
        answer.matched.packets + packets(answer.dropped.iter().map(|(_, it)| it.packets))
    );
    assert_eq!(send.taken, flight.sent);
    assert_eq!(answer.matched, flight.answered);
}

fn packets(all: impl Iterator<Item = u64>) -> u64 {
    all.sum()
}

/// Runs one target over the way, with so many bytes in front of each head, and holds each step against the model.
fn run(pace: Pace, ways: &[Way], room: usize, front: usize) -> (Load, Model) {
    let config = Config {
        paces: vec![pace],
        sizes: Sizes::Range(24 + front, 200 + front),
        front_bytes: front,
        time_out_ns: TIME_OUT_NS,
        duration_ns: Some(20_000_000),
        run: 9,
    };
    let mut load = Load::new(config, 1_000).unwrap();
    let (mut model, mut coming) = (
        Model::default(),
        BTreeMap::<u64, Vec<(u64, Vec<u8>, bool)>>::new(),
    );
    let mut now_ns = 1_000;
    while !load.is_over(now_ns) {
        load.handle_timeout(now_ns);
        let due = load.poll_due(0, now_ns).to_vec();
        for due in due.iter().take(room) {
            assert!(due.due_ns <= now_ns);
            let mut packet = vec![0xee; due.bytes];
            load.emit(0, due, &mut packet);
            assert_eq!(packet[..front], [0xee; FRONT_MAX][..front]);
            // The far end changes what is in front.
            packet[..front].fill(0x11);
            let way = &ways[(due.sequence % ways.len() as u64) as usize];
            if matches!(way, Way::Refuse) {
                load.handle_refused(0, SendDrop::NoBuffer);
                model.refused += 1;
                continue;
            }
            load.handle_sent(0, 1, now_ns);
            model.sent.insert(due.sequence, now_ns);
            let mut comes = |after: u64, packet: Vec<u8>, is_whole| {
                coming.entry(now_ns + after * STEP_NS).or_default().push((
                    due.sequence,
                    packet,
                    is_whole,
                ));
            };
            match *way {
                Way::Answer { after } => comes(after, packet, true),
                Way::Twice { after } => {
                    comes(after, packet.clone(), true);
                    comes(after + 1, packet, true);
                }
                Way::Damage { after, at } => {
                    packet[front + at] ^= 0x10;
                    comes(after, packet, false);
                }
                Way::Lose | Way::Refuse => {}
            }
        }
        now_ns += STEP_NS;
        while let Some(first) = coming.first_entry().filter(|first| *first.key() <= now_ns) {
            let at_ns = *first.key();
            // A packet's time is over before an answer of the same instant is looked at.
            load.handle_timeout(at_ns);
            for (sequence, packet, is_whole) in first.remove() {
                let came = load.handle_packet(0, &packet, at_ns, None);
                if is_whole {
                    model.answer(sequence, at_ns);
                } else {
                    model.damaged += 1;
                    assert!(
                        matches!(
                            came,
                            Came::Dropped(AnswerDrop::Corrupt | AnswerDrop::Foreign)
                        ),
                        "{came:?}"
                    );
                }
            }
        }
        closes(&load.counts(0));
    }
    (load, model)
}

fn holds(load: &Load, model: &Model) {
    let counts = load.counts(0);
    assert_eq!(counts.flight.sent.packets, model.sent.len() as u64);
    assert_eq!(counts.flight.answered.packets, model.in_time);
    assert_eq!(
        counts.answer.dropped[AnswerDrop::Duplicate].packets,
        model.duplicate
    );
    // What comes behind the end of the run is not looked at, so that not all late ones are seen.
    assert_eq!(counts.answer.dropped[AnswerDrop::Late].packets, model.late);
    let damaged =
        [AnswerDrop::Corrupt, AnswerDrop::Foreign].map(|why| counts.answer.dropped[why].packets);
    assert_eq!(damaged[0] + damaged[1], model.damaged);
    assert_eq!(
        counts.send.dropped[SendDrop::NoBuffer].packets,
        model.refused
    );
    let lost = counts.flight.lost[FlightDrop::TimeOut].packets;
    assert_eq!(lost, model.sent.len() as u64 - model.in_time);
    assert_eq!((counts.waiting.packets, counts.in_flight.packets), (0, 0));
    let rtt = load.rtt(0);
    assert_eq!(rtt.count(), model.rtt_ns.len() as u64);
    assert_eq!(rtt.min(), model.rtt_ns.iter().copied().min().unwrap_or(0));
    assert_eq!(rtt.max(), model.rtt_ns.iter().copied().max().unwrap_or(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_open_loop_counts_what_the_model_counts(
        rate in 500..40_000_u64,
        room in 1..70_usize,
        ways in proptest::collection::vec(way(), 1..12),
        front in prop_oneof![Just(0), 0..FRONT_MAX],
    ) {
        let (load, model) = run(Pace::Open(Rate::Packets(rate)), &ways, room, front);
        holds(&load, &model);
        // All that was due within 20 ms was made: the schedule does not slip, however small the room was.
        let due = (20_000_000 * rate).div_ceil(1_000_000_000);
        if rate * STEP_NS * 2 < 1_000_000_000 * room as u64 {
            prop_assert_eq!(load.counts(0).send.due.packets, due);
            prop_assert!(load.short(0, 20_001_000) <= 1.0 / due as f64);
        }
    }

    #[test]
    fn a_closed_loop_has_so_many_on_their_way(
        most in 1..40_u32,
        ways in proptest::collection::vec(way(), 1..12),
        front in prop_oneof![Just(0), 0..FRONT_MAX],
    ) {
        let has_answer = ways.iter().any(|way| !matches!(way, Way::Refuse));
        prop_assume!(has_answer);
        let (load, model) = run(Pace::Closed(most), &ways, 64, front);
        holds(&load, &model);
        prop_assert!(model.sent.len() >= most as usize);
    }
}

fn one(pace: Pace, duration_ns: Option<u64>) -> Load {
    let config = Config {
        paces: vec![pace],
        sizes: Sizes::List(vec![24, 100]),
        front_bytes: 0,
        time_out_ns: TIME_OUT_NS,
        duration_ns,
        run: 1,
    };
    Load::new(config, 0).unwrap()
}

#[test]
fn who_is_late_catches_up_and_is_told_how_late_it_was() {
    let mut load = one(Pace::Open(Rate::Packets(1_000)), Some(10_000_000));
    assert_eq!(load.poll_due(0, 0).len(), 1);
    load.handle_sent(0, 1, 0);
    // Held up for 5 ms: all that was due meanwhile goes at once, the next at its own time.
    let due: Vec<u64> = load
        .poll_due(0, 5_500_000)
        .iter()
        .map(|due| due.due_ns)
        .collect();
    assert_eq!(due, [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    load.handle_sent(0, 5, 5_500_000);
    assert_eq!(load.poll_timeout(5_500_000), Some(2_000_000));
    load.handle_timeout(5_500_000);
    assert_eq!(load.poll_timeout(5_500_000), Some(6_000_000));
    assert_eq!(
        (load.lateness(0).max(), load.lateness(0).count()),
        (4_500_000, 6)
    );
    assert_eq!(load.short(0, 5_500_000), 0.0);
}

#[test]
fn what_could_not_be_made_in_time_is_told() {
    let mut load = one(Pace::Open(Rate::Packets(1_000_000)), Some(10_000_000));
    load.poll_due(0, 10_000_000);
    assert_eq!(load.sent_ns(), None);
    load.handle_sent(0, 64, 10_000_000);
    load.handle_sent(0, 0, 11_000_000);
    assert_eq!(load.sent_ns(), Some(10_000_000));
    let far_ns = 200_000_000;
    assert!(load.poll_due(0, far_ns).is_empty());
    let short = load.short(0, far_ns);
    assert!(
        (short - (10_000.0 - 64.0) / 10_000.0).abs() < 1e-9,
        "{short}"
    );
}

#[test]
fn answers_out_of_order_are_counted() {
    let mut load = one(Pace::Closed(3), None);
    let due = load.poll_due(0, 0).to_vec();
    load.handle_sent(0, 3, 0);
    assert_eq!(load.answered_ns(0), None);
    for (at, now_ns) in [(0, 10), (2, 20), (1, 30)] {
        let mut packet = vec![0; due[at].bytes];
        load.emit(0, &due[at], &mut packet);
        load.handle_packet(0, &packet, now_ns, None);
        assert_eq!(load.answered_ns(0), Some(now_ns));
        // What comes again is no answer.
        load.handle_packet(0, &packet, now_ns + 5, None);
    }
    assert_eq!(load.answered_ns(0), Some(30));
    assert_eq!(load.counts(0).reordered, 1);
    closes(&load.counts(0));
}

#[test]
fn stamps_of_the_kernel_go_before_the_programs_clock() {
    let mut load = one(Pace::Closed(1), None);
    let due = load.poll_due(0, 0)[0];
    load.handle_sent(0, 1, 100);
    load.handle_stamp(0, 0, 7_000);
    let mut packet = vec![0; due.bytes];
    load.emit(0, &due, &mut packet);
    let came = load.handle_packet(0, &packet, 5_100, Some(9_500));
    assert_eq!(
        came,
        Came::Answer {
            rtt_ns: 5_000,
            kernel_rtt_ns: Some(2_500)
        }
    );
    assert_eq!(
        (load.rtt(0).max(), load.kernel_rtt(0).max()),
        (5_000, 2_500)
    );
}

#[test]
fn a_stamp_that_comes_after_the_answer_counts_once() {
    let mut load = one(Pace::Closed(2), None);
    let due = load.poll_due(0, 0).to_vec();
    load.handle_sent(0, 2, 100);
    let mut packet = vec![0; due[0].bytes];
    load.emit(0, &due[0], &mut packet);
    let came = load.handle_packet(0, &packet, 5_100, Some(9_500));
    let unknown = Came::Answer {
        rtt_ns: 5_000,
        kernel_rtt_ns: None,
    };
    assert_eq!(came, unknown);
    load.handle_stamp(0, 0, 7_000);
    assert_eq!(
        (load.kernel_rtt(0).count(), load.kernel_rtt(0).max()),
        (1, 2_500)
    );
    load.handle_stamp(0, 0, 7_100);
    // Of an answer without a stamp there is nothing to tell.
    let mut packet = vec![0; due[1].bytes];
    load.emit(0, &due[1], &mut packet);
    load.handle_packet(0, &packet, 5_100, None);
    load.handle_stamp(0, 1, 7_000);
    assert_eq!(load.kernel_rtt(0).count(), 1);
}

#[test]
fn packets_of_others_and_of_other_targets_are_foreign() {
    let mut config = Config {
        paces: vec![Pace::Closed(1); 2],
        sizes: Sizes::List(vec![40]),
        front_bytes: 0,
        time_out_ns: TIME_OUT_NS,
        duration_ns: None,
        run: 1,
    };
    let mut load = Load::new(config.clone(), 0).unwrap();
    config.run = 2;
    let mut other = Load::new(config, 0).unwrap();
    let due = load.poll_due(0, 0)[0];
    load.handle_sent(0, 1, 0);
    other.poll_due(0, 0);
    let mut packet = [0; 40];
    other.emit(0, &due, &mut packet);
    assert_eq!(
        load.handle_packet(0, &packet, 1, None),
        Came::Dropped(AnswerDrop::Foreign)
    );
    load.emit(1, &due, &mut packet);
    assert_eq!(
        load.handle_packet(0, &packet, 1, None),
        Came::Dropped(AnswerDrop::Foreign)
    );
    load.emit(0, &due, &mut packet);
    let cut = load.handle_packet(0, &packet[..39], 1, None);
    assert_eq!(cut, Came::Dropped(AnswerDrop::Corrupt));
    packet[39] ^= 1;
    assert_eq!(
        load.handle_packet(0, &packet, 1, None),
        Came::Dropped(AnswerDrop::Corrupt)
    );
    // A number that was never sent.
    load.emit(
        0,
        &forebay_load::Due {
            sequence: 77,
            ..due
        },
        &mut packet,
    );
    assert_eq!(
        load.handle_packet(0, &packet, 1, None),
        Came::Dropped(AnswerDrop::Foreign)
    );
    load.end();
    closes(&load.counts(0));
    assert_eq!(load.counts(0).flight.lost[FlightDrop::RunEnded].packets, 1);
}

#[test]
fn what_finds_no_room_is_given_up_a_time_out_behind_the_end() {
    let mut load = one(Pace::Open(Rate::Packets(1_000)), Some(10_000_000));
    assert_eq!(load.poll_due(0, 9_500_000).len(), 10);
    let until_ns = 10_000_000 + forebay_load::CATCH_UP_NS + TIME_OUT_NS;
    assert_eq!(load.poll_timeout(50_000_000), Some(until_ns));
    load.handle_timeout(until_ns - 1);
    assert!(!load.is_over(until_ns - 1));
    load.handle_timeout(until_ns);
    assert!(load.is_over(until_ns));
    closes(&load.counts(0));
    let dropped = load.counts(0).send.dropped[SendDrop::NotSent];
    assert_eq!(dropped.packets, 10);
}

#[test]
fn nothing_is_sent_to_a_target_that_is_lost() {
    let mut load = one(Pace::Closed(2), None);
    load.poll_due(0, 0);
    load.handle_sent(0, 1, 0);
    load.handle_lost(0);
    assert!(load.poll_due(0, 1).is_empty());
    let counts = load.counts(0);
    closes(&counts);
    assert_eq!(counts.send.dropped[SendDrop::Disconnected].packets, 1);
    assert_eq!(counts.flight.lost[FlightDrop::ConnectionLost].packets, 1);
    assert!(load.is_over(1));
}

#[test]
fn more_on_their_way_than_are_remembered_are_lost_by_name() {
    let mut load = one(Pace::Open(Rate::Packets(1)), None);
    let mut now_ns = 0;
    // Slower than the window is planned for, and never given up in time: the time does not go on for the window.
    for _ in 0..(1 << 14) + 5 {
        now_ns += 1_000_000_000;
        let due = load.poll_due(0, now_ns).len();
        load.handle_sent(0, due, now_ns);
    }
    closes(&load.counts(0));
    let lost = load.counts(0).flight.lost[FlightDrop::WindowFull];
    assert_eq!(lost.packets, 6);
}

#[test]
fn load_that_cannot_be_made_is_refused() {
    let config = |change: fn(&mut Config)| {
        let mut config = Config {
            paces: vec![Pace::Closed(1)],
            sizes: Sizes::List(vec![24]),
            front_bytes: 0,
            time_out_ns: 1,
            duration_ns: None,
            run: 0,
        };
        change(&mut config);
        Load::new(config, 0).err()
    };
    assert_eq!(config(|_| {}), None);
    assert_eq!(config(|it| it.paces.clear()), Some(ConfigError::Targets(0)));
    let too_many = vec![Pace::Closed(1); 1025];
    assert_eq!(too_many.len(), forebay_load::TARGETS_MAX + 1);
    assert_eq!(
        config(|it| it.paces = vec![Pace::Closed(1); 1025]),
        Some(ConfigError::Targets(1025))
    );
    assert_eq!(
        config(|it| it.paces = vec![Pace::Closed(0)]),
        Some(ConfigError::Closed(0))
    );
    assert_eq!(
        config(|it| it.paces = vec![Pace::Open(Rate::Bits(0))]),
        Some(ConfigError::Rate)
    );
    assert_eq!(
        config(|it| it.sizes = Sizes::List(vec![23])),
        Some(ConfigError::Size(23, 24))
    );
    assert_eq!(
        config(|it| it.sizes = Sizes::List(Vec::new())),
        Some(ConfigError::Size(0, 24))
    );
    assert_eq!(
        config(|it| it.sizes = Sizes::Range(24, 65_508)),
        Some(ConfigError::Size(65_508, 24))
    );
    assert_eq!(
        config(|it| it.sizes = Sizes::Range(25, 24)),
        Some(ConfigError::Range(25, 24))
    );
    assert_eq!(config(|it| it.time_out_ns = 0), Some(ConfigError::TimeOut));
}

#[test]
fn what_is_in_front_of_heads_is_left_alone_and_counts_as_bytes() {
    let config = |bytes, front_bytes| Config {
        paces: vec![Pace::Open(Rate::Bits(8 * 100 * 1_000))],
        sizes: Sizes::List(vec![bytes]),
        front_bytes,
        time_out_ns: TIME_OUT_NS,
        duration_ns: None,
        run: 1,
    };
    let wrong = Load::new(config(37, 14), 0).err();
    assert_eq!(wrong, Some(ConfigError::Size(37, 38)));
    assert!(Load::new(config(38, 14), 0).is_ok());
    let wrong = Load::new(config(38, usize::MAX), 0).err();
    assert_eq!(wrong, Some(ConfigError::Size(38, usize::MAX)));
    let (mut framed, mut bare) = (
        Load::new(config(100, 14), 0).unwrap(),
        Load::new(config(86, 0), 0).unwrap(),
    );
    // 100 bytes each at 100,000 bytes in a second: one in 1 ms, and those of a head alone sooner.
    let due = framed.poll_due(0, 2_999_999).to_vec();
    assert_eq!(due.len(), 3);
    let mut frame = [7; 100];
    framed.emit(0, &due[0], &mut frame);
    let mut packet = [0; 86];
    let first = bare.poll_due(0, 0)[0];
    bare.emit(0, &first, &mut packet);
    assert_eq!((&frame[..14], &frame[14..]), (&[7; 14][..], &packet[..]));
    framed.handle_sent(0, 3, 3_000_000);
    for short in [0, 13, 14, 37, 99] {
        framed.handle_packet(0, &frame[..short], 3_000_000, None);
    }
    framed.handle_packet(0, &frame, 3_000_000, None);
    let counts = framed.counts(0);
    assert_eq!(counts.answer.came.bytes, 13 + 14 + 37 + 99 + 100);
    assert_eq!(counts.answer.dropped[AnswerDrop::Foreign].packets, 4);
    assert_eq!(counts.answer.dropped[AnswerDrop::Corrupt].packets, 1);
    assert_eq!(counts.flight.answered.bytes, 100);
    closes(&counts);
}
