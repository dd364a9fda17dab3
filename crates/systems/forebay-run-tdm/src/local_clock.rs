//! The clock of one end: monotonic, so that setting the host's time moves no window.
//!
//! The kernel's stamps are of the wall clock. They are taken to the monotonic clock by the difference of both, which changes only when somebody sets the wall
//! clock. For tests and the bench a clock can be made to show another time at another rate: then the truth is known.

use forebay_sys::clock;
use forebay_tdm::clock::Wall;

/// The difference of the clocks is read again after so long, in ns.
const READ_EVERY_NS: u64 = 1_000_000;
/// A change of the difference by more than this is a step of the wall clock, in ns.
const STEP_NS: u64 = 10_000;

/// Whether the wall clock is disciplined is asked so often, in ns: its bound grows by 500 ns in that time.
const WALL_EVERY_NS: u64 = 1_000_000_000;

/// A clock that shows another time than the host's, as of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedClock {
    /// What it shows more, in ns.
    pub offset_ns: i64,
    /// What it gains, in 10^-9.
    pub skew_ppb: i32,
}

/// The host's clock as it is.
const HOSTS_OWN: EmulatedClock = EmulatedClock {
    offset_ns: 0,
    skew_ppb: 0,
};

/// The clock of one end.
#[derive(Debug)]
pub(super) struct LocalClock {
    emulated: EmulatedClock,
    /// Where the emulated one began to gain.
    from_ns: u64,
    wall_ns: i64,
    read_ns: u64,
    steps: u64,
    walled_ns: u64,
}

impl LocalClock {
    pub(super) fn new(emulated: Option<EmulatedClock>) -> Self {
        let now_ns = clock::monotonic_ns();
        Self {
            emulated: emulated.unwrap_or(HOSTS_OWN),
            from_ns: now_ns,
            wall_ns: clock::realtime_minus_monotonic_ns().offset_ns,
            read_ns: now_ns,
            steps: 0,
            walled_ns: 0,
        }
    }

    /// What it shows now, in ns.
    pub(super) fn now_ns(&self) -> u64 {
        self.shows(clock::monotonic_ns())
    }

    /// What it shows when the host's monotonic clock shows `true_ns`.
    pub(super) fn shows(&self, true_ns: u64) -> u64 {
        if self.emulated == HOSTS_OWN {
            return true_ns;
        }
        let since = i128::from(true_ns) - i128::from(self.from_ns);
        let gained = since * i128::from(self.emulated.skew_ppb) / 1_000_000_000;
        let shown = i128::from(true_ns) + i128::from(self.emulated.offset_ns) + gained;
        u64::try_from(shown).unwrap_or(0)
    }

    /// What the host's monotonic clock shows when this one shows `shown_ns`.
    pub(super) fn true_ns(&self, shown_ns: u64) -> u64 {
        if self.emulated == HOSTS_OWN {
            return shown_ns;
        }
        let flat = i128::from(shown_ns) - i128::from(self.emulated.offset_ns);
        let since = flat - i128::from(self.from_ns);
        let skew = i128::from(self.emulated.skew_ppb);
        let gained = since * skew / (1_000_000_000 + skew);
        u64::try_from(flat - gained).unwrap_or(0)
    }

    /// What it showed when the kernel's wall clock showed `stamp_ns`.
    pub(super) fn of_stamp(&self, stamp_ns: u64) -> u64 {
        let true_ns = i128::from(stamp_ns) - i128::from(self.wall_ns);
        self.shows(u64::try_from(true_ns).unwrap_or(0))
    }

    /// Looks at the wall clock again, when it is time by the monotonic clock. True when somebody has set it: stamps from before are worth nothing.
    pub(super) fn look(&mut self, now_ns: u64) -> bool {
        if now_ns < self.read_ns + READ_EVERY_NS {
            return false;
        }
        self.read_ns = now_ns;
        let read = clock::realtime_minus_monotonic_ns();
        let stepped = read.offset_ns.abs_diff(self.wall_ns) > STEP_NS + read.half_width_ns;
        // A reading that was interrupted says less than the one before.
        if stepped || read.half_width_ns < 1_000 {
            self.wall_ns = read.offset_ns;
        }
        self.steps += u64::from(stepped);
        stepped
    }

    /// The wall clock, where another program disciplines it; told when it is time to ask again.
    pub(super) fn wall(&mut self, true_ns: u64) -> Option<Option<Wall>> {
        if self.walled_ns != 0 && true_ns < self.walled_ns + WALL_EVERY_NS {
            return None;
        }
        self.walled_ns = true_ns;
        let found = clock::discipline().ok().filter(|found| found.synchronised);
        Some(found.map(|found| {
            let read = clock::realtime_minus_monotonic_ns();
            let shown_more = self.shows(true_ns).wrapping_sub(true_ns).cast_signed();
            Wall {
                ahead_ns: read.offset_ns.saturating_sub(shown_more),
                error_ns: found.error_max_ns.saturating_add(read.half_width_ns),
            }
        }))
    }

    /// What the wall clock shows more than the monotonic one, in ns.
    pub(super) const fn wall_minus_monotonic_ns(&self) -> i64 {
        self.wall_ns
    }

    /// How often somebody has set the wall clock.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_clock_shows_what_it_should_and_back() {
        for (offset_ns, skew_ppb) in [(0, 0), (5_000_000, 100_000), (-3_000_000, -100_000)] {
            let clock = LocalClock::new(Some(EmulatedClock {
                offset_ns,
                skew_ppb,
            }));
            let later_ns = clock.from_ns + 10_000_000_000;
            let gained_ns = i64::from(skew_ppb) * 10;
            let shown = clock.shows(later_ns);
            assert_eq!(
                shown,
                later_ns.checked_add_signed(offset_ns + gained_ns).unwrap()
            );
            assert!(clock.true_ns(shown).abs_diff(later_ns) <= 1);
        }
    }

    #[test]
    fn the_wall_clock_is_told_where_it_is_disciplined_and_not_too_often() {
        let offset_ns = 5_000_000_000;
        let mut clock = LocalClock::new(Some(EmulatedClock {
            offset_ns,
            skew_ppb: 0,
        }));
        let told = clock
            .wall(forebay_sys::clock::monotonic_ns())
            .expect("the first time");
        let is_disciplined = clock::discipline().unwrap().synchronised;
        assert_eq!(told.is_some(), is_disciplined);
        if let Some(wall) = told {
            let shown_ns = clock.now_ns().checked_add_signed(wall.ahead_ns).unwrap();
            assert!(shown_ns.abs_diff(clock::realtime_ns()) < 1_000_000_000);
        }
        assert_eq!(clock.wall(forebay_sys::clock::monotonic_ns()), None);
    }

    #[test]
    fn a_stamp_of_now_is_now() {
        let mut clock = LocalClock::new(None);
        let before = clock.now_ns();
        let stamp = forebay_sys::clock::realtime_ns();
        let after = clock.now_ns();
        let shown = clock.of_stamp(stamp);
        assert!(
            shown + 50_000 >= before && shown <= after + 50_000,
            "{before} {shown} {after}"
        );
        assert!(!clock.look(forebay_sys::clock::monotonic_ns()));
    }
}
