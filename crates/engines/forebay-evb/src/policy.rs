//! Completion of events: one file per policy, chosen once by the configuration.

mod discard;
mod partial;
mod wait;

use forebay_ledger::reasons;
use forebay_settings::choices;
use serde::{Deserialize, Serialize};

use crate::config::Config;

choices! {
    /// When an event counts as finished, and what becomes of one that lacks a source.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Completion {
        /// Waits for every source, up to [`Config::timeout_ns`] for each event, then builds what came.
        Wait = "wait",
        /// Builds what came and flags it; a source that was waited for in vain once is not waited for again until it speaks.
        #[default]
        Partial = "partial",
        /// Builds complete events only; the sub-events of the others are dropped and counted.
        Discard = "discard",
    }
}

/// What is known of the oldest event that is not finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Situation {
    /// Sources that show nothing at all, so that they may still deliver.
    pub absent: usize,
    /// Those of them that were already given up and have not spoken since.
    pub absent_silent: usize,
    /// How long it takes until all others of them have been silent for longer than their usual gaps, in ns; 0: they have.
    pub patience_ns: u64,
    /// Sources that will not deliver any more: they closed, or are already ahead.
    pub passed: usize,
    /// How long the event's oldest sub-event has been here while the output had room, in ns.
    pub age_ns: u64,
    /// How many later sub-events wait in the fullest source.
    pub backlog_events: u32,
    /// Whether some source's queue is so full that waiting would lose data.
    pub pressed: bool,
}

/// What to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Look again when something arrives, or after this many ns.
    Wait {
        /// Time until the answer changes by itself, in ns.
        ns: u64,
    },
    /// Write what came.
    Build,
    /// Drop what came, by name.
    Discard,
}

/// The policy named by `config`, applied to `situation`. A complete event never comes here.
#[inline]
pub(crate) fn judge(config: &Config, situation: &Situation) -> Verdict {
    match config.completion {
        Completion::Wait => wait::judge(config, situation),
        Completion::Partial => partial::judge(config, situation),
        Completion::Discard => discard::judge(config, situation),
    }
}

reasons! {
    /// Reasons to finish an event although a source that was not given up is still absent.
    pub enum Hurry {
        /// It has waited for the time-out.
        Time = "time",
        /// Too many later events wait behind it.
        Events = "events",
        /// Some source's queue is nearly full.
        FullQueue = "full_queue",
    }
}

/// The reason to stop waiting for absent sources that were not given up; `None` while the event waits. Before the time-out no source
/// is left out that has been silent for no longer than usual: what it has sent is on its way.
pub(crate) fn hurry(config: &Config, situation: &Situation) -> Option<Hurry> {
    if situation.absent == situation.absent_silent {
        return None;
    }
    if situation.age_ns >= config.timeout_ns {
        return Some(Hurry::Time);
    }
    if config.completion == Completion::Wait || situation.patience_ns > 0 {
        return None;
    }
    in_a_hurry(config, situation)
}

/// Whether waiting is over under the limits that `partial` and `discard` share.
fn expired(config: &Config, situation: &Situation) -> bool {
    situation.absent == situation.absent_silent || hurry(config, situation).is_some()
}

/// What makes waiting costly before the time-out.
fn in_a_hurry(config: &Config, situation: &Situation) -> Option<Hurry> {
    if situation.pressed {
        return Some(Hurry::FullQueue);
    }
    (situation.backlog_events >= config.timeout_events).then_some(Hurry::Events)
}

/// When [`expired`] turns true by itself.
fn time_left(config: &Config, situation: &Situation) -> u64 {
    let left_ns = config.timeout_ns - situation.age_ns;
    if in_a_hurry(config, situation).is_none() {
        return left_ns;
    }
    left_ns.min(situation.patience_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Situation {
        Situation {
            absent: 2,
            absent_silent: 1,
            patience_ns: 7,
            passed: 0,
            age_ns: 10,
            backlog_events: 1,
            pressed: false,
        }
    }

    #[test]
    fn each_limit_ends_the_waiting_of_partial_and_discard() {
        let config = Config::new(4);
        assert_eq!(
            partial::judge(&config, &waiting()),
            Verdict::Wait {
                ns: config.timeout_ns - 10
            }
        );
        let over = [
            Situation {
                absent: 1,
                ..waiting()
            },
            Situation {
                absent: 0,
                absent_silent: 0,
                passed: 1,
                ..waiting()
            },
            Situation {
                age_ns: config.timeout_ns,
                ..waiting()
            },
            Situation {
                backlog_events: config.timeout_events,
                patience_ns: 0,
                ..waiting()
            },
            Situation {
                pressed: true,
                patience_ns: 0,
                ..waiting()
            },
        ];
        for situation in over {
            assert_eq!(
                partial::judge(&config, &situation),
                Verdict::Build,
                "{situation:?}"
            );
            assert_eq!(
                discard::judge(&config, &situation),
                Verdict::Discard,
                "{situation:?}"
            );
        }
    }

    /// A full queue and many later events end the waiting for sources that were silent for too long, and for no other.
    #[test]
    fn whoever_is_not_silent_for_long_is_waited_for_in_a_hurry_too() {
        let config = Config::new(4);
        let pressed = Situation {
            pressed: true,
            ..waiting()
        };
        let many = Situation {
            backlog_events: config.timeout_events,
            ..waiting()
        };
        for (situation, reason) in [(pressed, Hurry::FullQueue), (many, Hurry::Events)] {
            let waits = Verdict::Wait { ns: 7 };
            assert_eq!(partial::judge(&config, &situation), waits);
            assert_eq!(discard::judge(&config, &situation), waits);
            assert_eq!(hurry(&config, &situation), None);
            let silent = Situation {
                patience_ns: 0,
                ..situation
            };
            assert_eq!(hurry(&config, &silent), Some(reason));
        }
        let old = Situation {
            age_ns: config.timeout_ns,
            ..pressed
        };
        assert_eq!(hurry(&config, &old), Some(Hurry::Time));
        let all_given_up = Situation { absent: 1, ..old };
        assert_eq!(hurry(&config, &all_given_up), None, "nobody is waited for");
    }

    #[test]
    fn wait_looks_at_time_and_at_sources_that_may_come_only() {
        let config = Config::new(4);
        let pressed = Situation {
            pressed: true,
            backlog_events: u32::MAX,
            ..waiting()
        };
        assert_eq!(
            wait::judge(&config, &pressed),
            Verdict::Wait {
                ns: config.timeout_ns - 10
            }
        );
        let silent = Situation {
            absent: 1,
            ..waiting()
        };
        assert_eq!(
            wait::judge(&config, &silent),
            Verdict::Wait {
                ns: config.timeout_ns - 10
            }
        );
        let old = Situation {
            age_ns: config.timeout_ns,
            ..waiting()
        };
        assert_eq!(wait::judge(&config, &old), Verdict::Build);
        let passed = Situation {
            absent: 0,
            absent_silent: 0,
            passed: 3,
            ..waiting()
        };
        assert_eq!(wait::judge(&config, &passed), Verdict::Build);
    }
}
