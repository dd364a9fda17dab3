//! A probe from its first packet to its last record.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::path::PathBuf;

use forebay_flow::{Decoder, FlowRecord, Packet, Table, Volume};
use forebay_ledger::{Condition, Leak, Reason, Taint, TaintKind};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, Stop, System};
use forebay_sys::clock;

use crate::books::{Books, Counts};
use crate::config::ProbeSettings;
use crate::error::ProbeError;
use crate::export::{Export, Exporter, Failed, How};
use crate::hops::PROBE;
use crate::source::Capture;
use crate::summary::{ExportSummary, ProbeSummary};

/// Packets that the table gets together: it waits for the memory of several flows at once.
const BATCH_PACKETS: usize = 64;
/// Batches after which the clock and the order to end are looked at.
const LOOK_BATCHES: u32 = 32;
/// Books are shown so often, in ns.
const SHOW_NS: u64 = 100_000_000;
/// Collectors are told so often what was refused and not sent, in ns.
const REPORT_NS: u64 = 60_000_000_000;

/// What a probe is told.
#[derive(Clone, Debug, Default)]
pub struct ProbePlan {
    /// The capture that it reads; `-` is standard input.
    pub read: PathBuf,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
    /// All else.
    pub settings: ProbeSettings,
    /// The fault switch of the tests, at a hop of [`PROBE`](crate::hops::PROBE).
    pub leak: Leak,
}

/// Reads packets until they end, and exports the records of all flows.
impl System for ProbePlan {
    const HOPS: &'static [&'static str] = PROBE;
    type Summary = ProbeSummary;
    type Error = ProbeError;

    fn run(mut self, host: &Host) -> Result<Record<ProbeSummary>, ProbeError> {
        self.leak = host.leak.clone();
        run(&self, &host.stop, &mut |warning| host.warn(warning))
    }
}

/// Works until the input ends or `stop` says so.
fn run(
    plan: &ProbePlan,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<Record<ProbeSummary>, ProbeError> {
    // A collector is there before standard input has anything.
    let exporters = Exporters::begin(plan, stop)?;
    let mut capture = Capture::open(&plan.read, stop)?;
    // A seed that nobody outside of this process knows.
    let (decode, table) = plan.settings.engine(RandomState::new().hash_one(()));
    let mut probe = Probe {
        decoder: Decoder::new(&decode)?,
        table: Table::new(&table)?,
        exporters,
        seen: Volume::default(),
        leak: plan.leak.clone(),
    };
    let mut books = Books::open(plan.out.as_deref(), probe.exporters.all.len(), tell)?;
    let broken = probe.read(&mut capture, stop, &mut books);
    probe.end(broken, stop, books)
}

struct Probe {
    decoder: Decoder,
    table: Table,
    exporters: Exporters,
    /// Packets that the capture had.
    seen: Volume,
    leak: Leak,
}

/// All exporters: each gets every record.
struct Exporters {
    all: Vec<Exporter>,
    /// Packets of the records that the table gave.
    formed: Volume,
    leak: Leak,
}

impl Exporters {
    fn begin(plan: &ProbePlan, stop: &Stop) -> Result<Self, ProbeError> {
        let none = [Export::None];
        let exports = match plan.settings.export.as_slice() {
            [] => &none,
            some => some,
        };
        let mut all = Vec::new();
        for (n, export) in exports.iter().enumerate() {
            if exports[..n].contains(export) {
                return Err(ProbeError::Twice(export.to_string()));
            }
            all.push(Exporter::begin(export, &plan.settings, stop)?);
        }
        Ok(Self {
            all,
            formed: Volume::default(),
            leak: plan.leak.clone(),
        })
    }

    fn take(&mut self, record: &FlowRecord) {
        if self.leak.take("records") {
            return;
        }
        self.formed += record.volume();
        for exporter in &mut self.all {
            exporter.export(record);
        }
    }
}

impl Probe {
    /// Reads to the end, or until it shall end: what is wrong with the capture.
    fn read(&mut self, capture: &mut Capture, stop: &Stop, books: &mut Books) -> Option<String> {
        let mut shown_ns = clock::monotonic_ns();
        let mut reported_ns = shown_ns;
        let mut batch = Vec::with_capacity(BATCH_PACKETS);
        loop {
            for _ in 0..LOOK_BATCHES {
                let more = self.fill(&mut batch, capture);
                let exporters = &mut self.exporters;
                self.table
                    .handle_packets(&batch, &mut |record| exporters.take(record));
                batch.clear();
                match more {
                    Ok(true) => {}
                    Ok(false) => return None,
                    // Standard input that is waited for ends with the order.
                    Err(_) if stop.is_asked() => return None,
                    Err(error) => return Some(error.to_string()),
                }
                if stop.is_asked() {
                    return None;
                }
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= shown_ns + SHOW_NS {
                shown_ns = now_ns;
                // A record waits for others no longer than that.
                self.exporters.all.iter_mut().for_each(Exporter::write);
                books.show(&self.counts(), &self.exporters.all);
            }
            if now_ns >= reported_ns + REPORT_NS {
                reported_ns = now_ns;
                self.report();
            }
        }
    }

    /// Tells collectors what was refused.
    fn report(&mut self) {
        let mut ignored = Volume::default();
        for (_, refused) in self.decoder.refused().iter() {
            ignored += refused;
        }
        let exporters = self.exporters.all.iter_mut();
        exporters.for_each(|exporter| exporter.report(ignored));
    }

    /// Reads packets of flows into `batch`; whether there may be more.
    fn fill(
        &mut self,
        batch: &mut Vec<Packet<'static>>,
        capture: &mut Capture,
    ) -> Result<bool, ProbeError> {
        while batch.len() < BATCH_PACKETS {
            let Some(frame) = capture.next()? else {
                return Ok(false);
            };
            self.seen.packets += 1;
            match self.decoder.handle_frame(&frame) {
                Ok(packet) => {
                    self.seen.octets += u64::from(packet.octets);
                    if !self.leak.take("packets") {
                        batch.push(packet.without_payload());
                    }
                }
                Err(refused) => self.seen.octets += u64::from(refused.octets),
            }
        }
        Ok(true)
    }

    fn counts(&self) -> Counts<'_> {
        Counts {
            seen: self.seen,
            formed: self.exporters.formed,
            decoder: &self.decoder,
            table: &self.table,
        }
    }

    /// All flows end, all records are written, and the books close.
    fn end(
        mut self,
        broken: Option<String>,
        stop: &Stop,
        mut books: Books,
    ) -> Result<Record<ProbeSummary>, ProbeError> {
        let exporters = &mut self.exporters;
        self.table.end_all(&mut |record| exporters.take(record));
        self.exporters.all.iter_mut().for_each(Exporter::write);
        self.report();
        books.show_end(&self.counts(), &self.exporters.all);
        let exports: Vec<_> = self
            .exporters
            .all
            .iter()
            .enumerate()
            .map(ExportSummary::of)
            .collect();
        let exporters = mem::take(&mut self.exporters.all);
        let ends = exporters.into_iter().map(Exporter::finish);
        let unwritten: Vec<_> = ends.filter_map(Result::err).collect();
        let end = self.how_it_ended(broken, unwritten, stop);
        let counts = self.counts();
        let record = books.close(end, |envelope| ProbeSummary::of(&counts, exports, envelope))?;
        Ok(record)
    }

    fn how_it_ended(&self, broken: Option<String>, unwritten: Vec<Failed>, stop: &Stop) -> RunEnd {
        let mut end = RunEnd::in_order(stop.reason().unwrap_or(Reason::InputEnded));
        let mut failed = Vec::new();
        let mut fail = |end: &mut RunEnd, reason, why| {
            (end.condition, end.reason) = (Condition::Interrupted, reason);
            failed.push(why);
        };
        match broken {
            Some(why) if self.seen.packets > 0 => {
                end.taints.push(Taint::new(TaintKind::CaptureBroken, why));
            }
            Some(why) => fail(&mut end, Reason::StartFailed, why),
            None => {}
        }
        for Failed { text, how } in unwritten {
            match how {
                How::InPart => end.taints.push(Taint::new(TaintKind::PeerLost, text)),
                How::Removed => end.taints.push(Taint::new(TaintKind::OutputRemoved, text)),
                How::Lost => fail(&mut end, Reason::ConnectionLost, text),
                How::Unwritten => fail(&mut end, Reason::WriteFailed, text),
            }
        }
        end.failed = (!failed.is_empty()).then(|| failed.join("; "));
        end
    }
}
