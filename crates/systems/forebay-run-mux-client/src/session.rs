//! A place at the multiplexer, from the welcome to the farewell: over a stack, or raw.

use std::time::{Duration, Instant};

use forebay_client::protocol::Welcome;
use forebay_client::{Client, ClientError, Counts};

use crate::counts::{Amount, SendCounts, TcpCounts, WorkCounts};
use crate::raw::Raw;
use crate::stack::Stack;
use crate::workload::Workload;

/// The multiplexer has so long to take what was sent before the end.
const TAKEN_TIME: Duration = Duration::from_secs(1);
/// One look at what it took.
const LOOK: Duration = Duration::from_millis(1);

/// A client at its place.
pub(crate) enum Session {
    Stack(Box<Stack>),
    Raw(Box<Raw>),
}

/// What a client counts in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Of raw frames; over a stack the workload has its own.
    pub(crate) work: WorkCounts,
    pub(crate) send: SendCounts,
    pub(crate) tcp: TcpCounts,
    pub(crate) frames: Frames,
}

/// Frames between client and multiplexer, and what became of them beside datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frames {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) no_room: u64,
    pub(crate) answers_lost: u64,
    pub(crate) others: u64,
}

impl Frames {
    /// With those of a session more.
    pub(crate) fn and(mut self, session: &Session) -> Self {
        let counts = session.frames();
        self.received += counts.received;
        self.received_bytes += counts.received_bytes;
        self.sent += counts.sent;
        self.sent_bytes += counts.sent_bytes;
        match session {
            Session::Stack(stack) => {
                let counts = stack.device().counts();
                self.no_room += counts.no_room;
                self.answers_lost += counts.answers_lost;
                self.others += counts.foreign_tag;
            }
            Session::Raw(raw) => self.others += raw.others(),
        }
        self
    }
}

impl Session {
    fn client_mut(&mut self) -> &mut Client {
        match self {
            Self::Stack(stack) => stack.client_mut(),
            Self::Raw(raw) => raw.client_mut(),
        }
    }

    fn client(&self) -> &Client {
        match self {
            Self::Stack(stack) => stack.device().client(),
            Self::Raw(raw) => raw.client(),
        }
    }

    pub(crate) fn welcome(&self) -> &Welcome {
        self.client().welcome()
    }

    fn frames(&self) -> Counts {
        self.client().counts()
    }

    /// Receives and sends what there is; whether there was something.
    pub(crate) fn turn(
        &mut self,
        now_ns: u64,
        workload: &mut Workload,
        totals: &mut Totals,
    ) -> Result<bool, ClientError> {
        match self {
            Self::Stack(stack) => {
                let worked = stack.turn(now_ns, workload, &mut totals.send, &mut totals.tcp);
                totals.send.due = workload.due();
                worked
            }
            Self::Raw(raw) => raw.turn(&mut totals.work, &mut totals.send, workload.leak_mut()),
        }
    }

    /// Sleeps until there is something to do, for `most` at most.
    pub(crate) fn wait(&mut self, now_ns: u64, most: Duration) -> Result<(), ClientError> {
        let most = match self {
            Self::Stack(stack) => stack.patience(now_ns, most),
            Self::Raw(_) => most,
        };
        self.client_mut().wait(Instant::now() + most).map(drop)
    }

    pub(crate) fn flush(&mut self) {
        self.client_mut().flush();
    }

    /// Datagrams that were handed to the multiplexer.
    pub(crate) fn sent(&self) -> Amount {
        match self {
            Self::Stack(stack) => stack.sent(),
            Self::Raw(raw) => raw.sent(),
        }
    }

    /// Datagrams that are due and were taken from the workload.
    pub(crate) fn held(&self) -> Amount {
        match self {
            Self::Stack(stack) => stack.held(),
            Self::Raw(_) => Amount::default(),
        }
    }

    /// Waits until the multiplexer has taken all frames: what it has not taken when the client goes is nobody's.
    pub(crate) fn part(&mut self) -> Result<(), ClientError> {
        let until = Instant::now() + TAKEN_TIME;
        self.flush();
        while self.client_mut().frames_on_their_way()? > 0 && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
