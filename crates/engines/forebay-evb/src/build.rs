//! Writing one event: header, then the sub-events of the sources that take part.

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};
use forebay_wire::subevent::SubEventHeader;

use crate::account::{EventDrop, SubEventDrop};
use crate::engine::{Builder, Poll};
use crate::head::{NO_HEAD, trigger_of};
use crate::loss::Cause;
use crate::order::{distance, successor};
use crate::output::{EventMeta, Output, Slot};
use crate::policy;
use crate::policy::Completion;
use crate::policy::{Hurry, Situation, Verdict, judge};
use crate::source::Input;

/// What the sub-events of one event have in common.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    subevents: u32,
    /// Bytes that were filled.
    bytes: u32,
    data_error: bool,
    stamp_ns: u64,
}

impl Builder {
    /// Every source shows `key`.
    pub(crate) fn build_complete<I: Input, O: Output>(
        &mut self,
        key: u64,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let body: usize = self.heads.of.iter().map(|head| head.padded as usize).sum();
        let bytes = EVENT_HEADER_BYTES + body;
        if bytes > self.config.event_bytes_max {
            self.mismatched.clear();
            self.present.clear();
            self.present.extend(0..self.config.sources as u32);
            return self.discard_present(key, EventDrop::TooLarge, input);
        }
        let Some(slot) = output.reserve(bytes) else {
            return Poll::Full;
        };
        if self.some_astray {
            self.forget_astray();
        }
        let all = 0..self.config.sources;
        let meta = self.write(slot, key, all, input);
        self.finish_event(&meta, output)
    }

    /// The sources in `present` show `key`; those in `mismatched` show its trigger number with another tag.
    pub(crate) fn build_present<I: Input, O: Output>(
        &mut self,
        key: u64,
        ended: Ended,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let trigger = trigger_of(key);
        let bytes = self.present_bytes();
        if bytes > self.config.event_bytes_max {
            self.mark_absent(trigger, ended);
            return self.discard_present(key, EventDrop::TooLarge, input);
        }
        // Without room nothing may have happened yet: the same event is looked at again.
        let Some(slot) = output.reserve(bytes) else {
            return Poll::Full;
        };
        self.mark_absent(trigger, ended);
        self.drop_mismatched(trigger, input);
        let present = std::mem::take(&mut self.present);
        let sources = present.iter().map(|source| *source as usize);
        let meta = self.write(slot, key, sources, input);
        self.present = present;
        self.finish_event(&meta, output)
    }

    /// Gives the event up: what is there of it is dropped, and why.
    pub(crate) fn discard_present<I: Input>(
        &mut self,
        key: u64,
        why: EventDrop,
        input: &I,
    ) -> Poll {
        let reason = match why {
            EventDrop::Incomplete => SubEventDrop::Incomplete,
            EventDrop::TooLarge => SubEventDrop::TooLarge,
        };
        let trigger = trigger_of(key);
        let first = self.present.first().map_or(0, |source| *source as usize);
        self.note_event(first, trigger, self.present_bytes());
        self.drop_mismatched(trigger, input);
        let mut bytes = EVENT_HEADER_BYTES as u64;
        for index in 0..self.present.len() {
            let source = self.present[index] as usize;
            bytes += u64::from(self.heads.of[source].padded);
            self.settle_source(source, trigger);
            self.drop_head(source, reason, input);
        }
        let events = &self.accounts.events;
        self.book.add_tally(events.lost(why), 1, bytes);
        self.book.add(self.accounts.discarded, 1);
        Poll::Dropped
    }

    /// Size of the event that the sources in `present` make.
    fn present_bytes(&self) -> usize {
        let padded = |source: &u32| self.heads.of[*source as usize].padded as usize;
        EVENT_HEADER_BYTES + self.present.iter().map(padded).sum::<usize>()
    }

    /// Moves the heads of `sources` into `slot`, and the event's header before them.
    fn write<I: Input>(
        &mut self,
        slot: Slot<'_>,
        key: u64,
        sources: impl ExactSizeIterator<Item = usize> + Clone,
        input: &I,
    ) -> EventMeta {
        let complete = sources.len() == self.config.sources;
        let first = sources.clone().next().unwrap_or(0);
        let header = self.heads.of[first].header();
        let kind = header.map_or(0, |header| header.trigger_type());
        let bytes = slot.bytes.len();
        self.note_event(first, trigger_of(key), bytes);
        let (head_room, body) = slot.bytes.split_at_mut(EVENT_HEADER_BYTES);
        let gathered = self.gather(body, trigger_of(key), sources, input);
        let id = EventId::data(kind).with_data_error(gathered.data_error);
        let id = if complete { id } else { id.with_incomplete() };
        let mut event = EventHeader::new(id, slot.unix_s, slot.run);
        event.size = bytes as u32;
        event.sequence = self.sequence.wrapping_add(1);
        head_room.copy_from_slice(&event.to_bytes());
        EventMeta {
            bytes: EVENT_HEADER_BYTES as u32 + gathered.bytes,
            trigger: trigger_of(key),
            sequence: event.sequence,
            subevents: gathered.subevents,
            complete,
            stamp_ns: gathered.stamp_ns,
        }
    }

    /// Copies the sub-events into `body` (the one copy between the source's queue and the sink's), each
    /// under the header that was checked: the queue's memory may have changed since.
    #[inline]
    fn gather<I: Input>(
        &mut self,
        mut body: &mut [u8],
        trigger: u32,
        sources: impl Iterator<Item = usize>,
        input: &I,
    ) -> Gathered {
        let mut gathered = Gathered {
            subevents: 0,
            bytes: 0,
            data_error: false,
            stamp_ns: u64::MAX,
        };
        for source in sources {
            let head = &self.heads.of[source];
            let (sub, rest) = body.split_at_mut(head.padded as usize);
            let copied = input.copy(source, head.at, sub);
            if !copied {
                sub.fill(0);
            }
            sub[..head.raw.len()].copy_from_slice(&head.raw);
            gathered.subevents += 1;
            gathered.bytes += sub.len() as u32;
            gathered.data_error |= head.data_error || !copied;
            // A stamp of 0 is unknown: the largest of all after subtraction.
            gathered.stamp_ns = gathered.stamp_ns.min(head.stamp_ns.wrapping_sub(1));
            self.take(source, trigger, input);
            body = rest;
        }
        gathered.stamp_ns = gathered.stamp_ns.wrapping_add(1);
        gathered
    }

    /// The head of `source` went into an event.
    #[inline]
    fn take<I: Input>(&mut self, source: usize, trigger: u32, input: &I) {
        let counts = !self.leak.take("builder");
        let head = &mut self.heads.of[source];
        if counts {
            head.built_items += 1;
            head.built_bytes += u64::from(head.padded);
        }
        head.set_last(Some(trigger));
        if head.odd_decoding {
            self.book.add(self.accounts.sources[source].odd_decoding, 1);
        }
        if self.some_unsettled {
            self.settle_source(source, trigger);
        }
        self.step(source, input);
    }

    /// Counts the event and gives it to the output, unless the fault switch makes it vanish here.
    fn finish_event<O: Output>(&mut self, meta: &EventMeta, output: &mut O) -> Poll {
        let bytes = u64::from(meta.bytes);
        if self.leak.take("events") {
            return Poll::Built;
        }
        self.book.add_tally(self.accounts.events.outgoing, 1, bytes);
        let kind = if meta.complete {
            self.accounts.complete
        } else {
            self.accounts.partial
        };
        self.book.add(kind, 1);
        self.sequence = meta.sequence;
        output.commit(meta);
        Poll::Built
    }

    /// The numbering moves on behind `trigger`, whose event of `bytes` is closed and finished one way or the other; called while
    /// the head of `first`, a source in it, is still there.
    fn note_event(&mut self, first: usize, trigger: u32, bytes: usize) {
        let incoming = self.accounts.events.incoming;
        self.book.add_tally(incoming, 1, bytes as u64);
        self.recent.note(trigger, self.heads.tag(first));
        self.see_trigger(trigger);
        self.some_unsettled =
            self.some_unsettled && self.sources.iter().any(|of| of.absent.is_unsettled());
        self.next = Some(successor(self.config.trigger_bits, trigger));
        self.expected = Some(self.circle().after(trigger, 1));
        self.wake_ns = None;
        self.pressure = false;
        self.doubted = None;
    }
}

// The slow path: some source shows nothing, or another trigger number than the rest.
/// What all heads together show.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Distance of the nearest head that may be true.
    pub(crate) nearest: Option<i32>,
    /// Sources whose head is astray.
    pub(crate) astray_showing: usize,
    /// A source goes on in the old numbering behind the last pause.
    pub(crate) goes_on: bool,
    /// Something was dropped: look again.
    dropped: bool,
}

impl Builder {
    pub(crate) fn decide<I: Input, O: Output>(
        &mut self,
        now_ns: u64,
        input: &I,
        output: &mut O,
    ) -> Poll {
        self.wake_ns = None;
        let Some(base) = self.next.or_else(|| self.start_number()) else {
            return Poll::Idle;
        };
        let survey = self.survey(now_ns, base, input);
        if survey.dropped || self.settle_astray(now_ns, &survey, input) {
            return Poll::Dropped;
        }
        let Some(nearest) = survey.nearest else {
            return Poll::Idle;
        };
        self.settle(now_ns, base, nearest, input, output)
    }

    /// Judges each head, and drops those that belong to no event.
    fn survey<I: Input>(&mut self, now_ns: u64, base: u32, input: &I) -> Survey {
        let mut survey = Survey::default();
        for source in 0..self.config.sources {
            let mut standing = self.standing(source, base, input);
            while let Standing::Wrong(reason) = standing {
                survey.dropped = true;
                self.note_wrong(source, reason);
                self.drop_head(source, reason, input);
                standing = self.standing(source, base, input);
            }
            let near = matches!(standing, Standing::Near { .. });
            survey.goes_on |= near && self.went_on(source);
            self.note_standing(source, standing, now_ns, &mut survey);
        }
        survey
    }

    /// What is dropped now did come: it must not be inferred lost as well.
    pub(crate) fn note_wrong(&mut self, source: usize, reason: SubEventDrop) {
        match reason {
            SubEventDrop::Late => {
                if let Some(trigger) = self.heads.trigger(source) {
                    self.came_late(source, trigger);
                }
            }
            SubEventDrop::OutOfWindow => self.came_astray(source),
            // It has been in an event before, or its event says what became of it.
            SubEventDrop::Duplicate
            | SubEventDrop::TagMismatch
            | SubEventDrop::Incomplete
            | SubEventDrop::Broken
            | SubEventDrop::TooLarge => {}
        }
    }

    fn note_standing(
        &mut self,
        source: usize,
        standing: Standing,
        now_ns: u64,
        survey: &mut Survey,
    ) {
        let state = &mut self.sources[source];
        let since = &mut state.astray_since_ns;
        match standing {
            Standing::Near { ahead, .. } => {
                *since = None;
                let nearest = survey.nearest.unwrap_or(ahead);
                survey.nearest = Some(nearest.min(ahead));
            }
            Standing::Astray { .. } | Standing::Anew(_) => {
                since.get_or_insert(now_ns);
                self.some_astray = true;
                survey.astray_showing += 1;
            }
            Standing::Nothing if self.standings[source] != Standing::Nothing => {
                state.emptied_ns = now_ns;
            }
            Standing::Nothing | Standing::Wrong(_) => {}
        }
        self.standings[source] = standing;
    }

    /// The event `nearest` triggers after `base` comes next: is it finished?
    fn settle<I: Input, O: Output>(
        &mut self,
        now_ns: u64,
        base: u32,
        nearest: i32,
        input: &I,
        output: &mut O,
    ) -> Poll {
        let trigger = base.wrapping_add_signed(nearest) & self.config.trigger_bits.mask();
        let situation = self.situation(now_ns, nearest);
        let complete = self.present.len() == self.config.sources;
        let verdict = if complete {
            Verdict::Build
        } else {
            judge(&self.config, &situation)
        };
        if let Verdict::Wait { ns } = verdict {
            self.wake_at(now_ns.saturating_add(ns));
            return Poll::Idle;
        }
        let ended = Ended {
            now_ns,
            reason: policy::hurry(&self.config, &situation),
        };
        let skips = nearest > 0 && situation.absent > situation.absent_silent;
        if let Some(source) = self.lone(trigger, input).filter(|_| skips) {
            return self.drop_lone(source, trigger, input);
        }
        let key = self.split_by_tag();
        if self.drop_impostors(key, input) {
            return Poll::Dropped;
        }
        let discards = self.config.completion == Completion::Discard && !self.mismatched.is_empty();
        if verdict == Verdict::Discard || discards {
            self.mark_absent(trigger, ended);
            return self.discard_present(key, EventDrop::Incomplete, input);
        }
        self.build_present(key, ended, input, output)
    }

    /// The source of an event that rests on one number which nothing confirms: no other source, and neither
    /// the sub-event behind it nor one that was dropped before for the same doubt.
    fn lone<I: Input>(&self, trigger: u32, input: &I) -> Option<usize> {
        let [source] = self.present[..] else {
            return None;
        };
        let source = source as usize;
        let goes_on = |doubted| (1..=self.window()).contains(&self.distance(doubted, trigger));
        let confirmed = self
            .doubted
            .is_some_and(|(of, doubted)| of == source && goes_on(doubted));
        let alone = self.successor(source, input).is_none() && !confirmed;
        alone.then_some(source)
    }

    /// Drops an unconfirmed number: an event for it would skip all that the other sources may still deliver.
    fn drop_lone<I: Input>(&mut self, source: usize, trigger: u32, input: &I) -> Poll {
        self.doubted = Some((source, trigger));
        self.came_astray(source);
        self.drop_head(source, SubEventDrop::OutOfWindow, input);
        Poll::Dropped
    }
}

// How the head of one source stands: judged by the events built so far and by its own source's order.
//
// One number that cannot be true must cost itself only. It is told from numbers that really moved by the sub-event
// behind it: when that one goes on where the source was, the head is an outlier. Until that one is there,
// the head proves nothing, and its source counts as one that has yet to deliver.

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
    Anew(SubEventDrop),
    /// It belongs to no event that can still be built.
    Wrong(SubEventDrop),
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
            return Standing::Wrong(SubEventDrop::OutOfWindow);
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
            return Standing::Wrong(SubEventDrop::OutOfWindow);
        }
        Standing::Astray {
            confirmed: successor.is_some(),
        }
    }

    /// Why the turn of `trigger`, which lies behind, is over; `None` when it is not known ever to have come.
    fn over(&self, source: usize, trigger: u32) -> Option<SubEventDrop> {
        if self.goes_on(source, trigger) && self.next.is_some() {
            return Some(SubEventDrop::Late);
        }
        if !self.recent.knows(trigger, self.heads.tag(source)) {
            return None;
        }
        let overtaken = self.sources[source].absent.owes(self.circle(), trigger);
        Some(if overtaken {
            SubEventDrop::Late
        } else {
            SubEventDrop::Duplicate
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

// Which sources take part in the event at hand, and what becomes of the others.
/// When and why an event was finished without some source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) now_ns: u64,
    /// The reason to stop waiting for absent sources; `None` when all of them had been given up before.
    pub(crate) reason: Option<Hurry>,
}

impl Builder {
    /// Fills `present` with the sources that stand `nearest` triggers ahead, and says what is known of the rest.
    pub(crate) fn situation(&mut self, now_ns: u64, nearest: i32) -> Situation {
        self.present.clear();
        let mut arrived_ns = now_ns;
        let mut situation = Situation::default();
        for source in 0..self.config.sources {
            let state = &self.sources[source];
            situation.pressed |= self.pressure && state.pressed;
            match self.standings[source] {
                Standing::Near { ahead, .. } if ahead == nearest => {
                    self.present.push(source as u32);
                    let first = state.messages.front();
                    arrived_ns = arrived_ns.min(first.map_or(now_ns, |first| first.arrived_ns));
                    let backlog = u32::try_from(self.waiting(source).0).unwrap_or(u32::MAX);
                    situation.backlog_events = situation.backlog_events.max(backlog);
                }
                Standing::Near {
                    confirmed: true, ..
                }
                | Standing::Astray { confirmed: true } => {
                    situation.passed += 1;
                }
                _ if state.closed => situation.passed += 1,
                _ => {
                    situation.absent += 1;
                    let given_up = state.silent || state.astray_since_ns.is_some();
                    if given_up && self.heads.key[source] == NO_HEAD {
                        situation.absent_silent += 1;
                    } else {
                        let patience_ns = state.rhythm.patience_ns(self.config.timeout_ns);
                        let left_ns = patience_ns.saturating_sub(self.silence_ns(source, now_ns));
                        situation.patience_ns = situation.patience_ns.max(left_ns);
                    }
                }
            }
        }
        let since_ns = arrived_ns.max(self.unblocked_ns).max(self.renumbered_ns);
        situation.age_ns = now_ns.saturating_sub(since_ns);
        situation
    }

    /// How long nothing has come from `source` that could have: not while it had no room, nor the output.
    fn silence_ns(&self, source: usize, now_ns: u64) -> u64 {
        let state = &self.sources[source];
        let last_ns = state.rhythm.last_ns().or(self.first_ns);
        let since_ns = last_ns.unwrap_or(now_ns).max(state.emptied_ns);
        let free_ns = self.unblocked_ns.max(self.renumbered_ns);
        now_ns.saturating_sub(since_ns.max(free_ns))
    }

    /// Whether `source` has been silent for too long when an event is finished without it for this reason: it is not waited for
    /// again before it speaks, but under `wait`, which waits each time.
    fn is_too_silent(&self, source: usize, ended: Ended) -> bool {
        let timeout_ns = self.config.timeout_ns;
        let limit_ns = match ended.reason {
            None => return false,
            Some(Hurry::Time) => timeout_ns,
            Some(Hurry::Events | Hurry::FullQueue) => {
                self.sources[source].rhythm.patience_ns(timeout_ns)
            }
        };
        self.silence_ns(source, ended.now_ns) >= limit_ns
    }

    /// Records each source that is not in the event, why it was not waited for any longer, and which of them not to wait for
    /// again.
    pub(crate) fn mark_absent(&mut self, trigger: u32, ended: Ended) {
        if let Some(reason) = ended.reason {
            self.book.add(self.accounts.waits_ended[reason], 1);
        }
        let waits = self.config.completion == Completion::Wait;
        for source in 0..self.config.sources {
            let shown = self.heads.trigger(source);
            let too_silent = shown.is_none() && self.is_too_silent(source, ended);
            let state = &mut self.sources[source];
            let cause = match shown {
                Some(shown) if shown == trigger => continue,
                Some(_) => Cause::Skipped,
                None if state.closed => {
                    state.silent = true;
                    Cause::Closed
                }
                None => {
                    state.silent |= too_silent && !waits;
                    state.mute |= too_silent;
                    Cause::Timeout
                }
            };
            // What a source that has closed does not send any more is no silence.
            if shown.is_none() && (!state.closed || state.mute) {
                self.book.add(self.accounts.sources[source].unheard, 1);
            }
            self.miss(source, trigger, cause);
        }
    }

    /// Leaves in `present` the sources whose key most of them show (of equals, the first source's), and
    /// puts the others into `mismatched`. Gives that key.
    pub(crate) fn split_by_tag(&mut self) -> u64 {
        let keys = &self.heads.key;
        let key_of = |source: &u32| keys[*source as usize];
        let mut best = (0, NO_HEAD);
        for key in self.present.iter().map(key_of) {
            let votes = self
                .present
                .iter()
                .filter(|source| key_of(source) == key)
                .count();
            if votes > best.0 {
                best = (votes, key);
            }
            if best.0 * 2 >= self.present.len() {
                break;
            }
        }
        let other = |source: &u32| key_of(source) != best.1;
        self.mismatched.clear();
        self.mismatched
            .extend(self.present.iter().copied().filter(other));
        self.present.retain(|source| !other(source));
        best.1
    }

    /// Drops each head with another tag than `key` whose successor has the right one: its number was wrong, as the
    /// number of a sub-event for the trigger before may be. True when there was one.
    pub(crate) fn drop_impostors<I: Input>(&mut self, key: u64, input: &I) -> bool {
        let mut dropped = false;
        for index in 0..self.mismatched.len() {
            let source = self.mismatched[index] as usize;
            if self.successor_key(source, input) == Some(key) {
                self.came_astray(source);
                self.drop_head(source, SubEventDrop::TagMismatch, input);
                dropped = true;
            }
        }
        dropped
    }

    /// Drops the sub-events that carry the event's number and another tag.
    pub(crate) fn drop_mismatched<I: Input>(&mut self, trigger: u32, input: &I) {
        let mismatched = std::mem::take(&mut self.mismatched);
        for source in mismatched.iter().map(|source| *source as usize) {
            self.settle_source(source, trigger);
            let bytes = u64::from(self.heads.of[source].padded);
            self.drop_head(source, SubEventDrop::TagMismatch, input);
            self.lose(source, trigger, Cause::TagMismatch, bytes);
        }
        self.mismatched = mismatched;
        self.mismatched.clear();
    }
}
