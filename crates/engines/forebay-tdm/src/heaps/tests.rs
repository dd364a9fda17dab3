use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::heap::{PIECE_HEAD_BYTES, Piece};
use proptest::prelude::*;

use super::*;

/// A heap whose bytes say which it is.
fn heap(number: u64, length: usize) -> Heap {
    let bytes = (0..length).map(|at| (number as usize * 31 + at) as u8);
    Heap {
        tag: number % 5,
        status: number as u8 % 3,
        bytes: bytes.collect(),
    }
}

/// All packets of the heaps with their places in the stream.
fn packets_of(heaps: &[Heap], payload_bytes: usize) -> Vec<(u64, Vec<u8>)> {
    let mut cutter = Cutter::default();
    heaps.iter().for_each(|heap| cutter.push(heap.clone()));
    let (mut packets, mut offset) = (Vec::new(), 0);
    while cutter.ready(payload_bytes) > 0 {
        let packet = cutter.peek(0).to_vec();
        cutter.take(packet.len());
        offset += packet.len() as u64;
        packets.push((offset - packet.len() as u64, packet));
        // Each is with the cutter until it is wholly taken.
        assert_eq!(cutter.done() + cutter.waiting(), heaps.len() as u64);
    }
    assert_eq!(
        (cutter.begun(), cutter.done(), cutter.waiting_bytes()),
        (heaps.len() as u64, heaps.len() as u64, 0)
    );
    packets
}

/// What became of heaps: whole ones, dropped ones, and the sum of those that were heard of.
#[derive(Debug, Default)]
struct Became {
    whole: BTreeMap<u64, Heap>,
    dropped: BTreeMap<u64, Why>,
    heard: u64,
    heard_bytes: u64,
    ended_bytes: u64,
}

impl Became {
    fn take(&mut self, joiner: &mut Joiner) {
        while let Some(event) = joiner.poll() {
            match event {
                Event::Heard { heaps, bytes } => {
                    self.heard += heaps;
                    self.heard_bytes += bytes;
                }
                Event::Whole {
                    heap,
                    tag,
                    status,
                    bytes,
                } => {
                    self.ended_bytes += bytes.len() as u64;
                    let twice = self.whole.insert(heap, Heap { tag, status, bytes });
                    assert_eq!(twice, None, "heap {heap} twice");
                }
                Event::Dropped {
                    heap,
                    heaps,
                    bytes,
                    missing_bytes,
                    why,
                } => {
                    self.ended_bytes += bytes;
                    assert!(missing_bytes <= bytes);
                    for heap in heap..heap + heaps {
                        assert_eq!(self.dropped.insert(heap, why), None, "heap {heap} twice");
                    }
                }
            }
        }
        let ended = (self.whole.len() + self.dropped.len()) as u64;
        assert_eq!(self.heard, ended + joiner.waiting());
        assert_eq!(self.heard_bytes, self.ended_bytes + joiner.waiting_bytes());
    }
}

#[test]
fn packets_begin_with_pieces_and_are_full() {
    let heaps: Vec<Heap> = [0, 5000, 1, 0, 300]
        .iter()
        .zip(0..)
        .map(|(length, number)| heap(number, *length))
        .collect();
    let packets = packets_of(&heaps, 400);
    let pieces: usize = 5 + 5000 / (400 - PIECE_HEAD_BYTES);
    assert!(packets.len() <= pieces, "{}", packets.len());
    for (at, (_, packet)) in packets.iter().enumerate() {
        assert!(packet.len() == 400 || at + 1 == packets.len());
        let mut rest = packet.as_slice();
        while rest.iter().any(|byte| *byte != 0) {
            rest = Piece::parse(rest).unwrap().1;
        }
        assert!(rest.len() <= PIECE_HEAD_BYTES);
    }
}

#[test]
fn what_was_laid_out_and_not_taken_is_cut_anew_for_another_session() {
    let heaps: Vec<Heap> = (0..4).map(|number| heap(number, 1000)).collect();
    let mut cutter = Cutter::default();
    heaps.iter().for_each(|heap| cutter.push(heap.clone()));
    let (mut joiner, mut became, mut offset) = (Joiner::default(), Became::default(), 0);
    for payload_bytes in [500, 500, 300, 1400, 100] {
        assert!(cutter.ready(payload_bytes) > 0);
        let second = cutter.peek(cutter.peek(0).len()).to_vec();
        assert!(Piece::parse(&second).is_ok() && second.len() <= payload_bytes);
        let packet = cutter.peek(0).to_vec();
        joiner.handle_packet(offset, &packet);
        offset += packet.len() as u64;
        cutter.take(packet.len());
    }
    while cutter.ready(700) > 0 {
        joiner.handle_packet(offset, cutter.peek(0));
        offset += cutter.peek(0).len() as u64;
        cutter.take(cutter.peek(0).len());
    }
    became.take(&mut joiner);
    assert_eq!(became.whole.into_values().collect::<Vec<_>>(), heaps);
}

#[test]
fn a_piece_that_contradicts_another_breaks_its_heap_and_no_other() {
    let piece = |heap, offset, heap_bytes, bytes: &'static [u8]| {
        let piece = Piece {
            heap,
            tag: 1,
            status: 0,
            heap_bytes,
            offset,
            bytes,
        };
        [&piece.head()[..], bytes].concat()
    };
    for bad in [piece(0, 1, 9, b"xyz"), piece(0, 3, 8, b"xyz")] {
        let (mut joiner, mut became) = (Joiner::default(), Became::default());
        joiner.handle_packet(0, &piece(0, 0, 9, b"abc"));
        joiner.handle_packet(100, &[bad, piece(1, 0, 4, b"good")].concat());
        joiner.handle_packet(200, &piece(0, 3, 9, b"defghi"));
        joiner.finish(Some(2));
        became.take(&mut joiner);
        assert_eq!(became.dropped, BTreeMap::from([(0, Why::Broken)]));
        assert_eq!(became.whole.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(joiner.late_pieces, 1);
    }
}

#[test]
fn what_waits_for_pieces_is_bounded() {
    let (mut joiner, mut became) = (Joiner::default(), Became::default());
    for heap in 0..6 {
        let piece = Piece {
            heap,
            tag: 1,
            status: 0,
            heap_bytes: 64 << 20,
            offset: 7,
            bytes: b"x",
        };
        joiner.handle_packet(heap * 100, &[&piece.head()[..], b"x"].concat());
    }
    became.take(&mut joiner);
    assert_eq!(
        became.dropped,
        BTreeMap::from([(0, Why::NoRoom), (1, Why::NoRoom)])
    );
    // Numbers that leap make no more than so many ranges.
    for step in 1..10_000 {
        let piece = Piece {
            heap: step * 10,
            tag: 1,
            status: 0,
            heap_bytes: 0,
            offset: 0,
            bytes: b"",
        };
        joiner.handle_packet(step * 1000, &piece.head());
    }
    became.take(&mut joiner);
    assert!(joiner.waiting() <= 4096 * 9 + 4, "{}", joiner.waiting());
}

proptest! {
    /// Packets are lost, overtaken and damaged: one that had all bytes is whole, each other is dropped by its name, and nothing is left over.
    #[test]
    fn each_heap_is_whole_or_dropped_by_name(
        lengths in prop::collection::vec(prop_oneof![0..40_usize, 0..3000_usize], 1..40),
        payload_bytes in 60..1400_usize,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        damaged in prop::collection::vec((any::<prop::sample::Index>(), 0..36_usize), 0..3),
        swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        tell in 1..20_usize,
    ) {
        let heaps: Vec<Heap> = lengths.iter().zip(0..).map(|(length, number)| heap(number, *length)).collect();
        let packets = packets_of(&heaps, payload_bytes);
        let (_, before_the_last) = packets.split_last().unwrap();
        prop_assert!(before_the_last.iter().all(|(_, packet)| packet.len() == payload_bytes));
        let lost: BTreeSet<usize> = lost.iter().map(|index| index.index(packets.len())).collect();
        let damaged: BTreeMap<usize, usize> = damaged.iter().map(|(index, at)| (index.index(packets.len()), *at)).collect();
        let hurt = |at: &usize| lost.contains(at) || damaged.contains_key(at);
        let mut touched: BTreeMap<u64, (bool, bool)> = BTreeMap::new();
        for (at, (_, packet)) in packets.iter().enumerate() {
            let mut rest = packet.as_slice();
            while let Ok((piece, behind)) = Piece::parse(rest) {
                let (came, missing) = touched.entry(piece.heap).or_default();
                if hurt(&at) { *missing = true } else { *came = true }
                rest = behind;
            }
        }
        let mut order: Vec<usize> = (0..packets.len()).filter(|at| !lost.contains(at)).collect();
        for swap in &swaps {
            if order.len() > 1 {
                let at = swap.index(order.len() - 1);
                order.swap(at, at + 1);
            }
        }
        let (mut joiner, mut became) = (Joiner::default(), Became::default());
        let mut told: BTreeSet<usize> = BTreeSet::new();
        for (turn, at) in order.iter().enumerate() {
            let (offset, packet) = &packets[*at];
            let mut packet = packet.clone();
            if let Some(byte) = damaged.get(at) {
                packet[*byte] ^= 0x55;
            }
            joiner.handle_packet(*offset, &packet);
            // All but the last packets are settled, now and then, as when windows are closed.
            if turn % tell == 0 {
                let below = at.saturating_sub(16);
                for hole in lost.iter().filter(|hole| **hole < below) {
                    if told.insert(*hole) {
                        joiner.handle_lost(packets[*hole].0, packets[*hole].1.len() as u64);
                    }
                }
            }
            became.take(&mut joiner);
        }
        for hole in &lost {
            if told.insert(*hole) {
                joiner.handle_lost(packets[*hole].0, packets[*hole].1.len() as u64);
            }
        }
        joiner.finish(Some(heaps.len() as u64));
        became.take(&mut joiner);
        prop_assert_eq!((became.heard, joiner.waiting()), (heaps.len() as u64, 0));
        prop_assert_eq!(became.heard_bytes, became.ended_bytes);
        for (number, expected) in (0..).zip(&heaps) {
            let (came, missing) = touched[&number];
            match (became.whole.get(&number), became.dropped.get(&number)) {
                (Some(whole), None) => { prop_assert_eq!(whole, expected); prop_assert!(!missing); }
                (None, Some(Why::Hole)) => prop_assert!(came && missing),
                // Of a damaged packet the pieces in front of the damage may have come.
                (None, Some(Why::Lost)) => prop_assert!(!came && missing),
                other => prop_assert!(false, "heap {}: {:?}", number, other),
            }
        }
    }

    /// Whatever comes, nothing panics, the count of heaps holds, and a good packet's heaps are whole.
    #[test]
    fn garbage_hides_nothing_that_comes_behind_it(
        garbage in prop::collection::vec((0..1_000_000_u64, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
        lost in prop::collection::vec((0..1_000_000_u64, 0..10_000_u64), 0..5),
    ) {
        let (mut joiner, mut became) = (Joiner::default(), Became::default());
        for (offset, bytes) in &garbage {
            joiner.handle_packet(*offset, bytes);
        }
        for (offset, bytes) in &lost {
            joiner.handle_lost(*offset, *bytes);
        }
        let good = heap(0, 100);
        for (offset, packet) in packets_of(std::slice::from_ref(&good), 90) {
            joiner.handle_packet(2_000_000 + offset, &packet);
        }
        joiner.finish(None);
        became.take(&mut joiner);
        prop_assert_eq!(became.whole.get(&0), Some(&good));
    }
}
