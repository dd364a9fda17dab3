//! What is posted: one context for each operation that may be under way.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::FiContext2;
use super::memory::{Page, Region};
use super::shared::SharedMemory;

/// What an operation holds until it is complete.
#[derive(Debug)]
pub(crate) enum Posted {
    /// A page to be filled.
    Receive(Page),
    /// A page that goes out.
    Send(Page),
    /// A piece that goes out, and memory of which something goes out behind it.
    Piece {
        piece: Region,
        #[expect(dead_code, reason = "held so that it stays mapped")]
        behind: Option<Arc<SharedMemory>>,
        user: u64,
    },
    /// The message without bytes: the end of this side.
    End,
}

/// Contexts and what is posted with each. The provider writes into contexts, so there is never a reference to one.
pub(super) struct Contexts {
    memory: NonNull<[FiContext2]>,
    posted: Vec<Option<Posted>>,
    /// Contexts that are not tied to a page.
    loose: Vec<usize>,
}

// SAFETY: plain memory that this value owns.
unsafe impl Send for Contexts {}

impl Contexts {
    /// `tied` contexts by number, and then `loose` ones.
    pub(super) fn new(tied: usize, loose: usize) -> Self {
        let count = tied + loose;
        let empty = FiContext2 {
            internal: [ptr::null_mut(); 8],
        };
        let memory = Box::leak(vec![empty; count].into_boxed_slice());
        Self {
            memory: NonNull::from(memory),
            posted: std::iter::repeat_with(|| None).take(count).collect(),
            loose: (tied..count).rev().collect(),
        }
    }

    /// A context that is free, `None` when all are posted.
    pub(super) fn loose(&mut self) -> Option<usize> {
        self.loose.pop()
    }

    /// Whether one is free.
    pub(super) fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Notes what is about to be posted, and gives the context for it.
    pub(super) fn occupy(&mut self, at: usize, what: Posted) -> *mut c_void {
        let before = self.posted[at].replace(what);
        assert!(before.is_none(), "posted twice with one context");
        // SAFETY: in the allocation: `posted` has as many places, and the index was just used there.
        unsafe { self.memory.as_ptr().cast::<FiContext2>().add(at).cast() }
    }

    /// What was posted there; the context is free again.
    pub(super) fn vacate(&mut self, at: usize) -> Option<Posted> {
        let what = self.posted.get_mut(at)?.take();
        if matches!(what, Some(Posted::Piece { .. } | Posted::End)) {
            self.loose.push(at);
        }
        what
    }

    /// What was posted with this context; `None`: nothing, or it is none of ours.
    pub(super) fn complete(&mut self, context: *mut c_void) -> Option<Posted> {
        let start = self.memory.as_ptr().cast::<FiContext2>() as usize;
        let offset = (context as usize).checked_sub(start)?;
        if !offset.is_multiple_of(size_of::<FiContext2>()) {
            return None;
        }
        self.vacate(offset / size_of::<FiContext2>())
    }

    /// Sends that are under way.
    pub(super) fn sends(&self) -> usize {
        let is_send =
            |what: &&Option<Posted>| matches!(what, Some(Posted::Send(_) | Posted::Piece { .. }));
        self.posted.iter().filter(is_send).count()
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        // SAFETY: it came from a box; the end point that wrote here is closed, or this value was forgotten.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}
