//! A link and the session on it.

use forebay_link::bytes::{ByteLink, ByteLinkError, Received};
use forebay_msg::session::{Agreed, Event, Session, SessionError};
use forebay_sys::SysError;
use forebay_wire::net::{Entry, Frame, Refusal};

use crate::buffers::{Buffers, Outbound};
use crate::counts::Counts;
use crate::end_point::{Asking, PeerId};
use crate::hub::Hub;
use crate::lends::Lends;
use crate::viewed::{Payload, Viewed};

/// Frames of one connection that are taken in one turn: then it is another one's.
pub(super) const FRAMES_PER_TURN_MAX: u32 = 64;
/// A connection that is over stays so long for the peer to find its end, in ns.
const LINGER_NS: u64 = 1_000_000_000;

/// A receiver that is too slow has so long to take what tells it that it is let go, in ns.
const LET_GO_NS: u64 = 5_000_000_000;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Parted {
    /// Both sides have said all.
    #[error("it ended in order")]
    Over,
    /// The peer ended the link, and had not said all.
    #[error("{peer} ended its connection and had not said all")]
    Cut { peer: String },
    /// The peer was waited for at the end, and has not said all.
    #[error("{peer} has not said all in time")]
    Late { peer: String },
    /// The peer ended the link and had not said anything.
    #[error(
        "{peer} ended the connection without a word: it ends just now, or is no end point of `forebay net` over this backend"
    )]
    Wordless { peer: String },
    #[error(transparent)]
    Link(#[from] ByteLinkError),
    #[error("{peer}: {error}")]
    Session { peer: String, error: SessionError },
    /// Too many others have not said what they are either.
    #[error("{peer} was one of too many that did not say who they are")]
    Crowded { peer: String },
    /// The receiver was too slow for its policy.
    #[error("{peer} was too slow")]
    Slow { peer: String },
    #[error(transparent)]
    System(#[from] SysError),
}

impl Parted {
    /// Its name in counters.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Over => "over",
            Self::Cut { .. } | Self::Late { .. } | Self::Wordless { .. } => "connection_lost",
            Self::Link(error) => error.reason(),
            Self::Session { error, .. } => error.reason(),
            Self::Crowded { .. } => "crowded",
            Self::Slow { .. } => "slow_receiver",
            Self::System(_) => "resource",
        }
    }
}

/// What a connection has come to, for its owner to act on.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing is left to read for now; whether there was anything.
    Idle { read: bool },
    /// The peer is known.
    Opened(Agreed),
    /// Subscriptions to carry out.
    Subscribe {
        request: u32,
        begin: bool,
        entries: Vec<Entry>,
    },
    /// The receiver wants no more.
    Left,
    /// A subscription was refused.
    Refused(Result<Refusal, u32>),
}

/// Reads messages; what else has to be acted on.
fn take(
    event: Event<'_>,
    peer: PeerId,
    on: &mut impl FnMut(Viewed<'_>),
) -> Result<Option<Step>, SessionError> {
    Ok(match event {
        Event::Messages(mut reading) => {
            reading.by_ref().for_each(|message| {
                on(Viewed {
                    peer,
                    tag: message.tag,
                    status: message.status,
                    payload: Payload::Here(message.payload),
                });
            });
            reading.finish()?;
            None
        }
        Event::Opened(agreed) => Some(Step::Opened(agreed)),
        Event::Subscribe(subscribe) => Some(Step::Subscribe {
            request: subscribe.request,
            begin: subscribe.begin,
            entries: subscribe.entries().collect(),
        }),
        Event::Answered(_, Some(reason)) => Some(Step::Refused(reason)),
        Event::PeerLeaves => Some(Step::Left),
        Event::Answered(_, None) | Event::PeerEnded(_) | Event::None => None,
    })
}

/// One connection of an end point.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    link: Box<dyn ByteLink>,
    pub(super) session: Session,
    /// Which dial it belongs to, if this side made it.
    pub(super) dial: Option<usize>,
    /// Place of its accounts.
    pub(super) slot: usize,
    /// What is in the books of it.
    pub(super) counted: Counts,
    /// Messages and bytes that were given on to be delivered.
    pub(super) handed: [u64; 2],
    /// There is something to say and no room for it.
    wants_room: bool,
    polls_room: bool,
    /// The link takes buffers, and gives them back when they are sent.
    is_lending: bool,
    link_ended: bool,
    /// When it asks again for what was refused to it.
    pub(super) asking: Asking,
    /// It seemed silent, and nothing was read since.
    doubted: bool,
    /// The peer is let go since then.
    let_go_ns: Option<u64>,
    /// Both sides have said all since then.
    over_since_ns: Option<u64>,
}

impl Connection {
    pub(super) fn new(
        id: u64,
        link: Box<dyn ByteLink>,
        session: Session,
        dial: Option<usize>,
        slot: usize,
        hub: &Hub,
    ) -> Result<Self, SysError> {
        // A link that is being made shows in the same way that there is room.
        let polls_room = dial.is_some();
        hub.add(&*link, polls_room)?;
        Ok(Self {
            id,
            link,
            session,
            dial,
            slot,
            counted: Counts::default(),
            handed: [0; 2],
            wants_room: false,
            polls_room,
            is_lending: false,
            link_ended: false,
            asking: Asking::default(),
            doubted: false,
            let_go_ns: None,
            over_since_ns: None,
        })
    }

    pub(super) fn peer(&self) -> &str {
        self.link.peer()
    }

    /// Lets the peer go, which is too slow, as soon as it has taken what says so.
    pub(super) fn let_go(&mut self, now_ns: u64) {
        self.let_go_ns = Some(now_ns);
        self.session.let_go();
    }

    /// Whether the peer is being let go.
    pub(super) fn is_let_go(&self) -> bool {
        self.let_go_ns.is_some()
    }

    /// Whether the peer is known, and stays.
    pub(super) fn is_open(&self) -> bool {
        self.session.agreed().is_some() && !self.is_let_go()
    }

    /// Whether there is something to say and the link had no room for it.
    pub(super) fn is_blocked(&self) -> bool {
        self.wants_room
    }

    /// One that came and has not said what it is.
    pub(super) fn is_stranger(&self) -> bool {
        self.dial.is_none() && self.session.agreed().is_none()
    }

    /// Whether it is certain that there is nothing to read, and nothing waits to be written.
    pub(super) fn is_quiet(&self) -> bool {
        !self.wants_room && self.link.is_quiet()
    }

    pub(super) fn must_be_polled(&self) -> bool {
        self.link.must_be_polled()
    }

    fn failed(&self, error: SessionError) -> Parted {
        Parted::Session {
            peer: self.link.peer().to_owned(),
            error,
        }
    }

    /// Reads until something has to be acted on, or nothing is left, or the turn is over.
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        mut outbound: Option<&mut Outbound>,
        frames: &mut u32,
        on: &mut impl FnMut(Viewed<'_>),
    ) -> Result<Step, Parted> {
        let mut read = false;
        loop {
            if self.read_apart(now_ns, on)? {
                read = true;
                self.doubted = false;
                *frames = frames.saturating_sub(1);
                if *frames == 0 {
                    return Ok(Step::Idle { read });
                }
            }
            let area_bytes = self.session.area_bytes();
            let parsed = match Frame::parse(self.link.bytes(), area_bytes) {
                Ok(parsed) => parsed,
                Err(error) => return Err(self.failed(error.into())),
            };
            let Some((frame, bytes)) = parsed else {
                match self.link.receive()? {
                    Received::Some => {
                        self.check_head()?;
                        continue;
                    }
                    Received::Nothing => return Ok(Step::Idle { read }),
                    Received::Ended => {
                        self.link_ended = true;
                        return self.at_the_end(read);
                    }
                }
            };
            read = true;
            self.doubted = false;
            *frames = frames.saturating_sub(1);
            let peer = PeerId(self.id);
            let taken = self
                .session
                .handle_frame(now_ns, frame, outbound.as_deref_mut())
                .and_then(|event| take(event, peer, on));
            let step = taken.map_err(|error| self.failed(error))?;
            self.link.used(bytes);
            self.session.give_credit(false);
            if let Some(step) = step {
                return Ok(step);
            }
            if *frames == 0 {
                return Ok(Step::Idle { read });
            }
        }
    }

    /// Reads a frame whose end lies in the peer's memory, if one is at hand.
    fn read_apart(&mut self, now_ns: u64, on: &mut impl FnMut(Viewed<'_>)) -> Result<bool, Parted> {
        let bytes = self.link.bytes();
        if bytes.is_empty() {
            // None, or one that is done with.
            return Ok(false);
        }
        let Some(apart) = self.link.apart() else {
            return Ok(false);
        };
        let area_bytes = self.session.area_bytes();
        let parsed = Frame::parse_apart(bytes, apart.len(), area_bytes);
        let (fields, head) = parsed.map_err(|error| self.failed(error.into()))?;
        let found = self
            .session
            .handle_apart(now_ns, &fields, head, apart.len());
        match found {
            Ok(Some(found)) => on(Viewed {
                peer: PeerId(self.id),
                tag: found.tag,
                status: found.status,
                payload: Payload::Apart(apart),
            }),
            Ok(None) => {}
            Err(error) => return Err(self.failed(error)),
        }
        let used = bytes.len();
        self.link.used(used);
        self.session.give_credit(false);
        Ok(true)
    }

    /// What lies in the peer's memory has a head in front of it, else it is no frame, and nothing would use it up.
    fn check_head(&self) -> Result<(), Parted> {
        let Some(apart) = self.link.apart() else {
            return Ok(());
        };
        if !self.link.bytes().is_empty() {
            return Ok(());
        }
        let headless = Frame::parse_apart(&[], apart.len(), self.session.area_bytes());
        headless
            .map(drop)
            .map_err(|error| self.failed(error.into()))
    }

    fn at_the_end(&self, read: bool) -> Result<Step, Parted> {
        if self.session.is_over() {
            return Err(Parted::Over);
        }
        if self.link.bytes().is_empty() && read {
            // What was just read may have to be answered first.
            return Ok(Step::Idle { read });
        }
        let peer = self.link.peer().to_owned();
        Err(if self.dial.is_some() && self.session.agreed().is_none() {
            Parted::Wordless { peer }
        } else {
            Parted::Cut { peer }
        })
    }

    /// The peer's limits are known: room for its frames.
    pub(super) fn expect(&mut self, bytes_max: usize) -> Result<(), Parted> {
        Ok(self.link.expect(bytes_max)?)
    }

    /// Memory for the buffers of what this side sends.
    pub(super) fn buffers(&mut self, agreed: &Agreed) -> Result<Buffers, Parted> {
        self.is_lending = self.link.lending().is_some();
        Ok(Buffers::of(&mut *self.link, agreed)?)
    }

    /// Buffers that the link needs no more.
    pub(super) fn take_back(&mut self, outbound: &mut Outbound) {
        if let Some(lending) = self.link.lending().filter(|_| self.is_lending) {
            while let Some((number, memory)) = lending.returned() {
                outbound.give_back(number, memory);
            }
        }
    }

    /// Lets the link have the buffer that is to go out, whole; how much of it was taken.
    fn lend(&mut self, outbound: Option<&mut Outbound>, lends: &Lends) -> Result<usize, Parted> {
        let lending = self.link.lending();
        let (Some(lending), Some(buffer)) = (lending, outbound.and_then(Outbound::on_link)) else {
            return Ok(0);
        };
        let (own_bytes, number) = (buffer.own_bytes, buffer.number);
        let Some(lent) = buffer.lent else {
            return Ok(lending.send_piece(buffer.memory, own_bytes, None, number)?);
        };
        let (region, ranges, count) = lends.rest(lent.token, lent.from);
        let behind = Some((region, &ranges[..count]));
        Ok(lending.send_piece(buffer.memory, own_bytes, behind, number)?)
    }

    /// Says what there is to say, as far as there is room; whether anything went.
    pub(super) fn write(
        &mut self,
        now_ns: u64,
        mut outbound: Option<&mut Outbound>,
        lends: &Lends,
    ) -> Result<bool, Parted> {
        let mut wrote = false;
        self.wants_room = false;
        while let Some(next) = self.session.poll_transmit(outbound.as_deref_mut()) {
            let taken = match next.lent {
                _ if self.is_lending && next.is_buffer => {
                    self.lend(outbound.as_deref_mut(), lends)?
                }
                None => self.link.send(&[next.bytes])?,
                Some(lent) => {
                    let (region, ranges, count) = lends.rest(lent.token, lent.from);
                    let ranges = &ranges[..count];
                    self.link.send_from(next.bytes, region, ranges)?
                }
            };
            if taken == 0 {
                self.wants_room = true;
                break;
            }
            wrote = true;
            self.session
                .handle_transmitted(now_ns, taken, outbound.as_deref_mut());
        }
        if self.session.is_over() && self.over_since_ns.is_none() {
            self.over_since_ns = Some(now_ns);
            self.link.finish();
        }
        Ok(wrote)
    }

    /// Looks at the clock.
    pub(super) fn tend(&mut self, now_ns: u64) -> Result<(), Parted> {
        if let Some(since_ns) = self.over_since_ns {
            let waited = now_ns.saturating_sub(since_ns) >= LINGER_NS;
            // The side that connected has the last word and need not wait for anything.
            return if waited || self.link_ended || self.dial.is_some() {
                Err(Parted::Over)
            } else {
                Ok(())
            };
        }
        if self
            .let_go_ns
            .is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= LET_GO_NS)
        {
            return Err(Parted::Slow {
                peer: self.link.peer().to_owned(),
            });
        }
        self.session.give_credit(true);
        match self.session.handle_time(now_ns) {
            // Perhaps nobody looked for so long: what has come meanwhile is read in this turn, and then it is asked again.
            Err(SessionError::Silent { .. } | SessionError::NoGreeting) if !self.doubted => {
                self.doubted = true;
                Ok(())
            }
            looked => looked.map_err(|error| self.failed(error)),
        }
    }

    pub(super) fn poll_timeout(&self) -> u64 {
        match self.over_since_ns {
            Some(since_ns) => since_ns + LINGER_NS,
            None => {
                let patience = self
                    .let_go_ns
                    .map_or(u64::MAX, |since_ns| since_ns + LET_GO_NS);
                self.session.poll_timeout().min(patience)
            }
        }
    }

    /// Before a sleep; false when there is something to do.
    pub(super) fn arm(&mut self, hub: &Hub) -> Result<bool, Parted> {
        if self.polls_room != self.wants_room {
            self.polls_room = self.wants_room;
            hub.change(&*self.link, self.polls_room)?;
        }
        Ok(self.link.arm(self.wants_room)?)
    }

    pub(super) fn disarm(&mut self) {
        self.link.disarm();
    }

    /// Leaves the hub; tells the peer why, if there is room for it. What is left is to be [let go](super::leaving::Leaving).
    pub(super) fn part(mut self, hub: &Hub, reason: Option<Refusal>) -> Box<dyn ByteLink> {
        hub.remove(&*self.link);
        if let Some(reason) = reason {
            self.session.refuse(reason);
        }
        // What a session that was turned away still has to say. Nobody waits for it.
        if let Some(last) = self.session.poll_transmit(None::<&mut Outbound>) {
            let _ = self.link.send(&[last.bytes]);
        }
        self.link.finish();
        self.link
    }
}
