//! Control datagrams: which of those that left wait for the kernel's stamp.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use forebay_sys::stamped::{Queued, Stamped};

/// Stamps that are waited for; older ones are given up.
const WAITING_MAX: usize = 4096;
/// Entries of the socket's error queue that are looked at for one stamp: the rest stays there, and wakes the thread that waits.
const LOOKED_AT_MAX: usize = 64;

/// What is to be known of a datagram's departure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The number under which its stamp is wanted.
    pub(super) stamp: Option<u64>,
    /// It leaves at this time, of the host's monotonic clock, in ns.
    pub(super) launch_ns: Option<u64>,
}

/// Sends, and remembers what each stamp is for.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    waiting: VecDeque<(u32, Wanted)>,
    /// Datagrams that the kernel refused.
    pub(super) refused: u64,
    /// What the network said of datagrams, such as that nobody listens.
    pub(super) errors: u64,
}

impl Outbound {
    /// Launch times of what has not left are worth nothing any more: the clock of the stamps was set.
    pub(super) fn forget_launches(&mut self) {
        for (_, wanted) in &mut self.waiting {
            wanted.launch_ns = None;
        }
    }

    /// Sends one datagram. Where something is wanted, [`poll`](Self::poll) tells when it left. True when the kernel has taken it.
    pub(super) fn send(
        &mut self,
        socket: &mut Stamped,
        bytes: &[u8],
        to: Option<SocketAddr>,
        wanted: Wanted,
    ) -> bool {
        // All of them ask for a stamp: a send that does not would need another call, and they are few.
        match socket.send_stamped_at(bytes, to, wanted.launch_ns) {
            Ok(id) => {
                if wanted != Wanted::default() {
                    if self.waiting.len() == WAITING_MAX {
                        self.waiting.pop_front();
                    }
                    self.waiting.push_back((id, wanted));
                }
                return true;
            }
            // Asked for again by the side that misses it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.errors += 1,
            Err(_) => self.refused += 1,
        }
        false
    }

    /// Whether a stamp is waited for.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next departure that was waited for, and the wall clock's time of it, in ns. None also when there are many entries before it.
    pub(super) fn poll(&mut self, socket: &Stamped) -> Option<(Wanted, u64)> {
        for _ in 0..LOOKED_AT_MAX {
            match socket.poll_sent() {
                Ok(Some(Queued::Sent(stamp))) => {
                    let at = self.waiting.iter().position(|(id, _)| *id == stamp.id);
                    if let Some((_, wanted)) = at.and_then(|at| self.waiting.remove(at)) {
                        return Some((wanted, stamp.realtime_ns));
                    }
                }
                Ok(Some(Queued::Error(_))) => self.errors += 1,
                Ok(None) | Err(_) => return None,
            }
        }
        None
    }
}
