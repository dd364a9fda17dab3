//! An interface of the kernel as a card.

use forebay_mux::{Items, Mac};
use forebay_sys::SysError;
use forebay_sys::netlink::links;
use forebay_sys::packet::{FrameSocket, InterfaceState};

use super::account::LinkCounts;
use super::{Card, CardState, DriverError, Link};

/// An interface, by the number that it keeps when it is renamed.
#[derive(Debug)]
pub(super) struct InterfaceCard {
    /// It takes no frame and sends none: it is what the kernel is asked over.
    socket: FrameSocket,
    /// What the interface had counted when it was opened.
    before: LinkCounts,
}

impl InterfaceCard {
    pub(super) fn open(interface: &str) -> Result<Self, DriverError> {
        let socket = FrameSocket::open_beside(interface)?;
        let mut card = Self {
            socket,
            before: LinkCounts::default(),
        };
        card.before = card.counted()?.unwrap_or_default();
        Ok(card)
    }

    /// Has the interface take frames that are for other addresses than its own, as long as this is open: clients have addresses of their own.
    pub(super) fn be_promiscuous(&self) -> Result<(), SysError> {
        self.socket.be_promiscuous()
    }

    fn link(&self) -> Link {
        let interface = self.socket.interface();
        match interface.state(&self.socket) {
            InterfaceState::Gone => Link::Gone,
            InterfaceState::Down => Link::Down,
            InterfaceState::Up if interface.has_carrier(&self.socket) => Link::Up,
            InterfaceState::Up => Link::NoCarrier,
        }
    }

    /// What the interface has counted since it was made.
    fn counted(&self) -> Result<Option<LinkCounts>, DriverError> {
        let index = self.socket.interface().index;
        let links = links()?;
        let Some(link) = links.iter().find(|link| link.index == index) else {
            return Ok(None);
        };
        let of = |name: &str| link.counters.get(name).copied().unwrap_or(0);
        let items = |items, bytes| Items {
            items: of(items),
            bytes: of(bytes),
        };
        Ok(Some(LinkCounts {
            received: items("rx_packets", "rx_bytes"),
            receive_dropped: of("rx_dropped"),
            receive_missed: of("rx_missed_errors"),
            receive_errors: of("rx_errors"),
            sent: items("tx_packets", "tx_bytes"),
            send_dropped: of("tx_dropped"),
            send_errors: of("tx_errors"),
        }))
    }
}

impl Card for InterfaceCard {
    fn name(&self) -> &str {
        &self.socket.interface().name
    }

    fn look(&mut self) -> CardState {
        let interface = self.socket.interface();
        let mac = interface.mac(&self.socket).unwrap_or_default();
        CardState {
            link: self.link(),
            mtu_bytes: interface.mtu_bytes(&self.socket).unwrap_or(0),
            mac: Mac(mac),
        }
    }

    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
        let before = self.before;
        let since = |now: LinkCounts| LinkCounts {
            received: without(now.received, before.received),
            receive_dropped: now.receive_dropped.saturating_sub(before.receive_dropped),
            receive_missed: now.receive_missed.saturating_sub(before.receive_missed),
            receive_errors: now.receive_errors.saturating_sub(before.receive_errors),
            sent: without(now.sent, before.sent),
            send_dropped: now.send_dropped.saturating_sub(before.send_dropped),
            send_errors: now.send_errors.saturating_sub(before.send_errors),
        };
        Ok(self.counted()?.map(since))
    }
}

fn without(now: Items, before: Items) -> Items {
    Items {
        items: now.items.saturating_sub(before.items),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}
