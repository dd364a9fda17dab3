//! The frames in a block of a packet ring (`linux/if_packet.h`, version 3).
//!
//! Nothing in a block is believed: every length is held against the bytes that are there, and each frame begins behind the one before.

use std::mem;

use thiserror::Error;

use super::frame::{Frame, Head, u16_at, u32_at};

/// Offsets in the head of a block.
mod head {
    pub(super) const PACKETS: usize = 12;
    pub(super) const FIRST: usize = 16;
    pub(super) const FILLED_BYTES: usize = 20;
    pub(super) const BYTES: usize = 48;
}

/// Offsets in the head of a packet.
mod packet {
    pub(super) const NEXT: usize = 0;
    pub(super) const TIME_S: usize = 4;
    pub(super) const TIME_NS: usize = 8;
    pub(super) const CAPTURED_BYTES: usize = 12;
    pub(super) const WIRE_BYTES: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const TAG: usize = 32;
    pub(super) const TAG_TYPE: usize = 36;
    pub(super) const BYTES: usize = 48;
}

/// A block that contradicts itself: the rest of it is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "packet {packet} of a block of {packets} has {what} {value}, where the block has {room} bytes left"
)]
pub struct RingError {
    /// The packet of the block, from 0.
    pub packet: u32,
    /// How many the block should have.
    pub packets: u32,
    /// What is wrong.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// What there is.
    pub room: usize,
}

/// The frames of a block, each of them valid until the block is given back. After an error there is none.
#[derive(Debug)]
pub struct Frames<'a> {
    /// From the head of the next packet on.
    rest: &'a mut [u8],
    /// Packets that were taken, of so many.
    taken: u32,
    packets: u32,
    has_tags: bool,
    /// The block itself is broken.
    broken: Option<RingError>,
}

impl<'a> Frames<'a> {
    /// Of a block; tags are put back where frames begin with two addresses (`has_tags`).
    pub fn new(block: &'a mut [u8], has_tags: bool) -> Self {
        let packets = u32_at(block, head::PACKETS);
        let (first, filled) = (
            u32_at(block, head::FIRST),
            u32_at(block, head::FILLED_BYTES),
        );
        let room = block.len();
        let wrong = |what, value: u32| RingError {
            packet: 0,
            packets,
            what,
            value: value.into(),
            room,
        };
        let broken = if filled as usize > room {
            Some(wrong("a block filled to", filled))
        } else if packets > 0 && !(head::BYTES..room).contains(&(first as usize)) {
            Some(wrong("its head at", first))
        } else {
            None
        };
        let rest = match broken {
            None if packets > 0 => block.get_mut(first as usize..).unwrap_or_default(),
            _ => Default::default(),
        };
        Self {
            rest,
            taken: 0,
            packets,
            has_tags,
            broken,
        }
    }

    /// Packets that the block should have.
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    fn wrong(&mut self, what: &'static str, value: u32) -> RingError {
        let room = self.rest.len();
        let packet = self.taken;
        self.rest = Default::default();
        self.taken = self.packets;
        RingError {
            packet,
            packets: self.packets,
            what,
            value: value.into(),
            room,
        }
    }

    /// The bytes of the next packet from its head on.
    fn cut(&mut self) -> Result<&'a mut [u8], RingError> {
        let room = self.rest.len();
        if room < packet::BYTES {
            return Err(self.wrong("a head of", packet::BYTES as u32));
        }
        let next = u32_at(self.rest, packet::NEXT);
        let is_last = self.taken + 1 == self.packets;
        let own = match next as usize {
            _ if is_last => room,
            own if (packet::BYTES..room).contains(&own) => own,
            _ => return Err(self.wrong("its next one at", next)),
        };
        let (own, rest) = mem::take(&mut self.rest).split_at_mut(own);
        self.rest = rest;
        Ok(own)
    }

    fn take(&mut self) -> Result<Frame<'a>, RingError> {
        let own = self.cut()?;
        let head = Head {
            start: u16_at(own, packet::MAC).into(),
            captured: u32_at(own, packet::CAPTURED_BYTES),
            wire_bytes: u32_at(own, packet::WIRE_BYTES),
            status: u32_at(own, packet::STATUS),
            time_s: u32_at(own, packet::TIME_S),
            time_ns: u32_at(own, packet::TIME_NS),
            tag: u32_at(own, packet::TAG) as u16,
            tag_type: u16_at(own, packet::TAG_TYPE),
        };
        match head.frame(own, packet::BYTES, self.has_tags) {
            Ok(frame) => {
                self.taken += 1;
                Ok(frame)
            }
            Err(end) => Err(self.wrong("a frame that ends at", end)),
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, RingError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(broken) = self.broken.take() {
            self.taken = self.packets;
            return Some(Err(broken));
        }
        (self.taken < self.packets).then(|| self.take())
    }
}

#[cfg(test)]
mod tests;
