//! The machine's clocks, as integer nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

mod discipline;
mod interface;

pub use discipline::{Discipline, discipline};
pub use interface::{InterfaceClock, phc_of};

/// Nanoseconds of the monotonic clock (it never jumps; comparable between processes of one boot).
#[must_use]
pub fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970 of the wall clock (it may be stepped; the clock of the kernel's receive stamps).
#[must_use]
pub fn realtime_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Realtime))
}

/// Nanoseconds of CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// Nanoseconds of CPU time that the calling process has used, all its threads together.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// How far another clock stands before the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference {
    /// The other clock minus the monotonic one, ns.
    pub offset_ns: i64,
    /// The true difference at that moment lies within so many ns of it.
    pub half_width_ns: u64,
}

/// Reads the wall clock between two readings of the monotonic one, and takes their midpoint; the narrowest of eight tries.
///
/// It turns a kernel stamp (wall clock) into monotonic time, as long as the wall clock is not stepped between: read it
/// anew for each stamp that matters.
#[must_use]
pub fn realtime_minus_monotonic_ns() -> ClockDifference {
    const TRIES: usize = 8;
    let tries = std::iter::repeat_with(|| {
        let before = monotonic_ns();
        let other = realtime_ns();
        difference(before, other, monotonic_ns())
    });
    tries
        .take(TRIES)
        .min_by_key(|found| found.half_width_ns)
        .unwrap_or(ClockDifference {
            offset_ns: 0,
            half_width_ns: u64::MAX,
        })
}

fn difference(before_ns: u64, wall_ns: u64, after_ns: u64) -> ClockDifference {
    let width = after_ns.saturating_sub(before_ns);
    let middle = before_ns + width / 2;
    ClockDifference {
        offset_ns: wall_ns.wrapping_sub(middle).cast_signed(),
        half_width_ns: width.div_ceil(2),
    }
}

fn timespec_ns(time: Timespec) -> u64 {
    // A clock before its epoch (a wrongly set wall clock) reads 0.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward() {
        let (before, cpu) = (monotonic_ns(), process_cpu_ns());
        let mut sum = 0_u64;
        while monotonic_ns() == before || process_cpu_ns() == cpu {
            sum = sum.wrapping_add(1);
        }
        assert!(monotonic_ns() > before, "after {sum} turns");
        assert!(
            realtime_ns() > 1_600_000_000_000_000_000,
            "the wall clock stands before 2020"
        );
        assert!(thread_cpu_ns() <= process_cpu_ns());
    }

    #[test]
    fn the_difference_of_the_clocks_is_the_midpoint_with_its_half_width() {
        let known = |offset_ns, half_width_ns| ClockDifference {
            offset_ns,
            half_width_ns,
        };
        assert_eq!(difference(100, 1050, 110), known(945, 5));
        assert_eq!(difference(100, 50, 101), known(-50, 1));
        let (one, two) = (realtime_minus_monotonic_ns(), realtime_minus_monotonic_ns());
        // Both clocks are slewed alike; only a step of the wall clock may part them.
        let apart = one.offset_ns.abs_diff(two.offset_ns);
        assert!(
            apart <= one.half_width_ns + two.half_width_ns,
            "{one:?} {two:?}"
        );
        assert!(one.half_width_ns < 1_000_000, "{one:?}");
    }
}
