//! The ledger of a probe.
//!
//! ```text
//! capture ─▶ packets (decoder, table) ─▶ records ─▶ export (one account for each exporter)
//! ```
//!
//! `packets`: the reader counts what the capture had, the decoder what it refuses, and the receiver of the records what is in them; what is held is added up over the flows in the
//! table at the end, and by what came and went before. Octets of a packet are what the decoder reads of it: that it reads them rightly is a matter of its tests. `export`, in flows with their octets: each exporter counts what came, what it has written, and what it could not write.

use std::path::Path;

use forebay_flow::{Decoder, PacketDrop, Table, Volume};
use forebay_ledger::{
    Account, Book, Counter, GroupId, GroupWriter, Schema, SchemaBuilder, Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::Envelope;
use forebay_run::run_dir::{KeptLedger, RunEnd};

use crate::export::{Amount, Exporter};
use crate::summary::{ProbeRecord, ProbeSummary};

reasons! {
    /// Why a record is not exported.
    pub(crate) enum ExportDrop {
        /// It could not be written.
        NotWritten = "not_written",
    }
}

/// What has been counted, and where.
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

/// What an exporter is called, by its place.
pub(crate) fn owner(place: usize) -> String {
    format!("exporter{place}")
}

fn declare(run_id: &str, exporters: usize) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("probe");
    let group = schema.group("probe");
    let (taken, packets) = schema.account(group, "packets", "all", Unit::Packets);
    schema.headline(taken);
    let exports = (0..exporters).map(|at| {
        let (id, account) = schema.account(group, "export", &owner(at), Unit::Flows);
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
    /// Makes them for so many exporters, in the run directory `out` or nowhere but here.
    pub(crate) fn open(
        out: Option<&Path>,
        exporters: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let run_id = format!("probe-{}", std::process::id());
        let (schema, words) = declare(&run_id, exporters)?;
        let ledger = KeptLedger::open(&schema, &run_id, out, exporters, tell)?;
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
        self.fill(counts, exporters, counts.table.held_now());
    }

    /// The same at the end, where what is held is counted anew from the flows in the table.
    pub(crate) fn show_end(&mut self, counts: &Counts<'_>, exporters: &[Exporter]) {
        self.fill(counts, exporters, counts.table.held());
    }

    fn fill(&mut self, counts: &Counts<'_>, exporters: &[Exporter], in_table: Volume) {
        let Self { book, words, .. } = self;
        let Counts { decoder, table, .. } = counts;
        let mut volume = |tally: Tally, volume: Volume| {
            book.set(tally.items, volume.packets);
            book.set(tally.bytes, volume.octets);
        };
        volume(words.packets.incoming, counts.seen);
        volume(words.packets.outgoing, counts.formed);
        volume(words.packets.held, in_table);
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
        book.set(words.live, table.flows_now());
        self.group.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// Closes them, and leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn close(
        mut self,
        end: RunEnd,
        summary: impl FnOnce(&Envelope) -> ProbeSummary,
    ) -> Result<ProbeRecord, RunError> {
        self.ledger.conclude(end, summary)
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::{Config, DecodeConfig, EndReason, FlowKey, FlowRecord, Frame, LinkType};
    use forebay_run::Stop;

    use super::*;
    use crate::config::ProbeSettings;
    use crate::export::Export;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("probe-1", 1).unwrap();
        forebay_testing::accounts::assert_section("probe", &[schema.outline()]);
    }

    /// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
    const DATAGRAM: [u8; 30] = [
        0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3,
        0x51, 0, 10, 0, 0, b'h', b'i',
    ];

    #[test]
    fn each_count_is_in_its_own_term() {
        let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
        let mut table = Table::new(&Config::default()).unwrap();
        let frame = |time_ns, link, bytes| Frame {
            time_ns,
            link,
            bytes,
            wire_bytes: 40,
        };
        // Two packets that are held, the second one earlier; a later fragment; and three that are refused.
        let mut later = DATAGRAM;
        later[7] = 1;
        for (time_ns, bytes) in [(9, &DATAGRAM), (8, &DATAGRAM), (9, &later)] {
            let packet = decoder.handle_frame(&frame(time_ns, Some(LinkType::RawIp), bytes));
            table.handle_packet(&packet.unwrap(), &mut |_| {});
        }
        for (link, bytes) in [
            (Some(LinkType::RawIp), &[0x50; 40][..]),
            (Some(LinkType::RawIp), &DATAGRAM[..9]),
            (None, &DATAGRAM),
        ] {
            decoder.handle_frame(&frame(9, link, bytes)).unwrap_err();
        }
        let record = FlowRecord {
            key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
            packets: 3,
            octets: 300,
            packets_rev: 4,
            octets_rev: 44,
            start_ns: 1,
            end_ns: 2,
            tcp_flags: 0,
            tcp_flags_rev: 0,
            end_reason: EndReason::Idle,
        };
        let stop = Stop::of_library().unwrap();
        let settings = ProbeSettings::default();
        let mut exporters: Vec<_> = (0..2)
            .map(|_| Exporter::begin(&Export::None, &settings, &stop).unwrap())
            .collect();
        for (exporter, written) in exporters.iter_mut().zip([1, 3]) {
            (0..written).for_each(|_| exporter.export(&record));
            exporter.write();
            exporter.export(&record);
        }
        let counts = Counts {
            seen: Volume {
                packets: 11,
                octets: 1100,
            },
            formed: Volume {
                packets: 5,
                octets: 50,
            },
            decoder: &decoder,
            table: &table,
        };
        let mut books = Books::open(None, exporters.len(), &mut |_| {}).unwrap();
        for at_end in [false, true] {
            if at_end {
                books.show_end(&counts, &exporters);
            } else {
                books.show(&counts, &exporters);
            }
            let shown = books.ledger.reader().unwrap().snapshot().unwrap();
            let words = &books.words;
            let packets = &words.packets;
            assert_eq!(shown.tally(packets.incoming), (11, 1100));
            assert_eq!(shown.tally(packets.outgoing), (5, 50));
            assert_eq!(shown.tally(packets.held), (3, 90));
            for (why, octets) in [
                (PacketDrop::NotIp, 40),
                (PacketDrop::Truncated, 40),
                (PacketDrop::LinkType, 40),
            ] {
                assert_eq!(shown.tally(packets.lost(why)), (1, octets), "{why:?}");
            }
            assert_eq!(shown.tally(packets.lost(PacketDrop::Malformed)), (0, 0));
            for (account, written) in words.exports.iter().zip([1, 3]) {
                let all = written + 1;
                assert_eq!(shown.tally(account.incoming), (all, 344 * all));
                assert_eq!(shown.tally(account.outgoing), (written, 344 * written));
                assert_eq!(shown.tally(account.held), (1, 344));
                let unwritten = account.lost(ExportDrop::NotWritten);
                assert_eq!(shown.tally(unwritten), (0, 0));
            }
            let metrics = words.metrics.map(|counter| shown.value(counter));
            assert_eq!((metrics, shown.value(words.live)), ([0, 1, 1], 2));
        }
    }
}
