//! Emulated traffic: the packets of a profile's flows into a capture, with books, and a truth per flow beside it.

#![forbid(unsafe_code)]

mod books;
mod capture;
mod error;
mod source;
mod truth;

use std::io;
use std::path::PathBuf;

use forebay_ledger::{Condition, Leak, Reason};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, Stop, System};
use forebay_sys::clock;
use forebay_traffic::{Config, FRAME_BYTES_MAX, Sizes, Traffic};
use serde::Serialize;

use books::Books;
use capture::Capture;
pub use error::TrafficError;
pub use forebay_traffic::{NAMED, NamedProfile, WINDOW_PACKETS};
use source::Rows;
pub use source::{Source, WrittenProfile, write_profile};
use truth::Truth;

/// Places at which tests make packets vanish.
pub const HOPS: &[&str] = &["packets"];
/// When the profile's clock begins, in s since 1970: the first of January 2026.
pub const START_S: u32 = 1_767_225_600;
/// Packets after which the clock and the order to end are looked at.
const LOOK_PACKETS: u32 = 1_024;
/// Books are shown so often, in ns.
const SHOW_NS: u64 = 100_000_000;

/// What is to be made.
#[derive(Clone, Debug)]
pub struct TrafficPlan {
    /// The profile: a biflow a row.
    pub profile: Source,
    /// The capture that its packets go into.
    pub capture: PathBuf,
    /// Where the truth of each flow goes.
    pub truth: Option<PathBuf>,
    /// Longer frames are cut to this, in bytes; none: they are whole.
    pub snap_bytes: Option<u32>,
    /// All random numbers follow from it.
    pub seed: u64,
    /// Small packets in the place of the profile's octets.
    pub small_packets: bool,
    /// Whether packets of a flow come in trains; none: as the profile has it.
    pub trains: Option<bool>,
    /// When the profile's clock begins, in s since 1970.
    pub start_s: u32,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

/// What was made.
#[derive(Clone, Debug, Serialize)]
pub struct TrafficSummary {
    /// Packets in the capture.
    pub packets: u64,
    /// Octets of IP in them, whole.
    pub octets: u64,
    /// Bytes of their frames on the wire.
    pub wire_bytes: u64,
    /// Flows that ended.
    pub flows: u64,
    /// Flows whose octets are not those of their row, as no packets have that sum.
    pub adjusted_flows: u64,
    /// Rows without any packet.
    pub empty_rows: u64,
    /// Most flows at a time.
    pub alive_max: u64,
    /// Packets that were made in a second.
    pub packet_rate_hz: f64,
    /// Packets in a second of the process' CPU time.
    pub packets_per_cpu_second: f64,
}

/// Makes all packets of a profile, or as many as until it shall end.
impl System for TrafficPlan {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = TrafficSummary;
    type Error = TrafficError;

    fn run(self, host: &Host) -> Result<Record<TrafficSummary>, TrafficError> {
        make(&self, host)
    }
}

fn make(plan: &TrafficPlan, host: &Host) -> Result<Record<TrafficSummary>, TrafficError> {
    let rows = plan.profile.rows(plan.seed)?;
    let sizes = if plan.small_packets {
        Sizes::Small
    } else {
        Sizes::Profile
    };
    let config = Config {
        seed: plan.seed,
        sizes,
        timing: plan.profile.timing(plan.trains),
    };
    let mut books = Books::open(plan.out.as_deref(), &mut |text| host.warn(text))?;
    let mut work = Work {
        traffic: Traffic::new(rows, &config),
        frame: vec![
            0;
            plan.snap_bytes
                .map_or(FRAME_BYTES_MAX, |snap| snap as usize)
        ],
        capture: Capture::create(plan)?,
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
                books.show(self.traffic.totals(), &self.capture);
            }
        }
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
        books.show(self.traffic.totals(), &self.capture);
        let totals = self.traffic.totals();
        let capture = self.capture.written;
        let done = done.and(written).and(cut).and_then(|()| {
            self.capture.finish()?;
            self.truth.map_or(Ok(()), Truth::finish)
        });
        let mut end = RunEnd::in_order(stop.reason().unwrap_or(Reason::InputEnded));
        if let Err(error) = done {
            end.condition = Condition::Interrupted;
            end.reason = match error {
                TrafficError::Profile(_) | TrafficError::Late { .. } => Reason::InputEnded,
                _ => Reason::WriteFailed,
            };
            end.failed = Some(error.to_string());
        }
        let record = books.close(end, |envelope| {
            let cpu_s: f64 = envelope.cpu_s.values().sum();
            let a_second = |seconds: f64| capture.packets as f64 / seconds.max(1e-9);
            TrafficSummary {
                packets: capture.packets,
                octets: capture.octets,
                wire_bytes: totals.wire_bytes,
                flows: totals.flows,
                adjusted_flows: totals.adjusted_flows,
                empty_rows: totals.empty_rows,
                alive_max: totals.alive_max as u64,
                packet_rate_hz: a_second(envelope.duration_s),
                packets_per_cpu_second: a_second(cpu_s),
            }
        })?;
        Ok(record)
    }
}

/// What went wrong with an output.
fn writing(path: &std::path::Path) -> impl Fn(io::Error) -> TrafficError + use<> {
    let path = path.to_path_buf();
    move |source| TrafficError::Unwritten {
        path: path.clone(),
        source,
    }
}
