//! What must hold for a messaging session, whatever its peer says and its user does, in any order. Shared by the fuzz target and by the tests that replay
//! its corpus and try random bytes.
//!
//! The input: a byte of flags (which side connects, its role, answers, confirming by hand), then steps, each a byte and what it needs. A number of the peer's is
//! the right one (a byte below 240), near it (240 to 254), or any (255 and eight bytes). High steps have a peer that keeps to its place, and of which a buffer
//! may be lost or come again.

#[path = "session/peer.rs"]
mod peer;
#[path = "session/said.rs"]
mod said;

use forebay_msg::session::{
    Agreed, Dialer, Event, Limits, Listener, Session, SessionError, Timing,
};
use forebay_msg::{Config, Entry, Inbound, Outbound, Pushed, Refusal, Role, Slow};
use forebay_wire::net::Frame;
use peer::{Input, Peer};
use said::Said;

const LIMITS: Limits = Limits {
    buffer_bytes: 120,
    buffer_count: 3,
};
const EPOCH: u64 = 77;
/// A buffer of the peer's does not come, or again, from this step on.
const LOST: u8 = 0xc0;
/// The peer says nothing that is out of place, from this step on.
const TAME: u8 = 0x10;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&flags, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Input(rest);
    let mut world = World::new(flags);
    while let Some(step) = input.byte() {
        let goes_on = world.step(step, &mut input);
        world.check_books();
        if goes_on.is_err() {
            break;
        }
    }
    world.end();
}

/// One end of a connection with its user, beside counts of our own.
struct World {
    session: Session,
    outbound: Option<Outbound>,
    by_hand: bool,
    now_ns: u64,
    inbox: Vec<u8>,
    peer: Peer,
    said: Said,
    /// Messages and bytes that were handed in to be sent, and taken or dropped.
    pushed: [u64; 2],
    /// Of these, dropped as they were handed in, and held when the receiver was let go or the connection was gone.
    dropped: [u64; 2],
    lost: [u64; 2],
    /// Messages and bytes that the peer has confirmed.
    confirmed: [u64; 2],
    /// When the peer was heard last.
    heard_ns: u64,
    /// The number of the next buffer of the peer's.
    next: u64,
    /// It was refused here, or let go by the peer: nothing more is owed to it.
    is_cut: bool,
}

/// The connection is over.
struct Over;

impl From<SessionError> for Over {
    fn from(error: SessionError) -> Self {
        assert!(!error.reason().is_empty() && !error.to_string().is_empty());
        Self
    }
}

impl World {
    fn new(flags: u8) -> Self {
        let role = if flags & 2 == 0 {
            Role::Sender
        } else {
            Role::Subscriber
        };
        let dials = flags & 1 != 0;
        let session = if dials {
            let (slow, identity) = (Slow::DropOldest, 5);
            let dialer = Dialer {
                role,
                slow,
                identity,
            };
            Session::dial(dialer, LIMITS, Timing::default(), 0)
        } else {
            let listener = Listener {
                serves: role,
                answers: flags & 4 != 0,
                epoch: EPOCH,
                closed: (flags & 64 != 0).then_some(Refusal::Busy),
            };
            Session::listen(listener, LIMITS, Timing::default(), 0)
        };
        Self {
            session,
            outbound: None,
            by_hand: flags & 8 != 0,
            now_ns: 0,
            inbox: Vec::new(),
            peer: Peer::new(role),
            said: Said::new(dials),
            pushed: [0; 2],
            dropped: [0; 2],
            lost: [0; 2],
            confirmed: [0; 2],
            heard_ns: 0,
            next: 0,
            is_cut: false,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) -> Result<(), Over> {
        match step % 16 {
            0 => {
                let more = input.bytes(32);
                self.inbox.extend_from_slice(more);
            }
            1 => {
                let cut = usize::from(input.byte().unwrap_or(1));
                self.inbox.truncate(self.inbox.len().saturating_sub(cut));
            }
            3 if step >= LOST => self.inbox.extend_from_slice(self.peer.last()),
            4 if step >= LOST => drop(self.peer.frame(4, input, &self.said)),
            kind @ 2..=7 => {
                let mut frame = self.peer.frame(kind, input, &self.said);
                let parsed = Frame::parse(&frame, u32::MAX);
                let strays = |frame| self.said.agreed.is_some() && !self.said.has_place_for(&frame);
                if step >= TAME && matches!(parsed, Ok(Some((frame, _))) if strays(frame)) {
                    frame = Frame::Alive.emit();
                }
                self.inbox.extend_from_slice(&frame);
            }
            8 if step >= TAME && !self.said.receives() => {}
            8 => self.apart(input)?,
            9 => (0..=step >> 6).for_each(|_| self.push(input)),
            10 => self.transmit(input.size(1 << 10)),
            11 => self.transmit(usize::MAX),
            12 => {
                self.session.give_credit(input.byte().unwrap_or(0) & 1 != 0);
            }
            13 => self.confirm(input),
            14 => self.order(input)?,
            _ => {
                // Often a time between that of being alive and that of silence.
                let shift = input.size(72);
                let shift = if shift < 36 { shift } else { 30 + shift % 4 };
                self.now_ns = self.now_ns.saturating_add(1 << shift);
                self.pass_time()?;
            }
        }
        self.hear()
    }

    /// A peer that says nothing for too long is gone, and no other is.
    fn pass_time(&mut self) -> Result<(), Over> {
        if let Some(outbound) = &mut self.outbound {
            outbound.handle_time(self.now_ns);
        }
        let silent_ns = self.now_ns - self.heard_ns;
        let is_silent = silent_ns >= Timing::default().silence_ns;
        match self.session.handle_time(self.now_ns) {
            Err(SessionError::Silent { silent_ns: said }) => {
                assert!(is_silent && said == silent_ns);
            }
            found => {
                found?;
                assert!(!is_silent || self.said.agreed.is_none());
            }
        }
        assert!(self.session.poll_timeout() > self.now_ns || is_silent);
        if is_silent { Err(Over) } else { Ok(()) }
    }

    fn push(&mut self, input: &mut Input<'_>) {
        let bytes = input.size(160);
        // Users push nothing behind an order to end.
        let Some(outbound) = self.outbound.as_mut().filter(|_| !self.session.is_ending()) else {
            return;
        };
        // What is given back has room for more.
        let has_buffer = outbound.held() == [0; 2] && self.said.has_buffer();
        let has_buffer = has_buffer && !outbound.is_given_up();
        match outbound.push(self.now_ns, bytes as u64 % 3, 0, &vec![7; bytes]) {
            Pushed::Taken => add(&mut self.pushed, bytes),
            Pushed::Dropped | Pushed::GivenUp => {
                assert!(!has_buffer);
                add(&mut self.pushed, bytes);
                add(&mut self.dropped, bytes);
            }
            Pushed::TooLong => assert!(bytes > outbound.buffer_bytes() as usize),
            Pushed::Wait => {
                assert!(!has_buffer);
                assert_eq!(self.session.slow(), Slow::Block);
            }
        }
    }

    fn transmit(&mut self, most: usize) {
        let Some(next) = self.session.poll_transmit(self.outbound.as_mut()) else {
            // Nothing is left to be said.
            let must_end = self.session.is_ending() && self.outbound.is_some();
            assert!(!must_end || self.said.ended);
            return;
        };
        self.said.begin(next.bytes);
        let bytes = &next.bytes[..next.bytes.len().min(most)];
        let count = bytes.len();
        self.said.take(bytes, self.pushed);
        self.session
            .handle_transmitted(self.now_ns, count, self.outbound.as_mut());
    }

    fn confirm(&mut self, input: &mut Input<'_>) {
        let (what, read) = (input.byte().unwrap_or(0), self.said.given);
        if !self.by_hand || self.said.confirmable == read {
            return;
        }
        if what % 16 == 15 {
            self.session.withhold();
            self.said.is_withheld = true;
        } else if self.said.is_withheld {
            // Nothing comes of it.
            self.session.confirm(what.into(), what.into());
        } else {
            let done = self.said.confirmable;
            let messages = u64::from(what).min(read[0] - done[0]);
            // All of them, or the bytes of none.
            let bytes = if messages == read[0] - done[0] {
                read[1] - done[1]
            } else {
                0
            };
            self.session.confirm(messages, bytes);
            self.said.confirmable = [done[0] + messages, done[1] + bytes];
        }
    }

    /// What the user wants.
    fn order(&mut self, input: &mut Input<'_>) -> Result<(), Over> {
        let what = input.byte().unwrap_or(0);
        match (what % 6, self.session.agreed().copied()) {
            (0, _) => self.session.end(),
            (1, _) => self.session.leave(),
            (2, _) => {
                if let Some(outbound) = &mut self.outbound {
                    let lost = &mut self.lost;
                    outbound.let_go(|_, bytes| add(lost, bytes));
                    self.session.let_go();
                    self.said.lets_go = true;
                }
            }
            (3, Some(agreed)) if self.said.dials && agreed.role == Role::Subscriber => {
                let entries = [Entry::one(1); 5];
                self.session.subscribe(what.into(), true, &entries, 64);
            }
            (4, _) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.flush();
                }
            }
            (5, Some(_)) if what > 200 => {
                self.session.refuse(Refusal::Busy);
                self.is_cut = true;
                return Err(Over);
            }
            _ => {
                self.session.handle_deafness(self.now_ns);
                self.heard_ns = self.now_ns;
            }
        }
        Ok(())
    }

    /// Reads all whole frames.
    fn hear(&mut self) -> Result<(), Over> {
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        let parse = |rest, area| Frame::parse(rest, area).map_err(SessionError::from);
        while let Some((frame, count)) = parse(rest, self.session.area_bytes())? {
            rest = &rest[count..];
            self.handle(frame)?;
        }
        self.inbox = rest.to_vec();
        Ok(())
    }

    fn handle(&mut self, frame: Frame<'_>) -> Result<(), Over> {
        let known = self.session.agreed().is_some();
        self.heard_ns = self.now_ns;
        self.is_cut |= matches!(frame, Frame::LetGo(_));
        let (mut opened, mut answer, mut ended) = (None, None, None);
        match self
            .session
            .handle_frame(self.now_ns, frame, self.outbound.as_mut())?
        {
            Event::Opened(agreed) => opened = Some(agreed),
            Event::Messages(mut reading) => {
                assert!(known);
                for message in reading.by_ref() {
                    self.said.given[0] += 1;
                    self.said.given[1] += message.payload.len() as u64;
                }
                reading.finish().map_err(SessionError::from)?;
            }
            Event::Subscribe(subscribe) => {
                assert!(known);
                answer = Some(subscribe.request);
            }
            Event::PeerLeaves => self.outbound.iter_mut().for_each(Outbound::close),
            Event::PeerEnded(totals) => ended = Some([totals.messages, totals.bytes]),
            Event::Answered(..) => assert!(self.said.dials),
            Event::None => {}
        }
        if let Some(agreed) = opened {
            self.open(&agreed);
        }
        if ended.is_some() {
            assert_eq!(self.session.inbound().map(Inbound::told), ended);
            self.said.peer_ended = true;
        }
        match frame {
            Frame::Data(fields, _) => self.next = self.next.max(fields.sequence + 1),
            Frame::End(totals) => {
                self.next = totals.buffers;
                let dropped = [totals.messages_dropped, totals.bytes_dropped];
                assert_eq!(self.session.dropped_by_peer(), Some(dropped));
            }
            Frame::Credit(credit) if known => {
                self.confirmed = [credit.messages, credit.bytes];
                self.said.credited = credit.buffers;
            }
            Frame::Farewell(took) => {
                let sum = |one: u64, other| one.saturating_add(other);
                self.confirmed = [
                    sum(took.messages, took.messages_dropped),
                    sum(took.bytes, took.bytes_dropped),
                ];
                self.said.credited = self.said.sent.buffers;
                assert_eq!(self.session.farewell(), Some(&took));
            }
            _ => {}
        }
        if let Some(request) = answer {
            self.session.answer(request, None);
            self.said.answers += 1;
        }
        Ok(())
    }

    fn open(&mut self, agreed: &Agreed) {
        assert!(agreed.buffer_bytes <= LIMITS.buffer_bytes);
        assert!(agreed.buffer_count <= LIMITS.buffer_count);
        self.said.agreed = Some(*agreed);
        self.peer.epoch = agreed.epoch;
        if agreed.sends {
            let config = Config {
                buffer_bytes: agreed.buffer_bytes,
                buffer_count: agreed.buffer_count,
                slow: agreed.slow,
                block_ns: 1 << 20,
                ..Config::default()
            };
            self.outbound = Outbound::new(&config, agreed.epoch).ok();
            assert!(self.outbound.is_some(), "what is agreed can be had");
        }
        if self.by_hand {
            self.session.confirm_by_hand();
        }
        self.said.by_hand = self.by_hand;
    }

    /// A buffer with one message whose payload is in the peer's memory.
    fn apart(&mut self, input: &mut Input<'_>) -> Result<(), Over> {
        if !self.inbox.is_empty() {
            return Ok(());
        }
        let (frame, elsewhere) = self.peer.apart(input);
        let parsed = Frame::parse_apart(&frame, elsewhere, self.session.area_bytes());
        let (fields, head) = parsed.map_err(SessionError::from)?;
        self.heard_ns = self.now_ns;
        let found = self
            .session
            .handle_apart(self.now_ns, &fields, head, elsewhere)?;
        self.next = self.next.max(fields.sequence + 1);
        if let Some(found) = found {
            assert_eq!(found.payload_bytes, elsewhere);
            self.said.given[0] += 1;
            self.said.given[1] += elsewhere as u64;
        }
        Ok(())
    }

    /// Each end's equation, in messages and bytes, with our own counts in it.
    fn check_books(&self) {
        if let Some(inbound) = self.session.inbound() {
            let (losses, read) = (inbound.losses(), inbound.totals());
            assert_eq!([read.messages, read.bytes], self.said.given);
            let [messages, bytes] = self.said.given;
            let known = [
                messages + losses.gap_messages + losses.broken_messages,
                bytes + losses.gap_bytes + losses.broken_bytes,
            ];
            assert_eq!(inbound.told(), known);
            assert!(losses.broken_buffers <= 1);
            assert_eq!(losses.broken_buffers == 1, inbound.check().is_err());
            if inbound.check().is_ok() && !self.is_cut {
                assert_eq!(inbound.credit().buffers, self.next);
                assert_eq!(read.buffers + losses.gap_buffers, self.next);
            }
        }
        if let Some(outbound) = &self.outbound {
            let totals = outbound.totals();
            let sent = [totals.messages, totals.bytes];
            assert_eq!(outbound.pushed(), self.pushed);
            assert_eq!(sent, [self.said.sent.messages, self.said.sent.bytes]);
            assert_eq!(outbound.residual(), [0, 0]);
            let unconfirmed = [0, 1].map(|of| sent[of] - self.confirmed[of]);
            assert_eq!(outbound.unconfirmed(), unconfirmed);
            assert_eq!(outbound.dropped().lost, self.lost);
            assert_eq!(outbound.dropped().too_long, [0, 0]);
            // One that makes room drops others than it is handed.
            if self.session.slow() != Slow::DropOldest {
                assert_eq!(outbound.dropped().slow, self.dropped);
            }
            let is_done = outbound.held() == [0, 0] && self.said.is_given_back();
            assert_eq!(outbound.is_done(), is_done);
        }
        assert!(!self.session.is_over() || self.session.has_heard_all());
    }

    /// The connection is gone: nothing is held, and what was lent comes back.
    fn end(&mut self) {
        if let Some(outbound) = &mut self.outbound {
            let lost = &mut self.lost;
            outbound.abandon(|_, bytes| add(lost, bytes));
            assert_eq!(outbound.held(), [0, 0]);
        }
        self.check_books();
        if !self.is_cut {
            self.session.give_credit(true);
        }
        // What it still has to say, without any buffer.
        while let Some(next) = self.session.poll_transmit(None::<&mut Outbound>) {
            let count = next.bytes.len();
            self.said.begin(next.bytes);
            self.said.take(next.bytes, self.pushed);
            self.session
                .handle_transmitted(self.now_ns, count, None::<&mut Outbound>);
        }
        let whole = self.session.inbound().is_some_and(|it| it.check().is_ok());
        if whole && !self.is_cut {
            self.said.owes_nothing(self.next);
        }
    }
}

fn add(sum: &mut [u64; 2], bytes: usize) {
    *sum = [sum[0] + 1, sum[1] + bytes as u64];
}
