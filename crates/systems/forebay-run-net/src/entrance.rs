//! Where connections come in: so many in a round, and none for a moment when the system has no more to give.

use std::collections::BTreeMap;

use forebay_link::bytes::{Address, ByteLink, Door, DoorError, TurnedAway};
use forebay_sys::SysError;

use crate::hub::Hub;

/// Most connections taken in one round: a peer that is connected has its turn before the next ones come in.
const ACCEPTS_PER_ROUND_MAX: usize = 16;
/// How long nobody is taken in after the system refused, as without free descriptors. A peer that comes waits in its backlog.
const SHUT_NS: u64 = 100_000_000;

/// How often it is asked what has come. Each answer is a system call that makes a socket in vain, and an end point that is woken for each block of a card would
/// spend a tenth of its time on it.
const ASK_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Entrance {
    door: Box<dyn Door>,
    /// Nobody is asked for before this time.
    ask_ns: u64,
    shut_until_ns: Option<u64>,
    /// How often the system refused to take a connection in.
    pub(super) errors: u64,
}

impl Entrance {
    pub(super) fn open(door: Box<dyn Door>, hub: &Hub) -> Result<Self, SysError> {
        hub.add_door(&*door)?;
        Ok(Self {
            door,
            ask_ns: 0,
            shut_until_ns: None,
            errors: 0,
        })
    }

    pub(super) fn address(&self) -> Result<Address, DoorError> {
        self.door.address()
    }

    /// Those that were not let in, by reason.
    pub(super) fn turned_away(&self) -> BTreeMap<&'static str, u64> {
        let TurnedAway {
            other_user,
            malformed,
            silent,
            left,
            crowded,
            no_resource,
            given_up,
        } = self.door.turned_away();
        let all = [
            ("other_user", other_user),
            ("malformed", malformed),
            ("silent", silent),
            ("left", left),
            ("crowded", crowded),
            ("no_resource", no_resource),
            ("given_up", given_up),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn must_be_polled(&self) -> bool {
        self.door.must_be_polled()
    }

    /// Those that came since the last round.
    pub(super) fn accept(&mut self, hub: &Hub, now_ns: u64) -> Vec<Box<dyn ByteLink>> {
        let mut came = Vec::new();
        if now_ns < self.ask_ns {
            return came;
        }
        match self.shut_until_ns {
            Some(until_ns) if now_ns < until_ns => return came,
            Some(_) if hub.add_door(&*self.door).is_err() => {
                self.shut_until_ns = Some(now_ns + SHUT_NS);
                return came;
            }
            _ => self.shut_until_ns = None,
        }
        while came.len() < ACCEPTS_PER_ROUND_MAX {
            match self.door.accept() {
                Ok(Some(link)) => came.push(link),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "no connection can be taken in");
                    self.errors += 1;
                    // A door that is ready and cannot be served would wake the end point again at once.
                    hub.remove_door(&*self.door);
                    self.shut_until_ns = Some(now_ns + SHUT_NS);
                    break;
                }
            }
        }
        // Where one has come there are more, or he has something to say before he is let in.
        self.ask_ns = if came.is_empty() { now_ns + ASK_NS } else { 0 };
        came
    }
}
