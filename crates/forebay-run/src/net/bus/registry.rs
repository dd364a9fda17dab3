//! The registry: takes offers for a lease each, and tells them to who asks.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use forebay_sys::clock;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use serde::Serialize;

use super::lines::{Answer, LINE_BYTES_MAX, Request};
use super::{LEASE, Offer};
use crate::error::RunError;
use crate::net::{Address, NetError};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 1024;
/// Most bytes that wait for a client to take them: one that reads nothing is let go.
const OUTBOX_BYTES_MAX: usize = 64 << 20;
/// Bytes taken of one client in one turn.
const TURN_BYTES: usize = 1 << 20;
/// A client that says nothing for so long is let go, in ns: announcers and finders speak once a second.
const SILENCE_NS: u64 = 60_000_000_000;
const LISTENER: u64 = 0;

/// A registry at work.
#[derive(Debug)]
pub struct Registry {
    listener: TcpListener,
    poller: Poller,
    clients: BTreeMap<u64, Client>,
    next_token: u64,
    summary: RegistrySummary,
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
    /// Answers with all offers.
    pub answers: u64,
    /// Clients let go, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    offer: Option<Offer>,
    until_ns: u64,
    heard_ns: u64,
}

impl Registry {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, or none of this host.
    pub fn listen(host: &str, port: u16) -> Result<Self, NetError> {
        let place = Address::Tcp {
            host: host.to_owned(),
            port,
        }
        .to_string();
        let failed = |error| RunError::file("listening on", place.clone())(error);
        let listener = TcpListener::bind((host, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let poller = Poller::create(64)?;
        poller.add(&listener, LISTENER, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            listener,
            poller,
            clients: BTreeMap::new(),
            next_token: LISTENER + 1,
            summary: RegistrySummary::default(),
        })
    }

    /// Where it really listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<Address, NetError> {
        let found = self.listener.local_addr();
        let found = found.map_err(RunError::file("asking for", "the registry's address"))?;
        Ok(Address::Tcp {
            host: found.ip().to_string(),
            port: found.port(),
        })
    }

    /// Offers that it keeps now.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        let offers = self
            .clients
            .values()
            .filter_map(|client| client.offer.clone());
        offers.collect()
    }

    /// Serves for up to `most`.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn serve(&mut self, most: Duration) -> Result<(), NetError> {
        let ready: Vec<u64> = self
            .poller
            .wait(Some(most), Duration::ZERO)?
            .map(|ready| ready.token)
            .collect();
        let now_ns = clock::monotonic_ns();
        for token in ready {
            if token == LISTENER {
                self.accept(now_ns);
            } else if let Err(reason) = self.speak(token, now_ns) {
                self.let_go(token, reason);
            }
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
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            let token = self.next_token;
            let full = self.clients.len() >= CONNECTIONS_MAX;
            let added = !full
                && stream.set_nonblocking(true).is_ok()
                && self
                    .poller
                    .add(&stream, token, Interest::Readable, Trigger::Level)
                    .is_ok();
            if !added {
                *self.summary.refused.entry("busy").or_default() += 1;
                continue;
            }
            self.next_token += 1;
            self.summary.connections += 1;
            let client = Client {
                stream,
                inbox: Vec::new(),
                outbox: Vec::new(),
                offer: None,
                until_ns: 0,
                heard_ns: now_ns,
            };
            self.clients.insert(token, client);
        }
    }

    /// Reads what a client says and answers; an error lets it go.
    fn speak(&mut self, token: u64, now_ns: u64) -> Result<(), &'static str> {
        let Some(client) = self.clients.get_mut(&token) else {
            return Ok(());
        };
        client.read(now_ns)?;
        while let Some(line) = self.clients.get_mut(&token).and_then(Client::line) {
            let answer = self.answer(token, &line, now_ns);
            let refused = matches!(answer, Answer::Refused(_));
            if let Some(client) = self.clients.get_mut(&token) {
                client.say(&answer)?;
                client.write()?;
            }
            if refused {
                return Err("not_understood");
            }
        }
        let Some(client) = self.clients.get_mut(&token) else {
            return Ok(());
        };
        client.write()?;
        let interest = if client.outbox.is_empty() {
            Interest::Readable
        } else {
            Interest::Both
        };
        let changed = self
            .poller
            .modify(&client.stream, token, interest, Trigger::Level);
        changed.map_err(|_| "resource")
    }

    fn answer(&mut self, token: u64, line: &[u8], now_ns: u64) -> Answer {
        match serde_json::from_slice(line) {
            Ok(Request::Find) => {
                self.summary.answers += 1;
                Answer::Offers(self.offers())
            }
            Ok(Request::Announce(offer)) => match offer.check() {
                Ok(_) => {
                    if let Some(client) = self.clients.get_mut(&token) {
                        self.summary.offers += u64::from(client.offer.as_ref() != Some(&offer));
                        client.offer = Some(offer);
                        client.until_ns = now_ns + LEASE.as_nanos() as u64;
                    }
                    Answer::Kept
                }
                Err(error) => Answer::Refused(error.to_string()),
            },
            Err(error) => Answer::Refused(format!("no request: {error}")),
        }
    }

    fn expire(&mut self, now_ns: u64) {
        let mut silent = Vec::new();
        for (token, client) in &mut self.clients {
            if client.offer.is_some() && now_ns >= client.until_ns {
                client.offer = None;
                self.summary.expired += 1;
            }
            if now_ns.saturating_sub(client.heard_ns) >= SILENCE_NS {
                silent.push(*token);
            }
        }
        for token in silent {
            self.let_go(token, "silent");
        }
    }

    fn let_go(&mut self, token: u64, reason: &'static str) {
        if let Some(client) = self.clients.remove(&token) {
            // It leaves the poller with its descriptor, too.
            let _ = self.poller.remove(&client.stream);
        }
        if reason != "closed" {
            *self.summary.refused.entry(reason).or_default() += 1;
        }
    }
}

impl Client {
    fn read(&mut self, now_ns: u64) -> Result<(), &'static str> {
        let mut piece = [0; 16 << 10];
        for _ in 0..TURN_BYTES / piece.len() {
            match (&self.stream).read(&mut piece) {
                Ok(0) => return Err("closed"),
                Ok(count) => {
                    self.heard_ns = now_ns;
                    self.inbox.extend_from_slice(&piece[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("closed"),
            }
            if self.inbox.len() > LINE_BYTES_MAX {
                return if self.inbox.contains(&b'\n') {
                    Ok(())
                } else {
                    Err("too_long")
                };
            }
        }
        Ok(())
    }

    /// The next whole line.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.inbox.iter().position(|byte| *byte == b'\n')?;
        let rest = self.inbox.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.inbox, rest);
        line.pop();
        Some(line)
    }

    fn say(&mut self, answer: &Answer) -> Result<(), &'static str> {
        let line = serde_json::to_vec(answer).map_err(|_| "resource")?;
        if self.outbox.len() + line.len() > OUTBOX_BYTES_MAX {
            return Err("slow");
        }
        self.outbox.extend_from_slice(&line);
        self.outbox.push(b'\n');
        Ok(())
    }

    fn write(&mut self) -> Result<(), &'static str> {
        while !self.outbox.is_empty() {
            match (&self.stream).write(&self.outbox) {
                Ok(0) => return Err("closed"),
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("closed"),
            }
        }
        Ok(())
    }
}
