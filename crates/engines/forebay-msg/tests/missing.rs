//! Messages that never come: each gap, and what is missing at the end, adds to what was lost before, in buffers, messages and bytes.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_msg::{Apart, Config, Credit, Inbound, InboundError, Losses, Outbound, Totals};
use forebay_wire::net::DataFields;

const EPOCH: u64 = 9;
/// A payload of a message of [`message`], in bytes.
const PAYLOAD_BYTES: u64 = 5;
/// Most buffers that may be under way, as the frames' format says.
const BUFFER_COUNT_MAX: u64 = 65_536;
/// Room of a buffer of the connection below: 100 bytes and the head of one message (4 of length, 1 of status, 8 of tag).
const BUFFER_BYTES: u64 = 113;

fn message() -> Vec<u8> {
    [
        &((1_u32 << 31) | PAYLOAD_BYTES as u32).to_le_bytes()[..],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        b"hello",
    ]
    .concat()
}

fn fields(sequence: u64, totals: [u64; 2], messages: u32) -> DataFields {
    DataFields {
        epoch: EPOCH,
        sequence,
        messages_total: totals[0],
        bytes_total: totals[1],
        messages,
        bytes: message().len() as u32 * messages,
    }
}

/// Hands over a buffer of two messages; with it the sender has sent `totals`.
fn take(inbound: &mut Inbound, sequence: u64, totals: [u64; 2]) -> Result<(), InboundError> {
    let messages = message().repeat(2);
    let reading = inbound.handle_data(&fields(sequence, totals, 2), &messages)?;
    reading.finish()
}

/// Hands over a buffer of one message whose payload is in other memory.
fn take_apart(inbound: &mut Inbound, sequence: u64, totals: [u64; 2]) -> Apart {
    let all = message();
    let head = &all[..all.len() - PAYLOAD_BYTES as usize];
    inbound
        .handle_apart(&fields(sequence, totals, 1), head, PAYLOAD_BYTES as usize)
        .unwrap()
        .unwrap()
}

fn lost(buffers: u64, messages: u64, bytes: u64) -> Losses {
    Losses {
        gap_buffers: buffers,
        gap_messages: messages,
        gap_bytes: bytes,
        ..Losses::default()
    }
}

#[test]
fn each_gap_adds_to_what_is_lost() {
    let mut inbound = Inbound::new(EPOCH, 100);
    take(&mut inbound, 0, [2, 10]).unwrap();
    assert_eq!(inbound.losses(), Losses::default());
    // Two buffers with 5 messages and 17 bytes are missing, then one with 3 and 8, then three with 4 and 29.
    take(&mut inbound, 3, [9, 37]).unwrap();
    assert_eq!(inbound.losses(), lost(2, 5, 17));
    let apart = take_apart(&mut inbound, 5, [13, 50]);
    assert_eq!((apart.tag, apart.payload_bytes), (1, 5));
    assert_eq!(inbound.losses(), lost(3, 8, 25));
    take_apart(&mut inbound, 9, [18, 84]);
    assert_eq!(inbound.losses(), lost(6, 12, 54));
    take(&mut inbound, 10, [20, 94]).unwrap();
    assert_eq!(inbound.losses(), lost(6, 12, 54));
    let read = inbound.totals();
    assert_eq!((read.buffers, read.messages, read.bytes), (5, 8, 40));
    assert_eq!(inbound.told(), [8 + 12, 40 + 54]);
    // At the end: two more buffers, with 7 messages and 30 bytes.
    let end = Totals {
        buffers: 13,
        messages: 27,
        bytes: 124,
        ..Totals::default()
    };
    inbound.handle_end(&end).unwrap();
    assert_eq!(inbound.losses(), lost(8, 19, 84));
    assert_eq!(
        (inbound.told(), inbound.missing(&end)),
        ([27, 124], [19, 84])
    );
    let credit = Credit {
        buffers: 13,
        messages: 8,
        bytes: 40,
    };
    assert_eq!(inbound.credit(), credit);
    // Said again, it loses nothing more.
    inbound.handle_end(&end).unwrap();
    assert_eq!(inbound.losses(), lost(8, 19, 84));
}

/// More than can be under way at once, or fit into the buffers that are missing, is no loss but a wrong number.
#[test]
fn no_more_can_be_missing_than_fits_into_the_missing_buffers() {
    let before = [2, 10];
    let begun = || {
        let mut inbound = Inbound::new(EPOCH, 100);
        take(&mut inbound, 0, before).unwrap();
        inbound
    };
    // What the totals say, and whether it can be: buffers missing, messages in them, bytes in them.
    let cases = [
        ([BUFFER_COUNT_MAX, 0, 0], None),
        ([BUFFER_COUNT_MAX + 1, 0, 0], Some("buffers")),
        // A message takes a header of 4 bytes at least.
        ([2, 2 * BUFFER_BYTES / 4, 0], None),
        ([2, 2 * BUFFER_BYTES / 4 + 1, 0], Some("messages")),
        ([2, 1, 2 * BUFFER_BYTES], None),
    ];
    for ([buffers, messages, bytes], wrong) in cases {
        let found = |result: Result<(), InboundError>| match result {
            Ok(()) => None,
            Err(InboundError::Totals { what, .. }) => Some(what),
            Err(other) => unreachable!("{other}"),
        };
        let mut inbound = begun();
        let totals = [before[0] + messages + 2, before[1] + bytes + 10];
        let result = take(&mut inbound, buffers + 1, totals);
        assert_eq!(found(result), wrong, "{buffers}, {messages}, {bytes}");
        let expected = [lost(buffers, messages, bytes), Losses::default()];
        assert_eq!(inbound.losses(), expected[usize::from(wrong.is_some())]);
        // The same, told by the end.
        let mut inbound = begun();
        let end = Totals {
            buffers: buffers + 1,
            messages: before[0] + messages,
            bytes: before[1] + bytes,
            ..Totals::default()
        };
        assert_eq!(found(inbound.handle_end(&end)), wrong, "{end:?}");
        assert_eq!(inbound.losses(), expected[usize::from(wrong.is_some())]);
    }
    // At the end the bytes are held against the missing buffers alone.
    let end = Totals {
        buffers: 3,
        messages: 3,
        bytes: before[1] + 2 * BUFFER_BYTES + 1,
        ..Totals::default()
    };
    let error = InboundError::Totals {
        what: "bytes",
        found: end.bytes,
        sent: before[1],
    };
    assert_eq!(begun().handle_end(&end), Err(error));
}

/// A sending end has done its work when it holds nothing and every buffer came back; one of the two is not enough.
#[test]
fn a_sender_is_done_when_nothing_is_held_and_all_came_back() {
    let mut sending = Outbound::new(&Config::default(), EPOCH).unwrap();
    assert!(sending.is_done(), "nothing was pushed");
    sending.push(0, 1, 0, b"one");
    assert!(
        !sending.is_done(),
        "one is held, and no buffer is under way"
    );
    sending.flush();
    assert!(sending.poll_transmit().is_some());
    sending.handle_transmitted();
    assert_eq!(sending.held(), [0, 0]);
    assert!(
        !sending.is_done(),
        "none is held, and a buffer is under way"
    );
    let back = Credit {
        buffers: 1,
        ..Credit::default()
    };
    sending.handle_credit(&back).unwrap();
    assert!(sending.is_done());
    sending.push(0, 1, 0, b"two");
    assert!(!sending.is_done());
}
