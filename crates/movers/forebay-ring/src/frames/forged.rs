//! An end that writes whatever it is told: what a peer that means harm can do to a pool, for showing what that costs others.
//!
//! It goes by reads and writes of the files and maps nothing, so that no value can harm the process that has it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::{DESCRIPTOR_WORDS, Descriptor, FREED_SLOT, FramePoolSpec, SENT_SLOT, WORDS};
use crate::error::RingError;
use crate::memory::{self, Access, Mapping, PAGE_BYTES};
use crate::set::of_side;

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// One end of a frame pool, as the files that it was handed.
#[derive(Debug)]
pub struct ForgedEnd {
    entries: u64,
    frame_bytes: u32,
    frames: File,
    own: File,
    peer: File,
}

impl ForgedEnd {
    /// The end of which these are the descriptors, in the order of [`super::FramePoolMemory::sender_fds`] or [`super::FramePoolMemory::receiver_fds`], and its eventfds: the one that this
    /// side rings, and the one that wakes it.
    ///
    /// # Errors
    /// There are more or fewer of them, or a file is not one of such a pool.
    pub fn new(spec: &FramePoolSpec, fds: Vec<OwnedFd>) -> Result<(Self, [OwnedFd; 2]), RingError> {
        spec.validate()?;
        let [frames, own, peer, rings_on, sleeps_on] = of_side(fds)?;
        memory::verify(super::FRAMES, frames.as_fd(), spec.data_bytes())?;
        for (what, page) in [("own page", &own), ("peer's page", &peer)] {
            memory::verify(what, page.as_fd(), spec.page_bytes())?;
        }
        let end = Self {
            entries: spec.entries(),
            frame_bytes: spec.frame_bytes,
            frames: frames.into(),
            own: own.into(),
            peer: peer.into(),
        };
        Ok((end, [rings_on, sleeps_on]))
    }

    /// Entries of either ring.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Writes bytes into a frame, from its first one on. Of a receiver, which may not, the kernel refuses it.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn fill(&self, frame: u32, bytes: &[u8]) -> io::Result<()> {
        let at = u64::from(frame) * u64::from(self.frame_bytes);
        self.frames.write_all_at(bytes, at)
    }

    /// Writes the descriptor of an entry; of a sender.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn write_descriptor(&self, position: u64, descriptor: Descriptor) -> io::Result<()> {
        let [first, second] = descriptor.words();
        let at = (position & (self.entries - 1)) * DESCRIPTOR_WORDS as u64;
        self.write_word(at, first)?;
        self.write_word(at + 1, second)
    }

    /// Writes the number of a frame that goes back; of a receiver.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn write_returned(&self, position: u64, number: u64) -> io::Result<()> {
        self.write_word(position & (self.entries - 1), number)
    }

    fn write_word(&self, number: u64, word: u64) -> io::Result<()> {
        let at = WORDS as u64 + number * WORD_BYTES;
        self.own.write_all_at(&word.to_ne_bytes(), at)
    }

    /// Says how far this sender has sent.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn say_sent(&self, position: u64) -> io::Result<()> {
        self.own
            .write_all_at(&position.to_ne_bytes(), SENT_SLOT as u64)
    }

    /// Says how far this receiver has given back, or this sender has taken back.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn say_freed(&self, position: u64) -> io::Result<()> {
        self.own
            .write_all_at(&position.to_ne_bytes(), FREED_SLOT as u64)
    }

    /// How far the peer is with what was sent: of a sender, what the receiver has read; of a receiver, what the sender has sent.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn peer_sent(&self) -> io::Result<u64> {
        self.peer_word(SENT_SLOT as u64)
    }

    /// How far the peer is with what was given back.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn peer_freed(&self) -> io::Result<u64> {
        self.peer_word(FREED_SLOT as u64)
    }

    /// The descriptor of an entry of the peer's; of a receiver.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn read_descriptor(&self, position: u64) -> io::Result<Descriptor> {
        let number = (position & (self.entries - 1)) * DESCRIPTOR_WORDS as u64;
        let at = WORDS as u64 + number * WORD_BYTES;
        let words = [self.peer_word(at)?, self.peer_word(at + WORD_BYTES)?];
        Ok(Descriptor::from_words(words))
    }

    /// Reaches for what is not its own: to map the peer's page for writing, to open its file anew for writing, and to make its own files longer and shorter; of a receiver, to the frames as well. By
    /// name, whether the kernel let it: a peer of the other side's own user, or of root, can open a file anew.
    #[must_use]
    pub fn reach(&self) -> Vec<(&'static str, bool)> {
        let is_receiver = self.frames.write_at(&[], 0).is_err();
        let foreign = [Some(&self.peer), is_receiver.then_some(&self.frames)];
        let mut found = Vec::new();
        for file in foreign.into_iter().flatten() {
            let anew = format!("/proc/self/fd/{}", file.as_raw_fd());
            let mapped = Mapping::lazy("peer", file, PAGE_BYTES, Access::ReadWrite);
            found.push(("map_for_writing", mapped.is_ok()));
            found.push((
                "open_for_writing",
                File::options().write(true).open(anew).is_ok(),
            ));
        }
        for bytes in [0, 1 << 40] {
            found.push(("another_length", self.own.set_len(bytes).is_ok()));
            found.push(("another_length", self.frames.set_len(bytes).is_ok()));
        }
        found
    }

    fn peer_word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; size_of::<u64>()];
        self.peer.read_exact_at(&mut word, at)?;
        Ok(u64::from_ne_bytes(word))
    }
}
