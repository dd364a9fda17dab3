//! The books of a receiver of chunks: what messaging hands over, what comes of each E-link, and what of it goes into the source's queue.

use forebay_ledger::{Account, Counter, GroupId, LinkSpec, SchemaBuilder, Unit, reasons};

use super::{QueueWords, declare_queue, link_ring};
use crate::plan::Plan;

/// Words of all E-links: they commit together.
#[derive(Debug, Clone)]
pub struct ChunkWords {
    /// The group.
    pub group: GroupId,
    /// What messaging has handed over, of all E-links.
    pub arrival: Account<ArrivalDrop>,
    /// The sources, in the plan's order.
    pub sources: Vec<QueueWords<ChunkDrop>>,
    /// Chunks that came with something wrong with them; they are built all the same, and say so.
    pub flagged: Vec<Counter>,
    /// The newest trigger number, before its bits are cut: where a receiver that is started again goes on.
    pub newest: Counter,
}

reasons! {
    /// Why a chunk becomes no sub-event.
    pub enum ChunkDrop {
        /// It ends before its trigger number does.
        NoL1id = "no_l1id",
        /// It is longer than the longest message.
        TooLong = "too_long",
        /// The source's queue was full: by the policy, or as it stayed so after the order to end.
        QueueFull = "queue_full",
        /// A receiver that was killed had it in hand.
        Crash = "receiver_crash",
    }
}

reasons! {
    /// Why a chunk is sent on to no source.
    pub enum ArrivalDrop {
        /// No source has its tag: a publisher sends what was not subscribed to.
        UnknownElink = "unknown_elink",
    }
}

pub(super) fn declare(
    schema: &mut SchemaBuilder,
    plan: &Plan,
    builder: &forebay_evb::Accounts,
) -> ChunkWords {
    let group = schema.group("receiver.elinks");
    let (arrived, arrival) = schema.account(group, "arrival", "all", Unit::Chunks);
    let mut elink = LinkSpec::new("elink", "all").from(arrived);
    let mut sources = Vec::new();
    let mut flagged = Vec::new();
    for (index, source) in plan.sources.iter().enumerate() {
        let owner = &source.name;
        let words = declare_queue(schema, group, owner, Unit::Chunks);
        link_ring(schema, plan, index, &words, builder);
        // Publishers keep books of their own: here, gaps in the trigger numbers tell of loss before.
        elink = elink.to(words.receiver_id);
        let link = LinkSpec::new("elink", owner).to(words.receiver_id);
        schema.link(link.inferred_lost(builder.sources[index].missing, Unit::SubEvents));
        let says = "Chunks that came with a bit of their status set";
        flagged.push(schema.counter(group, "chunks_flagged", owner, says));
        sources.push(words);
    }
    schema.link(elink);
    ChunkWords {
        group,
        arrival,
        sources,
        flagged,
        newest: schema.cursor(group, "newest_l1id"),
    }
}
