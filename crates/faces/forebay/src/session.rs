//! A run from its plan to its summary, as `demo`, `evb` and `replay` share it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_evb::silence::Heard;
use forebay_evb::triggers::Triggers;
use forebay_host::Changes;
use forebay_ledger::{Leak, Verdict, grouped};
use forebay_run::hops::VARIABLE;
use forebay_run::removed::Removed;
use forebay_run_evb::books::Books;
use forebay_run_evb::hops::EVB;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::summary::Summary;
use forebay_run_evb::supervisor::Supervisor;
use forebay_sys::watched::OUTPUT_REMOVED;

use crate::live::Live;
use crate::output::{Format, note_line, print_line};
use forebay_report::text::bytes;

/// Exit code when books do not close or a file is broken.
pub(crate) const BROKEN: u8 = 1;
/// Exit code of `--strict` when anything was lost, even by name.
pub(crate) const LOST: u8 = 3;
/// Exit code of a sender that has sent all and does not know what came.
pub(crate) const UNCONFIRMED: u8 = 4;

/// Rings from this size on are told at the start: taking their memory is work for many seconds.
const RINGS_TOLD_BYTES: u64 = 1 << 30;

/// How a run is carried out and shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// End after so long.
    pub(crate) duration: Option<Duration>,
    /// Each stage in a process of its own.
    pub(crate) processes: bool,
    /// What goes to standard output.
    pub(crate) format: Format,
    /// Losses with a name change the exit code.
    pub(crate) strict: bool,
}

/// A run that has ended.
pub(crate) struct Done {
    pub(crate) plan: Plan,
    pub(crate) summary: Summary,
    pub(crate) verdict: Verdict,
    /// What the whole host counted below the sockets.
    pub(crate) host: Changes,
    /// The run's record, where it could not be written.
    pub(crate) record: Option<serde_json::Value>,
}

/// The fault switch, for tests of the books.
pub(crate) fn leak_from_env() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())
}

/// The same for a program that has these hops.
pub(crate) fn leak_of(hops: &[&str]) -> Result<Leak> {
    leak_from_env().map_or_else(
        || Ok(Leak::off()),
        |text| Leak::parse(&text, hops).context(VARIABLE),
    )
}

/// Refuses a switch that the event builder does not have; its stages read it themselves.
pub(crate) fn check_leak_of_stages() -> Result<()> {
    leak_of(EVB).map(|_| ())
}

/// The switch that holds a sink up while a file is there, for tests of the queues.
pub(crate) fn stall_from_env() -> Option<String> {
    std::env::var("FOREBAY_STALL")
        .ok()
        .filter(|text| !text.is_empty())
}

/// Name of a run that starts now.
pub(crate) fn run_id() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    format!("{seconds}-{}", std::process::id())
}

/// Carries the run out and writes its record.
pub(crate) fn carry_out(supervisor: Supervisor, manner: &Manner) -> Result<Done> {
    let json = manner.format == Format::Json;
    for warning in supervisor.warnings() {
        note_line(format_args!("forebay: warning: {warning}"));
    }
    if !json {
        announce(supervisor.plan());
    }
    let rings_bytes = supervisor.plan().memory().source_rings_bytes;
    if rings_bytes >= RINGS_TOLD_BYTES {
        note_line(format_args!(
            "forebay: taking {} of memory for the rings; data may flow meanwhile",
            bytes(rings_bytes as f64)
        ));
    }
    let mut live = Live::new(json);
    let (supervisor, outcome) = supervisor.run(manner.duration, |reader| live.tick(reader))?;
    live.end();
    let plan = supervisor.plan().clone();
    let books = Books::declare(&plan)?;
    let snapshot = supervisor.reader().snapshot()?;
    let (summary, verdict) = Summary::of(&plan, &books, &snapshot, &outcome)?;
    let record = serde_json::json!({ "summary": summary, "verdict": verdict, "losses": snapshot.losses, "sources": Heard::all(&snapshot), "plan": plan, "host_counters": outcome.host });
    let text = serde_json::to_string_pretty(&record).context("writing the run's record")?;
    let mut summary = summary;
    let written = supervisor.run_dir().write_record(&text);
    let unwritten = written.err().map(|error| {
        let text = format!("{error}; the record goes to standard output");
        note_line(format_args!("forebay: warning: {text}"));
        summary.warnings.push(text);
        record
    });
    Ok(Done {
        plan,
        summary,
        verdict,
        host: outcome.host,
        record: unwritten,
    })
}

fn announce(plan: &Plan) {
    let memory = plan.memory();
    let origin = match (&plan.replay, &plan.elinks) {
        (Some(replay), _) => format!("from {}", replay.file.display()),
        (None, Some(elinks)) => format!("published at {}", elinks.publishers.join(", ")),
        (None, None) => plan
            .ports
            .first()
            .map_or_else(|| "on no port".to_owned(), |first| format!("on {first}")),
    };
    note_line(format_args!(
        "{} sources {origin}, record in {}; memory: rings {}, sinks' queues {}, socket buffers at most {}",
        plan.sources.len(),
        plan.run_dir.display(),
        bytes(memory.source_rings_bytes as f64),
        bytes(memory.sink_queues_bytes as f64),
        bytes(memory.socket_buffers_bytes as f64),
    ));
}

/// Prints the end of a run; `good` says whether files were found sound, `found` what was found in them.
pub(crate) fn conclude(
    done: &Done,
    manner: &Manner,
    (good, found): (bool, Option<&str>),
    extra: serde_json::Value,
) -> Result<ExitCode> {
    match manner.format {
        Format::Json => print_json(done, extra)?,
        Format::Text => print_text(done, found),
    }
    let lost = !done.summary.drops.is_empty()
        || done.summary.triggers.triggers_missing > 0
        || done.summary.events_partial > 0
        || done.summary.events_discarded > 0;
    let mut taints = done.summary.taints.iter();
    let removed = taints.any(|text| text.starts_with(OUTPUT_REMOVED));
    let good = good && done.verdict.closed && !removed;
    Ok(match (good, manner.strict && lost) {
        (false, _) => ExitCode::from(BROKEN),
        (true, true) => ExitCode::from(LOST),
        (true, false) => ExitCode::SUCCESS,
    })
}

fn print_json(done: &Done, extra: serde_json::Value) -> Result<()> {
    let mut object = serde_json::to_value(&done.summary)?;
    if let (Some(object), serde_json::Value::Object(extra)) = (object.as_object_mut(), extra) {
        object.extend(extra);
        if let Some(record) = &done.record {
            object.insert("record".into(), record.clone());
        }
    }
    print_line(format_args!("{object}"));
    Ok(())
}

fn print_text(done: &Done, found: Option<&str>) {
    let summary = &done.summary;
    print_line(format_args!("{}", done.verdict.tables()));
    print_line(format_args!(
        "{} complete events, {} incomplete, {} discarded; {:.0} Hz, {}/s",
        summary.events_built,
        summary.events_partial,
        summary.events_discarded,
        summary.event_rate_hz,
        bytes(summary.data_rate_bytes_per_s),
    ));
    summary.triggers.lines().iter().for_each(print_line);
    Heard::lines(&summary.silent_sources)
        .iter()
        .for_each(print_line);
    if summary.odd_decoding > 0 {
        print_line(format_args!(
            "odd_decoding: {} subevents have a decoding word that no reader can follow; they are in the events as they came",
            summary.odd_decoding
        ));
    }
    let cpu: Vec<String> = summary
        .cpu_seconds
        .iter()
        .map(|(stage, seconds)| format!("{stage} {seconds:.2} s"))
        .collect();
    print_line(format_args!("CPU: {}", cpu.join(", ")));
    if summary.generator_limited {
        print_line(format_args!(
            "The emulator was the limit of this run: a higher rate may be possible."
        ));
    }
    done.host.lines().iter().for_each(print_line);
    for taint in &summary.taints {
        print_line(format_args!("TAINTED: {taint}"));
    }
    for file in &summary.files {
        print_line(format_args!("{}", file.display()));
    }
    if let Some(record) = &done.record {
        print_line("The record could not be written into the run's directory; this is it:");
        print_line(format_args!("{record:#}"));
    }
    if let Some(found) = found {
        print_line(found);
    }
    let removed = &summary.output_removed;
    let closing = closing(&done.verdict, Some(&summary.triggers), removed);
    print_line(closing.trim_end());
}

/// The last words of a run that builds or writes events: what is gone, missing, incomplete and lost, and then that all of it is accounted for.
pub(crate) fn closing(verdict: &Verdict, triggers: Option<&Triggers>, removed: &Removed) -> String {
    verdict.closing(&first_words(triggers, removed))
}

/// What is gone, missing and incomplete.
pub(crate) fn first_words(triggers: Option<&Triggers>, removed: &Removed) -> Vec<String> {
    let mut first: Vec<String> = gone(removed).into_iter().collect();
    first.extend(triggers.iter().flat_map(|triggers| triggers.first_words()));
    first
}

/// What was written and is gone, since somebody removed or cut the files.
pub(crate) fn gone(removed: &Removed) -> Option<String> {
    let files = match removed.files {
        0 => return None,
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let all: Vec<(u64, &str)> = removed.items().collect();
    let is_of = |(items, _): &&(u64, &str)| *items > 0 || all.len() == 1;
    let named = |(items, name): &(u64, &str)| format!("{} {name}", grouped((*items).into()));
    let kinds: Vec<String> = all.iter().filter(is_of).map(named).collect();
    let amount = bytes(removed.bytes as f64);
    if kinds.is_empty() {
        return Some(format!(
            "Gone: {amount} that were written; somebody removed or cut {files}"
        ));
    }
    let kinds = kinds.join(", ");
    Some(format!(
        "Gone: {kinds} ({amount}) that were written; somebody removed or cut {files}"
    ))
}
