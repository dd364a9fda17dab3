//! The ledger of a probe.
//!
//! ```text
//! capture ─▶ packets (decoder, table) ─▶ records ─▶ export (one account for each exporter)
//! ```
//!
//! `packets`: the reader counts what the capture had, the decoder what it refuses, and the receiver of the records what is in them; what is held is added up over the flows in the
//! table. `export`, in flows with their octets: each exporter counts what came, what it has written, and what it could not write.

use std::path::Path;

use forebay_flow::{Decoder, PacketDrop, Table, Volume};
use forebay_ledger::{
    Account, Book, Condition, Counter, GroupId, GroupWriter, Reason, Schema, SchemaBuilder, Taint,
    Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run::run_dir::KeptLedger;
use serde::Serialize;

use crate::export::{Amount, Exporter};

reasons! {
    /// Why a record is not exported.
    pub(crate) enum ExportDrop {
        /// It could not be written.
        NotWritten = "not_written",
    }
}

/// What has been counted, by those who count it.
pub(crate) struct Counts<'a> {
    /// Packets that the capture had.
    pub(crate) seen: Volume,
    /// Packets of the records that the table handed on.
    pub(crate) formed: Volume,
    pub(crate) decoder: &'a Decoder,
    pub(crate) table: &'a Table,
}

struct Words {
    group: GroupId,
    packets: Account<PacketDrop>,
    exports: Vec<Account<ExportDrop>>,
    /// In the order of [`METRICS`].
    metrics: [Counter; METRICS.len()],
    live: Counter,
}

const METRICS: [(&str, &str); 3] = [
    (
        "fragments_joined",
        "Fragments that were given the ports of the first one of their packet",
    ),
    (
        "fragments_unknown",
        "Fragments without ports, as the first one of their packet is not known",
    ),
    (
        "out_of_order",
        "Packets with a time before that of one that came earlier",
    ),
];

fn declare<'a>(
    run_id: &str,
    exporters: impl Iterator<Item = &'a str>,
) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("probe");
    let group = schema.group("probe");
    let (taken, packets) = schema.account(group, "packets", "all", Unit::Packets);
    schema.headline(taken);
    let exports = exporters.enumerate().map(|(at, _)| {
        let (id, account) = schema.account(group, "export", &format!("exporter{at}"), Unit::Flows);
        schema.headline(id);
        account
    });
    let exports = exports.collect();
    let metrics = METRICS.map(|(name, help)| schema.counter(group, name, "", help));
    let live = schema.gauge(group, "flows_live", "", "Flows in the table");
    let words = Words {
        group,
        packets,
        exports,
        metrics,
        live,
    };
    Ok((schema.finish()?, words))
}

/// The books, and where they lie.
pub(crate) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    words: Words,
}

impl Books {
    /// Makes them, in the run directory `out` or nowhere but here.
    pub(crate) fn open<'a>(
        out: Option<&Path>,
        exporters: impl Iterator<Item = &'a str>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("probe-{}", std::process::id());
        let (schema, words) = declare(&run_id, exporters)?;
        let ledger = KeptLedger::open(&schema, &run_id, out, words.exports.len(), tell)?;
        let group = GroupWriter::attach(&schema, ledger.words(), words.group)?;
        Ok(Self {
            book: group.restore(),
            group,
            ledger,
            words,
        })
    }

    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, counts: &Counts<'_>, exporters: &[Exporter]) {
        let Self { book, words, .. } = self;
        let Counts { decoder, table, .. } = counts;
        let mut volume = |tally: Tally, volume: Volume| {
            book.set(tally.items, volume.packets);
            book.set(tally.bytes, volume.octets);
        };
        volume(words.packets.incoming, counts.seen);
        volume(words.packets.outgoing, counts.formed);
        volume(words.packets.held, table.held());
        for (why, refused) in decoder.refused().iter() {
            volume(words.packets.lost(why), refused);
        }
        for (account, exporter) in words.exports.iter().zip(exporters) {
            let mut flows = |tally: Tally, amount: Amount| {
                book.set(tally.items, amount.flows);
                book.set(tally.bytes, amount.volume.octets);
            };
            flows(account.incoming, exporter.came);
            flows(account.outgoing, exporter.written);
            flows(account.held, exporter.held());
            flows(account.lost(ExportDrop::NotWritten), exporter.unwritten);
        }
        let values = [
            decoder.fragments_joined(),
            decoder.fragments_unknown(),
            table.counts().out_of_order,
        ];
        for (counter, value) in words.metrics.iter().zip(values) {
            book.set(*counter, value);
        }
        book.set(words.live, table.flows() as u64);
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close<S: Serialize>(
        mut self,
        (condition, reason): (Condition, Reason),
        taints: Vec<Taint>,
        failed: Option<String>,
        summary: impl FnOnce(&forebay_run::record::Envelope) -> S,
    ) -> Result<Record<S>, RunError> {
        let (_, mut envelope) = self.ledger.end(condition, reason, taints)?;
        envelope.failed = failed;
        let summary = summary(&envelope);
        let mut record = Record { envelope, summary };
        self.ledger.keep(&mut record)?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("probe-1", ["none"].into_iter()).unwrap();
        forebay_testing::accounts::assert_section("probe", &[schema.outline()]);
    }
}
