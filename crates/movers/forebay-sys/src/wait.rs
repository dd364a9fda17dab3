//! Waiting for an instant of the monotonic clock: sleep until shortly before it, then a bounded spin.
//!
//! A sleep alone is late by the timer slack (50 µs unless [`set_timer_slack_ns`] lowers it) and by the time the scheduler
//! takes; a spin alone is stalled for tens of milliseconds by the kernel's throttle when the thread has real-time priority
//! (`kernel/sched/rt.c`). So the sleep ends `spin_ns` early and the rest is spun, at most [`SPIN_MAX_NS`] of it.
//!
//! [`sleep_until`] cannot be ended from outside: use it for short gaps. [`sleep_until_or`] also watches descriptors, such as
//! a control socket and the one of [`StopSignals`](crate::signals::StopSignals). For many descriptors without an instant
//! there is [`Poller`](crate::epoll::Poller).

use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

use crate::SysError;
use crate::clock::monotonic_ns;

/// The longest spin of one wait: 2 ms. A longer one that is asked for is cut, and the difference is slept.
pub const SPIN_MAX_NS: u64 = 2_000_000;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The instant came.
    Due {
        /// How much later than the instant this was noticed, ns.
        late_ns: u64,
    },
    /// A descriptor has something to read, was hung up or is in error.
    Ready {
        /// The first such descriptor, by its place in the list.
        index: usize,
    },
    /// A signal was handled by this thread; look at its flag and wait again.
    Signal,
}

/// Waits until `deadline_ns` of the monotonic clock, the last `spin_ns` (at most [`SPIN_MAX_NS`]) by spinning; tells how
/// late it is, in ns. An instant that has passed is answered at once. Signals do not end it.
pub fn sleep_until(deadline_ns: u64, spin_ns: u64) -> u64 {
    let wake_ns = deadline_ns.saturating_sub(spin_ns.min(SPIN_MAX_NS));
    while monotonic_ns() < wake_ns {
        // It ends early by a signal only; then the time is looked at again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(wake_ns));
    }
    spin_until(deadline_ns)
}

/// As [`sleep_until`], but ends early when one of `fds` becomes readable (level, as in `poll(2)`) or a signal is handled.
///
/// The descriptors are looked at at least once, also when the instant has passed, and not during the spin. A socket whose
/// error queue holds a transmit stamp counts as ready (`POLLERR`): read the queue first.
///
/// # Errors
/// When the kernel refuses the call (`ppoll`).
pub fn sleep_until_or<const FDS: usize>(
    fds: [BorrowedFd<'_>; FDS],
    deadline_ns: u64,
    spin_ns: u64,
) -> Result<Woken, SysError> {
    let mut polled: [PollFd<'_>; FDS] =
        std::array::from_fn(|index| PollFd::from_borrowed_fd(fds[index], PollFlags::IN));
    poll_until(&mut polled, deadline_ns, spin_ns)
}

/// As [`sleep_until_or`] without a spin, but for two descriptors, and ends also when `socket` takes data again (`POLLOUT`). In what is told, the
/// socket has place 0, and `other` place 1.
///
/// # Errors
/// When the kernel refuses the call (`ppoll`).
pub fn sleep_until_room(
    socket: BorrowedFd<'_>,
    other: BorrowedFd<'_>,
    deadline_ns: u64,
) -> Result<Woken, SysError> {
    let mut polled = [
        PollFd::from_borrowed_fd(socket, PollFlags::IN | PollFlags::OUT),
        PollFd::from_borrowed_fd(other, PollFlags::IN),
    ];
    poll_until(&mut polled, deadline_ns, 0)
}

fn poll_until(
    polled: &mut [PollFd<'_>],
    deadline_ns: u64,
    spin_ns: u64,
) -> Result<Woken, SysError> {
    let wake_ns = deadline_ns.saturating_sub(spin_ns.min(SPIN_MAX_NS));
    loop {
        let left_ns = wake_ns.saturating_sub(monotonic_ns());
        match poll(polled, Some(&timespec(left_ns))) {
            Ok(0) if monotonic_ns() < wake_ns => {}
            Ok(0) => {
                let late_ns = spin_until(deadline_ns);
                return Ok(Woken::Due { late_ns });
            }
            Ok(_) => {
                let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
                let index = polled.iter().position(ready).unwrap_or_default();
                return Ok(Woken::Ready { index });
            }
            Err(Errno::INTR) => return Ok(Woken::Signal),
            Err(errno) => {
                let what = format!("{} descriptors", polled.len());
                return Err(SysError::new("ppoll", what, errno));
            }
        }
    }
}

/// Sets by how much the kernel may delay the calling thread's sleeps to bundle them, ns; 0 means the default, 50,000.
/// Threads at real-time priority have none (`kernel/time/hrtimer.c`).
///
/// # Errors
/// When the kernel refuses the call (`prctl(PR_SET_TIMERSLACK)`).
pub fn set_timer_slack_ns(slack_ns: u64) -> Result<(), SysError> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(slack_ns))
        .map_err(|errno| SysError::new("prctl(PR_SET_TIMERSLACK)", format!("{slack_ns} ns"), errno))
}

/// Spins until the instant; the callers have slept until at most [`SPIN_MAX_NS`] before it.
fn spin_until(deadline_ns: u64) -> u64 {
    loop {
        let now = monotonic_ns();
        if now >= deadline_ns {
            return now - deadline_ns;
        }
        std::hint::spin_loop();
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

/// Where the kernel cannot be asked, what runs there now is over after so long.
const PROGRAMS_OVER: Duration = Duration::from_millis(20);

/// Waits until all that runs under RCU in the kernel is over, as programs that see packets do: one that was just taken off may still run.
pub fn for_programs() {
    // SAFETY: no memory is handed over.
    let passed = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if passed != 0 {
        std::thread::sleep(PROGRAMS_OVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::thread_cpu_ns;
    use crate::eventfd::EventFd;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_instant_is_never_early_and_the_lateness_is_true() {
        for (after_ns, spin_ns) in [(3 * MS, 0), (MS, 100_000), (50_000, 100_000), (0, 10)] {
            let deadline_ns = monotonic_ns() + after_ns;
            let late_ns = sleep_until(deadline_ns, spin_ns);
            assert!(monotonic_ns() >= deadline_ns + late_ns);
        }
        assert!(sleep_until(monotonic_ns() - MS, MS) >= MS);
    }

    #[test]
    fn a_long_spin_is_cut_and_the_rest_is_slept() {
        let cpu = thread_cpu_ns();
        sleep_until(monotonic_ns() + 200 * MS, u64::MAX);
        let used_ns = thread_cpu_ns() - cpu;
        assert!(used_ns < 50 * MS, "{used_ns} ns of CPU in a wait of 200 ms");
    }

    #[test]
    fn a_descriptor_ends_the_wait_and_is_told_by_its_place() {
        let (quiet, stop) = (EventFd::create().unwrap(), EventFd::create().unwrap());
        let other = EventFd::from_fd(stop.share_fd().unwrap());
        let far_ns = monotonic_ns() + 60_000 * MS;
        let thread = std::thread::spawn(move || other.signal());
        let woken = sleep_until_or([quiet.as_fd(), stop.as_fd()], far_ns, MS).unwrap();
        assert_eq!(woken, Woken::Ready { index: 1 });
        thread.join().unwrap();
        // Also when the instant has long passed.
        let woken = sleep_until_or([quiet.as_fd(), stop.as_fd()], 0, MS).unwrap();
        assert_eq!(woken, Woken::Ready { index: 1 });
    }

    #[test]
    fn a_full_socket_is_waited_for_without_a_spin_until_it_takes_again() {
        let (full, reader) = UnixDatagram::pair().unwrap();
        let stop = EventFd::create().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.send(&[0; 1000]).is_ok() {}
        let (begun_ns, cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        let wait = |until_ns| sleep_until_room(full.as_fd(), stop.as_fd(), until_ns).unwrap();
        assert!(matches!(wait(begun_ns + 200 * MS), Woken::Due { .. }));
        assert!(monotonic_ns() >= begun_ns + 200 * MS);
        let used_ns = thread_cpu_ns() - cpu_ns;
        assert!(used_ns < 50 * MS, "{used_ns} ns of CPU in a wait of 200 ms");
        reader.set_nonblocking(true).unwrap();
        while reader.recv(&mut [0; 1000]).is_ok() {}
        let far_ns = monotonic_ns() + 60_000 * MS;
        assert_eq!(wait(far_ns), Woken::Ready { index: 0 });
        while full.send(&[0; 1000]).is_ok() {}
        stop.signal();
        assert_eq!(wait(far_ns), Woken::Ready { index: 1 });
    }

    #[test]
    fn without_an_event_the_instant_comes() {
        let quiet = EventFd::create().unwrap();
        let deadline_ns = monotonic_ns() + 3 * MS;
        let woken = sleep_until_or([quiet.as_fd()], deadline_ns, 100_000).unwrap();
        let Woken::Due { late_ns } = woken else {
            panic!("{woken:?}");
        };
        assert!(monotonic_ns() >= deadline_ns + late_ns);
        assert!(matches!(
            sleep_until_or([], 0, 0).unwrap(),
            Woken::Due { .. }
        ));
    }

    #[test]
    fn the_timer_slack_is_set_for_this_thread() {
        std::thread::spawn(|| {
            set_timer_slack_ns(1).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            set_timer_slack_ns(0).unwrap();
            assert!(rustix::thread::current_timer_slack().unwrap() > 1);
        })
        .join()
        .unwrap();
    }
}
