//! Replays the corpora of the fuzz targets for captures and for blocks of packet rings with their own oracles, and tries blocks at random.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/block.rs"]
mod block;
#[path = "../../../../fuzz/oracle/pcap.rs"]
mod pcap;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::replay;

#[test]
fn the_corpus_of_captures() {
    replay("pcap", 8, pcap::check);
}

#[test]
fn the_corpus_of_blocks() {
    replay("block", 17, block::check);
}

/// Offsets in the head of a block and in those of packets that may lie behind it, each 16 bytes.
fn places() -> impl Strategy<Value = usize> {
    let of_packet = (
        0..20_usize,
        prop::sample::select(vec![0, 12, 20, 24, 32, 36]),
    );
    let of_packet = of_packet.prop_map(|(at, word)| 1 + 48 + at * 16 + word);
    prop_oneof![1 => prop::sample::select(vec![1 + 12, 1 + 16, 1 + 20]), 4 => of_packet]
}

/// Numbers that are near to what is there, and any others.
fn values() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..8_u32, 8 => (0..40_u32).prop_map(|n| n * 16), 4 => 0..600_u32, 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_block_says_frames_are_in_it(
        mut bytes in prop::collection::vec(any::<u8>(), 49..500),
        // A packet or a few, one behind the other, of which some words are others.
        packets in 0..5_u32,
        words in prop::collection::vec((places(), values()), 0..30),
    ) {
        let room = bytes.len() as u32 - 1;
        let heads = (0..packets as usize).map(|n| 1 + 48 + n * 96);
        let begin = [(1 + 12, packets), (1 + 16, 48), (1 + 20, room)];
        let heads = heads.flat_map(|at| [(at, 96), (at + 12, 14), (at + 24, 64)]);
        for (at, word) in begin.into_iter().chain(heads).chain(words) {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        block::check(&bytes);
    }
}
