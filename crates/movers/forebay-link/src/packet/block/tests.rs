use proptest::prelude::*;

use super::*;
use crate::packet::frame::{HAS_TAG, HAS_TAG_TYPE};

const BLOCK_BYTES: usize = 4_096;

/// A packet of a block in the making.
struct Made<'a> {
    bytes: &'a [u8],
    wire_bytes: u32,
    /// Status, type and value of a tag.
    tag: Option<(u32, u16, u16)>,
}

fn put(block: &mut [u8], at: usize, value: &[u8]) {
    block[at..at + value.len()].copy_from_slice(value);
}

/// A block as the kernel makes it.
fn block_of(packets: &[Made<'_>]) -> Vec<u8> {
    let mut block = vec![0xee; BLOCK_BYTES];
    put(
        &mut block,
        head::PACKETS,
        &(packets.len() as u32).to_ne_bytes(),
    );
    put(&mut block, head::FIRST, &48_u32.to_ne_bytes());
    let mut at = 48;
    for (n, made) in packets.iter().enumerate() {
        let mac = 48 + 20 + 14;
        let length = (mac + made.bytes.len()).next_multiple_of(16);
        let next = if n + 1 == packets.len() {
            0
        } else {
            length as u32
        };
        let (status, kind, tag) = made.tag.unwrap_or_default();
        for (offset, value) in [
            (packet::NEXT, next),
            (packet::TIME_S, 7),
            (packet::TIME_NS, n as u32),
            (packet::CAPTURED_BYTES, made.bytes.len() as u32),
            (packet::WIRE_BYTES, made.wire_bytes),
            (packet::STATUS, status),
            (packet::TAG, tag.into()),
        ] {
            put(&mut block, at + offset, &value.to_ne_bytes());
        }
        put(&mut block, at + packet::MAC, &(mac as u16).to_ne_bytes());
        put(&mut block, at + packet::TAG_TYPE, &kind.to_ne_bytes());
        put(&mut block, at + mac, made.bytes);
        at += length;
    }
    put(&mut block, head::FILLED_BYTES, &(at as u32).to_ne_bytes());
    block
}

const fn plain(bytes: &[u8]) -> Made<'_> {
    Made {
        bytes,
        wire_bytes: bytes.len() as u32,
        tag: None,
    }
}

#[test]
fn frames_come_as_they_were_and_stay_as_long_as_the_block() {
    let mut block = block_of(&[
        plain(b"0123456789abcdef"),
        Made {
            wire_bytes: 1_500,
            ..plain(b"cut")
        },
        plain(b""),
    ]);
    let frames: Vec<_> = Frames::new(&mut block, true).map(Result::unwrap).collect();
    let bytes: Vec<_> = frames.iter().map(|frame| frame.bytes).collect();
    assert_eq!(bytes, [&b"0123456789abcdef"[..], b"cut", b""]);
    let wire: Vec<_> = frames.iter().map(|frame| frame.wire_bytes).collect();
    assert_eq!(wire, [16, 1_500, 0]);
    assert_eq!(frames[2].timestamp_ns, 7_000_000_002);
    assert_eq!(Frames::new(&mut block_of(&[]), true).count(), 0);
}

#[test]
fn a_tag_that_the_kernel_took_out_is_put_back() {
    let frame = *b"DDDDDDSSSSSS\x08\x00payload";
    let tagged = |status, kind| Made {
        tag: Some((status, kind, 0x6001)),
        ..plain(&frame)
    };
    let mut block = block_of(&[
        tagged(HAS_TAG, 0),
        tagged(HAS_TAG | HAS_TAG_TYPE, 0x88a8),
        tagged(0, 0x88a8),
        plain(&frame),
    ]);
    let frames: Vec<_> = Frames::new(&mut block, true).map(Result::unwrap).collect();
    for (frame, tag) in frames
        .iter()
        .zip([&b"\x81\x00\x60\x01"[..], b"\x88\xa8\x60\x01", b"", b""])
    {
        assert_eq!(
            frame.bytes,
            [b"DDDDDDSSSSSS", tag, b"\x08\x00payload"].concat()
        );
        assert_eq!(frame.wire_bytes as usize, frame.bytes.len());
    }
    // Where frames do not begin with addresses, or are too short for them, nothing is put in.
    let mut block = block_of(&[tagged(HAS_TAG, 0)]);
    assert_eq!(
        Frames::new(&mut block, false)
            .next()
            .unwrap()
            .unwrap()
            .bytes,
        frame
    );
    let mut block = block_of(&[Made {
        tag: Some((HAS_TAG, 0, 1)),
        ..plain(b"short")
    }]);
    assert_eq!(
        Frames::new(&mut block, true).next().unwrap().unwrap().bytes,
        b"short"
    );
}

#[test]
fn lengths_beyond_the_block_are_errors_and_end_it() {
    let frames = [plain(b"0123456789abcdef"), plain(b"next")];
    let with = |at: usize, value: &[u8]| {
        let mut block = block_of(&frames);
        put(&mut block, at, value);
        let frames: Vec<_> = Frames::new(&mut block, true)
            .map(|frame| frame.map(|frame| frame.bytes.len()))
            .collect();
        frames
    };
    let far = u32::MAX.to_ne_bytes();
    for (at, value, good, what) in [
        (head::FIRST, far, 0, "its head at"),
        (head::FIRST, 0_u32.to_ne_bytes(), 0, "its head at"),
        (head::FIRST, 4_090_u32.to_ne_bytes(), 0, "a head of"),
        (head::FILLED_BYTES, far, 0, "a block filled to"),
        (head::PACKETS, far, 1, "its next one at"),
        (48 + packet::NEXT, far, 0, "its next one at"),
        (48 + packet::NEXT, 0_u32.to_ne_bytes(), 0, "its next one at"),
        (
            48 + packet::NEXT,
            16_u32.to_ne_bytes(),
            0,
            "its next one at",
        ),
        (48 + packet::CAPTURED_BYTES, far, 0, "a frame that ends at"),
        // One byte of the next packet's head.
        (
            48 + packet::CAPTURED_BYTES,
            31_u32.to_ne_bytes(),
            0,
            "a frame that ends at",
        ),
        (
            48 + packet::MAC,
            0_u32.to_ne_bytes(),
            0,
            "a frame that ends at",
        ),
    ] {
        let read = with(at, &value);
        assert_eq!(read.len(), good + 1, "{what} at {at}: {read:?}");
        let error = read[good].unwrap_err();
        assert_eq!((error.what, error.packet as usize), (what, good), "at {at}");
    }
}

proptest! {
    #[test]
    fn garbage_is_never_read_beyond_its_end(
        mut block in prop::collection::vec(any::<u8>(), 0..600),
        words in prop::collection::vec((0_usize..150, prop_oneof![0_u32..700, any::<u32>()]), 0..12),
        has_tags in any::<bool>(),
    ) {
        for (at, word) in words {
            if let Some(place) = block.get_mut(at * 4..at * 4 + 4) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
        let room = block.len();
        let frames = Frames::new(&mut block, has_tags);
        let packets = frames.packets() as usize;
        let (mut read, mut errors, mut end) = (0, 0, 0);
        for frame in frames {
            match frame {
                Ok(frame) => {
                    let start = frame.bytes.as_ptr() as usize;
                    prop_assert!(start >= end, "frames overlap");
                    end = start + frame.bytes.len();
                    prop_assert!(frame.bytes.len() <= frame.wire_bytes as usize);
                    read += 1;
                }
                Err(_) => errors += 1,
            }
        }
        prop_assert!(read <= room / packet::BYTES);
        prop_assert!(errors <= 1);
        prop_assert!(read == packets || errors == 1, "{read} of {packets} packets and no error");
    }
}
