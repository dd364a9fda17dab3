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
    Condition, GroupWriter, HistogramWriter, LedgerError, LedgerReader, LinkSpec, LossRow,
    LossTableWriter, Lossless, Reason, RunWriter, SchemaBuilder, Unit, VERSION, VERSION_OLDEST,
    Words, reasons,
};

reasons! {
    /// Why a stage drops items.
    enum Drop {
        Late = "late",
    }
}

fn golden() -> Words {
    let mut s = SchemaBuilder::new("run 7");
    s.program("stage");
    let g = s.group("stage");
    let (id, account) = s.account::<Drop>(g, "stage", "source1", Unit::SubEvents);
    s.headline(id);
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
    book.add_tally(account.lost(Drop::Late), 1, 100);
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

/// A ledger that an emulator of one source wrote when the layout was of version 1, as it lay on disk.
fn of_version_1() -> Words {
    let bytes = include_bytes!("version1.ledger");
    let memory = Words::zeroed(bytes.len() / 8);
    for (word, bytes) in memory.iter().zip(bytes.chunks_exact(8)) {
        let value = u64::from_le_bytes(bytes.try_into().unwrap());
        word.store(value, Ordering::Relaxed);
    }
    memory
}

#[test]
fn a_ledger_of_version_1_is_read_and_names_no_program() {
    let memory = of_version_1();
    assert_eq!(memory[1].load(Ordering::Relaxed), VERSION_OLDEST);
    let reader = LedgerReader::open(&memory).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!((snapshot.program(), snapshot.headline().count()), (None, 0));
    let balance = snapshot.balance();
    let out = |unit| {
        let mut lines = balance.accounts.iter();
        lines.find(|line| line.unit == unit).unwrap().outgoing.items
    };
    assert_eq!((out(Unit::SubEvents), out(Unit::Datagrams)), (100, 1));
    assert!(balance.accounts.iter().all(|line| line.residual.is_zero()));
}

#[test]
fn versions_that_are_not_known_are_refused_by_number() {
    for (version, is_read) in [(0, false), (1, true), (VERSION, true), (VERSION + 1, false)] {
        let memory = of_version_1();
        memory[1].store(version, Ordering::Relaxed);
        match LedgerReader::open(&memory) {
            Ok(_) => assert!(is_read, "{version}"),
            Err(LedgerError::Version { found, expected }) => {
                assert_eq!((found, expected, is_read), (version, VERSION, false));
            }
            Err(error) => panic!("{version}: {error}"),
        }
    }
}

#[test]
fn program_and_headline_are_read_as_they_were_declared() {
    let snapshot = LedgerReader::open(&golden()).unwrap().snapshot().unwrap();
    assert_eq!(snapshot.program(), Some("stage"));
    let headline: Vec<_> = snapshot.headline().collect();
    assert_eq!(headline, [("stage", Unit::SubEvents)]);
}

/// Of several accounts of one place and unit the first stands for all.
#[test]
fn a_headline_is_a_place_and_a_unit() {
    let mut s = SchemaBuilder::new("run 7");
    let g = s.group("stage");
    let mut account = |place, owner, unit| s.account::<Lossless>(g, place, owner, unit).0;
    let all = [
        account("send", "a", Unit::Messages),
        account("send", "b", Unit::Messages),
        account("receive", "a", Unit::Messages),
        account("send", "a", Unit::Packets),
    ];
    all.into_iter().for_each(|id| s.headline(id));
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 1).unwrap();
    let snapshot = LedgerReader::open(&memory).unwrap().snapshot().unwrap();
    let headline: Vec<_> = snapshot.headline().collect();
    assert_eq!(
        headline,
        [
            ("send", Unit::Messages),
            ("receive", Unit::Messages),
            ("send", Unit::Packets)
        ]
    );
}
