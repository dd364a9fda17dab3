//! Sizes of a plan that must fit into each other, wherever they were written: in a chain file or as flags.

use forebay_sink::check_mover;
use thiserror::Error;

use super::{MoverLimit, Plan, SinkKind};

/// A sink whose queue can never take the largest event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "sink {sink}: queue_bytes (--sink-queue) = {queue_bytes}: an event of {event_bytes_max} bytes (event_bytes_max, \
     --event-size) is longer than half of it; give it {queue_bytes_least} bytes or more, or say that no event has more \
     than {event_bytes_most}"
)]
pub struct QueueTooSmall {
    /// Its place in [`Plan::sinks`].
    pub index: usize,
    /// Its name.
    pub sink: String,
    /// What it has, in bytes.
    pub queue_bytes: u64,
    /// Largest event, in bytes.
    pub event_bytes_max: u64,
    /// Least queue for events of that size, in bytes.
    pub queue_bytes_least: u64,
    /// Largest event for this queue, in bytes.
    pub event_bytes_most: u64,
}

impl Plan {
    /// All sinks whose queue can never take the largest event: a record is at most half of its ring.
    #[must_use]
    pub fn queues_too_small(&self) -> Vec<QueueTooSmall> {
        let event_bytes_max = self.builder.event_bytes_max as u64;
        let queued = self.sinks.iter().enumerate();
        let queued = queued.filter(|(_, sink)| sink.kind != SinkKind::Null);
        let small =
            queued.filter(|(index, _)| self.sink_record_bytes_max(*index) < event_bytes_max);
        small
            .map(|(index, sink)| QueueTooSmall {
                index,
                sink: sink.name.clone(),
                queue_bytes: sink.queue_bytes,
                event_bytes_max,
                queue_bytes_least: (2 * event_bytes_max).next_power_of_two(),
                event_bytes_most: self.sink_record_bytes_max(index),
            })
            .collect()
    }

    /// Checks that every event finds room in every sink's empty queue.
    ///
    /// # Errors
    /// The first sink whose queue is too small.
    pub fn check_queues(&self) -> Result<(), QueueTooSmall> {
        self.queues_too_small()
            .into_iter()
            .next()
            .map_or(Ok(()), Err)
    }

    /// Whether movers will take what this plan's sinks send them.
    ///
    /// # Errors
    /// The first thing that one would not take.
    pub fn check_movers(&self) -> Result<(), MoverLimit> {
        let event_bytes_max = self.builder.event_bytes_max;
        let to_movers = self.sinks.iter();
        let mut to_movers = to_movers.filter(|sink| matches!(sink.kind, SinkKind::Tcp(_)));
        to_movers.try_for_each(|sink| check_mover(&self.run_id, &sink.name, event_bytes_max))
    }

    /// Longest record in the queue of one sink, in bytes.
    #[must_use]
    pub fn sink_record_bytes_max(&self, sink: usize) -> u64 {
        (self.sinks[sink].queue_bytes / 2).min(u64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use crate::presets;

    /// Only movers have limits of their own.
    #[test]
    fn events_that_are_too_long_for_a_mover_are_not_for_a_file() {
        let local = std::net::Ipv4Addr::LOCALHOST;
        let mut plan = presets::plan("run", "there".as_ref(), local.into(), 50_000, 1);
        plan.builder.event_bytes_max = (64 << 20) + 1;
        plan.sinks = vec![presets::file_sink("there".into(), "be")];
        plan.check_movers().unwrap();
        plan.sinks.push(presets::tcp_sink((local, 9_400).into()));
        let said = plan.check_movers().unwrap_err().to_string();
        assert!(said.contains("67108865"), "{said}");
    }
}
