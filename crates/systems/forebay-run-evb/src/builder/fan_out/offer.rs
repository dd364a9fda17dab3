//! One sink seen from the builder.

use forebay_evb::EventMeta;
use forebay_ledger::{Book, Carriage, Leak, Tally};
use forebay_ring::{Meta, Producers};
use forebay_run::error::RunError;
use forebay_sink::{Limits, Rotation};
use forebay_wire::hld::EventHeader;

use super::null::NullSink;
use crate::books::{Books, OfferDrop, OfferWords};
use crate::plan::{Backpressure, Plan, SinkKind};

/// Events are handed to a sink in blocks of about this size: one `write` each.
const BLOCK_BYTES: usize = 1 << 20;

/// One sink's side of the builder.
pub(super) struct Offer {
    words: OfferWords,
    target: Target,
    backpressure: Backpressure,
    rotation: Rotation,
    /// Since when there was no room.
    stalled_since_ns: Option<u64>,
    /// Why the event at hand passes this sink by, if it does.
    skip: Option<OfferDrop>,
    counts: Counts,
    changed: bool,
}

enum Target {
    Null(NullSink),
    Queue {
        producers: Producers,
        published: Carriage,
        used: usize,
        events: u32,
        /// Longest event that the queue can ever take.
        event_bytes_max: usize,
    },
}

/// Counted since the last seal.
#[derive(Default)]
struct Counts {
    offered: (u64, u64),
    queued: (u64, u64),
    queue_full: (u64, u64),
    event_too_long: (u64, u64),
}

impl Counts {
    fn dropped(&mut self, why: OfferDrop) -> &mut (u64, u64) {
        match why {
            OfferDrop::QueueFull => &mut self.queue_full,
            OfferDrop::EventTooLong => &mut self.event_too_long,
        }
    }
}

/// When a sink begins a new file; one that writes none has no limits.
fn limits(kind: &SinkKind) -> Option<Limits> {
    match kind {
        SinkKind::File(file) => Some(file.into()),
        SinkKind::Tcp(tcp) => Some(tcp.into()),
        SinkKind::Null => None,
    }
}

fn restored(limits: Option<Limits>, run_min: u32, words: &OfferWords, book: &Book) -> Rotation {
    let at = words.rotation.map(|word| book.value(word));
    Rotation::restored(limits, run_min, at, book.value(words.first_run))
}

impl Offer {
    pub(super) fn inline(sink: usize, books: &Books, book: &Book) -> Self {
        let offer_words = books.offers[sink].clone();
        let target = Target::Null(NullSink::new(books.sinks[sink].clone()));
        let rotation = restored(None, 0, &offer_words, book);
        Self::with(offer_words, target, Backpressure::Drop, rotation)
    }

    pub(super) fn queue(
        sink: usize,
        plan: &Plan,
        books: &Books,
        mut producers: Producers,
        book: &mut Book,
    ) -> Result<Self, RunError> {
        let words = books.offers[sink].clone();
        producers.rings[0].resume(book.value(words.tail))?;
        let limits = limits(&plan.sinks[sink].kind);
        let target = Target::Queue {
            producers,
            published: Carriage::restored(book, words.published, 0),
            used: 0,
            events: 0,
            event_bytes_max: plan.sink_record_bytes_max(sink) as usize,
        };
        let rotation = restored(limits, plan.run_min, &words, book);
        Ok(Self::with(
            words,
            target,
            plan.sinks[sink].backpressure,
            rotation,
        ))
    }

    fn with(
        words: OfferWords,
        target: Target,
        backpressure: Backpressure,
        rotation: Rotation,
    ) -> Self {
        Self {
            words,
            target,
            backpressure,
            rotation,
            stalled_since_ns: None,
            skip: None,
            counts: Counts::default(),
            changed: false,
        }
    }

    /// Makes ready for an event of `bytes`; false when the builder shall wait for this sink.
    pub(super) fn prepare(&mut self, bytes: usize, now_ns: u64, run_s: i64) -> bool {
        if bytes > self.event_bytes_max() {
            // No waiting makes room for it, and the sink is not to blame.
            self.skip = Some(OfferDrop::EventTooLong);
            return true;
        }
        if self.rotation.is_due(bytes as u64, now_ns) {
            self.end_block();
            self.rotation.begin(run_s, now_ns);
        }
        if self.has_room(bytes) {
            self.skip = None;
            self.stalled_since_ns = None;
            return true;
        }
        let since = *self.stalled_since_ns.get_or_insert(now_ns);
        let drops = match self.backpressure {
            Backpressure::Drop => true,
            Backpressure::Block { limit_ms } => {
                now_ns.saturating_sub(since) >= limit_ms.saturating_mul(1_000_000)
            }
        };
        self.skip = drops.then_some(OfferDrop::QueueFull);
        drops
    }

    fn event_bytes_max(&self) -> usize {
        match &self.target {
            Target::Null(_) => usize::MAX,
            Target::Queue {
                event_bytes_max, ..
            } => *event_bytes_max,
        }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let block_bytes_max = BLOCK_BYTES.min(self.event_bytes_max());
        if let Target::Queue { used, .. } = &self.target
            && *used > 0
            && *used + bytes > block_bytes_max
        {
            self.end_block();
        }
        match &mut self.target {
            Target::Null(_) => true,
            Target::Queue {
                producers, used, ..
            } => producers.rings[0].reserve(*used + bytes).is_ok(),
        }
    }

    /// Whether the event at hand passes this sink by.
    pub(super) fn skips(&self) -> bool {
        self.skip.is_some()
    }

    /// Run number of the file at hand.
    pub(super) fn run(&self) -> u32 {
        self.rotation.run()
    }

    /// Memory for the event in the queue itself.
    pub(super) fn slot(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let Target::Queue {
            producers, used, ..
        } = &mut self.target
        else {
            return None;
        };
        let start = *used;
        // The loan borrows the ring; what it leads to is this same memory until the block is committed.
        let loan = producers.rings[0].reserve(start + bytes).ok()?;
        loan.into_slice().get_mut(start..)
    }

    /// The event is complete: in the queue already (`filled`), or in `scratch`.
    pub(super) fn take(
        &mut self,
        scratch: &[u8],
        event: &EventMeta,
        filled: bool,
        leak: &mut Leak,
    ) {
        let bytes = event.bytes as usize;
        self.changed = true;
        add(&mut self.counts.offered, bytes);
        if let Some(reason) = self.skip {
            return add(self.counts.dropped(reason), bytes);
        }
        if leak.take("offer") {
            return;
        }
        if !filled && !self.copy(scratch, bytes) {
            return add(&mut self.counts.queue_full, bytes);
        }
        add(&mut self.counts.queued, bytes);
        self.rotation.count(bytes as u64);
        match &mut self.target {
            Target::Null(null) => null.take(event, leak),
            Target::Queue { used, events, .. } => {
                *used += bytes;
                *events += 1;
            }
        }
    }

    fn copy(&mut self, scratch: &[u8], bytes: usize) -> bool {
        if matches!(self.target, Target::Null(_)) {
            return true;
        }
        let run = self.rotation.run();
        let Some(slot) = self.slot(bytes) else {
            return false;
        };
        slot.copy_from_slice(&scratch[..bytes]);
        EventHeader::set_run(slot, run);
        true
    }

    /// Commits the block at hand to the ring's private tail.
    fn end_block(&mut self) {
        let run = self.rotation.run();
        let Target::Queue {
            producers,
            used,
            events,
            ..
        } = &mut self.target
        else {
            return;
        };
        if *used == 0 {
            return;
        }
        if let Ok(loan) = producers.rings[0].reserve(*used) {
            loan.commit(
                *used,
                Meta {
                    tag: run,
                    items: *events,
                    flags: 0,
                    stamp_ns: 0,
                },
            );
        }
        (*used, *events) = (0, 0);
        self.changed = true;
    }

    /// Ends the block and counts; false when nothing happened.
    pub(super) fn seal(&mut self, book: &mut Book) -> bool {
        self.end_block();
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let mut counts = std::mem::take(&mut self.counts);
        let account = &self.words.account;
        tally(book, account.incoming, counts.offered);
        tally(book, account.outgoing, counts.queued);
        for (why, term) in account.losses() {
            tally(book, term, *counts.dropped(why));
        }
        for (word, value) in self.words.rotation.iter().zip(self.rotation.place()) {
            book.set(*word, value);
        }
        book.set(self.words.first_run, u64::from(self.rotation.first_run()));
        match &mut self.target {
            Target::Null(null) => null.seal(book),
            Target::Queue {
                producers,
                published,
                ..
            } => {
                let ring = &producers.rings[0];
                book.set(self.words.tail, ring.position());
                published.save(book, ring.carried().counts());
            }
        }
        true
    }

    /// Shows the sink what is sealed.
    pub(super) fn publish(&mut self) {
        if let Target::Queue { producers, .. } = &mut self.target {
            producers.rings[0].publish();
            producers.notify();
        }
    }

    /// Nothing more comes.
    pub(super) fn close(&mut self) {
        if let Target::Queue { producers, .. } = &mut self.target {
            producers.rings[0].close();
            producers.notify();
        }
    }

    /// The queue, if it has no room.
    pub(super) fn stalled_mut(&mut self) -> Option<&mut Producers> {
        match (&mut self.target, self.stalled_since_ns) {
            (Target::Queue { producers, .. }, Some(_)) => Some(producers),
            _ => None,
        }
    }
}

pub(super) fn add(count: &mut (u64, u64), bytes: usize) {
    count.0 += 1;
    count.1 += bytes as u64;
}

pub(super) fn tally(book: &mut Book, term: Tally, count: (u64, u64)) {
    if count.0 > 0 {
        book.add_tally(term, count.0, count.1);
    }
}
