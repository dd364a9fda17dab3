use super::*;

fn envelope() -> Envelope {
    Envelope::of_process("test", "test-1", 0.0)
}

/// Each line of the table at the head of the module: what comes first holds.
#[test]
fn an_exit_code_follows_from_what_the_record_says() {
    let mut of = envelope();
    assert_eq!(of.exit(), Exit::Done);
    for kind in [TaintKind::DiskFull, TaintKind::PeerLost] {
        of.taints.push(Taint::new(kind, ""));
        assert_eq!(of.exit(), Exit::Done);
    }
    of.taints.push(Taint::new(TaintKind::Unconfirmed, ""));
    assert_eq!(of.exit(), Exit::Unconfirmed);
    of.failed = Some("it did".into());
    assert_eq!(of.exit(), Exit::Failed);
    for kind in [TaintKind::OutputRemoved, TaintKind::Residual] {
        let mut broken = of.clone();
        broken.taints.push(Taint::new(kind, ""));
        assert_eq!(broken.exit(), Exit::Broken);
    }
    of.books.left_bytes = 1;
    assert_eq!(of.exit(), Exit::Broken);
}

#[test]
fn what_a_further_ledger_lost_is_added_but_for_what_is_counted_already() {
    let lost = |items| Lost {
        items,
        items_max: items,
        bytes: 10 * items,
        bytes_max: 10 * items,
    };
    let (mut own, mut other) = (envelope(), envelope());
    own.drops.insert("send.full.a".into(), lost(1));
    other.drops.insert("send.full.a".into(), lost(2));
    other.drops.insert("publish.nobody.a".into(), lost(4));
    other.books.residual_items = 3;
    other.host_counters = Some(Changes::default());
    other.taints.push(Taint::new(TaintKind::Residual, "3"));
    other.taints.push(Taint::new(TaintKind::PeerLost, "b"));
    own.include(&mut other, |name| name.starts_with("publish."));
    assert_eq!(own.drops, BTreeMap::from([("send.full.a".into(), lost(3))]));
    assert_eq!(own.books.residual_items, 3);
    assert_eq!(other.host_counters, None, "told once");
    assert_eq!(own.taints, [Taint::new(TaintKind::Residual, "3")]);
}

/// That of a run of the event builder, which had a summary of its own in it.
#[test]
fn a_record_of_version_1_is_read() {
    let record = RecordView::parse(include_bytes!("evb-version1.json")).unwrap();
    assert_eq!(record.version(), 1);
    assert!(record.run_id().unwrap().ends_with("-22062"), "{record:?}");
    assert_eq!(record.get("condition"), "ended");
    assert_eq!(record.get("events_built"), 100);
    assert!(
        record
            .host_counters()
            .unwrap()
            .counters
            .contains_key("Udp.InErrors")
    );
    assert!(record.get("nothing").is_null());
}

#[test]
fn what_is_no_record_is_none() {
    for text in [&b""[..], b"{}", b"[1]", b"{\"run_id\": 7}", b"\xff"] {
        assert!(RecordView::parse(text).is_none());
    }
    let mut envelope = envelope();
    envelope.run_id = "own".into();
    let record = Record {
        envelope,
        summary: BTreeMap::from([("items", 7)]),
    };
    let text = serde_json::to_vec(&record).unwrap();
    let record = RecordView::parse(&text).unwrap();
    assert_eq!(record.version(), u64::from(RECORD_VERSION));
    assert_eq!(
        (record.run_id(), record.get("items")),
        (Some("own"), &7.into())
    );
    assert!(record.host_counters().is_none());
}

/// The table at the head of the module is that of the document.
#[test]
fn operators_read_the_same_table_of_ends() {
    let document = forebay_testing::root().join("docs/OPERATIONS.md");
    let document = std::fs::read_to_string(document).unwrap();
    let own = include_str!("../record.rs").lines();
    let rows: Vec<&str> = own.filter_map(|line| line.strip_prefix("//! |")).collect();
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        assert!(document.contains(&format!("\n|{row}\n")), "{row}");
    }
}
