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

impl Sender {
    pub(super) fn begin_end(&mut self, now_ns: u64) {
        self.close_window(0);
        self.phase = Phase::Ending;
        self.say_ns = now_ns;
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
        if self.phase == Phase::Ending || self.interrupted {
            // There is nothing to send to another one.
            self.over(Over::NoReceiver, now_ns);
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
