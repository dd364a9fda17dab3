//! Heaps: messages with their boundaries, cut into pieces that stand for themselves.
//!
//! ```text
//! +0 magic "FH"   +2 version 1   +3 status u8    +4 bytes of the piece u32   +8 heap u64   +16 tag u64
//! +24 bytes of the heap u32      +28 offset of the piece in the heap u32     +32 CRC-32 of the 32 bytes before   +36 the piece
//! ```
//!
//! All numbers are big-endian. The idea is SPEAD's: every packet says of which heap it is, how long that is, and where in it its bytes lie. A packet of
//! time-division UDP that carries heaps holds whole pieces, one after the other, and begins with one: so nothing that is lost hides what comes behind
//! it, and nobody looks for a begin inside of data. Heaps are numbered from 0 in the order in which they are sent. A file of heaps is the same, with each heap as one piece.

#[cfg(test)]
mod tests;

use core::fmt;

use thiserror::Error;

/// Bytes in front of a piece.
pub const PIECE_HEAD_BYTES: usize = 36;
/// Most bytes of a heap: 64 MiB.
pub const HEAP_BYTES_MAX: u32 = 64 << 20;
/// The version spoken here.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"FH";
const CHECK_AT: usize = 32;
/// Far from where adding to a number would wrap.
const HEAP_MAX: u64 = u64::MAX / 4;

/// A piece of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Number of the heap in its stream, from 0.
    pub heap: u64,
    /// The message's tag.
    pub tag: u64,
    /// Its status.
    pub status: u8,
    /// Bytes of the whole heap, at most [`HEAP_BYTES_MAX`].
    pub heap_bytes: u32,
    /// Where the piece begins in the heap.
    pub offset: u32,
    /// The piece; empty only when the heap is.
    pub bytes: &'a [u8],
}

/// Why bytes are no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeapError {
    /// They end before it does.
    #[error("{have} bytes are left, a piece takes {need}")]
    Truncated {
        /// Bytes that are needed.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// Something else.
    #[error("{found:02x?} does not begin a piece of a heap")]
    Magic {
        /// The first two bytes.
        found: [u8; 2],
    },
    /// Another version.
    #[error("version {found} of heaps; {VERSION} is spoken here")]
    Version {
        /// The version byte.
        found: u8,
    },
    /// The head was damaged.
    #[error("CRC-32 {found:#010x} of a piece's head, {check:#010x} by the head")]
    Check {
        /// What was computed.
        found: u32,
        /// What the head says.
        check: u32,
    },
    /// A field with a value that it cannot have.
    #[error("{field} of a piece is {found}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What it is.
        found: u64,
    },
}

impl HeapError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Magic { .. } => "not_the_protocol",
            Self::Version { .. } => "version",
            Self::Check { .. } => "damaged",
            Self::Field { .. } => "bad_field",
        }
    }
}

impl<'a> Piece<'a> {
    /// Takes a piece off the front of `bytes`; tells what lies behind it.
    ///
    /// # Errors
    /// No piece begins there, or not all of it is there.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), HeapError> {
        let have = bytes.len();
        let Some((head, rest)) = bytes.split_first_chunk::<PIECE_HEAD_BYTES>() else {
            let need = PIECE_HEAD_BYTES;
            return Err(HeapError::Truncated { need, have });
        };
        let u32_at = |at: usize| u32::from_be_bytes(part(head, at));
        let u64_at = |at: usize| u64::from_be_bytes(part(head, at));
        let found = [head[0], head[1]];
        if found != MAGIC {
            return Err(HeapError::Magic { found });
        }
        if head[2] != VERSION {
            return Err(HeapError::Version { found: head[2] });
        }
        let (found, check) = (crc32fast::hash(&head[..CHECK_AT]), u32_at(CHECK_AT));
        if found != check {
            return Err(HeapError::Check { found, check });
        }
        let (length, heap_bytes, offset) = (u32_at(4), u32_at(24), u32_at(28));
        let field = |field, found| Err(HeapError::Field { field, found });
        let heap = u64_at(8);
        if heap > HEAP_MAX {
            return field("heap", heap);
        }
        if heap_bytes > HEAP_BYTES_MAX {
            return field("heap bytes", u64::from(heap_bytes));
        }
        let end = u64::from(offset) + u64::from(length);
        if end > u64::from(heap_bytes) {
            return field("end", end);
        }
        if length == 0 && heap_bytes != 0 {
            return field("bytes", 0);
        }
        let Some((bytes, rest)) = rest.split_at_checked(length as usize) else {
            let need = PIECE_HEAD_BYTES + length as usize;
            return Err(HeapError::Truncated { need, have });
        };
        let piece = Self {
            heap,
            tag: u64_at(16),
            status: head[3],
            heap_bytes,
            offset,
            bytes,
        };
        Ok((piece, rest))
    }

    /// The head in front of its bytes.
    #[must_use]
    pub fn head(&self) -> [u8; PIECE_HEAD_BYTES] {
        let mut head = [0; PIECE_HEAD_BYTES];
        head[..2].copy_from_slice(&MAGIC);
        (head[2], head[3]) = (VERSION, self.status);
        head[4..8].copy_from_slice(&(self.bytes.len() as u32).to_be_bytes());
        head[8..16].copy_from_slice(&self.heap.to_be_bytes());
        head[16..24].copy_from_slice(&self.tag.to_be_bytes());
        head[24..28].copy_from_slice(&self.heap_bytes.to_be_bytes());
        head[28..32].copy_from_slice(&self.offset.to_be_bytes());
        let check = crc32fast::hash(&head[..CHECK_AT]);
        head[CHECK_AT..].copy_from_slice(&check.to_be_bytes());
        head
    }
}

impl fmt::Display for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "heap={} tag={:#x} status={} bytes={} at={} of={}",
            self.heap,
            self.tag,
            self.status,
            self.bytes.len(),
            self.offset,
            self.heap_bytes
        )
    }
}

fn part<const N: usize>(head: &[u8; PIECE_HEAD_BYTES], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&head[at..at + N]);
    part
}
