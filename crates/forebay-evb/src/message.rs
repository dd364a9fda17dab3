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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: Reject,
    /// How many datagrams.
    pub datagrams: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Sub-events in them, as far as that is known: of a message with a false trailer alone.
    pub items: u32,
    /// The last datagram is not among them: it starts at this offset of the buffer and may begin a message.
    /// Move it to the front and hand it in again.
    pub retry_at: Option<usize>,
}

/// What one more datagram came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Bytes that are still to come of a message that was refused as too long.
    refused_rest: u64,
}

impl MessageCheck {
    /// A check that refuses messages of more than `message_bytes_max`.
    #[must_use]
    pub fn new(message_bytes_max: u32) -> Self {
        Self {
            message_bytes_max,
            have: 0,
            datagrams: 0,
            refused_rest: 0,
        }
    }

    /// Bytes and datagrams of the unfinished message: where the next datagram goes, and what is held.
    #[must_use]
    pub fn unfinished(&self) -> (usize, u32) {
        (self.have, self.datagrams)
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
        if self.is_rest_of_refused(bytes) {
            self.refused_rest -= len as u64;
            return Step::Rejected(self.reject(Reject::TooLong, 1, len as u64, None));
        }
        let need = match needed_bytes(bytes) {
            Ok(need) => need,
            Err(reason) => return Step::Rejected(self.reject(reason, 1, len as u64, None)),
        };
        if need > u64::from(self.message_bytes_max) {
            if len == MTU_BYTES {
                self.refused_rest = need.saturating_sub(total as u64);
            }
            return Step::Rejected(self.reject(
                Reject::TooLong,
                self.datagrams + 1,
                total as u64,
                None,
            ));
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

    /// Whether a datagram goes on with the message that was refused before: it has the length that is to come, and begins
    /// no message itself. Anything else ends that message.
    fn is_rest_of_refused(&mut self, datagram: &[u8]) -> bool {
        if self.refused_rest == 0 || self.have > 0 {
            return false;
        }
        let due = self.refused_rest.min(MTU_BYTES as u64);
        let begins = needed_bytes(datagram).is_ok_and(|need| {
            need > MTU_BYTES as u64 || (need == datagram.len() as u64 && trailer_matches(datagram))
        });
        if datagram.len() as u64 != due || begins {
            self.refused_rest = 0;
        }
        self.refused_rest > 0
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
        let (items, _) = walk(body.unwrap_or_default());
        let rejected = self.reject(Reject::BadTrailer, datagrams + 1, bytes.len() as u64, None);
        Rejected { items, ..rejected }
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
            items: 0,
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
mod tests {
    use super::*;
    use forebay_wire::hadtu::{ByteOrder, MessageWriter};
    use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventRepr};
    use proptest::prelude::*;

    /// A message of `count` sub-events of `payload` bytes each.
    fn message(count: u32, payload: usize) -> Vec<u8> {
        let mut writer = MessageWriter::new(ByteOrder::Big);
        for number in 0..count {
            let sub = SubEventRepr {
                id: 0x8000,
                trigger_word: number << 8,
                ..SubEventRepr::default()
            };
            writer.push(&sub, &vec![number as u8; payload]).unwrap();
        }
        writer.finish().to_vec()
    }

    /// Feeds datagrams as the receiver does and returns what they came to.
    fn feed(datagrams: &[&[u8]]) -> Vec<Step> {
        let mut check = MessageCheck::new(1 << 20);
        let mut buffer: Vec<u8> = Vec::new();
        let mut steps = Vec::new();
        for datagram in datagrams {
            buffer.truncate(check.unfinished().0);
            buffer.extend_from_slice(datagram);
            loop {
                let len = datagram.len();
                let step = check.handle_datagram(&buffer, len);
                steps.push(step);
                match step {
                    Step::Rejected(Rejected {
                        retry_at: Some(at), ..
                    }) => drop(buffer.drain(..at)),
                    _ => break,
                }
            }
        }
        steps
    }

    #[test]
    fn one_datagram_is_one_message() {
        let bytes = message(3, 100);
        let Step::Complete(accepted) = feed(&[&bytes])[0] else {
            panic!("refused")
        };
        assert_eq!(
            (accepted.items, accepted.datagrams, accepted.broken_bytes),
            (3, 1, 0)
        );
        assert_eq!(accepted.kept_bytes as usize, bytes.len() - TRAILER_BYTES);
    }

    #[test]
    fn a_long_message_of_several_datagrams_is_joined() {
        let bytes = message(2, 100_000);
        let cut: Vec<&[u8]> = bytes.chunks(MTU_BYTES).collect();
        let steps = feed(&cut);
        assert_eq!(&steps[..3], &[Step::More, Step::More, Step::More]);
        let Step::Complete(accepted) = steps[3] else {
            panic!("refused: {steps:?}")
        };
        assert_eq!((accepted.items, accepted.datagrams), (2, 4));
    }

    #[test]
    fn every_piece_of_a_message_that_is_too_long_says_so() {
        let long = message(3, 500_000);
        let good = message(2, 100_000);
        let refused = |step: &Step| {
            matches!(
                step,
                Step::Rejected(Rejected {
                    reason: Reject::TooLong,
                    datagrams: 1,
                    ..
                })
            )
        };
        let pieces: Vec<&[u8]> = long.chunks(MTU_BYTES).collect();
        let mut datagrams = pieces.clone();
        datagrams.extend(good.chunks(MTU_BYTES));
        let steps = feed(&datagrams);
        assert!(steps[..pieces.len()].iter().all(refused), "{steps:?}");
        assert!(matches!(steps.last(), Some(Step::Complete(_))), "{steps:?}");
        // A piece is lost: the good message behind it is not taken for the rest.
        for lost in 0..pieces.len() {
            let mut datagrams = pieces.clone();
            datagrams.remove(lost);
            datagrams.extend(good.chunks(MTU_BYTES));
            let steps = feed(&datagrams);
            assert!(
                matches!(steps.last(), Some(Step::Complete(_))),
                "{lost}: {steps:?}"
            );
            if lost > 0 && lost + 1 < pieces.len() {
                assert!(steps[..lost].iter().all(refused), "{lost}: {steps:?}");
            }
        }
    }

    #[test]
    fn a_message_that_fills_its_last_datagram_ends_there() {
        let payload = 2 * MTU_BYTES - TRAILER_BYTES - UNIT_HEADER_BYTES - SUB_EVENT_HEADER_BYTES;
        let bytes = message(1, payload);
        assert_eq!(bytes.len(), 2 * MTU_BYTES);
        let next = message(1, 8);
        let steps = feed(&[&bytes[..MTU_BYTES], &bytes[MTU_BYTES..], &next]);
        assert!(
            matches!(steps[1], Step::Complete(Accepted { datagrams: 2, .. })),
            "{steps:?}"
        );
        assert!(
            matches!(steps[2], Step::Complete(Accepted { datagrams: 1, .. })),
            "{steps:?}"
        );
    }

    #[test]
    fn a_lost_piece_costs_its_own_message_only() {
        let long = message(1, 150_000);
        let pieces: Vec<&[u8]> = long.chunks(MTU_BYTES).collect();
        let good = message(2, 40);
        let steps = feed(&[pieces[0], &good, pieces[0], pieces[2], &good]);
        let Step::Rejected(first) = steps[1] else {
            panic!("{steps:?}")
        };
        assert_eq!(
            (first.reason, first.datagrams, first.bytes),
            (Reject::FragmentMissing, 1, MTU_BYTES as u64)
        );
        assert!(
            matches!(steps[2], Step::Complete(Accepted { items: 2, .. })),
            "{steps:?}"
        );
        let completed = steps
            .iter()
            .filter(|step| matches!(step, Step::Complete(_)))
            .count();
        assert_eq!(completed, 2, "{steps:?}");
    }

    #[test]
    fn each_fault_has_its_name() {
        let good = message(2, 40);
        let mut trailer = good.clone();
        *trailer.last_mut().unwrap() ^= 1;
        let mut header = good.clone();
        header[4..8].fill(0);
        let mut size = good.clone();
        size[0] = 0x40;
        let mut alignment = good.clone();
        alignment[5] = 1;
        let cases: [(&[u8], Reject); 6] = [
            (&good[..7], Reject::Short),
            (&good[..good.len() - 1], Reject::BadLength),
            (&trailer, Reject::BadTrailer),
            (&header, Reject::BadHeader),
            (&size, Reject::TooLong),
            (&alignment, Reject::BadAlignment),
        ];
        for (bytes, reason) in cases {
            let Step::Rejected(rejected) = feed(&[bytes])[0] else {
                panic!("{reason:?} accepted")
            };
            assert_eq!(
                (rejected.reason, rejected.datagrams, rejected.bytes),
                (reason, 1, bytes.len() as u64)
            );
        }
    }

    #[test]
    fn what_is_good_before_a_broken_subevent_is_kept() {
        let mut bytes = message(3, 40);
        let second = UNIT_HEADER_BYTES + 56;
        bytes[second..second + 4].copy_from_slice(&15_u32.to_be_bytes());
        let Step::Complete(accepted) = feed(&[&bytes])[0] else {
            panic!("refused")
        };
        assert_eq!((accepted.items, accepted.broken_bytes), (1, 112));
    }

    proptest! {
        #[test]
        fn garbage_is_accounted_to_the_last_datagram(datagrams in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                Just(message(2, 40)),
                Just(message(1, 150_000)[..MTU_BYTES].to_vec()),
                Just(message(1, 150_000)[2 * MTU_BYTES..].to_vec()),
            ], 1..20))
        {
            let mut check = MessageCheck::new(1 << 20);
            let mut buffer: Vec<u8> = Vec::new();
            let (mut datagrams_seen, mut bytes_seen) = (0_u64, 0_u64);
            for datagram in &datagrams {
                buffer.truncate(check.unfinished().0);
                buffer.extend_from_slice(datagram);
                loop {
                    match check.handle_datagram(&buffer, datagram.len()) {
                        Step::More => break,
                        Step::Complete(accepted) => {
                            datagrams_seen += u64::from(accepted.datagrams);
                            bytes_seen += u64::from(accepted.message_bytes);
                            break;
                        }
                        Step::Rejected(rejected) => {
                            datagrams_seen += u64::from(rejected.datagrams);
                            bytes_seen += rejected.bytes;
                            match rejected.retry_at {
                                Some(at) => drop(buffer.drain(..at)),
                                None => break,
                            }
                        }
                    }
                }
            }
            let (held_bytes, held) = check.unfinished();
            prop_assert_eq!(datagrams_seen + u64::from(held), datagrams.len() as u64);
            let all: usize = datagrams.iter().map(Vec::len).sum();
            prop_assert_eq!(bytes_seen + held_bytes as u64, all as u64);
        }
    }
}
