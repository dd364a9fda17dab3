//! What a table of connections below user space can do, in the kernel or in this process.

use std::ops::AddAssign;

use forebay_settings::in_range;

use crate::abi::Key;
use crate::error::XdpError;

/// What becomes of the frames of a flow that is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// They go up to user space. The flow is watched: a frame that may end it closes the entry.
    Data = 1,
    /// They go up cut to their headers, or to [`Config::trim_bytes`]. How long a frame was says its IP header.
    Trim = 2,
    /// What is said of them goes up ([`Metadata`]), and they are dropped.
    NoData = 3,
    /// They are counted in the entry and dropped.
    Stat = 4,
}

impl State {
    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Data,
            2 => Self::Trim,
            3 => Self::NoData,
            4 => Self::Stat,
            _ => return None,
        })
    }
}

/// Why user space is asked to take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// A segment of TCP with SYN, FIN or RST went up: the entry is closed.
    TcpEof = 1,
    /// The flow's active time-out was over: the entry is closed.
    Active = 2,
    /// No frame had come for the idle time-out: the entry is closed.
    Idle = 3,
    /// It has counted as many frames as [`Config::export_limit_frames`] since it was taken in or collected; it goes on, and is told of again after [`Connections::collect`].
    Limit = 4,
    /// Other CPUs had the entry for so long that a frame went by: the entry is closed, and the flow goes on. In a socket filter alone, which may not wait.
    Contended = 5,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::TcpEof,
        Self::Active,
        Self::Idle,
        Self::Limit,
        Self::Contended,
    ];

    /// Its name in books.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpEof => "tcp_eof",
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Limit => "limit",
            Self::Contended => "contended",
        }
    }

    /// What it says, in a sentence.
    pub const fn help(self) -> &'static str {
        match self {
            Self::TcpEof => {
                "How often the table told of a flow: a segment with SYN, FIN or RST went up"
            }
            Self::Active => "How often the table told of a flow: its active time-out was over",
            Self::Idle => {
                "How often the table told of a flow: no frame had come for the idle time-out"
            }
            Self::Limit => {
                "How often the table told of a flow: it had counted N packets since it was lent or last collected (--offload-limit)"
            }
            Self::Contended => {
                "How often the table told of a flow: other CPUs had the entry, and a frame went by"
            }
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::TcpEof,
            2 => Self::Active,
            3 => Self::Idle,
            4 => Self::Limit,
            5 => Self::Contended,
            _ => return None,
        })
    }
}

/// What user space knows of a flow that it hands down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Time of the flow's latest frame, ns.
    pub heard_ns: u64,
    /// From when on frames are of another record, ns.
    pub active_due_ns: u64,
}

/// What was counted of a flow below user space. Index 0 is from [`Key::low`] to [`Key::high`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The flow.
    pub key: Key,
    /// Frames.
    pub frames: [u64; 2],
    /// Octets of their IP packets, headers included.
    pub octets: [u64; 2],
    /// All their TCP flags.
    pub tcp_flags: [u8; 2],
    /// Earliest time of them, ns; 0 without any.
    pub first_ns: u64,
    /// Latest time of them, ns; 0 without any.
    pub last_ns: u64,
    /// What became of frames.
    pub state: State,
    /// Why it counts no more, if it does not.
    pub closed: Option<Reason>,
}

/// An entry that is to be taken, or that tells how far it is. What it has counted stays in the table until [`Connections::remove`] or [`Connections::collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// What it had counted then, since it was taken in or collected.
    pub entry: Entry,
    /// The reason.
    pub reason: Reason,
    /// When, ns.
    pub now_ns: u64,
}

/// What is said of a frame in place of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its flow.
    pub key: Key,
    /// It goes from high to low.
    pub turned: bool,
    /// When it came, ns.
    pub time_ns: u64,
    /// Octets of its IP packet, headers included.
    pub octets: u32,
    /// Its TCP flags.
    pub tcp_flags: u8,
}

/// How a flow was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the table since this time, ns.
    At(u64),
    /// It was already.
    Exists,
    /// There is no room: it stays with user space.
    Full,
}

/// How the state of a flow was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// At this time, ns.
    At(u64),
    /// It is not in the table.
    Absent,
    /// It was closed meanwhile, and waits to be removed.
    Closed,
}

/// Frames and their octets: of the IP packet where it could be read, else all behind the link header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of frames.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
}

impl Tally {
    /// What was counted of an entry.
    pub(crate) const fn of(entry: &Entry) -> Self {
        Self {
            frames: entry.frames[0] + entry.frames[1],
            octets: entry.octets[0] + entry.octets[1],
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.octets += other.octets;
    }
}

macro_rules! terms {
    ($($(#[doc = $text:literal])* $term:ident = $name:literal,)*) => {
        /// What became of a frame. Each is counted where it happens; what was [`Term::Seen`] is the sum of all others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Term { $($(#[doc = $text])* $term,)* }

        impl Term {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$term,)*];

            /// What it says, in a sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$term => concat!($($text),*).trim_ascii(),)* }
            }

            /// Its name in books.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$term => $name,)* }
            }
        }
    };
}

terms! {
    /// All that came.
    Seen = "seen",
    /// Counted in an entry and dropped.
    Counted = "counted",
    /// Told of and dropped.
    Metadata = "metadata",
    /// Went up: of no flow in the table.
    NewFlow = "new_flow",
    /// Went up: of no flow in the table, which is full.
    TableFull = "table_full",
    /// Went up: of a flow in the table that is watched ([`State::Data`]).
    Watched = "watched",
    /// Went up: it closed its flow's entry, or that was closed.
    Closed = "closed",
    /// Went up: other CPUs had its flow's entry, which it closed.
    Contended = "contended",
    /// Went up without what is behind its headers.
    Trimmed = "trimmed",
    /// Went up: there was no room to tell of it.
    MetadataFull = "metadata_full",
    /// Went up: it carries no IP packet, or has labels in front of it.
    NotIp = "not_ip",
    /// Went up: it ends within its headers, or before its IP packet does.
    Truncated = "truncated",
    /// Went up: its headers contradict each other.
    Malformed = "malformed",
    /// Went up: it has options of IPv4.
    Options = "options",
    /// Went up: it has extension headers of IPv6.
    Extensions = "extensions",
    /// Went up: it is a fragment.
    Fragment = "fragment",
    /// Went up: it may be a tunnel's that is to be looked into.
    Tunnel = "tunnel",
    /// Went up: it is neither of TCP nor of UDP.
    Protocol = "protocol",
}

/// What happened since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub(crate) of: [Tally; Term::ALL.len()],
    /// Exports that found no room in the ring; each is tried again with the next frame of its flow.
    pub exports_deferred: u64,
    /// Flows that are in the table.
    pub held: u64,
    /// What was counted and taken out, with its flow or out of one that stays.
    pub removed: Tally,
}

impl Counts {
    /// Frames and octets of a term.
    pub const fn of(&self, term: Term) -> Tally {
        self.of[term as usize]
    }

    /// What is lacking in the sum of all terms but [`Term::Seen`]; 0 in books that close.
    pub fn residual_frames(&self) -> i64 {
        let ends = &self.of[1..];
        let others: u64 = ends.iter().map(|tally| tally.frames).sum();
        self.of(Term::Seen).frames.wrapping_sub(others) as i64
    }

    /// The same of octets.
    pub fn residual_octets(&self) -> i64 {
        let ends = &self.of[1..];
        let others: u64 = ends.iter().map(|tally| tally.octets).sum();
        self.of(Term::Seen).octets.wrapping_sub(others) as i64
    }
}

/// How the table is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Flows that there is room for, 1 to 2^22. About 200 bytes each, taken at once. Default 16,384: heavy flows alone are worth an entry, and a table that leaves the
    /// cache costs more than it saves.
    pub flows: u32,
    /// A flow without a frame for so long is closed, ns, at least 1. Default 30 s, as the flow table's.
    pub idle_timeout_ns: u64,
    /// Frames of a flow, since it was taken in or collected, after which an export tells how far it is, once until it is collected; 0 for never. Default 0.
    pub export_limit_frames: u64,
    /// Frames of flows in [`State::Trim`] keep so many bytes, at least their headers. Default 0.
    pub trim_bytes: u32,
    /// The same addresses and ports in two VLANs are two flows. Default false. A card that takes tags off hides them (`ethtool -K IF rxvlan off`).
    pub vlan_in_key: bool,
    /// What may be VXLAN or GTP-U goes up, since it is looked into there. Default false.
    pub look_into_tunnels: bool,
    /// Is added to the kernel's monotonic clock, ns: with the difference of the wall clock, times are since 1970. Default 0.
    pub clock_offset_ns: u64,
    /// Bytes of the ring of exports and of that of metadata: each a power of two, 4096 to 2^28. Default 2^20 and 2^22.
    pub ring_bytes: [u32; 2],
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flows: 1 << 14,
            idle_timeout_ns: 30_000_000_000,
            export_limit_frames: 0,
            trim_bytes: 0,
            vlan_in_key: false,
            look_into_tunnels: false,
            clock_offset_ns: 0,
            ring_bytes: [1 << 20, 1 << 22],
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), XdpError> {
        in_range("flows", self.flows.into(), 1, 1 << 22)?;
        in_range(
            "idle_timeout_ns",
            self.idle_timeout_ns,
            1,
            i64::MAX.unsigned_abs(),
        )?;
        in_range("trim_bytes", self.trim_bytes.into(), 0, 1 << 16)?;
        for bytes in self.ring_bytes {
            // The next power of two that is in the range is as good.
            let power = u64::from(bytes.next_power_of_two());
            in_range("ring_bytes", bytes.into(), 4096.max(power), 1 << 28)?;
        }
        Ok(())
    }
}

/// A table of connections below user space, as user space has it in hand.
///
/// A flow is handed down in two steps, so that what is counted is exact though frames are under way from the table to user space meanwhile. [`Connections::insert`]
/// with [`State::Data`] says at which time the flow is watched from; a frame that may end it closes the entry from then on. When user space has handled all frames
/// that came up before this time, no such frame can be under way any more, and [`Connections::set`] moves the flow to [`State::Stat`].
pub trait Connections {
    /// Takes a flow in.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn insert(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Inserted, XdpError>;

    /// Changes the state of a flow, and adds what was heard meanwhile.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn set(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Changed, XdpError>;

    /// Takes a flow out with all that was counted of it: what comes later goes up. None if it is not in the table.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn remove(&mut self, key: &Key) -> Result<Option<Entry>, XdpError>;

    /// Takes what was counted of a flow until now, and counts it anew: it stays in the table as it is, and is told of when it has reached the limit again. None if it is not there.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn collect(&mut self, key: &Key) -> Result<Option<Entry>, XdpError>;

    /// What was counted of a flow until now. None if it is not in the table.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn read(&self, key: &Key) -> Result<Option<Entry>, XdpError>;

    /// Hands on exports, at most so many, and gives their number.
    fn poll_exports(&mut self, most: usize, taken: &mut dyn FnMut(&Export)) -> usize;

    /// Hands on what is said of frames, of at most so many, and gives their number.
    fn poll_metadata(&mut self, most: usize, taken: &mut dyn FnMut(&Metadata)) -> usize;

    /// What was counted of the flows that are in the table, added up over them.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn held(&self) -> Result<Tally, XdpError>;

    /// What happened until now.
    ///
    /// # Errors
    /// The kernel refuses the call.
    fn counts(&self) -> Result<Counts, XdpError>;
}

#[cfg(test)]
mod tests;
