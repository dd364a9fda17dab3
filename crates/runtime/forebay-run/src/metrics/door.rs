//! Many connections in one thread: a client that says nothing holds no other up.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_ledger::prometheus::Family;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use rustix::io::Errno;

use super::exchange::Exchange;
use super::{CONNECTIONS_MAX, Shown};
use crate::error::RunError;

/// Rest after the listener or the poller failed, for example by want of descriptors.
const FAILURE_REST: Duration = Duration::from_millis(100);
/// Most connections that are accepted before those that are there have their turn.
const ACCEPTED_PER_ROUND: usize = CONNECTIONS_MAX / 4;
/// Token of the listening socket; connections count from 1, the oldest first.
const LISTENER: u64 = 0;

/// What the door has seen.
#[derive(Debug, Default)]
pub(super) struct Counts {
    accepted: u64,
    crowded_out: u64,
    timed_out: u64,
    failed: u64,
}

impl Counts {
    /// The same on the page.
    pub(super) fn families(&self) -> Vec<Family> {
        let ends = [
            ("crowded_out", self.crowded_out),
            ("timed_out", self.timed_out),
            ("not_accepted", self.failed),
        ];
        let sample = |(how, count): (&str, u64)| (vec![("how", how.to_owned())], count as f64);
        vec![
            Family {
                name: "metrics_connections",
                help: "Connections to this page",
                is_counter: true,
                samples: vec![(Vec::new(), self.accepted as f64)],
            },
            Family {
                name: "metrics_connections_cut",
                help: "Connections to this page that made room for others, took too long, or could not be accepted",
                is_counter: true,
                samples: ends.into_iter().map(sample).collect(),
            },
        ]
    }
}

/// What helps when a connection could not be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// One connection less: descriptors or memory ran out.
    Room,
    /// The next one: this one has gone before it was taken.
    Next,
    /// Time, if anything; no connection that is there is to blame.
    Rest,
}

fn remedy(error: &io::Error) -> Remedy {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Remedy::Room,
        Some(Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR) => Remedy::Next,
        _ => Remedy::Rest,
    }
}

pub(super) struct Door {
    listener: TcpListener,
    poller: Poller,
    exchanges: BTreeMap<u64, Exchange>,
    next_token: u64,
    counts: Counts,
}

impl Door {
    pub(super) fn open(listener: TcpListener) -> Result<Self, RunError> {
        let setting = RunError::file("setting up", "the listener for metrics");
        listener.set_nonblocking(true).map_err(setting)?;
        let poller = Poller::create(CONNECTIONS_MAX + 1)?;
        poller.add(&listener, LISTENER, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            listener,
            poller,
            exchanges: BTreeMap::new(),
            next_token: LISTENER + 1,
            counts: Counts::default(),
        })
    }

    /// Serves until `stop`, which the thread that sets it makes known by a connection.
    pub(super) fn serve(&mut self, shown: &Shown, stop: &AtomicBool) {
        let mut ready = Vec::with_capacity(CONNECTIONS_MAX + 1);
        // Looked at before each wait: the connection that makes it known may have come together with another one.
        while !stop.load(Ordering::Acquire) {
            ready.clear();
            let first = self.exchanges.values().next();
            let limit = first.map(|one| one.deadline().saturating_duration_since(Instant::now()));
            match self.poller.wait(limit, Duration::ZERO) {
                Ok(events) => ready.extend(events.map(|event| event.token)),
                Err(error) => {
                    tracing::warn!(%error, "waiting for requests for metrics");
                    std::thread::sleep(FAILURE_REST);
                }
            }
            // A client that has asked has its answer before others come.
            for token in ready.iter().filter(|token| **token != LISTENER) {
                self.turn(*token, shown);
            }
            if ready.contains(&LISTENER) {
                self.accept(shown);
            }
            self.dismiss_overdue(shown);
        }
    }

    fn turn(&mut self, token: u64, shown: &Shown) {
        if let Some(exchange) = self.exchanges.get_mut(&token)
            && !exchange.turn(shown, &self.counts)
        {
            self.exchanges.remove(&token);
        }
    }

    fn accept(&mut self, shown: &Shown) {
        for _ in 0..ACCEPTED_PER_ROUND {
            match self.admit(shown) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.counts.failed += 1;
                    tracing::warn!(%error, "cannot take a request for metrics");
                    match remedy(&error) {
                        Remedy::Next => continue,
                        Remedy::Room if self.make_room(shown) => {}
                        Remedy::Room | Remedy::Rest => std::thread::sleep(FAILURE_REST),
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, shown: &Shown) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        self.counts.accepted += 1;
        if self.exchanges.len() >= CONNECTIONS_MAX {
            self.make_room(shown);
        }
        let exchange = Exchange::new(stream, Instant::now())?;
        let token = self.next_token;
        self.next_token += 1;
        let socket = exchange.socket();
        self.poller
            .add(socket, token, Interest::Both, Trigger::Edge)
            .map_err(io::Error::other)?;
        self.exchanges.insert(token, exchange);
        // A request is mostly there already.
        self.turn(token, shown);
        Ok(())
    }

    /// Closes the oldest of those that have not asked, or of all; false when there is none.
    fn make_room(&mut self, shown: &Shown) -> bool {
        let oldest = self.exchanges.iter();
        let oldest = oldest.min_by_key(|(token, exchange)| (exchange.stage(), **token));
        let Some(token) = oldest.map(|(token, _)| *token) else {
            return false;
        };
        if let Some(mut exchange) = self.exchanges.remove(&token) {
            exchange.dismiss(shown, &self.counts);
            self.counts.crowded_out += 1;
        }
        true
    }

    fn dismiss_overdue(&mut self, shown: &Shown) {
        let now = Instant::now();
        while let Some(entry) = self.exchanges.first_entry()
            && entry.get().deadline() <= now
        {
            entry.remove().dismiss(shown, &self.counts);
            self.counts.timed_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_want_of_descriptors_or_memory_costs_a_connection_that_is_there() {
        let of = |errno: Errno| remedy(&errno.into());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
            assert_eq!(of(errno), Remedy::Room, "{errno:?}");
        }
        for errno in [Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR] {
            assert_eq!(of(errno), Remedy::Next, "{errno:?}");
        }
        let others = [Errno::PERM, Errno::INVAL, Errno::NETDOWN, Errno::PROTO];
        for errno in others {
            assert_eq!(of(errno), Remedy::Rest, "{errno:?}");
        }
        assert_eq!(remedy(&io::ErrorKind::Other.into()), Remedy::Rest);
    }
}
