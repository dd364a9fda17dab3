//! Replays the corpus of the fuzz target with its own oracle, and tries steps at random.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/filter.rs"]
mod filter;
#[path = "../../../../fuzz/oracle/flow.rs"]
mod flow;
#[path = "../../../../fuzz/oracle/plugins.rs"]
mod plugins;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;

#[test]
fn the_corpus_of_flows() {
    replay::replay("flow", 7, flow::check);
}

#[test]
fn the_corpus_of_rules() {
    replay::replay("filter", 3, filter::check);
}

#[test]
fn the_corpus_of_plugins() {
    replay::replay("plugins", 8, plugins::check);
}

/// 10.0.0.1:50000 → 10.0.0.2:443.
const SEGMENT: [u8; 40] = [
    0x45, 0, 0, 40, 0, 7, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0x01, 0xbb, 0,
    0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
];

/// A segment of one of 40 flows with some of the flags, or a part of one, or any bytes.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let segment = (any::<u8>(), 0..40_u8, any::<bool>(), any::<u8>());
    let segment = segment.prop_map(|(what, host, is_reverse, flags)| {
        let mut segment = SEGMENT;
        segment[if is_reverse { 19 } else { 15 }] = host;
        segment[33] = flags;
        [&[what & 0x1f | 0x20, 0, 40], &segment[..]].concat()
    });
    let fragment = (any::<u8>(), 0..4_u8, 0..3_u8).prop_map(|(what, host, place)| {
        let mut part = SEGMENT;
        (part[15], part[6], part[7]) = (host, 0x20, place);
        [&[what & 0x1f | 0x20, 0, 40], &part[..]].concat()
    });
    let other = proptest::collection::vec(any::<u8>(), 3..40);
    prop_oneof![8 => segment, 2 => fragment, 1 => other]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_books_close(
        how: u8,
        steps in proptest::collection::vec(step(), 0..100),
    ) {
        flow::check(&[&[how], &steps.concat()[..]].concat());
    }

    #[test]
    fn whatever_packets_carry_values_are_as_columns_say(
        steps in proptest::collection::vec(
            (any::<u8>(), 0..3_u8, proptest::collection::vec(any::<u8>(), 0..80)),
            0..40,
        ),
    ) {
        let bytes: Vec<u8> = steps
            .into_iter()
            .flat_map(|(what, sequence, payload)| [&[what, sequence, 0, payload.len() as u8], &payload[..]].concat())
            .collect();
        plugins::check(&bytes);
    }
}
