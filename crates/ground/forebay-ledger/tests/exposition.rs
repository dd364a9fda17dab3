//! The exposition is read back line by line, as a scraper would.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod pipeline;

use forebay_ledger::reasons;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forebay_ledger::{
    GroupWriter, HistogramWriter, LedgerReader, RunWriter, SchemaBuilder, Snapshot, Unit, Words,
    prometheus::{self, Family, Sheet},
};
use pipeline::Pipeline;

type Labels = Vec<(String, String)>;

/// `name{a="b",c="d"} 1.5`
fn parse_sample(line: &str) -> (String, Labels, f64) {
    let (head, value) = line
        .rsplit_once(' ')
        .unwrap_or_else(|| panic!("no value: {line}"));
    let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
    let labels = labels
        .strip_suffix('}')
        .unwrap_or_else(|| panic!("open labels: {line}"));
    let labels = labels
        .split("\",")
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair
                .split_once("=\"")
                .unwrap_or_else(|| panic!("label {pair}: {line}"));
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
    let name_is_good = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    assert!(name.starts_with("forebay_") && name_is_good, "{line}");
    (
        name.to_owned(),
        labels.collect(),
        value.parse().unwrap_or_else(|_| panic!("value: {line}")),
    )
}

/// All samples, after checking that each belongs to a declared family that is declared once.
fn parse(page: &str) -> HashMap<(String, Labels), f64> {
    let (mut types, mut samples, mut helps) = (HashMap::new(), HashMap::new(), HashSet::new());
    let mut current = String::new();
    let body = page.strip_suffix("# EOF\n").expect("the end mark");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                types.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{name} declared twice"
            );
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(
                helps.insert(rest.split(' ').next().unwrap().to_owned()),
                "{line}"
            );
        } else {
            let (name, labels, value) = parse_sample(line);
            let suffix = name
                .strip_prefix(current.as_str())
                .unwrap_or_else(|| panic!("{line} under {current}"));
            let expected: &[&str] = match types[&current].as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("type {other}"),
            };
            assert!(expected.contains(&suffix), "{line} under {current}");
            assert!(
                samples.insert((name, labels), value).is_none(),
                "twice: {line}"
            );
        }
    }
    samples
}

fn expose(snapshot: Snapshot) -> HashMap<(String, Labels), f64> {
    parse(&prometheus::expose(&Arc::new(snapshot)).unwrap())
}

fn sample(samples: &HashMap<(String, Labels), f64>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let found: Vec<_> = samples
        .iter()
        .filter(|((n, l), _)| {
            n == name
                && labels
                    .iter()
                    .all(|&(k, v)| l.iter().any(|(a, b)| a == k && b == v))
        })
        .collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    *found[0].1
}

#[test]
fn every_term_is_exposed() {
    let mut path = Pipeline::new("ring:7");
    (1..=1_000).for_each(|n| path.send(n));
    path.build(100);
    path.commit();
    let samples = expose(path.snapshot());
    let at = |name, labels: &[(&str, &str)]| sample(&samples, name, labels);
    assert_eq!(
        at(
            "forebay_items_total",
            &[("place", "sender"), ("direction", "out")]
        ),
        1_000.0
    );
    assert_eq!(
        at(
            "forebay_dropped_items_total",
            &[("place", "socket"), ("reason", "buffer_full")]
        ),
        100.0
    );
    assert_eq!(
        at("forebay_dropped_bytes_total", &[("place", "socket")]),
        10_000.0
    );
    assert_eq!(
        at(
            "forebay_dropped_bytes_uncertain_total",
            &[("place", "socket")]
        ),
        600.0
    );
    assert_eq!(
        at("forebay_dropped_items_total", &[("reason", "timeout")]),
        0.0
    );
    assert_eq!(at("forebay_held_items", &[("place", "builder")]), 100.0);
    assert_eq!(
        at("forebay_in_flight_items", &[("place", "ring")]),
        1_000.0 - 100.0 - 33.0 - 7.0 - 100.0
    );
    assert_eq!(
        at(
            "forebay_residual_items",
            &[("kind", "link"), ("place", "ring")]
        ),
        7.0
    );
    assert_eq!(
        at(
            "forebay_residual_items",
            &[("kind", "account"), ("place", "receiver")]
        ),
        0.0
    );
}

#[test]
fn metrics_and_histograms_come_in_base_units() {
    let mut s = SchemaBuilder::new("r");
    let (g, h) = (s.group("g"), s.group("h"));
    let fills = [
        s.gauge(g, "ring_fill_bytes", "source1", "Bytes in the ring"),
        s.gauge(h, "ring_fill_bytes", "", "x"),
    ];
    let busy = s.counter(g, "busy_ns", "", "Time spent");
    s.cursor(g, "file_offset_bytes");
    let latency = s.histogram("event_latency_ns", "ns", "source1");
    s.histogram("event_latency_ns", "ns", "source2");
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
    let mut book = writer.restore();
    book.set(fills[0], 4_096);
    book.add(busy, 2_500_000_000);
    writer.commit(&book);
    let mut histogram = HistogramWriter::attach(&schema, &memory, latency).unwrap();
    [100, 1_000, 1_023, 1_024, 1 << 50]
        .into_iter()
        .for_each(|ns| histogram.record(ns));
    let samples = expose(LedgerReader::open(&memory).unwrap().snapshot().unwrap());
    let at = |name, labels: &[(&str, &str)]| sample(&samples, name, labels);
    assert_eq!(
        at(
            "forebay_ring_fill_bytes",
            &[("group", "g"), ("owner", "source1")]
        ),
        4_096.0
    );
    assert_eq!(at("forebay_ring_fill_bytes", &[("group", "h")]), 0.0);
    assert_eq!(at("forebay_busy_seconds_total", &[]), 2.5);
    assert!(
        !samples.keys().any(|(name, _)| name.contains("file_offset")),
        "cursors are no metrics"
    );
    let one = ("owner", "source1");
    assert_eq!(at("forebay_event_latency_seconds_count", &[one]), 5.0);
    assert_eq!(
        at(
            "forebay_event_latency_seconds_bucket",
            &[one, ("le", "+Inf")]
        ),
        5.0
    );
    let bound = |le: f64| {
        let is_it = |l: &Labels| {
            l.iter()
                .any(|(k, v)| k == "le" && v.parse::<f64>().unwrap_or(f64::NAN) == le)
        };
        let name = "forebay_event_latency_seconds_bucket";
        samples
            .iter()
            .find(|((n, l), _)| n == name && is_it(l) && l.iter().any(|(_, v)| v == one.1))
            .map(|(_, &v)| v)
    };
    assert_eq!(bound(1_023.0 * 1e-9), Some(3.0));
    assert_eq!(bound(2_047.0 * 1e-9), Some(4.0));
}

reasons! {
    /// Why messages are lost.
    enum Slow {
        Receiver = "slow_receiver",
    }
}

/// A ledger of two accounts, one of which nothing ever came to.
fn of_connections(chunks: u64) -> Arc<Snapshot> {
    let mut schema = SchemaBuilder::new("net");
    let group = schema.group("end_point");
    let [first, _] = ["connection0", "connection1"]
        .map(|owner| schema.account::<Slow>(group, "send", owner, Unit::Messages));
    schema.histogram("wait_ns", "ns", "");
    let schema = schema.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
    let mut book = writer.restore();
    book.add_tally(first.1.incoming, chunks, 8 * chunks);
    book.add_tally(first.1.held, chunks, 8 * chunks);
    writer.commit(&book);
    Arc::new(LedgerReader::open(&memory).unwrap().snapshot().unwrap())
}

#[test]
fn ledgers_of_one_process_are_told_apart_on_one_page() {
    let sheet = |name: &str, chunks| Sheet {
        label: Some(("publisher", name.to_owned())),
        snapshot: of_connections(chunks),
        only_used: true,
    };
    let whole = Sheet::whole(of_connections(3));
    let family = Family {
        name: "elink_chunks",
        help: "Chunks",
        is_counter: true,
        samples: vec![(vec![("elink", "64".to_owned())], 5.0)],
    };
    let sheets = vec![whole, sheet("dma0", 7), sheet("dma1", 0)];
    let samples = parse(&prometheus::expose_all(sheets, vec![family]).unwrap());
    let of = |publisher: Option<&str>, owner: &str| {
        let wanted: Vec<(&str, &str)> = publisher.map(|it| ("publisher", it)).into_iter().collect();
        let found = samples.iter().find(|((name, labels), _)| {
            name == "forebay_held_items"
                && labels
                    .iter()
                    .any(|(key, value)| key == "owner" && value == owner)
                && labels.iter().filter(|(key, _)| key == "publisher").count() == wanted.len()
                && wanted
                    .iter()
                    .all(|(key, value)| labels.contains(&((*key).to_owned(), (*value).to_owned())))
        });
        found.map(|(_, value)| *value)
    };
    assert_eq!(of(None, "connection0"), Some(3.0));
    assert_eq!(
        of(None, "connection1"),
        Some(0.0),
        "shown though nothing came"
    );
    assert_eq!(of(Some("dma0"), "connection0"), Some(7.0));
    assert_eq!(of(Some("dma0"), "connection1"), None, "nobody ever took it");
    assert_eq!(of(Some("dma1"), "connection0"), None);
    assert_eq!(
        sample(&samples, "forebay_elink_chunks_total", &[("elink", "64")]),
        5.0
    );
}
