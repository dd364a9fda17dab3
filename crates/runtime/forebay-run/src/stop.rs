//! When a process ends, and how fast: the same for signals, the end of its time, the loss of the process that started it, and an order of the program itself.
//!
//! | what comes | urgency | what it means |
//! |---|---|---|
//! | the first SIGINT, SIGTERM or SIGHUP; the end of the duration | [`Drain`](Urgency::Drain) | nothing new is taken, and what is inside is delivered, as long as the program's own limits say |
//! | a further one; the process that started this one is gone | [`Hurry`](Urgency::Hurry) | nobody else is waited for: the books close within 3 s |
//! | one more, or 3 s later | [`Now`](Urgency::Now) | what is not delivered yet is lost by name |
//!
//! Whatever is waited for at the end is no longer waited for when the urgency rises.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use forebay_ledger::Reason;
use forebay_sys::clock;
use forebay_sys::eventfd::EventFd;
use forebay_sys::signals::StopSignals;
use forebay_sys::wait;

use crate::child::Parent;
use crate::error::RunError;

/// One look at time and parent, in ns.
const LOOK_NS: u64 = 50_000_000;
/// From [`Urgency::Hurry`] to [`Urgency::Now`], in ns.
const HURRY_NS: u64 = 3_000_000_000;

/// How fast the process shall end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Urgency {
    /// It goes on.
    Go,
    /// It takes nothing new, and delivers what it has.
    Drain,
    /// It waits for nobody else.
    Hurry,
    /// It closes its books at once.
    Now,
}

impl Urgency {
    const ALL: [Self; 4] = [Self::Go, Self::Drain, Self::Hurry, Self::Now];

    /// Whether a wait at the end that began at this urgency goes on: it ends when that rises, and is none when everything shall end at once.
    #[must_use]
    pub fn is_still(self, before: Self) -> bool {
        self == before && self < Self::Now
    }

    fn next(self) -> Self {
        match self {
            Self::Go => Self::Drain,
            Self::Drain => Self::Hurry,
            Self::Hurry | Self::Now => Self::Now,
        }
    }
}

/// Why it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A signal.
    Signal,
    /// Its time is over.
    TimeOver,
    /// The process that started it as a part of a chain is gone.
    ParentGone,
    /// The program itself.
    Order,
}

/// Whether and how fast a process shall end. All clones tell the same.
#[derive(Clone, Debug)]
pub struct Stop(Arc<State>);

#[derive(Debug)]
struct State {
    urgency: AtomicU8,
    cause: OnceLock<Cause>,
    /// The end of its time, by the monotonic clock.
    over_ns: AtomicU64,
    /// Readable when the urgency has risen.
    risen: EventFd,
    /// Readable when the watcher shall look.
    look: EventFd,
}

impl State {
    fn urgency(&self) -> Urgency {
        Urgency::ALL[usize::from(self.urgency.load(Ordering::Acquire))]
    }

    /// Raises the urgency; one that is there already stays.
    fn raise(&self, to: Urgency, cause: Cause) {
        let before = self.urgency.fetch_max(to as u8, Ordering::AcqRel);
        if before < to as u8 {
            let _ = self.cause.set(cause);
            self.risen.signal();
        }
    }
}

impl Stop {
    /// Of a process: its signals no longer kill it. A thread watches signals, time and parent; it begins before anything is pinned to a CPU.
    ///
    /// # Errors
    /// Descriptors or threads run out, or the kernel refuses a handler.
    pub fn of_process() -> Result<Self, RunError> {
        let signals = StopSignals::install()?;
        Self::watched(Some(signals), Parent::from_env())
    }

    /// Of an end point in a library, which has no process of its own: it ends by [`order`](Self::order) and time alone.
    ///
    /// # Errors
    /// Descriptors or threads run out.
    pub fn of_library() -> Result<Self, RunError> {
        Self::watched(None, Parent::none())
    }

    fn watched(signals: Option<StopSignals>, parent: Parent) -> Result<Self, RunError> {
        let stop = Self(Arc::new(State {
            urgency: AtomicU8::new(Urgency::Go as u8),
            cause: OnceLock::new(),
            over_ns: AtomicU64::new(u64::MAX),
            risen: EventFd::create()?,
            look: EventFd::create()?,
        }));
        let state = Arc::downgrade(&stop.0);
        let thread = std::thread::Builder::new().name("fb-stop".into());
        let watch = move || watch(&state, signals.as_ref(), parent);
        let started = thread.spawn(watch);
        started.map_err(RunError::file(
            "starting",
            "the thread that watches signals",
        ))?;
        Ok(stop)
    }

    /// How fast it shall end.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        self.0.urgency()
    }

    /// Whether it shall end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.urgency() > Urgency::Go
    }

    /// Why it ends, once it shall.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.0.cause.get().copied()
    }

    /// The reason that the ledger keeps, once it shall end.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Some(match self.cause()? {
            Cause::TimeOver => Reason::LimitReached,
            Cause::Signal | Cause::ParentGone | Cause::Order => Reason::Requested,
        })
    }

    /// Asks it to end so fast.
    pub fn order(&self, urgency: Urgency) {
        self.0.raise(urgency, Cause::Order);
        self.0.look.signal();
    }

    /// Its time is over so long from now.
    pub fn end_after(&self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let over_ns = clock::monotonic_ns().saturating_add(time_ns);
        self.0.over_ns.store(over_ns, Ordering::Release);
        self.0.look.signal();
    }

    /// Makes the descriptor wait for the next rise of the urgency.
    pub fn drain(&self) {
        self.0.risen.drain();
    }
}

/// Readable when the urgency has risen, until it is drained.
impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.risen.as_fd()
    }
}

/// Until nobody asks any more.
fn watch(state: &Weak<State>, signals: Option<&StopSignals>, parent: Parent) {
    let (mut signalled, mut hurried_ns) = (0, None);
    while let Some(state) = state.upgrade() {
        let now_ns = clock::monotonic_ns();
        if let Some(signals) = signals {
            signals.drain();
            let count = signals.count();
            for _ in signalled..count {
                state.raise(state.urgency().next(), Cause::Signal);
            }
            signalled = count;
        }
        let over_ns = state.over_ns.load(Ordering::Acquire);
        if now_ns >= over_ns {
            state.raise(Urgency::Drain, Cause::TimeOver);
        }
        if parent.is_gone() {
            state.raise(Urgency::Hurry, Cause::ParentGone);
        }
        if state.urgency() == Urgency::Hurry {
            let since_ns = *hurried_ns.get_or_insert(now_ns);
            if now_ns >= since_ns + HURRY_NS {
                state.raise(Urgency::Now, Cause::Order);
            }
        }
        let mut until_ns = now_ns + LOOK_NS;
        if over_ns > now_ns {
            until_ns = until_ns.min(over_ns);
        }
        state.look.drain();
        let own = state.look.as_fd();
        let woken = match signals {
            Some(signals) => wait::sleep_until_or([own, signals.as_fd()], until_ns, 0),
            None => wait::sleep_until_or([own], until_ns, 0),
        };
        if woken.is_err() {
            std::thread::sleep(Duration::from_nanos(LOOK_NS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a rise of the urgency.
    fn risen(stop: &Stop) -> Urgency {
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        wait::sleep_until_or([stop.as_fd()], until_ns, 0).unwrap();
        stop.drain();
        stop.urgency()
    }

    #[test]
    fn an_order_is_told_to_all_and_never_taken_back() {
        let stop = Stop::of_library().unwrap();
        let other = stop.clone();
        assert_eq!((other.urgency(), other.cause()), (Urgency::Go, None));
        stop.order(Urgency::Drain);
        assert!(other.is_asked());
        assert_eq!(risen(&other), Urgency::Drain);
        stop.order(Urgency::Go);
        assert_eq!(stop.urgency(), Urgency::Drain);
        assert_eq!(stop.cause(), Some(Cause::Order));
        assert_eq!(stop.reason(), Some(Reason::Requested));
    }

    #[test]
    fn a_wait_ends_when_the_urgency_rises_and_does_not_begin_at_the_last_one() {
        for urgency in Urgency::ALL {
            assert_eq!(urgency.is_still(urgency), urgency < Urgency::Now);
            assert!(!urgency.next().is_still(urgency));
        }
    }

    #[test]
    fn a_hurried_end_is_at_once_3_s_later() {
        let stop = Stop::of_library().unwrap();
        let begun_ns = clock::monotonic_ns();
        stop.order(Urgency::Hurry);
        assert_eq!(risen(&stop), Urgency::Hurry);
        assert_eq!(risen(&stop), Urgency::Now);
        assert!(clock::monotonic_ns() - begun_ns >= HURRY_NS);
    }

    #[test]
    fn time_that_is_over_drains() {
        let stop = Stop::of_library().unwrap();
        stop.end_after(Duration::from_millis(1));
        assert_eq!(risen(&stop), Urgency::Drain);
        assert_eq!(stop.cause(), Some(Cause::TimeOver));
        assert_eq!(stop.reason(), Some(Reason::LimitReached));
        // Why it ends is not what hurries it.
        stop.order(Urgency::Hurry);
        assert_eq!(stop.reason(), Some(Reason::LimitReached));
    }
}
