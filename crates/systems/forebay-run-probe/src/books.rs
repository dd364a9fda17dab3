//! The ledger of a probe.
//!
//! ```text
//! ring ─▶ packets (decoder, table) ─▶ records ─▶ queue ─▶ fan_out ─▶ export (one account for each exporter)
//! ```
//!
//! `ring`, of an interface: the kernel counts what came for a ring and what found no room, the reader what it handed to the decoder, and the heads of the blocks what is held; of AF_XDP the program that steers frames counts what came, and the kernel's socket what found no room. Its items are packets alone: the kernel counts no octets.
//! `below`: where flows are counted below user space, frames that came to the table there and what became of them (those that a table at the sockets let go on by the kernel's count of each socket); `offload`: what the table has counted, and what came out of it, with flows that were taken back or of those that stay (`--offload-limit`). What is held is counted anew from
//! the flows in it at the end, and before by what it has given out itself.
//! `packets`: the reader counts what the input had, with what it got from below, the decoder what it refuses, the reader what it did not hand on since the filter said so (`filtered`), and the receiver of the records what is in them; what is held is added up over the flows in the
//! table at the end, and by what came and went before. Octets of a packet are what the decoder reads of it: that it reads them rightly is a matter of its tests. `filter`, where there are rules: what they discarded by the count of each of them, held against what was not handed on. `records`, in flows with their octets as all that follows: what the table
//! gave, what was handed over, and what found no room. The link `queue` is what lies in a lane, by the lane's own count at both of its ends; the account `queue` what the exporting thread took out and gave to the exporters, and
//! the link `fan_out` holds each exporter against it. `tap`, `packet_queue`, `packet_file`, where packets themselves are exported: what was to be exported with the bytes of it, what is in the lane, and what was written. `export`: each exporter counts what came, what it has written, what waits, and what it could not write or had no room for.

mod below;
mod packet_file;

use std::path::Path;

use forebay_flow::{PacketDrop, Volume};
use forebay_ledger::{
    Account, AccountId, Book, Counter, GroupId, GroupWriter, LinkSpec, Lossless, OneOf, Schema,
    SchemaBuilder, Tally, Unit, reasons,
};
use forebay_run::error::RunError;
use forebay_run::record::Envelope;
use forebay_run::run_dir::{KeptLedger, RunEnd};

use self::below::{BelowBook, BelowWords};
pub(crate) use self::packet_file::PacketBook;
use self::packet_file::PacketWords;
use crate::config::OffloadChoice;
use crate::export::Amount;
use crate::exporter::{Exporters, Passed};
use crate::flows::Flows;
use crate::live::RingCounts;
use crate::offload::Seen;
use crate::packets::Bulk;
use crate::queue::Queue;
use crate::summary::{ProbeRecord, ProbeSummary};

reasons! {
    /// Why a packet of an interface is not read.
    pub(crate) enum RingDrop {
        /// The kernel found no room for it.
        KernelRingFull = "kernel_ring_full",
        /// The kernel found no buffer for it, or none that is long enough (AF_XDP).
        KernelNoBuffer = "kernel_no_buffer",
        /// Its block, or its place in the ring, contradicted itself.
        BrokenBlock = "broken_block",
    }
}

reasons! {
    /// Why a packet that can be read is in no record.
    pub(crate) enum FilterDrop {
        /// A rule of the filter says so.
        Filtered = "filtered",
    }
}

reasons! {
    /// Why a packet is not handed over to the file of packets.
    pub(crate) enum TapDrop {
        /// There was no room for it, and nothing may hold the input back.
        QueueFull = "queue_full",
    }
}

reasons! {
    /// Why a record is not handed over.
    pub(crate) enum RecordDrop {
        /// There was no room for it, and nothing may hold the input back.
        QueueFull = "queue_full",
    }
}

reasons! {
    /// Why a record is not exported.
    pub(crate) enum ExportDrop {
        /// It could not be written.
        NotWritten = "not_written",
        /// There was no room for it while the collector was away.
        QueueFull = "queue_full",
    }
}

/// Why a packet is in no record.
type NoRecord = OneOf<PacketDrop, FilterDrop>;

/// What a probe has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    /// It reads an interface.
    pub(crate) is_live: bool,
    /// It has rules for packets.
    pub(crate) has_filter: bool,
    /// It has a file for packets.
    pub(crate) has_packet_file: bool,
    /// Threads that capture.
    pub(crate) lanes: usize,
    /// What counts flows below user space.
    pub(crate) offload: OffloadChoice,
    pub(crate) exporters: usize,
}

impl Declared {
    /// What each table below user space is called.
    fn below_names(self) -> Vec<String> {
        match self.offload {
            OffloadChoice::Off => Vec::new(),
            OffloadChoice::Xdp | OffloadChoice::Filter => vec!["kernel".into()],
            OffloadChoice::Software => (0..self.lanes)
                .map(|lane| self.lane_names(lane).0)
                .collect(),
        }
    }

    /// What a thread that captures is called in accounts and metrics.
    fn lane_names(self, lane: usize) -> (String, String) {
        match self.is_live {
            true => (format!("queue{lane}"), format!("queue{lane}")),
            false => ("all".into(), String::new()),
        }
    }
}

/// What an exporter is called, by its place.
pub(crate) fn exporter_name(place: usize) -> String {
    format!("exporter{place}")
}

/// The words of a thread that captures.
struct LaneWords {
    group: GroupId,
    ring: Option<RingWords>,
    packets: Account<NoRecord>,
    filter: Option<Account<Lossless>>,
    tap: Option<TapWords>,
    records: Account<RecordDrop>,
    records_id: AccountId,
    /// What was put into its lane.
    put: Tally,
    /// In the order of [`METRICS`].
    metrics: [Counter; METRICS.len()],
    live: Counter,
}

/// What is exported of packets themselves, with what was put into the lane.
struct TapWords {
    id: AccountId,
    account: Account<TapDrop>,
    put: Tally,
}

struct RingWords {
    account: Account<RingDrop>,
    freezes: Counter,
    downs: Counter,
    passed: Counter,
}

/// The words of the thread that exports.
struct ExportWords {
    group: GroupId,
    /// Of each lane: the account, and what was taken out.
    lanes: Vec<(Account<Lossless>, Tally)>,
    exports: Vec<Account<ExportDrop>>,
}

const METRICS: [(&str, &str); 6] = [
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
    (
        "times_disbelieved",
        "Packets with a time so far ahead that the clock did not follow, as no other had it",
    ),
    (
        "plugins_no_room",
        "Flows that a plugin gave up as all its buffers were in use",
    ),
    (
        "flows_lost_below",
        "Flows that the table below user space did not give back: what it had counted of them is in no record",
    ),
];

/// What a probe's ledger has.
struct Words {
    lanes: Vec<LaneWords>,
    export: ExportWords,
    below: Option<BelowWords>,
    packets: Option<PacketWords>,
}

fn declare(run_id: &str, declared: Declared) -> Result<(Schema, Words), RunError> {
    let mut schema = SchemaBuilder::new(run_id);
    schema.program("probe");
    let lanes = (0..declared.lanes).map(|lane| declare_lane(&mut schema, declared, lane));
    let lanes: Vec<_> = lanes.collect();
    let export = declare_export(&mut schema, declared, &lanes);
    let below = below::declare(&mut schema, declared);
    let packets = declared
        .has_packet_file
        .then(|| packet_file::declare(&mut schema, declared, &lanes));
    let words = Words {
        lanes,
        export,
        below,
        packets,
    };
    Ok((schema.finish()?, words))
}

fn declare_lane(schema: &mut SchemaBuilder, declared: Declared, lane: usize) -> LaneWords {
    let (owner, of) = declared.lane_names(lane);
    let group = schema.group(&format!("capture-{owner}"));
    let ring = declared.is_live.then(|| RingWords {
        account: schema.account(group, "ring", &owner, Unit::Packets).1,
        freezes: schema.counter(group, "ring_freezes", &of, "How often a ring was full"),
        downs: schema.counter(
            group,
            "interface_downs",
            &of,
            "How often the interface went down",
        ),
        passed: schema.counter(
            group,
            "frames_passed_on",
            &of,
            "Frames of queues of the interface that no thread reads (AF_XDP)",
        ),
    });
    let (taken, packets) = schema.account(group, "packets", &owner, Unit::Packets);
    schema.headline(taken);
    let filter =
        (declared.has_filter).then(|| schema.account(group, "filter", &owner, Unit::Packets).1);
    let (records_id, records) = schema.account(group, "records", &owner, Unit::Flows);
    let tap = declared.has_packet_file.then(|| {
        let (id, account) = schema.account(group, "tap", &owner, Unit::Packets);
        let put = schema.cursor_tally(group, &format!("tapped_{owner}"));
        TapWords { id, account, put }
    });
    LaneWords {
        group,
        ring,
        packets,
        filter,
        tap,
        records,
        records_id,
        put: schema.cursor_tally(group, &format!("put_{owner}")),
        metrics: METRICS.map(|(name, help)| schema.counter(group, name, &of, help)),
        live: schema.gauge(group, "flows_live", &of, "Flows in the table"),
    }
}

fn declare_export(
    schema: &mut SchemaBuilder,
    declared: Declared,
    lanes: &[LaneWords],
) -> ExportWords {
    let group = schema.group("export");
    let (mut ids, mut words) = (Vec::new(), Vec::new());
    for (lane, from) in lanes.iter().enumerate() {
        let (owner, _) = declared.lane_names(lane);
        let (id, account) = schema.account(group, "queue", &owner, Unit::Flows);
        let taken = schema.cursor_tally(group, &format!("taken_{owner}"));
        let link = LinkSpec::new("queue", &owner).from(from.records_id).to(id);
        schema.link(link.in_flight(from.put, taken));
        ids.push(id);
        words.push((account, taken));
    }
    let exports = (0..declared.exporters).map(|at| {
        let name = exporter_name(at);
        let (id, account) = schema.account(group, "export", &name, Unit::Flows);
        schema.headline(id);
        let link = LinkSpec::new("fan_out", &name).to(id);
        schema.link(ids.iter().fold(link, |link, from| link.from(*from)));
        account
    });
    ExportWords {
        group,
        exports: exports.collect(),
        lanes: words,
    }
}

/// The ledger, of which each thread writes its own part.
pub(crate) struct Books {
    ledger: KeptLedger,
    below: Option<BelowBook>,
}

impl Books {
    /// Makes them in the run directory `out` or nowhere but here, with a part for each thread that captures and one for that which exports.
    pub(crate) fn open(
        out: Option<&Path>,
        declared: Declared,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(Self, Vec<CaptureBook>, ExportBook, Option<PacketBook>), RunError> {
        let run_id = format!("probe-{}", std::process::id());
        let (schema, words) = declare(&run_id, declared)?;
        let Words {
            lanes,
            export,
            below,
            packets,
        } = words;
        let ledger = KeptLedger::open(&schema, &run_id, out, declared.exporters, tell)?;
        let part = |group| Part::attach(&schema, &ledger, group);
        let lanes = lanes.into_iter().map(|words| {
            let part = part(words.group)?;
            Ok::<_, RunError>(CaptureBook { part, words })
        });
        let lanes = lanes.collect::<Result<_, _>>()?;
        let export = ExportBook {
            part: part(export.group)?,
            words: export,
        };
        let below = below.map(|words| {
            let part = part(words.group)?;
            Ok::<_, RunError>(BelowBook { part, words })
        });
        let below = below.transpose()?;
        let packets = packets.map(|words| {
            let part = part(words.group)?;
            Ok::<_, RunError>(PacketBook { part, words })
        });
        let packets = packets.transpose()?;
        Ok((Self { ledger, below }, lanes, export, packets))
    }

    /// Fills in what is known of the tables below user space, and shows it.
    pub(crate) fn show_below(&mut self, seen: &[Seen]) {
        if let Some(book) = &mut self.below {
            book.show(seen);
        }
    }

    /// A sign of life.
    pub(crate) fn heartbeat(&self) {
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

/// What one thread writes.
struct Part {
    group: GroupWriter,
    book: Book,
}

impl Part {
    fn attach(schema: &Schema, ledger: &KeptLedger, group: GroupId) -> Result<Self, RunError> {
        let group = GroupWriter::attach(schema, ledger.words(), group)?;
        Ok(Self {
            book: group.restore(),
            group,
        })
    }

    fn volume(&mut self, tally: Tally, volume: Volume) {
        self.book.set(tally.items, volume.packets);
        self.book.set(tally.bytes, volume.octets);
    }

    fn bulk(&mut self, tally: Tally, bulk: Bulk) {
        self.book.set(tally.items, bulk.packets);
        self.book.set(tally.bytes, bulk.bytes);
    }

    fn flows(&mut self, tally: Tally, amount: Amount) {
        self.book.set(tally.items, amount.flows);
        self.book.set(tally.bytes, amount.volume.octets);
    }

    fn commit(&mut self) {
        self.group.commit(&self.book);
    }
}

/// The part of a thread that captures.
pub(crate) struct CaptureBook {
    part: Part,
    words: LaneWords,
}

impl CaptureBook {
    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, flows: &Flows<'_>, ring: Option<&RingCounts>) {
        self.fill(flows, ring, flows.table.held_now());
    }

    /// The same at the end, where what is held is counted anew from the flows in the table.
    pub(crate) fn show_end(&mut self, flows: &Flows<'_>, ring: Option<&RingCounts>) {
        self.fill(flows, ring, flows.table.held());
    }

    fn fill(&mut self, flows: &Flows<'_>, ring: Option<&RingCounts>, in_table: Volume) {
        let Self { part, words } = self;
        if let (Some(words), Some(ring)) = (&words.ring, ring) {
            fill_ring(&mut part.book, words, ring, flows.read);
        }
        let Flows {
            decoder,
            table,
            outlet,
            ..
        } = flows;
        part.volume(words.packets.incoming, flows.seen + flows.taken_below());
        part.volume(words.packets.outgoing, flows.formed.volume);
        part.volume(words.packets.held, in_table);
        for (why, refused) in decoder.refused().iter() {
            part.volume(words.packets.lost(OneOf::First(why)), refused);
        }
        let filtered = OneOf::Second(FilterDrop::Filtered);
        part.volume(words.packets.lost(filtered), flows.filtered);
        if let Some(words) = &words.filter {
            part.volume(words.incoming, flows.filter.discarded());
            part.volume(words.outgoing, flows.filtered);
        }
        if let (Some(words), Some(tap)) = (&words.tap, &flows.tap) {
            part.bulk(words.account.incoming, tap.came);
            part.bulk(words.account.outgoing, tap.given);
            part.bulk(words.account.held, tap.held());
            part.bulk(words.account.lost(TapDrop::QueueFull), tap.full);
            part.volume(words.put, tap.put());
        }
        part.flows(words.records.incoming, flows.formed);
        part.flows(words.records.outgoing, outlet.given);
        part.flows(words.records.held, outlet.held());
        part.flows(words.records.lost(RecordDrop::QueueFull), outlet.full);
        part.flows(words.put, outlet.put());
        let values = [
            decoder.fragments_joined(),
            decoder.fragments_unknown(),
            table.counts().out_of_order,
            table.counts().disbelieved,
            flows.plugins.no_room(),
            table.offload_counts().missing,
        ];
        for (counter, value) in words.metrics.iter().zip(values) {
            part.book.set(*counter, value);
        }
        part.book.set(words.live, table.flows_now());
        part.commit();
    }
}

fn fill_ring(book: &mut Book, words: &RingWords, ring: &RingCounts, read: u64) {
    let account = &words.account;
    book.set(account.incoming.items, ring.kernel.packets);
    book.set(account.outgoing.items, read);
    book.set(account.held.items, ring.held);
    book.set(
        account.lost(RingDrop::KernelRingFull).items,
        ring.kernel.drops,
    );
    book.set(account.lost(RingDrop::KernelNoBuffer).items, ring.no_buffer);
    book.set(account.lost(RingDrop::BrokenBlock).items, ring.broken);
    book.set(words.freezes, ring.kernel.freezes);
    book.set(words.downs, ring.downs);
    book.set(words.passed, ring.passed);
}

/// The part of the thread that exports.
pub(crate) struct ExportBook {
    part: Part,
    words: ExportWords,
}

impl ExportBook {
    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, queue: &Queue, exporters: &Exporters) {
        let Self { part, words } = self;
        let lanes = words.lanes.iter().zip(&exporters.lanes).enumerate();
        for (lane, ((account, taken), Passed { came, went })) in lanes {
            part.flows(account.incoming, *came);
            part.flows(account.outgoing, *went);
            part.flows(*taken, queue.taken(lane));
        }
        for (account, exporter) in words.exports.iter().zip(&exporters.all) {
            part.flows(account.incoming, exporter.came);
            part.flows(account.outgoing, exporter.written);
            part.flows(account.held, exporter.held());
            let not_written = account.lost(ExportDrop::NotWritten);
            part.flows(not_written, exporter.unwritten);
            part.flows(account.lost(ExportDrop::QueueFull), exporter.full);
        }
        part.commit();
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::DATAGRAM;
