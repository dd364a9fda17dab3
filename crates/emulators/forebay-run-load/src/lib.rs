//! Generated load: packets at a given rate, or so many on their way, over UDP or TCP or as frames of Ethernet, to targets that send them back; and the echo at the far end.
//!
//! The engine `forebay-load` decides what is due and counts what became of it. This crate has the sockets, the clock and the books.

#![forbid(unsafe_code)]

mod address;
mod books;
mod echo;
mod end;
mod error;
mod ipbench;
mod raw;
mod sender;
mod summary;
mod tcp;
mod udp;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use forebay_ledger::Reason;
pub use forebay_load::target_name;
use forebay_load::{Config, HOPS, Load};
pub use forebay_load::{ConfigError, PACKET_BYTES_MAX, Pace, Rate, Sizes, TARGETS_MAX};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System};
use forebay_sys::clock::{monotonic_ns, realtime_ns};
use forebay_sys::host::CpuTicks;
use forebay_sys::stamped::await_receive_stamps;

pub use address::{Address, Station};
pub use books::Echoed;
pub use echo::{EchoPlan, EchoSummary, RawEchoSummary};
pub use error::LoadError;
pub use raw::RawPlan;
pub use summary::{LoadSummary, RttSummary, TargetSummary, csv};

use books::Books;
use end::End;
use raw::Place;
use work::{Way, Work};

/// Longest wait for the kernel's receive stamps.
const STAMPS_TIME: Duration = Duration::from_millis(500);

/// What packets go over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// One after the other on a connection of each target.
    Tcp,
    /// A frame of Ethernet each.
    Raw(RawPlan),
}

impl Transport {
    /// Its name in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Raw(_) => "raw",
        }
    }

    /// Bytes of a packet in front of its head.
    const fn front_bytes(&self) -> usize {
        match self {
            Self::Udp | Self::Tcp => 0,
            Self::Raw(_) => raw::HEADER_BYTES,
        }
    }
}

/// Load that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// Where packets go, each with when they are sent.
    pub targets: Vec<(Address, Pace)>,
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
            front_bytes: self.transport.front_bytes(),
            time_out_ns: self.time_out.as_nanos() as u64,
            duration_ns: self.duration.map(|time| time.as_nanos() as u64),
            // Two runs at a time differ by their process, two of one process by their time.
            run: std::process::id() ^ realtime_ns() as u32,
        }
    }

    /// Opens the ways to all targets, each of which may have none by a fault of its own.
    fn open(&self) -> Result<Vec<Result<Way, String>>, LoadError> {
        let most = self.sizes.most();
        let addresses = self.targets.iter().map(|(address, _)| *address);
        let Transport::Raw(plan) = &self.transport else {
            let (name, right) = (self.transport.name(), "the address of a host, and a port");
            let hosts = of_kind(addresses, name, right, |it| match it {
                Address::Socket(host) => Some(host),
                Address::Station(_) => None,
            })?;
            let open = |to| -> Result<Way, String> {
                let end: Box<dyn End> = match self.transport {
                    Transport::Tcp => {
                        Box::new(tcp::Tcp::open(to, most).map_err(|it| it.to_string())?)
                    }
                    _ => Box::new(udp::Udp::open(to, most).map_err(|it| it.to_string())?),
                };
                Ok(Way::new(end))
            };
            return Ok(hosts.into_iter().map(open).collect());
        };
        let right = "an address of Ethernet, as 02:00:00:00:00:01";
        let stations = of_kind(addresses, "raw", right, |it| match it {
            Address::Station(station) => Some(station),
            Address::Socket(_) => None,
        })?;
        let place = Place::find(plan)?;
        place.check_sizes(&self.sizes)?;
        place.check_targets(&stations)?;
        let open = |to| {
            let end = raw::Raw::open(&place, to, stations.len(), most)?;
            Ok(Ok(Way::new(Box::new(end))))
        };
        stations.iter().copied().map(open).collect()
    }
}

/// All addresses, which are to be of one kind.
fn of_kind<T>(
    addresses: impl Iterator<Item = Address>,
    transport: &'static str,
    right: &'static str,
    is: impl Fn(Address) -> Option<T>,
) -> Result<Vec<T>, LoadError> {
    let all = addresses.enumerate().map(|(at, address)| {
        is(address).ok_or_else(|| LoadError::Address {
            target: target_name(at),
            address,
            transport,
            right,
        })
    });
    all.collect()
}

impl System for LoadPlan {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = LoadSummary;
    type Error = LoadError;

    fn run(self, host: &Host) -> Result<Record<LoadSummary>, LoadError> {
        // A plan that cannot be carried out opens nothing.
        Load::new(self.config(), 0)?;
        let (mut ways, mut unopened) = (Vec::new(), Vec::new());
        for opened in self.open()? {
            let (way, why) = match opened {
                Ok(way) => (Some(way), None),
                Err(why) => (None, Some(why)),
            };
            ways.push(way);
            unopened.push(why);
        }
        let mut tell = |text: &str| host.warn(text);
        let (mut books, seen) =
            Books::open(ways.len(), &self.transport, self.out.as_deref(), &mut tell)?;
        if self.transport == Transport::Udp && !await_receive_stamps(STAMPS_TIME).unwrap_or(false) {
            host.warn(
                "the kernel does not stamp what comes: round-trip times are by the program's clock",
            );
        }
        let (begun_ns, ticks) = (monotonic_ns(), CpuTicks::read());
        let mut load = Load::new(self.config(), begun_ns)?;
        load.leak(host.leak.clone());
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
        let mut faults = ways.iter().flatten().filter_map(|way| way.end.fault());
        let fault = faults.next().map(str::to_owned);
        end.failed = fault.or_else(|| summary.failed_targets());
        Ok(books.close(end, |_| summary)?)
    }
}
