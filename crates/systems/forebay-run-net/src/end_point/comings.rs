//! Connections come and go.

use forebay_link::bytes::ByteLink;
use forebay_msg::Refusal;
use forebay_msg::session::{Dialer, Listener, Session, SessionError};

use super::{EndPoint, Role, dialled};
use crate::buffers::Outbound;
use crate::connection::{Connection, Parted};
use crate::counts::Counts;
use crate::dial::Dial;
use crate::error::NetError;
use crate::summary::ConnectionSummary;

/// Connections that have not said what they are. The oldest goes when one more comes.
const STRANGERS_MAX: usize = 256;

/// How many of the messages that were sent the receiver had confirmed: what is said of a connection that is lost.
fn confirmed(outbound: &Outbound) -> String {
    let sent = outbound.totals().messages;
    let [known, _] = outbound.confirmed();
    format!("; it had confirmed {known} of {sent} messages")
}

impl<R: Role> EndPoint<R> {
    pub(super) fn admit(&mut self, link: Box<dyn ByteLink>) {
        let strangers = self.connections.iter().filter(|one| one.is_stranger());
        if strangers.count() >= STRANGERS_MAX {
            let oldest = self.connections.iter().position(Connection::is_stranger);
            if let Some(at) = oldest {
                let peer = self.connections[at].peer().to_owned();
                self.part(at, &Parted::Crowded { peer });
            }
        }
        self.epoch += 1;
        let listener = Listener {
            serves: R::WANTS,
            answers: self.role.answers(),
            epoch: self.epoch,
            closed: None,
        };
        let limits = self.settings.limits();
        let session = Session::listen(listener, limits, self.settings.timing, self.now_ns);
        // It gets a place when it has said what it is.
        self.keep(link, session, None, None);
    }

    /// Why one that says now what it is would not be served.
    pub(super) fn closed(&self) -> Option<Refusal> {
        if self.free_slots.is_empty() {
            Some(Refusal::Busy)
        } else {
            self.ending.then_some(Refusal::Ending)
        }
    }

    /// Whether a connection is wanted there, and there is a place for it.
    pub(super) fn may_dial(&self, dial: &Dial) -> bool {
        !dial.is_connected && !self.ending && !self.free_slots.is_empty()
    }

    pub(super) fn dial(&mut self) -> Result<(), NetError> {
        if self.ending {
            return Ok(());
        }
        for at in 0..self.dials.len() {
            if !self.may_dial(&self.dials[at]) {
                continue;
            }
            let settings = &self.settings;
            let link = match self.dials[at].attempt(self.now_ns, || settings.terms()) {
                Ok(Some(link)) => link,
                Ok(None) => continue,
                // Somebody on the bus has said so, which is no fault of this side or of the others there.
                Err(error) if self.follows => {
                    self.dials[at].give_up(error.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let dialer = Dialer {
                role: R::WANTS,
                slow: self.role.slow(),
                identity: self.epoch,
            };
            let limits = self.settings.limits();
            let session = Session::dial(dialer, limits, self.settings.timing, self.now_ns);
            let slot = self.free_slots.pop();
            let dial = self.dials[at].id;
            self.keep(link, session, Some(dial), slot);
        }
        Ok(())
    }

    pub(super) fn keep(
        &mut self,
        link: Box<dyn ByteLink>,
        session: Session,
        dial: Option<usize>,
        slot: Option<usize>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        let place = slot.unwrap_or(usize::MAX);
        match Connection::new(id, link, session, dial, place, &self.hub) {
            Ok(connection) => {
                self.connections.push(connection);
                if let Some(dial) = dialled(&mut self.dials, dial) {
                    dial.is_connected = true;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be served");
                *self.summary.parted.entry("resource").or_default() += 1;
                self.free_slots.extend(slot);
                if let Some(dial) = dialled(&mut self.dials, dial) {
                    dial.lost(self.now_ns, error.to_string());
                }
            }
        }
    }

    /// The receiver at the other end is too slow. It is told, if it takes that in time.
    pub(super) fn let_go(&mut self, at: usize) -> Result<(), Parted> {
        let connection = &mut self.connections[at];
        let slow = Parted::Slow {
            peer: connection.peer().to_owned(),
        };
        if !self.role.lets_go(connection.id) {
            return Err(slow);
        }
        let Some(outbound) = self.role.outbound(connection.id) else {
            return Err(slow);
        };
        outbound.let_go(|_, _| {});
        connection.let_go(self.now_ns);
        Ok(())
    }

    /// A connection is over: closes its account.
    pub(super) fn part(&mut self, at: usize, parted: &Parted) {
        let connection = self.connections.remove(at);
        let outbound = self.role.gone(connection.id).map(|mut outbound| {
            outbound.abandon(|_, _| {});
            while let Some(number) = outbound.returned() {
                self.lends.returned(number);
            }
            outbound
        });
        let counts = Counts::of(&connection.session, outbound.as_ref(), connection.handed);
        self.books
            .settle(connection.slot, &connection.counted, &counts);
        if connection.slot != usize::MAX {
            self.free_slots.push(connection.slot);
        }
        let slow = Parted::Slow {
            peer: connection.peer().to_owned(),
        };
        let parted = if connection.session.has_heard_all() {
            &Parted::Over
        } else if connection.is_let_go() {
            // However it went then.
            &slow
        } else {
            parted
        };
        let reason = parted.reason();
        let peer_known = connection.session.agreed().is_some();
        if connection.dial.is_some() && !peer_known {
            // It is tried again; what waits for it says so when it waits no longer.
            tracing::info!(
                peer = connection.peer(),
                reason,
                "no connection yet: {parted}"
            );
            self.last_trouble = Some(parted.to_string());
        } else if !peer_known {
            // A stranger: counted, and not worth a line for each.
            tracing::info!(
                peer = connection.peer(),
                reason,
                "a stranger is let go: {parted}"
            );
        } else if !matches!(parted, Parted::Over) {
            let confirmed = outbound.as_ref().map_or_else(String::new, confirmed);
            tracing::warn!(
                peer = connection.peer(),
                reason,
                "a connection is lost: {parted}{confirmed}"
            );
            self.last_trouble = Some(parted.to_string());
        }
        let mut summary = ConnectionSummary::of(connection.peer(), reason, &counts);
        summary.dropped_at_peer = connection
            .session
            .dropped_by_peer()
            .map(|[messages, _]| messages);
        if let Some(outbound) = &outbound {
            let sent = outbound.totals();
            match connection.session.farewell() {
                // More than was sent is no farewell.
                Some(took) => {
                    summary.missing_at_peer = sent.messages.checked_sub(took.messages);
                    summary.missing_bytes_at_peer = sent.bytes.checked_sub(took.bytes);
                }
                None => {
                    [summary.unconfirmed, summary.unconfirmed_bytes] = outbound.unconfirmed();
                }
            }
        }
        if peer_known || connection.dial.is_none() {
            self.summary.add(summary);
        }
        let is_slow = matches!(parted, Parted::Slow { .. });
        let refusal = (is_slow && !connection.is_let_go()).then_some(Refusal::Busy);
        let dial = connection.dial;
        self.leaving.add(connection.part(&self.hub, refusal));
        let over = matches!(parted, Parted::Over);
        self.tainted |= peer_known && !over;
        let is_only = self.dials.len() == 1;
        let refused = matches!(
            parted,
            Parted::Session {
                error: SessionError::Refused { .. },
                ..
            }
        );
        if let Some(dial) = dialled(&mut self.dials, dial) {
            dial.is_connected = false;
            if peer_known {
                dial.has_ended = over;
            }
            if over && self.role.has_left() {
                dial.retire();
            }
            if (!peer_known || refused) && dial.judge(parted) && !is_only {
                // Who waits for nobody else is told by an error.
                tracing::warn!("no use to try again, until something changes there: {parted}");
            }
            dial.lost(self.now_ns, parted.to_string());
        }
        self.forget();
    }
}
