//! How late this host wakes a thread up: measured before a session, so that the guard is computed and not guessed.

use forebay_sys::{clock, wait};

/// Trials: the worst of them stands for 99.9 %.
const TRIALS: u32 = 400;
/// Length of a trial, in ns.
const TRIAL_NS: u64 = 300_000;
/// The last part of a wait is spun through, in ns.
pub(super) const SPIN_NS: u64 = 100_000;
/// Trials that were held up by more than this say something of the host's load and not of the timer; they are told apart, in ns.
const HELD_UP_NS: u64 = 1_000_000;

/// What trials have shown.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Lateness {
    /// The median, in ns.
    pub p50_ns: u64,
    /// All but one of a thousand are better, in ns; trials that were held up are left out.
    pub p999_ns: u64,
    /// The worst, in ns.
    pub max_ns: u64,
    /// Trials that were held up by more than a millisecond, of so many.
    pub held_up: u32,
}

/// Measures it: about 0.12 s.
pub(super) fn measure() -> Lateness {
    let mut late = Vec::with_capacity(TRIALS as usize);
    for _ in 0..TRIALS {
        let deadline_ns = clock::monotonic_ns() + TRIAL_NS;
        late.push(wait::sleep_until(deadline_ns, SPIN_NS));
    }
    late.sort_unstable();
    let held_up = late.iter().filter(|late| **late > HELD_UP_NS).count();
    let rest = late.get(..late.len() - held_up).unwrap_or_default();
    Lateness {
        p50_ns: late.get(late.len() / 2).copied().unwrap_or(0),
        p999_ns: rest.last().copied().unwrap_or(HELD_UP_NS),
        max_ns: late.last().copied().unwrap_or(0),
        held_up: held_up as u32,
    }
}
