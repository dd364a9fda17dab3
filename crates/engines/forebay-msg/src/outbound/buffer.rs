//! A buffer of messages.

use forebay_wire::net::{DATA_FIELDS_BYTES, HEAD_BYTES};
use forebay_wire::netio3::BufferState;

/// In front of a buffer's messages.
pub(super) const FRONT_BYTES: usize = HEAD_BYTES + DATA_FIELDS_BYTES;

/// Memory of a buffer: plain bytes, or memory of which something that moves bytes knows more.
pub trait Memory: AsRef<[u8]> + AsMut<[u8]> {}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Memory for M {}

/// A buffer of messages, with room for its frame's head in front.
#[derive(Debug)]
pub(super) struct Buffer<M> {
    /// None while a link has it.
    pub(super) memory: Option<M>,
    /// Nothing of it is needed any more, but for its memory to come back.
    pub(super) is_done: bool,
    pub(super) state: BufferState,
    pub(super) payload_bytes: u64,
    /// Messages and bytes of payload that were put in, and are held until the link takes them: counted as they come, beside what the frame says of itself.
    pub(super) put: [u64; 2],
    pub(super) opened_ns: u64,
    /// The payload of its only message lies elsewhere.
    pub(super) lent: Option<u64>,
}

impl<M> Buffer<M> {
    /// Bytes of the frame that lie here.
    pub(super) fn own_bytes(&self) -> usize {
        let elsewhere = self.lent.map_or(0, |_| self.payload_bytes as usize);
        FRONT_BYTES + self.state.len - elsewhere
    }
}
