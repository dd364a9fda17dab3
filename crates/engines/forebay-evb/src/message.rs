//! The receiving side: datagrams to HADTU messages, each bad one refused by name.
//!
//! A message is one datagram, or several: a datagram of exactly [`MTU_BYTES`] may be continued, as the
//! classic `nettrans` transport does it. The size field of the message decides, so that a message whose
//! last datagram happens to be full ends where it should, and a lost piece costs its own message only.

use forebay_wire::Error;
use forebay_wire::hadtu::{
    ALIGNMENT_BYTES, MTU_BYTES, TRAILER_BYTES, UNIT_HEADER_BYTES, UnitHeader, alignment_bytes,
    message_bytes,
};

use crate::numbers::Dropped;
use crate::refused::Refused;
use crate::reject::Reject;
use crate::walk::walk;

/// A message that is complete and true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Bytes of queue header and good sub-events: what is worth keeping of the buffer.
    pub kept_bytes: u32,
    /// Good sub-events.
    pub items: u32,
    /// Bytes behind the last good sub-event that are none; 0 as a rule.
    pub broken_bytes: u32,
    /// Datagrams it came in.
    pub datagrams: u32,
    /// Bytes it came in, trailer included.
    pub message_bytes: u32,
}

/// Datagrams that make no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: Reject,
    /// How many datagrams.
    pub datagrams: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Sub-events of a message that ends with them, as far as they are known: of one with a false trailer, and of one that was refused whole, with the last
    /// of its pieces.
    pub dropped: Dropped,
    /// The last datagram is not among them: it starts at this offset of the buffer and may begin a message.
    /// Move it to the front and hand it in again.
    pub retry_at: Option<usize>,
}

/// What one more datagram came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The message is complete.
    Complete(Accepted),
    /// It goes on with the next datagram, to be received behind this one.
    More,
    /// It is none.
    Rejected(Rejected),
}

/// State of one source's message between datagrams.
#[derive(Debug, Clone)]
pub struct MessageCheck {
    message_bytes_max: u32,
    have: usize,
    datagrams: u32,
    /// A message that was refused and is not over yet.
    refused: Option<Refused>,
}

impl MessageCheck {
    /// A check that refuses messages of more than `message_bytes_max`.
    #[must_use]
    pub fn new(message_bytes_max: u32) -> Self {
        Self {
            message_bytes_max,
            have: 0,
            datagrams: 0,
            refused: None,
        }
    }

    /// Bytes and datagrams of the unfinished message: where the next datagram goes, and what is held.
    #[must_use]
    pub fn unfinished(&self) -> (usize, u32) {
        (self.have, self.datagrams)
    }

    /// Whether a datagram may go on with the unfinished message.
    #[must_use]
    pub fn may_continue(&self, datagram: &[u8]) -> bool {
        self.datagrams > 0 && !begins_message(datagram)
    }

    /// Whether a datagram may go on with a message that was refused and is not over.
    #[must_use]
    pub fn may_continue_refused(&self, datagram: &[u8]) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|refused| goes_on(refused, datagram))
    }

    /// Goes on with an unfinished message after a restart.
    pub fn resume(&mut self, have: usize, datagrams: u32) {
        (self.have, self.datagrams) = (have, datagrams);
    }

    /// Gives the unfinished message up, at the end of a run.
    pub fn abandon(&mut self) -> Option<Rejected> {
        let pending = self.datagrams > 0;
        let rejected = self.reject(
            Reject::FragmentMissing,
            self.datagrams,
            self.have as u64,
            None,
        );
        pending.then_some(rejected)
    }

    /// Takes one datagram of `len` bytes, received behind those of the unfinished message: `buffer` begins with the message.
    pub fn handle_datagram(&mut self, buffer: &[u8], len: usize) -> Step {
        let total = self.have + len;
        let Some(bytes) = buffer.get(..total) else {
            return Step::Rejected(self.reject(
                Reject::Truncated,
                self.datagrams + 1,
                total as u64,
                None,
            ));
        };
        if let Some(rejected) = self.rest_of_refused(bytes) {
            return Step::Rejected(rejected);
        }
        let need = match needed_bytes(bytes) {
            Ok(need) => need,
            Err(reason) => return Step::Rejected(self.reject(reason, 1, len as u64, None)),
        };
        if need > u64::from(self.message_bytes_max) {
            self.datagrams += 1;
            return Step::Rejected(self.refuse_front(Reject::TooLong, need, bytes));
        }
        if need == total as u64 {
            return self.complete(bytes, len);
        }
        if len == MTU_BYTES && total as u64 <= need {
            self.have = total;
            self.datagrams += 1;
            return Step::More;
        }
        Step::Rejected(self.mismatch(len))
    }

    /// Refuses the unfinished message, which is `front`, as there is no room for more of it. What is still to come of it has the same reason.
    pub fn refuse(&mut self, front: &[u8]) -> Rejected {
        let need = needed_bytes(front).unwrap_or_default();
        self.refuse_front(Reject::RingFull, need, front)
    }

    /// `front` are the pieces of a message of `need` bytes that came, as many datagrams as are unfinished.
    fn refuse_front(&mut self, reason: Reject, need: u64, front: &[u8]) -> Rejected {
        let came = front.len() as u64;
        // Only a full datagram is continued.
        let is_continued = need > came && came > 0 && front.len().is_multiple_of(MTU_BYTES);
        let mut dropped = Dropped::default();
        if is_continued || need == came {
            let mut refused = Refused::new(reason, need);
            dropped = refused.take(front);
            self.refused = is_continued.then_some(refused);
        }
        let rejected = self.reject(reason, self.datagrams, came, None);
        Rejected {
            dropped,
            ..rejected
        }
    }

    /// A datagram that goes on with the message that was refused before. Anything else ends that message.
    fn rest_of_refused(&mut self, datagram: &[u8]) -> Option<Rejected> {
        if self.have > 0 {
            return None;
        }
        let refused = self.refused.take();
        let mut refused = refused.filter(|refused| goes_on(refused, datagram))?;
        let dropped = refused.take(datagram);
        let rejected = self.reject(refused.reason(), 1, datagram.len() as u64, None);
        self.refused = (refused.due_bytes() > 0).then_some(refused);
        Some(Rejected {
            dropped,
            ..rejected
        })
    }

    /// The datagram does not continue the message, or its length is not its own.
    fn mismatch(&mut self, len: usize) -> Rejected {
        if self.datagrams == 0 {
            return self.reject(Reject::BadLength, 1, len as u64, None);
        }
        let (have, datagrams) = (self.have, self.datagrams);
        self.reject(Reject::FragmentMissing, datagrams, have as u64, Some(have))
    }

    fn complete(&mut self, bytes: &[u8], len: usize) -> Step {
        let datagrams = self.datagrams + 1;
        if !trailer_matches(bytes) {
            return Step::Rejected(self.bad_trailer(bytes, len));
        }
        self.have = 0;
        self.datagrams = 0;
        let body_end = bytes.len() - TRAILER_BYTES;
        let body = bytes.get(UNIT_HEADER_BYTES..body_end).unwrap_or_default();
        let (items, good_bytes) = walk(body);
        Step::Complete(Accepted {
            kept_bytes: (UNIT_HEADER_BYTES + good_bytes) as u32,
            items,
            broken_bytes: (body.len() - good_bytes) as u32,
            datagrams,
            message_bytes: bytes.len() as u32,
        })
    }

    /// A false trailer after several datagrams: one was lost and the last may be a message of its own.
    fn bad_trailer(&mut self, bytes: &[u8], len: usize) -> Rejected {
        let (have, datagrams) = (self.have, self.datagrams);
        let last = bytes.get(bytes.len() - len..).unwrap_or_default();
        let alone = needed_bytes(last) == Ok(len as u64) && trailer_matches(last);
        if datagrams > 0 && alone {
            return self.reject(Reject::FragmentMissing, datagrams, have as u64, Some(have));
        }
        let body = bytes.get(UNIT_HEADER_BYTES..bytes.len() - TRAILER_BYTES);
        let dropped = Dropped::of(body.unwrap_or_default());
        let rejected = self.reject(Reject::BadTrailer, datagrams + 1, bytes.len() as u64, None);
        Rejected {
            dropped,
            ..rejected
        }
    }

    fn reject(
        &mut self,
        reason: Reject,
        datagrams: u32,
        bytes: u64,
        retry_at: Option<usize>,
    ) -> Rejected {
        self.have = 0;
        self.datagrams = 0;
        Rejected {
            reason,
            datagrams,
            bytes,
            dropped: Dropped::default(),
            retry_at,
        }
    }
}

/// Bytes that the message at the front of `bytes` takes with its trailer.
fn needed_bytes(bytes: &[u8]) -> Result<u64, Reject> {
    let head = bytes.first_chunk().ok_or(Reject::Short)?;
    let need = message_bytes(head).map_err(|_: Error| Reject::BadHeader)?;
    let unit = UnitHeader::parse(head).map_err(|_: Error| Reject::BadHeader)?;
    if alignment_bytes(unit.decoding) != Some(ALIGNMENT_BYTES) {
        return Err(Reject::BadAlignment);
    }
    Ok(need)
}

/// Whether a datagram goes on with a refused message: it has the length that is to come, and begins no message itself.
fn goes_on(refused: &Refused, datagram: &[u8]) -> bool {
    datagram.len() as u64 == refused.due_bytes() && !begins_message(datagram)
}

/// Whether a datagram is a message, or the first piece of one.
fn begins_message(datagram: &[u8]) -> bool {
    needed_bytes(datagram).is_ok_and(|need| {
        need > MTU_BYTES as u64 || (need == datagram.len() as u64 && trailer_matches(datagram))
    })
}

fn trailer_matches(message: &[u8]) -> bool {
    match (
        message.first_chunk::<TRAILER_BYTES>(),
        message.last_chunk::<TRAILER_BYTES>(),
    ) {
        (Some(head), Some(trailer)) => head == trailer,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
