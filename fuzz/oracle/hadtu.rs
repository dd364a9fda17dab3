//! What must hold for any bytes taken as a message. Shared by the fuzz target and by the test that replays its corpus.

use forebay_wire::hadtu::{MessageWriter, Queue, message_bytes};
use forebay_wire::subevent::{SubEvent, SubEventRepr};

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let stripped = Queue::new_stripped(bytes);
    if let Ok(queue) = &stripped {
        for sub in queue.sub_events().flatten() {
            check_sub_event(&sub, queue.size() as usize);
        }
    }
    let Ok(queue) = Queue::new_checked(bytes) else {
        return;
    };
    assert!(stripped.is_ok(), "a checked message is a stripped one too");
    let head = bytes.first_chunk().expect("a checked message has a head");
    assert_eq!(message_bytes(head), Ok(bytes.len() as u64));
    check_rewrite(&queue);
}

fn check_sub_event(sub: &SubEvent<'_>, container: usize) {
    let end = sub.offset() + sub.as_bytes().len();
    assert!(sub.offset() >= 8 && end <= container);
    assert_eq!(sub.as_bytes().len(), sub.size() as usize);
    let words = sub.words().count() * sub.header().word_bytes().min(4);
    assert!(words <= sub.payload().len());
    let nested: usize = sub.sub_sub_events().map(|s| 4 + s.payload.len()).sum();
    assert!(nested <= sub.payload().len());
    let again = SubEvent::new_checked(sub.as_bytes()).expect("a view of its own bytes");
    assert_eq!(again.header(), sub.header());
}

/// A sound message written again holds the same sub-events.
fn check_rewrite(queue: &Queue<&[u8]>) {
    let mut writer = MessageWriter::with_decoding(queue.header().order, queue.header().decoding);
    let Ok(subs) = queue.sub_events().collect::<Result<Vec<_>, _>>() else {
        return;
    };
    for sub in &subs {
        let repr = SubEventRepr::parse(&sub.header());
        writer.push(&repr, sub.payload()).expect("it fitted before");
    }
    let written = writer.finish();
    let again = Queue::new_checked(written).expect("what is written is sound");
    if again.header().decoding >> 16 != 3 {
        return; // the writer pads to 8 bytes, this message asks for less
    }
    let same = again.sub_events().flatten().map(|s| s.as_bytes());
    assert!(same.eq(subs.iter().map(SubEvent::as_bytes)));
}
