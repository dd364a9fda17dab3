//! Flows that are counted below user space: the table of connections that the threads which capture lend to.
//!
//! Each thread lends flows of its own, and takes each one back itself; what belongs to all, the table below and what was taken out of it, is behind one lock. It is held for
//! a call of the kernel or for what the table has to say, and of the table in software for a frame. At the end alone it is held for a walk through the table.

mod lender;
mod seen;
mod trouble;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_flow::offload::{HeavyHitter, Packets as AfterPackets, Policy, Rate};
use forebay_flow::{FlowKey, Frame, LinkType, Table, Volume};
use forebay_ledger::Leak;
use forebay_run::error::RunError;
use forebay_sys::addresses;
use forebay_sys::clock::{self, ClockDifference};
use forebay_xdp::{
    Config, Connections, Counts, Key, Mode, Offload, Programs, Reason, Software, Tally, Term,
    Verdict, XdpError,
};

use self::lender::{Lender, flow_key};
pub(crate) use self::seen::{Seen, volume};
use crate::config::{OffloadChoice, PolicyChoice, ProbeSettings};
use crate::error::ProbeError;
use crate::port::Port;

/// Exports of the table below that are read at once.
const EXPORTS_MAX: usize = 4_096;
/// Its clock is set anew when the host's was set by more than this, ns: two readings of two clocks are not of one moment.
const CLOCK_STEP_NS: u64 = 1_000_000;
/// At the end it is looked so often whether the counts have come to rest …
const END_LOOKS: usize = 100;
/// … and after so long each time.
const END_LOOK: Duration = Duration::from_millis(1);

#[derive(Debug)]
enum Kind {
    Xdp(Offload),
    Filter(Programs),
    Software(Software),
}

impl Kind {
    fn table(&mut self) -> &mut dyn Connections {
        match self {
            Self::Xdp(table) => table,
            Self::Filter(table) => table,
            Self::Software(table) => table,
        }
    }
}

/// What of it is one thread's.
#[derive(Debug, Default)]
struct Lane {
    /// What was taken out of the table.
    taken: Volume,
    /// Flows that it lent and that are closed below, and were not given to it yet.
    closed: Vec<Key>,
    /// Flows that it lent and that have reached the limit, likewise.
    ahead: Vec<Key>,
    /// It lends nothing any more.
    is_over: bool,
    /// Frames that came to its socket, by the kernel's count for it.
    came_up: u64,
}

#[derive(Debug)]
struct Shared {
    kind: Kind,
    /// That is read; empty for a capture.
    interface: String,
    lanes: Vec<Lane>,
    /// The place of the thread that lent each flow.
    lenders: HashMap<Key, usize>,
    /// Of the table's clock, ns.
    offset_ns: i64,
    /// The latest counts that were read.
    counts: Counts,
    lent: u64,
    refused: u64,
    elsewhere: u64,
    /// What the table had to say, by its reason, in the order of [`Reason::ALL`].
    exports: [u64; Reason::ALL.len()],
    /// Frames that the thread which captures has handed over.
    handed: u64,
    /// Frames came on a link that it does not read.
    has_others: bool,
    /// The program is no longer on its interface, though nothing here took it off: no frame comes to the table.
    is_taken_off: bool,
    /// The first call that the kernel refused, but for looks whether the program is there.
    failed: Option<XdpError>,
    /// The first of those looks that it refused.
    unseen: Option<XdpError>,
    leak: Leak,
}

impl Shared {
    /// Reads at most so much of what the table has to say, each for the thread that lent the flow.
    fn read_exports(&mut self, most: usize) {
        let Self {
            kind,
            lanes,
            lenders,
            exports,
            ..
        } = self;
        kind.table().poll_exports(most, &mut |export| {
            if let Some(count) = Reason::ALL.iter().position(|one| *one == export.reason) {
                exports[count] += 1;
            }
            let lender = lenders.get(&export.entry.key);
            let lane = lender.and_then(|lane| lanes.get_mut(*lane));
            // One that was taken out meanwhile is nobody's.
            let Some(lane) = lane.filter(|lane| !lane.is_over) else {
                return;
            };
            let told = match export.reason {
                Reason::Limit => &mut lane.ahead,
                _ => &mut lane.closed,
            };
            told.push(export.entry.key);
        });
    }

    /// What the kernel answered; none if it refused to.
    fn answer<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Connections) -> Result<T, XdpError>,
    ) -> Option<T> {
        match call(self.kind.table()) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }
}

/// One thread's hand in a table of connections below user space.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    shared: Arc<Mutex<Shared>>,
    lane: usize,
    /// Frames are handed to it by the thread that captures.
    is_software: bool,
    /// Flows are lent to be cut, too.
    trims: bool,
}

/// Whether what is asked for can be at all.
pub(crate) fn check(settings: &ProbeSettings) -> Result<(), ProbeError> {
    let mut rules = settings.filter.iter();
    let apart = rules.find(|rule| !rule.0.treats_flows_alike());
    match settings.offload {
        OffloadChoice::Off if settings.offload_limit_packets.is_some() => {
            Err(ProbeError::NothingCounted)
        }
        OffloadChoice::Off if settings.offload_trim => Err(ProbeError::NothingCut),
        OffloadChoice::Off => Ok(()),
        _ if settings.uniflow => Err(ProbeError::OneWay),
        _ if settings.export_packets.is_some() => Err(ProbeError::NotThere),
        OffloadChoice::Xdp | OffloadChoice::Filter if settings.interface.is_none() => {
            Err(ProbeError::NothingBelow(settings.offload.name()))
        }
        OffloadChoice::Xdp if settings.offload_trim => Err(ProbeError::NotCut),
        OffloadChoice::Xdp if settings.vlan_in_key => Err(ProbeError::TagsMayBeHidden),
        OffloadChoice::Xdp | OffloadChoice::Filter | OffloadChoice::Software => match apart {
            None => Ok(()),
            Some(rule) => Err(ProbeError::TellsApart(rule.to_string())),
        },
    }
}

/// The table that is asked for, where the wall clock is so far ahead of the monotonic one.
fn config(settings: &ProbeSettings, offset_ns: i64) -> Config {
    Config {
        flows: settings.offload_flows,
        idle_timeout_ns: settings.engine(0).1.idle_timeout_ns,
        export_limit_frames: settings.offload_limit_packets.unwrap_or(0),
        vlan_in_key: settings.vlan_in_key,
        look_into_tunnels: settings.tunnel_depth > 0,
        clock_offset_ns: offset_ns.cast_unsigned(),
        ..Config::default()
    }
}

impl Below {
    /// Makes what is asked for, with a hand for each of so many threads: one table in the kernel for all of them, or one in software for each. None if nothing is counted below.
    pub(crate) fn open(
        settings: &ProbeSettings,
        lanes: usize,
        leak: &Leak,
    ) -> Result<Vec<Self>, ProbeError> {
        let offset_ns = clock::realtime_minus_monotonic_ns().offset_ns;
        let config = config(settings, offset_ns);
        let shared = |kind, lanes| {
            Arc::new(Mutex::new(Shared {
                kind,
                interface: settings.interface.clone().unwrap_or_default(),
                lanes: (0..lanes).map(|_| Lane::default()).collect(),
                lenders: HashMap::with_capacity(config.flows as usize),
                offset_ns,
                counts: Counts::default(),
                lent: 0,
                refused: 0,
                elsewhere: 0,
                exports: [0; Reason::ALL.len()],
                handed: 0,
                has_others: false,
                is_taken_off: false,
                failed: None,
                unseen: None,
                leak: leak.clone(),
            }))
        };
        match (settings.offload, &settings.interface) {
            (OffloadChoice::Off, _) | (OffloadChoice::Xdp | OffloadChoice::Filter, None) => {
                Ok(Vec::new())
            }
            (OffloadChoice::Software, _) => (0..lanes)
                .map(|_| {
                    let kind = Kind::Software(Software::new(&config)?);
                    Ok(Self {
                        shared: shared(kind, 1),
                        lane: 0,
                        is_software: true,
                        trims: settings.offload_trim,
                    })
                })
                .collect(),
            (OffloadChoice::Xdp, Some(interface)) => {
                let reached = addresses::reached_by(interface).map_err(RunError::System)?;
                if let Some((interface, address)) = reached {
                    return Err(ProbeError::InUse { interface, address });
                }
                let kind = Kind::Xdp(Offload::attach(interface, &config)?);
                Ok(Self::of_all(&shared(kind, lanes), lanes, false))
            }
            (OffloadChoice::Filter, Some(_)) => {
                let kind = Kind::Filter(Programs::load_filter(&config, settings.snap_bytes)?);
                Ok(Self::of_all(
                    &shared(kind, lanes),
                    lanes,
                    settings.offload_trim,
                ))
            }
        }
    }

    /// A hand for each thread in one table.
    fn of_all(shared: &Arc<Mutex<Shared>>, lanes: usize, trims: bool) -> Vec<Self> {
        let hand = |lane| Self {
            shared: Arc::clone(shared),
            lane,
            is_software: false,
            trims,
        };
        (0..lanes).map(hand).collect()
    }

    /// Has ports that were opened shut take packets as the table at them says. Nothing where it is not there.
    pub(crate) fn accept(&self, ports: &[Port]) -> Result<(), ProbeError> {
        let shared = self.shared();
        let Kind::Filter(program) = &shared.kind else {
            return Ok(());
        };
        for port in ports {
            port.accept_by(program.as_fd())?;
        }
        Ok(())
    }

    /// Frames that came to this thread's socket, by the kernel's count for it.
    pub(crate) fn came_up(&self, frames: u64) {
        self.shared().lanes[self.lane].came_up = frames;
    }

    /// One hand in each of the tables that there are.
    pub(crate) fn tables(all: &[Self]) -> &[Self] {
        match all {
            [first, ..] if !first.is_software => &all[..1],
            all => all,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread's table lend its flows.
    pub(crate) fn lend(
        &self,
        table: &mut Table,
        policy: Box<dyn Policy>,
    ) -> Result<(), ProbeError> {
        table.set_offload(Box::new(Lender(self.clone())), policy)?;
        Ok(())
    }

    /// How many bytes of a frame go up; none if it takes the frame. In the kernel it did that before.
    #[inline]
    pub(crate) fn leaves(&self, frame: &Frame<'_>) -> Option<usize> {
        let all = frame.bytes.len();
        if !self.is_software {
            return Some(all);
        }
        let mut shared = self.shared();
        if frame.link != Some(LinkType::Ethernet) {
            shared.has_others = true;
            return Some(all);
        }
        shared.handed += 1;
        if shared.leak.take("below") {
            return None;
        }
        let Kind::Software(table) = &mut shared.kind else {
            return Some(all);
        };
        match table.handle_cut_frame(frame.bytes, frame.wire_bytes, frame.time_ns) {
            (Verdict::Drop, _) => None,
            (Verdict::Pass, bytes) => Some(bytes),
        }
    }

    /// Reads what the table has to say, and gives this thread's flows that are closed in it, and those that have reached the limit.
    pub(crate) fn told(&self) -> [VecDeque<FlowKey>; 2] {
        let mut shared = self.shared();
        shared.read_exports(EXPORTS_MAX);
        let lane = &mut shared.lanes[self.lane];
        let told = [&mut lane.closed, &mut lane.ahead].map(std::mem::take);
        told.map(|keys| keys.iter().map(flow_key).collect())
    }

    /// The thread lends nothing any more.
    pub(crate) fn leave(&self) {
        let lane = &mut self.shared().lanes[self.lane];
        lane.is_over = true;
        lane.closed.clear();
        lane.ahead.clear();
    }

    /// Sets the table's clock by that of the host, if that was set.
    pub(crate) fn keep_time(&self) {
        let found = clock::realtime_minus_monotonic_ns();
        let mut shared = self.shared();
        let Some(offset_ns) = offset_to_set(shared.offset_ns, &found) else {
            return;
        };
        let set = match &shared.kind {
            Kind::Xdp(table) => table.set_clock_offset(offset_ns.cast_unsigned()),
            Kind::Filter(table) => table.set_clock_offset(offset_ns.cast_unsigned()),
            Kind::Software(_) => return,
        };
        match set {
            Ok(()) => shared.offset_ns = offset_ns,
            Err(error) => _ = shared.failed.get_or_insert(error),
        }
    }

    /// What this thread took out of it.
    pub(crate) fn taken(&self) -> Volume {
        self.shared().lanes[self.lane].taken
    }

    /// What is known of it now.
    pub(crate) fn look(&self) -> Seen {
        let mut shared = self.shared();
        shared.look_whether_there();
        if let Some(counts) = shared.answer(|table| table.counts()) {
            shared.counts = counts;
        }
        shared.seen(None)
    }

    /// What is known of it at the end, with what is still in it. Nothing is counted any more.
    pub(crate) fn end(&self) -> Seen {
        let mut shared = self.shared();
        shared.look_whether_there();
        if let Kind::Xdp(table) = &mut shared.kind {
            table.detach();
        }
        // A frame may be under way.
        shared.counts = at_rest(shared.counts, |before| {
            let counts = shared.answer(|table| table.counts());
            counts.unwrap_or(*before)
        });
        // All flows were taken back: what it still has to say is counted alone.
        shared.read_exports(usize::MAX);
        let held = shared.answer(|table| table.held());
        shared.seen(held)
    }

    /// What it is, for people and scripts.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.shared().kind {
            Kind::Xdp(table) if table.mode() == Mode::Native => "xdp, in the driver",
            Kind::Xdp(_) => "xdp, behind the driver",
            Kind::Filter(_) => "filter, at the sockets",
            Kind::Software(_) => "software",
        }
    }
}

impl Shared {
    fn seen(&self, held: Option<Tally>) -> Seen {
        let counts = self.counts;
        Seen {
            frames: match self.kind {
                Kind::Xdp(_) | Kind::Filter(_) => counts.of(Term::Seen).frames,
                Kind::Software(_) => self.handed,
            },
            came_up: matches!(self.kind, Kind::Filter(_))
                .then(|| self.lanes.iter().map(|lane| lane.came_up).sum()),
            counts,
            taken: self
                .lanes
                .iter()
                .fold(Volume::default(), |sum, lane| sum + lane.taken),
            held,
            lent: self.lent,
            refused: self.refused,
            elsewhere: self.elsewhere,
            exports: self.exports,
            is_taken_off: self.is_taken_off,
        }
    }
}

/// What is read when it does not change any more, or was read too often.
fn at_rest<T: PartialEq>(mut last: T, mut read: impl FnMut(&T) -> T) -> T {
    for _ in 0..END_LOOKS {
        let now = read(&last);
        if now == last {
            break;
        }
        last = now;
        std::thread::sleep(END_LOOK);
    }
    last
}

/// The flows that are lent.
pub(crate) fn policy(settings: &ProbeSettings, seed: u64) -> Box<dyn Policy> {
    let packets_min = settings.offload_after_packets;
    match settings.offload_policy {
        PolicyChoice::Packets => Box::new(AfterPackets(packets_min)),
        PolicyChoice::Rate => Box::new(Rate {
            packets_min,
            ..Rate::default()
        }),
        PolicyChoice::HeavyHitter => {
            Box::new(HeavyHitter::new(HEAVY_ONE_OF, HEAVY_WINDOW_PACKETS, seed))
        }
    }
}

/// A heavy hitter has one of so many packets that the table itself counts …
const HEAVY_ONE_OF: u32 = 1_000;
/// … in a window of so many.
const HEAVY_WINDOW_PACKETS: u32 = 1 << 17;

/// What a clock that is off by `now_ns` is to be set to, if the host's was set. Of a reading in which the thread had to wait for its turn nothing can be said.
fn offset_to_set(now_ns: i64, found: &ClockDifference) -> Option<i64> {
    let is_certain = found.half_width_ns <= CLOCK_STEP_NS / 2;
    let is_another = now_ns.abs_diff(found.offset_ns) > CLOCK_STEP_NS;
    (is_certain && is_another).then_some(found.offset_ns)
}

#[cfg(test)]
pub(crate) mod tests;
