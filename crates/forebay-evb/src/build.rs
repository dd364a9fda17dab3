//! Writing one event: header, then the sub-events of the sources that are present.

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::account::DropReason;
use crate::config::Completion;
use crate::engine::{Builder, Poll, RECENT};
use crate::loss::Cause;
use crate::order::{distance, successor};
use crate::output::{EventMeta, Output, Slot};
use crate::source::Input;

impl Builder {
    /// Whether an event with `key` is not older than the ones already built.
    pub(crate) fn is_new(&self, key: u64) -> bool {
        let trigger = (key >> 8) as u32;
        self.next
            .is_none_or(|next| distance(self.config.trigger_bits, next, trigger) >= 0)
    }

    /// Every source shows `key`.
    pub(crate) fn build_complete<I: Input, O: Output>(
        &mut self,
        key: u64,
        input: &I,
        output: &mut O,
    ) -> Poll {
        self.present.clear();
        self.present.extend(0..self.config.sources as u32);
        self.write(key, input, output)
    }

    /// The sources in `present` show the trigger of `key`; tags may still differ.
    pub(crate) fn build_present<I: Input, O: Output>(
        &mut self,
        trigger: u32,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let key = self.majority_key();
        let mismatched: Vec<u32> = self
            .present
            .iter()
            .copied()
            .filter(|s| self.heads.key[*s as usize] != key)
            .collect();
        if mismatched.is_empty() {
            return self.write(key, input, output);
        }
        for source in &mismatched {
            self.drop_head(*source as usize, DropReason::TagMismatch, input);
            self.lose(*source as usize, trigger, Cause::TagMismatch);
        }
        self.present.retain(|source| !mismatched.contains(source));
        if self.config.completion == Completion::Discard {
            return self.discard_present(trigger, DropReason::Incomplete, input);
        }
        // The dropped heads are gone for good: the event must be finished in this call, or the next
        // survey would find its source ahead and charge the same loss again.
        self.write(key, input, output)
    }

    /// The key that most of the present sources show; of equals, the first source's.
    fn majority_key(&self) -> u64 {
        let keys = self
            .present
            .iter()
            .map(|source| self.heads.key[*source as usize]);
        let mut best = (0, 0);
        for key in keys {
            let votes = self
                .present
                .iter()
                .filter(|source| self.heads.key[**source as usize] == key)
                .count();
            if votes > best.0 {
                best = (votes, key);
            }
            if votes * 2 > self.present.len() {
                break;
            }
        }
        best.1
    }

    /// Gives the event up: what is present is dropped for `reason`.
    pub(crate) fn discard_present<I: Input>(
        &mut self,
        trigger: u32,
        reason: DropReason,
        input: &I,
    ) -> Poll {
        let present = std::mem::take(&mut self.present);
        let mut bytes = EVENT_HEADER_BYTES as u64;
        for source in &present {
            bytes += u64::from(self.heads.head[*source as usize].padded());
            self.drop_one(*source as usize, trigger, reason, input);
        }
        self.present = present;
        self.book.add_tally(self.accounts.events.incoming, 1, bytes);
        let dropped = usize::from(reason == DropReason::TooLarge);
        if let Some(tally) = self.accounts.events.dropped.get(dropped) {
            self.book.add_tally(*tally, 1, bytes);
        }
        self.book.add(self.accounts.discarded, 1);
        self.advance(trigger, u64::MAX);
        Poll::Dropped
    }

    fn drop_one<I: Input>(&mut self, source: usize, trigger: u32, reason: DropReason, input: &I) {
        self.sources[source].last = Some(trigger);
        self.drop_head(source, reason, input);
    }

    fn write<I: Input, O: Output>(&mut self, key: u64, input: &I, output: &mut O) -> Poll {
        let trigger = (key >> 8) as u32;
        let bytes = self.event_bytes();
        if bytes > self.config.event_bytes_max {
            return self.discard_present(trigger, DropReason::TooLarge, input);
        }
        let Some(slot) = output.reserve(bytes) else {
            return Poll::Full;
        };
        let meta = self.fill(slot, bytes, trigger, input);
        if self.count(&meta) {
            output.commit(&meta);
        }
        let present = std::mem::take(&mut self.present);
        for source in &present {
            self.take(*source as usize, trigger, input);
        }
        self.present = present;
        self.advance(trigger, key);
        Poll::Built
    }

    /// Size of the event that the sources in `present` make.
    pub(crate) fn event_bytes(&self) -> usize {
        let body: usize = self
            .present
            .iter()
            .map(|source| self.heads.head[*source as usize].padded() as usize)
            .sum();
        EVENT_HEADER_BYTES + body
    }

    /// Copies the sub-events into `slot` (the one copy between the source's queue and the sink's) and
    /// writes each header from what was checked: the queue's memory may have changed since.
    fn fill<I: Input>(&self, slot: Slot<'_>, bytes: usize, trigger: u32, input: &I) -> EventMeta {
        let (head_room, mut body) = slot.bytes.split_at_mut(EVENT_HEADER_BYTES);
        let mut stamp_ns = u64::MAX;
        let mut data_error = false;
        for source in &self.present {
            let source = *source as usize;
            let head = &self.heads.head[source];
            let (sub, rest) = body.split_at_mut(head.padded() as usize);
            if !input.copy(source, head.at, sub) {
                sub.fill(0);
            }
            if let Some(place) = sub.first_chunk_mut() {
                head.header.emit(place);
            }
            data_error |= head.header.has_data_error();
            stamp_ns = stamp_ns.min(self.stamp_of(source));
            body = rest;
        }
        let complete = self.present.len() == self.config.sources;
        let kind = self.present.first().map_or(0, |first| {
            self.heads.head[*first as usize].header.trigger_type()
        });
        let id = EventId::data(kind).with_data_error(data_error);
        let id = if complete { id } else { id.with_incomplete() };
        let sequence = self.sequence.wrapping_add(1);
        let mut header = EventHeader::new(id, slot.unix_s, slot.run);
        header.size = bytes as u32;
        header.sequence = sequence;
        head_room.copy_from_slice(&header.to_bytes());
        let subevents = self.present.len() as u32;
        EventMeta {
            bytes: bytes as u32,
            trigger,
            sequence,
            subevents,
            complete,
            stamp_ns,
        }
    }

    fn stamp_of(&self, source: usize) -> u64 {
        self.sources[source]
            .messages
            .front()
            .map_or(0, |first| first.message.stamp_ns)
    }

    /// Counts the event; false when the fault switch makes it vanish here.
    fn count(&mut self, meta: &EventMeta) -> bool {
        let bytes = u64::from(meta.bytes);
        self.book.add_tally(self.accounts.events.incoming, 1, bytes);
        if self.leak.take("events") {
            return false;
        }
        self.book.add_tally(self.accounts.events.outgoing, 1, bytes);
        let kind = if meta.complete {
            self.accounts.complete
        } else {
            self.accounts.partial
        };
        self.book.add(kind, 1);
        self.sequence = meta.sequence;
        true
    }

    /// The head of `source` went into an event.
    #[inline]
    fn take<I: Input>(&mut self, source: usize, trigger: u32, input: &I) {
        let bytes = u64::from(self.heads.head[source].padded());
        if !self.leak.take("builder") {
            self.book
                .add_tally(self.accounts.sources[source].account.outgoing, 1, bytes);
        }
        self.sources[source].last = Some(trigger);
        self.step(source, input);
    }

    fn advance(&mut self, trigger: u32, key: u64) {
        self.next = Some(successor(self.config.trigger_bits, trigger));
        self.recent[trigger as usize % RECENT] = key;
        self.behind_since_ns = None;
        self.wake_ns = None;
    }
}
