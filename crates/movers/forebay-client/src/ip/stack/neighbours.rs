//! Questions for the Ethernet addresses of neighbours, and the time that their answers are waited for.

use std::net::IpAddr;

use smoltcp::phy::{Device, TxToken};
use smoltcp::wire::IpCidr;

use super::{PATIENCE_NS, Stack, instant};
use crate::ip::frame;

/// Shortest between two questions for the same neighbour, ns, as smoltcp has it.
pub(super) const ASK_NS: u64 = 1_000_000_000;

/// The time that an answer is waited for. It stands still while nobody can be asked, as there is no buffer for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) left_ns: u64,
    /// Since when it runs; none: it stands still.
    pub(super) runs_since_ns: Option<u64>,
}

impl Clock {
    pub(super) const NEW: Self = Self {
        left_ns: PATIENCE_NS,
        runs_since_ns: None,
    };

    /// Counts the time until now, and runs on or stands still; whether none is left.
    pub(super) const fn tick(&mut self, now_ns: u64, runs: bool) -> bool {
        if let Some(since_ns) = self.runs_since_ns {
            let passed_ns = now_ns.saturating_sub(since_ns);
            self.left_ns = self.left_ns.saturating_sub(passed_ns);
        }
        self.runs_since_ns = if runs { Some(now_ns) } else { None };
        self.left_ns == 0
    }
}

impl Stack {
    /// Keeps for which neighbours was asked by frames that were handed over.
    pub(super) fn note_asked(&mut self, now_ns: u64) {
        let Some(noted) = &mut self.device.noted else {
            return;
        };
        for target in noted.asked.drain(..) {
            self.asked.retain(|(one, _)| *one != target);
            self.asked.push((target, now_ns));
        }
    }

    /// The neighbour that a packet to this address goes to; none: it goes to all, or there is no way.
    pub(super) fn hop(&self, to: IpAddr) -> Option<IpAddr> {
        let own = self.interface.ip_addrs();
        let goes_to_all = |own: &IpCidr| match (own, to) {
            (IpCidr::Ipv4(own), IpAddr::V4(to)) => own.broadcast() == Some(to),
            _ => false,
        };
        if to.is_multicast() || own.iter().any(goes_to_all) {
            return None;
        }
        if own.iter().any(|own| own.contains_addr(&to.into())) {
            return Some(to);
        }
        let routes = self.interface.routes();
        let way = match to {
            IpAddr::V4(to) if to.is_broadcast() => None,
            IpAddr::V4(_) => routes.get_default_ipv4_route(),
            IpAddr::V6(_) => routes.get_default_ipv6_route(),
        };
        way.map(|way| way.via_router.into())
    }

    /// Asks for the neighbour that a packet to this address goes to, if there is a buffer.
    pub(in crate::ip) fn ask_for(&mut self, to: IpAddr, now_ns: u64) {
        let is_ready = self.device.client.is_ready().unwrap_or(false);
        if let Some(hop) = self.hop(to).filter(|_| is_ready) {
            self.ask(hop, now_ns);
        }
    }

    /// Asks for a neighbour, unless somebody did so within [`ASK_NS`].
    pub(super) fn ask(&mut self, target: IpAddr, now_ns: u64) {
        if self.asked.iter().any(|(one, _)| *one == target) {
            return;
        }
        let own = self.interface.ip_addrs();
        let is_near = |own: &&IpCidr| own.contains_addr(&target.into());
        let near = own.iter().find(is_near).map(IpCidr::address);
        let of_version = |own: &IpAddr| own.is_ipv4() == target.is_ipv4();
        let any = own.iter().map(|own| own.address().into()).find(of_version);
        let from = near.map(Into::into).or(any);
        let mac = self.device.client.welcome().mac;
        let Some(frame) = from.and_then(|from| frame::question(mac, from, target)) else {
            return;
        };
        if let Some(leave) = self.device.transmit(instant(now_ns)) {
            leave.consume(frame.len(), |room| room.copy_from_slice(&frame));
        }
        self.note_asked(now_ns);
    }
}
