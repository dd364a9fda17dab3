//! Control datagrams: which of those that left wait for the kernel's stamp.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use forebay_sys::stamped::{Queued, Stamped};

/// Stamps that are waited for; older ones are given up.
const WAITING_MAX: usize = 4096;
/// Entries of the socket's error queue that are looked at for one stamp: the rest stays there, and wakes whoever waits.
const LOOKED_AT_MAX: usize = 64;

/// Sends, and remembers what each stamp is for.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    waiting: VecDeque<(u32, u64)>,
    /// Datagrams that the kernel refused.
    pub(super) refused: u64,
    /// What the network said of datagrams, such as that nobody listens.
    pub(super) errors: u64,
}

impl Outbound {
    /// Sends one datagram. With `stamp`, [`poll`](Self::poll) tells when it left under that number.
    pub(super) fn send(
        &mut self,
        socket: &mut Stamped,
        bytes: &[u8],
        to: Option<SocketAddr>,
        stamp: Option<u64>,
    ) {
        // All of them ask for a stamp: a send that does not would need another call, and they are few.
        match socket.send_stamped(bytes, to) {
            Ok(id) => {
                if let Some(stamp) = stamp {
                    if self.waiting.len() == WAITING_MAX {
                        self.waiting.pop_front();
                    }
                    self.waiting.push_back((id, stamp));
                }
            }
            // Asked for again by whoever misses it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.errors += 1,
            Err(_) => self.refused += 1,
        }
    }

    /// Whether a stamp is waited for.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next stamp that was waited for: its number and the wall clock's time, in ns. None also when there are many entries before it.
    pub(super) fn poll(&mut self, socket: &Stamped) -> Option<(u64, u64)> {
        for _ in 0..LOOKED_AT_MAX {
            match socket.poll_sent() {
                Ok(Some(Queued::Sent(stamp))) => {
                    let at = self.waiting.iter().position(|(id, _)| *id == stamp.id);
                    if let Some((_, number)) = at.and_then(|at| self.waiting.remove(at)) {
                        return Some((number, stamp.realtime_ns));
                    }
                }
                Ok(Some(Queued::Error(_))) => self.errors += 1,
                Ok(None) | Err(_) => return None,
            }
        }
        None
    }
}
