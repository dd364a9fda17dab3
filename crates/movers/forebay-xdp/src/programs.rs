//! The program and its maps in the kernel, without an interface: it runs on frames that are given to it.

use std::os::fd::{AsFd, BorrowedFd};

use crate::abi::{
    Key, Plain, RawCommand, RawCounters, RawEntry, RawExport, RawMetadata, RawSettings, TERMS,
    control,
};
use crate::connections::{
    Changed, Config, Connections, Counts, Entry, Export, Inserted, Metadata, Reason, Seed, State,
    Tally,
};
use crate::elf::{Object, load_map};
use crate::error::XdpError;
use crate::sys::ring::Ring;
use crate::sys::{Kind, Map, MapKind, Program, bytes_of, of_bytes, possible_cpus};
use crate::table::{Table, spec};
use rustix::thread::{CapabilitySet, capabilities};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/connections.bpf.o"));
const FILTER_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.bpf.o"));
pub(crate) const WHY_NOT: &str = include_str!(concat!(env!("OUT_DIR"), "/why_not.txt"));

/// A program has an entry for less than a microsecond, unless a hypervisor took its CPU away: so often a command is tried, each time with as many looks as a frame has.
const COMMAND_TRIES: u32 = 1_000_000;
/// `XDP_PASS`.
const PASS: u32 = 2;
/// When the kernel runs a socket filter on a frame, it takes an Ethernet header off first. Behind one of zeros the program sees the frame as at a socket.
const TAKEN_OFF: [u8; 14] = [0; 14];

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes up.
    Pass,
    /// It was taken.
    Drop,
}

/// The program and its table, loaded.
#[derive(Debug)]
pub struct Programs {
    pub(crate) connections: Program,
    control: Program,
    counters: Map,
    settings: Map,
    exports: Ring,
    metadata: Ring,
    table: Table,
    /// They live as long as a program has them; these are here for their descriptors.
    _maps: [Map; 2],
}

/// The program as it is handed frames, without an interface.
#[derive(Debug)]
pub struct Runner(Program);

impl Runner {
    /// Runs it on an Ethernet frame of at least 14 bytes, so many times; gives its verdict, how many bytes are left of the frame, and the time of a run, in ns.
    ///
    /// # Errors
    /// The kernel refuses the frame, as one of more than a page.
    pub fn run(&self, frame: &[u8], repeat: u32) -> Result<(Verdict, usize, u32), XdpError> {
        run(&self.0, frame, repeat)
    }
}

fn run(program: &Program, frame: &[u8], repeat: u32) -> Result<(Verdict, usize, u32), XdpError> {
    let failed = |source| XdpError::System {
        call: "bpf(BPF_PROG_TEST_RUN)",
        target: "connections".to_owned(),
        source,
    };
    if program.kind() == Kind::Filter {
        let with = [&TAKEN_OFF, frame].concat();
        let ran = program.run(&with, &mut [], repeat);
        let (most, _, duration_ns) = ran.map_err(failed)?;
        return Ok(match most {
            0 => (Verdict::Drop, frame.len(), duration_ns),
            most => (Verdict::Pass, frame.len().min(most as usize), duration_ns),
        });
    }
    let mut changed = vec![0; frame.len()];
    let ran = program.run(frame, &mut changed, repeat);
    let (verdict, bytes, duration_ns) = ran.map_err(failed)?;
    let verdict = if verdict == PASS {
        Verdict::Pass
    } else {
        Verdict::Drop
    };
    Ok((verdict, bytes, duration_ns))
}

impl Programs {
    /// Loads both programs and makes their maps.
    ///
    /// # Errors
    /// There is no program in this binary, a setting is outside its range, this process lacks `CAP_BPF`, `CAP_NET_ADMIN` or `CAP_PERFMON`, or the kernel refuses one of them, as before Linux 5.18.
    pub fn load(config: &Config) -> Result<Self, XdpError> {
        Self::load_kind(Kind::Xdp, config, u32::MAX)
    }

    /// The same for packet sockets ([`AsFd`] gives the descriptor for `SO_ATTACH_BPF`): a frame that is counted does not come to the socket, and to everybody else it
    /// does. Of each other frame the first `snap_bytes` come, at least 1.
    ///
    /// All sockets that it is attached to have one table. It reads frames with an Ethernet header in front, as such sockets (`SOCK_RAW`) have them of Ethernet and loopback.
    ///
    /// # Errors
    /// As [`Self::load`]: the hand that user space has in the table is a program that needs the same rights.
    pub fn load_filter(config: &Config, snap_bytes: u32) -> Result<Self, XdpError> {
        Self::load_kind(Kind::Filter, config, snap_bytes)
    }

    fn load_kind(kind: Kind, config: &Config, snap_bytes: u32) -> Result<Self, XdpError> {
        config.validate()?;
        let (object, section) = match kind {
            Kind::Filter => (FILTER_OBJECT, "socket/connections"),
            Kind::Xdp => (OBJECT, "xdp/connections"),
        };
        if object.is_empty() {
            return Err(XdpError::NotBuilt { why: WHY_NOT });
        }
        may_use(&[(CapabilitySet::PERFMON, "CAP_PERFMON")])?;
        let object = Object::parse(object)?;
        let table = Table::new(kind, config.flows)?;
        let counters = [4, size_of::<RawCounters>()];
        let counters = Map::new(spec("counters", MapKind::PerCpuArray, counters, 1), None)?;
        let settings = [4, size_of::<RawSettings>()];
        let settings = Map::new(spec("settings", MapKind::Array, settings, 1), None)?;
        let [exports, metadata] = config.ring_bytes;
        let exports = Map::new(spec("exports", MapKind::Ring, [0, 0], exports), None)?;
        let metadata = Map::new(spec("metadata", MapKind::Ring, [0, 0], metadata), None)?;
        settings.set_first(&RawSettings {
            capacity: config.flows.into(),
            idle_ns: config.idle_timeout_ns,
            limit: config.export_limit_frames,
            clock_offset_ns: config.clock_offset_ns,
            trim_bytes: config.trim_bytes,
            vlan_in_key: config.vlan_in_key.into(),
            tunnels: config.look_into_tunnels.into(),
            snap_bytes: snap_bytes.max(1),
            ..RawSettings::ZERO
        })?;
        let others = [&counters, &settings, &exports, &metadata];
        let map = |name: &str| {
            let other = others.iter().find(|map| map.name() == name).copied();
            let map = other.or_else(|| table.map(name));
            map.ok_or(XdpError::Object("has a map that is not known"))
        };
        let load = |kind, section, name| {
            let (mut code, loads) = object.program(section)?;
            for load in loads {
                load_map(&mut code, load.at, map(load.map)?.number());
            }
            Program::load(kind, name, &code)
        };
        Ok(Self {
            connections: load(kind, section, "connections")?,
            control: load(Kind::Xdp, "xdp/control", "control")?,
            exports: Ring::new(&exports)?,
            metadata: Ring::new(&metadata)?,
            counters,
            settings,
            table,
            _maps: [exports, metadata],
        })
    }

    /// As [`Runner::run`].
    ///
    /// # Errors
    /// The kernel refuses the frame.
    pub fn run(&self, frame: &[u8], repeat: u32) -> Result<(Verdict, usize, u32), XdpError> {
        run(&self.connections, frame, repeat)
    }

    /// The program alone, to run it on frames from other threads.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn runner(&self) -> Result<Runner, XdpError> {
        self.connections.again().map(Runner)
    }

    /// Stops its clock at this time, ns, or lets it go on with 0. For tests: it is not called while flows come and go.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn hold_clock(&self, time_ns: u64) -> Result<(), XdpError> {
        let mut settings = [RawSettings::ZERO];
        self.settings.first(&mut settings)?;
        settings[0].clock_held_ns = time_ns;
        self.settings.set_first(&settings[0])
    }

    /// Changes [`Config::clock_offset_ns`], as when the wall clock of this host was set.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn set_clock_offset(&self, offset_ns: u64) -> Result<(), XdpError> {
        let command = RawCommand {
            heard_ns: offset_ns,
            ..RawCommand::ZERO
        };
        self.command(control::CLOCK, &Key::default(), command)?;
        Ok(())
    }

    /// What an operation that leaves the flow in the table gives of its entry.
    fn entry_by(&self, operation: u32, key: &Key) -> Result<Option<Entry>, XdpError> {
        let answer = self.command(operation, key, RawCommand::ZERO)?;
        match answer.outcome {
            control::DONE => Ok(entry(&answer.entry)),
            control::ABSENT => Ok(None),
            _ => Err(XdpError::Object("gave no outcome of a reading")),
        }
    }

    /// Has `control` do it, again where a program had the entry for the whole time.
    fn command(&self, operation: u32, key: &Key, with: RawCommand) -> Result<RawCommand, XdpError> {
        let command = RawCommand {
            operation,
            key: *key,
            ..with
        };
        let failed = |source| XdpError::System {
            call: "bpf(BPF_PROG_TEST_RUN)",
            target: "control".to_owned(),
            source,
        };
        let mut bytes = [0; size_of::<RawCommand>()];
        for _ in 0..COMMAND_TRIES {
            let ran = self.control.run(bytes_of(&command), &mut bytes, 1);
            ran.map_err(failed)?;
            let answer = of_bytes(&bytes).unwrap_or(RawCommand::ZERO);
            if answer.outcome != control::BUSY {
                return Ok(answer);
            }
            std::thread::yield_now();
        }
        Err(XdpError::EntryInUse {
            tries: COMMAND_TRIES,
        })
    }
}

/// The program that sees frames.
impl AsFd for Programs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connections.as_fd()
    }
}

/// Whether this process has the rights for programs of the kind XDP, and further ones: `CAP_SYS_ADMIN`, or each of those that were parts of it (`kernel/bpf/syscall.c`,
/// `verifier.c`).
pub(crate) fn may_use(further: &[(CapabilitySet, &'static str)]) -> Result<(), XdpError> {
    let Ok(sets) = capabilities(None) else {
        return Ok(());
    };
    let missing = lacking(sets.effective, further);
    if missing.is_empty() {
        return Ok(());
    }
    Err(XdpError::NotAllowed { missing })
}

/// The names of those rights that are not among these, with commas between.
fn lacking(effective: CapabilitySet, further: &[(CapabilitySet, &'static str)]) -> String {
    if effective.contains(CapabilitySet::SYS_ADMIN) {
        return String::new();
    }
    let wanted = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    ];
    let lacks = wanted.iter().chain(further);
    let missing: Vec<_> = lacks
        .filter(|(one, _)| !effective.contains(*one))
        .map(|(_, name)| *name)
        .collect();
    missing.join(", ")
}

fn with(state: State, seed: &Seed) -> RawCommand {
    RawCommand {
        state: state as u32,
        heard_ns: seed.heard_ns,
        active_due_ns: seed.active_due_ns,
        ..RawCommand::ZERO
    }
}

/// None of an entry that is of no flow.
fn entry(raw: &RawEntry) -> Option<Entry> {
    Some(Entry {
        key: raw.key,
        frames: raw.frames,
        octets: raw.octets,
        tcp_flags: raw.tcp_flags,
        first_ns: raw.first_ns,
        last_ns: raw.last_ns,
        state: State::of(raw.state)?,
        closed: Reason::of(raw.reason),
    })
}

fn export(raw: &RawExport) -> Option<Export> {
    let reason = Reason::of(raw.reason)?;
    Some(Export {
        entry: Entry {
            key: raw.key,
            frames: raw.frames,
            octets: raw.octets,
            tcp_flags: raw.tcp_flags,
            first_ns: raw.first_ns,
            last_ns: raw.last_ns,
            state: State::of(raw.state)?,
            closed: (reason != Reason::Limit).then_some(reason),
        },
        reason,
        now_ns: raw.now_ns,
    })
}

impl Connections for Programs {
    fn insert(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Inserted, XdpError> {
        let slot = self.table.take_slot();
        let command = RawCommand {
            slot,
            ..with(state, seed)
        };
        let answer = self.command(control::INSERT, key, command);
        if !matches!(&answer, Ok(answer) if answer.outcome == control::DONE) {
            self.table.give_slot(slot);
        }
        let answer = answer?;
        match answer.outcome {
            control::DONE => Ok(Inserted::At(answer.now_ns)),
            control::EXISTS => Ok(Inserted::Exists),
            control::FULL => Ok(Inserted::Full),
            _ => Err(XdpError::Object("gave no outcome of an insertion")),
        }
    }

    fn set(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Changed, XdpError> {
        let answer = self.command(control::SET, key, with(state, seed))?;
        match answer.outcome {
            control::DONE => Ok(Changed::At(answer.now_ns)),
            control::ABSENT => Ok(Changed::Absent),
            control::IS_CLOSED => Ok(Changed::Closed),
            _ => Err(XdpError::Object("gave no outcome of a change")),
        }
    }

    fn remove(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        let answer = self.command(control::REMOVE, key, RawCommand::ZERO)?;
        match answer.outcome {
            control::DONE => {
                self.table.give_slot(answer.slot);
                Ok(entry(&answer.entry))
            }
            control::ABSENT => Ok(None),
            _ => Err(XdpError::Object("gave no outcome of a removal")),
        }
    }

    fn collect(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        self.entry_by(control::COLLECT, key)
    }

    fn read(&self, key: &Key) -> Result<Option<Entry>, XdpError> {
        self.entry_by(control::READ, key)
    }

    fn poll_exports(&mut self, most: usize, taken: &mut dyn FnMut(&Export)) -> usize {
        self.exports.read(most, &mut |raw: RawExport| {
            if let Some(export) = export(&raw) {
                taken(&export);
            }
        })
    }

    fn poll_metadata(&mut self, most: usize, taken: &mut dyn FnMut(&Metadata)) -> usize {
        self.metadata.read(most, &mut |raw: RawMetadata| {
            taken(&Metadata {
                key: raw.key,
                turned: raw.turned != 0,
                time_ns: raw.time_ns,
                octets: raw.octets,
                tcp_flags: raw.tcp_flags,
            });
        })
    }

    fn held(&self) -> Result<Tally, XdpError> {
        let mut held = Tally::default();
        let mut key = None;
        while let Some(next) = self.table.flows.key_behind(key.as_ref())? {
            if let Some(entry) = self.read(&next)? {
                held += Tally::of(&entry);
            }
            key = Some(next);
        }
        Ok(held)
    }

    fn counts(&self) -> Result<Counts, XdpError> {
        let mut of_cpus = vec![RawCounters::ZERO; possible_cpus()?];
        self.counters.first(&mut of_cpus)?;
        let mut settings = [RawSettings::ZERO];
        self.settings.first(&mut settings)?;
        let mut counts = Counts {
            held: settings[0].held,
            ..Counts::default()
        };
        const { assert!(TERMS == crate::connections::Term::ALL.len()) };
        for counters in &of_cpus {
            counts.exports_deferred += counters.exports_deferred;
            let [frames, octets] = counters.removed;
            counts.removed += Tally { frames, octets };
            for (sum, [frames, octets]) in counts.of.iter_mut().zip(counters.of) {
                *sum += Tally { frames, octets };
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests;
