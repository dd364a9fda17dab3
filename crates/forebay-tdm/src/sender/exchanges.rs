//! Exchanges of clock readings that are under way, in bursts.

use forebay_wire::tdm::Probe;

use crate::clock::{Burst, Clock, Exchange};

/// Exchanges of a burst.
const BURST: u32 = 8;
/// From probe to probe, in ns: far more than an exchange takes, so that one does not wait behind another.
const PROBE_EVERY_NS: u64 = 1_000_000;
/// From the last probe of a burst until it is over whatever has come, in ns.
const BURST_WAIT_NS: u64 = 20_000_000;
/// From burst to burst, in ns.
const BURST_EVERY_NS: u64 = 1_000_000_000;
/// The same, as long as the clock is not known.
const BURST_SOON_NS: u64 = 100_000_000;

/// One of them: what is known so far.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    sequence: u32,
    sent_ns: Option<u64>,
    came_ns: Option<u64>,
    left_ns: Option<u64>,
    back_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Exchanges {
    next: u32,
    /// Probes of the burst that were sent.
    sent: u32,
    pending: Vec<Pending>,
    probe_ns: u64,
    burst_over_ns: Option<u64>,
}

impl Exchanges {
    /// A burst begins now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.pending.clear();
        self.sent = 0;
        self.probe_ns = now_ns;
        self.burst_over_ns = None;
    }

    /// The next burst comes sooner.
    pub(super) fn hurry(&mut self, now_ns: u64) {
        self.probe_ns = self.probe_ns.min(now_ns + BURST_SOON_NS);
    }

    pub(super) fn drop_all(&mut self) {
        self.pending.clear();
    }

    /// When a probe is due, or a burst is over.
    pub(super) fn next_ns(&self) -> u64 {
        self.burst_over_ns.unwrap_or(self.probe_ns)
    }

    /// The probe that is due.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Probe> {
        if self.burst_over_ns.is_some() || now_ns < self.probe_ns {
            return None;
        }
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.sent += 1;
        self.probe_ns = now_ns + PROBE_EVERY_NS;
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
        let over_ns = self.burst_over_ns?;
        if now_ns < over_ns && !self.pending.is_empty() {
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

    pub(super) fn answered(&mut self, sequence: u32, came_ns: u64, back_ns: u64) {
        if let Some(pending) = self.find(sequence) {
            (pending.came_ns, pending.back_ns) = (Some(came_ns), Some(back_ns));
        }
    }

    pub(super) fn answer_left(&mut self, sequence: u32, left_ns: u64) {
        if let Some(pending) = self.find(sequence) {
            pending.left_ns = Some(left_ns);
        }
    }

    /// Gives those of which all four readings are there to the clock.
    pub(super) fn collect(&mut self, clock: &mut Clock) {
        self.pending.retain(|pending| {
            let readings = (
                pending.sent_ns,
                pending.came_ns,
                pending.left_ns,
                pending.back_ns,
            );
            let (Some(sent_ns), Some(came_ns), Some(left_ns), Some(back_ns)) = readings else {
                return true;
            };
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
