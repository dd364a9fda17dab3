//! Bytes as a stream of heaps, with what is lost of it: the joiner neither panics nor loses count. Shared by the fuzz target and by the test that replays
//! its corpus.

use std::collections::BTreeMap;

use forebay_tdm::heaps::{Event, Joiner};
use forebay_wire::heap::{HeapError, PIECE_HEAD_BYTES, Piece};

/// What was told of heaps.
#[derive(Debug, Default)]
struct Told {
    heard: [u128; 2],
    ended: [u128; 2],
    /// Ranges of those that ended: their first, and behind their last.
    ranges: BTreeMap<u64, u64>,
}

impl Told {
    /// Its account closes now: what was heard of has ended, or waits.
    fn take(&mut self, joiner: &mut Joiner) {
        while let Some(event) = joiner.poll() {
            match event {
                Event::Heard { heaps, bytes } => add(&mut self.heard, heaps, bytes),
                Event::Whole { heap, bytes, .. } => self.ends(heap, 1, bytes.len() as u64),
                Event::Dropped {
                    heap,
                    heaps,
                    bytes,
                    missing_bytes,
                    ..
                } => {
                    assert!(missing_bytes <= bytes);
                    self.ends(heap, heaps, bytes);
                }
            }
        }
        let mut all = self.ended;
        add(&mut all, joiner.waiting(), joiner.waiting_bytes());
        assert_eq!(self.heard, all, "{joiner:?}");
    }

    fn ends(&mut self, heap: u64, heaps: u64, bytes: u64) {
        assert!(heaps > 0);
        add(&mut self.ended, heaps, bytes);
        let end = heap + heaps;
        let before = self.ranges.range(..end).next_back();
        assert!(
            before.is_none_or(|(_, before)| *before <= heap),
            "{heap} twice"
        );
        self.ranges.insert(heap, end);
    }
}

fn add(sum: &mut [u128; 2], heaps: u64, bytes: u64) {
    sum[0] += u128::from(heaps);
    sum[1] += u128::from(bytes);
}

/// Steps of a few bytes each: a sound piece, any bytes as a packet, a range that is lost.
pub(crate) fn check(bytes: &[u8]) {
    let (mut joiner, mut told) = (Joiner::default(), Told::default());
    let mut rest = bytes;
    while let Some(([step, place, a, b, c], behind)) = rest.split_first_chunk() {
        rest = behind;
        let offset = u64::from(*place) * 64;
        match step % 4 {
            0 => joiner.handle_lost(offset, u64::from(*a) * 16),
            1 | 2 => joiner.handle_packet(offset, &sound(*a, *b, *c, step / 4)),
            _ => {
                let (packet, behind) = rest.split_at(usize::from(*a).min(rest.len()));
                joiner.handle_packet(offset, &mended(packet));
                rest = behind;
            }
        }
        told.take(&mut joiner);
    }
    joiner.finish(rest.first().map(|heaps| u64::from(*heaps)));
    told.take(&mut joiner);
    assert_eq!((joiner.waiting(), joiner.waiting_bytes()), (0, 0));
    joiner.finish(None);
    told.take(&mut joiner);
}

/// A piece that is one, though it may contradict others.
fn sound(heap: u8, heap_bytes: u8, offset: u8, length: u8) -> Vec<u8> {
    let heap_bytes = u32::from(heap_bytes % 64);
    let offset = u32::from(offset % 64).min(heap_bytes.saturating_sub(1));
    let length = u32::from(length).clamp(u32::from(heap_bytes > 0), heap_bytes - offset);
    let bytes = vec![heap; length as usize];
    let piece = Piece {
        heap: u64::from(heap % 32),
        tag: 1,
        status: 0,
        heap_bytes,
        offset,
        bytes: &bytes,
    };
    let mut packet = piece.head().to_vec();
    packet.extend_from_slice(&bytes);
    packet
}

/// Nobody guesses a CRC: what lies behind it is looked at, too.
fn mended(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Err(HeapError::Check { found, .. }) = Piece::parse(&packet) {
        packet[32..PIECE_HEAD_BYTES].copy_from_slice(&found.to_be_bytes());
    }
    packet
}
