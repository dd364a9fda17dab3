//! The end of a run: its condition, what its books say about it, and the ledger's last place.

use forebay_host::{Changes, Reading};
use forebay_ledger::{
    Condition, GroupWriter, Reason, RunStatus, Snapshot, Taint, TaintKind, Words,
};
use forebay_run::error::RunError;
use forebay_run::stage::Order;
use forebay_sink::Left;
use forebay_sys::clock;
use forebay_sys::mapping::{Access, Mapping};

use super::{End, FAIL_LIMIT_NS, Outcome, Supervisor, TICK};
use crate::books::{Books, OfferDrop, SinkDrop};
use crate::plan::{Backpressure, SinkKind};
use crate::stages::Role;

impl Supervisor {
    /// Closes the ledger.
    pub(super) fn close(mut self) -> Result<(Self, Outcome), RunError> {
        for (role, stage) in &self.stages {
            let cpu_s = stage.cpu_ns as f64 / 1e9;
            self.outcome.cpu_s.insert(role.name().to_owned(), cpu_s);
            self.outcome.restarts.insert(role.name(), stage.restarts);
        }
        self.outcome.host = Changes::between(&self.host, &Reading::take());
        self.settle_sinks()?;
        if self.run_dir.is_gone() {
            let directory = self.run_dir.path().display();
            let text = format!("{directory} was removed or renamed during the run");
            self.taint(TaintKind::OutputRemoved, text);
        }
        let reason = match self.outcome.end {
            End::Limit => Reason::LimitReached,
            End::Requested => Reason::Requested,
            End::InputEnded => Reason::InputEnded,
            End::StageLost => Reason::StageLost,
        };
        let (condition, reason) = Taint::taint(&self.outcome.taints, Condition::Ended, reason);
        self.finish(condition, reason);
        let outcome = self.outcome.clone();
        Ok((self, outcome))
    }

    /// Writes the end into the ledger and puts it into the run's directory, or says why it stays in memory.
    fn finish(&mut self, condition: Condition, reason: Reason) {
        self.run.lasted(clock::monotonic_ns() - self.began_ns);
        self.run.finish(condition, reason, clock::realtime_ns());
        self.closed = true;
        if let Err(error) = self.run_dir.keep_ledger() {
            self.outcome.warnings.push(self.run_dir.stays(&error));
        }
    }

    /// What the sinks' books say taints the run, whichever life of the builder it befell; and what a sink left in its queue
    /// is lost by the name of what held it up.
    fn settle_sinks(&mut self) -> Result<(), RunError> {
        let books = Books::declare(&self.plan)?;
        if self.is_builder_gone() {
            self.write_off(&books)?;
        }
        let snapshot = self.reader.snapshot()?;
        for (sink, plan) in self.plan.sinks.clone().into_iter().enumerate() {
            let name = plan.name;
            for (why, lost) in books.sinks[sink].account.losses() {
                let kind = match why {
                    SinkDrop::DiskFull => TaintKind::DiskFull,
                    SinkDrop::WriteError => TaintKind::WriteError,
                    SinkDrop::Stalled => TaintKind::SinkStalled,
                    SinkDrop::TooLong => TaintKind::TooLong,
                    SinkDrop::FileCut => TaintKind::OutputRemoved,
                    // The sink itself has said so.
                    SinkDrop::PeerLost => continue,
                };
                self.taint_for(kind, &name, snapshot.tally(lost).0);
            }
            let removed = snapshot.tally(books.sinks[sink].removed).0;
            self.taint_for(TaintKind::OutputRemoved, &name, removed);
            if matches!(plan.backpressure, Backpressure::Block { .. }) {
                self.taint_for(
                    TaintKind::SinkStalled,
                    &name,
                    snapshot
                        .tally(books.offers[sink].account.lost(OfferDrop::QueueFull))
                        .0,
                );
            }
        }
        Ok(())
    }

    /// Taints the run unless the stage itself said so.
    fn taint_for(&mut self, kind: TaintKind, sink: &str, lost: u64) {
        let is_said = self.outcome.taints.iter().any(|it| it.kind == kind);
        if lost > 0 && !is_said {
            self.taint(kind, format!("sink {sink} lost {lost} events"));
        }
    }

    /// Whether nobody writes into the sinks' books any more: a builder that ended has ended the tenure of its sinks.
    fn is_builder_gone(&self) -> bool {
        self.stages
            .get(&Role::Builder)
            .is_none_or(|stage| stage.worker.is_none() && !stage.runs_away)
    }

    /// The builder ended although a sink did not: nobody else writes into that sink's books, and this is its last will.
    fn write_off(&mut self, books: &Books) -> Result<(), RunError> {
        let words = Words::new(Mapping::of_fd(&self.ledger, Access::ReadWrite)?);
        let snapshot = self.reader.snapshot()?;
        for sink in 0..self.plan.sinks.len() {
            // A null sink has no queue, and books in the builder's own group.
            if self.plan.sinks[sink].kind != SinkKind::Null
                && let Err(error) = self.write_off_one(sink, books, &words, &snapshot)
            {
                let name = &self.plan.sinks[sink].name;
                let text = format!("what sink {name} left in its queue cannot be counted: {error}");
                self.outcome.warnings.push(text);
            }
        }
        Ok(())
    }

    fn write_off_one(
        &self,
        sink: usize,
        books: &Books,
        words: &Words,
        snapshot: &Snapshot,
    ) -> Result<(), RunError> {
        let own = &books.sinks[sink];
        let mut writer = GroupWriter::attach(&books.schema, words, own.group)?;
        let mut book = writer.restore();
        let (head, tail) = (
            book.value(own.head),
            snapshot.value(books.offers[sink].tail),
        );
        if head == tail {
            return Ok(());
        }
        // What it had taken and not settled stands in its books; the rest lies in the queue.
        let held = book.tally(own.account.held);
        book.sub_tally(own.account.held, held.0, held.1);
        book.add_tally(own.account.lost(SinkDrop::Stalled), held.0, held.1);
        let from = book.value(own.pulled).max(head);
        let left = Left::count(&self.plan.sink_ring(sink), &self.sinks[sink], (from, tail))?;
        // Its records came in, and the events that lie in them are lost.
        for term in [own.taken, own.account.incoming] {
            book.add_tally(term, left.taken.0, left.taken.1);
        }
        let stalled = own.account.lost(SinkDrop::Stalled);
        book.add_tally(stalled, left.found.0, left.found.1);
        for word in [own.head, own.pulled] {
            book.set(word, left.end);
        }
        writer.commit(&book);
        Ok(())
    }

    /// A run that fails half-way: its stages are told, given a moment, and ended.
    fn fail(&mut self) {
        for stage in self.stages.values() {
            let _ = stage
                .worker
                .as_ref()
                .map(|worker| worker.order(Order::Stop));
        }
        let limit_ns = clock::monotonic_ns() + FAIL_LIMIT_NS;
        for stage in self.stages.values_mut() {
            let Some(mut worker) = stage.worker.take() else {
                continue;
            };
            while clock::monotonic_ns() < limit_ns && matches!(worker.poll_end(), Ok(None)) {
                std::thread::sleep(TICK);
            }
            if clock::monotonic_ns() >= limit_ns {
                worker.kill();
            }
        }
    }
}

impl Drop for Supervisor {
    /// No stage outlives its run, and no ledger stays in memory without a run.
    fn drop(&mut self) {
        self.fail();
        // What never began leaves nothing: the directory is put back as it was.
        let begun = |run: RunStatus| run.condition != Condition::Starting;
        if !self.closed && self.reader.run_status().is_ok_and(begun) {
            self.finish(Condition::Interrupted, Reason::StageLost);
        }
    }
}
