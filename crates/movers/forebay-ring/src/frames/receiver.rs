//! The end that reads frames and gives them back.

use std::os::fd::OwnedFd;

use super::{DESCRIPTOR_WORDS, Descriptor, FramePoolSpec, Page, RECEIVER_PAGE, map_side};
use crate::bell::{Notifier, Waiter};
use crate::error::{PeerFault, RingError};
use crate::index::{Head, Tail};
use crate::memory::{Access, Mapping};
use crate::view::View;

/// The receiving end of a frame pool.
#[derive(Debug)]
pub struct FrameReceiver {
    spec: FramePoolSpec,
    frames: Mapping,
    own: Page,
    peer: Page,
    sent: Head,
    freed: Tail,
    held: Vec<bool>,
    fault: Option<PeerFault>,
    refused_descriptors: u64,
    unreturned_frames: u64,
    /// Rings for the sender: frames were freed.
    pub returns: Notifier,
    /// Wakes this side: frames were sent.
    pub data: Waiter,
}

impl FrameReceiver {
    /// Maps what [`super::FramePoolMemory::receiver_fds`] gave. The pool must be new.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let side = map_side(spec, fds, Access::Read, RECEIVER_PAGE)?;
        Ok(FrameReceiver {
            sent: Head::new(spec.entries(), &side.own.sent),
            freed: Tail::new(spec.entries(), &side.own.freed),
            held: vec![false; spec.frames as usize],
            spec: spec.clone(),
            frames: side.frames,
            own: side.own,
            peer: side.peer,
            fault: None,
            refused_descriptors: 0,
            unreturned_frames: 0,
            returns: side.notifier,
            data: side.waiter,
        })
    }

    /// The next descriptor, if any; its frame is this side's until `free`. A bad descriptor is an error once and counted, and the next call
    /// goes on behind it; an impossible index puts the ring into the error state.
    #[allow(
        clippy::should_implement_trait,
        reason = "a descriptor is followed by more when the sender publishes; an iterator would end"
    )]
    pub fn next(&mut self) -> Result<Option<Descriptor>, RingError> {
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
        self.accept(descriptor).map(Some)
    }

    fn accept(&mut self, descriptor: Descriptor) -> Result<Descriptor, RingError> {
        let Descriptor {
            frame, offset, len, ..
        } = descriptor;
        let (frames, frame_bytes) = (self.spec.frames, self.spec.frame_bytes);
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
        let frame_bytes = self.spec.frame_bytes as usize;
        // SAFETY: a held frame is below the number of frames, so it lies inside the mapping, which lives as long as `self` is borrowed.
        let frame = held.then(|| unsafe {
            View::new(
                self.frames
                    .base()
                    .add(descriptor.frame as usize * frame_bytes),
                frame_bytes,
            )
        })?;
        frame.part(descriptor.offset as usize, descriptor.len as usize)
    }

    /// Gives a frame back, after the next `publish`. `false`, and nothing done, if it is not held.
    pub fn free(&mut self, frame: u32) -> bool {
        let Some(held) = self.held.get_mut(frame as usize).filter(|held| **held) else {
            return false;
        };
        *held = false;
        if self.freed.free() == 0
            && (self.freed.reload(&self.peer.freed).is_err() || self.freed.free() == 0)
        {
            // Only a sender that uses frames again without taking them back gets here: it has lost one.
            self.unreturned_frames += 1;
            return true;
        }
        let at = (self.freed.private() & (self.spec.entries() - 1)) as usize;
        self.own.words.store(at, u64::from(frame));
        self.freed.advance(1);
        true
    }

    /// Shows the sender what was freed. Then notify.
    pub fn publish(&mut self) {
        self.freed.publish(&self.own.freed);
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
        self.unreturned_frames
    }
}
