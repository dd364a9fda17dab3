//! Signals turned into a flag and a wake-up.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::SysError;
use crate::eventfd::EventFd;

/// Watches for the wish to end: `SIGINT`, `SIGTERM` and `SIGHUP` no longer kill the process but raise a count and make a
/// descriptor readable. Dropping it restores nothing: the signals are then ignored.
#[derive(Debug)]
pub struct StopSignals {
    state: Arc<State>,
    registrations: Vec<SigId>,
}

#[derive(Debug)]
struct State {
    count: AtomicU32,
    last: AtomicU32,
    event: EventFd,
}

impl State {
    /// Runs inside a signal handler: two atomic stores and one `write`.
    fn note(&self, signal: i32) {
        self.last.store(signal.unsigned_abs(), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: errno belongs to the interrupted code and is put back; `write` is async-signal-safe, the buffer lives.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(
                self.event.as_fd().as_raw_fd(),
                one.as_ptr().cast(),
                one.len(),
            );
            *libc::__errno_location() = errno;
        }
    }
}

impl StopSignals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When descriptors run out or the kernel refuses a handler.
    pub fn install() -> Result<Self, SysError> {
        let state = Arc::new(State {
            count: AtomicU32::new(0),
            last: AtomicU32::new(0),
            event: EventFd::create()?,
        });
        let mut registrations = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let noted = Arc::clone(&state);
            // SAFETY: the handler only stores to atomics and calls `write`, all async-signal-safe, and cannot panic.
            let id =
                unsafe { signal_hook::low_level::register(signal, move || noted.note(signal)) };
            registrations.push(id.map_err(|source| {
                SysError::new("sigaction", format!("signal {signal}"), source)
            })?);
        }
        Ok(Self {
            state,
            registrations,
        })
    }

    /// How many have come; a second one is the user's impatience.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.state.count.load(Ordering::Acquire)
    }

    /// The last one, such as `SIGINT`.
    #[must_use]
    pub fn last(&self) -> Option<&'static str> {
        let signal = self.state.last.load(Ordering::Relaxed).cast_signed();
        signal_hook::low_level::signal_name(signal)
    }

    /// Makes the descriptor wait for the next signal.
    pub fn drain(&self) {
        self.state.event.drain();
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        for id in self.registrations.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.event.as_fd()
    }
}

/// Ignores `SIGXFSZ`: a write beyond the limit of the size of files (`ulimit -f`) fails with a reason instead of ending the
/// process without one.
pub fn let_writes_fail() {
    // SAFETY: SIG_IGN is a valid disposition and runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ignores `SIGINT`, `SIGTERM` and `SIGHUP`: a terminal or a service manager sends them to every process of a group, but a
/// stage ends when its supervisor says so.
pub fn leave_signals_to_supervisor() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition and runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_count_and_the_event() {
        let stop = StopSignals::install().unwrap();
        assert_eq!((stop.count(), stop.last()), (0, None));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!((stop.count(), stop.last()), (1, Some("SIGTERM")));
        assert!(stop.state.event.drain());
        stop.drain();
    }
}
