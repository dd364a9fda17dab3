//! The end that fills frames.

use std::os::fd::OwnedFd;
use std::slice;

use super::{DESCRIPTOR_WORDS, Descriptor, FramePoolSpec, Page, SENDER_PAGE, map_side};
use crate::bell::{Notifier, Waiter};
use crate::error::{Full, PeerFault, RingError};
use crate::index::{Head, Tail};
use crate::memory::{Access, Mapping};

/// Who has a frame.
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
    spec: FramePoolSpec,
    frames: Mapping,
    own: Page,
    peer: Page,
    sent: Tail,
    freed: Head,
    free: Vec<u32>,
    owners: Vec<Owner>,
    fault: Option<PeerFault>,
    unknown_frees: u64,
    double_frees: u64,
    /// Rings for the receiver: frames were sent.
    pub data: Notifier,
    /// Wakes this side: frames were freed.
    pub returns: Waiter,
}

impl FrameSender {
    /// Maps what [`super::FramePoolMemory::sender_fds`] gave. The pool must be new.
    pub fn map(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let side = map_side(spec, fds, Access::ReadWrite, SENDER_PAGE)?;
        Ok(FrameSender {
            sent: Tail::new(spec.entries(), &side.own.sent),
            freed: Head::new(spec.entries(), &side.own.freed),
            free: (0..spec.frames).rev().collect(),
            owners: vec![Owner::Pool; spec.frames as usize],
            spec: spec.clone(),
            frames: side.frames,
            own: side.own,
            peer: side.peer,
            fault: None,
            unknown_frees: 0,
            double_frees: 0,
            data: side.notifier,
            returns: side.waiter,
        })
    }

    /// A free frame; `None` when the receiver has to give some back first (`reclaim`).
    pub fn acquire(&mut self) -> Option<Frame> {
        let frame = self.free.pop()?;
        self.owners[frame as usize] = Owner::Writer;
        Some(Frame(frame))
    }

    /// The bytes of a frame; `None` if it is another pool's.
    pub fn bytes_mut(&mut self, frame: &mut Frame) -> Option<&mut [u8]> {
        if self.owners.get(frame.0 as usize) != Some(&Owner::Writer) {
            return None;
        }
        let bytes = self.spec.frame_bytes as usize;
        // SAFETY: `frame < frames`, so the frame lies inside the mapping; it is with the writer, so the receiver does not read it (and could not
        // write it); `self` is borrowed uniquely, so there is one slice at a time.
        Some(unsafe {
            slice::from_raw_parts_mut(
                self.frames.base().as_ptr().add(frame.0 as usize * bytes),
                bytes,
            )
        })
    }

    /// Puts a frame back that is not to be sent.
    pub fn put_back(&mut self, frame: Frame) {
        if let Some(owner) = self
            .owners
            .get_mut(frame.0 as usize)
            .filter(|owner| **owner == Owner::Writer)
        {
            *owner = Owner::Pool;
            self.free.push(frame.0);
        }
    }

    /// Makes `len` bytes from `offset` on the receiver's, after the next `publish`. A range that leaves the frame is refused.
    pub fn send(&mut self, frame: Frame, offset: u32, len: u32, tag: u32) -> Result<(), Unsent> {
        if let Err(why) = self.admit(&frame, offset, len) {
            return Err(Unsent { frame, why });
        }
        let at = (self.sent.private() & (self.spec.entries() - 1)) as usize * DESCRIPTOR_WORDS;
        let words = Descriptor {
            frame: frame.0,
            offset,
            len,
            tag,
        }
        .words();
        self.own.words.store(at, words[0]);
        self.own.words.store(at + 1, words[1]);
        self.sent.advance(1);
        self.owners[frame.0 as usize] = Owner::Receiver;
        Ok(())
    }

    fn admit(&mut self, frame: &Frame, offset: u32, len: u32) -> Result<(), Full> {
        if let Some(fault) = self.fault {
            return Err(Full::Peer(fault));
        }
        let room = self.spec.frame_bytes.saturating_sub(offset);
        let known = self.owners.get(frame.0 as usize) == Some(&Owner::Writer);
        if !known || offset > self.spec.frame_bytes || len > room {
            return Err(Full::TooLong {
                len: len as usize,
                max: if known { room } else { 0 },
            });
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

    /// Shows the receiver everything sent. Then notify.
    pub fn publish(&mut self) {
        self.sent.publish(&self.own.sent);
    }

    /// Takes back what the receiver has freed; how many. A frame that it cannot free is counted and nothing else; an impossible index puts
    /// this direction into the error state.
    pub fn reclaim(&mut self) -> Result<u32, RingError> {
        if let Some(fault) = self.fault {
            return Err(RingError::Peer { ring: 0, fault });
        }
        if let Err(fault) = self.freed.reload(&self.peer.freed) {
            self.fault = Some(fault);
            return Err(RingError::Peer { ring: 0, fault });
        }
        let mut count = 0;
        while self.freed.unread() > 0 {
            let at = (self.freed.read() & (self.spec.entries() - 1)) as usize;
            let frame = self.peer.words.load(at);
            self.freed.advance(1);
            count += u32::from(self.take_back(frame));
        }
        self.freed.release(self.freed.read(), &self.own.freed);
        Ok(count)
    }

    fn take_back(&mut self, frame: u64) -> bool {
        let owner = usize::try_from(frame)
            .ok()
            .and_then(|frame| self.owners.get_mut(frame));
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

    /// Frames on the free list.
    pub fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// Frames that the receiver freed without having them.
    pub fn double_frees(&self) -> u64 {
        self.double_frees
    }

    /// Numbers freed that are no frame's.
    pub fn unknown_frees(&self) -> u64 {
        self.unknown_frees
    }
}
