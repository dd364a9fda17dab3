//! The decoder against what was written: chunks come back, damage is named and disturbs nothing else, and the books close.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;

use forebay_readout::{BlockError, Chunk, Config, Decoder, FETCHED_BLOCKS, PieceDrop, Status};
use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags, Kind};
use proptest::prelude::*;

/// A chunk as it was taken.
type Taken = (u16, u8, Vec<u8>);

fn formats() -> [BlockFormat; 6] {
    [
        BlockFormat::PHASE1,
        BlockFormat::PHASE1_WIDE,
        BlockFormat::phase2(1024).unwrap(),
        BlockFormat::phase2(16_384).unwrap(),
        BlockFormat::PHASE1.with_headers(),
        BlockFormat::phase2(4096).unwrap().with_headers(),
    ]
}

fn elink(number: u16) -> Elink {
    Elink::new(number).unwrap()
}

/// A card: fills a block for each E-link, which goes out when it is full.
struct Card {
    format: BlockFormat,
    open: BTreeMap<u16, (Vec<u8>, usize)>,
    sequences: BTreeMap<u16, u8>,
    blocks: Vec<Vec<u8>>,
}

impl Card {
    fn new(format: BlockFormat) -> Self {
        Self {
            format,
            open: BTreeMap::new(),
            sequences: BTreeMap::new(),
            blocks: Vec::new(),
        }
    }

    fn with<T>(&mut self, number: u16, fill: impl FnOnce(&mut BlockWriter<'_>) -> T) -> T {
        let format = self.format;
        let (block, filled) = self.open.entry(number).or_insert_with(|| {
            let sequence = self.sequences.entry(number).or_default();
            let mut block = vec![0xee; format.bytes()];
            let filled = BlockWriter::begin(format, elink(number), *sequence, &mut block);
            let filled = filled.unwrap().filled();
            *sequence = (*sequence + 1) % 32;
            (block, filled)
        });
        let mut writer = BlockWriter::resume(format, block, *filled).unwrap();
        let done = fill(&mut writer);
        *filled = writer.filled();
        done
    }

    fn chunk(&mut self, number: u16, chunk: &[u8], flags: Flags) {
        let mut done = None;
        while done.is_none_or(|done| done < chunk.len()) {
            let from = done.unwrap_or(0);
            match self.with(number, |block| block.push(chunk, from, flags)) {
                Some(now) => done = Some(now),
                None => self.let_go(number),
            }
        }
    }

    fn let_go(&mut self, number: u16) {
        if let Some((mut block, filled)) = self.open.remove(&number) {
            BlockWriter::resume(self.format, &mut block, filled)
                .unwrap()
                .close();
            self.blocks.push(block);
        }
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        let open: Vec<u16> = self.open.keys().copied().collect();
        open.into_iter().for_each(|number| self.let_go(number));
        self.blocks
    }
}

/// One after the other; `refuse` says how often a chunk is refused before it is taken.
fn decode(
    decoder: &mut Decoder,
    blocks: &[Vec<u8>],
    mut refuse: impl FnMut() -> bool,
) -> (Vec<Taken>, Vec<BlockError>) {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    let mut take = |chunk: Chunk<'_, &[u8]>| {
        if refuse() {
            return false;
        }
        let mut bytes = Vec::new();
        chunk.payload.append_to(&mut bytes);
        assert_eq!(bytes.len(), chunk.payload.len());
        all.push((chunk.elink.number(), chunk.status.0, bytes));
        true
    };
    for some in blocks.chunks(FETCHED_BLOCKS) {
        // It judges nothing, whatever it meets.
        decoder.fetch_words(&some.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    for block in blocks {
        errors.extend(decoder.handle_block(block.as_slice()).err());
        assert_eq!(decoder.account().residual(), [0; 3]);
        while !decoder.poll(block.as_slice(), &mut take) {
            assert_eq!(decoder.account().residual(), [0; 3]);
        }
        assert_eq!(decoder.account().residual(), [0; 3]);
    }
    while !decoder.finish(&mut take) {
        assert_eq!(decoder.account().residual(), [0; 3]);
    }
    let account = decoder.account();
    assert_eq!(account.residual(), [0; 3], "{account:?}");
    assert_eq!(account.held, [0; 2], "{account:?}");
    assert_eq!(account.chunks, all.len() as u64);
    let bytes: usize = all.iter().map(|chunk| chunk.2.len()).sum();
    assert_eq!(account.chunk_bytes, bytes as u64);
    (all, errors)
}

fn decoder(format: BlockFormat) -> Decoder {
    Decoder::new(format, &Config::default()).unwrap()
}

fn damage(decoder: &Decoder) -> BTreeMap<&'static str, u64> {
    let counts = decoder.account().damage;
    let all = counts.iter();
    all.filter(|(_, count)| *count > 0)
        .map(|(damage, count)| (damage.name(), count))
        .collect()
}

/// Bytes that differ from chunk to chunk.
fn content(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (seed * 31 + at * 7) as u8).collect()
}

fn chunks() -> impl Strategy<Value = Vec<(u16, usize, u8)>> {
    let bytes = prop_oneof![4 => 0..40_usize, 2 => 0..1200_usize, 1 => 0..20_000_usize];
    let one = (
        prop_oneof![Just(0_u16), Just(64), Just(2047), 0..2048_u16],
        bytes,
        0..16_u8,
    );
    proptest::collection::vec(one, 1..60)
}

fn written(format: BlockFormat, chunks: &[(u16, usize, u8)]) -> (Vec<Vec<u8>>, Vec<Taken>) {
    let mut card = Card::new(format);
    let mut expected = Vec::new();
    for (seed, (number, bytes, flags)) in chunks.iter().enumerate() {
        let flags = Flags::from_bits(*flags);
        // Busy has no place in words of 16 bits.
        let flags = if format.layout().word_bytes() == 2 {
            Flags::from_bits(flags.bits() & !Flags::BUSY.bits())
        } else {
            flags
        };
        let chunk = content(seed, *bytes);
        card.chunk(*number, &chunk, flags);
        expected.push((*number, Status::of_flags(flags).0, chunk));
    }
    (card.finish(), expected)
}

/// Those of each E-link, in their order.
fn by_elink(taken: Vec<Taken>) -> BTreeMap<u16, Vec<(u8, Vec<u8>)>> {
    let mut all: BTreeMap<u16, Vec<(u8, Vec<u8>)>> = BTreeMap::new();
    for (number, status, bytes) in taken {
        all.entry(number).or_default().push((status, bytes));
    }
    all
}

proptest! {
    #[test]
    fn what_a_card_writes_comes_back_chunk_by_chunk(
        chunks in chunks(), format in 0..6_usize, refusals in any::<u64>(),
    ) {
        let format = formats()[format];
        let (blocks, expected) = written(format, &chunks);
        let mut decoder = decoder(format);
        let mut refusals = refusals;
        let refuse = || {
            refusals = refusals.rotate_left(1);
            // A pattern without a zero would never take anything.
            refusals & 1 == 1 && refusals != u64::MAX
        };
        let (taken, errors) = decode(&mut decoder, &blocks, refuse);
        prop_assert_eq!(errors, []);
        prop_assert_eq!(by_elink(taken), by_elink(expected));
        prop_assert!(damage(&decoder).is_empty(), "{:?}", damage(&decoder));
    }

    #[test]
    fn whatever_is_damaged_the_books_close_and_other_e_links_do_not_feel_it(
        chunks in chunks(), format in 0..6_usize,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u16>(), any::<u8>()), 1..8),
    ) {
        let format = formats()[format];
        let (mut blocks, expected) = written(format, &chunks);
        let owner = |block: &[u8]| u16::from_le_bytes([block[0], block[1]]) & 0x7ff;
        let mut touched = Vec::new();
        for (place, how, at, byte) in hits {
            if blocks.is_empty() {
                break;
            }
            let place = place.index(blocks.len());
            touched.push(owner(&blocks[place]));
            match how {
                0 => drop(blocks.remove(place)),
                1 => blocks.insert(place, blocks[place].clone()),
                2 => blocks[place].truncate(usize::from(at)),
                _ => {
                    let bytes = blocks[place].len();
                    if let Some(found) = blocks[place].get_mut(usize::from(at) % bytes.max(1)) {
                        *found ^= byte;
                    }
                    // Its E-link may be another one now.
                    if blocks[place].len() >= 2 {
                        touched.push(owner(&blocks[place]));
                    }
                }
            }
        }
        let mut decoder = decoder(format);
        let (taken, _) = decode(&mut decoder, &blocks, || false);
        let (taken, expected) = (by_elink(taken), by_elink(expected));
        for (number, chunks) in &expected {
            if !touched.contains(number) {
                prop_assert_eq!(taken.get(number), Some(chunks));
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_stop_nothing(
        blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1024), 0..20),
        headed in any::<bool>(), format in 0..3_usize,
    ) {
        let format = formats()[format];
        let mut blocks = blocks;
        if headed {
            for block in &mut blocks {
                block[2..4].copy_from_slice(&format.marker().to_le_bytes());
            }
        }
        let (mut decoder, count) = (decoder(format), blocks.len() as u64);
        let (_, errors) = decode(&mut decoder, &blocks, || false);
        let account = decoder.account();
        prop_assert_eq!(account.blocks, count);
        prop_assert_eq!(account.decoded + errors.len() as u64, count);
    }
}

/// Three chunks on one E-link, of which the middle one is over three blocks.
fn three() -> (BlockFormat, Vec<Vec<u8>>, [Vec<u8>; 3]) {
    let format = BlockFormat::PHASE1_WIDE;
    let chunks = [content(1, 100), content(2, 2500), content(3, 200)];
    let mut card = Card::new(format);
    for chunk in &chunks {
        card.chunk(5, chunk, Flags::NONE);
    }
    let blocks = card.finish();
    assert_eq!(blocks.len(), 3);
    (format, blocks, chunks)
}

#[test]
fn a_chunk_within_a_block_is_not_copied() {
    let (format, blocks, chunks) = three();
    let mut decoder = decoder(format);
    decode(&mut decoder, &blocks, || false);
    assert_eq!(decoder.account().copied_bytes, chunks[1].len() as u64);
}

#[test]
fn what_is_held_is_what_lies_in_the_block_and_in_the_buffers() {
    let (format, blocks, _) = three();
    let mut decoder = decoder(format);
    let held = |decoder: &Decoder| {
        let account = decoder.account();
        assert_eq!(account.residual(), [0; 3], "{account:?}");
        account.held
    };
    // The first chunk and the begin of the second one, its middle, its end and the third one.
    let mut refused = false;
    for (block, [there, left]) in blocks.iter().zip([
        [[2, 100 + 912], [1, 912]],
        [[2, 912 + 1016], [2, 912 + 1016]],
        [[4, 2500 + 200], [0, 0]],
    ]) {
        let block = block.as_slice();
        decoder.handle_block(block).unwrap();
        assert_eq!(held(&decoder), there);
        let mut take = |_: Chunk<'_, &[u8]>| std::mem::replace(&mut refused, true);
        while !decoder.poll(block, &mut take) {
            assert_eq!(held(&decoder), there, "what was refused is still there");
        }
        refused = false;
        assert_eq!(held(&decoder), left);
    }
    // What of a block is not taken before the next one comes is in no account.
    decoder.handle_block(blocks[0].as_slice()).unwrap();
    decoder.handle_block(&blocks[0][..0]).unwrap_err();
    assert_eq!(decoder.account().residual(), [0, 2, 1012]);
}

#[test]
fn a_lost_block_closes_the_open_chunk_and_what_lacks_its_beginning_is_counted() {
    let (format, mut blocks, [first, second, third]) = three();
    blocks.remove(1);
    let mut decoder = decoder(format);
    let (taken, errors) = decode(&mut decoder, &blocks, || false);
    assert_eq!(errors, []);
    // The head, its word, the first chunk and its word are in the first block too.
    let begun = second[..1024 - 4 - 104 - 4].to_vec();
    let cut = Status::SW_TRUNCATED.0;
    assert_eq!(taken, [(5, 0, first), (5, cut, begun), (5, 0, third)]);
    assert_eq!(
        damage(&decoder),
        BTreeMap::from([("gap", 1), ("orphan", 1)])
    );
    let account = decoder.account();
    assert_eq!(account.missing_blocks, 1);
    let rest = second.len() - (1024 - 4 - 104 - 4) - 1016;
    assert_eq!(account.dropped[PieceDrop::Orphan], [1, rest as u64]);
    assert_eq!(decoder.link(elink(5)).gaps, 1);
}

#[test]
fn a_block_that_is_not_tiled_is_dropped_and_closes_the_open_chunk() {
    let (format, mut blocks, chunks) = three();
    // The word of the middle block's only subchunk.
    blocks[1][1020] = 0xff;
    blocks[1][1021] = 0xff;
    let mut decoder = decoder(format);
    let (taken, errors) = decode(&mut decoder, &blocks, || false);
    let untiled = BlockError::Untiled {
        at: 1020,
        said: 65_536,
        room: 1016,
    };
    assert_eq!(errors, [untiled]);
    assert_eq!(taken.len(), 3);
    assert_eq!(taken[1].1, Status::SW_TRUNCATED.0);
    assert_eq!(taken[2].2, chunks[2]);
    let named = BTreeMap::from([("interrupted", 1), ("orphan", 1)]);
    assert_eq!(damage(&decoder), named);
    let dropped = decoder.account().dropped_blocks;
    let dropped = dropped.iter().map(|(why, count)| (why.name(), count));
    let dropped: Vec<_> = dropped.collect();
    assert_eq!(dropped[2], ("untiled", 1));
}

#[test]
fn another_marker_drops_the_block_and_the_next_one_shows_the_gap() {
    let (format, mut blocks, _) = three();
    blocks[1][2..4].copy_from_slice(&0x1234_u16.to_le_bytes());
    let mut decoder = decoder(format);
    let (taken, errors) = decode(&mut decoder, &blocks, || false);
    let marker = BlockError::Marker {
        found: 0x1234,
        expected: 0xabce,
    };
    assert_eq!(errors, [marker]);
    assert_eq!(taken[1].1, Status::SW_TRUNCATED.0);
    assert_eq!(
        damage(&decoder),
        BTreeMap::from([("gap", 1), ("orphan", 1)])
    );
}

#[test]
fn a_chunk_that_begins_before_the_last_one_has_ended_closes_it() {
    let format = BlockFormat::PHASE1_WIDE;
    let mut card = Card::new(format);
    card.with(7, |block| {
        block
            .reserve(Kind::First, Flags::NONE, 4)
            .unwrap()
            .copy_from_slice(b"once");
        block
            .reserve(Kind::Middle, Flags::CRC, 4)
            .unwrap()
            .copy_from_slice(b"more");
        block
            .reserve(Kind::First, Flags::NONE, 3)
            .unwrap()
            .copy_from_slice(b"new");
        block
            .reserve(Kind::Last, Flags::NONE, 3)
            .unwrap()
            .copy_from_slice(b"end");
        block
            .reserve(Kind::First, Flags::NONE, 2)
            .unwrap()
            .copy_from_slice(b"no");
        block
            .reserve(Kind::Both, Flags::NONE, 5)
            .unwrap()
            .copy_from_slice(b"whole");
    });
    let mut decoder = decoder(format);
    let (taken, _) = decode(&mut decoder, &card.finish(), || false);
    let malformed = Status::SW_MALFORMED;
    let expected = [
        (7, malformed.and(Status::FW_CRC).0, b"oncemore".to_vec()),
        (7, 0, b"newend".to_vec()),
        (7, malformed.0, b"no".to_vec()),
        (7, 0, b"whole".to_vec()),
    ];
    assert_eq!(taken, expected);
    assert_eq!(damage(&decoder), BTreeMap::from([("unended", 2)]));
    assert_eq!(decoder.link(elink(7)).flagged, 2);
}

#[test]
fn a_time_out_that_truncates_ends_the_chunk_and_another_one_is_filling() {
    let format = BlockFormat::PHASE1;
    let mut card = Card::new(format);
    card.with(7, |block| {
        block
            .reserve(Kind::First, Flags::NONE, 4)
            .unwrap()
            .copy_from_slice(b"once");
        block
            .reserve(Kind::Timeout, Flags::NONE, 8)
            .unwrap()
            .fill(0);
        block.reserve(Kind::OutOfBand, Flags::NONE, 0).unwrap();
        block
            .reserve(Kind::Timeout, Flags::TRUNCATED, 3)
            .unwrap()
            .copy_from_slice(b"cut");
    });
    let mut decoder = decoder(format);
    let (taken, _) = decode(&mut decoder, &card.finish(), || false);
    assert_eq!(taken, [(7, Status::FW_TRUNCATED.0, b"oncecut".to_vec())]);
    assert!(damage(&decoder).is_empty());
}

#[test]
fn a_kind_that_there_is_not_costs_its_data_and_the_open_chunk_its_end() {
    let format = BlockFormat::PHASE1_WIDE;
    let mut card = Card::new(format);
    card.with(7, |block| {
        block
            .reserve(Kind::First, Flags::NONE, 4)
            .unwrap()
            .copy_from_slice(b"once");
        block.reserve(Kind::Undefined, Flags::NONE, 8).unwrap();
        block
            .reserve(Kind::Both, Flags::NONE, 3)
            .unwrap()
            .copy_from_slice(b"new");
    });
    let mut decoder = decoder(format);
    let (taken, _) = decode(&mut decoder, &card.finish(), || false);
    let malformed = Status::SW_MALFORMED.0;
    assert_eq!(
        taken,
        [(7, malformed, b"once".to_vec()), (7, 0, b"new".to_vec())]
    );
    assert_eq!(damage(&decoder), BTreeMap::from([("undefined_kind", 1)]));
    assert_eq!(decoder.account().dropped[PieceDrop::UndefinedKind], [1, 8]);
    // As the word from which a block is read it says nothing of where the next one is.
    let mut block = vec![0; 1024];
    BlockWriter::begin(format, elink(7), 1, &mut block).unwrap();
    block[1023] = (Kind::Undefined as u8) << 5;
    let undefined = BlockError::Undefined { at: 1020 };
    assert_eq!(decoder.handle_block(block.as_slice()), Err(undefined));
}

#[test]
fn a_chunk_beyond_the_limit_loses_what_is_beyond_and_says_so() {
    let (format, blocks, chunks) = three();
    let config = Config {
        chunk_bytes_max: 2000,
    };
    let mut decoder = Decoder::new(format, &config).unwrap();
    let (taken, _) = decode(&mut decoder, &blocks, || false);
    let cut = Status::SW_TRUNCATED.0;
    assert_eq!(taken[1], (5, cut, chunks[1][..2000].to_vec()));
    assert_eq!(taken[2].2, chunks[2]);
    assert_eq!(damage(&decoder), BTreeMap::from([("too_long", 1)]));
    assert_eq!(decoder.account().dropped[PieceDrop::TooLong], [0, 500]);
    let wrong = Decoder::new(format, &Config { chunk_bytes_max: 0 }).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "chunk_bytes_max is 0; it must be from 1 to 67108864"
    );
}

#[test]
fn what_is_open_at_the_end_is_given_and_flagged() {
    let (format, mut blocks, chunks) = three();
    blocks.truncate(1);
    let mut decoder = decoder(format);
    let (taken, _) = decode(&mut decoder, &blocks, || false);
    assert_eq!(taken[1].1, Status::SW_TRUNCATED.0);
    assert!(chunks[1].starts_with(&taken[1].2));
    assert_eq!(damage(&decoder), BTreeMap::from([("unfinished", 1)]));
}

#[test]
fn a_block_is_looked_at_without_effect_and_its_subchunks_are_told() {
    for format in formats() {
        let mut block = vec![0; format.bytes()];
        let mut writer = BlockWriter::begin(format, elink(64), 7, &mut block).unwrap();
        for (kind, bytes) in [(Kind::Last, 5), (Kind::Both, 16), (Kind::First, 1)] {
            writer
                .reserve(kind, Flags::NONE, bytes)
                .unwrap()
                .fill(bytes as u8);
        }
        writer.close();
        let mut decoder = decoder(format);
        let head = decoder.look(block.as_slice()).unwrap();
        assert_eq!((head.elink, head.sequence), (elink(64), 7));
        assert_eq!(decoder.account(), forebay_readout::Account::default());
        assert_eq!(decoder.subchunks().count(), 0, "it was not taken in");

        decoder.handle_block(block.as_slice()).unwrap();
        let subchunks: Vec<_> = decoder.subchunks().collect();
        let kinds: Vec<_> = subchunks.iter().map(|(_, one)| one.kind).collect();
        assert_eq!(kinds[..3], [Kind::Last, Kind::Both, Kind::First]);
        for (at, one) in &subchunks[..3] {
            let bytes = usize::from(one.bytes);
            assert!(
                block[*at..][..bytes]
                    .iter()
                    .all(|byte| usize::from(*byte) == bytes)
            );
        }
        assert!(decoder.poll(block.as_slice(), |_| true));
        assert_eq!(decoder.subchunks().count(), 0, "all are taken");

        block[3] ^= 0xff;
        let error = decoder.look(block.as_slice()).unwrap_err();
        assert_eq!(error.reason(), "marker");
    }
}
