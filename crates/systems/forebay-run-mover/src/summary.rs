//! What a mover's life came to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use forebay_ledger::{Closed, Lost, Supervisor as Life, Verdict, audit};
use forebay_run::error::RunError;
use forebay_run::removed::Removed;
use forebay_sink::files::files_of_runs;

use crate::door::Door;
use crate::stream::{Stream, refused};
use crate::streams::Streams;

/// One stream.
#[derive(Debug, Clone, Serialize)]
pub struct StreamSummary {
    /// The sender's run.
    pub run_id: String,
    /// The sender's sink.
    pub sink: String,
    /// `complete`, `tainted`, or `interrupted` when the sender has not ended it.
    pub condition: String,
    /// Events that the sender says it delivered.
    pub events_sent: u64,
    /// Events that came in.
    pub events_in: u64,
    /// Events written to files.
    pub events_written: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// What is left over between the sender's books and these, and within these, and what is left inside.
    #[serde(flatten)]
    pub books: Closed,
    /// Losses by `place.reason.owner`.
    pub drops: BTreeMap<String, Lost>,
    /// What was written and somebody removed.
    pub output_removed: Removed,
    /// Files written, absolute.
    pub files: Vec<PathBuf>,
    /// The stream's ledger, for `forebay audit`.
    pub ledger: PathBuf,
    /// What taints it.
    pub taints: Vec<String>,
    /// The audit.
    #[serde(skip)]
    pub verdict: Verdict,
}

/// Streams that are no longer listed one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
}

impl Unlisted {
    pub(crate) fn add(&mut self, summary: &StreamSummary) {
        self.streams += 1;
        self.unclosed += u64::from(!summary.books.is_closed());
        self.removed += u64::from(summary.is_removed());
        self.books = self.books.with(&summary.books);
    }
}

/// All streams of one mover's life.
#[derive(Debug, Clone, Serialize)]
pub struct MoverSummary {
    /// The streams, in the order in which they were closed; the last 256.
    pub streams: Vec<StreamSummary>,
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
    /// What is left over, over all streams, and what is left inside.
    #[serde(flatten)]
    pub books: Closed,
    /// All files of the streams that are listed.
    pub files: Vec<PathBuf>,
}

impl MoverSummary {
    /// `streams` are closed.
    pub(crate) fn of(streams: Streams, door: &Door, refused: BTreeMap<&'static str, u64>) -> Self {
        let Streams {
            listed, unlisted, ..
        } = streams;
        let listed = Vec::from(listed);
        let books = listed
            .iter()
            .fold(unlisted.books, |sum, stream| sum.with(&stream.books));
        let files = listed.iter().flat_map(|stream| stream.files.clone());
        Self {
            unlisted,
            streams_ended: streams.ended,
            streams_evicted: streams.evicted,
            connections: door.accepted,
            accept_errors: door.errors,
            accept_rounds_full: door.full_rounds,
            refused,
            events_written: streams.written.0,
            bytes_written: streams.written.1,
            books,
            files: files.collect(),
            streams: listed,
        }
    }

    /// Whether somebody removed a part of what was written.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.unlisted.removed > 0 || self.streams.iter().any(StreamSummary::is_removed)
    }

    /// Whether all books close.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.books.is_closed()
    }
}

impl StreamSummary {
    /// Whether somebody removed a part of what was written, or its ledger.
    fn is_removed(&self) -> bool {
        let mut taints = self.taints.iter();
        self.output_removed.any() || taints.any(|text| text.starts_with("output_removed:"))
    }

    pub(crate) fn of(stream: &Stream) -> Result<Self, RunError> {
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
        Ok(Self {
            run_id: stream.run_id.clone(),
            sink: stream.sink.clone(),
            condition: verdict.condition.name().to_owned(),
            events_sent,
            events_in,
            events_written,
            bytes_written,
            books: verdict.closed_books(),
            drops: verdict.balance.drops(),
            output_removed: Removed::of(&snapshot),
            files,
            ledger: stream.ledger.clone(),
            taints: stream.taints.clone(),
            verdict,
        })
    }
}
