//! The receiver stage that reads a capture instead of sockets.
//!
//! A file can wait, so a full ring holds it back and nothing is lost to speed. The number of the packet is the cursor: each
//! port's books hold the last one taken, so that a restarted stage reads the file again and passes over what is booked.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use forebay_ledger::{Book, GroupWriter, Leak, Taint, TaintKind, Tally, Words};
use forebay_link::pcap::{Capture, CaptureError, Captured, Pace};
use forebay_ring::Producers;
use forebay_run::error::RunError;
use forebay_run::stage::{Report, StageControl};
use forebay_sys::clock;

use super::lane::{Arrival, Lanes};
use super::{DRAIN_LIMIT_NS, SLEEP};
use crate::books::{Books, CaptureDrop, CaptureWords, ReassemblyDrop};
use crate::error::EvbError;
use crate::plan::{Plan, ReplayPlan};

/// Datagrams taken before the books are committed and the builder sees them.
pub(crate) const BATCH_DATAGRAMS: u64 = 64;
/// Bytes after which it happens earlier: no ring may fill up while the others' share is still hidden.
const BATCH_BYTES: u64 = 64 << 10;
/// Longest sleep of a paced replay: an order to stop costs this much.
const PACE_SLEEP_NS: u64 = 5_000_000;

/// Runs the stage until the capture ends or it is told to stop.
///
/// # Errors
/// The capture cannot be opened, a part cannot be mapped, or the ledger is another run's.
pub(crate) fn run(
    plan: &Plan,
    replay: &ReplayPlan,
    words: Words,
    rings: Vec<OwnedFd>,
    control: &StageControl,
    leak: Leak,
) -> Result<(), RunError> {
    let mut stage = Stage::attach(plan, replay, &words, rings, control, leak)?;
    control.ready()?;
    let end = stage.serve()?;
    stage.close(&end);
    Ok(())
}

/// Why the reading ended.
enum End {
    File,
    Stopped,
    Broken(CaptureError),
}

struct Stage<'a> {
    control: &'a StageControl,
    capture: Capture,
    ports: Vec<Lanes>,
    routes: Routes,
    producers: Producers,
    file: FileBooks,
    pace: Option<Pace>,
    leak: Leak,
    /// Last packet taken for each port since the last commit.
    taken: Vec<Option<u64>>,
    batch_datagrams: u64,
    batch_bytes: u64,
    stop: bool,
}

impl<'a> Stage<'a> {
    fn attach(
        plan: &Plan,
        replay: &ReplayPlan,
        words: &Words,
        rings: Vec<OwnedFd>,
        control: &'a StageControl,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let books = Books::declare(plan)?;
        let mut producers = Producers::map(&plan.event_rings(), rings)?;
        let ports = (0..plan.ports.len())
            .map(|index| Lanes::attach(plan, index, &books, words, &mut producers));
        let ports: Vec<_> = ports.collect::<Result<_, _>>()?;
        let capture = Capture::open(&replay.file).map_err(|source| EvbError::Capture {
            file: replay.file.clone(),
            source,
        })?;
        Ok(Self {
            control,
            capture,
            taken: vec![None; ports.len()],
            ports,
            routes: Routes::of(plan, replay),
            producers,
            file: FileBooks::attach(&books, words)?,
            pace: replay.speed_milli.map(Pace::new),
            leak,
            batch_datagrams: 0,
            batch_bytes: 0,
            stop: false,
        })
    }

    fn serve(&mut self) -> Result<End, RunError> {
        let end = loop {
            match self.capture.next_datagram() {
                Ok(Some(captured)) => self.take(&captured)?,
                Ok(None) => break End::File,
                Err(error) => break End::Broken(error),
            }
            if self.batch_datagrams >= BATCH_DATAGRAMS || self.batch_bytes >= BATCH_BYTES {
                self.flush();
                self.look_for_order()?;
            }
            if self.stop && self.file.has_caught_up(&self.capture) {
                break End::Stopped;
            }
        };
        self.flush();
        Ok(end)
    }

    /// Brings one datagram to its source, as late as pace and ring ask for.
    fn take(&mut self, captured: &Captured) -> Result<(), RunError> {
        let len = captured.payload.len();
        self.batch_datagrams += 1;
        self.batch_bytes += len as u64;
        if self.leak.take("reassembly") {
            return Ok(());
        }
        self.file.hand_on(len);
        let Some(port) = self.routes.find(captured.to.port()) else {
            self.file.pass_by(len);
            return Ok(());
        };
        if captured.packet <= self.ports[port].booked_batch() {
            return Ok(());
        }
        self.wait_for_time(captured.timestamp_ns)?;
        self.taken[port] = Some(captured.packet);
        if self.leak.take("capture") {
            return Ok(());
        }
        let arrival = Arrival {
            payload: &captured.payload,
            from: Some(captured.from),
            stamp_ns: clock::monotonic_ns(),
        };
        let Some(lane) = self.ports[port].find(&arrival) else {
            self.ports[port].stray(len as u64);
            return Ok(());
        };
        self.wait_for_room(port, lane, len)?;
        self.ports[port].count_in(lane, len as u64);
        self.ports[port].take(lane, &arrival, &mut self.producers, &mut self.leak);
        Ok(())
    }

    /// Holds the file while the ring is full. After the order to stop the wait is bounded; then the drop has a name.
    fn wait_for_room(&mut self, port: usize, lane: usize, len: usize) -> Result<(), RunError> {
        let mut stop_ns = None;
        while let Some((ring, need)) = self.ports[port].lacks_room(lane, len, &self.producers) {
            // This packet is not in the books yet: a successor must take it again.
            let this = self.taken[port].take();
            self.flush();
            self.taken[port] = this;
            self.look_for_order()?;
            let now_ns = clock::monotonic_ns();
            if self.stop && now_ns > *stop_ns.get_or_insert(now_ns) + DRAIN_LIMIT_NS {
                break;
            }
            self.producers.wait_space(ring, need, SLEEP)?;
        }
        Ok(())
    }

    fn wait_for_time(&mut self, timestamp_ns: u64) -> Result<(), RunError> {
        let Some(pace) = &mut self.pace else {
            return Ok(());
        };
        let due_ns = pace.due_ns(timestamp_ns, clock::monotonic_ns());
        loop {
            let now_ns = clock::monotonic_ns();
            if self.stop || now_ns >= due_ns {
                return Ok(());
            }
            self.flush();
            self.look_for_order()?;
            std::thread::sleep(Duration::from_nanos((due_ns - now_ns).min(PACE_SLEEP_NS)));
        }
    }

    /// Counts, then shows the builder what was taken.
    fn flush(&mut self) {
        (self.batch_datagrams, self.batch_bytes) = (0, 0);
        self.file.commit(&self.capture);
        let mut any = false;
        for (port, taken) in self.ports.iter_mut().zip(&mut self.taken) {
            if let Some(packet) = taken.take() {
                port.commit(packet, &mut self.producers);
                any = true;
            }
        }
        if any {
            self.producers.notify();
        }
    }

    fn look_for_order(&mut self) -> Result<(), RunError> {
        if !self.stop && self.control.poll()?.is_some() {
            self.stop = true;
        }
        Ok(())
    }

    /// Books what is left, tells the builder that nothing more comes, and says what was wrong with the file: in this order,
    /// since a supervisor that does not hear must not keep the builder waiting.
    fn close(&mut self, end: &End) {
        for port in &mut self.ports {
            port.finish(&mut self.producers);
        }
        self.file.finish(&self.capture, end);
        for ring in &mut self.producers.rings {
            ring.close();
        }
        self.producers.notify();
        if let End::Broken(error) = end {
            let taint = Taint::new(TaintKind::CaptureBroken, error.to_string());
            self.control.tell(&Report::Tainted(taint));
        }
        if let Some(first) = self.capture.defects().first() {
            let counters = self.capture.counters();
            let damaged = counters.truncated + counters.malformed;
            let text = format!("{damaged} packets of the capture are damaged; the first: {first}");
            self.control.tell(&Report::Warning(text));
        }
    }
}

/// Which port of the plan a datagram came to.
enum Routes {
    Any,
    Ports(HashMap<u16, usize>),
}

impl Routes {
    fn of(plan: &Plan, replay: &ReplayPlan) -> Self {
        if replay.any_port {
            return Self::Any;
        }
        let ports = plan.ports.iter().enumerate();
        Self::Ports(
            ports
                .map(|(index, address)| (address.port(), index))
                .collect(),
        )
    }

    fn find(&self, port: u16) -> Option<usize> {
        match self {
            Self::Any => Some(0),
            Self::Ports(ports) => ports.get(&port).copied(),
        }
    }
}

/// The accounts of the file itself. They are counted from its start in every life of the stage, so a successor says nothing
/// before it has come as far as its predecessor.
struct FileBooks {
    words: CaptureWords,
    writer: GroupWriter,
    book: Book,
    /// Datagrams that came whole out of the file, and those of them to a port that is not replayed.
    handed_on: (u64, u64),
    passed_by: (u64, u64),
}

impl FileBooks {
    fn attach(books: &Books, words: &Words) -> Result<Self, RunError> {
        let missing = EvbError::NotInPlan { what: "capture" };
        let capture = books.capture.clone().ok_or(missing)?;
        let writer = GroupWriter::attach(&books.schema, words, capture.group)?;
        Ok(Self {
            book: writer.restore(),
            words: capture,
            writer,
            handed_on: (0, 0),
            passed_by: (0, 0),
        })
    }

    /// A datagram came out of the file.
    fn hand_on(&mut self, bytes: usize) {
        self.handed_on.0 += 1;
        self.handed_on.1 += bytes as u64;
    }

    /// A datagram to a port that is not replayed.
    fn pass_by(&mut self, bytes: usize) {
        self.passed_by.0 += 1;
        self.passed_by.1 += bytes as u64;
    }

    /// Whether the file is read as far as a predecessor had booked it. Before that an order to stop must wait: what the
    /// predecessor took and had not yet shown is still to be read, and the counts are smaller than the booked ones.
    fn has_caught_up(&self, capture: &Capture) -> bool {
        capture.counters().packets >= self.book.value(self.words.packets.incoming.items)
    }

    fn commit(&mut self, capture: &Capture) {
        if self.has_caught_up(capture) {
            self.count(capture);
            self.writer.commit(&self.book);
        }
    }

    fn count(&mut self, capture: &Capture) {
        let seen = capture.counters();
        let whole_frames = (
            seen.whole + seen.fragments,
            seen.whole_frame_bytes + seen.fragment_bytes,
        );
        let packets = self.words.packets.clone();
        self.set(packets.incoming, (seen.packets, seen.packet_bytes));
        self.set(packets.outgoing, whole_frames);
        let dropped = |reason: CaptureDrop| packets.lost(reason);
        self.set(
            dropped(CaptureDrop::NotUdp),
            (seen.not_udp, seen.not_udp_bytes),
        );
        self.set(
            dropped(CaptureDrop::Truncated),
            (seen.truncated, seen.truncated_bytes),
        );
        self.set(
            dropped(CaptureDrop::Malformed),
            (seen.malformed, seen.malformed_bytes),
        );
        let datagrams = self.words.datagrams.clone();
        self.set(
            datagrams.incoming,
            (seen.whole + seen.begun, seen.whole_payload_bytes),
        );
        self.set(datagrams.outgoing, self.handed_on);
        self.set(
            datagrams.lost(ReassemblyDrop::FragmentMissing),
            (seen.reassembly_failed, 0),
        );
        self.set(datagrams.held, (capture.unfinished() as u64, 0));
        self.set(self.words.not_selected, self.passed_by);
    }

    /// The end: fragments of datagrams that never became whole are losses, and so is the packet in which a broken file ends.
    ///
    /// A file that ends before the place that is booked is not the one that was begun: what is booked stays. One that a
    /// predecessor had finished comes to the same once more.
    fn finish(&mut self, capture: &Capture, end: &End) {
        // A packet of a foreign link type was read whole and counted as malformed.
        let broken = match end {
            End::Broken(CaptureError::LinkType { .. }) | End::File | End::Stopped => 0,
            End::Broken(_) => 1,
        };
        let seen = capture.counters();
        let packets = self.words.packets.clone();
        if seen.packets + broken >= self.book.value(packets.incoming.items) {
            self.count(capture);
            let incoming = (seen.packets + broken, seen.packet_bytes);
            self.set(packets.incoming, incoming);
            let file_broken = packets.lost(CaptureDrop::FileBroken);
            self.set(file_broken, (broken, 0));
        }
        let datagrams = self.words.datagrams.clone();
        let held = self.book.tally(datagrams.held);
        self.set(datagrams.held, (0, 0));
        self.book.add_tally(
            datagrams.lost(ReassemblyDrop::FragmentMissing),
            held.0,
            held.1,
        );
        self.writer.commit(&self.book);
    }

    fn set(&mut self, term: Tally, (items, bytes): (u64, u64)) {
        self.book.set(term.items, items);
        self.book.set(term.bytes, bytes);
    }
}

#[cfg(test)]
mod tests;
