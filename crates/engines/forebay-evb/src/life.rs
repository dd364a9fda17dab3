//! Whether the sources began anew with numbers that were built already.
//!
//! Senders that are restarted count from 0 again. As long as the builder remembers those numbers they look like duplicates. They are
//! taken for new ones when nothing came from any source for longer than usual, when the first one that a source shows then is near
//! 0, and when most sources show such: until that is known they wait, for up to a time-out.

use crate::engine::Builder;
use crate::head::trigger_of;
use crate::silence::{GAPS, Rhythm};
use crate::source::{Input, Message};

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
mod tests {
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
