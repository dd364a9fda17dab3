//! Packets into a capture.

use std::path::Path;

use forebay_ledger::Leak;
use forebay_run::record::Record;
use forebay_run::{Host, Stop};
use forebay_sys::clock;
use forebay_traffic::{FRAME_BYTES_MAX, IP_BYTES_MAX, Traffic};

use crate::books::{Became, Books, Kind};
use crate::capture::Capture;
use crate::source::Rows;
use crate::truth::Truth;
use crate::{SHOW_NS, TrafficError, TrafficPlan, TrafficSummary, engine, run_end, summary};

/// Packets after which the clock and the order to end are looked at.
const LOOK_PACKETS: u32 = 1_024;

/// Makes the packets of a plan into the capture at `path`.
pub(crate) fn make(
    plan: &TrafficPlan,
    path: &Path,
    host: &Host,
) -> Result<Record<TrafficSummary>, TrafficError> {
    let traffic = engine(plan, IP_BYTES_MAX)?;
    let mut tell = |text: &str| host.warn(text);
    let mut books = Books::open(Kind::Capture, plan.out.as_deref(), &mut tell)?;
    let frame_bytes = plan
        .snap_bytes
        .map_or(FRAME_BYTES_MAX, |snap| snap as usize);
    let mut work = Work {
        traffic,
        frame: vec![0; frame_bytes],
        capture: Capture::create(path, plan.snap_bytes)?,
        truth: plan.truth.as_deref().map(Truth::create).transpose()?,
        start_ns: u64::from(plan.start_s) * 1_000_000_000,
        leak: host.leak.clone(),
    };
    let done = work.all(&host.stop, &mut books);
    work.end(done, &host.stop, books)
}

struct Work {
    traffic: Traffic<Rows>,
    frame: Vec<u8>,
    capture: Capture,
    truth: Option<Truth>,
    start_ns: u64,
    leak: Leak,
}

impl Work {
    /// Makes packets until there are no more, or it shall end.
    fn all(&mut self, stop: &Stop, books: &mut Books) -> Result<(), TrafficError> {
        let mut shown_ns = clock::monotonic_ns();
        loop {
            for _ in 0..LOOK_PACKETS {
                let Some(packet) = self.traffic.poll_packet(&mut self.frame)? else {
                    return Ok(());
                };
                if !self.leak.take("packets") {
                    let frame = &self.frame[..packet.captured_bytes];
                    let at_ns = self.start_ns + packet.at_ns;
                    self.capture.take(at_ns, &packet, frame)?;
                }
                if let (Some(truth), Some(flow)) = (&mut self.truth, self.traffic.ended()) {
                    truth.take(flow, self.start_ns)?;
                }
            }
            if stop.is_asked() {
                return Ok(());
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= shown_ns + SHOW_NS {
                shown_ns = now_ns;
                self.show(books);
            }
        }
    }

    fn show(&self, books: &mut Books) {
        let became = Became {
            out: self.capture.written,
            held: self.capture.buffered,
            dropped: &[self.capture.unwritten],
        };
        books.show(self.traffic.totals(), &became);
    }

    fn end(
        mut self,
        done: Result<(), TrafficError>,
        stop: &Stop,
        mut books: Books,
    ) -> Result<Record<TrafficSummary>, TrafficError> {
        let written = self.capture.write();
        // Of an end in between: what was sent until then.
        let cut = self.truth.as_mut().map_or(Ok(()), |truth| {
            let mut alive = self.traffic.alive();
            alive.try_for_each(|flow| truth.take(&flow, self.start_ns))
        });
        self.show(&mut books);
        let totals = *self.traffic.totals();
        let capture = self.capture.written;
        let done = done.and(written).and(cut).and_then(|()| {
            self.capture.finish()?;
            self.truth.map_or(Ok(()), Truth::finish)
        });
        let end = run_end(stop, done);
        let record = books.close(end, |envelope| {
            summary(&totals, capture, envelope.duration_s, envelope)
        })?;
        Ok(record)
    }
}
