//! What a chunk costs: blocks of 12 E-links in turn, from more memory than caches hold, into network buffers or as references; beside a loop that does the
//! same work and checks nothing, and beside copying the same bytes.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use forebay_readout::{Bytes, Chunk, Config, Decoder, Payload};
use forebay_ring::prefetch;
use forebay_wire::felix::{BLOCK_HEAD_BYTES, BlockFormat, BlockWriter, Elink, Fid, Flags};
use forebay_wire::netio3::{BufferWriter, HEAD_BYTES_MAX};

fn main() {
    divan::main();
}

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16_384];
const LINKS: u16 = 12;
const RING_BYTES: usize = 64 << 20;
const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS: usize = 64;

fn format() -> BlockFormat {
    BlockFormat::phase2(4096).expect("a size that there is")
}

/// A DMA buffer, full of chunks of one size, and how many of them end in it.
fn ring(chunk_bytes: usize) -> (Vec<u8>, u64) {
    let format = format();
    let mut ring = vec![0; RING_BYTES];
    let chunk: Vec<u8> = (0..chunk_bytes).map(|at| at as u8).collect();
    let mut chunks = 0;
    let mut done = [0; LINKS as usize];
    for (number, block) in ring.chunks_exact_mut(format.bytes()).enumerate() {
        let link = number % usize::from(LINKS);
        let sequence = (number / usize::from(LINKS) % 32) as u8;
        let elink = Elink::of_link(link as u16).expect("a link");
        let mut block = BlockWriter::begin(format, elink, sequence, block).expect("its size");
        while let Some(now) = block.push(&chunk, done[link], Flags::NONE) {
            done[link] = now % chunk_bytes;
            chunks += u64::from(now == chunk_bytes);
            if block.room().is_none_or(|room| room == 0) {
                break;
            }
        }
        block.close();
    }
    (ring, chunks)
}

/// Each block, and the one after it, which is asked for while this one is decoded: its words are met from the end, one after the other, and each of
/// them would be waited for.
fn blocks(ring: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let blocks = ring.chunks_exact(format().bytes());
    let next = blocks.clone().skip(1).chain([&[][..]]);
    blocks.zip(next)
}

/// Network buffers that are filled in turn, as a connection's are.
struct Buffers {
    memory: Vec<u8>,
    at: usize,
}

impl Buffers {
    fn new() -> Self {
        Self {
            memory: vec![0; BUFFERS * BUFFER_BYTES],
            at: 0,
        }
    }

    fn next(&mut self) -> &mut [u8] {
        let at = self.at * BUFFER_BYTES;
        self.at = (self.at + 1) % BUFFERS;
        &mut self.memory[at..at + BUFFER_BYTES]
    }
}

#[divan::bench(args = SIZES, sample_count = 9)]
fn decoder_into_buffers(bencher: Bencher<'_, '_>, chunk_bytes: usize) {
    let (ring, chunks) = ring(chunk_bytes);
    let mut buffers = Buffers::new();
    bencher
        .counter(ItemsCount::new(chunks))
        .counter(BytesCount::new(chunks * chunk_bytes as u64))
        .bench_local(|| {
            let mut decoder = Decoder::new(format(), &Config::default()).expect("sound");
            let mut buffer = BufferWriter::new(buffers.next());
            for (block, next) in blocks(&ring) {
                prefetch(next);
                decoder.handle_block(block).expect("a sound block");
                while !decoder.poll(block, |chunk| {
                    let tag = Fid::to_host(0, 0, chunk.elink).0;
                    let bytes = match chunk.payload {
                        Payload::Within(bytes) => bytes,
                        Payload::Joined(bytes) => bytes,
                    };
                    buffer.push(tag, chunk.status.0, bytes)
                }) {
                    buffer = BufferWriter::new(buffers.next());
                }
            }
            black_box(decoder.account().chunks)
        });
}

#[divan::bench(args = SIZES, sample_count = 9)]
fn decoder_references(bencher: Bencher<'_, '_>, chunk_bytes: usize) {
    let (ring, chunks) = ring(chunk_bytes);
    bencher
        .counter(ItemsCount::new(chunks))
        .counter(BytesCount::new(chunks * chunk_bytes as u64))
        .bench_local(|| {
            let mut decoder = Decoder::new(format(), &Config::default()).expect("sound");
            for (block, next) in blocks(&ring) {
                prefetch(next);
                decoder.handle_block(block).expect("a sound block");
                decoder.poll(block, |chunk: Chunk<'_, &[u8]>| {
                    black_box((chunk.elink, chunk.status, chunk.payload.len()));
                    true
                });
            }
            black_box(decoder.account().chunks)
        });
}

/// The same work without a check of anything and without a count: words from the end, data from the beginning.
#[divan::bench(args = SIZES, sample_count = 9)]
fn bare_into_buffers(bencher: Bencher<'_, '_>, chunk_bytes: usize) {
    let (ring, chunks) = ring(chunk_bytes);
    let mut buffers = Buffers::new();
    bencher
        .counter(ItemsCount::new(chunks))
        .counter(BytesCount::new(chunks * chunk_bytes as u64))
        .bench_local(|| {
            let mut words = [0_u32; 1024];
            let mut open: [Vec<u8>; LINKS as usize] = Default::default();
            let mut buffer = buffers.next();
            let mut to = 0;
            for (block, next) in blocks(&ring) {
                prefetch(next);
                let link = usize::from(block[0]) >> 6 | (usize::from(block[1]) & 7) << 2;
                let mut at = block.len();
                let mut count = 0;
                while at > BLOCK_HEAD_BYTES {
                    let word = block.u32_le(at - 4).expect("a word");
                    words[count & 1023] = word;
                    count += 1;
                    at -= 4 + (word as usize & 0xffff).next_multiple_of(4);
                }
                for word in words[..count].iter().rev() {
                    let bytes = *word as usize & 0xffff;
                    let data = &block[at..at + bytes];
                    at += bytes.next_multiple_of(4) + 4;
                    let kind = word >> 29;
                    let whole = match kind {
                        3 => data,
                        1 | 2 | 4 => {
                            open[link].extend_from_slice(data);
                            if kind != 2 {
                                continue;
                            }
                            &open[link]
                        }
                        _ => continue,
                    };
                    if to + whole.len() + HEAD_BYTES_MAX > buffer.len() {
                        buffer = buffers.next();
                        to = 0;
                    }
                    buffer[to..to + 4].copy_from_slice(&(whole.len() as u32).to_le_bytes());
                    buffer[to + 4..to + 4 + whole.len()].copy_from_slice(whole);
                    to += 4 + whole.len();
                    if kind == 2 {
                        open[link].clear();
                    }
                }
            }
            black_box(to)
        });
}

/// The ring's bytes, into the network buffers in turn.
#[divan::bench(sample_count = 9)]
fn memcpy_into_buffers(bencher: Bencher<'_, '_>) {
    let (ring, _) = ring(1024);
    let mut buffers = Buffers::new();
    bencher
        .counter(BytesCount::new(RING_BYTES))
        .bench_local(|| {
            for piece in ring.chunks_exact(BUFFER_BYTES) {
                black_box(buffers.next()).copy_from_slice(black_box(piece));
            }
        });
}
