//! An emulated card: what it writes comes back through a decoder, its links are as fast as real ones, and its books close.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod reader;

use forebay_emu::card::{
    Card, CardConfig, ChunkSizes, Dma, ElinkConfig, Memory, SAMPLED_MOST, Speed, Spread, Trains,
};
use forebay_wire::felix::{BlockFormat, BlockHead, Elink};

use self::reader::{Reader, run, run_with};

fn formats() -> [BlockFormat; 5] {
    [
        BlockFormat::PHASE1,
        BlockFormat::PHASE1_WIDE,
        BlockFormat::phase2(4096).unwrap(),
        BlockFormat::phase2(16_384).unwrap(),
        BlockFormat::phase2(2048).unwrap().with_headers(),
    ]
}

fn uniform(min_bytes: u32, max_bytes: u32) -> ChunkSizes {
    ChunkSizes::Uniform {
        min_bytes,
        max_bytes,
    }
}

#[test]
fn every_byte_comes_back_from_every_format_and_size() {
    for format in formats() {
        for sizes in [
            ChunkSizes::Fixed { bytes: 16 },
            ChunkSizes::Fixed { bytes: 61 },
            ChunkSizes::Fixed { bytes: 1024 },
            ChunkSizes::Fixed { bytes: 20_001 },
            uniform(8, 3000),
            ChunkSizes::ramp(1500),
        ] {
            let mut config = CardConfig::full_mode(3, 40_000.0, 8);
            (config.format, config.sizes) = (format, sizes);
            config.elinks[1].stream = Some(5);
            config.buffers = 2;
            config.elinks[2].buffer = 1;
            config.ttc.limit.events = Some(1500);
            let (account, reader) = run(&config, 90_000);
            reader.agrees_with(&account);
            reader.is_complete(&account);
            assert_eq!(account.chunks.made.items, 4500);
            let first = &reader.seen[&64].blocks[0];
            let data = format.with_headers() == format;
            assert_eq!(first[if data { 8 } else { 4 }], 5, "its stream");
        }
    }
}

/// 240 million words a second; a chunk of 1,024 bytes costs 256 of them, a start, an end and an idle: 926,641 in a second.
#[test]
fn one_kib_at_1_mhz_is_more_than_a_link_carries() {
    let mut config = CardConfig::full_mode(1, 1e6, 1024);
    config.ttc.limit.duration_ns = Some(1_000_000_000);
    let mut card = Card::new(&config).unwrap();
    let mut dma = Memory::new(&config, 8192);
    for now_us in (0..=1_000_000).step_by(1000) {
        while !card.handle_time(now_us * 1000, &mut dma) {}
        dma.take(0, |_| ());
    }
    let account = card.account();
    // Beside what the link carried only what its queue holds was accepted.
    let sent = account.triggers.accepted - account.chunks.queued.items;
    assert_eq!(sent, 240_000_000 / 259);
    assert_eq!(account.triggers.requested, 1_000_000);
    assert_eq!(
        account.triggers.held_by_busy(),
        account.triggers.held_by_link
    );
    assert_eq!(account.residual(), [0; 3]);
    assert!((128..=256).contains(&account.chunks.queued.items));
    assert!(!card.behind().generator_limited, "{:?}", card.behind());
}

/// The largest chunk at 1 MHz has 948 bytes: 237 words and 3 more are 240.
#[test]
fn the_knee_of_a_link_at_1_mhz_is_at_948_bytes() {
    for (bytes, held) in [(944, false), (948, false), (949, true), (952, true)] {
        let mut config = CardConfig::full_mode(2, 1e6, bytes);
        config.ttc.limit.duration_ns = Some(100_000_000);
        let mut card = Card::new(&config).unwrap();
        let mut dma = Memory::new(&config, 8192);
        for now_us in (0..=100_000).step_by(1000) {
            while !card.handle_time(now_us * 1000, &mut dma) {}
            dma.take(0, |_| ());
        }
        let triggers = card.account().triggers;
        assert_eq!(triggers.held_by_link > 0, held, "{bytes}: {triggers:?}");
        if held {
            // 241 words: 995,851 Hz, and what the queue took.
            let carried = 240_000_000 / 241 / 10;
            assert!((carried..=carried + 257).contains(&triggers.accepted));
        }
    }
}

#[test]
fn an_e_link_of_a_gbt_link_carries_4_bytes_in_a_microsecond_for_each_bit() {
    for width_bits in [2, 4, 8, 16, 32] {
        // 38 bytes and 2 symbols.
        let hz = f64::from(width_bits) * 4e6 / 40.0;
        for (factor, held) in [(1.0, false), (1.01, true)] {
            let mut config = CardConfig::full_mode(1, hz * factor, 38);
            config.elinks[0] = ElinkConfig {
                elink: Elink::new(0x49).unwrap(),
                speed: Speed::Gbt { width_bits },
                buffer: 0,
                stream: None,
                loop_back: false,
            };
            config.ttc.limit.events = Some(40_000);
            let (account, reader) = run(&config, 1_000_000);
            reader.agrees_with(&account);
            reader.is_complete(&account);
            assert_eq!(account.triggers.held_by_link > 0, held, "{width_bits} bits");
        }
    }
}

/// BUSY goes up with the chunk that makes the queue full, and down when it is half empty: the triggers between are held back, no others.
#[test]
fn busy_goes_up_at_one_mark_and_down_at_another() {
    // Chunks of 1000 ns (240 words) each 500 ns, the queue 8, down to 4.
    let mut config = CardConfig::full_mode(2, 2e6, 948);
    config.front_end.busy_on_chunks = 8;
    config.front_end.busy_off_chunks = 4;
    config.sizes = ChunkSizes::Fixed { bytes: 948 };
    let mut card = Card::new(&config).unwrap();
    let mut dma = Memory::new(&config, 64);
    let mut marks: Vec<(bool, u64, u64)> = Vec::new();
    for now_ns in (0..20_000).step_by(250) {
        assert!(card.handle_time(now_ns, &mut dma));
        let elink = card.elinks()[0];
        if marks.last().is_none_or(|(busy, ..)| *busy != elink.is_busy) {
            marks.push((elink.is_busy, now_ns, elink.chunks.queued.items));
        }
        assert!(elink.chunks.queued.items <= 8);
    }
    // At 6.5 µs 14 have been made and 6 are sent; 10 are at 10 µs, when 4 are left, and with the trigger of that moment 5. The queue grows by one in 1 µs, again up to 8.
    let expected = [
        (false, 0, 1),
        (true, 6500, 8),
        (false, 10_000, 5),
        (true, 12_500, 8),
        (false, 16_000, 5),
        (true, 18_500, 8),
    ];
    assert_eq!(marks, expected);
    let triggers = card.account().triggers;
    // 3.5 µs each, and the third until now, 19.75 µs.
    assert_eq!((triggers.busy, triggers.busy_ns), (3, 8250));
    // At 7 to 9.5, 13 to 15.5, 19 and 19.5 µs.
    assert_eq!((triggers.held_by_link, triggers.held_by_dma), (14, 0));
}

#[test]
fn a_dma_buffer_with_few_free_blocks_raises_busy_before_a_queue_fills() {
    // A block of 4 KiB for about each four chunks, two E-links in the first of two buffers of 64.
    let mut config = CardConfig::full_mode(3, 1e5, 1000);
    (config.buffers, config.elinks[2].buffer) = (2, 1);
    config.front_end.busy_on_free_blocks = 8;
    config.front_end.busy_off_free_blocks = 16;
    let mut card = Card::new(&config).unwrap();
    let mut dma = Memory::new(&config, 64);
    let mut reader = Reader::new(&config);
    let at = |card: &mut Card, dma: &mut Memory, times: std::ops::Range<u64>| {
        for now_us in times.step_by(10) {
            while !card.handle_time(now_us * 1000, dma) {}
            assert_eq!(card.account().residual(), [0; 3]);
        }
        card.account()
    };
    let stalled = at(&mut card, &mut dma, 0..5000);
    let free = dma.free_blocks(0);
    assert!((4..8).contains(&free), "{free}");
    let triggers = stalled.triggers;
    assert_eq!((triggers.busy, triggers.held_by_link), (1, 0));
    assert!(triggers.held_by_dma > 300, "{triggers:?}");
    for elink in &stalled.elinks {
        assert_eq!((elink.fifo.peak_bytes, elink.fifo.xoff), (0, 0));
    }
    assert_eq!(stalled.dma_busy, [1, 0]);
    // Above the first mark it stays up.
    reader.read(&mut dma, (15 - free) as usize);
    assert_eq!(dma.free_blocks(0), 15);
    let still = at(&mut card, &mut dma, 5000..6000).triggers;
    assert_eq!(still.accepted, triggers.accepted);
    assert!(still.busy_ns > triggers.busy_ns + 900_000, "{still:?}");
    // At the second one triggers go on, until the buffer is low again.
    reader.read(&mut dma, 1);
    let after = at(&mut card, &mut dma, 6000..8000);
    assert!(after.triggers.accepted > triggers.accepted + 10);
    assert_eq!((after.triggers.busy, &*after.dma_busy), (2, &[2, 0][..]));
    assert!((4..8).contains(&dma.free_blocks(0)));
    while !card.finish(10_000_000, &mut dma) {
        reader.read(&mut dma, usize::MAX);
    }
    reader.read(&mut dma, usize::MAX);
    let account = card.account();
    reader.agrees_with(&account);
    assert_eq!(account.chunks.made, account.chunks.in_dma);
    assert_eq!(account.chunks.made.items, 3 * account.triggers.accepted);
}

#[test]
fn a_full_dma_buffer_stops_the_front_end_and_then_the_triggers() {
    let mut config = CardConfig::full_mode(2, 1e5, 1000);
    config.front_end.busy_on_chunks = 16;
    config.front_end.busy_off_chunks = 8;
    let mut card = Card::new(&config).unwrap();
    let mut dma = Memory::new(&config, 10);
    for now_us in (0..=5000).step_by(10) {
        while !card.handle_time(now_us * 1000, &mut dma) {}
        assert_eq!(card.account().residual(), [0; 3]);
    }
    assert!(card.waits_for_dma() && dma.free_blocks(0) == 0);
    let stalled = card.account();
    for elink in &stalled.elinks {
        assert!(elink.fifo.is_xoff && elink.is_busy);
        // 12/16 of 64 KiB, and the chunk that crossed it.
        assert!((49_152..50_152).contains(&elink.chunks.in_fifo.bytes));
        assert_eq!(elink.chunks.queued.items, 16);
        assert_eq!((elink.fifo.xoff, elink.fifo.xon), (1, 0));
    }
    // All 501 but those that are somewhere.
    let triggers = stalled.triggers;
    assert_eq!(triggers.requested, 501);
    assert_eq!((triggers.held_by_link, triggers.busy), (0, 1));
    assert!(triggers.held_by_dma > 300, "{triggers:?}");

    let mut reader = Reader::new(&config);
    for now_us in (5010..=10_000).step_by(10) {
        reader.read(&mut dma, usize::MAX);
        while !card.handle_time(now_us * 1000, &mut dma) {}
    }
    let after = card.account();
    assert_eq!(after.triggers.busy, 1);
    assert!(after.triggers.busy_ns > 3_000_000);
    assert!(
        after
            .elinks
            .iter()
            .all(|elink| elink.fifo.xon == 1 && !elink.is_busy)
    );
    assert!(
        after
            .elinks
            .iter()
            .all(|elink| elink.fifo.xoff_ns > 3_000_000)
    );
    while !card.finish(10_000_000, &mut dma) {
        reader.read(&mut dma, usize::MAX);
    }
    reader.read(&mut dma, usize::MAX);
    let account = card.account();
    reader.agrees_with(&account);
    reader.is_complete(&account);
    assert_eq!(account.chunks.made, account.chunks.in_dma);
}

#[test]
fn a_block_that_is_not_full_goes_out_when_its_time_is_over() {
    let mut config = CardConfig::full_mode(1, 1000.0, 100);
    config.block_timeout_ns = 300_000;
    config.ttc.limit.events = Some(2);
    let mut card = Card::new(&config).unwrap();
    let mut dma = Memory::new(&config, 8);
    let mut went_out = Vec::new();
    let mut now_ns = 0;
    while !card.is_finished() {
        while !card.handle_time(now_ns, &mut dma) {}
        dma.take(0, |_| went_out.push(now_ns));
        now_ns = card.poll_timeout().unwrap_or(now_ns);
    }
    // 28 words of 25/6 ns, and the time.
    assert_eq!(went_out, [300_117, 1_300_117]);
    let blocks = card.account().elinks[0].blocks;
    assert_eq!((blocks.full, blocks.timed_out, blocks.last), (0, 2, 0));
}

#[test]
fn triggers_are_told_to_the_host_with_what_is_known_of_them() {
    let mut config = CardConfig::full_mode(2, 1e6, 32);
    config.buffers = 3;
    config.ttc.to_host = Some(2);
    config.ttc.trigger_type = 0x81;
    config.ttc.ecr_period_ns = Some(500_000);
    config.ttc.spread = Spread::Trains(Trains::default());
    config.ttc.limit.events = Some(5000);
    let (account, reader) = run(&config, 50_000);
    reader.agrees_with(&account);
    assert_eq!(account.elinks[2].elink, Elink::TTC_TO_HOST);
    assert_eq!(reader.messages.len(), 5000);
    assert_eq!(reader.decoder(2).account().chunks, 5000);
    let l1ids = &reader.seen[&0].l1ids;
    for (n, message) in reader.messages.iter().enumerate() {
        assert_eq!(message.triggers, n as u64 + 1);
        assert_eq!((message.l1id as u8, message.trigger_type), (l1ids[n], 0x81));
        assert!(message.bunch % 80 < 72 && message.bunch < 39 * 80);
    }
    let mut resets = 0;
    for two in reader.messages.windows(2) {
        let place = |n: usize| (two[n].orbit, two[n].bunch);
        assert!(place(0) < place(1));
        match two[1].resets - two[0].resets {
            0 => assert_eq!(two[1].l1id, two[0].l1id + 1),
            _ => assert_eq!(two[1].l1id, 0),
        }
        resets += u32::from(two[1].resets != two[0].resets);
    }
    assert!((8..=11).contains(&resets), "each 500 µs of 5 ms: {resets}");
}

/// A caller that comes each 10 ms makes triggers up to 10 ms late, and is the limit; a link that cannot carry more is none.
#[test]
fn a_caller_that_comes_late_is_told_from_a_link_that_is_slow() {
    for (bytes, step_us, is_late) in [(16, 100, false), (1024, 100, false), (16, 10_000, true)] {
        let config = CardConfig::full_mode(2, 1e6, bytes);
        let mut card = Card::new(&config).unwrap();
        let mut dma = Memory::new(&config, 4096);
        for now_us in (0..=100_000).step_by(step_us) {
            while !card.handle_time(now_us * 1000, &mut dma) {}
            dma.take(0, |_| ());
        }
        let behind = card.behind();
        assert_eq!(behind.generator_limited, is_late, "{behind:?}");
        let link_limited = card.account().triggers.held_by_link > 0;
        assert_eq!(link_limited, bytes == 1024);
    }
}

/// However much is due, a call has an end: 16 MiB and 100,000 triggers held back at most, here of 6 GiB and 100 million.
#[test]
fn the_work_of_a_call_is_bounded() {
    for (rate_hz, bytes) in [(1e5, 65_535), (1e8, 8), (1e8, 65_535)] {
        let mut config = CardConfig::full_mode(1, rate_hz, bytes);
        config.ttc.spread = Spread::Poisson;
        let mut card = Card::new(&config).unwrap();
        let mut dma = Memory::new(&config, 8192);
        for _ in 0..50 {
            let before = card.account();
            assert!(!card.handle_time(1_000_000_000, &mut dma));
            dma.take(0, |_| ());
            let after = card.account();
            let sent = after.chunks.in_dma.bytes - before.chunks.in_dma.bytes;
            assert!(sent < 16 << 20, "{sent} bytes");
            let held = after.triggers.held_by_link - before.triggers.held_by_link;
            assert!(held < 100_000, "{held} triggers");
        }
    }
}

/// The blocks of each E-link, without those that went out for the end alone.
fn blocks(config: &CardConfig, step_ns: u64) -> Vec<Vec<Vec<u8>>> {
    let (account, reader) = run(config, step_ns);
    reader.agrees_with(&account);
    reader
        .seen
        .values()
        .map(|seen| seen.blocks.clone())
        .collect()
}

#[test]
fn the_same_seed_makes_the_same_blocks_whenever_the_time_is_told() {
    let mut config = CardConfig::full_mode(4, 2e6, 16);
    config.ttc.spread = Spread::Poisson;
    config.ttc.to_host = Some(0);
    config.ttc.limit.events = Some(3000);
    config.block_timeout_ns = 20_000;
    for sizes in [uniform(8, 900), ChunkSizes::Fixed { bytes: 16 }] {
        (config.sizes, config.seed) = (sizes, 1);
        let once = blocks(&config, 1_000_000);
        assert_eq!(blocks(&config, 1_000_000), once);
        assert_eq!(blocks(&config, 777), once);
        config.seed = 2;
        assert_ne!(blocks(&config, 1_000_000), once);
    }
}

#[test]
fn sequence_numbers_count_the_blocks_of_each_e_link() {
    let mut config = CardConfig::full_mode(2, 1e6, 500);
    config.ttc.limit.events = Some(1000);
    let (_, reader) = run(&config, 10_000);
    for seen in reader.seen.values() {
        assert!(seen.blocks.len() > 64);
        for (n, block) in seen.blocks.iter().enumerate() {
            let head = BlockHead::from_word(u32::from_le_bytes(block[..4].try_into().unwrap()));
            assert_eq!(usize::from(head.sequence), n % 32);
            assert_eq!(head.marker, config.format.marker());
        }
    }
}

#[test]
fn a_chunk_that_a_queue_cannot_hold_is_cut_off_and_the_next_is_dropped() {
    // XOFF comes too late for chunks that are larger than what is left then.
    let mut config = CardConfig::full_mode(1, 1e4, 3000);
    config.fifo.bytes = 4096;
    config.fifo.xoff_sixteenths = 15;
    let stall = |step| if step < 300 { 0 } else { usize::MAX };
    config.ttc.limit.events = Some(400);
    let (account, reader) = run_with(&config, 10_000, 4, stall);
    let elink = account.elinks[0];
    assert_eq!(elink.truncated, 1);
    reader.agrees_with(&account);
    let lost: u64 = account.chunks.dropped.total().bytes;
    assert_eq!(
        account.chunks.in_dma.bytes + lost,
        account.chunks.made.bytes
    );
    assert_eq!(elink.chunks.in_dma.items, account.triggers.accepted);
}

#[test]
fn sampled_triggers_are_told_with_the_time_at_which_they_were_due() {
    // More than the link can carry: BUSY holds triggers back, and those that are given have numbers without gaps.
    let mut config = CardConfig::full_mode(1, 1e6, 1024);
    config.ttc.limit.duration_ns = Some(5_000_000);
    config.ttc.to_host = Some(0);
    let mut card = Card::new(&config).unwrap();
    assert_eq!(card.take_sampled(), None);
    card.sample_triggers(256.try_into().unwrap());
    let mut dma = Memory::new(&config, 4096);
    let mut reader = Reader::new(&config);
    let (mut sampled, mut now_ns, mut busy_ns) = (Vec::new(), 0, 0);
    while !card.is_finished() {
        while !card.handle_time(now_ns, &mut dma) {}
        reader.read(&mut dma, usize::MAX);
        while let Some((number, due_ns)) = card.take_sampled() {
            assert!(
                due_ns <= now_ns,
                "{number} was due at {due_ns}, and it is {now_ns}"
            );
            sampled.push((number, due_ns));
        }
        busy_ns = card.busy_ns().max(busy_ns);
        now_ns += 10_000;
    }
    let account = card.account();
    assert!(account.triggers.held_by_link > 0);
    let expected: Vec<u64> = (0..account.triggers.accepted).step_by(256).collect();
    let numbers: Vec<u64> = sampled.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, expected);
    assert!(sampled.is_sorted_by_key(|(_, due_ns)| *due_ns));
    assert_eq!(sampled[0].1, 0);
    assert_eq!(
        (card.busy_ns(), busy_ns),
        (account.triggers.busy_ns, account.triggers.busy_ns)
    );
}

#[test]
fn busy_that_lasts_is_in_its_time() {
    let mut config = CardConfig::full_mode(1, 1e5, 64);
    config.ttc.limit.events = Some(100_000);
    let mut card = Card::new(&config).unwrap();
    // Nobody reads: the DMA buffer, the queues and then BUSY.
    let mut dma = Memory::new(&config, 2);
    let at = |card: &mut Card, dma: &mut Memory, now_ns| {
        while !card.handle_time(now_ns, dma) {}
        card.busy_ns()
    };
    let begun = at(&mut card, &mut dma, 500_000_000);
    assert!(begun > 0);
    assert_eq!(at(&mut card, &mut dma, 600_000_000), begun + 100_000_000);
    assert_eq!(card.account().triggers.busy_ns, card.busy_ns());
}

#[test]
fn of_sampled_triggers_that_nobody_takes_the_oldest_go() {
    let mut config = CardConfig::full_mode(1, 1e6, 8);
    config.ttc.limit.events = Some(3000);
    let mut card = Card::new(&config).unwrap();
    card.sample_triggers(1.try_into().unwrap());
    let mut dma = Memory::new(&config, 4096);
    while !card.handle_time(4_000_000, &mut dma) {}
    let first = card.take_sampled().unwrap();
    assert_eq!(first.0, 3000 - SAMPLED_MOST as u64);
    let others = std::iter::from_fn(|| card.take_sampled()).count();
    assert_eq!(others + 1, SAMPLED_MOST);
}
