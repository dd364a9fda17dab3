//! The books of the sinks: what the builder offers each of them, and what it makes of it.

use forebay_ledger::{AccountId, GroupId, LinkSpec, SchemaBuilder, Tally, Unit};

use super::{OfferWords, SinkWords};
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
        let (offer_id, account) = schema.account_of(group, "offer", &sink.name, Unit::Events);
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

/// Declares what takes events of the stream `name` off a queue or a connection at `place` and writes them.
pub(crate) fn declare_writer(
    schema: &mut SchemaBuilder,
    place: &str,
    name: &str,
) -> (SinkWords, AccountId) {
    let group = schema.group(&format!("{place}.{name}"));
    declare_words(schema, group, (place, name), "")
}

/// Declares the words of a sink in `group`, its cursors behind `prefix`.
fn declare_words(
    schema: &mut SchemaBuilder,
    group: GroupId,
    (place, name): (&str, &str),
    prefix: &str,
) -> (SinkWords, AccountId) {
    let (id, account) = schema.account_of(group, place, name, Unit::Events);
    let taken = schema.cursor_tally(group, &format!("{prefix}taken"));
    let mut cursor = |word: &str| schema.cursor(group, &format!("{prefix}{word}"));
    let head = cursor("head_bytes");
    let pulled = cursor("pulled_bytes");
    let file = [
        "run",
        "suffix",
        "offset_bytes",
        "events",
        "inode",
        "made_ns",
    ]
    .map(&mut cursor);
    let files = schema.counter(group, "files", name, "files begun");
    let written = schema.counter(
        group,
        "written_bytes",
        name,
        "bytes written, headers included",
    );
    let mut removed = |word: &str, help| schema.counter(group, word, name, help);
    let removed_files = removed(
        "output_removed_files",
        "open files that somebody removed or cut",
    );
    let removed = Tally {
        items: removed(
            "output_removed_events",
            "events that were written and went with such files",
        ),
        bytes: removed("output_removed_bytes", "bytes of these events"),
    };
    let capacity = schema.gauge(
        group,
        "sink_queue_capacity_bytes",
        name,
        "what the queue of the sink can hold",
    );
    (
        SinkWords {
            group,
            account,
            taken,
            head,
            pulled,
            file,
            files,
            written,
            removed_files,
            removed,
            capacity,
        },
        id,
    )
}
