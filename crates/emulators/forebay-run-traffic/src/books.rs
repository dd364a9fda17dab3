//! The ledger of emulated traffic: the engine counts the packets that it makes; the capture those that are in its buffer, written, or could not be written; the
//! interface those that wait, that the kernel took, and that it refused.

use std::path::Path;

use forebay_ledger::{
    Account, Book, DropReason, GroupId, GroupWriter, Schema, SchemaBuilder, Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::{KeptLedger, RunEnd};
use forebay_traffic::Totals;

use crate::TrafficSummary;
use crate::capture::Amount;
use crate::wire::WireDrop;

reasons! {
    /// Why a packet is not in the capture.
    pub(crate) enum CaptureDrop {
        /// It could not be written.
        NotWritten = "not_written",
    }
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture,
    Interface,
}

struct Words {
    group: GroupId,
    incoming: Tally,
    outgoing: Tally,
    held: Tally,
    /// By the reasons of what packets go to.
    dropped: Vec<Tally>,
}

impl Words {
    fn of<R: DropReason>(group: GroupId, packets: &Account<R>) -> Self {
        Self {
            group,
            incoming: packets.incoming,
            outgoing: packets.outgoing,
            held: packets.held,
            dropped: R::all().map(|reason| packets.lost(reason)).collect(),
        }
    }
}

fn declare(run_id: &str, kind: Kind) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("emulate-traffic");
    let group = schema.group("traffic");
    let words = match kind {
        Kind::Capture => {
            let (id, packets) =
                schema.account::<CaptureDrop>(group, "traffic", "all", Unit::Packets);
            schema.headline(id);
            Words::of(group, &packets)
        }
        Kind::Interface => {
            let (id, packets) =
                schema.account::<WireDrop>(group, "interface", "all", Unit::Packets);
            schema.headline(id);
            Words::of(group, &packets)
        }
    };
    Ok((schema.finish()?, words))
}

/// What became of the packets that were made.
pub(crate) struct Became<'a> {
    pub(crate) out: Amount,
    pub(crate) held: Amount,
    /// By the reasons of what they go to.
    pub(crate) dropped: &'a [Amount],
}

pub(crate) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    words: Words,
}

impl Books {
    /// Makes them, in the run directory `out` or nowhere but here.
    pub(crate) fn open(
        kind: Kind,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("emulate-traffic-{}", std::process::id());
        let (schema, words) = declare(&run_id, kind)?;
        let ledger = KeptLedger::open(&schema, &run_id, out, 0, tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), words.group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            words,
        })
    }

    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, made: &Totals, became: &Became<'_>) {
        let Self { book, words, .. } = self;
        let mut set = |tally: Tally, amount: Amount| {
            book.set(tally.items, amount.packets);
            book.set(tally.bytes, amount.octets);
        };
        let made = Amount {
            packets: made.packets,
            octets: made.octets,
        };
        set(words.incoming, made);
        set(words.outgoing, became.out);
        set(words.held, became.held);
        for (tally, amount) in words.dropped.iter().zip(became.dropped) {
            set(*tally, *amount);
        }
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close(
        mut self,
        end: RunEnd,
        summary: impl FnOnce(&Envelope) -> TrafficSummary,
    ) -> Result<Record<TrafficSummary>, RunError> {
        self.ledger.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let outlines = [Kind::Capture, Kind::Interface]
            .map(|kind| declare("emulate-traffic-1", kind).unwrap().0.outline());
        forebay_testing::accounts::assert_section("emulate-traffic", &outlines);
    }

    #[test]
    fn each_count_is_in_its_own_term() {
        let amount = |packets| Amount {
            packets,
            octets: packets * 10,
        };
        for (kind, reasons) in [
            (Kind::Capture, CaptureDrop::ALL.len()),
            (Kind::Interface, WireDrop::ALL.len()),
        ] {
            let dropped: Vec<Amount> = (0..reasons as u64).map(|at| amount(3 + at)).collect();
            let became = Became {
                out: amount(1),
                held: amount(2),
                dropped: &dropped,
            };
            let made = Totals {
                packets: 99,
                octets: 990,
                ..Totals::default()
            };
            let mut books = Books::open(kind, None, &mut |_| {}).unwrap();
            books.show(&made, &became);
            let shown = books.ledger.reader().unwrap().snapshot().unwrap();
            let words = &books.words;
            let dropped = words.dropped.iter().zip(3..);
            let terms = [
                (&words.incoming, 99),
                (&words.outgoing, 1),
                (&words.held, 2),
            ];
            for (tally, packets) in terms.into_iter().chain(dropped) {
                assert_eq!(shown.tally(*tally), (packets, packets * 10));
            }
            assert_eq!(words.dropped.len(), reasons);
        }
    }
}
