//! Heaps into packets.

use std::collections::VecDeque;

use forebay_wire::heap::{PIECE_HEAD_BYTES, Piece};

/// So much is laid out at once, in bytes.
const LAID_BYTES: usize = 1 << 20;

/// A message to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Its tag.
    pub tag: u64,
    /// Its status.
    pub status: u8,
    /// Its payload, at most [`forebay_wire::heap::HEAP_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
}

/// Lays heaps out in packets: each begins with a piece, and holds whole pieces alone. Only the last one of those that are laid out is shorter than the others: where
/// no piece fits any more zeroes fill it up.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Those that are not wholly taken; the first of them has the number `first`.
    heaps: VecDeque<Heap>,
    first: u64,
    waiting_bytes: usize,
    laid: Vec<u8>,
    /// Where the first packet that was not taken begins in what is laid out.
    at: usize,
    packets: VecDeque<Laid>,
    /// Up to where packets were taken, and up to where they are laid out.
    taken: Place,
    next: Place,
    payload_bytes: usize,
}

/// A heap, and how much of it is done with.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    heap: u64,
    offset: usize,
}

#[derive(Debug)]
struct Laid {
    /// Where it ends in what is laid out.
    end: usize,
    /// Where the one behind it begins.
    next: Place,
}

impl Cutter {
    /// A message follows.
    pub fn push(&mut self, heap: Heap) {
        self.waiting_bytes += heap.bytes.len() + PIECE_HEAD_BYTES;
        self.heaps.push_back(heap);
    }

    /// Bytes of heaps that are not wholly taken, with a head for each.
    #[must_use]
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Heaps that are not wholly taken.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.heaps.len() as u64
    }

    /// Heaps of which at least a piece was taken, from the first one on.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.taken.heap + u64::from(self.taken.offset > 0)
    }

    /// Heaps that were wholly taken.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.taken.heap
    }

    /// Lays packets of at most so many bytes out of what is there, when none are left; tells how many there are.
    pub fn ready(&mut self, payload_bytes: usize) -> u64 {
        if payload_bytes != self.payload_bytes {
            // Another session has other packets.
            self.payload_bytes = payload_bytes;
            self.packets.clear();
        }
        if self.packets.is_empty() {
            (self.next, self.at) = (self.taken, 0);
            self.laid.clear();
            while self.laid.len() < LAID_BYTES && self.lay() {}
        }
        self.packets.len() as u64
    }

    /// Lays one packet out; false when there is nothing for it, or no room in any packet.
    fn lay(&mut self) -> bool {
        let begin = self.laid.len();
        loop {
            let left = self.payload_bytes.saturating_sub(self.laid.len() - begin);
            let index = (self.next.heap - self.first) as usize;
            let (Some(heap), Some(room)) =
                (self.heaps.get(index), left.checked_sub(PIECE_HEAD_BYTES))
            else {
                break;
            };
            let rest = heap.bytes.get(self.next.offset..).unwrap_or_default();
            if room == 0 && !rest.is_empty() {
                break;
            }
            let bytes = rest.get(..room.min(rest.len())).unwrap_or_default();
            let piece = Piece {
                heap: self.next.heap,
                tag: heap.tag,
                status: heap.status,
                heap_bytes: heap.bytes.len() as u32,
                offset: self.next.offset as u32,
                bytes,
            };
            self.laid.extend_from_slice(&piece.head());
            // The one copy of the payload here.
            self.laid.extend_from_slice(bytes);
            self.next.offset += bytes.len();
            if self.next.offset == heap.bytes.len() {
                self.next = Place {
                    heap: self.next.heap + 1,
                    offset: 0,
                };
            }
        }
        let (filled, waiting) = (self.laid.len() - begin, self.next.heap - self.first);
        let left = self.payload_bytes.saturating_sub(filled);
        // The kernel cuts a burst into packets of one length.
        if filled > 0 && left <= PIECE_HEAD_BYTES && (waiting as usize) < self.heaps.len() {
            self.laid.resize(begin + self.payload_bytes, 0);
        }
        let end = self.laid.len();
        if end > begin {
            let next = self.next;
            self.packets.push_back(Laid { end, next });
        }
        end > begin
    }

    /// The packet that begins so many bytes behind the first one that was not taken; empty when there is none.
    #[must_use]
    pub fn peek(&self, ahead: usize) -> &[u8] {
        let begin = self.at + ahead;
        let at = self.packets.partition_point(|packet| packet.end <= begin);
        let end = self.packets.get(at).map_or(begin, |packet| packet.end);
        self.laid.get(begin..end).unwrap_or_default()
    }

    /// Packets of so many bytes together have been sent.
    pub fn take(&mut self, bytes: usize) {
        self.at += bytes;
        while let Some(packet) = self.packets.front()
            && packet.end <= self.at
        {
            self.taken = packet.next;
            self.packets.pop_front();
        }
        while self.first < self.taken.heap
            && let Some(heap) = self.heaps.pop_front()
        {
            self.waiting_bytes -= heap.bytes.len() + PIECE_HEAD_BYTES;
            self.first += 1;
        }
    }
}
