//! Emulated traffic: the packets of a profile's flows into a capture or onto an interface, with books, and a truth per flow beside it.

#![forbid(unsafe_code)]

mod books;
mod capture;
mod error;
mod live;
mod pace;
mod recorded;
mod sent;
mod source;
mod truth;
mod wire;

use std::io;
use std::path::PathBuf;

use forebay_ledger::{Condition, Reason};
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, Stop, System};
use forebay_traffic::{Config, Sizes, Totals, Traffic};
use serde::Serialize;

use capture::Amount;
pub use error::TrafficError;
pub use forebay_traffic::{NAMED, NamedProfile, START_S, WINDOW_PACKETS};
pub use pace::Pace;
use source::Rows;
pub use source::{Source, WrittenProfile, write_profile};

/// Places at which tests make packets vanish.
pub const HOPS: &[&str] = &["packets"];
/// Books are shown so often, in ns.
const SHOW_NS: u64 = 100_000_000;

/// Where packets go.
#[derive(Clone, Debug)]
pub enum Target {
    /// Into a capture.
    Capture(PathBuf),
    /// Onto an interface.
    Interface {
        /// Its name.
        name: String,
        /// How fast.
        pace: Pace,
        /// How they come to the kernel; none: the default.
        send_by: Option<SendBy>,
    },
}

/// How packets for an interface come to the kernel, which tells the same of each of them either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SendBy {
    /// It is told where up to 64 of them lie, and copies them (`sendmmsg`).
    #[default]
    Sendmmsg,
    /// They are written into memory that it shares (`PACKET_TX_RING`).
    Ring,
}

/// What is to be made.
#[derive(Clone, Debug)]
pub struct TrafficPlan {
    /// The profile: a biflow a row.
    pub profile: Source,
    /// Where its packets go.
    pub to: Target,
    /// Where the truth of each flow goes.
    pub truth: Option<PathBuf>,
    /// Longer frames are cut to this, in bytes; none: they are whole. On an interface packets are made that small.
    pub snap_bytes: Option<u32>,
    /// All random numbers follow from it.
    pub seed: u64,
    /// Small packets in the place of the profile's octets.
    pub small_packets: bool,
    /// Whether packets of a flow come in trains; none: as the profile has it.
    pub trains: Option<bool>,
    /// When the profile's clock begins in a capture, in s since 1970.
    pub start_s: u32,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

/// What was made.
#[derive(Clone, Debug, Serialize)]
pub struct TrafficSummary {
    /// Packets in the capture, or that the interface took.
    pub packets: u64,
    /// Octets of IP in them, whole.
    pub octets: u64,
    /// Bytes of the frames of all packets that were made, on the wire.
    pub wire_bytes: u64,
    /// Flows that ended.
    pub flows: u64,
    /// Flows whose octets are not those of their row, as no packets have that sum.
    pub adjusted_flows: u64,
    /// Rows without any packet.
    pub empty_rows: u64,
    /// Most flows at a time.
    pub alive_max: u64,
    /// Packets in a second.
    pub packet_rate_hz: f64,
    /// Packets in a second of the process' CPU time.
    pub packets_per_cpu_second: f64,
    /// Of an interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceSummary>,
}

/// What there is to say of packets onto an interface.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceSummary {
    /// Its name.
    pub name: String,
    /// How packets came to the kernel.
    pub sent_by: SendBy,
    /// Why so: it is the default, or it was asked for.
    pub sent_by_reason: &'static str,
    /// The longest packet that it took when it was opened, in bytes.
    pub mtu_bytes: u32,
    /// Packets that were made smaller, as the interface takes no larger ones or that was asked for.
    pub shortened_packets: u64,
    /// Octets of IP that these lack.
    pub shortened_octets: u64,
    /// Packets in a second that were asked for; none: there were fewer than two.
    pub packet_rate_asked_hz: Option<f64>,
    /// By how much the schedule slipped, as packets were not sent in time, in s.
    pub slipped_s: f64,
    /// More than a hundredth of the time was lost to that: this program or its host did not reach the rate that was asked for.
    pub was_limit: bool,
}

/// Makes all packets of a profile, or as many as until it shall end.
impl System for TrafficPlan {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = TrafficSummary;
    type Error = TrafficError;

    fn run(self, host: &Host) -> Result<Record<TrafficSummary>, TrafficError> {
        match &self.to {
            Target::Capture(path) => recorded::make(&self, path, host),
            Target::Interface {
                name,
                pace,
                send_by,
            } => live::send(&self, name, *pace, *send_by, host),
        }
    }
}

/// What all packets of a plan follow from, where larger ones than so many octets of IP are made that large.
fn engine(plan: &TrafficPlan, ip_bytes_max: u32) -> Result<Traffic<Rows>, TrafficError> {
    let sizes = if plan.small_packets {
        Sizes::Small
    } else {
        Sizes::Profile
    };
    let config = Config {
        seed: plan.seed,
        sizes,
        timing: plan.profile.timing(plan.trains),
        ip_bytes_max,
    };
    Ok(Traffic::new(plan.profile.rows(plan.seed)?, &config))
}

/// How it ended.
fn run_end(stop: &Stop, done: Result<(), TrafficError>) -> RunEnd {
    let mut end = RunEnd::in_order(stop.reason().unwrap_or(Reason::InputEnded));
    if let Err(error) = done {
        end.condition = Condition::Interrupted;
        end.reason = match error {
            TrafficError::Profile(_) | TrafficError::Late { .. } => Reason::InputEnded,
            _ => Reason::WriteFailed,
        };
        end.failed = Some(error.to_string());
    }
    end
}

/// What there is to say of packets that are in the capture or were sent, in so many seconds.
fn summary(totals: &Totals, done: Amount, seconds: f64, envelope: &Envelope) -> TrafficSummary {
    let cpu_s: f64 = envelope.cpu_s.values().sum();
    let a_second = |seconds: f64| done.packets as f64 / seconds.max(1e-9);
    TrafficSummary {
        packets: done.packets,
        octets: done.octets,
        wire_bytes: totals.wire_bytes,
        flows: totals.flows,
        adjusted_flows: totals.adjusted_flows,
        empty_rows: totals.empty_rows,
        alive_max: totals.alive_max as u64,
        packet_rate_hz: a_second(seconds),
        packets_per_cpu_second: a_second(cpu_s),
        interface: None,
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
