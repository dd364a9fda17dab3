//! How full each stage is: sockets' buffers, sources' queues, sinks' queues.

use serde::Serialize;

use super::sample::Metrics;

/// Buffers of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fill {
    /// `socket buffers`, `source queues` or `sink queue NAME`.
    pub stage: String,
    /// How many there are.
    pub(super) count: usize,
    /// All of them together.
    pub used_bytes: u64,
    /// What they can hold together.
    pub capacity_bytes: u64,
    /// Whose is the fullest.
    pub(super) fullest_owner: String,
    /// How full that one is, 0 to 1.
    pub(super) fullest: f64,
}

/// One buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level<'a> {
    pub(super) owner: &'a str,
    pub(super) used_bytes: u64,
    pub(super) capacity_bytes: u64,
}

impl Level<'_> {
    /// From 0 to 1.
    pub(super) fn share(&self) -> f64 {
        if self.capacity_bytes == 0 {
            0.0
        } else {
            self.used_bytes as f64 / self.capacity_bytes as f64
        }
    }
}

/// Queues of the sources: what was put in, less what was given back.
pub(super) fn source_queues<'a>(metrics: &Metrics<'a>) -> Vec<Level<'a>> {
    let level = |(group, owner, capacity_bytes): (&'a str, &'a str, u64)| {
        let tail = metrics.value(group, &format!("{owner}.tail_bytes"), "");
        let released = metrics.value("builder", &format!("{owner}.released_bytes"), "");
        // The two groups are read at different instants.
        let used_bytes = tail.saturating_sub(released).min(capacity_bytes);
        Level {
            owner,
            used_bytes,
            capacity_bytes,
        }
    };
    sorted(metrics.named("queue_capacity_bytes").map(level).collect())
}

fn socket_buffers<'a>(metrics: &Metrics<'a>) -> Vec<Level<'a>> {
    let level = |(group, owner, capacity_bytes): (&'a str, &'a str, u64)| {
        let used_bytes = metrics.value(group, "socket_buffer_fill_bytes", owner);
        Level {
            owner,
            used_bytes,
            capacity_bytes,
        }
    };
    sorted(
        metrics
            .named("socket_buffer_capacity_bytes")
            .map(level)
            .collect(),
    )
}

fn sink_queues<'a>(metrics: &Metrics<'a>) -> Vec<Level<'a>> {
    let level = |(group, owner, capacity_bytes): (&'a str, &'a str, u64)| {
        let tail = metrics.value("builder", &format!("{owner}.tail_bytes"), "");
        let head = metrics.value(group, "head_bytes", "");
        let used_bytes = tail.saturating_sub(head).min(capacity_bytes);
        Level {
            owner,
            used_bytes,
            capacity_bytes,
        }
    };
    let queues = metrics.named("sink_queue_capacity_bytes").map(level);
    sorted(queues.filter(|level| level.capacity_bytes > 0).collect())
}

/// A map has no order.
fn sorted(mut levels: Vec<Level<'_>>) -> Vec<Level<'_>> {
    levels.sort_by_key(|level| level.owner);
    levels
}

/// All stages in the order of the data.
pub(super) fn fills(metrics: &Metrics<'_>) -> Vec<Fill> {
    let mut all = vec![
        together("socket buffers".into(), &socket_buffers(metrics)),
        together("source queues".into(), &source_queues(metrics)),
    ];
    for level in sink_queues(metrics) {
        all.push(together(format!("sink queue {}", level.owner), &[level]));
    }
    all.into_iter().flatten().collect()
}

fn together(stage: String, levels: &[Level<'_>]) -> Option<Fill> {
    let fullest = levels
        .iter()
        .rev()
        .max_by(|a, b| a.share().total_cmp(&b.share()))?;
    Some(Fill {
        stage,
        count: levels.len(),
        used_bytes: levels.iter().map(|level| level.used_bytes).sum(),
        capacity_bytes: levels.iter().map(|level| level.capacity_bytes).sum(),
        fullest_owner: fullest.owner.to_owned(),
        fullest: fullest.share(),
    })
}
