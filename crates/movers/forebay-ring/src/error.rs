//! What can go wrong, by whose fault.

use thiserror::Error;

/// A value in shared memory that an honest peer cannot have written. The ring that met it stays in the error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PeerFault {
    /// The peer's index went back.
    #[error("the peer's index went backwards: {found} after {last}")]
    IndexBackwards {
        /// The value in the peer's page.
        found: u64,
        /// The last good value.
        last: u64,
    },
    /// The peer's index is further than this side's own position and the capacity allow.
    #[error("the peer's index is out of reach: {found}, at most {limit} is possible")]
    IndexBeyond {
        /// The value in the peer's page.
        found: u64,
        /// The largest value possible.
        limit: u64,
    },
    /// The peer's index lies within a block.
    #[error("the peer's index lies within a block: {found}, which is no multiple of {step}")]
    IndexUneven {
        /// The value in the peer's page.
        found: u64,
        /// Bytes of a block.
        step: u64,
    },
    /// The published bytes end inside a record's header.
    #[error("record at {position}: {available} bytes are published, a header has 32")]
    HeaderCut {
        /// Where the record begins.
        position: u64,
        /// Published bytes from there on.
        available: u64,
    },
    /// A record names a length above the set's maximum.
    #[error("record at {position}: length {len} is above the maximum of {max}")]
    RecordTooLong {
        /// Where the record begins.
        position: u64,
        /// The length in its header.
        len: u32,
        /// The set's `record_bytes_max`.
        max: u32,
    },
    /// A record reaches beyond what is published.
    #[error(
        "record at {position}: length {len} reaches beyond the {available} bytes that are published"
    )]
    RecordBeyondTail {
        /// Where the record begins.
        position: u64,
        /// The length in its header.
        len: u32,
        /// Published bytes from the header on.
        available: u64,
    },
    /// The position in a record's header is not the place where it was found.
    #[error("record at {position}: its header says it begins at {found}")]
    RecordMisplaced {
        /// Where the record was found.
        position: u64,
        /// Where its header says that it begins.
        found: u64,
    },
    /// A descriptor names a frame that the pool does not have.
    #[error("frame {frame} of a pool of {frames}")]
    FrameUnknown {
        /// The frame named.
        frame: u32,
        /// Frames in the pool.
        frames: u32,
    },
    /// A descriptor names a frame that this side holds already.
    #[error("frame {frame} was sent again before it was given back")]
    FrameHeld {
        /// The frame named.
        frame: u32,
    },
    /// A descriptor's range leaves its frame.
    #[error("frame {frame}: {len} bytes from {offset} on leave its {frame_bytes}")]
    FrameRange {
        /// The frame named.
        frame: u32,
        /// Begin of the range.
        offset: u32,
        /// Length of the range.
        len: u32,
        /// Size of a frame.
        frame_bytes: u32,
    },
}

impl PeerFault {
    /// Its name in counters and messages.
    pub fn reason(&self) -> &'static str {
        match self {
            PeerFault::IndexBackwards { .. } => "index_backwards",
            PeerFault::IndexBeyond { .. } => "index_beyond",
            PeerFault::IndexUneven { .. } => "index_uneven",
            PeerFault::HeaderCut { .. } => "header_cut",
            PeerFault::RecordTooLong { .. } => "record_too_long",
            PeerFault::RecordBeyondTail { .. } => "record_beyond_tail",
            PeerFault::RecordMisplaced { .. } => "record_misplaced",
            PeerFault::FrameUnknown { .. } => "frame_unknown",
            PeerFault::FrameHeld { .. } => "frame_held",
            PeerFault::FrameRange { .. } => "frame_range",
        }
    }
}

/// A ring set that cannot be: the configuration's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SpecFault {
    /// Too few or too many rings.
    #[error("{found} rings; 1 to {max} are possible")]
    Rings {
        /// Number asked for.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// Blocks of a length that is not a power of two, or too small, or too large.
    #[error("blocks of {found} B; a power of two from {min} to {max} B is possible")]
    BlockBytes {
        /// Length asked for.
        found: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// So many blocks are not a power of two, or too few, or too many.
    #[error("{found} blocks; a power of two from {min} to {max} is possible")]
    Blocks {
        /// Number asked for.
        found: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A capacity is not a power of two, or too small, or too large.
    #[error("ring {ring}: capacity {bytes} B is not a power of two from {min} to {max} B")]
    Capacity {
        /// The ring.
        ring: usize,
        /// Capacity asked for.
        bytes: u64,
        /// Least capacity.
        min: u64,
        /// Largest capacity.
        max: u64,
    },
    /// The largest record does not fit into a ring.
    #[error(
        "ring {ring}: a record of {record_bytes_max} B with its header does not fit into {bytes} B"
    )]
    RecordBytes {
        /// The ring.
        ring: usize,
        /// Its capacity.
        bytes: u64,
        /// The largest record asked for.
        record_bytes_max: u32,
    },
    /// A frame pool with too few or too many frames.
    #[error("{found} frames; 1 to {max} are possible")]
    Frames {
        /// Number asked for.
        found: u32,
        /// The limit.
        max: u32,
    },
    /// Frames of an impossible size.
    #[error("frames of {found} B; a multiple of {step} from {step} to {max} B is possible")]
    FrameBytes {
        /// Size asked for.
        found: u32,
        /// Sizes are multiples of this.
        step: u32,
        /// The limit.
        max: u32,
    },
}

/// Everything that this crate refuses, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RingError {
    /// Configuration: the set cannot be made.
    #[error("ring set {name:?}: {fault}")]
    Spec {
        /// The set's name.
        name: String,
        /// What is wrong with it.
        fault: SpecFault,
    },
    /// Resource: the kernel refused.
    #[error("{call} of {what}: {errno}")]
    System {
        /// The system call.
        call: &'static str,
        /// For which object.
        what: &'static str,
        /// The kernel's reason.
        errno: rustix::io::Errno,
    },
    /// Misuse: the wrong number of descriptors.
    #[error("{found} descriptors were handed over, {expected} belong to this side")]
    Descriptors {
        /// Number that belongs to the side.
        expected: usize,
        /// Number given.
        found: usize,
    },
    /// Misuse or peer: the memory has another size than the set's shape gives.
    #[error("{what} has {found} bytes, the set's shape gives {expected}")]
    Size {
        /// The memory.
        what: &'static str,
        /// By the set's shape.
        expected: u64,
        /// By `fstat`.
        found: u64,
    },
    /// Peer: the memory could still change its size.
    #[error("{what} can still be changed by others: it lacks a seal (it has {found:#x})")]
    Seals {
        /// The memory.
        what: &'static str,
        /// The seals that it has.
        found: u32,
    },
    /// Misuse: another writer of this side lives.
    #[error("{what} belongs to another owner of this side; each side has one at a time")]
    Claimed {
        /// The memory.
        what: &'static str,
    },
    /// Peer: a value in shared memory is impossible.
    #[error("ring {ring}: {fault}")]
    Peer {
        /// The ring of the set.
        ring: usize,
        /// What was found.
        fault: PeerFault,
    },
    /// Misuse: the position given to `resume` cannot be this side's.
    #[error(
        "ring {ring}: cannot resume at {given}, possible is {lowest} to {highest} in steps of {step}"
    )]
    Resume {
        /// The ring of the set.
        ring: usize,
        /// Position given.
        given: u64,
        /// Lowest position possible.
        lowest: u64,
        /// Highest position possible.
        highest: u64,
        /// Positions are multiples of this.
        step: u64,
    },
}

/// Why no memory was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Full {
    /// The consumer has not yet freed enough.
    #[error("full: {needed_bytes} bytes with header and padding, {free_bytes} are free")]
    NoSpace {
        /// Bytes that the record takes in the ring.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The record is longer than the set allows: it will never fit.
    #[error("record of {len} bytes is above the set's maximum of {max}")]
    TooLong {
        /// Length asked for.
        len: usize,
        /// The set's `record_bytes_max`.
        max: u32,
    },
    /// The consumer wrote an impossible index: nothing is freed any more.
    #[error("the consumer's page is not to be trusted: {0}")]
    Peer(PeerFault),
}

impl Full {
    /// Free bytes of the ring: 0 where more will never come.
    pub fn free_bytes(&self) -> u64 {
        match self {
            Full::NoSpace { free_bytes, .. } => *free_bytes,
            Full::TooLong { .. } | Full::Peer(_) => 0,
        }
    }
}
