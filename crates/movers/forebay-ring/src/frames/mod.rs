//! Descriptor rings over a frame pool: the bytes stay in frames of fixed size, what travels is {frame, offset, length, tag}.
//!
//! Two rings of words, each in the page of the side that writes it: *sent* descriptors towards the receiver, *freed* frames back to
//! the sender. Both hold as many entries as there are frames, so between honest sides neither is ever full. A pool belongs to one life of
//! both sides: unlike the record rings it has no `resume`; when a side dies, the supervisor makes a new pool.
//!
//! Pages of frames come when a side first touches them, so a pool takes the memory of the frames that were used; pages of descriptors are there from the start.

mod bare;
mod forged;
mod receiver;
mod sender;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::bell::{Notifier, Waiter};
use crate::error::{RingError, SpecFault};
use crate::index::Slot;
use crate::memory::{self, Access, Mapping, PAGE_BYTES, Shared, Words};
use crate::set::{EVENT, eventfd, flag, of_side, outside};

pub use bare::{BareReceiver, BareSender};
pub use forged::ForgedEnd;
pub use receiver::FrameReceiver;
pub use sender::{Frame, FrameSender, Unsent};

/// Most frames in a pool.
pub const FRAMES_MAX: u32 = 1 << 22;
/// Frame sizes are multiples of a cache line.
pub const FRAME_BYTES_STEP: u32 = 64;
/// Largest frame.
pub const FRAME_BYTES_MAX: u32 = 1 << 30;

const FRAMES: &str = "frames";
const SENDER_PAGE: &str = "sender page";
const RECEIVER_PAGE: &str = "receiver page";

/// Where the slots and the row of words lie in either page.
const SENT_SLOT: usize = 128;
const FREED_SLOT: usize = 256;
const WORDS: usize = 384;
/// A descriptor takes two words.
const DESCRIPTOR_WORDS: usize = 2;

/// The shape of a frame pool. Both sides get it from the one that made the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramePoolSpec {
    /// Shows up in `/proc/PID/maps`.
    pub name: String,
    /// Number of frames, 1 to [`FRAMES_MAX`].
    pub frames: u32,
    /// Size of each, a multiple of [`FRAME_BYTES_STEP`] up to [`FRAME_BYTES_MAX`].
    pub frame_bytes: u32,
}

impl FramePoolSpec {
    /// Checks every limit.
    pub fn validate(&self) -> Result<(), RingError> {
        self.fault().map_or(Ok(()), |fault| {
            Err(RingError::Spec {
                name: self.name.clone(),
                fault,
            })
        })
    }

    fn fault(&self) -> Option<SpecFault> {
        let (frames, bytes) = (self.frames, self.frame_bytes);
        if !(1..=FRAMES_MAX).contains(&frames) {
            return Some(SpecFault::Frames {
                found: frames,
                max: FRAMES_MAX,
            });
        }
        let possible = bytes.is_multiple_of(FRAME_BYTES_STEP)
            && (FRAME_BYTES_STEP..=FRAME_BYTES_MAX).contains(&bytes);
        (!possible).then_some(SpecFault::FrameBytes {
            found: bytes,
            step: FRAME_BYTES_STEP,
            max: FRAME_BYTES_MAX,
        })
    }

    /// Bytes of memory that the frames take.
    pub fn data_bytes(&self) -> u64 {
        (u64::from(self.frames) * u64::from(self.frame_bytes)).next_multiple_of(PAGE_BYTES)
    }

    /// Entries of either ring.
    fn entries(&self) -> u64 {
        u64::from(self.frames).next_power_of_two()
    }

    fn page_bytes(&self) -> u64 {
        (WORDS as u64 + self.entries() * (DESCRIPTOR_WORDS * size_of::<u64>()) as u64)
            .next_multiple_of(PAGE_BYTES)
    }
}

/// What travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The frame.
    pub frame: u32,
    /// Where the bytes begin in it.
    pub offset: u32,
    /// How many there are.
    pub len: u32,
    /// Kind and flags, free for the users of the pool to define.
    pub tag: u32,
}

impl Descriptor {
    fn words(self) -> [u64; DESCRIPTOR_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [pair(self.frame, self.offset), pair(self.len, self.tag)]
    }

    fn from_words([first, second]: [u64; DESCRIPTOR_WORDS]) -> Self {
        Descriptor {
            frame: first as u32,
            offset: (first >> 32) as u32,
            len: second as u32,
            tag: (second >> 32) as u32,
        }
    }
}

/// The memory of a frame pool, kept by a supervisor: frames, a page for each side, two eventfds.
#[derive(Debug)]
pub struct FramePoolMemory {
    frames: OwnedFd,
    sender_page: OwnedFd,
    receiver_page: OwnedFd,
    sent: OwnedFd,
    freed: OwnedFd,
}

impl FramePoolMemory {
    /// Makes the memory. Pages are allocated when first touched.
    pub fn create(spec: &FramePoolSpec) -> Result<Self, RingError> {
        spec.validate()?;
        let name = format!("forebay:{}:frames", spec.name);
        Self::with_frames(spec, memory::create(FRAMES, &name, spec.data_bytes())?)
    }

    fn with_frames(spec: &FramePoolSpec, frames: OwnedFd) -> Result<Self, RingError> {
        let file = |what, part: &str, bytes| {
            memory::create(what, &format!("forebay:{}:{part}", spec.name), bytes)
        };
        Ok(FramePoolMemory {
            frames,
            sender_page: file(SENDER_PAGE, "sender", spec.page_bytes())?,
            receiver_page: file(RECEIVER_PAGE, "receiver", spec.page_bytes())?,
            sent: eventfd()?,
            freed: eventfd()?,
        })
    }

    /// A pool whose frames lie in memory that somebody writes already, and nobody else can: a [`Region`](crate::Region) of [`FramePoolSpec::data_bytes`], which several pools may have,
    /// by a descriptor for reading. Its sender is a [`BareSender::map_over`].
    ///
    /// # Errors
    /// The memory has another size, is not sealed against all further writing, or descriptors run out.
    pub fn create_over(spec: &FramePoolSpec, frames: OwnedFd) -> Result<Self, RingError> {
        spec.validate()?;
        memory::verify_own(FRAMES, frames.as_fd(), spec.data_bytes())?;
        Self::with_frames(spec, frames)
    }

    /// For the sender, in the order that [`FrameSender::map`] takes.
    pub fn sender_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        Ok(vec![
            memory::duplicate(FRAMES, &self.frames)?,
            memory::duplicate(SENDER_PAGE, &self.sender_page)?,
            memory::read_only(RECEIVER_PAGE, &self.receiver_page)?,
            memory::duplicate(EVENT, &self.sent)?,
            memory::duplicate(EVENT, &self.freed)?,
        ])
    }

    /// For the receiver, in the order that [`FrameReceiver::map`] takes.
    pub fn receiver_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        Ok(vec![
            memory::read_only(FRAMES, &self.frames)?,
            memory::duplicate(RECEIVER_PAGE, &self.receiver_page)?,
            memory::read_only(SENDER_PAGE, &self.sender_page)?,
            memory::duplicate(EVENT, &self.freed)?,
            memory::duplicate(EVENT, &self.sent)?,
        ])
    }
}

/// One side's mapping of everything.
#[derive(Debug)]
struct Side {
    frames: Mapping,
    own: Page,
    peer: Page,
    notifier: Notifier,
    waiter: Waiter,
}

/// Either side's page: its slots for the two rings and the row of words that it writes.
#[derive(Debug)]
struct Page {
    sent: Shared<Slot>,
    freed: Shared<Slot>,
    words: Words,
}

impl Page {
    fn of(mapping: &Arc<Mapping>, spec: &FramePoolSpec) -> Result<Self, RingError> {
        let too_small = || outside(mapping, spec.page_bytes());
        Ok(Page {
            sent: Shared::at(mapping, SENT_SLOT).ok_or_else(too_small)?,
            freed: Shared::at(mapping, FREED_SLOT).ok_or_else(too_small)?,
            words: Words::at(mapping, WORDS, spec.entries() as usize * DESCRIPTOR_WORDS)
                .ok_or_else(too_small)?,
        })
    }
}

/// Checks and maps what a side was handed: frames, its own page, the peer's page, the bell it rings, the bell it sleeps on.
fn map_side(
    spec: &FramePoolSpec,
    fds: Vec<OwnedFd>,
    frames_access: Access,
    own: &'static str,
) -> Result<Side, RingError> {
    spec.validate()?;
    let [frames, own_page, peer_page, rings_on, sleeps_on] = of_side(fds)?;
    let peer = if own == SENDER_PAGE {
        RECEIVER_PAGE
    } else {
        SENDER_PAGE
    };
    let whole = |what, fd: &OwnedFd, bytes, access| {
        memory::verify(what, fd.as_fd(), bytes)?;
        Mapping::whole(what, fd, bytes, access)
    };
    let own = Arc::new(whole(own, &own_page, spec.page_bytes(), Access::ReadWrite)?);
    let peer = Arc::new(whole(peer, &peer_page, spec.page_bytes(), Access::Read)?);
    memory::verify(FRAMES, frames.as_fd(), spec.data_bytes())?;
    Ok(Side {
        frames: Mapping::lazy(FRAMES, &frames, spec.data_bytes(), frames_access)?,
        own: Page::of(&own, spec)?,
        peer: Page::of(&peer, spec)?,
        notifier: Notifier::new(flag(&peer)?, rings_on),
        waiter: Waiter::new(flag(&own)?, sleeps_on),
    })
}
