//! Which triggers there were: from the first one seen to the last one, and those between them that no source delivered.
//!
//! A trigger that is lost in every source leaves nothing behind but a gap in the numbers of the events: it is inferred.

use std::collections::VecDeque;

use crate::absent::{Absent, Circle};
use crate::engine::Builder;
use crate::numbers::Run;
use crate::order::distance;
use crate::recent::RECENT;

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

/// What numbers are that a dropped sub-event may stand for.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Of events without its source.
    Source,
    /// Of triggers that nobody delivered.
    Gone,
    /// Of triggers of which another source's was dropped.
    Dropped,
}

/// What is known of the triggers beside the ledger.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    /// Number of the last event of the numbering at hand.
    pub(crate) last: Option<u32>,
    /// Numbers that nobody delivered so far.
    gone: Absent,
    /// Numbers in no event, of which a sub-event came that the receiver dropped.
    dropped: Absent,
    /// Numbers of those that came after all.
    late: VecDeque<u32>,
    /// Number of the last event of the numbering before this one.
    before: Option<u32>,
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
        let is_behind = |last| distance(circle.bits, last, trigger) < 0;
        let behind = self.triggers.last.is_some_and(is_behind);
        if behind && self.take_back(trigger) {
            return;
        }
        let steps = match self.triggers.last {
            Some(last) if !behind => circle.steps(last, trigger).max(1),
            _ => 1,
        };
        let restarted = steps > RESTART_GAP_MIN && trigger < circle.step;
        // The numbering before this one goes on: what came in between were repetitions, and what lies between was built.
        let goes_on = self.triggers.before.take_if(|_| steps > 1) == Some(circle.before(trigger));
        let steps = if restarted || goes_on { 1 } else { steps };
        self.book
            .add(self.accounts.resynchronised, restarted.into());
        self.book.add(self.accounts.triggers_span, steps.into());
        if steps > 1 {
            self.miss_triggers(trigger, u64::from(steps - 1));
        }
        self.triggers.last = Some(trigger);
    }

    /// The `items` triggers before `trigger` are in no event: the receiver dropped what came of them, or nothing came.
    fn miss_triggers(&mut self, trigger: u32, items: u64) {
        let circle = self.circle();
        let last = circle.before(trigger);
        let first = self
            .triggers
            .last
            .map_or(last, |seen| circle.after(seen, 1));
        if !self.sources.iter().any(|source| source.absent.is_dropped()) {
            return self.note_gap(first, last, items);
        }
        let mut marks = vec![false; items as usize];
        for source in &mut self.sources {
            source.absent.mark_dropped(circle, first, &mut marks);
        }
        let mut at = 0;
        for alike in marks.chunk_by(PartialEq::eq) {
            let items = alike.len() as u32;
            let from = circle.after(first, at);
            let to = circle.after(from, items - 1);
            if alike[0] {
                self.book.add(self.accounts.triggers_dropped, items.into());
                self.triggers.dropped.note(circle, from, to);
            } else {
                self.note_gap(from, to, items.into());
            }
            at += items;
        }
    }

    /// No source delivered the `items` triggers from `first` to `last`.
    fn note_gap(&mut self, first: u32, last: u32, items: u64) {
        let circle = self.circle();
        self.book.add(self.accounts.triggers_missing, items);
        self.triggers.gone.note(circle, first, last);
        self.gaps.push_back(TriggerGap { first, last, items });
    }

    /// The receiver has dropped the sub-events of `source` with these numbers, behind what came of it. Those whose turn is over are not inferred lost any more.
    pub(crate) fn came_refused(&mut self, source: usize, run: Run) {
        let circle = self.circle();
        let run = run.narrow(circle.bits);
        let passed = self
            .next
            .map_or(0, |next| run.index_from(circle.bits, next));
        if let Some(ahead) = run.starting_at(circle.bits, passed) {
            self.sources[source].absent.refuse(ahead);
            self.some_unsettled = true;
        }
        if passed == 0 {
            return;
        }
        let past = Run {
            items: passed,
            ..run
        };
        let (triggers, absent) = (&mut self.triggers, &mut self.sources[source].absent);
        let (mut found, mut known) = (0, 0);
        let mut through = None;
        absent.take_all(circle, past, |_, last, items| {
            found += items;
            through = Some(last);
        });
        if let Some(through) = through {
            absent.know(circle, through);
        }
        let Triggers { gone, dropped, .. } = triggers;
        gone.take_all(circle, past, |first, last, items| {
            known += items;
            dropped.note(circle, first, last);
        });
        self.found(source, found);
        self.take_off(self.accounts.triggers_missing, known);
        self.book.add(self.accounts.triggers_dropped, known);
    }

    /// The receiver has dropped `count` sub-events of `source` before its first message: they stand for the oldest of the events that it owes and of
    /// the triggers that nobody delivered, and what is left for those that it will owe.
    pub(crate) fn came_dropped(&mut self, source: usize, count: u32) {
        let (circle, last) = (self.circle(), self.heads.of[source].last());
        let before = |a: u32, b: u32| distance(circle.bits, a, b) > 0;
        let (triggers, next) = (&mut self.triggers, self.next);
        let absent = &mut self.sources[source].absent;
        let (mut left, mut found, mut known) = (u64::from(count), 0, 0);
        while left > 0 {
            let since = absent.known(circle, last);
            let runs = [
                (Of::Source, absent.oldest(circle, since)),
                (Of::Gone, triggers.gone.oldest(circle, since)),
                (Of::Dropped, triggers.dropped.oldest(circle, since)),
            ];
            // What is not behind the event at hand is left over from an earlier round of the numbers.
            let is_past = |number| next.is_none_or(|next| before(number, next));
            let runs = runs.into_iter();
            let past = runs.filter_map(|(of, run)| Some((of, run.filter(|run| is_past(run.0))?)));
            let oldest = past.reduce(|a, b| if before(b.1.0, a.1.0) { b } else { a });
            let Some((of, (first, items))) = oldest else {
                break;
            };
            let taken = items.min(left);
            left -= taken;
            let through = circle.after(first, taken as u32 - 1);
            match of {
                Of::Source => {
                    absent.take_run(circle, first, taken);
                    found += taken;
                }
                Of::Gone => {
                    absent.know(circle, through);
                    triggers.gone.take_run(circle, first, taken);
                    triggers.dropped.note(circle, first, through);
                    known += taken;
                }
                Of::Dropped => absent.know(circle, through),
            }
        }
        absent.dropped += left;
        self.some_unsettled |= absent.is_unsettled();
        self.found(source, found);
        self.take_off(self.accounts.triggers_missing, known);
        self.book.add(self.accounts.triggers_dropped, known);
    }

    /// Whether `trigger`, which lies behind, is among the latest that are in no event: then the numbers step back to it, and did not begin anew.
    pub(crate) fn was_skipped(&self, trigger: u32) -> bool {
        let (circle, triggers) = (self.circle(), &self.triggers);
        let is_recent = |last| distance(circle.bits, trigger, last) <= RECENT as i32;
        triggers.last.is_some_and(is_recent)
            && (triggers.gone.owes(circle, trigger) || triggers.dropped.owes(circle, trigger))
    }

    /// The event of `trigger` is built after all, if its turn had been over: it is in the span already.
    fn take_back(&mut self, trigger: u32) -> bool {
        let (circle, triggers) = (self.circle(), &mut self.triggers);
        let word = if triggers.gone.take(circle, trigger) {
            self.accounts.triggers_missing
        } else if triggers.dropped.take(circle, trigger) {
            self.accounts.triggers_dropped
        } else {
            return false;
        };
        self.take_off(word, 1);
        true
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
        self.take_off(self.accounts.triggers_missing, 1);
        self.book.add(self.accounts.triggers_late, 1);
        if self.triggers.late.len() >= LATE_MAX {
            self.triggers.late.pop_front();
        }
        self.triggers.late.push_back(trigger);
        true
    }

    /// The sources go on with other numbers. What lies between is lost only if they went ahead, by at most a quarter of the range
    /// and not to its beginning: then they counted on while nothing of theirs came, which is told. Else they were started anew.
    pub(crate) fn renumber_triggers(&mut self, to: Option<u32>) -> bool {
        let counted_on = self.triggers.last.zip(to).is_some_and(|(last, to)| {
            let quarter = (self.config.trigger_bits.mask() >> 2).cast_signed();
            let ahead = distance(self.config.trigger_bits, last, to);
            (1..=quarter).contains(&ahead) && to > self.config.window_events
        });
        self.triggers.before = self.triggers.last.filter(|_| !counted_on);
        if !counted_on {
            self.triggers.last = None;
        }
        self.triggers.gone.forget();
        self.triggers.dropped.forget();
        self.triggers.late.clear();
        counted_on
    }
}
