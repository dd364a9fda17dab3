//! Clients that come: one welcome for each look, and none for a place sooner than [`REJOIN_NS`] after the one before, as each costs memory that is made anew.

use std::os::fd::AsFd;

use forebay_client::protocol::{Message, PoolShape, Reason as No, Welcome};
use forebay_mux::ClientId;
use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Trigger};
use forebay_sys::seqpacket::{Arrived, SeqSocket};

use super::{CLIENTS, Daemon, Place};
use crate::config::ClientSettings;
use crate::door::Caller;
use crate::driver::SharedMemory;
use crate::lane::{Ends, Lane};

/// The least time between two welcomes to one place, in ns: a client that comes and goes without end has so much of the daemon, and no more.
const REJOIN_NS: u64 = 100_000_000;

/// Of former clients of a place so many may hold what they were handed without taking it. Descriptors that are under way are counted against the daemon's user, in all
/// its processes, and the kernel lets no more of them through than may be open.
const UNREAD_MAX: usize = 2;
/// Callers that one look deals with, until one of them is welcomed.
const CALLERS_MAX: usize = 16;

impl Place {
    /// When the next client may be welcomed.
    fn due_ns(&self) -> u64 {
        self.welcomed_ns.map_or(0, |last_ns| last_ns + REJOIN_NS)
    }
}

impl Daemon {
    /// Takes in one that may have a place, if there is one; some before it may be refused or have to wait. Others wait for the next look.
    pub(super) fn admit(&mut self, now_ns: u64) {
        for _ in 0..CALLERS_MAX {
            let Some(caller) = self.door.accept(&self.plan, now_ns) else {
                return;
            };
            // The one before may have gone unheard.
            self.hear(caller.client);
            self.part_all();
            if self.seat(caller, now_ns) {
                return;
            }
        }
    }

    /// Welcomes a caller, or has it wait until its place may be taken again, or refuses it. Whether its place was made, which takes time.
    fn seat(&mut self, caller: Caller, now_ns: u64) -> bool {
        let Some(place) = self.places.get_mut(caller.client.index()) else {
            return false;
        };
        let gone = place.early.take_if(|early| has_left(&early.socket));
        self.door.count("left", usize::from(gone.is_some()));
        if place.lane.is_some() || place.early.is_some() {
            let text = format!("the place '{}' has a client already", caller.name);
            self.door.refuse(&caller.socket, No::Taken, &text);
            return false;
        }
        place.unread.retain(is_unread);
        if place.unread.len() >= UNREAD_MAX {
            let text = "former clients of the place have not taken their welcome, and hold descriptors of the daemon: end them";
            self.door.refuse(&caller.socket, No::Resource, text);
            return false;
        }
        let is_due = place.due_ns() <= now_ns && !self.is_in_card(caller.client);
        if is_due {
            self.welcome(caller, now_ns);
        } else if let Some(place) = self.places.get_mut(caller.client.index()) {
            place.early = Some(caller);
        }
        is_due
    }

    /// When the first of those that came too soon is due.
    pub(super) fn next_welcome_ns(&self) -> Option<u64> {
        // One whose packets of before are in the card waits for that.
        let waiting = self.places.iter().filter(|place| {
            let early = place.early.as_ref();
            early.is_some_and(|caller| !self.is_in_card(caller.client))
        });
        waiting.map(Place::due_ns).min()
    }

    /// Welcomes one of those that came too soon, when it is due and still there.
    pub(super) fn welcome_early(&mut self, now_ns: u64) {
        let due = self.places.iter().position(|place| {
            let early = place.early.as_ref();
            place.due_ns() <= now_ns && early.is_some_and(|caller| !self.is_in_card(caller.client))
        });
        let Some(caller) = due.and_then(|at| self.places[at].early.take()) else {
            return;
        };
        if has_left(&caller.socket) {
            self.door.count("left", 1);
            return;
        }
        self.welcome(caller, now_ns);
    }

    fn welcome(&mut self, caller: Caller, now_ns: u64) {
        let Caller { socket, client, .. } = caller;
        let Some(said) = self.plan.clients.get(client.index()) else {
            return;
        };
        let added = self.plan.add(&mut self.mux, client, said, self.sizes);
        if let Err(error) = added {
            self.door.refuse(&socket, No::Resource, &error.to_string());
            return;
        }
        let welcome = Message::Welcome(Welcome {
            client: client.index() as u8,
            mac: said.mac().0,
            vlan: said.vlan,
            mtu_bytes: self.sizes.mtu_bytes,
            receive: self.receive_shape(said),
            transmit: self.sizes.transmit,
            addresses: said.address.clone(),
        });
        // It has cost as much if it does not hear of it.
        self.places[client.index()].welcomed_ns = Some(now_ns);
        let seated = self.hand_over(client, socket, &welcome);
        if let Err((socket, error)) = seated {
            self.mux.remove_client(client);
            self.door.refuse(&socket, No::Resource, &error);
        }
    }

    /// The memory in which a client reads frames where they were received, if it may.
    fn shared_with(&self, said: &ClientSettings) -> Option<&SharedMemory> {
        let may = said.shares() && said.trusted;
        self.shared.as_ref().filter(|_| may)
    }

    /// The pool in which frames for a client come.
    fn receive_shape(&self, said: &ClientSettings) -> PoolShape {
        let mut shape = self.sizes.receive;
        if let Some(shared) = self.shared_with(said) {
            shape.frame_bytes = shared.frame_bytes;
        }
        shape
    }

    /// Makes the memory of a client and gives it its part; or why it has none.
    fn hand_over(
        &mut self,
        client: ClientId,
        socket: SeqSocket,
        welcome: &Message,
    ) -> Result<(), (SeqSocket, String)> {
        let said = self.plan.clients.get(client.index());
        let trusted = said.filter(|said| said.trusted).map(ClientSettings::source);
        let receive = said.map_or(self.sizes.receive, |said| self.receive_shape(said));
        let shared = said.and_then(|said| self.shared_with(said));
        let shared = shared.map(|shared| shared.reader.as_fd());
        let (ends, fds) = match Ends::make(receive, self.sizes.transmit, trusted, shared) {
            Ok(made) => made,
            Err(error) => return Err((socket, error.to_string())),
        };
        let lane = Lane::new(socket, ends);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let watched = self.watch(client, &lane);
        let said = watched.and_then(|()| lane.socket.send(&welcome.emit(), &fds));
        let why = match said {
            Ok(true) => {
                let place = &mut self.places[client.index()];
                place.lane = Some(lane);
                place.bells.begin();
                place.connected += 1;
                return Ok(());
            }
            Ok(false) => "the connection takes no welcome".to_owned(),
            Err(error) => error.to_string(),
        };
        self.forget(&lane);
        Err((lane.socket, why))
    }

    fn watch(&self, client: ClientId, lane: &Lane) -> Result<(), SysError> {
        let token = CLIENTS + 2 * client.index() as u64;
        let poller = &self.poller;
        poller.add(&lane.socket, token, Interest::Readable, Trigger::Level)?;
        poller.add(lane.bell(), token + 1, Interest::Readable, Trigger::Edge)
    }

    /// Waits for a client no more. It may have its descriptors open still: that they are closed here does not end the watch.
    pub(super) fn forget(&self, lane: &Lane) {
        // What is not there need not be taken out.
        let _ = self.poller.remove(lane.bell());
        let _ = self.poller.remove(&lane.socket);
    }
}

/// Whether the peer has records to take.
pub(super) fn is_unread(socket: &SeqSocket) -> bool {
    socket.unread_bytes().is_ok_and(|bytes| bytes > 0)
}

/// Whether a caller that waits is there no more. One that says more than its hello is no client either.
fn has_left(socket: &SeqSocket) -> bool {
    !matches!(socket.receive(&mut [0; 1]), Ok(Arrived::Nothing))
}
