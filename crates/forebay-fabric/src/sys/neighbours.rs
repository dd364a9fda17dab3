//! End points of the provider `shm` that cannot be closed yet, as their peer still reads their memory.
//!
//! A peer takes a long page out of its sender's memory by itself, whenever it gets to it, also after the sender has closed: then that memory may be another
//! one's. So an end point that is left with sends under way is kept until its peer has left, too.
//!
//! And where the peer is in this very process:
//! In libfabric 1.17 such an end point uses its peer's memory where that has mapped it, also after the peer has closed. (A peer in another process is
//! mapped a second time, and stays.) So the first one of a pair to be closed is kept until the second one is.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::channel::Parts;
use super::unix::{Record, UnixSocket};

/// Addresses of all end points of this process that are open, each with its peer's.
static OPEN: LazyLock<Mutex<Neighbours>> = LazyLock::new(Mutex::default);

#[derive(Default)]
pub(super) struct Neighbours {
    peers: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Closed ones, by the peer that still may use their memory.
    kept: HashMap<Vec<u8>, Parts>,
    /// Those with sends under way to other processes, by whose socket it shows when they leave.
    left: Vec<(UnixSocket, Parts)>,
}

/// The pairs; nobody opens or closes one meanwhile.
pub(super) fn neighbours() -> MutexGuard<'static, Neighbours> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Neighbours {
    pub(super) fn open(&mut self, address: Vec<u8>) {
        self.peers.insert(address, None);
        self.close_left();
    }

    /// Makes a pair of two; false when the peer is of this process and is not open, or has another peer. Peers of other processes are none of our
    /// business.
    pub(super) fn pair(&mut self, own: &[u8], peer: &[u8]) -> bool {
        let prefix = format!("fi_shm://{}:", std::process::id());
        if !peer.starts_with(prefix.as_bytes()) {
            return true;
        }
        if own == peer {
            return false;
        }
        match self.peers.get_mut(peer) {
            Some(found) if found.as_deref().is_none_or(|other| other == own) => {
                *found = Some(own.to_vec());
            }
            _ => return false,
        }
        self.peers.insert(own.to_vec(), Some(peer.to_vec()));
        true
    }

    /// Closes the one at this address, or keeps it until its peer is closed; and the peer, when that was kept for this one.
    /// With a socket, there are sends under way to who is at its other end.
    pub(super) fn close(&mut self, address: &[u8], parts: Parts, reader: Option<UnixSocket>) {
        self.close_left();
        match (self.peers.remove(address).flatten(), reader) {
            (Some(peer), _) if self.peers.contains_key(&peer) => {
                self.kept.insert(peer, parts);
            }
            (None, Some(reader)) => self.left.push((reader, parts)),
            _ => drop(parts),
        }
        drop(self.kept.remove(address));
    }

    fn close_left(&mut self) {
        self.left.retain(|(socket, _)| {
            let said = socket.receive(&mut [0]);
            matches!(said, Ok(Record::Nothing | Record::Bytes(_)))
        });
    }
}
