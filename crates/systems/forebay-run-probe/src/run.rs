//! A probe from its first packet to its last record: its threads, and how it ends.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use forebay_ledger::{Condition, Reason, Taint, TaintKind};
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, Stop, System, Urgency};

use crate::books::{Books, CaptureBook, Declared};
use crate::config::ProbeSettings;
use crate::error::ProbeError;
use crate::export::{Failed, How};
use crate::exporter::Exporters;
use crate::file;
use crate::flows::Flows;
use crate::hops::PROBE;
use crate::live::{Live, RingCounts};
use crate::offload::Below;
use crate::packets::{Lane, PacketFile, Tap};
use crate::port::Port;
use crate::queue::Queue;
use crate::source::Capture;
use crate::summary::{Captured, ProbeSummary};

/// A sign of life is given so often.
const SHOW: Duration = Duration::from_millis(100);

/// What a probe is told.
#[derive(Clone, Debug, Default)]
pub struct ProbePlan {
    /// The capture that it reads, if the settings name no interface; `-` is standard input.
    pub read: PathBuf,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
    /// All else.
    pub settings: ProbeSettings,
}

/// Where packets come from.
enum Input {
    File(Capture),
    Ports(Vec<Port>),
}

impl Input {
    fn open(plan: &ProbePlan, stop: &Stop) -> Result<Self, ProbeError> {
        match &plan.settings.interface {
            Some(interface) => Port::open(interface, &plan.settings).map(Self::Ports),
            None => Capture::open(&plan.read, stop).map(Self::File),
        }
    }

    /// Has ports take packets that wait for a table at them.
    fn accept(&self, below: &[Below]) -> Result<(), ProbeError> {
        match (self, below.first()) {
            (Self::Ports(ports), Some(below)) => below.accept(ports),
            _ => Ok(()),
        }
    }

    const fn lanes(&self) -> usize {
        match self {
            Self::File(_) => 1,
            Self::Ports(ports) => ports.len(),
        }
    }
}

/// How a thread that captures ended: what broke it, what it had, and what was in its ring if it had one.
type Ended<'a> = (Option<String>, Flows<'a>, Option<RingCounts>);

/// Reads packets until they end, and exports the records of all flows.
impl System for ProbePlan {
    const HOPS: &'static [&'static str] = PROBE;
    type Summary = ProbeSummary;
    type Error = ProbeError;

    fn run(self, host: &Host) -> Result<Record<ProbeSummary>, ProbeError> {
        run(&self, host)
    }
}

/// Works until the input ends or `host` says so.
fn run(plan: &ProbePlan, host: &Host) -> Result<Record<ProbeSummary>, ProbeError> {
    let stop = &host.stop;
    plan.settings.check()?;
    let by_rule = plan.settings.has_export_rule();
    // A collector is there before standard input has anything.
    let mut exporters = Exporters::begin(plan, host)?;
    let input = Input::open(plan, stop)?;
    let declared = Declared {
        is_live: plan.settings.interface.is_some(),
        has_filter: !plan.settings.filter.is_empty(),
        has_packet_file: plan.settings.export_packets.is_some(),
        lanes: input.lanes(),
        offload: plan.settings.offload,
        exporters: exporters.all.len(),
    };
    exporters
        .lanes
        .resize_with(declared.lanes, Default::default);
    let queue = Queue::new(declared.lanes, plan.settings.queue_flows as usize);
    // A seed that nobody outside of this process knows, and the same for all tables.
    let seed = RandomState::new().hash_one(());
    let ways: Vec<Lane> = (0..declared.lanes).map(|_| Lane::default()).collect();
    let below = Below::open(&plan.settings, declared.lanes, &host.leak)?;
    input.accept(&below)?;
    let tables = Below::tables(&below);
    let flows = (0..declared.lanes).map(|lane| {
        let below = below.get(lane).cloned();
        Flows::new(plan, &queue, (lane, seed), below, host)
    });
    let mut flows = flows.collect::<Result<Vec<_>, _>>()?;
    let file = plan.settings.export_packets.as_deref();
    let file = file.map(|path| PacketFile::create(path, host.leak.clone()));
    let file = file.transpose()?.map(|(file, to)| {
        for (lane, (flows, way)) in flows.iter_mut().zip(&ways).enumerate() {
            let mut tap = Tap::new((lane, way), to.clone(), by_rule);
            // What shall vanish vanishes in one place.
            if lane == 0 {
                tap.leak = host.leak.clone();
            }
            flows.tap = Some(tap);
        }
        file
    });
    let (mut books, captures, export, packet_book) =
        Books::open(plan.out.as_deref(), declared, &mut |text| host.warn(text))?;
    if let Some(duration_s) = plan.settings.duration_s {
        stop.end_after(Duration::from_secs(duration_s));
    }
    let (ended, (exports, mut failed), packets) = thread::scope(|scope| {
        let (note, notes) = mpsc::channel();
        let begun = begin(scope, input, flows.into_iter().zip(captures), stop, &note);
        let exporting = thread::Builder::new().name("exporter".into());
        let (queue, ways) = (&queue, &ways);
        let writing = file.zip(packet_book).map(|(file, book)| {
            let thread = thread::Builder::new().name("packets".into());
            thread.spawn_scoped(scope, move || file.run(ways, book))
        });
        let exporting = exporting.spawn_scoped(scope, move || exporters.run(queue, export, &note));
        // Where one thread could not be started, those that were are not waited for without end.
        let end = |_: &ProbeError| stop.order(Urgency::Now);
        let exporting = exporting.map_err(not_started).inspect_err(end)?;
        let begun = begun.inspect_err(end)?;
        let writing = writing.transpose().map_err(not_started).inspect_err(end)?;
        watch(&notes, &mut books, tables, host);
        let ended: Vec<_> = begun.into_iter().map(joined).collect();
        Ok::<_, ProbeError>((ended, joined(exporting), writing.map(joined)))
    })?;
    let seen: Vec<_> = tables.iter().map(Below::end).collect();
    books.show_below(&seen);
    let (packets, unwritten) = packets.unzip();
    failed.extend(unwritten.flatten());
    let captured: Vec<_> = ended
        .iter()
        .map(|(_, flows, ring)| Captured {
            flows,
            ring: ring.as_ref(),
        })
        .collect();
    let broken = ended.iter().find_map(|(broken, ..)| broken.clone());
    // Of an interface there is a run, packets or not.
    let has_packets = declared.is_live || captured.iter().any(|one| one.flows.seen.packets > 0);
    let end = how_it_ended((broken, has_packets), failed, stop);
    let record = books.close(end, |envelope| {
        let offload = tables.first().map(|table| (table.kind(), &*seen));
        ProbeSummary::of(&captured, offload, exports, packets, envelope)
    })?;
    Ok(record)
}

/// Starts the threads that capture. Each tells by `note`, which it drops when it ends.
fn begin<'scope, 'a: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    input: Input,
    flows: impl Iterator<Item = (Flows<'a>, CaptureBook)>,
    stop: &'a Stop,
    note: &mpsc::Sender<String>,
) -> Result<Vec<ScopedJoinHandle<'scope, Ended<'a>>>, ProbeError> {
    let thread = |lane| thread::Builder::new().name(format!("capture{lane}"));
    let started = match input {
        Input::File(capture) => flows
            .zip([capture])
            .map(|((flows, book), capture)| {
                let note = note.clone();
                thread(0).spawn_scoped(scope, move || {
                    let _note = note;
                    let (broken, flows) = file::run(capture, flows, book, stop);
                    (broken, flows, None)
                })
            })
            .collect::<Result<Vec<_>, _>>(),
        Input::Ports(ports) => ports
            .into_iter()
            .zip(flows)
            .enumerate()
            .map(|(lane, (port, (flows, book)))| {
                let note = note.clone();
                let live = Live::new(port, flows, book, stop);
                thread(lane).spawn_scoped(scope, move || {
                    let tell = |said| drop(note.send(said));
                    let (broken, flows, ring) = live.run(&tell);
                    (broken, flows, Some(ring))
                })
            })
            .collect(),
    };
    started.map_err(not_started)
}

fn not_started(error: std::io::Error) -> ProbeError {
    RunError::file("starting", "a thread")(error).into()
}

/// Shows that the run lives, until no thread has anything to say any more.
fn watch(notes: &mpsc::Receiver<String>, books: &mut Books, tables: &[Below], host: &Host) {
    let mut told = String::new();
    let mut trouble: Vec<String> = Vec::new();
    loop {
        match notes.recv_timeout(SHOW) {
            // Each thread says the same of the interface that they share.
            Ok(text) if text == told => {}
            Ok(text) => {
                host.warn(&text);
                told = text;
            }
            Err(RecvTimeoutError::Timeout) => told.clear(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        books.heartbeat();
        let seen: Vec<_> = tables.iter().map(Below::look).collect();
        books.show_below(&seen);
        for text in tables.iter().flat_map(Below::trouble) {
            // Once, of each table the same.
            if !trouble.contains(&text) {
                host.warn(&text);
                trouble.push(text);
            }
        }
    }
}

/// What a thread came to; its panic is this one's.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn how_it_ended(
    (broken, has_packets): (Option<String>, bool),
    unwritten: Vec<Failed>,
    stop: &Stop,
) -> RunEnd {
    let mut end = RunEnd::in_order(stop.reason().unwrap_or(Reason::InputEnded));
    let mut failed = Vec::new();
    let mut fail = |end: &mut RunEnd, reason, why| {
        (end.condition, end.reason) = (Condition::Interrupted, reason);
        failed.push(why);
    };
    match broken {
        Some(why) if has_packets => {
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
