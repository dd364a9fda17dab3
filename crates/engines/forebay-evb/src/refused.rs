//! A message that is refused while its pieces come: looked through, and not kept.

use forebay_wire::hadtu::{MTU_BYTES, TRAILER_BYTES, UNIT_HEADER_BYTES};
use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventHeader};

use crate::head::padded;
use crate::numbers::Dropped;
use crate::reject::Reject;

/// Half of a sub-event's header, which is never cut.
type Half = [u8; UNIT_HEADER_BYTES];

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
    /// First half of a header, when the second one is in the next piece.
    half: Option<Half>,
    dropped: Dropped,
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
            half: None,
            dropped: Dropped::default(),
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
    /// behind them, when this was the last piece and the trailer is true; none before.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Dropped {
        let from = self.came;
        if let (0, Some(head)) = (from, piece.first_chunk()) {
            self.head = *head;
        }
        self.came += piece.len() as u64;
        if let Some(half) = self.half.take() {
            self.note(half, piece.first_chunk());
        }
        let end = self.bytes - TRAILER_BYTES as u64;
        while self.next < self.came && self.next < end {
            let rest = usize::try_from(self.next - from)
                .ok()
                .and_then(|at| piece.get(at..));
            // Less than half of a header came: it is no sub-event, or the last piece was not as long as was due.
            let half = rest.and_then(<[u8]>::first_chunk);
            let Some((half, behind)) = half.and_then(|half| Some((half, self.behind(half, end)?)))
            else {
                self.dropped.add_unnumbered(1);
                self.next = end;
                break;
            };
            self.next = behind;
            match rest.and_then(|rest| rest[UNIT_HEADER_BYTES..].first_chunk()) {
                None if self.came < self.bytes => self.half = Some(*half),
                second => self.note(*half, second),
            }
        }
        let is_whole = self.came == self.bytes && piece.last_chunk() == Some(&self.head);
        if is_whole {
            std::mem::take(&mut self.dropped)
        } else {
            Dropped::default()
        }
    }

    /// Counts the sub-event with these halves of a header.
    fn note(&mut self, first: Half, second: Option<&Half>) {
        match second.and_then(|second| joined(first, *second)) {
            Some(header) => self.dropped.add(&header),
            None => self.dropped.add_unnumbered(1),
        }
    }

    /// Where the sub-event with this first half of a header ends; `None` when it cannot be true.
    fn behind(&self, head: &Half, end: u64) -> Option<u64> {
        let header = joined(*head, [0; UNIT_HEADER_BYTES])?;
        let behind = self.next + u64::from(padded(header.size));
        (behind <= end).then_some(behind)
    }
}

/// A header of these halves; `None` when it cannot be true, which the first one shows.
fn joined(first: Half, second: Half) -> Option<SubEventHeader> {
    let mut whole = [0; SUB_EVENT_HEADER_BYTES];
    whole[..UNIT_HEADER_BYTES].copy_from_slice(&first);
    whole[UNIT_HEADER_BYTES..].copy_from_slice(&second);
    SubEventHeader::parse(&whole).ok()
}
