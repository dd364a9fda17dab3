//! The sources one by one.

use std::collections::HashMap;

use forebay_evb::silence::Heard;
use serde::Serialize;

use super::fill::source_queues;
use super::sample::{Metrics, Sample};
use super::view::{Rates, losses};

/// One source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Source {
    pub(super) name: String,
    /// Datagrams received.
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    pub(super) datagrams_per_s: f64,
    pub(super) bytes_per_s: f64,
    /// Sub-events that entered the builder.
    pub(super) subevents: u64,
    pub(super) subevents_per_s: f64,
    /// How full its queue is, 0 to 1.
    pub(super) queue: f64,
    /// Everything lost, at all places.
    pub(super) dropped: u64,
    /// The reason of most of it, as `place.reason`.
    pub(super) reason: String,
    /// Sub-events that never came, as far as is known.
    pub(super) missing_events: u64,
    /// Events that were closed without it, for whatever cause.
    pub(super) events_without: u64,
    /// Trigger number last taken.
    pub(super) last_trigger: Option<u64>,
    /// It was waited for in vain and has not spoken since.
    pub(super) silent: bool,
    /// For how long, in s.
    pub(super) silent_s: f64,
    /// Events that were closed without it since.
    pub(super) silent_events: u64,
}

/// What the accounts of one place say of each owner: items and bytes that came in.
fn incoming<'a>(sample: &'a Sample, place: &str) -> HashMap<&'a str, (u64, u64)> {
    let lines = sample
        .verdict
        .balance
        .accounts
        .iter()
        .filter(|line| line.place == place);
    lines
        .map(|line| {
            (
                line.owner.as_str(),
                (line.incoming.items, line.incoming.bytes),
            )
        })
        .collect()
}

/// Losses of each owner: all, and the largest with its name.
fn lost(sample: &Sample) -> HashMap<&str, (u64, u64, String)> {
    let mut all: HashMap<&str, (u64, u64, String)> = HashMap::new();
    for (place, owner, line) in losses(sample) {
        let entry = all.entry(owner).or_default();
        entry.0 += line.items;
        if line.items > entry.1 {
            entry.1 = line.items;
            entry.2 = format!("{place}.{}", line.reason);
        }
    }
    all
}

/// All sources of the builder, in order of declaration; `heard` says when they spoke last.
pub(super) fn sources(
    now: &Sample,
    metrics: &Metrics<'_>,
    rates: &Rates<'_>,
    heard: &[Heard],
) -> Vec<Source> {
    let heard: HashMap<&str, &Heard> = heard.iter().map(|of| (of.source.as_str(), of)).collect();
    let (received, taken, lost) = (
        incoming(now, "receiver"),
        incoming(now, "builder"),
        lost(now),
    );
    let earlier = rates
        .before()
        .map(|before| (incoming(before, "receiver"), incoming(before, "builder")));
    let then = |receiver: bool, owner: &str| {
        let maps = earlier.as_ref();
        let map = maps.map(|maps| if receiver { &maps.0 } else { &maps.1 });
        map.and_then(|map| map.get(owner))
            .copied()
            .unwrap_or_default()
    };
    let queues: HashMap<&str, f64> = source_queues(metrics)
        .iter()
        .map(|level| (level.owner, level.share()))
        .collect();
    let owners = now
        .verdict
        .balance
        .accounts
        .iter()
        .filter(|line| line.place == "builder");
    let source = |owner: &str| {
        let (datagrams, bytes) = received.get(owner).copied().unwrap_or_default();
        let subevents = taken.get(owner).copied().unwrap_or_default().0;
        let word = |name: &str| metrics.value("builder", &format!("{owner}.{name}"), "");
        let heard = heard.get(owner);
        let (dropped, _, reason) = lost.get(owner).cloned().unwrap_or_default();
        Source {
            name: owner.to_owned(),
            datagrams,
            bytes,
            datagrams_per_s: rates.of(datagrams, |_| then(true, owner).0),
            bytes_per_s: rates.of(bytes, |_| then(true, owner).1),
            subevents,
            subevents_per_s: rates.of(subevents, |_| then(false, owner).0),
            queue: queues.get(owner).copied().unwrap_or(0.0),
            dropped,
            reason,
            missing_events: word("missing_events"),
            last_trigger: word("last_trigger").checked_sub(1),
            events_without: heard.map_or(0, |of| of.events_without),
            silent: word("silent") != 0,
            silent_s: heard.map_or(0.0, |of| of.silent_s),
            silent_events: heard.map_or(0, |of| of.silent_events),
        }
    };
    owners.map(|line| source(&line.owner)).collect()
}
