//! The end of a session: files are complete, the books are closed, and the summary says how it went.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_ledger::{Condition, Reason};
use forebay_run::record::Record;
use forebay_run::{Stop, Urgency};
use forebay_tdm::receiver::{PeerTotals, Phase};
use forebay_wire::tdm::EndReason;

use super::super::TdmError;
use super::books::{Books, HandOverDrop};
use super::streams::Written;
use super::writer::Ended;
use super::{Output, ReceivePlan, ReceiveSummary, Work, summary};

/// A writer that has got on with nothing for so long is given up at a second order to end, at a third one after a moment.
const GIVE_UP: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(200)];
/// Record and ledger are waited for so long where the disk stood still.
const KEEP: Duration = Duration::from_secs(2);

/// How long the end waits for the writer: without end, unless it is told twice to end and nothing is written any more.
struct Patience<'a> {
    stop: &'a Stop,
    taken: u64,
    since: Instant,
}

impl<'a> Patience<'a> {
    fn new(stop: &'a Stop) -> Self {
        Self {
            stop,
            taken: 0,
            since: Instant::now(),
        }
    }

    /// So many blocks are written: whether the others are waited for.
    fn waits(&mut self, taken: u64) -> bool {
        if taken != self.taken {
            (self.taken, self.since) = (taken, Instant::now());
        }
        let [second, third] = GIVE_UP;
        match self.stop.urgency() {
            Urgency::Go | Urgency::Drain => true,
            Urgency::Hurry => self.since.elapsed() < second,
            Urgency::Now => self.since.elapsed() < third,
        }
    }
}

/// Record and ledger go to a directory that may not answer: where it does not, the ledger stays in memory.
fn keep_or_leave(mut books: Books, record: &mut Record<ReceiveSummary>) {
    let (done, kept) = channel();
    let mut own = record.clone();
    std::thread::spawn(move || {
        let kept = books.keep(&mut own).map_err(|error| error.to_string());
        // The thread that waited may have ended.
        let _ = done.send(kept.map(|()| own.envelope));
    });
    let failed = match kept.recv_timeout(KEEP) {
        Ok(Ok(envelope)) => {
            record.envelope = envelope;
            return;
        }
        Ok(Err(error)) => error,
        Err(_) => "the directory of the record does not answer: the record is not there, and the ledger stays in memory until the next run of any program can bring it home".to_owned(),
    };
    record.envelope.fail(failed);
}

impl Work<'_> {
    pub(super) fn conclude(
        mut self,
        plan: &ReceivePlan,
        worked: Result<(), TdmError>,
        stop: &Stop,
    ) -> Result<Record<ReceiveSummary>, TdmError> {
        if let Err(error) = worked {
            self.failed.get_or_insert(error.to_string());
        }
        // An end in the middle of a turn leaves windows that are closed and not booked.
        self.settle(&mut |_: &str| {});
        let totals = |peer: &PeerTotals| peer.own.map(|own| own.heaps);
        let heaps_sent: Vec<Option<u64>> = self.receiver.peers().map(totals).collect();
        self.books.handed_over(self.writer.sums());
        let mut patience = Patience::new(stop);
        let finished = self
            .writer
            .finish(heaps_sent, |taken| patience.waits(taken));
        let is_given_up = matches!(finished, Ok(None));
        let ended = match finished {
            Ok(Some(ended)) => ended,
            Ok(None) => self.books.write_off(&self.writer.outstanding())?,
            Err(error) => Ended {
                failed: Some(error),
                ..Ended::default()
            },
        };
        if let Some(failure) = &ended.failed {
            self.failed.get_or_insert(failure.clone());
        }
        if !is_given_up {
            self.outputs.end();
        }
        if let Some(failure) = self.outputs.failed.take() {
            self.failed.get_or_insert(failure);
        }
        if let Phase::Failed(error) = self.receiver.phase() {
            self.failed
                .get_or_insert(format!("there is no plan: {error}"));
        }
        self.sums.lost_bytes += ended.unwritten.0;
        self.sums.lost_ranges += ended.unwritten.1;
        self.books.queue(self.writer.bytes());
        self.books.commit(self.writer.sums());
        let host = summary::Host {
            plan,
            wrong: ended.wrong,
            heaps: ended.heaps,
            handed_on: ended.handed_on,
            not_written: not_written(&ended.written, self.books.missed_by_sender()),
            output_removed: self.books.removed_output()?,
            stalls: self.stalls.summary(),
            grants_held: self.receiver.grants_held(),
            queue_bytes: self.writer.bytes(),
            refused: self.outbound.refused + self.receiver.unsent(),
            lines_untold: self.lines_untold,
            wall_clock_steps: self.clock.steps(),
        };
        let mut summary = summary::of(&self.receiver, &self.sums, host);
        let (condition, reason) = self.verdict(plan, stop.is_asked());
        let taints = summary.taints(self.failed.as_deref());
        let (verdict, mut envelope) = self.books.close(condition, reason, taints)?;
        envelope.failed = summary.failed(self.failed.as_deref());
        let handed_on = summary.by_sender.iter_mut();
        for handed_on in handed_on.filter_map(|sender| sender.handed_on.as_mut()) {
            envelope.include(&mut handed_on.envelope, |_| false);
        }
        let mut record = Record { envelope, summary };
        if is_given_up {
            keep_or_leave(self.books, &mut record);
        } else {
            self.outputs.conclude(&mut record, &verdict.balance);
            self.books.keep(&mut record)?;
        }
        Ok(record)
    }

    /// How the session ended, for a reader of its books.
    fn verdict(&self, plan: &ReceivePlan, stopped: bool) -> (Condition, Reason) {
        if self.failed.is_some() {
            let reason = match (self.receiver.phase(), &plan.output) {
                (Phase::Failed(_), _) => Reason::StartFailed,
                (_, Output::Messages(_)) => Reason::ConnectionLost,
                _ => Reason::WriteFailed,
            };
            return (Condition::Interrupted, reason);
        }
        match self.receiver.phase() {
            Phase::Over(EndReason::Complete) => (Condition::Ended, Reason::InputEnded),
            Phase::Over(EndReason::Interrupted) => (Condition::Ended, Reason::Requested),
            Phase::Over(EndReason::Failed) => (Condition::Ended, Reason::ConnectionLost),
            // It was left while windows were open.
            _ if stopped => (Condition::Interrupted, Reason::Requested),
            _ => (Condition::Interrupted, Reason::ConnectionLost),
        }
    }
}

/// Packets of each sender that came and were not written, by reason.
fn not_written(written: &[Written], missed: &[(u64, u64)]) -> Vec<BTreeMap<&'static str, u64>> {
    let senders = missed.iter().enumerate().map(|(at, missed)| {
        let dropped = written.get(at).copied().unwrap_or_default().dropped;
        let dropped = dropped.iter().map(|(why, sum)| (why.name(), sum.packets));
        let missed = (HandOverDrop::QueueFull.name(), missed.0);
        dropped.chain([missed]).collect()
    });
    senders.collect()
}
