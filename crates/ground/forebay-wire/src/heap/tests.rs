use std::format;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

// Made by another program from the drawing above, with the CRC-32 of zlib.
#[rustfmt::skip]
const PIECE: &[u8] = &[
    0x46, 0x48, 0x01, 0x03, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x70,
    0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x42, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x05, 0x38,
    0xbf, 0x3c, 0xba, 0xa9, 0x68, 0x65, 0x61, 0x70, 0x21, 0x62, 0x65, 0x68, 0x69, 0x6e, 0x64,
];

fn emitted(piece: &Piece<'_>) -> Vec<u8> {
    let mut bytes = piece.head().to_vec();
    bytes.extend_from_slice(piece.bytes);
    bytes
}

#[test]
fn golden_piece() {
    let (piece, rest) = Piece::parse(PIECE).unwrap();
    let expected = Piece {
        heap: 70_000,
        tag: 0x1000_0000_0000_0a42,
        status: 3,
        heap_bytes: 4096,
        offset: 1336,
        bytes: b"heap!",
    };
    assert_eq!((piece, rest), (expected, &b"behind"[..]));
    assert_eq!(emitted(&piece), PIECE[..PIECE.len() - rest.len()]);
    assert_eq!(
        format!("{piece}"),
        "heap=70000 tag=0x1000000000000a42 status=3 bytes=5 at=1336 of=4096"
    );
}

#[test]
fn any_bit_of_a_head_is_held_by_the_check() {
    for bit in 0..PIECE_HEAD_BYTES * 8 {
        let mut bytes = PIECE.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Piece::parse(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let piece = Piece {
        heap: 1,
        tag: 2,
        status: 0,
        heap_bytes: 10,
        offset: 0,
        bytes: b"0123456789",
    };
    let cases = [
        (
            Piece {
                heap: u64::MAX,
                ..piece
            },
            "heap",
        ),
        (
            Piece {
                heap_bytes: HEAP_BYTES_MAX + 1,
                ..piece
            },
            "heap bytes",
        ),
        (Piece { offset: 1, ..piece }, "end"),
        (
            Piece {
                offset: u32::MAX,
                ..piece
            },
            "end",
        ),
        (
            Piece {
                bytes: b"",
                ..piece
            },
            "bytes",
        ),
    ];
    for (piece, expected) in cases {
        match Piece::parse(&emitted(&piece)) {
            Err(HeapError::Field { field, .. }) => assert_eq!(field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let bytes = emitted(&piece);
    for cut in 0..bytes.len() {
        let error = Piece::parse(&bytes[..cut]).unwrap_err();
        assert_eq!(error.reason(), "truncated", "cut at {cut}");
    }
    let empty = Piece {
        heap_bytes: 0,
        bytes: b"",
        ..piece
    };
    assert_eq!(Piece::parse(&emitted(&empty)), Ok((empty, &b""[..])));
}

const NAMES: [&str; 5] = [
    "truncated",
    "not_the_protocol",
    "version",
    "damaged",
    "bad_field",
];

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Err(error) = Piece::parse(&bytes) {
            prop_assert!(NAMES.contains(&error.reason()), "{error}");
        }
    }
}
