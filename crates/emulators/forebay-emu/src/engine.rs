//! The soft readouts: told the time, they hand out datagrams.

mod disturbed;
mod turn;

use forebay_ledger::Leak;
use forebay_wire::hadtu::{TRAILER_BYTES, UNIT_HEADER_BYTES};

use self::disturbed::Disturbed;
use crate::config::{Config, ConfigError};
use crate::fault::SourceFaults;
use crate::lag::{Behind, Lag};
use crate::model::Model;
use crate::outbox::{Batch, Buffers, Datagram, Outbox};
use crate::queue::Queue;
use crate::schedule::{Due, Schedule};
use crate::totals::{SourceTotals, Totals};

/// Triggers made for one source before the next source has its turn, at most.
const TURN_TRIGGERS: usize = 64;
/// Bytes that they have together, about: more at once than real readouts would give runs a receiver's queue over.
const TURN_BYTES: usize = 256 << 10;
/// Room for a batch of small messages in a buffer.
const BATCH_BYTES: usize = 64 << 10;
/// A water mark up to this lets a source's buffer hold several messages.
const SMALL_MESSAGE_BYTES: usize = 16 << 10;
const FRAME_BYTES: usize = UNIT_HEADER_BYTES + TRAILER_BYTES;

#[derive(Debug, Clone)]
struct Source {
    queue: Queue,
    books: SourceTotals,
    disturbed: Option<Box<Disturbed>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// `finish` was called: what is held goes out.
    Finishing,
    Finished,
}

/// Emulated soft readouts. See the crate's documentation for how to drive them.
#[derive(Debug, Clone)]
pub struct SoftReadouts {
    model: Model,
    sources: Vec<Source>,
    sources_per_port: usize,
    first_trigger: u64,
    /// Largest queue that collects; 0 when each sub-event is a message.
    queue_limit: usize,
    flush_ns: Option<u64>,
    shared: Queue,
    outbox: Outbox,
    schedule: Schedule,
    lag: Lag,
    leak: Leak,
    phase: Phase,
    started_ns: Option<u64>,
    now_ns: u64,
    /// Triggers of this round, the source whose turn it is, and how far it is.
    round: Vec<Due>,
    round_triggers: usize,
    turn: usize,
    at: usize,
    flush_all: bool,
    /// When the oldest open queue is to be sent: of the last round, and of the one at hand.
    next_flush_ns: u64,
    round_flush_ns: u64,
    events: u64,
}

/// How many triggers a round has.
fn round_triggers(config: &Config) -> usize {
    let largest = config.groups.iter().map(|group| group.mean_bytes).max();
    (TURN_BYTES / largest.unwrap_or(1).max(1) as usize).clamp(1, TURN_TRIGGERS)
}

impl SoftReadouts {
    /// Soft readouts that start at the first [`handle_time`](Self::handle_time).
    ///
    /// All memory is taken here: for each source a buffer of the water mark's size, and one for the
    /// largest sub-event.
    ///
    /// # Errors
    /// A configuration that cannot be carried out.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        let model = Model::new(config);
        let transport = &config.transport;
        let limit = transport.water_mark_bytes;
        let queue_limit = limit.map_or(0, |mark| mark.min(transport.max_queue_bytes) as usize);
        let largest = model.largest_bytes().next_multiple_of(8) as usize + FRAME_BYTES;
        let longest = largest.max(queue_limit + TRAILER_BYTES);
        let schedule = Schedule::new(config.seed, &config.trigger, config.limit);
        let source = |s: usize| Source {
            queue: Queue::with_capacity(queue_capacity(queue_limit)),
            books: SourceTotals::default(),
            disturbed: SourceFaults::new(&config.faults, s, config.seed)
                .map(|faults| Box::new(Disturbed::new(faults, &schedule, longest))),
        };
        Ok(Self {
            sources: (0..model.sources()).map(source).collect(),
            sources_per_port: transport.sources_per_port,
            first_trigger: u64::from(config.trigger.first),
            queue_limit,
            flush_ns: transport.flush_ns,
            shared: Queue::with_capacity(largest.max(BATCH_BYTES)),
            outbox: Outbox::with_room_for(longest),
            lag: Lag::new(config.behind_after_ns),
            leak: Leak::off(),
            phase: Phase::Running,
            started_ns: None,
            now_ns: 0,
            round: Vec::with_capacity(TURN_TRIGGERS),
            round_triggers: round_triggers(config),
            turn: model.sources(),
            at: 0,
            flush_all: false,
            next_flush_ns: u64::MAX,
            round_flush_ns: u64::MAX,
            events: 0,
            schedule,
            model,
        })
    }

    /// Swallows sub-events uncounted at the hop [`PLACE`](crate::account::PLACE), for tests of the
    /// books: they are made, and nothing becomes of them. Sources with faults do not leak.
    #[must_use]
    pub fn with_leak(mut self, leak: Leak) -> Self {
        self.leak = leak;
        self
    }

    /// The time is `now_ns`; triggers due until then are made as datagrams are polled. The first
    /// call starts the run. May be called at any time, also before all datagrams were polled; a
    /// time before the last one counts as the last one.
    pub fn handle_time(&mut self, now_ns: u64) {
        let started = *self.started_ns.get_or_insert(now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        let oldest = self.schedule.peek().map(|due| due.at_ns + started);
        self.lag.handle_time(self.now_ns, oldest);
    }

    /// When to come back: the next trigger or flush, at once (the time last given) while there
    /// is work left, none when nothing will come any more. To be asked after polling.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let Some(started) = self.started_ns else {
            return Some(0);
        };
        if !self.outbox.is_empty() || self.turn < self.sources.len() {
            return Some(self.now_ns);
        }
        if self.phase == Phase::Finishing {
            return Some(self.now_ns);
        }
        let late = self.sources.iter().filter_map(Source::peek_late);
        let trigger = self.schedule.peek().map(|due| due.at_ns).into_iter();
        let due = trigger.chain(late).map(|at| at + started).min();
        let flush = (self.next_flush_ns < u64::MAX).then_some(self.next_flush_ns);
        due.into_iter()
            .chain(flush)
            .min()
            .map(|at| at.max(self.now_ns))
    }

    /// The next datagram; the one before counts as sent. None when nothing is due.
    pub fn poll_datagram(&mut self) -> Option<Datagram<'_>> {
        self.poll_batch(1)?.datagrams().next()
    }

    /// Up to `max` datagrams (at least 1, at most about 64) of one source. Those of the batch before
    /// count as sent unless [`handle_sent`](Self::handle_sent) or
    /// [`handle_refused`](Self::handle_refused) said otherwise. None when nothing is due.
    pub fn poll_batch(&mut self, max: usize) -> Option<Batch<'_>> {
        self.settle(usize::MAX, true);
        if !self.make_ready() {
            return None;
        }
        self.outbox.offer(max.max(1));
        let source = &self.sources[self.turn];
        let buffers = Buffers {
            shared: &self.shared,
            own: &source.queue,
            stash: source.disturbed.as_ref().map_or(&[], |d| d.stash()),
        };
        let port = self.turn / self.sources_per_port;
        Some(self.outbox.batch(self.turn, port, buffers))
    }

    /// Of the batch handed out last, the first `count` were sent; the others are handed out again.
    pub fn handle_sent(&mut self, count: usize) {
        self.settle(count, true);
        self.outbox.offer(0);
    }

    /// Of the batch handed out last, the first `count` not yet spoken for could not be sent and will
    /// not be: their messages are lost, the others are handed out again.
    pub fn handle_refused(&mut self, count: usize) {
        self.settle(count, false);
        self.outbox.offer(0);
    }

    /// Ends the run: no further trigger; what queues hold is handed out by the following polls.
    /// A source that is late makes the events that the others have made.
    pub fn finish(&mut self, now_ns: u64) {
        self.handle_time(now_ns);
        if self.phase == Phase::Running {
            self.phase = Phase::Finishing;
            self.schedule.stop();
            let events = self.events;
            for source in &mut self.sources {
                source.end_late_at(events);
            }
        }
    }

    /// Whether all triggers have been made and nothing is held.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outbox.is_empty()
            && (self.phase == Phase::Finished || self.poll_timeout().is_none())
            && self.sources.iter().all(|s| s.held() == (0, 0))
    }

    /// The books; a copy.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let books = self.sources.iter().enumerate().map(|(s, source)| {
            let mut books = source.books;
            books.held.add(source.held());
            if s == self.turn {
                self.outbox.tell_held(&mut books);
            }
            books
        });
        Totals::new(self.events, books.collect())
    }

    /// How late triggers were made, and whether this was the limit of the run.
    #[must_use]
    pub fn behind(&self) -> Behind {
        self.lag.behind()
    }

    /// Mean bytes of the sub-events of one event, headers included, faults not.
    #[must_use]
    pub fn mean_event_bytes(&self) -> f64 {
        self.model.mean_event_bytes()
    }

    /// The number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    fn settle(&mut self, count: usize, sent: bool) {
        if self.outbox.offered() == 0 {
            return;
        }
        let source = &mut self.sources[self.turn];
        if self.outbox.settle(count, sent, &mut source.books) {
            self.shared.rewind();
            source.queue.rewind();
            if let Some(disturbed) = &mut source.disturbed {
                disturbed.free_stash();
            }
        }
    }
}

impl Source {
    /// What waits in it, but for the datagrams that are ready.
    fn held(&self) -> (u64, u64) {
        let open = self.queue.held();
        let stash = self.disturbed.as_ref().map_or((0, 0), |d| d.held());
        (open.0 + stash.0, open.1 + stash.1)
    }

    /// The `at`-th trigger of its turn.
    #[inline]
    fn due(&self, round: &[Due], at: usize) -> Option<Due> {
        let late = self.disturbed.as_ref().and_then(|d| d.late_round());
        late.unwrap_or(round).get(at).copied()
    }
}

/// A queue's buffer: one message, or several small ones.
fn queue_capacity(queue_limit: usize) -> usize {
    match queue_limit {
        0 => 0,
        1..=SMALL_MESSAGE_BYTES => BATCH_BYTES,
        _ => queue_limit + TRAILER_BYTES,
    }
}
