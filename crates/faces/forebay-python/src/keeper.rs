//! Works with an end point while Python does something else: buffers go out in time, peers come in, and nobody takes this side for dead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyo3::PyResult;

use crate::end::{End, State};
use crate::turnstile::Turnstile;

/// Between two looks while there is traffic.
const PACE: Duration = Duration::from_millis(1);
/// The same when there was none for a while.
const SLOW_PACE: Duration = Duration::from_millis(20);
/// That is so long.
const QUIET_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Orders {
    end: bool,
    nudged: bool,
}

#[derive(Debug, Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
    is_slow: AtomicBool,
}

impl Desk {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; whether to go on.
    fn pause(&self, pace: Duration) -> bool {
        let orders = self.orders();
        let waits = |orders: &mut Orders| !orders.end && !orders.nudged;
        let (mut orders, _) = self
            .changed
            .wait_timeout_while(orders, pace, waits)
            .unwrap_or_else(PoisonError::into_inner);
        orders.nudged = false;
        !orders.end
    }
}

/// The thread; it ends with this.
#[derive(Debug)]
pub(crate) struct Keeper {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    pub(crate) fn start<E: End>(state: Arc<Turnstile<State<E>>>) -> PyResult<Self> {
        let desk = Arc::new(Desk::default());
        let own = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("forebay-keeper".into())
            .spawn(move || work(&own, &state))?;
        Ok(Self {
            desk,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Something was done that may have to go on soon.
    pub(crate) fn nudge(&self) {
        if self.desk.is_slow.load(Ordering::Acquire) {
            self.desk.orders().nudged = true;
            self.desk.changed.notify_one();
        }
    }

    /// Ends the thread. It never waits for the interpreter.
    pub(crate) fn stop(&self) {
        self.desk.orders().end = true;
        self.desk.changed.notify_one();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // One that panicked keeps nothing any more.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn work<E: End>(desk: &Desk, state: &Turnstile<State<E>>) {
    let mut seen = 0;
    let mut active = Instant::now();
    let mut busy = false;
    loop {
        let is_slow = active.elapsed() >= QUIET_AFTER;
        desk.is_slow.store(is_slow, Ordering::Release);
        let pace = match (busy, is_slow) {
            (true, _) => Duration::ZERO,
            (false, false) => PACE,
            (false, true) => SLOW_PACE,
        };
        if !desk.pause(pace) {
            return;
        }
        // A thread that works with it does this work, too.
        let Some(mut state) = state.enter_if_free() else {
            (active, busy) = (Instant::now(), false);
            continue;
        };
        busy = state.keep();
        if busy || state.visits != seen {
            seen = state.visits;
            active = Instant::now();
        }
    }
}
