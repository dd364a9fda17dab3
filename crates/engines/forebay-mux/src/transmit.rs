//! The transmit side: a queue for each client, classes of clients, and in each class a policy that says which client sends next.
//!
//! Classes go by strict priority, the first one first, with a guard against starvation if one is set. A packet waits no longer than its client's bound: what
//! is older is dropped at the head of its queue, under a name of its own, so that a limiter shortens the queue and does not delay what comes behind it.
//! Policies, their numbers, classes and bounds can be changed while packets wait; none is lost by that.

mod link;
mod queue;
mod sender;

use forebay_ledger::{OneOf, reasons};

use crate::account::Items;
use crate::client::{CLIENTS_MAX, ClientId, ClientSet};
use crate::descriptor::TransmitFault;
use crate::guard::Wait;
use crate::policy::{Head, Policy, PolicyConfig, Queues, Turn, check_guard};
use forebay_settings::{OutOfRange, in_range};

pub use self::link::Link;
use self::link::LinkPace;
use self::queue::Queue;
pub use self::queue::SendCounts;
pub use self::sender::{Sender, SenderError};

/// Most classes.
pub const CLASSES_MAX: usize = 8;

reasons! {
    /// Why a packet that a client handed over is not sent, though nothing is wrong with it.
    pub enum TransmitDrop {
        /// Its queue has as many packets as it may.
        QueueFull = "queue_full",
        /// It would have waited longer than the client's bound.
        Sojourn = "sojourn",
        /// Its client is gone.
        ClientGone = "client_gone",
        /// The card did not take it.
        Card = "card",
    }
}

/// Why a packet is not sent: for what the client said of it, or for another cause.
pub type TransmitLoss = OneOf<TransmitFault, TransmitDrop>;

/// A packet that waits, or is on its way into the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of its buffer, in its client's region.
    pub buffer: u32,
    /// First byte in the buffer.
    pub offset: u32,
    /// Its bytes.
    pub bytes: u32,
    /// When it was handed over, ns.
    pub arrival_ns: u64,
}

/// A class of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// The policy, which says which of its clients sends next.
    pub policy: PolicyConfig,
    /// When classes before it leave it no turn for so long, it gets one, in ns, 1 µs to 10 s; without it it may wait for ever.
    pub guard_ns: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Give this packet to the card, and say with [`Transmit::finish`] whether it took it.
    Send(ClientId, Packet),
    /// No client may send now: ask again at this time, ns, or when another packet has come.
    AskAt(u64),
    /// Nothing waits.
    Idle,
}

#[derive(Debug)]
struct Class {
    policy: Box<dyn Policy>,
    guard_ns: Option<u64>,
    clients: ClientSet,
    wait: Wait,
}

/// Queues of all clients.
#[derive(Debug)]
pub struct Transmit {
    classes: Vec<Class>,
    queues: Vec<Queue>,
    ready: ClientSet,
    heads: Box<[Head; CLIENTS_MAX]>,
    /// No head is older than its bound before this time. It may be early, and never is late.
    none_expires_before_ns: u64,
    clock_ns: u64,
    /// None: the card says when it has no room.
    link: Option<LinkPace>,
}

impl Transmit {
    /// Classes without clients, 1 to [`CLASSES_MAX`].
    ///
    /// # Errors
    /// A setting is outside its range.
    pub fn new(classes: &[ClassConfig]) -> Result<Self, OutOfRange> {
        in_range("classes", classes.len() as u64, 1, CLASSES_MAX as u64)?;
        let classes = classes.iter().map(|class| {
            check_guard(class.guard_ns)?;
            Ok(Class {
                policy: class.policy.policy()?,
                guard_ns: class.guard_ns,
                clients: ClientSet::EMPTY,
                wait: Wait::default(),
            })
        });
        Ok(Self {
            classes: classes.collect::<Result<_, OutOfRange>>()?,
            queues: core::iter::repeat_with(Queue::default)
                .take(CLIENTS_MAX)
                .collect(),
            ready: ClientSet::EMPTY,
            heads: Box::new([Head::default(); CLIENTS_MAX]),
            none_expires_before_ns: u64::MAX,
            clock_ns: 0,
            link: None,
        })
    }

    /// Gives the card no more from now on than a link behind it takes.
    ///
    /// # Errors
    /// A number is outside its range.
    pub fn set_link(&mut self, link: Option<Link>) -> Result<(), OutOfRange> {
        self.link = link.map(LinkPace::new).transpose()?;
        Ok(())
    }

    /// When the link takes the next packet, ns, if something waits and it takes none now.
    #[inline]
    fn link_busy_until_ns(&self) -> Option<u64> {
        let link = self.link.as_ref().filter(|_| !self.ready.is_empty());
        link.and_then(|link| link.busy_until_ns(self.clock_ns))
    }

    fn check(&self, sender: &Sender) -> Result<(), OutOfRange> {
        in_range(
            "class",
            sender.class as u64,
            0,
            self.classes.len() as u64 - 1,
        )?;
        in_range("queue_packets", sender.queue_packets.into(), 1, 1 << 16)?;
        let bound = sender.sojourn_max_ns;
        bound.map_or(Ok(()), |ns| {
            in_range("sojourn_max_ns", ns, 1000, 60_000_000_000)
        })
    }

    /// Takes a client in.
    ///
    /// # Errors
    /// It is there already, packets of the one before it with this number are still in the card, or a setting is outside its range.
    pub fn add_client(&mut self, client: ClientId, sender: Sender) -> Result<(), SenderError> {
        self.check(&sender)?;
        let queue = &mut self.queues[client.index()];
        if queue.sender.is_some() {
            return Err(SenderError::Known { client });
        }
        if queue.in_card.items > 0 {
            let packets = queue.in_card.items;
            return Err(SenderError::Busy { client, packets });
        }
        queue.sender = Some(sender);
        self.classes[sender.class].clients.insert(client);
        Ok(())
    }

    /// Changes a client's class, queue and bound. What waits goes on waiting, also where the queue is longer than it may be now; the new bound holds for it.
    ///
    /// # Errors
    /// The client is not there, or a setting is outside its range.
    pub fn set_client(&mut self, client: ClientId, sender: Sender) -> Result<(), SenderError> {
        self.check(&sender)?;
        let queue = &mut self.queues[client.index()];
        let old = queue.sender.as_mut();
        let old = old.ok_or(SenderError::Unknown { client })?;
        let from = core::mem::replace(old, sender).class;
        self.none_expires_before_ns = 0;
        if from != sender.class {
            self.classes[from].clients.remove(client);
            self.classes[from].policy.head_lost(client);
            let class = &mut self.classes[sender.class];
            class.clients.insert(client);
            if self.ready.contains(client) {
                class.policy.woke(client);
            }
        }
        Ok(())
    }

    /// Changes the policy of a class at this time, ns: its numbers if it is the same policy, which then keeps what it knows of the past, or another policy,
    /// which begins anew.
    ///
    /// # Errors
    /// There is no such class, or a number is outside its range; then nothing has changed.
    pub fn set_policy(
        &mut self,
        class: usize,
        config: &PolicyConfig,
        now_ns: u64,
    ) -> Result<(), OutOfRange> {
        in_range("class", class as u64, 0, self.classes.len() as u64 - 1)?;
        config.validate()?;
        self.clock_ns = self.clock_ns.max(now_ns);
        let class = &mut self.classes[class];
        if class.policy.adjust(config, self.clock_ns) {
            return Ok(());
        }
        class.policy = config.policy()?;
        for client in self.ready.and(&class.clients).iter() {
            class.policy.woke(client);
        }
        Ok(())
    }

    /// Changes how long a class may be left without a turn, ns; nothing: for ever.
    ///
    /// # Errors
    /// There is no such class, or the time is outside its range.
    pub fn set_guard(&mut self, class: usize, guard_ns: Option<u64>) -> Result<(), OutOfRange> {
        in_range("class", class as u64, 0, self.classes.len() as u64 - 1)?;
        check_guard(guard_ns)?;
        self.classes[class].guard_ns = guard_ns;
        Ok(())
    }

    /// Takes a client out, and drops what waits: `dropped` gets each packet. What is in the card comes back by [`Self::finish`].
    pub fn remove_client(&mut self, client: ClientId, mut dropped: impl FnMut(Packet)) {
        let queue = &mut self.queues[client.index()];
        let Some(sender) = queue.sender.take() else {
            return;
        };
        for packet in queue.packets.drain(..) {
            queue.counts.held_now.sub(packet.bytes);
            queue.counts.drop(TransmitDrop::ClientGone, packet.bytes);
            dropped(packet);
        }
        self.ready.remove(client);
        let class = &mut self.classes[sender.class];
        class.clients.remove(client);
        class.policy.head_lost(client);
    }

    /// Takes a packet that was checked.
    ///
    /// # Errors
    /// It is dropped, for a cause that is counted here: the buffer goes back to the client.
    #[inline]
    pub fn offer(
        &mut self,
        client: ClientId,
        mut packet: Packet,
        now_ns: u64,
    ) -> Result<(), TransmitDrop> {
        self.clock_ns = self.clock_ns.max(now_ns);
        packet.arrival_ns = self.clock_ns;
        let queue = &mut self.queues[client.index()];
        queue.counts.asked.add(packet.bytes);
        let fault = match &queue.sender {
            None => Err(TransmitDrop::ClientGone),
            Some(sender) if queue.packets.len() >= sender.queue_packets as usize => {
                Err(TransmitDrop::QueueFull)
            }
            Some(sender) => Ok(*sender),
        };
        let sender = fault.inspect_err(|why| queue.counts.drop(*why, packet.bytes))?;
        queue.counts.held_now.add(packet.bytes);
        queue.packets.push_back(packet);
        if queue.packets.len() == 1 {
            self.ready.insert(client);
            self.classes[sender.class].policy.woke(client);
            self.look_at(client);
        }
        Ok(())
    }

    /// Counts a packet that a client lied about.
    pub fn refuse(&mut self, client: ClientId, fault: TransmitFault) {
        let counts = &mut self.queues[client.index()].counts;
        counts.asked.add(0);
        counts.dropped[TransmitLoss::First(fault)].add(0);
    }

    /// Puts the first packet of a queue where policies see it.
    #[inline]
    fn look_at(&mut self, client: ClientId) {
        let queue = &self.queues[client.index()];
        let Some(packet) = queue.packets.front() else {
            self.ready.remove(client);
            return;
        };
        self.heads[client.index()] = Head {
            bytes: packet.bytes,
            arrival_ns: packet.arrival_ns,
        };
        if let Some((_, bound_ns)) = queue.bound() {
            let expires_ns = packet.arrival_ns.saturating_add(bound_ns);
            self.none_expires_before_ns = self.none_expires_before_ns.min(expires_ns);
        }
    }

    /// Drops packets that have waited longer than they may.
    fn expire(&mut self, dropped: &mut impl FnMut(ClientId, Packet)) {
        if self.clock_ns <= self.none_expires_before_ns {
            return;
        }
        self.none_expires_before_ns = u64::MAX;
        let ready = self.ready;
        for client in ready.iter() {
            let queue = &mut self.queues[client.index()];
            let Some((class, bound_ns)) = queue.bound() else {
                continue;
            };
            let waited = queue.packets.len();
            while let Some(packet) = queue.packets.front().copied() {
                if self.clock_ns - packet.arrival_ns <= bound_ns {
                    break;
                }
                queue.packets.pop_front();
                queue.counts.held_now.sub(packet.bytes);
                queue.counts.drop(TransmitDrop::Sojourn, packet.bytes);
                dropped(client, packet);
            }
            if queue.packets.len() < waited {
                self.classes[class].policy.head_lost(client);
            }
            self.look_at(client);
        }
    }

    /// Says what to do now. Packets that have waited too long are dropped first: `dropped` gets each, for its buffer to go back to its client.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, mut dropped: impl FnMut(ClientId, Packet)) -> Next {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.expire(&mut dropped);
        if let Some(ns) = self.link_busy_until_ns() {
            return Next::AskAt(self.expiry_before(ns).unwrap_or(ns));
        }
        match self.choose() {
            Turn::Send(client) => self.take(client),
            Turn::AskAt(ns) => Next::AskAt(self.expiry_before(ns).unwrap_or(ns)),
            Turn::Idle => self.expiry_before(u64::MAX).map_or(Next::Idle, Next::AskAt),
        }
    }

    /// Drops packets that have waited too long, as [`Self::poll`] does first, while the card has no room and no packet is asked for; and says when to do so again, ns,
    /// if a packet that waits has a bound.
    pub fn drop_late(
        &mut self,
        now_ns: u64,
        mut dropped: impl FnMut(ClientId, Packet),
    ) -> Option<u64> {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.expire(&mut dropped);
        self.expiry_before(u64::MAX)
    }

    /// When a packet that was given to the card, and for which it has no room yet, has waited too long, ns; nothing without a bound.
    #[must_use]
    pub fn late_at_ns(&self, client: ClientId, packet: &Packet) -> Option<u64> {
        let (_, bound_ns) = self.queues[client.index()].bound()?;
        Some(packet.arrival_ns.saturating_add(bound_ns).saturating_add(1))
    }

    /// Drops a packet that was given to the card, and waited too long for room there.
    pub fn finish_late(&mut self, client: ClientId, packet: Packet) {
        self.leaves_card(client, packet)
            .drop(TransmitDrop::Sojourn, packet.bytes);
    }

    /// Drops a packet that was given to the card, and of which the client lied.
    pub fn finish_lied(&mut self, client: ClientId, packet: Packet, fault: TransmitFault) {
        let counts = self.leaves_card(client, packet);
        counts.dropped[TransmitLoss::First(fault)].add(packet.bytes);
    }

    /// When the next packet is to be dropped, if that is before this time, ns.
    fn expiry_before(&mut self, ns: u64) -> Option<u64> {
        if self.none_expires_before_ns >= ns {
            return None;
        }
        // Of a head that has left: now it is worth to look.
        self.none_expires_before_ns = u64::MAX;
        let ready = self.ready;
        ready.iter().for_each(|client| self.look_at(client));
        let at_ns = self.none_expires_before_ns.saturating_add(1);
        (at_ns < ns).then_some(at_ns)
    }

    #[inline]
    fn choose(&mut self) -> Turn {
        let now_ns = self.clock_ns;
        let waits = self
            .classes
            .iter()
            .map(|class| (class.wait, class.guard_ns));
        let starving = Wait::starving(waits, now_ns);
        let mut ask_at_ns: Option<u64> = None;
        for at in starving.into_iter().chain(0..self.classes.len()) {
            let class = &mut self.classes[at];
            let ready = self.ready.and(&class.clients);
            if ready.is_empty() {
                class.wait.clear();
                continue;
            }
            match class.policy.next(&Queues::new(ready, &self.heads), now_ns) {
                Turn::Send(client) => {
                    class.wait.serve(now_ns);
                    self.note_waiting(at + 1, now_ns);
                    return Turn::Send(client);
                }
                // Its own policy holds it back: no other class is to blame.
                Turn::AskAt(ns) => {
                    class.wait.clear();
                    ask_at_ns = Some(ask_at_ns.map_or(ns, |first| first.min(ns)));
                }
                Turn::Idle => class.wait.clear(),
            }
        }
        ask_at_ns.map_or(Turn::Idle, Turn::AskAt)
    }

    /// Classes behind the one that sends wait from now on, if they have something to send and did not wait before.
    #[inline]
    fn note_waiting(&mut self, from: usize, now_ns: u64) {
        for class in &mut self.classes[from..] {
            let is_ready = !self.ready.and(&class.clients).is_empty();
            class.wait.note(is_ready, now_ns);
        }
    }

    /// Takes the first packet of a client out of its queue, on its way into the card.
    #[inline]
    fn take(&mut self, client: ClientId) -> Next {
        let queue = &mut self.queues[client.index()];
        let (Some(packet), Some(sender)) = (queue.packets.pop_front(), queue.sender) else {
            debug_assert!(false, "{client} was chosen and has nothing");
            return Next::Idle;
        };
        queue.in_card.add(packet.bytes);
        if let Some(link) = &mut self.link {
            link.take(packet.bytes, self.clock_ns);
        }
        let policy = &mut self.classes[sender.class].policy;
        policy.sent(client, packet.bytes, self.clock_ns);
        self.look_at(client);
        Next::Send(client, packet)
    }

    /// Says what became of a packet that was given to the card: it took it, or not.
    #[inline]
    pub fn finish(&mut self, client: ClientId, packet: Packet, is_sent: bool) {
        let waited_ns = self.clock_ns.saturating_sub(packet.arrival_ns);
        let counts = self.leaves_card(client, packet);
        if is_sent {
            counts.sent.add(packet.bytes);
            counts.sojourn_max_ns = counts.sojourn_max_ns.max(waited_ns);
        } else {
            counts.drop(TransmitDrop::Card, packet.bytes);
        }
    }

    /// Takes a packet out of the card's: the counts in which its fate is to be noted. A packet whose fate is not is lost, as by a mistake in this file.
    #[inline]
    pub(crate) fn leaves_card(&mut self, client: ClientId, packet: Packet) -> &mut SendCounts {
        let queue = &mut self.queues[client.index()];
        queue.in_card.sub(packet.bytes);
        queue.counts.held_now.sub(packet.bytes);
        &mut queue.counts
    }

    /// Packets of a client that wait.
    #[must_use]
    pub fn waiting(&self, client: ClientId) -> usize {
        self.queues[client.index()].packets.len()
    }

    /// What waits of a client, counted anew, and what is on its way into the card.
    #[must_use]
    pub fn held(&self, client: ClientId) -> Items {
        self.queues[client.index()].held()
    }

    /// Loses a packet that waits, as a mistake in this file would.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, client: ClientId) -> Option<Packet> {
        self.queues[client.index()].packets.pop_back()
    }

    /// How a client sends; nothing of one that is not there.
    #[must_use]
    pub fn sender(&self, client: ClientId) -> Option<Sender> {
        self.queues[client.index()].sender
    }

    /// What a client asked so far, all clients of this number together.
    #[must_use]
    pub fn counts(&self, client: ClientId) -> &SendCounts {
        &self.queues[client.index()].counts
    }
}
