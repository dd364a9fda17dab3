//! What is due as time goes on.

use forebay_wire::tdm::{EndReason, Grant, Message, Mode, Packet};

use super::{
    LossCause, LostRange, Peer, PeerState, Phase, Receiver, Row, STOP_EVERY_NS, Transmit, charge,
};

/// Later than this, in ns, a host has stood still.
const AWAY_NS: u64 = 100_000_000;

impl Receiver {
    /// Writes the next control datagram that is due into `out` (at least [`forebay_wire::tdm::CONTROL_BYTES_MAX`] bytes).
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Transmit> {
        self.look_at_time(now_ns);
        let outgoing = self.outgoing.pop_front()?;
        let packet = Packet {
            session: outgoing.whom.session,
            sender: outgoing.whom.sender,
            start: outgoing.whom.start,
            message: outgoing.message,
            tag: None,
        };
        let bytes = packet.emit(self.config.key.is_some(), out)?;
        if let Some(key) = &self.config.key {
            key.seal(out.get_mut(..bytes)?);
        }
        Some(Transmit {
            bytes,
            to: outgoing.whom.to,
            stamp: outgoing.stamp,
        })
    }

    /// A sender that was not listened to is not silent: when this host has stood still, and so is asked later than it wanted to be, every sender has half of the time of silence
    /// from now on, in which what lies in the socket is read.
    fn excuse(&mut self, now_ns: u64) {
        let wanted_ns = self.poll_timeout().filter(|wanted_ns| *wanted_ns > 0);
        if wanted_ns.is_some_and(|wanted_ns| now_ns > wanted_ns.saturating_add(AWAY_NS)) {
            let from_ns = now_ns.saturating_sub(self.config.silence_ns / 2);
            for peer in &mut self.peers {
                peer.heard_ns = peer.heard_ns.max(from_ns);
            }
        }
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
        let present = self.peers.iter().filter(|peer| peer.is_present());
        let silence = present
            .map(|peer| peer.heard_ns.saturating_add(self.config.silence_ns))
            .min();
        let wait = match (&self.phase, self.first_ready_ns) {
            (Phase::Waiting, Some(first)) if self.config.wait_ns != 0 => {
                Some(first + self.config.wait_ns)
            }
            (Phase::Stopping, _) => Some(self.stop_ns),
            (Phase::Running, _) if self.config.port.mode == Mode::Credit && !self.grants.held => {
                self.turn.over_ns().or_else(|| self.idle_until_ns())
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
                peer.gaps.poll().map(|(restarts, begin, end)| LostRange {
                    restarts,
                    sender: sender as u16,
                    offset: begin,
                    bytes: end - begin,
                })
            })
    }

    fn look_at_time(&mut self, now_ns: u64) {
        self.excuse(now_ns);
        for peer in &mut self.peers {
            if now_ns >= peer.heard_ns.saturating_add(self.config.silence_ns) {
                peer.died();
            }
        }
        self.begin_if_all_are_ready(now_ns);
        self.close_rows(now_ns);
        self.grant(now_ns);
        if self.phase == Phase::Stopping && now_ns >= self.stop_ns {
            self.stop_ns = now_ns + STOP_EVERY_NS;
            for at in 0..self.peers.len() {
                self.stop_peer(at, self.stop_reason);
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
                self.phase = Phase::Over(self.stop_reason);
            }
            Phase::Waiting
            | Phase::Running
            | Phase::Stopping
            | Phase::Over(_)
            | Phase::Failed(_) => {}
        }
    }

    pub(super) fn close_rows(&mut self, now_ns: u64) {
        let settle_ns = self.config.settle_ns;
        let (overflow, reassembly) = (&mut self.overflow, &mut self.reassembly);
        let stalls = &self.stalls;
        let mut ended = Vec::new();
        for (at, peer) in self.peers.iter_mut().enumerate() {
            loop {
                let row = peer.close_row(now_ns, settle_ns, |row| {
                    stalls.charge(row, overflow);
                    let lost = &mut row.lost;
                    *overflow -= charge(lost, *overflow, LossCause::SocketOverflow);
                    *reassembly -= charge(lost, *reassembly, LossCause::Reassembly);
                });
                match row {
                    Some(row) => self.rows.push_back(row),
                    None => break,
                }
            }
            if peer.is_over() && peer.end_stream() {
                ended.extend(peer.ended_totals().map(|_| at as u16));
            }
        }
        for sender in ended {
            self.stream_ended(sender);
        }
    }

    /// Gives the turn to the next one. That a sender has used all its windows it says itself, by its end: of grants that were lost or came too late nothing is
    /// known here.
    fn grant(&mut self, now_ns: u64) {
        let Some(plan) = &self.plan else {
            return;
        };
        if plan.mode != Mode::Credit || self.phase != Phase::Running || now_ns < self.start_ns {
            return;
        }
        if self.grants.held {
            return;
        }
        let (longest_ns, guard_ns) = (
            plan.slots.iter().map(|slot| slot.window_ns).max(),
            plan.guard_ns,
        );
        let takes_ns = longest_ns.unwrap_or(0) + guard_ns;
        let peers = &mut self.peers;
        let given = self
            .turn
            .give(now_ns, takes_ns, self.config.senders, |sender| {
                let peer = peers
                    .get_mut(usize::from(sender))
                    .filter(|peer| peer.is_ready() && now_ns >= peer.idle_until_ns)?;
                let window = peer.granted;
                peer.granted += 1;
                Some(window)
            });
        if let Some((sender, window)) = given {
            let slot = plan.slots.get(usize::from(sender)).copied();
            let grant = Grant {
                window,
                packets: slot.map_or(1, |slot| slot.packets),
                start_ns: now_ns,
            };
            self.push(sender, Message::Grant(grant));
        }
    }

    /// While `hold` is true no sender is granted a window: the writer of what comes does not follow.
    pub fn hold_grants(&mut self, hold: bool) {
        self.grants.times += u64::from(hold && !self.grants.held);
        self.grants.held = hold;
    }

    /// How often grants were held back.
    #[must_use]
    pub const fn grants_held(&self) -> u64 {
        self.grants.times
    }

    /// When the first of those that may send may be asked again.
    fn idle_until_ns(&self) -> Option<u64> {
        let may = (self.peers.iter()).filter(|peer| peer.is_ready());
        may.map(|peer| peer.idle_until_ns.max(self.start_ns)).min()
    }
}
