//! What one source owes: the events that were built without it, until what it sent for them comes after all.
//!
//! Only what never came is inferred lost. A sub-event that comes and is dropped has a name already, so it must be
//! found here and taken off: a late one by its number, one whose number cannot be true by its place in the order of its source.

use std::collections::VecDeque;

use crate::numbers::{RUNS_MAX, Run};
use crate::order::distance;
use crate::recent::RECENT;
use forebay_wire::subevent::TriggerBits;

/// Ranges of events without a source that are remembered for it, the latest ones. What comes for an older one is dropped by its
/// name and stays in the inference, too.
pub(crate) const ABSENT_RANGES_MAX: usize = 64;

/// Numbers of sub-events astray that are remembered for a source, the latest ones.
const ASTRAY_NUMBERS_MAX: usize = 64;

/// Trigger numbers from `first` to `last`, each `step` after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: u32,
    last: u32,
}

/// Events without a source, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    spans: VecDeque<Span>,
    /// Sub-events without a true number that were dropped since the source was last in an event, and stand for none yet.
    pub(crate) astray: u64,
    /// Sub-events that the receiver dropped since then, whose numbers it does not say, and that stand for none yet.
    pub(crate) dropped: u64,
    /// Numbers of those of which it says them, in the order in which they came; not all are behind the event at hand.
    refused: VecDeque<Run>,
    /// The last number that came late, or was in no event and stands for one that the receiver dropped.
    through: Option<u32>,
    /// The numbers that they bore, as far as they lie ahead: one that was only early comes to its turn with nothing else.
    numbers: VecDeque<u32>,
}

/// The circle of trigger numbers, and how far one is from the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circle {
    pub(crate) bits: TriggerBits,
    pub(crate) step: u32,
}

impl Circle {
    /// Steps from `from` on to `to`, rounded up; `to` lies ahead.
    pub(crate) fn steps(self, from: u32, to: u32) -> u32 {
        (to.wrapping_sub(from) & self.bits.mask()).div_ceil(self.step)
    }

    /// The number `steps` after `from`.
    pub(crate) fn after(self, from: u32, steps: u32) -> u32 {
        from.wrapping_add(steps.wrapping_mul(self.step)) & self.bits.mask()
    }

    /// The number before `from`.
    pub(crate) fn before(self, from: u32) -> u32 {
        from.wrapping_sub(self.step) & self.bits.mask()
    }

    fn holds(self, span: Span, number: u32) -> bool {
        let ahead = |from, to| distance(self.bits, from, to) >= 0;
        ahead(span.first, number) && ahead(number, span.last)
    }
}

impl Absent {
    /// The events from `first` to `last` were closed without the source.
    pub(crate) fn note(&mut self, circle: Circle, first: u32, last: u32) {
        let is_before = |span: &Span| distance(circle.bits, span.last, first) > 0;
        let before = self.spans.iter().rposition(is_before);
        if let Some(at) = before
            && circle.after(self.spans[at].last, 1) == first
        {
            self.spans[at].last = last;
            return;
        }
        self.spans
            .insert(before.map_or(0, |at| at + 1), Span { first, last });
        if self.spans.len() > ABSENT_RANGES_MAX {
            self.spans.pop_front();
        }
    }

    /// Whether the event of `number` was closed without the source, and nothing came for it yet.
    pub(crate) fn owes(&self, circle: Circle, number: u32) -> bool {
        self.spans.iter().any(|span| circle.holds(*span, number))
    }

    /// Takes `number` off; false when it is not owed.
    pub(crate) fn take(&mut self, circle: Circle, number: u32) -> bool {
        let owed = self.owes(circle, number);
        if owed {
            self.take_run(circle, number, 1);
        }
        owed
    }

    /// Takes off the oldest number behind `since`, the one that the source delivered last; false when it owes none.
    pub(crate) fn take_oldest(&mut self, circle: Circle, since: Option<u32>) -> bool {
        let oldest = self.oldest(circle, since);
        if let Some((number, _)) = oldest {
            self.take_run(circle, number, 1);
        }
        oldest.is_some()
    }

    /// The oldest numbers behind `since` that follow each other: the first of them, and how many they are.
    pub(crate) fn oldest(&self, circle: Circle, since: Option<u32>) -> Option<(u32, u64)> {
        let after = |number| since.is_none_or(|since| distance(circle.bits, since, number) > 0);
        let Span { first, last } = *self.spans.iter().find(|span| after(span.last))?;
        let first = match since {
            Some(since) if !after(first) => circle.after(since, 1),
            _ => first,
        };
        Some((first, u64::from(circle.steps(first, last)) + 1))
    }

    /// Takes off `count` numbers from `number` on, which are owed and follow each other.
    pub(crate) fn take_run(&mut self, circle: Circle, number: u32, count: u64) {
        let held = |span: &Span| circle.holds(*span, number);
        let Some(at) = self.spans.iter().position(held) else {
            return;
        };
        let Span { first, last } = self.spans[at];
        self.spans.remove(at);
        if count <= u64::from(circle.steps(number, last)) {
            let first = circle.after(number, count as u32);
            self.spans.insert(at, Span { first, last });
        }
        if number != first {
            let last = circle.before(number);
            self.spans.insert(at, Span { first, last });
        }
        if self.spans.len() > ABSENT_RANGES_MAX {
            self.spans.pop_front();
        }
    }

    /// Takes off what is owed of the numbers of `run`, and shows it in runs of one step of the circle: first, last, how many.
    pub(crate) fn take_all(
        &mut self,
        circle: Circle,
        run: Run,
        mut show: impl FnMut(u32, u32, u64),
    ) {
        let mut rest = Some(run);
        while let Some(run) = rest {
            let is_ahead = |span: &&Span| distance(circle.bits, run.first, span.last) >= 0;
            let Some(Span { first, last }) = self.spans.iter().find(is_ahead).copied() else {
                return;
            };
            rest = run.starting_at(circle.bits, run.index_from(circle.bits, first));
            let Some(run) = rest else { return };
            if !circle.holds(Span { first, last }, run.first) {
                continue;
            }
            let is_dense = run.step == circle.step;
            let to_last = u64::from(circle.steps(run.first, last)) + 1;
            let items = if is_dense {
                to_last.min(run.items.into())
            } else {
                1
            };
            self.take_run(circle, run.first, items);
            show(run.first, circle.after(run.first, items as u32 - 1), items);
            rest = run.starting_at(circle.bits, items as u32);
        }
    }

    /// The receiver dropped sub-events of these numbers, which lie ahead.
    pub(crate) fn refuse(&mut self, run: Run) {
        if self.refused.len() >= RUNS_MAX {
            let oldest = self.refused.pop_front();
            self.dropped += oldest.map_or(0, |run| u64::from(run.items));
        }
        self.refused.push_back(run);
    }

    /// Sub-events that the receiver dropped and that stand for no event yet, with and without a number.
    pub(crate) fn waiting(&self, bits: TriggerBits, next: Option<u32>) -> u64 {
        let ahead = |run: &Run| {
            let index = next.map_or(0, |next| run.index_from(bits, next));
            u64::from(run.items - index)
        };
        self.dropped + self.refused.iter().map(ahead).sum::<u64>()
    }

    /// Marks the triggers from `first` on of which the receiver dropped this source's sub-event. Those without a number stand for the oldest ones of which it says
    /// nothing.
    pub(crate) fn mark_dropped(&mut self, circle: Circle, first: u32, marks: &mut [bool]) {
        let mask = circle.bits.mask();
        let mut own = vec![false; marks.len()];
        for run in &self.refused {
            let Some(run) = run.starting_at(circle.bits, run.index_from(circle.bits, first)) else {
                continue;
            };
            for index in 0..run.items {
                let ahead = run.number(index, mask).wrapping_sub(first) & mask;
                let Some(own) = own.get_mut((ahead / circle.step) as usize) else {
                    break;
                };
                *own |= ahead.is_multiple_of(circle.step);
            }
        }
        let unknown = own.iter_mut().enumerate().filter(|(_, own)| !**own);
        let mut last = None;
        for (at, own) in unknown.take(usize::try_from(self.dropped).unwrap_or(usize::MAX)) {
            self.dropped -= 1;
            *own = true;
            last = Some(circle.after(first, at as u32));
        }
        if let Some(last) = last {
            self.know(circle, last);
        }
        for (mark, own) in marks.iter_mut().zip(own) {
            *mark |= own;
        }
    }

    /// A sub-event of `number` was dropped since that cannot be its number; the source delivered `since` last. True when it stands for
    /// an event that is closed.
    pub(crate) fn come_astray(&mut self, circle: Circle, number: u32, since: Option<u32>) -> bool {
        if self.take_oldest(circle, since) {
            return true;
        }
        self.astray += 1;
        if self.numbers.len() >= ASTRAY_NUMBERS_MAX {
            self.numbers.pop_front();
        }
        self.numbers.push_back(number);
        false
    }

    /// Whether a sub-event that the receiver dropped stands for the event of `number`, which the source is not in. All before `next` is over.
    pub(crate) fn was_dropped(&mut self, bits: TriggerBits, next: u32, number: u32) -> bool {
        let is_past = |run: &Run| distance(bits, run.last(bits.mask()), next) > 0;
        while self.refused.front().is_some_and(is_past) {
            self.refused.pop_front();
        }
        if self.refused.iter().any(|run| run.contains(bits, number)) {
            return true;
        }
        let any = self.dropped > 0;
        self.dropped -= u64::from(any);
        any
    }

    /// Whether a sub-event that was dropped as astray stands for the event of `number`, which the source is not in.
    pub(crate) fn stands_for(&mut self, number: u32) -> bool {
        let own = self.numbers.iter().position(|of| *of == number);
        if own.is_none() && self.astray == 0 {
            return false;
        }
        self.numbers.remove(own.unwrap_or(0));
        self.astray = self.astray.saturating_sub(1);
        true
    }

    /// What the source sent for `number` is known: what the receiver drops of it from now on is behind that.
    pub(crate) fn know(&mut self, circle: Circle, number: u32) {
        self.through = self.known(circle, Some(number));
    }

    /// The later one of `last` and of the last number that is known.
    pub(crate) fn known(&self, circle: Circle, last: Option<u32>) -> Option<u32> {
        match (last, self.through) {
            (Some(last), Some(through)) if distance(circle.bits, through, last) > 0 => Some(last),
            (last, through) => through.or(last),
        }
    }

    /// The source is in the event of `number`: what was dropped before it stands for none but one of its own number.
    pub(crate) fn settle(&mut self, circle: Circle, number: u32) {
        self.astray = 0;
        self.dropped = 0;
        self.numbers
            .retain(|of| distance(circle.bits, number, *of) > 0);
        // What came before may yet be in turn behind it, if it changed places on its way.
        self.refused.retain(|run| {
            let bits = circle.bits;
            let is_ahead = distance(bits, number, run.last(bits.mask())) > 0;
            is_ahead && distance(bits, number, run.first) < RECENT as i32
        });
    }

    /// Whether something was dropped as astray that may stand for an event yet.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.astray > 0 || self.dropped > 0 || !self.refused.is_empty() || !self.numbers.is_empty()
    }

    /// Whether the receiver dropped anything that stands for no event yet.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped > 0 || !self.refused.is_empty()
    }

    /// The numbering began anew: nothing that comes belongs to what was before.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The numbers go on far ahead: what the receiver dropped lies in between.
    pub(crate) fn jump(&mut self) {
        *self = Self {
            dropped: self.dropped,
            refused: std::mem::take(&mut self.refused),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIRCLE: Circle = Circle {
        bits: TriggerBits::Sixteen,
        step: 4,
    };

    fn spans(absent: &Absent) -> Vec<(u32, u32)> {
        let spans = absent.spans.iter();
        spans.map(|span| (span.first, span.last)).collect()
    }

    #[test]
    fn what_comes_after_all_is_taken_off_across_the_wrap() {
        let mut absent = Absent::default();
        for number in [0xfff8, 0xfffc, 0, 4] {
            absent.note(CIRCLE, number, number);
        }
        assert_eq!(spans(&absent), [(0xfff8, 4)]);
        assert!(absent.owes(CIRCLE, 0) && !absent.owes(CIRCLE, 8));
        assert!(absent.take(CIRCLE, 0) && !absent.take(CIRCLE, 12));
        assert_eq!(spans(&absent), [(0xfff8, 0xfffc), (4, 4)]);
        assert!(!absent.take(CIRCLE, 0));
        assert!(absent.take_oldest(CIRCLE, Some(0xfff8)));
        assert_eq!(spans(&absent), [(0xfff8, 0xfff8), (4, 4)]);
        assert!(absent.take_oldest(CIRCLE, None) && absent.take_oldest(CIRCLE, None));
        assert!(!absent.take_oldest(CIRCLE, None));
    }

    #[test]
    fn the_oldest_behind_the_last_are_taken_off_in_runs() {
        let mut absent = Absent::default();
        for number in [0xfff0, 0xfff8, 0xfffc, 0, 4, 20] {
            absent.note(CIRCLE, number, number);
        }
        // The first one is before what the source delivered last.
        assert_eq!(absent.oldest(CIRCLE, Some(0xfff8)), Some((0xfffc, 3)));
        absent.take_run(CIRCLE, 0xfffc, 2);
        assert_eq!(
            spans(&absent),
            [(0xfff0, 0xfff0), (0xfff8, 0xfff8), (4, 4), (20, 20)]
        );
        absent.take_run(CIRCLE, 4, 1);
        assert_eq!(absent.oldest(CIRCLE, Some(0xfff8)), Some((20, 1)));
        assert_eq!(absent.oldest(CIRCLE, Some(20)), None);
        assert_eq!(absent.oldest(CIRCLE, None), Some((0xfff0, 1)));
    }

    #[test]
    fn what_was_dropped_is_settled_with_the_next_event() {
        let mut absent = Absent {
            dropped: 2,
            ..Absent::default()
        };
        assert!(absent.was_dropped(CIRCLE.bits, 20, 20) && absent.is_unsettled());
        absent.settle(CIRCLE, 24);
        assert!(!absent.was_dropped(CIRCLE.bits, 28, 28) && !absent.is_unsettled());
    }

    #[test]
    fn the_latest_ranges_are_remembered() {
        let mut absent = Absent::default();
        for number in 0..2 * ABSENT_RANGES_MAX as u32 {
            absent.note(CIRCLE, number * 8, number * 8);
        }
        assert_eq!(absent.spans.len(), ABSENT_RANGES_MAX);
        assert!(!absent.owes(CIRCLE, 0));
        assert!(absent.owes(CIRCLE, 8 * ABSENT_RANGES_MAX as u32));
    }
}
