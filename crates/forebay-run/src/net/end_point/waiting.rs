//! Waiting: looking again for a moment, and then sleeping.

use std::time::Duration;

use super::{Delivered, EndPoint, NetSummary, Role, SLEEP_NS, Viewed};
use crate::net::connection::Connection;
use crate::net::entrance::Entrance;
use crate::net::error::NetError;

/// Quick looks between two turns.
const LOOKS: u32 = 16;
/// With more connections, looking at all of them takes as long as a turn.
const LOOKED_AT_MAX: usize = 4;

impl<R: Role> EndPoint<R> {
    /// As [`wait`](Self::wait), for users who want bytes of their own.
    pub(in crate::net) fn wait_copied(
        &mut self,
        most: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        let mut copier = std::mem::take(&mut self.copier);
        let happened = self.wait(most, &mut |viewed| copier.deliver(viewed, on));
        self.copier = copier;
        happened
    }

    /// As [`finish`](Self::finish), for users who want bytes of their own.
    pub(in crate::net) fn finish_copied(
        &mut self,
        limit: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<NetSummary, NetError> {
        let mut copier = std::mem::take(&mut self.copier);
        self.finish(limit, &mut |viewed| copier.deliver(viewed, on))
    }

    /// Goes on until something happens or the time is over.
    pub(in crate::net) fn wait(
        &mut self,
        most: Duration,
        on: &mut impl FnMut(Viewed<'_>),
    ) -> Result<bool, NetError> {
        let mut happened = self.turn(on)?;
        // A turn reads the clock: the first one's time is the begin.
        let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.now_ns.saturating_add(most_ns);
        let spin_until_ns = self
            .now_ns
            .saturating_add(self.settings.spin_ns)
            .min(until_ns);
        while !happened && self.now_ns < until_ns {
            if self.now_ns >= spin_until_ns {
                self.sleep(until_ns)?;
            } else {
                self.look();
            }
            happened = self.turn(on)?;
        }
        Ok(happened)
    }

    /// Looks at what needs no system call to be looked at, until something may be there: shorter than a turn, so that an answer is found sooner.
    fn look(&self) {
        std::hint::spin_loop();
        if self.connections.len() > LOOKED_AT_MAX {
            return;
        }
        for _ in 0..LOOKS {
            if !self.connections.iter().all(Connection::is_quiet) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn sleep(&mut self, until_ns: u64) -> Result<(), NetError> {
        self.give_credit();
        let mut polled = self.entrance.as_ref().is_some_and(Entrance::must_be_polled);
        let mut quiet = true;
        let mut wake_ns = until_ns.min(self.now_ns + SLEEP_NS);
        let mut broken = None;
        for (at, connection) in self.connections.iter_mut().enumerate() {
            polled |= connection.must_be_polled();
            wake_ns = wake_ns.min(connection.poll_timeout());
            match connection.arm(&self.hub) {
                Ok(asleep) => quiet &= asleep,
                Err(parted) => broken = Some((at, parted)),
            }
        }
        let dials = self.dials.iter().enumerate();
        let dials = dials.filter(|(at, _)| self.may_dial(*at));
        let dials = dials.filter_map(|(_, dial)| dial.due_ns());
        let due = dials.chain(self.role.poll_timeout()).min();
        wake_ns = wake_ns
            .min(due.unwrap_or(u64::MAX))
            .min(self.books.next_commit_ns());
        if quiet && broken.is_none() {
            let most = Duration::from_nanos(wake_ns.saturating_sub(self.now_ns));
            self.hub.sleep(most, polled)?;
        }
        for connection in &mut self.connections {
            connection.disarm();
        }
        if let Some((at, parted)) = broken {
            self.part(at, &parted);
        }
        self.next_tend_ns = 0;
        Ok(())
    }

    /// Gives back everything that was read: nothing comes with which it could ride.
    fn give_credit(&mut self) {
        let mut at = 0;
        while at < self.connections.len() {
            let due = self.connections[at].session.give_credit(true);
            match if due {
                self.write(at).map(drop)
            } else {
                Ok(())
            } {
                Ok(()) => at += 1,
                Err(parted) => self.part(at, &parted),
            }
        }
    }
}
