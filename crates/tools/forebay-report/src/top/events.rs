//! What a builder of events made.

use serde::Serialize;

use super::sample::{Metrics, Sample};
use super::view::Rates;
use super::work::{Kind, Work};

/// What the builder made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Events {
    /// Complete ones.
    pub complete: u64,
    /// Incomplete ones.
    pub partial: u64,
    pub(super) discarded: u64,
    /// From the first trigger seen to the last one.
    pub(super) triggers_span: u64,
    /// Those of them that no source delivered.
    pub(super) triggers_missing: u64,
    /// Those of them that are in no event, as the receiver dropped what came.
    pub(super) triggers_dropped: u64,
    /// Complete events over `triggers_span`.
    pub(super) efficiency: f64,
    pub(super) bytes: u64,
    /// Events per second.
    pub rate_hz: f64,
    /// Their bytes per second.
    pub data_rate_bytes_per_s: f64,
}

/// Time over which the run built events, for rates without a look before.
pub(super) fn span_s(metrics: &Metrics<'_>) -> f64 {
    let trigger = metrics.value("generator", "start_ns", "");
    let first = match trigger {
        0 => metrics.value("builder", "first_message_ns", ""),
        trigger => trigger,
    };
    let last = metrics.value("builder", "last_event_ns", "");
    last.saturating_sub(first) as f64 / 1e9
}

/// What the builder made, and how fast.
pub(super) fn events(
    now: &Sample,
    work: &Work,
    metrics: &Metrics<'_>,
    rates: &Rates<'_>,
) -> Option<Events> {
    let count = |name| metrics.value("builder", name, "");
    let (_, bytes) = work.done(now);
    let [rate_hz, data_rate_bytes_per_s] = work.rates(now, rates);
    let (complete, span) = (count("events_complete"), count("triggers_span"));
    (work.kind == Kind::Events).then(|| Events {
        complete,
        triggers_span: span,
        triggers_missing: count("triggers_missing"),
        triggers_dropped: count("triggers_dropped"),
        efficiency: complete as f64 / span.max(1) as f64,
        partial: count("events_partial"),
        discarded: count("events_discarded"),
        bytes,
        rate_hz,
        data_rate_bytes_per_s,
    })
}
