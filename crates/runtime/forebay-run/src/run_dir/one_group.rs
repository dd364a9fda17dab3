//! A ledger of one group with one writer, as programs have it that do all in one thread.

use std::path::Path;

use forebay_ledger::{Book, GroupId, GroupWriter, LedgerReader, Schema};
use serde::Serialize;

use super::{KeptLedger, RunEnd};
use crate::error::RunError;
use crate::record::Record;

/// The ledger, its only writer, and the book that is shown next.
pub struct OneGroup {
    ledger: KeptLedger,
    writer: GroupWriter,
    /// What is shown next.
    pub book: Book,
}

impl OneGroup {
    /// Makes it, in the run directory `out` or nowhere but here.
    ///
    /// # Errors
    /// Those of [`KeptLedger::open`].
    pub fn open(
        schema: &Schema,
        group: GroupId,
        run_id: &str,
        out: Option<&Path>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let ledger = KeptLedger::open(schema, run_id, out, 0, tell)?;
        let writer = GroupWriter::attach(schema, ledger.words(), group)?;
        Ok(Self {
            book: writer.restore(),
            writer,
            ledger,
        })
    }

    /// Shows the book, with a sign of life.
    pub fn show(&mut self) {
        self.writer.commit(&self.book);
        self.ledger.heartbeat();
    }

    /// For code that shows it.
    ///
    /// # Errors
    /// The memory is no ledger any more.
    pub fn reader(&self) -> Result<LedgerReader, RunError> {
        self.ledger.reader()
    }

    /// Closes it, and leaves ledger and record in the run's directory, if there is one.
    ///
    /// # Errors
    /// Those of [`KeptLedger::conclude`].
    pub fn conclude<S: Serialize>(
        mut self,
        end: RunEnd,
        summary: S,
    ) -> Result<Record<S>, RunError> {
        self.ledger.conclude(end, |_| summary)
    }
}
