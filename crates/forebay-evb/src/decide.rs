//! The slow path: some source shows nothing, or another trigger number than the rest.

use crate::account::DropReason;
use crate::config::Completion;
use crate::engine::{Builder, Poll, RECENT};
use crate::loss::Cause;
use crate::order::distance;
use crate::output::Output;
use crate::policy::{Situation, Verdict, judge};
use crate::source::Input;
use forebay_wire::subevent::SubEventHeader;

/// What the heads show, seen from the trigger number expected next.
#[derive(Debug, Default)]
struct Survey {
    /// Distance of the nearest head that is not behind.
    nearest: Option<i32>,
    /// Heads that are behind.
    behind: usize,
    /// Distance of the head furthest behind.
    furthest_behind: i32,
}

impl Builder {
    pub(crate) fn decide<I: Input, O: Output>(
        &mut self,
        now_ns: u64,
        input: &I,
        output: &mut O,
    ) -> Poll {
        self.wake_ns = None;
        let Some(base) = self.next.or_else(|| self.earliest()) else {
            return Poll::Idle;
        };
        let survey = self.survey(base);
        match survey.nearest {
            None if survey.behind == 0 => Poll::Idle,
            None => self.all_behind(now_ns, base, &survey, input),
            Some(_) if survey.behind > 0 => self.drop_behind(base, input),
            Some(nearest) => {
                let trigger = base.wrapping_add_signed(nearest) & self.config.trigger_bits.mask();
                self.settle(now_ns, trigger, input, output)
            }
        }
    }

    /// Before the first event: the earliest head of all, on the circle seen from any of them.
    fn earliest(&self) -> Option<u32> {
        let bits = self.config.trigger_bits;
        let triggers = (0..self.config.sources).filter_map(|source| self.heads.trigger(source));
        triggers.reduce(|first, other| {
            if distance(bits, first, other) < 0 {
                other
            } else {
                first
            }
        })
    }

    fn survey(&self, base: u32) -> Survey {
        let mut survey = Survey::default();
        for source in 0..self.config.sources {
            let Some(trigger) = self.heads.trigger(source) else {
                continue;
            };
            let d = distance(self.config.trigger_bits, base, trigger);
            if d < 0 {
                survey.behind += 1;
                survey.furthest_behind = survey.furthest_behind.min(d);
            } else if survey.nearest.is_none_or(|nearest| d < nearest) {
                survey.nearest = Some(d);
            }
        }
        survey
    }

    /// Drops every head that is behind `base`.
    fn drop_behind<I: Input>(&mut self, base: u32, input: &I) -> Poll {
        for source in 0..self.config.sources {
            while let Some(trigger) = self.heads.trigger(source)
                && distance(self.config.trigger_bits, base, trigger) < 0
            {
                let reason = self.reason_behind(source, trigger);
                self.drop_head(source, reason, input);
            }
        }
        self.behind_since_ns = None;
        Poll::Dropped
    }

    /// A number that this source delivered before is a duplicate, any other is late.
    fn reason_behind(&self, source: usize, trigger: u32) -> DropReason {
        let bits = self.config.trigger_bits;
        let repeated = self.sources[source]
            .last
            .is_some_and(|last| distance(bits, last, trigger) <= 0);
        if repeated {
            DropReason::Duplicate
        } else {
            DropReason::Late
        }
    }

    /// Nothing but old numbers. If most sources show them and go on doing so, all were started anew
    /// and the numbers count from there; otherwise they are late.
    fn all_behind<I: Input>(&mut self, now_ns: u64, base: u32, survey: &Survey, input: &I) -> Poll {
        let since = *self.behind_since_ns.get_or_insert(now_ns);
        let end = since.saturating_add(self.config.timeout_ns);
        let finished = self.sources.iter().all(|source| source.closed);
        if self.shows_known_event() || finished {
            return self.drop_behind(base, input);
        }
        let pressed = self.sources.iter().any(|source| source.pressed);
        if now_ns < end && !pressed {
            self.wake_ns = Some(end);
            return Poll::Idle;
        }
        if survey.behind * 2 <= self.config.sources {
            return self.drop_behind(base, input);
        }
        self.restart_numbers(base.wrapping_add_signed(survey.furthest_behind));
        Poll::Dropped
    }

    /// Whether a head carries trigger number and tag of an event that was built lately.
    fn shows_known_event(&self) -> bool {
        let known = |key: &u64| self.recent[(*key >> 8) as usize % RECENT] == *key;
        self.heads
            .key
            .iter()
            .filter(|key| **key != crate::source::NO_HEAD)
            .any(known)
    }

    fn restart_numbers(&mut self, trigger: u32) {
        self.next = Some(trigger & self.config.trigger_bits.mask());
        self.recent.fill(crate::source::NO_HEAD);
        self.sources
            .iter_mut()
            .for_each(|source| source.last = None);
        self.behind_since_ns = None;
        self.book.add(self.accounts.resynchronised, 1);
    }

    /// `trigger` is the nearest number shown: is its event finished?
    fn settle<I: Input, O: Output>(
        &mut self,
        now_ns: u64,
        trigger: u32,
        input: &I,
        output: &mut O,
    ) -> Poll {
        if self.drop_far_ahead(now_ns, trigger, input) {
            return Poll::Dropped;
        }
        let situation = self.situation(now_ns, trigger);
        let complete = self.present.len() == self.config.sources;
        let verdict = if complete {
            Verdict::Build
        } else {
            judge(&self.config, &situation)
        };
        match verdict {
            Verdict::Wait { ns } => {
                self.wake_ns = Some(now_ns.saturating_add(ns));
                Poll::Idle
            }
            Verdict::Build if !self.has_room(output) => Poll::Full,
            Verdict::Build => {
                self.mark_absent(trigger, &situation);
                self.build_present(trigger, input, output)
            }
            Verdict::Discard => {
                self.mark_absent(trigger, &situation);
                self.discard_present(trigger, DropReason::Incomplete, input)
            }
        }
    }

    /// Whether the output takes the event at hand; asked before anything is dropped or recorded for it.
    fn has_room<O: Output>(&self, output: &mut O) -> bool {
        let bytes = self.event_bytes();
        bytes > self.config.event_bytes_max || output.reserve(bytes).is_some()
    }

    /// Fills `present` and says what is known of the rest.
    fn situation(&mut self, now_ns: u64, trigger: u32) -> Situation {
        self.present.clear();
        let mut arrived_ns = now_ns;
        let mut s = Situation {
            absent: 0,
            absent_silent: 0,
            passed: 0,
            age_ns: 0,
            backlog_events: 0,
            pressed: false,
        };
        for (index, source) in self.sources.iter().enumerate() {
            s.pressed |= source.pressed;
            match self.heads.trigger(index) {
                Some(shown) if shown == trigger => {
                    self.present.push(index as u32);
                    arrived_ns =
                        arrived_ns.min(source.messages.front().map_or(now_ns, |m| m.arrived_ns));
                    s.backlog_events = s
                        .backlog_events
                        .max(u32::try_from(source.held_items).unwrap_or(u32::MAX));
                }
                Some(_) => s.passed += 1,
                None if source.closed => s.passed += 1,
                None => {
                    s.absent += 1;
                    s.absent_silent += usize::from(source.silent);
                }
            }
        }
        s.age_ns = now_ns.saturating_sub(arrived_ns.max(self.unblocked_ns));
        s
    }

    /// Records each source that is not in the event, and which of them not to wait for again.
    fn mark_absent(&mut self, trigger: u32, situation: &Situation) {
        let waited = situation.age_ns >= self.config.timeout_ns
            || situation.backlog_events >= self.config.timeout_events
            || situation.pressed;
        let silences = waited && self.config.completion != Completion::Wait;
        for source in 0..self.config.sources {
            let state = &mut self.sources[source];
            let cause = match self.heads.trigger(source) {
                Some(shown) if shown == trigger => continue,
                Some(_) => Cause::Skipped,
                None if state.closed => Cause::Closed,
                None => {
                    state.silent |= silences;
                    Cause::Timeout
                }
            };
            self.lose(source, trigger, cause);
        }
    }

    /// Drops heads whose number cannot be true: far ahead of `trigger`, while the same source's next
    /// sub-event is near again, or while all the others stay near for a whole time-out.
    fn drop_far_ahead<I: Input>(&mut self, now_ns: u64, trigger: u32, input: &I) -> bool {
        let (bits, window) = (
            self.config.trigger_bits,
            self.config.window_events.cast_signed(),
        );
        let mut dropped = false;
        for source in 0..self.config.sources {
            let Some(shown) = self.heads.trigger(source) else {
                continue;
            };
            if distance(bits, trigger, shown) <= window {
                self.sources[source].far_since_ns = None;
                continue;
            }
            let since = *self.sources[source].far_since_ns.get_or_insert(now_ns);
            let near_again = self.successor_trigger(source, input).is_some_and(|then| {
                let d = distance(bits, trigger, then);
                (-window..=window).contains(&d)
            });
            if near_again || now_ns.saturating_sub(since) >= self.config.timeout_ns {
                self.drop_head(source, DropReason::OutOfWindow, input);
                self.sources[source].far_since_ns = Some(since).filter(|_| !near_again);
                dropped = true;
            }
        }
        dropped
    }

    /// Trigger number of the sub-event behind the head of `source`.
    fn successor_trigger<I: Input>(&self, source: usize, input: &I) -> Option<u32> {
        let state = &self.sources[source];
        let head = &self.heads.head[source];
        let first = state.messages.front()?.message;
        let after = head.at + u64::from(head.padded());
        let at = if state.left > 1 && after < first.at + u64::from(first.len) {
            after
        } else {
            state.messages.get(1)?.message.at
        };
        let header = SubEventHeader::parse(&input.header(source, at)?).ok()?;
        Some((self.heads.key_of(header.trigger_word) >> 8) as u32)
    }
}
