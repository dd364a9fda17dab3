//! The layout of the file, word by word. A change here is a change of the format: raise `VERSION`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fmt::Write;
use std::sync::atomic::Ordering;

use forebay_ledger::{
    Condition, GroupWriter, HistogramWriter, LinkSpec, LossRow, LossTableWriter, Reason, RunWriter,
    SchemaBuilder, Unit, Words,
};

fn golden() -> Words {
    let mut s = SchemaBuilder::new("run 7");
    let g = s.group("stage");
    let (id, account) = s.account(g, "stage", "source1", Unit::SubEvents, &["late"]);
    let tail = s.cursor(g, "ring_tail_bytes");
    s.link(LinkSpec::new("socket", "source1").to(id).bound_items(5));
    let latency = s.histogram("latency_ns", "ns", "");
    let losses = s.loss_table(g, 2, &[("socket", "buffer_full")]);
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    let run = RunWriter::format(&schema, &memory, 4_711, 1_000).unwrap();
    run.heartbeat(2_000);
    let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
    let mut book = writer.restore();
    book.add_tally(account.incoming, 3, 300);
    book.set(tail, 0xabc);
    writer.commit(&book);
    book.add_tally(account.dropped[0], 1, 100);
    let row = LossRow {
        source: 1,
        cause: 0,
        first: 7,
        last: 8,
        items: 2,
        bytes: 200,
        stamp_ns: 9,
    };
    LossTableWriter::attach(&schema, &memory, losses)
        .unwrap()
        .append(&mut book, row);
    writer.commit(&book);
    HistogramWriter::attach(&schema, &memory, latency)
        .unwrap()
        .record(1_000);
    run.finish(Condition::Tainted, Reason::DiskFull, 3_000);
    memory
}

#[test]
fn the_layout_is_the_documented_one() {
    let memory = golden();
    let values: Vec<u64> = memory
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect();
    let bytes = values[5] as usize;
    let json: Vec<u8> = values[32..]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .take(bytes)
        .collect();
    let mut text = format!(
        "{} words\n{}\n",
        values.len(),
        String::from_utf8(json).unwrap()
    );
    for (at, value) in values.iter().enumerate() {
        let in_directory = (32..32 + bytes.div_ceil(8)).contains(&at);
        if *value != 0 && !in_directory {
            writeln!(text, "{at} {value:#x}").unwrap();
        }
    }
    assert_eq!(text, include_str!("layout.golden"), "\n{text}");
}
