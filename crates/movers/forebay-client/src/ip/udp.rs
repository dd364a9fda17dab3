//! A socket of UDP, with its queues.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use super::{PortId, Stack, UdpCounts};

/// How many datagrams a socket of UDP keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpLimits {
    /// Most that wait for the program, 1 to 65,536: what comes then is dropped, and counted.
    pub unread_max: usize,
    /// Most that wait to be sent, 1 to 65,536.
    pub unsent_max: usize,
}

impl Default for UdpLimits {
    fn default() -> Self {
        Self {
            unread_max: 1_024,
            unsent_max: 256,
        }
    }
}

/// A datagram that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its sender.
    pub from: SocketAddr,
    /// To which address of the client.
    pub to: Option<IpAddr>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A socket of UDP.
#[derive(Debug)]
pub(super) struct Udp {
    pub(super) port: PortId,
    pub(super) number: u16,
    pub(super) limits: UdpLimits,
    pub(super) unread: VecDeque<Datagram>,
    pub(super) unsent: VecDeque<(SocketAddr, Vec<u8>)>,
    pub(super) counts: UdpCounts,
    /// Whether a datagram was refused since there was room last.
    pub(super) is_awaited: bool,
}

impl Udp {
    /// Whether it keeps one datagram more to be sent.
    pub(super) fn has_room(&self, stack: &Stack) -> bool {
        let waiting = usize::from(!stack.is_free(self.port));
        self.unsent.len() + waiting < self.limits.unsent_max
    }

    /// Gives up all that waits for the same receiver.
    pub(super) fn forget(&mut self, to: IpAddr) {
        let counts = &mut self.counts;
        self.unsent.retain(|(remote, payload)| {
            let is_lost = remote.ip() == to;
            if is_lost {
                counts.unresolved.add(payload.len());
            }
            !is_lost
        });
    }
}
