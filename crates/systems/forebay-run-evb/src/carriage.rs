//! What an end of a ring has carried over all lives of its process, as the ring itself counts it.
//!
//! A link's `in_flight` is what one end has carried less what the other has: counted by neither of the accounts at its ends.

use forebay_ledger::{Book, Tally};
use forebay_ring::Carried;

/// One end of one ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    words: Tally,
    /// By the book, what predecessors have carried.
    before: (u64, u64),
    /// Bytes at the front of each record that belong to none of its items.
    head_bytes: u64,
}

impl Carriage {
    /// Goes on behind what the book says in `words`; the first `head_bytes` of each record belong to no item.
    pub(crate) fn restored(book: &Book, words: Tally, head_bytes: usize) -> Self {
        Self {
            words,
            before: book.tally(words),
            head_bytes: head_bytes as u64,
        }
    }

    /// Writes down what predecessors and this life have carried.
    pub(crate) fn save(&self, book: &mut Book, carried: &Carried) {
        let heads = carried.records.wrapping_mul(self.head_bytes);
        let bytes = carried.bytes.wrapping_sub(heads);
        book.set(self.words.items, self.before.0.wrapping_add(carried.items));
        book.set(self.words.bytes, self.before.1.wrapping_add(bytes));
    }
}
