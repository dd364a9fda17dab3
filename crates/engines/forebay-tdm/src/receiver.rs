//! The session: which senders take part, what came, and what was lost where.
//!
//! Senders say hello and learn the receiver's clock; when all that are planned are ready (or the time for that is over), the plan is computed from what they
//! measured, and they are told when to start. Then each packet is looked up by its number in a window of bits: it is new, came before, or is too late. A sender
//! reports at the end of each window what it has sent; some time later the window is closed, and what is missing is counted by its place. The
//! caller writes the payload ([`Arrival::Data`]) and takes the closed windows ([`Receiver::poll_row`]). Memory does not grow with the run.
//!
//! All times are ns of the receiver's clock, which is the time base of the session.

mod admission;
mod candidates;
mod due;
mod gaps;
mod peer;
pub mod presence;
mod row;
mod seen;
mod totals;
mod turn;

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_ledger::{DropReason, OneOf, PerReason, reasons};
use forebay_wire::tdm::{
    Data, End, EndReason, FollowUp, Kind, Message, NO_SENDER, Packet, Probe, Refusal, RefuseReason,
    Reply, Report, Reported, TdmError,
};

use crate::key::Key;
use crate::plan::{Plan, PlanError, PlanInput};
pub use gaps::LostRange;
use peer::Peer;
use row::charge;
pub use row::{LossCause, Lost, Row};
use seen::Mark;
pub use totals::{PeerState, PeerTotals};
use turn::{Grants, Turn};

/// From stop to stop while senders end, in ns.
const STOP_EVERY_NS: u64 = 50_000_000;
/// A sender that had nothing to send in its turn is granted none for so long, in ns.
const IDLE_NS: u64 = 1_000_000;

/// What the session is.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its number, another one for each start; not 0.
    pub session: u64,
    /// Senders that are planned.
    pub senders: u16,
    /// Port and wishes; what is measured (`shares`, `lateness_ns`, `clock_error_ns`) is filled in from the senders, the latter two as the worst of all.
    pub port: PlanInput,
    /// Windows of each sender; 0: until their inputs end.
    pub windows: u32,
    /// How long to wait for all senders since the first was ready, in ns; then those that are ready begin. 0: without end.
    pub wait_ns: u64,
    /// From the plan to the first window, in ns.
    pub lead_ns: u64,
    /// One that says nothing for so long is taken for dead, in ns.
    pub silence_ns: u64,
    /// From a report until its window is closed, in ns: packets that another way held up may still come.
    pub settle_ns: u64,
    /// The key that senders must have, too.
    pub key: Option<Key>,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// Payload that came for the first time.
    Data {
        /// The sender's index.
        sender: u16,
        /// Its number.
        packet: u64,
        /// The window that it was sent in.
        window: u32,
        /// When it was given to the sender's kernel, in ns of the receiver's clock.
        sent_ns: u64,
        /// Where it lies in the sender's stream.
        offset: u64,
        /// The bytes.
        payload: &'a [u8],
    },
    /// Payload that was not taken.
    Dropped(Dropped),
    /// It was for the session itself.
    Control(Kind),
}

reasons! {
    /// Why a datagram of this protocol is not taken.
    pub enum Drop {
        /// It came before.
        Duplicate = "duplicate",
        /// Its window is closed, and it counts as lost there.
        Late = "late",
        /// Its number or window lies too far ahead of what is known of its sender.
        Ahead = "ahead",
        /// No such sender takes part, or not now.
        Unexpected = "unexpected",
        /// It is of another session.
        Foreign = "foreign_session",
        /// Its keyed hash is wrong or absent.
        Key = "wrong_key",
    }
}

reasons! {
    /// Why a datagram is none of this protocol, as [`TdmError`] has it.
    pub enum Malformed {
        /// It is shorter than a head.
        Truncated = "truncated",
        /// It begins with something else.
        Magic = "not_the_protocol",
        /// It is of another version.
        Version = "version",
        /// There is no such kind.
        Kind = "unknown_kind",
        /// Its kind has another length.
        Length = "bad_length",
        /// Its check does not fit.
        Check = "damaged",
        /// One of its fields cannot be.
        Field = "bad_field",
    }
}

impl From<TdmError> for Malformed {
    fn from(error: TdmError) -> Self {
        match error {
            TdmError::Truncated { .. } => Self::Truncated,
            TdmError::Magic { .. } => Self::Magic,
            TdmError::Version { .. } => Self::Version,
            TdmError::Kind { .. } => Self::Kind,
            TdmError::Length { .. } => Self::Length,
            TdmError::Check { .. } => Self::Check,
            TdmError::Field { .. } => Self::Field,
        }
    }
}

/// Why a datagram is not taken.
pub type Dropped = OneOf<Drop, Malformed>;

const fn dropped(why: Drop) -> Arrival<'static> {
    Arrival::Dropped(OneOf::First(why))
}

/// Datagrams that came, by what became of them: `came` is the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub came: u64,
    /// Data that was taken.
    pub data: u64,
    /// For the session itself.
    pub control: u64,
    /// Those that were not taken.
    pub dropped: PerReason<Dropped, u64, { Dropped::COUNT }>,
}

impl Counts {
    /// What came and is in none of the other counts: 0.
    #[must_use]
    pub fn residual(&self) -> i64 {
        let became = self.data + self.control + self.dropped.total();
        self.came.cast_signed() - became.cast_signed()
    }
}

/// How much waits in a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Closed windows that were not taken.
    pub rows: usize,
    /// Control datagrams that were not sent.
    pub datagrams: usize,
    /// Windows that are not closed, of all senders; each has 1,024 at most.
    pub windows: usize,
    /// Holes of streams, open or not taken.
    pub ranges: usize,
}

/// Where the session stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Senders are waited for.
    Waiting,
    /// They send.
    Running,
    /// Somebody asked for the end: senders tell their totals.
    Stopping,
    /// All have ended.
    Over(EndReason),
    /// There is no plan.
    Failed(PlanError),
}

/// A control datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its bytes in the buffer.
    pub bytes: usize,
    /// Where it goes.
    pub to: SocketAddr,
    /// The kernel's stamp of its departure is wanted under this number ([`Receiver::handle_left`]).
    pub stamp: Option<u64>,
}

/// The receiver.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    phase: Phase,
    peers: Vec<Peer>,
    plan: Option<Plan>,
    start_ns: u64,
    first_ready_ns: Option<u64>,
    /// The wall clock here, where it is disciplined.
    wall: Option<crate::clock::Wall>,
    outgoing: VecDeque<Outgoing>,
    rows: VecDeque<Row>,
    counts: Counts,
    refusals: Refusals,
    candidates: candidates::Candidates,
    /// Lost in our own socket, not yet found missing in a window.
    overflow: u64,
    reassembly: u64,
    stalls: Stalls,
    confirm: Confirm,
    grants: Grants,
    /// Sender, window and whether it was the last data packet that came.
    last: Option<(u16, u32)>,
    turn: Turn,
    stop_ns: u64,
    /// Why senders are stopped.
    stop_reason: EndReason,
    unsent: u64,
    /// Answers to probes so far.
    answers: u16,
}

impl Receiver {
    /// A session that waits for its senders.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            phase: Phase::Waiting,
            peers: Vec::new(),
            plan: None,
            start_ns: 0,
            first_ready_ns: None,
            wall: None,
            outgoing: VecDeque::new(),
            rows: VecDeque::new(),
            counts: Counts::default(),
            refusals: Refusals::default(),
            candidates: candidates::Candidates::default(),
            overflow: 0,
            reassembly: 0,
            stalls: Stalls::default(),
            confirm: Confirm::default(),
            grants: Grants::default(),
            last: None,
            turn: Turn::default(),
            stop_ns: 0,
            stop_reason: EndReason::Interrupted,
            unsent: 0,
            answers: 0,
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The plan, once there is one.
    #[must_use]
    pub const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// When the first window begins; 0 before there is a plan.
    #[must_use]
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Datagrams that came.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All senders so far, by index, with what is known of them.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = &PeerTotals> {
        self.peers.iter().map(Peer::totals)
    }

    /// Control datagrams that found no room; their senders ask again.
    #[must_use]
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Datagrams that the kernel dropped at our socket and that no window misses (control datagrams, or those of foreign senders).
    #[must_use]
    pub const fn overflow_elsewhere(&self) -> u64 {
        self.overflow
    }

    /// What waits in it. None of it grows with the run, as long as rows and lost ranges are taken.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let of_peers = |count: fn(&Peer) -> usize| self.peers.iter().map(count).sum();
        Waiting {
            rows: self.rows.len(),
            datagrams: self.outgoing.len(),
            windows: of_peers(Peer::windows_waiting),
            ranges: of_peers(|peer| peer.gaps.waiting()),
        }
    }

    /// Takes a datagram; `stamp_ns` is when the kernel had it.
    pub fn handle_datagram<'a>(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        stamp_ns: Option<u64>,
        datagram: &'a [u8],
    ) -> Arrival<'a> {
        self.counts.came += 1;
        let arrival = self.take(now_ns, from, stamp_ns.unwrap_or(now_ns), datagram);
        let counts = &mut self.counts;
        *match &arrival {
            Arrival::Data { .. } => &mut counts.data,
            Arrival::Control(_) => &mut counts.control,
            Arrival::Dropped(why) => &mut counts.dropped[*why],
        } += 1;
        arrival
    }

    fn take<'a>(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        stamp_ns: u64,
        datagram: &'a [u8],
    ) -> Arrival<'a> {
        let mut packet = match Packet::parse(datagram) {
            Ok(packet) => packet,
            Err(error) => return Arrival::Dropped(OneOf::Second(error.into())),
        };
        if let Some(key) = &self.config.key
            && (packet.tag.is_none() || !key.is_sealed(datagram))
        {
            let nonce = match &packet.message {
                Message::Hello(hello) => hello.nonce,
                _ => 0,
            };
            if nonce != 0 {
                self.refuse(from, nonce, RefuseReason::Key);
            }
            return dropped(Drop::Key);
        }
        let kind = packet.message.kind();
        if let Message::Hello(hello) = &packet.message {
            if self.config.key.is_none() && packet.tag.is_some() {
                // It takes nothing that is not sealed: a place would be kept for nobody.
                self.refuse_hello(from, hello, RefuseReason::Key);
                return dropped(Drop::Key);
            }
            self.handle_hello(now_ns, from, hello);
            return Arrival::Control(kind);
        }
        let whom = Whom {
            session: packet.session,
            to: from,
            sender: packet.sender,
            start: packet.start,
        };
        if packet.session != self.config.session {
            if packet.session != 0 {
                // A sender of a receiver that was here before: it begins anew.
                self.send_away(whom, kind);
            }
            return dropped(Drop::Foreign);
        }
        if packet.sender == NO_SENDER {
            let Some(place) = self.answered(now_ns, from, packet.start) else {
                // Others have all places by now, or were so many that it was forgotten: it says hello again.
                self.send_away(whom, kind);
                return dropped(Drop::Unexpected);
            };
            (packet.sender, packet.start) = place;
        }
        let peer = self.peers.get_mut(usize::from(packet.sender));
        let Some(peer) = peer.filter(|peer| (peer.from, peer.start) == (from, packet.start)) else {
            return dropped(Drop::Unexpected);
        };
        if !peer.is_alive() {
            // It was given up and is there: it may come back.
            self.send_away(whom, kind);
            return dropped(Drop::Unexpected);
        }
        peer.heard_ns = now_ns;
        match packet.message {
            Message::Data(data) => self.take_data(packet.sender, stamp_ns, &data),
            Message::Probe(probe) => {
                self.answer(packet.sender, probe, stamp_ns);
                self.tell_that_it_is_over(packet.sender);
                Arrival::Control(kind)
            }
            Message::Ready(ready) => {
                peer.ready(&ready);
                self.handle_ready(now_ns, packet.sender);
                self.tell_that_it_is_over(packet.sender);
                Arrival::Control(kind)
            }
            Message::Report(report) => {
                self.take_report(now_ns, packet.sender, &report);
                Arrival::Control(kind)
            }
            Message::End(end) => {
                self.take_end(now_ns, packet.sender, &end);
                Arrival::Control(kind)
            }
            _ => dropped(Drop::Unexpected),
        }
    }

    fn take_data<'a>(&mut self, sender: u16, stamp_ns: u64, data: &Data<'a>) -> Arrival<'a> {
        if !matches!(self.phase, Phase::Running | Phase::Stopping) {
            return dropped(Drop::Unexpected);
        }
        let senders = u64::from(self.config.senders);
        let order = |(sender, window): (u16, u32)| u64::from(window) * senders + u64::from(sender);
        let before = self.last;
        let Some(peer) = self.peers.get_mut(usize::from(sender)) else {
            return dropped(Drop::Unexpected);
        };
        if peer.totals().state == PeerState::Joined {
            return dropped(Drop::Unexpected);
        }
        match peer.take_data(stamp_ns, data) {
            Mark::New => {}
            Mark::Contradiction => return dropped(Drop::Unexpected),
            Mark::Again => return dropped(Drop::Duplicate),
            Mark::Late => return dropped(Drop::Late),
            Mark::Ahead => return dropped(Drop::Ahead),
        }
        // One that comes after a packet of an earlier window, and is not the first of its own: two windows overlap.
        let this = (sender, data.window);
        if let Some(before) = before
            && order(before) < order(this)
            && peer.received_in(data.window) > 1
        {
            peer.overlaps(data.window, |row| row.overlap_front += 1);
            if let Some(other) = self.peers.get_mut(usize::from(before.0)) {
                other.overlaps(before.1, |row| row.overlap_back += 1);
            }
        }
        self.last = Some(this);
        Arrival::Data {
            sender,
            packet: data.packet,
            window: data.window,
            sent_ns: data.sent_ns,
            offset: data.offset,
            payload: data.payload,
        }
    }

    fn take_report(&mut self, now_ns: u64, sender: u16, report: &Report) {
        let Some(peer) = self.peers.get_mut(usize::from(sender)) else {
            return;
        };
        let (next, highest) = peer.take_report(now_ns, report);
        if self.turn.reported(sender, report.window) && report.packets == 0 {
            // It had nothing to send: others first.
            peer.idle_until_ns = now_ns + IDLE_NS;
        }
        self.push(sender, Message::Reported(Reported { next, highest }));
    }

    /// The kernel dropped so many datagrams at our socket since the last call: what windows miss is charged to it.
    pub fn handle_socket_drops(&mut self, datagrams: u64) {
        self.overflow += datagrams;
    }

    /// The host could not put so many datagrams together from fragments since the last call.
    pub fn handle_reassembly_failures(&mut self, datagrams: u64) {
        self.reassembly += datagrams;
    }

    /// The kernel's stamp of a departure that was asked for.
    pub fn handle_left(&mut self, stamp: u64, left_ns: u64) {
        let (sender, answer) = ((stamp >> 48) as u16, (stamp >> 32) as u16);
        let follow = FollowUp {
            sequence: stamp as u32,
            answer: u32::from(answer),
            left_ns,
        };
        self.push(sender, Message::FollowUp(follow));
    }
}

// Control datagrams that wait to be sent.
/// So many wait; more are dropped and counted, and asked for again by their senders.
const OUTGOING_MAX: usize = 4096;

/// The sender that a datagram concerns.
#[derive(Clone, Copy, Debug)]
struct Whom {
    session: u64,
    to: SocketAddr,
    sender: u16,
    start: u8,
}

/// One that waits to be sent.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    whom: Whom,
    message: Message<'static>,
    stamp: Option<u64>,
}

impl Receiver {
    fn answer(&mut self, sender: u16, probe: Probe, came_ns: u64) {
        let answer = self.answers;
        self.answers = answer.wrapping_add(1);
        let reply = Reply {
            sequence: probe.sequence,
            answer: u32::from(answer),
            came_ns,
        };
        if let Some(whom) = self.whom(sender) {
            let places = u64::from(sender) << 48 | u64::from(answer) << 32;
            let stamp = Some(places | u64::from(probe.sequence));
            self.enqueue(whom, Message::Reply(reply), stamp);
        }
    }

    fn whom(&self, sender: u16) -> Option<Whom> {
        let peer = self.peers.get(usize::from(sender))?;
        Some(Whom {
            session: self.config.session,
            to: peer.from,
            sender,
            start: peer.start,
        })
    }

    fn push(&mut self, sender: u16, message: Message<'static>) {
        if let Some(whom) = self.whom(sender) {
            self.enqueue(whom, message, None);
        }
    }

    /// Tells somebody that the receiver does not know it, in the name of the session that it believes in: it would not listen to another one's.
    fn send_away(&mut self, whom: Whom, kind: Kind) {
        // Not for each packet of data, and never to another receiver.
        if matches!(kind, Kind::Probe | Kind::Ready | Kind::Report | Kind::End) {
            let refusal = Refusal {
                nonce: 0,
                reason: RefuseReason::NoSession,
            };
            self.enqueue(whom, Message::Refuse(refusal), None);
        }
    }

    fn enqueue(&mut self, whom: Whom, message: Message<'static>, stamp: Option<u64>) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(Outgoing {
                whom,
                message,
                stamp,
            });
        } else {
            self.unsent += 1;
        }
    }
}

// Senders that asked for a place and got none.
/// Refusals that wait to be told, at most: of a flood the others are in the counts alone.
const UNTOLD_MAX: usize = 64;

/// Hellos that were answered with a refusal. Those that lack the key of a receiver that has one are not among them, as nobody knows whose they are, nor those that a session met
/// which was over: they are for the next one.
#[derive(Debug, Default)]
struct Refusals {
    counts: Vec<(RefuseReason, u64)>,
    untold: VecDeque<(String, RefuseReason)>,
}

impl Refusals {
    fn add(&mut self, name: &str, reason: RefuseReason) {
        match self.counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((reason, 1)),
        }
        if self.untold.len() < UNTOLD_MAX {
            self.untold.push_back((name.to_owned(), reason));
        }
    }
}

impl Receiver {
    /// Hellos that were refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (RefuseReason, u64)> {
        self.refusals.counts.iter().copied()
    }

    /// The next sender that was refused and was not told yet.
    pub fn poll_refused(&mut self) -> Option<(String, RefuseReason)> {
        self.refusals.untold.pop_front()
    }
}

// Times in which this host did not read its socket, and what that cost.
/// Stalls that are remembered for windows that are not closed: later ones push the first out.
const STALLS_MAX: usize = 64;

/// From `from_ns` to `until_ns` the socket was not read empty, and the kernel dropped datagrams there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When the socket was empty the last time before.
    pub from_ns: u64,
    /// When it was read again, or empty again.
    pub until_ns: u64,
    /// The kernel's count of drops is of packets: no more than it are charged. Where it merges packets, all that a window of that time misses are.
    pub is_exact: bool,
}

#[derive(Debug, Default)]
struct Stalls(VecDeque<Stall>);

impl Stalls {
    /// One that goes on is one with what is known of it.
    fn add(&mut self, stall: Stall) {
        match self.0.back_mut() {
            Some(last) if stall.from_ns <= last.until_ns => {
                last.until_ns = last.until_ns.max(stall.until_ns);
            }
            _ => self.0.push_back(stall),
        }
        if self.0.len() > STALLS_MAX {
            self.0.pop_front();
        }
    }

    /// What a window that was sent in such a time misses is charged to it, against the kernel's count `drops`.
    fn charge(&self, row: &mut Row, drops: &mut u64) {
        let meets = |stall: &&Stall| {
            row.first_sent_ns <= stall.until_ns && row.last_sent_ns >= stall.from_ns
        };
        if row.last_sent_ns == 0 {
            return;
        }
        if let Some(stall) = self.0.iter().find(meets) {
            let most = if stall.is_exact { *drops } else { u64::MAX };
            let charged = charge(&mut row.lost, most, LossCause::ReceiverStalled);
            *drops = drops.saturating_sub(charged);
        }
    }
}

impl Receiver {
    /// This host did not read its socket for some time, and the kernel dropped datagrams there meanwhile, which [`Self::handle_socket_drops`] was told.
    pub fn handle_stall(&mut self, stall: Stall) {
        self.stalls.add(stall);
    }
}

// What came is confirmed to its sender when it is where it belongs.
/// Which ends are confirmed, and which wait for the caller.
#[derive(Debug, Default)]
struct Confirm {
    by_caller: bool,
    waiting: VecDeque<u16>,
    /// By sender: the start whose end is confirmed, and what came of it and is not written.
    done: Vec<Option<(u8, Unwritten)>>,
}

/// What came of a sender's stream and is not where it belongs: it found no room, or could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Receiver {
    /// A sender is told what came of its stream only when the caller has said that it is written ([`Self::confirm`]).
    #[must_use]
    pub const fn confirmed_by_caller(mut self) -> Self {
        self.confirm.by_caller = true;
        self
    }

    /// The next sender whose stream has ended, and that waits for being told what came of it.
    pub fn poll_ended(&mut self) -> Option<u16> {
        self.confirm.waiting.pop_front()
    }

    /// What came of this sender's present start is where it belongs, but for `unwritten`, which counts as lost: it is told so.
    pub fn confirm(&mut self, sender: u16, unwritten: Unwritten) {
        let at = usize::from(sender);
        let Some(peer) = self.peers.get(at) else {
            return;
        };
        if self.confirm.done.len() <= at {
            self.confirm.done.resize(at + 1, None);
        }
        if let Some(done) = self.confirm.done.get_mut(at) {
            *done = Some((peer.start, unwritten));
        }
        if let Some(mut totals) = peer.ended_totals() {
            let packets = unwritten.packets.min(totals.packets);
            totals.packets -= packets;
            totals.errors += packets;
            totals.payload_bytes = totals.payload_bytes.saturating_sub(unwritten.bytes);
            self.push(sender, Message::Ended(totals));
        }
    }

    /// A sender tells its totals.
    fn take_end(&mut self, now_ns: u64, sender: u16, end: &End) {
        let Some(peer) = self.peers.get_mut(usize::from(sender)) else {
            return;
        };
        if peer.ended_totals().is_some() {
            // It was told before, and the answer was lost, or it is not to be told yet.
            self.ended_again(sender);
            return;
        }
        peer.ended(now_ns, end, self.phase == Phase::Stopping);
        self.turn.left(sender);
        self.close_rows(now_ns);
    }

    /// This sender's stream has ended and all of its windows are closed.
    fn stream_ended(&mut self, sender: u16) {
        if self.confirm.by_caller {
            self.confirm.waiting.push_back(sender);
        } else {
            self.confirm(sender, Unwritten::default());
        }
    }

    /// It asks again for its totals: it hears them, or that somebody is here.
    fn ended_again(&mut self, sender: u16) {
        let at = usize::from(sender);
        let Some(peer) = self.peers.get(at) else {
            return;
        };
        if let Some(Some((start, unwritten))) = self.confirm.done.get(at)
            && *start == peer.start
        {
            return self.confirm(sender, *unwritten);
        }
        let closed = peer
            .totals()
            .last_window
            .map_or(0, |last| last.saturating_add(1));
        let reported = Reported {
            next: closed,
            highest: closed.saturating_sub(1),
        };
        self.push(sender, Message::Reported(reported));
    }
}

#[cfg(test)]
mod stalls_tests {
    use super::Lost;
    use super::*;

    fn row(first_sent_ns: u64, last_sent_ns: u64) -> Row {
        Row {
            first_sent_ns,
            last_sent_ns,
            lost: Lost::from([
                (LossCause::SenderError, 1),
                (LossCause::WholeWindow, 5),
                (LossCause::Inside, 2),
            ]),
            ..Row::default()
        }
    }

    #[test]
    fn what_was_sent_in_a_stall_is_charged_to_it_and_nothing_else() {
        let mut stalls = Stalls::default();
        for (from_ns, until_ns) in [(1_000, 2_000), (1_500, 3_000), (9_000, 9_100)] {
            stalls.add(Stall {
                from_ns,
                until_ns,
                is_exact: false,
            });
        }
        let mut drops = 4;
        for (first, last, charged) in [(0, 999, 0), (3_001, 8_999, 0), (2_500, 3_500, 7), (0, 0, 0)]
        {
            let mut row = row(first, last);
            stalls.charge(&mut row, &mut drops);
            assert_eq!(
                row.lost[LossCause::ReceiverStalled],
                charged,
                "{first} to {last}"
            );
            assert_eq!((row.lost.total(), row.lost[LossCause::SenderError]), (8, 1));
        }
        assert_eq!(
            drops, 0,
            "no other window is charged with what this one was"
        );
    }

    #[test]
    fn an_exact_count_of_the_kernels_is_not_exceeded() {
        let mut stalls = Stalls::default();
        stalls.add(Stall {
            from_ns: 1,
            until_ns: 9,
            is_exact: true,
        });
        let (mut row, mut drops) = (row(5, 5), 3);
        stalls.charge(&mut row, &mut drops);
        assert_eq!(
            (
                row.lost[LossCause::ReceiverStalled],
                row.lost.total(),
                drops
            ),
            (3, 8, 0)
        );
    }
}

#[cfg(test)]
mod drop_tests {
    use super::*;

    /// The names of the ledger are those of the format's errors.
    #[test]
    fn what_is_malformed_has_the_name_of_its_error() {
        let kind = Kind::Probe;
        let errors = [
            TdmError::Truncated { need: 8, have: 3 },
            TdmError::Magic { found: [7; 4] },
            TdmError::Version { found: 7 },
            TdmError::Kind { found: 77 },
            TdmError::Length {
                kind,
                bytes: 8,
                have: 7,
            },
            TdmError::Check { found: 2, check: 1 },
            TdmError::Field {
                kind,
                field: "reason",
                found: 9,
            },
        ];
        for (error, why) in errors.into_iter().zip(Malformed::ALL) {
            assert_eq!(Malformed::from(error), *why);
            assert_eq!(why.name(), error.reason());
        }
        assert_eq!(errors.len(), Malformed::COUNT);
    }
}
