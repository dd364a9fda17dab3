//! The registry: takes offers for a lease each, and tells them to those that ask.

mod client;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use forebay_link::bytes::{self, Door, DoorError, Security, Terms};
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::{SysError, clock};
use serde::Serialize;

use super::lines::{Answer, LINE_BYTES_MAX, OFFERS_BYTES_MAX, PAGE_BYTES_MAX, Request};
use super::{LEASE, Offer};
use crate::{Address, NetError};
use client::{Client, lost};

/// Most connections at a time.
pub(super) const CONNECTIONS_MAX: usize = 1024;
/// Most bytes kept for all clients together beside their offers: what they have said, and what they have not taken. Beyond that the client of which
/// most is kept is let go.
const QUEUED_BYTES_MAX: usize = 128 << 20;
/// An answer that is not taken within this lets its client go, in ns.
const SLOW_NS: u64 = 5_000_000_000;
/// How long nobody is taken in after the system refused, as without free descriptors, in ns. A client that comes waits in its backlog.
const SHUT_NS: u64 = 100_000_000;
/// Bytes taken of one client or told to it in one turn.
const TURN_BYTES: usize = 1 << 20;
/// A line takes as much of a turn as so many bytes, at the least.
const LINE_COST_BYTES: usize = 4 << 10;
/// A client that says nothing for so long is let go, in ns: announcers and finders speak once a second.
const SILENCE_NS: u64 = 60_000_000_000;
/// One that has made no whole request within this, or no hand-shake, is let go, in ns.
const STRANGER_NS: u64 = 5_000_000_000;
const BUSY: &str = "too many connections: start a further registry";
const LISTENER: u64 = 0;

/// A registry at work.
#[derive(Debug)]
pub struct Registry {
    door: Box<dyn Door>,
    poller: Poller,
    clients: BTreeMap<u64, Client>,
    /// Those whose turn ended before all was read that has come.
    unread: BTreeSet<u64>,
    next_token: u64,
    bounds: Bounds,
    /// Nobody is taken in until then.
    shut_until_ns: Option<u64>,
    summary: RegistrySummary,
}

/// What a registry keeps at the most, and how long it waits.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    connections: usize,
    offers_bytes: usize,
    queued_bytes: usize,
    lease_ns: u64,
    slow_ns: u64,
    stranger_ns: u64,
    silence_ns: u64,
}

/// What a registry did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistrySummary {
    /// Connections taken in.
    pub connections: u64,
    /// Offers that came.
    pub offers: u64,
    /// Offers whose lease ended without an end.
    pub expired: u64,
    /// Answers with offers, one for each page.
    pub answers: u64,
    /// How often the system refused to take a connection in.
    pub accept_errors: u64,
    /// Clients let go, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

impl Registry {
    /// Listens; its clients are held to the same security as those that send and receive messages.
    ///
    /// # Errors
    /// The address is none of TCP, is in use, or none of this host; or it is beyond loopback and nothing is said about encryption.
    pub fn listen(address: &Address, security: &Security) -> Result<Self, NetError> {
        let terms = Terms {
            security: security.clone(),
            ..Terms::default()
        };
        let door = bytes::listen(address, terms)?;
        let poller = Poller::create(64)?;
        let registry = Self {
            door,
            poller,
            clients: BTreeMap::new(),
            unread: BTreeSet::new(),
            next_token: LISTENER + 1,
            bounds: Bounds {
                connections: CONNECTIONS_MAX,
                offers_bytes: OFFERS_BYTES_MAX,
                queued_bytes: QUEUED_BYTES_MAX,
                lease_ns: LEASE.as_nanos() as u64,
                slow_ns: SLOW_NS,
                stranger_ns: STRANGER_NS,
                silence_ns: SILENCE_NS,
            },
            shut_until_ns: None,
            summary: RegistrySummary::default(),
        };
        registry.open()?;
        Ok(registry)
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<Address, NetError> {
        Ok(self.door.address()?)
    }

    /// Serves for up to `most`.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn serve(&mut self, most: Duration) -> Result<(), NetError> {
        self.open_again(clock::monotonic_ns());
        let most = self
            .shut_until_ns
            .map_or(most, |_| most.min(Duration::from_nanos(SHUT_NS)));
        // What a link has taken out of its socket already wakes nobody.
        let most = if self.unread.is_empty() {
            most
        } else {
            Duration::ZERO
        };
        let mut ready = std::mem::take(&mut self.unread);
        let woken = self.poller.wait(Some(most), Duration::ZERO)?;
        ready.extend(woken.map(|ready| ready.token));
        let now_ns = clock::monotonic_ns();
        for token in ready {
            if token == LISTENER {
                self.accept(now_ns);
            } else if let Err(reason) = self.speak(token, now_ns) {
                self.let_go(token, reason);
            }
            self.make_room();
        }
        self.expire(now_ns);
        Ok(())
    }

    /// What it did.
    #[must_use]
    pub fn summary(&self) -> &RegistrySummary {
        &self.summary
    }

    fn accept(&mut self, now_ns: u64) {
        // Those beyond the first sixteen have the next turn.
        for _ in 0..16 {
            let mut link = match self.door.accept() {
                Ok(Some(link)) => link,
                Ok(None) => return,
                Err(error) => return self.shut(&error, now_ns),
            };
            let token = self.next_token;
            if self.clients.len() >= self.bounds.connections {
                self.crowd_out(now_ns);
            }
            let full = self.clients.len() >= self.bounds.connections;
            let poller = &self.poller;
            let add = |fd| poller.add(fd, token, Interest::Readable, Trigger::Level);
            let added = !full && link.fds().into_iter().flatten().all(|fd| add(fd).is_ok());
            if !added {
                *self.summary.refused.entry("busy").or_default() += 1;
                // A client that cannot be told at once sees that it is over.
                let _ = link.send(&[&said(&Answer::Refused(BUSY.to_owned()))]);
                continue;
            }
            self.next_token += 1;
            self.summary.connections += 1;
            self.clients.insert(token, Client::new(link, now_ns));
        }
    }

    fn open(&self) -> Result<(), SysError> {
        for fd in self.door.fds().into_iter().flatten() {
            let (interest, trigger) = (Interest::Readable, Trigger::Level);
            self.poller.add(fd, LISTENER, interest, trigger)?;
        }
        Ok(())
    }

    /// The door stays ready while it cannot be served, and would wake the registry again at once.
    fn shut(&mut self, error: &DoorError, now_ns: u64) {
        tracing::warn!(%error, "no connection can be taken in");
        self.summary.accept_errors += 1;
        for fd in self.door.fds().into_iter().flatten() {
            // One that cannot be removed is tried again sooner, and no more than that.
            let _ = self.poller.remove(fd);
        }
        self.shut_until_ns = Some(now_ns + SHUT_NS);
    }

    fn open_again(&mut self, now_ns: u64) {
        if self
            .shut_until_ns
            .is_some_and(|until_ns| now_ns >= until_ns)
        {
            self.shut_until_ns = self.open().err().map(|_| now_ns + SHUT_NS);
        }
    }

    /// Makes room for one that has come: the oldest stranger goes, or the one without an offer that has said nothing for the longest time, if it has not for a lease.
    fn crowd_out(&mut self, now_ns: u64) {
        let stranger = self.clients.iter().find(|(_, client)| client.is_stranger);
        let silent = self.clients.iter().filter(|(_, client)| {
            let silent_ns = now_ns.saturating_sub(client.heard_ns);
            client.offer.is_empty() && silent_ns >= self.bounds.lease_ns
        });
        let silent = || silent.min_by_key(|(_, client)| client.heard_ns);
        if let Some(token) = stranger.or_else(silent).map(|(token, _)| *token) {
            self.let_go(token, "crowded");
        }
    }

    /// Bytes kept for all clients beside their offers.
    fn queued_bytes(&self) -> usize {
        self.clients.values().map(Client::queued_bytes).sum()
    }

    /// The client that has least of it pays for no other: the one of which most is kept goes, of several the one that has not taken its answer for the longest time.
    fn make_room(&mut self) {
        while self.queued_bytes() > self.bounds.queued_bytes {
            let most = self.clients.iter().max_by_key(|(_, client)| {
                let owed_since_ns = client.owed_since_ns().unwrap_or(u64::MAX);
                (client.queued_bytes(), Reverse(owed_since_ns))
            });
            let Some(token) = most.map(|(token, _)| *token) else {
                return;
            };
            self.let_go(token, "memory");
        }
    }

    /// Reads what a client says and answers; an error lets it go.
    fn speak(&mut self, token: u64, now_ns: u64) -> Result<(), &'static str> {
        let mut left = TURN_BYTES;
        let Some(client) = self.clients.get_mut(&token) else {
            return Ok(());
        };
        client.write()?;
        while left > 0 {
            let Some(client) = self.clients.get_mut(&token) else {
                return Ok(());
            };
            if client.owed_since_ns().is_some() {
                // What it says further waits where it is: it gets no second answer before it has taken the first.
                client.look()?;
                break;
            }
            let Some(line) = client.line() else {
                match client.read(now_ns)? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
                continue;
            };
            let said = client.take_said();
            let (answer, refused) = self.answer(token, &said[line], now_ns);
            left = left.saturating_sub(answer.len().max(LINE_COST_BYTES));
            if let Some(client) = self.clients.get_mut(&token) {
                client.give_back(said);
                client.is_stranger &= refused.is_some();
                client.say(answer, now_ns)?;
            }
            if let Some(reason) = refused {
                return Err(reason);
            }
        }
        self.rest(token, left == 0)
    }

    /// Waits for more of a client, or for the room to tell it more.
    fn rest(&mut self, token: u64, has_more: bool) -> Result<(), &'static str> {
        let Some(client) = self.clients.get_mut(&token) else {
            return Ok(());
        };
        let for_room = client.owed_since_ns().is_some();
        let asleep = client.link.arm(for_room).map_err(|error| lost(&error))?;
        client.link.disarm();
        if has_more && !for_room || !asleep {
            self.unread.insert(token);
        }
        let interest = if for_room && client.link.room_is_writable() {
            Interest::Writable
        } else {
            Interest::Readable
        };
        let poller = &self.poller;
        let mut fds = client.link.fds().into_iter().flatten();
        let changed = fds.try_for_each(|fd| poller.modify(fd, token, interest, Trigger::Level));
        changed.map_err(|_| "resource")
    }

    /// The line of the answer, and why that is the last one.
    fn answer(&mut self, token: u64, line: &[u8], now_ns: u64) -> (Vec<u8>, Option<&'static str>) {
        let (reason, why) = match serde_json::from_slice(line) {
            Ok(Request::Find) => return (self.page(Bound::Unbounded), None),
            Ok(Request::FindAfter(last)) => return (self.page(Bound::Excluded(last)), None),
            Ok(Request::Announce(offer)) => match self.announce(token, &offer, now_ns) {
                Ok(()) => return (said(&Answer::Kept), None),
                Err(refused) => refused,
            },
            Err(error) => ("not_understood", format!("no request: {error}")),
        };
        (said(&Answer::Refused(why)), Some(reason))
    }

    /// Keeps an offer, or says by name and in words why not.
    fn announce(
        &mut self,
        token: u64,
        offer: &Offer,
        now_ns: u64,
    ) -> Result<(), (&'static str, String)> {
        let wrong = offer.check().err();
        wrong.map_or(Ok(()), |error| Err(("not_understood", error.to_string())))?;
        let offer = text(offer);
        let others = self.clients.iter().filter(|(other, _)| **other != token);
        let others: usize = others.map(|(_, client)| client.offer.len()).sum();
        let most = self.bounds.offers_bytes;
        if offer.len() > LINE_BYTES_MAX || others + offer.len() > most {
            let why = format!(
                "{} bytes of an offer, beside {others} of the others; one has up to {LINE_BYTES_MAX}, and a registry keeps {most}: offer fewer tags, \
                 or start a further registry",
                offer.len()
            );
            return Err(("full", why));
        }
        if let Some(client) = self.clients.get_mut(&token) {
            self.summary.offers += u64::from(client.offer != offer);
            client.offer = offer;
            client.offer.shrink_to_fit();
            client.until_ns = now_ns + self.bounds.lease_ns;
        }
        Ok(())
    }

    /// Offers of the clients behind one, so many as fit. A client that comes later is behind all others, so that none is passed over.
    fn page(&mut self, after: Bound<u64>) -> Vec<u8> {
        self.summary.answers += 1;
        let mut page = Vec::new();
        let (mut head, mut end) = (&b"{\"offers\":["[..], "]}".to_owned());
        let mut last = 0;
        for (token, client) in self.clients.range((after, Bound::Unbounded)) {
            if client.offer.is_empty() {
                continue;
            }
            if !page.is_empty() {
                if page.len() + client.offer.len() >= PAGE_BYTES_MAX {
                    head = &b"{\"page\":{\"offers\":["[..];
                    end = format!("],\"last\":{last}}}}}");
                    break;
                }
                page.push(b',');
            }
            page.extend_from_slice(&client.offer);
            last = *token;
        }
        [head, &page, end.as_bytes(), b"\n"].concat()
    }

    fn expire(&mut self, now_ns: u64) {
        let mut gone = Vec::new();
        for (token, client) in &mut self.clients {
            if !client.offer.is_empty() && now_ns >= client.until_ns {
                client.offer = Vec::new();
                self.summary.expired += 1;
            }
            let lasts = |since_ns: u64, limit_ns| now_ns.saturating_sub(since_ns) >= limit_ns;
            if client
                .owed_since_ns()
                .is_some_and(|since_ns| lasts(since_ns, self.bounds.slow_ns))
            {
                gone.push((*token, "slow"));
            } else if lasts(client.heard_ns, self.bounds.silence_ns)
                || client.is_stranger && lasts(client.came_ns, self.bounds.stranger_ns)
            {
                gone.push((*token, "silent"));
            }
        }
        for (token, reason) in gone {
            self.let_go(token, reason);
        }
    }

    fn let_go(&mut self, token: u64, reason: &'static str) {
        if let Some(client) = self.clients.remove(&token) {
            for fd in client.link.fds().into_iter().flatten() {
                // It leaves the poller with its descriptor, too.
                let _ = self.poller.remove(fd);
            }
        }
        if reason != "closed" {
            *self.summary.refused.entry(reason).or_default() += 1;
        }
    }
}

fn said(answer: &Answer) -> Vec<u8> {
    [&text(answer)[..], b"\n"].concat()
}

/// As JSON; of what a registry says or keeps nothing has none.
fn text(said: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(said).unwrap_or_default()
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod large;
#[cfg(test)]
mod told;
