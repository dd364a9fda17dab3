//! A frame in a ring, and what the heads of both kinds of rings have in common (`linux/if_packet.h`).

/// The check sum is left to the card.
pub(super) const LACKS_CHECKSUM: u32 = 1 << 3;
/// The kernel took a VLAN tag out of the frame.
pub(super) const HAS_TAG: u32 = 1 << 4;
/// It says what type the tag had.
pub(super) const HAS_TAG_TYPE: u32 = 1 << 6;
/// Type of a tag of which that is not said (IEEE 802.1Q).
const VLAN: u16 = 0x8100;
const ADDRESSES_BYTES: usize = 12;
pub(super) const TAG_BYTES: usize = 4;
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A frame in a ring.
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

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u16::from_ne_bytes(*word))
}

/// A frame as its head says that it lies behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Where it begins, in bytes from the head on.
    pub(super) start: usize,
    /// How much of it is there, in bytes.
    pub(super) captured: u32,
    pub(super) wire_bytes: u32,
    pub(super) status: u32,
    pub(super) time_s: u32,
    pub(super) time_ns: u32,
    /// The tag that the kernel took out of it, and its type, where the status says so.
    pub(super) tag: u16,
    pub(super) tag_type: u16,
}

impl Head {
    /// The frame, of whose place these are the bytes, with a head of `head_bytes`: tags are put back where frames begin with two addresses (`has_tags`). Where it would
    /// end, if it does not lie behind its head and within its place.
    #[inline]
    pub(super) fn frame(
        self,
        own: &mut [u8],
        head_bytes: usize,
        has_tags: bool,
    ) -> Result<Frame<'_>, u32> {
        let end = self.start.saturating_add(self.captured as usize);
        if self.start < head_bytes || end > own.len() {
            return Err(u32::try_from(end).unwrap_or(u32::MAX));
        }
        let is_tagged = has_tags && self.status & HAS_TAG != 0;
        let put = is_tagged.then(|| self.put_back(own, head_bytes)).flatten();
        let added = if put.is_some() { TAG_BYTES as u32 } else { 0 };
        let wire_bytes = self.wire_bytes.max(self.captured);
        Ok(Frame {
            timestamp_ns: u64::from(self.time_s) * SECOND_NS + u64::from(self.time_ns),
            wire_bytes: wire_bytes.saturating_add(added),
            lacks_checksum: self.status & LACKS_CHECKSUM != 0,
            bytes: own.get(put.unwrap_or(self.start)..end).unwrap_or_default(),
        })
    }

    /// Moves both addresses of the frame forward, and puts the tag behind them: where the frame begins then. None if they are not there, or there is no room in front.
    fn put_back(self, own: &mut [u8], head_bytes: usize) -> Option<usize> {
        if (self.captured as usize) < ADDRESSES_BYTES {
            return None;
        }
        let to = self.start.checked_sub(TAG_BYTES)?;
        if to < head_bytes {
            return None;
        }
        let kind = match self.status & HAS_TAG_TYPE {
            0 => VLAN,
            _ => self.tag_type,
        };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), self.tag.to_be_bytes());
        own.copy_within(self.start..self.start + ADDRESSES_BYTES, to);
        own.get_mut(to + ADDRESSES_BYTES..)?
            .first_chunk_mut()
            .map(|place| *place = [a, b, c, d])?;
        Some(to)
    }
}
