//! HADTU messages (queues): what carries sub-events over UDP.
//!
//! A message is one unit whose parts are units again ([`crate::unit`] has their common head):
//!
//! ```text
//! +0              size, decoding              8 bytes; size does not count the trailer
//! +8              sub-events, each padded to the message's alignment (8)
//! +round_up(size) copy of the message's first 32 bytes
//! ```

use alloc::vec::Vec;
use core::fmt;

use crate::Error;
use crate::subevent::{SubEventHeader, SubEventRepr, SubEvents};
pub use crate::unit::{
    ALIGNMENT_BYTES, ByteOrder, UNIT_HEADER_BYTES, UnitHeader, alignment_bytes, decoding_base,
    round_up_8,
};

/// A datagram of exactly this many bytes means that the message goes on in the next one.
pub const MTU_BYTES: usize = 63 * 1024;
/// Bytes at the end of a message that repeat its head.
pub const TRAILER_BYTES: usize = 32;
/// The byte that readout hardware pads with.
pub const PADDING: u8 = 0xaa;

/// Decoding word of a message made by readout hardware.
pub const QUEUE_DECODING_TRB: u32 = 0x0003_0062;
/// Decoding word of a message made by the classic soft readout.
pub const QUEUE_DECODING_SOFT: u32 = 0x0003_0063;

/// How many bytes a whole message takes, trailer included, from its first 8 bytes: `round_up(size, 8) + 32`.
///
/// # Errors
/// [`Error::Decoding`], or [`Error::SizeBelowHeader`] when the size field is below 8.
#[inline]
pub const fn message_bytes(head: &[u8; UNIT_HEADER_BYTES]) -> Result<u64, Error> {
    let unit = match UnitHeader::parse(head) {
        Ok(unit) => unit,
        Err(error) => return Err(error),
    };
    if unit.size < UNIT_HEADER_BYTES as u32 {
        return Err(Error::SizeBelowHeader {
            size: unit.size,
            least: UNIT_HEADER_BYTES as u32,
        });
    }
    Ok(round_up_8(unit.size as u64) + TRAILER_BYTES as u64)
}

/// Address of the source in the first sub-event of a message, of which `head` is the front: all that is needed to tell sources apart that share a port.
#[must_use]
pub fn first_address(head: &[u8]) -> Option<u32> {
    UnitHeader::parse(head.first_chunk()?).ok()?;
    let first = head.get(UNIT_HEADER_BYTES..)?.first_chunk()?;
    let header = SubEventHeader::parse(first).ok()?;
    Some(header.address())
}

/// A checked view of one transport message.
#[derive(Clone, Copy, Debug)]
pub struct Queue<T: AsRef<[u8]>> {
    bytes: T,
    header: UnitHeader,
    alignment: usize,
}

impl<T: AsRef<[u8]>> Queue<T> {
    /// Takes a whole message: its length must be `round_up(size, 8) + 32` and its trailer a copy of its head.
    ///
    /// The sub-events inside are checked one by one as [`Queue::sub_events`] walks over them.
    ///
    /// # Errors
    /// Whatever is wrong first: [`Error::Truncated`], [`Error::Decoding`], [`Error::SizeBelowHeader`],
    /// [`Error::Alignment`], [`Error::Length`], [`Error::Trailer`].
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let all = bytes.as_ref();
        let need = message_bytes(head_of(all)?)?;
        let header = UnitHeader::parse(head_of(all)?)?;
        if need != all.len() as u64 {
            return Err(Error::Length {
                size: header.size,
                need,
                have: all.len(),
            });
        }
        check_trailer(all)?;
        Self::with_header(bytes, header)
    }

    /// Takes a message whose trailer was checked and cut off before: at least `size` bytes, more are ignored.
    ///
    /// # Errors
    /// As [`Queue::new_checked`], without [`Error::Trailer`]; [`Error::Length`] only when bytes are missing.
    pub fn new_stripped(bytes: T) -> Result<Self, Error> {
        let all = bytes.as_ref();
        let need = message_bytes(head_of(all)?)?;
        let header = UnitHeader::parse(head_of(all)?)?;
        if all.len() < header.size as usize {
            return Err(Error::Length {
                size: header.size,
                need,
                have: all.len(),
            });
        }
        Self::with_header(bytes, header)
    }

    fn with_header(bytes: T, header: UnitHeader) -> Result<Self, Error> {
        let alignment = alignment_bytes(header.decoding).ok_or(Error::Alignment {
            decoding: header.decoding,
        })?;
        Ok(Self {
            bytes,
            header,
            alignment,
        })
    }

    /// The size and decoding words.
    pub const fn header(&self) -> UnitHeader {
        self.header
    }

    /// Declared bytes: header and padded sub-events, without the trailer.
    pub const fn size(&self) -> u32 {
        self.header.size
    }

    /// Declared bytes rounded up to 8: where the trailer starts.
    pub const fn padded_size(&self) -> u64 {
        round_up_8(self.header.size as u64)
    }

    /// The sub-events, each checked as it is reached; the first bad one ends the walk.
    pub fn sub_events(&self) -> SubEvents<'_> {
        let body = self.bytes.as_ref().get(..self.header.size as usize);
        SubEvents::new(body.unwrap_or_default(), UNIT_HEADER_BYTES, self.alignment)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnitHeader {
            size,
            decoding,
            order,
        } = self.header;
        write!(f, "queue size {size} decoding {decoding:#010x} {order}")
    }
}

fn head_of(bytes: &[u8]) -> Result<&[u8; UNIT_HEADER_BYTES], Error> {
    bytes.first_chunk().ok_or(Error::Truncated {
        need: UNIT_HEADER_BYTES,
        have: bytes.len(),
    })
}

/// Compares the last 32 bytes with the first 32; in a message below 64 bytes the two overlap.
fn check_trailer(message: &[u8]) -> Result<(), Error> {
    let short = Error::Truncated {
        need: TRAILER_BYTES,
        have: message.len(),
    };
    let head: &[u8; TRAILER_BYTES] = message.first_chunk().ok_or(short)?;
    let trailer: &[u8; TRAILER_BYTES] = message.last_chunk().ok_or(short)?;
    if head == trailer {
        return Ok(());
    }
    let at = head.iter().zip(trailer).take_while(|(h, t)| h == t).count();
    Err(Error::Trailer { at })
}

/// Puts messages together, one after the other, in a buffer that it keeps.
#[derive(Clone, Debug)]
pub struct MessageWriter {
    bytes: Vec<u8>,
    order: ByteOrder,
    decoding: u32,
    sub_events: u32,
    finished: bool,
}

impl MessageWriter {
    /// Starts an empty message with the decoding word of readout hardware.
    pub fn new(order: ByteOrder) -> Self {
        Self::with_decoding(order, QUEUE_DECODING_TRB)
    }

    /// Starts an empty message with a decoding word of the caller's.
    pub fn with_decoding(order: ByteOrder, decoding: u32) -> Self {
        let mut writer = Self {
            bytes: Vec::new(),
            order,
            decoding,
            sub_events: 0,
            finished: false,
        };
        writer.clear();
        writer
    }

    /// Throws away what was written and starts the next message in the same memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(UNIT_HEADER_BYTES, 0);
        self.sub_events = 0;
        self.finished = false;
    }

    /// The size field as it would be now: what a sender compares with its water mark.
    pub const fn size(&self) -> usize {
        let trailer = if self.finished { TRAILER_BYTES } else { 0 };
        self.bytes.len() - trailer
    }

    /// Sub-events written so far.
    pub const fn sub_events(&self) -> u32 {
        self.sub_events
    }

    /// `true` when no sub-event was written.
    pub const fn is_empty(&self) -> bool {
        self.sub_events == 0
    }

    /// Appends a sub-event and pads it to 8 bytes. After [`MessageWriter::finish`] a new message starts by itself.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the message would outgrow its size field; it is then as before.
    pub fn push(&mut self, sub: &SubEventRepr, payload: &[u8]) -> Result<(), Error> {
        self.push_with(sub, payload.len(), |room| room.copy_from_slice(payload))
    }

    /// Appends a sub-event whose payload of `payload_bytes` (zeroed before) is filled in place.
    ///
    /// # Errors
    /// As [`MessageWriter::push`].
    pub fn push_with(
        &mut self,
        sub: &SubEventRepr,
        payload_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        if self.finished {
            self.clear();
        }
        let grown = (self.bytes.len() as u64)
            .saturating_add(payload_bytes as u64)
            .saturating_add(64);
        if grown > u64::from(u32::MAX) {
            return Err(Error::TooLarge { bytes: grown });
        }
        let header = sub.header_bytes(payload_bytes as u32);
        self.bytes.extend_from_slice(&header);
        let start = self.bytes.len();
        self.bytes.resize(start + payload_bytes, 0);
        fill(&mut self.bytes[start..]);
        let padded = round_up_8(self.bytes.len() as u64) as usize;
        self.bytes.resize(padded, PADDING);
        self.sub_events += 1;
        Ok(())
    }

    /// Closes the message with size and trailer and lends it out; it lasts until the next `push` or `clear`.
    pub fn finish(&mut self) -> &[u8] {
        if !self.finished {
            self.finished = true;
            let header = UnitHeader {
                size: self.bytes.len() as u32,
                decoding: self.decoding,
                order: self.order,
            };
            if let Some(head) = self.bytes.first_chunk_mut() {
                header.emit(head);
            }
            append_trailer(&mut self.bytes);
        }
        &self.bytes
    }
}

/// Appends the copy of the first 32 bytes; of a shorter message the trailer repeats its own start.
fn append_trailer(message: &mut Vec<u8>) {
    let start = message.len();
    message.resize(start + TRAILER_BYTES, 0);
    for at in 0..TRAILER_BYTES {
        message[start + at] = message[at];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subevent::TriggerBits;

    /// One datagram of a TRB3: a sub-event of two words and a header-only one of a data error, padded and closed.
    const MESSAGE: [u8; 88] = [
        0x00, 0x00, 0x00, 0x38, 0x00, 0x03, 0x00, 0x62, // size 56, decoding
        0x00, 0x00, 0x00, 0x1c, 0x00, 0x02, 0x00,
        0xd1, // size 28, 32-bit words, trigger type 13
        0x00, 0x00, 0x80, 0x03, 0xff, 0xff, 0x00,
        0x0d, // id 0x8003, trigger 0xffff00, tag 0x0d
        0x00, 0x01, 0xc0, 0x03, 0xa5, 0x00, 0x00, 0x01, // one word of board 0xc003
        0x00, 0x01, 0x55, 0x55, 0xaa, 0xaa, 0xaa, 0xaa, // status, without its word; padding
        0x00, 0x00, 0x00, 0x10, 0x00, 0x02, 0x00, 0x01, // header only
        0x80, 0x00, 0x80, 0x04, 0x00, 0x00, 0x01, 0x02, // data error of 0x8004
        0x00, 0x00, 0x00, 0x38, 0x00, 0x03, 0x00, 0x62, // trailer
        0x00, 0x00, 0x00, 0x1c, 0x00, 0x02, 0x00, 0xd1, //
        0x00, 0x00, 0x80, 0x03, 0xff, 0xff, 0x00, 0x0d, //
        0x00, 0x01, 0xc0, 0x03, 0xa5, 0x00, 0x00, 0x01, //
    ];

    #[test]
    fn the_first_address_needs_both_heads_and_no_more() {
        assert_eq!(first_address(&MESSAGE[..24]), Some(0x8003));
        assert_eq!(first_address(&MESSAGE), Some(0x8003));
        assert_eq!(first_address(&MESSAGE[..23]), None);
        let mut bad = MESSAGE;
        bad[4..8].fill(0xff);
        assert_eq!(first_address(&bad), None, "no byte order makes sense of it");
    }

    #[test]
    fn golden_message() {
        assert_eq!(message_bytes(MESSAGE.first_chunk().unwrap()), Ok(88));
        let queue = Queue::new_checked(&MESSAGE[..]).unwrap();
        assert_eq!((queue.size(), queue.padded_size()), (56, 56));
        let subs: Vec<_> = queue.sub_events().map(Result::unwrap).collect();
        assert_eq!(subs.len(), 2);
        let first = subs[0].header();
        assert_eq!((first.address(), first.trigger_type()), (0x8003, 13));
        assert_eq!(first.trigger(TriggerBits::TwentyFour), 0x00ff_ff00);
        assert_eq!(first.trigger(TriggerBits::Sixteen), 0xff00);
        assert_eq!(first.tag(), 0x0d);
        assert_eq!(
            subs[0].words().collect::<Vec<_>>(),
            [0x0001_c003, 0xa500_0001, 0x0001_5555]
        );
        assert!(subs[1].header().has_data_error());
        assert_eq!((subs[1].size(), subs[1].payload().len()), (16, 0));
    }

    #[test]
    fn golden_message_written() {
        let mut writer = MessageWriter::new(ByteOrder::Big);
        for sub in Queue::new_checked(&MESSAGE[..]).unwrap().sub_events() {
            let sub = sub.unwrap();
            let repr = SubEventRepr::parse(&sub.header());
            writer.push(&repr, sub.payload()).unwrap();
        }
        assert_eq!((writer.size(), writer.sub_events()), (56, 2));
        assert_eq!(writer.finish(), MESSAGE);
        assert_eq!(writer.size(), 56);
        assert_eq!(writer.finish(), MESSAGE, "finishing twice changes nothing");
    }

    #[test]
    fn a_short_message_has_a_trailer_that_overlaps() {
        let mut writer = MessageWriter::new(ByteOrder::Little);
        assert_eq!(Queue::new_checked(writer.finish()).unwrap().size(), 8);
        writer.push(&SubEventRepr::default(), &[]).unwrap();
        let queue = Queue::new_checked(writer.finish()).unwrap();
        assert_eq!((queue.size(), queue.sub_events().count()), (24, 1));
    }

    #[test]
    fn refuses_by_reason() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut message = MESSAGE.to_vec();
            change(&mut message);
            Queue::new_checked(message).unwrap_err()
        };
        let cut = refused(&|m| m.truncate(80));
        assert_eq!(
            (cut.reason(), cut),
            (
                "bad_length",
                Error::Length {
                    size: 56,
                    need: 88,
                    have: 80
                }
            )
        );
        assert_eq!(refused(&|m| m[87] ^= 1), Error::Trailer { at: 31 });
        assert_eq!(
            refused(&|m| m[4] = 1),
            Error::Decoding { word: 0x6200_0301 }
        );
        assert_eq!(
            refused(&|m| m[3] = 7),
            Error::SizeBelowHeader { size: 7, least: 8 }
        );
        assert_eq!(
            refused(&|m| m.truncate(7)),
            Error::Truncated { need: 8, have: 7 }
        );
        let far = |m: &mut Vec<u8>| (m[5], m[61]) = (4, 4);
        assert_eq!(
            refused(&far),
            Error::Alignment {
                decoding: 0x0004_0062
            }
        );
    }

    #[test]
    fn a_stripped_message_needs_no_trailer() {
        let queue = Queue::new_stripped(&MESSAGE[..56]).unwrap();
        assert_eq!(queue.sub_events().count(), 2);
        let short = Queue::new_stripped(&MESSAGE[..55]).unwrap_err();
        assert_eq!(short.reason(), "bad_length");
    }

    #[test]
    fn the_walk_ends_at_the_first_bad_sub_event() {
        let walk = |at: usize, byte: u8| {
            let mut message = MESSAGE;
            message[at] = byte;
            let queue = Queue::new_stripped(&message[..]).unwrap();
            queue
                .sub_events()
                .map(|sub| sub.map(|s| s.size()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            walk(11, 15),
            [Err(Error::SizeBelowHeader {
                size: 15,
                least: 16
            })]
        );
        assert_eq!(
            walk(43, 17),
            [
                Ok(28),
                Err(Error::Overrun {
                    offset: 40,
                    size: 17,
                    room: 16
                })
            ]
        );
        assert_eq!(
            walk(11, 40),
            [
                Ok(40),
                Err(Error::Leftover {
                    offset: 48,
                    room: 8
                })
            ]
        );
        assert_eq!(walk(8, 0xff).len(), 1);
    }
}
