//! Completion of events: one file per policy, chosen once by the configuration.

mod discard;
mod partial;
mod wait;

use crate::config::{Completion, Config};

/// How long an event waits for a source although another one's queue is nearly full, in ns. Queues also fill
/// while the sinks hold everything up, and then the missing messages lie right behind.
pub(crate) const PRESSED_PATIENCE_NS: u64 = 20_000_000;

/// What is known of the oldest event that is not finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Situation {
    /// Sources that show nothing at all, so that they may still deliver.
    pub absent: usize,
    /// Those of them that were already waited for in vain and have not spoken since.
    pub absent_silent: usize,
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

/// Whether the sources that are absent were waited for as long as the policy waits, so that it is not done again before
/// they speak. `wait` waits each time.
pub(crate) fn is_in_vain(config: &Config, situation: &Situation) -> bool {
    config.completion != Completion::Wait && is_over(config, situation)
}

/// Whether waiting is over under the limits that `partial` and `discard` share.
fn expired(config: &Config, situation: &Situation) -> bool {
    situation.absent == situation.absent_silent || is_over(config, situation)
}

/// Whether one of the limits is reached.
fn is_over(config: &Config, situation: &Situation) -> bool {
    situation.age_ns >= config.timeout_ns
        || situation.backlog_events >= config.timeout_events
        || (situation.pressed && situation.age_ns >= PRESSED_PATIENCE_NS)
}

/// When [`expired`] turns true by itself.
fn time_left(config: &Config, situation: &Situation) -> u64 {
    let limit_ns = if situation.pressed {
        PRESSED_PATIENCE_NS.min(config.timeout_ns)
    } else {
        config.timeout_ns
    };
    limit_ns - situation.age_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Situation {
        Situation {
            absent: 2,
            absent_silent: 1,
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
                ..waiting()
            },
            Situation {
                pressed: true,
                age_ns: PRESSED_PATIENCE_NS,
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
