//! A message that is refused while its pieces come: looked through, and not kept.

use forebay_wire::hadtu::{MTU_BYTES, TRAILER_BYTES, UNIT_HEADER_BYTES};
use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventHeader};

use crate::head::padded;
use crate::reject::Reject;

/// What is known of it from the pieces that came. All pieces but the last have [`MTU_BYTES`], a multiple of 8, and sub-events lie at multiples of 8: the
/// first half of a header, which has the size, is never cut.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    reason: Reject,
    /// Bytes of the whole message, trailer included.
    bytes: u64,
    /// Bytes that came.
    came: u64,
    /// Its first bytes, which the trailer repeats.
    head: [u8; TRAILER_BYTES],
    /// Where the next sub-event begins.
    next: u64,
    items: u32,
}

impl Refused {
    /// Refuses a message of so many bytes, of which nothing was [taken](Self::take) yet.
    pub(crate) fn new(reason: Reject, bytes: u64) -> Self {
        Self {
            reason,
            bytes,
            came: 0,
            head: [0; TRAILER_BYTES],
            next: UNIT_HEADER_BYTES as u64,
            items: 0,
        }
    }

    pub(crate) fn reason(&self) -> Reject {
        self.reason
    }

    /// Bytes of the piece that is due; 0 when all have come.
    pub(crate) fn due_bytes(&self) -> u64 {
        (self.bytes - self.came).min(MTU_BYTES as u64)
    }

    /// Takes the next bytes, as many as are due or fewer. The sub-events of the whole message, as far as one can go from one to the next and the broken one
    /// behind them, when this was the last piece and the trailer is true; 0 before.
    pub(crate) fn take(&mut self, piece: &[u8]) -> u32 {
        let from = self.came;
        if let (0, Some(head)) = (from, piece.first_chunk()) {
            self.head = *head;
        }
        self.came += piece.len() as u64;
        let end = self.bytes - TRAILER_BYTES as u64;
        while self.next < self.came && self.next < end {
            let head = usize::try_from(self.next - from)
                .ok()
                .and_then(|at| piece.get(at..)?.first_chunk());
            // Less than half of a header came: it is no sub-event, or the last piece was not as long as was due.
            self.next = head.map_or(end, |head| self.behind(head, end));
            self.items += 1;
        }
        let is_whole = self.came == self.bytes && piece.last_chunk() == Some(&self.head);
        if is_whole { self.items } else { 0 }
    }

    /// Where the sub-event with this first half of a header ends; the end of all when it cannot be true.
    fn behind(&self, head: &[u8; UNIT_HEADER_BYTES], end: u64) -> u64 {
        let mut whole = [0; SUB_EVENT_HEADER_BYTES];
        whole[..UNIT_HEADER_BYTES].copy_from_slice(head);
        match SubEventHeader::parse(&whole) {
            Ok(header) if self.next + u64::from(padded(header.size)) <= end => {
                self.next + u64::from(padded(header.size))
            }
            _ => end,
        }
    }
}
