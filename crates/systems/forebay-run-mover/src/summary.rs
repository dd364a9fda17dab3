//! What a mover's life came to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use forebay_ledger::{
    Closed, Condition, Lost, Reason, Supervisor as Life, Taint, TaintKind, Verdict, audit,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record, add_drops};
use forebay_run::removed::Removed;
use forebay_sink::files::files_of_runs;

use crate::door::Door;
use crate::stream::{PROGRAM, Stream, refused};
use crate::streams::Streams;

/// The record of a stream: of a sender's run, as its id says.
pub type StreamRecord = Record<StreamSummary>;

/// One stream.
#[derive(Debug, Clone, Serialize)]
pub struct StreamSummary {
    /// The sender's sink.
    pub sink: String,
    /// Events that the sender says it delivered.
    pub events_sent: u64,
    /// Events that came in.
    pub events_in: u64,
    /// Events written to files.
    pub events_written: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// What was written and somebody removed.
    pub output_removed: Removed,
    /// Files written, absolute.
    pub files: Vec<PathBuf>,
    /// The stream's ledger, for `forebay audit`.
    pub ledger: PathBuf,
    /// The audit.
    #[serde(skip)]
    pub verdict: Verdict,
}

/// Streams that are no longer listed one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unlisted {
    /// How many; one that came again afterwards is listed too.
    pub streams: u64,
    /// Of these, streams whose books do not close.
    pub unclosed: u64,
    /// Of these, streams of whose output somebody removed a part.
    pub removed: u64,
    /// What is left over in them, and what is left inside.
    #[serde(flatten)]
    pub books: Closed,
    /// What was lost in them.
    #[serde(skip)]
    drops: BTreeMap<String, Lost>,
    /// The first that tainted one of them.
    #[serde(skip)]
    taint: Option<Taint>,
}

impl Unlisted {
    pub(crate) fn add(&mut self, stream: &StreamRecord) {
        self.streams += 1;
        self.unclosed += u64::from(!stream.is_closed());
        self.removed += u64::from(is_removed(stream));
        self.books = self.books.with(&stream.envelope.books);
        add_drops(&mut self.drops, &stream.envelope.drops);
        self.taint = self.taint.take().or_else(|| taint_of(stream));
    }
}

/// All streams of one mover's life.
#[derive(Debug, Clone, Serialize)]
pub struct MoverSummary {
    /// The streams, in the order in which they were closed; the last 256.
    pub streams: Vec<StreamRecord>,
    /// Those closed before.
    pub unlisted: Unlisted,
    /// How often senders ended a stream.
    pub streams_ended: u64,
    /// Streams that were closed, to be opened again when they come, because more than 64 were open.
    pub streams_evicted: u64,
    /// Connections accepted.
    pub connections: u64,
    /// How often the system could not accept one, as without free descriptors; nobody is accepted for 100 ms then.
    pub accept_errors: u64,
    /// Rounds in which as many connections came as are accepted before the others have their turn.
    pub accept_rounds_full: u64,
    /// Connections that ended otherwise than by the sender, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Events written in this life, over all streams.
    pub events_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// All files of the streams that are listed.
    pub files: Vec<PathBuf>,
}

/// The record of a mover whose `streams` are closed.
pub(crate) fn record(
    streams: Streams,
    door: &Door,
    refused: BTreeMap<&'static str, u64>,
    (duration_s, reason): (f64, Reason),
) -> Record<MoverSummary> {
    let run_id = format!("{PROGRAM}-{}", std::process::id());
    let mut envelope = Envelope::of_process(PROGRAM, &run_id, duration_s);
    let Streams {
        listed,
        mut unlisted,
        ..
    } = streams;
    let mut listed = Vec::from(listed);
    envelope.books = unlisted.books;
    envelope.drops = std::mem::take(&mut unlisted.drops);
    envelope.taints.extend(unlisted.taint.take());
    if unlisted.removed > 0 {
        let text = format!("of {} streams before the listed ones", unlisted.removed);
        let taint = Taint::new(TaintKind::OutputRemoved, text);
        envelope.taints.push(taint);
    }
    for stream in &mut listed {
        envelope.include(&mut stream.envelope, |_| false);
        envelope.taints.extend(taint_of(stream));
    }
    let (condition, reason) = Taint::taint(&envelope.taints, Condition::Ended, reason);
    (envelope.condition, envelope.reason) = (condition, reason);
    let files = listed.iter().flat_map(|stream| stream.files.clone());
    // Two streams may have begun in the same second: by their numbers of runs they have each other's files, too.
    let files: BTreeSet<PathBuf> = files.collect();
    let summary = MoverSummary {
        unlisted,
        streams_ended: streams.ended,
        streams_evicted: streams.evicted,
        connections: door.accepted,
        accept_errors: door.errors,
        accept_rounds_full: door.full_rounds,
        refused,
        events_written: streams.written.0,
        bytes_written: streams.written.1,
        files: files.into_iter().collect(),
        streams: listed,
    };
    Record { envelope, summary }
}

/// What taints a stream first, with its name: that its output was removed goes before all.
fn taint_of(stream: &StreamRecord) -> Option<Taint> {
    let name = format!("{} {}", stream.envelope.run_id, stream.sink);
    if is_removed(stream) {
        return Some(Taint::new(TaintKind::OutputRemoved, name));
    }
    let taint = stream.envelope.taints.first()?;
    Some(Taint::new(taint.kind, format!("{name}: {}", taint.text)))
}

/// Whether somebody removed a part of what was written, or its ledger.
fn is_removed(stream: &StreamRecord) -> bool {
    stream.output_removed.any() || stream.envelope.is_tainted(TaintKind::OutputRemoved)
}

/// The record of a stream that is closed.
pub(crate) fn of_stream(stream: &Stream) -> Result<StreamRecord, RunError> {
    let snapshot = stream.reader.snapshot()?;
    let verdict = audit(&snapshot, Life::Alive);
    let line = |place: &str| {
        let lines = verdict.balance.accounts.iter();
        lines.filter(|line| line.place == place).fold(
            ((0, 0), (0, 0)),
            |((in_items, in_bytes), (out_items, out_bytes)), line| {
                (
                    (
                        in_items + line.incoming.items,
                        in_bytes + line.incoming.bytes,
                    ),
                    (
                        out_items + line.outgoing.items,
                        out_bytes + line.outgoing.bytes,
                    ),
                )
            },
        )
    };
    let ((events_in, _), (events_written, bytes_written)) = line("mover");
    let (_, (events_sent, _)) = line("sender");
    let [first, last] = stream.words.runs.map(|word| snapshot.value(word) as u32);
    let files = if first == 0 {
        Vec::new()
    } else {
        files_of_runs(&stream.directory, first..=last).map_err(refused)?
    };
    let envelope = Envelope {
        taints: stream.taints.clone(),
        warnings: stream.warnings.clone(),
        ..Envelope::of_process(PROGRAM, &stream.run_id, stream.open_s())
    };
    let summary = StreamSummary {
        sink: stream.sink.clone(),
        events_sent,
        events_in,
        events_written,
        bytes_written,
        output_removed: Removed::of(&snapshot),
        files,
        ledger: stream.ledger.clone(),
        verdict: verdict.clone(),
    };
    let envelope = envelope.with(&verdict);
    Ok(Record { envelope, summary })
}
