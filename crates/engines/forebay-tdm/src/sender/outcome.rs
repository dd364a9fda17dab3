//! How it ends, begins anew, and went.

use forebay_wire::tdm::{End, EndReason, Kind, NO_SENDER, RefuseReason, TdmError};

use super::{HELLO_EVERY_NS, NONCE_STEP, Phase, Sender};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Both sides have told each other their totals.
    Complete,
    /// The same, and somebody had asked for the end.
    Interrupted,
    /// The receiver ended the session.
    Stopped(EndReason),
    /// It may not take part.
    Refused(RefuseReason),
    /// It has told its totals, and the receiver did not answer with its own: what came is not known. Complete: all was sent.
    Unconfirmed(EndReason),
    /// No receiver answered, or none any more.
    NoReceiver,
}

/// Why a datagram that came was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is none of this protocol.
    #[error(transparent)]
    Malformed(#[from] TdmError),
    /// Its keyed hash is wrong, or there is none where there should be one.
    #[error("its keyed hash is not that of our key")]
    Key,
    /// It belongs to another session.
    #[error("it belongs to the session {0:016x}, which is not ours")]
    Foreign(u64),
    /// Nothing of the kind is expected now.
    #[error("a {0} is not expected now")]
    Unexpected(Kind),
}

/// What it has sent, and why not more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Windows with at least one packet.
    pub windows: u64,
    /// Packets given to the kernel, refused ones included.
    pub packets: u64,
    /// Of them, refused by the kernel.
    pub errors: u64,
    /// Bytes of payload in all of them.
    pub payload_bytes: u64,
    /// Windows of which the first packet left 20 us late or more.
    pub late: u64,
    /// Windows that were over before all had left that was planned for them and lay ready.
    pub cut: u64,
    /// Windows that were over before it woke up.
    pub preempted: u64,
    /// Windows that were left out because the clocks contradicted each other.
    pub withheld: u64,
    /// Packets that no longer fitted into their window and went with a later one.
    pub carried: u64,
    /// Reports that were given up without an answer.
    pub reports_given_up: u64,
    /// Times that a receiver was lost.
    pub receivers_lost: u64,
    /// Datagrams that came and were not taken.
    pub not_taken: u64,
    /// Of them, those of other sessions.
    pub foreign: u64,
}

/// Sessions that a sender took part in, and what became of their packets: packets sent are those that came, those that were lost, those of which nobody
/// knows, and the residual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// All in which something was sent or that came to their end.
    pub all: u64,
    /// Of them, those that the receiver ended before the input did.
    pub stopped: u64,
    /// Of them, those whose totals the receiver never told.
    pub unconfirmed: u64,
    /// Packets sent in the unconfirmed ones.
    pub unconfirmed_packets: u64,
    /// Packets that came, by the totals that the receiver told.
    pub received: u64,
    /// Packets that were lost, by the same.
    pub lost: u64,
    /// Packets of which the receiver's totals told what became of them: those that came and those that were lost, without those that the kernel had refused.
    pub confirmed_packets: u64,
    /// Bytes of payload of these. Of a session in which some were lost, whose bytes no receiver knows, all that was sent.
    pub confirmed_bytes: u64,
    /// What is neither, of sessions with totals: each without its sign. 0, or the books of one side are wrong.
    pub residual_packets: u64,
}

impl Sessions {
    pub(super) fn confirm(&mut self, totals: &End, here: &Sent) {
        let sent = here.packets;
        self.all += 1;
        self.received = self.received.saturating_add(totals.packets);
        self.lost = self.lost.saturating_add(totals.errors);
        let told = totals.packets.saturating_add(totals.errors);
        self.residual_packets = self.residual_packets.saturating_add(sent.abs_diff(told));
        // What the kernel refused never left, and is lost to the receiver.
        self.confirmed_packets += told.min(sent).saturating_sub(here.errors);
        self.confirmed_bytes += match totals.errors {
            0 => totals.payload_bytes.min(here.payload_bytes),
            _ => here.payload_bytes,
        };
    }

    pub(super) const fn give_up(&mut self, sent: u64) {
        self.all += 1;
        self.unconfirmed += 1;
        self.unconfirmed_packets += sent;
    }
}

impl Sender {
    pub(super) fn begin_end(&mut self, now_ns: u64) {
        self.close_window(0);
        self.phase = Phase::Ending;
        self.say_ns = now_ns;
        self.began_ns = now_ns.max(self.looked_ns);
    }

    /// When the receiver is taken for lost. The totals are waited for no longer than a receiver is.
    pub(super) fn lost_ns(&self) -> u64 {
        let silent_ns = self.heard_ns.saturating_add(self.silence_ns());
        match (self.phase, self.config.wait_ns) {
            (Phase::Ending, 1..) => {
                silent_ns.min(self.began_ns.saturating_add(self.config.wait_ns))
            }
            _ => silent_ns,
        }
    }

    /// Sessions so far, with the one that it is in the middle of as one that nobody has confirmed.
    #[must_use]
    pub const fn sessions(&self) -> Sessions {
        let mut sessions = self.sessions;
        if self.here.packets > 0 && !matches!(self.phase, Phase::Over(_)) {
            sessions.give_up(self.here.packets);
        }
        sessions
    }

    /// Whether somebody asked for the end before it could send, and it was not to wait for whatever comes.
    #[must_use]
    pub const fn was_stopped_early(&self) -> bool {
        self.stopped_early && !self.config.repeat
    }

    /// Whether it ends without knowing what came of packets that it sent. A stream that went on at another receiver was confirmed there; each session of one that
    /// repeats stands for itself.
    #[must_use]
    pub const fn ends_unconfirmed(&self) -> bool {
        let stands = match self.phase {
            Phase::Over(Over::Unconfirmed(_)) => return true,
            Phase::Over(Over::NoReceiver) => true,
            _ => self.config.repeat || self.stopped_early,
        };
        stands && self.sessions().unconfirmed > 0
    }

    pub(super) fn end(&self) -> End {
        End {
            reason: if self.interrupted || self.stopped.is_some() {
                EndReason::Interrupted
            } else {
                EndReason::Complete
            },
            windows: u32::try_from(self.here.windows).unwrap_or(u32::MAX),
            packets: self.here.packets,
            errors: self.here.errors,
            payload_bytes: self.here.payload_bytes,
            stream_bytes: self.offset,
            heaps: self.heaps,
        }
    }

    pub(super) fn over(&mut self, how: Over, now_ns: u64) {
        self.sessions.stopped += u64::from(matches!(how, Over::Stopped(_)));
        if self.config.repeat && !self.interrupted {
            self.begin_anew(now_ns);
            self.hello_ns = now_ns + HELLO_EVERY_NS;
            (self.offset, self.heaps) = (0, 0);
            self.repeats += 1;
        } else {
            self.phase = Phase::Over(how);
        }
    }

    pub(super) fn lose_receiver(&mut self, now_ns: u64) {
        self.close_window(0);
        self.all.receivers_lost += 1;
        self.all.reports_given_up += self.reports.len() as u64;
        let ends = self.phase == Phase::Ending;
        // A sender that was stopped before it could send has nothing that a receiver could confirm.
        let is_idle = self.stopped_early && self.here.packets == 0;
        if (ends && !is_idle) || self.here.packets > 0 {
            self.sessions.give_up(self.here.packets);
        }
        if ends {
            // There is nothing to send to another one.
            let how = match self.stopped {
                Some(reason) => Over::Stopped(reason),
                None if is_idle => Over::Interrupted,
                None => Over::Unconfirmed(self.end().reason),
            };
            self.over(how, now_ns);
        } else {
            self.begin_anew(now_ns);
        }
    }

    /// Everything of the session is forgotten; the input goes on where it stands.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        self.phase = Phase::Hello;
        // What is still under way is not for the start that follows, nor is it that start's.
        self.nonce = self.nonce.wrapping_add(NONCE_STEP).max(1);
        (self.session, self.index, self.start) = (0, NO_SENDER, 0);
        self.welcome = None;
        (self.open, self.next_window) = (None, 0);
        (self.has_joined, self.was_unsure) = (false, false);
        (self.grant, self.granted_ns) = (None, 0);
        self.reports.clear();
        self.preempted_since_report = 0;
        self.here = Sent::default();
        self.stopped = None;
        self.hello_ns = now_ns;
        self.began_ns = now_ns;
    }
}
