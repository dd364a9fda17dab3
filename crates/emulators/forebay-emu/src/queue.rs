//! A message under construction: a HADTU queue, its sub-events written in place, its trailer.

use forebay_wire::hadtu::{ByteOrder, UNIT_HEADER_BYTES, UnitHeader};
use forebay_wire::hadtu::{PADDING, QUEUE_DECODING_TRB, TRAILER_BYTES};

/// A closed message inside a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) subevents: u32,
    pub(crate) subevent_bytes: u64,
    /// The trigger of its last sub-event.
    pub(crate) last_index: u64,
}

/// A buffer with closed messages that wait to be sent, then at most one open message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    subevents: u32,
    subevent_bytes: u64,
    opened_ns: u64,
    last_index: u64,
}

impl Queue {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: vec![0; bytes],
            ..Self::default()
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) fn bytes_mut(&mut self, message: Message) -> &mut [u8] {
        &mut self.buffer[message.start..message.start + message.bytes]
    }

    /// Whether a message is under construction.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.subevents > 0
    }

    /// Sub-events of the open message and their bytes.
    pub(crate) fn held(&self) -> (u64, u64) {
        (u64::from(self.subevents), self.subevent_bytes)
    }

    /// When the open message was begun.
    pub(crate) fn opened_ns(&self) -> Option<u64> {
        self.is_open().then_some(self.opened_ns)
    }

    /// Size of the queue if `padded` bytes more were in it.
    #[inline]
    pub(crate) fn size_with(&self, padded: usize) -> usize {
        self.end - self.start + padded
    }

    /// Whether a message of up to `bytes` can be begun behind the closed ones.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes <= self.buffer.len()
    }

    /// Begins at the front of the buffer again; only when no closed message waits in it.
    pub(crate) fn rewind(&mut self) {
        if !self.is_open() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Space for a sub-event of `bytes` (a multiple of 4), its padding already written.
    #[inline]
    pub(crate) fn append(&mut self, bytes: u32, index: u64, now_ns: u64) -> &mut [u8] {
        if self.subevents == 0 {
            self.end = self.start + UNIT_HEADER_BYTES;
            self.opened_ns = now_ns;
        }
        let at = self.end;
        let stop = at + bytes as usize;
        self.end = stop.next_multiple_of(8);
        if self.end != stop {
            self.buffer[stop..stop + 4].fill(PADDING);
        }
        self.subevents += 1;
        self.subevent_bytes += u64::from(bytes);
        self.last_index = index;
        &mut self.buffer[at..stop]
    }

    /// Writes header and trailer; a new message can then be begun behind.
    #[inline]
    pub(crate) fn close(&mut self, order: ByteOrder) -> Message {
        let (start, size) = (self.start, self.end - self.start);
        let header = UnitHeader {
            size: size as u32,
            decoding: QUEUE_DECODING_TRB,
            order,
        };
        if let Some(head) = self.buffer[start..].first_chunk_mut() {
            header.emit(head);
        }
        self.write_trailer();
        let message = Message {
            start,
            bytes: size + TRAILER_BYTES,
            subevents: self.subevents,
            subevent_bytes: self.subevent_bytes,
            last_index: self.last_index,
        };
        self.end += TRAILER_BYTES;
        self.start = self.end;
        (self.subevents, self.subevent_bytes) = (0, 0);
        message
    }

    /// The trailer repeats the first 32 bytes *sent*: a message of 24 bytes (one header-only
    /// sub-event) runs into its own trailer.
    fn write_trailer(&mut self) {
        let (start, end) = (self.start, self.end);
        let first = TRAILER_BYTES.min(end - start);
        self.buffer.copy_within(start..start + first, end);
        self.buffer
            .copy_within(start..start + TRAILER_BYTES - first, end + first);
    }

    /// Forgets the open message; says how many sub-events and bytes were in it.
    pub(crate) fn discard_open(&mut self) -> (u64, u64) {
        let held = self.held();
        self.end = self.start;
        (self.subevents, self.subevent_bytes) = (0, 0);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(sizes: &[u32]) -> Vec<u8> {
        let mut queue = Queue::with_capacity(4096);
        for (i, &bytes) in sizes.iter().enumerate() {
            queue.append(bytes, i as u64, 0).fill(i as u8 + 1);
        }
        let message = queue.close(ByteOrder::Big);
        queue.bytes_mut(message).to_vec()
    }

    #[test]
    fn golden_frame() {
        let got = message_of(&[20, 24]);
        let mut want = vec![0, 0, 0, 56, 0, 3, 0, 0x62];
        want.extend([1; 20]);
        want.extend([0xaa; 4]);
        want.extend([2; 24]);
        want.extend_from_within(..32);
        assert_eq!(got, want);
    }

    #[test]
    fn trailer_of_a_message_shorter_than_itself() {
        let got = message_of(&[16]);
        assert_eq!(got.len(), 24 + 32);
        assert_eq!(got[24..56], got[..32]);
    }

    #[test]
    fn messages_follow_each_other_and_rewind_waits_for_the_open_one() {
        let mut queue = Queue::with_capacity(200);
        queue.append(16, 0, 0).fill(1);
        let first = queue.close(ByteOrder::Little);
        assert!(queue.has_room(144) && !queue.has_room(145));
        queue.append(24, 1, 7).fill(2);
        assert_eq!(queue.opened_ns(), Some(7));
        queue.rewind();
        let second = queue.close(ByteOrder::Little);
        assert_eq!((first.start, first.bytes, second.start), (0, 56, 56));
        queue.rewind();
        assert!(queue.has_room(200));
    }

    #[test]
    fn discarding_says_what_was_held() {
        let mut queue = Queue::with_capacity(200);
        queue.append(20, 0, 0);
        queue.append(24, 1, 0);
        assert_eq!(queue.discard_open(), (2, 44));
        assert!(!queue.is_open());
    }
}
