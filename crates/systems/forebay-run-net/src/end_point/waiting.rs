//! Waiting: looking again for a moment, and then sleeping.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use forebay_sys::clock;

use super::{Delivered, EndPoint, NetRecord, Role, SLEEP_NS, Viewed};
use crate::connection::Connection;
use crate::dial::Dial;
use crate::entrance::Entrance;
use crate::error::NetError;

/// What to wait for in a loop of one's own (`poll`, `epoll`, an executor of async tasks), until the end point is polled again.
#[derive(Clone, Copy, Debug)]
pub struct Doze<'a> {
    /// Becomes readable when there is something to do. It is the same as long as the end point lives.
    pub fd: BorrowedFd<'a>,
    /// So long at most: then there is something to do by the clock. Zero: there is something already.
    pub most: Duration,
}

/// After each look for credit in vain the next one waits twice as long, up to 2 to this power of what a look takes.
const LOOKS_IN_VAIN_MAX: u32 = 6;
/// Longest sleep while something has to be polled that wakes nobody, in ns.
const POLLED_SLEEP_NS: u64 = 50_000;
/// Quick looks between two turns.
const LOOKS: u32 = 16;
/// With more connections, looking at all of them takes as long as a turn.
const LOOKED_AT_MAX: usize = 4;

impl<R: Role> EndPoint<R> {
    /// As [`wait`](Self::wait), for callers that want bytes of their own.
    pub(crate) fn wait_copied(
        &mut self,
        most: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        let mut copier = std::mem::take(&mut self.copier);
        let happened = self.wait(most, &mut |viewed| copier.deliver(viewed, on));
        self.copier = copier;
        happened
    }

    /// As [`finish`](Self::finish), for callers that want bytes of their own.
    pub(crate) fn finish_copied(
        &mut self,
        limit: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<NetRecord, NetError> {
        let mut copier = std::mem::take(&mut self.copier);
        self.finish(limit, &mut |viewed| copier.deliver(viewed, on))
    }

    /// Goes on until something happens or the time is over.
    pub(crate) fn wait(
        &mut self,
        most: Duration,
        on: &mut impl FnMut(Viewed<'_>),
    ) -> Result<bool, NetError> {
        if self.is_armed {
            self.disarm();
        }
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

    /// As [`wait`](Self::wait), for nobody: what comes is not wanted.
    pub(crate) fn wait_unheard(&mut self, most: Duration) -> Result<bool, NetError> {
        let declined = std::mem::replace(&mut self.declines, true);
        let happened = self.wait(most, &mut |_| {});
        self.declines = declined;
        happened
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
        if let Some(wake_ns) = self.arm() {
            let most = wake_ns.min(until_ns).saturating_sub(self.now_ns);
            self.hub.sleep(Duration::from_nanos(most))?;
        }
        self.disarm();
        Ok(())
    }

    /// A peer has no room, as far as it is known: what it has given back may lie unread, and it is read before a policy decides. `is_short` says whether that
    /// helped. A peer that gives nothing back costs the others a small part of their time, and less each time.
    #[cold]
    pub(crate) fn look_for_credit(
        &mut self,
        mut is_short: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), NetError> {
        let begun_ns = clock::monotonic_ns();
        self.now_ns = begun_ns;
        if begun_ns < self.next_look_ns {
            return Ok(());
        }
        self.turn(&mut |_| {})?;
        self.now_ns = clock::monotonic_ns();
        let in_vain = is_short(self);
        self.looks_in_vain = if in_vain {
            (self.looks_in_vain + 1).min(LOOKS_IN_VAIN_MAX)
        } else {
            0
        };
        if in_vain {
            let took_ns = self.now_ns - begun_ns;
            self.next_look_ns = self.now_ns + (took_ns << self.looks_in_vain);
        }
        Ok(())
    }

    /// Asks all links to wake this side, and says until when it may sleep; none when there is something to do at once.
    fn arm(&mut self) -> Option<u64> {
        self.give_credit();
        self.is_armed = true;
        let mut polled = self.entrance.as_ref().is_some_and(Entrance::must_be_polled);
        let mut quiet = true;
        let mut broken = None;
        let mut wake_ns = self.now_ns + SLEEP_NS;
        for (at, connection) in self.connections.iter_mut().enumerate() {
            polled |= connection.must_be_polled();
            wake_ns = wake_ns.min(connection.poll_timeout());
            match connection.arm(&self.hub) {
                Ok(asleep) => quiet &= asleep,
                Err(parted) => broken = Some((at, parted)),
            }
        }
        if let Some((at, parted)) = broken {
            self.part(at, &parted);
            return None;
        }
        let dials = self.dials.iter().filter(|dial| self.may_dial(dial));
        let dials = dials.filter_map(Dial::due_ns);
        let due = dials.chain(self.role.poll_timeout()).min();
        wake_ns = wake_ns
            .min(due.unwrap_or(u64::MAX))
            .min(self.books.next_commit_ns());
        if polled {
            wake_ns = wake_ns.min(self.now_ns + POLLED_SLEEP_NS);
        }
        quiet.then_some(wake_ns)
    }

    /// Awake: everything is looked at in the next turn.
    fn disarm(&mut self) {
        self.is_armed = false;
        for connection in &mut self.connections {
            connection.disarm();
        }
        self.next_tend_ns = 0;
    }

    /// For callers that wait in a loop of their own: what to wait for, and how long at most.
    pub(crate) fn doze(&mut self) -> Doze<'_> {
        self.now_ns = clock::monotonic_ns();
        let most_ns = self
            .arm()
            .map_or(0, |wake_ns| wake_ns - self.now_ns.min(wake_ns));
        Doze {
            fd: self.hub.as_fd(),
            most: Duration::from_nanos(most_ns),
        }
    }

    /// Gives back everything that was read: nothing comes with which it could ride.
    pub(super) fn give_credit(&mut self) {
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
