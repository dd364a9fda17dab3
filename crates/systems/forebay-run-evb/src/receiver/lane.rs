//! The sources of one port behind its socket or capture: messages put together, kept in rings, counted.
//!
//! Counters, ring positions and unfinished messages of all sources of a port commit as one record.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use forebay_evb::{Accepted, Dropped, MessageCheck, Reject, Rejected, Step};
use forebay_ledger::{Book, Carriage, GroupWriter, Leak, Words};
use forebay_link::{BufferFill, DropCounter};
use forebay_ring::Producers;
use forebay_run::error::RunError;
use forebay_wire::hadtu::{MTU_BYTES, TRAILER_BYTES, UNIT_HEADER_BYTES};

use super::route::Route;
use super::unsaid::{RECORD_EXTRA_BYTES, Unsaid};
use crate::books::{Books, CrashDrop, PortWords, QueueDrop, QueueWords, ReceiverDrop};
use crate::plan::Plan;

/// Longest UDP payload, and what a receive needs free in a ring.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_536;

/// All sources of a port.
pub(super) struct Lanes {
    words: PortWords,
    writer: GroupWriter,
    book: Book,
    route: Route,
    lanes: Vec<Lane>,
}

/// One source.
struct Lane {
    /// Index of its ring.
    ring: usize,
    check: MessageCheck,
    unsaid: Unsaid,
    /// What predecessors put into the ring.
    published: Carriage,
}

/// One datagram as it came.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) payload: &'a [u8],
    pub(super) from: Option<SocketAddr>,
    /// When it came, in ns of the monotonic clock; 0 when that is unknown.
    pub(super) stamp_ns: u64,
}

impl Lanes {
    pub(super) fn attach(
        plan: &Plan,
        index: usize,
        books: &Books,
        words: &Words,
        producers: &mut Producers,
    ) -> Result<Self, RunError> {
        let port_words = books.ports[index].clone();
        let writer = GroupWriter::attach(&books.schema, words, port_words.group)?;
        let mut book = writer.restore();
        let mut lanes = Vec::new();
        for (ring, queue) in plan.sources_of(index).into_iter().zip(&port_words.sources) {
            let mut check = MessageCheck::new(plan.receiver.message_bytes_max);
            let [have, datagrams] = queue.unfinished.map(|word| book.value(word));
            check.resume(have as usize, datagrams as u32);
            producers.rings[ring].resume(book.value(queue.tail))?;
            book.set(queue.capacity, plan.sources[ring].ring_bytes);
            let unsaid = Unsaid::restored(book.value(queue.unsaid));
            lanes.push(Lane {
                ring,
                check,
                unsaid,
                published: Carriage::restored(&book, queue.published, UNIT_HEADER_BYTES),
            });
        }
        Ok(Self {
            words: port_words,
            writer,
            book,
            route: Route::of(plan, index),
            lanes,
        })
    }

    /// Number of the last batch (or packet of a capture) that is in the books.
    pub(super) fn booked_batch(&self) -> u64 {
        self.book.value(self.words.batch)
    }

    /// Whether everything that comes is one source's.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.route, Route::Only)
    }

    /// Ring of a source and bytes of its unfinished message, which lie there.
    pub(super) fn place(&self, lane: usize) -> (usize, usize) {
        let lane = &self.lanes[lane];
        (lane.ring, lane.check.unfinished().0)
    }

    /// Whether every ring of the port can take a message, with some room to spare so that it does not block at once again.
    pub(super) fn has_room(&self, producers: &Producers) -> bool {
        self.lanes.iter().all(|lane| {
            let ring = &producers.rings[lane.ring];
            let need = (lane.check.unfinished().0 + DATAGRAM_BYTES_MAX + RECORD_EXTRA_BYTES) as u64;
            ring.free_bytes() >= (2 * need).min(ring.capacity_bytes() / 4 * 3).max(need)
        })
    }

    /// The ring that has no room for a datagram of `len` bytes for `lane` now, but will have, and the bytes needed there.
    pub(super) fn lacks_room(
        &self,
        lane: usize,
        len: usize,
        producers: &Producers,
    ) -> Option<(usize, usize)> {
        let (ring, have) = self.place(lane);
        let need = have + len + RECORD_EXTRA_BYTES;
        let ring_state = &producers.rings[ring];
        let hopeless = need as u64 > ring_state.capacity_bytes();
        (!hopeless && ring_state.free_bytes() < need as u64).then_some((ring, need))
    }

    /// Which source a datagram belongs to.
    pub(super) fn find(&self, arrival: &Arrival<'_>) -> Option<usize> {
        self.route
            .find(arrival.payload, arrival.from)
            .or_else(|| self.continued(arrival.payload))
    }

    /// A datagram that no table knows may be the rest of the one message that is unfinished; where there is none, of the one that was refused and is not
    /// over.
    fn continued(&self, datagram: &[u8]) -> Option<usize> {
        let is_unfinished = self.lanes.iter().any(|lane| lane.check.unfinished().1 > 0);
        let lanes = self.lanes.iter().enumerate();
        let mut open = lanes.filter(|(_, lane)| {
            if is_unfinished {
                lane.check.may_continue(datagram)
            } else {
                lane.check.may_continue_refused(datagram)
            }
        });
        let only = open.next()?.0;
        open.next().is_none().then_some(only)
    }

    /// Takes one datagram for `lane` out of memory that is not the ring's.
    pub(super) fn take(
        &mut self,
        lane: usize,
        arrival: &Arrival<'_>,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        let (payload, stamp_ns) = (arrival.payload, arrival.stamp_ns);
        let state = &mut self.lanes[lane];
        let have = state.check.unfinished().0;
        if have == 0 && payload.len() != MTU_BYTES {
            match state.check.handle_datagram(payload, payload.len()) {
                Step::Complete(accepted) => {
                    self.store(lane, &accepted, payload, stamp_ns, producers, leak)
                }
                Step::Rejected(rejected) => self.reject(lane, &rejected),
                Step::More => {}
            }
            return;
        }
        self.say_dropped(lane, producers);
        let ring = &mut producers.rings[self.lanes[lane].ring];
        if let Ok(mut loan) = ring.reserve(have + payload.len()) {
            loan[have..].copy_from_slice(payload);
            self.settle_in_ring(lane, payload.len(), stamp_ns, producers, leak);
        } else {
            self.refuse(lane, arrival, producers, leak);
        }
    }

    /// The ring has no room for one more datagram of a message of several: the message is refused as it comes. A datagram that does not belong to it may be
    /// one that has room.
    #[cold]
    fn refuse(
        &mut self,
        lane: usize,
        arrival: &Arrival<'_>,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        let state = &mut self.lanes[lane];
        let have = state.check.unfinished().0;
        if have > 0 {
            // What lies in the ring has its room there.
            let rejected = match producers.rings[state.ring].reserve(have) {
                Ok(loan) => Some(state.check.refuse(&loan)),
                Err(_) => state.check.abandon(),
            };
            if let Some(rejected) = rejected {
                let reason = Reject::RingFull;
                self.reject(lane, &Rejected { reason, ..rejected });
            }
        }
        let check = &mut self.lanes[lane].check;
        match check.handle_datagram(arrival.payload, arrival.payload.len()) {
            Step::Complete(accepted) => self.store(
                lane,
                &accepted,
                arrival.payload,
                arrival.stamp_ns,
                producers,
                leak,
            ),
            Step::Rejected(rejected) => self.reject(lane, &rejected),
            Step::More => {
                let rejected = check.refuse(arrival.payload);
                self.reject(lane, &rejected);
            }
        }
    }

    /// Copies a checked message into the ring.
    fn store(
        &mut self,
        lane: usize,
        accepted: &Accepted,
        payload: &[u8],
        stamp_ns: u64,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        let state = &mut self.lanes[lane];
        let ring = &mut producers.rings[state.ring];
        let kept = &payload[..accepted.kept_bytes as usize];
        if accepted.datagrams == 1 && leak.take("receiver") {
            return;
        }
        state.unsaid.say(ring, kept.len());
        let Ok(mut loan) = ring.reserve(kept.len()) else {
            let bytes = u64::from(accepted.message_bytes);
            let mut dropped = Dropped::of(&kept[UNIT_HEADER_BYTES..]);
            dropped.add_unnumbered(broken_items(accepted).into());
            self.reject(
                lane,
                &Rejected {
                    reason: Reject::RingFull,
                    datagrams: accepted.datagrams,
                    bytes,
                    dropped,
                    retry_at: None,
                },
            );
            return;
        };
        loan.copy_from_slice(kept);
        let queued = queued(accepted, kept, leak);
        loan.commit(queued.bytes, state.unsaid.meta(queued.items, stamp_ns));
        self.accept(lane, accepted);
        self.count_queued(lane, &queued);
    }

    /// Tells the builder which sub-events of `lane` were dropped, when no message of it is unfinished and there is room for the next one beside that. True when it
    /// told any.
    pub(super) fn say_dropped(&mut self, lane: usize, producers: &mut Producers) -> bool {
        let state = &mut self.lanes[lane];
        let ring = &mut producers.rings[state.ring];
        state.check.unfinished().0 == 0 && state.unsaid.say(ring, DATAGRAM_BYTES_MAX)
    }

    /// The newest datagram lies in the ring behind the unfinished message: checks and keeps it there.
    pub(super) fn settle_in_ring(
        &mut self,
        lane: usize,
        mut len: usize,
        stamp_ns: u64,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        loop {
            let state = &mut self.lanes[lane];
            let total = state.check.unfinished().0 + len;
            // The same memory as before: nothing was committed in between.
            let Ok(mut loan) = producers.rings[state.ring].reserve(total) else {
                return;
            };
            match state.check.handle_datagram(&loan, len) {
                Step::More => return,
                Step::Complete(accepted) if accepted.datagrams == 1 && leak.take("receiver") => {
                    return;
                }
                Step::Complete(accepted) => {
                    let queued = queued(&accepted, &loan, leak);
                    loan.commit(queued.bytes, state.unsaid.meta(queued.items, stamp_ns));
                    self.accept(lane, &accepted);
                    return self.count_queued(lane, &queued);
                }
                Step::Rejected(rejected) => {
                    let retry = rejected.retry_at;
                    if let Some(at) = retry {
                        loan.copy_within(at..total, 0);
                    }
                    self.reject(lane, &rejected);
                    let Some(at) = retry else { return };
                    len = total - at;
                }
            }
        }
    }

    /// Counts, then shows: the book holds batch `batch` before the builder can see it.
    pub(super) fn commit(&mut self, batch: u64, producers: &mut Producers) {
        for (lane, words) in self.lanes.iter().zip(&self.words.sources) {
            let (have, datagrams) = lane.check.unfinished();
            let ring = &producers.rings[lane.ring];
            self.book.set(words.tail, ring.position());
            lane.published.save(&mut self.book, ring.carried().counts());
            self.book.set(words.unfinished[0], have as u64);
            self.book.set(words.unfinished[1], u64::from(datagrams));
            self.book.set(words.unsaid, lane.unsaid.items());
            self.book
                .set(words.receiver.held.items, u64::from(datagrams));
            self.book.set(words.receiver.held.bytes, have as u64);
        }
        self.book.set(self.words.batch, batch);
        self.writer.commit(&self.book);
        for lane in &self.lanes {
            producers.rings[lane.ring].publish();
        }
    }

    /// Counts what the kernel says of the socket: its drops, and the fill of its buffer.
    pub(super) fn count_kernel(&mut self, drops: &DropCounter, fill: BufferFill) {
        self.book.set(self.words.kernel_drops, drops.total);
        self.book.set(self.words.kernel_raw, u64::from(drops.last));
        let (used, capacity) = (self.words.buffer_fill, self.words.buffer_capacity);
        self.book.set(used, fill.used_bytes);
        self.book.set(capacity, fill.limit_bytes);
        self.writer.commit(&self.book);
    }

    /// What the books hold of the kernel's drops; the socket is the supervisor's, so it is still the same one.
    pub(super) fn booked_drops(&self) -> (u64, u32) {
        let [total, last] = [self.words.kernel_drops, self.words.kernel_raw];
        (self.book.value(total), self.book.value(last) as u32)
    }

    /// Ends unfinished messages at the end of a run.
    pub(super) fn finish(&mut self, producers: &mut Producers) {
        for lane in 0..self.lanes.len() {
            if let Some(rejected) = self.lanes[lane].check.abandon() {
                self.reject(lane, &rejected);
            }
        }
        for (lane, words) in self.lanes.iter_mut().zip(&self.words.sources) {
            let ring = &mut producers.rings[lane.ring];
            lane.unsaid.say_at_the_end(ring);
            self.book.set(words.unsaid, lane.unsaid.items());
            self.book.set(words.receiver.held.items, 0);
            self.book.set(words.receiver.held.bytes, 0);
            self.book.set(words.unfinished[0], 0);
            self.book.set(words.unfinished[1], 0);
            self.book.set(words.tail, ring.position());
            lane.published.save(&mut self.book, ring.carried().counts());
        }
        self.writer.commit(&self.book);
        for lane in &self.lanes {
            producers.rings[lane.ring].publish();
        }
    }

    /// One datagram came in for `lane`.
    #[inline]
    pub(super) fn count_in(&mut self, lane: usize, bytes: u64) {
        let tally = self.words.sources[lane].receiver.incoming;
        self.book.add_tally(tally, 1, bytes);
    }

    /// One datagram that came in for `lane` was in a killed receiver's hand and is gone.
    pub(super) fn drop_crashed(&mut self, lane: usize, bytes: u64) {
        let tally = self.words.sources[lane]
            .receiver
            .lost(ReceiverDrop::Second(CrashDrop::ReceiverCrash));
        self.book.add_tally(tally, 1, bytes);
    }

    /// The kernel cut this datagram.
    pub(super) fn count_cut(&mut self, lane: usize, bytes: u64) {
        self.reject(
            lane,
            &Rejected {
                reason: Reject::Truncated,
                datagrams: 1,
                bytes,
                dropped: Dropped::default(),
                retry_at: None,
            },
        );
    }

    /// A message is true: its datagrams have gone on, and its sub-events come to the queue. What it holds is what lies between its head and its
    /// trailer, by the lengths that the kernel gave.
    fn accept(&mut self, lane: usize, accepted: &Accepted) {
        let words: &QueueWords<ReceiverDrop> = &self.words.sources[lane];
        let (book, message_bytes) = (&mut self.book, u64::from(accepted.message_bytes));
        let datagrams = u64::from(accepted.datagrams);
        book.add_tally(words.receiver.outgoing, datagrams, message_bytes);
        book.add(words.messages, 1);
        let broken = broken_items(accepted);
        let items = u64::from(accepted.items + broken);
        let body = message_bytes.saturating_sub((UNIT_HEADER_BYTES + TRAILER_BYTES) as u64);
        book.add_tally(words.queue.incoming, items, body);
        if broken > 0 {
            self.drop_broken(lane, accepted);
        }
    }

    /// What lies behind the last good sub-event of a message does not go into the queue.
    #[cold]
    fn drop_broken(&mut self, lane: usize, accepted: &Accepted) {
        let dropped = self.words.sources[lane]
            .queue
            .lost(QueueDrop::BrokenSubEvent);
        let bytes = u64::from(accepted.broken_bytes);
        self.book.add_tally(dropped, 1, bytes);
        self.lanes[lane].unsaid.add_unnumbered(1);
    }

    /// A record with sub-events lies in the ring.
    fn count_queued(&mut self, lane: usize, queued: &Queued) {
        let outgoing = self.words.sources[lane].queue.outgoing;
        let bytes = (queued.bytes - UNIT_HEADER_BYTES) as u64;
        self.book
            .add_tally(outgoing, u64::from(queued.items), bytes);
    }

    fn reject(&mut self, lane: usize, rejected: &Rejected) {
        let account = &self.words.sources[lane].receiver;
        let tally = account.lost(ReceiverDrop::First(rejected.reason));
        self.book
            .add_tally(tally, u64::from(rejected.datagrams), rejected.bytes);
        self.lanes[lane].unsaid.add(&rejected.dropped);
    }

    /// A datagram came in that belongs to no source.
    pub(super) fn stray(&mut self, bytes: u64) {
        if let Some(account) = &self.words.stray {
            self.book.add_tally(account.incoming, 1, bytes);
        }
        self.drop_stray(bytes);
    }

    fn drop_stray(&mut self, bytes: u64) {
        if let Some(account) = &self.words.stray {
            let dropped = account.lost(ReceiverDrop::First(Reject::UnknownSource));
            self.book.add_tally(dropped, 1, bytes);
        }
    }
}

/// What of a message goes into the ring: all of it, unless a test leaks a sub-event here.
struct Queued {
    items: u32,
    bytes: usize,
}

/// Bytes behind the last good sub-event of a message are one that is broken.
fn broken_items(accepted: &Accepted) -> u32 {
    u32::from(accepted.broken_bytes > 0)
}

fn queued(accepted: &Accepted, message: &[u8], leak: &mut Leak) -> Queued {
    let all = Queued {
        items: accepted.items,
        bytes: accepted.kept_bytes as usize,
    };
    if accepted.items == 0 || !leak.take("queue") {
        return all;
    }
    let body = &message[UNIT_HEADER_BYTES..all.bytes];
    Queued {
        items: all.items - 1,
        bytes: UNIT_HEADER_BYTES + forebay_evb::bytes_of(body, all.items - 1),
    }
}
