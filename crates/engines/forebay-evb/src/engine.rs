//! The builder: takes messages of all sources, gives events.

use std::collections::VecDeque;

use forebay_ledger::{Book, Counter, Leak};

use crate::account::{Accounts, SubEventDrop};
use crate::build::Standing;
use crate::config::Config;
use crate::head::{Heads, NO_HEAD, trigger_of};
use crate::loss::{Cause, LostRange, OpenRange};
use crate::numbering::Pauses;
use crate::numbering::{TriggerGap, Triggers};
use crate::output::Output;
use crate::policy::Completion;
use crate::recent::Recent;
use crate::source::{Arrived, Input, Message, Replay, Source};
use forebay_settings::OutOfRange;

/// What [`Builder::poll`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// An event was written to the output. Poll again.
    Built,
    /// Sub-events were dropped or an event was given up. Poll again.
    Dropped,
    /// Nothing to do before more data comes or [`Builder::poll_timeout`] passes.
    Idle,
    /// The output has no room; poll again when it has.
    Full,
}

/// The event builder engine. It owns its accounts; the run layer commits [`Builder::save`] and frees
/// each source's queue up to [`Builder::released`] after the output is safe.
#[derive(Debug)]
pub struct Builder {
    pub(crate) config: Config,
    pub(crate) accounts: Accounts,
    pub(crate) book: Book,
    pub(crate) sources: Vec<Source>,
    pub(crate) heads: Heads,
    /// Trigger number after that of the last event; `None` before the first.
    pub(crate) next: Option<u32>,
    pub(crate) sequence: u32,
    pub(crate) recent: Recent,
    pub(crate) open_ranges: Vec<OpenRange>,
    pub(crate) lost: VecDeque<LostRange>,
    pub(crate) triggers: Triggers,
    pub(crate) gaps: VecDeque<TriggerGap>,
    /// Trigger number of the event that comes next when no trigger is missing.
    pub(crate) expected: Option<u32>,
    /// When the first message came in this life.
    pub(crate) first_ns: Option<u64>,
    pub(crate) pauses: Pauses,
    /// A full queue was told of, and no event was finished since: only then is it still known to be full.
    pub(crate) pressure: bool,
    /// When the answer "idle" changes by itself.
    pub(crate) wake_ns: Option<u64>,
    /// Since when most sources have been astray.
    pub(crate) lost_since_ns: Option<u64>,
    /// When the numbering changed last: what was held back until then begins to wait for other sources.
    pub(crate) renumbered_ns: u64,
    /// Some source has been astray since the last complete event.
    pub(crate) some_astray: bool,
    /// Some source has had a sub-event dropped as astray that may stand for an event yet.
    pub(crate) some_unsettled: bool,
    /// Source and trigger number of the head dropped last because nothing confirmed it.
    pub(crate) doubted: Option<(usize, u32)>,
    /// How each head stands, as the slow path saw it last.
    pub(crate) standings: Vec<Standing>,
    /// Scratch: sources that take part in the event at hand, and sources whose tag does not fit it.
    pub(crate) present: Vec<u32>,
    pub(crate) mismatched: Vec<u32>,
    pub(crate) leak: Leak,
    /// The output had no room at the last poll.
    blocked: bool,
    /// When the output had room again: what was held up by it is not the sources' fault.
    pub(crate) unblocked_ns: u64,
}

impl Builder {
    /// A builder that starts with nothing.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: Config, accounts: Accounts, book: Book) -> Result<Self, OutOfRange> {
        config.validate()?;
        let n = config.sources;
        let mut builder = Self {
            sources: (0..n).map(|_| Source::default()).collect(),
            heads: Heads::new(n, config.trigger_bits, config.check_tag),
            next: None,
            sequence: 0,
            recent: Recent::before(None, 0),
            open_ranges: vec![OpenRange::default(); n],
            lost: VecDeque::new(),
            triggers: Triggers::default(),
            gaps: VecDeque::new(),
            expected: None,
            first_ns: None,
            pauses: Pauses::default(),
            pressure: false,
            wake_ns: None,
            lost_since_ns: None,
            renumbered_ns: 0,
            some_astray: false,
            some_unsettled: false,
            doubted: None,
            standings: vec![Standing::Nothing; n],
            present: Vec::with_capacity(n),
            mismatched: Vec::with_capacity(n),
            leak: Leak::off(),
            blocked: false,
            unblocked_ns: 0,
            config,
            accounts,
            book,
        };
        builder.restore();
        Ok(builder)
    }

    /// Loses items uncounted at the hops `builder` and `events`, to test the books.
    pub fn set_leak(&mut self, leak: Leak) {
        self.leak = leak;
    }

    /// Position up to which the messages of `source` were taken in: where reading goes on, and where
    /// a restarted builder stops to count messages anew.
    #[must_use]
    pub fn pulled(&self, source: usize) -> u64 {
        self.sources[source].pulled
    }

    /// Position up to which the queue of `source` may be freed once the output and the book are safe.
    #[must_use]
    pub fn released(&self, source: usize) -> u64 {
        self.sources[source].released
    }

    /// Sub-events of `source` that wait, counted from the queue itself.
    #[must_use]
    pub fn held(&self, source: usize) -> u64 {
        self.waiting(source).0
    }

    /// The accounts, for the run layer's own reading.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Says that the queue of `source` is nearly full, or no longer. It holds until an event is finished: that makes room.
    pub fn handle_pressure(&mut self, source: usize, pressed: bool) {
        self.sources[source].pressed = pressed;
        self.pressure |= pressed;
    }

    /// Says that `source` will send nothing more.
    pub fn handle_close(&mut self, source: usize) {
        self.sources[source].closed = true;
    }

    /// Says that `source` sends again after all, and is waited for again.
    pub fn handle_open(&mut self, source: usize) {
        let state = &mut self.sources[source];
        if std::mem::take(&mut state.closed) {
            state.silent = false;
        }
    }

    /// When to poll again although nothing came, in ns of the caller's clock.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.wake_ns
    }

    /// Builds or drops at most one event.
    pub fn poll<I: Input, O: Output>(&mut self, now_ns: u64, input: &I, output: &mut O) -> Poll {
        if std::mem::take(&mut self.blocked) {
            self.unblocked_ns = now_ns;
        }
        let done = match self.heads.agreed() {
            Some(key) if self.expected == Some(trigger_of(key)) => {
                self.build_complete(key, input, output)
            }
            _ => self.decide(now_ns, input, output),
        };
        self.blocked = done == Poll::Full;
        done
    }

    /// The next range of lost trigger numbers for the loss table, in the order in which they ended. Take
    /// all of them before each commit of the book.
    pub fn poll_loss(&mut self) -> Option<LostRange> {
        self.lost.pop_front()
    }

    /// The next range of triggers that no source delivered, for the table of gaps. Take all of them before each commit of the book.
    pub fn poll_gap(&mut self) -> Option<TriggerGap> {
        self.gaps.pop_front()
    }

    /// Ends all ranges that are still growing, at the end of a run.
    pub fn finish(&mut self) {
        let ended = self.open_ranges.iter_mut().filter_map(OpenRange::close);
        self.lost.extend(ended);
    }

    /// Wakes the caller at `at_ns` at the latest.
    pub(crate) fn wake_at(&mut self, at_ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(at_ns, |wake| wake.min(at_ns)));
    }

    /// Notes that `source` is not in the event of `trigger`, as nothing came for it that could be: it never came, unless a sub-event was
    /// dropped in its place.
    pub(crate) fn miss(&mut self, source: usize, trigger: u32, cause: Cause) {
        let (circle, next) = (self.circle(), self.next.unwrap_or(trigger));
        let absent = &mut self.sources[source].absent;
        if absent.stands_for(trigger) {
            return self.lose(source, trigger, Cause::Astray, 0);
        }
        if absent.was_dropped(circle.bits, next, trigger) {
            return self.lose(source, trigger, Cause::Dropped, 0);
        }
        absent.note(circle, trigger, trigger);
        self.book.add(self.accounts.sources[source].missing, 1);
        self.lose(source, trigger, cause, 0);
    }

    /// Lists and counts `source` as missing in the event of `trigger`; `bytes` of it came and were dropped.
    pub(crate) fn lose(&mut self, source: usize, trigger: u32, cause: Cause, bytes: u64) {
        self.book
            .add(self.accounts.sources[source].events_without, 1);
        let follows = self.circle().before(trigger);
        let ended = self.open_ranges[source].add(source, trigger, follows, cause, bytes);
        self.lost.extend(ended);
    }

    /// A sub-event of `source` with the number `trigger` comes when its turn is over.
    pub(crate) fn came_late(&mut self, source: usize, trigger: u32) {
        let circle = self.circle();
        if !self.find_trigger(trigger) && self.sources[source].absent.take(circle, trigger) {
            self.found(source, 1);
        }
        self.sources[source].absent.know(circle, trigger);
    }

    /// The head of `source` is dropped, as its number cannot be true: it stands for the oldest event that the source owes, or will owe.
    pub(crate) fn came_astray(&mut self, source: usize) {
        let (circle, last) = (self.circle(), self.heads.of[source].last());
        let number = self.heads.trigger(source).unwrap_or_default();
        if self.find_trigger(number) {
            return;
        }
        if self.sources[source]
            .absent
            .come_astray(circle, number, last)
        {
            self.found(source, 1);
        } else {
            self.some_unsettled = true;
        }
    }

    /// The head of `source` belongs to the event of `trigger`: nothing that was dropped before it stands for a later one.
    pub(crate) fn settle_source(&mut self, source: usize, trigger: u32) {
        let circle = self.circle();
        self.heads.of[source].set_last(Some(trigger));
        self.sources[source].absent.settle(circle, trigger);
    }

    /// What was taken for lost did come.
    pub(crate) fn found(&mut self, source: usize, count: u64) {
        self.take_off(self.accounts.sources[source].missing, count);
    }

    /// So many are not among what was inferred any more.
    pub(crate) fn take_off(&mut self, inferred: Counter, count: u64) {
        let left = self.book.value(inferred).saturating_sub(count);
        self.book.set(inferred, left);
    }
}

// Messages in, sub-events laid open one after the other: nothing leaves a queue uncounted.
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
                SubEventDrop::Broken,
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
    pub(crate) fn drop_head<I: Input>(&mut self, source: usize, reason: SubEventDrop, input: &I) {
        let bytes = self.heads.of[source].padded;
        self.charge(source, reason, 1, u64::from(bytes));
        self.step(source, input);
    }

    fn charge(&mut self, source: usize, reason: SubEventDrop, items: u64, bytes: u64) {
        let account = &self.accounts.sources[source].account;
        self.book.add_tally(account.lost(reason), items, bytes);
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
            self.charge(source, SubEventDrop::Broken, left, room);
        }
    }
}

// The engine's state as words of its group: what a restarted builder goes on from.
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
