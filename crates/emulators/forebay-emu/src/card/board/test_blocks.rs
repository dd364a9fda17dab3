//! Blocks with a pattern, which go the way of data through the DMA buffers.

use forebay_wire::felix::board::{Pattern, TEST_ELINK};
use forebay_wire::felix::{BlockHead, Elink};

use super::config::BoardConfig;
use super::defect::{Defect, Fault};
use crate::card::Dma;

#[derive(Debug, Clone, Copy, Default)]
struct Buffer {
    /// How many were asked for, and are made.
    asked: u64,
    made: u64,
    interrupts: u64,
}

/// What registers ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) pattern: Pattern,
    pub(super) seed: u32,
    /// Buffers that take test blocks.
    pub(super) hold: u64,
}

#[derive(Debug, Clone)]
pub(super) struct TestBlocks {
    buffers: Vec<Buffer>,
    /// Bytes that could have been written and were not yet.
    budget: f64,
    scratch: Vec<u8>,
}

impl TestBlocks {
    pub(super) fn new(buffers: usize) -> Self {
        Self {
            buffers: vec![Buffer::default(); buffers],
            budget: 0.0,
            scratch: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, buffer: usize, blocks: u64) {
        if let Some(buffer) = self.buffers.get_mut(buffer) {
            (buffer.asked, buffer.made) = (blocks, 0);
        }
    }

    pub(super) fn left(&self, buffer: usize) -> u64 {
        self.buffers
            .get(buffer)
            .map_or(0, |buffer| buffer.asked - buffer.made)
    }

    pub(super) fn take_interrupts(&mut self, buffer: usize) -> u64 {
        self.buffers
            .get_mut(buffer)
            .map_or(0, |buffer| std::mem::take(&mut buffer.interrupts))
    }

    pub(super) fn advance(&mut self, ns: u64, ask: &Ask, config: &BoardConfig, dma: &mut impl Dma) {
        let share = |fault: &Fault| match fault.defect {
            Defect::SlowMemory { share } => Some(share),
            _ => None,
        };
        let share = config.faults.iter().filter_map(share).fold(1.0, f64::min);
        let block_bytes = config.format.bytes();
        self.budget += ns as f64 * 1e-9 * config.dma_bytes_per_s * share;
        let mut has_written = true;
        while has_written && self.budget >= block_bytes as f64 {
            has_written = false;
            for buffer in 0..self.buffers.len() {
                if ask.hold >> buffer & 1 == 1
                    && self.left(buffer) > 0
                    && self.budget >= block_bytes as f64
                    && self.write(buffer, ask, config, dma)
                {
                    has_written = true;
                    self.budget -= block_bytes as f64;
                }
            }
        }
        // What was not asked for cannot be made up for.
        self.budget = self.budget.min(block_bytes as f64);
        for (number, buffer) in self.buffers.iter_mut().enumerate() {
            let silent = Defect::NoInterrupt {
                buffer: number as u8,
            };
            if config.faults.iter().any(|fault| fault.defect == silent) {
                buffer.interrupts = 0;
            }
            buffer.interrupts = buffer.interrupts.min(1);
        }
    }

    /// One block; false when the buffer has no room.
    fn write(
        &mut self,
        buffer: usize,
        ask: &Ask,
        config: &BoardConfig,
        dma: &mut impl Dma,
    ) -> bool {
        let number = self.buffers[buffer].made;
        let of_buffer = |fault: &&Fault| fault.defect.buffer() == Some(buffer);
        let faults = config.faults.iter().filter(of_buffer);
        let is_lost = faults.clone().any(|fault| match fault.defect {
            Defect::LostBlocks { every, .. } => number % every == every - 1,
            _ => false,
        });
        if is_lost {
            self.buffers[buffer].made += 1;
            return true;
        }
        let Some(memory) = dma.reserve(buffer) else {
            return false;
        };
        self.scratch.resize(config.format.bytes(), 0);
        let block = &mut self.scratch[..];
        let head = BlockHead {
            marker: config.format.marker(),
            sequence: (number % u64::from(BlockHead::SEQUENCES)) as u8,
            elink: Elink::new(TEST_ELINK).unwrap_or_default(),
        };
        head.emit(block);
        ask.pattern.fill(ask.seed, number, block);
        let mut line = None;
        for fault in faults {
            match fault.defect {
                Defect::StuckDataBit { bit, high, .. } => {
                    let (byte, bit) = (usize::from(bit / 8), bit % 8);
                    for word in block.chunks_exact_mut(4) {
                        if high {
                            word[byte] |= 1 << bit;
                        } else {
                            word[byte] &= !(1 << bit);
                        }
                    }
                }
                Defect::StuckDmaLine { line: of, high, .. } => line = Some((of, high)),
                _ => {}
            }
        }
        match line {
            Some((line, high)) => scatter(block, memory, 1 << line, high),
            None => memory[..block.len()].copy_from_slice(block),
        }
        dma.commit(buffer);
        let buffer = &mut self.buffers[buffer];
        buffer.made += 1;
        buffer.interrupts += 1;
        true
    }
}

/// Writes words to where they go when a line of the address stays as it is: two of them to each place, of which the second stays.
fn scatter(block: &[u8], memory: &mut [u8], line: usize, high: bool) {
    for (word, bytes) in block.chunks_exact(4).enumerate() {
        let at = 4 * word;
        let at = if high { at | line } else { at & !line };
        if let Some(place) = memory.get_mut(at..at + 4) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Defect {
    /// The DMA buffer in which it is.
    fn buffer(&self) -> Option<usize> {
        match *self {
            Self::StuckDataBit { buffer, .. }
            | Self::StuckDmaLine { buffer, .. }
            | Self::LostBlocks { buffer, .. }
            | Self::NoInterrupt { buffer } => Some(usize::from(buffer)),
            _ => None,
        }
    }
}
