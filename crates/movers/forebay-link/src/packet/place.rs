//! A frame in its place of a packet ring (`linux/if_packet.h`, version 2).
//!
//! Nothing in its head is believed: what it says is held against the bytes of the place.

use thiserror::Error;

use super::frame::{Frame, Head, u16_at, u32_at};

/// Offsets in the head.
mod head {
    pub(super) const STATUS: usize = 0;
    pub(super) const WIRE_BYTES: usize = 4;
    pub(super) const CAPTURED_BYTES: usize = 8;
    pub(super) const MAC: usize = 12;
    pub(super) const TIME_S: usize = 16;
    pub(super) const TIME_NS: usize = 20;
    pub(super) const TAG: usize = 24;
    pub(super) const TAG_TYPE: usize = 26;
    pub(super) const BYTES: usize = 32;
}

/// A place whose head says of a frame what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a frame begins at {start} and ends at {end} of a place of {room} bytes")]
pub struct PlaceError {
    /// Where it should begin, in bytes from its place on.
    pub start: usize,
    /// Where it should end.
    pub end: u32,
    /// What there is.
    pub room: usize,
}

/// The frame of a place; a tag is put back where frames begin with two addresses (`has_tags`).
#[inline]
pub(super) fn read(place: &mut [u8], has_tags: bool) -> Result<Frame<'_>, PlaceError> {
    let said = Head {
        start: u16_at(place, head::MAC).into(),
        captured: u32_at(place, head::CAPTURED_BYTES),
        wire_bytes: u32_at(place, head::WIRE_BYTES),
        status: u32_at(place, head::STATUS),
        time_s: u32_at(place, head::TIME_S),
        time_ns: u32_at(place, head::TIME_NS),
        tag: u16_at(place, head::TAG),
        tag_type: u16_at(place, head::TAG_TYPE),
    };
    let room = place.len();
    let frame = said.frame(place, head::BYTES, has_tags);
    frame.map_err(|end| PlaceError {
        start: said.start,
        end,
        room,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::frame::{HAS_TAG, HAS_TAG_TYPE, LACKS_CHECKSUM};

    const PLACE_BYTES: usize = 256;
    /// Where the kernel puts a frame when 4 bytes are left free in front.
    const START: usize = 70;
    const ETHERNET: &[u8] = b"DDDDDDSSSSSS\x08\x00payload";

    fn put(place: &mut [u8], at: usize, value: &[u8]) {
        place[at..at + value.len()].copy_from_slice(value);
    }

    /// A place as the kernel fills it.
    fn place_of(frame: &[u8], wire_bytes: u32, status: u32, tag: u16, tag_type: u16) -> Vec<u8> {
        let mut place = vec![0xee; PLACE_BYTES];
        for (at, word) in [
            (head::STATUS, status | 1),
            (head::WIRE_BYTES, wire_bytes),
            (head::CAPTURED_BYTES, frame.len() as u32),
            (head::TIME_S, 7),
            (head::TIME_NS, 2),
        ] {
            put(&mut place, at, &word.to_ne_bytes());
        }
        for (at, word) in [
            (head::MAC, START as u16),
            (head::TAG, tag),
            (head::TAG_TYPE, tag_type),
        ] {
            put(&mut place, at, &word.to_ne_bytes());
        }
        put(&mut place, START, frame);
        place
    }

    #[test]
    fn a_frame_comes_as_it_was_with_what_is_said_of_it() {
        let mut place = place_of(ETHERNET, 1_500, 0, 0, 0);
        let frame = Frame {
            timestamp_ns: 7_000_000_002,
            wire_bytes: 1_500,
            lacks_checksum: false,
            bytes: ETHERNET,
        };
        assert_eq!(read(&mut place, true), Ok(frame));
        let mut place = place_of(b"", 0, LACKS_CHECKSUM, 0, 0);
        let frame = read(&mut place, true).unwrap();
        assert!(frame.lacks_checksum && frame.bytes.is_empty());
    }

    #[test]
    fn a_tag_that_the_kernel_took_out_is_put_back() {
        let bytes = ETHERNET.len() as u32;
        for (status, tag) in [
            (HAS_TAG, &b"\x81\x00\x60\x01"[..]),
            (HAS_TAG | HAS_TAG_TYPE, b"\x88\xa8\x60\x01"),
            (HAS_TAG_TYPE, b""),
        ] {
            let mut place = place_of(ETHERNET, bytes, status, 0x6001, 0x88a8);
            let frame = read(&mut place, true).unwrap();
            let wanted = [b"DDDDDDSSSSSS", tag, b"\x08\x00payload"].concat();
            assert_eq!(frame.bytes, wanted);
            assert_eq!(frame.wire_bytes as usize, wanted.len());
        }
        let mut place = place_of(ETHERNET, bytes, HAS_TAG, 1, 0);
        assert_eq!(read(&mut place, false).unwrap().bytes, ETHERNET);
        let mut place = place_of(b"short", 5, HAS_TAG, 1, 0);
        assert_eq!(read(&mut place, true).unwrap().bytes, b"short");
        // No room between the head and the frame.
        let mut place = place_of(ETHERNET, bytes, HAS_TAG, 1, 0);
        put(&mut place, head::MAC, &34_u16.to_ne_bytes());
        assert_eq!(read(&mut place, true).unwrap().bytes.len(), ETHERNET.len());
    }

    #[test]
    fn what_does_not_lie_behind_its_head_and_within_its_place_is_an_error() {
        for (start, captured, end) in [
            (0_u16, 20_u32, 20_u32),
            (31, 1, 32),
            (70, 187, 257),
            (257, 0, 257),
            (u16::MAX, 0, 65_535),
            (70, u32::MAX, u32::MAX),
        ] {
            let mut place = place_of(ETHERNET, 60, 0, 0, 0);
            put(&mut place, head::MAC, &start.to_ne_bytes());
            put(&mut place, head::CAPTURED_BYTES, &captured.to_ne_bytes());
            let start = usize::from(start);
            let room = PLACE_BYTES;
            assert_eq!(
                read(&mut place, true),
                Err(PlaceError { start, end, room }),
                "{start} {captured}"
            );
        }
        let mut whole = place_of(ETHERNET, 60, 0, 0, 0);
        put(&mut whole, head::CAPTURED_BYTES, &186_u32.to_ne_bytes());
        assert_eq!(read(&mut whole, true).unwrap().bytes.len(), 186);
        assert!(read(&mut [1; 10], true).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_never_read_beyond_its_end(
            mut place in prop::collection::vec(any::<u8>(), 0..300),
            has_tags in any::<bool>(),
        ) {
            let range = place.as_ptr_range();
            if let Ok(frame) = read(&mut place, has_tags) {
                let own = frame.bytes.as_ptr_range();
                prop_assert!(range.start <= own.start && own.end <= range.end);
                prop_assert!(frame.bytes.len() <= frame.wire_bytes as usize);
            }
        }
    }
}
