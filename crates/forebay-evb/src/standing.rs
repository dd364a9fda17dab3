//! How the head of one source stands: judged by the events built so far and by its own source's order.
//!
//! One number that cannot be true must cost itself only. It is told from numbers that really moved by the sub-event
//! behind it: when that one goes on where the source was, the head is an outlier. Until that one is there,
//! the head proves nothing, and its source counts as one that has yet to deliver.

use crate::account::DropReason;
use crate::engine::Builder;
use crate::order::distance;
use crate::source::Input;
use forebay_wire::subevent::SubEventHeader;

/// The head of one source, seen from the trigger number expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The source shows nothing.
    Nothing,
    /// So many events ahead, within the window.
    Near(i32),
    /// Far from what is expected: true only if most sources are. Confirmed when its successor agrees.
    Astray { confirmed: bool },
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
            0 => Standing::Near(0),
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
        if ahead <= self.window() {
            return Standing::Near(ahead);
        }
        Standing::Astray {
            confirmed: successor.is_some(),
        }
    }

    fn standing_behind<I: Input>(
        &self,
        source: usize,
        base: u32,
        trigger: u32,
        input: &I,
    ) -> Standing {
        let starts = self.next.is_none();
        if self.goes_on(source, trigger) && !starts {
            return Standing::Wrong(DropReason::Late);
        }
        if self.recent.knows(trigger, self.heads.tag(source)) {
            return Standing::Wrong(DropReason::Duplicate);
        }
        let successor = self.successor(source, input);
        let goes_on = |number| {
            self.goes_on(source, number) && self.distance(base, number).abs() <= self.window()
        };
        let followers = [successor, self.next_message(source, input)];
        if !starts && followers.into_iter().flatten().any(goes_on) {
            return Standing::Wrong(DropReason::OutOfWindow);
        }
        Standing::Astray {
            confirmed: successor.is_some(),
        }
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
        let head = &self.heads.of[source];
        if head.left > 1 && head.padded < head.room {
            let at = head.at.wrapping_add(u64::from(head.padded));
            return self.number_at(source, at, input);
        }
        self.next_message(source, input)
    }

    /// Trigger number of the first sub-event of the message behind the first one of `source`.
    fn next_message<I: Input>(&self, source: usize, input: &I) -> Option<u32> {
        let next = self.sources[source].messages.get(1)?;
        self.number_at(source, next.message.at, input)
    }

    fn number_at<I: Input>(&self, source: usize, at: u64, input: &I) -> Option<u32> {
        let header = SubEventHeader::parse(&input.header(source, at)?).ok()?;
        Some(self.heads.number(header.trigger_word))
    }
}
