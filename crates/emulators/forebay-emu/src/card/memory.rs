//! DMA buffers in memory of one's own, for tests and benches.

use std::collections::VecDeque;

use super::{CardConfig, Dma};

/// DMA buffers of equal size whose reader is in the same thread.
#[derive(Debug, Clone)]
pub struct Memory {
    block_bytes: usize,
    buffers: Vec<Ring>,
}

#[derive(Debug, Clone)]
struct Ring {
    free: Vec<Box<[u8]>>,
    filled: VecDeque<Box<[u8]>>,
    blocks: u64,
}

impl Memory {
    /// The buffers of a card, each with so many blocks.
    #[must_use]
    pub fn new(config: &CardConfig, blocks: usize) -> Self {
        let block_bytes = config.format.bytes();
        let ring = Ring {
            free: vec![vec![0; block_bytes].into(); blocks],
            filled: VecDeque::new(),
            blocks: blocks as u64,
        };
        Self {
            block_bytes,
            buffers: vec![ring; config.buffers],
        }
    }

    /// Reads all blocks of a buffer: how many there were.
    pub fn take(&mut self, buffer: usize, read: impl FnMut(&[u8])) -> usize {
        self.take_some(buffer, usize::MAX, read)
    }

    /// Reads at most so many.
    pub fn take_some(&mut self, buffer: usize, most: usize, mut read: impl FnMut(&[u8])) -> usize {
        let Some(ring) = self.buffers.get_mut(buffer) else {
            return 0;
        };
        let count = ring.filled.len().min(most);
        for block in ring.filled.drain(..count) {
            read(&block);
            ring.free.push(block);
        }
        count
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}

impl Dma for Memory {
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]> {
        self.buffers
            .get_mut(buffer)?
            .free
            .last_mut()
            .map(|block| &mut **block)
    }

    fn commit(&mut self, buffer: usize) {
        if let Some(ring) = self.buffers.get_mut(buffer)
            && let Some(block) = ring.free.pop()
        {
            ring.filled.push_back(block);
        }
    }

    fn free_blocks(&mut self, buffer: usize) -> u64 {
        self.buffers
            .get(buffer)
            .map_or(0, |ring| ring.free.len() as u64)
    }

    fn blocks(&self, buffer: usize) -> u64 {
        self.buffers.get(buffer).map_or(0, |ring| ring.blocks)
    }
}
