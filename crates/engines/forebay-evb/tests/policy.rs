//! Completion: `wait`, `partial`, `discard`, with their limits in time and in events.

mod harness;

use forebay_evb::{Cause, Completion, Config, Poll, SubEventDrop};
use harness::{MS, Rig, Sub, sub, subs};

const ALL: [Completion; 3] = [Completion::Wait, Completion::Partial, Completion::Discard];
const N: usize = 4;
const DEAD: usize = 1;
const TIMEOUT_NS: u64 = 50 * MS;

fn config(completion: Completion) -> Config {
    let mut config = Config::new(N);
    config.completion = completion;
    config.timeout_ns = TIMEOUT_NS;
    config.timeout_events = 100;
    config
}

fn send_alive(rig: &mut Rig, subs: &[Sub]) {
    let alive = (0..N).filter(|source| *source != DEAD);
    alive.for_each(|source| rig.send(source, subs));
}

/// Missed while it was closed, waited for when it is open again.
#[test]
fn a_source_that_opens_again_is_waited_for() {
    let mut rig = Rig::new(Config::new(2));
    rig.send_all(&subs(0..5));
    rig.poll();
    rig.close(1);
    rig.send(0, &subs(5..6));
    rig.poll();
    rig.builder.handle_open(1);
    rig.send(0, &subs(6..8));
    rig.poll();
    assert_eq!(rig.sink.events.len(), 6, "one without source 1");
    rig.send(1, &subs(6..8));
    rig.poll();
    let check = rig.finish();
    assert_eq!((check.complete, check.partial), (7, 1));
}

#[test]
fn every_policy_builds_complete_events_alike() {
    for completion in ALL {
        let mut rig = Rig::new(config(completion));
        rig.send_all(&subs(0..500));
        rig.poll();
        rig.finish().assert_perfect(500);
    }
}

#[test]
fn no_policy_waits_longer_than_the_time_out() {
    for completion in ALL {
        let mut rig = Rig::new(config(completion));
        send_alive(&mut rig, &subs(0..10));
        rig.pass(TIMEOUT_NS - 1);
        assert!(rig.sink.events.is_empty(), "{completion:?}");
        assert_eq!(rig.builder.poll_timeout(), Some(TIMEOUT_NS));
        rig.pass(1);
        assert_eq!(
            rig.builder.poll_timeout(),
            None,
            "{completion:?} still waits"
        );
        let check = rig.finish();
        let expected = if completion == Completion::Discard {
            (0, 10)
        } else {
            (10, 0)
        };
        assert_eq!((check.partial, check.discarded), expected, "{completion:?}");
        assert_eq!(
            check.causes(DEAD),
            [(Cause::Timeout, 0, 9)],
            "{completion:?}"
        );
    }
}

/// `wait` begins anew for each event: its time runs from the event's own first sub-event.
#[test]
fn wait_waits_for_each_event_and_the_delay_does_not_grow() {
    let mut rig = Rig::new(config(Completion::Wait));
    for trigger in 0..200 {
        send_alive(&mut rig, &[sub(trigger)]);
        rig.pass(MS);
        let built = rig.sink.events.len() as u32;
        let expected = (trigger + 1).saturating_sub(49);
        assert!(built.abs_diff(expected) <= 1, "{built} after {trigger}");
    }
    rig.finish();
}

/// Sends `per_message` events of every source in a rhythm of 20 ms, and gives the trigger that comes next.
fn in_rhythm(rig: &mut Rig) -> u32 {
    for message in 0..5 {
        rig.send_all(&subs(2 * message..2 * message + 2));
        rig.pass(20 * MS);
    }
    10
}

/// A source that has been silent for longer than usual is not waited for behind so many later events; up to then, every source is.
#[test]
fn too_many_later_events_end_the_waiting_of_partial_and_discard() {
    for completion in ALL {
        let mut rig = Rig::new(Config {
            timeout_ns: 500 * MS,
            ..config(completion)
        });
        let next = in_rhythm(&mut rig);
        send_alive(&mut rig, &subs(next..109));
        rig.pass(70 * MS);
        send_alive(&mut rig, &subs(109..150));
        // The last message of the dead one came at 80 ms, and 100 ms of silence are the least.
        rig.pass(10 * MS - 1);
        assert!(rig.builder.poll_timeout().is_some(), "{completion:?}");
        rig.pass(1);
        let waits = rig.builder.poll_timeout().is_some();
        assert_eq!(waits, completion == Completion::Wait, "{completion:?}");
        let check = rig.check();
        let discards = completion == Completion::Discard;
        assert_eq!(check.discarded, if discards { 140 } else { 0 });
        let reasons = if waits { [0, 0, 0] } else { [0, 1, 0] };
        assert_eq!(check.waits_ended, reasons, "{completion:?}");
    }
}

/// Not before a source has been silent for longer than usual: what it has sent is on its way.
#[test]
fn pressure_shortens_the_waiting_of_partial_and_discard() {
    for completion in ALL {
        let mut rig = Rig::new(Config {
            timeout_ns: 500 * MS,
            ..config(completion)
        });
        let next = in_rhythm(&mut rig);
        send_alive(&mut rig, &subs(next..20));
        rig.builder.handle_pressure(0, true);
        // Its last message came 20 ms ago, and 100 ms are the least.
        rig.pass(80 * MS - 1);
        assert!(rig.builder.poll_timeout().is_some(), "{completion:?}");
        rig.pass(1);
        let waits = rig.builder.poll_timeout().is_some();
        assert_eq!(waits, completion == Completion::Wait, "{completion:?}");
        // A source that speaks is waited for again, and pressure that was told before an event was finished is over.
        rig.send(DEAD, &subs(20..21));
        send_alive(&mut rig, &subs(20..30));
        rig.pass(300 * MS);
        assert!(rig.builder.poll_timeout().is_some(), "{completion:?}");
        rig.send(DEAD, &subs(21..30));
        let check = rig.finish();
        let reasons = [0, 0, u64::from(!waits)];
        assert_eq!(check.waits_ended, reasons, "{completion:?}");
        assert_eq!(check.complete, 20, "{completion:?}");
    }
}

/// A source that never spoke may have a long way: only the time-out ends the waiting for it.
#[test]
fn a_source_of_which_nothing_is_known_is_waited_for_up_to_the_time_out() {
    let mut rig = Rig::new(config(Completion::Partial));
    send_alive(&mut rig, &subs(0..150));
    rig.builder.handle_pressure(0, true);
    rig.pass(TIMEOUT_NS - 1);
    assert_eq!(rig.sink.events.len(), 0);
    rig.pass(1);
    assert_eq!(rig.sink.events.len(), 150);
    assert_eq!(rig.finish().waits_ended, [1, 0, 0]);
}

/// A full output is no reason to give a source up: the time that it took does not count.
#[test]
fn a_stalled_output_does_not_look_like_a_missing_source() {
    let mut rig = Rig::new(config(Completion::Partial));
    rig.sink.set_room(1);
    rig.send_all(&subs(0..2));
    send_alive(&mut rig, &subs(2..10));
    assert_eq!(rig.poll_once(), Poll::Built);
    rig.now_ns += 10 * TIMEOUT_NS;
    assert_eq!(rig.poll_once(), Poll::Full);
    rig.poll();
    assert!(rig.builder.poll_timeout().is_some());
    rig.send(DEAD, &subs(2..10));
    rig.finish().assert_perfect(10);
}

/// Discarded events leave their sub-events in the books, source by source.
#[test]
fn discard_drops_what_came_by_name() {
    let mut rig = Rig::new(config(Completion::Discard));
    send_alive(&mut rig, &subs(0..30));
    rig.send(DEAD, &subs(10..30));
    rig.pass(2 * TIMEOUT_NS);
    let check = rig.finish();
    assert_eq!((check.complete, check.discarded), (20, 10));
    assert_eq!(check.sources[0].lost(SubEventDrop::Incomplete), 10);
    assert_eq!(check.sources[DEAD].all_dropped(), 0);
    assert_eq!(check.causes(DEAD), [(Cause::Skipped, 0, 9)]);
}

#[test]
fn discard_gives_up_an_event_with_a_wrong_tag() {
    let mut rig = Rig::new(config(Completion::Discard));
    for source in 0..N {
        let mut message = subs(0..10);
        message[4].tag ^= u8::from(source == DEAD);
        rig.send(source, &message);
    }
    rig.poll();
    let check = rig.finish();
    assert_eq!((check.complete, check.discarded), (9, 1));
    assert_eq!(check.sources[DEAD].lost(SubEventDrop::TagMismatch), 1);
    assert_eq!(check.sources[0].lost(SubEventDrop::Incomplete), 1);
    assert_eq!(check.causes(DEAD), [(Cause::TagMismatch, 4, 4)]);
}

/// The policies but `wait` do not wait again for a source that was waited for in vain, until it speaks.
#[test]
fn a_source_that_speaks_again_is_waited_for_again() {
    let mut rig = Rig::new(config(Completion::Partial));
    send_alive(&mut rig, &subs(0..10));
    rig.pass(TIMEOUT_NS);
    send_alive(&mut rig, &subs(10..20));
    rig.poll();
    assert_eq!(rig.sink.events.len(), 20);
    rig.send(DEAD, &subs(20..21));
    send_alive(&mut rig, &subs(20..30));
    rig.poll();
    assert_eq!(rig.sink.events.len(), 21);
    assert!(rig.builder.poll_timeout().is_some());
    rig.send(DEAD, &subs(21..30));
    rig.poll();
    let check = rig.finish();
    assert_eq!((check.complete, check.partial), (10, 20));
}

/// Whether complete or not, an event above the limit is dropped by name, and the next one is built.
#[test]
fn an_event_above_the_limit_is_dropped_by_name() {
    for complete in [true, false] {
        let mut config = config(Completion::Partial);
        config.event_bytes_max = 1_024;
        let mut rig = Rig::new(config);
        for source in (0..N).filter(|source| complete || *source != DEAD) {
            let large = Sub {
                bytes: 400,
                ..sub(1)
            };
            rig.send(source, &[sub(0), large, sub(2)]);
        }
        rig.pass(2 * TIMEOUT_NS);
        let check = rig.finish();
        assert_eq!(check.triggers(), [0, 2]);
        assert_eq!(check.discarded, 1);
        assert_eq!(check.sources[0].lost(SubEventDrop::TooLarge), 1);
        assert_eq!(check.resynchronised, 0);
    }
}

/// At the end of a run nothing is waited for, whatever is held.
#[test]
fn closed_sources_leave_nothing_behind() {
    for completion in ALL {
        let mut rig = Rig::new(config(completion));
        rig.send(0, &subs(0..20));
        rig.send(1, &subs(5..25));
        rig.send(2, &subs(1_000_000..1_000_010));
        rig.send(3, &subs(0..3));
        let check = rig.finish();
        let built: u64 = check.sources.iter().map(|source| source.outgoing.0).sum();
        let dropped: u64 = check
            .sources
            .iter()
            .map(|source| source.all_dropped())
            .sum();
        assert_eq!(built + dropped, 53, "{completion:?}");
    }
}

/// Many numberings at once, closed: it comes to an end.
#[test]
fn no_two_sources_agree() {
    for completion in ALL {
        let mut rig = Rig::new(config(completion));
        for source in 0..N {
            rig.send(
                source,
                &subs(0x40_0000 * source as u32..0x40_0000 * source as u32 + 20),
            );
        }
        rig.pass(20 * TIMEOUT_NS);
        for source in 0..N {
            rig.send(
                source,
                &subs(0x33_3333 * source as u32..0x33_3333 * source as u32 + 20),
            );
        }
        rig.builder.handle_pressure(2, true);
        rig.pass(20 * TIMEOUT_NS);
        rig.finish();
    }
}
