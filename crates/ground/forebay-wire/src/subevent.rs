//! The sub-event: what one source has read out for one trigger.
//!
//! ```text
//! +0   size          bytes with this header, without padding
//! +4   decoding      exponent of the payload's word size, type; bits 7..4 the trigger type, bit 3 "alone"
//! +8   id            bit 31 data error, bits 30..0 the source's address
//! +12  trigger word  31..8 trigger number (high byte from the readout, 16 bits from the trigger bus), 7..0 tag
//! +16  payload
//! ```

use core::fmt;

use crate::Error;
pub use crate::payload::{STATUS_ADDRESS, SubSubEvent, SubSubEvents, Words};
use crate::unit::{ByteOrder, UnitHeader, alignment_bytes};

/// Bytes of a sub-event's header; a sub-event of just these is legal.
pub const SUB_EVENT_HEADER_BYTES: usize = 16;
/// Decoding word of a sub-event of 32-bit words, trigger type 0.
pub const DECODING_WORDS_32: u32 = 0x0002_0001;
/// Bit of the id that says the source has seen a data error.
pub const DATA_ERROR_BIT: u32 = 1 << 31;
/// How many bits of the trigger word's upper 24 count as the trigger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TriggerBits {
    /// The number of the trigger bus alone, as the old event builders matched.
    Sixteen,
    /// With the readout's own high byte.
    #[default]
    TwentyFour,
}

impl TriggerBits {
    /// The number of bits as configured, or `None` for what is neither 16 nor 24.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            16 => Some(Self::Sixteen),
            24 => Some(Self::TwentyFour),
            _ => None,
        }
    }

    /// 16 or 24.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Sixteen => 16,
            Self::TwentyFour => 24,
        }
    }

    /// The largest trigger number.
    pub const fn mask(self) -> u32 {
        (1 << self.bits()) - 1
    }
}

/// The four words of a sub-event's header: what the hot loops parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubEventHeader {
    /// Bytes with the header, without padding; at least 16.
    pub size: u32,
    /// Exponent of the word size, type, trigger type.
    pub decoding: u32,
    /// Address and, in bit 31, data error.
    pub id: u32,
    /// Trigger number and tag.
    pub trigger_word: u32,
    /// The sub-event's own byte order.
    pub order: ByteOrder,
}

impl SubEventHeader {
    /// Reads the header in the order that its decoding word reveals.
    ///
    /// # Errors
    /// [`Error::Decoding`] and [`Error::SizeBelowHeader`].
    #[inline]
    pub const fn parse(head: &[u8; SUB_EVENT_HEADER_BYTES]) -> Result<Self, Error> {
        let &[s0, s1, s2, s3, d0, d1, d2, d3, ..] = head;
        let &[.., i0, i1, i2, i3, t0, t1, t2, t3] = head;
        let unit = match UnitHeader::parse(&[s0, s1, s2, s3, d0, d1, d2, d3]) {
            Ok(unit) => unit,
            Err(error) => return Err(error),
        };
        if unit.size < SUB_EVENT_HEADER_BYTES as u32 {
            return Err(Error::SizeBelowHeader {
                size: unit.size,
                least: SUB_EVENT_HEADER_BYTES as u32,
            });
        }
        Ok(Self {
            size: unit.size,
            decoding: unit.decoding,
            id: unit.order.u32([i0, i1, i2, i3]),
            trigger_word: unit.order.u32([t0, t1, t2, t3]),
            order: unit.order,
        })
    }

    /// Writes the header in its order.
    #[inline]
    pub fn emit(&self, head: &mut [u8; SUB_EVENT_HEADER_BYTES]) {
        let words = [self.size, self.decoding, self.id, self.trigger_word];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&self.order.bytes(word));
        }
    }

    /// The source's address: the id without the data-error bit.
    #[inline]
    pub const fn address(&self) -> u32 {
        self.id & !DATA_ERROR_BIT
    }

    /// `true` when the source has set the data-error bit.
    #[inline]
    pub const fn has_data_error(&self) -> bool {
        self.id & DATA_ERROR_BIT != 0
    }

    /// The trigger number, 16 or 24 bits of it.
    #[inline]
    pub const fn trigger(&self, bits: TriggerBits) -> u32 {
        (self.trigger_word >> 8) & bits.mask()
    }

    /// The tag: a random number that the trigger system gave this trigger.
    #[inline]
    pub const fn tag(&self) -> u8 {
        self.trigger_word as u8
    }

    /// The trigger type, 4 bits.
    #[inline]
    pub const fn trigger_type(&self) -> u8 {
        ((self.decoding >> 4) & 0xf) as u8
    }

    /// Bytes of one payload word: 1, 2, 4 or 8, and 4 when the decoding word asks for more.
    #[inline]
    pub const fn word_bytes(&self) -> usize {
        match alignment_bytes(self.decoding) {
            Some(bytes) => bytes,
            None => 4,
        }
    }

    /// Whether the decoding word asks for payload words that no reader knows: of more than 8 bytes. Such words are shown as ones of 4.
    #[inline]
    pub const fn has_odd_decoding(&self) -> bool {
        alignment_bytes(self.decoding).is_none()
    }

    /// Bytes up to the next sub-event of a container that aligns to 8.
    #[inline]
    pub const fn padded_size(&self) -> u64 {
        crate::unit::round_up_8(self.size as u64)
    }
}

impl fmt::Display for SubEventHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            decoding,
            id,
            trigger_word,
            order,
        } = self;
        write!(
            f,
            "sub-event size {size} decoding {decoding:#010x} id {id:#x} trigger {trigger_word:#010x} {order}"
        )
    }
}

/// A checked view of one sub-event.
#[derive(Clone, Copy, Debug)]
pub struct SubEvent<'a> {
    header: SubEventHeader,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> SubEvent<'a> {
    /// Takes the sub-event at the start of `bytes`; what follows it is ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Decoding`], [`Error::SizeBelowHeader`], [`Error::Overrun`].
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::at(bytes, 0)
    }

    /// The sub-event at `offset` of a container that ends where `bytes` ends.
    #[inline]
    fn at(bytes: &'a [u8], offset: usize) -> Result<Self, Error> {
        let rest = bytes.get(offset..).unwrap_or_default();
        let head = rest.first_chunk().ok_or(Error::Truncated {
            need: SUB_EVENT_HEADER_BYTES,
            have: rest.len(),
        })?;
        let header = SubEventHeader::parse(head)?;
        let bytes = rest.get(..header.size as usize).ok_or(Error::Overrun {
            offset,
            size: header.size,
            room: rest.len(),
        })?;
        Ok(Self {
            header,
            bytes,
            offset,
        })
    }

    /// The header's words.
    #[inline]
    pub const fn header(&self) -> SubEventHeader {
        self.header
    }

    /// Where the sub-event starts, from the start of its container.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Header and payload as they came, without padding.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Declared bytes: header and payload.
    #[inline]
    pub const fn size(&self) -> u32 {
        self.header.size
    }

    /// The decoding word.
    #[inline]
    pub const fn decoding(&self) -> u32 {
        self.header.decoding
    }

    /// The id with the data-error bit.
    #[inline]
    pub const fn id(&self) -> u32 {
        self.header.id
    }

    /// The whole trigger word.
    #[inline]
    pub const fn trigger_word(&self) -> u32 {
        self.header.trigger_word
    }

    /// The payload's bytes as they came.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(SUB_EVENT_HEADER_BYTES..).unwrap_or_default()
    }

    /// The payload as words of 8, 16 or 32 bits (64-bit payloads as pairs of 32); left-over bytes are not shown.
    pub fn words(&self) -> Words<'a> {
        Words::new(self.payload(), self.header.word_bytes(), self.header.order)
    }

    /// The sub-sub-events of a TRB3 payload: hubs and boards, the status last.
    pub fn sub_sub_events(&self) -> SubSubEvents<'a> {
        SubSubEvents::new(self.payload(), self.header.order)
    }

    /// The last word of the payload: of a TRB3 its status, where 0 and 1 mean good.
    pub fn status_word(&self) -> Option<u32> {
        let payload = self.payload();
        let whole = payload.len() & !3;
        let last = payload.get(..whole)?.last_chunk()?;
        Some(self.header.order.u32(*last))
    }
}

impl fmt::Display for SubEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)
    }
}

/// Walks over the sub-events of a message or an event, checking each; ends after the first bad one.
#[derive(Clone, Debug)]
pub struct SubEvents<'a> {
    container: &'a [u8],
    at: usize,
    alignment: usize,
}

impl<'a> SubEvents<'a> {
    /// Walks from byte `start` of a container to its end, with children padded to `alignment` (a power of two).
    pub(crate) const fn new(container: &'a [u8], start: usize, alignment: usize) -> Self {
        Self {
            container,
            at: start,
            alignment,
        }
    }

    /// Where the next sub-event would start, from the start of the container.
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for SubEvents<'a> {
    type Item = Result<SubEvent<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let room = self.container.len().checked_sub(self.at)?;
        if room < SUB_EVENT_HEADER_BYTES {
            let offset = core::mem::replace(&mut self.at, usize::MAX);
            return (room > 0).then_some(Err(Error::Leftover { offset, room }));
        }
        let sub = SubEvent::at(self.container, self.at);
        self.at = match &sub {
            Ok(sub) => (self.at + sub.bytes.len()).next_multiple_of(self.alignment),
            Err(_) => usize::MAX,
        };
        Some(sub)
    }
}

/// What a sub-event's header says, apart from the size, which follows from the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubEventRepr {
    /// Decoding word.
    pub decoding: u32,
    /// Address and data-error bit.
    pub id: u32,
    /// Trigger number and tag.
    pub trigger_word: u32,
    /// The order to write in.
    pub order: ByteOrder,
}

impl Default for SubEventRepr {
    /// 32-bit words, big-endian as hardware sends them, id and trigger 0.
    fn default() -> Self {
        Self {
            decoding: DECODING_WORDS_32,
            id: 0,
            trigger_word: 0,
            order: ByteOrder::Big,
        }
    }
}

impl SubEventRepr {
    /// Takes what a parsed header says.
    pub const fn parse(header: &SubEventHeader) -> Self {
        Self {
            decoding: header.decoding,
            id: header.id,
            trigger_word: header.trigger_word,
            order: header.order,
        }
    }

    /// The header with the size that goes with a payload (saturating at the field's limit).
    pub const fn header(&self, payload_bytes: u32) -> SubEventHeader {
        SubEventHeader {
            size: payload_bytes.saturating_add(SUB_EVENT_HEADER_BYTES as u32),
            decoding: self.decoding,
            id: self.id,
            trigger_word: self.trigger_word,
            order: self.order,
        }
    }

    /// The 16 bytes of the header for a payload of that many bytes.
    #[inline]
    pub fn header_bytes(&self, payload_bytes: u32) -> [u8; SUB_EVENT_HEADER_BYTES] {
        let mut head = [0; SUB_EVENT_HEADER_BYTES];
        self.header(payload_bytes).emit(&mut head);
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A little-endian sub-event of 16-bit words, as a soft readout writes it on x86.
    const SUB: [u8; 22] = [
        0x16, 0, 0, 0, 0x01, 0, 0x01, 0, 0xc8, 0, 0, 0, 0x42, 0x34, 0x12, 0, // header
        0x01, 0x00, 0x02, 0x00, 0x03, 0x00,
    ];

    #[test]
    fn golden_sub_event_of_half_words() {
        let sub = SubEvent::new_checked(&SUB).unwrap();
        assert_eq!(sub.header().order, ByteOrder::Little);
        assert_eq!(
            (sub.size(), sub.id(), sub.header().word_bytes()),
            (22, 200, 2)
        );
        assert_eq!(sub.header().trigger(TriggerBits::TwentyFour), 0x1234);
        assert_eq!(sub.words().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(
            SubEventRepr::parse(&sub.header()).header_bytes(6)[..],
            SUB[..16]
        );
        assert_eq!(
            std::format!("{sub}"),
            "sub-event size 22 decoding 0x00010001 id 0xc8 trigger 0x00123442 little-endian"
        );
    }

    #[test]
    fn refuses_a_size_below_the_header_and_beyond_the_end() {
        let mut bytes = SUB;
        bytes[0] = 15;
        let small = SubEvent::new_checked(&bytes).unwrap_err();
        assert_eq!(
            small,
            Error::SizeBelowHeader {
                size: 15,
                least: 16
            }
        );
        bytes[3] = 0x7f;
        let large = SubEvent::new_checked(&bytes).unwrap_err();
        assert_eq!(large.reason(), "subevent_overrun");
        let none = SubEvent::new_checked(&bytes[..15]).unwrap_err();
        assert_eq!(none, Error::Truncated { need: 16, have: 15 });
    }
}
