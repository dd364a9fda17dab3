//! The machine's clocks, as integer nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

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
}
