//! What a run came to: the one JSON object that scripts may rely on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use forebay_ledger::{
    Counter, LossTable, Percentiles, Snapshot, Supervisor as Life, Verdict, audit,
};
use forebay_run::error::RunError;
use forebay_run::record::{Envelope, Record};
use forebay_run::removed::Removed;
use forebay_sink::files::files_of_runs;

use crate::books::{Books, PROGRAM};
use crate::error::EvbError;
use crate::file_io::{SinkIo, file_io};
use crate::plan::{Memory, Plan, SinkKind};
use crate::supervisor::Outcome;
use forebay_evb::silence::Heard;
use forebay_evb::triggers::Triggers;

/// Summary of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Complete events.
    pub events_built: u64,
    /// Incomplete events written and flagged; on top of the complete ones.
    pub events_partial: u64,
    /// Incomplete events given up.
    pub events_discarded: u64,
    /// Sub-events that entered the builder.
    pub subevents_in: u64,
    /// Bytes of messages received.
    pub bytes_in: u64,
    /// Bytes written to files, headers included.
    pub bytes_written: u64,
    /// Sub-events that never came, by the trigger numbers around them: an inference. What came and was dropped is in `drops` alone.
    pub subevents_missing: u64,
    /// Sub-events in events with a decoding word that no reader can follow; they are kept as they came.
    pub odd_decoding: u64,
    /// What was written and somebody removed: no drop of any account, since it had been written.
    pub output_removed: Removed,
    /// Events per second, from the first message (with an emulator of our own: its first trigger) to the last event built; 0 with
    /// fewer than two.
    pub event_rate_hz: f64,
    /// Bytes of events per second, over the same time.
    pub data_rate_bytes_per_s: f64,
    /// Triggers from the first one seen to the last one, and how many of them are complete events.
    #[serde(flatten)]
    pub triggers: Triggers,
    /// Sources that are silent, the one that costs most first, and those that were and came back. The run's record has all.
    pub silent_sources: Vec<Heard>,
    /// How each sink of files writes them; as it was last, where that changed.
    pub file_io: Vec<SinkIo>,
    /// Files written, absolute.
    pub files: Vec<PathBuf>,
    /// How often stages were started again.
    pub restarts: BTreeMap<&'static str, u32>,
    /// Whether the emulator was the limit.
    pub generator_limited: bool,
    /// First receive stamp of an event to the sink's queue, in ns.
    pub event_latency_ns: Percentiles,
    /// Event sizes in bytes.
    pub event_bytes: Percentiles,
    /// Upper bounds of memory.
    pub memory: Memory,
}

impl Summary {
    /// Reads the closed ledger of a run.
    ///
    /// # Errors
    /// A sink's directory cannot be read.
    pub fn of(
        plan: &Plan,
        books: &Books,
        snapshot: &Snapshot,
        outcome: &Outcome,
    ) -> Result<(Record<Self>, Verdict), RunError> {
        let verdict = audit(snapshot, Life::Alive);
        let balance = &verdict.balance;
        let value = |counter| snapshot.value(counter);
        let (complete, partial) = (value(books.builder.complete), value(books.builder.partial));
        let discarded = value(books.builder.discarded);
        let span_s = span_s(books, snapshot);
        let event_bytes = snapshot.tally(books.builder.events.outgoing).1;
        // The time between n events is n - 1 intervals.
        let events = complete + partial;
        let intervals = events.saturating_sub(1) as f64 / events.max(1) as f64;
        let rate = |amount: u64| {
            if span_s > 0.0 {
                amount as f64 * intervals / span_s
            } else {
                0.0
            }
        };
        let sum = |place: &str, of: fn(&forebay_ledger::AccountLine) -> u64| {
            balance
                .accounts
                .iter()
                .filter(|line| line.place == place)
                .map(of)
                .sum()
        };
        let by_source = |word: fn(&forebay_evb::SourceWords) -> Counter| {
            let sources = books.builder.sources.iter();
            sources.map(|source| value(word(source))).sum()
        };
        let summary = Self {
            events_built: complete,
            events_partial: partial,
            events_discarded: discarded,
            subevents_in: sum("builder", |line| line.incoming.items),
            bytes_in: sum("receiver", |line| line.incoming.bytes),
            bytes_written: books.sinks.iter().map(|sink| value(sink.written)).sum(),
            subevents_missing: by_source(|source| source.missing),
            odd_decoding: by_source(|source| source.odd_decoding),
            output_removed: Removed::of(snapshot),
            event_rate_hz: rate(complete + partial),
            data_rate_bytes_per_s: rate(event_bytes),
            triggers: Triggers::of(snapshot).unwrap_or_default(),
            silent_sources: Heard::by_trouble(Heard::all(snapshot)),
            file_io: file_io(plan, books, snapshot),
            files: files(plan, books, snapshot)?,
            restarts: outcome.restarts.clone(),
            generator_limited: books
                .generator
                .as_ref()
                .is_some_and(|words| value(words.limited) != 0),
            event_latency_ns: Percentiles::of(snapshot, "event_latency_ns"),
            event_bytes: Percentiles::of(snapshot, "event_bytes"),
            memory: plan.memory(),
        };
        let envelope = Envelope {
            taints: outcome.taints.clone(),
            warnings: outcome.warnings.clone(),
            cpu_s: outcome.cpu_s.clone(),
            pids: outcome.pids.clone(),
            host_counters: Some(outcome.host.clone()),
            ..Envelope::of_process(PROGRAM, &plan.run_id, outcome.duration_s)
        };
        let envelope = envelope.with(&verdict);
        Ok((Record { envelope, summary }, verdict))
    }
}

/// What the record of a run has beside its summary.
#[derive(Debug, Clone, Serialize)]
pub struct Details {
    /// What `forebay audit` says of its books.
    pub verdict: Verdict,
    /// Losses one by one, as far as they are listed.
    pub losses: Vec<LossTable>,
    /// What was heard of each source.
    pub sources: Vec<Heard>,
    /// What the run was told.
    pub plan: Plan,
}

/// A summary with its details.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Detailed<'a> {
    /// What the run came to.
    #[serde(flatten)]
    pub summary: &'a Summary,
    /// The rest.
    #[serde(flatten)]
    pub details: &'a Details,
}

/// Time in which the events came, in s: from the first message, or from the emulator's first trigger where it is known, to the
/// last event built.
fn span_s(books: &Books, snapshot: &Snapshot) -> f64 {
    let [message, last] = books.span.map(|word| snapshot.value(word));
    let trigger = books
        .generator
        .as_ref()
        .map_or(0, |words| snapshot.value(words.start_ns));
    let first = if trigger > 0 { trigger } else { message };
    last.saturating_sub(first) as f64 / 1e9
}

/// Files of this run: those in the sinks' directories whose start event carries one of its run numbers.
fn files(plan: &Plan, books: &Books, snapshot: &Snapshot) -> Result<Vec<PathBuf>, RunError> {
    let mut found = Vec::new();
    for (index, sink) in plan.sinks.iter().enumerate() {
        let SinkKind::File(file) = &sink.kind else {
            continue;
        };
        let first = snapshot.value(books.offers[index].first_run) as u32;
        let last = snapshot.value(books.offers[index].rotation[0]) as u32;
        if first == 0 || !file.directory.is_dir() {
            continue;
        }
        let files = files_of_runs(&file.directory, first..=last);
        found.extend(files.map_err(EvbError::from)?);
    }
    found.sort();
    // Two sinks may share a directory and the second in which they began.
    found.dedup();
    Ok(found)
}
