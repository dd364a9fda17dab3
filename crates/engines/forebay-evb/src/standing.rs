//! How the head of one source stands: judged by the events built so far and by its own source's order.
//!
//! One number that cannot be true must cost itself only. It is told from numbers that really moved by the sub-event
//! behind it: when that one goes on where the source was, the head is an outlier. Until that one is there,
//! the head proves nothing, and its source counts as one that has yet to deliver.

use crate::account::DropReason;
use crate::engine::Builder;
use crate::head::trigger_of;
use crate::order::distance;
use crate::source::Input;
use forebay_wire::subevent::SubEventHeader;

/// The head of one source, seen from the trigger number expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The source shows nothing.
    Nothing,
    /// So many events ahead, within the window. Confirmed when it is expected, or followed by a later one.
    Near { ahead: i32, confirmed: bool },
    /// Far from what is expected: true only if most sources are.
    Astray { confirmed: bool },
    /// Its turn is over, for this reason, unless it is the first of a new life: true only if most sources are.
    Anew(DropReason),
    /// It belongs to no event that can still be built.
    Wrong(DropReason),
}

impl Builder {
    /// Judges the head of `source` from `base`, the trigger number expected next.
    pub(crate) fn standing<I: Input>(&self, source: usize, base: u32, input: &I) -> Standing {
        let Some(trigger) = self.heads.trigger(source) else {
            return Standing::Nothing;
        };
        match self.distance(base, trigger) {
            0 => Standing::Near {
                ahead: 0,
                confirmed: true,
            },
            ahead @ 1.. => self.standing_ahead(source, base, ahead, input),
            _ => self.standing_behind(source, base, trigger, input),
        }
    }

    fn standing_ahead<I: Input>(
        &self,
        source: usize,
        base: u32,
        ahead: i32,
        input: &I,
    ) -> Standing {
        let successor = self.successor(source, input);
        let between = |number| {
            self.goes_on(source, number)
                && (-self.window()..ahead).contains(&self.distance(base, number))
        };
        if successor.is_some_and(between) {
            return Standing::Wrong(DropReason::OutOfWindow);
        }
        let confirmed = successor.is_some();
        if ahead <= self.window() {
            return Standing::Near { ahead, confirmed };
        }
        Standing::Astray { confirmed }
    }

    fn standing_behind<I: Input>(
        &self,
        source: usize,
        base: u32,
        trigger: u32,
        input: &I,
    ) -> Standing {
        let starts = self.next.is_none();
        if let Some(reason) = self.over(source, trigger) {
            return if self.may_begin_anew(source, trigger) {
                Standing::Anew(reason)
            } else {
                Standing::Wrong(reason)
            };
        }
        let successor = self.successor(source, input);
        let goes_on = |number| {
            self.goes_on(source, number) && self.distance(base, number).abs() <= self.window()
        };
        let newest = self.sources[source].messages.iter().skip(1).next_back();
        let newest = newest.and_then(|newest| self.key_at(source, newest.message.at, input));
        let followers = [successor, newest.map(trigger_of)];
        if !starts && followers.into_iter().flatten().any(goes_on) {
            return Standing::Wrong(DropReason::OutOfWindow);
        }
        Standing::Astray {
            confirmed: successor.is_some(),
        }
    }

    /// Why the turn of `trigger`, which lies behind, is over; `None` when it is not known ever to have come.
    fn over(&self, source: usize, trigger: u32) -> Option<DropReason> {
        if self.goes_on(source, trigger) && self.next.is_some() {
            return Some(DropReason::Late);
        }
        if !self.recent.knows(trigger, self.heads.tag(source)) {
            return None;
        }
        let overtaken = self.sources[source].absent.owes(self.circle(), trigger);
        Some(if overtaken {
            DropReason::Late
        } else {
            DropReason::Duplicate
        })
    }

    /// Whether `number` is newer than all that `source` delivered.
    fn goes_on(&self, source: usize, number: u32) -> bool {
        let last = self.heads.of[source].last();
        last.is_none_or(|last| self.distance(last, number) > 0)
    }

    pub(crate) fn distance(&self, from: u32, to: u32) -> i32 {
        distance(self.config.trigger_bits, from, to)
    }

    pub(crate) fn window(&self) -> i32 {
        self.config.window_events.cast_signed()
    }

    /// Trigger number of the sub-event behind the head of `source`.
    pub(crate) fn successor<I: Input>(&self, source: usize, input: &I) -> Option<u32> {
        self.successor_key(source, input).map(trigger_of)
    }

    /// Key of the sub-event behind the head of `source`.
    pub(crate) fn successor_key<I: Input>(&self, source: usize, input: &I) -> Option<u64> {
        let head = &self.heads.of[source];
        if head.left > 1 && head.padded < head.room {
            let at = head.at.wrapping_add(u64::from(head.padded));
            return self.key_at(source, at, input);
        }
        let next = self.sources[source].messages.get(1)?;
        self.key_at(source, next.message.at, input)
    }

    pub(crate) fn key_at<I: Input>(&self, source: usize, at: u64, input: &I) -> Option<u64> {
        let header = SubEventHeader::parse(&input.header(source, at)?).ok()?;
        Some(self.heads.key_of(header.trigger_word))
    }
}
