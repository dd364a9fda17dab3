use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::GOLDEN;

/// A template and records that it fits.
fn table() -> impl Strategy<Value = (Vec<FieldSpec>, Vec<Vec<Vec<u8>>>)> {
    let bytes = prop_oneof![1..20_u16, Just(VARIABLE_LENGTH)];
    let element = (
        prop_oneof![Just(0), Just(REVERSE_ENTERPRISE), any::<u32>()],
        0..0x8000_u16,
    );
    let field = (element, bytes).prop_map(|((enterprise, id), bytes)| FieldSpec {
        element: Element { enterprise, id },
        bytes,
    });
    let fields = prop::collection::vec(field, 1..8);
    fields.prop_flat_map(|specs| {
        let values: Vec<_> = specs
            .iter()
            .map(|spec| match usize::from(spec.bytes) {
                _ if spec.is_variable() => prop::collection::vec(any::<u8>(), 0..300),
                bytes => prop::collection::vec(any::<u8>(), bytes),
            })
            .collect();
        (Just(specs), prop::collection::vec(values, 0..12))
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        (specs, rows) in table(), scope in 0..8_u16, room_bytes in 100..2000_usize, sequence: u32,
    ) {
        let scope = scope.min(specs.len() as u16);
        let mut room = vec![0xaa; room_bytes];
        let mut cache = TemplateCache::new(1, 1 << 16);
        let (mut next, mut read) = (sequence, Vec::new());
        let mut written_rows = Vec::new();
        let mut rows = rows.iter().peekable();
        let mut has_template = false;
        while rows.peek().is_some() || !has_template {
            let mut writer = MessageWriter::new(&mut room, 9, next).unwrap();
            if !has_template {
                let written = match scope {
                    0 => writer.push_template(999, &specs),
                    _ => writer.push_options_template(999, scope, &specs),
                };
                prop_assert_eq!(written, Ok(()));
                has_template = true;
            }
            while let Some(row) = rows.peek() {
                let written = writer.push_record(999, |out| for (spec, value) in specs.iter().zip(*row) {
                    if spec.is_variable() { out.variable(value) } else { out.bytes(value) }
                });
                match written {
                    Ok(()) => written_rows.push((*row).clone()),
                    Err(WriteError::NeverFits { need, most }) => prop_assert!(need > most),
                    Err(WriteError::Full { .. }) => { prop_assert!(!writer.is_empty()); break; }
                    Err(other) => panic!("{other}"),
                }
                rows.next();
            }
            let finished = writer.finish(5);
            prop_assert!(finished.bytes.len() <= room_bytes);
            let message = Message::new_checked(finished.bytes).unwrap();
            prop_assert_eq!(records_lost(next, message.header().sequence), 0);
            next = finished.next_sequence;
            for set in message.sets() {
                for record in set.templates() {
                    cache.learn(9, record.unwrap(), 0).unwrap();
                }
                if let SetKind::Data(id) = set.kind() {
                    let template = cache.template(9, id).unwrap();
                    prop_assert!(template.specs().eq(specs.iter().copied()));
                    prop_assert_eq!(template.scope_fields, scope);
                    for record in template.records(set.body()) {
                        let record = record.unwrap();
                        let values = record.values().map(|(_, value)| value.0.to_vec());
                        read.push(values.collect::<Vec<_>>());
                    }
                }
            }
        }
        prop_assert_eq!(next, sequence.wrapping_add(read.len() as u32));
        prop_assert_eq!(read, written_rows);
    }

    #[test]
    fn damage_makes_no_reader_panic(hits in prop::collection::vec((0..152_usize, any::<u8>()), 1..6)) {
        let mut bytes = GOLDEN;
        hits.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        let Ok(message) = Message::new_checked(&bytes) else { return Ok(()) };
        let mut cache = TemplateCache::new(4, 256);
        for set in message.sets() {
            for record in set.templates().flatten() {
                let _ = cache.learn(1, record, 0);
            }
            if let Some(template) = cache.template(1, set.id) {
                let records = template.records(set.body()).flatten();
                let bytes: usize = records.map(|record| record.as_bytes().len()).sum();
                prop_assert!(bytes <= set.body().len());
            }
        }
    }
}
