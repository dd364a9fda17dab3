//! Histograms against the sorted values themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use forebay_ledger::{
    Histogram, HistogramWriter, LedgerReader, Percentiles, RunWriter, SchemaBuilder, Snapshot,
    Words,
};
use proptest::prelude::*;

fn snapshot(values: &[u64]) -> Snapshot {
    let mut s = SchemaBuilder::new("r");
    let id = s.histogram("latency_ns", "ns", "source1");
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let (first, second) = values.split_at(values.len() / 2);
    // Two writers, one after the other: the second goes on with what the first left.
    for half in [first, second] {
        let mut writer = HistogramWriter::attach(&schema, &memory, id).unwrap();
        half.iter().for_each(|&value| writer.record(value));
    }
    LedgerReader::open(&memory).unwrap().snapshot().unwrap()
}

fn record(values: &[u64]) -> Histogram {
    snapshot(values).histograms.remove(0)
}

#[test]
fn percentiles_are_found_by_the_histograms_name() {
    let values: Vec<u64> = (1..=20).collect();
    let of = |name| Percentiles::of(&snapshot(&values), name);
    let Percentiles { p50, p90, p99, max } = of("latency_ns");
    assert_eq!([p50, p90, p99, max], [10, 18, 20, 20]);
    assert_eq!(of("latency"), Percentiles::default());
}

#[test]
fn an_empty_histogram_says_zero() {
    let empty = record(&[]);
    assert_eq!(
        (
            empty.count(),
            empty.min(),
            empty.max(),
            empty.percentile(50.0)
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(empty.mean(), 0.0);
}

#[test]
fn values_beyond_the_range_keep_the_exact_maximum() {
    let h = record(&[0, 1 << 41]);
    assert_eq!(
        (h.min(), h.max(), h.percentile(100.0)),
        (0, 1 << 41, 1 << 41)
    );
}

#[test]
fn what_came_since_a_look_is_what_was_recorded_since() {
    let (then, more) = ([5, 900, 40_000], [1_000, 2_000, 3_000]);
    let all: Vec<u64> = then.into_iter().chain(more).collect();
    let since = record(&all).since(&record(&then));
    assert_eq!((since.count(), since.sum()), (3, more.iter().sum::<u64>()));
    let near = |shown: u64, exact: u64| shown.abs_diff(exact) <= exact / 31;
    for (percent, exact) in [(1.0, 1_000), (50.0, 2_000), (100.0, 3_000)] {
        let shown = since.percentile(percent);
        assert!(near(shown, exact), "p{percent}: {shown} for {exact}");
    }
    assert!(near(since.min(), 1_000) && near(since.max(), 3_000));
    let nothing = record(&all).since(&record(&all));
    assert_eq!(
        (
            nothing.count(),
            nothing.min(),
            nothing.max(),
            nothing.percentile(50.0)
        ),
        (0, 0, 0, 0)
    );
    let beyond = record(&[7, 1 << 41]).since(&record(&[7]));
    assert_eq!(beyond.percentile(50.0), 1 << 41);
}

proptest! {
    #[test]
    fn percentiles_are_within_a_bucket(mut values in prop::collection::vec((0u32..40, any::<u64>()).prop_map(|(bits, v)| v >> (63 - bits)), 1..300), percent in 0.0f64..=100.0) {
        let h = record(&values);
        values.sort_unstable();
        let rank = (percent / 100.0 * values.len() as f64).ceil().max(1.0) as usize;
        let exact = values[rank - 1] as f64;
        let shown = h.percentile(percent) as f64;
        prop_assert!((shown - exact).abs() <= exact / 32.0, "p{percent}: {shown} for {exact}");
        prop_assert_eq!(h.count(), values.len() as u64);
        prop_assert_eq!((h.min(), h.max()), (values[0], values[values.len() - 1]));
        prop_assert_eq!(h.sum(), values.iter().sum::<u64>());
    }
}
