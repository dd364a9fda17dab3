//! BUSY by DMA buffers: two marks of their free blocks.

use super::Dma;
use super::config::FrontEnd;

/// Which DMA buffers have too few free blocks. Room is looked for when the card is told the time, and behind each batch of triggers.
#[derive(Debug, Clone)]
pub(super) struct DmaMarks {
    on: u64,
    off: u64,
    low: Vec<bool>,
    /// How often each of them came below the mark.
    pub(super) times: Vec<u64>,
}

impl DmaMarks {
    pub(super) fn new(config: &FrontEnd, buffers: usize) -> Self {
        Self {
            on: config.busy_on_free_blocks,
            off: config.busy_off_free_blocks,
            low: vec![false; buffers],
            times: vec![0; buffers],
        }
    }

    /// Whether one of them asked for BUSY when it was looked at last.
    pub(super) fn is_low(&self) -> bool {
        self.low.contains(&true)
    }

    /// Looks at them: whether one of them asks for BUSY.
    pub(super) fn look(&mut self, dma: &mut impl Dma) -> bool {
        if self.on == 0 {
            return false;
        }
        let buffers = self.low.iter_mut().zip(&mut self.times).enumerate();
        for (buffer, (low, times)) in buffers {
            // More than there are would never be free.
            let off = self.off.min(dma.blocks(buffer));
            let mark = if *low { off } else { self.on.min(off) };
            let is_low = dma.free_blocks(buffer) < mark;
            *times += u64::from(is_low && !*low);
            *low = is_low;
        }
        self.is_low()
    }

    /// Blocks that are free above the mark, in the buffer that has the fewest.
    pub(super) fn room(&self, dma: &mut impl Dma) -> u64 {
        if self.on == 0 {
            return u64::MAX;
        }
        let buffers = 0..self.low.len();
        let free = buffers.map(|buffer| dma.free_blocks(buffer));
        free.min().unwrap_or(0).saturating_sub(self.on)
    }
}
