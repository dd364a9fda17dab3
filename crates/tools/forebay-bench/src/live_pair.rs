//! The flow probe at the far end of a virtual wire, and packets of a profile that come in at the near one: once with its offload off, and once with it on.
//!
//! Wire, generator, probe and collector are in a network namespace of their own, which goes with its last process. What each of them counts is held against what the
//! others do, to the packet.

mod collector;
mod ground;
mod session;
mod sheet;

use std::path::PathBuf;

use anyhow::{Context, Result};
use forebay_run::Stop;
use serde::Serialize;

pub use collector::Collected;
pub(crate) use ground::{FAR, Ground, NEAR};
pub use session::Seen;
use session::Session;
pub use sheet::{Side, Volume};

/// What is sent, and how the probe reads it.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// The name of a profile, or its file.
    pub profile: String,
    /// Packets a second that are asked for.
    pub packet_rate_hz: f64,
    /// Packets in each run; none: as many as the profile has.
    pub packets: Option<u64>,
    /// All that is random follows from it.
    pub seed: u64,
    /// The largest packet that the wire takes, in bytes of IP.
    pub mtu_bytes: u32,
    /// More arguments of the probe.
    pub probe_args: Vec<String>,
    /// Generator and probe have one CPU together; none: they are where the kernel puts them.
    pub one_cpu: Option<OneCpu>,
    /// nfcapd gets the records, where it is installed.
    pub collects: bool,
    /// Directory for ledgers and records.
    pub out: PathBuf,
}

/// A CPU that generator and probe share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneCpu {
    /// The number of the CPU.
    pub cpu: usize,
    /// How much less of it the probe gets: its niceness (`nice(1)`), 0 to 19. That of the generator is 0.
    pub niceness: u8,
}

/// What counts heavy flows in place of the probe's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Offload {
    /// Nothing.
    Off,
    /// A program of the kernel.
    Xdp,
}

impl Offload {
    /// As the probe has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Xdp => "xdp",
        }
    }
}

/// What came of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The profile.
    pub profile: String,
    /// Packets a second that were asked for.
    pub packet_rate_asked_hz: f64,
    /// The largest packet that the wire took, in bytes of IP; larger ones of the profile were sent that large.
    pub mtu_bytes: u32,
    /// What took the records.
    pub collector: &'static str,
    /// Each run, in order.
    pub runs: Vec<Side>,
    /// All books close, and every party counts the same.
    pub agrees: bool,
    /// The user ended it early.
    pub interrupted: bool,
    /// What a run could not be done for.
    pub failed: Option<String>,
}

/// Does a run with the offload off, and one with it on; `look` is told what is counted while they go on.
///
/// # Errors
/// A program that is needed is not there, or no network namespace may be made: each names what to do. The first run cannot be done.
pub fn run(options: &Options, stop: &Stop, look: &mut dyn FnMut(&Seen)) -> Result<Report> {
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("making {}", options.out.display()))?;
    let ground = Ground::make(options.mtu_bytes)?;
    let has_collector = options.collects && collector::is_there();
    let mut report = Report {
        profile: options.profile.clone(),
        packet_rate_asked_hz: options.packet_rate_hz,
        mtu_bytes: options.mtu_bytes,
        collector: if has_collector { "nfcapd" } else { "none" },
        runs: Vec::new(),
        agrees: true,
        interrupted: false,
        failed: None,
    };
    for offload in [Offload::Off, Offload::Xdp] {
        if stop.is_asked() {
            break;
        }
        let session = Session {
            options,
            ground: &ground,
            offload,
            has_collector,
        };
        match session.carry_out(stop, look) {
            Ok(side) => report.runs.push(side),
            Err(error) if report.runs.is_empty() => return Err(error),
            Err(error) => report.failed = Some(format!("{error:#}")),
        }
    }
    report.interrupted = stop.is_asked();
    report.agrees = !report.runs.is_empty() && report.runs.iter().all(|side| side.agrees);
    Ok(report)
}

/// One run alone, on a wire of its own and without a collector.
pub(crate) fn run_one(options: &Options, offload: Offload, stop: &Stop) -> Result<Side> {
    let ground = Ground::make(options.mtu_bytes)?;
    let session = Session {
        options,
        ground: &ground,
        offload,
        has_collector: false,
    };
    session.carry_out(stop, &mut |_| ())
}
