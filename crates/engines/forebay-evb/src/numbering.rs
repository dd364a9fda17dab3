//! Which numbering counts: at the start, and when most sources leave it.
//!
//! A source whose numbers are far from those of the others is astray. As long as it is one of few, its sub-events are
//! dropped after a time-out. When most sources are, they are right: they were started anew, or jumped together.

use std::collections::VecDeque;

use crate::absent::{Absent, Circle};
use crate::account::SubEventDrop;
use crate::build::{Standing, Survey};
use crate::engine::Builder;
use crate::head::trigger_of;
use crate::numbers::Run;
use crate::order::distance;
use crate::recent::RECENT;
use crate::source::{Input, Message};

impl Builder {
    /// Before the first event: the number that most sources' heads follow closely.
    pub(crate) fn start_number(&self) -> Option<u32> {
        let all = 0..self.config.sources;
        let shown: Vec<u32> = all
            .filter_map(|source| self.heads.trigger(source))
            .collect();
        self.densest(&shown)
    }

    /// The number behind which most of `numbers` lie within the window; of equals, the one found first.
    fn densest(&self, numbers: &[u32]) -> Option<u32> {
        let followers = |first: u32| {
            let follows =
                |number: &&u32| (0..=self.window()).contains(&self.distance(first, **number));
            numbers.iter().filter(follows).count()
        };
        let earlier = |a: u32, b: u32| if self.distance(a, b) < 0 { b } else { a };
        let earliest = numbers.iter().copied().reduce(earlier)?;
        if followers(earliest) == numbers.len() {
            return Some(earliest);
        }
        let mut best = (0, earliest);
        for &number in numbers {
            let count = followers(number);
            if count > best.0 {
                best = (count, number);
            }
        }
        Some(best.1)
    }

    /// Decides about sources that are astray; true when something was dropped or the numbering changed.
    pub(crate) fn settle_astray<I: Input>(
        &mut self,
        now_ns: u64,
        survey: &Survey,
        input: &I,
    ) -> bool {
        if survey.astray_showing == 0 {
            self.lost_since_ns = None;
            return false;
        }
        let (astray, alive) = self.count_astray();
        if astray * 2 <= alive {
            self.lost_since_ns = None;
            return self.drop_astray(now_ns, survey, input);
        }
        let since = *self.lost_since_ns.get_or_insert(now_ns);
        let end = since.saturating_add(self.config.timeout_ns);
        // Sources that still go on in the old numbering come first; when there are none, there is nothing to wait for.
        let nothing_near = survey.nearest.is_none();
        let all_here = survey.astray_showing == alive;
        let closed = self.sources.iter().all(|source| source.closed);
        let pressed = self.pressure && self.sources.iter().any(|source| source.pressed);
        if now_ns >= end || nothing_near && (all_here || closed || pressed) {
            self.renumber(now_ns);
            return true;
        }
        self.wake_at(end);
        false
    }

    /// Sources that are astray, and sources that take part in the run at all.
    fn count_astray(&self) -> (usize, usize) {
        let astray = self
            .sources
            .iter()
            .filter(|source| source.astray_since_ns.is_some());
        let takes_part = |source: &usize| {
            let state = &self.sources[*source];
            self.standings[*source] != Standing::Nothing
                || state.astray_since_ns.is_some()
                || !state.silent
        };
        let alive = (0..self.config.sources).filter(takes_part);
        (astray.count(), alive.count())
    }

    /// Drops the heads of sources that have been astray for a time-out, or cannot wait. For a new life of few sources there
    /// is nothing to wait for when another one goes on in the old numbering.
    fn drop_astray<I: Input>(&mut self, now_ns: u64, survey: &Survey, input: &I) -> bool {
        let mut dropped = false;
        for source in 0..self.config.sources {
            let state = &self.sources[source];
            let Some(since) = state.astray_since_ns else {
                continue;
            };
            let anew = match self.standings[source] {
                Standing::Astray { .. } => None,
                Standing::Anew(reason) => Some(reason),
                _ => continue,
            };
            let end = since.saturating_add(self.config.timeout_ns);
            let pressed = self.pressure && state.pressed;
            let over = now_ns >= end || pressed || state.closed;
            if over || anew.is_some() && survey.goes_on {
                if anew.is_some() {
                    self.sources[source].rested = 0;
                    self.sources[source].astray_since_ns = None;
                }
                let reason = anew.unwrap_or(SubEventDrop::OutOfWindow);
                self.note_wrong(source, reason);
                self.drop_head(source, reason, input);
                dropped = true;
            } else {
                self.wake_at(end);
            }
        }
        dropped
    }

    /// Goes on with the numbers that the sources astray show.
    fn renumber(&mut self, now_ns: u64) {
        let astray = |source: &usize| {
            let standing = self.standings[*source];
            matches!(standing, Standing::Astray { .. } | Standing::Anew(_))
        };
        let all = (0..self.config.sources).filter(astray);
        let shown: Vec<u32> = all
            .filter_map(|source| self.heads.trigger(source))
            .collect();
        self.next = self.densest(&shown);
        self.expected = self.next;
        let mut counted_on = false;
        if !self.next.is_some_and(|to| self.was_skipped(to)) {
            counted_on = self.renumber_triggers(self.next);
            self.book.add(self.accounts.resynchronised, 1);
        }
        for absent in self.sources.iter_mut().map(|source| &mut source.absent) {
            if counted_on {
                absent.jump();
            } else {
                absent.forget();
            }
        }
        self.heads
            .of
            .iter_mut()
            .for_each(|head| head.set_last(None));
        self.forget_astray();
        self.forget_pause();
        self.lost_since_ns = None;
        self.renumbered_ns = now_ns;
    }

    /// All sources are in line again.
    pub(crate) fn forget_astray(&mut self) {
        let sources = self.sources.iter_mut();
        sources.for_each(|source| source.astray_since_ns = None);
        self.some_astray = false;
    }
}

// Which triggers there were: from the first one seen to the last one, and those between them that no source delivered.
//
// A trigger that is lost in every source leaves nothing behind but a gap in the numbers of the events: it is inferred.

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

// How long a source has been silent, and how long it usually is between two messages.
/// A source is not given up before it was silent for so long, unless the time-out is shorter: less than that, a busy
/// host's scheduler takes by itself.
pub(crate) const SILENCE_NS_MIN: u64 = 100_000_000;
/// How many of its usual gaps a source may be silent when there is a reason to hurry.
pub(crate) const GAPS: u64 = 2;

/// When the messages of one source came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rhythm {
    last_ns: Option<u64>,
    /// Longest gap of the period at hand, and of the one before.
    longest_ns: [u64; 2],
    began_ns: u64,
}

impl Rhythm {
    /// A message came. Those that come at one look of the builder are one.
    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64, period_ns: u64) {
        let gap_ns = self.since_last_ns(now_ns);
        self.skip(now_ns, period_ns);
        self.longest_ns[0] = self.longest_ns[0].max(gap_ns);
    }

    /// The same when the gap before it is none to be remembered.
    #[inline]
    pub(crate) fn skip(&mut self, now_ns: u64, period_ns: u64) {
        let last_ns = *self.last_ns.get_or_insert(now_ns);
        if now_ns <= last_ns {
            return;
        }
        self.last_ns = Some(now_ns);
        if now_ns - self.began_ns >= period_ns {
            self.longest_ns = [0, self.longest_ns[0]];
            self.began_ns = now_ns;
        }
    }

    /// How long ago the last message came; 0 before the first.
    #[inline]
    pub(crate) fn since_last_ns(&self, now_ns: u64) -> u64 {
        self.last_ns
            .map_or(0, |last_ns| now_ns.saturating_sub(last_ns))
    }

    /// When the last message came; `None` before the first.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// The longest gap of the last one or two periods; `None` before the first gap.
    pub(crate) fn usual_ns(&self) -> Option<u64> {
        let [now, before] = self.longest_ns;
        Some(now.max(before)).filter(|gap_ns| *gap_ns > 0)
    }

    /// How long the source may be silent when there is a reason to hurry; never longer than `timeout_ns`, and as long as
    /// that before anything is known of it.
    pub(crate) fn patience_ns(&self, timeout_ns: u64) -> u64 {
        let usual = self.usual_ns();
        let patience_ns = usual.map(|gap_ns| gap_ns.saturating_mul(GAPS).max(SILENCE_NS_MIN));
        patience_ns.unwrap_or(timeout_ns).min(timeout_ns)
    }
}

impl Builder {
    /// A message of `source` came that did not come before: a silence that was told of is over, and its totals stay.
    pub(crate) fn hear(&mut self, source: usize, now_ns: u64) {
        let (words, book) = (&self.accounts.sources[source], &mut self.book);
        if std::mem::take(&mut self.sources[source].mute) {
            let heard_ns = match book.value(words.heard) {
                0 => self.first_ns.unwrap_or(now_ns),
                heard_ns => heard_ns,
            };
            let amounts = [
                1,
                now_ns.saturating_sub(heard_ns),
                book.value(words.unheard),
            ];
            for (word, amount) in words.ended.into_iter().zip(amounts) {
                book.add(word, amount);
            }
        }
        book.set(words.heard, now_ns);
        book.set(words.unheard, 0);
    }
}

// Whether the sources began anew with numbers that were built already.
//
// Senders that are restarted count from 0 again. As long as the builder remembers those numbers they look like duplicates. They are
// taken for new ones when nothing came from any source for longer than usual, when the first one that a source shows then is near
// 0, and when most sources show such: until that is known they wait, for up to a time-out.

/// Least silence of all sources before they can have begun anew: what a network or a busy host repeats or holds back comes sooner.
const PAUSE_NS_MIN: u64 = 20_000_000;

/// The first number of a new life is in the first quarter of the numbers from 0 to the last one: before it, messages may be lost.
const BEGINNING: u32 = 4;

/// When messages came of all sources together: their gaps, without the pauses.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Rhythm);

impl Pauses {
    /// What is known when the last message came at `last_ns`, 0 for none.
    pub(crate) fn restored(last_ns: u64, timeout_ns: u64) -> Self {
        let mut pauses = Self::default();
        if last_ns > 0 {
            pauses.0.skip(last_ns, timeout_ns);
        }
        pauses
    }

    /// A message came; true when it ends a pause. Before anything is known of the gaps, a pause is as long as the time-out.
    #[inline]
    fn note(&mut self, now_ns: u64, timeout_ns: u64) -> bool {
        let gap_ns = self.0.since_last_ns(now_ns);
        let ends = gap_ns >= PAUSE_NS_MIN && gap_ns >= self.least_ns(timeout_ns);
        if ends {
            self.0.skip(now_ns, timeout_ns);
        } else {
            self.0.note(now_ns, timeout_ns);
        }
        ends
    }

    fn least_ns(&self, timeout_ns: u64) -> u64 {
        let usual_ns = self.0.usual_ns();
        usual_ns.map_or(timeout_ns, |gap_ns| gap_ns.saturating_mul(GAPS))
    }
}

impl Builder {
    /// `message` of `source` comes, and is not yet counted.
    #[inline]
    pub(crate) fn note_pause<I: Input>(
        &mut self,
        now_ns: u64,
        source: usize,
        message: &Message,
        input: &I,
    ) {
        if !message.is_note() && self.pauses.note(now_ns, self.config.timeout_ns) {
            let sources = self.sources.iter_mut();
            sources.for_each(|source| source.paused = Some(source.pulled));
        }
        let state = &mut self.sources[source];
        if state.paused != Some(state.pulled) {
            return;
        }
        if message.is_note() {
            state.paused = Some(message.end);
        } else if state.rested <= state.released && self.goes_back(source, message, input) {
            self.sources[source].rested = message.end;
        }
    }

    /// Whether the first number of `message` does not follow what came of `source`, or what was built when nothing came.
    fn goes_back<I: Input>(&self, source: usize, message: &Message, input: &I) -> bool {
        let key_at = |message: &Message| self.key_at(source, message.at, input).map(trigger_of);
        let newest = self.sources[source].messages.back();
        let newest = newest.and_then(|newest| key_at(&newest.message));
        let newest = newest.or(self.heads.of[source].last());
        let newest = newest.or(self.next.map(|next| self.circle().before(next)));
        let pair = newest.zip(key_at(message));
        pair.is_some_and(|(newest, number)| self.distance(newest, number) <= 0)
    }

    /// Whether the head of `source`, a number behind its turn, may be the first of a new life.
    pub(crate) fn may_begin_anew(&self, source: usize, trigger: u32) -> bool {
        let state = &self.sources[source];
        let first = state.messages.front();
        let rested = first.is_some_and(|first| first.message.end == state.rested);
        rested && self.next.is_some_and(|next| trigger <= next / BEGINNING)
    }

    /// Whether messages of `source` came behind the last pause, and their numbers did not go back.
    pub(crate) fn went_on(&self, source: usize) -> bool {
        let state = &self.sources[source];
        let came = state.paused.is_some_and(|paused| state.pulled > paused);
        came && state.rested <= state.released
    }

    /// The pause is over for all sources: those that come now are late.
    pub(crate) fn forget_pause(&mut self) {
        for source in &mut self.sources {
            (source.paused, source.rested) = (None, 0);
        }
    }
}

#[cfg(test)]
mod silence_tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TIMEOUT_NS: u64 = 1_000 * MS;

    fn rhythm(at_ms: &[u64]) -> Rhythm {
        let mut rhythm = Rhythm::default();
        for ms in at_ms {
            rhythm.note(ms * MS, TIMEOUT_NS);
        }
        rhythm
    }

    #[test]
    fn the_usual_gap_is_the_longest_of_late() {
        assert_eq!(rhythm(&[]).usual_ns(), None);
        assert_eq!(rhythm(&[5_000, 5_000]).usual_ns(), None, "one look");
        assert_eq!(rhythm(&[0, 70, 130, 130]).usual_ns(), Some(70 * MS));
        let old = [0, 400, 1_000, 1_070, 2_010];
        assert_eq!(rhythm(&old[..4]).usual_ns(), Some(600 * MS));
        let every_70: Vec<u64> = (0..20).map(|index| 2_010 + 70 * index).collect();
        let all = [&old[..3], &every_70].concat();
        assert_eq!(rhythm(&all).usual_ns(), Some(1_010 * MS));
        let longer: Vec<u64> = (0..60).map(|index| 2_010 + 70 * index).collect();
        let all = [&old[..3], &longer].concat();
        assert_eq!(rhythm(&all).usual_ns(), Some(70 * MS), "forgotten");
    }

    #[test]
    fn patience_has_a_floor_and_a_ceiling() {
        let patience = |at_ms: &[u64]| rhythm(at_ms).patience_ns(TIMEOUT_NS) / MS;
        assert_eq!(patience(&[7]), 1_000, "nothing is known");
        assert_eq!(patience(&[0, 7]), 100);
        assert_eq!(patience(&[0, 68, 136]), 136);
        assert_eq!(patience(&[0, 700]), 1_000);
        assert_eq!(rhythm(&[0, 7]).patience_ns(30 * MS), 30 * MS);
    }
}

#[cfg(test)]
mod life_tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TIMEOUT_NS: u64 = 1_000 * MS;

    /// When the pauses between messages at these times ended, in ms.
    fn ends(at_ms: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut pauses = Pauses::default();
        let ends = at_ms
            .into_iter()
            .filter(|ms| pauses.note(ms * MS, TIMEOUT_NS));
        ends.collect()
    }

    #[test]
    fn a_pause_is_longer_than_usual_and_is_not_usual_itself() {
        assert_eq!(ends([0, 999]), [0; 0], "nothing is known");
        assert_eq!(ends([0, 1_000]), [1_000]);
        assert_eq!(ends([0, 1, 20, 40]), [0; 0], "the floor");
        assert_eq!(ends([0, 1, 21, 41]), [21, 41]);
        assert_eq!(ends([0, 30, 89, 206, 440]), [440], "twice as long");
    }

    #[test]
    fn gaps_that_stay_long_become_usual() {
        let every_50 = (0..100).map(|index| 100 + 50 * index);
        let ends = ends((0..100).chain(every_50));
        let last = ends.last().copied();
        assert!(last < Some(3_000), "{last:?}");
    }
}
