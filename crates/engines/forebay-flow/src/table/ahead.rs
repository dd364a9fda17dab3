//! Which times of packets the table's clock believes.
//!
//! One packet with a time far ahead would end all flows, and make all that come later late. So a time that is further ahead of the clock than the idle time-out
//! waits for a witness: the next packet. Where that is far ahead, too, the clock moves to the earlier of both times; where it is not, the time is no longer
//! believed, which is counted. The packet counts in its flow with its own time, whatever is believed of it.

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// Of the packet before, if it was too far ahead.
    waits_ns: Option<u64>,
    /// Times that were not believed.
    pub(super) disbelieved: u64,
}

impl Ahead {
    /// The clock's time behind a packet with this one.
    #[inline]
    pub(super) const fn hear(&mut self, clock_ns: u64, lead_ns: u64, time_ns: u64) -> u64 {
        if time_ns <= clock_ns.saturating_add(lead_ns) && self.waits_ns.is_none() {
            return later(time_ns, clock_ns);
        }
        self.judge(clock_ns, lead_ns, time_ns)
    }

    const fn judge(&mut self, clock_ns: u64, lead_ns: u64, time_ns: u64) -> u64 {
        let is_far = time_ns > clock_ns.saturating_add(lead_ns);
        let Some(waits_ns) = self.waits_ns else {
            self.waits_ns = Some(time_ns);
            return clock_ns;
        };
        self.waits_ns = None;
        if !is_far {
            self.disbelieved += 1;
            return later(time_ns, clock_ns);
        }
        let (earlier_ns, later_ns) = if waits_ns < time_ns {
            (waits_ns, time_ns)
        } else {
            (time_ns, waits_ns)
        };
        if later_ns <= earlier_ns.saturating_add(lead_ns) {
            return later_ns;
        }
        self.waits_ns = Some(later_ns);
        earlier_ns
    }

    /// The clock was moved by another hand: a time that it has come near to needs no witness.
    pub(super) const fn reach(&mut self, clock_ns: u64, lead_ns: u64) {
        if let Some(waits_ns) = self.waits_ns
            && waits_ns <= clock_ns.saturating_add(lead_ns)
        {
            self.waits_ns = None;
        }
    }

    /// The clock begins anew.
    pub(super) const fn forget(&mut self) {
        self.waits_ns = None;
    }
}

#[inline]
const fn later(one_ns: u64, other_ns: u64) -> u64 {
    if one_ns > other_ns { one_ns } else { other_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_the_clock_has_come_near_to_is_not_disbelieved() {
        for (clock, disbelieved) in [(90, 0), (89, 1)] {
            let mut ahead = Ahead::default();
            assert_eq!(ahead.hear(50, 10, 100), 50);
            ahead.reach(clock, 10);
            assert_eq!(ahead.hear(clock, 10, clock + 1), clock + 1);
            assert_eq!(ahead.disbelieved, disbelieved);
        }
    }

    #[test]
    fn a_time_far_ahead_waits_for_a_witness() {
        let mut ahead = Ahead::default();
        let mut clock = 0;
        for (time, right, disbelieved) in [
            // The first packet of all, and one behind it.
            (1000, 0, 0),
            (1001, 1001, 0),
            (1010, 1010, 0),
            (1005, 1010, 0),
            (1020, 1020, 0),
            // Alone.
            (1031, 1020, 0),
            (1021, 1021, 1),
            // With a witness, after a pause.
            (2000, 1021, 1),
            (2001, 2001, 1),
            (3000, 2001, 1),
            (2995, 3000, 1),
            // One behind the other, each after a pause: one packet late.
            (4000, 3000, 1),
            (5000, 4000, 1),
            (6000, 5000, 1),
            (6009, 6009, 1),
            // Of two the nearer is believed.
            (90_000, 6009, 1),
            (7000, 7000, 1),
            (7001, 7001, 2),
            (u64::MAX, 7001, 2),
            (u64::MAX, u64::MAX, 2),
        ] {
            clock = ahead.hear(clock, 10, time);
            assert_eq!((clock, ahead.disbelieved), (right, disbelieved), "{time}");
        }
    }

    /// From a clock at 100 ns, where 10 ns ahead are near.
    #[test]
    fn a_time_is_near_up_to_the_lead_and_so_is_a_witness() {
        for (times, right, disbelieved) in [
            (&[110][..], 110, 0),
            (&[111], 100, 0),
            // The second one is near, and no witness.
            (&[111, 110], 110, 1),
            // Each is the other's witness, whichever comes first.
            (&[111, 121], 121, 0),
            (&[121, 111], 121, 0),
            (&[111, 122], 111, 0),
            (&[122, 111], 111, 0),
            (&[122, 111, 123], 123, 0),
        ] {
            let mut ahead = Ahead::default();
            let clock = times
                .iter()
                .fold(100, |clock, time| ahead.hear(clock, 10, *time));
            assert_eq!(
                (clock, ahead.disbelieved),
                (right, disbelieved),
                "{times:?}"
            );
        }
    }
}
