//! The sections of the two stages, and what must agree between sections.

use forebay_run::config::block::Block;

use crate::plan::{BuilderPlan, Plan, ReceiverPlan};
use crate::presets;

/// What a datagram needs free in a queue beside the message before it.
const DATAGRAM_ROOM_BYTES: u64 = 65_536 + 64;

/// The receiver of a run with so many ports.
pub(super) fn receiver(block: &Block<'_, '_>, ports: usize) -> ReceiverPlan {
    let mut plan = presets::receiver(ports);
    let size = |name| block.integer(name).map(|value| value as usize);
    plan.socket_buffer_bytes = size("socket_buffer_bytes").unwrap_or(plan.socket_buffer_bytes);
    plan.batch_datagrams = size("batch_datagrams").unwrap_or(plan.batch_datagrams);
    plan.message_bytes_max = small(block, "message_bytes_max").unwrap_or(plan.message_bytes_max);
    plan.spin_us = block.integer("spin_us").unwrap_or(plan.spin_us);
    plan.gather_us = block.integer("gather_us").unwrap_or(plan.gather_us);
    plan.stamps = block.flag("stamps").unwrap_or(plan.stamps);
    plan.gro = block.flag("gro").unwrap_or(plan.gro);
    plan.full = block.one_of("full").unwrap_or(plan.full);
    (plan.cpu, plan.real_time) = place(block);
    plan
}

/// The builder.
pub(super) fn builder(block: &Block<'_, '_>) -> BuilderPlan {
    let mut plan = presets::builder();
    plan.completion = block.one_of("completion").unwrap_or(plan.completion);
    plan.trigger_bits = small(block, "trigger_bits").unwrap_or(plan.trigger_bits);
    plan.trigger_step = small(block, "trigger_step").unwrap_or(plan.trigger_step);
    plan.check_tag = block.flag("check_tag").unwrap_or(plan.check_tag);
    plan.timeout_ms = block.integer("timeout_ms").unwrap_or(plan.timeout_ms);
    plan.timeout_events = small(block, "timeout_events").unwrap_or(plan.timeout_events);
    let quarter = 1 << (plan.trigger_bits - 2);
    plan.window_events = match small(block, "window_events") {
        None => plan.window_events.min(quarter),
        Some(events) => {
            if events > quarter {
                block.complain(
                    "window_events",
                    &format!("it is more than a quarter of {} bits", plan.trigger_bits),
                    &format!("an integer from 1 to {quarter} events"),
                    &format!("write {quarter} or less, or leave it out"),
                );
            }
            events
        }
    };
    let bytes = block.integer("event_bytes_max").map(|bytes| bytes as usize);
    plan.event_bytes_max = bytes.unwrap_or(plan.event_bytes_max);
    plan.gather_us = block.integer("gather_us").unwrap_or(plan.gather_us);
    (plan.cpu, plan.real_time) = place(block);
    plan
}

/// CPU and priority of a stage.
fn place(block: &Block<'_, '_>) -> (Option<usize>, Option<u8>) {
    let cpu = block.integer("cpu").map(|cpu| cpu as usize);
    let real_time = block
        .integer("real_time")
        .and_then(|priority| u8::try_from(priority).ok());
    (cpu, real_time)
}

fn small(block: &Block<'_, '_>, name: &str) -> Option<u32> {
    block
        .integer(name)
        .and_then(|value| u32::try_from(value).ok())
}

/// Sizes that must fit into each other.
pub(super) fn agree(
    plan: &Plan,
    receiver: &Block<'_, '_>,
    builder: &Block<'_, '_>,
    sinks: &[Block<'_, '_>],
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
            Some(block) => block.complain(
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
