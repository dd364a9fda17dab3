//! Buffers as they are filled.

use super::{HEADER_BYTES, Head, PAYLOAD_BYTES_MAX};

/// Fills a buffer with messages.
#[derive(Debug)]
pub struct BufferWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
    messages: u32,
    previous: Option<u64>,
}

impl<'a> BufferWriter<'a> {
    /// An empty buffer in this memory.
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self {
            buffer,
            len: 0,
            messages: 0,
            previous: None,
        }
    }

    /// Goes on where a writer of the same memory stopped: what [`into_state`](Self::into_state) gave.
    #[inline]
    #[must_use]
    pub fn resume(buffer: &'a mut [u8], state: BufferState) -> Self {
        Self {
            len: state.len.min(buffer.len()),
            buffer,
            messages: state.messages,
            previous: state.previous,
        }
    }

    /// Adds a message; false, and nothing done, when it does not fit or is longer than a header can say.
    #[inline]
    pub fn push(&mut self, tag: u64, status: u8, payload: &[u8]) -> bool {
        let Some(place) = self.reserve(tag, status, payload.len()) else {
            return false;
        };
        place.copy_from_slice(payload);
        true
    }

    /// Adds a message whose payload is yet to be written: its place; none, and nothing done, when it does not fit.
    #[inline]
    pub fn reserve(&mut self, tag: u64, status: u8, payload_bytes: usize) -> Option<&mut [u8]> {
        if self.previous != Some(tag) || status != 0 || payload_bytes > PAYLOAD_BYTES_MAX {
            return self.reserve_marked(tag, status, payload_bytes);
        }
        // Most of them: nothing but the header, which says nothing but the size.
        let end = self.len.checked_add(HEADER_BYTES + payload_bytes)?;
        let place = self.buffer.get_mut(self.len..end)?;
        let (front, payload) = place.split_at_mut(HEADER_BYTES);
        front.copy_from_slice(&(payload_bytes as u32).to_le_bytes());
        self.len = end;
        self.messages += 1;
        Some(payload)
    }

    /// The same with a head that says more.
    #[inline(never)]
    fn reserve_marked(&mut self, tag: u64, status: u8, payload_bytes: usize) -> Option<&mut [u8]> {
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return None;
        }
        let head = Head::emit(self.previous, tag, status, payload_bytes);
        let head = head.as_bytes();
        let payload_at = self.len + head.len();
        let end = payload_at.checked_add(payload_bytes)?;
        let place = self.buffer.get_mut(self.len..end)?;
        let (front, payload) = place.split_at_mut(head.len());
        front.copy_from_slice(head);
        self.len = end;
        self.messages += 1;
        self.previous = Some(tag);
        Some(payload)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where to go on.
    #[inline]
    #[must_use]
    pub fn into_state(self) -> BufferState {
        BufferState {
            len: self.len,
            messages: self.messages,
            previous: self.previous,
        }
    }
}

/// How far a buffer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferState {
    /// Bytes.
    pub len: usize,
    /// Messages.
    pub messages: u32,
    /// Tag of the last one.
    pub previous: Option<u64>,
}
