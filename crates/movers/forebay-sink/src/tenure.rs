//! How long a sink's thread may write into its books.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sink's right to its books. It ends when the sink is given up: what a hanging thread does afterwards is in no book, and
/// the holder of the ledger may charge what is left in the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tenure(Arc<Mutex<bool>>);

impl Tenure {
    /// Does `work` unless the tenure has ended, and not while it ends; says whether it was done.
    pub(crate) fn during(&self, work: impl FnOnce()) -> bool {
        let ended = self.lock();
        if !*ended {
            work();
        }
        !*ended
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.lock()
    }

    fn end(&self) {
        *self.lock() = true;
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The builder's hold on a sink's tenure, which ends with it.
#[derive(Debug)]
pub(super) struct Lease(pub(super) Tenure);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_after_the_end() {
        let tenure = Tenure::default();
        let lease = Lease(tenure.clone());
        assert!(tenure.during(|| ()));
        drop(lease);
        assert!(tenure.has_ended());
        assert!(!tenure.during(|| unreachable!("the tenure has ended")));
    }
}
