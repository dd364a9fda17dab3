//! The end of a session: files are complete, the books are closed, and the summary says how it went.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_ledger::{Condition, Reason};
use forebay_run::{Stop, Urgency};
use forebay_tdm::receiver::{PeerState, PeerTotals, Phase};
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
fn keep_or_leave(mut books: Books, summary: &mut ReceiveSummary) {
    let (done, kept) = channel();
    let record = summary.clone();
    std::thread::spawn(move || done.send(books.keep(&record)));
    let failed = match kept.recv_timeout(KEEP) {
        Ok(Ok(None)) => return,
        Ok(Ok(Some(unkept))) => return summary.not_kept(unkept),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the directory of the record does not answer: the record is not there, and the ledger stays in memory until the next run of any program can bring it home".to_owned(),
    };
    let before = summary.failed.take();
    summary.failed = Some(before.map_or(failed.clone(), |before| format!("{before}; {failed}")));
}

impl Work<'_> {
    pub(super) fn conclude(
        mut self,
        plan: &ReceivePlan,
        worked: Result<(), TdmError>,
        begun: Instant,
        stop: &Stop,
    ) -> Result<ReceiveSummary, TdmError> {
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
        let (removed, is_homeless) = self.books.is_removed()?;
        let (condition, reason) = match self.verdict(plan, stop.is_asked()) {
            (Condition::Ended, _) if removed.any() || is_homeless => {
                (Condition::Tainted, Reason::OutputRemoved)
            }
            other => other,
        };
        let verdict = self.books.close(condition, reason)?;
        let mut summary = summary::of(
            &self.receiver,
            &self.sums,
            verdict.closed_books(),
            summary::Host {
                plan,
                wrong: ended.wrong,
                heaps: ended.heaps,
                handed_on: ended.handed_on,
                not_written: not_written(&ended.written, self.books.missed_by_sender()),
                output_removed: removed,
                stalls: self.stalls.summary(),
                grants_held: self.receiver.grants_held(),
                queue_bytes: self.writer.bytes(),
                refused: self.outbound.refused + self.receiver.unsent(),
                lines_untold: self.lines_untold,
                wall_clock_steps: self.clock.steps(),
                seconds: begun.elapsed().as_secs_f64(),
                failed: self.failed.clone(),
            },
        );
        if is_given_up {
            keep_or_leave(self.books, &mut summary);
        } else {
            self.outputs.conclude(&mut summary, &verdict.balance);
            if let Some(unkept) = self.books.keep(&summary)? {
                summary.not_kept(unkept);
            }
        }
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
            Phase::Over(EndReason::Complete) => (Condition::Ended, Reason::InputEnded),
            // Who is silent has not told its totals: nobody knows what it sent last.
            Phase::Over(_) if peers.any(is_untold) => (Condition::Tainted, Reason::ConnectionLost),
            Phase::Over(EndReason::Interrupted) => (Condition::Ended, Reason::Requested),
            Phase::Over(EndReason::Failed) => (Condition::Tainted, Reason::ConnectionLost),
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
