//! The builder: takes messages of all sources, gives events.

use std::collections::VecDeque;

use forebay_ledger::{Book, Counter, Leak};

use crate::account::Accounts;
use crate::config::{Config, ConfigError};
use crate::head::{Heads, trigger_of};
use crate::life::Pauses;
use crate::loss::{Cause, LostRange, OpenRange};
use crate::output::Output;
use crate::recent::Recent;
use crate::source::{Input, Source};
use crate::standing::Standing;
use crate::triggers::{TriggerGap, Triggers};

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
    pub fn new(config: Config, accounts: Accounts, book: Book) -> Result<Self, ConfigError> {
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
