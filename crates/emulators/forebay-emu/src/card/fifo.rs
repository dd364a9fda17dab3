//! The queue behind a link: what could not go into a block since the DMA buffer is full.

use std::collections::VecDeque;

use forebay_wire::felix::Flags;

use super::config::LinkFifo;
use super::payload::{Chunk, End};
use super::ttc::TICKS_PER_NS;
use crate::totals::Amount;

/// A chunk in it, and how much of that is in blocks already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) chunk: Chunk,
    pub(super) done: usize,
}

/// What became of a chunk that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// All of it is in.
    Whole,
    /// So many bytes were cut off.
    Truncated(usize),
    /// There was no room, and nothing of it is in a block.
    Dropped,
}

#[derive(Debug, Clone)]
pub(super) struct Fifo {
    entries: VecDeque<Entry>,
    level: usize,
    bytes: usize,
    xoff: usize,
    xon: usize,
    xoff_since: Option<u64>,
    pub(super) books: FifoBooks,
}

/// What a queue behind a link has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FifoBooks {
    /// Most bytes that were in it.
    pub peak_bytes: u64,
    /// How often it came up to the XOFF mark. Not 0: "threshold crossed" is latched.
    pub xoff: u64,
    /// How often it came down to the XON mark after that.
    pub xon: u64,
    /// How long the front end was told to stop, in nanoseconds of the card's time; a stop that lasts counts at its end.
    pub xoff_ns: u64,
    /// Whether the front end is told to stop now.
    pub is_xoff: bool,
}

impl Fifo {
    pub(super) fn new(config: &LinkFifo) -> Self {
        let mark = |sixteenths: u8| config.bytes * usize::from(sixteenths) / 16;
        Self {
            entries: VecDeque::new(),
            level: 0,
            bytes: config.bytes,
            xoff: mark(config.xoff_sixteenths),
            xon: mark(config.xon_sixteenths),
            xoff_since: None,
            books: FifoBooks::default(),
        }
    }

    /// Other marks, in sixteenths of its size.
    pub(super) fn set_marks(&mut self, xoff_sixteenths: usize, xon_sixteenths: usize) {
        self.xoff = self.bytes * xoff_sixteenths / 16;
        self.xon = self.bytes * xon_sixteenths / 16;
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(super) fn is_xoff(&self) -> bool {
        self.xoff_since.is_some()
    }

    /// Chunks that end in it, and bytes.
    pub(super) fn held(&self) -> Amount {
        Amount {
            items: self
                .entries
                .iter()
                .filter(|entry| entry.chunk.end != End::Never)
                .count() as u64,
            bytes: self.level as u64,
        }
    }

    /// Takes a chunk of which `done` bytes are in blocks.
    pub(super) fn push(&mut self, mut chunk: Chunk, done: usize, now: u64) -> Pushed {
        let wanted = chunk.bytes - done;
        // Whole words go in.
        let room = (self.bytes - self.level) & !3;
        let taken = wanted.min(room);
        if taken == 0 && done == 0 && wanted > 0 {
            return Pushed::Dropped;
        }
        if taken < wanted {
            chunk.bytes = done + taken;
            chunk.flags = chunk.flags.and(Flags::TRUNCATED);
        }
        self.entries.push_back(Entry { chunk, done });
        self.level += taken;
        self.books.peak_bytes = self.books.peak_bytes.max(self.level as u64);
        if self.level >= self.xoff && self.xoff_since.is_none() {
            self.xoff_since = Some(now);
            self.books.is_xoff = true;
            self.books.xoff += 1;
        }
        match wanted - taken {
            0 => Pushed::Whole,
            cut => Pushed::Truncated(cut),
        }
    }

    /// The chunk that came first.
    pub(super) fn front(&self) -> Option<Entry> {
        self.entries.front().copied()
    }

    /// Of the first chunk so many bytes are in blocks now, and whether that is all of it.
    pub(super) fn placed(&mut self, done: usize, is_all: bool) {
        let Some(entry) = self.entries.front_mut() else {
            return;
        };
        self.level -= done - entry.done;
        entry.done = done;
        if is_all {
            self.entries.pop_front();
        }
    }

    /// Whether the front end may go on now, having been told to stop.
    pub(super) fn goes_on(&mut self, now: u64) -> bool {
        let Some(since) = self.xoff_since.filter(|_| self.level <= self.xon) else {
            return false;
        };
        self.xoff_since = None;
        self.books.is_xoff = false;
        self.books.xon += 1;
        self.books.xoff_ns += now.saturating_sub(since) / TICKS_PER_NS;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::ttc::Trigger;
    use super::*;

    fn fifo() -> Fifo {
        Fifo::new(&LinkFifo {
            bytes: 1024,
            xoff_sixteenths: 8,
            xon_sixteenths: 2,
        })
    }

    fn chunk(bytes: usize) -> Chunk {
        let trigger = Trigger {
            number: 0,
            l1id: 0,
            at: 0,
        };
        Chunk::new(trigger, bytes)
    }

    #[test]
    fn marks_have_a_distance_and_are_latched() {
        let mut fifo = fifo();
        assert_eq!(fifo.push(chunk(511), 0, 96_000), Pushed::Whole);
        assert!(!fifo.is_xoff());
        assert_eq!(fifo.push(chunk(100), 99, 96_000), Pushed::Whole);
        assert!(fifo.is_xoff() && !fifo.goes_on(192_000));
        fifo.placed(383, false);
        assert!(!fifo.goes_on(192_000), "129 bytes are left");
        fifo.placed(384, false);
        assert!(fifo.goes_on(192_000) && !fifo.goes_on(192_000) && !fifo.is_xoff());
        assert_eq!((fifo.books.xoff, fifo.books.xon), (1, 1));
        assert_eq!((fifo.books.peak_bytes, fifo.books.xoff_ns), (512, 1000));
        assert_eq!((fifo.held().items, fifo.held().bytes), (2, 128));
    }

    #[test]
    fn what_does_not_fit_is_cut_off_and_then_dropped() {
        let mut fifo = fifo();
        assert_eq!(fifo.push(chunk(1021), 0, 96_000), Pushed::Whole);
        assert_eq!(
            fifo.push(chunk(8), 0, 96_000),
            Pushed::Dropped,
            "no whole word"
        );
        fifo.placed(5, false);
        assert_eq!(fifo.push(chunk(30), 2, 96_000), Pushed::Truncated(20));
        assert_eq!(
            fifo.push(chunk(30), 12, 96_000),
            Pushed::Truncated(18),
            "its end"
        );
        assert_eq!(fifo.push(chunk(30), 0, 96_000), Pushed::Dropped);
        assert_eq!(fifo.clone().push(chunk(0), 0, 96_000), Pushed::Whole);
        fifo.placed(1021, true);
        let Some(entry) = fifo.front() else {
            panic!("it is the next one");
        };
        assert_eq!((entry.done, entry.chunk.bytes), (2, 10));
        assert!(entry.chunk.flags.has(Flags::TRUNCATED));
        assert_eq!((fifo.held().items, fifo.held().bytes), (2, 8));
    }
}
