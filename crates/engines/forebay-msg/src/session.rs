//! A connection from its first frame to its last: what is there, what was agreed, which side ends when, and whether the peer is still alive.

mod asking;
mod confirming;
mod control;
mod error;
mod side;

use forebay_wire::net::{DataFields, Frame, Kind, Refusal, Role, Slow, Subscribe, Totals};

use crate::inbound::{Apart, Inbound, Reading};
use crate::outbound::{Memory, Outbound, Transmit};
use confirming::Confirming;
use control::Control;
pub use error::SessionError;
use side::Side;
pub use side::{Agreed, Dialer, Limits, Listener, Timing};

/// Answers that may wait for a peer to take them: one that asks and does not read is let go.
const ANSWERS_MAX: usize = 1024;

/// What a frame brought.
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing to do.
    None,
    /// The peer is known, and messages may go.
    Opened(Agreed),
    /// Messages: read them, and [`finish`](Reading::finish).
    Messages(Reading<'a>),
    /// Subscriptions: carry them out, and [`answer`](Session::answer).
    Subscribe(Subscribe<'a>),
    /// The answer to a subscription; none when it was carried out.
    Answered(u32, Option<Result<Refusal, u32>>),
    /// The peer sends nothing more; its totals.
    PeerEnded(Totals),
    /// The peer wants nothing more: nothing is to be pushed after this; what is held goes out, and then the end.
    PeerLeaves,
}

/// One connection. It is given frames and the time and says what is to be sent; the sending end ([`Outbound`]) belongs to its user, which hands
/// it in.
///
/// Ends: the side that sends says its totals when all is sent ([`end`](Self::end)), the one that receives answers with what it took; a receiver may ask for the end
/// ([`leave`](Self::leave)), and one that is too slow is [let go](Self::let_go).
#[derive(Debug)]
pub struct Session {
    side: Side,
    limits: Limits,
    timing: Timing,
    agreed: Option<Agreed>,
    inbound: Option<Inbound>,
    control: Control,
    /// Bytes of the frame at hand that the link has taken: of a buffer of messages.
    data_taken: usize,
    confirming: Confirming,
    begun_ns: u64,
    heard_ns: u64,
    said_ns: u64,
    ending: bool,
    end_said: bool,
    /// The receiver is let go instead.
    letting_go: bool,
    peer_end: Option<Totals>,
    /// Messages and bytes that the sender has dropped, as it says at the end.
    dropped_by_peer: Option<[u64; 2]>,
    farewell: Option<Totals>,
}

impl Session {
    /// The side that connects.
    #[must_use]
    pub fn dial(dialer: Dialer, limits: Limits, timing: Timing, now_ns: u64) -> Self {
        let mut session = Self::new(Side::Dialer(dialer), limits, timing, now_ns);
        session.control.say(&Frame::Hello(dialer.hello(&limits)));
        session
    }

    /// The side that is connected to; `epoch` stands in no other connection of this end point.
    #[must_use]
    pub fn listen(listener: Listener, limits: Limits, timing: Timing, now_ns: u64) -> Self {
        Self::new(Side::Listener(listener), limits, timing, now_ns)
    }

    fn new(side: Side, limits: Limits, timing: Timing, now_ns: u64) -> Self {
        Self {
            side,
            limits,
            timing,
            agreed: None,
            inbound: None,
            control: Control::default(),
            data_taken: 0,
            confirming: Confirming::default(),
            begun_ns: now_ns,
            heard_ns: now_ns,
            said_ns: now_ns,
            ending: false,
            end_said: false,
            letting_go: false,
            peer_end: None,
            dropped_by_peer: None,
            farewell: None,
        }
    }

    /// Whether one that connects is told, when it says what it is, that it is not served.
    pub fn turn_away(&mut self, closed: Option<Refusal>) {
        if let Side::Listener(listener) = &mut self.side {
            listener.closed = closed;
        }
    }

    /// What was agreed with the peer, once it is known.
    #[must_use]
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Bytes of messages that a buffer may have, heads included: the limit for [`Frame::parse`].
    #[must_use]
    pub fn area_bytes(&self) -> u32 {
        let heads = forebay_wire::netio3::HEAD_BYTES_MAX as u32;
        // No peer sends messages before it is known what it is.
        let agreed = self.agreed.map(|agreed| agreed.buffer_bytes);
        agreed.map_or(0, |bytes| bytes.saturating_add(heads))
    }

    /// The receiving end, if there is one.
    #[must_use]
    pub fn inbound(&self) -> Option<&Inbound> {
        self.inbound.as_ref()
    }

    /// The sender's totals, when it has ended.
    #[must_use]
    pub fn peer_end(&self) -> Option<&Totals> {
        self.peer_end.as_ref()
    }

    /// Messages and bytes that the sender dropped instead of sending them here, when it has said so.
    #[must_use]
    pub fn dropped_by_peer(&self) -> Option<[u64; 2]> {
        self.dropped_by_peer
    }

    /// What the receiver took, when it has said so.
    #[must_use]
    pub fn farewell(&self) -> Option<&Totals> {
        self.farewell.as_ref()
    }

    /// Takes a frame. `outbound` is the sending end, where there is one.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn handle_frame<'a, M: Memory>(
        &'a mut self,
        now_ns: u64,
        frame: Frame<'a>,
        outbound: Option<&mut Outbound<M>>,
    ) -> Result<Event<'a>, SessionError> {
        self.heard_ns = now_ns;
        self.check_inbound()?;
        let frames = self.control.answers();
        if frames > ANSWERS_MAX {
            return Err(SessionError::Unread { frames });
        }
        if self.agreed.is_none() {
            return self.greet(&frame);
        }
        match frame {
            Frame::Data(fields, messages) => {
                let inbound = self.inbound.as_mut().filter(|_| self.peer_end.is_none());
                let inbound = inbound.ok_or(SessionError::OutOfPlace { kind: Kind::Data })?;
                Ok(Event::Messages(inbound.handle_data(&fields, messages)?))
            }
            Frame::Credit(credit) => {
                let out_of_place = SessionError::OutOfPlace { kind: Kind::Credit };
                outbound.ok_or(out_of_place)?.handle_credit(&credit)?;
                Ok(Event::None)
            }
            Frame::Subscribe(subscribe) if self.serves_subscriber() => {
                Ok(Event::Subscribe(subscribe))
            }
            Frame::Subscribed(request, refusal) if self.is_subscriber() => {
                Ok(Event::Answered(request, refusal))
            }
            Frame::End(totals) if self.inbound.is_some() && self.peer_end.is_none() => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.handle_end(&totals)?;
                }
                self.peer_end = Some(totals);
                self.dropped_by_peer = Some([totals.messages_dropped, totals.bytes_dropped]);
                self.answer_end();
                Ok(Event::PeerEnded(totals))
            }
            Frame::LetGo(totals) if self.inbound.is_some() && self.peer_end.is_none() => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.handle_end(&totals)?;
                }
                self.dropped_by_peer = Some([totals.messages_dropped, totals.bytes_dropped]);
                Err(SessionError::LetGo {
                    messages: totals.messages_dropped,
                })
            }
            Frame::Farewell(totals) if self.end_said && self.farewell.is_none() => {
                if let Some(outbound) = outbound {
                    outbound.handle_farewell(&totals)?;
                }
                self.farewell = Some(totals);
                Ok(Event::None)
            }
            Frame::Leave if self.sends() => {
                self.ending = true;
                Ok(Event::PeerLeaves)
            }
            Frame::Alive => Ok(Event::None),
            Frame::Refuse(reason) => Err(SessionError::Refused { reason }),
            other => Err(SessionError::OutOfPlace { kind: other.kind() }),
        }
    }

    /// Takes a buffer with one message whose payload, of `elsewhere` bytes, is in other memory than the frame: see [`Inbound::handle_apart`].
    ///
    /// # Errors
    /// The connection has to end.
    pub fn handle_apart(
        &mut self,
        now_ns: u64,
        fields: &DataFields,
        head: &[u8],
        elsewhere: usize,
    ) -> Result<Option<Apart>, SessionError> {
        self.heard_ns = now_ns;
        let inbound = self.inbound.as_mut().filter(|_| self.peer_end.is_none());
        let inbound = inbound.ok_or(SessionError::OutOfPlace { kind: Kind::Data })?;
        Ok(inbound.handle_apart(fields, head, elsewhere)?)
    }

    /// A buffer that was not what it says is the last frame that is taken.
    fn check_inbound(&self) -> Result<(), SessionError> {
        let checked = self.inbound.as_ref().map_or(Ok(()), Inbound::check);
        Ok(checked?)
    }

    /// The first frame of the peer.
    fn greet<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, SessionError> {
        let agreed = match (&self.side, frame) {
            (Side::Listener(listener), Frame::Hello(hello)) => {
                match listener.judge(hello, &self.limits) {
                    Ok(agreed) => {
                        self.control.say(&Frame::Welcome(agreed.welcome()));
                        agreed
                    }
                    Err(reason) => {
                        self.control.say(&Frame::Refuse(Ok(reason)));
                        return Err(SessionError::Turned { reason });
                    }
                }
            }
            (Side::Dialer(dialer), Frame::Welcome(welcome)) => {
                dialer.judge(welcome, &self.limits)?
            }
            (_, Frame::Refuse(reason)) => return Err(SessionError::Refused { reason: *reason }),
            (_, Frame::Alive) => return Ok(Event::None),
            (_, other) => return Err(SessionError::OutOfPlace { kind: other.kind() }),
        };
        if agreed.receives {
            self.inbound = Some(Inbound::new(agreed.epoch, agreed.buffer_bytes));
        }
        self.agreed = Some(agreed);
        Ok(Event::Opened(agreed))
    }

    fn is_subscriber(&self) -> bool {
        matches!(&self.side, Side::Dialer(dialer) if dialer.role == Role::Subscriber)
    }

    fn serves_subscriber(&self) -> bool {
        matches!(self.side, Side::Listener(_)) && self.role() == Some(Role::Subscriber)
    }

    fn role(&self) -> Option<Role> {
        self.agreed.map(|agreed| agreed.role)
    }

    fn sends(&self) -> bool {
        self.agreed.is_some_and(|agreed| agreed.sends)
    }

    /// Sends what is held, and then the end.
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// The receiver is too slow: what is on its way to the link goes out, and then the totals, with the reason. The receiver does not answer.
    pub fn let_go(&mut self) {
        self.ending = true;
        self.letting_go = true;
    }

    /// A receiver wants no more: the sender shall end.
    pub fn leave(&mut self) {
        if self.inbound.is_some() && self.peer_end.is_none() {
            self.control.say(&Frame::Leave);
        }
    }

    /// Whether the end is asked for.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Tells the peer why it is let go, as the last thing.
    pub fn refuse(&mut self, reason: Refusal) {
        self.control.say(&Frame::Refuse(Ok(reason)));
    }

    /// Whether both sides have said all: nothing is to come, nothing to go.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.has_heard_all() && self.control.is_empty() && !self.owes_answer()
    }

    /// Whether the peer has said all that it had to say: its totals as a sender, and as a receiver. How the link ends then is no matter.
    #[must_use]
    pub fn has_heard_all(&self) -> bool {
        let Some(agreed) = &self.agreed else {
            return false;
        };
        let sent = !agreed.sends || self.farewell.is_some();
        let received = !agreed.receives || self.peer_end.is_some();
        sent && received
    }

    /// What the link is to be given next; how much it took of that goes to [`handle_transmitted`](Self::handle_transmitted). It is a frame, or the rest
    /// of one.
    pub fn poll_transmit<'a, M: Memory>(
        &'a mut self,
        outbound: Option<&'a mut Outbound<M>>,
    ) -> Option<Transmit<'a>> {
        if self.data_taken == 0 && self.control.is_empty() {
            if let Some(outbound) = outbound.filter(|_| !self.end_said) {
                if self.ending && !outbound.is_waiting() {
                    outbound.flush();
                }
                if outbound.poll_transmit().is_some() {
                    return outbound.frame_from(0);
                }
                if self.ending && self.sends() {
                    self.end_said = true;
                    let totals = outbound.totals();
                    self.control.say(&if self.letting_go {
                        Frame::LetGo(totals)
                    } else {
                        Frame::End(totals)
                    });
                }
            }
        } else if self.data_taken > 0 {
            return outbound?.frame_from(self.data_taken);
        }
        let bytes = self.control.next()?;
        Some(Transmit {
            bytes,
            is_buffer: false,
            lent: None,
        })
    }

    /// The link took so many bytes of what [`poll_transmit`](Self::poll_transmit) gave, own and lent.
    pub fn handle_transmitted<M: Memory>(
        &mut self,
        now_ns: u64,
        count: usize,
        outbound: Option<&mut Outbound<M>>,
    ) {
        if count == 0 {
            return;
        }
        self.said_ns = now_ns;
        if self.data_taken == 0 && !self.control.is_empty() {
            self.control.taken(count);
            return;
        }
        let Some(outbound) = outbound else {
            return;
        };
        self.data_taken += count;
        if outbound.frame_from(self.data_taken).is_none() {
            outbound.handle_transmitted();
            self.data_taken = 0;
        }
    }

    /// Nothing was read until now, though something may have come: the peer's silence so far is not its own.
    pub fn handle_deafness(&mut self, now_ns: u64) {
        self.heard_ns = self.heard_ns.max(now_ns);
    }

    /// The time has come for something: says that it is alive, or finds that the peer is not.
    ///
    /// # Errors
    /// The peer said nothing for too long, or a buffer of it was not what it says.
    pub fn handle_time(&mut self, now_ns: u64) -> Result<(), SessionError> {
        self.check_inbound()?;
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if self.agreed.is_none() {
            if now_ns.saturating_sub(self.begun_ns) >= self.timing.greeting_ns {
                return Err(SessionError::NoGreeting);
            }
            return Ok(());
        }
        if silent_ns >= self.timing.silence_ns {
            return Err(SessionError::Silent { silent_ns });
        }
        let quiet = self.control.is_empty() && self.data_taken == 0;
        if quiet && now_ns.saturating_sub(self.said_ns) >= self.timing.alive_ns {
            self.control.say(&Frame::Alive);
        }
        Ok(())
    }

    /// When [`handle_time`](Self::handle_time) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> u64 {
        if self.agreed.is_none() {
            return self.begun_ns.saturating_add(self.timing.greeting_ns);
        }
        let silence = self.heard_ns.saturating_add(self.timing.silence_ns);
        if self.control.is_empty() && self.data_taken == 0 {
            silence.min(self.said_ns.saturating_add(self.timing.alive_ns))
        } else {
            // Something is on its way to the link already.
            silence
        }
    }

    /// The policy that holds for what this side sends.
    #[must_use]
    pub fn slow(&self) -> Slow {
        self.agreed.map_or(Slow::Block, |agreed| agreed.slow)
    }
}
