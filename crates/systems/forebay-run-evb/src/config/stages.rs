//! What must agree within the sections of the stages, and between sections.

use forebay_config::Block;

use super::SinkSettings;
use crate::plan::{BuilderPlan, Plan};

/// What a datagram needs free in a queue beside the message before it.
const DATAGRAM_ROOM_BYTES: u64 = 65_536 + 64;

/// The builder; how far its window reaches follows from the width of its numbers.
pub(super) fn builder(mut said: BuilderPlan, block: &Block<'_, '_>) -> BuilderPlan {
    let quarter = 1 << (said.trigger_bits - 2);
    if !block.has("window_events") {
        said.window_events = said.window_events.min(quarter);
    } else if said.window_events > quarter {
        block.complain(
            "window_events",
            &format!("it is more than a quarter of {} bits", said.trigger_bits),
            &format!("an integer from 1 to {quarter} events"),
            &format!("write {quarter} or less, or leave it out"),
        );
    }
    said
}

/// Sizes that must fit into each other.
pub(super) fn agree(
    plan: &Plan,
    receiver: &Block<'_, '_>,
    builder: &Block<'_, '_>,
    sinks: &[(SinkSettings, Block<'_, '_>)],
) {
    let needed = u64::from(plan.receiver.message_bytes_max) + DATAGRAM_ROOM_BYTES;
    let least = plan.sources.iter().map(|source| source.ring_bytes).min();
    if let Some(least) = least.filter(|least| *least < needed) {
        let right = needed.next_power_of_two();
        receiver.complain(
            "message_bytes_max",
            &format!(
                "a message of {} bytes and one datagram do not fit into a queue of {least} bytes",
                plan.receiver.message_bytes_max
            ),
            &format!(
                "at most {} bytes with this queue",
                least.saturating_sub(DATAGRAM_ROOM_BYTES)
            ),
            &format!("make it smaller, or give every source queue_bytes = {right} or more"),
        );
    }
    if !sinks.is_empty() && sinks.len() != plan.sinks.len() {
        // A block is wrong in itself, which was said.
        return;
    }
    for small in plan.queues_too_small() {
        let (event, half) = (small.event_bytes_max, small.event_bytes_most);
        let remedy = format!(
            "give this sink queue_bytes = {}, or set event_bytes_max = {half} in [builder]",
            small.queue_bytes_least
        );
        let wrong =
            format!("an event of {event} bytes (event_bytes_max) is longer than half of it");
        match sinks.get(small.index) {
            Some((_, block)) => block.complain(
                "queue_bytes",
                &wrong,
                &format!("at least {} bytes", 2 * event),
                &remedy,
            ),
            None => builder.complain(
                "event_bytes_max",
                &wrong,
                &format!("at most {half} bytes"),
                &remedy,
            ),
        }
    }
}
