//! The ledger of one process and where it stays.

use std::net::SocketAddr;
use std::path::Path;

use forebay_host::{Changes, Reading};
use forebay_ledger::{
    Condition, LedgerReader, Reason, RunWriter, Schema, Supervisor, Taint, TaintKind, Verdict,
    Words, audit, audit_at_end,
};
use forebay_sys::clock;
use serde::Serialize;

use super::RunDir;
use crate::error::RunError;
use crate::metrics::{MetricsServer, Shown};
use crate::record::{Envelope, Record};

/// A ledger in a run directory, or nowhere but in this process.
pub struct KeptLedger {
    words: Words,
    run: RunWriter,
    /// When it began, by the monotonic clock.
    began_ns: u64,
    directory: Option<RunDir>,
    /// The host's counters at the start, for the record.
    host: Option<Reading>,
    /// What the operator was told.
    warnings: Vec<String>,
    /// The page, where one was asked for.
    server: Option<MetricsServer>,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// Its condition.
    pub condition: Condition,
    /// The reason of that.
    pub reason: Reason,
    /// What a user of the data must know.
    pub taints: Vec<Taint>,
    /// What failed; none: nothing did.
    pub failed: Option<String>,
}

impl RunEnd {
    /// It ended in order.
    #[must_use]
    pub const fn in_order(reason: Reason) -> Self {
        Self {
            condition: Condition::Ended,
            reason,
            taints: Vec::new(),
            failed: None,
        }
    }
}

impl std::fmt::Debug for KeptLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLedger")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl KeptLedger {
    /// Makes it, in the run directory `out` if there is one, with room for a record of so many sources. `tell` is told what an operator should know; it is in the
    /// record, too.
    ///
    /// # Errors
    /// The directory cannot be made or written, or a live run uses it; or the schema has no place in a ledger.
    pub fn open(
        schema: &Schema,
        run_id: &str,
        out: Option<&Path>,
        sources: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let (mut directory, mut warnings) = (None, Vec::new());
        // Before anybody can see that there is a run: what the host loses from then on is told.
        let host = out.is_some().then(Reading::take);
        let (words, run) = match out {
            Some(out) => {
                let mut made = RunDir::prepare(out, run_id, &mut warnings)?;
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
        warnings.iter().for_each(|warning| tell(warning));
        Ok(Self {
            words,
            run,
            began_ns: clock::monotonic_ns(),
            host,
            directory,
            warnings,
            server: None,
        })
    }

    /// Its memory, for the writers of groups.
    #[must_use]
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// For code that shows it.
    ///
    /// # Errors
    /// The memory is no ledger any more.
    pub fn reader(&self) -> Result<LedgerReader, RunError> {
        Ok(LedgerReader::open(&self.words)?)
    }

    /// The content of its metrics page, which answers at `address` as long as the ledger lives; without an address nobody is answered.
    ///
    /// # Errors
    /// The address is in use.
    pub fn page(&mut self, address: Option<SocketAddr>) -> Result<Shown, RunError> {
        let shown = Shown::from(self.reader()?);
        let server = address.map(|address| MetricsServer::start(address, shown.clone()));
        self.server = server.transpose()?;
        Ok(shown)
    }

    /// A sign of life, with how long the run has lasted by the monotonic clock.
    pub fn heartbeat(&self) {
        self.run.heartbeat(clock::realtime_ns());
        self.lasted();
    }

    fn lasted(&self) {
        self.run.lasted(clock::monotonic_ns() - self.began_ns);
    }

    fn close(&mut self, condition: Condition, reason: Reason) {
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

    /// Closes it: what the audit will say of it, and what every record says. A run that ended is tainted by the first of `taints`, and by the loss of its directory.
    ///
    /// # Errors
    /// The memory is no ledger any more.
    pub fn end(
        &mut self,
        condition: Condition,
        reason: Reason,
        mut taints: Vec<Taint>,
    ) -> Result<(Verdict, Envelope), RunError> {
        if let Some(gone) = self.directory.as_ref().filter(|it| it.is_gone()) {
            let directory = gone.path().display();
            let text = format!("{directory} was removed or renamed during the run");
            taints.insert(0, Taint::new(TaintKind::OutputRemoved, text));
        }
        let books = audit_at_end(&self.reader()?.snapshot()?).closed_books();
        if !books.is_closed() {
            let text = format!(
                "{} items, {} bytes are left over; {} items, {} bytes are left inside",
                books.residual_items, books.residual_bytes, books.left_items, books.left_bytes
            );
            taints.push(Taint::new(TaintKind::Residual, text));
        }
        let (condition, reason) = Taint::taint(&taints, condition, reason);
        self.close(condition, reason);
        let reader = self.reader()?;
        let snapshot = reader.snapshot()?;
        let verdict = audit(&snapshot, Supervisor::Alive);
        let program = snapshot.program().unwrap_or_default().to_owned();
        let duration_s = (clock::monotonic_ns() - self.began_ns) as f64 / 1e9;
        let host = self.host.as_ref();
        let envelope = Envelope {
            taints,
            warnings: self.warnings.clone(),
            host_counters: host.map(|before| Changes::between(before, &Reading::take())),
            ..Envelope::of_process(&program, reader.run_id(), duration_s)
        };
        let envelope = envelope.with(&verdict);
        Ok((verdict, envelope))
    }

    /// Closes it, and leaves it with the record in the run's directory, if there is one: the record is `summary` beside what every record says.
    ///
    /// # Errors
    /// Those of [`Self::end`] and [`Self::keep`].
    pub fn conclude<S: Serialize>(
        &mut self,
        end: RunEnd,
        summary: impl FnOnce(&Envelope) -> S,
    ) -> Result<Record<S>, RunError> {
        let (_, mut envelope) = self.end(end.condition, end.reason, end.taints)?;
        envelope.failed = end.failed;
        let summary = summary(&envelope);
        let mut record = Record { envelope, summary };
        self.keep(&mut record)?;
        Ok(record)
    }

    /// Leaves the ledger and the record in the run's directory, if there is one. Where somebody removed or renamed it, the record says that it is
    /// [`unkept`](Envelope::unkept), and warns of that.
    ///
    /// # Errors
    /// They cannot be written there, or the record cannot be written down.
    pub fn keep<S: Serialize>(&mut self, record: &mut Record<S>) -> Result<(), RunError> {
        let Some(directory) = &mut self.directory else {
            return Ok(());
        };
        if let Some(why) = directory.leave_ledger() {
            let envelope = &mut record.envelope;
            if !envelope.is_tainted(TaintKind::OutputRemoved) {
                // It went after the books were closed.
                let taint = Taint::new(TaintKind::OutputRemoved, why.clone());
                envelope.taints.push(taint);
            }
            envelope.leave(&why);
            return Ok(());
        }
        directory.keep_ledger()?;
        directory.write_record(record)
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
            let mut warn = |warning: &str| panic!("{warning}");
            let mut kept = KeptLedger::open(&schema, run_id, Some(out), 1, &mut warn).unwrap();
            let ended = kept.end(Condition::Ended, Reason::InputEnded, Vec::new());
            let (_, envelope) = ended.unwrap();
            let summary = std::collections::BTreeMap::from([("items", 7)]);
            kept.keep(&mut Record { envelope, summary }).unwrap();
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
            let opened = KeptLedger::open(&schema, run_id, Some(&out), 1, &mut |_| {});
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
