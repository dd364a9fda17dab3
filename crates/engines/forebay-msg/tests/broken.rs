//! Buffers that hold something else than they say: what is good of them is delivered, the rest has a name, and the connection ends.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_msg::session::{Dialer, Event, Limits, Listener, Session, SessionError, Timing};
use forebay_msg::{Inbound, InboundError, Outbound, Role, Slow};
use forebay_wire::net::{DataFields, Frame};

const EPOCH: u64 = 9;
/// Without a sending end.
const NOBODY: Option<&mut Outbound> = None;

/// A message with a tag.
fn tagged(payload: &[u8]) -> Vec<u8> {
    let header = (1_u32 << 31) | payload.len() as u32;
    [
        &header.to_le_bytes()[..],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        payload,
    ]
    .concat()
}

/// A buffer after the messages and bytes `before`.
fn buffer(sequence: u64, before: [u64; 2], said: [u64; 2], messages: &[u8]) -> Vec<u8> {
    let fields = DataFields {
        epoch: EPOCH,
        sequence,
        messages_total: before[0] + said[0],
        bytes_total: before[1] + said[1],
        messages: said[0] as u32,
        bytes: messages.len() as u32,
    };
    [&fields.to_bytes()[..], messages].concat()
}

/// What is wrong with a buffer, and how many of its messages are good.
struct Wrong {
    name: &'static str,
    said: [u64; 2],
    messages: Vec<u8>,
    good: usize,
    reason: &'static str,
}

fn all_wrong() -> Vec<Wrong> {
    let of = |payloads: &[&[u8]]| payloads.iter().flat_map(|one| tagged(one)).collect();
    let three: Vec<u8> = of(&[b"one", b"two", b"six"]);
    let wrong = |name, said, messages, good, reason| Wrong {
        name,
        said,
        messages,
        good,
        reason,
    };
    vec![
        wrong(
            "more messages than it says, the bytes as they are",
            [1, 9],
            three.clone(),
            1,
            "wrong_count",
        ),
        wrong(
            "more messages than it says, and more bytes",
            [1, 3],
            three.clone(),
            1,
            "wrong_count",
        ),
        wrong(
            "more bytes than it says",
            [3, 6],
            three.clone(),
            2,
            "wrong_count",
        ),
        wrong(
            "fewer messages than it says",
            [4, 9],
            three.clone(),
            3,
            "wrong_count",
        ),
        wrong(
            "fewer bytes than it says",
            [3, 10],
            three.clone(),
            3,
            "wrong_count",
        ),
        wrong(
            "a payload that is cut",
            [3, 9],
            three[..three.len() - 1].to_vec(),
            2,
            "payload_cut",
        ),
        wrong(
            "a head that is cut",
            [3, 9],
            three[..three.len() - 12].to_vec(),
            2,
            "head_cut",
        ),
        wrong("no tag", [1, 3], b"\x03\0\0\0one".to_vec(), 0, "no_tag"),
    ]
}

/// What the books have of it: told, read, dropped by name; they close.
fn check_books(inbound: &Inbound, wrong: &Wrong) {
    let (told, totals, losses) = (inbound.told(), inbound.totals(), inbound.losses());
    let read = [totals.messages, totals.bytes];
    let dropped = [
        losses.gap_messages + losses.broken_messages,
        losses.gap_bytes + losses.broken_bytes,
    ];
    let name = wrong.name;
    assert_eq!(
        told,
        [read[0] + dropped[0], read[1] + dropped[1]],
        "{name}: {losses:?}"
    );
    assert_eq!(losses.broken_buffers, 1, "{name}");
}

#[test]
fn the_books_close_and_nothing_more_is_taken() {
    for wrong in all_wrong() {
        let name = wrong.name;
        // The first of a connection, one after a good one, and one after a gap of one message with 2 bytes.
        for gap in 0..3_u64 {
            let mut inbound = Inbound::new(EPOCH, 100);
            let mut before = [0, 0];
            let mut good = 0;
            if gap > 0 {
                let first = buffer(0, before, [1, 5], &tagged(b"hello"));
                assert_eq!(inbound.handle_frame(&first).unwrap().count(), 1);
                (before, good) = ([1, 5], 1);
            }
            if gap > 1 {
                before = [2, 7];
            }
            let frame = buffer(gap, before, wrong.said, &wrong.messages);
            let mut reading = inbound.handle_frame(&frame).unwrap();
            let read = reading.by_ref().count();
            assert!(reading.next().is_none(), "{name}");
            let end = reading.finish();
            if gap > 1 && name == "fewer bytes than it says" {
                // They may have been the gap's.
                assert_eq!((read, end), (3, Ok(())));
                continue;
            }
            assert_eq!(read, wrong.good, "{name}, {gap}");
            let error = SessionError::from(end.unwrap_err());
            assert_eq!(error.reason(), wrong.reason, "{name}: {error}");
            check_books(&inbound, &wrong);
            assert_eq!(inbound.totals().messages, good + wrong.good as u64);
            // A caller that did not ask is told when more comes, and takes none of it.
            let told = inbound.told();
            let next = buffer(gap + 1, told, [1, 5], &tagged(b"after"));
            assert_eq!(inbound.handle_frame(&next).err(), end.err(), "{name}");
            assert_eq!((inbound.told(), inbound.credit().buffers), (told, gap + 1));
        }
    }
}

/// After a gap no more can be taken than the totals say came in the gap and the buffer.
#[test]
fn after_a_gap_no_more_is_taken_than_was_said() {
    let mut inbound = Inbound::new(EPOCH, 100);
    // One message with 2 bytes is missing.
    let messages = [tagged(b"hello"), tagged(b"to you")].concat();
    let frame = buffer(1, [1, 2], [2, 8], &messages);
    let mut reading = inbound.handle_frame(&frame).unwrap();
    assert_eq!(reading.by_ref().count(), 1);
    let error = InboundError::Holds {
        what: "bytes",
        said: 10,
        found: 11,
    };
    assert_eq!(reading.finish(), Err(error));
    let losses = inbound.losses();
    assert_eq!((losses.gap_messages, losses.broken_messages), (1, 1));
    assert_eq!(inbound.totals().bytes + losses.broken_bytes, 10);
    // What is missing is the gap's, when the buffer itself is as it says.
    let mut inbound = Inbound::new(EPOCH, 100);
    let frame = buffer(1, [1, 2], [2, 11], &messages);
    let reading = inbound.handle_frame(&frame).unwrap();
    assert_eq!(reading.finish(), Ok(()));
    let losses = inbound.losses();
    assert_eq!((losses.gap_messages, losses.gap_bytes), (1, 2));
    assert_eq!((losses.broken_buffers, inbound.totals().bytes), (0, 11));
}

/// The session on which such a buffer comes.
fn receiving() -> Session {
    let limits = Limits {
        buffer_bytes: 100,
        buffer_count: 4,
    };
    let dialer = Dialer {
        role: Role::Sender,
        slow: Slow::Block,
        identity: 1,
    };
    let listener = Listener {
        serves: Role::Sender,
        answers: false,
        epoch: EPOCH,
        closed: None,
    };
    let mut peer = Session::dial(dialer, limits, Timing::default(), 0);
    let hello = peer.poll_transmit(NOBODY).unwrap().bytes.to_vec();
    let mut session = Session::listen(listener, limits, Timing::default(), 0);
    let (frame, _) = Frame::parse(&hello, 0).unwrap().unwrap();
    assert!(matches!(
        session.handle_frame(0, frame, NOBODY),
        Ok(Event::Opened(_))
    ));
    session
}

#[test]
fn the_session_ends_even_if_nobody_asks_how_the_reading_went() {
    for wrong in all_wrong() {
        let name = wrong.name;
        let mut session = receiving();
        let frame = buffer(0, [0, 0], wrong.said, &wrong.messages);
        let (frame, _) = Frame::parse(&frame, 200).unwrap().unwrap();
        match session.handle_frame(0, frame, NOBODY).unwrap() {
            Event::Messages(reading) => drop(reading),
            other => unreachable!("{name}: {other:?}"),
        }
        check_books(session.inbound().unwrap(), &wrong);
        assert!(!session.give_credit(true), "{name}: nothing is given back");
        let error = session.handle_frame(0, Frame::Alive, NOBODY).unwrap_err();
        assert_eq!(error.reason(), wrong.reason, "{name}: {error}");
        assert_eq!(session.handle_time(1), Err(error), "{name}");
    }
}
