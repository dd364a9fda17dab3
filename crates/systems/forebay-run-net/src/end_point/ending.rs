//! The end, in order where that goes, and the books closed.

use std::time::Duration;

use forebay_ledger::{Condition, Reason};
use forebay_sys::clock;

use super::{EndPoint, NetError, NetSummary, Role, Viewed};
use crate::connection::{Connection, Parted};

impl<R: Role> EndPoint<R> {
    pub(super) fn say_end(connection: &mut Connection) {
        let agreed = connection.session.agreed();
        if agreed.is_some_and(|agreed| agreed.sends) {
            connection.session.end();
        }
        connection.session.leave();
    }

    /// Asks all connections to end.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        self.next_tend_ns = 0;
        for connection in &mut self.connections {
            Self::say_end(connection);
        }
    }

    /// Ends what this side sends to peers that have ended.
    pub(crate) fn end_with_the_ended(&mut self) {
        for connection in &mut self.connections {
            if connection.session.peer_end().is_some() && !connection.session.is_ending() {
                connection.session.end();
            }
        }
    }

    /// Ends in order within `limit`, and closes the books.
    pub(crate) fn finish(
        &mut self,
        limit: Duration,
        on: &mut impl FnMut(Viewed<'_>),
    ) -> Result<NetSummary, NetError> {
        if !self.ending {
            self.end();
        }
        let until_ns = clock::monotonic_ns().saturating_add(limit.as_nanos() as u64);
        // Whoever has not greeted by now has nothing to say.
        let known = |connection: &Connection| connection.session.agreed().is_some();
        let stops = self.stops();
        while self.connections.iter().any(known) && self.now_ns < until_ns && self.stops() == stops
        {
            self.wait(Duration::from_millis(10), on)?;
        }
        // What has taken effect is confirmed, also to a peer that waits in vain for more of it.
        self.give_credit();
        let in_order = self.has_heard_all();
        while !self.connections.is_empty() {
            let peer = self.connections[0].peer().to_owned();
            self.part(0, &Parted::Late { peer });
        }
        self.settle();
        let mut summary = std::mem::take(&mut self.summary);
        summary.tags = self.books.tags();
        if let Some(entrance) = &self.entrance {
            summary.turned_away = entrance.turned_away();
            summary.accept_errors = entrance.errors;
        }
        summary.connections_made = self.made;
        let attempts = self.dials.iter().map(|dial| dial.attempts);
        summary.attempts = self.forgotten_attempts + attempts.sum::<u64>();
        let (removed, is_homeless) = self.books.is_removed()?;
        summary.output_removed = removed;
        // Everything is counted now: what the audit will say.
        summary.take(&self.books.verdict_at_end()?);
        let (condition, reason) = match in_order && !self.tainted {
            _ if !summary.is_closed() => (Condition::Tainted, Reason::Residual),
            _ if removed.any() || is_homeless => (Condition::Tainted, Reason::OutputRemoved),
            _ if self.unwritten => (Condition::Tainted, Reason::WriteFailed),
            false => (Condition::Tainted, Reason::ConnectionLost),
            true => (Condition::Ended, Reason::Requested),
        };
        self.books.close(condition, reason);
        if let Some(unkept) = self.books.keep(&summary)? {
            summary.warnings.push(unkept.why);
            summary.record = Some(unkept.record);
        }
        Ok(summary)
    }
}
