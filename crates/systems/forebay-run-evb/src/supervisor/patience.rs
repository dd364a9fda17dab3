//! How long the supervisor waits for a stage that was told to stop.

use std::time::Duration;

use crate::plan::Plan;
use crate::stages::Role;

/// Longest time that a stage may get on with nothing after the order to stop; the builder has in addition what its sinks
/// may take.
pub(super) const END_LIMIT_NS: u64 = 60_000_000_000;
/// How often the supervisor looks whether a stage that shall end gets on.
const LOOK_NS: u64 = 1_000_000_000;

/// Patience with one stage: its limit counts from the last time that it got on.
pub(super) struct Patience {
    limit_ns: u64,
    since_ns: u64,
    look_ns: u64,
    done: u64,
}

impl Patience {
    pub(super) fn with(plan: &Plan, role: Role, now_ns: u64) -> Self {
        let sinks = match role {
            Role::Generator | Role::Receiver => Duration::ZERO,
            Role::Builder => plan.sinks_end_limit(),
        };
        let sinks_ns = u64::try_from(sinks.as_nanos()).unwrap_or(u64::MAX);
        Self {
            limit_ns: END_LIMIT_NS.saturating_add(sinks_ns),
            since_ns: now_ns,
            look_ns: now_ns,
            done: 0,
        }
    }

    /// Whether the limit is over; `done` tells what the stage has done so far, and is asked now and then.
    pub(super) fn is_over(&mut self, now_ns: u64, done: impl FnOnce() -> u64) -> bool {
        if now_ns >= self.look_ns {
            self.look_ns = now_ns + LOOK_NS;
            let done = done();
            if done != self.done {
                (self.done, self.since_ns) = (done, now_ns);
            }
        }
        now_ns.saturating_sub(self.since_ns) > self.limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Backpressure;
    use crate::presets;

    const S: u64 = 1_000_000_000;

    fn plan(limit_ms: u64) -> Plan {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("test", std::path::Path::new("."), local, 0, 1);
        let mut sink = presets::file_sink(".".into(), "te");
        sink.backpressure = Backpressure::Block { limit_ms };
        plan.sinks = vec![sink];
        plan
    }

    #[test]
    fn a_sink_that_may_block_for_long_is_waited_for_as_long() {
        let mut patience = Patience::with(&plan(3_600_000), Role::Builder, 0);
        assert!(!patience.is_over(7_200 * S, || 0));
        assert!(patience.is_over((60 + 7_200) * S + 1, || 0));
        let mut receiver = Patience::with(&plan(3_600_000), Role::Receiver, 0);
        assert!(receiver.is_over(60 * S + 1, || 0));
    }

    #[test]
    fn a_stage_that_gets_on_is_not_given_up() {
        let mut patience = Patience::with(&plan(0), Role::Builder, 0);
        for second in 0..600 {
            assert!(!patience.is_over(second * S, || second));
        }
        assert!(!patience.is_over(659 * S, || 599));
        assert!(patience.is_over(660 * S, || 599));
    }
}
