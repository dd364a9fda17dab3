//! The engine's state as words of its group: what a restarted builder goes on from.

use crate::config::Completion;
use crate::engine::Builder;
use crate::life::Pauses;
use crate::loss::{Cause, LostRange, OpenRange};
use crate::recent::Recent;
use crate::source::Replay;
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
        for source in 0..self.config.sources {
            self.save_source(source);
        }
        let book = &mut self.book;
        for (open, words) in self.open_ranges.iter().zip(&self.accounts.sources) {
            let range = open.range();
            book.set(words.open[0], encoded(range.map(|range| range.first)));
            book.set(words.open[1], range.map_or(0, |range| range.items));
            book.set(words.open[2], range.map_or(0, |range| range.cause.code()));
            book.set(words.open[3], range.map_or(0, |range| range.bytes));
        }
        book.set(self.accounts.next, encoded(self.next));
        book.set(self.accounts.last_seen, encoded(self.triggers.last));
        book.set(self.accounts.sequence, u64::from(self.sequence));
        book
    }

    fn save_source(&mut self, source: usize) {
        let (items, bytes) = self.waiting(source);
        let (state, head) = (&self.sources[source], &mut self.heads.of[source]);
        let (words, book) = (&self.accounts.sources[source], &mut self.book);
        let built = words.account.outgoing;
        book.add_tally(built, u64::from(head.built_items), head.built_bytes);
        (head.built_items, head.built_bytes) = (0, 0);
        book.set(words.account.held.items, items);
        book.set(words.account.held.bytes, bytes);
        book.set(words.released, state.released);
        book.set(words.pulled, state.pulled);
        let first = state.messages.front();
        let offset = first.map_or(0, |first| head.at.wrapping_sub(first.message.at));
        book.set(words.offset, offset);
        book.set(words.left, u64::from(head.left));
        book.set(words.last, encoded(head.last()));
        book.set(words.silent, u64::from(state.mute));
        let paused = state.paused.map_or(0, |at| at.saturating_add(1));
        book.set(words.paused, paused);
        book.set(words.rested, state.rested);
        book.set(words.astray, state.absent.astray);
        let dropped = state.absent.waiting(self.config.trigger_bits, self.next);
        book.set(words.dropped, dropped);
    }

    /// The book, to count what the run layer itself does in the builder's group.
    pub fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    pub(crate) fn restore(&mut self) {
        let book = &self.book;
        let heads = &mut self.heads.of;
        let mut heard_ns = 0;
        let states = self.sources.iter_mut().zip(heads);
        for ((source, head), words) in states.zip(&self.accounts.sources) {
            source.released = book.value(words.released);
            source.pulled = book.value(words.pulled);
            source.mute = book.value(words.silent) != 0;
            source.silent = source.mute && self.config.completion != Completion::Wait;
            source.paused = book.value(words.paused).checked_sub(1);
            source.rested = book.value(words.rested);
            heard_ns = heard_ns.max(book.value(words.heard));
            source.absent.astray = book.value(words.astray);
            source.absent.dropped = book.value(words.dropped);
            self.some_unsettled |= source.absent.is_unsettled();
            let (owed_items, owed_bytes) = book.tally(words.account.held);
            let front = (
                book.value(words.offset) as u32,
                book.value(words.left) as u32,
            );
            source.replay = Replay {
                front: (owed_items > 0).then_some(front),
                owed_items,
                owed_bytes,
            };
            head.set_last(optional(book, words.last));
        }
        self.pauses = Pauses::restored(heard_ns, self.config.timeout_ns);
        let (mask, circle) = (self.config.trigger_bits.mask(), self.circle());
        for (index, words) in self.accounts.sources.iter().enumerate() {
            let items = book.value(words.open[1]);
            let range =
                optional(book, words.open[0]).zip(Cause::from_code(book.value(words.open[2])));
            let restored = range.map(|(first, cause)| {
                let last = circle.after(first, (items as u32).wrapping_sub(1));
                LostRange {
                    source: index,
                    first,
                    last,
                    items,
                    bytes: book.value(words.open[3]),
                    cause,
                }
            });
            if let Some(range) = restored.filter(|range| range.cause.never_came()) {
                self.sources[index]
                    .absent
                    .note(circle, range.first, range.last);
            }
            self.open_ranges[index] = OpenRange::restored(restored);
        }
        self.next = optional(book, self.accounts.next);
        self.triggers.last = optional(book, self.accounts.last_seen);
        let goes_on = |last: u32| self.next == Some(last.wrapping_add(1) & mask);
        let last = self.triggers.last.filter(|last| goes_on(*last));
        self.expected = last.map_or(self.next, |last| Some(circle.after(last, 1)));
        self.recent = Recent::before(self.next, mask);
        self.sequence = book.value(self.accounts.sequence) as u32;
    }
}
