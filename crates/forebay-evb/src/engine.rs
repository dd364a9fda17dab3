//! The builder: takes messages of all sources, gives events.

use forebay_ledger::{Account, Book, Leak};

use crate::account::{Accounts, DropReason};
use crate::config::{Config, ConfigError};
use crate::loss::{Cause, LostRange, OpenRange};
use crate::output::Output;
use crate::source::{Arrived, Head, Heads, Input, Message, NO_HEAD, Source, padded};
use forebay_wire::subevent::SubEventHeader;

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

/// The event builder engine. It owns its accounts; the run layer commits [`Builder::book`] and frees
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
    /// Key and trigger of recent events, by trigger modulo [`RECENT`], to tell a duplicate from a restart.
    pub(crate) recent: Vec<u64>,
    pub(crate) open_ranges: Vec<OpenRange>,
    pub(crate) lost: Vec<LostRange>,
    /// When the answer "wait" changes by itself.
    pub(crate) wake_ns: Option<u64>,
    /// Since when every source that shows anything shows old numbers.
    pub(crate) behind_since_ns: Option<u64>,
    /// Scratch: sources that take part in the event at hand.
    pub(crate) present: Vec<u32>,
    pub(crate) leak: Leak,
    /// The output had no room at the last poll.
    blocked: bool,
    /// When the output had room again: what was held up by it is not the sources' fault.
    pub(crate) unblocked_ns: u64,
}

/// Bytes of the header behind a sub-event: read together with it, one event later.
const HEAD_BYTES: usize = 16;
/// How many recent events are remembered.
pub(crate) const RECENT: usize = 4096;

impl Builder {
    /// A builder that starts with nothing.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: Config, accounts: Accounts, book: Book) -> Result<Self, ConfigError> {
        config.validate()?;
        let n = config.sources;
        let mut builder = Self {
            sources: (0..n).map(|_| Source::default()).collect(),
            heads: Heads::new(n, config.trigger_bits, config.check_tag),
            next: None,
            sequence: 0,
            recent: vec![NO_HEAD; RECENT],
            open_ranges: vec![OpenRange::default(); n],
            lost: Vec::new(),
            wake_ns: None,
            behind_since_ns: None,
            present: Vec::with_capacity(n),
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
        self.sources[source].held_items
    }

    /// The accounts, for the run layer's own reading.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Takes in one message of `source`, in the order of its queue.
    pub fn handle_message<I: Input>(
        &mut self,
        now_ns: u64,
        source: usize,
        message: Message,
        input: &I,
    ) {
        let state = &mut self.sources[source];
        let known = message.end <= state.pulled;
        if !known {
            let words = &self.accounts.sources[source];
            self.book.add_tally(
                words.account.incoming,
                u64::from(message.items),
                u64::from(message.len),
            );
            self.book.add(words.messages, 1);
            state.pulled = message.end;
            state.silent = false;
        }
        let first = state.messages.is_empty();
        state.messages.push_back(Arrived {
            message,
            arrived_ns: now_ns,
        });
        if first && !known {
            state.offset = 0;
            state.left = message.items;
        }
        let resumed = if first && known {
            (u64::from(state.left), u64::from(message.len - state.offset))
        } else {
            (u64::from(message.items), u64::from(message.len))
        };
        state.held_items += resumed.0;
        state.held_bytes += resumed.1;
        if first {
            self.lay_open(source, input);
        }
    }

    /// Says that the queue of `source` is nearly full, or no longer.
    pub fn handle_pressure(&mut self, source: usize, pressed: bool) {
        self.sources[source].pressed = pressed;
    }

    /// Says that `source` will send nothing more.
    pub fn handle_close(&mut self, source: usize) {
        self.sources[source].closed = true;
    }

    /// Says that `source` sends again after all.
    pub fn handle_open(&mut self, source: usize) {
        self.sources[source].closed = false;
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
            Some(key) if self.is_new(key) => self.build_complete(key, input, output),
            _ => self.decide(now_ns, input, output),
        };
        self.blocked = done == Poll::Full;
        done
    }

    /// The next range of lost trigger numbers for the loss table.
    pub fn poll_loss(&mut self) -> Option<LostRange> {
        self.lost.pop()
    }

    /// Ends all ranges that are still growing, at the end of a run.
    pub fn finish(&mut self) {
        let ended = self.open_ranges.iter_mut().filter_map(OpenRange::close);
        self.lost.extend(ended);
    }

    /// Drops the head of `source` for `reason` and lays the next one open.
    pub(crate) fn drop_head<I: Input>(&mut self, source: usize, reason: DropReason, input: &I) {
        let bytes = self.heads.head[source].padded();
        self.charge(source, reason, 1, u64::from(bytes));
        self.step(source, input);
    }

    pub(crate) fn charge(&mut self, source: usize, reason: DropReason, items: u64, bytes: u64) {
        let account: &Account = &self.accounts.sources[source].account;
        if let Some(tally) = account.dropped.get(reason as usize) {
            self.book.add_tally(*tally, items, bytes);
        }
    }

    /// Consumes the head of `source`, whose fate is already counted, and lays the next one open.
    #[inline]
    pub(crate) fn step<I: Input>(&mut self, source: usize, input: &I) {
        let bytes = self.heads.head[source].padded();
        let state = &mut self.sources[source];
        state.offset += bytes;
        state.held_items -= 1;
        state.held_bytes -= u64::from(bytes);
        state.left -= 1;
        self.lay_open(source, input);
    }

    /// Parses the first sub-event of `source` that is not consumed. Each broken place is dropped by name.
    #[inline]
    pub(crate) fn lay_open<I: Input>(&mut self, source: usize, input: &I) {
        while let Some(arrived) = self.sources[source].messages.front() {
            let message = arrived.message;
            let state = &self.sources[source];
            let room = message.len - state.offset;
            if state.left > 0
                && room >= 16
                && let Some(head) =
                    read_head(source, message.at + u64::from(state.offset), room, input)
            {
                self.heads.key[source] = self.heads.key_of(head.header.trigger_word);
                input.prefetch(source, head.at, head.padded() as usize + HEAD_BYTES);
                self.heads.head[source] = head;
                return;
            }
            self.end_message(source, message.end, room);
        }
        self.heads.key[source] = NO_HEAD;
    }

    /// Leaves the first message; whatever it promised and did not hold is broken.
    fn end_message(&mut self, source: usize, end: u64, room: u32) {
        let state = &mut self.sources[source];
        let left = u64::from(state.left);
        state.held_items -= left;
        state.held_bytes -= u64::from(room);
        state.messages.pop_front();
        state.released = end;
        state.offset = 0;
        state.left = state.messages.front().map_or(0, |next| next.message.items);
        if left > 0 || room > 0 {
            self.charge(source, DropReason::Broken, left, u64::from(room));
        }
    }

    pub(crate) fn lose(&mut self, source: usize, trigger: u32, cause: Cause) {
        let follows = trigger.wrapping_sub(1) & self.config.trigger_bits.mask();
        self.book.add(self.accounts.sources[source].missing, 1);
        let ended = self.open_ranges[source].add(source, trigger, follows, cause);
        self.lost.extend(ended);
    }
}

/// The head at `at`, if its header is true and it ends within `room` bytes.
#[inline]
fn read_head<I: Input>(source: usize, at: u64, room: u32, input: &I) -> Option<Head> {
    let bytes = input.header(source, at)?;
    let header = SubEventHeader::parse(&bytes).ok()?;
    (padded(header.size) <= room).then_some(Head { header, at })
}
