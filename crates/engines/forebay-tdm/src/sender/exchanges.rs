//! Exchanges of clock readings that are under way, in bursts.

use forebay_wire::tdm::{FollowUp, Probe, Reply};

use crate::clock::{Burst, Clock, Exchange};

/// Exchanges of a burst.
const BURST: u32 = 12;
/// Of them, so many leave at once: the first one wakes all that lies on the way, and those behind it find it awake.
const TRAIN: u32 = 3;
/// From probe to probe, in ns: far more than an exchange takes, so that one does not wait behind another.
pub(super) const PROBE_EVERY_NS: u64 = 1_000_000;
/// A burst is over so long after its first probe, however few there were, in ns.
const BURST_LASTS_NS: u64 = 1_000_000_000;
/// From the last probe of a burst until it is over whatever has come, in ns.
const BURST_WAIT_NS: u64 = 20_000_000;
/// From burst to burst, in ns.
const BURST_EVERY_NS: u64 = 1_000_000_000;
/// The same, as long as the clock is not known.
const BURST_SOON_NS: u64 = 100_000_000;

/// A linear congruence (D. E. Knuth, MMIX); its upper half is used.
const JITTER: (u64, u64) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);

/// One of them: what is known so far.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    sequence: u32,
    sent_ns: Option<u64>,
    /// Which answer, when the probe had come, and when the answer was back.
    reply: Option<(u32, u64, u64)>,
    /// Which answer, and when it left.
    left: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Exchanges {
    next: u32,
    /// Probes of the burst that were sent.
    sent: u32,
    first_ns: u64,
    pending: Vec<Pending>,
    probe_ns: u64,
    burst_over_ns: Option<u64>,
    jitter: u64,
}

impl Exchanges {
    /// For a sender with this nonce.
    pub(super) fn new(nonce: u64) -> Self {
        Self {
            jitter: nonce,
            ..Self::default()
        }
    }

    /// A burst begins now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.pending.clear();
        self.sent = 0;
        self.probe_ns = now_ns;
        self.burst_over_ns = None;
    }

    /// The next burst comes sooner, when what is known goes back less than twice as far as the next one is ahead.
    pub(super) fn hurry(&mut self, now_ns: u64, known_for_ns: u64) {
        let soon_ns = BURST_SOON_NS.max(known_for_ns / 2);
        self.probe_ns = self.probe_ns.min(now_ns + soon_ns);
    }

    pub(super) fn drop_all(&mut self) {
        self.pending.clear();
    }

    /// When the next probe is due; `None` while the burst waits for its answers.
    pub(super) fn probe_ns(&self) -> Option<u64> {
        self.burst_over_ns.is_none().then_some(self.probe_ns)
    }

    /// When the burst is over at the latest.
    pub(super) fn over_ns(&self) -> Option<u64> {
        let begun = self.sent > 0;
        self.burst_over_ns
            .or(begun.then_some(self.first_ns + BURST_LASTS_NS))
    }

    /// The probe that is due; the next train of them no sooner than `every_ns` later.
    pub(super) fn due(&mut self, now_ns: u64, every_ns: u64) -> Option<Probe> {
        if self.burst_over_ns.is_some() || now_ns < self.probe_ns {
            return None;
        }
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        if self.sent == 0 {
            self.first_ns = now_ns;
        }
        self.sent += 1;
        if self.sent.is_multiple_of(TRAIN) {
            // Between a half and three halves: senders that began together do not go on together.
            self.jitter = self.jitter.wrapping_mul(JITTER.0).wrapping_add(JITTER.1);
            self.probe_ns =
                now_ns + every_ns / 2 + (((self.jitter >> 32) * every_ns.min(1 << 32)) >> 32);
        }
        if self.sent == BURST {
            self.burst_over_ns = Some(now_ns + BURST_WAIT_NS);
        }
        self.pending.push(Pending {
            sequence,
            ..Pending::default()
        });
        Some(Probe {
            sequence,
            ..Probe::default()
        })
    }

    /// Ends the burst when all of it has come, or its time is over.
    pub(super) fn look(&mut self, now_ns: u64, clock: &mut Clock) -> Option<Burst> {
        let over_ns = self.over_ns()?;
        let all_came = self.burst_over_ns.is_some() && self.pending.is_empty();
        if now_ns < over_ns && !all_came {
            return None;
        }
        self.begin(now_ns + BURST_EVERY_NS);
        Some(clock.end_burst())
    }

    fn find(&mut self, sequence: u32) -> Option<&mut Pending> {
        self.pending
            .iter_mut()
            .find(|pending| pending.sequence == sequence)
    }

    pub(super) fn left(&mut self, sequence: u32, stamp_ns: u64) {
        if let Some(pending) = self.find(sequence) {
            pending.sent_ns = Some(stamp_ns);
        }
    }

    /// A reply is back. Of several to one probe that one counts of which the departure is known, or the first.
    pub(super) fn answered(&mut self, reply: &Reply, back_ns: u64) {
        if let Some(pending) = self.find(reply.sequence) {
            let wanted = pending.left.map(|(answer, _)| answer);
            if pending.reply.is_none() || wanted == Some(reply.answer) {
                pending.reply = Some((reply.answer, reply.came_ns, back_ns));
            }
        }
    }

    pub(super) fn answer_left(&mut self, follow: &FollowUp) {
        if let Some(pending) = self.find(follow.sequence) {
            let wanted = pending.reply.map(|(answer, ..)| answer);
            if pending.left.is_none() || wanted == Some(follow.answer) {
                pending.left = Some((follow.answer, follow.left_ns));
            }
        }
    }

    /// Gives those of which all four readings are there to the clock.
    pub(super) fn collect(&mut self, clock: &mut Clock) {
        self.pending.retain(|pending| {
            let (Some(sent_ns), Some((answer, came_ns, back_ns)), Some((of, left_ns))) =
                (pending.sent_ns, pending.reply, pending.left)
            else {
                return true;
            };
            if answer != of {
                return true;
            }
            clock.add(&Exchange {
                sent_ns,
                came_ns,
                left_ns,
                back_ns,
            });
            false
        });
    }
}
