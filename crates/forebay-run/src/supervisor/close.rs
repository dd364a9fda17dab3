//! The end of a run: its condition, what its books say about it, and the ledger's last place.

use forebay_ledger::{Condition, GroupWriter, Reason, Snapshot, Words};
use forebay_sys::clock;
use forebay_sys::mapping::{Access, Mapping};

use super::{End, FAIL_LIMIT_NS, Outcome, Supervisor, TICK};
use crate::books::{Books, SINK_DISK_FULL, SINK_STALLED, SINK_WRITE_ERROR};
use crate::error::RunError;
use crate::plan::Backpressure;
use crate::stage::Order;

impl Supervisor {
    /// Closes the ledger.
    pub(super) fn close(mut self) -> Result<(Self, Outcome), RunError> {
        for (role, stage) in &self.stages {
            self.outcome
                .cpu_seconds
                .insert(role.name(), stage.cpu_ns as f64 / 1e9);
            self.outcome.restarts.insert(role.name(), stage.restarts);
        }
        self.settle_sinks()?;
        let reason = match self.outcome.end {
            End::Limit => Reason::LimitReached,
            End::Requested => Reason::Requested,
            End::InputEnded => Reason::InputEnded,
            End::StageLost => Reason::StageLost,
        };
        let taint = self.outcome.taints.first().map(|text| taint_reason(text));
        let condition = if taint.is_some() {
            Condition::Tainted
        } else {
            Condition::Complete
        };
        self.finish(condition, taint.unwrap_or(reason));
        let outcome = self.outcome.clone();
        Ok((self, outcome))
    }

    /// Writes the end into the ledger and puts it into the run's directory, or says why it stays in memory.
    fn finish(&mut self, condition: Condition, reason: Reason) {
        self.run.finish(condition, reason, clock::realtime_ns());
        self.closed = true;
        if let Err(error) = self.run_dir.keep_ledger() {
            self.outcome.warnings.push(format!("{error}; the ledger stays in memory, where `forebay audit` finds it until the host is restarted"));
        }
    }

    /// What the sinks' books say taints the run, whichever life of the builder it befell; and what a sink left in its queue
    /// is lost by the name of what held it up.
    fn settle_sinks(&mut self) -> Result<(), RunError> {
        let books = Books::declare(&self.plan)?;
        let stalled = |text: &String| text.starts_with("sink_stalled");
        if self.own_processes && self.outcome.taints.iter().any(stalled) {
            self.write_off(&books)?;
        }
        let snapshot = self.reader.snapshot()?;
        for (sink, plan) in self.plan.sinks.clone().into_iter().enumerate() {
            let lost = |reason: usize| snapshot.tally(books.sinks[sink].account.dropped[reason]).0;
            let name = plan.name;
            for (reason, condition) in [
                (SINK_DISK_FULL, "disk_full"),
                (SINK_WRITE_ERROR, "write_error"),
                (SINK_STALLED, "sink_stalled"),
            ] {
                self.taint_for(condition, &name, lost(reason));
            }
            if matches!(plan.backpressure, Backpressure::Block { .. }) {
                self.taint_for(
                    "sink_stalled",
                    &name,
                    snapshot.tally(books.offers[sink].account.dropped[0]).0,
                );
            }
        }
        Ok(())
    }

    /// Taints the run unless the stage itself said so.
    fn taint_for(&mut self, condition: &str, sink: &str, lost: u64) {
        let said = |text: &String| text.starts_with(&format!("{condition}:"));
        if lost > 0 && !self.outcome.taints.iter().any(said) {
            self.taint(format!("{condition}: sink {sink} lost {lost} events"));
        }
    }

    /// The builder ended although a sink did not: the only writer of that sink's books is dead, and this is its last will.
    fn write_off(&self, books: &Books) -> Result<(), RunError> {
        let words = Words::new(Mapping::of_fd(&self.ledger, Access::ReadWrite)?);
        let snapshot: Snapshot = self.reader.snapshot()?;
        for (offer, sink) in books.offers.iter().zip(&books.sinks) {
            let (published, taken) = (snapshot.tally(offer.published), snapshot.tally(sink.taken));
            let left = (
                published.0.saturating_sub(taken.0),
                published.1.saturating_sub(taken.1),
            );
            if left.0 == 0 {
                continue;
            }
            let mut writer = GroupWriter::attach(&books.schema, &words, sink.group)?;
            let mut book = writer.restore();
            for term in [
                sink.taken,
                sink.account.incoming,
                sink.account.dropped[SINK_STALLED],
            ] {
                book.add_tally(term, left.0, left.1);
            }
            writer.commit(&book);
        }
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
        if !self.closed {
            let started = self
                .reader
                .run_status()
                .is_ok_and(|run| run.condition != Condition::Starting);
            self.finish(
                Condition::Interrupted,
                if started {
                    Reason::StageLost
                } else {
                    Reason::StartFailed
                },
            );
        }
    }
}

fn taint_reason(text: &str) -> Reason {
    match text.split(':').next() {
        Some("disk_full") => Reason::DiskFull,
        Some("write_error") => Reason::WriteFailed,
        Some("sink_stalled") => Reason::SinkStalled,
        Some("capture_broken") => Reason::InputEnded,
        Some("peer_lost" | "mover_mismatch") => Reason::SinkStalled,
        _ => Reason::StageLost,
    }
}
