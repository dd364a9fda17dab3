//! What goes wrong in an emulated card is seen by a reader as what it is, disturbs no other E-link, and stands in the books with what it cost.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod reader;

use forebay_emu::Pick;
use forebay_emu::card::{
    Card, CardAccount, CardConfig, CardFault, CardFaultKind, CardFaultRule, CardLoss, ChunkSizes,
    LinkFifo, Memory, Spread,
};
use forebay_readout::{Damage, Status};
use forebay_wire::felix::{BlockFormat, BlockHead, Elink};
use proptest::prelude::*;

use self::reader::{Reader, run, run_with};

/// Three links of 100 chunks of 300 bytes: 13 of them in each block, and a part.
fn config(rules: &[CardFaultRule]) -> CardConfig {
    let mut config = CardConfig::full_mode(3, 1e5, 300);
    config.ttc.limit.events = Some(100);
    config.block_timeout_ns = 100_000_000;
    config.faults = rules.to_vec();
    config
}

fn middle() -> Elink {
    Elink::of_link(1).unwrap()
}

/// Runs with one fault on the link in the middle at trigger 20, in the second block: the other links do not feel it.
fn struck(fault: CardFault) -> (CardAccount, Reader) {
    let config = config(&[CardFaultRule::new(fault).on(middle()).at(20)]);
    let (account, reader) = run(&config, 50_000);
    for (name, count) in account.faults() {
        assert_eq!(count, u64::from(name == fault.name()), "{name}");
    }
    for link in [0, 2] {
        let number = Elink::of_link(link).unwrap().number();
        assert_eq!(reader.seen[&number].l1ids, (0..100).collect::<Vec<u8>>());
    }
    (account, reader)
}

fn lost(account: &CardAccount, loss: CardLoss) -> (u64, u64) {
    let total: u64 = account.chunks.dropped.total().items;
    let lost = account.chunks.dropped[loss];
    assert_eq!(total, lost.items, "nothing else is lost");
    (lost.items, lost.bytes)
}

fn l1ids(reader: &Reader) -> &[u8] {
    &reader.seen[&middle().number()].l1ids
}

/// The first block has 13 whole chunks and 136 bytes of chunk 13; the second one the other 164, 12 whole chunks, and 272 bytes of chunk 26.
#[test]
fn a_block_that_is_lost_costs_what_ends_in_it_and_leaves_a_gap() {
    for (fault, loss) in [
        (CardFault::LostBlock, CardLoss::LostBlock),
        (CardFault::WrongMarker, CardLoss::WrongMarker),
        (CardFault::BadTrailer, CardLoss::BadTrailer),
    ] {
        let (account, reader) = struck(fault);
        assert_eq!(lost(&account, loss), (13, 164 + 12 * 300 + 272));
        // Chunk 13 has begun before, chunk 26 goes on behind.
        let expected: Vec<u8> = (0..13).chain(27..100).collect();
        assert_eq!(l1ids(&reader), expected);
        let decoder = reader.decoder(0).account();
        let dropped: u64 = decoder.dropped_blocks.total();
        let gaps = u64::from(fault != CardFault::BadTrailer);
        assert_eq!(decoder.damage[Damage::Gap], gaps);
        assert_eq!(dropped, u64::from(fault != CardFault::LostBlock));
        assert_eq!(account.elinks[1].blocks.lost, 1 - dropped);
        // What began before is cut off, what goes on behind has no beginning.
        assert_eq!(decoder.damage[Damage::Orphan], 1);
        assert_eq!(reader.seen[&middle().number()].flagged, 1);
    }
}

#[test]
fn a_sequence_number_that_jumps_costs_the_chunk_over_its_border() {
    let (account, reader) = struck(CardFault::JumpedSequence);
    assert_eq!(account.chunks.in_dma, account.chunks.made);
    let expected: Vec<u8> = (0..13).chain(14..100).collect();
    assert_eq!(l1ids(&reader), expected);
    let decoder = reader.decoder(0).account();
    assert_eq!(decoder.damage[Damage::Gap], 1);
    assert!((1..32).contains(&decoder.missing_blocks));
}

#[test]
fn flags_are_on_the_chunk_and_on_no_other() {
    for (fault, status) in [
        (CardFault::CrcFlag, Status::FW_CRC),
        (CardFault::ErrorFlag, Status::FW_ERROR),
        (CardFault::BusyFlag, Status::FW_BUSY),
    ] {
        let (account, reader) = struck(fault);
        assert_eq!(account.chunks.in_dma, account.chunks.made);
        let flagged = reader.decoder(0).account().flagged;
        for ((bit, name), count) in Status::NAMES.into_iter().zip(flagged) {
            assert_eq!(count, u64::from(bit == status), "{name}");
        }
        let expected: Vec<u8> = (0..20).chain(21..100).collect();
        assert_eq!(l1ids(&reader), expected);
    }
}

#[test]
fn a_chunk_that_loses_its_end_is_flagged_and_its_bytes_are_booked() {
    let (account, reader) = struck(CardFault::Truncated);
    let (chunks, bytes) = lost(&account, CardLoss::Truncated);
    assert_eq!(chunks, 0);
    assert!((1..300).contains(&bytes));
    reader.agrees_with(&account);
    let decoder = reader.decoder(0).account();
    assert_eq!(decoder.flagged[0], 1, "truncated by the firmware");
}

/// In chunks that go over blocks the end has the word of a time-out.
#[test]
fn long_chunks_that_lose_their_end_are_flagged_too() {
    let rule = CardFaultRule::new(CardFault::Truncated).pick(Pick::Every(3));
    let mut config = config(&[rule]);
    config.sizes = ChunkSizes::Fixed { bytes: 9000 };
    let (account, reader) = run(&config, 50_000);
    assert!(account.elinks.iter().all(|elink| elink.truncated == 34));
    let account = reader.decoder(0).account();
    assert_eq!((account.flagged[0], account.damage.total()), (102, 0));
}

#[test]
fn a_bit_that_flips_is_found_in_the_payload_alone() {
    let config = config(&[CardFaultRule::new(CardFault::BitFlip).on(middle()).at(20)]);
    let good = run(&self::config(&[]), 50_000).1;
    let mut dma = Memory::new(&config, 256);
    let mut card = Card::new(&config).unwrap();
    while !card.handle_time(2_000_000, &mut dma) {}
    assert!(card.finish(2_000_000, &mut dma));
    let (mut bits, mut blocks, mut at) = (0, 0, [0; 3]);
    dma.take(0, |block| {
        let head = BlockHead::from_word(u32::from_le_bytes(block[..4].try_into().unwrap()));
        let link = usize::from(head.elink.link());
        let expected = &good.seen[&head.elink.number()].blocks[at[link]];
        at[link] += 1;
        let differ = block
            .iter()
            .zip(expected)
            .map(|(a, b)| (a ^ b).count_ones());
        let here: u32 = differ.sum();
        (bits, blocks) = (bits + here, blocks + u32::from(here > 0));
        assert!(here == 0 || link == 1);
    });
    assert_eq!((bits, blocks), (1, 1));
    assert_eq!(card.account().chunks.in_dma, card.account().chunks.made);
}

#[test]
fn a_link_that_is_stuck_delays_what_waits_and_loses_nothing() {
    let (account, reader) = struck(CardFault::StuckLink { for_ns: 700_000 });
    reader.agrees_with(&account);
    reader.is_complete(&account);
    // Longer than the queue lasts: BUSY.
    let rule = CardFaultRule::new(CardFault::StuckLink { for_ns: 700_000 });
    let mut config = config(&[rule.on(middle()).at(20)]);
    config.front_end.busy_on_chunks = 16;
    config.front_end.busy_off_chunks = 8;
    config.ttc.limit.events = None;
    config.ttc.limit.duration_ns = Some(2_000_000);
    let (account, reader) = run(&config, 10_000);
    reader.agrees_with(&account);
    reader.is_complete(&account);
    let triggers = account.triggers;
    // Stuck from 200 to 900 µs, 16 chunks in the queue at 350 µs: 360 to 900 µs.
    assert_eq!((triggers.busy, triggers.held_by_link), (1, 55));
}

#[test]
fn a_link_that_stops_within_a_chunk_leaves_it_open_and_loses_what_is_made_behind_it() {
    let (account, reader) = struck(CardFault::StoppedLink);
    let (chunks, bytes) = lost(&account, CardLoss::StoppedLink);
    assert_eq!(chunks, 80);
    assert!((79 * 300 + 1..80 * 300).contains(&bytes), "{bytes}");
    assert_eq!(l1ids(&reader), (0..20).collect::<Vec<u8>>());
    let decoder = reader.decoder(0).account();
    assert_eq!(decoder.damage[Damage::Unfinished], 1);
    assert_eq!(account.triggers.held_by_busy(), 0, "the others go on");
}

#[test]
fn a_front_end_that_does_not_stop_loses_chunks_by_name() {
    let mut config = config(&[CardFaultRule::new(CardFault::XoffIgnored).on(middle())]);
    config.ttc.limit.events = Some(2000);
    config.fifo.bytes = 16 << 10;
    config.front_end.busy_on_chunks = 2000;
    // 6 blocks for three links, which nobody reads for the first 15 ms.
    let (account, reader) = run_with(
        &config,
        10_000,
        6,
        |step| {
            if step < 1500 { 0 } else { usize::MAX }
        },
    );
    assert_eq!(account.residual(), [0; 3]);
    let [first, stubborn, last] = [0, 1, 2].map(|n| account.elinks[n]);
    for obeys in [first, last] {
        assert_eq!(obeys.chunks.in_dma, obeys.chunks.made);
        assert_eq!((obeys.fifo.xoff, obeys.fifo.xon), (1, 1));
    }
    let chunks = stubborn.chunks;
    assert!(
        chunks.dropped[CardLoss::FifoFull].items > 1000,
        "{chunks:?}"
    );
    assert_eq!(stubborn.truncated, 1);
    assert!(stubborn.faults[CardFaultKind::XoffIgnored] > 1000);
    assert_eq!(reader.seen[&middle().number()].flagged, 1);
    let seen = reader.seen[&middle().number()].chunks;
    assert_eq!(seen, chunks.in_dma.items);
}

fn faults() -> impl Strategy<Value = CardFault> {
    prop_oneof![
        Just(CardFault::LostBlock),
        Just(CardFault::JumpedSequence),
        Just(CardFault::BadTrailer),
        Just(CardFault::WrongMarker),
        Just(CardFault::CrcFlag),
        Just(CardFault::ErrorFlag),
        Just(CardFault::Truncated),
        Just(CardFault::BitFlip),
        (1..3_000_000_u64).prop_map(|for_ns| CardFault::StuckLink { for_ns }),
        Just(CardFault::StoppedLink),
        Just(CardFault::XoffIgnored),
    ]
}

fn rules() -> impl Strategy<Value = Vec<CardFaultRule>> {
    let pick = prop_oneof![
        Just(Pick::Always),
        (1..50_u64).prop_map(Pick::Every),
        (0.0..0.2).prop_map(Pick::Chance),
    ];
    let link = prop_oneof![Just(None), (0..2_u16).prop_map(Some)];
    let rule = (faults(), pick, link, 0..500_u64, 0..500_u64);
    let rule = rule.prop_map(|(fault, pick, link, from, count)| CardFaultRule {
        elink: link.and_then(Elink::of_link),
        fault,
        triggers: from..from + count,
        pick,
    });
    proptest::collection::vec(rule, 0..4)
}

fn sizes() -> impl Strategy<Value = ChunkSizes> {
    prop_oneof![
        (8..6000_u32).prop_map(|bytes| ChunkSizes::Fixed { bytes }),
        (8..100_u32, 0..3000_u32).prop_map(|(min_bytes, more)| ChunkSizes::Uniform {
            min_bytes,
            max_bytes: min_bytes + more,
        }),
        Just(ChunkSizes::ramp(400)),
    ]
}

fn cards() -> impl Strategy<Value = CardConfig> {
    let format = prop_oneof![
        Just(BlockFormat::PHASE1),
        Just(BlockFormat::PHASE1_WIDE),
        Just(BlockFormat::phase2(4096).unwrap()),
        Just(BlockFormat::phase2(2048).unwrap().with_headers()),
    ];
    let queues = (1..40_u64, 0..40_u64, 10..15_u32, 1..16_u8, 0..15_u8);
    // From 10 kHz to 3 MHz, and from 2 µs to 3 ms, each decade as often.
    let rate_hz = (4.0..6.5).prop_map(|log: f64| 10_f64.powf(log));
    let timeout_ns = (3.4..6.5).prop_map(|log: f64| 10_f64.powf(log) as u64);
    let ttc = (rate_hz, any::<bool>(), any::<bool>(), 0..20_u64);
    (
        format,
        sizes(),
        queues,
        ttc,
        rules(),
        any::<u64>(),
        timeout_ns,
    )
        .prop_map(
            |(format, sizes, queues, ttc, faults, seed, block_timeout_ns)| {
                let (on, off, bytes_log2, xoff_sixteenths, xon) = queues;
                let (rate_hz, is_poisson, tells, dead_time_bunches) = ttc;
                let mut config = CardConfig::full_mode(2, rate_hz, 8);
                (config.format, config.sizes) = (format, sizes);
                (config.faults, config.seed) = (faults, seed);
                config.block_timeout_ns = block_timeout_ns;
                config.front_end.busy_on_chunks = on;
                config.front_end.busy_off_chunks = off % on;
                config.front_end.busy_on_free_blocks = (seed >> 8) % 4;
                if config.front_end.busy_on_free_blocks > 0 {
                    config.front_end.busy_off_free_blocks = 4 + (seed >> 16) % 4;
                }
                config.fifo = LinkFifo {
                    bytes: 1 << bytes_log2,
                    xoff_sixteenths,
                    xon_sixteenths: xon % xoff_sixteenths,
                };
                if is_poisson {
                    config.ttc.spread = Spread::Poisson;
                }
                config.ttc.to_host = tells.then_some(0);
                config.ttc.dead_time_bunches = dead_time_bunches;
                config.ttc.limit.events = Some(500);
                config
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the card, its faults, and how often and how much is read: at every step nothing is unexplained.
    #[test]
    fn the_books_close_whatever_goes_wrong(
        config in cards(),
        step_ns in 1000..2_000_000_u64,
        blocks in 1..40_usize,
        reads in proptest::collection::vec(0..8_usize, 1..20),
    ) {
        let most = |step: u64| match reads[step as usize % reads.len()] {
            // All nothing would never end.
            0 if step > 100 => 1,
            most => most,
        };
        // It looks at the residual after each call.
        let (account, reader) = run_with(&config, step_ns, blocks, most);
        prop_assert_eq!(account.residual(), [0; 3]);
        prop_assert_eq!(account.triggers.accepted, 500);
        // A reader finds every byte that the card says to have put where it can be found.
        let seen: u64 = reader.seen.values().map(|seen| seen.blocks.len() as u64).sum();
        let out = account.elinks.iter().map(|elink| elink.blocks);
        let out: u64 = out.map(|blocks| blocks.full + blocks.timed_out + blocks.last).sum();
        prop_assert_eq!(seen, out);
        let found = reader.decoder(0).account();
        prop_assert_eq!(found.pieces[1], account.chunks.in_dma.bytes);
        let breaks = ["lost_block", "jumped_sequence", "bad_trailer", "wrong_marker", "stopped_link", "bit_flip"];
        if account.faults().all(|(name, count)| count == 0 || !breaks.contains(&name)) {
            prop_assert_eq!(found.chunks, account.chunks.in_dma.items);
            prop_assert_eq!(found.damage.total(), 0);
        }
    }

    /// A rule that never strikes makes every chunk go the long way.
    #[test]
    fn the_short_way_and_the_long_way_make_the_same_blocks(
        mut config in cards(),
        steps_ns in (1000..2_000_000_u64, 1000..2_000_000_u64),
    ) {
        config.faults.clear();
        let short = run(&config, steps_ns.0);
        let never = CardFaultRule::new(CardFault::CrcFlag).pick(Pick::Chance(0.0));
        config.faults.push(never.clone());
        if config.ttc.to_host.is_some() {
            config.faults.push(never.on(Elink::TTC_TO_HOST));
        }
        let long = run(&config, steps_ns.1);
        prop_assert_eq!(short.0, long.0);
        for (elink, seen) in &short.1.seen {
            prop_assert!(seen.blocks == long.1.seen[elink].blocks, "E-link {:#x}", elink);
        }
    }
}
