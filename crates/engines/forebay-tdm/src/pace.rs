//! When the next packets may leave: a schedule that a late sender may run after, but not without limit.
//!
//! A sender that was held up for a moment catches up, so that its window carries what it should; but what it may catch up is bounded
//! ([`Pacer::new`]), because all of it reaches the port at once, and the port's buffer has to hold it. What is beyond slips to later.

use crate::PS_PER_NS;

/// A pace inside one window.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    gap_ps: u64,
    catch_up_ps: u64,
    /// Since the window's start.
    next_ps: u64,
    start_ns: u64,
}

impl Pacer {
    /// From packet to packet `gap_ps` (0: flat out); one that is late may catch up `catch_up_packets`.
    #[must_use]
    pub const fn new(gap_ps: u64, catch_up_packets: u16, start_ns: u64) -> Self {
        Self {
            gap_ps,
            catch_up_ps: gap_ps.saturating_mul(catch_up_packets as u64),
            next_ps: 0,
            start_ns,
        }
    }

    /// There is no pace.
    #[must_use]
    pub const fn is_flat_out(&self) -> bool {
        self.gap_ps == 0
    }

    /// When the next packet may leave, in ns.
    #[must_use]
    pub const fn due_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.next_ps / PS_PER_NS)
    }

    /// How long so many packets take at this pace, in ns.
    #[must_use]
    pub const fn takes_ns(&self, packets: u64) -> u64 {
        self.gap_ps.saturating_mul(packets) / PS_PER_NS
    }

    /// How many packets may leave now, of at most `most`.
    #[must_use]
    pub fn may_leave(&self, now_ns: u64, most: u64) -> u64 {
        if now_ns < self.due_ns() { 0 } else { most }
    }

    /// So many have left at `now_ns`.
    pub fn sent(&mut self, packets: u64, now_ns: u64) {
        let now_ps = now_ns
            .saturating_sub(self.start_ns)
            .saturating_mul(PS_PER_NS);
        // What lies further back than the limit is not caught up.
        let from = self.next_ps.max(now_ps.saturating_sub(self.catch_up_ps));
        self.next_ps = from.saturating_add(self.gap_ps.saturating_mul(packets));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn on_time_the_schedule_is_kept_to_the_picosecond() {
        let mut pacer = Pacer::new(11_774_400, 16, 1_000);
        let mut now = 1_000;
        for burst in 0..100_000_u64 {
            assert_eq!(pacer.due_ns(), 1_000 + burst * 8 * 11_774_400 / 1_000);
            now = now.max(pacer.due_ns());
            assert_eq!(pacer.may_leave(now - 1, 8), 0);
            assert_eq!(pacer.may_leave(now, 8), 8);
            pacer.sent(8, now);
        }
    }

    #[test]
    fn who_was_held_up_catches_up_no_more_than_the_limit() {
        // 10 us a packet, 16 packets to catch up, held up for a millisecond.
        let mut pacer = Pacer::new(10_000_000, 16, 0);
        pacer.sent(8, 0);
        let now = 1_000_000;
        let mut left = 0;
        while pacer.may_leave(now, 8) > 0 {
            pacer.sent(8, now);
            left += 8;
        }
        assert_eq!(left, 24, "the limit, and the burst that was due");
    }

    proptest! {
        /// Over any span, no more leaves than the rate gives, the limit and one burst.
        #[test]
        fn the_rate_is_never_exceeded_by_more_than_the_limit(
            delays in prop::collection::vec(0_u64..200_000, 1..200), burst in 1_u64..16, catch_up in 0_u16..64,
        ) {
            let gap_ns = 10_000;
            let mut pacer = Pacer::new(gap_ns * 1_000, catch_up, 0);
            let mut now = 0;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for delay in delays {
                now = now.max(pacer.due_ns()) + delay;
                let packets = pacer.may_leave(now, burst);
                pacer.sent(packets, now);
                sent.push((now, packets));
            }
            for from in 0..sent.len() {
                let mut total = 0;
                for (at, packets) in &sent[from..] {
                    total += packets;
                    let allowed = (at - sent[from].0) / gap_ns + u64::from(catch_up) + 2 * burst;
                    prop_assert!(total <= allowed, "{total} of {allowed}");
                }
            }
        }
    }
}
