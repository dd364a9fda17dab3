//! Messages in, sub-events laid open one after the other: nothing leaves a queue uncounted.

use crate::account::DropReason;
use crate::engine::Builder;
use crate::head::NO_HEAD;
use crate::source::{Arrived, Input, Message};

/// Bytes of a sub-event's header.
const HEADER_BYTES: u32 = 16;
/// Bytes of a sub-event that are fetched in advance; of a longer one the processor fetches the rest by itself.
const PREFETCH_BYTES_MAX: u32 = 2048;

impl Builder {
    /// Takes in one message of `source`, in the order of its queue. After a restart the messages from
    /// [`Builder::released`] on are handed in again; those up to [`Builder::pulled`] are not counted twice.
    pub fn handle_message<I: Input>(
        &mut self,
        now_ns: u64,
        source: usize,
        message: Message,
        input: &I,
    ) {
        self.first_ns.get_or_insert(now_ns);
        let state = &mut self.sources[source];
        if !message.is_note() {
            state.rhythm.note(now_ns, self.config.timeout_ns);
        }
        if message.end <= state.pulled {
            let last = message.end == state.pulled;
            let rest = state.replay.admit(message, now_ns);
            self.enqueue(source, rest);
            if last {
                self.end_replay(source);
            }
        } else {
            self.end_replay(source);
            self.note_pause(now_ns, source, &message, input);
            self.count_in(source, &message);
            if !message.is_note() {
                self.hear(source, now_ns);
            }
            self.enqueue(source, Arrived::whole(message, now_ns));
        }
        if self.sources[source].messages.len() == 1 {
            self.lay_open(source, input);
        }
    }

    fn count_in(&mut self, source: usize, message: &Message) {
        let words = &self.accounts.sources[source];
        let (items, bytes) = (u64::from(message.items), u64::from(message.len));
        self.book.add_tally(words.account.incoming, items, bytes);
        self.book.add(words.messages, 1);
        let state = &mut self.sources[source];
        state.pulled = message.end;
        state.silent &= message.is_note();
    }

    fn enqueue(&mut self, source: usize, arrived: Arrived) {
        let state = &mut self.sources[source];
        state.behind_items += u64::from(arrived.items);
        state.behind_bytes += u64::from(arrived.bytes);
        state.messages.push_back(arrived);
        if state.messages.len() == 1 {
            self.begin_message(source);
        }
    }

    /// Whatever a predecessor held and the queue does not show again is broken.
    fn end_replay(&mut self, source: usize) {
        let replay = std::mem::take(&mut self.sources[source].replay);
        if replay.owed_items > 0 || replay.owed_bytes > 0 {
            self.charge(
                source,
                DropReason::Broken,
                replay.owed_items,
                replay.owed_bytes,
            );
        }
    }

    /// Points the head of `source` at its first message.
    fn begin_message(&mut self, source: usize) {
        let state = &mut self.sources[source];
        let head = &mut self.heads.of[source];
        let Some(first) = state.messages.front() else {
            (head.room, head.left) = (0, 0);
            return;
        };
        state.behind_items -= u64::from(first.items);
        state.behind_bytes -= u64::from(first.bytes);
        head.at = first.message.at.wrapping_add(u64::from(first.offset));
        head.room = first.bytes;
        head.left = first.items;
        head.stamp_ns = first.message.stamp_ns;
        let (dropped, numbers) = (first.message.dropped, first.message.numbers);
        match numbers {
            _ if dropped == 0 => {}
            Some(run) => self.came_refused(source, run),
            None => self.came_dropped(source, dropped),
        }
    }

    /// Sub-events and bytes of `source` that wait.
    pub(crate) fn waiting(&self, source: usize) -> (u64, u64) {
        let (state, head) = (&self.sources[source], &self.heads.of[source]);
        let owed = &state.replay;
        (
            state.behind_items + u64::from(head.left) + owed.owed_items,
            state.behind_bytes + u64::from(head.room) + owed.owed_bytes,
        )
    }

    /// Drops the head of `source` for `reason` and lays the next one open.
    pub(crate) fn drop_head<I: Input>(&mut self, source: usize, reason: DropReason, input: &I) {
        let bytes = self.heads.of[source].padded;
        self.charge(source, reason, 1, u64::from(bytes));
        self.step(source, input);
    }

    fn charge(&mut self, source: usize, reason: DropReason, items: u64, bytes: u64) {
        let account = &self.accounts.sources[source].account;
        if let Some(tally) = account.dropped.get(reason as usize) {
            self.book.add_tally(*tally, items, bytes);
        }
    }

    /// Consumes the head of `source`, whose fate is already counted, and lays the next one open.
    #[inline]
    pub(crate) fn step<I: Input>(&mut self, source: usize, input: &I) {
        let head = &mut self.heads.of[source];
        head.at = head.at.wrapping_add(u64::from(head.padded));
        head.room -= head.padded;
        head.left -= 1;
        self.lay_open(source, input);
    }

    /// Reads the header that the head of `source` points at; leaves messages that have none.
    #[inline]
    fn lay_open<I: Input>(&mut self, source: usize, input: &I) {
        while !self.read_head(source, input) {
            self.end_message(source);
            if self.sources[source].messages.is_empty() {
                self.heads.key[source] = NO_HEAD;
                return;
            }
        }
    }

    #[inline]
    fn read_head<I: Input>(&mut self, source: usize, input: &I) -> bool {
        let head = &self.heads.of[source];
        if head.left == 0 || head.room < HEADER_BYTES {
            return false;
        }
        let at = head.at;
        let raw = input.header(source, at);
        let shown = raw.is_some_and(|raw| self.heads.show(source, raw));
        if shown {
            // The whole sub-event and the header behind it are read one event later.
            let bytes = self.heads.of[source].padded.min(PREFETCH_BYTES_MAX) + HEADER_BYTES;
            input.prefetch(source, at, bytes as usize);
        }
        shown
    }

    /// Leaves the first message; whatever it promised and did not hold is broken.
    fn end_message(&mut self, source: usize) {
        let head = &self.heads.of[source];
        let (left, room) = (u64::from(head.left), u64::from(head.room));
        let state = &mut self.sources[source];
        if let Some(ended) = state.messages.pop_front() {
            state.released = ended.message.end;
        }
        self.begin_message(source);
        if left > 0 || room > 0 {
            self.charge(source, DropReason::Broken, left, room);
        }
    }
}
