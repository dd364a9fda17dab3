//! Who takes part, and when it begins; what is due as time goes on.

use std::net::SocketAddr;

use forebay_wire::tdm::{
    EndReason, Grant, Hello, Message, Mode, Packet, Refusal, RefuseReason, Stop, Welcome,
};

use super::{LostRange, Peer, PeerState, Phase, Receiver, Row, STOP_EVERY_NS, Transmit};
use crate::plan::{Plan, Slot};

impl Receiver {
    pub(super) fn handle_hello(&mut self, now_ns: u64, from: SocketAddr, hello: &Hello<'_>) {
        if matches!(
            self.phase,
            Phase::Over(_) | Phase::Failed(_) | Phase::Stopping
        ) {
            self.refuse(from, hello.nonce, RefuseReason::NoSession);
            return;
        }
        let again = self.peers.iter().position(|peer| peer.nonce == hello.nonce);
        if let Some(at) = again {
            if let Some(peer) = self.peers.get_mut(at) {
                (peer.from, peer.heard_ns) = (from, now_ns);
            }
            self.welcome(at as u16);
            return;
        }
        if self
            .plan
            .as_ref()
            .is_some_and(|plan| plan.packet_bytes > u32::from(hello.packet_bytes_max))
        {
            self.refuse(from, hello.nonce, RefuseReason::PacketBytes);
            return;
        }
        let named = self
            .peers
            .iter()
            .position(|peer| peer.totals().name == hello.name);
        let at = match named {
            Some(at) => {
                let silence_ns = self.config.silence_ns;
                let Some(peer) = self.peers.get_mut(at) else {
                    return;
                };
                let silent = now_ns.saturating_sub(peer.heard_ns) >= silence_ns;
                if peer.is_alive() && !silent {
                    self.refuse(from, hello.nonce, RefuseReason::NameTaken);
                    return;
                }
                peer.died();
                self.close_rows(now_ns);
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.restart(from, hello, now_ns);
                }
                at
            }
            None if self.peers.len() < usize::from(self.config.senders) => {
                let at = self.peers.len();
                self.peers.push(Peer::new(at as u16, from, hello, now_ns));
                at
            }
            None => {
                self.refuse(from, hello.nonce, RefuseReason::Full);
                return;
            }
        };
        self.welcome(at as u16);
    }

    pub(super) fn refuse(&mut self, to: SocketAddr, nonce: u64, reason: RefuseReason) {
        let refusal = Refusal { nonce, reason };
        self.push(to, forebay_wire::tdm::NO_SENDER, Message::Refuse(refusal));
    }

    /// A sender is ready: it is told when it starts, as soon as that is known.
    pub(super) fn handle_ready(&mut self, now_ns: u64, sender: u16) {
        self.first_ready_ns.get_or_insert(now_ns);
        self.begin_if_all_are_ready(now_ns);
        self.welcome(sender);
    }

    fn begin_if_all_are_ready(&mut self, now_ns: u64) {
        if self.phase != Phase::Waiting {
            return;
        }
        let ready = self.peers.iter().filter(|peer| peer.is_ready()).count();
        let all = ready == usize::from(self.config.senders);
        let waited = self.config.wait_ns != 0
            && self
                .first_ready_ns
                .is_some_and(|first| now_ns >= first + self.config.wait_ns);
        if !(all || waited && ready > 0) {
            return;
        }
        let mut input = self.config.port.clone();
        // Those who are not there yet keep an equal part: they may come later.
        input.shares = self.peers.iter().map(|peer| peer.share).collect();
        input.shares.resize(usize::from(self.config.senders), 1);
        let smallest = self
            .peers
            .iter()
            .map(|peer| u32::from(peer.packet_bytes_max))
            .min();
        input.packet_bytes = input.packet_bytes.min(smallest.unwrap_or(u32::MAX));
        let measured = self.peers.iter().map(|peer| peer.totals().ready);
        for ready in measured {
            input.lateness_ns = input.lateness_ns.max(ready.lateness_ns);
            input.clock_error_ns = input.clock_error_ns.max(ready.clock_error_ns);
        }
        match Plan::compute(&input) {
            Ok(plan) => {
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

    /// Tells a sender the configuration, with its start when there is one.
    fn welcome(&mut self, sender: u16) {
        let Some(peer) = self.peers.get(usize::from(sender)) else {
            return;
        };
        let mut welcome = Welcome {
            nonce: peer.nonce,
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
        };
        if let Some(plan) = &self.plan {
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
            welcome = Welcome {
                packet_bytes: u16::try_from(plan.packet_bytes).unwrap_or(u16::MAX),
                burst_packets: plan.burst_packets,
                catch_up_packets: plan.catch_up_packets,
                window_packets: packets,
                start_ns: self.start_ns + offset_ns,
                window_ns,
                cycle_ns: plan.cycle_ns.max(window_ns),
                guard_ns: plan.guard_ns,
                pace_ps: plan.pace_ps,
                ..welcome
            };
        }
        let to = peer.from;
        self.push(to, sender, Message::Welcome(welcome));
    }

    fn stop_peer(&mut self, at: usize, reason: EndReason) {
        if let Some(peer) = self.peers.get(at)
            && matches!(peer.totals().state, PeerState::Joined | PeerState::Ready)
        {
            let to = peer.from;
            self.push(to, at as u16, Message::Stop(Stop { reason }));
        }
    }

    /// Somebody asks for the end: senders are told, and their totals are waited for.
    pub fn stop(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Waiting => {
                for at in 0..self.peers.len() {
                    self.stop_peer(at, EndReason::Interrupted);
                }
                self.phase = Phase::Over(EndReason::Interrupted);
            }
            Phase::Running => {
                self.phase = Phase::Stopping;
                self.stop_ns = now_ns;
            }
            _ => {}
        }
    }

    /// Writes the next control datagram that is due into `out` (at least [`forebay_wire::tdm::CONTROL_BYTES_MAX`] bytes).
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Transmit> {
        self.look_at_time(now_ns);
        let outgoing = self.outgoing.pop_front()?;
        let packet = Packet {
            session: outgoing.session,
            sender: outgoing.sender,
            message: outgoing.message,
            tag: None,
        };
        let bytes = packet.emit(self.config.key.is_some(), out)?;
        if let Some(key) = &self.config.key {
            key.seal(out.get_mut(..bytes)?);
        }
        Some(Transmit {
            bytes,
            to: outgoing.to,
            stamp: outgoing.stamp,
        })
    }

    /// When something is to be done without a datagram having come.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        if !self.outgoing.is_empty() {
            return Some(0);
        }
        let settle_ns = self.config.settle_ns;
        let rows = self
            .peers
            .iter()
            .filter_map(|peer| peer.close_ns(settle_ns))
            .min();
        let alive = self
            .peers
            .iter()
            .filter(|peer| matches!(peer.totals().state, PeerState::Joined | PeerState::Ready));
        let silence = alive
            .map(|peer| peer.heard_ns + self.config.silence_ns)
            .min();
        let wait = match (&self.phase, self.first_ready_ns) {
            (Phase::Waiting, Some(first)) if self.config.wait_ns != 0 => {
                Some(first + self.config.wait_ns)
            }
            (Phase::Stopping, _) => Some(self.stop_ns),
            (Phase::Running, _) if self.config.port.mode == Mode::Credit => {
                Some(self.turn.over_ns().unwrap_or(self.start_ns))
            }
            _ => None,
        };
        [rows, silence, wait].into_iter().flatten().min()
    }

    /// The next closed window.
    pub fn poll_row(&mut self) -> Option<Row> {
        self.rows.pop_front()
    }

    /// The next bytes of a stream that are lost for good.
    pub fn poll_lost(&mut self) -> Option<LostRange> {
        self.peers
            .iter_mut()
            .enumerate()
            .find_map(|(sender, peer)| {
                peer.gaps.poll().map(|(begin, end)| LostRange {
                    sender: sender as u16,
                    offset: begin,
                    bytes: end - begin,
                })
            })
    }

    fn look_at_time(&mut self, now_ns: u64) {
        self.begin_if_all_are_ready(now_ns);
        let waiting = self.phase == Phase::Waiting;
        for peer in &mut self.peers {
            if now_ns >= peer.heard_ns.saturating_add(self.config.silence_ns) {
                peer.died();
            }
        }
        if waiting {
            // Nothing of them is in the books yet: their places are free again.
            let before = self.peers.len();
            let dead = self.peers.iter().any(|peer| !peer.is_alive());
            if dead {
                self.peers.retain(Peer::is_alive);
                if self.peers.len() < before {
                    self.reindex(now_ns);
                }
            }
            return;
        }
        self.close_rows(now_ns);
        self.grant(now_ns);
        if self.phase == Phase::Stopping && now_ns >= self.stop_ns {
            self.stop_ns = now_ns + STOP_EVERY_NS;
            for at in 0..self.peers.len() {
                self.stop_peer(at, EndReason::Interrupted);
            }
        }
        let over = !self.peers.is_empty() && self.peers.iter().all(Peer::is_over);
        let all_came =
            self.peers.len() == usize::from(self.config.senders) || self.config.wait_ns != 0;
        match self.phase {
            Phase::Running if over && all_came => {
                let whole = self
                    .peers
                    .iter()
                    .all(|peer| peer.totals().state == PeerState::Ended);
                self.phase = Phase::Over(if whole {
                    EndReason::Complete
                } else {
                    EndReason::Failed
                });
            }
            Phase::Stopping if over || self.peers.is_empty() => {
                self.phase = Phase::Over(EndReason::Interrupted);
            }
            _ => {}
        }
    }

    /// Senders that joined and fell silent before the start leave their places: the others' numbers change, so they are told.
    fn reindex(&mut self, now_ns: u64) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            peer.place(at as u16);
            peer.heard_ns = peer
                .heard_ns
                .max(now_ns.saturating_sub(self.config.silence_ns / 2));
        }
        for at in 0..self.peers.len() {
            self.welcome(at as u16);
        }
    }

    pub(super) fn close_rows(&mut self, now_ns: u64) {
        let settle_ns = self.config.settle_ns;
        let (overflow, reassembly) = (&mut self.overflow, &mut self.reassembly);
        for peer in &mut self.peers {
            loop {
                let row = peer.close_row(now_ns, settle_ns, |lost| {
                    *overflow -= lost.charge(*overflow, |lost| &mut lost.socket_overflow);
                    *reassembly -= lost.charge(*reassembly, |lost| &mut lost.reassembly);
                });
                match row {
                    Some(row) => self.rows.push_back(row),
                    None => break,
                }
            }
            if peer.is_over() {
                peer.end_stream();
            }
        }
    }

    fn grant(&mut self, now_ns: u64) {
        let Some(plan) = &self.plan else {
            return;
        };
        if plan.mode != Mode::Credit || self.phase != Phase::Running || now_ns < self.start_ns {
            return;
        }
        let (longest_ns, guard_ns) = (
            plan.slots.iter().map(|slot| slot.window_ns).max(),
            plan.guard_ns,
        );
        let takes_ns = longest_ns.unwrap_or(0) + guard_ns;
        let windows = self.config.windows;
        let peers = &mut self.peers;
        let given = self
            .turn
            .give(now_ns, takes_ns, self.config.senders, |sender| {
                let peer = peers
                    .get_mut(usize::from(sender))
                    .filter(|peer| peer.is_ready())?;
                let window = peer.granted;
                if windows != 0 && window >= windows {
                    return None;
                }
                peer.granted += 1;
                Some(window)
            });
        if let Some((sender, window)) = given {
            let slot = plan.slots.get(usize::from(sender)).copied();
            let packets = slot.map_or(1, |slot| slot.packets);
            let grant = Grant {
                window,
                packets,
                start_ns: now_ns,
            };
            if let Some(peer) = self.peers.get(usize::from(sender)) {
                let to = peer.from;
                self.push(to, sender, Message::Grant(grant));
            }
        }
    }
}
