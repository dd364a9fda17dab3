//! The wake-up flag: *process, ask to be signalled, look again, sleep*.
//!
//! The waiter's flag lies in the waiter's own page, so the notifier can only read it. Both sides pass a full fence between their store and
//! their load (Dekker): either the notifier sees the flag, or the waiter's second look sees what the notifier has published.

use crate::atomics::{AtomicU32, Ordering, fence};

/// Set while its owner is asleep or about to be.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct WaitFlag {
    waiting: AtomicU32,
}

impl Default for WaitFlag {
    fn default() -> Self {
        WaitFlag {
            waiting: AtomicU32::new(0),
        }
    }
}

impl WaitFlag {
    /// The waiter: asks to be signalled. Look again after this and before sleeping.
    pub fn ask(&self) {
        self.waiting.store(1, Ordering::Relaxed);
        // SYNC POINT: pairs with the fence in `is_asked`: our flag before our second look at the rings.
        fence(Ordering::SeqCst);
    }

    /// The waiter: awake.
    pub fn done(&self) {
        // Relaxed: seen late, it costs the notifier one signal too many.
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// The notifier, after publishing: whether the waiter wants a signal.
    pub fn is_asked(&self) -> bool {
        // SYNC POINT: pairs with the fence in `ask`: our published positions before our look at the flag.
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::Relaxed) != 0
    }
}
