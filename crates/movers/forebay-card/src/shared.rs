//! Frames that are received where clients read them: in buffers of a sealed memory file, each of which is lent to the driver before a frame comes into it.
//!
//! ```text
//! Desk::lend ─▶ a buffer ─▶ the kernel writes a frame into it ─▶ Desk::land ─▶ a client's, until that gives it back
//!                  ▲                                                │
//!                  └──────────── no client gets the frame ──────────┘
//! ```
//!
//! The file can be written through the driver's own mapping alone: the kernel refuses another one to everybody ([`Region`]). A process with a descriptor of it reads all frames that
//! come, for any client.

use std::os::fd::OwnedFd;

use forebay_mux::buffers::Lent;
use forebay_ring::{FRAME_BYTES_STEP, FramePoolSpec, Region};

use super::DriverError;

/// Lends buffers to a driver, and takes the frames that came into them.
pub trait Desk {
    /// A buffer to receive into. There is one while the driver has fewer than [`SharedMemory::card_frames`].
    fn lend(&mut self) -> Option<Lent>;

    /// Takes a frame that lies in this buffer, from this byte on. The buffer comes back if no client gets the frame.
    fn land(&mut self, buffer: Lent, offset: u32, frame: &[u8]) -> Option<Lent>;
}

/// The memory that a driver receives into.
#[derive(Debug)]
pub struct SharedMemory {
    /// Buffers that the driver has at most, beyond those that clients share.
    pub card_frames: u32,
    /// Bytes of each buffer.
    pub frame_bytes: u32,
    /// Reads it, and cannot write it.
    pub reader: OwnedFd,
}

/// The memory of a driver that receives one frame after the other.
#[derive(Debug)]
pub(super) struct Landing {
    region: Region,
    frame_bytes: usize,
    frame_bytes_max: usize,
    /// The one into which the next frame comes.
    buffer: Option<Lent>,
}

/// What came into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landed {
    /// A frame of so many bytes, which was handed over.
    Frame(u32),
    /// One that is longer than frames may be.
    TooLong,
    /// Nothing.
    Nothing,
}

impl Landing {
    /// Makes memory for so many buffers of clients and one of its own, for frames up to this length.
    ///
    /// # Errors
    /// There is not as much memory, or descriptors run out.
    pub(super) fn make(
        client_frames: u32,
        frame_bytes_max: usize,
    ) -> Result<(Self, SharedMemory), DriverError> {
        // With room for a byte more: a longer one is known by it.
        let frame_bytes = (frame_bytes_max as u32 + 1).next_multiple_of(FRAME_BYTES_STEP);
        let spec = FramePoolSpec {
            name: "card".into(),
            frames: client_frames + 1,
            frame_bytes,
        };
        let region = Region::create(&spec.name, spec.data_bytes())?;
        let memory = SharedMemory {
            card_frames: 1,
            frame_bytes,
            reader: region.reader_fd()?,
        };
        let landing = Self {
            region,
            frame_bytes: frame_bytes as usize,
            frame_bytes_max,
            buffer: None,
        };
        Ok((landing, memory))
    }

    /// Has a frame written into the buffer and hands it over. `fill` gives the length of what came, as far as there was room for it, or none.
    pub(super) fn receive(
        &mut self,
        desk: &mut dyn Desk,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Landed {
        let Some(buffer) = self.buffer.take().or_else(|| desk.lend()) else {
            return Landed::Nothing;
        };
        let at = buffer.number() as usize * self.frame_bytes;
        let bytes = self.region.bytes_mut();
        let room = bytes
            .get_mut(at..)
            .and_then(|it| it.get_mut(..self.frame_bytes));
        let room = room.unwrap_or_default();
        let landed = match fill(room) {
            None => Landed::Nothing,
            Some(bytes) if bytes > self.frame_bytes_max => Landed::TooLong,
            Some(bytes) => Landed::Frame(bytes as u32),
        };
        self.buffer = match landed {
            Landed::Frame(bytes) => desk.land(buffer, 0, &room[..bytes as usize]),
            Landed::TooLong | Landed::Nothing => Some(buffer),
        };
        landed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_room_for_a_byte_more_than_a_frame_has() {
        for (longest, wanted) in [(1_518, 1_536), (1_535, 1_536), (1_536, 1_600)] {
            let (_, memory) = Landing::make(2, longest).unwrap();
            assert_eq!(memory.frame_bytes, wanted, "{longest}");
        }
    }
}
