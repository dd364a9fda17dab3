//! What must hold for any bytes taken as a block of a packet ring. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; frames lie in the block, behind each other, and are those that a second reading finds, which keeps to the kernel's layout and nothing else. A block that
//! contradicts itself is one error, and the last thing of it.
//!
//! The first byte says whether frames begin with two addresses, between which and the rest tags are put back.

use forebay_link::packet::Frames;

/// Bytes of the head of a block, and of that of a packet.
const HEAD_BYTES: u64 = 48;
const HAS_TAG: u64 = 1 << 4;

/// A frame as the second reading finds it: where it is, whether a tag was taken out of it.
struct Found {
    start: u64,
    bytes: u64,
    has_tag: bool,
}

/// The little words of a block; 0 where one is not whole.
fn word(block: &[u8], at: u64, bytes: u64) -> u64 {
    let whole = block.get(at as usize..(at + bytes) as usize).unwrap_or(&[]);
    let places = whole.iter().enumerate();
    places.map(|(n, byte)| u64::from(*byte) << (8 * n)).sum()
}

/// The frames up to the first contradiction, and whether there is one.
fn second(block: &[u8]) -> (Vec<Found>, bool) {
    let room = block.len() as u64;
    let (packets, first, filled) = (word(block, 12, 4), word(block, 16, 4), word(block, 20, 4));
    let mut found = Vec::new();
    if filled > room || packets > 0 && !(HEAD_BYTES..room).contains(&first) {
        return (found, true);
    }
    let mut at = first;
    for packet in 0..packets {
        let is_last = packet + 1 == packets;
        let next = match word(block, at, 4) {
            _ if at + HEAD_BYTES > room => return (found, true),
            _ if is_last => room,
            next if next >= HEAD_BYTES && at + next < room => at + next,
            _ => return (found, true),
        };
        let (bytes, mac) = (word(block, at + 12, 4), word(block, at + 24, 2));
        if mac < HEAD_BYTES || at + mac + bytes > next {
            return (found, true);
        }
        found.push(Found {
            start: at + mac,
            bytes,
            has_tag: word(block, at + 20, 4) & HAS_TAG != 0,
        });
        at = next;
    }
    (found, false)
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&how, block)) = bytes.split_first() else {
        return;
    };
    // On other machines words are the other way round.
    if cfg!(target_endian = "big") {
        return;
    }
    let has_tags = how & 1 != 0;
    let mut read = block.to_vec();
    let (wanted, is_broken) = second(block);
    let (mut taken, mut errors, mut end) = (0, 0, read.as_ptr() as usize);
    let limit = end + read.len();
    for frame in Frames::new(&mut read, has_tags) {
        assert_eq!(errors, 0, "something comes behind an error");
        let Ok(frame) = frame else {
            errors += 1;
            continue;
        };
        let wanted = &wanted[taken];
        let start = frame.bytes.as_ptr() as usize;
        assert!(start >= end && start + frame.bytes.len() <= limit);
        end = start + frame.bytes.len();
        assert!(frame.bytes.len() <= frame.wire_bytes as usize);
        let own = &block[wanted.start as usize..(wanted.start + wanted.bytes) as usize];
        if has_tags && wanted.has_tag && frame.bytes.len() == own.len() + 4 {
            assert_eq!(
                (&frame.bytes[..12], &frame.bytes[16..]),
                (&own[..12], &own[12..])
            );
        } else {
            assert_eq!(frame.bytes, own);
        }
        taken += 1;
    }
    assert_eq!((taken, errors > 0), (wanted.len(), is_broken));
}
