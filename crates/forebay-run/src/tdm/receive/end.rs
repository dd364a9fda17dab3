//! The end of a session: files are complete, the books are closed, and the summary says how it went.

use std::time::Instant;

use forebay_ledger::{Condition, Reason};
use forebay_tdm::receiver::{PeerState, PeerTotals, Phase};
use forebay_wire::tdm::EndReason;

use super::super::TdmError;
use super::{Output, ReceivePlan, ReceiveSummary, Work, summary};
use crate::error::RunError;

impl Work<'_> {
    pub(super) fn conclude(
        mut self,
        plan: &ReceivePlan,
        worked: Result<(), TdmError>,
        begun: Instant,
        stopped: bool,
    ) -> Result<ReceiveSummary, TdmError> {
        if let Err(error) = worked {
            self.failed.get_or_insert(error.to_string());
        }
        // An end in the middle of a turn leaves windows that are closed and not booked.
        if let Err(error) = self.settle(plan, &mut |_: &str| {}) {
            self.failed.get_or_insert(error.to_string());
        }
        let totals = |peer: &PeerTotals| peer.own.map(|own| own.heaps);
        let heaps_sent: Vec<Option<u64>> = self.receiver.peers().map(totals).collect();
        for (sender, written) in self.streams.finish(&heaps_sent) {
            self.books.written(sender, &written);
        }
        for (sender, became) in self.streams.heaps_became() {
            self.books.heaps(sender, &became);
        }
        if let Some(failure) = self.streams.failure() {
            self.failed.get_or_insert(failure);
        }
        self.outputs.end();
        if let Some(failure) = self.outputs.failed.take() {
            self.failed.get_or_insert(failure);
        }
        if let Phase::Failed(error) = self.receiver.phase() {
            self.failed
                .get_or_insert(format!("there is no plan: {error}"));
        }
        self.sums.lost_bytes += self.books.unwritten.0;
        self.sums.lost_ranges += self.books.unwritten.1;
        self.books.commit();
        let (condition, reason) = self.verdict(plan, stopped);
        self.books.close(condition, reason);
        let snapshot = self.books.reader()?.snapshot().map_err(RunError::from)?;
        let balance = snapshot.balance();
        let mut summary = summary::of(
            &self.receiver,
            &self.sums,
            &balance,
            summary::Host {
                plan,
                wrong: self.streams.wrong,
                heaps: self.books.heaps_by_sender(),
                handed_on: std::mem::take(&mut self.streams.handed_on),
                refused: self.outbound.refused + self.receiver.unsent(),
                wall_clock_steps: self.clock.steps(),
                seconds: begun.elapsed().as_secs_f64(),
                failed: self.failed.clone(),
            },
        );
        self.outputs.conclude(&mut summary, &balance);
        self.books.keep(&summary)?;
        Ok(summary)
    }

    /// How the session ended, for whoever finds its books.
    fn verdict(&self, plan: &ReceivePlan, stopped: bool) -> (Condition, Reason) {
        if self.failed.is_some() {
            let reason = match (self.receiver.phase(), &plan.output) {
                (Phase::Failed(_), _) => Reason::StartFailed,
                (_, Output::Messages(_)) => Reason::ConnectionLost,
                _ => Reason::WriteFailed,
            };
            return (Condition::Interrupted, reason);
        }
        let is_untold = |peer: &PeerTotals| peer.state == PeerState::Dead && !peer.sent_is_known();
        let mut peers = self.receiver.peers();
        match self.receiver.phase() {
            Phase::Over(EndReason::Complete) => (Condition::Complete, Reason::InputEnded),
            // Who is silent has not told its totals: nobody knows what it sent last.
            Phase::Over(_) if peers.any(is_untold) => (Condition::Tainted, Reason::ConnectionLost),
            Phase::Over(EndReason::Interrupted) => (Condition::Complete, Reason::Requested),
            Phase::Over(EndReason::Failed) => (Condition::Tainted, Reason::ConnectionLost),
            // It was left while windows were open.
            _ if stopped => (Condition::Interrupted, Reason::Requested),
            _ => (Condition::Interrupted, Reason::ConnectionLost),
        }
    }
}
