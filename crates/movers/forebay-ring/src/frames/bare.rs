//! Both ends without a book of frames: for a user that keeps it itself, as it decides more than the pool can, and checks each number that the peer writes.
//!
//! Positions of the rings are checked here as with the other ends, and no number can reach outside of the memory. Which frame is whose, and whether the
//! peer may name it, is the user's to know.

use std::os::fd::OwnedFd;

use super::receiver::ReceiverRings;
use super::sender::SenderRings;
use super::{Descriptor, FramePoolSpec};
use crate::bell::{Notifier, Waiter};
use crate::error::{Full, RingError};
use crate::memory::Access;
use crate::view::View;

/// The sending end of a frame pool whose user says which frame is free.
#[derive(Debug)]
pub struct BareSender {
    rings: SenderRings,
    /// Rings for the receiver: frames were sent.
    pub data: Notifier,
    /// Wakes this side: frames were freed.
    pub returns: Waiter,
}

impl BareSender {
    /// Maps what [`super::FramePoolMemory::sender_fds`] gave. The pool must be new.
    ///
    /// # Errors
    /// The descriptors are not those of such a pool.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        Self::with(spec, fds, Access::ReadWrite)
    }

    /// The same of a pool whose frames are written elsewhere ([`super::FramePoolMemory::create_over`]): what lies in them is sent with [`Self::send_in_place`] alone.
    ///
    /// # Errors
    /// As [`Self::map`].
    pub fn map_over(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        Self::with(spec, fds, Access::Read)
    }

    fn with(spec: &FramePoolSpec, fds: Vec<OwnedFd>, access: Access) -> Result<Self, RingError> {
        let (rings, data, returns) = SenderRings::map(spec, fds, access)?;
        Ok(Self {
            rings,
            data,
            returns,
        })
    }

    /// Copies bytes into this frame and makes them the receiver's, after the next `publish`.
    ///
    /// # Errors
    /// There is no such frame, the bytes are longer, or as many frames as the pool has are on their way, which an honest receiver cannot cause.
    #[inline]
    pub fn send(&mut self, frame: u32, bytes: &[u8], tag: u32) -> Result<(), Full> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.rings.admit(0, len)?;
        let room = self.rings.bytes_mut(frame);
        let Some(room) = room.and_then(|room| room.get_mut(..bytes.len())) else {
            let len = bytes.len();
            return Err(Full::TooLong { len, max: 0 });
        };
        room.copy_from_slice(bytes);
        self.rings.push(Descriptor {
            frame,
            offset: 0,
            len,
            tag,
        });
        Ok(())
    }

    /// Makes bytes the receiver's that lie in a frame already, after the next `publish`.
    ///
    /// # Errors
    /// As [`Self::send`], of a range that is not in the frame.
    #[inline]
    pub fn send_in_place(&mut self, descriptor: Descriptor) -> Result<(), Full> {
        let Descriptor {
            frame, offset, len, ..
        } = descriptor;
        self.rings.admit(offset, len)?;
        if frame >= self.rings.spec.frames {
            let len = len as usize;
            return Err(Full::TooLong { len, max: 0 });
        }
        self.rings.push(descriptor);
        Ok(())
    }

    /// Shows the receiver everything sent. Then notify.
    pub fn publish(&mut self) {
        self.rings.publish();
    }

    /// Shows each number that the receiver gave back since the last time, as it wrote it.
    ///
    /// # Errors
    /// An impossible index, now or before: this direction stays in the error state.
    pub fn reclaim(&mut self, each: impl FnMut(u64)) -> Result<(), RingError> {
        self.rings.reclaim(each)
    }
}

/// The receiving end of a frame pool whose user says which frame goes back.
#[derive(Debug)]
pub struct BareReceiver {
    rings: ReceiverRings,
    /// Rings for the sender: frames were freed.
    pub returns: Notifier,
    /// Wakes this side: frames were sent.
    pub data: Waiter,
}

impl BareReceiver {
    /// Maps what [`super::FramePoolMemory::receiver_fds`] gave. The pool must be new.
    ///
    /// # Errors
    /// The descriptors are not those of such a pool.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let (rings, returns, data) = ReceiverRings::map(spec, fds)?;
        Ok(Self {
            rings,
            returns,
            data,
        })
    }

    /// The next descriptor as the sender wrote it, if any.
    ///
    /// # Errors
    /// An impossible index, now or before: the ring stays in the error state.
    #[allow(
        clippy::should_implement_trait,
        reason = "a descriptor is followed by more when the sender publishes; an iterator would end"
    )]
    pub fn next(&mut self) -> Result<Option<Descriptor>, RingError> {
        self.rings.next()
    }

    /// The bytes that a descriptor names; none outside of a frame. The sender can change them at any time.
    #[inline]
    #[must_use]
    pub fn view(&self, descriptor: &Descriptor) -> Option<View<'_>> {
        self.rings.view(descriptor)
    }

    /// Gives a frame back, after the next `publish`. One that finds no room, which an honest sender cannot cause, is counted.
    pub fn free(&mut self, frame: u32) {
        self.rings.free(frame);
    }

    /// Shows the sender what was freed. Then notify.
    pub fn publish(&mut self) {
        self.rings.publish();
    }

    /// Frames that found no room on their way back.
    #[must_use]
    pub fn unreturned_frames(&self) -> u64 {
        self.rings.unreturned_frames
    }
}
