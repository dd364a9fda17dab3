//! The program: a place, and another one when the multiplexer went away and comes again.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use forebay_client::protocol::Reason as No;
use forebay_client::{Client, ClientError};
use forebay_ledger::Reason;
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::sched::set_slice;
use forebay_sys::wait;

use crate::books::Books;
use crate::counts::{SendDrop, WorkCounts};
use crate::error::MuxClientError;
use crate::raw::Raw;
use crate::session::{Session, Totals};
use crate::stack::Stack;
use crate::summary::{MuxClientSummary, Place};
use crate::workload::{HOPS, Kind, Workload};

/// Longest wait for the multiplexer's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Books are shown so often, and no sleep is longer.
const SHOW: Duration = Duration::from_millis(100);
/// The kernel gives a client its time in pieces of so long, in ns, as it does for the multiplexer.
const SLICE_NS: u64 = 100_000;
/// A multiplexer that is gone is looked for so often, in ns.
const LOOK_NS: u64 = 50_000_000;

/// A client of the multiplexer that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuxClientPlan {
    /// What it does with what comes.
    pub workload: Kind,
    /// The multiplexer's socket.
    pub socket: PathBuf,
    /// The name of its place.
    pub name: String,
    /// Frames as they are, without an IP stack; for the echo alone.
    pub raw: bool,
    /// Its port of UDP, and of TCP, 1 to 65,535.
    pub port: u16,
    /// How many bits of its addresses name the network: of version 4 (0 to 32) and 6 (0 to 128).
    pub prefixes: [u8; 2],
    /// Ends after so long; none: when it is told to.
    pub duration: Option<Duration>,
    /// Comes again when the multiplexer was gone.
    pub reconnect: bool,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

impl MuxClientPlan {
    /// Takes the place.
    fn connect(&self) -> Result<Session, MuxClientError> {
        let client = Client::connect(&self.socket, &self.name, PATIENCE);
        let client =
            client.map_err(|source| MuxClientError::of_place(&self.name, &self.socket, source))?;
        if self.raw {
            return Ok(Session::Raw(Box::new(Raw::new(client, self.port))));
        }
        if client.welcome().addresses.is_empty() {
            let name = self.name.clone();
            return Err(MuxClientError::NoAddress { name });
        }
        let stack = Stack::open(client, self.port, self.prefixes, self.workload);
        Ok(Session::Stack(Box::new(stack)))
    }

    fn check(&self) -> Result<(), MuxClientError> {
        if self.raw && self.workload != Kind::Echo {
            let workload = self.workload.name();
            return Err(MuxClientError::Raw { workload });
        }
        Ok(())
    }
}

/// Whether the place may be had later: the multiplexer is not there yet, or has not seen that its last client went.
fn may_come(error: &MuxClientError) -> bool {
    match error {
        MuxClientError::Place { source, .. } => match &**source {
            ClientError::Refused(refusal) => {
                matches!(refusal.reason, No::Taken | No::Crowded | No::Resource)
            }
            ClientError::System(_) | ClientError::Silent { .. } | ClientError::Gone => true,
            _ => false,
        },
        _ => false,
    }
}

impl System for MuxClientPlan {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = MuxClientSummary;
    type Error = MuxClientError;

    fn run(self, host: &Host) -> Result<Record<MuxClientSummary>, MuxClientError> {
        self.check()?;
        if let Err(error) = set_slice(SLICE_NS) {
            host.warn(&error.to_string());
        }
        let session = self.connect()?;
        let mut tell = |text: &str| host.warn(text);
        let books = Books::open(self.workload.name(), self.out.as_deref(), &mut tell)?;
        if let Some(duration) = self.duration {
            host.stop.end_after(duration);
        }
        let place = Place::of(session.welcome());
        host.say(format_args!("{} is {place}", self.name));
        let mut work = Work {
            workload: Workload::new(self.workload).leaking(host.leak.clone()),
            plan: &self,
            totals: Totals::default(),
            books,
            connections: 1,
            gone: 0,
        };
        let failed = work.all(session, host);
        let mut end = RunEnd::in_order(host.stop.reason().unwrap_or(Reason::LimitReached));
        end.failed = failed.map(|error| error.to_string());
        let summary = MuxClientSummary::of(&work, place);
        Ok(work.books.close(end, summary)?)
    }
}

/// A client at work.
pub(crate) struct Work<'a> {
    pub(crate) plan: &'a MuxClientPlan,
    pub(crate) workload: Workload,
    pub(crate) totals: Totals,
    books: Books,
    /// Times that it had the place.
    pub(crate) connections: u64,
    /// Times that the multiplexer went away.
    pub(crate) gone: u64,
}

impl Work<'_> {
    /// Works until it is over, or told to end; what failed, if something did.
    fn all(&mut self, mut session: Session, host: &Host) -> Option<MuxClientError> {
        loop {
            let lost = self.serve(&mut session, host).err();
            let is_gone = matches!(lost, Some(ClientError::Gone));
            self.gone += u64::from(is_gone);
            self.end_session(&mut session, lost.is_some());
            let source = lost?;
            drop(session);
            if !is_gone || !self.plan.reconnect {
                let MuxClientPlan { name, socket, .. } = self.plan;
                return Some(MuxClientError::of_place(name, socket, source));
            }
            host.warn("the multiplexer is gone: waiting until it is back");
            match self.come_again(host) {
                Ok(Some(again)) => session = again,
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
            host.say("the multiplexer is back");
        }
    }

    fn serve(&mut self, session: &mut Session, host: &Host) -> Result<(), ClientError> {
        let mut shown_ns = 0;
        while !host.stop.is_asked() {
            let now_ns = monotonic_ns();
            let has_worked = session.turn(now_ns, &mut self.workload, &mut self.totals)?;
            if self.workload.is_over() && session.held().packets == 0 {
                break;
            }
            if now_ns - shown_ns >= SHOW.as_nanos() as u64 {
                shown_ns = now_ns;
                self.show(session);
            }
            if has_worked {
                session.flush();
            } else {
                session.wait(now_ns, SHOW)?;
            }
        }
        session.part()
    }

    /// Puts what a session counted into the totals, and what it leaves into the losses.
    fn end_session(&mut self, session: &mut Session, is_lost: bool) {
        let why = if is_lost {
            SendDrop::DaemonGone
        } else {
            SendDrop::Stopped
        };
        let (held, left) = (session.held(), self.workload.forget(None));
        let send = &mut self.totals.send;
        send.dropped[why] += held;
        send.dropped[why] += left;
        send.sent += session.sent();
        self.totals.frames = self.totals.frames.and(session);
        let now = self.totals;
        self.publish(&now);
    }

    fn show(&mut self, session: &Session) {
        let mut now = self.totals;
        now.send.held += session.held();
        now.send.held += self.workload.held();
        now.send.sent += session.sent();
        self.publish(&now);
    }

    fn publish(&mut self, now: &Totals) {
        let work = self.counts();
        self.books.show(&work, &now.send, &now.tcp);
    }

    /// Datagrams that came.
    pub(crate) const fn counts(&self) -> WorkCounts {
        if self.plan.raw {
            self.totals.work
        } else {
            self.workload.counts()
        }
    }

    /// Looks for the multiplexer until it is back; none: it was told to end first.
    fn come_again(&mut self, host: &Host) -> Result<Option<Session>, MuxClientError> {
        while !host.stop.is_asked() {
            match self.plan.connect() {
                Ok(session) => {
                    self.connections += 1;
                    return Ok(Some(session));
                }
                Err(error) if may_come(&error) => {}
                Err(error) => return Err(error),
            }
            let now = self.totals;
            self.publish(&now);
            wait::sleep_until_or([host.stop.as_fd()], monotonic_ns() + LOOK_NS, 0)?;
        }
        Ok(None)
    }
}
