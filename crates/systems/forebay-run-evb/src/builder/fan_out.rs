//! Every built event, offered to every sink: each has a queue, a policy and an account of its own.

mod null;
mod offer;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::time::Duration;

use forebay_evb::{EventMeta, Output, Slot};
use forebay_ledger::{Book, HistogramWriter, Leak, Words};
use forebay_ring::Producers;
use forebay_run::error::RunError;

use crate::books::Books;
use crate::plan::{Plan, SinkKind};
use offer::Offer;

/// Seconds between 1970 and the epoch of HADES run numbers.
const RUN_EPOCH_S: i64 = forebay_wire::hld::RUN_EPOCH_UNIX_S;

/// The builder's output.
pub(super) struct FanOut {
    offers: Vec<Offer>,
    /// Where an event is put together when not exactly one queue takes it.
    scratch: Vec<u8>,
    /// The one queue that events are put together in.
    direct: Option<usize>,
    /// Bytes of the event at hand.
    bytes: usize,
    now_ns: u64,
    realtime_ns: u64,
    latency: HistogramWriter,
    event_bytes: HistogramWriter,
    leak: Leak,
}

impl FanOut {
    pub(super) fn new(
        plan: &Plan,
        books: &Books,
        words: &Words,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let queues: Vec<_> = plan
            .sinks
            .iter()
            .enumerate()
            .filter(|(_, sink)| sink.kind != SinkKind::Null)
            .collect();
        let direct = match queues.as_slice() {
            [(index, _)] => Some(*index),
            _ => None,
        };
        Ok(Self {
            offers: Vec::new(),
            scratch: Vec::new(),
            direct,
            bytes: 0,
            now_ns: 0,
            realtime_ns: 0,
            latency: HistogramWriter::attach(&books.schema, words, books.latency)?,
            event_bytes: HistogramWriter::attach(&books.schema, words, books.event_bytes)?,
            leak,
        })
    }

    /// Adds a null sink: it takes everything at once.
    pub(super) fn add_inline(&mut self, sink: usize, books: &Books, book: &Book) {
        self.offers.push(Offer::inline(sink, books, book));
    }

    /// Adds a sink with a queue.
    pub(super) fn add_queue(
        &mut self,
        sink: usize,
        plan: &Plan,
        books: &Books,
        fds: Vec<OwnedFd>,
        book: &mut Book,
    ) -> Result<(), RunError> {
        let producers = Producers::map(&plan.sink_ring(sink), fds)?;
        self.offers
            .push(Offer::queue(sink, plan, books, producers, book)?);
        Ok(())
    }

    /// Starts a round of building.
    pub(super) fn begin(&mut self, now_ns: u64, realtime_ns: u64) {
        self.now_ns = now_ns;
        self.realtime_ns = realtime_ns;
    }

    /// Ends the blocks at hand and counts into the builder's book; false when nothing happened since the last time.
    pub(super) fn seal(&mut self, book: &mut Book) -> bool {
        let mut any = false;
        for offer in &mut self.offers {
            any |= offer.seal(book);
        }
        any
    }

    /// Shows the sinks what is sealed, after the books are committed.
    pub(super) fn publish(&mut self) {
        self.offers.iter_mut().for_each(Offer::publish);
    }

    /// Tells the sinks that nothing more comes.
    pub(super) fn close(&mut self) {
        self.offers.iter_mut().for_each(Offer::close);
    }

    /// Waits for a sink that has no room.
    pub(super) fn wait_space(&mut self, timeout: Duration) -> Result<(), RunError> {
        match self.offers.iter_mut().find_map(Offer::stalled_mut) {
            Some(producers) => Ok(producers.wait_space(0, self.bytes, timeout).map(drop)?),
            None => Ok(()),
        }
    }

    /// The moment that events are built in, in s since 1970.
    pub(super) fn unix_s(&self) -> i64 {
        (self.realtime_ns / 1_000_000_000).cast_signed()
    }
}

impl Output for FanOut {
    fn reserve(&mut self, bytes: usize) -> Option<Slot<'_>> {
        let unix_s = self.unix_s();
        self.bytes = bytes;
        let mut held = false;
        for offer in &mut self.offers {
            held |= !offer.prepare(bytes, self.now_ns, unix_s - RUN_EPOCH_S);
        }
        if held {
            return None;
        }
        if let Some(index) = self.direct
            && !self.offers[index].skips()
        {
            let run = self.offers[index].run();
            let bytes = self.offers[index].slot(bytes)?;
            return Some(Slot { bytes, run, unix_s });
        }
        if self.scratch.len() < bytes {
            self.scratch.resize(bytes, 0);
        }
        let run = self.offers.first().map_or(0, Offer::run);
        Some(Slot {
            bytes: &mut self.scratch[..bytes],
            run,
            unix_s,
        })
    }

    fn commit(&mut self, event: &EventMeta) {
        self.event_bytes.record(u64::from(event.bytes));
        if event.stamp_ns != 0 {
            self.latency
                .record(self.now_ns.saturating_sub(event.stamp_ns));
        }
        for (index, offer) in self.offers.iter_mut().enumerate() {
            if self.leak.take("fan_out") {
                continue;
            }
            let filled = self.direct == Some(index) && !offer.skips();
            offer.take(&self.scratch, event, filled, &mut self.leak);
        }
    }
}
