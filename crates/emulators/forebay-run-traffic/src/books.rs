//! The ledger of emulated traffic: the engine counts the packets that it makes, the capture those that are in its buffer, written, or could not be written.

use std::path::Path;

use forebay_ledger::{
    Account, Book, GroupId, GroupWriter, Schema, SchemaBuilder, Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::run_dir::{KeptLedger, RunEnd};
use forebay_traffic::Totals;

use crate::TrafficSummary;
use crate::capture::{Amount, Capture};

reasons! {
    /// Why a packet is not in the capture.
    pub(crate) enum CaptureDrop {
        /// It could not be written.
        NotWritten = "not_written",
    }
}

struct Words {
    group: GroupId,
    packets: Account<CaptureDrop>,
}

fn declare(run_id: &str) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("emulate-traffic");
    let group = schema.group("traffic");
    let (id, packets) = schema.account(group, "traffic", "all", Unit::Packets);
    schema.headline(id);
    Ok((schema.finish()?, Words { group, packets }))
}

pub(crate) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    words: Words,
}

impl Books {
    /// Makes them, in the run directory `out` or nowhere but here.
    pub(crate) fn open(out: Option<&Path>, tell: &mut dyn FnMut(&str)) -> Result<Self, RunError> {
        let run_id = format!("emulate-traffic-{}", std::process::id());
        let (schema, words) = declare(&run_id)?;
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
    pub(crate) fn show(&mut self, made: &Totals, capture: &Capture) {
        let Self { book, words, .. } = self;
        let mut set = |tally: Tally, amount: Amount| {
            book.set(tally.items, amount.packets);
            book.set(tally.bytes, amount.octets);
        };
        let made = Amount {
            packets: made.packets,
            octets: made.octets,
        };
        set(words.packets.incoming, made);
        set(words.packets.outgoing, capture.written);
        set(words.packets.held, capture.buffered);
        let unwritten = words.packets.lost(CaptureDrop::NotWritten);
        set(unwritten, capture.unwritten);
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
    use crate::TrafficPlan;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("emulate-traffic-1").unwrap();
        forebay_testing::accounts::assert_section("emulate-traffic", &[schema.outline()]);
    }

    #[test]
    fn each_count_is_in_its_own_term() {
        let folder = tempfile::tempdir().unwrap();
        let plan = TrafficPlan {
            profile: crate::Source::File("none".into()),
            capture: folder.path().join("it.pcap"),
            truth: None,
            snap_bytes: None,
            seed: 1,
            small_packets: false,
            trains: None,
            start_s: 0,
            out: None,
        };
        let amount = |packets, octets| Amount { packets, octets };
        let mut capture = Capture::create(&plan).unwrap();
        capture.written = amount(1, 10);
        capture.buffered = amount(2, 20);
        capture.unwritten = amount(3, 30);
        let made = Totals {
            packets: 9,
            octets: 90,
            ..Totals::default()
        };
        let mut books = Books::open(None, &mut |_| {}).unwrap();
        books.show(&made, &capture);
        let shown = books.ledger.reader().unwrap().snapshot().unwrap();
        let packets = &books.words.packets;
        let unwritten = packets.lost(CaptureDrop::NotWritten);
        for (tally, told) in [
            (packets.incoming, (9, 90)),
            (packets.outgoing, (1, 10)),
            (packets.held, (2, 20)),
            (unwritten, (3, 30)),
        ] {
            assert_eq!(shown.tally(tally), told);
        }
    }
}
