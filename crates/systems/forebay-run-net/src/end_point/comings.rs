//! Connections come and go.

use std::collections::HashSet;

use forebay_link::bytes::{Address, ByteLink};
use forebay_msg::Refusal;
use forebay_msg::session::{Dialer, Listener, Session, SessionError};

use crate::buffers::Outbound;
use crate::connection::{Connection, Parted};
use crate::counts::Counts;
use crate::dial::Dial;
use crate::end_point::{EndPoint, Role};
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
                // A side that waits for no other peer is told by an error.
                tracing::warn!("no use to try again, until something changes there: {parted}");
            }
            dial.lost(self.now_ns, parted.to_string());
        }
        self.forget();
    }
}

// What this side connects to: those that it was told at the begin, or those that are on a bus now.
/// Most addresses of a bus that are followed at a time: as many as an end point may have connections. One that is followed stays so.
const FOLLOWED_MAX: usize = 4096;

impl<R: Role> EndPoint<R> {
    pub(super) fn add_dial(&mut self, address: &Address) {
        let backoff = self.settings.backoff;
        let dial = Dial::new(self.next_dial, address.clone(), backoff, self.now_ns);
        self.next_dial += 1;
        self.dials.push(dial);
    }

    /// Whether there is somebody to connect to.
    pub(crate) fn has_dials(&self) -> bool {
        !self.dials.is_empty()
    }

    /// Connects to all of these, and to no others again.
    pub(crate) fn follow(&mut self, addresses: &[Address]) {
        self.follows = true;
        let wanted: HashSet<&Address> = addresses.iter().collect();
        for dial in &mut self.dials {
            if wanted.contains(&dial.address) {
                // One with a connection has nothing to do.
                dial.revive(self.now_ns);
            } else {
                dial.retire();
            }
        }
        self.forget();
        let known = self.dials.iter().map(|dial| dial.address.clone());
        let mut known: HashSet<Address> = known.collect();
        let mut beyond = 0;
        for address in addresses {
            if known.contains(address) {
                continue;
            }
            known.insert(address.clone());
            if self.dials.len() < FOLLOWED_MAX {
                self.add_dial(address);
            } else {
                beyond += 1;
            }
        }
        self.tell_crowd(beyond);
        self.next_tend_ns = 0;
    }

    fn tell_crowd(&mut self, beyond: u64) {
        if beyond > 0 && !self.is_crowded {
            tracing::warn!(
                "the bus has {beyond} more addresses with tags of this side than the {FOLLOWED_MAX} that are followed: ask for fewer tags, or look who \
                 announces so many"
            );
        }
        self.is_crowded = beyond > 0;
        self.summary.not_followed = self.summary.not_followed.max(beyond);
    }

    /// A publisher that has vanished from the bus and is not connected any more leaves nothing behind but what was counted.
    pub(super) fn forget(&mut self) {
        if !self.follows {
            return;
        }
        let attempts = &mut self.forgotten_attempts;
        self.dials.retain(|dial| {
            let stays = dial.is_connected || !dial.is_retired();
            *attempts += if stays { 0 } else { dial.attempts };
            stays
        });
    }
}

/// The one that a connection was made for, if it is still there.
pub(super) fn dialled(dials: &mut [Dial], id: Option<usize>) -> Option<&mut Dial> {
    dials.iter_mut().find(|dial| Some(dial.id) == id)
}

#[cfg(test)]
mod following_tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::{Duration, Instant};

    use forebay_msg::session::Agreed;
    use forebay_msg::{Entry, OutOfRange, Role as Wants};

    use super::*;
    use crate::buffers::{Buffers, Outbound};
    use crate::{Publisher, Settings};

    const LIMIT: Duration = Duration::from_secs(30);

    /// An end point that asks for nothing of the peers that it follows.
    #[derive(Debug)]
    struct Following;

    impl Role for Following {
        const NAME: &'static str = "following";
        const WANTS: Wants = Wants::Subscriber;

        fn opened(&mut self, _: u64, _: &Agreed, _: Buffers) -> Result<(), OutOfRange> {
            Ok(())
        }

        fn outbound(&mut self, _: u64) -> Option<&mut Outbound> {
            None
        }

        fn gone(&mut self, _: u64) -> Option<Outbound> {
            None
        }

        fn entries(&self) -> &[Entry] {
            &[]
        }
    }

    fn following() -> EndPoint<Following> {
        EndPoint::connect(Following, &[], &Settings::default()).unwrap()
    }

    /// An address of this host at which nobody listens.
    fn nobody(number: u32) -> Address {
        let [_, a, b, c] = (number + 256).to_be_bytes();
        format!("tcp://127.{a}.{b}.{c}:1").parse().unwrap()
    }

    /// Goes on until it is so.
    fn until(one: &mut EndPoint<Following>, mut done: impl FnMut(&EndPoint<Following>) -> bool) {
        let begun = Instant::now();
        while !done(one) {
            assert!(begun.elapsed() < LIMIT, "{one:?}");
            one.wait(Duration::from_millis(1), &mut |_| {}).unwrap();
        }
    }

    #[test]
    fn who_vanishes_from_the_bus_leaves_nothing_behind() {
        let mut end_point = following();
        let mut attempts = 0;
        for number in 0..200 {
            end_point.follow(&[nobody(number)]);
            until(&mut end_point, |one| {
                one.dials[0].trouble.is_some() && !one.dials[0].is_connected
            });
            attempts += end_point.dials[0].attempts;
            assert_eq!(end_point.dials.len(), 1);
        }
        end_point.follow(&[]);
        assert!(end_point.dials.is_empty());
        let summary = end_point.finish(LIMIT, &mut |_| {}).unwrap();
        assert_eq!((summary.attempts, summary.not_followed), (attempts, 0));
    }

    #[test]
    fn a_connection_lives_on_without_an_offer_and_leaves_nothing_behind_either() {
        let settings = Settings::default();
        let place = "tcp://127.0.0.1:0".parse().unwrap();
        let mut publisher = Publisher::listen(&place, &settings).unwrap();
        let there = publisher.address().unwrap();
        let mut end_point = following();
        end_point.follow(&[nobody(0), nobody(1), there.clone()]);
        until(&mut end_point, |one| {
            publisher.poll(Duration::ZERO).unwrap();
            one.open_connections() == 1
        });
        // Those before it go: it moves up, and is still the connection's.
        end_point.follow(&[]);
        until(&mut end_point, |one| one.dials.len() == 1);
        assert_eq!(end_point.dials[0].address, there);
        end_point.follow(std::slice::from_ref(&there));
        assert_eq!(end_point.dials.len(), 1);
        end_point.follow(&[]);
        publisher.finish(Duration::ZERO).unwrap();
        until(&mut end_point, |one| one.connections.is_empty());
        assert!(end_point.dials.is_empty());
        assert_eq!(end_point.made(), 1);
    }

    #[test]
    fn an_address_that_nobody_here_can_connect_to_costs_the_others_nothing() {
        let settings = Settings::default();
        let place = "tcp://127.0.0.1:0".parse().unwrap();
        let mut publisher = Publisher::listen(&place, &settings).unwrap();
        // Nobody has said that plain will do there.
        let beyond = ["tcp://192.0.2.1:1", "tcp://192.0.2.2:1"].map(|text| text.parse().unwrap());
        let [first, second] = beyond;
        let mut end_point = following();
        end_point.follow(&[first, second, publisher.address().unwrap()]);
        until(&mut end_point, |one| {
            publisher.poll(Duration::ZERO).unwrap();
            one.open_connections() == 1
        });
        assert_eq!(end_point.dials.len(), 3);
        let attempts = end_point.dials.iter().map(|dial| dial.attempts);
        assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1]);
        let trouble = end_point.trouble();
        assert!(trouble.contains("--plain"), "{trouble}");
    }

    #[test]
    fn so_many_are_followed_and_no_more_and_they_stay() {
        let most = FOLLOWED_MAX as u32;
        let mut end_point = following();
        let first: Vec<Address> = (1..most).map(nobody).collect();
        end_point.follow(&first);
        // Others come before and behind them.
        let all: Vec<Address> = (0..most + 9).map(nobody).collect();
        end_point.follow(&all);
        assert_eq!(end_point.dials.len(), FOLLOWED_MAX);
        let follows =
            |address: &Address| end_point.dials.iter().any(|dial| dial.address == *address);
        assert!(first.iter().all(follows));
        end_point.follow(&all[..3]);
        assert_eq!(end_point.dials.len(), 3);
        let summary = end_point.finish(LIMIT, &mut |_| {}).unwrap();
        assert_eq!(summary.not_followed, 9);
    }
}
