//! The builder's accounts and cursors: one group of the ledger, committed as one record.

use forebay_ledger::{
    Account, AccountId, Counter, DropReason, GroupId, LossTableId, PerReason, SchemaBuilder, Tally,
    Unit, reasons,
};

use crate::loss::Cause;
use crate::policy::Hurry;

reasons! {
    /// Why the builder drops a sub-event.
    pub enum SubEventDrop {
        /// Its event was already built without it.
        Late = "late",
        /// The same source delivered this trigger number before.
        Duplicate = "duplicate",
        /// Its trigger number cannot be true: out of its own source's order, or far from the other sources'.
        OutOfWindow = "out_of_window",
        /// Its tag differs from that of the event.
        TagMismatch = "tag_mismatch",
        /// Its event lacked a source and the policy is `discard`.
        Incomplete = "incomplete",
        /// Its header cannot be true, so that the rest of its message cannot be read.
        Broken = "broken_subevent",
        /// Its event is larger than the limit.
        TooLarge = "event_too_large",
    }
}

reasons! {
    /// Why the builder gives an event up.
    pub enum EventDrop {
        /// It lacked a source and the policy is `discard`.
        Incomplete = "incomplete",
        /// It is larger than the limit.
        TooLarge = "event_too_large",
    }
}

/// Words of one source in the builder's group.
#[derive(Debug, Clone)]
pub struct SourceWords {
    /// Sub-events in, out, dropped, held.
    pub account: Account<SubEventDrop>,
    /// The account's number in the schema, for links.
    pub id: AccountId,
    /// Sub-events taken off the source's queue, counted by the stage that reads the queue and not by the engine.
    pub taken: Tally,
    /// Sub-events in events whose decoding word no reader can follow: they are kept as they came.
    pub odd_decoding: Counter,
    /// Position up to which the source's queue may be freed.
    pub released: Counter,
    /// Position up to which messages were taken in and counted.
    pub pulled: Counter,
    /// Messages taken in so far.
    pub messages: Counter,
    /// Bytes of the oldest message that are already consumed.
    pub offset: Counter,
    /// Sub-events of the oldest message that are still to come.
    pub left: Counter,
    /// Trigger number last taken, plus one; 0 before the first.
    pub last: Counter,
    /// 1 when the source was waited for in vain, or as long as it may be silent, and nothing came from it since.
    pub silent: Counter,
    /// When the last message came, in ns of the wall clock; set by the stage that reads the queue and not by the engine.
    pub last_seen: Counter,
    /// When it came, in ns of the clock that the engine is told; 0 before the first.
    pub heard: Counter,
    /// Position up to which messages were taken in when the last pause of all sources ended, plus one; 0 when there was none.
    pub paused: Counter,
    /// End of its first message behind a pause, in which its numbers go back; 0 when there is none.
    pub rested: Counter,
    /// Events that were closed without this source, for whatever cause.
    pub events_without: Counter,
    /// Events that were closed since its last message, when nothing of it was left.
    pub unheard: Counter,
    /// Its silences that ended: how many, how long together, in ns, and how many events were closed meanwhile.
    pub ended: [Counter; 3],
    /// Sub-events that never came for events that were built or discarded without this source: an inference, since a sender that keeps
    /// no books may have sent nothing. What came and was dropped is not among them.
    pub missing: Counter,
    /// Sub-events without a true number that were dropped since the source was last in an event, and stand for none yet.
    pub astray: Counter,
    /// Sub-events that the receiver dropped since then, and that stand for none yet.
    pub dropped: Counter,
    /// The range of missing trigger numbers that is still growing: first, items, cause + 1, bytes.
    pub open: [Counter; 4],
}

/// Handles of the builder's group.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// The group.
    pub group: GroupId,
    /// One entry per source.
    pub sources: Vec<SourceWords>,
    /// Events closed, built, discarded.
    pub events: Account<EventDrop>,
    /// The events account's number in the schema, for links.
    pub events_id: AccountId,
    /// Complete events built.
    pub complete: Counter,
    /// Incomplete events built and flagged.
    pub partial: Counter,
    /// Events given up.
    pub discarded: Counter,
    /// How often all sources were found to have started anew.
    pub resynchronised: Counter,
    /// Triggers from the first one seen to the last one, those between them that nobody delivered included.
    pub triggers_span: Counter,
    /// Those of them that no source delivered: an inference.
    pub triggers_missing: Counter,
    /// Those of them that are in no event, and of which a sub-event came that the receiver dropped by its name.
    pub triggers_dropped: Counter,
    /// Those of them of which the first sub-event came when its turn was over.
    pub triggers_late: Counter,
    /// Number of the last event of the numbering at hand, plus one; 0 before the first.
    pub last_seen: Counter,
    /// Ranges of triggers that no source delivered before their turn.
    pub gaps: LossTableId,
    /// Events that were not waited for any longer although a source that was not given up was absent, by the reason.
    pub waits_ended: PerReason<Hurry, Counter, { Hurry::COUNT }>,
    /// Next trigger number expected, plus one; 0 before the first event.
    pub next: Counter,
    /// Sequence number of the last event.
    pub sequence: Counter,
    /// Lost ranges.
    pub losses: LossTableId,
}

/// Rows of the builder's loss table; further ranges are counted in one overflow row.
pub const LOSS_ROWS: u32 = 4096;

/// Rows of the table of triggers that no source delivered; further ranges are counted in one overflow row.
pub const GAP_ROWS: u32 = 1024;

/// Declares the builder's group in the run's schema.
pub fn declare(schema: &mut SchemaBuilder, owners: &[String]) -> Accounts {
    let causes: Vec<_> = Cause::all()
        .map(|cause| ("builder", cause.name()))
        .collect();
    let group = schema.group("builder");
    let sources = owners
        .iter()
        .map(|owner| declare_source(schema, group, owner))
        .collect();
    let (events_id, events) = schema.account(group, "events", "builder", Unit::Events);
    Accounts {
        group,
        sources,
        events,
        events_id,
        complete: schema.counter(group, "events_complete", "", "complete events built"),
        partial: schema.counter(
            group,
            "events_partial",
            "",
            "incomplete events built and flagged",
        ),
        discarded: schema.counter(group, "events_discarded", "", "incomplete events given up"),
        resynchronised: schema.counter(
            group,
            "resynchronised",
            "",
            "restarts of all sources found",
        ),
        triggers_span: schema.counter(
            group,
            "triggers_span",
            "",
            "triggers from the first one seen to the last one",
        ),
        triggers_missing: schema.gauge(
            group,
            "triggers_missing",
            "",
            "triggers between them that no source delivered (inferred)",
        ),
        triggers_dropped: schema.gauge(
            group,
            "triggers_dropped",
            "",
            "triggers between them of which all that came was dropped by the receiver",
        ),
        triggers_late: schema.counter(
            group,
            "triggers_late",
            "",
            "triggers between them that came after their turn only",
        ),
        last_seen: schema.cursor(group, "last_trigger_seen"),
        waits_ended: PerReason::from_fn(|reason: Hurry| {
            let name = format!("waits_ended_{}", reason.name());
            let help = "events that were not waited for any longer, by why";
            schema.counter(group, &name, "", help)
        }),
        next: schema.cursor(group, "next_trigger"),
        sequence: schema.cursor(group, "sequence"),
        losses: schema.loss_table(group, LOSS_ROWS, &causes),
        gaps: schema.loss_table(group, GAP_ROWS, &[("triggers", "seen_by_no_source")]),
    }
}

fn declare_source(schema: &mut SchemaBuilder, group: GroupId, owner: &str) -> SourceWords {
    let (id, account) = schema.account(group, "builder", owner, Unit::SubEvents);
    let taken = schema.cursor_tally(group, &format!("{owner}.taken"));
    let odd_decoding = schema.counter(
        group,
        "odd_decoding",
        owner,
        "sub-events in events with a decoding word that no reader can follow",
    );
    let help = "Unix time of the last message of a source (the owner); 0 before the first";
    let last_seen = schema.gauge(group, "source_last_seen_ns", owner, help);
    let help = "events that were built or given up without this source";
    let events_without = schema.counter(group, "events_without", owner, help);
    let mut cursor = |name: &str| schema.cursor(group, &format!("{owner}.{name}"));
    SourceWords {
        account,
        id,
        taken,
        odd_decoding,
        released: cursor("released_bytes"),
        pulled: cursor("pulled_bytes"),
        messages: cursor("messages"),
        offset: cursor("offset_bytes"),
        left: cursor("left_subevents"),
        last: cursor("last_trigger"),
        silent: cursor("silent"),
        last_seen,
        heard: cursor("heard_ns"),
        paused: cursor("paused_bytes"),
        rested: cursor("rested_bytes"),
        events_without,
        unheard: cursor("unheard_events"),
        ended: [
            cursor("silences_ended"),
            cursor("silences_ended_ns"),
            cursor("silences_ended_events"),
        ],
        missing: cursor("missing_events"),
        astray: cursor("astray_subevents"),
        dropped: cursor("dropped_subevents"),
        open: [
            cursor("open_first"),
            cursor("open_items"),
            cursor("open_cause"),
            cursor("open_bytes"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that others read: of drops as the page of accounts has them, of losses and of ended waits as the ledger's pages show them.
    #[test]
    fn reasons_have_the_names_that_are_published() {
        let page = forebay_testing::root().join("docs/ACCOUNTS.md");
        let page = std::fs::read_to_string(page).unwrap();
        let names: Vec<_> = SubEventDrop::ALL.iter().map(|why| why.name()).collect();
        let names = names.join(", ");
        assert!(page.contains(&format!("| dropped {names} |")), "{names}");
        let causes = [
            "timeout",
            "skipped_trigger",
            "source_closed",
            "tag_mismatch",
            "out_of_window",
            "dropped_by_receiver",
        ];
        assert!(Cause::all().map(Cause::name).eq(causes));
        let waits = ["time", "events", "full_queue"];
        assert!(Hurry::all().map(Hurry::name).eq(waits));
    }
}
