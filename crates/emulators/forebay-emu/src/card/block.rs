//! Blocks under construction: one for each E-link, copied into the DMA buffer when it goes out.

use forebay_wire::felix::{
    BLOCK_HEAD_BYTES, BlockFormat, BlockHead, BlockWriter, Elink, Flags, Kind, Layout, Subchunk,
};

use super::Dma;
use super::account::{CardLoss, Lost};
use super::payload::{Chunk, End, Payload, SLACK_BYTES, Spoil};
use crate::totals::Amount;

/// Why a block went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Full,
    Time,
    Last,
}

/// Blocks of an E-link that went into the DMA buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blocks {
    /// They were full.
    pub full: u64,
    /// They had waited as long as they may, and were filled up.
    pub timed_out: u64,
    /// They were open when the run ended, and were filled up.
    pub last: u64,
    /// They did not go out, by a fault.
    pub lost: u64,
}

/// Puts the chunks of an E-link into blocks.
#[derive(Debug, Clone)]
pub(super) struct Builder {
    pub(super) format: BlockFormat,
    elink: Elink,
    buffer: usize,
    pub(super) payload: Payload,
    timeout: u64,
    /// The open block, and a bit more.
    pub(super) memory: Box<[u8]>,
    /// Bytes of it that are filled; 0 when none is open.
    pub(super) filled: usize,
    sequence: u8,
    /// When it goes out though it is not full; never when none is open.
    pub(super) deadline: u64,
    /// Chunks that end in it, and bytes of chunks.
    pub(super) open: Amount,
    pub(super) out: Amount,
    /// What is wrong with the open block, and what blocks of which something was wrong have cost.
    spoil: Spoil,
    random: u8,
    lost: Lost,
    pub(super) blocks: Blocks,
}

impl Builder {
    pub(super) fn new(
        format: BlockFormat,
        elink: Elink,
        buffer: usize,
        payload: Payload,
        timeout: u64,
    ) -> Self {
        Self {
            format,
            elink,
            buffer,
            payload,
            timeout,
            memory: vec![0; format.bytes() + SLACK_BYTES].into(),
            filled: 0,
            sequence: 0,
            deadline: u64::MAX,
            open: Amount::default(),
            out: Amount::default(),
            spoil: Spoil::default(),
            random: 0,
            lost: Default::default(),
            blocks: Blocks::default(),
        }
    }

    /// Whether nothing more fits into the open block, which waits for the DMA buffer.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.filled + self.format.layout().word_bytes() >= self.format.bytes()
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.filled > 0
    }

    fn begin(&mut self, now: u64) {
        let head = BlockHead {
            marker: self.format.marker(),
            sequence: self.sequence,
            elink: self.elink,
        };
        head.emit(&mut self.memory);
        self.filled = BLOCK_HEAD_BYTES;
        self.sequence = (self.sequence + 1) % BlockHead::SEQUENCES;
        self.deadline = now.saturating_add(self.timeout);
    }

    /// Puts a chunk into blocks, from its byte `done` on: how far that got, and whether it is all. It is not when the DMA buffer is full.
    pub(super) fn place(
        &mut self,
        chunk: &Chunk,
        mut done: usize,
        now: u64,
        dma: &mut impl Dma,
    ) -> (usize, bool) {
        let mut is_all = false;
        while !is_all {
            if self.is_full() && !self.let_go(Why::Full, dma) {
                break;
            }
            if !self.is_open() {
                self.begin(now);
            }
            let end = self.format.bytes();
            let memory = &mut self.memory[..end];
            let Some(mut block) = BlockWriter::resume(self.format, memory, self.filled) else {
                break;
            };
            let room = block.room().unwrap_or(0);
            let rest = chunk.bytes - done;
            is_all = rest <= room;
            let ends = is_all && chunk.end != End::Never;
            let taken = rest.min(room);
            let (kind, flags) = match (done == 0, ends) {
                (true, true) => (Kind::Both, chunk.flags),
                (true, false) => (Kind::First, Flags::NONE),
                (false, true) if chunk.end == End::Timeout => (Kind::Timeout, chunk.flags),
                (false, true) => (Kind::Last, chunk.flags),
                (false, false) => (Kind::Middle, Flags::NONE),
            };
            if let Some(to) = block.reserve(kind, flags, taken) {
                self.payload.emit(chunk, done, to);
            }
            self.filled = block.filled();
            done += taken;
            self.open.add((u64::from(ends), taken as u64));
            if is_all {
                self.spoil.add(chunk.spoil);
                self.random ^= chunk.random;
            }
        }
        if self.is_full() {
            self.let_go(Why::Full, dma);
        }
        (done, is_all)
    }

    /// Copies the open block into the DMA buffer, filled up; false, and nothing done, when that has no room.
    pub(super) fn let_go(&mut self, why: Why, dma: &mut impl Dma) -> bool {
        if self.spoil.lost {
            self.blocks.lost += 1;
            self.end(Some(CardLoss::LostBlock));
            return true;
        }
        let Some(to) = dma.reserve(self.buffer) else {
            return false;
        };
        let memory = &mut self.memory[..self.format.bytes()];
        if let Some(block) = BlockWriter::resume(self.format, memory, self.filled) {
            block.close();
        }
        let mut loss = None;
        if self.spoil != Spoil::default() {
            loss = self.spoil();
        }
        let memory = &self.memory[..self.format.bytes()];
        to.copy_from_slice(memory);
        dma.commit(self.buffer);
        match why {
            Why::Full => self.blocks.full += 1,
            Why::Time => self.blocks.timed_out += 1,
            Why::Last => self.blocks.last += 1,
        }
        self.end(loss);
        true
    }

    /// Nothing is open any more; what was in the block is lost, or out.
    fn end(&mut self, loss: Option<CardLoss>) {
        let open = std::mem::take(&mut self.open);
        match loss {
            Some(loss) => self.lost[loss] += open,
            None => self.out += open,
        }
        self.filled = 0;
        self.deadline = u64::MAX;
        self.spoil = Spoil::default();
        self.random = 0;
    }

    /// Spoils the block that goes out: for what reason its content is lost, if it is.
    #[cold]
    fn spoil(&mut self) -> Option<CardLoss> {
        let end = self.format.bytes();
        if self.spoil.jumps
            && let Some(mut head) = BlockHead::of(&self.memory)
        {
            head.sequence = (head.sequence + 1 + self.random % 31) % BlockHead::SEQUENCES;
            self.sequence = (head.sequence + 1) % BlockHead::SEQUENCES;
            head.emit(&mut self.memory);
        }
        if self.spoil.marker
            && let Some(mut head) = BlockHead::of(&self.memory)
        {
            head.marker ^= 0x00ff;
            head.emit(&mut self.memory);
            return Some(CardLoss::WrongMarker);
        }
        if !self.spoil.trailer {
            return None;
        }
        // More than any block has.
        let word = Subchunk {
            kind: Kind::Both,
            flags: Flags::NONE,
            bytes: 0xffff,
        };
        let layout = self.format.layout();
        let word_at = match layout {
            Layout::Trailers16 | Layout::Trailers32 => end - layout.word_bytes(),
            Layout::Headers32 => BLOCK_HEAD_BYTES,
        };
        word.emit(layout, &mut self.memory[word_at..]);
        Some(CardLoss::BadTrailer)
    }

    /// Adds what was lost here to what was lost elsewhere.
    pub(super) fn add_lost(&self, mut dropped: Lost) -> Lost {
        dropped.add(&self.lost);
        dropped
    }
}
