//! What comes from the receiver.

use forebay_wire::tdm::{Kind, Message, Packet, Refusal, RefuseReason, Welcome};

use super::{HELLO_EVERY_NS, NotTaken, Over, Phase, Sender, TAKEN_NS};

impl Sender {
    /// Takes a datagram of the receiver; `stamp_ns` is when the kernel had it.
    ///
    /// # Errors
    /// It is not taken; it is counted, and changes nothing.
    pub fn handle_datagram(
        &mut self,
        now_ns: u64,
        stamp_ns: Option<u64>,
        datagram: &[u8],
    ) -> Result<Kind, NotTaken> {
        let taken = self.take(now_ns, stamp_ns, datagram);
        if let Err(why) = &taken {
            self.all.not_taken += 1;
            self.all.foreign += u64::from(matches!(why, NotTaken::Foreign(_)));
        }
        taken
    }

    fn take(
        &mut self,
        now_ns: u64,
        stamp_ns: Option<u64>,
        datagram: &[u8],
    ) -> Result<Kind, NotTaken> {
        let packet = Packet::parse(datagram)?;
        if let Some(key) = &self.config.key
            && (packet.tag.is_none() || !key.is_sealed(datagram))
        {
            return Err(NotTaken::Key);
        }
        let kind = packet.message.kind();
        match &packet.message {
            Message::Welcome(welcome) => self.take_welcome(now_ns, &packet, welcome)?,
            Message::Refuse(refusal) => self.take_refusal(now_ns, &packet, *refusal)?,
            _ if !self.is_of_our_session(&packet) => {
                return Err(NotTaken::Foreign(packet.session));
            }
            Message::Reply(reply) => {
                let back_ns = stamp_ns.unwrap_or(now_ns);
                self.exchanges.answered(reply, back_ns);
            }
            Message::FollowUp(follow) => self.exchanges.answer_left(follow),
            Message::Reported(reported) => self.forget_reports(*reported),
            Message::Grant(grant) if self.phase == Phase::Running => {
                // One that came twice, or was overtaken, is no other.
                if grant.start_ns > self.granted_ns {
                    self.granted_ns = grant.start_ns;
                    self.grant = Some(*grant);
                }
            }
            Message::Ended(end) if self.phase == Phase::Ending => {
                self.received = Some(*end);
                self.sessions.confirm(end, &self.here);
                let how = match self.stopped {
                    Some(reason) => Over::Stopped(reason),
                    None if self.interrupted => Over::Interrupted,
                    None => Over::Complete,
                };
                self.over(how, now_ns);
            }
            Message::Stop(stop) => match self.phase {
                // Its totals are told first: the receiver waits for them.
                Phase::Running => {
                    self.stopped = Some(stop.reason);
                    self.begin_end(now_ns);
                }
                Phase::Ending => {}
                _ => {
                    // Nothing was sent that totals could be told of.
                    self.sessions.all += 1;
                    self.over(Over::Stopped(stop.reason), now_ns);
                }
            },
            _ => return Err(NotTaken::Unexpected(kind)),
        }
        self.heard_ns = now_ns;
        self.exchanges.collect(&mut self.clock);
        Ok(kind)
    }

    fn is_of_our_session(&self, packet: &Packet<'_>) -> bool {
        self.session != 0 && (packet.session, packet.start) == (self.session, self.start)
    }

    fn take_welcome(
        &mut self,
        now_ns: u64,
        packet: &Packet<'_>,
        welcome: &Welcome,
    ) -> Result<(), NotTaken> {
        let ours = welcome.nonce == self.nonce && packet.session != 0;
        match self.phase {
            Phase::Hello if ours => {
                self.session = packet.session;
                self.clock.forget();
                self.exchanges.begin(now_ns);
                self.phase = Phase::Clock;
            }
            Phase::Clock | Phase::Ready if packet.session == self.session && ours => {}
            // The answer to a ready that was said twice.
            Phase::Running | Phase::Ending if self.is_of_our_session(packet) => {
                self.take_wall(now_ns, welcome);
                return Ok(());
            }
            _ => return Err(NotTaken::Foreign(packet.session)),
        }
        (self.index, self.start) = (packet.sender, packet.start);
        self.welcome = Some(*welcome);
        self.take_wall(now_ns, welcome);
        if self.phase == Phase::Ready && welcome.start_ns != 0 {
            self.phase = Phase::Running;
        }
        Ok(())
    }

    fn take_refusal(
        &mut self,
        now_ns: u64,
        packet: &Packet<'_>,
        refusal: Refusal,
    ) -> Result<(), NotTaken> {
        let ours = match self.phase {
            Phase::Hello => refusal.nonce == self.nonce,
            Phase::Over(_) => false,
            // The answer to a hello that came twice is not for a sender that takes part, nor that to what it said before it had its place.
            _ => {
                refusal.nonce == 0 && self.is_of_our_session(packet) && packet.sender == self.index
            }
        };
        if !ours {
            return Err(NotTaken::Foreign(packet.session));
        }
        match (self.phase, refusal.reason) {
            (Phase::Hello, _) if self.config.repeat => self.hello_ns = now_ns + 4 * HELLO_EVERY_NS,
            (Phase::Hello, RefuseReason::NameTaken) if self.may_be_its_own(now_ns) => {
                self.hello_ns = now_ns + HELLO_EVERY_NS;
            }
            (Phase::Hello, reason) => self.phase = Phase::Over(Over::Refused(reason)),
            _ => self.lose_receiver(now_ns),
        }
        Ok(())
    }

    /// Whether the one that has its name may be its own last start, not yet taken for dead; there is time to see.
    fn may_be_its_own(&mut self, now_ns: u64) -> bool {
        let since_ns = *self.taken_ns.get_or_insert(now_ns);
        let until_ns = match self.config.wait_ns {
            0 => since_ns.saturating_add(TAKEN_NS),
            wait_ns => since_ns
                .saturating_add(TAKEN_NS)
                .min(self.began_ns.saturating_add(wait_ns)),
        };
        now_ns.saturating_add(HELLO_EVERY_NS) < until_ns
    }

    /// The kernel's stamp of a probe's departure.
    pub fn handle_left(&mut self, sequence: u32, stamp_ns: u64) {
        self.exchanges.left(sequence, stamp_ns);
        self.exchanges.collect(&mut self.clock);
    }

    /// The host's clock has been set: readings of exchanges that are under way are worth nothing, nor is any time that was kept, and windows are
    /// withheld until the receiver's clock is known again.
    pub fn drop_exchanges(&mut self) {
        self.exchanges.drop_all();
        self.clock_was_set = true;
    }
}
