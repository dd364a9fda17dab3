//! One round: what there is to do for the card and for each client, once.

use forebay_mux::buffers::BufferId;
use forebay_mux::descriptor::{Descriptor, TransmitFault};
use forebay_mux::transmit::{Next, Packet};
use forebay_mux::{ClientId, Items, Mux, Refused, Returned, Source};
use forebay_ring::RingError;
use forebay_sys::epoll::{Interest, Trigger};

use super::arrivals::Arrivals;
use super::{Daemon, Given, Leaving, Place, SEND};
use crate::driver::{Fate, Flushed, Link, SendSide, Sent};
use crate::error::MuxError;
use crate::lane::Waiting;

/// Frames that are taken from the card in one round.
const FRAMES: usize = 256;
/// Packets that are taken from each client in one round.
const PACKETS: usize = 64;
/// Packets that the card is given in one round.
const SENDS: usize = 256;

/// A card without room is looked at again after so long: a frame of 1,518 bytes leaves a link of 1 Gb/s in 12 µs.
const BUSY_LOOK_NS: u64 = 200_000;
/// So often, and so long each time, another thread is waited for that gives the card nothing of what a client had handed over when it left.
const LAST_LOOKS: u32 = 5;
const LAST_NS: u64 = 20_000_000;
/// One that has not said the fate of all frames, as buffers of some come back later, after so long.
const FATE_LOOK_NS: u64 = 1_000_000;

impl Daemon {
    /// Does what there is to do; how much it was, in frames, packets and buffers.
    pub(super) fn round(&mut self, now_ns: u64) -> Result<usize, MuxError> {
        let returned = self.take_back_all();
        let received = self.receive()?;
        if received > 0 {
            // Before the kernel sends others, which takes some us for each.
            self.ring();
        }
        let offered = self.take_all(now_ns, PACKETS);
        let sent = self.send(now_ns);
        self.flush(sent > 0 || received > 0);
        self.ring();
        self.part_all();
        Ok(returned + received + offered + sent)
    }

    fn clients(&self) -> impl Iterator<Item = ClientId> + use<> {
        ids().take(self.places.len())
    }

    /// Buffers that clients give back; how many numbers they said.
    fn take_back_all(&mut self) -> usize {
        let mut returned = 0;
        for client in self.clients() {
            if self.places[client.index()].lane.is_some() {
                returned += self.take_back(client);
            }
        }
        returned
    }

    fn take_back(&mut self, client: ClientId) -> usize {
        let place = &mut self.places[client.index()];
        let (numbers, leaving) = (&mut self.numbers, &mut self.leaving);
        take_back(&mut self.mux, client, place, numbers, leaving)
    }

    /// Frames of the card, to clients.
    pub(super) fn receive(&mut self) -> Result<usize, MuxError> {
        if self.is_early {
            if self.places.iter().any(|place| place.lane.is_none()) {
                return Ok(0);
            }
            self.begin()?;
        }
        let Self {
            mux,
            driver,
            places,
            answers,
            given,
            numbers,
            leaving,
            signals,
            shared,
            leak,
            ..
        } = self;
        let is_shared = shared.is_some();
        let mut arrivals = Arrivals {
            mux,
            places,
            send: &mut *driver.send,
            answers,
            given,
            numbers,
            leaving,
            signals,
            visited: 0,
            leak,
        };
        let card = &mut driver.receive;
        let received = match is_shared {
            true => card.receive_shared(FRAMES, &mut arrivals)?,
            false => card.receive(FRAMES, &mut |frame| arrivals.visit(frame))?,
        };
        if std::mem::take(&mut self.is_card_calling) && received == 0 {
            self.driver.receive.settle();
            if self.driver.card.look().link == Link::Gone {
                let name = self.driver.card.name().to_owned();
                return Err(MuxError::CardGone { name });
            }
        }
        Ok(received)
    }

    /// Packets that clients hand over; how many.
    fn take_all(&mut self, now_ns: u64, most: usize) -> usize {
        let mut taken = 0;
        for client in self.clients() {
            if self.places[client.index()].lane.is_some() {
                taken += self.take(client, now_ns, most);
            }
        }
        taken
    }

    fn take(&mut self, client: ClientId, now_ns: u64, most: usize) -> usize {
        let Self {
            mux,
            places,
            leaving,
            ..
        } = self;
        let Some(lane) = places[client.index()].lane.as_mut() else {
            return 0;
        };
        for taken in 0..most {
            let said = match lane.next() {
                Ok(Some(said)) => said,
                Ok(None) => return taken,
                Err(error) => {
                    leaving.push(misplaced(client, &error));
                    return taken;
                }
            };
            let descriptor = Descriptor {
                buffer: said.frame,
                offset: said.offset,
                length: said.len,
            };
            // Without a copy there is no packet, which is no lie of the client: the card is given none, and that is counted.
            match mux.offer(client, descriptor, now_ns, |descriptor| {
                lane.take(descriptor)
            }) {
                Ok(()) => {}
                Err(Refused::Disconnected(fault)) => {
                    leaving.push(lied(client, fault.to_string()));
                    return taken + 1;
                }
                Err(Refused::Fault(fault)) => {
                    if is_its_own(fault.kind()) {
                        lane.free(said.frame);
                    }
                }
                Err(Refused::Dropped(_)) => lane.free(said.frame),
            }
        }
        most
    }

    /// Packets to the card, as policies say; how many.
    fn send(&mut self, now_ns: u64) -> usize {
        let waited = usize::from(self.pending.is_some());
        if !self.send_pending(now_ns) {
            return 0;
        }
        for sent in waited..SENDS {
            let places = &mut self.places;
            let next = self
                .mux
                .poll(now_ns, |client, buffer| free(places, client, buffer));
            self.ask_at_ns = None;
            match next {
                Next::Send(client, packet) => {
                    if !self.give_to_card(client, packet) {
                        // The next round says until when it may wait.
                        self.ask_at_ns = Some(now_ns);
                        return sent;
                    }
                }
                Next::AskAt(at_ns) => {
                    self.ask_at_ns = Some(at_ns);
                    return sent;
                }
                Next::Idle => return sent,
            }
        }
        SENDS
    }

    /// Gives the card the packet that it had no room for, unless that has waited too long. Whether there is room for others: without it they go on waiting, and not for
    /// longer than they may.
    fn send_pending(&mut self, now_ns: u64) -> bool {
        let Some((client, packet)) = self.pending.take() else {
            return true;
        };
        let places = &mut self.places;
        let next_ns = self
            .mux
            .drop_late(now_ns, |client, buffer| free(places, client, buffer));
        let late_at_ns = self.mux.late_at_ns(client, &packet);
        if late_at_ns.is_some_and(|late_ns| late_ns <= now_ns) {
            if self.mux.finish_late(client, packet) {
                free(&mut self.places, client, packet.buffer);
            }
            return true;
        }
        let is_given = self.give_to_card(client, packet);
        if !is_given {
            self.ask_at_ns = next_ns.into_iter().chain(late_at_ns).min();
        }
        is_given
    }

    /// Gives a packet to the driver, or keeps it until there is room: false.
    fn give_to_card(&mut self, client: ClientId, packet: Packet) -> bool {
        let lane = self.places[client.index()].lane.as_ref();
        let waiting = lane.and_then(|lane| lane.waiting(&packet));
        let (card, mut foreign) = (&mut *self.driver.send, None);
        let mut sent = waiting.map(|from| give(card, from, &mut foreign));
        if sent == Some(Sent::NoRoom) {
            card.flush();
            sent = waiting.map(|from| give(card, from, &mut foreign));
        }
        match (sent, foreign) {
            (Some(Sent::NoRoom), _) => {
                self.pending = Some((client, packet));
                return false;
            }
            (Some(Sent::Taken), _) => self.given.push_back(Given::Packet(client, packet)),
            (_, Some(source)) => match self.mux.finish_foreign(client, packet, source) {
                Refused::Disconnected(fault) => {
                    self.leaving.push(lied(client, fault.to_string()));
                }
                Refused::Fault(_) | Refused::Dropped(_) => {
                    free(&mut self.places, client, packet.buffer);
                }
            },
            _ => finish(&mut self.mux, &mut self.places, client, packet, false),
        }
        true
    }

    /// Hears what became of frames that the driver has taken: then alone a client's packet was sent, and its buffer goes back.
    pub(super) fn learn(&mut self) {
        let Self {
            mux,
            driver,
            places,
            answers,
            given,
            ..
        } = self;
        driver.send.fates(&mut |fate| {
            let is_out = fate == Fate::Out;
            match given.pop_front() {
                Some(Given::Packet(client, packet)) => finish(mux, places, client, packet, is_out),
                Some(Given::Answer(bytes)) if is_out => answers.sent.add(bytes),
                Some(Given::Answer(bytes)) => answers.dropped.add(bytes),
                None => debug_assert!(false, "the fate of a frame that was never given"),
            }
        });
    }

    /// Answers whose fate is not known, counted anew.
    pub(super) fn answers_given(&self) -> Items {
        let mut held = Items::default();
        for given in &self.given {
            if let Given::Answer(bytes) = given {
                held.add(*bytes);
            }
        }
        held
    }

    /// Whether the driver has packets of this client, or of one that had its place before.
    pub(super) fn is_in_card(&self, client: ClientId) -> bool {
        let is_of = |given: &Given| matches!(given, Given::Packet(other, _) if *other == client);
        self.given.iter().any(is_of)
    }

    /// Wakes the card once for what it was given.
    fn flush(&mut self, is_given: bool) {
        if !is_given && !self.is_send_waiting && self.pending.is_none() && self.given.is_empty() {
            return;
        }
        // A driver without a batch of its own has nothing left, and no room all the same.
        let waits = self.driver.send.flush() != Flushed::All || self.pending.is_some();
        self.learn();
        if waits != self.is_send_waiting {
            let card = self.driver.send.descriptor();
            // Where it cannot be waited for, the time to look again is enough. A card that is said to have room while it has none is told of once.
            let _ = if waits {
                self.poller
                    .add(card, SEND, Interest::Writable, Trigger::Edge)
            } else {
                self.poller.remove(card)
            };
            self.is_send_waiting = waits;
        }
    }

    /// When the card has to be looked at again, if it has something that it has not said the last of: no descriptor tells it for certain.
    pub(super) fn look_again_ns(&self, now_ns: u64) -> Option<u64> {
        if self.is_send_waiting {
            return Some(now_ns + BUSY_LOOK_NS);
        }
        (!self.given.is_empty()).then_some(now_ns + FATE_LOOK_NS)
    }

    /// Rings for each client that has something new, once.
    fn ring(&mut self) {
        for client in self.clients() {
            let Some(lane) = self.places[client.index()].lane.as_mut() else {
                continue;
            };
            self.signals += u64::from(lane.flush());
            if lane.is_stuck {
                let text = "frames were given back that are not taken from the ring yet";
                self.leaving.push(lied(client, text.to_owned()));
            }
        }
    }

    /// Counts what a client that is parted with at the end has said: none of it is sent any more.
    pub(super) fn count_last(&mut self, client: ClientId) {
        let now_ns = forebay_sys::clock::monotonic_ns();
        self.take_back(client);
        self.take(client, now_ns, self.sizes.transmit.frames as usize);
        self.leaving.retain(|leaving| leaving.client != client);
    }

    /// What a client that has gone had said before: as much of it is sent as the card takes at once and the policy lets through.
    pub(super) fn take_last(&mut self, client: ClientId) {
        self.take_back(client);
        // Its process may be there still, and write on.
        let mut rest = self.sizes.transmit.frames as usize;
        let mut idle = 0;
        loop {
            let now_ns = forebay_sys::clock::monotonic_ns();
            let taken = self.take(client, now_ns, rest.min(PACKETS));
            rest -= taken;
            let sent = self.send(now_ns);
            let flushed = self.driver.send.flush();
            self.learn();
            idle = if taken + sent > 0 { 0 } else { idle + 1 };
            if idle > 0 && !self.may_go_on(flushed, idle) {
                break;
            }
        }
        // It is parted with already.
        self.leaving.retain(|leaving| leaving.client != client);
    }

    /// Whether the card may have room after all for a packet that waits: another thread was giving it others, and is waited for here. Without one, that is done by the flush.
    fn may_go_on(&self, flushed: Flushed, idle: u32) -> bool {
        self.pending.is_some()
            && match flushed {
                // All are there by now.
                Flushed::All => idle <= LAST_LOOKS,
                Flushed::UnderWay => {
                    let until_ns = forebay_sys::clock::monotonic_ns() + LAST_NS;
                    idle <= LAST_LOOKS && self.wait_for_card(until_ns)
                }
                Flushed::Waits => false,
            }
    }
}

/// Has the driver copy a packet. One that names another sender now than it may is not taken, and that one is said.
fn give(card: &mut dyn SendSide, from: Waiting<'_>, foreign: &mut Option<Source>) -> Sent {
    match from {
        Waiting::Copied(bytes) => card.send(bytes),
        // Looked at in the copy: what the client changes after that does not go.
        Waiting::Left(view, limits) => card.send_with(view.len(), &mut |place| {
            let is_copied = view.copy_to(0, place);
            let named = Source::of_frame(place).filter(|_| is_copied);
            *foreign = named.filter(|named| limits.check(*named).is_err());
            is_copied && foreign.is_none()
        }),
    }
}

/// Says what became of a packet, and gives its buffer back.
fn finish(mux: &mut Mux, places: &mut [Place], client: ClientId, packet: Packet, is_sent: bool) {
    if mux.finish(client, packet, is_sent) {
        free(places, client, packet.buffer);
    }
}

/// Gives a buffer back to its client, if that is there.
fn free(places: &mut [Place], client: ClientId, buffer: u32) {
    let place = places.get_mut(client.index());
    if let Some(lane) = place.and_then(|place| place.lane.as_mut()) {
        lane.free(buffer);
    }
}

pub(super) fn ids() -> impl Iterator<Item = ClientId> {
    (0..=u8::MAX).map(ClientId::new)
}

/// Buffers that a client gives back; how many numbers it said.
pub(super) fn take_back(
    mux: &mut Mux,
    client: ClientId,
    place: &mut Place,
    numbers: &mut Vec<BufferId>,
    leaving: &mut Vec<Leaving>,
) -> usize {
    let Some(lane) = place.lane.as_mut() else {
        return 0;
    };
    numbers.clear();
    let read = lane.given_back(numbers);
    for buffer in &*numbers {
        if let Returned::Disconnected(fault) = mux.take_back(client, *buffer) {
            let said = format!("a buffer that is not the client's was given back: {fault:?}");
            leaving.push(lied(client, said));
            break;
        }
    }
    if let Err(error) = read {
        // Through such a ring nothing is given any more: what comes for the client before it is parted with is lost as that of one that is gone.
        mux.remove_client(client);
        leaving.push(misplaced(client, &error));
    }
    numbers.len()
}

/// Whether a packet that was lied about lies in a buffer that goes back to its client.
const fn is_its_own(kind: TransmitFault) -> bool {
    !matches!(
        kind,
        TransmitFault::BufferUnknown | TransmitFault::BufferInUse
    )
}

fn lied(client: ClientId, said: String) -> Leaving {
    Leaving {
        client,
        why: "lied",
        said: Some(said),
    }
}

fn misplaced(client: ClientId, error: &RingError) -> Leaving {
    Leaving {
        client,
        why: "ring",
        said: Some(error.to_string()),
    }
}
