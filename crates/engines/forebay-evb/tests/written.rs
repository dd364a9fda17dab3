//! What stands in an event and in no number of the books: its date, time and run, and what became of a sub-event that could not be read.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod harness;

use forebay_evb::{Config, Input, SubEventDrop};
use forebay_wire::hld::{EVENT_HEADER_BYTES, Event, EventId};
use harness::arena::Arena;
use harness::{Rig, Sub, sub, subs};

/// The little-endian words of an event's header.
fn words(event: &[u8]) -> Vec<u32> {
    let words = event[..EVENT_HEADER_BYTES].chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn an_event_has_the_moment_and_the_run_that_it_was_built_in() {
    let mut rig = Rig::new(Config::new(2));
    // 21 bytes are padded to 24.
    let odd = Sub {
        bytes: 21,
        ..sub(5)
    };
    rig.send_all(&[odd]);
    rig.poll();
    let words = words(&rig.sink.bytes);
    assert_eq!(words[0], 32 + 2 * 24);
    assert_eq!(words[1], 0x0003_0001, "8-byte words, of HADES");
    assert_eq!(words[2], EventId::data(0).0);
    assert_eq!(words[3], 1, "the first one");
    // Unix time 1,795,289,046 is 2026-11-21 19:24:06 UTC.
    assert_eq!(words[4], 126 << 16 | 10 << 8 | 21);
    assert_eq!(words[5], 19 << 16 | 24 << 8 | 6);
    assert_eq!(words[6..], [7, 0]);
}

/// A queue of which source 1 shows headers and nothing else.
struct Torn<'a>(&'a Arena);

impl Input for Torn<'_> {
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]> {
        self.0.header(source, at)
    }

    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool {
        into.fill(0xaa);
        source != 1 && self.0.copy(source, at, into)
    }
}

#[test]
fn a_sub_event_that_cannot_be_read_is_zeroes_and_a_data_error() {
    let mut rig = Rig::new(Config::new(2));
    rig.send_all(&subs(0..2));
    let torn = Torn(&rig.arena);
    rig.builder.poll(rig.now_ns, &torn, &mut rig.sink);
    rig.poll();
    let [first, second] = rig.sink.events.as_slice() else {
        panic!("{:?}", rig.sink.events)
    };
    assert!(first.complete && second.complete);
    let event = Event::new_checked(&rig.sink.bytes).unwrap();
    assert_eq!(event.header().id, EventId::data(0).with_data_error(true));
    let body = &event.as_bytes()[EVENT_HEADER_BYTES..];
    assert!(body[16..40].iter().any(|byte| *byte != 0));
    assert_ne!(body[40..56], [0; 16], "its header was read before");
    assert_eq!(body[56..80], [0; 24]);
    let event = Event::new_checked(&rig.sink.bytes[first.bytes as usize..]).unwrap();
    assert_eq!(event.header().id, EventId::data(0));
}

#[test]
fn what_a_predecessor_held_and_the_queue_does_not_show_is_charged_before_what_comes() {
    let mut rig = Rig::new(Config::new(2));
    rig.send(0, &subs(0..10));
    rig.poll();
    rig.commit();
    rig.restart_with_nothing();
    rig.send(0, &subs(10..11));
    rig.commit();
    let (book, accounts) = rig.book();
    let account = &accounts.sources[0].account;
    let lost = account.lost(SubEventDrop::Broken);
    assert_eq!(book.tally(lost), (10, 400));
    assert_eq!(book.tally(account.held), (1, 40));
    assert_eq!(book.tally(account.incoming), (11, 440));
}
