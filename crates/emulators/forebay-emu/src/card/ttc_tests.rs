#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use super::*;

fn triggers(config: &TtcConfig, seed: u64, count: usize) -> Vec<Trigger> {
    assert_eq!(config.validate(1), Ok(()));
    let mut ttc = Ttc::new(config, seed);
    let mut given = Vec::new();
    while given.len() < count
        && let Some(at) = ttc.peek()
    {
        given.extend(ttc.give(at));
    }
    given
}

fn bunches(trigger: &Trigger) -> (u32, u16) {
    let message = trigger.message(1);
    (message.orbit, message.bunch)
}

#[test]
fn a_fixed_rate_does_not_drift_and_is_skipped_exactly() {
    let config = TtcConfig::at_rate(1e6);
    let given = triggers(&config, 1, 1000);
    assert!(
        given
            .iter()
            .all(|t| t.at == t.number * 1000 * TICKS_PER_NS && u64::from(t.l1id) == t.number)
    );
    let third = TtcConfig::at_rate(3e6);
    for until in [1, 31, 32, 33, 95_999, 96_000, 96_001, 10_000_019] {
        let (mut fast, mut slow) = (Ttc::new(&third, 1), Ttc::new(&third, 1));
        let mut count = 0;
        while slow.peek().unwrap() < until {
            slow.skip();
            count += 1;
        }
        assert_eq!(fast.skip_until(until, u64::MAX), count, "{until}");
        assert_eq!(fast.peek(), slow.peek());
    }
}

#[test]
fn limits_end_it() {
    let mut config = TtcConfig::at_rate(1000.0);
    config.limit.duration_ns = Some(1_000_000_000);
    assert_eq!(triggers(&config, 1, usize::MAX).len(), 1000);
    config.limit.events = Some(7);
    assert_eq!(triggers(&config, 1, usize::MAX).len(), 7);
    config.limit.events = Some(0);
    assert_eq!(triggers(&config, 1, usize::MAX).len(), 0);
    config.limit.events = None;
    assert_eq!(Ttc::new(&config, 1).skip_until(u64::MAX, u64::MAX), 1000);
}

/// Counts in 1,000 windows of 100 expected triggers: of a Poisson process the variance is the mean. The mean's standard deviation is √(100/1000), the relative one of
/// the variance √(2/1000); five of each are allowed.
#[test]
fn poisson_counts_have_the_mean_and_the_variance() {
    const WINDOW: u64 = 100_000 * TICKS_PER_NS;
    for seed in 0..5 {
        let mut config = TtcConfig::at_rate(1e6);
        config.spread = Spread::Poisson;
        config.limit.duration_ns = Some(100_000_000);
        let mut counts = [0.0; 1000];
        for trigger in triggers(&config, seed, usize::MAX) {
            counts[(trigger.at / WINDOW) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1000.0;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 999.0;
        assert!((mean - 100.0).abs() < 1.6, "seed {seed}: mean {mean}");
        assert!(
            (variance / mean - 1.0).abs() < 0.225,
            "seed {seed}: variance {variance}"
        );
    }
}

/// 1 MHz for 0.1 s: 100,000 expected, five standard deviations of at most √100,000 are 1,582.
#[test]
fn trains_hold_all_triggers_once_in_a_bunch_and_keep_the_rate() {
    for seed in 0..3 {
        let mut config = TtcConfig::at_rate(1e6);
        config.spread = Spread::Trains(Trains::default());
        config.limit.duration_ns = Some(100_000_000);
        let given = triggers(&config, seed, usize::MAX);
        let off = given.len() as f64 - 100_000.0;
        assert!(off.abs() < 1582.0, "seed {seed}: {off} off");
        let mut seen = [0_u32; ORBIT_BUNCHES as usize];
        for trigger in &given {
            seen[usize::from(bunches(trigger).1)] += 1;
        }
        for (bunch, count) in seen.iter().enumerate() {
            let filled = bunch / 80 < 39 && bunch % 80 < 72;
            // 35.6 expected in each filled one.
            assert_eq!(*count > 0, filled, "seed {seed}: bunch {bunch}");
        }
        assert!(
            given
                .windows(2)
                .all(|two| bunches(&two[0]) < bunches(&two[1])),
            "seed {seed}"
        );
    }
}

#[test]
fn full_trains_have_a_trigger_in_every_filled_bunch() {
    let mut config = TtcConfig::at_rate(BUNCH_HZ as f64 * 2.0 * 3.0 / 3564.0);
    let trains = Trains {
        trains: 2,
        bunches: 3,
        gap_bunches: 5,
    };
    config.spread = Spread::Trains(trains);
    let given = triggers(&config, 1, 12);
    let found: Vec<_> = given.iter().map(bunches).collect();
    let orbit = |n| [0, 1, 2, 8, 9, 10].map(|bunch| (n, bunch));
    assert_eq!(found, [orbit(0), orbit(1)].concat());
}

#[test]
fn dead_time_holds_back_what_comes_too_soon() {
    let mut config = TtcConfig::at_rate(1e7);
    config.dead_time_bunches = 5; // 124.8 ns, triggers each 100 ns
    config.limit.duration_ns = Some(1000);
    let given = triggers(&config, 1, usize::MAX);
    let at: Vec<u64> = given.iter().map(|t| t.at / TICKS_PER_NS).collect();
    assert_eq!(at, [0, 200, 400, 600, 800]);
}

#[test]
fn a_reset_begins_the_number_again_and_is_counted_above_it() {
    let mut config = TtcConfig::at_rate(1e6);
    config.ecr_period_ns = Some(3000);
    let given = triggers(&config, 1, 8);
    let numbers: Vec<_> = given
        .iter()
        .map(|t| (t.l1id >> 24, t.l1id & 0xff))
        .collect();
    let expected = [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 1),
    ];
    assert_eq!(numbers, expected);
}

#[test]
fn a_message_says_what_is_known_of_the_trigger() {
    // One orbit is 3,564 bunches of 24.95 ns: 88.92 µs.
    let trigger = Trigger {
        number: 41,
        l1id: 3 << 24 | 0x12_3456,
        at: bunch_ticks(2 * ORBIT_BUNCHES + 17),
    };
    let expected = TtcMessage {
        bunch: 17,
        l1id: 0x12_3456,
        resets: 3,
        orbit: 2,
        trigger_type: 0x80,
        l0id: 0x12_3456,
        triggers: 42,
    };
    assert_eq!(trigger.message(0x80), expected);
    assert_eq!(TtcMessage::parse(&expected.emit()), Ok(expected));
    let before = Trigger {
        at: trigger.at - 1,
        ..trigger
    };
    assert_eq!(before.message(0).bunch, 16);
}
