//! The ledger of one process and where it stays.

use std::path::Path;

use forebay_host::{Changes, Reading};
use forebay_ledger::{
    Condition, LedgerReader, Reason, RunWriter, Schema, Supervisor, Verdict, Words, audit,
    audit_at_end,
};
use forebay_sys::clock;
use serde::Serialize;

use super::RunDir;
use crate::error::RunError;

/// A ledger in a run directory, or nowhere but in this process.
pub struct KeptLedger {
    words: Words,
    run: RunWriter,
    /// When it began, by the monotonic clock.
    began_ns: u64,
    directory: Option<RunDir>,
    /// The host's counters at the start, for the record.
    host: Option<Reading>,
}

impl std::fmt::Debug for KeptLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLedger")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl KeptLedger {
    /// Makes it, in the run directory `out` if there is one, with room for a record of so many sources.
    ///
    /// # Errors
    /// The directory cannot be made or written, or a live run uses it; or the schema has no place in a ledger.
    pub fn open(
        schema: &Schema,
        run_id: &str,
        out: Option<&Path>,
        sources: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let mut directory = None;
        let (words, run) = match out {
            Some(out) => {
                let mut made = RunDir::prepare(out, run_id, warnings)?;
                made.reserve(schema.bytes_needed() as u64, sources)?;
                let (words, _, run) = made.create_ledger(schema)?;
                directory = Some(made);
                (words, run)
            }
            None => {
                let words = Words::zeroed(schema.words_needed());
                let (pid, start_ns) = (std::process::id(), clock::realtime_ns());
                let run = RunWriter::format(schema, &words, pid, start_ns)?;
                (words, run)
            }
        };
        run.set_condition(Condition::Running, Reason::None);
        Ok(Self {
            words,
            run,
            began_ns: clock::monotonic_ns(),
            host: directory.is_some().then(Reading::take),
            directory,
        })
    }

    /// Its memory, for the writers of groups.
    #[must_use]
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// For whoever shows it.
    ///
    /// # Errors
    /// The memory is no ledger any more.
    pub fn reader(&self) -> Result<LedgerReader, RunError> {
        Ok(LedgerReader::open(&self.words)?)
    }

    /// A sign of life, with how long the run has lasted by the monotonic clock.
    pub fn heartbeat(&self) {
        self.run.heartbeat(clock::realtime_ns());
        self.lasted();
    }

    fn lasted(&self) {
        self.run.lasted(clock::monotonic_ns() - self.began_ns);
    }

    /// Closes it, with how the run ended and why.
    pub fn close(&mut self, condition: Condition, reason: Reason) {
        self.lasted();
        self.run.finish(condition, reason, clock::realtime_ns());
    }

    /// What the audit says of it, as it was last shown. Of a ledger that is closed it is what `forebay audit` will say.
    ///
    /// # Errors
    /// The memory is no ledger any more, or a writer commits faster than it can be read.
    pub fn verdict(&self) -> Result<Verdict, RunError> {
        Ok(audit(&self.reader()?.snapshot()?, Supervisor::Alive))
    }

    /// What the audit will say of it when it is closed, as it was last shown.
    pub fn verdict_at_end(&self) -> Result<Verdict, RunError> {
        Ok(audit_at_end(&self.reader()?.snapshot()?))
    }

    /// Whether there was a run directory, and somebody removed or renamed it.
    #[must_use]
    pub fn is_homeless(&self) -> bool {
        self.directory.as_ref().is_some_and(RunDir::is_gone)
    }

    /// Leaves the ledger, and the summary with the run's name as its record, in the run's directory, if there is one.
    ///
    /// # Errors
    /// They cannot be written there, or the summary cannot be written down.
    pub fn keep_summary(&mut self, summary: &impl Serialize) -> Result<(), RunError> {
        if let Some(directory) = &mut self.directory {
            let record = Record::of(directory, self.host.as_ref(), summary);
            let record = serde_json::to_string_pretty(&record);
            let record = record.map_err(RunError::not_sayable("record"))?;
            directory.keep_ledger()?;
            directory.write_record(&record)?;
        }
        Ok(())
    }

    /// The same; what cannot lie there, since somebody removed or renamed the directory, is the caller's to tell.
    ///
    /// # Errors
    /// As of [`Self::keep_summary`].
    pub fn keep_or_tell(&mut self, summary: &impl Serialize) -> Result<Option<Unkept>, RunError> {
        let left = self.directory.as_mut();
        let left = left.and_then(|it| Some((it.leave_ledger()?, it)));
        let Some((why, directory)) = left else {
            return self.keep_summary(summary).map(|()| None);
        };
        let why = format!("{why}; the record goes to standard output");
        let record = Record::of(directory, self.host.as_ref(), summary);
        let record = serde_json::to_value(&record).map_err(RunError::not_sayable("record"))?;
        Ok(Some(Unkept { why, record }))
    }
}

/// What could not be left in a run's directory.
#[derive(Debug)]
pub struct Unkept {
    /// For the operator: why, and where the ledger lies.
    pub why: String,
    /// The run's record, which goes to standard output instead.
    pub record: serde_json::Value,
}

/// A summary and the run that it is of: by that name the next run in the directory finds what belongs together.
#[derive(Serialize)]
struct Record<'a, T: Serialize> {
    run_id: &'a str,
    #[serde(flatten)]
    summary: &'a T,
    host_counters: Option<Changes>,
}

impl<'a, T: Serialize> Record<'a, T> {
    fn of(directory: &'a RunDir, host: Option<&Reading>, summary: &'a T) -> Self {
        Self {
            run_id: directory.run_id(),
            summary,
            host_counters: host.map(|before| Changes::between(before, &Reading::take())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_ledger::SchemaBuilder;

    use super::*;

    #[test]
    fn whoever_finds_a_ledger_can_read_it() {
        let mut schema = SchemaBuilder::new("found");
        schema.group("only");
        let schema = schema.finish().unwrap();
        let directory = tempfile::tempdir().unwrap();
        for (name, in_memory) in [("memory", true), ("directory", false)] {
            for round in 0..50 {
                let out = directory.path().join(format!("{name}{round}"));
                let mut made = RunDir::prepare(&out, "found", &mut Vec::new()).unwrap();
                if !in_memory {
                    made.memory = made.path().join("ledger");
                }
                let link = made.path().join("ledger");
                let looking = std::thread::spawn(move || {
                    while fs::symlink_metadata(&link).is_err() {
                        std::hint::spin_loop();
                    }
                    crate::run_dir::open_ledger(&link).map(|_| ())
                });
                let (_words, _file, _run) = made.create_ledger(&schema).unwrap();
                looking.join().unwrap().unwrap();
                assert!(!made.path().join("ledger-making.new").exists());
            }
        }
    }

    #[test]
    fn the_next_run_finds_what_belongs_together() {
        let mut schema = SchemaBuilder::new("together");
        schema.group("only");
        let schema = schema.finish().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        for run_id in ["together", "after"] {
            let mut warnings = Vec::new();
            let mut kept = KeptLedger::open(&schema, run_id, Some(out), 1, &mut warnings).unwrap();
            assert_eq!(warnings, Vec::<String>::new());
            kept.close(Condition::Ended, Reason::InputEnded);
            let summary = std::collections::BTreeMap::from([("items", 7)]);
            kept.keep_summary(&summary).unwrap();
        }
        let record = fs::read_to_string(out.join("run-together.json")).unwrap();
        assert!(record.contains("\"items\": 7"), "{record}");
        assert!(out.join("ledger-together").exists() && out.join("run.json").exists());
    }

    #[test]
    fn a_ledger_that_was_left_by_a_process_of_the_same_number_is_in_nobodys_way() {
        let run_id = "card-left-behind";
        let mut schema = SchemaBuilder::new(run_id);
        schema.group("only");
        let schema = schema.finish().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let out = directory.path().join(name);
            let opened = KeptLedger::open(&schema, run_id, Some(&out), 1, &mut Vec::new());
            (opened.unwrap(), fs::read_link(out.join("ledger")).unwrap())
        };
        // Killed: nothing of it is tidied up.
        let (left, first) = open("killed");
        std::mem::forget(left);
        let (next, second) = open("next");
        assert!(first.exists() && second.exists());
        assert_ne!(first, second);
        assert!(
            second.to_string_lossy().ends_with(".1.ledger"),
            "{second:?}"
        );
        drop(next);
        assert!(!second.exists());
        fs::remove_file(first).unwrap();
    }
}
