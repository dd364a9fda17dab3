use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;

const LIMIT: u32 = 65_536;

#[rustfmt::skip]
const GOLDEN: &[u8] = &[
    // hello: a subscriber, 64 KiB x 16, drops what is old
    b'F', b'N', 2, 1,  24, 0, 0, 0,
        0, 0, 1, 0,  16, 0, 0, 0,  8, 7, 6, 5, 4, 3, 2, 1,  1, 0, 0, 0,  2, 0, 0, 0,
    // subscribe, request 3: one tag, and all of a connector
    b'F', b'N', 2, 4,  40, 0, 0, 0,
        3, 0, 0, 0,  1, 0, 0, 0,
        9, 0, 0, 0, 0, 0, 0, 0,  255, 255, 255, 255, 255, 255, 255, 255,
        0, 0, 0, 0, 0, 0, 0, 16,  0, 0, 0, 0, 0, 0, 0, 240,
    // a buffer: the second one, one message of 2 bytes after 4 of 20
    b'F', b'N', 2, 6,  46, 0, 0, 0,
        5, 0, 0, 0, 0, 0, 0, 0,  1, 0, 0, 0, 0, 0, 0, 0,  5, 0, 0, 0, 0, 0, 0, 0,  22, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0,  6, 0, 0, 0,  2, 0, 0, 0,  b'h', b'i',
    // two buffers are given back, four messages of 20 bytes are confirmed
    b'F', b'N', 2, 7,  24, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,  4, 0, 0, 0, 0, 0, 0, 0,  20, 0, 0, 0, 0, 0, 0, 0,
    b'F', b'N', 2, 10,  0, 0, 0, 0,
    // the receiver leaves
    b'F', b'N', 2, 11,  0, 0, 0, 0,
    // the end
    b'F', b'N', 2, 8,  40, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,  5, 0, 0, 0, 0, 0, 0, 0,  22, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0,
];

fn frames(mut bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while let Some((frame, taken)) = Frame::parse(bytes, LIMIT).unwrap() {
        frames.push(frame);
        bytes = &bytes[taken..];
    }
    assert!(bytes.is_empty());
    frames
}

#[test]
fn golden_connection() {
    let read = frames(GOLDEN);
    let written: Vec<u8> = read.iter().flat_map(Frame::emit).collect();
    assert_eq!(written, GOLDEN);
    let hello = Hello {
        role: Role::Subscriber,
        slow: Slow::DropOldest,
        buffer_bytes: LIMIT,
        buffer_count: 16,
        identity: 0x0102_0304_0506_0708,
    };
    assert_eq!(read[0], Frame::Hello(hello));
    let Frame::Subscribe(subscribe) = read[1] else {
        panic!("{:?}", read[1])
    };
    let entries: Vec<_> = subscribe.entries().collect();
    assert_eq!((subscribe.request, subscribe.begin), (3, true));
    assert_eq!(entries[0], Entry::one(9));
    assert!(
        entries[1].matches(0x1fff_0000_0000_0001) && !entries[1].matches(0x2fff_0000_0000_0001)
    );
    assert!(!entries[0].matches(8));
    let Frame::Data(fields, messages) = read[2] else {
        panic!("{:?}", read[2])
    };
    assert_eq!(format!("{fields}"), "buffer 1: 1 messages, 6 bytes");
    assert_eq!(messages, [2, 0, 0, 0, b'h', b'i']);
    let credit = Credit {
        buffers: 2,
        messages: 4,
        bytes: 20,
    };
    assert_eq!((read[3], read[4]), (Frame::Credit(credit), Frame::Alive));
    let totals = Totals {
        buffers: 2,
        messages: 5,
        bytes: 22,
        messages_dropped: 1,
        bytes_dropped: 9,
    };
    assert_eq!(read[5], Frame::Leave);
    assert_eq!(read[6], Frame::End(totals));
}

#[test]
fn each_frame_comes_back() {
    let welcome = Welcome {
        epoch: 77,
        buffer_bytes: 1024,
        buffer_count: 2,
        answers: true,
    };
    for frame in [
        Frame::Welcome(welcome),
        Frame::Refuse(Ok(Refusal::Busy)),
        Frame::Refuse(Err(99)),
        Frame::Subscribed(4, None),
        Frame::Subscribed(5, Some(Ok(Refusal::TooMany))),
        Frame::Farewell(Totals::default()),
        Frame::LetGo(Totals {
            messages_dropped: 7,
            ..Totals::default()
        }),
    ] {
        let bytes = frame.emit();
        assert_eq!(Frame::parse(&bytes, LIMIT), Ok(Some((frame, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..cut], LIMIT), Ok(None), "{cut}");
        }
    }
    let many = vec![Entry::one(1); ENTRIES_MAX + 5];
    let bytes = Subscribe::to_frame(1, false, &many);
    let Ok(Some((Frame::Subscribe(subscribe), _))) = Frame::parse(&bytes, LIMIT) else {
        panic!("refused")
    };
    assert_eq!(subscribe.entries().len(), ENTRIES_MAX);
}

#[test]
fn each_fault_has_its_name() {
    let reason = |bytes: &[u8]| Frame::parse(bytes, LIMIT).unwrap_err().reason();
    assert_eq!(reason(b"GET / HTTP/1.1"), "not_the_protocol");
    assert_eq!(reason(b"X"), "not_the_protocol");
    assert_eq!(reason(b"FN\x01\x01\0\0\0\0"), "version");
    assert_eq!(reason(b"FN\x02\x63\0\0\0\0"), "unknown_kind");
    // Longer than was agreed, though shorter than anybody may agree.
    let mut head = Head {
        kind: Kind::Data,
        body_bytes: LIMIT + DATA_FIELDS_BYTES as u32 + 1,
    };
    assert_eq!(reason(&head.emit()), "bad_length");
    head.body_bytes = u32::MAX;
    assert_eq!(reason(&head.emit()), "bad_length");
    let mut hello = GOLDEN[..32].to_vec();
    hello[24] = 9;
    assert_eq!(reason(&hello), "bad_field");
    hello[24] = 1;
    hello[8..12].fill(0);
    assert_eq!(reason(&hello), "bad_field");
    let mut data = frames(GOLDEN)[2].emit();
    data[HEAD_BYTES + 36] = 7;
    assert_eq!(reason(&data), "bad_field");
    data[HEAD_BYTES + 36] = 6;
    data[HEAD_BYTES + 32] = 6;
    assert_eq!(reason(&data), "bad_field", "more messages than in all");
}

#[test]
fn a_buffer_longer_than_any_frame_is_refused_and_not_wrapped() {
    let most = u32::MAX - DATA_FIELDS_BYTES as u32;
    for bytes in [most - 1, most, most + 1, u32::MAX] {
        let fields = DataFields {
            epoch: 1,
            sequence: 0,
            messages_total: 1,
            bytes_total: bytes.into(),
            messages: 1,
            bytes,
        };
        let refused = Frame::parse(&fields.to_bytes(), u32::MAX).unwrap_err();
        assert_eq!(refused.reason(), "bad_length", "{bytes}");
    }
}

proptest! {
    #[test]
    fn rubbish_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..13_u8, length in 0..80_u8) {
        let _ = Frame::parse(&bytes, LIMIT);
        let mut framed = vec![b'F', b'N', 2, kind, length, 0, 0, 0];
        framed.extend_from_slice(&bytes);
        if let Ok(Some((frame, taken))) = Frame::parse(&framed, LIMIT) {
            let again = frame.emit();
            prop_assert_eq!(Frame::parse(&again, LIMIT), Ok(Some((frame, taken))));
        }
    }
}
