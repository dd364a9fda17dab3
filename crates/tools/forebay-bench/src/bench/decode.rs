//! What a chunk costs the decoder of link readout: blocks from more memory than caches hold, into network buffers or as references; beside a loop that does the
//! same work and checks nothing, and beside copying the same bytes.

use std::hint::black_box;

use anyhow::{Context, Result};
use forebay_readout::{Bytes, Chunk, Config, Decoder, FETCHED_BLOCKS, Payload};
use forebay_ring::prefetch;
use forebay_sys::clock::thread_cpu_ns;
use forebay_wire::felix::{BLOCK_HEAD_BYTES, BlockFormat, BlockWriter, Elink, Fid, Flags};
use forebay_wire::netio3::{BufferWriter, HEAD_BYTES_MAX};

/// Links of a card in FULL mode.
pub(super) const LINKS: u16 = 12;
/// Blocks of the usual size, and the largest that cards make.
const BLOCK_BYTES: usize = 4096;
pub(super) const LARGE_BLOCK_BYTES: usize = 16_384;
const RING_BYTES: usize = 64 << 20;
const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS: usize = 64;
/// Least CPU time of a run, in ns.
const RUN_NS: u64 = 100_000_000;

/// A DMA buffer, full of chunks of one size, on E-links in turn.
pub(super) struct Ring {
    memory: Vec<u8>,
    format: BlockFormat,
    /// Chunks that end in it.
    chunks: u64,
}

impl Ring {
    pub(super) const BYTES: u64 = RING_BYTES as u64;

    /// Chunks of `chunk_bytes`, on 12 links or on so many E-links as `elinks` says, up to 2,048.
    pub(super) fn full_of(chunk_bytes: usize, elinks: u16) -> Result<Self> {
        Self::of_blocks(BLOCK_BYTES, chunk_bytes, elinks)
    }

    /// The same in blocks of so many bytes.
    pub(super) fn of_blocks(block_bytes: usize, chunk_bytes: usize, elinks: u16) -> Result<Self> {
        let format = BlockFormat::phase2(block_bytes).context("there is no such block")?;
        let mut memory = vec![0; RING_BYTES];
        let chunk: Vec<u8> = (0..chunk_bytes).map(|at| at as u8).collect();
        let mut chunks = 0;
        let mut done = vec![0; usize::from(elinks)];
        for (number, block) in memory.chunks_exact_mut(block_bytes).enumerate() {
            let link = number % usize::from(elinks);
            let sequence = (number / usize::from(elinks) % 32) as u8;
            let elink = if elinks == LINKS {
                Elink::of_link(link as u16)
            } else {
                Elink::new(link as u16)
            };
            let elink = elink.context("there is no such E-link")?;
            let mut block = BlockWriter::begin(format, elink, sequence, block)
                .context("a block of another size")?;
            while let Some(now) = block.push(&chunk, done[link], Flags::NONE) {
                done[link] = now % chunk_bytes;
                chunks += u64::from(now == chunk_bytes);
                if block.room().is_none_or(|room| room == 0) {
                    break;
                }
            }
            block.close();
        }
        Ok(Self {
            memory,
            format,
            chunks,
        })
    }

    /// Each block, and the one after it, which is asked for while this one is decoded: its words are met from the end, one after the other, and each of
    /// them would be waited for.
    fn blocks(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let blocks = self.memory.chunks_exact(self.format.bytes());
        let next = blocks.clone().skip(1).chain([&[][..]]);
        blocks.zip(next)
    }

    fn decoder(&self) -> Result<Decoder> {
        Ok(Decoder::new(self.format, &Config::default())?)
    }

    /// CPU time of `pass` over the ring, in ns for one of its chunks: as many passes as it takes to be long enough, after one that does not count.
    pub(super) fn ns_per_chunk(&self, pass: impl FnMut(&Self) -> Result<u64>) -> Result<f64> {
        Ok(self.ns_per_pass(pass)? / self.chunks as f64)
    }

    /// The same for the whole ring.
    pub(super) fn ns_per_pass(&self, mut pass: impl FnMut(&Self) -> Result<u64>) -> Result<f64> {
        black_box(pass(self)?);
        let (begun_ns, mut passes) = (thread_cpu_ns(), 0);
        loop {
            black_box(pass(self)?);
            passes += 1;
            let taken_ns = thread_cpu_ns() - begun_ns;
            if taken_ns >= RUN_NS {
                return Ok(taken_ns as f64 / f64::from(passes));
            }
        }
    }
}

/// Network buffers that are filled in turn, as a connection's are.
pub(super) struct Buffers {
    memory: Vec<u8>,
    at: usize,
}

impl Buffers {
    pub(super) fn new() -> Self {
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

/// The decoder, its chunks joined and copied into network buffers.
pub(super) fn into_buffers(ring: &Ring, buffers: &mut Buffers) -> Result<u64> {
    let mut decoder = ring.decoder()?;
    let mut buffer = BufferWriter::new(buffers.next());
    for (block, next) in ring.blocks() {
        prefetch(next);
        decoder.handle_block(block)?;
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
    Ok(decoder.account().chunks)
}

/// The decoder, its chunks looked up and left where they lie: whole blocks fetched ahead where a good part of their chunks lies in two of them and is joined,
/// else their words alone, as to-host does.
pub(super) fn references(ring: &Ring) -> Result<u64> {
    let mut decoder = ring.decoder()?;
    let look = |chunk: Chunk<'_, &[u8]>| {
        black_box((chunk.elink, chunk.status, chunk.payload.len()));
        true
    };
    if !Decoder::is_worth_fetching_words(ring.format) {
        for (block, next) in ring.blocks() {
            prefetch(next);
            decoder.handle_block(block)?;
            decoder.poll(block, look);
        }
        return Ok(decoder.account().chunks);
    }
    let blocks: Vec<&[u8]> = ring.memory.chunks_exact(ring.format.bytes()).collect();
    for some in blocks.chunks(FETCHED_BLOCKS) {
        decoder.fetch_words(some);
        for block in some {
            decoder.handle_block(*block)?;
            decoder.poll(*block, look);
        }
    }
    Ok(decoder.account().chunks)
}

/// The same work as [`into_buffers`] on [`LINKS`] links, without a check of anything and without a count: words from the end, data from the beginning.
pub(super) fn bare_into_buffers(ring: &Ring, buffers: &mut Buffers) -> Result<u64> {
    let mut words = [0_u32; 1024];
    let mut open: [Vec<u8>; LINKS as usize] = Default::default();
    let mut buffer = buffers.next();
    let mut to = 0;
    for (block, next) in ring.blocks() {
        prefetch(next);
        let link = usize::from(block[0]) >> 6 | (usize::from(block[1]) & 7) << 2;
        let mut at = block.len();
        let mut count = 0;
        while at > BLOCK_HEAD_BYTES {
            let word = block.u32_le(at - 4).context("a word outside")?;
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
    Ok(to as u64)
}

/// The ring's bytes, into the network buffers in turn.
pub(super) fn memcpy(ring: &Ring, buffers: &mut Buffers) -> Result<u64> {
    for piece in ring.memory.chunks_exact(BUFFER_BYTES) {
        black_box(buffers.next()).copy_from_slice(black_box(piece));
    }
    Ok(Ring::BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_meets_every_chunk() {
        for (chunk_bytes, elinks) in [(16, LINKS), (5000, LINKS), (16, 2048)] {
            let ring = Ring::full_of(chunk_bytes, elinks).unwrap();
            let mut buffers = Buffers::new();
            // A block has a head, and a few chunks are not ended.
            assert!(ring.chunks > Ring::BYTES / (chunk_bytes as u64 * 11 / 10 + 8));
            assert_eq!(references(&ring).unwrap(), ring.chunks);
            assert_eq!(into_buffers(&ring, &mut buffers).unwrap(), ring.chunks);
        }
        let ring = Ring::of_blocks(LARGE_BLOCK_BYTES, 1000, LINKS).unwrap();
        assert_eq!(references(&ring).unwrap(), ring.chunks);
    }

    #[test]
    fn the_bare_loop_leaves_the_last_chunk_where_the_decoder_would() {
        let ring = Ring::full_of(1000, LINKS).unwrap();
        let mut buffers = Buffers::new();
        let to = bare_into_buffers(&ring, &mut buffers).unwrap() as usize;
        let last = (buffers.at + BUFFERS - 1) % BUFFERS * BUFFER_BYTES + to;
        let chunk: Vec<u8> = (0..1000).map(|at| at as u8).collect();
        assert_eq!(buffers.memory[last - 1000..last], chunk);
        assert_eq!(
            buffers.memory[last - 1004..last - 1000],
            1000_u32.to_le_bytes()
        );
    }
}
