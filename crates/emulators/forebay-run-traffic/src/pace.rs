//! When packets are due on an interface.

/// Packets of so much of the schedule are sent together, in ns: the first of them is late by as much.
pub(crate) const BURST_NS: u64 = 100_000;
/// What is later than this is not made up for, in ns: the rest of the schedule is later, too.
pub(crate) const LAG_MAX_NS: u64 = 10_000_000;

/// How fast packets are sent on an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many in a second, evenly, whatever times the profile has.
    Rate {
        /// Packets in a second, above 0.
        packet_rate_hz: f64,
    },
    /// By the times of the profile.
    Speed {
        /// So many s of the profile in a second, above 0; 1 is the profile's own speed.
        factor: f64,
    },
}

/// The instants of packets, on a clock that begins with the first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    /// Packets that were asked for.
    packets: u64,
    /// When the first one was sent in the profile, ns.
    first_ns: u64,
    /// When it began, by the monotonic clock; later by all that was not made up for.
    begun_ns: u64,
    /// What was not made up for.
    slipped_ns: u64,
    last_offset_ns: u64,
}

impl Schedule {
    pub(crate) const fn new(pace: Pace, begun_ns: u64) -> Self {
        Self {
            pace,
            packets: 0,
            first_ns: 0,
            begun_ns,
            slipped_ns: 0,
            last_offset_ns: 0,
        }
    }

    /// When the next packet is due, in ns from the first one; the profile has it at `at_ns`.
    #[inline]
    pub(crate) fn offset_ns(&mut self, at_ns: u64) -> u64 {
        if self.packets == 0 {
            self.first_ns = at_ns;
        }
        let offset_ns = match self.pace {
            Pace::Rate { packet_rate_hz } => self.packets as f64 * 1e9 / packet_rate_hz,
            Pace::Speed { factor } => at_ns.saturating_sub(self.first_ns) as f64 / factor,
        };
        self.packets += 1;
        self.last_offset_ns = offset_ns as u64;
        self.last_offset_ns
    }

    /// The instant of an offset, by the monotonic clock.
    pub(crate) const fn instant_ns(&self, offset_ns: u64) -> u64 {
        self.begun_ns.saturating_add(offset_ns)
    }

    /// What was due at `instant_ns` is sent at `now_ns`: the schedule slips by what that is too late.
    pub(crate) const fn sent(&mut self, instant_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(instant_ns);
        let slip_ns = late_ns.saturating_sub(LAG_MAX_NS);
        self.begun_ns += slip_ns;
        self.slipped_ns += slip_ns;
    }

    /// By how much it slipped, ns.
    pub(crate) const fn slipped_ns(&self) -> u64 {
        self.slipped_ns
    }

    /// Packets in a second that were asked for; of fewer than two there is none.
    pub(crate) fn packet_rate_hz(&self) -> Option<f64> {
        match self.pace {
            Pace::Rate { packet_rate_hz } => Some(packet_rate_hz),
            Pace::Speed { .. } => (self.last_offset_ns > 0)
                .then(|| (self.packets - 1) as f64 * 1e9 / self.last_offset_ns as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_evenly_or_by_the_profile() {
        let offsets = |pace| {
            let mut schedule = Schedule::new(pace, 1_000);
            let offsets = [5_000, 5_000, 6_000, 9_000].map(|at_ns| schedule.offset_ns(at_ns));
            (offsets, schedule.packet_rate_hz().unwrap())
        };
        let rate = Pace::Rate {
            packet_rate_hz: 250e3,
        };
        assert_eq!(offsets(rate), ([0, 4_000, 8_000, 12_000], 250e3));
        let speed = Pace::Speed { factor: 0.5 };
        assert_eq!(offsets(speed), ([0, 0, 2_000, 8_000], 375e3));
        let mut one = Schedule::new(speed, 0);
        one.offset_ns(7);
        assert_eq!(one.packet_rate_hz(), None);
    }

    #[test]
    fn what_is_too_late_moves_all_that_follows() {
        let pace = Pace::Rate {
            packet_rate_hz: 1e3,
        };
        let mut schedule = Schedule::new(pace, 500);
        let due_ns = schedule.instant_ns(2_000_000);
        assert_eq!(due_ns, 2_000_500);
        // Early, or late by what is made up for.
        schedule.sent(due_ns, due_ns - 1);
        schedule.sent(due_ns, due_ns + LAG_MAX_NS);
        assert_eq!(
            (schedule.slipped_ns(), schedule.instant_ns(2_000_000)),
            (0, due_ns)
        );
        schedule.sent(due_ns, due_ns + LAG_MAX_NS + 7);
        assert_eq!(
            (schedule.slipped_ns(), schedule.instant_ns(2_000_000)),
            (7, due_ns + 7)
        );
        schedule.sent(due_ns + 7, due_ns + LAG_MAX_NS + 10);
        assert_eq!(schedule.slipped_ns(), 10);
    }
}
