//! Chunks in, messages of sub-events out: gathered for each source, counted, and shown to the builder.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use forebay_evb::Dropped;
use forebay_ledger::{Book, Carriage, GroupWriter, Leak, Words};
use forebay_readout::unwrap::Unwrap;
use forebay_ring::{Full, Producers};
use forebay_run::error::RunError;
use forebay_run::stage::StageControl;
use forebay_run_net::{Payload, Viewed};
use forebay_sys::clock;
use forebay_wire::felix::{Fid, L1idField};
use forebay_wire::hadtu::{QUEUE_DECODING_TRB, UNIT_HEADER_BYTES, round_up_8};
use forebay_wire::subevent::{DATA_ERROR_BIT, SUB_EVENT_HEADER_BYTES, SubEventHeader};
use forebay_wire::unit::{ByteOrder, UnitHeader};

use crate::books::{ArrivalDrop, Books, ChunkDrop, ChunkWords};
use crate::error::EvbError;
use crate::plan::{ElinksPlan, FullPolicy, Plan, SourceKey};
use crate::receiver::unsaid::Unsaid;
use crate::receiver::{DRAIN_LIMIT_NS, SLEEP};

/// A source's sub-events become a message when they are so many bytes, or when nothing more is there.
const GATHERED_BYTES: usize = 32 << 10;
/// Decoding word of a sub-event of bytes, trigger type 0.
const DECODING_BYTES: u32 = 0x0000_0001;
/// Bits of the connector in an id, above those of the E-link.
const CONNECTOR_SHIFT: u32 = 11;
/// Bits of the detector in an id, above those of the connector.
const DETECTOR_SHIFT: u32 = 27;

/// One source.
struct Lane {
    /// Address of its sub-events.
    id: u32,
    /// Sub-events that are not in the queue yet, each padded.
    gathered: Vec<u8>,
    items: u32,
    /// Sub-events and their bytes as each was put together: what comes to the queue.
    made: (u64, u64),
    /// Bytes of their chunks.
    chunk_bytes: u64,
    /// When the first of them came.
    stamp_ns: u64,
    /// Chunks that were dropped, each of which is a sub-event.
    unsaid: Unsaid,
    /// Those of them that came behind what is gathered.
    refused: u64,
    published: Carriage,
}

/// All sources.
pub(super) struct Intake<'a> {
    control: &'a StageControl,
    words: ChunkWords,
    writer: GroupWriter,
    book: Book,
    producers: Producers,
    lanes: Vec<Lane>,
    by_tag: HashMap<u64, usize>,
    /// The tag that came last, and its lane.
    last: (u64, usize),
    numbers: Unwrap,
    l1id: L1idField,
    trigger_mask: u32,
    chunk_bytes_max: usize,
    full: FullPolicy,
    leak: Leak,
    stamp_ns: u64,
    changed: bool,
    /// Since when it is over by order.
    stopped_ns: Option<u64>,
}

impl<'a> Intake<'a> {
    pub(super) fn attach(
        plan: &Plan,
        elinks: &ElinksPlan,
        words: &Words,
        rings: Vec<OwnedFd>,
        control: &'a StageControl,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let books = Books::declare(plan)?;
        let missing = EvbError::NotInPlan { what: "E-links" };
        let chunks = books.chunks.clone().ok_or(missing)?;
        let writer = GroupWriter::attach(&books.schema, words, chunks.group)?;
        let mut book = writer.restore();
        let mut producers = Producers::map(&plan.event_rings(), rings)?;
        let (mut lanes, mut by_tag) = (Vec::new(), HashMap::new());
        for (index, (source, words)) in plan.sources.iter().zip(&chunks.sources).enumerate() {
            let SourceKey::Elink(tag) = source.key else {
                return Err(EvbError::NotInPlan { what: "E-link" }.into());
            };
            producers.rings[index].resume(book.value(words.tail))?;
            book.set(words.capacity, source.ring_bytes);
            // What a predecessor held is gone with it, by its own name.
            let held = book.tally(words.receiver.held);
            book.add_tally(words.receiver.lost(ChunkDrop::Crash), held.0, held.1);
            book.set(words.receiver.held.items, 0);
            book.set(words.receiver.held.bytes, 0);
            by_tag.insert(tag, index);
            lanes.push(Lane {
                id: id_of(Fid(tag)),
                gathered: Vec::with_capacity(2 * GATHERED_BYTES),
                items: 0,
                made: (0, 0),
                chunk_bytes: 0,
                stamp_ns: 0,
                unsaid: Unsaid::restored(book.value(words.unsaid) + held.0),
                refused: 0,
                published: Carriage::restored(&book, words.published, UNIT_HEADER_BYTES),
            });
        }
        let window = u64::from(plan.builder.window_events);
        let mut numbers = Unwrap::new(lanes.len(), elinks.said.l1id_bytes * 8, window);
        numbers.resume(book.value(chunks.newest));
        let head = UNIT_HEADER_BYTES + SUB_EVENT_HEADER_BYTES;
        Ok(Self {
            control,
            words: chunks,
            writer,
            book,
            producers,
            lanes,
            by_tag,
            last: (0, usize::MAX),
            numbers,
            l1id: L1idField {
                offset: elinks.said.l1id_offset_bytes as usize,
                bytes: elinks.said.l1id_bytes as usize,
            },
            trigger_mask: plan.builder_config().trigger_bits.mask(),
            chunk_bytes_max: (plan.receiver.message_bytes_max as usize).saturating_sub(head),
            full: plan.receiver.full,
            leak,
            stamp_ns: 0,
            changed: true,
            stopped_ns: None,
        })
    }

    /// When the order to stop came.
    pub(super) fn stopped_ns(&self) -> Option<u64> {
        self.stopped_ns
    }

    pub(super) fn look_for_order(&mut self) -> Result<(), RunError> {
        if self.stopped_ns.is_none() && self.control.poll()?.is_some() {
            self.stopped_ns = Some(clock::monotonic_ns());
        }
        Ok(())
    }

    /// Messaging has handed over a chunk; it is to be taken at once, before anything is committed.
    #[inline]
    pub(super) fn arrived(&mut self, bytes: u64) {
        self.changed = true;
        self.book.add_tally(self.words.arrival.incoming, 1, bytes);
    }

    #[inline]
    pub(super) fn take_viewed(&mut self, viewed: &Viewed<'_>) {
        let bytes = viewed.payload.len() as u64;
        self.take(viewed.tag, viewed.status, bytes, |into| {
            match viewed.payload {
                Payload::Here(bytes) => into.extend_from_slice(bytes),
                Payload::Apart(apart) => apart.copy_to(into),
            }
        });
    }

    /// The source that a chunk of this tag is sent on to, if there is one: a publisher sends what was not subscribed to.
    #[inline]
    fn send_on(&mut self, tag: u64, bytes: u64) -> Option<usize> {
        if self.last.0 != tag || self.last.1 == usize::MAX {
            let Some(lane) = self.by_tag.get(&tag) else {
                let dropped = self.words.arrival.lost(ArrivalDrop::UnknownElink);
                self.book.add_tally(dropped, 1, bytes);
                return None;
            };
            self.last = (tag, *lane);
        }
        self.book.add_tally(self.words.arrival.outgoing, 1, bytes);
        Some(self.last.1)
    }

    /// A chunk has come; `copy` puts its bytes behind what is there.
    #[inline]
    fn take(&mut self, tag: u64, status: u8, came: u64, copy: impl FnOnce(&mut Vec<u8>)) {
        let Some(at) = self.send_on(tag, came) else {
            return;
        };
        if self.leak.take("elink") {
            return;
        }
        if self.stamp_ns == 0 {
            self.stamp_ns = clock::monotonic_ns();
        }
        let lane = &mut self.lanes[at];
        let begin = lane.gathered.len();
        lane.gathered
            .extend_from_slice(&[0; SUB_EVENT_HEADER_BYTES]);
        copy(&mut lane.gathered);
        let chunk = &lane.gathered[begin + SUB_EVENT_HEADER_BYTES..];
        let bytes = chunk.len();
        let low = self.l1id.low_bits(chunk);
        let incoming = self.words.sources[at].receiver.incoming;
        self.book.add_tally(incoming, 1, bytes as u64);
        let (Some(low), true) = (low, bytes <= self.chunk_bytes_max) else {
            let reason = if low.is_none() {
                ChunkDrop::NoL1id
            } else {
                ChunkDrop::TooLong
            };
            lane.gathered.truncate(begin);
            return self.refuse(at, reason, bytes as u64);
        };
        if self.leak.take("receiver") {
            lane.gathered.truncate(begin);
            return;
        }
        let number = self.numbers.number(at, low) - 1;
        let error = if status == 0 { 0 } else { DATA_ERROR_BIT };
        let header = SubEventHeader {
            size: (SUB_EVENT_HEADER_BYTES + bytes) as u32,
            decoding: DECODING_BYTES,
            id: lane.id | error,
            trigger_word: (number as u32 & self.trigger_mask) << 8,
            order: ByteOrder::Little,
        };
        if let Some(head) = lane.gathered[begin..].first_chunk_mut() {
            header.emit(head);
        }
        let padded = round_up_8(u64::from(header.size)) as usize;
        lane.gathered.resize(begin + padded, 0);
        if lane.items == 0 {
            lane.stamp_ns = self.stamp_ns;
        }
        lane.items += 1;
        lane.made.0 += 1;
        lane.made.1 += padded as u64;
        lane.chunk_bytes += bytes as u64;
        if status != 0 {
            self.book.add(self.words.flagged[at], 1);
        }
        if self.lanes[at].gathered.len() >= GATHERED_BYTES {
            self.queue(at);
        }
    }

    /// Drops a chunk by name. What came before it goes into a record of its own, so that the next one says where it was.
    #[cold]
    fn refuse(&mut self, at: usize, reason: ChunkDrop, bytes: u64) {
        // Counted first: what waits for room in the queue commits.
        let dropped = self.words.sources[at].receiver.lost(reason);
        self.book.add_tally(dropped, 1, bytes);
        self.lanes[at].refused += 1;
        self.queue(at);
        let lane = &mut self.lanes[at];
        lane.unsaid
            .add_unnumbered(std::mem::take(&mut lane.refused));
        self.changed = true;
    }

    /// Everything that was taken goes to the builder.
    pub(super) fn flush(&mut self) {
        self.stamp_ns = 0;
        for at in 0..self.lanes.len() {
            self.queue(at);
        }
        self.commit();
    }

    /// Puts the message of a source into its queue, as late as that has room.
    fn queue(&mut self, at: usize) {
        if self.lanes[at].items == 0 {
            return;
        }
        while let Err(full) = self.try_queue(at) {
            let hopeless = matches!(full, Full::TooLong { .. });
            let stopped = self.stopped_ns.map(|since_ns| since_ns + DRAIN_LIMIT_NS);
            let over = stopped.is_some_and(|until_ns| clock::monotonic_ns() > until_ns);
            if hopeless || over || self.full == FullPolicy::Drop {
                return self.give_up(at);
            }
            // The builder sees what the others have: it may be what it waits for.
            self.commit();
            let bytes = UNIT_HEADER_BYTES + self.lanes[at].gathered.len();
            let waited = self.producers.wait_space(at, bytes, SLEEP);
            if waited.is_err() || self.look_for_order().is_err() {
                return self.give_up(at);
            }
        }
    }

    fn try_queue(&mut self, at: usize) -> Result<(), Full> {
        let (lane, words) = (&mut self.lanes[at], &self.words.sources[at]);
        let size = UNIT_HEADER_BYTES + lane.gathered.len();
        let ring = &mut self.producers.rings[at];
        lane.unsaid.say(ring, size);
        let mut loan = ring.reserve(size)?;
        let (mut items, mut bytes) = (lane.items, lane.gathered.len());
        if self.leak.take("queue") {
            items -= 1;
            bytes = forebay_evb::bytes_of(&lane.gathered, items);
        }
        let header = UnitHeader {
            size: (UNIT_HEADER_BYTES + bytes) as u32,
            decoding: QUEUE_DECODING_TRB,
            order: ByteOrder::Little,
        };
        let (head, body) = loan.split_at_mut(UNIT_HEADER_BYTES);
        if let Some(head) = head.first_chunk_mut() {
            header.emit(head);
        }
        body[..bytes].copy_from_slice(&lane.gathered[..bytes]);
        let stamp_ns = lane.stamp_ns;
        loan.commit(UNIT_HEADER_BYTES + bytes, lane.unsaid.meta(items, stamp_ns));
        let chunks = (u64::from(lane.items), lane.chunk_bytes);
        let book = &mut self.book;
        book.add_tally(words.receiver.outgoing, chunks.0, chunks.1);
        book.add(words.messages, 1);
        book.add_tally(words.queue.incoming, lane.made.0, lane.made.1);
        book.add_tally(words.queue.outgoing, u64::from(items), bytes as u64);
        lane.clear();
        Ok(())
    }

    /// What does not get into the queue is a loss by name.
    fn give_up(&mut self, at: usize) {
        let lane = &mut self.lanes[at];
        let dropped = self.words.sources[at].receiver.lost(ChunkDrop::QueueFull);
        let items = u64::from(lane.items);
        self.book.add_tally(dropped, items, lane.chunk_bytes);
        lane.unsaid.add(&Dropped::of(&lane.gathered));
        lane.clear();
    }

    /// Counts, then shows.
    fn commit(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let lanes = self.lanes.iter().zip(&self.words.sources);
        for ((lane, words), ring) in lanes.zip(&self.producers.rings) {
            self.book.set(words.tail, ring.position());
            lane.published.save(&mut self.book, ring.carried().counts());
            self.book
                .set(words.unsaid, lane.unsaid.items() + lane.refused);
            let held = words.receiver.held;
            self.book.set(held.items, u64::from(lane.items));
            self.book.set(held.bytes, lane.chunk_bytes);
            // The next commit clears it.
            self.changed |= lane.items > 0;
        }
        // A receiver that has taken nothing knows of no newer one than the one before it.
        let newest = self.book.value(self.words.newest);
        let newest = newest.max(self.numbers.newest());
        self.book.set(self.words.newest, newest);
        self.writer.commit(&self.book);
        for ring in &mut self.producers.rings {
            ring.publish();
        }
        self.producers.notify();
    }

    /// Nothing more comes.
    pub(super) fn close(&mut self) {
        self.flush();
        for (lane, ring) in self.lanes.iter_mut().zip(&mut self.producers.rings) {
            lane.unsaid.say_at_the_end(ring);
        }
        self.changed = true;
        self.commit();
        for ring in &mut self.producers.rings {
            ring.close();
        }
        self.producers.notify();
    }
}

impl Lane {
    fn clear(&mut self) {
        self.gathered.clear();
        (self.items, self.made, self.chunk_bytes) = (0, (0, 0), 0);
    }
}

/// The address of an E-link's sub-events: its number, then its connector, then the low four bits of its detector.
fn id_of(fid: Fid) -> u32 {
    let detector = u32::from(fid.detector() & 0xf) << DETECTOR_SHIFT;
    let connector = u32::from(fid.connector()) << CONNECTOR_SHIFT;
    detector | connector | u32::from(fid.elink().number())
}
