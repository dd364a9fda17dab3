//! How late this host wakes a thread up: measured before a session, so that the guard is computed and not guessed.

use forebay_sys::{clock, sched, wait};
use forebay_wire::tdm::Welcome;

/// Sleeps without a spin, to see how long it must be.
const SLEEPS: usize = 200;
/// Length of such a sleep, in ns.
const SLEEP_NS: u64 = 150_000;
/// Least and most of a wait's last part, that is spun through, in ns. The most is what others on the host may be kept from, window after window.
const SPIN_NS: (u64, u64) = (100_000, 500_000);
/// Trials at most.
const TRIALS: u64 = 400;
/// All trials take so long, in ns.
const TRIALS_NS: u64 = 400_000_000;
/// A trial is so many times as long as its spin, so that several senders of one host that begin together do not measure each other.
const PARTS: u64 = 5;
/// Trials that were held up by more than this say something of the host's load and not of the timer; they are told apart, in ns.
const HELD_UP_NS: u64 = 1_000_000;

/// What trials have shown.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Lateness {
    /// The median, in ns.
    pub p50_ns: u64,
    /// 99 % are better, in ns; trials that were held up are left out. It is what the guard covers: it costs every window as much as it is long, and the
    /// hundredth window that is later than that loses what no longer fits.
    pub p99_ns: u64,
    /// The worst, in ns.
    pub max_ns: u64,
    /// Trials that were held up by more than a millisecond, of so many.
    pub held_up: u32,
    /// The last part of each wait, that is spun through, in ns: half as much again as sleeps alone were late (99 %).
    pub spin_ns: u64,
}

/// Measures it: about half a second.
pub(super) fn measure() -> Lateness {
    let sleep = |_| wait::sleep_until(clock::monotonic_ns() + SLEEP_NS, 0);
    let mut late: Vec<u64> = (0..SLEEPS).map(sleep).collect();
    late.sort_unstable();
    let worst_ns = late.get(SLEEPS * 99 / 100).copied().unwrap_or(0);
    let spin_ns = (worst_ns * 3 / 2).clamp(SPIN_NS.0, SPIN_NS.1);
    let mut late = Vec::with_capacity(TRIALS as usize);
    for number in 0..TRIALS.min(TRIALS_NS / (PARTS * spin_ns)) {
        // Between a half and three halves of its length, each another one (multiples of the golden ratio).
        let fraction = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let part = (fraction * PARTS * spin_ns) >> 32;
        let deadline_ns = clock::monotonic_ns() + PARTS * spin_ns / 2 + part;
        late.push(wait::sleep_until(deadline_ns, spin_ns));
    }
    late.sort_unstable();
    let held_up = late.iter().filter(|late| **late > HELD_UP_NS).count();
    let rest = late.get(..late.len() - held_up).unwrap_or_default();
    Lateness {
        p50_ns: late.get(late.len() / 2).copied().unwrap_or(0),
        p99_ns: rest
            .get(rest.len() * 99 / 100)
            .copied()
            .unwrap_or(HELD_UP_NS),
        max_ns: late.last().copied().unwrap_or(0),
        held_up: held_up as u32,
        spin_ns,
    }
}

/// Part of a cycle from which on a sender that is busy in its windows alone would meet the kernel's throttle of real-time threads, which stops them for 50 ms
/// in each second (`sched_rt_runtime_us`, 95 %).
const BUSY_PART: f64 = 0.9;

/// Gives real-time priority up where windows fill nearly all of the time, as those of one sender alone do: the gaps between its bursts are too short to sleep in. Says so.
pub(super) fn shun_throttle(real_time: bool, welcome: Option<&Welcome>) -> Option<String> {
    let welcome = welcome?;
    let part = welcome.window_ns as f64 / welcome.cycle_ns.max(1) as f64;
    if !real_time || part <= BUSY_PART {
        return None;
    }
    Some(match sched::ordinary() {
        Ok(()) => format!(
            "windows fill {:.0} % of the time: at ordinary priority, as the kernel stops a real-time thread that never sleeps",
            part * 100.0
        ),
        Err(error) => format!("windows may be held up: {error}"),
    })
}
