//! The whole: frames in from the card, to clients; packets of clients out to the card; each of both in books.
//!
//! The memory is the caller's. A frame that is for a client gets the number of a buffer, into which the caller copies it, or in which its card received it; a packet that a
//! client hands over is named by a descriptor that the caller has copied out of the client's memory.

mod card;
mod lies;

use core::fmt;

use forebay_ledger::Leak;
use thiserror::Error;

use crate::account::{ClientCounts, DeliveryCounts, FrameCounts, Residual};
use crate::buffers::{BufferId, DeliveryDrop, Lent, ReceivePool, ReturnFault, Share, ShareError};
use crate::classify::{Classifier, FrameDrop, Verdict};
use crate::client::{CLIENTS_MAX, ClientId, ClientSet};
use crate::descriptor::{Descriptor, DescriptorCheck, DescriptorFault, TransmitLimits};
use crate::policy::PolicyConfig;
use crate::responder::{ANSWER_BYTES_MAX, Responder, ResponderCounts};
use crate::source::Source;
use crate::transmit::{
    ClassConfig, Link, Next, Packet, Sender, SenderError, Transmit, TransmitDrop,
};
use forebay_settings::{OutOfRange, in_range};

/// What a multiplexer is made with.
#[derive(Clone, Debug)]
pub struct MuxConfig {
    /// Receive buffers, 1 to 2^20.
    pub receive_buffers: u32,
    /// Buffers beyond those, which a card that receives into them always has, 0 to 2^20; none: each frame is copied into one.
    pub card_buffers: u32,
    /// Classes of clients for sending, the first one first.
    pub classes: Vec<ClassConfig>,
    /// After so many lies of one kind a client is disconnected, 1 to 2^32 − 1; none: never.
    pub faults_of_a_kind_max: Option<u32>,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// How it shares the receive buffers.
    pub share: Share,
    /// How it sends.
    pub sender: Sender,
    /// What it may hand over.
    pub limits: TransmitLimits,
}

/// A client that cannot be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Its limits are none.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// It cannot share the buffers.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// It cannot send.
    #[error(transparent)]
    Sender(#[from] SenderError),
}

/// What the caller does for a frame.
pub trait Outlet {
    /// Copies the frame into this buffer, unless it was received there ([`Mux::handle_frame_in`]), and hands it to the client. With a frame to several clients the same
    /// buffer comes again for each of them.
    fn give(&mut self, client: ClientId, buffer: BufferId);

    /// Sends an answer of the responder.
    fn answer(&mut self, frame: &[u8]);
}

/// Why a packet of a client is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The client lied, and may go on; its buffer is its own, if it is one.
    #[error("{0}")]
    Fault(DescriptorFault),
    /// The client lied once too often: it was disconnected, and the caller takes its memory away.
    #[error("{0}, once too often")]
    Disconnected(DescriptorFault),
    /// Nothing is wrong with it, but it is dropped: the caller gives its buffer back.
    #[error("dropped: {}", .0.name())]
    Dropped(TransmitDrop),
}

/// What became of a buffer that a client gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It is free, or other clients still have it.
    Taken,
    /// The client lied, and may go on.
    Fault(ReturnFault),
    /// The client lied once too often: it was disconnected.
    Disconnected(ReturnFault),
}

/// The engine of the multiplexer.
pub struct Mux {
    classifier: Classifier,
    pool: ReceivePool,
    responder: Responder,
    transmit: Transmit,
    checks: Vec<Option<DescriptorCheck>>,
    frames: FrameCounts,
    deliveries: Vec<DeliveryCounts>,
    clients: ClientSet,
    /// Clients that ever were.
    known: ClientSet,
    faults_of_a_kind_max: Option<u32>,
    room: [u8; ANSWER_BYTES_MAX],
    leak: Leak,
}

/// Accounts and links at which frames and packets can be made to vanish ([`Mux::leak`]).
pub const HOPS: [&str; 5] = [
    "mux_classify",
    "mux_deliver",
    "mux_queue",
    "mux_receive",
    "mux_transmit",
];

impl fmt::Debug for Mux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients: Vec<_> = self.clients.iter().collect();
        f.debug_struct("Mux")
            .field("clients", &clients)
            .finish_non_exhaustive()
    }
}

impl Mux {
    /// A multiplexer without clients.
    ///
    /// # Errors
    /// A setting is outside its range.
    pub fn new(config: &MuxConfig, classifier: Classifier) -> Result<Self, OutOfRange> {
        if let Some(most) = config.faults_of_a_kind_max {
            in_range("faults_of_a_kind_max", most.into(), 1, u32::MAX.into())?;
        }
        Ok(Self {
            classifier,
            pool: ReceivePool::new(config.receive_buffers, config.card_buffers)?,
            responder: Responder::default(),
            transmit: Transmit::new(&config.classes)?,
            checks: core::iter::repeat_with(|| None).take(CLIENTS_MAX).collect(),
            frames: FrameCounts::default(),
            deliveries: vec![DeliveryCounts::default(); CLIENTS_MAX],
            clients: ClientSet::EMPTY,
            known: ClientSet::EMPTY,
            faults_of_a_kind_max: config.faults_of_a_kind_max,
            room: [0; ANSWER_BYTES_MAX],
            leak: Leak::off(),
        })
    }

    /// Has items vanish uncounted from now on at one of [`HOPS`], for tests of the books.
    pub fn leak(&mut self, leak: Leak) {
        self.leak = leak;
    }

    /// Gives the card no more from now on than a link behind it takes.
    ///
    /// # Errors
    /// As [`Transmit::set_link`].
    pub fn set_link(&mut self, link: Option<Link>) -> Result<(), OutOfRange> {
        self.transmit.set_link(link)
    }

    /// Takes other rules, for frames from now on.
    pub fn set_classifier(&mut self, classifier: Classifier) {
        self.classifier = classifier;
    }

    /// The addresses that are answered for.
    pub const fn responder(&mut self) -> &mut Responder {
        &mut self.responder
    }

    /// Takes a client in.
    ///
    /// # Errors
    /// Something that it may do cannot be; then it is not there at all.
    pub fn add_client(
        &mut self,
        client: ClientId,
        config: &ClientConfig,
    ) -> Result<(), ClientError> {
        let check = DescriptorCheck::new(&config.limits)?;
        self.pool.add_client(client, config.share)?;
        if let Err(error) = self.transmit.add_client(client, config.sender) {
            self.pool.remove_client(client);
            return Err(error.into());
        }
        self.checks[client.index()] = Some(check);
        self.clients.insert(client);
        self.known.insert(client);
        Ok(())
    }

    /// Takes a client out: all buffers come back, what waits is dropped, and its addresses are answered for no longer. What is in the card ends by
    /// [`Self::finish`].
    pub fn remove_client(&mut self, client: ClientId) {
        self.clients.remove(client);
        self.pool.remove_client(client);
        self.transmit.remove_client(client, |_| {});
        self.responder.remove_client(client);
        self.checks[client.index()] = None;
    }

    /// Clients that are there.
    #[must_use]
    pub const fn clients(&self) -> &ClientSet {
        &self.clients
    }

    /// Changes how a client sends.
    ///
    /// # Errors
    /// As [`Transmit::set_client`].
    pub fn set_sender(&mut self, client: ClientId, sender: Sender) -> Result<(), SenderError> {
        self.transmit.set_client(client, sender)
    }

    /// Changes how a client shares the receive buffers.
    ///
    /// # Errors
    /// As [`ReceivePool::set_share`].
    pub fn set_share(&mut self, client: ClientId, share: Share) -> Result<(), ShareError> {
        self.pool.set_share(client, share)
    }

    /// Changes how long a class may be left without a turn.
    ///
    /// # Errors
    /// As [`Transmit::set_guard`].
    pub fn set_guard(&mut self, class: usize, guard_ns: Option<u64>) -> Result<(), OutOfRange> {
        self.transmit.set_guard(class, guard_ns)
    }

    /// Packets of a client that wait to be sent.
    #[must_use]
    pub fn waiting(&self, client: ClientId) -> usize {
        self.transmit.waiting(client)
    }

    /// Changes the policy of a class at this time, ns.
    ///
    /// # Errors
    /// As [`Transmit::set_policy`].
    pub fn set_policy(
        &mut self,
        class: usize,
        config: &PolicyConfig,
        now_ns: u64,
    ) -> Result<(), OutOfRange> {
        self.transmit.set_policy(class, config, now_ns)
    }

    /// Takes a frame that the card received, 65,550 bytes at most.
    #[inline]
    pub fn handle_frame(&mut self, frame: &[u8], outlet: &mut impl Outlet) {
        self.handle(frame, &mut None, outlet);
    }

    #[inline]
    fn handle(&mut self, frame: &[u8], card: &mut Option<Lent>, outlet: &mut impl Outlet) {
        let bytes = frame.len() as u32;
        self.frames.came.add(bytes);
        match self.judge(frame) {
            Verdict::Dropped(_) => {}
            Verdict::Client(client) => {
                self.frames.to_client.add(bytes);
                self.deliver(client, bytes, card, outlet);
            }
            Verdict::Responder => {
                self.respond(frame, outlet);
                self.frames.to_responder.add(bytes);
            }
            Verdict::Group {
                is_question,
                clients,
            } => {
                self.frames.group_questions += u64::from(is_question);
                let copies = clients.len().into();
                self.frames.group_copies.add_times(copies, bytes);
                self.deliver_group(&clients, bytes, card, outlet);
                if is_question {
                    self.respond(frame, outlet);
                }
            }
        }
    }

    /// The clients that a frame is for, as they are counted: what is done for it is counted where that is done.
    #[inline]
    fn judge(&mut self, frame: &[u8]) -> Verdict {
        let verdict = self.classifier.classify(frame);
        match verdict {
            Verdict::Client(_) if self.leak.take("mux_classify") => {
                // It is for nobody any more, and counted as nothing.
                return Verdict::Dropped(FrameDrop::Unmatched);
            }
            Verdict::Dropped(why) => self.frames.dropped[why].add(frame.len() as u32),
            _ => self.frames.matched.add(frame.len() as u32),
        }
        verdict
    }

    /// Gives a frame to one client.
    #[inline]
    fn deliver(
        &mut self,
        client: ClientId,
        bytes: u32,
        card: &mut Option<Lent>,
        outlet: &mut impl Outlet,
    ) {
        self.known.insert(client);
        self.deliveries[client.index()].came.add(bytes);
        if self.leak.take("mux_deliver") {
            return;
        }
        if self.leak.take("mux_queue") {
            self.deliveries[client.index()].given.add(bytes);
            return;
        }
        let given = self.pool.give(client, bytes, card);
        self.deliveries[client.index()].end(client, bytes, given, outlet);
    }

    /// Gives a frame to several clients.
    fn deliver_group(
        &mut self,
        clients: &ClientSet,
        bytes: u32,
        card: &mut Option<Lent>,
        outlet: &mut impl Outlet,
    ) {
        for client in clients.iter() {
            self.known.insert(client);
            self.deliveries[client.index()].came.add(bytes);
        }
        let clients = match self.leak.is_armed() {
            true => &self.leaked(clients, bytes),
            false => clients,
        };
        let deliveries = &mut self.deliveries;
        let pool = &mut self.pool;
        pool.give_all(clients, bytes, card, |client, given| {
            deliveries[client.index()].end(client, bytes, given, outlet);
        });
        self.frames.to_group.add(bytes);
    }

    /// Without those whose frame vanishes.
    fn leaked(&mut self, clients: &ClientSet, bytes: u32) -> ClientSet {
        let mut left = *clients;
        for client in clients.iter() {
            let is_lost_in_queue = self.leak.take("mux_queue");
            if is_lost_in_queue {
                self.deliveries[client.index()].given.add(bytes);
            }
            if is_lost_in_queue || self.leak.take("mux_deliver") {
                left.remove(client);
            }
        }
        left
    }

    fn respond(&mut self, frame: &[u8], outlet: &mut impl Outlet) {
        if let Ok(answer) = self.responder.handle_frame(frame, &mut self.room) {
            outlet.answer(answer);
        }
    }

    fn is_too_often(&self, faults: u64) -> bool {
        self.faults_of_a_kind_max
            .is_some_and(|most| faults > most.into())
    }

    /// Takes back a receive buffer that a client names.
    #[inline]
    pub fn take_back(&mut self, client: ClientId, buffer: BufferId) -> Returned {
        // A buffer that the client does not have cannot be lost.
        if self.leak.is_armed() && self.pool.holds(client, buffer) && self.leak.take("mux_receive")
        {
            self.pool.lose(client, buffer);
            return Returned::Taken;
        }
        let Err(fault) = self.pool.take_back(client, buffer) else {
            return Returned::Taken;
        };
        let faults = self.pool.faults_since(client, fault);
        if self.clients.contains(client) && self.is_too_often(faults) {
            self.remove_client(client);
            return Returned::Disconnected(fault);
        }
        Returned::Fault(fault)
    }

    /// Takes a packet that a client hands over, by a copy of its descriptor. When the descriptor can be true, `copy` copies the packet out of the client's
    /// memory, so that the client cannot change it any longer, and says which sender it names; of a trusted client, whose packets stay where they are, it
    /// says that alone ([`Self::finish_foreign`]).
    ///
    /// # Errors
    /// The client lied, or the packet is dropped; both are counted.
    #[inline]
    pub fn offer(
        &mut self,
        client: ClientId,
        descriptor: Descriptor,
        now_ns: u64,
        copy: impl FnOnce(Descriptor) -> Option<Source>,
    ) -> Result<(), Refused> {
        let checked = self.checks[client.index()].as_mut().map(|check| {
            check.take(descriptor)?;
            let source = copy(descriptor);
            let checked = source.map_or(Ok(()), |source| check.check_source(source));
            checked.inspect_err(|_| {
                check.give_back(descriptor.buffer);
            })
        });
        if let Some(Err(fault)) = checked {
            return Err(self.refuse(client, fault));
        }
        self.known.insert(client);
        let packet = Packet {
            buffer: descriptor.buffer,
            offset: descriptor.offset,
            // What a client that is not there says was not checked.
            bytes: checked.map_or(0, |_| descriptor.length),
            arrival_ns: now_ns,
        };
        self.transmit.offer(client, packet, now_ns).map_err(|why| {
            self.give_back(client, packet.buffer);
            Refused::Dropped(why)
        })
    }

    /// Says what to do now. Packets that waited too long are dropped first: `freed` gets the buffers that go back to their clients.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, mut freed: impl FnMut(ClientId, u32)) -> Next {
        let checks = &mut self.checks;
        self.transmit.poll(now_ns, |client, packet| {
            if let Some(check) = &mut checks[client.index()] {
                check.give_back(packet.buffer);
            }
            freed(client, packet.buffer);
        })
    }

    /// Drops packets that waited too long, while the card has no room: `freed` gets the buffers that go back to their clients. Says when to do so again, ns, if a packet
    /// that waits has a bound.
    pub fn drop_late(&mut self, now_ns: u64, mut freed: impl FnMut(ClientId, u32)) -> Option<u64> {
        let checks = &mut self.checks;
        self.transmit.drop_late(now_ns, |client, packet| {
            if let Some(check) = &mut checks[client.index()] {
                check.give_back(packet.buffer);
            }
            freed(client, packet.buffer);
        })
    }

    /// When a packet that [`Self::poll`] gave, and for which the card has no room yet, has waited too long, ns; nothing without a bound.
    #[must_use]
    pub fn late_at_ns(&self, client: ClientId, packet: &Packet) -> Option<u64> {
        self.transmit.late_at_ns(client, packet)
    }

    /// Drops a packet that [`Self::poll`] gave, and that waited too long for room in the card. Whether its buffer goes back to its client, which is still there.
    pub fn finish_late(&mut self, client: ClientId, packet: Packet) -> bool {
        self.transmit.finish_late(client, packet);
        self.give_back(client, packet.buffer)
    }

    /// Says what became of a packet that [`Self::poll`] gave: the card took it, or not. Whether its buffer goes back to its client, which is still there.
    #[inline]
    pub fn finish(&mut self, client: ClientId, packet: Packet, is_sent: bool) -> bool {
        if self.leak.take("mux_transmit") {
            self.transmit.leaves_card(client, packet);
        } else {
            self.transmit.finish(client, packet, is_sent);
        }
        self.give_back(client, packet.buffer)
    }

    fn give_back(&mut self, client: ClientId, buffer: u32) -> bool {
        let check = self.checks[client.index()].as_mut();
        check.is_some_and(|check| check.give_back(buffer))
    }

    /// Frames that came.
    #[must_use]
    pub const fn frames(&self) -> &FrameCounts {
        &self.frames
    }

    /// Questions for addresses.
    #[must_use]
    pub const fn questions(&self) -> &ResponderCounts {
        self.responder.counts()
    }

    /// All that is counted of a client, and of those that had its number before, with what it holds counted anew: what books are closed with.
    #[must_use]
    pub fn counts(&self, client: ClientId) -> ClientCounts<'_> {
        ClientCounts {
            receive_held: self.pool.held(client),
            transmit_held: self.transmit.held(client),
            ..self.counts_now(client)
        }
    }

    /// As [`Self::counts`], with what it holds by what came and went: at once, for a view of a multiplexer at work.
    #[must_use]
    pub fn counts_now(&self, client: ClientId) -> ClientCounts<'_> {
        let (receive, transmit) = (self.pool.counts(client), self.transmit.counts(client));
        ClientCounts {
            delivery: &self.deliveries[client.index()],
            receive,
            receive_held: receive.held_now,
            transmit,
            transmit_held: transmit.held_now,
        }
    }

    /// What does not add up: nothing, in a program without mistakes.
    #[must_use]
    pub fn residual(&self) -> Residual {
        let clients = self.known.iter().map(|client| self.counts(client));
        Residual::of_all(&self.frames, self.responder.counts(), clients)
    }
}

impl DeliveryCounts {
    /// What became of a frame for the client: it has it, or not.
    #[inline]
    fn end(
        &mut self,
        client: ClientId,
        bytes: u32,
        given: Result<BufferId, DeliveryDrop>,
        outlet: &mut impl Outlet,
    ) {
        match given {
            Ok(buffer) => {
                outlet.give(client, buffer);
                self.given.add(bytes);
            }
            Err(why) => self.dropped[why].add(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
