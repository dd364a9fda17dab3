//! Events to a remote mover, which writes them: `docs/wire/mover.md`.
//!
//! The queue is freed, and events count as delivered, only when the mover says that it has written them. What was sent and not
//! acknowledged lies in the queue still, and goes out again from there when the connection or either side was lost: the
//! mover says how far it has the stream.

mod end;
mod link;

use std::collections::VecDeque;
use std::time::Duration;

use forebay_ledger::{Carriage, Leak, Taint, TaintKind};
use forebay_ring::{Consumers, Record};
use forebay_sys::clock;
use forebay_wire::mover::{BLOCK_BYTES_MAX, BlockFields, Frame, Hello, Totals};

use crate::block::{Block, Bytes};
use crate::books::{SinkBooks, SinkDrop};
use crate::plan::{Stall, TcpPlan};
use crate::thread::ToBuilder;
use crate::writer::Told;
use link::{Link, LinkError};

/// Most bytes sent and not acknowledged.
const WINDOW_BYTES: u64 = 16 << 20;
/// Distance of attempts to connect, at first and at most.
const BACKOFF_NS: (u64, u64) = (20_000_000, 1_000_000_000);
/// Longest sleep while nothing is under way.
const SLEEP: Duration = Duration::from_millis(20);
/// Sleep while acknowledgements or room in the connection are waited for.
const SHORT_SLEEP: Duration = Duration::from_micros(500);

/// One block that was sent, or passed over since no mover takes it: that one is lost as soon as it is the oldest.
struct Sent {
    end: u64,
    events: u64,
    bytes: u64,
    too_long: bool,
}

fn is_too_long(record: &Record) -> bool {
    record.len > BLOCK_BYTES_MAX
}

/// The sink's end of the stream.
pub(super) struct TcpSink {
    plan: TcpPlan,
    /// Names of run and sink: the mover's name for the stream.
    stream: (String, String),
    consumers: Consumers,
    taken: Carriage,
    books: SinkBooks,
    leak: Leak,
    /// For tests: how long the first block is held up.
    stall: Stall,
    to_builder: ToBuilder,
    link: Option<Link>,
    sent: VecDeque<Sent>,
    /// Where the last block sent ends, and what the stream holds up to there.
    sent_to: Totals,
    in_flight_bytes: u64,
    backoff_ns: u64,
    next_try_ns: u64,
    /// When something was last acknowledged, or the first of what is under way was sent.
    progress_ns: u64,
    losses: u64,
    farewell: Option<Totals>,
}

impl TcpSink {
    pub(super) fn new(
        plan: &TcpPlan,
        stream: (String, String),
        (consumers, taken): (Consumers, Carriage),
        books: SinkBooks,
        to_builder: ToBuilder,
    ) -> Self {
        let now_ns = clock::monotonic_ns();
        Self {
            plan: plan.clone(),
            stream,
            consumers,
            taken,
            books,
            leak: Leak::off(),
            stall: Stall::default(),
            to_builder,
            link: None,
            sent: VecDeque::new(),
            sent_to: Totals::default(),
            in_flight_bytes: 0,
            backoff_ns: BACKOFF_NS.0,
            next_try_ns: now_ns,
            progress_ns: now_ns,
            losses: 0,
            farewell: None,
        }
    }

    /// With what tests ask for.
    pub(super) fn testing(mut self, leak: Leak, stall: Stall) -> Self {
        (self.leak, self.stall) = (leak, stall);
        self
    }

    pub(super) fn run(mut self) {
        let mut was_ending = false;
        while !self.is_delivered() {
            if self.books.are_lost() {
                return;
            }
            let moved = self.turn();
            let now_ns = clock::monotonic_ns();
            let ending = self.to_builder.is_ending();
            if ending && !was_ending {
                // Patience with the end counts from the end.
                self.progress_ns = now_ns;
                was_ending = true;
            }
            if ending && self.is_out_of_patience(now_ns) {
                self.give_up();
            } else if !moved {
                self.drop_stalled(now_ns);
                self.sleep();
            }
        }
        self.say_end();
        if self.losses > 0 {
            let text = format!(
                "the mover at {} was lost {} times",
                self.plan.peer, self.losses
            );
            self.to_builder.report(Told::Warning(text));
        }
    }

    /// Nothing more comes, and nothing is left.
    fn is_delivered(&self) -> bool {
        let ring = &self.consumers.rings[0];
        self.sent.is_empty() && (ring.is_closed() || ring.fault().is_some())
    }

    fn is_out_of_patience(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.progress_ns) > self.plan.patience_ms.saturating_mul(1_000_000)
    }

    /// Whether anything moved.
    fn turn(&mut self) -> bool {
        if self.link.is_none() {
            return self.connect_when_due();
        }
        let done = self
            .receive()
            .and_then(|received| Ok(self.send()? || received));
        done.unwrap_or_else(|error| {
            self.lose(&error);
            false
        })
    }

    /// Connects, and goes on where the mover says.
    fn connect_when_due(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.next_try_ns {
            return false;
        }
        match self.connect() {
            Ok(link) => {
                self.backoff_ns = BACKOFF_NS.0;
                self.link = Some(link);
                true
            }
            Err(error) => {
                tracing::debug!(peer = %self.plan.peer, %error, "no mover");
                self.next_try_ns = clock::monotonic_ns() + self.backoff_ns;
                self.backoff_ns = (2 * self.backoff_ns).min(BACKOFF_NS.1);
                false
            }
        }
    }

    fn connect(&mut self) -> Result<Link, LinkError> {
        let head = self.books.book.value(self.books.words.head);
        let (events, bytes) = self.books.book.tally(self.books.words.account.outgoing);
        let hello = Hello {
            run_id: &self.stream.0,
            sink: &self.stream.1,
            position: head,
            events,
            bytes,
        };
        let (link, position) = Link::open(self.plan.peer, &hello)?;
        self.rewind(head, position)?;
        Ok(link)
    }

    /// Goes back to what is not acknowledged, and forward over what the mover has nevertheless.
    fn rewind(&mut self, head: u64, position: u64) -> Result<(), LinkError> {
        self.sent.clear();
        self.in_flight_bytes = 0;
        let (events, bytes) = self.books.book.tally(self.books.words.account.outgoing);
        self.sent_to = Totals {
            position: head,
            events,
            bytes,
            ..Totals::default()
        };
        let ring = &mut self.consumers.rings[0];
        ring.resume(head).map_err(|_| LinkError::Position)?;
        while self.consumers.rings[0].read_position() < position {
            let record = self.next().ok_or(LinkError::Position)?;
            if is_too_long(&record) {
                self.pass_over(&record);
            } else {
                self.note_sent(&record);
            }
        }
        if self.sent_to.position != position {
            return Err(LinkError::Position);
        }
        self.acknowledge(position)
    }

    /// The next block off the queue. One that was taken before, and goes out again, is in the books already.
    fn next(&mut self) -> Option<Record> {
        let record = self.consumers.rings[0].next().ok().flatten()?;
        let (events, bytes) = (u64::from(record.meta.items), u64::from(record.len));
        let pulled = self.books.words.pulled;
        if record.end > self.books.book.value(pulled) {
            self.books.book.set(pulled, record.end);
            self.books.entered(events, bytes);
            self.books.hold(events, bytes);
        }
        Some(record)
    }

    fn note_sent(&mut self, record: &Record) {
        let (events, bytes) = (u64::from(record.meta.items), u64::from(record.len));
        // At the end only acknowledgements count: a mover that comes and goes must not hold the run open.
        if self.sent.is_empty() && !self.to_builder.is_ending() {
            self.progress_ns = clock::monotonic_ns();
        }
        self.sent.push_back(Sent {
            end: record.end,
            events,
            bytes,
            too_long: false,
        });
        self.in_flight_bytes += bytes;
        self.sent_to.position = record.end;
        self.sent_to.events += events;
        self.sent_to.bytes += bytes;
    }

    /// A block that no mover takes is not sent. The next one begins where the last one sent ended, so the stream has no gap.
    fn pass_over(&mut self, record: &Record) {
        let (events, bytes) = (u64::from(record.meta.items), u64::from(record.len));
        tracing::error!(events, bytes, "longer than a mover takes: dropped");
        self.sent.push_back(Sent {
            end: record.end,
            events,
            bytes,
            too_long: true,
        });
        self.settle(0);
    }

    /// The mover has written everything up to `position`.
    fn acknowledge(&mut self, position: u64) -> Result<(), LinkError> {
        if position > self.sent_to.position {
            return Err(LinkError::Position);
        }
        self.settle(position);
        Ok(())
    }

    /// Books the oldest blocks: those that the mover has up to `position`, and those that it never gets.
    fn settle(&mut self, position: u64) {
        let mut end = None;
        let settled = |sent: &Sent| sent.too_long || sent.end <= position;
        while self.sent.front().is_some_and(settled)
            && let Some(sent) = self.sent.pop_front()
        {
            self.books.let_go(sent.events, sent.bytes);
            if sent.too_long {
                let (events, bytes) = (sent.events, sent.bytes);
                self.books.dropped(SinkDrop::TooLong, events, bytes);
            } else {
                self.in_flight_bytes -= sent.bytes;
                let leaked = self.leak.take_of("sink", sent.events);
                self.books.written(sent.events - leaked, sent.bytes);
                self.books.book.add(self.books.words.written, sent.bytes);
            }
            end = Some(sent.end);
        }
        if let Some(end) = end {
            self.free(end);
        }
    }

    /// Counters and cursors are one record; then the builder may use the room.
    fn free(&mut self, end: u64) {
        self.books.book.set(self.books.words.head, end);
        let carried = self.consumers.rings[0].carried();
        self.taken.save(&mut self.books.book, carried.counts());
        if self.books.commit() && self.consumers.rings[0].release(end) {
            self.consumers.notify_space();
        }
        self.progress_ns = clock::monotonic_ns();
        self.to_builder.tick();
    }

    fn receive(&mut self) -> Result<bool, LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(false);
        };
        let mut acknowledged = None;
        let mut farewell = None;
        let any = link.receive(|frame| match frame {
            Frame::Ack(position) => {
                acknowledged = Some(position);
                Ok(())
            }
            Frame::Farewell(totals) => {
                farewell = Some(totals);
                Ok(())
            }
            Frame::Refuse(reason) => Err(LinkError::Refused(reason)),
            _ => Err(LinkError::Unexpected),
        });
        self.farewell = self.farewell.or(farewell);
        if let Some(position) = acknowledged {
            self.acknowledge(position)?;
        }
        any
    }

    /// Sends as much as window and connection take.
    fn send(&mut self) -> Result<bool, LinkError> {
        let mut any = false;
        loop {
            let Some(link) = &mut self.link else {
                return Ok(any);
            };
            any |= link.flush()?;
            if link.is_busy() || self.in_flight_bytes >= WINDOW_BYTES {
                return Ok(any);
            }
            let Some(record) = self.next() else {
                return Ok(any);
            };
            if is_too_long(&record) {
                self.pass_over(&record);
            } else {
                self.send_block(&record)?;
            }
            any = true;
        }
    }

    fn send_block(&mut self, record: &Record) -> Result<(), LinkError> {
        self.stall.wait();
        let begin = self.sent_to.position;
        self.note_sent(record);
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let ring = &self.consumers.rings[0];
        let view = ring.view(record.position, record.len as usize);
        let mut block = Block {
            bytes: Bytes::Queue(view.ok_or(LinkError::Position)?),
            run: record.meta.tag,
            events: u64::from(record.meta.items),
        };
        while self.leak.is_armed() && block.events > 1 && self.leak.take("stream") {
            block = block.without_last();
        }
        let fields = BlockFields {
            begin,
            end: record.end,
            events_total: self.sent_to.events,
            bytes_total: self.sent_to.bytes,
            run: block.run,
            events: block.events as u32,
            crc32: 0,
            bytes: 0,
        };
        link.queue_block(fields, &block.bytes);
        Ok(())
    }

    fn lose(&mut self, error: &LinkError) {
        if error.is_idle() && self.sent.is_empty() {
            // There was nothing to send for long, and nothing is lost.
            tracing::debug!(peer = %self.plan.peer, "the mover kept the connection no longer");
            self.link = None;
            return;
        }
        tracing::warn!(peer = %self.plan.peer, %error, "the mover is lost; trying again");
        self.link = None;
        self.losses += 1;
        self.next_try_ns = clock::monotonic_ns() + self.backoff_ns;
        self.backoff_ns = (2 * self.backoff_ns).min(BACKOFF_NS.1);
    }

    /// A mover that has not answered for long is tried on a new connection.
    fn drop_stalled(&mut self, now_ns: u64) {
        if self.link.is_some() && !self.sent.is_empty() && self.is_out_of_patience(now_ns) {
            self.lose(&LinkError::Silent);
            self.progress_ns = now_ns;
        }
    }

    fn sleep(&mut self) {
        let waiting = !self.sent.is_empty() || self.link.as_ref().is_some_and(Link::is_busy);
        if self.link.is_none() {
            let left = self.next_try_ns.saturating_sub(clock::monotonic_ns());
            std::thread::sleep(Duration::from_nanos(left).clamp(SHORT_SLEEP, SLEEP));
        } else if waiting {
            std::thread::sleep(SHORT_SLEEP);
        } else if let Err(error) = self.consumers.wait(SLEEP) {
            tracing::error!(%error, "waiting for events");
            std::thread::sleep(SLEEP);
        }
    }

    /// The mover does not take the rest: it is dropped by name.
    fn give_up(&mut self) {
        self.link = None;
        self.sent.clear();
        self.in_flight_bytes = 0;
        let head = self.books.book.value(self.books.words.head);
        let mut lost = 0;
        if self.consumers.rings[0].resume(head).is_ok() {
            while let Some(record) = self.next() {
                let (events, bytes) = (u64::from(record.meta.items), u64::from(record.len));
                self.books.let_go(events, bytes);
                if is_too_long(&record) {
                    self.books.dropped(SinkDrop::TooLong, events, bytes);
                } else {
                    self.books.dropped(SinkDrop::PeerLost, events, bytes);
                    lost += events;
                }
                self.free(record.end);
            }
        }
        if lost > 0 {
            let peer = self.plan.peer;
            let text = format!("{lost} events were not taken by the mover at {peer}");
            let taint = Taint::new(TaintKind::PeerLost, text);
            self.to_builder.report(Told::Tainted(taint));
        }
    }

    /// Tells the mover that this was all, and holds its books against ours.
    fn say_end(&mut self) {
        let account = &self.books.words.account;
        let book = &self.books.book;
        let (events, bytes) = book.tally(account.outgoing);
        let lost = book.tally(account.lost(SinkDrop::PeerLost));
        let too_long = book.tally(account.lost(SinkDrop::TooLong));
        let totals = Totals {
            position: book.value(self.books.words.head),
            events,
            bytes,
            events_lost: lost.0 + too_long.0,
            bytes_lost: lost.1 + too_long.1,
        };
        // A mover that did not take the end of the stream is not waited for a second time.
        let patience_ns = if lost.0 > 0 {
            0
        } else {
            self.plan.patience_ms.saturating_mul(1_000_000)
        };
        let limit_ns = clock::monotonic_ns() + patience_ns;
        let mut told = false;
        while self.farewell.is_none() && clock::monotonic_ns() < limit_ns {
            if self.link.is_none() {
                told = false;
            }
            if !told && let Some(link) = &mut self.link {
                link.queue(&Frame::End(totals));
                told = true;
            }
            if !self.turn() {
                std::thread::sleep(SHORT_SLEEP);
            }
        }
        self.compare(&totals);
    }
}
