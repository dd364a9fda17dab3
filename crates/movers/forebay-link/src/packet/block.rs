//! The frames in a block of a packet ring (`linux/if_packet.h`, version 3).
//!
//! Nothing in a block is believed: every length is held against the bytes that are there, and each frame begins behind the one before.

use std::mem;

use thiserror::Error;

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

/// The check sum is left to the card.
const LACKS_CHECKSUM: u32 = 1 << 3;
/// The kernel took a VLAN tag out of the frame.
const HAS_TAG: u32 = 1 << 4;
/// It says what type the tag had.
const HAS_TAG_TYPE: u32 = 1 << 6;
/// Type of a tag of which that is not said (IEEE 802.1Q).
const VLAN: u16 = 0x8100;
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;

/// A frame in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the kernel got it, in ns since 1970.
    pub timestamp_ns: u64,
    /// How long it was on the wire, in bytes, without preamble and check sum.
    pub wire_bytes: u32,
    /// A check sum of TCP or UDP in it is not made yet, but begun (`TP_STATUS_CSUMNOTREADY`): a sender on this host left that to a card that there is not.
    pub lacks_checksum: bool,
    /// What there is of it.
    pub bytes: &'a [u8],
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u16::from_ne_bytes(*word))
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
        let start = usize::from(u16_at(own, packet::MAC));
        let captured = u32_at(own, packet::CAPTURED_BYTES);
        let end = start.saturating_add(captured as usize);
        if start < packet::BYTES || end > own.len() {
            return Err(self.wrong("a frame that ends at", end as u32));
        }
        let timestamp_ns = u64::from(u32_at(own, packet::TIME_S)) * SECOND_NS
            + u64::from(u32_at(own, packet::TIME_NS));
        let wire_bytes = u32_at(own, packet::WIRE_BYTES).max(captured);
        let lacks_checksum = u32_at(own, packet::STATUS) & LACKS_CHECKSUM != 0;
        let tag = self.tag(own, captured);
        let put = tag.and_then(|tag| put_back(own, start, tag));
        let start = put.unwrap_or(start);
        let added = if put.is_some() { TAG_BYTES as u32 } else { 0 };
        self.taken += 1;
        let own: &'a [u8] = own;
        Ok(Frame {
            timestamp_ns,
            wire_bytes: wire_bytes.saturating_add(added),
            lacks_checksum,
            bytes: own.get(start..end).unwrap_or_default(),
        })
    }

    /// The tag that the kernel took out of a frame, if it had one.
    fn tag(&self, own: &[u8], captured: u32) -> Option<[u8; TAG_BYTES]> {
        let status = u32_at(own, packet::STATUS);
        if !self.has_tags || status & HAS_TAG == 0 || (captured as usize) < ADDRESSES_BYTES {
            return None;
        }
        let kind = match status & HAS_TAG_TYPE {
            0 => VLAN,
            _ => u16_at(own, packet::TAG_TYPE),
        };
        let tag = u32_at(own, packet::TAG) as u16;
        let ([a, b], [c, d]) = (kind.to_be_bytes(), tag.to_be_bytes());
        Some([a, b, c, d])
    }
}

/// Moves both addresses of the frame at `start` forward, and puts the tag behind them: where the frame begins then. None if there is no room in front of it.
fn put_back(own: &mut [u8], start: usize, tag: [u8; TAG_BYTES]) -> Option<usize> {
    let to = start
        .checked_sub(TAG_BYTES)
        .filter(|&to| to >= packet::BYTES)?;
    own.copy_within(start..start + ADDRESSES_BYTES, to);
    own.get_mut(to + ADDRESSES_BYTES..)?
        .first_chunk_mut()
        .map(|place| *place = tag)?;
    Some(to)
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
