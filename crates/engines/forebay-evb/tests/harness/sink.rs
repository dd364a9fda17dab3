//! Where the tests let events go: bounded room, and a length that counts as safe.

use forebay_evb::{EventMeta, Output, Slot};

#[derive(Debug, Default)]
pub(crate) struct Sink {
    room_bytes: usize,
    /// Bytes since the last drain; the room is full when they reach it.
    used: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) events: Vec<EventMeta>,
    /// Bytes and events that survive the builder's death.
    safe: (usize, usize),
    reserved: usize,
    /// How often there was no room.
    pub(crate) refused: u64,
}

impl Sink {
    pub(crate) fn new(room_bytes: usize) -> Self {
        Self {
            room_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn set_room(&mut self, room_bytes: usize) {
        self.room_bytes = room_bytes;
    }

    pub(crate) fn drain(&mut self) {
        self.used = 0;
    }

    pub(crate) fn commit_all(&mut self) {
        self.safe = (self.bytes.len(), self.events.len());
    }

    pub(crate) fn roll_back(&mut self) {
        self.bytes.truncate(self.safe.0);
        self.events.truncate(self.safe.1);
    }
}

impl Output for Sink {
    fn reserve(&mut self, bytes: usize) -> Option<Slot<'_>> {
        if self.used > 0 && self.used + bytes > self.room_bytes {
            self.refused += 1;
            return None;
        }
        self.reserved = bytes;
        let start = self.bytes.len();
        // Rubbish, so that a byte that the engine leaves out shows.
        self.bytes.resize(start + bytes, 0xee);
        let bytes = &mut self.bytes[start..];
        Some(Slot {
            bytes,
            run: 7,
            unix_s: 1_795_289_046,
        })
    }

    fn commit(&mut self, event: &EventMeta) {
        assert_eq!(event.bytes as usize, self.reserved);
        self.used += self.reserved;
        self.events.push(*event);
    }
}
