//! All is well: whatever the number of sources, the widths, the sizes, nothing is lost.

mod harness;

use forebay_emu::{Config as Emulated, Group, Huge};
use forebay_evb::{Config, SOURCES_MAX};
use forebay_wire::subevent::TriggerBits;
use harness::world::run;
use harness::{MS, Rig, Sub, sub, subs};

fn emulated(sources: usize, events: u64) -> Emulated {
    let groups = vec![Group::new(sources, 116, 20.0)];
    let mut emulated = Emulated::new(sources as u64, groups, 4_000.0);
    emulated.limit.events = Some(events);
    emulated.transport.water_mark_bytes = Some(4 << 10);
    emulated
}

#[test]
fn every_number_of_sources_builds_complete_events() {
    for sources in [1, 2, 90, 95, 96, 97, 128, 256, SOURCES_MAX] {
        let events = (20_000 / sources as u64).clamp(60, 2_000);
        let run = run(&emulated(sources, events), Vec::new(), Config::new(sources));
        run.check.assert_perfect(events);
        assert_eq!(run.foreign, 0, "{sources} sources");
    }
}

#[test]
fn the_sizes_of_test_2() {
    let mut emulated = Emulated::test2(4_000.0);
    emulated.limit.events = Some(600);
    let run = run(&emulated, Vec::new(), Config::new(90));
    run.check.assert_perfect(600);
    assert_eq!(run.foreign, 0);
}

#[test]
fn no_water_mark_one_subevent_in_a_message() {
    let mut emulated = emulated(12, 1_000);
    emulated.transport.water_mark_bytes = None;
    let run = run(&emulated, Vec::new(), Config::new(12));
    run.check.assert_perfect(1_000);
}

#[test]
fn numbers_of_both_widths_wrap() {
    for bits in [TriggerBits::Sixteen, TriggerBits::TwentyFour] {
        let mut emulated = emulated(5, 1_000);
        emulated.trigger.bits = bits;
        emulated.trigger.first = bits.mask() - 500;
        let mut config = Config::new(5);
        config.trigger_bits = bits;
        let run = run(&emulated, Vec::new(), config);
        run.check.assert_perfect(1_000);
        let triggers = run.check.triggers();
        assert_eq!((triggers[500], triggers[501]), (bits.mask(), 0), "{bits:?}");
    }
}

/// All of 16 bits more than once, in the fast path.
#[test]
fn sixteen_bits_wrap_again_and_again() {
    let mut config = Config::new(2);
    config.trigger_bits = TriggerBits::Sixteen;
    let mut rig = Rig::new(config);
    for start in (0..200_000_u32).step_by(1_000) {
        rig.send_all(&subs(start..start + 1_000).map_trigger(|trigger| trigger & 0xffff));
        rig.poll();
    }
    rig.finish().assert_perfect(200_000);
}

trait MapTrigger {
    fn map_trigger(self, map: impl Fn(u32) -> u32) -> Vec<Sub>;
}

impl MapTrigger for Vec<Sub> {
    fn map_trigger(mut self, map: impl Fn(u32) -> u32) -> Vec<Sub> {
        self.iter_mut()
            .for_each(|sub| sub.trigger = map(sub.trigger));
        self
    }
}

/// 100 kB in one source delays no event of the others: each is built when its last sub-event is there.
#[test]
fn a_huge_subevent_delays_nothing_else() {
    let mut emulated = emulated(8, 3_000);
    emulated.huge = Some(Huge {
        every_events: 1_000,
        bytes: 100_000,
    });
    let run = run(&emulated, Vec::new(), Config::new(8));
    run.check.assert_perfect(3_000);
    assert_eq!(run.foreign, 0);

    let mut rig = Rig::new(Config::new(3));
    rig.sink.set_room(1 << 20);
    rig.send(
        0,
        &[Sub {
            bytes: 100_000,
            ..sub(0)
        }],
    );
    rig.send(1, &subs(0..1));
    rig.send_and_poll(2, &subs(0..1));
    assert_eq!(rig.sink.events.len(), 1);
    rig.send_all(&subs(1..50));
    rig.poll();
    assert_eq!(rig.sink.events.len(), 50);
    rig.finish().assert_perfect(50);
}

#[test]
fn headers_without_data_and_every_padding() {
    let mut rig = Rig::new(Config::new(3));
    for trigger in 0..64 {
        for source in 0..3 {
            let bytes = 16 + (trigger * 7 + source as u32 * 5) % 33;
            rig.send(
                source,
                &[Sub {
                    bytes,
                    ..sub(trigger)
                }],
            );
        }
        rig.poll();
    }
    rig.finish().assert_perfect(64);
}

#[test]
fn a_data_error_is_in_the_events_bit_31_and_an_absence_in_bit_30_too() {
    let mut rig = Rig::new(Config::new(2));
    let error = Sub {
        data_error: true,
        ..sub(1)
    };
    rig.send(0, &[sub(0), sub(1), sub(2)]);
    rig.send(1, &[sub(0), error]);
    rig.pass(2_000 * MS);
    let check = rig.finish();
    let top = |index: usize| check.events[index].id.0 >> 30;
    assert_eq!([top(0), top(1), top(2)], [0b00, 0b10, 0b11]);
}

#[test]
fn a_full_output_holds_everything_back_and_loses_nothing() {
    let mut rig = Rig::new(Config::new(4));
    rig.sink.set_room(400);
    rig.send_all(&subs(0..500));
    rig.poll();
    assert!(rig.sink.refused > 100, "{}", rig.sink.refused);
    rig.finish().assert_perfect(500);
}

#[test]
fn the_type_of_the_trigger_and_the_oldest_stamp_are_the_events() {
    let mut rig = Rig::new(Config::new(2));
    rig.now_ns = 5_000;
    rig.send(1, &subs(0..1));
    rig.now_ns = 9_000;
    rig.send_and_poll(0, &subs(0..1));
    assert_eq!(rig.sink.events[0].stamp_ns, 5_001);
    rig.finish().assert_perfect(1);
}
