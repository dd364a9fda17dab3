//! The slow path: some source shows nothing, or another trigger number than the rest.

use crate::account::DropReason;
use crate::config::Completion;
use crate::engine::{Builder, Poll};
use crate::output::Output;
use crate::policy::{self, Verdict, judge};
use crate::situation::Ended;
use crate::source::Input;
use crate::standing::Standing;

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
    pub(crate) fn note_wrong(&mut self, source: usize, reason: DropReason) {
        match reason {
            DropReason::Late => {
                if let Some(trigger) = self.heads.trigger(source) {
                    self.came_late(source, trigger);
                }
            }
            DropReason::OutOfWindow => self.came_astray(source),
            // It has been in an event before, or its event says what became of it.
            DropReason::Duplicate
            | DropReason::TagMismatch
            | DropReason::Incomplete
            | DropReason::Broken
            | DropReason::TooLarge => {}
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
            return self.discard_present(key, DropReason::Incomplete, input);
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
        self.drop_head(source, DropReason::OutOfWindow, input);
        Poll::Dropped
    }
}
