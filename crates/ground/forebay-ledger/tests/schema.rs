//! Declarations that cannot stand are refused by name; those that can are reproducible.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use forebay_ledger::{
    Condition, GroupWriter, LedgerError, LedgerReader, LinkSpec, LossRow, LossTableWriter,
    Lossless, MAX_NAME_BYTES, Reason, RunWriter, SchemaBuilder, SchemaError, Unit, Words, reasons,
};

fn refused(declare: impl FnOnce(&mut SchemaBuilder)) -> SchemaError {
    let mut s = SchemaBuilder::new("r");
    declare(&mut s);
    s.finish().unwrap_err()
}

reasons! {
    /// Two reasons.
    enum AOrB {
        A = "a",
        B = "b",
    }
}

reasons! {
    /// Ten reasons.
    enum Ten {
        A = "reason_0",
        B = "reason_1",
        C = "reason_2",
        D = "reason_3",
        E = "reason_4",
        F = "reason_5",
        G = "reason_6",
        H = "reason_7",
        I = "reason_8",
        J = "reason_9",
    }
}

#[test]
fn the_same_calls_give_the_same_handles_and_fingerprint() {
    let declare = |run: &str| {
        let mut s = SchemaBuilder::new(run);
        let g = s.group("g");
        let account = s.account::<AOrB>(g, "receiver", "source1", Unit::Messages);
        (account, s.finish().unwrap())
    };
    let ((one, s1), (two, s2), (_, s3)) = (declare("x"), declare("x"), declare("y"));
    assert_eq!(one, two);
    assert_eq!(s1.fingerprint(), s2.fingerprint());
    assert_ne!(s1.fingerprint(), s3.fingerprint());
}

#[test]
fn links_join_equal_units() {
    let error = refused(|s| {
        let g = s.group("g");
        let (a, _) = s.account::<Lossless>(g, "receiver", "s", Unit::Datagrams);
        let (b, _) = s.account::<Lossless>(g, "builder", "s", Unit::Events);
        s.link(LinkSpec::new("ring", "s").from(a).to(b));
    });
    let expected = SchemaError::Units {
        link: "ring.s".into(),
        from: Unit::Datagrams,
        to: Unit::Events,
    };
    assert_eq!(error, expected);
}

#[test]
fn nonsense_is_refused_by_name() {
    assert!(matches!(
        refused(|s| {
            s.group("");
        }),
        SchemaError::Name { .. }
    ));
    assert!(matches!(
        refused(|s| {
            s.group(&"x".repeat(MAX_NAME_BYTES + 1));
        }),
        SchemaError::Name { .. }
    ));
    assert!(matches!(
        refused(|s| {
            s.group("a\"b");
        }),
        SchemaError::Name { .. }
    ));
    let twice = refused(|s| {
        s.group("g");
        s.group("g");
    });
    assert!(matches!(twice, SchemaError::Duplicate { .. }));
    let confirmed_twice = refused(|s| {
        let g = s.group("a");
        let (id, _) = s.account::<Lossless>(g, "p", "o", Unit::Bytes);
        s.confirmed(id);
        s.confirmed(id);
    });
    assert!(matches!(confirmed_twice, SchemaError::Duplicate { .. }));
    let nowhere = refused(|s| {
        s.link(LinkSpec::new("socket", "s"));
    });
    assert_eq!(
        nowhere,
        SchemaError::NoFarSide {
            link: "socket.s".into()
        }
    );
    let reserved = refused(|s| {
        let g = s.group("g");
        s.counter(g, "dropped_items", "", "");
    });
    assert!(matches!(reserved, SchemaError::Reserved { .. }));
    let two_kinds = refused(|s| {
        let (g, h) = (s.group("g"), s.group("h"));
        s.counter(g, "spins", "", "");
        s.gauge(h, "spins", "", "");
    });
    assert!(matches!(two_kinds, SchemaError::Duplicate { .. }));
    let empty_interval = refused(|s| {
        let g = s.group("g");
        let (a, _) = s.account::<Lossless>(g, "receiver", "s", Unit::Datagrams);
        let lost = s.kernel_drop(g);
        s.link(
            LinkSpec::new("socket", "s")
                .to(a)
                .kernel_drops("buffer_full", lost, 9, 8),
        );
    });
    assert!(matches!(empty_interval, SchemaError::Interval { .. }));
}

#[test]
fn a_handle_of_another_schema_is_refused() {
    let mut other = SchemaBuilder::new("other");
    other.group("a");
    let stray_group = other.group("b");
    let (stray_account, _) = other.account::<Lossless>(stray_group, "p", "o", Unit::Events);
    let error = refused(|s| {
        s.counter(stray_group, "x", "", "");
    });
    assert_eq!(error, SchemaError::ForeignHandle { what: "group" });
    let error = refused(|s| {
        s.link(LinkSpec::new("l", "o").to(stray_account));
    });
    assert_eq!(error, SchemaError::ForeignHandle { what: "link" });
}

#[test]
fn a_process_with_another_configuration_is_turned_away() {
    let schema = |owner: &str| {
        let mut s = SchemaBuilder::new("r");
        let g = s.group("g");
        s.account::<Lossless>(g, "receiver", owner, Unit::Messages);
        (s.finish().unwrap(), g)
    };
    let ((mine, g), (other, _)) = (schema("source1"), schema("source2"));
    let memory = Words::zeroed(mine.words_needed());
    assert!(matches!(
        GroupWriter::attach(&mine, &memory, g),
        Err(LedgerError::Magic { found: 0 })
    ));
    RunWriter::format(&mine, &memory, 1, 2).unwrap();
    assert!(GroupWriter::attach(&mine, &memory, g).is_ok());
    assert!(matches!(
        GroupWriter::attach(&other, &memory, g),
        Err(LedgerError::Fingerprint { .. })
    ));
    assert!(matches!(
        RunWriter::format(&mine, &memory, 1, 2),
        Err(LedgerError::Exists)
    ));
    let short = Words::zeroed(mine.words_needed() - 1);
    assert!(matches!(
        RunWriter::format(&mine, &short, 1, 2),
        Err(LedgerError::TooShort { .. })
    ));
}

#[test]
fn a_foreign_sender_is_unknown_and_its_gaps_an_inference() {
    let mut s = SchemaBuilder::new("r");
    let g = s.group("g");
    let (a, account) = s.account::<Lossless>(g, "receiver", "source1", Unit::Datagrams);
    let gaps = s.counter(g, "trigger_gaps", "source1", "Missing trigger numbers");
    let lost = s.host_term(g, "ip", "reassembly_failed");
    s.link(
        LinkSpec::new("socket", "source1")
            .to(a)
            .inferred_lost(gaps, Unit::Events),
    );
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
    let mut book = writer.restore();
    book.add_tally(account.incoming, 5, 50);
    book.add_tally(account.outgoing, 5, 50);
    book.set(gaps, 3);
    book.set(lost, 2);
    writer.commit(&book);
    let snapshot = LedgerReader::open(&memory).unwrap().snapshot().unwrap();
    assert_eq!(snapshot.metric("g", "trigger_gaps", "source1"), Some(3));
    assert_eq!(snapshot.tally(account.incoming), (5, 50));
    let balance = snapshot.balance();
    let link = &balance.links[0];
    assert_eq!(
        (link.sent, link.residual, link.inferred_lost_items),
        (None, None, Some(3))
    );
    assert_eq!(
        (link.unit, link.inferred_unit),
        (Unit::Datagrams, Some(Unit::Events))
    );
    assert_eq!((balance.host[0].owner, balance.host[0].items), ("host", 2));
    assert_eq!((balance.residual_items, balance.residual_bytes), (0, 0));
}

/// A reader without the schema finds what its declarer finds with it.
#[test]
fn a_word_is_found_by_the_names_of_its_group_itself_and_its_owner() {
    let mut s = SchemaBuilder::new("run 7");
    let names = [
        ("near", "depth", "one"),
        ("near", "depth", "two"),
        ("near", "peak", "one"),
        ("far", "depth", "one"),
    ];
    let (near, far) = (s.group("near"), s.group("far"));
    let of = |name: &str| if name == "near" { near } else { far };
    let counters = names.map(|(group, name, owner)| s.counter(of(group), name, owner, ""));
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    let run = RunWriter::format(&schema, &memory, 4711, 2).unwrap();
    for group in [near, far] {
        let mut writer = GroupWriter::attach(&schema, &memory, group).unwrap();
        let mut book = writer.restore();
        assert_eq!((book.group(), writer.commits()), (group, 0));
        for (value, ((own, ..), counter)) in (10..).zip(names.iter().zip(counters)) {
            if of(own) == group {
                book.set(counter, value);
            }
        }
        writer.commit(&book);
        assert_eq!(writer.commits(), 1);
    }
    run.finish(Condition::Tainted, Reason::DiskFull, 9_000);
    let reader = LedgerReader::open(&memory).unwrap();
    let snapshot = reader.snapshot().unwrap();
    for (value, ((group, name, owner), counter)) in (10..).zip(names.iter().zip(counters)) {
        assert_eq!(snapshot.value(counter), value);
        assert_eq!(snapshot.metric(group, name, owner), Some(value));
    }
    let (lines, values): (Vec<_>, Vec<_>) = snapshot
        .metrics()
        .map(|line| ((line.group, line.name, line.owner), line.value))
        .unzip();
    assert_eq!((lines, values), (names.to_vec(), vec![10, 11, 12, 13]));
    for (group, name, owner) in [
        ("far", "peak", "one"),
        ("far", "depth", "two"),
        ("middle", "depth", "one"),
    ] {
        assert_eq!(snapshot.metric(group, name, owner), None);
    }
    assert_eq!((reader.run_id(), snapshot.run_id()), ("run 7", "run 7"));
    assert_eq!(reader.fingerprint(), schema.fingerprint());
    let status = reader.run_status().unwrap();
    assert_eq!(status, snapshot.run);
    let ended = (status.condition, status.reason, status.end_ns);
    assert_eq!(ended, (Condition::Tainted, Reason::DiskFull, 9_000));
}

#[test]
fn a_loss_is_valid_with_its_commit_and_a_full_table_counts_on() {
    let mut s = SchemaBuilder::new("r");
    let g = s.group("g");
    let id = s.loss_table(
        g,
        2,
        &[("socket", "buffer_full"), ("receiver", "malformed_length")],
    );
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
    let mut table = LossTableWriter::attach(&schema, &memory, id).unwrap();
    let mut book = writer.restore();
    let reader = LedgerReader::open(&memory).unwrap();
    let losses = || reader.snapshot().unwrap().losses.remove(0);
    let row = |first| LossRow {
        source: 17,
        cause: 1,
        first,
        last: first + 4,
        items: 5,
        bytes: 500,
        stamp_ns: 9,
    };

    table.append(&mut book, row(10));
    assert_eq!(losses().records, [], "written but not committed");
    writer.commit(&book);
    assert_eq!(
        (losses().records[0].first, losses().records[0].last),
        (10, 14)
    );
    assert_eq!(
        (
            losses().records[0].place.as_str(),
            losses().records[0].cause.as_str()
        ),
        ("receiver", "malformed_length")
    );

    // The writer dies with an uncommitted row; its successor writes over it.
    table.append(&mut book, row(20));
    let mut book = writer.restore();
    table.append(&mut book, row(30));
    table.append(&mut book, row(40));
    table.append(&mut book, row(50));
    writer.commit(&book);
    let table = losses();
    let records = table.records.iter().map(|r| {
        let range = (r.source, r.first, r.last);
        (range, r.items, r.bytes, r.stamp_ns)
    });
    let expected = [((17, 10, 14), 5, 500, 9), ((17, 30, 34), 5, 500, 9)];
    assert_eq!(records.collect::<Vec<_>>(), expected);
    assert_eq!(
        (
            table.overflow_rows,
            table.overflow_items,
            table.overflow_bytes
        ),
        (2, 10, 1_000)
    );
}

#[test]
fn a_thousand_sources_make_one_ledger() {
    let mut s = SchemaBuilder::new("big");
    let builder = s.group("builder");
    for source in 0..1_024 {
        let owner = format!("source{source}");
        let g = s.group(&format!("receiver.{owner}"));
        s.account::<Ten>(g, "receiver", &owner, Unit::Datagrams);
        let (a, _) = s.account::<Ten>(g, "queue", &owner, Unit::SubEvents);
        let (b, _) = s.account::<Ten>(builder, "builder", &owner, Unit::SubEvents);
        s.link(LinkSpec::new("ring", &owner).from(a).to(b));
    }
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let balance = LedgerReader::open(&memory)
        .unwrap()
        .snapshot()
        .unwrap()
        .balance();
    assert_eq!(
        (balance.accounts.len(), balance.links.len()),
        (3_072, 1_024)
    );
}
