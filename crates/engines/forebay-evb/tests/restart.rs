//! The builder dies anywhere and is rebuilt from the last committed book and what is not released: the output goes on
//! as if nothing had happened.

mod harness;

use forebay_evb::{Cause, Config, SubEventDrop};
use harness::{MS, Rig, Sub, sub, subs};
use proptest::prelude::*;

const N: usize = 4;

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The next message of a source, of so many triggers.
    Send(usize, u32),
    /// So many polls.
    Poll(usize),
    Commit,
    /// Dies; what was not committed is done again.
    Die,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..N, 1..12_u32).prop_map(|(source, count)| Act::Send(source, count)),
        4 => (0..20_usize).prop_map(Act::Poll),
        2 => Just(Act::Commit),
        1 => Just(Act::Die),
    ]
}

/// All skip some triggers, source 1 skips more, source 2 sends some messages twice, source 3 has data errors and wrong tags.
fn message(source: usize, from: u32, count: u32) -> Vec<Sub> {
    let triggers = (from..from + count).filter(|trigger| source != 1 || trigger % 13 != 5);
    let triggers = triggers.filter(|trigger| trigger % 19 != 7);
    let of = |trigger: u32| Sub {
        data_error: source == 3 && trigger % 11 == 2,
        tag: sub(trigger).tag ^ u8::from(source == 3 && trigger % 17 == 4),
        bytes: 24 + trigger.wrapping_mul(31) % 200,
        ..sub(trigger)
    };
    triggers.map(of).collect()
}

/// Plays the acts; without deaths when `dies` is false. The rig and how far each source has sent.
fn play(acts: &[Act], dies: bool) -> Rig {
    let mut rig = Rig::new(Config::new(N));
    rig.sink.set_room(3_000);
    let mut sent = [0; N];
    for act in acts {
        match *act {
            Act::Send(source, count) => {
                let subs = message(source, sent[source], count);
                sent[source] += count;
                rig.send(source, &subs);
                if source == 2 && count % 5 == 3 {
                    rig.send(source, &subs);
                }
            }
            Act::Poll(count) => (0..count).for_each(|_| {
                rig.poll_once();
            }),
            Act::Commit => rig.commit(),
            Act::Die if dies => rig.restart(),
            Act::Die => {}
        }
    }
    let last = sent.into_iter().max().unwrap_or(0);
    for (source, sent) in sent.into_iter().enumerate() {
        let rest = message(source, sent, last - sent);
        rig.send(source, &rest);
    }
    rig
}

/// What came out: the bytes of all events, and how many were partial and sub-events dropped; and what is inferred: triggers from
/// the first to the last, those that nobody delivered, sub-events that never came.
fn output(rig: Rig) -> (Vec<u8>, u64, u64, [u64; 3]) {
    let check = rig.finish();
    let dropped = check
        .sources
        .iter()
        .map(|source| source.all_dropped())
        .sum();
    let missing = check.sources.iter().map(|source| source.missing).sum();
    let inferred = [check.span, check.unseen, missing];
    (check.bytes, check.partial, dropped, inferred)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn deaths_leave_no_trace(acts in proptest::collection::vec(act(), 1..120)) {
        let undisturbed = output(play(&acts, false));
        let killed = output(play(&acts, true));
        prop_assert!(undisturbed == killed, "{} and {} bytes, {} and {} partial, {} and {} dropped, {:?} and {:?} inferred",
            undisturbed.0.len(), killed.0.len(), undisturbed.1, killed.1, undisturbed.2, killed.2, undisturbed.3, killed.3);
    }
}

#[test]
fn a_builder_that_never_commits_does_all_again() {
    let mut rig = Rig::new(Config::new(2));
    for start in (0..100).step_by(10) {
        rig.send_all(&subs(start..start + 10));
        rig.poll();
        rig.restart();
    }
    rig.finish().assert_perfect(100);
}

#[test]
fn in_the_middle_of_a_message_again_and_again() {
    let mut rig = Rig::new(Config::new(3));
    rig.sink.set_room(1);
    rig.send_all(&subs(0..50));
    for _ in 0..400 {
        rig.poll_once();
        rig.commit();
        rig.restart();
    }
    assert_eq!(rig.sink.events.len(), 50);
    rig.finish().assert_perfect(50);
}

/// Known messages are handed in one at a time, with events built between them.
#[test]
fn known_messages_may_come_in_slowly() {
    let mut rig = Rig::new(Config::new(2));
    for start in (0..50).step_by(10) {
        rig.send(0, &subs(start..start + 10));
    }
    rig.send(1, &subs(0..13));
    rig.poll();
    rig.commit();
    rig.restart_slowly();
    rig.send(1, &subs(13..50));
    rig.poll();
    rig.finish().assert_perfect(50);
}

/// A range of lost triggers goes on across the death, and is listed once.
#[test]
fn an_open_range_of_losses_survives() {
    let mut rig = Rig::new(Config::new(2));
    rig.send(0, &subs(0..40));
    rig.send(1, &subs(0..10));
    rig.pass(1_000 * MS);
    rig.commit();
    rig.restart();
    rig.send(0, &subs(40..60));
    rig.poll();
    let check = rig.finish();
    assert_eq!(check.lost.len(), 1, "{:?}", check.lost);
    assert_eq!((check.lost[0].first, check.lost[0].last), (10, 59));
}

/// Commits; what is inferred lost of a source.
fn missing(rig: &mut Rig, source: usize) -> u64 {
    rig.commit();
    let (book, accounts) = rig.book();
    book.value(accounts.sources[source].missing)
}

/// What was inferred lost before the death, and comes behind it, is late by name and not inferred lost any more.
#[test]
fn what_comes_behind_the_death_is_not_missing() {
    let mut rig = Rig::new(Config::new(2));
    rig.send(0, &subs(0..40));
    rig.send(1, &subs(0..10));
    rig.pass(1_000 * MS);
    assert_eq!(missing(&mut rig, 1), 30);
    rig.restart();
    rig.send(1, &subs(10..40));
    rig.poll();
    let check = rig.finish();
    assert_eq!(check.causes(1), [(Cause::Timeout, 10, 39)]);
    let source = check.sources[1];
    assert_eq!((source.lost(SubEventDrop::Late), source.missing), (30, 0));
}

/// What came and was dropped was never missing: when it comes once more behind the death, what is missing stays so.
#[test]
fn what_was_dropped_before_the_death_takes_nothing_off_what_is_missing() {
    let mut rig = Rig::new(Config::new(3));
    (0..2).for_each(|source| rig.send(source, &subs(0..8)));
    let wrong = |trigger| Sub {
        tag: sub(trigger).tag ^ 1,
        ..sub(trigger)
    };
    rig.send(2, &(3..8).map(wrong).collect::<Vec<_>>());
    rig.poll();
    assert_eq!(missing(&mut rig, 2), 3);
    rig.restart();
    rig.send(2, &subs(4..6));
    rig.poll();
    let check = rig.finish();
    let causes = [(Cause::Skipped, 0, 2), (Cause::TagMismatch, 3, 7)];
    assert_eq!(check.causes(2), causes);
    let source = check.sources[2];
    assert_eq!((source.all_dropped(), source.missing), (5 + 2, 3));
}

/// What came with a wrong tag has bytes, and they are counted on across the death; what never came has none.
#[test]
fn a_range_of_what_was_dropped_keeps_its_bytes() {
    let mut rig = Rig::new(Config::new(3));
    let wrong = |trigger| Sub {
        tag: sub(trigger).tag ^ 1,
        ..sub(trigger)
    };
    for triggers in [0..5, 5..8] {
        for source in 0..2 {
            rig.send(source, &subs(triggers.clone()));
        }
        let wrong: Vec<_> = triggers.map(wrong).collect();
        rig.send(2, &wrong);
        rig.poll();
        rig.commit();
        rig.restart();
    }
    let check = rig.finish();
    let lost: Vec<_> = check
        .lost
        .iter()
        .map(|range| (range.source, range.items, range.bytes))
        .collect();
    assert_eq!(lost, [(2, 8, 8 * 40)]);
}

/// The queue's memory lies after the restart: what was counted and is not there any more is broken, by name.
#[test]
fn what_the_queue_no_longer_shows_is_charged() {
    let mut rig = Rig::new(Config::new(2));
    rig.send(0, &subs(0..10));
    rig.send(0, &subs(10..20));
    rig.poll();
    rig.commit();
    rig.restart_with(|message| {
        message.items /= 2;
        message.len /= 2;
    });
    let check = rig.finish_hostile();
    assert_eq!(
        check.sources[0].all_dropped() + check.sources[0].outgoing.0,
        20
    );
}
