use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Two clocks whose truth is known.
struct World {
    offset_ns: i64,
    skew: f64,
    random: u64,
}

impl World {
    fn remote(&self, local: u64) -> u64 {
        let gained = (local as f64 * self.skew).round() as i64;
        local.checked_add_signed(self.offset_ns + gained).unwrap()
    }

    /// Uniform below `most`: a small generator of our own (xorshift64), so that runs repeat.
    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most.max(1)
    }

    fn exchange(&mut self, at: u64, noise_ns: u64) -> Exchange {
        let way = 1_000;
        let came = at + way + self.below(noise_ns);
        let left = came + 20_000;
        let back = left + way + self.below(noise_ns);
        Exchange {
            sent_ns: at,
            came_ns: self.remote(came),
            left_ns: self.remote(left),
            back_ns: back,
        }
    }

    fn burst(&mut self, clock: &mut Clock, at: u64, noise_ns: u64) -> Burst {
        for probe in 0..8 {
            clock.add(&self.exchange(at + probe * 100_000, noise_ns));
        }
        clock.end_burst()
    }

    fn error(&self, clock: &Clock, at: u64) -> u64 {
        clock
            .line()
            .unwrap()
            .remote_ns(at)
            .abs_diff(self.remote(at))
    }
}

fn world(offset_ns: i64, skew: f64) -> World {
    World {
        offset_ns,
        skew,
        random: 0x9e37_79b9_7f4a_7c15,
    }
}

#[test]
fn offset_and_skew_are_found_within_the_bound() {
    for (offset, skew) in [
        (0, 0.0),
        (5_000_000, 100e-6),
        (-900 * 1_000_000_000, -100e-6),
    ] {
        let mut world = world(offset, skew);
        let mut clock = Clock::default();
        let from = 1000 * SECOND;
        for burst in 0..30 {
            let at = from + burst * SECOND;
            assert_eq!(world.burst(&mut clock, at, 3_000), Burst::Kept, "{burst}");
            if clock.is_settled() {
                // Up to the next burst.
                for later in [0, SECOND / 2, SECOND] {
                    let at = at + 1_000_000 + later;
                    let (error, bound) = (
                        world.error(&clock, at),
                        clock.line().unwrap().error_at_ns(at),
                    );
                    assert!(
                        error <= bound,
                        "burst {burst}, {later} ns later: {error} of {bound}"
                    );
                }
            }
        }
        let line = clock.line().unwrap();
        assert!((line.skew - skew).abs() < 1e-6, "{line:?}");
        assert!(world.error(&clock, from + 30 * SECOND) < 1_000);
        assert!(line.error_at_ns(from + 30 * SECOND) < 5_000, "{line:?}");
        assert_eq!(
            (clock.steps, clock.outliers, clock.contradictions),
            (0, 0, 0)
        );
    }
}

#[test]
fn there_and_back_again_is_the_same_time() {
    let mut world = world(-77_777_777, 250e-6);
    let mut clock = Clock::default();
    for burst in 0..5 {
        world.burst(&mut clock, 100 * SECOND + burst * SECOND / 10, 10);
    }
    let line = clock.line().unwrap();
    for local in [0, 50 * SECOND, 100 * SECOND, 5_000 * SECOND] {
        let remote = line.remote_ns(local);
        if remote > 0 {
            assert!(line.local_ns(remote).abs_diff(local) <= 1, "{local}");
        }
    }
}

#[test]
fn a_step_is_seen_at_the_next_burst_and_believed_at_the_one_after() {
    let mut world = world(1_000, 20e-6);
    let mut clock = Clock::default();
    for burst in 0..10 {
        world.burst(&mut clock, 10 * SECOND + burst * SECOND, 500);
    }
    world.offset_ns += 1_000_000;
    assert_eq!(world.burst(&mut clock, 20 * SECOND, 500), Burst::Unsure);
    assert!(clock.is_unsure() && !clock.is_settled());
    assert_eq!(
        world.burst(&mut clock, 20 * SECOND + SECOND / 10, 500),
        Burst::Stepped
    );
    assert!(!clock.is_unsure());
    assert!(world.error(&clock, 20 * SECOND + SECOND / 5) < 20_000);
    assert_eq!(clock.steps, 1);
}

#[test]
fn a_burst_that_was_held_up_one_way_is_an_outlier_and_moves_nothing() {
    let mut world = world(0, 0.0);
    let mut clock = Clock::default();
    for burst in 0..10 {
        world.burst(&mut clock, 10 * SECOND + burst * SECOND, 500);
    }
    let before = clock.line();
    // The whole burst's way forth is reported 1 ms longer than its own delay admits: a stamp of another clock.
    let mut wrong = world.exchange(20 * SECOND, 500);
    wrong.came_ns += 1_000_000;
    wrong.left_ns += 1_000_000;
    clock.add(&wrong);
    assert_eq!(clock.end_burst(), Burst::Unsure);
    assert_eq!(clock.line(), before);
    assert_eq!(
        world.burst(&mut clock, 20 * SECOND + SECOND / 10, 500),
        Burst::Outlier
    );
    assert_eq!((clock.outliers, clock.steps), (1, 0));
    assert!(world.error(&clock, 21 * SECOND) < 1_000);
}

#[test]
fn readings_that_contradict_each_other_are_counted_and_left_out() {
    let mut clock = Clock::default();
    let sound = Exchange {
        sent_ns: 100,
        came_ns: 200,
        left_ns: 250,
        back_ns: 300,
    };
    for wrong in [
        Exchange {
            left_ns: 199,
            ..sound
        },
        Exchange {
            back_ns: 99,
            ..sound
        },
        Exchange {
            left_ns: 900,
            ..sound
        },
    ] {
        clock.add(&wrong);
    }
    assert_eq!(clock.end_burst(), Burst::Empty);
    assert_eq!(clock.contradictions, 3);
    assert_eq!(clock.line(), None);
}

proptest! {
    #[test]
    fn no_readings_make_it_panic(readings in prop::collection::vec(any::<[u64; 4]>(), 1..60)) {
        let mut clock = Clock::default();
        for (at, [sent_ns, came_ns, left_ns, back_ns]) in readings.into_iter().enumerate() {
            clock.add(&Exchange { sent_ns, came_ns, left_ns, back_ns });
            if at % 3 == 0 {
                clock.end_burst();
            }
            if let Some(line) = clock.line() {
                let _ = line.remote_ns(sent_ns);
                let _ = line.local_ns(came_ns);
                let _ = line.error_at_ns(left_ns);
            }
        }
    }
}

/// A clock that knows an offset of 1 ms within half of its delay.
fn within(delay_ns: u64) -> Clock {
    let mut clock = Clock::default();
    for burst in 0..8 {
        let sent_ns = 10_000_000_000 + burst * 100_000_000;
        clock.add(&Exchange {
            sent_ns,
            came_ns: sent_ns + 1_000_000 + delay_ns / 2,
            left_ns: sent_ns + 1_000_000 + delay_ns / 2,
            back_ns: sent_ns + delay_ns,
        });
        assert_eq!(clock.end_burst(), Burst::Kept);
    }
    clock
}

#[test]
fn the_tighter_of_exchanges_and_wall_clocks_holds() {
    let now_ns = 10_800_000_000;
    let wall = |ahead_ns, error_ns| Wall { ahead_ns, error_ns };
    for (delay_ns, ahead_ns, error_ns, expected) in [
        // Both agree, and wall clocks know it better.
        (400_000, 1_000_000, 2_000, Base::Disciplined),
        // They are on one side of what exchanges allow.
        (400_000, 1_150_000, 40_000, Base::Disciplined),
        // Exchanges know it better.
        (4_000, 1_000_000, 5_000_000, Base::Exchanges),
        // One of them lies.
        (4_000, 2_000_000, 2_000, Base::Contradicted),
    ] {
        let mut clock = within(delay_ns);
        let alone = clock.line().unwrap();
        clock.bound(now_ns, Some((wall(ahead_ns, error_ns), wall(0, error_ns))));
        assert_eq!(clock.base(), expected, "{delay_ns} {ahead_ns}");
        let line = clock.line().unwrap();
        let offset_ns = line.remote_ns(now_ns) - now_ns;
        if expected == Base::Disciplined {
            assert!(line.error_at_ns(now_ns) < alone.error_at_ns(now_ns));
            assert!(line.error_at_ns(now_ns) <= 2 * error_ns + 2, "{line:?}");
            let bound = line.error_at_ns(now_ns);
            assert!(
                offset_ns.abs_diff(ahead_ns as u64) <= 2 * error_ns,
                "{offset_ns}"
            );
            // What is stated lies within what exchanges allow.
            assert!(offset_ns.abs_diff(1_000_000) + bound <= alone.error_at_ns(now_ns) + 3);
            assert!(line.error_at_ns(now_ns + 1_000_000_000) > line.error_at_ns(now_ns));
        } else {
            assert_eq!(line, alone);
        }
        clock.bound(now_ns, None);
        assert_eq!((clock.line(), clock.base()), (Some(alone), Base::Exchanges));
    }
}
