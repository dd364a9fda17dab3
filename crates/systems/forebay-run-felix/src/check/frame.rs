//! Where blocks begin and end in a stream of bytes, also when some are damaged or bytes are missing.

use std::io::{self, Read};

use forebay_readout::{Config, Decoder};
use forebay_wire::felix::{BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, BlockFormat, BlockHead};

/// Bytes in memory.
pub const WINDOW_BYTES: usize = 1 << 20;
/// With less than so many at hand, more are read: what is looked at around a block is in it.
const NEEDED_BYTES: usize = 4 * BLOCK_BYTES_MAX;

/// A part of a stream, which is read piece by piece.
#[derive(Debug)]
pub struct Window {
    memory: Vec<u8>,
    begin: usize,
    end: usize,
    /// Place of `begin` in the stream.
    offset: u64,
    has_ended: bool,
}

impl Default for Window {
    /// One at the begin of a stream.
    fn default() -> Self {
        Self {
            memory: vec![0; WINDOW_BYTES],
            begin: 0,
            end: 0,
            offset: 0,
            has_ended: false,
        }
    }
}

impl Window {
    /// Reads until the window is full or the stream has ended, when little is left. How many bytes came.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<u64> {
        if self.has_ended || self.end - self.begin >= NEEDED_BYTES {
            return Ok(0);
        }
        self.memory.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let before = self.end;
        while self.end < self.memory.len() {
            match from.read(&mut self.memory[self.end..]) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((self.end - before) as u64)
    }

    /// What was read and not skipped.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.end]
    }

    /// Where in the stream that begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves on by so many bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.begin += bytes;
        self.offset += bytes as u64;
    }
}

/// What comes next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A block, sound or not.
    Block,
    /// So many bytes that belong to no block; true when a block begins behind them, or the stream ends there.
    Skip(usize, bool),
    /// The stream ends within a block.
    Tail(usize),
    /// It has ended.
    End,
}

fn marker_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(BlockHead::of(bytes.get(at..)?)?.marker)
}

/// The format of the first block in these bytes that is followed by another one of its format, or is all that there is.
pub fn detect(window: &Window, has_headers: bool) -> Option<BlockFormat> {
    let bytes = window.bytes();
    (0..bytes.len()).find_map(|at| {
        let format = BlockFormat::of_marker(marker_at(bytes, at)?).ok()?;
        let format = if has_headers {
            format.with_headers()
        } else {
            format
        };
        let next = marker_at(bytes, at + format.bytes());
        let follows = next.map_or_else(
            || {
                let block = bytes.get(at..at + format.bytes());
                let decoder = Decoder::new(format, &Config::default()).ok();
                block.is_some_and(|block| decoder.is_some_and(|mut it| it.look(block).is_ok()))
            },
            |next| next == format.marker(),
        );
        follows.then_some(format)
    })
}

/// Finds one block after the other.
#[derive(Debug)]
pub struct Framer {
    marker: u16,
    block_bytes: usize,
    /// A block was found to begin here, ahead of what is being looked at.
    found: u64,
    is_lost: bool,
}

impl Framer {
    /// For blocks of this format.
    pub fn new(format: BlockFormat) -> Self {
        Self {
            marker: format.marker(),
            block_bytes: format.bytes(),
            found: 0,
            is_lost: false,
        }
    }

    /// What comes next in a window that was filled. `is_sound` looks at a block.
    pub fn next(&mut self, window: &Window, mut is_sound: impl FnMut(&[u8]) -> bool) -> Next {
        let (bytes, size) = (window.bytes(), self.block_bytes);
        if bytes.is_empty() {
            return Next::End;
        }
        if self.is_lost {
            return self.search_on(window, is_sound);
        }
        // Only at the end of the stream is there so little.
        let Some(block) = bytes.get(..size) else {
            return Next::Tail(bytes.len());
        };
        if self.is_followed(bytes, 0) {
            return Next::Block;
        }
        let has_marker = marker_at(bytes, 0) == Some(self.marker);
        if has_marker && is_sound(block) {
            return Next::Block;
        }
        if self.found <= window.offset() {
            let found = self.search(window, 1, &mut is_sound);
            let Some(found) = found else {
                if has_marker || window.has_ended {
                    return Next::Block;
                }
                self.is_lost = true;
                return self.search_on(window, is_sound);
            };
            self.found = window.offset() + found as u64;
        }
        let ahead = (self.found - window.offset()) as usize;
        let is_aligned = ahead.is_multiple_of(size);
        if is_aligned || has_marker && ahead > size {
            return Next::Block;
        }
        Next::Skip(ahead, true)
    }

    /// Whether the block there ends where another one begins, or where the stream does.
    fn is_followed(&self, bytes: &[u8], at: usize) -> bool {
        marker_at(bytes, at + self.block_bytes).map_or_else(
            || bytes.len() >= at + self.block_bytes,
            |marker| marker == self.marker,
        )
    }

    /// The next place from which on there is a block, and not by chance.
    fn search(
        &self,
        window: &Window,
        from: usize,
        mut is_sound: impl FnMut(&[u8]) -> bool,
    ) -> Option<usize> {
        let bytes = window.bytes();
        let searched = bytes.get(from..self.searched(window) + BLOCK_HEAD_BYTES)?;
        let mut places = BlockHead::places(searched, self.marker).map(|at| from + at);
        places.find(|at| {
            let block = bytes.get(*at..at + self.block_bytes);
            let follower = marker_at(bytes, at + self.block_bytes);
            follower == Some(self.marker) || block.is_some_and(&mut is_sound)
        })
    }

    /// The last place from which on all is at hand that is needed to say whether a block begins there.
    fn searched(&self, window: &Window) -> usize {
        let needed = self.block_bytes
            + if window.has_ended {
                0
            } else {
                BLOCK_HEAD_BYTES
            };
        window.bytes().len().saturating_sub(needed)
    }

    fn search_on(&mut self, window: &Window, is_sound: impl FnMut(&[u8]) -> bool) -> Next {
        let bytes = window.bytes();
        match self.search(window, 0, is_sound) {
            Some(found) => {
                self.is_lost = false;
                Next::Skip(found, true)
            }
            None if window.has_ended => Next::Skip(bytes.len(), true),
            None => Next::Skip(self.searched(window) + 1, false),
        }
    }
}
