//! What a receiver is given.

use forebay_link::bytes::Apart;
use forebay_wire::netio3::Message;

use crate::end_point::PeerId;

/// A message, and the peer that it is from.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// The connection.
    pub peer: PeerId,
    /// The message.
    pub message: Message<'a>,
}

/// Bytes of a message, where they lie.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// In this process.
    Here(&'a [u8]),
    /// In the sender's memory, for reading: not a byte was copied. A sender that breaks its word may change it meanwhile.
    Apart(Apart<'a>),
}

impl Payload<'_> {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Apart(apart) => apart.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message where it lies, and the peer that it is from.
#[derive(Clone, Copy, Debug)]
pub struct Viewed<'a> {
    /// The connection.
    pub peer: PeerId,
    /// Whose it is.
    pub tag: u64,
    /// What its source says of it; 0 is good.
    pub status: u8,
    /// Its bytes.
    pub payload: Payload<'a>,
}

/// The copy of what lies in a sender's memory, for callers that want bytes of their own.
#[derive(Debug, Default)]
pub(super) struct ApartCopier {
    bytes: Vec<u8>,
}

impl ApartCopier {
    /// Hands the message on as bytes.
    #[inline]
    pub(super) fn deliver(&mut self, viewed: Viewed<'_>, on: &mut impl FnMut(Delivered<'_>)) {
        let payload = match viewed.payload {
            Payload::Here(bytes) => bytes,
            Payload::Apart(apart) => {
                self.bytes.clear();
                apart.copy_to(&mut self.bytes);
                &self.bytes
            }
        };
        on(Delivered {
            peer: viewed.peer,
            message: Message {
                tag: viewed.tag,
                status: viewed.status,
                payload,
            },
        });
    }
}
