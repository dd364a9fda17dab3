//! One source after the other makes the sub-events of a round of triggers.

use forebay_wire::hadtu::{TRAILER_BYTES, UNIT_HEADER_BYTES};

use super::{FRAME_BYTES, Phase, SoftReadouts};
use crate::account::PLACE;
use crate::outbox::Place;

/// A sub-event before it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) index: u64,
    pub(super) number: u32,
    pub(super) tag: u8,
    pub(super) bytes: u32,
    pub(super) hash: u64,
}

impl SoftReadouts {
    /// Works until datagrams are ready; false when nothing is due.
    pub(super) fn make_ready(&mut self) -> bool {
        while self.outbox.is_empty() {
            if self.turn == self.sources.len() && !self.begin_round() {
                return false;
            }
            if self.make_turn() && self.outbox.is_empty() {
                self.end_turn();
            }
        }
        true
    }

    /// Takes the triggers that are due (up to a limit) for all sources to make.
    fn begin_round(&mut self) -> bool {
        let Some(started) = self.started_ns else {
            return false;
        };
        let elapsed = self.now_ns - started;
        self.round.clear();
        while self.round.len() < self.round_triggers
            && let Some(due) = self.schedule.take_until(elapsed)
        {
            self.lag.record(elapsed - due.at_ns);
            self.round.push(due);
        }
        self.events += self.round.len() as u64;
        let until = if self.phase == Phase::Running {
            elapsed
        } else {
            u64::MAX
        };
        let mut late = false;
        for source in &mut self.sources {
            late |= source.take_late(until);
        }
        self.flush_all = self.phase == Phase::Finishing && self.round.is_empty() && !late;
        if self.flush_all {
            self.phase = Phase::Finished;
        }
        let flush = self.flush_all || self.next_flush_ns <= self.now_ns;
        let begins = !self.round.is_empty() || late || flush;
        if begins {
            (self.turn, self.at, self.round_flush_ns) = (0, 0, u64::MAX);
        }
        begins
    }

    fn end_turn(&mut self) {
        if let (Some(opened), Some(flush)) =
            (self.sources[self.turn].queue.opened_ns(), self.flush_ns)
        {
            self.round_flush_ns = self.round_flush_ns.min(opened.saturating_add(flush));
        }
        self.at = 0;
        self.turn += 1;
        if self.turn == self.sources.len() {
            self.next_flush_ns = self.round_flush_ns;
        }
    }

    /// Makes the sub-events of the round for the source whose turn it is; false when datagrams have
    /// to go out before it can go on.
    fn make_turn(&mut self) -> bool {
        while let Some(due) = self.sources[self.turn].due(&self.round, self.at) {
            if !self.make(due.index) {
                return false;
            }
            self.at += 1;
        }
        let queue = &self.sources[self.turn].queue;
        let overdue = match (queue.opened_ns(), self.flush_ns) {
            (Some(opened), Some(flush)) => opened.saturating_add(flush) <= self.now_ns,
            _ => false,
        };
        if queue.is_open() && (overdue || self.flush_all) {
            self.close(Place::Own);
        }
        if self.flush_all {
            self.release_stash();
        }
        true
    }

    /// Makes one sub-event; false when there is no room before datagrams went out.
    #[inline]
    fn make(&mut self, index: u64) -> bool {
        if self.outbox.is_full() {
            return false;
        }
        if self.sources[self.turn].disturbed.is_some() {
            return self.make_disturbed(index);
        }
        let number = self.model.number(self.first_trigger + index);
        let shape = self.model.shape(self.turn, number);
        let Some(place) = self.reserve(shape.bytes) else {
            return false;
        };
        if self.leak.take(PLACE) {
            self.sources[self.turn]
                .books
                .made
                .add((1, u64::from(shape.bytes)));
            return true;
        }
        let tag = self.model.tag(number);
        let (bytes, hash) = (shape.bytes, shape.hash);
        self.write(
            place,
            Planned {
                index,
                number,
                tag,
                bytes,
                hash,
            },
        );
        self.close_if_complete(place);
        true
    }

    /// Finds a place for a sub-event, closing the open message if it does not fit into it.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: u32) -> Option<Place> {
        let padded = (bytes as usize).next_multiple_of(8);
        let queue = &self.sources[self.turn].queue;
        if UNIT_HEADER_BYTES + padded > self.queue_limit {
            if queue.is_open() {
                self.close(Place::Own);
            }
            if self.outbox.is_empty() {
                self.shared.rewind();
            }
            let fits = self.shared.has_room(padded + FRAME_BYTES);
            return fits.then_some(Place::Shared);
        }
        if queue.is_open() {
            if queue.size_with(padded) <= self.queue_limit {
                return Some(Place::Own);
            }
            self.close(Place::Own);
        }
        let queue = &mut self.sources[self.turn].queue;
        if self.outbox.is_empty() {
            queue.rewind();
        }
        let fits = queue.has_room(self.queue_limit + TRAILER_BYTES);
        fits.then_some(Place::Own)
    }

    #[inline]
    pub(super) fn write(&mut self, place: Place, planned: Planned) -> &mut [u8] {
        let Planned {
            index,
            number,
            tag,
            bytes,
            hash,
        } = planned;
        let source = &mut self.sources[self.turn];
        source.books.made.add((1, u64::from(bytes)));
        let queue = match place {
            Place::Own => &mut source.queue,
            Place::Shared | Place::Stash => &mut self.shared,
        };
        let out = queue.append(bytes, index, self.now_ns);
        self.model.write(out, self.turn, number, tag, hash);
        out
    }

    /// A message outside the source's queue is complete with its one sub-event.
    #[inline]
    pub(super) fn close_if_complete(&mut self, place: Place) {
        if place == Place::Shared {
            self.close(Place::Shared);
        }
    }

    #[inline]
    pub(super) fn close(&mut self, place: Place) {
        let source = &mut self.sources[self.turn];
        let queue = match place {
            Place::Own => &mut source.queue,
            Place::Shared | Place::Stash => &mut self.shared,
        };
        let message = queue.close(self.model.order());
        if source.disturbed.is_none() {
            self.outbox.push(place, message, &mut source.books);
        } else {
            self.push_disturbed(place, message);
        }
    }
}
