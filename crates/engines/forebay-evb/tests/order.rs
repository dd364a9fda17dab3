//! Trigger numbers that cannot be true cost themselves only; numbers that really moved are followed.

mod harness;

use forebay_evb::{Cause, Config, Poll, SubEventDrop};
use forebay_wire::subevent::TriggerBits;
use harness::check::Check;
use harness::{MS, Rig, Sub, sub, subs};

/// Sources of most scenarios.
const N: usize = 5;
/// The source that misbehaves.
const BAD: usize = 2;
const TIMEOUT_NS: u64 = 100 * MS;

fn config() -> Config {
    let mut config = Config::new(N);
    config.timeout_ns = TIMEOUT_NS;
    config
}

/// Sub-events of `triggers` in messages of `per_message`, source by source, with time passing.
fn play(
    rig: &mut Rig,
    triggers: std::ops::Range<u32>,
    per_message: usize,
    bad: impl Fn(u32) -> Option<Sub>,
) {
    let all: Vec<u32> = triggers.collect();
    for chunk in all.chunks(per_message) {
        for source in 0..rig.config.sources {
            let pick = |trigger: &u32| {
                if source == BAD {
                    bad(*trigger)
                } else {
                    Some(sub(*trigger))
                }
            };
            let message: Vec<Sub> = chunk.iter().filter_map(pick).collect();
            if !message.is_empty() {
                rig.send_and_poll(source, &message);
            }
        }
        rig.pass(MS);
    }
}

/// One sub-event of BAD carries `number` instead of 50.
fn one_wrong_number(number: u32, per_message: usize) -> Check {
    let mut rig = Rig::new(config());
    let wrong = |trigger| match trigger {
        50 => Some(Sub {
            trigger: number,
            ..sub(50)
        }),
        _ => Some(sub(trigger)),
    };
    play(&mut rig, 0..200, per_message, wrong);
    rig.finish()
}

#[test]
fn one_wrong_number_costs_itself_only() {
    let far = [
        1 << 16,
        1 << 22,
        (1 << 23) + 49,
        (1 << 23) + 51,
        0xff_ffff,
        0xff_0000,
    ];
    let near_ahead = [51, 52, 53, 60, 99, 150, 550, 16_000];
    let behind = [49, 48, 10, 0];
    for number in far.into_iter().chain(near_ahead).chain(behind) {
        for per_message in [1, 7, 10, 51, 200] {
            let check = one_wrong_number(number, per_message);
            let what = format!("50 as {number}, {per_message} per message");
            assert_eq!(check.without(BAD), [50], "{what}");
            assert_eq!(check.complete, 199, "{what}");
            assert_eq!(check.sources[BAD].all_dropped(), 1, "{what}");
            assert_eq!(check.resynchronised, 0, "{what}");
        }
    }
}

/// Nothing follows the wrong number for longer than the time-out: it must not carry the numbering away.
#[test]
fn a_wrong_number_before_a_pause_costs_itself_only() {
    for number in [53, 550, 1 << 20, 3] {
        for per_message in [1, 10] {
            let mut rig = Rig::new(config());
            play(&mut rig, 0..50, per_message, |trigger| Some(sub(trigger)));
            rig.send_and_poll(
                BAD,
                &[Sub {
                    trigger: number,
                    ..sub(50)
                }],
            );
            rig.pass(10 * TIMEOUT_NS);
            for source in (0..N).filter(|source| *source != BAD) {
                rig.send_and_poll(source, &[sub(50)]);
            }
            rig.pass(MS);
            play(&mut rig, 51..200, per_message, |trigger| Some(sub(trigger)));
            let check = rig.finish();
            assert_eq!(
                check.without(BAD),
                [50],
                "{number}, {per_message} per message"
            );
            assert_eq!(check.complete, 199, "{number}, {per_message} per message");
        }
    }
}

#[test]
fn a_wrong_number_at_the_very_start_costs_itself_only() {
    for number in [3, 550, 1 << 20, (1 << 23) + 1, 0xff_0000] {
        for first in 0..N {
            let mut rig = Rig::new(config());
            // The wrong one comes first, last, or between the others.
            for source in (0..N).map(|offset| (first + offset) % N) {
                let mut message = subs(0..20);
                if source == BAD {
                    message[0].trigger = number;
                }
                rig.send_and_poll(source, &message);
            }
            let check = rig.finish();
            assert_eq!(check.without(BAD), [0], "{number}, source {first} first");
            assert_eq!((check.complete, check.partial), (19, 1), "{number}");
        }
    }
}

#[test]
fn really_skipped_triggers_are_events_without_the_source_at_once() {
    for per_message in [1, 10] {
        let mut rig = Rig::new(config());
        play(&mut rig, 0..300, per_message, |trigger| {
            (!(100..150).contains(&trigger)).then(|| sub(trigger))
        });
        assert!(rig.now_ns < 1000 * MS);
        let check = rig.finish();
        assert_eq!(check.without(BAD), (100..150).collect::<Vec<_>>());
        assert_eq!(check.causes(BAD), [(Cause::Skipped, 100, 149)]);
        assert_eq!(check.sources[BAD].all_dropped(), 0);
    }
}

#[test]
fn numbers_that_all_sources_skip_are_no_loss() {
    let mut rig = Rig::new(config());
    for start in [0, 10, 1_000, 100_000, 8_000_000] {
        rig.send_all(&subs(start..start + 10));
        rig.poll();
    }
    let check = rig.finish();
    check.assert_perfect(50);
}

#[test]
fn a_duplicated_message_is_dropped_whole() {
    for per_message in [1, 10] {
        let mut rig = Rig::new(config());
        for start in (0..200).step_by(per_message) {
            let message = subs(start..start + per_message as u32);
            for source in 0..N {
                rig.send_and_poll(source, &message);
                if source == BAD && start % 20 == 0 {
                    rig.send_and_poll(source, &message);
                }
            }
            rig.pass(MS);
        }
        let check = rig.finish();
        assert_eq!(check.complete, 200);
        let twice = check.sources[BAD].lost(SubEventDrop::Duplicate);
        assert_eq!(twice, 10 * per_message as u64, "{per_message} per message");
        assert_eq!(check.sources[BAD].all_dropped(), twice);
    }
}

/// Duplicates of all sources, and then a pause: they must not look like numbers started anew.
#[test]
fn duplicates_of_all_sources_before_a_pause_are_dropped() {
    let mut rig = Rig::new(config());
    rig.send_all(&subs(0..50));
    rig.send_all(&subs(20..50));
    rig.pass(10 * TIMEOUT_NS);
    rig.send_all(&subs(50..60));
    let check = rig.finish();
    assert_eq!((check.complete, check.resynchronised), (60, 0));
    assert!(
        check
            .sources
            .iter()
            .all(|source| source.lost(SubEventDrop::Duplicate) == 30)
    );
}

/// And the same when the builder died between the originals and their duplicates.
#[test]
fn duplicates_of_what_a_predecessor_built_are_dropped() {
    let mut rig = Rig::new(config());
    rig.send_all(&subs(0..50));
    rig.poll();
    rig.commit();
    rig.restart();
    rig.send_all(&subs(20..50));
    rig.pass(10 * TIMEOUT_NS);
    rig.send_all(&subs(50..60));
    let check = rig.finish();
    assert_eq!((check.complete, check.resynchronised), (60, 0));
}

#[test]
fn overtaken_messages_cost_themselves_only() {
    let mut rig = Rig::new(config());
    for start in (0..400).step_by(40) {
        for source in 0..N {
            let (first, second) = (subs(start..start + 20), subs(start + 20..start + 40));
            let swapped = source == BAD && start == 80;
            let order = if swapped {
                [&second, &first]
            } else {
                [&first, &second]
            };
            order
                .into_iter()
                .for_each(|message| rig.send_and_poll(source, message));
        }
        rig.pass(MS);
    }
    let check = rig.finish();
    assert_eq!(check.without(BAD), (80..100).collect::<Vec<_>>());
    assert_eq!(check.sources[BAD].all_dropped(), 20);
}

#[test]
fn sources_that_start_at_different_numbers() {
    let mut rig = Rig::new(config());
    let first = [100, 103, 100, 110, 107];
    for (source, first) in first.into_iter().enumerate() {
        rig.send_and_poll(source, &subs(first..150));
    }
    let check = rig.finish();
    assert_eq!(check.triggers(), (100..150).collect::<Vec<_>>());
    assert_eq!(check.without(3), (100..110).collect::<Vec<_>>());
    assert_eq!(check.without(1), (100..103).collect::<Vec<_>>());
    assert_eq!(check.complete, 40);
}

/// The foreign source must pay, whether its numbers lie before or behind those of the others and whichever source comes first.
#[test]
fn a_source_with_a_foreign_numbering_costs_itself_only() {
    for foreign in [1 << 20, 3 << 21, 5 << 21, 0xf0_0000_u32] {
        for comes_first in [true, false] {
            let mut rig = Rig::new(config());
            for start in (0..500).step_by(10) {
                let own: Vec<Sub> = (start..start + 10)
                    .map(|trigger| Sub {
                        trigger: (trigger + foreign) & 0xff_ffff,
                        ..sub(trigger)
                    })
                    .collect();
                if comes_first {
                    rig.send_and_poll(BAD, &own);
                }
                for source in (0..N).filter(|source| *source != BAD) {
                    rig.send_and_poll(source, &subs(start..start + 10));
                }
                if !comes_first {
                    rig.send_and_poll(BAD, &own);
                }
                rig.pass(10 * MS);
            }
            let check = rig.finish();
            let what = format!(
                "{foreign:#x}, first: {comes_first}, {:?}",
                check.sources[BAD]
            );
            assert_eq!(check.triggers(), (0..500).collect::<Vec<_>>(), "{what}");
            assert!(
                check.events.iter().all(|event| event.subs.len() == N - 1),
                "{what}"
            );
            assert_eq!(check.sources[BAD].all_dropped(), 500, "{what}");
            assert_eq!(check.resynchronised, 0, "{what}");
        }
    }
}

#[test]
fn one_source_restarted_with_current_numbers_lacks_its_gap_only() {
    let mut rig = Rig::new(config());
    play(&mut rig, 0..300, 10, |trigger| {
        (!(95..140).contains(&trigger)).then(|| sub(trigger))
    });
    let check = rig.finish();
    assert_eq!(check.without(BAD), (95..140).collect::<Vec<_>>());
    assert_eq!(check.sources[BAD].all_dropped(), 0);
}

#[test]
fn one_source_restarted_from_0_costs_itself_only() {
    for per_message in [1, 10] {
        let mut rig = Rig::new(config());
        let restarted = |trigger| match trigger {
            0..1000 => Some(sub(trigger)),
            _ => Some(Sub {
                trigger: trigger - 1000,
                ..sub(trigger)
            }),
        };
        play(&mut rig, 0..1_500, per_message, restarted);
        // And then it is set right.
        play(&mut rig, 1_500..2_000, per_message, |trigger| {
            Some(sub(trigger))
        });
        let check = rig.finish();
        assert_eq!(check.triggers(), (0..2_000).collect::<Vec<_>>());
        assert_eq!(check.without(BAD), (1_000..1_500).collect::<Vec<_>>());
        assert_eq!(check.sources[BAD].all_dropped(), 500);
        assert_eq!(check.resynchronised, 0);
    }
}

/// All readouts begin at 0 again, one after the other and with some old data lost: after a time-out it goes on.
#[test]
fn all_sources_restarted_from_0_are_followed() {
    for (per_message, spread_ns) in [(1, 0), (10, 0), (10, 5 * MS), (10, 30 * MS)] {
        let mut rig = Rig::new(config());
        for source in 0..N {
            rig.send_and_poll(source, &subs(5_000..5_100 + source as u32));
        }
        rig.pass(MS);
        for source in 0..N {
            let again: Vec<Sub> = subs(0..100)
                .into_iter()
                .map(|sub| Sub {
                    tag: sub.tag.wrapping_add(91),
                    ..sub
                })
                .collect();
            for message in again.chunks(per_message) {
                rig.send_and_poll(source, message);
            }
            rig.pass(spread_ns);
        }
        rig.pass(3 * TIMEOUT_NS);
        let mut more = subs(100..200);
        more.iter_mut().for_each(|sub| sub.tag = 3);
        rig.send_all(&more);
        let check = rig.finish();
        assert_eq!(
            check.resynchronised, 1,
            "{per_message} per message, {spread_ns} ns"
        );
        assert_eq!(
            check.complete, 300,
            "{per_message} per message, {spread_ns} ns"
        );
        let dropped: u64 = check
            .sources
            .iter()
            .map(|source| source.all_dropped())
            .sum();
        assert_eq!(dropped, 0, "{:?}", check.sources);
    }
}

/// One source is dead for good; the others restart: they are the majority of those that live.
#[test]
fn a_restart_is_followed_without_the_dead() {
    let mut rig = Rig::new(config());
    play(&mut rig, 0..1_000, 10, |trigger| {
        (trigger < 300).then(|| sub(trigger))
    });
    rig.pass(2 * TIMEOUT_NS);
    for start in (0..300).step_by(10) {
        for source in (0..N).filter(|source| *source != BAD) {
            let mut message = subs(start..start + 10);
            message.iter_mut().for_each(|sub| sub.tag ^= 0x55);
            rig.send_and_poll(source, &message);
        }
        rig.pass(MS);
    }
    let check = rig.finish();
    assert_eq!(check.resynchronised, 1);
    assert_eq!(check.events.len(), 1_300);
}

/// All sources jump by more than the window, but not at one instant.
#[test]
fn a_jump_of_all_sources_is_followed() {
    for jump in [20_000, 1 << 20, 1 << 22] {
        let mut rig = Rig::new(config());
        rig.send_all(&subs(0..100));
        rig.poll();
        for source in 0..N {
            rig.send_and_poll(source, &subs(jump..jump + 100));
            rig.pass(MS);
        }
        rig.finish().assert_perfect(200);
    }
}

/// With 16 bits the circle is small: a source away for a third of it comes back with current numbers.
#[test]
fn back_after_a_third_of_the_circle() {
    let mut config = config();
    config.trigger_bits = TriggerBits::Sixteen;
    config.timeout_ns = MS;
    let mut rig = Rig::new(config);
    play(&mut rig, 0..25_000, 100, |trigger| {
        (!(100..24_000).contains(&trigger)).then(|| sub(trigger))
    });
    let check = rig.finish();
    assert_eq!(check.without(BAD).len(), 23_900);
    assert_eq!(check.events.len(), 25_000);
    assert_eq!(check.sources[BAD].all_dropped(), 0);
}

#[test]
fn wrong_tags_are_dropped_and_only_they() {
    let mut rig = Rig::new(config());
    play(&mut rig, 0..100, 10, |trigger| {
        let flip = if trigger % 10 == 3 { 0x80 } else { 0 };
        Some(Sub {
            tag: sub(trigger).tag ^ flip,
            ..sub(trigger)
        })
    });
    let check = rig.finish();
    let wrong: Vec<u32> = (0..100).filter(|trigger| trigger % 10 == 3).collect();
    assert_eq!(check.without(BAD), wrong);
    assert_eq!(check.sources[BAD].lost(SubEventDrop::TagMismatch), 10);
    assert_eq!(check.sources[BAD].all_dropped(), 10);
    assert!(
        check
            .causes(BAD)
            .iter()
            .all(|(cause, ..)| *cause == Cause::TagMismatch)
    );
}

#[test]
fn tags_are_not_looked_at_when_the_check_is_off() {
    let mut config = config();
    config.check_tag = false;
    let mut rig = Rig::new(config);
    play(&mut rig, 0..100, 10, |trigger| {
        Some(Sub {
            tag: 9,
            ..sub(trigger)
        })
    });
    rig.finish().assert_perfect(100);
}

/// Three against two, in the smallest majority; and the event is written once although there is no room at first.
#[test]
fn the_tag_of_most_sources_counts_also_when_the_output_is_full() {
    let mut rig = Rig::new(config());
    rig.sink.set_room(200);
    for source in 0..N {
        let mut message = subs(0..40);
        let odd = source < 2;
        message
            .iter_mut()
            .filter(|_| odd)
            .for_each(|sub| sub.tag ^= 1);
        rig.send(source, &message);
    }
    assert_eq!(rig.poll_once(), Poll::Built);
    rig.poll();
    assert!(rig.sink.refused > 0);
    let check = rig.finish();
    assert!(
        check
            .events
            .iter()
            .all(|event| event.sources() == [2, 3, 4])
    );
    assert_eq!(check.partial, 40);
}

/// A single source has nobody to be compared with: whatever it sends is built.
#[test]
fn a_single_source_is_always_right() {
    let mut config = Config::new(1);
    config.timeout_ns = TIMEOUT_NS;
    let mut rig = Rig::new(config);
    for start in [0, 5_000, 100, 1 << 22, 0] {
        for part in 0..10 {
            let mut message = subs(start + part * 10..start + part * 10 + 10);
            message.iter_mut().for_each(|sub| {
                sub.tag = part as u8 + (start >> 4) as u8 + (rig.now_ns >> 20) as u8
            });
            rig.send_and_poll(0, &message);
            rig.pass(2 * MS);
        }
    }
    let check = rig.finish();
    let dropped = check.sources[0].all_dropped();
    assert!(
        check.events.len() >= 490,
        "{} built, {dropped} dropped",
        check.events.len()
    );
}
