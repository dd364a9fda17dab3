//! What can be computed by hand, the books, and any parameters at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use forebay_ctt::fit::{CONSTANTS, Case, SCATTERED, search};
use forebay_ctt::published::{FITTED_ON, PUBLISHED, Published};
use forebay_ctt::sweep::{LINES, MEMORIES};
use forebay_ctt::{
    Edition, MemoryParameters, NAMED, Outcome, Parameters, Table, TableParameters, Trace,
};
use forebay_settings::{Kind, Section, Settings as _};
use proptest::prelude::*;

fn parameters(set: &[(&str, u64)]) -> Parameters {
    let mut parameters = Parameters::default();
    let plain = [
        ("memory.latency_spread_permille", 0),
        ("memory.refresh_ns", 0),
        ("memory.bank_cycle_ns", 0),
        ("memory.write_back_ns", 0),
        ("memory.latency_ns", 1_000),
        ("memory.efficiency_permille", 650),
        ("memory.outstanding", 65_536),
        ("table.hit_latency_ns", 210),
        ("table.retention_ns", 1_200),
        ("table.fifo_bytes", 900_000),
        ("table.modify_cycles", 0),
    ];
    for (name, value) in plain.iter().chain(set) {
        assert!(parameters.set(name, *value), "{name}");
    }
    parameters
}

/// Offers packets of `bytes`, with the flow that `flow` says of each; asserts that the books close, and that all packets arrived.
fn run(parameters: &Parameters, packets: u32, bytes: u32, flow: impl Fn(u32) -> u32) -> Outcome {
    let mut table = Table::new(parameters);
    (0..packets).for_each(|packet| table.offer(flow(packet), bytes));
    let outcome = table.outcome();
    assert!(outcome.is_closed(), "{outcome:?}");
    assert_eq!(outcome.packets_in, u64::from(packets));
    assert_eq!(outcome.bytes_in, u64::from(packets) * u64::from(bytes));
    assert_eq!(
        outcome.hits + outcome.misses,
        outcome.packets_in - outcome.packets_dropped
    );
    assert_eq!(outcome.misses, outcome.contexts_fetched);
    outcome
}

fn near(found: f64, expected: f64, share: f64) {
    assert!(
        (found / expected - 1.0).abs() <= share,
        "{found}, by hand {expected}"
    );
}

/// Packets that left in a second: those that wait had no turn yet.
fn answered_hz(outcome: &Outcome) -> f64 {
    outcome.packets_out as f64 * 1e9 / outcome.duration_ns
}

#[test]
fn packets_come_as_fast_as_the_line_brings_them() {
    for (bytes, rate_hz) in [(1_100, 44.64e6), (480, 100e6), (140, 312.5e6)] {
        let outcome = run(&parameters(&[]), 10_000, bytes, |_| 0);
        near(outcome.offered_rate_hz(), rate_hz, 1e-3);
    }
}

#[test]
fn a_hit_takes_the_path_of_hits_alone() {
    let outcome = run(&parameters(&[]), 100_000, 1_000, |packet| packet % 3);
    assert_eq!((outcome.misses, outcome.packets_dropped), (3, 0));
    let quartiles = [
        outcome.latency_ns_p25,
        outcome.latency_ns_p50,
        outcome.latency_ns_p75,
    ];
    assert_eq!(quartiles, [210.0; 3]);
}

#[test]
fn a_miss_takes_the_memory_besides() {
    let outcome = run(&parameters(&[]), 100_000, 1_000, |packet| packet);
    assert_eq!((outcome.hits, outcome.packets_dropped), (0, 0));
    near(outcome.latency_ns_mean, 1_210.0, 0.01);
}

#[test]
fn misses_alone_are_as_many_as_the_memory_can() {
    // Two channels, each with two words of 3 ns both ways at 65 %: 18.46 ns; refreshes take 260 ns of 3.9 us.
    let by_hand = 2.0 / 18.461e-9 * (1.0 - 260.0 / 3_900.0);
    let outcome = run(
        &parameters(&[("memory.refresh_ns", 260)]),
        4_000_000,
        64,
        |packet| packet,
    );
    near(answered_hz(&outcome), by_hand, 0.02);
    // What is not dropped has been answered, or waits: 1 % of all does in the end.
    near(
        1.0 - outcome.drop_ratio(),
        by_hand / outcome.offered_rate_hz(),
        0.04,
    );
    let twice = run(
        &parameters(&[("memory.refresh_ns", 260), ("memory.channels", 4)]),
        4_000_000,
        64,
        |packet| packet,
    );
    near(answered_hz(&twice), by_hand * 2.0, 0.02);
}

#[test]
fn requests_under_way_bound_misses_by_their_latency() {
    let few = parameters(&[("memory.outstanding", 16), ("memory.channels", 1)]);
    let outcome = run(&few, 2_000_000, 64, |packet| packet);
    near(answered_hz(&outcome), 16.0 / 1e-6, 0.02);
}

#[test]
fn the_table_takes_so_many_packets_in_a_clock() {
    let slow = parameters(&[("table.records_per_clock", 1)]);
    let outcome = run(&slow, 2_000_000, 64, |packet| packet % 8);
    near(answered_hz(&outcome), 200e6, 0.02);
}

#[test]
fn updates_of_one_flow_follow_each_other() {
    // Every 4 clocks of 5 ns one packet of the flow.
    let chained = parameters(&[("table.modify_cycles", 4), ("table.records_per_clock", 4)]);
    let outcome = run(&chained, 1_000_000, 64, |_| 0);
    near(answered_hz(&outcome), 50e6, 0.02);
}

#[test]
fn a_fifo_that_is_never_emptied_holds_what_fits() {
    let stuck = [("memory.latency_ns", 1_000_000), ("table.fifo_packets", 10)];
    let outcome = run(&parameters(&stuck), 1_000, 100, |packet| packet);
    assert_eq!(
        (
            outcome.packets_held,
            outcome.packets_dropped,
            outcome.packets_out
        ),
        (10, 990, 0)
    );
    let stuck = [
        ("memory.latency_ns", 1_000_000),
        ("table.fifo_bytes", 2_048),
    ];
    let outcome = run(&parameters(&stuck), 1_000, 100, |packet| packet);
    assert_eq!(
        (
            outcome.packets_held,
            outcome.bytes_held,
            outcome.bytes_dropped
        ),
        (20, 2_000, 98_000)
    );
}

#[test]
fn latencies_are_clipped() {
    let slow = [
        ("memory.latency_ns", 100_000),
        ("table.fifo_bytes", 1 << 30),
        ("table.fifo_packets", 1 << 20),
    ];
    let outcome = run(&parameters(&slow), 1_000, 1_000, |packet| packet);
    assert_eq!(
        (outcome.latency_ns_p50, outcome.latency_ns_mean),
        (40_960.0, 40_960.0)
    );
}

/// Packets of 980 bytes are 20 ns apart; so is flow 0 in every 50th packet 1 us, in every 100th 2 us.
#[test]
fn a_context_stays_for_its_time() {
    let misses_of_0 = |parameters: &Parameters, every: u32| {
        let others = |packet: u32| {
            if packet.is_multiple_of(every) {
                0
            } else {
                packet
            }
        };
        let with = run(parameters, 100_000, 980, others);
        let others = 100_000 - 100_000 / u64::from(every);
        with.misses - others
    };
    let renewed = parameters(&[("table.retention_ns", 1_500)]);
    assert_eq!(misses_of_0(&renewed, 50), 1);
    assert_eq!(misses_of_0(&renewed, 100), 1_000);
    let mut fixed = renewed;
    fixed.table.retention_renewed = false;
    // At 0 and 1 us, but not at 2 us.
    assert_eq!(misses_of_0(&fixed, 50), 1_000);
}

#[test]
fn a_context_that_is_written_back_is_waited_for() {
    // Of the flow whose stay of 1.5 us ends 0.5 us before its next packet.
    let every_2_us = |packet: u32| if packet.is_multiple_of(100) { 0 } else { 1 };
    let latency_ns = |write_back_ns| {
        let set = [
            ("table.retention_ns", 1_500),
            ("memory.write_back_ns", write_back_ns),
        ];
        run(&parameters(&set), 100_000, 980, every_2_us).latency_ns_mean
    };
    // A hundredth of all packets wait 1 us for the memory, and then 400 ns more.
    assert_eq!(latency_ns(500), latency_ns(0));
    near(latency_ns(900) - latency_ns(0), 4.0, 0.1);
}

#[test]
fn contexts_beyond_the_chip_are_waited_for() {
    // Eight that stay 10 us each: 0.8 of them in a us.
    let few = [("table.contexts", 8), ("table.retention_ns", 10_000)];
    let outcome = run(&parameters(&few), 1_000_000, 64, |packet| packet);
    near(answered_hz(&outcome), 0.8e6, 0.05);
    assert!(outcome.contexts_held <= 8);
}

#[test]
fn the_same_trace_has_the_same_outcome() {
    let trace = |seed| Trace::of_profile(&NAMED[4], Edition::Small, 50_000, seed);
    assert_eq!(trace(1).packets().len(), 50_000);
    assert_eq!(
        trace(1).run(&Parameters::default()),
        trace(1).run(&Parameters::default())
    );
    assert_ne!(trace(1), trace(2));
}

/// The order of flows is that of whole packets: they are small, and nothing else.
#[test]
fn both_editions_have_the_same_flows() {
    let flows = |edition| {
        let trace = Trace::of_profile(&NAMED[0], edition, 30_000, 3);
        trace
            .packets()
            .iter()
            .map(|packet| packet.flow)
            .collect::<Vec<_>>()
    };
    assert_eq!(flows(Edition::Default), flows(Edition::Small));
}

#[test]
fn names_are_those_of_parameters_and_profiles() {
    for profile in &NAMED {
        assert!(
            Published::of(profile.stands_for).is_some(),
            "{}",
            profile.stands_for
        );
    }
    assert!(
        FITTED_ON
            .iter()
            .all(|label| PUBLISHED.iter().any(|one| one.label == *label))
    );
    let usual = Parameters::default();
    for constant in &CONSTANTS {
        let value = usual.value(constant.name).unwrap();
        assert!(
            (constant.from..=constant.to).contains(&value),
            "{}",
            constant.name
        );
    }
    for variant in LINES.iter().chain(&MEMORIES) {
        let with = variant.of(&usual);
        assert!(
            variant
                .set
                .iter()
                .all(|(name, value)| with.value(name) == Some(*value)),
            "{}",
            variant.name
        );
    }
}

#[test]
fn a_search_makes_the_error_smaller_and_ends_the_same_each_time() {
    let profile = NAMED
        .iter()
        .find(|profile| profile.stands_for == "N_M")
        .unwrap();
    let case = Case {
        published: Published::of("N_M").unwrap(),
        edition: Edition::Small,
        trace: Trace::of_profile(profile, Edition::Small, 20_000, 1),
    };
    let mut far = Parameters::default();
    far.set("memory.efficiency_permille", 400);
    far.set("memory.latency_ns", 2_000);
    let cases = [case];
    let before = cases[0].error(&cases[0].trace.run(&far));
    let found = search(&cases, &far, &mut |_| true);
    assert!(found.error < before / 2.0, "{} of {before}", found.error);
    assert_eq!(
        found.error,
        cases[0].error(&cases[0].trace.run(&found.parameters))
    );
    let again = search(&cases, &far, &mut |_| true);
    assert_eq!(
        (&found.parameters, found.tries),
        (&again.parameters, again.tries)
    );
    for constant in &CONSTANTS {
        let value = again.parameters.value(constant.name).unwrap();
        assert!(
            (constant.from..=constant.to).contains(&value),
            "{}: {value}",
            constant.name
        );
    }
    let mut asked = 0;
    let cut = search(&cases, &far, &mut |_| {
        asked += 1;
        asked < 10
    });
    assert!(u64::from(cut.tries) <= SCATTERED.min(12), "{}", cut.tries);
}

/// Any value that the declaration of a section allows, small ones and limits more often.
fn any_of(section: &'static Section) -> impl Strategy<Value = Vec<(String, u64)>> {
    let keys: Vec<_> = section
        .keys
        .iter()
        .filter_map(|key| match key.kind {
            Kind::Integer(from, to) => Some((format!("{}.{}", section.name, key.name), from, to)),
            _ => None,
        })
        .collect();
    let each: Vec<_> = keys
        .into_iter()
        .map(|(name, from, to)| {
            let value = prop_oneof![from..=to, from..=(from + 50).min(to), Just(from), Just(to)];
            (Just(name), value)
        })
        .collect();
    each
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_parameters_are_borne_and_the_books_close(
        table in any_of(TableParameters::SECTION),
        memory in any_of(MemoryParameters::SECTION),
        renewed: bool,
        packets in prop::collection::vec((0..300_u32, 0..9_100_u32), 1..600),
    ) {
        let mut parameters = Parameters::default();
        for (name, value) in table.iter().chain(&memory) {
            prop_assert!(parameters.set(name, *value));
        }
        parameters.table.retention_renewed = renewed;
        let mut table = Table::new(&parameters);
        for (number, (flow, bytes)) in packets.iter().enumerate() {
            table.offer(*flow, *bytes);
            if number % 50 != 0 {
                continue;
            }
            let outcome = table.outcome();
            prop_assert_eq!(outcome.packets_in, outcome.packets_out + outcome.packets_dropped + outcome.packets_held);
            prop_assert_eq!(outcome.bytes_in, outcome.bytes_out + outcome.bytes_dropped + outcome.bytes_held);
            prop_assert_eq!(outcome.contexts_fetched, outcome.contexts_written + outcome.contexts_held);
        }
        let outcome = table.outcome();
        prop_assert!(outcome.is_closed());
        prop_assert_eq!(outcome.packets_in, packets.len() as u64);
        prop_assert_eq!(outcome.hits + outcome.misses, outcome.packets_out + outcome.packets_held);
    }
}

/// After 20 us one packet waits 10 us for the memory: those behind it are answered at once, and leave behind it all the same.
#[test]
fn packets_leave_in_order() {
    let slow = parameters(&[("memory.latency_ns", 10_000)]);
    let outcome = run(
        &slow,
        1_251,
        980,
        |packet| if packet == 1_000 { 0 } else { 1 },
    );
    assert_eq!(outcome.latency_ns_p50, 210.0);
    assert!(
        (251..=262).contains(&outcome.packets_held),
        "{}",
        outcome.packets_held
    );
}
