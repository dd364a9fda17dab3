//! Replays the corpus of the fuzz target for profiles with its own oracle, and tries rows at random.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

#[path = "../../../../fuzz/oracle/profile.rs"]
mod profile;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use forebay_traffic::Row;
use proptest::prelude::*;

#[test]
fn the_corpus_of_profiles() {
    replay::replay("profile", 10, profile::check);
}

/// A value that most columns take, or one that few do.
fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        8 => 0..100_u64,
        2 => 0..20_000_u64,
        1 => any::<u64>(),
    ];
    prop_oneof![12 => number.prop_map(|n| n.to_string()), 1 => "[-+0-9a-f:.]{0,20}"]
}

/// A row, of which one value may be another.
fn row() -> impl Strategy<Value = String> {
    let sides = (0..40_u64, 0..9_020_u64, 0..40_u64, 0..9_020_u64);
    let of = (
        0..50_u64,
        prop::sample::select(vec![4, 6]),
        prop::sample::select(vec![1, 6, 17, 47, 58]),
    );
    let other = prop::option::weighted(0.1, (0..12_usize, value()));
    (sides, of, any::<[u16; 2]>(), other).prop_map(|(sides, of, ports, other)| {
        let (there, mean, back, mean_back) = sides;
        let numbers = [
            of.0 / 10,
            of.0,
            of.1,
            of.2,
            ports[0].into(),
            ports[1].into(),
            there,
            there * mean,
            back,
            back * mean_back,
        ];
        let mut values: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        values.extend([String::new(), String::new()]);
        if let Some((at, value)) = other {
            values[at] = value;
        }
        values.join(",")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_rows_say_packets_add_up(mut rows in prop::collection::vec(row(), 0..12), garbage in "[ -~\n]{0,60}") {
        // Most profiles are in order.
        rows.sort_by_key(|row| row.split(',').next().and_then(|start| start.parse::<u64>().ok()));
        profile::check(format!("{}\n{}\n{garbage}", Row::HEADER, rows.join("\n")).as_bytes());
    }
}
