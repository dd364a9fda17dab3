//! Who takes part in the event at hand, and what becomes of those who do not.

use crate::account::DropReason;
use crate::config::Completion;
use crate::engine::Builder;
use crate::head::NO_HEAD;
use crate::loss::Cause;
use crate::policy::{Hurry, Situation};
use crate::source::Input;
use crate::standing::Standing;

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
            self.book.add(self.accounts.waits_ended[reason as usize], 1);
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
                self.drop_head(source, DropReason::TagMismatch, input);
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
            self.drop_head(source, DropReason::TagMismatch, input);
            self.lose(source, trigger, Cause::TagMismatch, bytes);
        }
        self.mismatched = mismatched;
        self.mismatched.clear();
    }
}
