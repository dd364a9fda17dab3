//! Sources with faults: a slower way that leaves the plain sources alone.

use forebay_wire::subevent::{DATA_ERROR_BIT, SUB_EVENT_HEADER_BYTES, SubEventHeader};

use super::turn::Planned;
use super::{SoftReadouts, Source, TURN_TRIGGERS};
use crate::fault::{SourceFaults, SubEventFault};
use crate::outbox::Place;
use crate::queue::Message;
use crate::schedule::{Due, Schedule};

/// What a source needs to go wrong.
#[derive(Debug, Clone)]
pub(super) struct Disturbed {
    faults: Box<SourceFaults>,
    /// A schedule of its own when it can be late, and its triggers of this round.
    late: Option<(Schedule, Vec<Due>)>,
    /// The bytes of a message held back.
    stash: Vec<u8>,
    stashed: Option<Message>,
    /// The stash is among the ready datagrams and must not be overwritten.
    stash_ready: bool,
    messages_made: u64,
}

impl Disturbed {
    pub(super) fn new(faults: Box<SourceFaults>, schedule: &Schedule, longest: usize) -> Self {
        let late = faults.is_ever_late();
        Self {
            late: late.then(|| (schedule.clone(), Vec::with_capacity(TURN_TRIGGERS))),
            stash: Vec::with_capacity(longest),
            stashed: None,
            stash_ready: false,
            messages_made: 0,
            faults,
        }
    }

    pub(super) fn stash(&self) -> &[u8] {
        &self.stash
    }

    pub(super) fn held(&self) -> (u64, u64) {
        self.stashed.map_or((0, 0), amount)
    }

    pub(super) fn late_round(&self) -> Option<&[Due]> {
        self.late.as_ref().map(|(_, round)| round.as_slice())
    }

    /// The stash may be used again: no ready datagram lies in it.
    pub(super) fn free_stash(&mut self) {
        self.stash_ready = false;
    }
}

impl Source {
    /// When a source that can be late makes its next sub-event.
    pub(super) fn peek_late(&self) -> Option<u64> {
        let disturbed = self.disturbed.as_ref()?;
        let due = disturbed.late.as_ref()?.0.peek()?;
        Some(
            due.at_ns
                .saturating_add(disturbed.faults.late_ns(due.index)),
        )
    }

    /// Takes its triggers of this round, in their order; true when there are any.
    pub(super) fn take_late(&mut self, until_ns: u64) -> bool {
        let Some(Disturbed {
            faults,
            late: Some((schedule, round)),
            ..
        }) = self.disturbed.as_deref_mut()
        else {
            return false;
        };
        round.clear();
        while round.len() < TURN_TRIGGERS
            && let Some(due) = schedule.peek()
            && due.at_ns.saturating_add(faults.late_ns(due.index)) <= until_ns
        {
            round.extend(schedule.take());
        }
        !round.is_empty()
    }

    pub(super) fn end_late_at(&mut self, events: u64) {
        if let Some((schedule, _)) = self.disturbed.as_mut().and_then(|d| d.late.as_mut()) {
            schedule.end_at(events);
        }
    }
}

impl SoftReadouts {
    /// As `make`, for a source with faults.
    #[cold]
    pub(super) fn make_disturbed(&mut self, index: u64) -> bool {
        let source = &mut self.sources[self.turn];
        let Some(disturbed) = &source.disturbed else {
            return true;
        };
        let fault = disturbed.faults.subevent(index, self.first_trigger);
        if fault.restart {
            let lost = source.queue.discard_open();
            source.books.restart.add(lost);
        }
        if fault.silent {
            source.books.silent += 1;
            return true;
        }
        let number = self.model.number(fault.value);
        let shape = self.model.shape(self.turn, number);
        let bytes = if fault.header_only {
            SUB_EVENT_HEADER_BYTES as u32
        } else {
            shape.bytes
        };
        let Some(place) = self.reserve(bytes) else {
            return false;
        };
        let tag = self.model.tag(number) ^ fault.tag_flip;
        let out = self.write(
            place,
            Planned {
                index,
                number,
                tag,
                bytes,
                hash: shape.hash,
            },
        );
        if let Some(head) = out.first_chunk_mut()
            && let Ok(mut header) = SubEventHeader::parse(head)
        {
            header.id |= if fault.data_error { DATA_ERROR_BIT } else { 0 };
            header.size = fault.bad_size.unwrap_or(header.size);
            header.emit(head);
        }
        self.sources[self.turn].books.spoiled_subevents += u64::from(fault.is_spoiled());
        self.close_if_complete(place);
        true
    }

    /// Hands on a message of a source with faults, or not.
    #[cold]
    pub(super) fn push_disturbed(&mut self, place: Place, message: Message) {
        let source = &mut self.sources[self.turn];
        let Some(disturbed) = source.disturbed.as_deref_mut() else {
            return;
        };
        let books = &mut source.books;
        let serial = disturbed.messages_made;
        disturbed.messages_made += 1;
        let fault = disturbed
            .faults
            .message(message.last_index, serial, message.bytes);
        if fault.drop {
            return books.dropped_message.add(amount(message));
        }
        let queue = match place {
            Place::Own => &mut source.queue,
            Place::Shared | Place::Stash => &mut self.shared,
        };
        let bytes = queue.bytes_mut(message);
        if let Some((from_end, flip)) = fault.flip {
            let at = bytes.len() - 1 - from_end;
            bytes[at] ^= flip;
            books.corrupted_messages += 1;
        }
        if fault.reorder && disturbed.stashed.is_none() && !disturbed.stash_ready {
            disturbed.stash.clear();
            disturbed.stash.extend_from_slice(bytes);
            disturbed.stashed = Some(Message {
                start: 0,
                ..message
            });
            books.reordered_messages += 1;
            return;
        }
        self.outbox.push(place, message, books);
        if fault.duplicate {
            books.made.add(amount(message));
            books.duplicated.add(amount(message));
            self.outbox.push(place, message, books);
        }
        self.release_stash();
    }

    /// Makes the message held back ready.
    pub(super) fn release_stash(&mut self) {
        let source = &mut self.sources[self.turn];
        if let Some(disturbed) = &mut source.disturbed
            && let Some(message) = disturbed.stashed.take()
        {
            disturbed.stash_ready = true;
            self.outbox.push(Place::Stash, message, &mut source.books);
        }
    }
}

impl SubEventFault {
    /// Whether the sub-event differs from what the model makes for its trigger.
    fn is_spoiled(&self) -> bool {
        self.data_error || self.header_only || self.tag_flip != 0 || self.bad_size.is_some()
    }
}

fn amount(message: Message) -> (u64, u64) {
    (u64::from(message.subevents), message.subevent_bytes)
}
