//! The begin of what one side of a TCP connection says.

use forebay_wire::packet::tcp::{ACK, SYN, Segment};

use super::pieces::{NO_BUFFER, PIECES_BYTES, Pool};
use super::{Seen, Way};

/// Where a stream begins, and the buffer that its pieces are in if it needs one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Number of its first byte, with the way of its packets; none before it is known.
    at: Option<(u32, Way)>,
    buffer: u16,
}

/// What a packet brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// Nothing.
    Nothing,
    /// The begin of the stream, as far as it is there.
    Bytes(&'a [u8]),
    /// It is none of those that are looked for.
    Other,
    /// There is no buffer for it.
    NoRoom,
}

impl Begin {
    pub(super) const UNKNOWN: Self = Self {
        at: None,
        buffer: NO_BUFFER,
    };

    /// Which way the stream goes.
    pub(super) fn way(&self) -> Option<Way> {
        self.at.map(|(_, way)| way)
    }

    /// Whether nothing is kept of it.
    pub(super) const fn is_alone(&self) -> bool {
        self.buffer == NO_BUFFER
    }

    /// Takes a packet. A stream of which no SYN was seen begins with the first bytes that look like its begin.
    pub(super) fn next<'a>(
        &mut self,
        pool: &'a mut Pool,
        seen: &Seen<'a>,
        is_begin: impl Fn(&[u8]) -> bool,
    ) -> Next<'a> {
        let payload = seen.payload();
        let Ok(segment) = Segment::new_checked(seen.packet.header) else {
            return Next::Nothing;
        };
        if segment.flags() & (SYN | ACK) == SYN {
            // What came before is of another stream.
            pool.give_back(&mut self.buffer);
            self.at = Some((segment.sequence().wrapping_add(1), seen.way));
            return Next::Nothing;
        }
        if payload.is_empty() {
            return Next::Nothing;
        }
        let offset = match self.at {
            Some((begin, way)) if way == seen.way => segment.sequence().wrapping_sub(begin),
            _ if is_begin(payload) => {
                pool.give_back(&mut self.buffer);
                self.at = Some((segment.sequence(), seen.way));
                0
            }
            _ => return Next::Other,
        };
        self.piece(pool, offset, payload, is_begin)
    }

    fn piece<'a>(
        &mut self,
        pool: &'a mut Pool,
        offset: u32,
        payload: &'a [u8],
        is_begin: impl Fn(&[u8]) -> bool,
    ) -> Next<'a> {
        if offset == 0 && !is_begin(payload) {
            return Next::Other;
        }
        // From before the begin, as what keeps a connection alive.
        if offset > u32::MAX / 2 {
            return Next::Nothing;
        }
        if offset as usize >= PIECES_BYTES {
            return Next::Other;
        }
        if offset == 0 && self.buffer == NO_BUFFER {
            return Next::Bytes(payload);
        }
        match pool.put(&mut self.buffer, offset as usize, payload) {
            Some(bytes) => Next::Bytes(bytes),
            None => Next::NoRoom,
        }
    }

    /// Keeps the begin, which was in one packet so far, for what comes; whether there is room.
    pub(super) fn keep(&mut self, pool: &mut Pool, seen: &Seen<'_>) -> bool {
        self.buffer != NO_BUFFER || pool.put(&mut self.buffer, 0, seen.payload()).is_some()
    }

    /// Gives back its buffer.
    pub(super) fn forget(&mut self, pool: &mut Pool) {
        pool.give_back(&mut self.buffer);
    }
}
