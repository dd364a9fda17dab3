//! What must hold for any bytes taken as a file of IPFIX messages. Shared by the fuzz target and by the test that replays its corpus.
//!
//! Templates of flows and of options, elements of IANA and of enterprises, values of fixed and of variable length, and lists of both (RFC 6313).
//!
//! No panic; what is read lies in its set, and has no more values than bytes; written again it is read the same; the cache keeps its limits.

use forebay_wire::ipfix::{
    BasicList, FieldSpec, Message, MessageWriter, Messages, Set, SetKind, Template, TemplateCache,
    TemplateRecord, Value,
};

const TEMPLATES_MAX: usize = 8;
const BYTES_MAX: usize = 1024;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let mut cache = TemplateCache::new(TEMPLATES_MAX, BYTES_MAX);
    let mut left = bytes.len();
    for message in Messages::new(bytes) {
        // What is wrong is told, and nothing is behind it.
        let Ok(message) = message else { return };
        assert!(message.rest().len() < left);
        left = message.rest().len();
        let domain = message.header().domain;
        let sets: usize = message.sets().map(|set| set.body().len() + 4).sum();
        assert_eq!(sets + 16, usize::from(message.header().bytes));
        for set in message.sets() {
            match set.kind() {
                SetKind::Templates | SetKind::OptionsTemplates => learn(&mut cache, domain, set),
                SetKind::Data(id) => {
                    if let Some(template) = cache.template(domain, id) {
                        data(template, set.body());
                    }
                }
                SetKind::Reserved(_) => assert_eq!(set.templates().count(), 0),
            }
        }
    }
}

fn learn(cache: &mut TemplateCache, domain: u32, set: Set<'_>) {
    for record in set.templates() {
        let Ok(record) = record else { return };
        if let TemplateRecord::Defined(template) = record {
            assert_eq!(template.specs().count(), usize::from(template.fields));
            assert!(usize::from(template.fields) <= template.record_bytes_min);
            again(template);
        }
        let learnt = cache.learn(domain, record, 0);
        assert!(cache.len() <= TEMPLATES_MAX);
        if let (Ok(_), TemplateRecord::Defined(template)) = (learnt, record) {
            assert_eq!(cache.template(domain, template.id), Some(template));
        }
    }
}

/// Writes a template, and reads it.
fn again(template: Template<'_>) {
    let specs: Vec<FieldSpec> = template.specs().collect();
    let mut room = vec![0; 65_535];
    let mut writer = MessageWriter::new(&mut room, 0, 0).expect("room for a header");
    let written = match template.scope_fields {
        0 => writer.push_template(template.id, &specs),
        scope => writer.push_options_template(template.id, scope, &specs),
    };
    written.expect("it came in a message");
    let message = Message::new_checked(writer.finish(0).bytes).expect("it was written here");
    let read = message.sets().flat_map(|set| set.templates()).flatten();
    let read: Vec<_> = read.collect();
    // An enterprise 0 is written as IANA's, without its four bytes.
    assert!(
        matches!(read[..], [TemplateRecord::Defined(read)] if read.specs().eq(specs)
            && (read.id, read.scope_fields) == (template.id, template.scope_fields)),
        "{read:?}"
    );
}

fn data(template: Template<'_>, body: &[u8]) {
    let mut bytes = 0;
    let mut room = vec![0; 65_535];
    for record in template.records(body) {
        let Ok(record) = record else { return };
        bytes += record.as_bytes().len();
        assert!(record.as_bytes().len() >= template.record_bytes_min);
        assert_eq!(record.values().count(), usize::from(template.fields));
        let values = record.values().map(|(_, value)| value);
        values.for_each(list);
        let mut writer = MessageWriter::new(&mut room, 0, 0).expect("room for a header");
        writer
            .push_record(template.id, |out| {
                for (spec, value) in record.values() {
                    match spec.is_variable() {
                        true => out.variable(value.0),
                        false => out.bytes(value.0),
                    }
                }
            })
            .expect("it came in a message");
        let message = Message::new_checked(writer.finish(0).bytes).expect("it was written here");
        let set = message.sets().next().expect("a record");
        let mut read = template.records(set.body());
        let read = read.next().expect("a record").expect("whole");
        assert!(read.values().eq(record.values()));
    }
    assert!(bytes <= body.len());
}

/// Takes any value for a list: one that was whatever its template says is one as well as any other.
fn list(value: Value<'_>) {
    let Ok(list) = BasicList::new_checked(value) else {
        return;
    };
    let inner: usize = list.values().map(|value| value.0.len()).sum();
    assert!(inner + 5 <= value.0.len() && list.values().count() <= value.0.len());
    // Written again by the writer of records, which has a length in front of it as a value of variable length.
    let (header, bytes) = BasicList::header(list.semantic, list.spec);
    let mut room = vec![0; 65_535];
    let mut writer = MessageWriter::new(&mut room, 0, 0).expect("room for a header");
    let written = writer.push_record(256, |out| {
        out.bytes(&header[..bytes]);
        for value in list.values() {
            match list.spec.is_variable() {
                true => out.variable(value.0),
                false => out.bytes(value.0),
            }
        }
    });
    written.expect("it came in a message");
    let message = Message::new_checked(writer.finish(0).bytes).expect("it was written here");
    let set = message.sets().next().expect("a record");
    let again = BasicList::new_checked(Value(set.body())).expect("it was one");
    assert!((again.semantic, again.spec) == (list.semantic, list.spec));
    assert!(again.values().eq(list.values()));
}
