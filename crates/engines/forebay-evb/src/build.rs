//! Writing one event: header, then the sub-events of the sources that take part.

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::account::DropReason;
use crate::engine::{Builder, Poll};
use crate::head::trigger_of;
use crate::order::successor;
use crate::output::{EventMeta, Output, Slot};
use crate::situation::Ended;
use crate::source::Input;

/// What the sub-events of one event have in common.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    subevents: u32,
    /// Bytes that were filled.
    bytes: u32,
    data_error: bool,
    stamp_ns: u64,
}

impl Builder {
    /// Every source shows `key`.
    pub(crate) fn build_complete<I: Input, O: Output>(
        &mut self,
        key: u64,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let body: usize = self.heads.of.iter().map(|head| head.padded as usize).sum();
        let bytes = EVENT_HEADER_BYTES + body;
        if bytes > self.config.event_bytes_max {
            self.mismatched.clear();
            self.present.clear();
            self.present.extend(0..self.config.sources as u32);
            return self.discard_present(key, DropReason::TooLarge, input);
        }
        let Some(slot) = output.reserve(bytes) else {
            return Poll::Full;
        };
        if self.some_astray {
            self.forget_astray();
        }
        let all = 0..self.config.sources;
        let meta = self.write(slot, key, all, input);
        self.finish_event(&meta, output)
    }

    /// The sources in `present` show `key`; those in `mismatched` show its trigger number with another tag.
    pub(crate) fn build_present<I: Input, O: Output>(
        &mut self,
        key: u64,
        ended: Ended,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let trigger = trigger_of(key);
        let bytes = self.present_bytes();
        if bytes > self.config.event_bytes_max {
            self.mark_absent(trigger, ended);
            return self.discard_present(key, DropReason::TooLarge, input);
        }
        // Without room nothing may have happened yet: the same event is looked at again.
        let Some(slot) = output.reserve(bytes) else {
            return Poll::Full;
        };
        self.mark_absent(trigger, ended);
        self.drop_mismatched(trigger, input);
        let present = std::mem::take(&mut self.present);
        let sources = present.iter().map(|source| *source as usize);
        let meta = self.write(slot, key, sources, input);
        self.present = present;
        self.finish_event(&meta, output)
    }

    /// Gives the event up: what is there of it is dropped for `reason`.
    pub(crate) fn discard_present<I: Input>(
        &mut self,
        key: u64,
        reason: DropReason,
        input: &I,
    ) -> Poll {
        let trigger = trigger_of(key);
        let first = self.present.first().map_or(0, |source| *source as usize);
        self.note_event(first, trigger, self.present_bytes());
        self.drop_mismatched(trigger, input);
        let mut bytes = EVENT_HEADER_BYTES as u64;
        for index in 0..self.present.len() {
            let source = self.present[index] as usize;
            bytes += u64::from(self.heads.of[source].padded);
            self.settle_source(source, trigger);
            self.drop_head(source, reason, input);
        }
        let events = &self.accounts.events;
        let dropped = usize::from(reason == DropReason::TooLarge);
        if let Some(tally) = events.dropped.get(dropped) {
            self.book.add_tally(*tally, 1, bytes);
        }
        self.book.add(self.accounts.discarded, 1);
        Poll::Dropped
    }

    /// Size of the event that the sources in `present` make.
    fn present_bytes(&self) -> usize {
        let padded = |source: &u32| self.heads.of[*source as usize].padded as usize;
        EVENT_HEADER_BYTES + self.present.iter().map(padded).sum::<usize>()
    }

    /// Moves the heads of `sources` into `slot`, and the event's header before them.
    fn write<I: Input>(
        &mut self,
        slot: Slot<'_>,
        key: u64,
        sources: impl ExactSizeIterator<Item = usize> + Clone,
        input: &I,
    ) -> EventMeta {
        let complete = sources.len() == self.config.sources;
        let first = sources.clone().next().unwrap_or(0);
        let header = self.heads.of[first].header();
        let kind = header.map_or(0, |header| header.trigger_type());
        let bytes = slot.bytes.len();
        self.note_event(first, trigger_of(key), bytes);
        let (head_room, body) = slot.bytes.split_at_mut(EVENT_HEADER_BYTES);
        let gathered = self.gather(body, trigger_of(key), sources, input);
        let id = EventId::data(kind).with_data_error(gathered.data_error);
        let id = if complete { id } else { id.with_incomplete() };
        let mut event = EventHeader::new(id, slot.unix_s, slot.run);
        event.size = bytes as u32;
        event.sequence = self.sequence.wrapping_add(1);
        head_room.copy_from_slice(&event.to_bytes());
        EventMeta {
            bytes: EVENT_HEADER_BYTES as u32 + gathered.bytes,
            trigger: trigger_of(key),
            sequence: event.sequence,
            subevents: gathered.subevents,
            complete,
            stamp_ns: gathered.stamp_ns,
        }
    }

    /// Copies the sub-events into `body` (the one copy between the source's queue and the sink's), each
    /// under the header that was checked: the queue's memory may have changed since.
    #[inline]
    fn gather<I: Input>(
        &mut self,
        mut body: &mut [u8],
        trigger: u32,
        sources: impl Iterator<Item = usize>,
        input: &I,
    ) -> Gathered {
        let mut gathered = Gathered {
            subevents: 0,
            bytes: 0,
            data_error: false,
            stamp_ns: u64::MAX,
        };
        for source in sources {
            let head = &self.heads.of[source];
            let (sub, rest) = body.split_at_mut(head.padded as usize);
            let copied = input.copy(source, head.at, sub);
            if !copied {
                sub.fill(0);
            }
            sub[..head.raw.len()].copy_from_slice(&head.raw);
            gathered.subevents += 1;
            gathered.bytes += sub.len() as u32;
            gathered.data_error |= head.data_error || !copied;
            // A stamp of 0 is unknown: the largest of all after subtraction.
            gathered.stamp_ns = gathered.stamp_ns.min(head.stamp_ns.wrapping_sub(1));
            self.take(source, trigger, input);
            body = rest;
        }
        gathered.stamp_ns = gathered.stamp_ns.wrapping_add(1);
        gathered
    }

    /// The head of `source` went into an event.
    #[inline]
    fn take<I: Input>(&mut self, source: usize, trigger: u32, input: &I) {
        let counts = !self.leak.take("builder");
        let head = &mut self.heads.of[source];
        if counts {
            head.built_items += 1;
            head.built_bytes += u64::from(head.padded);
        }
        head.set_last(Some(trigger));
        if head.odd_decoding {
            self.book.add(self.accounts.sources[source].odd_decoding, 1);
        }
        if self.some_unsettled {
            self.settle_source(source, trigger);
        }
        self.step(source, input);
    }

    /// Counts the event and gives it to the output, unless the fault switch makes it vanish here.
    fn finish_event<O: Output>(&mut self, meta: &EventMeta, output: &mut O) -> Poll {
        let bytes = u64::from(meta.bytes);
        if self.leak.take("events") {
            return Poll::Built;
        }
        self.book.add_tally(self.accounts.events.outgoing, 1, bytes);
        let kind = if meta.complete {
            self.accounts.complete
        } else {
            self.accounts.partial
        };
        self.book.add(kind, 1);
        self.sequence = meta.sequence;
        output.commit(meta);
        Poll::Built
    }

    /// The numbering moves on behind `trigger`, whose event of `bytes` is closed and finished one way or the other; called while
    /// the head of `first`, a source in it, is still there.
    fn note_event(&mut self, first: usize, trigger: u32, bytes: usize) {
        let incoming = self.accounts.events.incoming;
        self.book.add_tally(incoming, 1, bytes as u64);
        self.recent.note(trigger, self.heads.tag(first));
        self.see_trigger(trigger);
        self.some_unsettled =
            self.some_unsettled && self.sources.iter().any(|of| of.absent.is_unsettled());
        self.next = Some(successor(self.config.trigger_bits, trigger));
        self.expected = Some(self.circle().after(trigger, 1));
        self.wake_ns = None;
        self.pressure = false;
        self.doubted = None;
    }
}
