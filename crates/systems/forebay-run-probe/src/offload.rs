//! Flows that are counted below user space: the table of connections that the threads which capture lend to.
//!
//! Each thread lends flows of its own, and takes each one back itself; what belongs to all, the table below and what was taken out of it, is behind one lock. It is held for
//! a call of the kernel at a time, and of the table in software for a frame.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_flow::offload::{
    Counted, HeavyHitter, Loan, Lower, Packets as AfterPackets, Policy, Rate,
};
use forebay_flow::{FlowKey, Frame, LinkType, Table, Volume};
use forebay_ledger::Leak;
use forebay_run::error::RunError;
use forebay_sys::{addresses, clock};
use forebay_xdp::{
    Changed, Config, Connections, Counts, Inserted, Key, Mode, Offload, Seed, Software, State,
    Tally, Term, Verdict, XdpError,
};

use crate::config::{OffloadChoice, PolicyChoice, ProbeSettings};
use crate::error::ProbeError;

/// Exports of the table below that are read at once.
const EXPORTS_MAX: usize = 4_096;
/// Its clock is set anew when the host's was set by more than this, ns: two readings of two clocks are not of one moment.
const CLOCK_STEP_NS: u64 = 1_000_000;

#[derive(Debug)]
enum Kind {
    Xdp(Offload),
    Software(Software),
}

impl Kind {
    fn table(&mut self) -> &mut dyn Connections {
        match self {
            Self::Xdp(table) => table,
            Self::Software(table) => table,
        }
    }
}

/// What of it is one thread's.
#[derive(Debug, Default)]
struct Lane {
    /// What was taken out of the table.
    taken: Volume,
    /// Flows that are closed below, and were not taken back yet.
    closed: Vec<Key>,
}

#[derive(Debug)]
struct Shared {
    kind: Kind,
    lanes: Vec<Lane>,
    /// Of the table's clock, ns.
    offset_ns: u64,
    lent: u64,
    refused: u64,
    /// Frames that the thread which captures has handed over.
    handed: u64,
    /// The first call that the kernel refused.
    failed: Option<XdpError>,
    leak: Leak,
}

impl Shared {
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

/// A table of connections below user space, with what was taken out of it.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    shared: Arc<Mutex<Shared>>,
    /// Frames are handed to it by the thread that captures.
    is_software: bool,
}

/// What is known of it at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// By the table itself.
    pub(crate) counts: Counts,
    /// Frames that came, by the table in the kernel itself, and by those that handed them to one in software.
    pub(crate) frames: u64,
    /// By those that took flows out of it.
    pub(crate) taken: Volume,
    /// Of the flows that are in it, counted anew; none before the end.
    pub(crate) held: Option<Tally>,
    /// Flows that were taken in.
    pub(crate) lent: u64,
    /// Flows that it had no room for.
    pub(crate) refused: u64,
}

/// Whether what is asked for can be at all.
pub(crate) fn check(settings: &ProbeSettings) -> Result<(), ProbeError> {
    let mut rules = settings.filter.iter();
    let apart = rules.find(|rule| !rule.0.treats_flows_alike());
    match settings.offload {
        OffloadChoice::Off => Ok(()),
        _ if settings.uniflow => Err(ProbeError::OneWay),
        _ if settings.export_packets.is_some() => Err(ProbeError::NotThere),
        OffloadChoice::Xdp if settings.interface.is_none() => Err(ProbeError::NothingBelow),
        OffloadChoice::Xdp | OffloadChoice::Software => match apart {
            None => Ok(()),
            Some(rule) => Err(ProbeError::TellsApart(rule.to_string())),
        },
    }
}

impl Below {
    /// Makes what is asked for: one table in the kernel for all threads, or one in software for each of so many. None if nothing is counted below.
    pub(crate) fn open(
        settings: &ProbeSettings,
        lanes: usize,
        leak: &Leak,
    ) -> Result<Vec<Self>, ProbeError> {
        let offset_ns = clock_offset_ns();
        let config = Config {
            flows: settings.offload_flows,
            idle_timeout_ns: settings.engine(0).1.idle_timeout_ns,
            vlan_in_key: settings.vlan_in_key,
            look_into_tunnels: settings.tunnel_depth > 0,
            clock_offset_ns: offset_ns,
            ..Config::default()
        };
        let shared = |kind| Self {
            is_software: matches!(kind, Kind::Software(_)),
            shared: Arc::new(Mutex::new(Shared {
                kind,
                lanes: (0..lanes).map(|_| Lane::default()).collect(),
                offset_ns,
                lent: 0,
                refused: 0,
                handed: 0,
                failed: None,
                leak: leak.clone(),
            })),
        };
        match (settings.offload, &settings.interface) {
            (OffloadChoice::Off, _) | (OffloadChoice::Xdp, None) => Ok(Vec::new()),
            (OffloadChoice::Software, _) => (0..lanes)
                .map(|_| Ok(shared(Kind::Software(Software::new(&config)?))))
                .collect(),
            (OffloadChoice::Xdp, Some(interface)) => {
                may_lose(interface)?;
                let kind = Kind::Xdp(Offload::attach(interface, &config)?);
                Ok(vec![shared(kind)])
            }
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
        lane: usize,
    ) -> Result<(), ProbeError> {
        let below = self.clone();
        table.set_offload(Box::new(Lender { below, lane }), policy)?;
        Ok(())
    }

    /// Whether it takes a frame, so that it does not go up. In the kernel it did that before.
    #[inline]
    pub(crate) fn takes(&self, frame: &Frame<'_>) -> bool {
        if !self.is_software || frame.link != Some(LinkType::Ethernet) {
            return false;
        }
        let mut shared = self.shared();
        shared.handed += 1;
        if shared.leak.take("below") {
            return true;
        }
        let Kind::Software(table) = &mut shared.kind else {
            return false;
        };
        let (verdict, _) = table.handle_cut_frame(frame.bytes, frame.wire_bytes, frame.time_ns);
        verdict == Verdict::Drop
    }

    /// Reads what the table has to say, and gives the flows that are closed in it. A flow of another thread is among them.
    pub(crate) fn closed(&self, lane: usize) -> Vec<FlowKey> {
        let mut shared = self.shared();
        let Shared { kind, lanes, .. } = &mut *shared;
        kind.table().poll_exports(EXPORTS_MAX, &mut |export| {
            for lane in &mut *lanes {
                lane.closed.push(export.entry.key);
            }
        });
        let closed = std::mem::take(&mut lanes[lane].closed);
        closed.iter().map(flow_key).collect()
    }

    /// Sets the table's clock by that of the host, if that was set.
    pub(crate) fn keep_time(&self) {
        let offset_ns = clock_offset_ns();
        let mut shared = self.shared();
        let Shared {
            kind: Kind::Xdp(table),
            offset_ns: set_ns,
            ..
        } = &*shared
        else {
            return;
        };
        if set_ns.abs_diff(offset_ns) <= CLOCK_STEP_NS {
            return;
        }
        match table.set_clock_offset(offset_ns) {
            Ok(()) => shared.offset_ns = offset_ns,
            Err(error) => _ = shared.failed.get_or_insert(error),
        }
    }

    /// What one thread took out of it.
    pub(crate) fn taken(&self, lane: usize) -> Volume {
        self.shared().lanes[lane].taken
    }

    /// What is known of it now; at the end with what is still in it.
    pub(crate) fn look(&self, is_end: bool) -> Seen {
        let mut shared = self.shared();
        let counts = shared.answer(|table| table.counts()).unwrap_or_default();
        let held = is_end.then(|| shared.answer(|table| table.held()));
        Seen {
            frames: match shared.kind {
                Kind::Xdp(_) => counts.of(Term::Seen).frames,
                Kind::Software(_) => shared.handed,
            },
            counts,
            taken: shared
                .lanes
                .iter()
                .fold(Volume::default(), |sum, lane| sum + lane.taken),
            held: held.flatten(),
            lent: shared.lent,
            refused: shared.refused,
        }
    }

    /// What it is, for people and scripts.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.shared().kind {
            Kind::Xdp(table) if table.mode() == Mode::Native => "xdp, in the driver",
            Kind::Xdp(_) => "xdp, behind the driver",
            Kind::Software(_) => "software",
        }
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn trouble(&self) -> Option<String> {
        let shared = self.shared();
        if let Some(error) = &shared.failed {
            return Some(format!("the table below user space: {error}"));
        }
        let Kind::Xdp(table) = &shared.kind else {
            return None;
        };
        let is_there = table.is_attached().unwrap_or(false);
        (!is_there).then(|| {
            "the XDP program was taken off its interface by somebody else: all packets come up again".to_owned()
        })
    }
}

/// What is added to the monotonic clock, ns, for times since 1970.
fn clock_offset_ns() -> u64 {
    clock::realtime_ns().wrapping_sub(clock::monotonic_ns())
}

/// Frames that are counted below go to nobody else: a host must not be reached through the interface.
fn may_lose(interface: &str) -> Result<(), ProbeError> {
    let all = addresses::addresses().map_err(RunError::System)?;
    let is_here = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let mut here = all.into_iter().filter(|(name, _)| name == interface);
    match here.find(|(_, address)| is_here(address)) {
        None => Ok(()),
        Some((interface, address)) => Err(ProbeError::InUse { interface, address }),
    }
}

/// Which flows are lent.
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

/// The hand of one thread's table in it.
struct Lender {
    below: Below,
    lane: usize,
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lender").field("lane", &self.lane).finish()
    }
}

impl Lower for Lender {
    fn watch(&mut self, flow: &FlowKey, loan: &Loan) -> Option<u64> {
        let mut shared = self.below.shared();
        match shared.answer(|table| table.insert(&key(flow), State::Data, &seed(loan)))? {
            Inserted::At(since_ns) => {
                shared.lent += 1;
                Some(since_ns)
            }
            // Of one that is there already another thread has the flow: it stays here.
            Inserted::Full | Inserted::Exists => {
                shared.refused += 1;
                None
            }
        }
    }

    fn count(&mut self, flow: &FlowKey, loan: &Loan) -> bool {
        let mut shared = self.below.shared();
        let changed = shared.answer(|table| table.set(&key(flow), State::Stat, &seed(loan)));
        matches!(changed, Some(Changed::At(_)))
    }

    fn take(&mut self, flow: &FlowKey) -> Option<Counted> {
        let mut shared = self.below.shared();
        let entry = shared.answer(|table| table.remove(&key(flow)))??;
        if shared.leak.take("offload") {
            return Some(Counted::default());
        }
        let counted = Counted {
            packets: entry.frames,
            octets: entry.octets,
            tcp_flags: entry.tcp_flags,
            first_ns: entry.first_ns,
            last_ns: entry.last_ns,
        };
        shared.lanes[self.lane].taken += counted.volume();
        Some(counted)
    }
}

const fn seed(loan: &Loan) -> Seed {
    Seed {
        heard_ns: loan.heard_ns,
        active_due_ns: loan.active_due_ns,
    }
}

/// The key below of a canonical key here.
fn key(flow: &FlowKey) -> Key {
    let source = (flow.source(), flow.source_port);
    let destination = (flow.destination(), flow.destination_port);
    Key::of(source, destination, flow.vlan, flow.protocol).0
}

fn flow_key(key: &Key) -> FlowKey {
    let (low, high) = (key.low(), key.high());
    let mut flow = FlowKey::new(low.0, high.0, key.protocol()).with_ports(low.1, high.1);
    flow.vlan = key.vlan();
    flow
}

impl Seen {
    /// Frames that the table let go on, or counted.
    pub(crate) fn told(&self) -> u64 {
        let ends = Term::ALL.iter().filter(|term| **term != Term::Seen);
        ends.map(|term| self.counts.of(*term).frames).sum()
    }

    /// What it has of flows that are in it: at the end by all of them, before by what it has counted and what was taken out.
    pub(crate) fn held(&self) -> Volume {
        if let Some(held) = self.held {
            return volume(held);
        }
        let (counted, removed) = (self.counts.of(Term::Counted), self.counts.removed);
        Volume {
            packets: counted.frames.saturating_sub(removed.frames),
            octets: counted.octets.saturating_sub(removed.octets),
        }
    }
}

pub(crate) const fn volume(tally: Tally) -> Volume {
    Volume {
        packets: tally.frames,
        octets: tally.octets,
    }
}

#[cfg(test)]
pub(crate) mod tests;
