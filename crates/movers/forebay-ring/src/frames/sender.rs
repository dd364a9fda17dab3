//! The end that fills frames.

use std::os::fd::OwnedFd;
use std::slice;

use super::{DESCRIPTOR_WORDS, Descriptor, FramePoolSpec, Page, SENDER_PAGE, Side, map_side};
use crate::bell::{Notifier, Waiter};
use crate::error::{Full, PeerFault, RingError};
use crate::index::{Head, Tail};
use crate::memory::{Access, Mapping};

/// Both rings as a sender has them: what comes back is as the receiver wrote it.
#[derive(Debug)]
pub(super) struct SenderRings {
    pub(super) spec: FramePoolSpec,
    /// None: they are written elsewhere.
    frames: Option<Mapping>,
    own: Page,
    peer: Page,
    sent: Tail,
    freed: Head,
    fault: Option<PeerFault>,
}

impl SenderRings {
    /// Maps what was handed over, with the bells: the one that this side rings, and the one that wakes it. Frames for which this side has no right to write are not there.
    pub(super) fn map(
        spec: &FramePoolSpec,
        fds: Vec<OwnedFd>,
        access: Access,
    ) -> Result<(Self, Notifier, Waiter), RingError> {
        let Side {
            frames,
            own,
            peer,
            notifier,
            waiter,
        } = map_side(spec, fds, access, SENDER_PAGE)?;
        let rings = Self {
            sent: Tail::new(spec.entries(), &own.sent),
            freed: Head::new(spec.entries(), &own.freed),
            spec: spec.clone(),
            frames: (access == Access::ReadWrite).then_some(frames),
            own,
            peer,
            fault: None,
        };
        Ok((rings, notifier, waiter))
    }

    /// The bytes of a frame; none if the pool has no such frame, or they are written elsewhere.
    pub(super) fn bytes_mut(&mut self, frame: u32) -> Option<&mut [u8]> {
        if frame >= self.spec.frames {
            return None;
        }
        let base = self.frames.as_ref()?.base();
        let bytes = self.spec.frame_bytes as usize;
        // SAFETY: `frame < frames`, so the frame lies inside the mapping, which is for writing; the receiver cannot write it, and reads it by single reads if at all; `self` is
        // borrowed uniquely, so there is one slice at a time.
        Some(unsafe { slice::from_raw_parts_mut(base.as_ptr().add(frame as usize * bytes), bytes) })
    }

    /// Whether a range is one of a frame, and there is room for its descriptor.
    pub(super) fn admit(&mut self, offset: u32, len: u32) -> Result<(), Full> {
        if let Some(fault) = self.fault {
            return Err(Full::Peer(fault));
        }
        let max = self.spec.frame_bytes.saturating_sub(offset);
        if offset > self.spec.frame_bytes || len > max {
            let len = len as usize;
            return Err(Full::TooLong { len, max });
        }
        if self.sent.free() == 0 {
            self.sent
                .reload(&self.peer.sent)
                .map_err(|fault| Full::Peer(*self.fault.insert(fault)))?;
        }
        match self.sent.free() {
            0 => Err(Full::NoSpace {
                needed_bytes: 1,
                free_bytes: 0,
            }),
            _ => Ok(()),
        }
    }

    /// Writes a descriptor that was admitted.
    pub(super) fn push(&mut self, descriptor: Descriptor) {
        let at = (self.sent.private() & (self.spec.entries() - 1)) as usize * DESCRIPTOR_WORDS;
        let words = descriptor.words();
        self.own.words.store(at, words[0]);
        self.own.words.store(at + 1, words[1]);
        self.sent.advance(1);
    }

    pub(super) fn publish(&mut self) {
        self.sent.publish(&self.own.sent);
    }

    /// Shows each number that came back since the last time.
    pub(super) fn reclaim(&mut self, mut each: impl FnMut(u64)) -> Result<(), RingError> {
        if let Some(fault) = self.fault {
            return Err(RingError::Peer { ring: 0, fault });
        }
        if let Err(fault) = self.freed.reload(&self.peer.freed) {
            self.fault = Some(fault);
            return Err(RingError::Peer { ring: 0, fault });
        }
        while self.freed.unread() > 0 {
            let at = (self.freed.read() & (self.spec.entries() - 1)) as usize;
            let frame = self.peer.words.load(at);
            self.freed.advance(1);
            each(frame);
        }
        self.freed.release(self.freed.read(), &self.own.freed);
        Ok(())
    }
}

/// The holder of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// On the free list.
    Pool,
    /// In the hands of the code that fills it.
    Writer,
    /// With the receiver.
    Receiver,
}

/// A frame in the hands of the code that fills it. Dropped without `send` or `put_back` it is lost to the pool.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is neither sent nor put back is lost to the pool"]
pub struct Frame(u32);

impl Frame {
    /// Its number in the pool.
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// A frame that could not be sent, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The frame, still the caller's.
    pub frame: Frame,
    /// What was wrong.
    pub why: Full,
}

/// The sending end of a frame pool.
#[derive(Debug)]
pub struct FrameSender {
    rings: SenderRings,
    owners: Owners,
    /// Rings for the receiver: frames were sent.
    pub data: Notifier,
    /// Wakes this side: frames were freed.
    pub returns: Waiter,
}

/// The book of a pool's frames.
#[derive(Debug)]
struct Owners {
    free: Vec<u32>,
    of: Vec<Owner>,
    unknown_frees: u64,
    double_frees: u64,
}

impl Owners {
    fn is_writers(&self, frame: &Frame) -> bool {
        self.of.get(frame.0 as usize) == Some(&Owner::Writer)
    }

    fn take_back(&mut self, frame: u64) -> bool {
        let owner = usize::try_from(frame)
            .ok()
            .and_then(|frame| self.of.get_mut(frame));
        match owner {
            Some(owner @ Owner::Receiver) => {
                *owner = Owner::Pool;
                self.free.push(frame as u32);
                return true;
            }
            Some(_) => self.double_frees += 1,
            None => self.unknown_frees += 1,
        }
        false
    }
}

impl FrameSender {
    /// Maps what [`super::FramePoolMemory::sender_fds`] gave. The pool must be new.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let (rings, data, returns) = SenderRings::map(spec, fds, Access::ReadWrite)?;
        Ok(FrameSender {
            rings,
            owners: Owners {
                free: (0..spec.frames).rev().collect(),
                of: vec![Owner::Pool; spec.frames as usize],
                unknown_frees: 0,
                double_frees: 0,
            },
            data,
            returns,
        })
    }

    /// A free frame; `None` when the receiver has to give some back first (`reclaim`).
    pub fn acquire(&mut self) -> Option<Frame> {
        let frame = self.owners.free.pop()?;
        self.owners.of[frame as usize] = Owner::Writer;
        Some(Frame(frame))
    }

    /// The bytes of a frame; `None` if it is another pool's.
    pub fn bytes_mut(&mut self, frame: &mut Frame) -> Option<&mut [u8]> {
        if !self.owners.is_writers(frame) {
            return None;
        }
        self.rings.bytes_mut(frame.0)
    }

    /// Puts a frame back that is not to be sent.
    pub fn put_back(&mut self, frame: Frame) {
        if self.owners.is_writers(&frame) {
            self.owners.of[frame.0 as usize] = Owner::Pool;
            self.owners.free.push(frame.0);
        }
    }

    /// Makes `len` bytes from `offset` on the receiver's, after the next `publish`. A range that leaves the frame is refused.
    pub fn send(&mut self, frame: Frame, offset: u32, len: u32, tag: u32) -> Result<(), Unsent> {
        let admitted = if self.owners.is_writers(&frame) {
            self.rings.admit(offset, len)
        } else {
            let len = len as usize;
            Err(Full::TooLong { len, max: 0 })
        };
        if let Err(why) = admitted {
            return Err(Unsent { frame, why });
        }
        let frame = frame.0;
        self.rings.push(Descriptor {
            frame,
            offset,
            len,
            tag,
        });
        self.owners.of[frame as usize] = Owner::Receiver;
        Ok(())
    }

    /// Shows the receiver everything sent. Then notify.
    pub fn publish(&mut self) {
        self.rings.publish();
    }

    /// Takes back what the receiver has freed; how many. A frame that it cannot free is counted and nothing else; an impossible index puts
    /// this direction into the error state.
    pub fn reclaim(&mut self) -> Result<u32, RingError> {
        let (rings, owners, mut count) = (&mut self.rings, &mut self.owners, 0);
        rings.reclaim(|frame| count += u32::from(owners.take_back(frame)))?;
        Ok(count)
    }

    /// Frames on the free list.
    pub fn free_frames(&self) -> usize {
        self.owners.free.len()
    }

    /// Frames that the receiver freed without having them.
    pub fn double_frees(&self) -> u64 {
        self.owners.double_frees
    }

    /// Numbers freed that are no frame's.
    pub fn unknown_frees(&self) -> u64 {
        self.owners.unknown_frees
    }
}
