//! How long the parts of a run are waited for at its end.

use std::time::Duration;

use super::{Backpressure, Plan, SinkKind, SinkPlan};

/// Longest time that a sink which drops when it cannot keep up may hang at the end.
const SINK_LIMIT: Duration = Duration::from_secs(10);

impl SinkPlan {
    /// How long this sink may get on with nothing at the end before it is given up.
    #[must_use]
    pub fn end_limit(&self) -> Duration {
        match (&self.kind, self.backpressure) {
            (SinkKind::Null, _) => Duration::ZERO,
            // It gives up by itself, and names what it could not deliver.
            (SinkKind::Tcp(tcp), _) => SINK_LIMIT + 2 * Duration::from_millis(tcp.patience_ms),
            (SinkKind::File(_), Backpressure::Block { limit_ms }) => {
                Duration::from_millis(limit_ms)
            }
            (SinkKind::File(_), Backpressure::Drop) => SINK_LIMIT,
        }
    }

    /// How long this sink may hold the builder while its queue is full.
    #[must_use]
    pub fn hold_limit(&self) -> Duration {
        match (&self.kind, self.backpressure) {
            (SinkKind::Null, _) | (_, Backpressure::Drop) => Duration::ZERO,
            (_, Backpressure::Block { limit_ms }) => Duration::from_millis(limit_ms),
        }
    }
}

impl Plan {
    /// How long the sinks may keep the builder from its end while nothing gets on: they hold it together, and are given up
    /// one after the other.
    #[must_use]
    pub fn sinks_end_limit(&self) -> Duration {
        let hold = self.sinks.iter().map(SinkPlan::hold_limit).max();
        let ends = self.sinks.iter().map(SinkPlan::end_limit);
        ends.fold(hold.unwrap_or_default(), Duration::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn sinks_hold_together_and_end_one_after_the_other() {
        let local = std::net::Ipv4Addr::LOCALHOST;
        let mut plan = presets::plan("test", std::path::Path::new("."), local.into(), 0, 1);
        let sink = |limit_ms| SinkPlan {
            backpressure: Backpressure::Block { limit_ms },
            ..presets::file_sink(".".into(), "te")
        };
        let tcp = presets::tcp_sink((local, 1).into());
        plan.sinks = vec![sink(90_000), sink(3_600_000), presets::null_sink(), tcp];
        let seconds = 3600 + (90 + 3600 + 10 + 2 * 10);
        assert_eq!(plan.sinks_end_limit(), Duration::from_secs(seconds));
    }
}
