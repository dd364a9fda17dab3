//! Which senders take part, and when a session begins and ends.

use std::net::SocketAddr;

use forebay_wire::tdm::{
    EndReason, Hello, Message, NO_SENDER, Refusal, RefuseReason, Stop, Welcome,
};

use super::{Peer, PeerState, Phase, Receiver, Whom};
use crate::clock::Wall;
use crate::plan::units::time;
use crate::plan::{Plan, PlanInput, Reason, Slot};

/// Which place a hello could have.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// One that nobody has had.
    New,
    /// That of a sender which left, and of which nothing is in the books.
    Free(usize),
    /// That of an earlier start of the same sender.
    Again(usize),
    /// Its own, which it has already.
    Own(usize),
}

impl Receiver {
    /// Somebody asks for a place. It gets one when it has answered ([`Self::answered`]).
    pub(super) fn handle_hello(&mut self, now_ns: u64, from: SocketAddr, hello: &Hello<'_>) {
        let place = self.place(now_ns, from, hello);
        if let Ok(Place::Own(at)) = place
            && let Some(peer) = self.peers.get_mut(at)
            && peer.from == from
        {
            // The welcome was lost.
            peer.heard_ns = now_ns;
            self.welcome(at as u16);
            return;
        }
        match place {
            Ok(_) => {
                let whom = Whom {
                    session: self.config.session,
                    to: from,
                    sender: NO_SENDER,
                    start: self.candidates.add(from, hello),
                };
                let welcome = self.welcome_of(hello.nonce, NO_SENDER, false);
                self.enqueue(whom, Message::Welcome(welcome), None);
            }
            Err(RefuseReason::NoSession) => {
                self.refuse(from, hello.nonce, RefuseReason::NoSession);
            }
            Err(reason) => self.refuse_hello(from, hello, reason),
        }
    }

    /// One that was welcomed without a place answers, and gets one: its index and its start there.
    pub(super) fn answered(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        start: u8,
    ) -> Option<(u16, u8)> {
        let at = match self.candidates.take(from, start) {
            Some(candidate) => {
                let hello = candidate.hello();
                let place = self.place(now_ns, from, &hello).ok()?;
                self.give_place(now_ns, from, &hello, place)
            }
            // It has not heard yet which place it has.
            None => (self.peers.iter())
                .position(|peer| peer.is_alive() && peer.answered_as == (from, start))?,
        };
        let peer = self.peers.get_mut(at)?;
        peer.answered_as = (from, start);
        let start = peer.start;
        self.welcome(at as u16);
        Some((at as u16, start))
    }

    /// Hellos whose welcome nobody has answered.
    #[must_use]
    pub fn hellos_unanswered(&self) -> u64 {
        self.candidates.unanswered()
    }

    /// Which place a sender could have now, or why none.
    fn place(
        &self,
        now_ns: u64,
        from: SocketAddr,
        hello: &Hello<'_>,
    ) -> Result<Place, RefuseReason> {
        if matches!(
            self.phase,
            Phase::Over(_) | Phase::Failed(_) | Phase::Stopping
        ) {
            return Err(RefuseReason::NoSession);
        }
        let smallest = self.plan.as_ref().map_or(0, |plan| plan.packet_bytes);
        if smallest > u32::from(hello.packet_bytes_max) {
            return Err(RefuseReason::PacketBytes);
        }
        let mut peers = self.peers.iter().enumerate();
        let named = peers.find(|(_, peer)| peer.totals().name == hello.name);
        if let Some((at, peer)) = named {
            return self.place_again(now_ns, from, hello, (at, peer));
        }
        if self.peers.len() < usize::from(self.config.senders) {
            return Ok(Place::New);
        }
        // Nothing is in the books of those that left before the start: their places are free again.
        let is_free = |peer: &Peer| {
            !peer.is_present() && (self.phase == Phase::Waiting || peer.totals().never_began())
        };
        let free = self.peers.iter().position(is_free);
        free.map(Place::Free).ok_or(RefuseReason::Full)
    }

    /// One whose name is known: the same start of it, another one, or another sender that must not have that name.
    fn place_again(
        &self,
        now_ns: u64,
        from: SocketAddr,
        hello: &Hello<'_>,
        (at, peer): (usize, &Peer),
    ) -> Result<Place, RefuseReason> {
        let is_silent = now_ns >= peer.heard_ns.saturating_add(self.config.silence_ns);
        // Two that live do not have one address.
        let is_free = is_silent || from == peer.from || !peer.is_alive();
        let has_ended = peer.totals().state == PeerState::Ended && self.phase != Phase::Waiting;
        if !is_free || has_ended || peer.is_past(hello.nonce) {
            return Err(RefuseReason::NameTaken);
        }
        let is_same = peer.nonce == hello.nonce && peer.is_present();
        Ok(if is_same {
            Place::Own(at)
        } else {
            Place::Again(at)
        })
    }

    fn give_place(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        hello: &Hello<'_>,
        place: Place,
    ) -> usize {
        let (Place::Own(at) | Place::Free(at) | Place::Again(at)) = place else {
            let at = self.peers.len();
            self.peers.push(Peer::new(at as u16, from, hello, now_ns));
            return at;
        };
        if matches!(place, Place::Again(_)) {
            if let Some(peer) = self.peers.get_mut(at) {
                peer.died();
            }
            self.close_rows(now_ns);
        }
        if let Some(peer) = self.peers.get_mut(at) {
            match place {
                Place::Again(_) => peer.restart(from, hello, now_ns),
                Place::Free(_) => {
                    peer.replace(from, hello, now_ns);
                }
                _ => (peer.from, peer.heard_ns) = (from, now_ns),
            }
        }
        at
    }

    pub(super) fn refuse_hello(
        &mut self,
        from: SocketAddr,
        hello: &Hello<'_>,
        reason: RefuseReason,
    ) {
        self.refusals.add(hello.name, reason);
        self.refuse(from, hello.nonce, reason);
    }

    pub(super) fn refuse(&mut self, to: SocketAddr, nonce: u64, reason: RefuseReason) {
        let whom = Whom {
            session: self.config.session,
            to,
            sender: NO_SENDER,
            start: 0,
        };
        self.enqueue(whom, Message::Refuse(Refusal { nonce, reason }), None);
    }

    /// A sender is ready: it is told when it starts, as soon as that is known.
    pub(super) fn handle_ready(&mut self, now_ns: u64, sender: u16) {
        self.first_ready_ns.get_or_insert(now_ns);
        self.begin_if_all_are_ready(now_ns);
        self.welcome(sender);
    }

    pub(super) fn begin_if_all_are_ready(&mut self, now_ns: u64) {
        if self.phase != Phase::Waiting {
            return;
        }
        let ready = self.peers.iter().filter(|peer| peer.is_ready()).count();
        if ready == 0 {
            self.first_ready_ns = None;
            return;
        }
        let all = ready == usize::from(self.config.senders);
        let waited = self.config.wait_ns != 0
            && self
                .first_ready_ns
                .is_some_and(|first| now_ns >= first + self.config.wait_ns);
        if !(all || waited) {
            return;
        }
        let mut input = self.config.port.clone();
        // Those that are not there yet keep an equal part: they may come later.
        let share = |peer: &Peer| if peer.is_present() { peer.share } else { 1 };
        input.shares = self.peers.iter().map(share).collect();
        input.shares.resize(usize::from(self.config.senders), 1);
        let present = || self.peers.iter().filter(|peer| peer.is_present());
        let smallest = present().map(|peer| u32::from(peer.packet_bytes_max)).min();
        input.packet_bytes = input.packet_bytes.min(smallest.unwrap_or(u32::MAX));
        let measured = present().map(|peer| peer.totals().ready);
        for ready in measured {
            input.lateness_ns = input.lateness_ns.max(ready.lateness_ns);
            input.clock_error_ns = input.clock_error_ns.max(ready.clock_error_ns);
        }
        let narrowed = present().filter(|peer| peer.totals().ready.disciplined == 1);
        let reason = clock_reason(&input, narrowed.count(), present().count());
        match Plan::compute(&input) {
            Ok(mut plan) => {
                plan.reasons.push(reason);
                self.plan = Some(plan);
                self.start_ns = now_ns + self.config.lead_ns;
                self.phase = Phase::Running;
                for sender in 0..self.peers.len() {
                    self.welcome(sender as u16);
                }
            }
            Err(error) => {
                self.phase = Phase::Failed(error);
                for sender in 0..self.peers.len() {
                    self.stop_peer(sender, EndReason::Failed);
                }
            }
        }
    }

    /// The wall clock here; none when nobody disciplines it. Senders whose own is disciplined, too, know the clocks no worse than both bounds together.
    pub const fn handle_wall(&mut self, wall: Option<Wall>) {
        self.wall = wall;
    }

    /// Tells a sender the configuration, with its start when there is one.
    fn welcome(&mut self, sender: u16) {
        let Some(peer) = self.peers.get(usize::from(sender)) else {
            return;
        };
        // A sender that learns its start before it has said that it is ready might send before that is known here.
        let welcome = self.welcome_of(peer.nonce, sender, peer.is_ready());
        if welcome.start_ns != 0
            && let Some(peer) = self.peers.get_mut(usize::from(sender))
        {
            peer.begins();
        }
        self.push(sender, Message::Welcome(welcome));
    }

    /// The configuration, as a sender in this place is told it; with the start of its windows, if that is known and `with_start`.
    fn welcome_of(&self, nonce: u64, sender: u16, with_start: bool) -> Welcome {
        let welcome = Welcome {
            nonce,
            mode: self.config.port.mode,
            senders: self.config.senders,
            packet_bytes: u16::try_from(self.config.port.packet_bytes).unwrap_or(u16::MAX),
            burst_packets: 1,
            catch_up_packets: 0,
            window_packets: 1,
            windows: self.config.windows,
            start_ns: 0,
            window_ns: 1,
            cycle_ns: 1,
            guard_ns: 0,
            pace_ps: 0,
            silence_ns: self.config.silence_ns,
            wall_ns: self.wall.map_or(0, |wall| wall.ahead_ns.cast_unsigned()),
            wall_error_ns: self.wall.map_or(0, |wall| wall.error_ns.max(1)),
        };
        let Some(plan) = &self.plan else {
            return welcome;
        };
        let slot = plan.slots.get(usize::from(sender)).copied();
        let Slot {
            offset_ns,
            window_ns,
            packets,
        } = slot.unwrap_or(Slot {
            offset_ns: 0,
            window_ns: 1,
            packets: 1,
        });
        let start_ns = if with_start {
            self.start_ns + offset_ns
        } else {
            0
        };
        Welcome {
            packet_bytes: u16::try_from(plan.packet_bytes).unwrap_or(u16::MAX),
            burst_packets: plan.burst_packets,
            catch_up_packets: plan.catch_up_packets,
            window_packets: packets,
            start_ns,
            window_ns,
            cycle_ns: plan.cycle_ns.max(window_ns),
            guard_ns: plan.guard_ns,
            pace_ps: plan.pace_ps,
            ..welcome
        }
    }

    pub(super) fn stop_peer(&mut self, at: usize, reason: EndReason) {
        if self.peers.get(at).is_some_and(Peer::is_present) {
            self.push(at as u16, Message::Stop(Stop { reason }));
        }
    }

    /// The stop of a session that has ended may have been lost.
    pub(super) fn tell_that_it_is_over(&mut self, sender: u16) {
        let reason = match self.phase {
            Phase::Over(reason) => reason,
            Phase::Failed(_) => EndReason::Failed,
            Phase::Waiting | Phase::Running | Phase::Stopping => return,
        };
        self.stop_peer(usize::from(sender), reason);
    }

    /// Somebody asks for the end: senders are told, and their totals are waited for.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_for(now_ns, EndReason::Interrupted);
    }

    /// What comes cannot be taken any more: as [`Self::stop`], and senders are told that something failed.
    pub fn fail(&mut self, now_ns: u64) {
        self.stop_for(now_ns, EndReason::Failed);
    }

    fn stop_for(&mut self, now_ns: u64, reason: EndReason) {
        match self.phase {
            Phase::Waiting => {
                for at in 0..self.peers.len() {
                    self.stop_peer(at, reason);
                }
                self.phase = Phase::Over(reason);
            }
            Phase::Running => {
                self.stop_reason = reason;
                self.phase = Phase::Stopping;
                self.stop_ns = now_ns;
            }
            Phase::Stopping | Phase::Over(_) | Phase::Failed(_) => {}
        }
    }
}

/// What the bound of the clocks rests on.
fn clock_reason(input: &PlanInput, narrowed: usize, of: usize) -> Reason {
    let base = match narrowed {
        0 => "exchanges of readings with the receiver".to_owned(),
        _ => format!(
            "exchanges of readings with the receiver, and for {narrowed} of {of} senders the bounds of both hosts' disciplined wall clocks"
        ),
    };
    Reason {
        what: "clock",
        value: time(&input.clock_error_ns),
        why: format!("the bound of the error of senders' clocks, by {base}"),
    }
}
