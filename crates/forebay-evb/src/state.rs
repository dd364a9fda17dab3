//! The engine's state as words of its group: what a restarted builder goes on from.

use crate::engine::Builder;
use crate::loss::{Cause, LostRange, OpenRange};
use forebay_ledger::{Book, Counter};

/// A word holds a value plus one, 0 says there is none.
fn optional(book: &Book, word: Counter) -> Option<u32> {
    u32::try_from(book.value(word).checked_sub(1)?).ok()
}

fn encoded(value: Option<u32>) -> u64 {
    value.map_or(0, |value| u64::from(value) + 1)
}

impl Builder {
    /// The book with the engine's cursors and what it holds, measured from its queues: commit this,
    /// then free the sources' queues.
    pub fn save(&mut self) -> &Book {
        let book = &mut self.book;
        for (source, words) in self.sources.iter().zip(&self.accounts.sources) {
            book.set(words.account.held.items, source.held_items);
            book.set(words.account.held.bytes, source.held_bytes);
            book.set(words.released, source.released);
            book.set(words.pulled, source.pulled);
            book.set(words.offset, u64::from(source.offset));
            book.set(words.left, u64::from(source.left));
            book.set(words.last, encoded(source.last));
            book.set(words.silent, u64::from(source.silent));
        }
        for (open, words) in self.open_ranges.iter().zip(&self.accounts.sources) {
            let range = open.range();
            book.set(words.open[0], encoded(range.map(|range| range.first)));
            book.set(words.open[1], range.map_or(0, |range| range.items));
            book.set(words.open[2], range.map_or(0, |range| range.cause.code()));
        }
        book.set(self.accounts.next, encoded(self.next));
        book.set(self.accounts.sequence, u64::from(self.sequence));
        book
    }

    /// The book, to count what the run layer itself does in the builder's group.
    pub fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    pub(crate) fn restore(&mut self) {
        let book = &self.book;
        for (source, words) in self.sources.iter_mut().zip(&self.accounts.sources) {
            source.released = book.value(words.released);
            source.pulled = book.value(words.pulled);
            source.offset = book.value(words.offset) as u32;
            source.left = book.value(words.left) as u32;
            source.last = optional(book, words.last);
            source.silent = book.value(words.silent) != 0;
        }
        let mask = self.config.trigger_bits.mask();
        for (index, words) in self.accounts.sources.iter().enumerate() {
            let items = book.value(words.open[1]);
            let range =
                optional(book, words.open[0]).zip(Cause::from_code(book.value(words.open[2])));
            let restored = range.map(|(first, cause)| {
                let last = first.wrapping_add(items as u32).wrapping_sub(1) & mask;
                LostRange {
                    source: index,
                    first,
                    last,
                    items,
                    cause,
                }
            });
            self.open_ranges[index] = OpenRange::restored(restored);
        }
        self.next = optional(book, self.accounts.next);
        self.sequence = book.value(self.accounts.sequence) as u32;
    }
}
