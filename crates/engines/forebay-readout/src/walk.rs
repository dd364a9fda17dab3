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

/// Blocks whose words are fetched side by side, at most.
pub const FETCHED_BLOCKS: usize = 8;
/// Words of a block that are fetched, at most: with more of them, their lines are neighbours, and are fetched as such.
const FETCHED_WORDS: usize = 64;

/// Fetches the words of some blocks into the processor's caches, up to [`FETCHED_BLOCKS`] of them, for a decoder that is not to touch the data between them.
///
/// Each word says where the next one is, so that in a block one after the other has to come from memory; those of several blocks are waited for together. Nothing is
/// judged, and blocks that are no blocks cost nothing more.
pub(crate) fn fetch_words<B: Bytes>(layout: Layout, blocks: &[B]) {
    let blocks = &blocks[..blocks.len().min(FETCHED_BLOCKS)];
    match layout {
        Layout::Trailers16 => side_by_side(blocks, B::len, |block, at| {
            let at = at.checked_sub(2)?;
            let said = usize::from(block.u16_le(at)? & 0x03ff).next_multiple_of(2);
            at.checked_sub(said)
        }),
        Layout::Trailers32 => side_by_side(blocks, B::len, |block, at| {
            let at = at.checked_sub(4)?;
            let said = (block.u32_le(at)? & 0xffff) as usize;
            at.checked_sub(said.next_multiple_of(4))
        }),
        Layout::Headers32 => side_by_side(
            blocks,
            |_| BLOCK_HEAD_BYTES,
            |block, at| {
                let said = (block.u32_le(at)? & 0xffff) as usize;
                Some(at + 4 + said.next_multiple_of(4))
            },
        ),
    }
}

#[inline]
fn side_by_side<B: Bytes>(
    blocks: &[B],
    begin: impl Fn(B) -> usize,
    next: impl Fn(B, usize) -> Option<usize>,
) {
    let mut places = [None; FETCHED_BLOCKS];
    for (place, block) in places.iter_mut().zip(blocks) {
        *place = Some(begin(*block));
    }
    for _ in 0..FETCHED_WORDS {
        let mut any = false;
        for (place, block) in places.iter_mut().zip(blocks) {
            if let Some(at) = *place {
                *place = next(*block, at).filter(|at| *at != BLOCK_HEAD_BYTES);
                any = true;
            }
        }
        if !any {
            return;
        }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags};

    use super::*;

    /// A block that notes where it is looked at.
    #[derive(Clone, Copy)]
    struct Watched<'a> {
        bytes: &'a [u8],
        looked: &'a RefCell<Vec<usize>>,
    }

    impl Bytes for Watched<'_> {
        fn len(self) -> usize {
            self.bytes.len()
        }

        fn u16_le(self, at: usize) -> Option<u16> {
            self.looked.borrow_mut().push(at);
            self.bytes.u16_le(at)
        }

        fn u32_le(self, at: usize) -> Option<u32> {
            self.looked.borrow_mut().push(at);
            self.bytes.u32_le(at)
        }

        fn part(self, _: usize, _: usize) -> Option<Self> {
            None
        }

        fn append_to(self, _: &mut Vec<u8>) {}
    }

    #[test]
    fn the_words_that_a_block_has_are_fetched_and_nothing_else() {
        let phase2 = BlockFormat::phase2(4096).unwrap();
        for format in [BlockFormat::PHASE1, phase2, phase2.with_headers()] {
            let mut block = vec![0; format.bytes()];
            let elink = Elink::new(5).unwrap();
            let mut writer = BlockWriter::begin(format, elink, 0, &mut block).unwrap();
            for bytes in [100, 7, 300] {
                writer.push(&vec![1; bytes], 0, Flags::NONE).unwrap();
            }
            writer.close();
            let [fetched, read] = [true, false].map(|fetches| {
                let looked = RefCell::new(Vec::new());
                let watched = Watched {
                    bytes: &block,
                    looked: &looked,
                };
                if fetches {
                    fetch_words(format.layout(), &[watched]);
                } else {
                    Words::new(format.layout()).read(watched).unwrap();
                }
                looked.into_inner()
            });
            assert!(
                read.len() >= 3 && fetched.starts_with(&read),
                "{format}: {fetched:?}, {read:?}"
            );
        }
    }
}
