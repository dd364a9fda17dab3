use proptest::prelude::*;

use super::*;

/// Destination connection ID of the first packet in the examples of RFC 9001 and RFC 9369, appendix A.
const ID: &[u8] = &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// The frames of both examples: a message of 241 bytes, and padding.
pub(in super::super::super) fn example_frames() -> Vec<u8> {
    let mut frames = bytes(concat!(
        "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c",
        "00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006",
        "001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa4",
        "7fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305",
        "0306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ff",
        "ff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff",
    ));
    frames.resize(1162, 0);
    frames
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// A packet as a client sends it, with a packet number of four bytes.
pub(in super::super::super) fn seal(
    number: u32,
    version: u32,
    id: &[u8],
    frames: &[u8],
) -> Vec<u8> {
    let version = VERSIONS
        .iter()
        .find(|known| known.number == version)
        .unwrap();
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let keys = suite.quic_suite().unwrap();
    let keys = keys.keys(id, Side::Client, version.keys).local;
    let mut header = vec![0xc3 | version.initial << 4];
    header.extend(version.number.to_be_bytes());
    header.push(id.len() as u8);
    header.extend(id);
    header.extend([0, 0]);
    header.extend((0x4000 | (4 + frames.len() + 16) as u16).to_be_bytes());
    let number_at = header.len();
    header.extend(number.to_be_bytes());
    let mut body = frames.to_vec();
    let tag = keys
        .packet
        .encrypt_in_place(number.into(), &header, &mut body)
        .unwrap();
    body.extend(tag.as_ref());
    let (first, rest) = header.split_first_mut().unwrap();
    keys.header
        .encrypt_in_place(&body[..SAMPLE_BYTES], first, &mut rest[number_at - 1..])
        .unwrap();
    [header, body].concat()
}

/// The sealed packet begins (and, of version 1, ends) as in the standard, and what is opened is what was sealed.
#[test]
fn the_published_packets_are_opened() {
    let frames = example_frames();
    for (version, begin) in [
        (
            1,
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
        ),
        (
            0x6b33_43cf,
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
        ),
    ] {
        let packet = seal(2, version, ID, &frames);
        assert!(packet.starts_with(&bytes(begin)), "{version:x}");
        assert_eq!(packet.len(), 1200);
        if version == 1 {
            assert!(packet.ends_with(&bytes("e221af44860018ab0856972e194cd934")));
        }
        let mut opener = Opener::default();
        let mut first = ConnectionId::EMPTY;
        let datagram = [&packet[..], b"behind"].concat();
        match opener.open(&datagram, &mut first) {
            Opened::Initial {
                version: opened,
                frames: inside,
                bytes,
            } => {
                assert_eq!((opened, inside, bytes), (version, &frames[..], 1200));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(first.bytes(), ID);
        // A bit is another one.
        let mut broken = packet.clone();
        broken[700] ^= 1;
        let opened = opener.open(&broken, &mut first);
        assert!(matches!(opened, Opened::Other { bytes: 1200 }));
    }
}

#[test]
fn behind_a_retry_keys_are_those_of_the_new_name() {
    let mut opener = Opener::default();
    let mut first = ConnectionId::EMPTY;
    let frames = example_frames();
    for id in [ID, b"by the server"] {
        let packet = seal(0, 1, id, &frames);
        let opened = opener.open(&packet, &mut first);
        assert!(matches!(opened, Opened::Initial { .. }));
        assert_eq!(first.bytes(), id);
    }
    // To the server's name with the keys of the first: as behind its first answer.
    let mut first = ConnectionId::of(ID);
    let mut packet = seal(1, 1, ID, &frames);
    assert!(matches!(
        opener.open(&packet, &mut first),
        Opened::Initial { .. }
    ));
    packet[6] ^= 1;
    // Its name is authenticated, too.
    let opened = opener.open(&packet, &mut first);
    assert!(matches!(opened, Opened::Other { .. }));
}

#[test]
fn frames_are_passed_over_to_the_pieces() {
    let frames = [
        &[0, 0, 1][..],
        // An acknowledgement of two ranges, and one with congestion counts.
        &[2, 9, 0x40, 0x19, 1, 3, 0, 2],
        &[3, 9, 1, 0, 3, 1, 2, 3],
        &[6, 5, 2, b'a', b'b'],
        &[0],
        &[6, 0x40, 0x07, 1, b'c'],
    ]
    .concat();
    let found: Vec<_> = pieces(&frames).collect();
    assert_eq!(found, [(5, &b"ab"[..]), (7, b"c")]);
    // Another kind of frame, a piece that is cut, an acknowledgement without end.
    for end in [
        &[0x1c, 0][..],
        &[6, 0, 9, b'x'],
        &[2, 1, 1, 0xbf, 0xff, 0xff, 0xff, 0],
    ] {
        let frames = [&[6, 0, 1, b'a'][..], end, &[6, 1, 1, b'b']].concat();
        assert_eq!(pieces(&frames).count(), 1, "{end:?}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_opened_or_refused(
        begin in 0x80..=0xff_u8,
        is_v2: bool,
        rest in proptest::collection::vec(any::<u8>(), 0..120),
        frames in proptest::collection::vec(0..8_u8, 0..80),
    ) {
        let version = if is_v2 { 0x6b33_43cf_u32 } else { 1 };
        let datagram = [&[begin], &version.to_be_bytes()[..], &rest].concat();
        let (mut opener, mut first) = (Opener::default(), ConnectionId::EMPTY);
        if let Opened::Other { bytes } = opener.open(&datagram, &mut first) {
            prop_assert!(bytes > 0 && bytes <= datagram.len());
        }
        for (_, piece) in pieces(&frames) {
            prop_assert!(piece.len() <= frames.len());
        }
    }
}
