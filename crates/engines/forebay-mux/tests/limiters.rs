//! Rates over 10 s of virtual time, bounds on bursts, and bounds on waiting.

#![allow(clippy::unwrap_used)]

mod world;

use forebay_ledger::OneOf;
use forebay_mux::policy::{PerClient, PolicyConfig};
use forebay_mux::transmit::{Next, Packet, Sender, Transmit, TransmitDrop};
use proptest::prelude::*;
use world::{Full, Left, MS, SECOND_NS, SENDER, bucket, bytes_of, id, one_class, packet, window};

const TEN_GIGABIT: u64 = 10_000_000_000;
const RATES_BPS: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 2_000_000_000];
const LENGTHS: [&[u32]; 4] = [&[64], &[1514], &[64, 1514, 700], &[9014]];

fn with_client(policy: PolicyConfig, sender: Sender) -> Transmit {
    let mut transmit = one_class(policy);
    transmit.add_client(id(0), sender).unwrap();
    transmit
}

fn run(policy: PolicyConfig, lengths: &[u32], until_ns: u64) -> Vec<Left> {
    let full = Full {
        link_rate_bps: TEN_GIGABIT,
        lengths: &[lengths],
        until_ns,
        depth: 4,
    };
    full.run(&mut with_client(policy, SENDER))
}

/// So long that there are some 40,000 packets at most, and 10 s at least where a rate is slow, in whole windows.
fn until_ns(rate_bps: u64, length: u32) -> u64 {
    let packets_ns = 40_000 * u64::from(length) * 8 * SECOND_NS / rate_bps;
    packets_ns.clamp(100 * MS, 10 * SECOND_NS) / (10 * MS) * (10 * MS)
}

#[test]
fn limiters_hold_their_rate_within_a_percent() {
    for rate_bps in RATES_BPS {
        for lengths in LENGTHS {
            let until_ns = until_ns(rate_bps, lengths[0]);
            for policy in [bucket(rate_bps, 9014), window(rate_bps)] {
                let left = run(policy.clone(), lengths, until_ns);
                // The bucket was full at the begin.
                let bits = (bytes_of(&left, 0) * 8) as f64;
                let asked = rate_bps as f64 * until_ns as f64 / SECOND_NS as f64;
                let ratio = bits / asked;
                let start = 9014.0 * 8.0 / asked;
                assert!(
                    ratio > 0.99 && ratio < 1.01 + start,
                    "{ratio} of {rate_bps} bit/s with {lengths:?}: {policy:?}"
                );
            }
        }
    }
}

#[test]
fn the_rate_holds_over_ten_seconds_whatever_the_packets() {
    for rate_bps in [1_000_000, 10_000_000, 100_000_000] {
        for policy in [bucket(rate_bps, 1514), window(rate_bps)] {
            let left = run(policy, &[1514, 60, 300], 10 * SECOND_NS);
            let bits = bytes_of(&left, 0) * 8;
            let asked = rate_bps * 10;
            assert!(
                (asked * 99 / 100..=asked * 101 / 100).contains(&bits),
                "{bits} of {asked}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over each stretch of time, from any packet to any other one: no more than the burst and what the rate gives.
    #[test]
    fn a_token_bucket_never_gives_more_than_its_burst_and_its_rate(
        rate_bps in 1_000_000..1_000_000_000_u64,
        burst_bytes in 1514..100_000_u32,
        lengths in proptest::collection::vec(60..1515_u32, 1..8),
    ) {
        let left = run(bucket(rate_bps, burst_bytes), &lengths, 50 * MS);
        let rate = rate_bps as f64 / SECOND_NS as f64;
        let (mut sent, mut most) = (0.0, 0.0_f64);
        // Of stretches that begin with some packet before: the most that was sent, less what the rate gave meanwhile.
        let mut least_before = f64::MAX;
        for left in &left {
            let level = |sent: f64| sent - rate * left.at_ns as f64;
            least_before = least_before.min(level(sent));
            sent += f64::from(left.bytes) * 8.0;
            most = most.max(level(sent) - least_before);
        }
        prop_assert!(most <= f64::from(burst_bytes) * 8.0 + 1.0, "{most} bits at once of {}", burst_bytes * 8);
    }

    /// In each window, from its begin to its end: no more than its bits and the rest of a packet, and over all windows no more than theirs together.
    #[test]
    fn a_window_gives_its_bits_and_no_more_than_a_packet_beyond(
        rate_bps in 1_000_000..1_000_000_000_u64,
        lengths in proptest::collection::vec(60..1515_u32, 1..8),
    ) {
        let left = run(window(rate_bps), &lengths, 95 * MS);
        let budget = rate_bps / 100;
        let mut all = 0;
        for turn in 0..10 {
            let in_window = left.iter().filter(|left| left.at_ns / (10 * MS) == turn);
            let bits: u64 = in_window.map(|left| u64::from(left.bytes) * 8).sum();
            prop_assert!(bits < budget + 1514 * 8, "{bits} of {budget}");
            all += bits;
            prop_assert!(all < budget * (turn + 1) + 1514 * 8);
        }
    }
}

/// What the documentation says of windows: at their edge the bits of two of them leave in no time. The bucket does not do that.
#[test]
fn at_the_edge_of_a_window_twice_its_bits_can_leave() {
    for (policy, most) in [
        (window(100_000_000), 2 * 125_000 + 2000),
        (bucket(100_000_000, 12_500), 12_500 + 12_500),
    ] {
        let mut transmit = with_client(policy, SENDER);
        let late_ns = 10 * MS - 200_000;
        (0..300).for_each(|buffer| {
            transmit
                .offer(id(0), packet(buffer, 1250), late_ns)
                .unwrap()
        });
        let (mut now_ns, mut bytes) = (late_ns, 0);
        while now_ns < 10 * MS + 200_000 {
            match transmit.poll(now_ns, |_, _| {}) {
                Next::Send(client, packet) => {
                    bytes += packet.bytes;
                    transmit.finish(client, packet, true);
                    now_ns += 1000;
                }
                Next::AskAt(at_ns) => now_ns = at_ns,
                Next::Idle => break,
            }
        }
        assert!(
            bytes <= most && bytes >= most / 2,
            "{bytes} of at most {most}"
        );
    }
}

/// 150 Mb/s are asked of 100: a queue of 512 packets would delay each by 62 ms. With a bound of 5 ms none waits longer, the rate holds all the same, and what
/// is dropped has its name.
#[test]
fn a_bound_on_waiting_holds_under_a_limiter() {
    for policy in [bucket(100_000_000, 15_140), window(100_000_000)] {
        for (bound, longest_ns) in [(None, 55 * MS..=75 * MS), (Some(12 * MS), MS..=12 * MS)] {
            let mut transmit = with_client(
                policy.clone(),
                Sender {
                    sojourn_max_ns: bound,
                    ..SENDER
                },
            );
            let (mut sent, mut dropped, mut full) = (0_u64, 0_u64, 0_u64);
            let (mut offered, mut now_ns) = (0_u32, 0_u64);
            // A packet each 80.7 us.
            let due_ns = |offered: u32| u64::from(offered) * 80_746;
            while now_ns < 2 * SECOND_NS {
                while due_ns(offered) <= now_ns {
                    full += u64::from(
                        transmit
                            .offer(id(0), packet(offered, 1514), now_ns)
                            .is_err(),
                    );
                    offered += 1;
                }
                now_ns = match transmit.poll(now_ns, |_, _| dropped += 1) {
                    Next::Send(client, packet) => {
                        assert!(
                            bound.is_none_or(|bound_ns| now_ns - packet.arrival_ns <= bound_ns)
                        );
                        transmit.finish(client, packet, true);
                        sent += 1;
                        now_ns + 1211
                    }
                    Next::AskAt(at_ns) => at_ns.min(due_ns(offered)),
                    Next::Idle => due_ns(offered),
                };
            }
            let counts = transmit.counts(id(0));
            assert!(
                longest_ns.contains(&counts.sojourn_max_ns),
                "{} ns, bound {bound:?}",
                counts.sojourn_max_ns
            );
            let bits = sent * 1514 * 8;
            assert!(
                (198_000_000..=202_000_000).contains(&bits),
                "{bits} with {bound:?} and {policy:?}"
            );
            let lost = |why| counts.dropped[OneOf::Second(why)].items;
            assert_eq!(
                (lost(TransmitDrop::Sojourn), lost(TransmitDrop::QueueFull)),
                (dropped, full)
            );
            assert_eq!(bound.is_some(), dropped > 0);
            assert_eq!(
                u64::from(offered),
                sent + dropped + full + transmit.waiting(id(0)) as u64
            );
        }
    }
}

/// A packet that has waited for too long is dropped on its time, and not when the client may send again.
#[test]
fn the_time_to_ask_again_is_that_of_the_first_packet_to_drop() {
    let mut transmit = with_client(
        bucket(8000, 64),
        Sender {
            sojourn_max_ns: Some(MS),
            ..SENDER
        },
    );
    transmit.offer(id(0), packet(1, 64), 5).unwrap();
    assert!(matches!(transmit.poll(5, |_, _| {}), Next::Send(..)));
    transmit.offer(id(0), packet(2, 64), 10).unwrap();
    assert_eq!(transmit.poll(10, |_, _| {}), Next::AskAt(MS + 11));
    let mut dropped = Vec::new();
    assert_eq!(
        transmit.poll(MS + 10, |_, packet| dropped.push(packet.buffer)),
        Next::AskAt(MS + 11)
    );
    assert_eq!(
        transmit.poll(MS + 11, |_, packet| dropped.push(packet.buffer)),
        Next::Idle
    );
    assert_eq!(dropped, [2]);
}

#[test]
fn a_rate_that_is_set_again_gives_nothing_away() {
    let mut transmit = with_client(bucket(1_000_000, 1514), SENDER);
    (0..100).for_each(|buffer| transmit.offer(id(0), packet(buffer, 1514), 0).unwrap());
    let mut sent = 0;
    for step in 0..1000 {
        let now_ns = step * 100_000;
        transmit
            .set_policy(0, &bucket(1_000_000, 1514), now_ns)
            .unwrap();
        while let Next::Send(client, packet) = transmit.poll(now_ns, |_, _| {}) {
            transmit.finish(client, packet, true);
            sent += 1;
        }
    }
    // 0.1 s at 1 Mb/s, and the burst.
    assert_eq!(sent, 1 + 12_500 / 1514);
}

#[test]
fn payload_alone_counts_where_that_is_set() {
    let policy = PolicyConfig::TokenBucket {
        rate_bps: PerClient::all(Some(10_000_000)),
        burst_bytes: PerClient::all(1472),
        uncounted_bytes: 42,
    };
    let left = run(policy, &[142], SECOND_NS);
    let payload_bits = left.len() as u64 * 100 * 8;
    assert!(
        (9_900_000..=10_100_000).contains(&payload_bits),
        "{payload_bits}"
    );
}

fn windows(rate_bps: Option<u64>, window_ns: u64) -> PolicyConfig {
    PolicyConfig::Window {
        window_ns,
        rate_bps: PerClient::all(rate_bps),
        uncounted_bytes: 0,
    }
}

/// What leaves of a queue that is kept full between two times, in bytes.
fn sent_until(transmit: &mut Transmit, from_ns: u64, until_ns: u64) -> u64 {
    let (mut now_ns, mut bytes) = (from_ns, 0);
    while now_ns < until_ns {
        while transmit.waiting(id(0)) < 4 {
            transmit.offer(id(0), packet(0, 1514), now_ns).unwrap();
        }
        now_ns = match transmit.poll(now_ns, |_, _| {}) {
            Next::Send(client, packet) => {
                bytes += u64::from(packet.bytes);
                transmit.finish(client, packet, true);
                now_ns + 1211
            }
            Next::AskAt(at_ns) => at_ns,
            Next::Idle => now_ns + 1,
        };
    }
    bytes
}

#[test]
fn what_was_sent_without_a_rate_is_not_owed_to_a_later_one() {
    let mut transmit = with_client(windows(None, 10 * MS), SENDER);
    let unlimited = sent_until(&mut transmit, 0, SECOND_NS);
    assert!(unlimited > 1_000_000_000, "{unlimited}");
    transmit
        .set_policy(0, &window(100_000_000), SECOND_NS)
        .unwrap();
    let limited = sent_until(&mut transmit, SECOND_NS, 2 * SECOND_NS);
    assert!((12_375_000..12_626_000).contains(&limited), "{limited}");
}

/// From 0.8 bits of a window on: what a window gives is not rounded to bits, and between two packets no window is polled in vain.
#[test]
fn the_shortest_windows_hold_the_slowest_rates() {
    for (rate_bps, until_ns) in [
        (8000, 1000 * SECOND_NS),
        (15_000, 500 * SECOND_NS),
        (999_999, 10 * SECOND_NS),
        (1_000_000_000_000, MS),
    ] {
        let full = Full {
            link_rate_bps: 100_000_000_000_000,
            lengths: &[&[1514, 60, 300]],
            until_ns,
            depth: 4,
        };
        let policy = windows(Some(rate_bps), 100_000);
        let left = full.run(&mut with_client(policy, SENDER));
        let bits = bytes_of(&left, 0) as f64 * 8.0;
        let asked = rate_bps as f64 * until_ns as f64 / SECOND_NS as f64;
        assert!((bits / asked - 1.0).abs() < 0.01, "{bits} of {asked}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever rate and window are legal: within a percent and a packet, asked for as often as there are packets.
    #[test]
    fn a_window_of_any_legal_length_holds_any_legal_rate(
        rate_bps in (3.9_f64..12.0).prop_map(|power| (10_f64.powf(power) as u64).max(8000)),
        window_ns in (5.0_f64..9.0).prop_map(|power| (10_f64.powf(power) as u64).clamp(100_000, SECOND_NS)),
    ) {
        let bits = 400 * 1514 * 8;
        let windows_ns = (bits * SECOND_NS / rate_bps).max(2).div_ceil(window_ns);
        prop_assume!(u128::from(rate_bps) * u128::from(window_ns * windows_ns) < 1_u128 << 62);
        let until_ns = windows_ns * window_ns;
        prop_assume!(rate_bps / 8 / 1514 * until_ns / SECOND_NS < 50_000);
        let full = Full { link_rate_bps: 100_000_000_000_000, lengths: &[&[1514]], until_ns, depth: 4 };
        let left = full.run(&mut with_client(windows(Some(rate_bps), window_ns), SENDER));
        let asked = rate_bps as f64 * until_ns as f64 / SECOND_NS as f64;
        let sent = bytes_of(&left, 0) as f64 * 8.0;
        prop_assert!((sent - asked).abs() <= asked * 0.01 + 1514.0 * 8.0, "{sent} of {asked}");
    }
}

/// Whether the rate of a window is set once or often: no more than the greatest gives, and no silence beyond a window and a packet.
#[test]
fn a_window_whose_rate_goes_up_and_down_gives_no_more_than_the_greatest() {
    let mut transmit = with_client(window(1_000_000), SENDER);
    let mut bytes = 0;
    for step in 0..1000 {
        let rate_bps = if step % 2 == 0 { 10_000_000 } else { 1_000_000 };
        transmit
            .set_policy(0, &window(rate_bps), step * MS)
            .unwrap();
        bytes += sent_until(&mut transmit, step * MS, (step + 1) * MS);
    }
    assert!(bytes <= 10_000_000 / 8 + 1514, "{bytes}");
    assert!(bytes > 1_000_000 / 8, "{bytes}");
    transmit
        .set_policy(0, &windows(Some(1_000_000_000_000), 10 * MS), SECOND_NS)
        .unwrap();
    sent_until(&mut transmit, SECOND_NS, SECOND_NS + 10 * MS);
    transmit
        .set_policy(0, &window(8_000_000), SECOND_NS + 10 * MS)
        .unwrap();
    let slow = sent_until(&mut transmit, SECOND_NS + 10 * MS, SECOND_NS + 110 * MS);
    assert!((99_000..102_000).contains(&slow), "{slow}");
}

/// What waits for its bucket at a slow rate waits no longer than that is at the fast one.
#[test]
fn a_bucket_whose_rate_is_raised_fills_at_that_rate() {
    let mut transmit = with_client(bucket(1_000_000, 1_000_000), SENDER);
    sent_until(&mut transmit, 0, 100 * MS);
    transmit
        .set_policy(0, &bucket(1_000_000_000, 1_000_000), 100 * MS)
        .unwrap();
    let bytes = sent_until(&mut transmit, 100 * MS, 200 * MS);
    assert!((12_375_000..12_510_000).contains(&bytes), "{bytes}");
}

/// Up and down, by the rate and by the burst: what leaves is one burst, and what the rates gave while they held.
#[test]
fn a_bucket_that_is_changed_often_gives_one_burst() {
    let mut transmit = with_client(bucket(100_000_000, 100_000), SENDER);
    let mut bytes = sent_until(&mut transmit, 0, MS);
    for step in 1..1000 {
        for (rate_bps, burst_bytes) in [
            (1_000_000_000, 1_000_000),
            (10_000, 1514),
            (100_000_000, 100_000),
        ] {
            transmit
                .set_policy(0, &bucket(rate_bps, burst_bytes), step * MS)
                .unwrap();
            while let Next::Send(client, packet) = transmit.poll(step * MS, |_, _| {}) {
                bytes += u64::from(packet.bytes);
                transmit.finish(client, packet, true);
                transmit.offer(id(0), packet, step * MS).unwrap();
            }
        }
        bytes += sent_until(&mut transmit, step * MS, (step + 1) * MS);
    }
    let given = 100_000 + 100_000_000 / 8;
    assert!(
        (given * 98 / 100..=given * 101 / 100).contains(&bytes),
        "{bytes} of {given}"
    );
}

/// The burst was emptied at a fast rate: a slow one with a small burst keeps the client silent for that burst, and not for what the large one lacked.
#[test]
fn a_bucket_that_is_made_small_lacks_no_more_than_it_holds() {
    let mut transmit = with_client(bucket(1_000_000_000, 1_000_000), SENDER);
    sent_until(&mut transmit, 0, 20 * MS);
    transmit
        .set_policy(0, &bucket(1_000_000, 1514), 20 * MS)
        .unwrap();
    let Next::AskAt(at_ns) = transmit.poll(20 * MS, |_, _| {}) else {
        panic!("a burst was given");
    };
    assert!(at_ns <= 20 * MS + 2 * 1514 * 8 * 1000, "{at_ns}");
}

/// A long head waits for its bucket until it is too old: the short one behind it has enough, and goes at once.
#[test]
fn a_short_head_behind_a_long_one_that_expired_does_not_wait_for_it() {
    let sender = Sender {
        sojourn_max_ns: Some(MS),
        ..SENDER
    };
    let mut transmit = with_client(bucket(8000, 1514), sender);
    transmit.offer(id(0), packet(0, 1000), 0).unwrap();
    assert!(matches!(transmit.poll(0, |_, _| {}), Next::Send(..)));
    transmit.offer(id(0), packet(1, 1514), 0).unwrap();
    assert_eq!(transmit.poll(0, |_, _| {}), Next::AskAt(MS + 1));
    transmit.offer(id(0), packet(2, 64), MS).unwrap();
    let next = transmit.poll(MS + 1, |_, dropped| assert_eq!(dropped.buffer, 1));
    assert!(
        matches!(next, Next::Send(_, Packet { buffer: 2, .. })),
        "{next:?}"
    );
}

/// A client that takes the number of one that left waits for its own head.
#[test]
fn a_short_head_of_the_next_client_does_not_wait_for_the_former_one() {
    let mut transmit = with_client(bucket(8000, 1514), SENDER);
    transmit.offer(id(0), packet(0, 1000), 0).unwrap();
    let Next::Send(client, first) = transmit.poll(0, |_, _| {}) else {
        panic!("nothing to send");
    };
    transmit.finish(client, first, true);
    transmit.offer(id(0), packet(1, 1514), 0).unwrap();
    assert!(matches!(transmit.poll(0, |_, _| {}), Next::AskAt(_)));
    transmit.remove_client(id(0), |_| {});
    transmit.add_client(id(0), SENDER).unwrap();
    transmit.offer(id(0), packet(2, 64), 0).unwrap();
    assert!(matches!(transmit.poll(0, |_, _| {}), Next::Send(..)));
}
