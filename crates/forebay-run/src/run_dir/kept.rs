//! The ledger of one process and where it stays.

use std::path::Path;

use forebay_ledger::{Condition, LedgerReader, Reason, RunWriter, Schema, Words};
use forebay_sys::clock;

use super::RunDir;
use crate::error::RunError;

/// A ledger in a run directory, or nowhere but in this process.
pub(crate) struct KeptLedger {
    words: Words,
    run: RunWriter,
    directory: Option<RunDir>,
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
    pub(crate) fn open(
        schema: &Schema,
        run_id: &str,
        out: Option<&Path>,
        sources: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let mut directory = None;
        let words = match out {
            Some(out) => {
                let mut made = RunDir::prepare(out, run_id, warnings)?;
                made.reserve(schema.bytes_needed() as u64, sources)?;
                let (words, _) = made.create_ledger(schema.bytes_needed() as u64)?;
                directory = Some(made);
                words
            }
            None => Words::zeroed(schema.words_needed()),
        };
        let run = RunWriter::format(schema, &words, std::process::id(), clock::realtime_ns())?;
        run.set_condition(Condition::Running, Reason::None);
        Ok(Self {
            words,
            run,
            directory,
        })
    }

    /// Its memory, for the writers of groups.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// For whoever shows it.
    pub(crate) fn reader(&self) -> Result<LedgerReader, RunError> {
        Ok(LedgerReader::open(&self.words)?)
    }

    pub(crate) fn heartbeat(&self) {
        self.run.heartbeat(clock::realtime_ns());
    }

    /// Closes it.
    pub(crate) fn close(&mut self, condition: Condition, reason: Reason) {
        self.run.finish(condition, reason, clock::realtime_ns());
    }

    /// Leaves ledger and record in the run's directory, if there is one.
    pub(crate) fn keep(&mut self, record: &str) -> Result<(), RunError> {
        if let Some(directory) = &mut self.directory {
            directory.keep_ledger()?;
            directory.write_record(record)?;
        }
        Ok(())
    }
}
