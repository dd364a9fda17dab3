//! What the books cost: counting, committing, reading. `cargo bench -p forebay-ledger`.
#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot be set up has nothing to measure"
)]

use divan::{Bencher, black_box};
use forebay_ledger::{
    Counter, GroupId, GroupWriter, HistogramWriter, LedgerReader, LinkSpec, RunWriter, Schema,
    SchemaBuilder, Supervisor, Unit, Words, audit, reasons,
};

fn main() {
    divan::main();
}

/// A group of `words` cursors in a formatted ledger.
fn group_of(words: u32) -> (Schema, Words, GroupId, Vec<Counter>) {
    let mut s = SchemaBuilder::new("bench");
    let group = s.group("stage");
    let counters = (0..words)
        .map(|n| s.cursor(group, &format!("word{n}")))
        .collect();
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 0).unwrap();
    (schema, memory, group, counters)
}

reasons! {
    /// Ten reasons.
    enum Ten {
        A = "a",
        B = "b",
        C = "c",
        D = "d",
        E = "e",
        F = "f",
        G = "g",
        H = "h",
        I = "i",
        J = "j",
    }
}

/// Receiver, builder and events of `sources` sources with 10 reasons each.
fn declare(sources: u32) -> Schema {
    let mut s = SchemaBuilder::new("bench");
    let builder = s.group("builder");
    for source in 0..sources {
        let owner = format!("source{source}");
        let socket = s.group(&format!("receiver.{owner}"));
        let (_, _) = s.account::<Ten>(socket, "receiver", &owner, Unit::Datagrams);
        let (from, _) = s.account::<Ten>(socket, "queue", &owner, Unit::SubEvents);
        let (to, _) = s.account::<Ten>(builder, "builder", &owner, Unit::SubEvents);
        s.link(LinkSpec::new("ring", &owner).from(from).to(to));
    }
    s.finish().unwrap()
}

#[divan::bench]
fn book_add(bencher: Bencher) {
    let (schema, memory, group, counters) = group_of(64);
    let mut book = GroupWriter::attach(&schema, &memory, group)
        .unwrap()
        .restore();
    let counters = black_box(counters);
    bencher
        .counter(divan::counter::ItemsCount::new(64usize))
        .bench_local(|| {
            for &counter in &counters {
                book.add(counter, black_box(3));
            }
        });
}

#[divan::bench(args = [20, 200, 2_000, 20_000])]
fn commit_words(bencher: Bencher, words: u32) {
    let (schema, memory, group, counters) = group_of(words);
    let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
    let mut book = writer.restore();
    bencher.bench_local(|| {
        book.add(counters[0], 1);
        writer.commit(black_box(&book));
    });
}

#[divan::bench]
fn histogram_record(bencher: Bencher) {
    let mut s = SchemaBuilder::new("bench");
    let id = s.histogram("latency_ns", "ns", "");
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 0).unwrap();
    let mut histogram = HistogramWriter::attach(&schema, &memory, id).unwrap();
    let mut value = 1u64;
    bencher.bench_local(|| {
        value = value
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        histogram.record(value >> 40);
    });
}

#[divan::bench(args = [90, 1_024])]
fn schema_build(bencher: Bencher, sources: u32) {
    bencher.bench_local(|| black_box(declare(sources)));
}

fn formatted(sources: u32) -> Words {
    let schema = declare(sources);
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 0).unwrap();
    memory
}

#[divan::bench(args = [90, 1_024])]
fn reader_open(bencher: Bencher, sources: u32) {
    let memory = formatted(sources);
    bencher.bench_local(|| LedgerReader::open(black_box(&memory)).unwrap());
}

#[divan::bench(args = [90, 1_024])]
fn reader_snapshot(bencher: Bencher, sources: u32) {
    let reader = LedgerReader::open(&formatted(sources)).unwrap();
    bencher.bench_local(|| reader.snapshot().unwrap());
}

#[divan::bench(args = [90, 1_024])]
fn audit_snapshot(bencher: Bencher, sources: u32) {
    let snapshot = LedgerReader::open(&formatted(sources))
        .unwrap()
        .snapshot()
        .unwrap();
    bencher.bench_local(|| audit(black_box(&snapshot), Supervisor::Alive));
}

#[divan::bench(args = [90, 1_024])]
fn expose(bencher: Bencher, sources: u32) {
    let snapshot = std::sync::Arc::new(
        LedgerReader::open(&formatted(sources))
            .unwrap()
            .snapshot()
            .unwrap(),
    );
    bencher.bench_local(|| forebay_ledger::prometheus::expose(black_box(&snapshot)).unwrap());
}
