//! What flow records cost, written and read.
#![allow(missing_docs)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_wire::ipfix::{
    FieldSpec, Message, MessageWriter, RecordWriter, TemplateCache, WriteError, elements,
};

/// Most bytes of a message in a packet of 1,500.
const ROOM_BYTES: usize = 1_472;

fn main() {
    divan::main();
}

/// A biflow of IPv4 as a collector wants it: 62 bytes.
fn biflow() -> Vec<FieldSpec> {
    let counts = [elements::OCTET_DELTA_COUNT, elements::PACKET_DELTA_COUNT];
    let mut fields = vec![
        FieldSpec::whole(elements::FLOW_START_MILLISECONDS),
        FieldSpec::whole(elements::FLOW_END_MILLISECONDS),
    ];
    fields.extend(counts.map(FieldSpec::whole));
    fields.extend(counts.iter().filter_map(|info| {
        let element = info.element.reverse()?;
        Some(FieldSpec { element, bytes: 8 })
    }));
    fields.extend(
        [
            elements::SOURCE_IPV4_ADDRESS,
            elements::DESTINATION_IPV4_ADDRESS,
            elements::SOURCE_TRANSPORT_PORT,
            elements::DESTINATION_TRANSPORT_PORT,
            elements::PROTOCOL_IDENTIFIER,
        ]
        .map(FieldSpec::whole),
    );
    fields.push(FieldSpec::reduced(elements::TCP_CONTROL_BITS, 1));
    fields
}

/// Fills a message with such records, and says how many.
fn write_biflows(room: &mut [u8], template: Option<&[FieldSpec]>) -> Result<u32, WriteError> {
    let mut writer = MessageWriter::new(room, 1, 0)?;
    if let Some(template) = template {
        writer.push_template(256, template)?;
    }
    let mut number = 0;
    let mut write = |record: &mut RecordWriter<'_>| {
        number += 1;
        for _ in 0..6 {
            record.u64(number);
        }
        record.u32(number as u32);
        record.u32(0x0a00_0001);
        record.u16(number as u16);
        record.u16(443);
        record.u8(6);
        record.u8(0x1b);
    };
    while writer.push_record(256, &mut write).is_ok() {}
    Ok(writer.finish(1_795_289_046).records)
}

#[divan::bench]
fn ipfix_write(bencher: Bencher<'_, '_>) {
    let mut room = [0; ROOM_BYTES];
    let records = write_biflows(&mut room, None).unwrap_or(0);
    assert_eq!(records, 23);
    let bencher = bencher.counter(ItemsCount::new(records));
    bencher.bench_local(|| write_biflows(black_box(&mut room), None));
}

#[divan::bench]
fn ipfix_read(bencher: Bencher<'_, '_>) {
    let mut room = [0; ROOM_BYTES];
    let mut cache = TemplateCache::new(1, 1_024);
    let records = write_biflows(&mut room, Some(&biflow())).unwrap_or(0);
    assert_eq!(records, 22);
    bencher
        .counter(ItemsCount::new(records))
        .bench_local(move || {
            let mut octets = 0;
            for set in Message::new_checked(black_box(&room[..]))
                .iter()
                .flat_map(Message::sets)
            {
                for template in set.templates().flatten() {
                    let _ = cache.learn(1, template, 0);
                }
                let template = cache.template(1, set.id);
                for record in template
                    .iter()
                    .flat_map(|it| it.records(set.body()))
                    .flatten()
                {
                    let value = record.value(elements::OCTET_DELTA_COUNT.element);
                    octets += value.and_then(|value| value.unsigned()).unwrap_or(0);
                }
            }
            octets
        });
}
