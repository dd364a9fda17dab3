//! Which numbering counts: at the start, and when most sources leave it.
//!
//! A source whose numbers are far from those of the others is astray. As long as it is one of few, its sub-events are
//! dropped after a time-out. When most sources are, they are right: they were started anew, or jumped together.

use crate::account::DropReason;
use crate::decide::Survey;
use crate::engine::Builder;
use crate::source::Input;
use crate::standing::Standing;

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
        // Whoever still goes on in the old numbering comes first; then there is nothing to wait for.
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
                let reason = anew.unwrap_or(DropReason::OutOfWindow);
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
