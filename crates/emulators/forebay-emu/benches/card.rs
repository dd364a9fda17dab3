//! The card alone, as fast as it gets: chunks of 12 links into DMA buffers in memory, beside a memcpy of the same blocks.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use forebay_emu::card::{Card, CardConfig, ChunkSizes, Dma};

fn main() {
    divan::main();
}

const LINKS: u16 = 12;
const SIZES: [u32; 4] = [16, 64, 256, 1024];
const RING_BYTES: usize = 64 << 20;

/// A ring that is always free: what a card does when its reader keeps up.
struct Ring {
    memory: Vec<u8>,
    at: usize,
    block_bytes: usize,
}

impl Ring {
    fn new(block_bytes: usize) -> Self {
        Self {
            memory: vec![0; RING_BYTES],
            at: 0,
            block_bytes,
        }
    }
}

impl Dma for Ring {
    fn reserve(&mut self, _: usize) -> Option<&mut [u8]> {
        self.memory.get_mut(self.at..self.at + self.block_bytes)
    }

    fn commit(&mut self, _: usize) {
        self.at = (self.at + self.block_bytes) % RING_BYTES;
    }

    fn free_blocks(&mut self, _: usize) -> u64 {
        1
    }

    fn blocks(&self, _: usize) -> u64 {
        1
    }
}

fn measure(bencher: Bencher<'_, '_>, mut config: CardConfig, mean_bytes: u64) {
    let triggers = (256 << 20) / (mean_bytes + 16) / u64::from(LINKS);
    config.ttc.limit.events = Some(triggers);
    let chunks = triggers * u64::from(LINKS);
    let mut ring = Ring::new(config.format.bytes());
    bencher
        .counter(ItemsCount::new(chunks))
        .counter(BytesCount::new(chunks * mean_bytes))
        .bench_local(|| {
            let mut card = Card::new(&config).expect("sound");
            let mut now_ns = 0;
            while !card.is_finished() {
                if card.handle_time(now_ns, &mut ring) {
                    now_ns += 50_000;
                }
            }
            let account = card.account();
            assert_eq!(account.chunks.in_dma.items, chunks);
            black_box(account)
        });
}

/// As many triggers as the links carry, and no more.
fn rate_hz(bytes: u32) -> f64 {
    0.95 * 240e6 / f64::from(bytes.div_ceil(4) + 3)
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn card_fixed(bencher: Bencher<'_, '_>, bytes: u32) {
    let config = CardConfig::full_mode(LINKS, rate_hz(bytes), bytes);
    measure(bencher, config, u64::from(bytes));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn card_at_1_mhz_told_to_the_host(bencher: Bencher<'_, '_>, bytes: u32) {
    let mut config = CardConfig::full_mode(LINKS - 1, 1e6, bytes);
    config.ttc.to_host = Some(0);
    measure(bencher, config, u64::from(bytes));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn card_uniform(bencher: Bencher<'_, '_>, bytes: u32) {
    let mut config = CardConfig::full_mode(LINKS, rate_hz(bytes) * 0.95, bytes);
    config.sizes = ChunkSizes::Uniform {
        min_bytes: bytes / 2,
        max_bytes: bytes * 3 / 2,
    };
    measure(bencher, config, u64::from(bytes));
}

/// The ring's bytes, block by block, from memory that caches hold.
#[divan::bench(sample_count = 5)]
fn memcpy_of_blocks(bencher: Bencher<'_, '_>) {
    let mut ring = Ring::new(4096);
    let from = vec![1; 12 * 4096];
    bencher
        .counter(BytesCount::new(RING_BYTES))
        .bench_local(|| {
            for n in 0..RING_BYTES / 4096 {
                let block = &black_box(&from)[n % 12 * 4096..][..4096];
                ring.reserve(0).expect("always free").copy_from_slice(block);
                ring.commit(0);
            }
        });
}
