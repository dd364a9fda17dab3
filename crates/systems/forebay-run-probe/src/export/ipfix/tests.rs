use forebay_flow::plugins::{Fields, PluginKind, Plugins};
use forebay_flow::{Batch, Config, DecodeConfig, Decoder, Frame, LinkType, Table};
use forebay_wire::ipfix::{Messages, SetKind};

use super::*;
use crate::export::tests::row_of;

fn bare() -> Row {
    row_of([3, 0], [300, 0], [1, 2])
}

/// What plugins say of a flow of 30 datagrams.
fn with_fields(kinds: &[PluginKind]) -> Row {
    // 10.0.0.1:50000 to 10.0.0.2:50001, "hi".
    let packet = [
        0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3,
        0x51, 0, 10, 0, 0, b'h', b'i',
    ];
    let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
    let mut table = Table::new(&Config::default()).unwrap();
    let mut plugins = Plugins::new(kinds, table.places());
    let mut batch = Batch::new(30);
    for _ in 0..30 {
        let frame = Frame {
            time_ns: 1,
            link: Some(LinkType::RawIp),
            bytes: &packet,
            wire_bytes: 30,
        };
        let packet = decoder.handle_frame(&frame).unwrap();
        plugins.batch(&mut batch, &packet);
    }
    let mut rows = Vec::new();
    let mut ended = |record: &FlowRecord, fields: Fields| {
        let record = *record;
        rows.push(Row { record, fields });
    };
    let mut watch = plugins.watch(&mut ended);
    table.handle_batch(&batch, &mut watch);
    table.end_all_watched(&mut watch);
    rows.remove(0)
}

/// Kinds of the sets in a file, message by message.
fn kinds(file: &[u8]) -> Vec<Vec<SetKind>> {
    let messages = Messages::new(file);
    let kinds = messages.map(|message| message.unwrap().sets().map(|set| set.kind()).collect());
    kinds.collect()
}

/// What is in a file of these, each written alone and with room for so many bytes in a message, and how many had to go without what plugins found.
fn written(rows: &[&[Row]], room_bytes: usize) -> (Vec<Vec<SetKind>>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.ipfix");
    let carrier = Carrier::file(&path).unwrap();
    let mut ipfix = Box::new(Ipfix::new(carrier, &ProbeSettings::default()));
    ipfix.room = vec![0; room_bytes];
    for rows in rows {
        let mut left = *rows;
        while !left.is_empty() {
            let records = ipfix
                .write(left)
                .map_err(|unwritten| unwritten.why)
                .unwrap();
            assert!(records > 0);
            left = &left[records..];
        }
    }
    let bare = ipfix.bare();
    ipfix.finish().unwrap();
    (kinds(&std::fs::read(&path).unwrap()), bare)
}

#[test]
fn a_report_before_the_first_record_takes_no_template_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.ipfix");
    let carrier = Carrier::file(&path).unwrap();
    let mut ipfix = Box::new(Ipfix::new(carrier, &ProbeSettings::default()));
    ipfix.report(&Losses::default(), Amount::default()).unwrap();
    for _ in 0..2 {
        assert!(ipfix.write(&[bare()]).is_ok_and(|written| written == 1));
    }
    ipfix.finish().unwrap();
    let data = SetKind::Data;
    let report = vec![SetKind::OptionsTemplates, data(258), data(259)];
    let records = [vec![SetKind::Templates, data(256)], vec![data(256)]];
    let found = kinds(&std::fs::read(&path).unwrap());
    assert_eq!(found, [vec![report], records.into()].concat());
}

#[test]
fn a_template_is_told_in_front_of_the_first_record_that_needs_it() {
    let rows = [
        bare(),
        with_fields(&[PluginKind::Pstats]),
        with_fields(&[PluginKind::Basic]),
        with_fields(&[PluginKind::Pstats]),
    ];
    let data = SetKind::Data;
    let (templates, all) = (SetKind::Templates, 32 << 10);
    let told = vec![
        templates,
        data(256),
        templates,
        data(260),
        templates,
        data(261),
        data(260),
    ];
    assert_eq!(written(&[&rows], all), (vec![told], 0));
}

#[test]
fn what_has_no_room_in_a_message_goes_without_it() {
    let rows = [with_fields(&[PluginKind::Pstats]), bare()];
    let data = SetKind::Data;
    // 16 bytes of a message's header, 4 of a set's, 100 and more of a template, 70 of a record, and more than 270 of what was found.
    let (sets, bare) = written(&[&rows], 300);
    assert_eq!(bare, 1);
    let records: usize = sets
        .iter()
        .flatten()
        .filter(|set| **set == data(256))
        .count();
    assert!(
        records > 0 && !sets.iter().flatten().any(|set| *set == data(260)),
        "{sets:?}"
    );
    // Behind its template there is no room for the record, but in the next message.
    let (sets, bare) = written(&[&rows], 420);
    assert_eq!(bare, 0);
    assert_eq!(
        sets[..2],
        [vec![SetKind::Templates], vec![data(260)]],
        "{sets:?}"
    );
}
