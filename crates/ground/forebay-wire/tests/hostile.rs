//! Round trips of what is written, and no panic on whatever comes.
#![allow(clippy::unwrap_used, clippy::panic)]

use forebay_wire::hadtu::{ByteOrder, MessageWriter, Queue, UnitHeader, message_bytes};
use forebay_wire::hld::{Event, EventHeader, EventId, EventTime};
use forebay_wire::subevent::{SubEvent, SubEventHeader, SubEventRepr, SubEvents};
use proptest::prelude::*;

fn order() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

fn repr() -> impl Strategy<Value = SubEventRepr> {
    let decoding =
        (0_u32..4, any::<u8>(), 1_u32..256).prop_map(|(a, b, c)| a << 16 | u32::from(b) << 8 | c);
    (decoding, any::<u32>(), any::<u32>(), order()).prop_map(
        |(decoding, id, trigger_word, order)| SubEventRepr {
            decoding,
            id,
            trigger_word,
            order,
        },
    )
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..80)
}

/// Walks over everything a view offers; bounds must hold.
fn walk(subs: SubEvents<'_>, container: usize) {
    for sub in subs.flatten() {
        assert!(sub.offset() + sub.size() as usize <= container);
        assert_eq!(sub.payload().len() + 16, sub.size() as usize);
        assert!(sub.words().count() * sub.header().word_bytes().min(4) <= sub.payload().len());
        let nested: usize = sub.sub_sub_events().map(|s| s.payload.len() + 4).sum();
        assert!(nested <= sub.payload().len());
        let _ = (sub.status_word(), sub.to_string());
    }
}

fn probe(bytes: &[u8]) {
    if let Ok(queue) = Queue::new_checked(bytes) {
        walk(queue.sub_events(), bytes.len());
        let _ = queue.to_string();
    }
    if let Ok(queue) = Queue::new_stripped(bytes) {
        walk(queue.sub_events(), bytes.len());
    }
    if let Ok(event) = Event::new_checked(bytes) {
        walk(event.sub_events(), bytes.len());
        let _ = event.to_string();
    }
    if let Ok(sub) = SubEvent::new_checked(bytes) {
        assert!(sub.as_bytes().len() <= bytes.len());
    }
}

proptest! {
    #[test]
    fn messages_round_trip(subs in prop::collection::vec((repr(), payload()), 0..12), order in order()) {
        let mut writer = MessageWriter::new(order);
        for (repr, payload) in &subs {
            writer.push(repr, payload).unwrap();
        }
        let message = writer.finish().to_vec();
        prop_assert_eq!(message_bytes(message.first_chunk().unwrap()), Ok(message.len() as u64));
        let queue = Queue::new_checked(&message[..]).unwrap();
        let read: Vec<_> = queue.sub_events().map(|sub| sub.map(|s| (SubEventRepr::parse(&s.header()), s.payload().to_vec()))).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, subs);
        writer.clear();
        prop_assert!(writer.is_empty());
    }

    #[test]
    fn event_headers_round_trip(words in any::<[u32; 6]>(), size in 32_u32.., order in order()) {
        let [id, sequence, date, time, run, pad] = words;
        let header = EventHeader { size, decoding: 0x0003_0001, id: EventId(id), sequence, date, time, run, pad, order };
        prop_assert_eq!(EventHeader::parse(&header.to_bytes()), Ok(header));
    }

    #[test]
    fn unit_headers_round_trip(size in any::<u32>(), high in 0_u32..0x1_0000, low in 1_u32..256, order in order()) {
        let unit = UnitHeader { size, decoding: high << 8 | low, order };
        let mut bytes = [0; 8];
        unit.emit(&mut bytes);
        prop_assert_eq!(UnitHeader::parse(&bytes), Ok(unit));
    }

    #[test]
    fn calendar_round_trips(unix_s in 0_i64..2_005_949_145_600) {
        let at = EventTime::from_unix_s(unix_s);
        prop_assert!(at.is_plausible());
        let later = EventTime::from_unix_s(unix_s + 1);
        prop_assert!(at < later || unix_s == 2_005_949_145_599);
        prop_assert!(at.year < 1970 || EventTime::from_words(at.date_word(), at.time_word()) == at);
    }

    #[test]
    fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        probe(&bytes);
        if let Some(head) = bytes.first_chunk() {
            let _ = SubEventHeader::parse(head);
        }
    }

    #[test]
    fn damaged_messages_never_panic(subs in prop::collection::vec((repr(), payload()), 1..6), hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let mut writer = MessageWriter::new(ByteOrder::Big);
        for (repr, payload) in &subs {
            writer.push(repr, payload).unwrap();
        }
        let mut message = writer.finish().to_vec();
        for (index, byte) in hits {
            let at = index.index(message.len());
            message[at] = byte;
        }
        probe(&message);
    }
}
