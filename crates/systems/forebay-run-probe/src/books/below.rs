//! The part of a probe's ledger that is about tables below user space.

use forebay_ledger::{Account, Counter, GroupId, Lossless, SchemaBuilder, Unit};
use forebay_xdp::{Reason, Term};

use super::{Declared, Part};
use crate::offload::{self, Seen};

/// The words of the tables below user space.
pub(super) struct BelowWords {
    pub(super) group: GroupId,
    pub(super) tables: Vec<TableWords>,
}

pub(super) struct TableWords {
    pub(super) frames: Account<Lossless>,
    pub(super) offload: Account<Lossless>,
    /// In the order of [`Term::ALL`].
    pub(super) terms: [Counter; Term::ALL.len()],
    pub(super) flows: Counter,
    pub(super) refused: Counter,
    pub(super) elsewhere: Counter,
    pub(super) deferred: Counter,
    /// In the order of [`Reason::ALL`].
    pub(super) exports: [Counter; Reason::ALL.len()],
}

pub(super) fn declare(schema: &mut SchemaBuilder, declared: Declared) -> Option<BelowWords> {
    let names = declared.below_names();
    if names.is_empty() {
        return None;
    }
    let group = schema.group("below");
    let tables = names.iter().map(|owner| TableWords {
        frames: schema.account(group, "below", owner, Unit::Packets).1,
        offload: schema.account(group, "offload", owner, Unit::Packets).1,
        terms: Term::ALL.map(|term| {
            let name = format!("below_{}", term.name());
            schema.counter(group, &name, owner, term.help())
        }),
        flows: schema.counter(
            group,
            "flows_lent",
            owner,
            "Flows that were handed to the table below user space",
        ),
        refused: schema.counter(
            group,
            "flows_not_lent",
            owner,
            "How often the table below user space had no room for a flow",
        ),
        elsewhere: schema.counter(
            group,
            "flows_lent_elsewhere",
            owner,
            "Flows that were not lent as another thread had lent them",
        ),
        deferred: schema.counter(
            group,
            "below_exports_deferred",
            owner,
            "Times that the table below user space found no room to tell of a flow",
        ),
        exports: Reason::ALL.map(|reason| {
            let name = format!("below_exports_{}", reason.name());
            schema.counter(group, &name, owner, reason.help())
        }),
    });
    let tables = tables.collect();
    Some(BelowWords { group, tables })
}

/// The part of the tables below user space.
pub(super) struct BelowBook {
    pub(super) part: Part,
    pub(super) words: BelowWords,
}

impl BelowBook {
    /// Fills in what is known of them, and shows it.
    pub(super) fn show(&mut self, seen: &[Seen]) {
        let Self { part, words } = self;
        for (words, seen) in words.tables.iter().zip(seen) {
            part.book.set(words.frames.incoming.items, seen.frames);
            part.book.set(words.frames.outgoing.items, seen.told());
            part.book.set(words.frames.held.items, seen.on_the_way());
            let counted = offload::volume(seen.counts.of(Term::Counted));
            part.volume(words.offload.incoming, counted);
            part.volume(words.offload.outgoing, seen.taken);
            part.volume(words.offload.held, seen.held());
            for (counter, term) in words.terms.iter().zip(Term::ALL) {
                part.book.set(*counter, seen.counts.of(term).frames);
            }
            part.book.set(words.flows, seen.lent);
            part.book.set(words.refused, seen.refused);
            part.book.set(words.elsewhere, seen.elsewhere);
            part.book.set(words.deferred, seen.counts.exports_deferred);
            for (counter, exports) in words.exports.iter().zip(seen.exports) {
                part.book.set(*counter, exports);
            }
        }
        part.commit();
    }
}
