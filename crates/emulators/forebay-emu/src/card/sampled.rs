//! Times of some triggers, for a caller that measures how long their chunks take.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::ttc::{TICKS_PER_NS, Trigger};

/// So many are kept until somebody takes them.
pub const SAMPLED_MOST: usize = 1024;

/// Each n-th trigger that was given.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    every: NonZeroU64,
    kept: VecDeque<(u64, u64)>,
}

impl Sampled {
    pub(super) fn new(every: NonZeroU64) -> Self {
        Self {
            every,
            kept: VecDeque::with_capacity(SAMPLED_MOST),
        }
    }

    #[inline]
    pub(super) fn handle_trigger(&mut self, trigger: Trigger) {
        if trigger.number % self.every == 0 {
            if self.kept.len() == SAMPLED_MOST {
                self.kept.pop_front();
            }
            self.kept
                .push_back((trigger.number, trigger.at / TICKS_PER_NS));
        }
    }

    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        self.kept.pop_front()
    }
}
