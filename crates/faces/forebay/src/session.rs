//! A run from its plan to its summary, as `demo`, `evb` and `replay` share it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_evb::silence::Heard;
use forebay_evb::triggers::Triggers;
use forebay_host::Changes;
use forebay_ledger::{LedgerReader, Verdict, grouped};
use forebay_run::hops::leak_from_env;
use forebay_run::record::{Exit, Record};
use forebay_run::removed::Removed;
use forebay_run_evb::books::Books;
use forebay_run_evb::file_io::file_io;
use forebay_run_evb::hops::EVB;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::summary::{Detailed, Details, Summary};
use forebay_run_evb::supervisor::Supervisor;

use crate::live::Live;
use crate::output::{Format, note_line, print_line};
use crate::record::{To, conclude as conclude_record};
use forebay_report::text::bytes;

/// Exit code when books do not close or a file is broken.
pub(crate) const BROKEN: u8 = Exit::Broken as u8;
/// Exit code of `--strict` when anything was lost, even by name.
pub(crate) const LOST: u8 = Exit::Lost as u8;

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
    pub(crate) record: Record<Summary>,
    /// What stands beside the summary in the run's directory.
    pub(crate) details: Details,
}

/// Refuses a switch that the event builder does not have; its stages read it themselves.
pub(crate) fn check_leak_of_stages() -> Result<()> {
    Ok(leak_from_env(EVB).map(|_| ())?)
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
    let (plan, books) = (
        supervisor.plan().clone(),
        Books::declare(supervisor.plan())?,
    );
    let mut is_told = json;
    let (supervisor, outcome) = supervisor.run(manner.duration, |reader| {
        if !is_told {
            is_told = true;
            announce_file_io(&plan, &books, reader);
        }
        live.tick(reader);
    })?;
    live.end();
    let snapshot = supervisor.reader().snapshot()?;
    let (mut record, verdict) = Summary::of(&plan, &books, &snapshot, &outcome)?;
    let details = Details {
        verdict,
        losses: snapshot.losses.clone(),
        sources: Heard::all(&snapshot),
        plan,
    };
    let whole = Record {
        envelope: record.envelope.clone(),
        summary: Detailed {
            summary: &record.summary,
            details: &details,
        },
    };
    if let Err(error) = supervisor.run_dir().write_record(&whole) {
        record.envelope.leave(&error);
    }
    Ok(Done { record, details })
}

/// Says how files are written; the builder is at work by now, and its sinks have looked.
fn announce_file_io(plan: &Plan, books: &Books, reader: &LedgerReader) {
    let Ok(snapshot) = reader.snapshot() else {
        return;
    };
    for sink in file_io(plan, books, &snapshot) {
        note_line(sink.text());
    }
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
        "{} sources {origin}, record in {}; memory: rings {}, sinks' queues {}, pieces for disks {}, socket buffers at most {}",
        plan.sources.len(),
        plan.run_dir.display(),
        bytes(memory.source_rings_bytes as f64),
        bytes(memory.sink_queues_bytes as f64),
        bytes(memory.sink_pieces_bytes as f64),
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
    let summary = &done.record.summary;
    let details = &done.details;
    let mut told = match done.record.envelope.unkept {
        true => serde_json::to_value(Detailed { summary, details })?,
        false => serde_json::to_value(summary)?,
    };
    if let (Some(told), serde_json::Value::Object(extra)) = (told.as_object_mut(), extra) {
        told.extend(extra);
    }
    let told = Record {
        envelope: done.record.envelope.clone(),
        summary: told,
    };
    let code = conclude_record(&told, manner.format, To::Stdout, |_| {
        print_text(done, found);
    })?;
    let lost = !told.envelope.drops.is_empty()
        || summary.triggers.triggers_missing > 0
        || summary.events_partial > 0
        || summary.events_discarded > 0;
    Ok(match manner.strict && lost {
        _ if !good => ExitCode::from(BROKEN),
        true if code == ExitCode::SUCCESS => ExitCode::from(LOST),
        _ => code,
    })
}

fn print_text(done: &Done, found: Option<&str>) {
    let Record { envelope, summary } = &done.record;
    let verdict = &done.details.verdict;
    print_line(format_args!("{}", verdict.tables()));
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
    let cpu: Vec<String> = envelope
        .cpu_s
        .iter()
        .map(|(stage, seconds)| format!("{stage} {seconds:.2} s"))
        .collect();
    print_line(format_args!("CPU: {}", cpu.join(", ")));
    if summary.generator_limited {
        print_line(format_args!(
            "The emulator was the limit of this run: a higher rate may be possible."
        ));
    }
    let host = envelope.host_counters.iter();
    host.flat_map(Changes::lines).for_each(print_line);
    for taint in &envelope.taints {
        print_line(format_args!("TAINTED: {taint}"));
    }
    for file in &summary.files {
        print_line(format_args!("{}", file.display()));
    }
    if let Some(found) = found {
        print_line(found);
    }
    let removed = &summary.output_removed;
    let closing = closing(verdict, Some(&summary.triggers), removed);
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
