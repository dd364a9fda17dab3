//! The builder stage: rings of all sources to events in the sinks' queues.

mod fan_out;
mod input;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::time::Duration;

use forebay_evb::{Builder, Message, Poll};
use forebay_ledger::{Carriage, GroupWriter, Leak, LossRow, LossTableWriter, Words};
use forebay_ring::Consumers;
use forebay_run::error::RunError;
use forebay_run::stage::{Order, Report, StageControl};
use forebay_sink::SinkHandle;
use forebay_sys::clock;
use forebay_wire::hadtu::UNIT_HEADER_BYTES;

use crate::books::Books;
use crate::error::EvbError;
use crate::plan::{Plan, SinkKind, SinkPlan};
use crate::sink::{self, SinkParts};
use fan_out::FanOut;
use input::Rings;

/// Events built or given up before the books are committed and the sinks see them; so many times the sources, at most, are
/// the losses that wait for the loss table.
const EVENTS_PER_COMMIT: u32 = 256;
/// Longest sleep: a receiver killed before it rang the bell costs this much.
const SLEEP: Duration = Duration::from_millis(20);
/// Sleep while a sink's queue is full.
const FULL_SLEEP: Duration = Duration::from_micros(200);

/// Longest time that the receiver has for its last messages when the supervisor is gone.
const ABANDONED_LIMIT_NS: u64 = 3_000_000_000;

/// What the supervisor hands over.
#[derive(Debug)]
pub struct BuilderParts {
    /// The ledger.
    pub words: Words,
    /// The consumer's side of the rings.
    pub rings: Vec<OwnedFd>,
    /// Both sides of each sink's queue.
    pub sinks: Vec<SinkParts>,
}

struct Stage<'a> {
    control: &'a StageControl,
    builder: Builder,
    rings: Rings,
    out: FanOut,
    writer: GroupWriter,
    losses: LossTableWriter,
    gaps: LossTableWriter,
    span: [forebay_ledger::Counter; 2],
    sinks: Vec<SinkHandle>,
    leak: Leak,
    /// Nothing came and nothing was built in the last round: only now a full ring means that waiting costs data.
    quiet: bool,
    /// Events were built or given up in this round.
    moved: bool,
    /// How long to let messages gather.
    gather: Duration,
    /// When this life of the builder saw its first message, in ns of the monotonic clock; 0 before.
    first_message_ns: u64,
    /// The supervisor said that nothing more will come.
    stopping: bool,
    /// The supervisor is gone: how long the receiver may still bring what it has.
    abandoned_until_ns: Option<u64>,
    /// How long a sink may get on with nothing at the end.
    sink_limits: Vec<Duration>,
}

/// Runs the stage until it is told to stop and everything is built.
///
/// # Errors
/// A part cannot be mapped, or the ledger is another run's.
pub fn run(
    plan: &Plan,
    parts: BuilderParts,
    control: &StageControl,
    leak: Leak,
) -> Result<(), RunError> {
    let mut stage = Stage::attach(plan, parts, control, leak)?;
    control.ready()?;
    stage.serve()?;
    stage.finish();
    Ok(())
}

impl<'a> Stage<'a> {
    fn attach(
        plan: &'a Plan,
        parts: BuilderParts,
        control: &'a StageControl,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let books = Books::declare(plan)?;
        let writer = GroupWriter::attach(&books.schema, &parts.words, books.builder.group)?;
        let losses = LossTableWriter::attach(&books.schema, &parts.words, books.builder.losses)?;
        let gaps = LossTableWriter::attach(&books.schema, &parts.words, books.builder.gaps)?;
        let mut builder = Builder::new(
            plan.builder_config(),
            books.builder.clone(),
            writer.restore(),
        )
        .map_err(EvbError::from)?;
        builder.set_leak(leak.clone());
        let mut consumers = Consumers::map(&plan.event_rings(), parts.rings)?;
        let mut taken = Vec::new();
        for (source, ring) in consumers.rings.iter_mut().enumerate() {
            ring.resume(builder.released(source))?;
            ring.count_from(builder.pulled(source));
            let words = books.builder.sources[source].taken;
            let carried = Carriage::restored(builder.book_mut(), words, UNIT_HEADER_BYTES);
            taken.push(carried);
        }
        let mut out = FanOut::new(plan, &books, &parts.words, leak.clone())?;
        let mut sinks = Vec::new();
        for (index, ends) in parts.sinks.into_iter().enumerate() {
            if let SinkKind::Null = plan.sinks[index].kind {
                out.add_inline(index, &books, builder.book_mut());
                continue;
            }
            out.add_queue(index, plan, &books, ends.producer, builder.book_mut())?;
            sinks.push(sink::start(
                plan,
                index,
                &books,
                &parts.words,
                ends.consumer,
                leak.clone(),
            )?);
        }
        let rings = Rings::new(consumers, taken, plan.record_bytes_max());
        let queued = plan.sinks.iter().filter(|sink| sink.kind != SinkKind::Null);
        let sink_limits = queued.map(SinkPlan::end_limit).collect();
        let (stopping, abandoned_until_ns) = (false, None);
        let span = books.span;
        Ok(Self {
            control,
            builder,
            rings,
            out,
            writer,
            losses,
            gaps,
            span,
            sinks,
            leak,
            gather: Duration::from_micros(plan.builder.gather_us),
            quiet: false,
            moved: false,
            first_message_ns: 0,
            stopping,
            abandoned_until_ns,
            sink_limits,
        })
    }

    fn serve(&mut self) -> Result<(), RunError> {
        // Whether the last sleep ended within the time to gather, counted from the round before it: one wake-up may do for several messages.
        let mut is_dense = false;
        loop {
            let now_ns = clock::monotonic_ns();
            self.look_for_order(now_ns)?;
            self.pass_reports();
            let pulled = self.pull(now_ns);
            let full = self.build(now_ns);
            self.commit();
            if full {
                self.quiet = false;
                self.out.wait_space(FULL_SLEEP)?;
                continue;
            }
            let was_quiet = std::mem::replace(&mut self.quiet, !pulled && !self.moved);
            if self.quiet && !was_quiet && self.rings.any_pressed() {
                continue;
            }
            if pulled && self.gather.is_zero() {
                continue;
            }
            if self.stopping && self.builder.poll_timeout().is_none() {
                return Ok(());
            }
            // A round that finds nothing tells a full ring from one that is read: it comes where one fills up.
            if pulled && (is_dense || self.rings.any_pressed()) {
                std::thread::sleep(self.gather);
                continue;
            }
            self.sleep(now_ns)?;
            is_dense = clock::monotonic_ns() - now_ns < self.gather.as_nanos() as u64;
        }
    }

    /// Takes every message that is visible in the rings.
    fn pull(&mut self, now_ns: u64) -> bool {
        let mut any = false;
        let mut unix_ns = None;
        for source in 0..self.rings.sources() {
            let mut heard = false;
            let pressed = self.quiet && self.rings.is_pressed(source);
            self.builder.handle_pressure(source, pressed);
            while let Some(record) = self.rings.next(source) {
                any = true;
                let known = record.end <= self.builder.pulled(source);
                let head = UNIT_HEADER_BYTES as u32;
                let mut message = Message {
                    at: record.position + u64::from(head),
                    len: record.len.saturating_sub(head),
                    items: record.meta.items,
                    end: record.end,
                    stamp_ns: record.meta.stamp_ns,
                    dropped: record.meta.tag,
                    numbers: self.rings.numbers(source, &record),
                };
                if !known {
                    heard |= !message.is_note();
                    if message.items > 0 && self.leak.take("ring") {
                        self.rings.shorten(source, &mut message);
                    }
                }
                self.builder
                    .handle_message(now_ns, source, message, &self.rings);
            }
            if heard {
                let unix_ns = *unix_ns.get_or_insert_with(clock::realtime_ns);
                let last_seen = self.builder.accounts().sources[source].last_seen;
                self.builder.book_mut().set(last_seen, unix_ns);
            }
            if self.stopping || self.rings.is_closed(source) {
                self.builder.handle_close(source);
            } else {
                // A receiver that was killed behind the end of its rings is there again.
                self.builder.handle_open(source);
            }
        }
        if any && self.first_message_ns == 0 {
            self.first_message_ns = now_ns;
        }
        any
    }

    /// Builds what can be built now; true when a sink's queue is full.
    fn build(&mut self, now_ns: u64) -> bool {
        let mut events = 0;
        self.moved = false;
        self.out.begin(clock::monotonic_ns(), clock::realtime_ns());
        loop {
            match self.builder.poll(now_ns, &self.rings, &mut self.out) {
                Poll::Built | Poll::Dropped => {
                    self.moved = true;
                    events += 1;
                    if events >= EVENTS_PER_COMMIT {
                        self.commit();
                        events = 0;
                    }
                }
                Poll::Idle => return false,
                Poll::Full => return true,
            }
        }
    }

    /// Events into the queues, then the books, then the sinks may see them and the sources' memory is free again.
    fn commit(&mut self) {
        self.list_losses();
        let built = self.out.seal(self.builder.book_mut());
        if built {
            let book = self.builder.book_mut();
            if book.value(self.span[0]) == 0 {
                book.set(self.span[0], self.first_message_ns);
            }
            book.set(self.span[1], clock::monotonic_ns());
        }
        if !built && !self.rings.moved(&self.builder) {
            return;
        }
        self.rings.count(self.builder.book_mut());
        let book = self.builder.save();
        self.writer.commit(book);
        self.out.publish();
        self.rings.release(&self.builder);
    }

    /// Ranges that have ended since the last commit, into the tables of the ledger.
    fn list_losses(&mut self) {
        while let Some(lost) = self.builder.poll_loss() {
            let row = LossRow {
                source: lost.source as u32,
                cause: lost.cause as u16,
                first: u64::from(lost.first),
                last: u64::from(lost.last),
                items: lost.items,
                bytes: lost.bytes,
                stamp_ns: clock::realtime_ns(),
            };
            self.losses.append(self.builder.book_mut(), row);
        }
        while let Some(gap) = self.builder.poll_gap() {
            let row = LossRow {
                source: u32::MAX,
                cause: 0,
                first: u64::from(gap.first),
                last: u64::from(gap.last),
                items: gap.items,
                bytes: 0,
                stamp_ns: clock::realtime_ns(),
            };
            self.gaps.append(self.builder.book_mut(), row);
        }
    }

    fn look_for_order(&mut self, now_ns: u64) -> Result<(), RunError> {
        if self.stopping {
            return Ok(());
        }
        if let Some(until_ns) = self.abandoned_until_ns {
            self.stopping = now_ns >= until_ns || self.rings.all_closed();
            return Ok(());
        }
        match self.control.poll()? {
            Some(Order::Stop) => self.stopping = true,
            // Without a supervisor nobody says that the receiver is through; its rings do, or the time.
            Some(Order::Abandoned) => self.abandoned_until_ns = Some(now_ns + ABANDONED_LIMIT_NS),
            None => {}
        }
        Ok(())
    }

    /// Passes on what the sinks have to say.
    fn pass_reports(&self) {
        for report in self.sinks.iter().filter_map(SinkHandle::poll_report) {
            self.tell(&sink::report(report));
        }
    }

    /// Tells the supervisor, if there still is one.
    fn tell(&self, report: &Report) {
        if self.abandoned_until_ns.is_none() {
            self.control.tell(report);
        }
    }

    fn sleep(&mut self, now_ns: u64) -> Result<(), RunError> {
        let wake = self
            .builder
            .poll_timeout()
            .map_or(SLEEP, |at| Duration::from_nanos(at.saturating_sub(now_ns)));
        Ok(self.rings.wait(wake.min(SLEEP))?)
    }

    /// Ends the books and waits for the sinks to write what they have.
    fn finish(mut self) {
        self.builder.finish();
        self.commit_all();
        self.out.close();
        self.sinks.iter().for_each(SinkHandle::expect_end);
        let sinks = std::mem::take(&mut self.sinks);
        for (sink, limit) in sinks.into_iter().zip(&self.sink_limits) {
            for report in sink.join(*limit) {
                self.tell(&sink::report(report));
            }
        }
    }

    fn commit_all(&mut self) {
        self.rings.touch();
        self.commit();
    }
}
