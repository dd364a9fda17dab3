//! One socket: its turns, its sources' messages, its group of the ledger.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_evb::{Accepted, MessageCheck, Reject, Rejected, Step};
use forebay_ledger::{Account, Book, GroupWriter, Leak, Words};
use forebay_ring::{Meta, Producers};
use forebay_sys::socket::mem_info;
use forebay_sys::udp_batch::{Adopted, BatchMode, BatchTag, Datagram, RecvBatch};
use forebay_wire::hadtu::{MTU_BYTES, UNIT_HEADER_BYTES};

use super::route::Route;
use crate::books::{Books, PortWords, QueueWords};
use crate::error::RunError;
use crate::plan::{FullPolicy, Plan, ReceiverPlan};

/// Longest UDP payload, and what a receive needs free in a ring.
const DATAGRAM_BYTES_MAX: usize = 65_536;
/// More room that a buffer of merged datagrams takes in a ring: a header and padding for each of them.
const MERGED_BYTES_MAX: usize = 128 * 64;
/// From this mean datagram size on, datagrams are received straight into the ring.
const DIRECT_BYTES: u64 = 2_048;

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The socket was empty.
    Empty,
    /// Something was taken; there may be more.
    Took,
    /// The ring is full and the policy is to hold.
    Blocked,
}

pub(super) struct Port {
    index: u32,
    socket: OwnedFd,
    words: PortWords,
    writer: GroupWriter,
    book: Book,
    route: Route,
    lanes: Vec<Lane>,
    batch_id: u64,
    /// Mean datagram size of late, in bytes, times 16.
    mean16: u64,
    /// Receive stamp of the newest datagram, in ns; 0 without stamps.
    newest_ns: u64,
}

/// One source of the port.
struct Lane {
    /// Index of its ring.
    ring: usize,
    check: MessageCheck,
}

impl Port {
    pub(super) fn attach(
        plan: &Plan,
        index: usize,
        socket: OwnedFd,
        books: &Books,
        words: &Words,
        producers: &mut Producers,
    ) -> Result<Self, RunError> {
        let port_words = books.ports[index].clone();
        let writer = GroupWriter::attach(&books.schema, words, port_words.group)?;
        let book = writer.restore();
        let mut lanes = Vec::new();
        for (ring, queue) in plan.sources_of(index).into_iter().zip(&port_words.sources) {
            let mut check = MessageCheck::new(plan.receiver.message_bytes_max);
            let [have, datagrams] = queue.unfinished.map(|word| book.value(word));
            check.resume(have as usize, datagrams as u32);
            producers.rings[ring].resume(book.value(queue.tail))?;
            lanes.push(Lane { ring, check });
        }
        let batch_id = book.value(port_words.batch);
        let route = Route::of(plan, index);
        Ok(Self { index: index as u32, socket, words: port_words, writer, book, route, lanes, batch_id, mean16: 0, newest_ns: 0 })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the books hold the batch of this number.
    pub(super) fn has_booked(&self, batch_id: u64) -> bool {
        self.book.value(self.words.batch) >= batch_id
    }

    /// Whether something came that the kernel received after `time_ns`.
    pub(super) fn is_past(&self, time_ns: u64) -> bool {
        self.newest_ns > time_ns
    }

    /// Whether every ring of the port can take a message, with some room to spare so that it does not block at once again.
    pub(super) fn has_room(&self, producers: &Producers) -> bool {
        self.lanes.iter().all(|lane| {
            let ring = &producers.rings[lane.ring];
            let need = need_bytes(&lane.check);
            ring.free_bytes() >= (2 * need).min(ring.capacity_bytes() / 4 * 3).max(need)
        })
    }

    /// Takes what the socket has, up to one batch, books it and shows it to the builder.
    pub(super) fn turn(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        let direct = matches!(self.route, Route::Only) && self.mean16 >= DIRECT_BYTES * 16 && !plan.gro;
        if direct { self.turn_direct(plan, batch, producers, leak) } else { self.turn_scratch(plan, batch, producers, leak) }
    }

    /// Large datagrams: the kernel copies each to its place in the ring.
    fn turn_direct(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        let mut turn = Turn::Empty;
        for _ in 0..plan.batch_datagrams.min(32) {
            let lane = &self.lanes[0];
            let have = lane.check.unfinished().0;
            let ring = &mut producers.rings[lane.ring];
            let tag = BatchTag { words: [ring.position(), have as u64], ..self.next_tag() };
            let Ok(mut loan) = ring.reserve(have + DATAGRAM_BYTES_MAX) else {
                if plan.full == FullPolicy::Hold {
                    return Ok(Turn::Blocked);
                }
                return self.turn_scratch(plan, batch, producers, leak);
            };
            let Some(free) = loan.get_mut(have..) else { break };
            if batch.receive_into(self.socket.as_fd(), free, tag).map_err(|error| self.receive_error(&error))?.is_none() {
                break;
            }
            turn = Turn::Took;
            self.batch_id = tag.batch_id;
            self.take_direct(batch, producers, leak);
            self.commit(batch, producers);
        }
        Ok(turn)
    }

    /// The datagram of the batch lies in the ring behind the unfinished message.
    fn take_direct(&mut self, batch: &RecvBatch, producers: &mut Producers, leak: &mut Leak) {
        let datagram = batch.datagram(0);
        self.observe(datagram.len);
        if leak.take("socket") {
            return;
        }
        self.receive_account(0, 1, datagram.len as u64);
        let stamp_ns = datagram.stamp_ns.unwrap_or(0);
        self.newest_ns = self.newest_ns.max(stamp_ns);
        self.settle_in_ring(0, datagram.len, stamp_ns, producers, leak);
    }

    /// Small datagrams: many per system call into scratch memory, then packed into the rings.
    fn turn_scratch(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        let max = self.batch_room(plan, batch.slots(), producers);
        if max == 0 {
            return Ok(Turn::Blocked);
        }
        let tag = self.next_tag();
        let count = batch.receive_scratch(self.socket.as_fd(), max, tag).map_err(|error| self.receive_error(&error))?;
        if count == 0 {
            return Ok(Turn::Empty);
        }
        self.batch_id = tag.batch_id;
        self.take_scratch(count, batch, producers, leak);
        self.commit(batch, producers);
        Ok(Turn::Took)
    }

    /// How many datagrams surely fit into every ring of the port; all of them when full rings may drop.
    fn batch_room(&self, plan: &ReceiverPlan, slots: usize, producers: &Producers) -> usize {
        let wanted = plan.batch_datagrams.min(slots);
        if plan.full == FullPolicy::Drop || !matches!(self.route, Route::Only) {
            return wanted;
        }
        let lane = &self.lanes[0];
        let free = producers.rings[lane.ring].free_bytes().saturating_sub(lane.check.unfinished().0 as u64);
        let most = DATAGRAM_BYTES_MAX + 64 + if plan.gro { MERGED_BYTES_MAX } else { 0 };
        wanted.min((free / most as u64) as usize)
    }

    fn take_scratch(&mut self, count: usize, batch: &RecvBatch, producers: &mut Producers, leak: &mut Leak) {
        for index in 0..count {
            let datagram = batch.datagram(index);
            let payload = batch.payload(index);
            self.newest_ns = self.newest_ns.max(datagram.stamp_ns.unwrap_or(0));
            let whole = payload.len().max(1);
            // The kernel merged several of this size; the last may be shorter.
            let each = datagram.gro_segment_bytes.map_or(whole, |bytes| usize::from(bytes).clamp(1, whole));
            let mut rest = payload;
            loop {
                let (one, more) = rest.split_at(each.min(rest.len()));
                let bytes = if each == whole { datagram.len } else { one.len() };
                let arrived = Datagram { len: bytes, ..datagram };
                self.take_datagram(&arrived, one, producers, leak);
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    /// One datagram as it was sent.
    fn take_datagram(&mut self, datagram: &Datagram, payload: &[u8], producers: &mut Producers, leak: &mut Leak) {
        self.observe(datagram.len);
        if leak.take("socket") {
            return;
        }
        let bytes = datagram.len as u64;
        let Some(lane) = self.route.find(payload, datagram.from).or_else(|| self.continued()) else {
            return self.stray(bytes);
        };
        self.receive_account(lane, 1, bytes);
        if datagram.truncated {
            return self.reject(lane, &Rejected { reason: Reject::Truncated, datagrams: 1, bytes, retry_at: None });
        }
        self.take_one(lane, payload, datagram.stamp_ns.unwrap_or(0), producers, leak);
    }

    /// A datagram that no table knows may be the rest of the one message that is unfinished.
    fn continued(&self) -> Option<usize> {
        let mut unfinished = self.lanes.iter().enumerate().filter(|(_, lane)| lane.check.unfinished().1 > 0);
        let only = unfinished.next()?.0;
        unfinished.next().is_none().then_some(only)
    }

    fn take_one(&mut self, lane: usize, payload: &[u8], stamp_ns: u64, producers: &mut Producers, leak: &mut Leak) {
        let state = &mut self.lanes[lane];
        let have = state.check.unfinished().0;
        if have == 0 && payload.len() != MTU_BYTES {
            match state.check.handle_datagram(payload, payload.len()) {
                Step::Complete(accepted) => self.store(lane, &accepted, payload, stamp_ns, producers, leak),
                Step::Rejected(rejected) => self.reject(lane, &rejected),
                Step::More => {}
            }
            return;
        }
        let ring = state.ring;
        if let Ok(mut loan) = producers.rings[ring].reserve(have + payload.len()) {
            loan[have..].copy_from_slice(payload);
            self.settle_in_ring(lane, payload.len(), stamp_ns, producers, leak);
        } else {
            let given_up = self.lanes[lane].check.abandon();
            let (datagrams, bytes) = given_up.map_or((0, 0), |rejected| (rejected.datagrams, rejected.bytes));
            let bytes = bytes + payload.len() as u64;
            self.reject(lane, &Rejected { reason: Reject::RingFull, datagrams: datagrams + 1, bytes, retry_at: None });
        }
    }

    /// Copies a checked message into the ring.
    fn store(&mut self, lane: usize, accepted: &Accepted, payload: &[u8], stamp_ns: u64, producers: &mut Producers, leak: &mut Leak) {
        let ring = &mut producers.rings[self.lanes[lane].ring];
        let kept = &payload[..accepted.kept_bytes as usize];
        if accepted.datagrams == 1 && leak.take("receiver") {
            return;
        }
        let Ok(mut loan) = ring.reserve(kept.len()) else {
            let bytes = u64::from(accepted.message_bytes);
            self.reject(lane, &Rejected { reason: Reject::RingFull, datagrams: accepted.datagrams, bytes, retry_at: None });
            return;
        };
        loan.copy_from_slice(kept);
        let queued = queued(accepted, kept, leak);
        loan.commit(queued.bytes, queued.meta(stamp_ns));
        self.accept(lane, accepted, &queued);
    }

    /// The newest datagram lies in the ring behind the unfinished message: checks and keeps it there.
    fn settle_in_ring(&mut self, lane: usize, mut len: usize, stamp_ns: u64, producers: &mut Producers, leak: &mut Leak) {
        loop {
            let state = &mut self.lanes[lane];
            let total = state.check.unfinished().0 + len;
            // The same memory as before: nothing was committed in between.
            let Ok(mut loan) = producers.rings[state.ring].reserve(total) else { return };
            match state.check.handle_datagram(&loan, len) {
                Step::More => return,
                Step::Complete(accepted) if accepted.datagrams == 1 && leak.take("receiver") => return,
                Step::Complete(accepted) => {
                    let queued = queued(&accepted, &loan, leak);
                    loan.commit(queued.bytes, queued.meta(stamp_ns));
                    return self.accept(lane, &accepted, &queued);
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

    /// Handles what a killed predecessor had in hand.
    pub(super) fn adopt(&mut self, adopted: &Adopted, batch: &mut RecvBatch, producers: &mut Producers, leak: &mut Leak) {
        self.batch_id = adopted.tag.batch_id;
        match adopted.mode {
            BatchMode::Scratch => self.take_scratch(adopted.count, batch, producers, leak),
            BatchMode::Direct => {
                let here = self.lanes.first().is_some_and(|lane| producers.rings[lane.ring].position() == adopted.tag.words[0]);
                if here {
                    self.take_direct(batch, producers, leak);
                } else {
                    let bytes = batch.datagram(0).len as u64;
                    self.receive_account(0, 1, bytes);
                    let tally = self.words.sources[0].receiver.dropped[crate::books::receiver_crash()];
                    self.book.add_tally(tally, 1, bytes);
                }
            }
        }
        self.commit(batch, producers);
    }

    /// Counts, then shows: the book holds the batch before the builder can see it.
    fn commit(&mut self, batch: &mut RecvBatch, producers: &mut Producers) {
        for (lane, words) in self.lanes.iter().zip(&self.words.sources) {
            let (have, datagrams) = lane.check.unfinished();
            self.book.set(words.tail, producers.rings[lane.ring].position());
            self.book.set(words.unfinished[0], have as u64);
            self.book.set(words.unfinished[1], u64::from(datagrams));
            self.book.set(words.receiver.held.items, u64::from(datagrams));
            self.book.set(words.receiver.held.bytes, have as u64);
        }
        self.book.set(self.words.batch, self.batch_id);
        self.writer.commit(&self.book);
        for lane in &self.lanes {
            producers.rings[lane.ring].publish();
        }
        batch.disarm();
    }

    /// Reads the socket's own counters.
    pub(super) fn read_kernel(&mut self) {
        let Ok(info) = mem_info(&self.socket) else { return };
        let last = self.book.value(self.words.kernel_raw) as u32;
        self.book.add(self.words.kernel_drops, u64::from(info.drops.wrapping_sub(last)));
        self.book.set(self.words.kernel_raw, u64::from(info.drops));
        self.book.set(self.words.buffer_fill, u64::from(info.rmem_alloc_bytes));
        self.writer.commit(&self.book);
    }

    /// Ends unfinished messages at the end of a run.
    pub(super) fn finish(&mut self, producers: &mut Producers) {
        for lane in 0..self.lanes.len() {
            if let Some(rejected) = self.lanes[lane].check.abandon() {
                self.reject(lane, &rejected);
            }
        }
        for (lane, words) in self.lanes.iter().zip(&self.words.sources) {
            self.book.set(words.receiver.held.items, 0);
            self.book.set(words.receiver.held.bytes, 0);
            self.book.set(words.tail, producers.rings[lane.ring].position());
        }
        self.writer.commit(&self.book);
    }

    fn next_tag(&self) -> BatchTag {
        BatchTag { batch_id: self.batch_id + 1, socket: self.index, words: [0; 2] }
    }

    #[inline]
    fn observe(&mut self, len: usize) {
        self.mean16 = self.mean16 - self.mean16 / 16 + len as u64;
    }

    fn receive_account(&mut self, lane: usize, datagrams: u64, bytes: u64) {
        let tally = self.words.sources[lane].receiver.incoming;
        self.book.add_tally(tally, datagrams, bytes);
    }

    fn accept(&mut self, lane: usize, accepted: &Accepted, queued: &Queued) {
        let words: &QueueWords = &self.words.sources[lane];
        let book = &mut self.book;
        book.add_tally(words.receiver.outgoing, u64::from(accepted.datagrams), u64::from(accepted.message_bytes));
        book.add(words.messages, 1);
        let bytes = u64::from(accepted.kept_bytes) - UNIT_HEADER_BYTES as u64;
        let broken = u64::from(accepted.broken_bytes);
        book.add_tally(words.queue.incoming, u64::from(accepted.items) + u64::from(broken > 0), bytes + broken);
        if broken > 0 {
            book.add_tally(words.queue.dropped[0], 1, broken);
        }
        let bytes = (queued.bytes - UNIT_HEADER_BYTES) as u64;
        book.add_tally(words.queue.outgoing, u64::from(queued.items), bytes);
        book.add_tally(words.published, u64::from(queued.items), bytes);
    }

    fn reject(&mut self, lane: usize, rejected: &Rejected) {
        let account: &Account = &self.words.sources[lane].receiver;
        let tally = account.dropped[rejected.reason as usize];
        self.book.add_tally(tally, u64::from(rejected.datagrams), rejected.bytes);
    }

    fn stray(&mut self, bytes: u64) {
        let Some(account) = &self.words.stray else { return };
        self.book.add_tally(account.incoming, 1, bytes);
        self.book.add_tally(account.dropped[Reject::UnknownSource as usize], 1, bytes);
    }

    fn receive_error(&self, error: &std::io::Error) -> RunError {
        RunError::Receive { port: self.index as usize, source: std::io::Error::from(error.kind()), detail: error.to_string() }
    }
}

fn need_bytes(check: &MessageCheck) -> u64 {
    (check.unfinished().0 + DATAGRAM_BYTES_MAX + 64) as u64
}

/// What of a message goes into the ring: all of it, unless a test leaks a sub-event here.
struct Queued {
    items: u32,
    bytes: usize,
}

impl Queued {
    fn meta(&self, stamp_ns: u64) -> Meta {
        Meta { tag: 0, items: self.items, flags: 0, stamp_ns }
    }
}

fn queued(accepted: &Accepted, message: &[u8], leak: &mut Leak) -> Queued {
    let all = Queued { items: accepted.items, bytes: accepted.kept_bytes as usize };
    if accepted.items == 0 || !leak.take("queue") {
        return all;
    }
    let body = &message[UNIT_HEADER_BYTES..all.bytes];
    Queued { items: all.items - 1, bytes: UNIT_HEADER_BYTES + forebay_evb::bytes_of(body, all.items - 1) }
}
