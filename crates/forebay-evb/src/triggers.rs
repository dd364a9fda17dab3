//! Which triggers there were: from the first one seen to the last one, and those between them that no source delivered.
//!
//! A trigger that is lost in every source leaves nothing behind but a gap in the numbers of the events: it is inferred.

use std::collections::VecDeque;

use crate::absent::{Absent, Circle};
use crate::engine::Builder;
use crate::order::distance;

/// Triggers that came too late to be in an event and are remembered, so that each is counted once.
const LATE_MAX: usize = 1024;

/// Fewest triggers between the last one and number 0 for which it is the sources that began anew, and not 0 that came next.
const RESTART_GAP_MIN: u32 = 64;

/// Trigger numbers that no source delivered before its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerGap {
    /// First number.
    pub first: u32,
    /// Last number, inclusive.
    pub last: u32,
    /// How many triggers these are.
    pub items: u64,
}

/// What is known of the triggers beside the ledger.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    /// Number of the last event of the numbering at hand.
    pub(crate) last: Option<u32>,
    /// Numbers that nobody delivered so far.
    gone: Absent,
    /// Numbers of those that came after all.
    late: VecDeque<u32>,
}

impl Builder {
    pub(crate) fn circle(&self) -> Circle {
        Circle {
            bits: self.config.trigger_bits,
            step: self.config.trigger_step,
        }
    }

    /// An event of `trigger` is closed: counts it, and those before it that nobody delivered.
    #[inline]
    pub(crate) fn see_trigger(&mut self, trigger: u32) {
        let circle = self.circle();
        let steps = match self.triggers.last {
            Some(last) => circle.steps(last, trigger).max(1),
            None => 1,
        };
        let restarted = steps > RESTART_GAP_MIN && trigger < circle.step;
        let steps = if restarted { 1 } else { steps };
        self.book
            .add(self.accounts.resynchronised, restarted.into());
        self.book.add(self.accounts.triggers_span, steps.into());
        if steps > 1 {
            self.miss_triggers(trigger, u64::from(steps - 1));
        }
        self.triggers.last = Some(trigger);
    }

    fn miss_triggers(&mut self, trigger: u32, items: u64) {
        let circle = self.circle();
        let last = circle.before(trigger);
        let first = self
            .triggers
            .last
            .map_or(last, |seen| circle.after(seen, 1));
        self.book.add(self.accounts.triggers_missing, items);
        self.triggers.gone.note(circle, first, last);
        self.gaps.push_back(TriggerGap { first, last, items });
    }

    /// A sub-event of `trigger` came behind its turn: it is not missing any more. False when it never was, or is counted already.
    pub(crate) fn find_trigger(&mut self, trigger: u32) -> bool {
        if self.triggers.late.contains(&trigger) {
            return true;
        }
        let circle = self.circle();
        if !self.triggers.gone.take(circle, trigger) {
            return false;
        }
        let missing = self.accounts.triggers_missing;
        let left = self.book.value(missing).saturating_sub(1);
        self.book.set(missing, left);
        self.book.add(self.accounts.triggers_late, 1);
        if self.triggers.late.len() >= LATE_MAX {
            self.triggers.late.pop_front();
        }
        self.triggers.late.push_back(trigger);
        true
    }

    /// The sources go on with other numbers. What lies between is lost only if they went ahead, by at most a quarter of the range
    /// and not to its beginning: then they counted on while nothing of theirs came. Else they were started anew.
    pub(crate) fn renumber_triggers(&mut self, to: Option<u32>) {
        let counted_on = self.triggers.last.zip(to).is_some_and(|(last, to)| {
            let quarter = (self.config.trigger_bits.mask() >> 2).cast_signed();
            let ahead = distance(self.config.trigger_bits, last, to);
            (1..=quarter).contains(&ahead) && to > self.config.window_events
        });
        if !counted_on {
            self.triggers.last = None;
        }
        self.triggers.gone.forget();
        self.triggers.late.clear();
    }
}
