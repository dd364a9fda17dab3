//! The end that reads frames and gives them back.

use std::os::fd::OwnedFd;

use super::{DESCRIPTOR_WORDS, Descriptor, FramePoolSpec, Page, RECEIVER_PAGE, Side, map_side};
use crate::bell::{Notifier, Waiter};
use crate::error::{PeerFault, RingError};
use crate::index::{Head, Tail};
use crate::memory::{Access, Mapping};
use crate::view::View;

/// Both rings as a receiver has them: what comes out is as the sender wrote it.
#[derive(Debug)]
pub(super) struct ReceiverRings {
    pub(super) spec: FramePoolSpec,
    frames: Mapping,
    own: Page,
    peer: Page,
    sent: Head,
    freed: Tail,
    fault: Option<PeerFault>,
    pub(super) unreturned_frames: u64,
}

impl ReceiverRings {
    /// Maps what was handed over, with the bells: the one that this side rings, and the one that wakes it.
    pub(super) fn map(
        spec: &FramePoolSpec,
        fds: Vec<OwnedFd>,
    ) -> Result<(Self, Notifier, Waiter), RingError> {
        let Side {
            frames,
            own,
            peer,
            notifier,
            waiter,
        } = map_side(spec, fds, Access::Read, RECEIVER_PAGE)?;
        let rings = Self {
            sent: Head::new(spec.entries(), &own.sent),
            freed: Tail::new(spec.entries(), &own.freed),
            spec: spec.clone(),
            frames,
            own,
            peer,
            fault: None,
            unreturned_frames: 0,
        };
        Ok((rings, notifier, waiter))
    }

    pub(super) fn next(&mut self) -> Result<Option<Descriptor>, RingError> {
        if let Some(fault) = self.fault {
            return Err(RingError::Peer { ring: 0, fault });
        }
        if self.sent.unread() == 0 {
            if let Err(fault) = self.sent.reload(&self.peer.sent) {
                self.fault = Some(fault);
                return Err(RingError::Peer { ring: 0, fault });
            }
            if self.sent.unread() == 0 {
                return Ok(None);
            }
        }
        let at = (self.sent.read() & (self.spec.entries() - 1)) as usize * DESCRIPTOR_WORDS;
        let descriptor =
            Descriptor::from_words([self.peer.words.load(at), self.peer.words.load(at + 1)]);
        self.sent.advance(1);
        self.sent.release(self.sent.read(), &self.own.sent);
        Ok(Some(descriptor))
    }

    /// What a descriptor says is there; none outside of a frame.
    #[inline]
    pub(super) fn view(&self, descriptor: &Descriptor) -> Option<View<'_>> {
        let frame_bytes = self.spec.frame_bytes as usize;
        // SAFETY: a frame below the number of frames lies inside the mapping, which lives as long as `self` is borrowed.
        let frame = (descriptor.frame < self.spec.frames).then(|| unsafe {
            View::new(
                self.frames
                    .base()
                    .add(descriptor.frame as usize * frame_bytes),
                frame_bytes,
            )
        })?;
        frame.part(descriptor.offset as usize, descriptor.len as usize)
    }

    pub(super) fn free(&mut self, frame: u32) {
        if self.freed.free() == 0
            && (self.freed.reload(&self.peer.freed).is_err() || self.freed.free() == 0)
        {
            // Only a sender that uses frames again without taking them back gets here: it has lost one.
            self.unreturned_frames += 1;
            return;
        }
        let at = (self.freed.private() & (self.spec.entries() - 1)) as usize;
        self.own.words.store(at, u64::from(frame));
        self.freed.advance(1);
    }

    pub(super) fn publish(&mut self) {
        self.freed.publish(&self.own.freed);
    }
}

/// The receiving end of a frame pool.
#[derive(Debug)]
pub struct FrameReceiver {
    rings: ReceiverRings,
    held: Vec<bool>,
    refused_descriptors: u64,
    /// Rings for the sender: frames were freed.
    pub returns: Notifier,
    /// Wakes this side: frames were sent.
    pub data: Waiter,
}

impl FrameReceiver {
    /// Maps what [`super::FramePoolMemory::receiver_fds`] gave. The pool must be new.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let (rings, returns, data) = ReceiverRings::map(spec, fds)?;
        Ok(FrameReceiver {
            rings,
            held: vec![false; spec.frames as usize],
            refused_descriptors: 0,
            returns,
            data,
        })
    }

    /// The next descriptor, if any; its frame is this side's until `free`. A bad descriptor is an error once and counted, and the next call
    /// goes on behind it; an impossible index puts the ring into the error state.
    #[allow(
        clippy::should_implement_trait,
        reason = "a descriptor is followed by more when the sender publishes; an iterator would end"
    )]
    pub fn next(&mut self) -> Result<Option<Descriptor>, RingError> {
        match self.rings.next()? {
            Some(descriptor) => self.accept(descriptor).map(Some),
            None => Ok(None),
        }
    }

    fn accept(&mut self, descriptor: Descriptor) -> Result<Descriptor, RingError> {
        let Descriptor {
            frame, offset, len, ..
        } = descriptor;
        let (frames, frame_bytes) = (self.rings.spec.frames, self.rings.spec.frame_bytes);
        let in_frame = offset
            .checked_add(len)
            .is_some_and(|end| end <= frame_bytes);
        let fault = match self.held.get_mut(frame as usize) {
            None => PeerFault::FrameUnknown { frame, frames },
            Some(true) => PeerFault::FrameHeld { frame },
            Some(held) => {
                *held = true;
                if in_frame {
                    return Ok(descriptor);
                }
                self.free(frame);
                PeerFault::FrameRange {
                    frame,
                    offset,
                    len,
                    frame_bytes,
                }
            }
        };
        self.refused_descriptors += 1;
        Err(RingError::Peer { ring: 0, fault })
    }

    /// The bytes of a descriptor; `None` if its frame is not held or its range leaves it.
    #[inline]
    pub fn view(&self, descriptor: &Descriptor) -> Option<View<'_>> {
        let held = self.held.get(descriptor.frame as usize) == Some(&true);
        held.then(|| self.rings.view(descriptor))?
    }

    /// Gives a frame back, after the next `publish`. `false`, and nothing done, if it is not held.
    pub fn free(&mut self, frame: u32) -> bool {
        let Some(held) = self.held.get_mut(frame as usize).filter(|held| **held) else {
            return false;
        };
        *held = false;
        self.rings.free(frame);
        true
    }

    /// Shows the sender what was freed. Then notify.
    pub fn publish(&mut self) {
        self.rings.publish();
    }

    /// Frames that this side has.
    pub fn held_frames(&self) -> usize {
        self.held.iter().filter(|held| **held).count()
    }

    /// Descriptors that named no frame, a frame already sent, or a range outside it.
    pub fn refused_descriptors(&self) -> u64 {
        self.refused_descriptors
    }

    /// Frames that found no room on their way back, which an honest sender cannot cause.
    pub fn unreturned_frames(&self) -> u64 {
        self.rings.unreturned_frames
    }
}
