//! A stream in order, with zeroes where bytes are lost.
//!
//! What comes out of order waits. Ranges that will not come are pieces that wait, too, and become zeroes in their turn: so many at once and no more, so that
//! a request for the end is heard, however long a range is.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use crate::written::{Sum, WriteDrop, Written};

/// Packets that may wait for bytes before them, and bytes of them.
const WAITING_PACKETS_MAX: usize = 1 << 18;
const WAITING_BYTES_MAX: usize = 256 << 20;
/// Zeroes that are written in one turn.
const TURN_ZEROES: u64 = 1 << 20;
/// Zeroes that are still written when nothing more comes.
const END_ZEROES: u64 = 64 << 20;

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Zeroes(u64),
}

impl Piece {
    const fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeroes(zeroes) => *zeroes,
        }
    }
}

/// Bytes in order, with zeroes where some are lost.
pub struct Ordered {
    out: Box<dyn Write + Send>,
    /// Where the next byte lies in the stream.
    next: u64,
    /// By where they begin; no two overlap, and no two of zeroes touch.
    waiting: BTreeMap<u64, Piece>,
    waiting_packets: usize,
    waiting_bytes: usize,
    /// Zeroes that may be written in this turn.
    zeroes: u64,
    /// Where the stream of the start before stood.
    before: Option<u64>,
    failed: Option<io::Error>,
}

impl Ordered {
    /// Writes to `out`.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out,
            next: 0,
            waiting: BTreeMap::new(),
            waiting_packets: 0,
            waiting_bytes: 0,
            zeroes: TURN_ZEROES,
            before: None,
            failed: None,
        }
    }

    /// The first error of `out`: nothing is written behind it.
    pub const fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Payload came.
    pub fn write(&mut self, offset: u64, payload: &[u8]) -> Written {
        if payload.is_empty() {
            return Written::whole(payload);
        }
        let Some(end) = offset.checked_add(payload.len() as u64) else {
            return Written::dropped(WriteDrop::NoPlace, payload);
        };
        if !self.is_free(offset, end) {
            let mut written = Written::dropped(WriteDrop::NoPlace, payload);
            self.fill(offset, end);
            self.go_on(&mut written);
            return written;
        }
        if offset == self.next {
            let mut written = self.put(payload);
            self.go_on(&mut written);
            return written;
        }
        if self.waiting_packets >= WAITING_PACKETS_MAX
            || self.waiting_bytes + payload.len() > WAITING_BYTES_MAX
        {
            self.fill(offset, end);
            return Written::dropped(WriteDrop::NoRoom, payload);
        }
        self.waiting_packets += 1;
        self.waiting_bytes += payload.len();
        self.waiting.insert(offset, Piece::Bytes(payload.to_vec()));
        Written::default()
    }

    /// What waits for bytes before it.
    pub fn held(&self) -> Sum {
        Sum {
            packets: self.waiting_packets as u64,
            bytes: self.waiting_bytes as u64,
        }
    }

    /// Bytes will not come. `resumes`: they are what this start's stream begins behind.
    pub fn skip(&mut self, offset: u64, bytes: u64, resumes: bool) -> Written {
        let end = offset.saturating_add(bytes);
        let first = self.waiting.first_key_value().map_or(end, |(at, _)| *at);
        if resumes
            && self.next == 0
            && let Some(before) = self.before.take()
            && before <= end.min(first)
        {
            // The same stream goes on: what stood before is there.
            self.next = before;
        }
        self.fill(offset, end);
        let mut written = Written::default();
        self.go_on(&mut written);
        written
    }

    /// Another turn: zeroes that are due are written.
    pub fn turn(&mut self) -> Written {
        self.zeroes = TURN_ZEROES;
        let mut written = Written::default();
        self.go_on(&mut written);
        written
    }

    /// Zeroes are due that no turn had room for.
    pub fn is_behind(&self) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(at, _)| *at == self.next)
    }

    /// Nothing more comes of this start: what waits is written behind as many zeroes as it takes, or dropped where that is too many.
    pub fn finish(&mut self) -> Written {
        let mut written = Written::default();
        self.zeroes = END_ZEROES;
        self.go_on(&mut written);
        while self.zeroes > 0
            && let Some((&first, _)) = self.waiting.first_key_value()
        {
            self.fill(self.next, first);
            self.go_on(&mut written);
        }
        while let Some((_, piece)) = self.waiting.pop_first() {
            if let Piece::Bytes(bytes) = piece {
                written.add(&Written::dropped(WriteDrop::NoRoom, &bytes));
            }
        }
        (self.waiting_packets, self.waiting_bytes) = (0, 0);
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
        }
        written
    }

    /// The sender begins anew, behind what is there. What waits must have been finished.
    pub fn begin_anew(&mut self) {
        self.before = Some(std::mem::take(&mut self.next));
        self.zeroes = TURN_ZEROES;
    }

    fn is_free(&self, begin: u64, end: u64) -> bool {
        let before = self.waiting.range(..begin).next_back();
        let behind = self.waiting.range(begin..).next();
        begin >= self.next
            && before.is_none_or(|(at, piece)| at + piece.length() <= begin)
            && behind.is_none_or(|(at, _)| *at >= end)
    }

    /// Whatever is free between `begin` and `end` becomes zeroes.
    fn fill(&mut self, begin: u64, end: u64) {
        let mut at = begin.max(self.next);
        if let Some((start, piece)) = self.waiting.range(..=at).next_back() {
            at = at.max(start + piece.length());
        }
        while at < end {
            let behind = self.waiting.range(at..).next();
            let behind = behind.map(|(start, piece)| (*start, start + piece.length()));
            let (until, go_on) = match behind {
                Some((start, stop)) if start < end => (start, stop),
                _ => (end, end),
            };
            if at < until {
                self.insert_zeroes(at, until);
            }
            at = go_on;
        }
    }

    fn insert_zeroes(&mut self, mut begin: u64, mut end: u64) {
        if let Some((&at, Piece::Zeroes(length))) = self.waiting.range(..begin).next_back()
            && at + length == begin
        {
            begin = at;
        }
        if let Some(Piece::Zeroes(length)) = self.waiting.get(&end) {
            let length = *length;
            self.waiting.remove(&end);
            end += length;
        }
        self.waiting.insert(begin, Piece::Zeroes(end - begin));
    }

    /// What waited for the bytes that are there now.
    fn go_on(&mut self, written: &mut Written) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() != self.next {
                break;
            }
            match entry.get() {
                Piece::Zeroes(length) if self.failed.is_some() => {
                    self.next += length;
                    entry.remove();
                }
                Piece::Zeroes(_) if self.zeroes == 0 => break,
                Piece::Zeroes(length) => {
                    let (length, part) = (*length, self.zeroes.min(*length));
                    entry.remove();
                    self.zeroes -= part;
                    self.next += part;
                    if part < length {
                        self.waiting.insert(self.next, Piece::Zeroes(length - part));
                    }
                    if let Err(error) = io::copy(&mut io::repeat(0).take(part), &mut self.out) {
                        self.failed.get_or_insert(error);
                    }
                }
                Piece::Bytes(_) => {
                    if let Piece::Bytes(bytes) = entry.remove() {
                        self.waiting_packets -= 1;
                        self.waiting_bytes -= bytes.len();
                        written.add(&self.put(&bytes));
                    }
                }
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Written {
        self.next += bytes.len() as u64;
        let done = match &self.failed {
            None => self.out.write_all(bytes),
            Some(_) => Err(io::Error::other("it has failed before")),
        };
        let had_failed = self.failed.is_some();
        let mut written = Written::of(done, 1, (bytes.len() as u64, 0), &mut self.failed);
        if had_failed {
            // Nothing is written behind what was not.
            written.ranges = 0;
        }
        written
    }
}

#[cfg(test)]
mod tests;
