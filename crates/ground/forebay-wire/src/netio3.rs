//! Messages inside a buffer, in netio3's published layout.
//!
//! ```text
//! header u32 | status u8, unless 0 | tag u64, unless as before | payload
//!    31 tag present   30 status present   29..0 bytes of payload
//! ```
//!
//! All numbers are little-endian, nothing is padded. Each buffer stands alone: its first message carries its tag, and no
//! message goes on in the next buffer. The tag is the 64-bit FELIX id. Byte order and the last sentence are not written down in
//! netio3's public documentation; what is above them is ("data structures" of netio3).

mod writer;

use core::fmt;
use core::iter::FusedIterator;

use thiserror::Error;

pub use writer::{BufferState, BufferWriter};

/// Most bytes that the header can say of a payload.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 30) - 1;
/// Most bytes in front of a payload: header, status and tag.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + STATUS_BYTES + TAG_BYTES;

/// Least bytes of a message in a buffer.
pub const HEADER_BYTES: usize = 4;
const STATUS_BYTES: usize = 1;
const TAG_BYTES: usize = 8;
const HAS_TAG: u32 = 1 << 31;
const HAS_STATUS: u32 = 1 << 30;
const SIZE: u32 = HAS_STATUS - 1;

/// One message of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Whose it is.
    pub tag: u64,
    /// What its source says of it; 0 is good.
    pub status: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What makes bytes no buffer of messages. The messages before it are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BufferError {
    /// The buffer ends within what stands in front of a payload.
    #[error("the head of the message at {at} is cut: {have} of {need} bytes")]
    HeadCut {
        /// Where the message begins.
        at: usize,
        /// Bytes that there are.
        have: usize,
        /// Bytes that the head takes.
        need: usize,
    },
    /// The buffer ends within a payload.
    #[error("the payload of the message at {at} is cut: {have} of {need} bytes")]
    PayloadCut {
        /// Where the message begins.
        at: usize,
        /// Bytes that there are.
        have: usize,
        /// Bytes that the header says.
        need: usize,
    },
    /// The first message of a buffer without a tag.
    #[error("the first message carries no tag")]
    NoTag,
}

impl BufferError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::HeadCut { .. } => "head_cut",
            Self::PayloadCut { .. } => "payload_cut",
            Self::NoTag => "no_tag",
        }
    }
}

/// What stands in front of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Head {
    /// The head of a message of `payload_bytes`. `previous` is the tag of the message before it in the buffer.
    ///
    /// # Panics
    /// When `payload_bytes` is above [`PAYLOAD_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub fn emit(previous: Option<u64>, tag: u64, status: u8, payload_bytes: usize) -> Self {
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "no such message");
        let mut header = payload_bytes as u32;
        let mut bytes = [0; HEAD_BYTES_MAX];
        let mut len = HEADER_BYTES;
        if status != 0 {
            header |= HAS_STATUS;
            bytes[len] = status;
            len += STATUS_BYTES;
        }
        if previous != Some(tag) {
            header |= HAS_TAG;
            bytes[len..len + TAG_BYTES].copy_from_slice(&tag.to_le_bytes());
            len += TAG_BYTES;
        }
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Bytes that a message takes in a buffer.
#[inline]
#[must_use]
pub const fn message_bytes(
    previous: Option<u64>,
    tag: u64,
    status: u8,
    payload_bytes: usize,
) -> usize {
    let has_tag = match previous {
        Some(previous) => previous != tag,
        None => true,
    };
    let status = if status != 0 { STATUS_BYTES } else { 0 };
    let tag = if has_tag { TAG_BYTES } else { 0 };
    HEADER_BYTES + status + tag + payload_bytes
}

/// The messages of a buffer. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    at: usize,
    previous: Option<u64>,
}

impl<'a> Messages<'a> {
    /// Reads from `buffer`.
    #[must_use]
    pub fn new(buffer: &'a [u8]) -> Self {
        Self {
            rest: buffer,
            at: 0,
            previous: None,
        }
    }

    /// Takes the message at the front.
    #[inline]
    fn parse(&mut self) -> Result<Message<'a>, BufferError> {
        let head = HeadFields::parse(self.rest, self.at, self.previous)?;
        let rest = &self.rest[head.head_bytes..];
        let Some((payload, rest)) = rest.split_at_checked(head.payload_bytes) else {
            return Err(BufferError::PayloadCut {
                at: self.at,
                have: rest.len(),
                need: head.payload_bytes,
            });
        };
        self.rest = rest;
        self.at += head.head_bytes + head.payload_bytes;
        self.previous = Some(head.tag);
        Ok(Message {
            tag: head.tag,
            status: head.status,
            payload,
        })
    }
}

/// What the head of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadFields {
    /// Whose it is.
    pub tag: u64,
    /// What its source says of it.
    pub status: u8,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// Bytes of the head itself.
    pub head_bytes: usize,
}

impl HeadFields {
    /// Reads the head at the front of a buffer's first message, whose payload may lie elsewhere.
    ///
    /// # Errors
    /// It is cut, or has no tag.
    pub fn first(bytes: &[u8]) -> Result<Self, BufferError> {
        Self::parse(bytes, 0, None)
    }

    /// Reads the head at the front of `bytes`, which lie at `at` in their buffer.
    #[inline]
    fn parse(bytes: &[u8], at: usize, previous: Option<u64>) -> Result<Self, BufferError> {
        let head_cut = |need| BufferError::HeadCut {
            at,
            have: bytes.len(),
            need,
        };
        let Some((header, mut rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(head_cut(HEADER_BYTES));
        };
        let header = u32::from_le_bytes(*header);
        let mut head_bytes = HEADER_BYTES;
        let mut status = 0;
        if header & HAS_STATUS != 0 {
            head_bytes += STATUS_BYTES;
            let Some((first, more)) = rest.split_first() else {
                return Err(head_cut(head_bytes));
            };
            (status, rest) = (*first, more);
        }
        let tag = if header & HAS_TAG != 0 {
            head_bytes += TAG_BYTES;
            let Some(tag) = rest.first_chunk::<TAG_BYTES>() else {
                return Err(head_cut(head_bytes));
            };
            u64::from_le_bytes(*tag)
        } else {
            previous.ok_or(BufferError::NoTag)?
        };
        Ok(Self {
            tag,
            status,
            payload_bytes: (header & SIZE) as usize,
            head_bytes,
        })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, BufferError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.parse();
        if message.is_err() {
            self.rest = &[];
        }
        Some(message)
    }
}

impl FusedIterator for Messages<'_> {}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tag {:#018x} status {} {} bytes",
            self.tag,
            self.status,
            self.payload.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    #[rustfmt::skip]
    const GOLDEN: &[u8] = &[
        0x03, 0, 0, 0x80,  0x0d, 0x0c, 0x0b, 0x0a, 4, 3, 2, 1,  b'a', b'b', b'c', // the first one carries its tag
        0x02, 0, 0, 0x40,  0x05,  b'd', b'e',                                     // the same tag, status 5
        0x00, 0, 0, 0xc0,  0x01,  9, 0, 0, 0, 0, 0, 0, 0,                         // another tag, status 1, empty
        0x01, 0, 0, 0x00,  b'f',                                                  // that tag again
    ];
    const TAG: u64 = 0x0102_0304_0a0b_0c0d;

    fn messages() -> [(u64, u8, &'static [u8]); 4] {
        [(TAG, 0, b"abc"), (TAG, 5, b"de"), (9, 1, b""), (9, 0, b"f")]
    }

    #[test]
    fn golden_buffer() {
        let mut memory = vec![0; GOLDEN.len()];
        let mut writer = BufferWriter::new(&mut memory);
        for (tag, status, payload) in messages() {
            assert!(writer.push(tag, status, payload));
        }
        assert!(!writer.push(9, 0, b""), "there is no room for a header");
        let state = writer.into_state();
        assert_eq!(
            (state.len, state.messages, state.previous),
            (GOLDEN.len(), 4, Some(9))
        );
        assert_eq!(memory, GOLDEN);
        let read: Vec<_> = Messages::new(GOLDEN).map(Result::unwrap).collect();
        let wanted = messages().map(|(tag, status, payload)| Message {
            tag,
            status,
            payload,
        });
        assert_eq!(read, wanted);
        assert_eq!(
            format!("{}", read[1]),
            "tag 0x010203040a0b0c0d status 5 2 bytes"
        );
    }

    #[test]
    fn a_cut_has_its_name_and_costs_what_is_behind_it_only() {
        for cut in 0..GOLDEN.len() {
            let read: Vec<_> = Messages::new(&GOLDEN[..cut]).collect();
            let good = read.iter().filter(|message| message.is_ok()).count();
            let ends = [0, 15, 22, 35, 40];
            assert_eq!(good, ends.iter().rposition(|end| *end <= cut).unwrap());
            assert_eq!(read.len() > good, !ends.contains(&cut), "{cut}: {read:?}");
        }
        let tagless = &GOLDEN[15..];
        assert_eq!(Messages::new(tagless).next(), Some(Err(BufferError::NoTag)));
        assert_eq!(Messages::new(tagless).count(), 1);
        let huge = [0xff, 0xff, 0xff, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0];
        let error = Messages::new(&huge).next().unwrap().unwrap_err();
        assert_eq!(error.reason(), "payload_cut");
    }

    #[test]
    fn a_writer_goes_on_where_it_stopped() {
        let mut memory = vec![0; 64];
        let mut writer = BufferWriter::new(&mut memory);
        assert!(writer.is_empty() && writer.push(1, 0, b"x"));
        let state = writer.into_state();
        let mut writer = BufferWriter::resume(&mut memory, state);
        writer.reserve(1, 0, 1).unwrap()[0] = b'y';
        assert_eq!(
            writer.len(),
            message_bytes(None, 1, 0, 1) + message_bytes(Some(1), 1, 0, 1)
        );
        let read: Vec<_> = Messages::new(&memory[..18])
            .map(|m| m.unwrap().payload)
            .collect();
        assert_eq!(read, [b"x", b"y"]);
        assert_eq!(
            BufferWriter::new(&mut memory).reserve(1, 0, usize::MAX),
            None
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            messages in proptest::collection::vec((0..4_u64, 0..3_u8, proptest::collection::vec(any::<u8>(), 0..40)), 0..40),
            room in 0..900_usize,
        ) {
            let mut memory = vec![0; room];
            let mut writer = BufferWriter::new(&mut memory);
            let mut taken = Vec::new();
            for (tag, status, payload) in &messages {
                if !writer.push(*tag, *status, payload) {
                    break;
                }
                taken.push((*tag, *status, payload.as_slice()));
            }
            let len = writer.len();
            let read: Vec<_> = Messages::new(&memory[..len])
                .map(|message| message.unwrap())
                .map(|Message { tag, status, payload }| (tag, status, payload))
                .collect();
            prop_assert_eq!(read, taken);
        }

        #[test]
        fn rubbish_never_panics_and_no_message_overlaps_another(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut payload = 0;
            for message in Messages::new(&bytes).map_while(Result::ok) {
                payload += message.payload.len();
            }
            prop_assert!(payload <= bytes.len());
        }
    }
}
