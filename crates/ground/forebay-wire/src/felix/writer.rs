//! Blocks as the firmware of a card fills them.

use super::block::{BLOCK_HEAD_BYTES, BlockFormat, BlockHead};
use super::elink::Elink;
use super::subchunk::{Flags, Kind, Layout, Subchunk};

/// Fills one block with subchunks.
#[derive(Debug)]
pub struct BlockWriter<'a> {
    block: &'a mut [u8],
    layout: Layout,
    at: usize,
}

impl<'a> BlockWriter<'a> {
    /// Begins a block of an E-link in memory of the format's size; none when that has another one.
    #[must_use]
    pub fn begin(
        format: BlockFormat,
        elink: Elink,
        sequence: u8,
        block: &'a mut [u8],
    ) -> Option<Self> {
        if block.len() != format.bytes() {
            return None;
        }
        let head = BlockHead {
            marker: format.marker(),
            sequence,
            elink,
        };
        block[..BLOCK_HEAD_BYTES].copy_from_slice(&head.word().to_le_bytes());
        Some(Self {
            block,
            layout: format.layout(),
            at: BLOCK_HEAD_BYTES,
        })
    }

    /// Goes on in a block of which so many bytes are filled: what [`filled`](Self::filled) gave.
    #[must_use]
    pub fn resume(format: BlockFormat, block: &'a mut [u8], filled: usize) -> Option<Self> {
        let fits = (BLOCK_HEAD_BYTES..=block.len()).contains(&filled)
            && block.len() == format.bytes()
            && filled.is_multiple_of(format.layout().word_bytes());
        fits.then_some(Self {
            block,
            layout: format.layout(),
            at: filled,
        })
    }

    /// Bytes filled so far, the head included.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.at
    }

    /// Whether no subchunk is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == BLOCK_HEAD_BYTES
    }

    /// Most bytes of data that one more subchunk can have; none when there is no room for its word.
    #[must_use]
    pub fn room(&self) -> Option<usize> {
        let left = self.block.len() - self.at;
        let room = left.checked_sub(self.layout.word_bytes())?;
        Some(room.min(self.layout.data_bytes_max() & !(self.layout.word_bytes() - 1)))
    }

    /// Adds a subchunk whose data is yet to be written: its place. None, and nothing done, when it does not fit.
    pub fn reserve(&mut self, kind: Kind, flags: Flags, bytes: usize) -> Option<&mut [u8]> {
        if bytes > self.room()? || bytes > self.layout.data_bytes_max() {
            return None;
        }
        let subchunk = Subchunk {
            kind,
            flags,
            bytes: bytes as u16,
        };
        let word_bytes = self.layout.word_bytes();
        let padded = bytes.next_multiple_of(word_bytes);
        let data_at = match self.layout {
            Layout::Headers32 => self.at + word_bytes,
            Layout::Trailers16 | Layout::Trailers32 => self.at,
        };
        let word_at = match self.layout {
            Layout::Headers32 => self.at,
            Layout::Trailers16 | Layout::Trailers32 => self.at + padded,
        };
        subchunk.emit(self.layout, &mut self.block[word_at..word_at + word_bytes]);
        self.at += padded + word_bytes;
        let (data, padding) = self.block[data_at..data_at + padded].split_at_mut(bytes);
        padding.fill(0);
        Some(data)
    }

    /// Adds as much of a chunk as fits, behind the `done` bytes of it that earlier blocks have: how many are done now. None, and nothing done, when the block
    /// is to be [closed](Self::close) first. The flags go with its end.
    pub fn push(&mut self, chunk: &[u8], done: usize, flags: Flags) -> Option<usize> {
        let rest = &chunk[done.min(chunk.len())..];
        let room = self.room()?;
        let ends = rest.len() <= room;
        if !ends && room == 0 {
            return None;
        }
        let taken = rest.len().min(room);
        let (kind, flags) = match (done == 0, ends) {
            (true, true) => (Kind::Both, flags),
            (true, false) => (Kind::First, Flags::NONE),
            (false, true) => (Kind::Last, flags),
            (false, false) => (Kind::Middle, Flags::NONE),
        };
        self.reserve(kind, flags, taken)?
            .copy_from_slice(&rest[..taken]);
        Some(done + taken)
    }

    /// Fills up what is left, as a block that is let go because of time has it.
    pub fn close(mut self) {
        while let Some(room) = self.room() {
            let kind = if room == 0 { Kind::Null } else { Kind::Timeout };
            match self.reserve(kind, Flags::NONE, room) {
                Some(filling) => filling.fill(0),
                None => return,
            }
        }
    }
}
