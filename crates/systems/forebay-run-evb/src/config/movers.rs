//! What a remote mover takes, held against the file that names one.

use forebay_config::Block;
use forebay_sink::RUN_NAME_BYTES_MAX;
use forebay_wire::mover::{BLOCK_BYTES_MAX, SINK_BYTES_MAX};

use super::SinkSettings;
use crate::plan::{Plan, SinkKind};

/// Names and events that a mover would refuse; `name` is the run's, without its stamp.
pub(super) fn agree(
    plan: &Plan,
    name: &str,
    run: &Block<'_, '_>,
    builder: &Block<'_, '_>,
    sinks: &[(SinkSettings, Block<'_, '_>)],
) {
    let pairs = plan.sinks.iter().zip(sinks);
    let movers: Vec<_> = pairs
        .filter(|(sink, _)| matches!(sink.kind, SinkKind::Tcp(_)))
        .collect();
    if movers.is_empty() || sinks.len() != plan.sinks.len() {
        // There is none, or a block is wrong in itself, which was said.
        return;
    }
    for (sink, (_, block)) in movers {
        if sink.name.len() > SINK_BYTES_MAX {
            block.complain(
                "name",
                &format!(
                    "it has {} characters, and a mover takes fewer",
                    sink.name.len()
                ),
                &format!("at most {SINK_BYTES_MAX} characters for kind = \"tcp\""),
                "choose a shorter name",
            );
        }
    }
    if name.len() > RUN_NAME_BYTES_MAX {
        run.complain(
            "name",
            &format!(
                "it has {} characters, and with the time behind it a mover does not take it",
                name.len()
            ),
            &format!("at most {RUN_NAME_BYTES_MAX} characters with a sink of kind = \"tcp\""),
            "choose a shorter name",
        );
    }
    if plan.builder.event_bytes_max > BLOCK_BYTES_MAX as usize {
        builder.complain(
            "event_bytes_max",
            "an event of that length is more than a mover takes at a time",
            &format!("at most {BLOCK_BYTES_MAX} bytes with a sink of kind = \"tcp\""),
            &format!("write {BLOCK_BYTES_MAX} or less, or write files here"),
        );
    }
}
