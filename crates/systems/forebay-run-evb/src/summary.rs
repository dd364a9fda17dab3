//! What a run came to: the one JSON object that scripts may rely on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use forebay_ledger::{
    Closed, Counter, Lost, Percentiles, Snapshot, Supervisor as Life, Verdict, audit,
};
use forebay_run::error::RunError;
use forebay_run::removed::Removed;
use forebay_sink::files::files_of_runs;

use crate::books::Books;
use crate::error::EvbError;
use crate::plan::{Memory, Plan, SinkKind};
use crate::supervisor::Outcome;
use forebay_evb::silence::Heard;
use forebay_evb::triggers::Triggers;

/// Summary of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Name of the run.
    pub run_id: String,
    /// `complete`, `tainted` or `interrupted`.
    pub condition: String,
    /// Why it ended.
    pub reason: String,
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
    /// What is left over in the books, and what is left inside; all 0 when they close.
    #[serde(flatten)]
    pub books: Closed,
    /// Sub-events that never came, by the trigger numbers around them: an inference. What came and was dropped is in `drops` alone.
    pub subevents_missing: u64,
    /// Sub-events in events with a decoding word that no reader can follow; they are kept as they came.
    pub odd_decoding: u64,
    /// Losses by `place.reason.owner`.
    pub drops: BTreeMap<String, Lost>,
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
    /// Files written, absolute.
    pub files: Vec<PathBuf>,
    /// CPU time by stage.
    pub cpu_seconds: BTreeMap<&'static str, f64>,
    /// Process ids by stage.
    pub pids: BTreeMap<&'static str, u32>,
    /// How often stages were started again.
    pub restarts: BTreeMap<&'static str, u32>,
    /// Whether the emulator was the limit.
    pub generator_limited: bool,
    /// From the first stage ready to the order to stop, in s.
    pub duration_s: f64,
    /// First receive stamp of an event to the sink's queue, in ns.
    pub event_latency_ns: Percentiles,
    /// Event sizes in bytes.
    pub event_bytes: Percentiles,
    /// What taints the run.
    pub taints: Vec<String>,
    /// What an operator should know.
    pub warnings: Vec<String>,
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
    ) -> Result<(Self, Verdict), RunError> {
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
            run_id: plan.run_id.clone(),
            condition: verdict.condition.name().to_owned(),
            reason: verdict.reason.name().to_owned(),
            events_built: complete,
            events_partial: partial,
            events_discarded: discarded,
            subevents_in: sum("builder", |line| line.incoming.items),
            bytes_in: sum("receiver", |line| line.incoming.bytes),
            bytes_written: books.sinks.iter().map(|sink| value(sink.written)).sum(),
            books: verdict.closed_books(),
            subevents_missing: by_source(|source| source.missing),
            odd_decoding: by_source(|source| source.odd_decoding),
            drops: verdict.balance.drops(),
            output_removed: Removed::of(snapshot),
            event_rate_hz: rate(complete + partial),
            data_rate_bytes_per_s: rate(event_bytes),
            triggers: Triggers::of(snapshot).unwrap_or_default(),
            silent_sources: Heard::by_trouble(Heard::all(snapshot)),
            files: files(plan, books, snapshot)?,
            cpu_seconds: outcome.cpu_seconds.clone(),
            pids: outcome.pids.clone(),
            restarts: outcome.restarts.clone(),
            generator_limited: books
                .generator
                .as_ref()
                .is_some_and(|words| value(words.limited) != 0),
            duration_s: outcome.duration_s,
            event_latency_ns: Percentiles::of(snapshot, "event_latency_ns"),
            event_bytes: Percentiles::of(snapshot, "event_bytes"),
            taints: outcome.taints.clone(),
            warnings: outcome.warnings.clone(),
            memory: plan.memory(),
        };
        Ok((summary, verdict))
    }
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
