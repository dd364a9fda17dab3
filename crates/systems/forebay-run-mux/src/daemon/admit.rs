//! Clients that come: one welcome for each look, and none for a place sooner than [`REJOIN_NS`] after the one before, as each costs memory that is made anew.

use std::os::fd::AsFd;

use forebay_client::protocol::{Message, Reason as No, Welcome};
use forebay_mux::ClientId;
use forebay_sys::epoll::{Interest, Trigger};
use forebay_sys::seqpacket::{Arrived, SeqSocket};

use super::{CLIENTS, Daemon, Place};
use crate::door::Caller;
use crate::error::MuxError;
use crate::lane::Lane;
use crate::plan::Sizes;

/// The least time between two welcomes to one place, in ns: a client that comes and goes without end has so much of the daemon, and no more.
const REJOIN_NS: u64 = 100_000_000;

impl Place {
    /// When the next client may be welcomed.
    fn due_ns(&self) -> u64 {
        self.welcomed_ns.map_or(0, |last_ns| last_ns + REJOIN_NS)
    }
}

impl Daemon {
    /// Takes in one that may have a place, if there is one. Others wait for the next look.
    pub(super) fn admit(&mut self, now_ns: u64) -> Result<(), MuxError> {
        let Some(caller) = self.door.accept(&self.plan, now_ns)? else {
            return Ok(());
        };
        // The one before may have gone unheard.
        self.hear(caller.client);
        self.part_all();
        self.seat(caller, now_ns)
    }

    /// Welcomes a caller, or has it wait until its place may be taken again.
    fn seat(&mut self, caller: Caller, now_ns: u64) -> Result<(), MuxError> {
        let Some(place) = self.places.get_mut(caller.client.index()) else {
            return Ok(());
        };
        let gone = place.early.take_if(|early| has_left(&early.socket));
        self.door.count("left", usize::from(gone.is_some()));
        if place.lane.is_some() || place.early.is_some() {
            let text = format!("the place '{}' has a client already", caller.name);
            self.door.refuse(&caller.socket, No::Taken, &text);
            return Ok(());
        }
        if place.due_ns() > now_ns {
            place.early = Some(caller);
            return Ok(());
        }
        self.welcome(caller, now_ns)
    }

    /// When the first of those that came too soon is due.
    pub(super) fn next_welcome_ns(&self) -> Option<u64> {
        let waiting = self.places.iter().filter(|place| place.early.is_some());
        waiting.map(Place::due_ns).min()
    }

    /// Welcomes one of those that came too soon, when it is due and still there.
    pub(super) fn welcome_early(&mut self, now_ns: u64) -> Result<(), MuxError> {
        let is_due = |place: &&mut Place| place.early.is_some() && place.due_ns() <= now_ns;
        let place = self.places.iter_mut().find(is_due);
        let Some(caller) = place.and_then(|place| place.early.take()) else {
            return Ok(());
        };
        if has_left(&caller.socket) {
            self.door.count("left", 1);
            return Ok(());
        }
        self.welcome(caller, now_ns)
    }

    fn welcome(&mut self, caller: Caller, now_ns: u64) -> Result<(), MuxError> {
        let Caller { socket, client, .. } = caller;
        let Some(said) = self.plan.clients.get(client.index()) else {
            return Ok(());
        };
        let added = self.plan.add(&mut self.mux, client, said, self.sizes);
        if let Err(error) = added {
            self.door.refuse(&socket, No::Resource, &error.to_string());
            return Ok(());
        }
        let welcome = Message::Welcome(Welcome {
            client: client.index() as u8,
            mac: said.mac().0,
            vlan: said.vlan,
            mtu_bytes: self.sizes.mtu_bytes,
            receive: self.sizes.receive,
            transmit: self.sizes.transmit,
            addresses: said.address.clone(),
        });
        // It has cost as much if it does not hear of it.
        self.places[client.index()].welcomed_ns = Some(now_ns);
        match hand_over(socket, self.sizes, &welcome) {
            Ok(lane) => self.watch(client, lane)?,
            Err(why) => {
                self.mux.remove_client(client);
                self.door.count(why, 1);
            }
        }
        Ok(())
    }

    fn watch(&mut self, client: ClientId, lane: Lane) -> Result<(), MuxError> {
        let token = CLIENTS + 2 * client.index() as u64;
        let poller = &self.poller;
        poller.add(&lane.socket, token, Interest::Readable, Trigger::Level)?;
        poller.add(lane.bell(), token + 1, Interest::Readable, Trigger::Edge)?;
        let place = &mut self.places[client.index()];
        place.lane = Some(lane);
        place.connected += 1;
        Ok(())
    }
}

/// Whether a caller that waits is there no more. One that says more than its hello is no client either.
fn has_left(socket: &SeqSocket) -> bool {
    !matches!(socket.receive(&mut [0; 1]), Ok(Arrived::Nothing))
}

/// Makes the memory of a client and gives it its part; or why it has none.
fn hand_over(socket: SeqSocket, sizes: Sizes, welcome: &Message) -> Result<Lane, &'static str> {
    let (lane, fds) = Lane::make(socket, sizes).map_err(|_| "no_memory")?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    match lane.socket.send(&welcome.emit(), &fds) {
        Ok(true) => Ok(lane),
        Ok(false) | Err(_) => Err("unheard"),
    }
}
