mod cache;
mod round_trip;

use std::vec;
use std::vec::Vec;

use super::*;

/// The message of RFC 7011, appendix A: a template, three records of it, a template of options, two records of that. Time, sequence and domain are ours, and the last set has the
/// template of A.4.1, where the standard has that of A.4.3.
const GOLDEN: [u8; 152] = [
    // Header: version 10, 152 bytes, a time, sequence 0, domain 1.
    0, 10, 0, 152, 0x6b, 0x01, 0xb6, 0x16, 0, 0, 0, 0, 0, 0, 0, 1,
    // A.2.1: template 256 of source, destination and next hop, packets and octets.
    0, 2, 0, 28, 1, 0, 0, 5, 0, 8, 0, 4, 0, 12, 0, 4, 0, 15, 0, 4, 0, 2, 0, 4, 0, 1, 0, 4,
    // A.3: three records of it.
    1, 0, 0, 64, //
    192, 0, 2, 12, 192, 0, 2, 254, 192, 0, 2, 1, 0, 0, 0x13, 0x91, 0, 0x51, 0x8c, 0x81, //
    192, 0, 2, 27, 192, 0, 2, 23, 192, 0, 2, 2, 0, 0, 2, 0xec, 0, 5, 0xef, 0x46, //
    192, 0, 2, 56, 192, 0, 2, 65, 192, 0, 2, 3, 0, 0, 0, 5, 0, 0, 0x19, 0x86, //
    // A.4.1: template 258 of a line card (scope), messages and flow records, and two bytes of padding.
    0, 3, 0, 24, 1, 2, 0, 3, 0, 1, 0, 141, 0, 4, 0, 41, 0, 2, 0, 42, 0, 2, 0, 0,
    // A.4.4: two records of it.
    1, 2, 0, 20, 0, 0, 0, 1, 1, 0x59, 0x27, 0xd9, 0, 0, 0, 2, 2, 0xb2, 0x4f, 0xb2,
];

/// The options template of A.4.3, whose scope is an element of an enterprise, here 32473 (RFC 5612).
const GOLDEN_ENTERPRISE: [u8; 28] = [
    0, 3, 0, 28, 1, 4, 0, 3, 0, 1, 0x80, 123, 0, 4, 0, 0, 0x7e, 0xd9, 0, 41, 0, 2, 0, 42, 0, 2, 0,
    0,
];

const GOLDEN_RECORDS: [[u32; 5]; 3] = [
    [0xc000_020c, 0xc000_02fe, 0xc000_0201, 5009, 5_344_385],
    [0xc000_021b, 0xc000_0217, 0xc000_0202, 748, 388_934],
    [0xc000_0238, 0xc000_0241, 0xc000_0203, 5, 6534],
];

fn spec(id: u16, bytes: u16) -> FieldSpec {
    let element = Element::iana(id);
    FieldSpec { element, bytes }
}

fn flow_fields() -> [FieldSpec; 5] {
    [8, 12, 15, 2, 1].map(|id| spec(id, 4))
}

fn option_fields() -> [FieldSpec; 3] {
    [spec(141, 4), spec(41, 2), spec(42, 2)]
}

/// A set of this id with these bytes, as the only one of a message.
fn message(id: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let header = MessageHeader {
        bytes: (HEADER_BYTES + SET_HEADER_BYTES + body.len()) as u16,
        export_time_s: 0,
        sequence: 0,
        domain: 1,
    };
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes.extend(id.to_be_bytes());
    bytes.extend(((SET_HEADER_BYTES + body.len()) as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn templates(id: u16, body: &[u8]) -> Result<Vec<u16>, IpfixError> {
    let message = message(id, body);
    let set = Message::new_checked(&message).unwrap().sets().next();
    let records = set.unwrap().templates();
    let id = |record| match record {
        TemplateRecord::Defined(template) => template.id,
        TemplateRecord::Withdrawn(id) => id,
        TemplateRecord::AllWithdrawn { options } => options.into(),
    };
    records.map(|record| record.map(id)).collect()
}

#[test]
fn golden_message_of_the_standard_is_read() {
    let message = Message::new_checked(&GOLDEN).unwrap();
    let header = message.header();
    assert_eq!((header.sequence, header.domain, header.bytes), (0, 1, 152));
    assert_eq!(
        std::format!("{message}"),
        "IPFIX of domain 1, sequence 0, at 1795274262 s: 4 sets, 152 bytes"
    );
    let mut cache = TemplateCache::new(2, 32);
    let mut read: Vec<Vec<u32>> = Vec::new();
    for set in message.sets() {
        for record in set.templates() {
            assert_eq!(cache.learn(1, record.unwrap(), 0), Ok(Learnt::New));
        }
        if let SetKind::Data(id) = set.kind() {
            for record in cache.template(1, id).unwrap().records(set.body()) {
                let record = record.unwrap();
                let values = record
                    .values()
                    .map(|(_, value)| value.unsigned().unwrap() as u32);
                read.push(values.collect());
            }
        }
    }
    let flows = GOLDEN_RECORDS.map(|record| record.to_vec());
    assert_eq!(read[..3], flows);
    assert_eq!(read[3..], [vec![1, 345, 10_201], vec![2, 690, 20_402]]);
    let flows = cache.template(1, 256).unwrap();
    assert_eq!((flows.scope_fields, flows.record_bytes_min), (0, 20));
    assert!(flows.specs().eq(flow_fields()));
    let options = cache.template(1, 258).unwrap();
    assert_eq!((options.scope_fields, options.record_bytes_min), (1, 8));
    assert!(options.specs().eq(option_fields()));
    assert!(cache.template(2, 256).is_none());
}

#[test]
fn golden_message_of_the_standard_is_written() {
    let mut room = [0xff; 200];
    let mut writer = MessageWriter::new(&mut room, 1, 0).unwrap();
    assert!(writer.is_empty());
    writer.push_template(256, &flow_fields()).unwrap();
    for record in GOLDEN_RECORDS {
        let write =
            |out: &mut RecordWriter<'_>| record.into_iter().for_each(|value| out.u32(value));
        writer.push_record(256, write).unwrap();
    }
    writer
        .push_options_template(258, 1, &option_fields())
        .unwrap();
    for (card, messages, flows) in [(1, 345, 10_201), (2, 690, 20_402)] {
        let write = |out: &mut RecordWriter<'_>| {
            out.u32(card);
            out.u16(messages);
            out.u16(flows);
        };
        writer.push_record(258, write).unwrap();
    }
    assert_eq!((writer.records(), writer.bytes()), (5, 150));
    let finished = writer.finish(0x6b01_b616);
    assert_eq!((finished.records, finished.next_sequence), (5, 5));
    // Ours, without the two bytes of padding that the standard's has at 130.
    let mut golden = [&GOLDEN[..130], &GOLDEN[132..]].concat();
    (golden[3], golden[111]) = (150, 22);
    assert_eq!(finished.bytes, golden);
}

#[test]
fn golden_enterprise_scope() {
    let mut room = [0; 64];
    let mut writer = MessageWriter::new(&mut room, 1, 0).unwrap();
    let element = Element {
        enterprise: 32_473,
        id: 123,
    };
    let fields = [FieldSpec { element, bytes: 4 }, spec(41, 2), spec(42, 2)];
    writer.push_options_template(260, 1, &fields).unwrap();
    let written = writer.finish(0).bytes.to_vec();
    let mut golden = GOLDEN_ENTERPRISE[..26].to_vec();
    golden[3] = 26;
    assert_eq!(written[HEADER_BYTES..], golden);
    let message = message(3, &GOLDEN_ENTERPRISE[4..]);
    let set = Message::new_checked(&message)
        .unwrap()
        .sets()
        .next()
        .unwrap();
    let Some(Ok(TemplateRecord::Defined(template))) = set.templates().next() else {
        panic!("no template")
    };
    assert!(template.specs().eq(fields));
    assert_eq!(set.templates().count(), 1, "the rest is padding");
}

/// A.5: lengths of one byte and of three.
#[test]
fn golden_values_of_variable_length() {
    let mut room = [0; 2048];
    for (bytes, head) in [
        (0, &[0_u8][..]),
        (5, &[5]),
        (254, &[254]),
        (255, &[255, 0, 255]),
        (1000, &[255, 3, 0xe8]),
    ] {
        let value = vec![7; bytes];
        let mut writer = MessageWriter::new(&mut room, 1, 0).unwrap();
        writer.push_record(300, |out| out.variable(&value)).unwrap();
        let written = writer.finish(0).bytes.to_vec();
        assert_eq!(written[20..], [head, &value].concat());
        let body = [&[1, 44, 0, 1, 0, 82, 0xff, 0xff][..]].concat();
        let template = message(2, &body);
        let mut cache = TemplateCache::new(1, 4);
        let sets = Message::new_checked(&template).unwrap().sets().next();
        let record = sets.unwrap().templates().next().unwrap().unwrap();
        cache.learn(1, record, 0).unwrap();
        let template = cache.template(1, 300).unwrap();
        let set = Message::new_checked(&written)
            .unwrap()
            .sets()
            .next()
            .unwrap();
        let record = template.records(set.body()).next().unwrap().unwrap();
        assert_eq!(record.value(Element::iana(82)), Some(Value(&value)));
        assert_eq!(record.value(Element::iana(83)), None);
        // One byte less, and it ends behind its set.
        let cut = &set.body()[..set.body().len() - 1];
        let error = template.records(cut).next();
        let field = 0;
        let cut = Some(Err(IpfixError::RecordCut { id: 300, field }));
        assert_eq!(error, if bytes == 0 { None } else { cut });
    }
}

#[test]
fn a_message_cut_anywhere_is_refused_and_what_is_behind_it_is_not_its_own() {
    for end in 0..GOLDEN.len() {
        let error = Message::new_checked(&GOLDEN[..end]).unwrap_err();
        assert!(["message_header_cut", "message_cut"].contains(&error.reason()));
    }
    let two = [GOLDEN, GOLDEN].concat();
    assert_eq!(Message::new_checked(&two).unwrap().rest(), GOLDEN);
    assert_eq!(Messages::new(&two).filter(Result::is_ok).count(), 2);
    let read: Vec<bool> = Messages::new(&two[..303])
        .map(|message| message.is_ok())
        .collect();
    assert_eq!(read, [true, false]);
}

#[test]
fn what_is_shorter_than_a_record_is_padding() {
    let template = message(2, &[1, 0, 0, 1, 0, 1, 0, 4]);
    let set = Message::new_checked(&template).unwrap().sets().next();
    let Some(Ok(TemplateRecord::Defined(template))) = set.unwrap().templates().next() else {
        panic!("no template")
    };
    for (body, records) in [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2)] {
        let bytes = [0; 8];
        let read: Vec<bool> = template
            .records(&bytes[..body])
            .map(|record| record.is_ok())
            .collect();
        assert_eq!(read, vec![true; records]);
    }
}

#[test]
fn what_contradicts_itself_is_named() {
    let with = |at: usize, byte: u8| {
        let mut bytes = GOLDEN;
        bytes[at] = byte;
        Message::new_checked(&bytes).unwrap_err()
    };
    assert_eq!(with(1, 9), IpfixError::Version { found: 9 });
    assert_eq!(with(3, 15), IpfixError::MessageLength { bytes: 15 });
    // The header alone is one.
    let header = [&[0, 10, 0, 16][..], &[0; 12]].concat();
    assert_eq!(Message::new_checked(&header).unwrap().sets().count(), 0);
    let (id, have) = (2, 136);
    for bytes in [0, 3, 137] {
        let wrong = IpfixError::SetLength { id, bytes, have };
        assert_eq!(with(19, bytes as u8), wrong);
    }
    // A last set that leaves three bytes.
    assert_eq!(with(135, 17), IpfixError::SetHeader { have: 3 });
}

#[test]
fn templates_that_cannot_be_are_refused() {
    assert_eq!(
        templates(2, &[0, 255, 0, 1, 0, 1, 0, 4]),
        Err(IpfixError::TemplateId { id: 255 })
    );
    assert_eq!(
        templates(2, &[1, 0, 0, 2, 0, 1, 0, 4]),
        Err(IpfixError::TemplateCut { id: 256 })
    );
    assert_eq!(
        templates(2, &[1, 0, 0, 1, 0x80, 1, 0, 4, 0]),
        Err(IpfixError::TemplateCut { id: 256 })
    );
    let empty = IpfixError::EmptyField { id: 256, field: 1 };
    assert_eq!(
        templates(2, &[1, 0, 0, 2, 0, 1, 0, 4, 0, 2, 0, 0]),
        Err(empty)
    );
    for scope in [0, 2] {
        let wrong = IpfixError::ScopeCount {
            id: 256,
            scope,
            fields: 1,
        };
        assert_eq!(
            templates(3, &[1, 0, 0, 1, 0, scope as u8, 0, 1, 0, 4]),
            Err(wrong)
        );
    }
    assert_eq!(
        templates(3, &[1, 0, 0, 1]),
        Err(IpfixError::TemplateCut { id: 256 })
    );
    assert_eq!(
        templates(2, &[1, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0]),
        Ok(vec![256, 257, 0])
    );
    assert_eq!(templates(3, &[0, 3, 0, 0]), Ok(vec![1]));
    assert_eq!(
        templates(3, &[0, 2, 0, 0]),
        Err(IpfixError::TemplateId { id: 2 })
    );
    assert_eq!(templates(2, &[0; 3]), Ok(vec![]));
    assert_eq!(templates(4, &[1, 0, 0, 0]), Ok(vec![]));
}

#[test]
fn what_does_not_fit_leaves_the_message_as_it_was() {
    let mut room = [0; HEADER_BYTES + 24];
    let mut writer = MessageWriter::new(&mut room, 1, u32::MAX).unwrap();
    writer.push_record(256, |out| out.bytes(&[1; 12])).unwrap();
    let (need, left) = (12, 8);
    let full = |need| Err(WriteError::Full { need, left });
    assert_eq!(
        writer.push_record(256, |out| out.bytes(&[2; 12])),
        full(need)
    );
    // As large as a message takes it.
    assert_eq!(writer.push_record(256, |out| out.bytes(&[2; 20])), full(20));
    // In a set of its own it takes a header more.
    assert_eq!(writer.push_record(257, |out| out.bytes(&[2; 12])), full(16));
    let never = Err(WriteError::NeverFits { need: 25, most: 24 });
    assert_eq!(writer.push_record(256, |out| out.bytes(&[2; 21])), never);
    let never = Err(WriteError::NeverFits { need: 28, most: 24 });
    assert_eq!(writer.push_template(256, &flow_fields()), never);
    assert_eq!(writer.push_template(258, &[spec(1, 8)]), full(12));
    writer.push_record(256, |out| out.bytes(&[3; 8])).unwrap();
    let finished = writer.finish(0);
    assert_eq!(finished.next_sequence, 1);
    assert_eq!(
        finished.bytes[HEADER_BYTES..],
        [&[1, 0, 0, 24][..], &[1; 12], &[3; 8]].concat()
    );
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let mut room = [0; 100_000];
    let mut writer = MessageWriter::new(&mut room, 1, 0).unwrap();
    let id = 255;
    assert_eq!(
        writer.push_template(id, &[spec(1, 8)]),
        Err(WriteError::TemplateId { id })
    );
    assert_eq!(
        writer.push_withdrawal(id, true),
        Err(WriteError::TemplateId { id })
    );
    assert_eq!(
        writer.push_record(id, |out| out.u8(1)),
        Err(WriteError::TemplateId { id })
    );
    let id = 256;
    assert_eq!(
        writer.push_record(id, |_| {}),
        Err(WriteError::EmptyRecord { id })
    );
    let bytes = MESSAGE_BYTES_MAX + 1;
    let long = vec![0; bytes];
    assert_eq!(
        writer.push_record(id, |out| out.variable(&long)),
        Err(WriteError::ValueBytes { bytes })
    );
    for (fields, scope) in [
        (&[][..], None),
        (&[spec(1, 0)], None),
        (&[spec(1, 8)], Some(0)),
        (&[spec(1, 8)], Some(2)),
    ] {
        let written = match scope {
            None => writer.push_template(id, fields),
            Some(scope) => writer.push_options_template(id, scope, fields),
        };
        assert!(
            matches!(written, Err(WriteError::Fields { .. })),
            "{fields:?}"
        );
    }
    assert!(writer.is_empty());
    writer.push_withdrawal(id, false).unwrap();
    writer.push_withdrawal_of_all(true).unwrap();
    assert_eq!(
        writer.finish(0).bytes[16..],
        [0, 2, 0, 8, 1, 0, 0, 0, 0, 3, 0, 8, 0, 3, 0, 0]
    );
    // A message is no longer than its length can say.
    let mut writer = MessageWriter::new(&mut room, 1, 0).unwrap();
    writer
        .push_record(id, |out| out.bytes(&[0; 65_515]))
        .unwrap();
    assert!(matches!(
        writer.push_record(id, |out| out.u8(0)),
        Err(WriteError::Full { .. })
    ));
    assert_eq!(
        Message::new_checked(writer.finish(0).bytes)
            .unwrap()
            .header()
            .bytes,
        65_535
    );
    assert!(MessageWriter::new(&mut room[..15], 1, 0).is_err());
}

#[test]
fn sequence_numbers_wrap_and_name_what_is_lost() {
    assert_eq!(records_lost(10, 10), 0);
    assert_eq!(records_lost(u32::MAX, 2), 3);
    assert!(records_lost(10, 9) > 1 << 31);
    assert_eq!(udp_message_bytes_max(1500, false), 1472);
    assert_eq!(udp_message_bytes_max(1500, true), 1452);
    assert_eq!(udp_message_bytes_max(10, true), 0);
    assert_eq!(udp_message_bytes_max(100_000, false), MESSAGE_BYTES_MAX);
}

#[test]
fn values_are_read_by_their_length() {
    assert_eq!(Value(&[1, 2]).unsigned(), Some(258));
    assert_eq!(Value(&[0xff; 8]).unsigned(), Some(u64::MAX));
    assert_eq!(
        (Value(&[]).unsigned(), Value(&[0; 9]).unsigned()),
        (None, None)
    );
    assert_eq!(Value(&[192, 0, 2, 1]).address(), "192.0.2.1".parse().ok());
    let mut six = [0; 16];
    six[15] = 1;
    assert_eq!(Value(&six).address(), "::1".parse().ok());
    assert_eq!(Value(&[0; 5]).address(), None);
}
