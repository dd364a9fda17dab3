//! Datagrams that are ready, all of one source, and what became of them.

use crate::config::CUT_BYTES;
use crate::queue::{Message, Queue};
use crate::totals::SourceTotals;

/// The most datagrams that wait at a time, but for the pieces of one long message.
pub(crate) const MAX_READY: usize = 64;

/// Where the bytes of a datagram lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the buffer that all sources share for messages complete at once.
    Shared,
    /// In the source's own queue.
    Own,
    /// In the message held back to be sent out of order.
    Stash,
}

#[derive(Debug, Clone, Copy)]
struct Ready {
    place: Place,
    start: usize,
    bytes: usize,
    /// Those of the message, on its last datagram; 0 before.
    subevents: u32,
    subevent_bytes: u64,
    last: bool,
}

/// Datagrams of one source, in the order in which they are to be sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    ready: Vec<Ready>,
    settled: usize,
    offered: usize,
    /// A datagram of the message at hand was not sent, so the message is lost.
    broken: bool,
}

impl Outbox {
    pub(crate) fn with_room_for(longest_message_bytes: usize) -> Self {
        let pieces = longest_message_bytes / CUT_BYTES as usize + 1;
        Self {
            ready: Vec::with_capacity(MAX_READY + 3 * pieces),
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ready.len() >= MAX_READY
    }

    /// Adds a message, cut as classic nettrans does: pieces of exactly 64,512 bytes, then the rest.
    #[inline]
    pub(crate) fn push(&mut self, place: Place, message: Message, books: &mut SourceTotals) {
        let (mut start, mut left) = (message.start, message.bytes);
        loop {
            let bytes = left.min(CUT_BYTES as usize);
            left -= bytes;
            let last = left == 0;
            books.datagrams_made.add((1, bytes as u64));
            self.ready.push(Ready {
                place,
                start,
                bytes,
                subevents: if last { message.subevents } else { 0 },
                subevent_bytes: if last { message.subevent_bytes } else { 0 },
                last,
            });
            start += bytes;
            if last {
                return;
            }
        }
    }

    /// Writes what waits here into the books of its source.
    pub(crate) fn tell_held(&self, books: &mut SourceTotals) {
        for ready in &self.ready[self.settled..] {
            books
                .held
                .add((u64::from(ready.subevents), ready.subevent_bytes));
            books.datagrams_held.add((1, ready.bytes as u64));
        }
    }

    /// Marks up to `max` datagrams as handed out.
    pub(crate) fn offer(&mut self, max: usize) {
        self.offered = max.min(self.ready.len() - self.settled);
    }

    /// Settles the first `count` of those handed out; true when none is left waiting.
    pub(crate) fn settle(&mut self, count: usize, sent: bool, books: &mut SourceTotals) -> bool {
        let count = count.min(self.offered);
        for ready in &self.ready[self.settled..self.settled + count] {
            let datagram = (1, ready.bytes as u64);
            if sent {
                books.datagrams_sent.add(datagram);
            } else {
                books.datagrams_refused.add(datagram);
                self.broken = true;
            }
            if ready.last {
                let part = (u64::from(ready.subevents), ready.subevent_bytes);
                if self.broken {
                    books.send_failed.add(part);
                } else {
                    books.sent.add(part);
                    books.messages += 1;
                }
                self.broken = false;
            }
        }
        self.settled += count;
        self.offered -= count;
        if self.settled < self.ready.len() {
            return false;
        }
        self.ready.clear();
        self.settled = 0;
        true
    }

    pub(crate) fn offered(&self) -> usize {
        self.offered
    }

    /// The datagrams handed out.
    pub(crate) fn batch<'a>(
        &'a self,
        source: usize,
        port: usize,
        buffers: Buffers<'a>,
    ) -> Batch<'a> {
        Batch {
            source,
            port,
            ready: &self.ready[self.settled..self.settled + self.offered],
            buffers,
        }
    }
}

/// Where datagrams of a source can lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers<'a> {
    pub(crate) shared: &'a Queue,
    pub(crate) own: &'a Queue,
    pub(crate) stash: &'a [u8],
}

impl<'a> Buffers<'a> {
    fn of(&self, place: Place) -> &'a [u8] {
        match place {
            Place::Shared => self.shared.bytes(),
            Place::Own => self.own.bytes(),
            Place::Stash => self.stash,
        }
    }
}

/// Neighbouring datagrams of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The bytes of all of them.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub datagram_bytes: usize,
    /// How many; at least 1.
    pub count: usize,
}

/// One UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The source that sends it.
    pub source: usize,
    /// The port it goes to, counted from the base port.
    pub port: usize,
    /// What to send.
    pub bytes: &'a [u8],
    /// The sub-events of the message when this is its last datagram, 0 before.
    pub subevents: u32,
    /// Whether the message ends here.
    pub last_of_message: bool,
}

/// Some datagrams of one source, ready to be sent in this order.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The source that sends them.
    pub source: usize,
    /// The port they go to, counted from the base port.
    pub port: usize,
    ready: &'a [Ready],
    buffers: Buffers<'a>,
}

impl<'a> Batch<'a> {
    /// How many; at least 1.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Never true for a batch that was handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The datagrams in order, joined where neighbours lie side by side and are of one size: what a kernel that cuts
    /// (`UDP_SEGMENT`) sends as single datagrams, at a fraction of the cost. At most `run_bytes_max` bytes a run.
    pub fn runs(self, run_bytes_max: usize) -> impl Iterator<Item = Run<'a>> {
        let Self { ready, buffers, .. } = self;
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = ready.get(at)?;
            let joins = |(index, next): &(usize, &Ready)| {
                next.place == first.place
                    && next.bytes == first.bytes
                    && next.start == first.start + index * first.bytes
                    && (index + 1) * first.bytes <= run_bytes_max
            };
            let count = ready[at..]
                .iter()
                .enumerate()
                .take_while(joins)
                .count()
                .max(1);
            at += count;
            let bytes = &buffers.of(first.place)[first.start..first.start + count * first.bytes];
            Some(Run {
                bytes,
                datagram_bytes: first.bytes,
                count,
            })
        })
    }

    /// The datagrams in order.
    pub fn datagrams(self) -> impl ExactSizeIterator<Item = Datagram<'a>> {
        let buffers = self.buffers;
        self.ready.iter().map(move |ready| {
            let buffer = buffers.of(ready.place);
            Datagram {
                source: self.source,
                port: self.port,
                bytes: &buffer[ready.start..ready.start + ready.bytes],
                subevents: ready.subevents,
                last_of_message: ready.last,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Message {
        Message {
            start: 0,
            bytes,
            subevents: 3,
            subevent_bytes: 300,
            last_index: 0,
        }
    }

    fn pieces(bytes: usize) -> Vec<(usize, bool)> {
        let mut outbox = Outbox::with_room_for(bytes);
        outbox.push(Place::Own, message(bytes), &mut SourceTotals::default());
        outbox.ready.iter().map(|r| (r.bytes, r.last)).collect()
    }

    #[test]
    fn cuts_as_nettrans() {
        assert_eq!(pieces(64_511), [(64_511, true)]);
        assert_eq!(pieces(64_513), [(64_512, false), (1, true)]);
        assert_eq!(pieces(100_040), [(64_512, false), (35_528, true)]);
        assert_eq!(
            pieces(129_024),
            [(64_512, false), (64_512, true)],
            "no short end"
        );
    }

    #[test]
    fn a_message_with_a_piece_not_sent_is_lost_once() {
        let (mut outbox, mut books) = (Outbox::with_room_for(200_000), SourceTotals::default());
        outbox.push(Place::Own, message(150_000), &mut books);
        outbox.push(Place::Own, message(100), &mut books);
        outbox.offer(10);
        assert!(!outbox.settle(1, true, &mut books));
        assert!(!outbox.settle(1, false, &mut books));
        let mut now = books;
        outbox.tell_held(&mut now);
        assert_eq!((now.held.items, now.held.bytes), (6, 600));
        assert_eq!(now.residual_datagrams(), (0, 0));
        assert!(outbox.settle(10, true, &mut books));
        assert_eq!((books.sent.items, books.send_failed.items), (3, 3));
        assert_eq!((books.datagrams_sent.items, books.messages), (3, 1));
        assert_eq!(books.datagrams_sent.bytes, 64_512 + 20_976 + 100);
        assert_eq!(books.datagrams_refused.items, 1);
    }

    #[test]
    fn what_was_not_settled_is_offered_again() {
        let (mut outbox, mut books) = (Outbox::with_room_for(100), SourceTotals::default());
        (0..5).for_each(|_| outbox.push(Place::Own, message(50), &mut books));
        outbox.offer(3);
        outbox.settle(2, true, &mut books);
        outbox.offer(8);
        assert_eq!(outbox.offered(), 3);
    }
}
