//! The rings of the sources as the engine's input.

use std::time::Duration;

use forebay_evb::{Builder, Input, Message, Run, bytes_of};
use forebay_ledger::{Book, Carriage};
use forebay_ring::{Consumer, Consumers, Record, RingError};

use crate::receiver::unsaid;

/// All rings, and what was already given back.
pub(super) struct Rings {
    consumers: Consumers,
    /// What was taken off each.
    taken: Vec<Carriage>,
    /// Longest record: with less room than that the receiver cannot go on.
    record_bytes_max: u64,
    /// Something changed that no position shows.
    touched: bool,
}

impl Rings {
    pub(super) fn new(consumers: Consumers, taken: Vec<Carriage>, record_bytes_max: u32) -> Self {
        Self {
            consumers,
            taken,
            record_bytes_max: u64::from(record_bytes_max),
            touched: false,
        }
    }

    pub(super) fn sources(&self) -> usize {
        self.consumers.rings.len()
    }

    /// Writes down what was taken off the rings, as they count it themselves.
    pub(super) fn count(&self, book: &mut Book) {
        for (taken, ring) in self.taken.iter().zip(&self.consumers.rings) {
            taken.save(book, ring.carried().counts());
        }
    }

    /// The next message of `source`. A ring whose producer wrote nonsense gives nothing more; the others go on.
    pub(super) fn next(&mut self, source: usize) -> Option<Record> {
        let ring = &mut self.consumers.rings[source];
        if ring.fault().is_some() {
            return None;
        }
        ring.next().unwrap_or_else(|error| {
            tracing::error!(source, %error, "the queue of this source is broken and is not read any more");
            None
        })
    }

    pub(super) fn is_closed(&self, source: usize) -> bool {
        is_over(&self.consumers.rings[source])
    }

    pub(super) fn all_closed(&self) -> bool {
        self.consumers.rings.iter().all(is_over)
    }

    /// Three quarters full, or no room for another record: waiting longer for another source would cost this one's data.
    pub(super) fn is_pressed(&self, source: usize) -> bool {
        let ring = &self.consumers.rings[source];
        let fill = ring.fill_bytes();
        fill > 0
            && (fill * 4 >= ring.capacity_bytes() * 3
                || ring.capacity_bytes().saturating_sub(fill) <= self.record_bytes_max + 64)
    }

    /// Whether any ring is.
    pub(super) fn any_pressed(&self) -> bool {
        (0..self.sources()).any(|source| self.is_pressed(source))
    }

    /// Whether anything was taken or can be given back since the last release.
    pub(super) fn moved(&self, builder: &Builder) -> bool {
        self.touched
            || self
                .consumers
                .rings
                .iter()
                .enumerate()
                .any(|(source, ring)| ring.released() != builder.released(source))
    }

    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// Gives back what the engine has consumed, after the books are committed.
    pub(super) fn release(&mut self, builder: &Builder) {
        self.touched = false;
        let mut any = false;
        for (source, ring) in self.consumers.rings.iter_mut().enumerate() {
            let position = builder.released(source);
            if position != ring.released() {
                ring.release(position);
                any = true;
            }
        }
        if any {
            self.consumers.notify_space();
        }
    }

    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), RingError> {
        self.consumers.wait(timeout).map(drop)
    }

    /// The trigger numbers that a record says were dropped.
    pub(super) fn numbers(&self, source: usize, record: &Record) -> Option<Run> {
        let ring = &self.consumers.rings[source];
        unsaid::numbers(record, || ring.view(record.position, Run::BYTES)?.array(0))
    }

    /// Takes the last sub-event off a message, for the fault switch.
    pub(super) fn shorten(&self, source: usize, message: &mut Message) {
        let mut body = vec![0; message.len as usize];
        if self.copy(source, message.at, &mut body) {
            message.items -= 1;
            message.len = bytes_of(&body, message.items) as u32;
        }
    }
}

fn is_over(ring: &Consumer) -> bool {
    ring.is_closed() || ring.fault().is_some()
}

impl Input for Rings {
    #[inline]
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]> {
        self.consumers.rings[source].view(at, 16)?.array(0)
    }

    #[inline]
    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool {
        self.consumers.rings[source]
            .view(at, into.len())
            .is_some_and(|view| view.copy_to(0, into))
    }

    #[inline]
    fn prefetch(&self, source: usize, at: u64, len: usize) {
        if let Some(view) = self.consumers.rings[source].view(at, len) {
            view.prefetch();
        }
    }
}
