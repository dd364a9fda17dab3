//! The words of a block, in the order of their data.

use forebay_wire::felix::{BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, Flags, Kind, Layout, Subchunk};

use crate::bytes::Bytes;
use crate::error::BlockError;

/// Words of the smallest kind that tile the largest block.
const WORDS_MAX: usize = (BLOCK_BYTES_MAX - BLOCK_HEAD_BYTES) / 2;

/// The words of one block, and how far its data is used. They were read once, and are used as they were read.
#[derive(Debug)]
pub(crate) struct Words {
    /// As 32-bit words, the last one first: that is how a block is read.
    words: Box<[u32]>,
    left: usize,
    /// Where the next one begins.
    at: usize,
    layout: Layout,
    word_bytes: usize,
    /// Bytes of a word in front of its data.
    before: usize,
}

/// A subchunk, and where its data is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) subchunk: Subchunk,
    pub(crate) at: usize,
}

impl Words {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            words: vec![0; WORDS_MAX].into(),
            left: 0,
            at: BLOCK_HEAD_BYTES,
            layout,
            word_bytes: layout.word_bytes(),
            before: match layout {
                Layout::Headers32 => layout.word_bytes(),
                Layout::Trailers16 | Layout::Trailers32 => 0,
            },
        }
    }

    /// Reads all words of a block, or none when they do not tile it: how many pieces of chunks there are, and their bytes.
    #[inline]
    pub(crate) fn read(&mut self, block: impl Bytes) -> Result<[u64; 2], BlockError> {
        self.left = 0;
        self.at = BLOCK_HEAD_BYTES;
        let Found {
            words,
            pieces,
            bytes,
        } = match self.layout {
            Layout::Trailers16 => backwards::<2>(block, &mut self.words, |at| {
                let word = Subchunk::from_word16(block.u16_le(at)?);
                Some(word.word32())
            }),
            Layout::Trailers32 => backwards::<4>(block, &mut self.words, |at| block.u32_le(at)),
            Layout::Headers32 => forwards(block, &mut self.words),
        }?;
        self.left = words;
        Ok([pieces as u64, bytes as u64])
    }

    /// Forgets the block.
    pub(crate) fn clear(&mut self) {
        self.left = 0;
    }

    /// The next one, which stays the next one.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Located> {
        let word = *self.words.get(..self.left)?.last()?;
        Some(Located {
            subchunk: Subchunk::from_word32(word),
            at: self.at + self.before,
        })
    }

    /// Those that are left, and where the data of each is.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Subchunk)> {
        let words = self.words.get(..self.left).unwrap_or_default();
        words.iter().rev().scan(self.at, |at, word| {
            let subchunk = Subchunk::from_word32(*word);
            let data_at = *at + self.before;
            *at += subchunk.data_bytes().next_multiple_of(self.word_bytes) + self.word_bytes;
            Some((data_at, subchunk))
        })
    }

    /// That one is done with.
    #[inline]
    pub(crate) fn skip(&mut self, subchunk: Subchunk) {
        self.left = self.left.saturating_sub(1);
        self.at += subchunk.data_bytes().next_multiple_of(self.word_bytes) + self.word_bytes;
    }

    /// Hands out the whole chunks that come next, by their word, place and length, until one is refused; how many, their bytes, and whether none was.
    #[inline]
    pub(crate) fn each_whole(
        &mut self,
        mut take: impl FnMut(u32, usize, usize) -> bool,
    ) -> (u64, u64, bool) {
        const BOTH: u32 = Kind::Both as u32;
        let fill = self.word_bytes - 1;
        let (mut at, mut bytes, mut taken) = (self.at, 0, true);
        let words = self.words.get(..self.left).unwrap_or_default();
        let mut left = words.len();
        for word in words.iter().rev().copied() {
            if word >> 29 != BOTH {
                break;
            }
            let data_bytes = usize::from(word as u16);
            taken = take(word, at + self.before, data_bytes);
            if !taken {
                break;
            }
            left -= 1;
            bytes += data_bytes;
            // The size of a word is a power of two.
            at += ((data_bytes + fill) & !fill) + self.word_bytes;
        }
        let chunks = self.left - left;
        (self.left, self.at) = (left, at);
        (chunks as u64, bytes as u64, taken)
    }
}

/// What the words of a block are.
#[derive(Default)]
struct Found {
    words: usize,
    pieces: usize,
    bytes: usize,
}

impl Found {
    #[inline]
    fn add(&mut self, subchunk: Subchunk) {
        let is_piece = usize::from(is_piece(subchunk));
        self.words += 1;
        self.pieces += is_piece;
        self.bytes += is_piece * subchunk.data_bytes();
    }
}

/// Whether its data is that of a chunk, or would be if there were such a kind.
#[inline]
pub(crate) fn is_piece(subchunk: Subchunk) -> bool {
    const SURE: u32 = 1 << Kind::First as u32
        | 1 << Kind::Last as u32
        | 1 << Kind::Both as u32
        | 1 << Kind::Middle as u32
        | 1 << Kind::Undefined as u32;
    let is_cut = subchunk.kind == Kind::Timeout && subchunk.flags.has(Flags::TRUNCATED);
    SURE >> subchunk.kind as u32 & 1 == 1 || is_cut
}

/// From the end of the block to its head, which has to be met exactly.
#[inline]
fn backwards<const WORD_BYTES: usize>(
    block: impl Bytes,
    words: &mut [u32],
    read: impl Fn(usize) -> Option<u32>,
) -> Result<Found, BlockError> {
    let mut at = block.len();
    let mut found = Found::default();
    while at > BLOCK_HEAD_BYTES {
        let room = at - BLOCK_HEAD_BYTES;
        at = at.wrapping_sub(WORD_BYTES);
        let (Some(word), Some(place)) = (read(at), words.get_mut(found.words)) else {
            return Err(untiled(at, WORD_BYTES, room));
        };
        let subchunk = Subchunk::from_word32(word);
        let said = subchunk.data_bytes().next_multiple_of(WORD_BYTES);
        if said + WORD_BYTES > room {
            return Err(untiled(at, said, room.saturating_sub(WORD_BYTES)));
        }
        if found.words == 0 && subchunk.kind == Kind::Undefined {
            return Err(BlockError::Undefined { at });
        }
        *place = word;
        at -= said;
        found.add(subchunk);
    }
    Ok(found)
}

/// From the head of the block to its end, or to the first word that says that nothing follows.
fn forwards(block: impl Bytes, words: &mut [u32]) -> Result<Found, BlockError> {
    const WORD_BYTES: usize = 4;
    let mut at = BLOCK_HEAD_BYTES;
    let mut found = Found::default();
    while at < block.len() {
        let room = block.len() - at;
        let (Some(word), Some(place)) = (block.u32_le(at), words.get_mut(found.words)) else {
            return Err(untiled(at, WORD_BYTES, room));
        };
        let subchunk = Subchunk::from_word32(word);
        if subchunk.kind == Kind::Null {
            break;
        }
        let said = subchunk.data_bytes().next_multiple_of(WORD_BYTES);
        if said + WORD_BYTES > room {
            return Err(untiled(at, said, room - WORD_BYTES));
        }
        if subchunk.kind == Kind::Undefined {
            return Err(BlockError::Undefined { at });
        }
        *place = word;
        at += said + WORD_BYTES;
        found.add(subchunk);
    }
    words[..found.words].reverse();
    Ok(found)
}

fn untiled(at: usize, said: usize, room: usize) -> BlockError {
    BlockError::Untiled { at, said, room }
}
