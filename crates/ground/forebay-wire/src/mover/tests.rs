use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const BLOCK: BlockFields = BlockFields {
    begin: 0x1000,
    end: 0x1080,
    events_total: 7,
    bytes_total: 0x0123,
    run: 0x237b_6407,
    events: 2,
    crc32: 0xcafe_f00d,
    bytes: 3,
};

/// A block frame, byte by byte.
const GOLDEN_BLOCK: [u8; 59] = [
    b'F', b'B', 1, 4, 51, 0, 0, 0, // head
    0, 0x10, 0, 0, 0, 0, 0, 0, // begin
    0x80, 0x10, 0, 0, 0, 0, 0, 0, // end
    7, 0, 0, 0, 0, 0, 0, 0, // events so far
    0x23, 1, 0, 0, 0, 0, 0, 0, // bytes so far
    0x07, 0x64, 0x7b, 0x23, // run
    2, 0, 0, 0, // events
    0x0d, 0xf0, 0xfe, 0xca, // checksum
    3, 0, 0, 0, // bytes
    b'a', b'b', b'c',
];

#[test]
fn golden_block() {
    assert_eq!(Frame::Block(BLOCK, b"abc").emit(), GOLDEN_BLOCK);
    assert_eq!(BLOCK.emit(), GOLDEN_BLOCK[..56]);
    let read = Frame::parse(&GOLDEN_BLOCK).unwrap();
    assert_eq!(read, Some((Frame::Block(BLOCK, b"abc"), 59)));
    for cut in 0..GOLDEN_BLOCK.len() {
        assert_eq!(Frame::parse(&GOLDEN_BLOCK[..cut]), Ok(None), "{cut}");
    }
}

#[test]
fn golden_hello() {
    let hello = Hello {
        run_id: "1795-7",
        sink: "tcp",
        position: 5,
        events: 6,
        bytes: 7,
    };
    let bytes = Frame::Hello(hello).emit();
    assert_eq!(bytes[..8], [b'F', b'B', 1, 1, 128, 0, 0, 0]);
    assert_eq!(bytes[8..16], [5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..40], [6, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[40..47], b"1795-7\0");
    assert_eq!(&bytes[104..108], b"tcp\0");
    assert_eq!(bytes.len(), 136);
    assert_eq!(Frame::parse(&bytes), Ok(Some((Frame::Hello(hello), 136))));
}

#[test]
fn golden_short_frames() {
    assert_eq!(
        Frame::Ack(0x0102).emit(),
        [b'F', b'B', 1, 5, 8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]
    );
    let refuse = Frame::Refuse(Ok(Refusal::Busy));
    assert_eq!(
        refuse.emit(),
        [b'F', b'B', 1, 3, 8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
    );
    let totals = Totals {
        position: 1,
        events: 2,
        bytes: 3,
        events_lost: 4,
        bytes_lost: 5,
    };
    for frame in [
        Frame::Welcome(9),
        refuse,
        Frame::Refuse(Err(77)),
        Frame::End(totals),
        Frame::Farewell(totals),
    ] {
        let bytes = frame.emit();
        assert_eq!(Frame::parse(&bytes), Ok(Some((frame, bytes.len()))));
    }
}

#[test]
fn what_is_no_frame_is_refused_by_reason() {
    let reason = |bytes: &[u8]| Frame::parse(bytes).unwrap_err().reason();
    assert_eq!(reason(b"GET / HTTP/1.1\r\n"), "not_the_protocol");
    assert_eq!(reason(b"G"), "not_the_protocol");
    assert_eq!(reason(&[b'F', b'B', 2, 1, 0, 0, 0, 0]), "version");
    assert_eq!(reason(&[b'F', b'B', 1, 9, 0, 0, 0, 0]), "unknown_kind");
    // The length is refused before any body has come.
    assert_eq!(
        reason(&[b'F', b'B', 1, 4, 0xff, 0xff, 0xff, 0xff]),
        "bad_length"
    );
    assert_eq!(reason(&[b'F', b'B', 1, 1, 127, 0, 0, 0]), "bad_length");
    let mut block = GOLDEN_BLOCK;
    block[16..24].copy_from_slice(&0x1000_u64.to_le_bytes());
    assert_eq!(reason(&block), "bad_block");
    let mut block = GOLDEN_BLOCK;
    block[52] = 4;
    assert_eq!(reason(&block), "bad_block");
}

#[test]
fn names_lead_out_of_no_directory() {
    for (run_id, sink) in [
        ("..", "tcp"),
        ("a/b", "tcp"),
        ("", "tcp"),
        ("run", "a b"),
        ("run", ".x"),
    ] {
        let hello = Hello {
            run_id,
            sink,
            position: 0,
            events: 0,
            bytes: 0,
        };
        assert!(!hello.has_good_names(), "{run_id:?} {sink:?}");
        let bytes = Frame::Hello(hello).emit();
        assert_eq!(Frame::parse(&bytes), Err(MoverError::Name));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Frame::parse(&bytes);
        let mut framed = [&b"FB\x01"[..], &bytes].concat();
        if framed.len() > 8 {
            framed[3] %= 8;
            framed[5..8].fill(0);
        }
        if let Ok(Some((frame, length))) = Frame::parse(&framed) {
            prop_assert!(length <= framed.len());
            let again: Vec<u8> = frame.emit();
            prop_assert_eq!(Frame::parse(&again), Ok(Some((frame, again.len()))));
        }
    }
}
