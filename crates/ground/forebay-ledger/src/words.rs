//! The mapped file as this crate sees it: shared words, whichever code mapped them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::AtomicU64;

/// A cheap handle on the words of one ledger file.
///
/// The code that maps the file wraps the mapping in it; tests use [`Words::zeroed`]. All clones see the
/// same memory.
#[derive(Clone)]
pub struct Words(Arc<dyn AsRef<[AtomicU64]> + Send + Sync>);

impl Words {
    /// Wraps memory that lives as long as the last clone.
    ///
    /// `as_ref` must return the same slice every time, as a mapping does.
    pub fn new<M: AsRef<[AtomicU64]> + Send + Sync + 'static>(memory: M) -> Self {
        Self(Arc::new(memory))
    }

    /// Private memory of `len` words, all 0, as a fresh file would be.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::new((0..len).map(|_| AtomicU64::new(0)).collect::<Vec<_>>())
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({} words)", self.len())
    }
}
