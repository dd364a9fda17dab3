//! The books of the sinks: what the builder offers each of them, and what it makes of it.

use forebay_ledger::{LinkSpec, SchemaBuilder, Unit};
use forebay_sink::{SinkWords, declare_words, declare_writer};

use super::OfferWords;
use crate::plan::{Plan, SinkKind};

/// Declares every sink at both ends of its queue.
pub(super) fn declare_sinks(
    schema: &mut SchemaBuilder,
    plan: &Plan,
    builder: &forebay_evb::Accounts,
) -> (Vec<OfferWords>, Vec<SinkWords>) {
    let mut offers = Vec::new();
    let mut sinks = Vec::new();
    for sink in &plan.sinks {
        let group = builder.group;
        let (offer_id, account) = schema.account(group, "offer", &sink.name, Unit::Events);
        schema.link(
            LinkSpec::new("fan_out", &sink.name)
                .from(builder.events_id)
                .to(offer_id),
        );
        let published = schema.cursor_tally(group, &format!("{}.published", sink.name));
        let mut cursor = |name: &str| schema.cursor(group, &format!("{}.{name}", sink.name));
        let tail = cursor("tail_bytes");
        let rotation = ["run", "file_bytes", "file_events", "file_start_ns"].map(&mut cursor);
        let first_run = cursor("first_run");
        let words = match sink.kind {
            // It is a part of the builder: what it took is committed with what it was given.
            SinkKind::Null => {
                let prefix = format!("sink.{}.", sink.name);
                declare_words(schema, group, ("sink", &sink.name), &prefix)
            }
            SinkKind::File(_) | SinkKind::Tcp(_) => declare_writer(schema, "sink", &sink.name),
        };
        let link = LinkSpec::new("sink_queue", &sink.name)
            .from(offer_id)
            .to(words.1);
        // Without a queue nothing is ever between the two.
        let link = match sink.kind {
            SinkKind::Null => link,
            SinkKind::File(_) | SinkKind::Tcp(_) => link.in_flight(published, words.0.taken),
        };
        schema.link(link);
        offers.push(OfferWords {
            account,
            published,
            tail,
            rotation,
            first_run,
        });
        sinks.push(words.0);
    }
    (offers, sinks)
}
