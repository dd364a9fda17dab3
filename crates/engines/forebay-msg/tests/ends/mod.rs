//! Two ends of a connection, and a link between them that takes and gives bytes in any pieces.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]
#![allow(dead_code, reason = "each test uses some of it")]

use forebay_msg::session::{Dialer, Event, Limits, Listener, Session, SessionError, Timing};
use forebay_msg::{Config, Entry, Outbound, Pushed, Role, Slow, Transmit};
use forebay_wire::net::Frame;

pub(crate) const LIMITS: Limits = Limits {
    buffer_bytes: 200,
    buffer_count: 4,
};

/// One end of a connection.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) outbound: Option<Outbound>,
    /// What came and was not looked at.
    pub(crate) inbox: Vec<u8>,
    pub(crate) got: Vec<(u64, Vec<u8>)>,
    pub(crate) asked: Vec<Entry>,
    pub(crate) answered: Vec<(u32, bool)>,
}

impl End {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            outbound: None,
            inbox: Vec::new(),
            got: Vec::new(),
            asked: Vec::new(),
            answered: Vec::new(),
        }
    }

    pub(crate) fn sender() -> Self {
        Self::dial(Role::Sender)
    }

    pub(crate) fn dial(role: Role) -> Self {
        let dialer = Dialer {
            role,
            slow: Slow::DropOldest,
            identity: 5,
        };
        Self::new(Session::dial(dialer, LIMITS, Timing::default(), 0))
    }

    pub(crate) fn listen(serves: Role, answers: bool) -> Self {
        let listener = Listener {
            serves,
            answers,
            epoch: 77,
            closed: None,
        };
        let limits = Limits {
            buffer_bytes: 150,
            buffer_count: 3,
        };
        Self::new(Session::listen(listener, limits, Timing::default(), 0))
    }

    /// Hands up to `most` bytes to the other end's inbox; false when there is nothing to say.
    pub(crate) fn say(&mut self, now_ns: u64, to: &mut Vec<u8>, most: usize) -> bool {
        let Some(Transmit { bytes, .. }) = self.session.poll_transmit(self.outbound.as_mut())
        else {
            return false;
        };
        let count = bytes.len().min(most);
        assert!(
            to.len() < INBOX_BYTES_MAX,
            "it says the same again and again"
        );
        to.extend_from_slice(&bytes[..count]);
        self.session
            .handle_transmitted(now_ns, count, self.outbound.as_mut());
        true
    }

    /// Reads all whole frames.
    pub(crate) fn hear(&mut self, now_ns: u64) -> Result<(), SessionError> {
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while let Some((frame, count)) = Frame::parse(rest, self.session.area_bytes())? {
            rest = &rest[count..];
            let mut answer = None;
            match self
                .session
                .handle_frame(now_ns, frame, self.outbound.as_mut())?
            {
                Event::Opened(agreed) if agreed.sends => {
                    let config = Config {
                        buffer_bytes: agreed.buffer_bytes,
                        buffer_count: agreed.buffer_count,
                        slow: agreed.slow,
                        ..Config::default()
                    };
                    self.outbound = Some(Outbound::new(&config, agreed.epoch).unwrap());
                }
                Event::Messages(reading) => {
                    let got = reading.map(|message| (message.tag, message.payload.to_vec()));
                    self.got.extend(got);
                }
                Event::Subscribe(subscribe) => {
                    self.asked.extend(subscribe.entries());
                    answer = Some(subscribe.request);
                }
                Event::Answered(request, refusal) => {
                    self.answered.push((request, refusal.is_none()));
                }
                Event::PeerLeaves => self.outbound.as_mut().unwrap().close(),
                Event::Opened(_) | Event::PeerEnded(_) | Event::None => {}
            }
            if let Some(request) = answer {
                self.session.answer(request, None);
            }
        }
        self.inbox = rest.to_vec();
        Ok(())
    }
}

/// No test lets so much wait, or takes so many turns.
const INBOX_BYTES_MAX: usize = 16 << 20;
const TURNS_MAX: u32 = 100_000;

/// Lets both ends talk, in pieces of the given sizes, until neither has anything to say.
pub(crate) fn talk(a: &mut End, b: &mut End, mut piece: impl FnMut() -> usize) {
    for _ in 0..TURNS_MAX {
        let said = [
            a.say(0, &mut b.inbox, piece()),
            b.say(0, &mut a.inbox, piece()),
        ];
        b.hear(0).unwrap();
        a.hear(0).unwrap();
        if said == [false; 2] {
            return;
        }
    }
    unreachable!("they talk for ever");
}

pub(crate) fn whole() -> usize {
    usize::MAX
}

/// Sends all, however often it has to wait.
pub(crate) fn send(
    a: &mut End,
    b: &mut End,
    messages: &[(u64, Vec<u8>)],
    mut piece: impl FnMut() -> usize,
) {
    for (tag, payload) in messages {
        let mut waited = 0;
        while a.outbound.as_mut().unwrap().push(0, *tag, 0, payload) != Pushed::Taken {
            waited += 1;
            assert!(waited <= TURNS_MAX, "there is never room");
            talk(a, b, &mut piece);
            b.session.give_credit(true);
            talk(a, b, &mut piece);
        }
    }
}
