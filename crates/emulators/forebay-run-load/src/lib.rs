//! Generated load: packets at a given rate, or so many on their way, over UDP or TCP to targets that send them back; and the echo at the far end.
//!
//! The engine `forebay-load` decides what is due and counts what became of it. This crate has the sockets, the clock and the books.

#![forbid(unsafe_code)]

mod books;
mod echo;
mod end;
mod error;
mod ipbench;
mod summary;
mod tcp;
mod udp;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_ledger::Reason;
use forebay_load::{Config, Load, target_name};
pub use forebay_load::{ConfigError, PACKET_BYTES_MAX, Pace, Rate, Sizes, TARGETS_MAX};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System};
use forebay_sys::clock::{monotonic_ns, realtime_ns};
use forebay_sys::host::CpuTicks;
use forebay_sys::stamped::await_receive_stamps;

pub use books::Echoed;
pub use echo::{EchoPlan, EchoSummary};
pub use error::LoadError;
pub use summary::{LoadSummary, RttSummary, TargetSummary, csv};

use books::Books;
use end::End;
use work::{Way, Work};

/// Longest wait for the kernel's receive stamps.
const STAMPS_TIME: Duration = Duration::from_millis(500);

/// What packets go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// One after the other on a connection of each target.
    Tcp,
}

impl Transport {
    /// Its name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// Load that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// Where packets go, each with when they are sent.
    pub targets: Vec<(SocketAddr, Pace)>,
    /// What they go over.
    pub transport: Transport,
    /// How long they are.
    pub sizes: Sizes,
    /// How long packets are sent; none: until it is told to stop.
    pub duration: Option<Duration>,
    /// How long an answer is waited for.
    pub time_out: Duration,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

impl LoadPlan {
    fn config(&self) -> Config {
        Config {
            paces: self.targets.iter().map(|(_, pace)| *pace).collect(),
            sizes: self.sizes.clone(),
            front_bytes: 0,
            time_out_ns: self.time_out.as_nanos() as u64,
            duration_ns: self.duration.map(|time| time.as_nanos() as u64),
            // Two runs at a time differ by their process, two of one process by their time.
            run: std::process::id() ^ realtime_ns() as u32,
        }
    }

    /// Opens a way to a target; why there is none.
    fn open(&self, to: SocketAddr) -> Result<Way, String> {
        let most = self.sizes.most();
        let end: Box<dyn End> = match self.transport {
            Transport::Udp => Box::new(udp::Udp::open(to, most).map_err(|it| it.to_string())?),
            Transport::Tcp => Box::new(tcp::Tcp::open(to, most).map_err(|it| it.to_string())?),
        };
        Ok(Way::new(end))
    }
}

impl System for LoadPlan {
    const HOPS: &'static [&'static str] = &[];
    type Summary = LoadSummary;
    type Error = LoadError;

    fn run(self, host: &Host) -> Result<Record<LoadSummary>, LoadError> {
        // A plan that cannot be carried out opens nothing.
        Load::new(self.config(), 0)?;
        let opened = self.targets.iter().map(|(to, _)| self.open(*to));
        let (mut ways, mut unopened) = (Vec::new(), Vec::new());
        for opened in opened {
            let (way, why) = match opened {
                Ok(way) => (Some(way), None),
                Err(why) => (None, Some(why)),
            };
            ways.push(way);
            unopened.push(why);
        }
        let mut tell = |text: &str| host.warn(text);
        let (mut books, seen) = Books::open(ways.len(), self.out.as_deref(), &mut tell)?;
        if self.transport == Transport::Udp && !await_receive_stamps(STAMPS_TIME).unwrap_or(false) {
            host.warn(
                "the kernel does not stamp what comes: round-trip times are by the program's clock",
            );
        }
        let (begun_ns, ticks) = (monotonic_ns(), CpuTicks::read());
        let mut load = Load::new(self.config(), begun_ns)?;
        for (at, why) in unopened.iter().enumerate() {
            if let Some(why) = why {
                host.warn(&format!("target {}: {why}", target_name(at)));
                load.handle_lost(at);
            }
        }
        let mut work = Work::new(load, ways, seen, &mut books)?;
        let effort = work.all(host, begun_ns, self.duration)?;
        let ended_ns = monotonic_ns();
        let Work { load, ways, .. } = work;
        let snapshot = books.snapshot()?;
        let outcome = summary::Outcome {
            plan: &self,
            load: &load,
            ways: &ways,
            unopened: &unopened,
            snapshot: &snapshot,
            effort,
            ended_ns,
            ticks: CpuTicks::read().since(ticks),
        };
        let summary = outcome.summary();
        let mut end = RunEnd::in_order(host.stop.reason().unwrap_or(Reason::LimitReached));
        end.failed = summary.failed_targets();
        Ok(books.close(end, |_| summary)?)
    }
}
