//! A lock that is passed on in order: a thread that waits in slices would else take it again before another one wakes up.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    serving: u64,
}

/// A lock that is passed on in order.
#[derive(Debug)]
pub(crate) struct Turnstile<T> {
    tickets: Mutex<Tickets>,
    moved: Condvar,
    inner: Mutex<T>,
}

/// The thread whose turn it is.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    // Given back first, as fields are dropped in order.
    inner: MutexGuard<'a, T>,
    _passed: Passed<'a, T>,
}

/// Lets the next one in when it is dropped.
#[derive(Debug)]
struct Passed<'a, T>(&'a Turnstile<T>);

impl<T> Turnstile<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self {
            tickets: Mutex::default(),
            moved: Condvar::new(),
            inner: Mutex::new(inner),
        }
    }

    /// Waits for its turn. Not to be called by a thread that holds the interpreter's lock.
    pub(crate) fn enter(&self) -> Turn<'_, T> {
        let mut tickets = self.tickets();
        let mine = tickets.next;
        tickets.next += 1;
        while tickets.serving != mine {
            tickets = self
                .moved
                .wait(tickets)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(tickets);
        self.turn()
    }

    /// Only when nobody is there, and nobody waits.
    pub(crate) fn enter_if_free(&self) -> Option<Turn<'_, T>> {
        let mut tickets = self.tickets();
        if tickets.next != tickets.serving {
            return None;
        }
        tickets.next += 1;
        drop(tickets);
        Some(self.turn())
    }

    fn turn(&self) -> Turn<'_, T> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Turn {
            inner,
            _passed: Passed(self),
        }
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Passed<'_, T> {
    fn drop(&mut self) {
        self.0.tickets().serving += 1;
        self.0.moved.notify_all();
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
