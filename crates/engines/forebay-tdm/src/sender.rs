//! One sender: it says hello, follows the receiver's clock, sends in its windows, and tells what it has sent.
//!
//! ```text
//! hello --welcome--> clock --settled--> ready --start--> running --all sent--> ending --ended--> over
//!   ^                                                       |
//!   └──────────── the receiver is silent, or knows the session no longer ◄──┘
//! ```
//!
//! The caller gives datagrams that came ([`Sender::handle_datagram`]), stamps of probes that left ([`Sender::handle_left`]), and asks what is to be sent:
//! control datagrams ([`Sender::poll_transmit`]) and bursts of data ([`Sender::poll_burst`]). All times are ns of the clock here.

mod data;
mod exchanges;
mod outcome;
pub mod patience;
mod window;

use std::collections::VecDeque;

use forebay_wire::tdm::{
    Carries, End, EndReason, Hello, Kind, Message, Mode, NO_SENDER, Packet, Probe, Ready, Refusal,
    RefuseReason, Report, Reported, TAG_BYTES, Welcome,
};

use crate::clock::{Base, Burst, Clock, Wall};
use crate::key::Key;
use exchanges::{Exchanges, PROBE_EVERY_NS};
pub use outcome::{NotTaken, Over, Sent, Sessions};
use window::Open;

/// From hello to hello, in ns.
const HELLO_EVERY_NS: u64 = 250_000_000;
/// From ready to ready before the start, and at least so often something is said while nothing is sent, in ns.
const READY_EVERY_NS: u64 = 200_000_000;
/// A report that was not answered is told again after so long, in ns.
const REPORT_AGAIN_NS: u64 = 50_000_000;
/// Reports that wait for an answer; older ones are given up, and the receiver learns of their windows by the packets' numbers.
pub const REPORTS_MAX: usize = 256;
/// A clock that goes back by more was set, in ns.
const CLOCK_BACK_NS: u64 = 10_000_000;
/// From end to end, in ns.
const END_EVERY_NS: u64 = 50_000_000;
/// From the nonce of one start to that of the next: odd, so that it takes long until one comes again (the golden ratio of 2^64).
const NONCE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// A sender that finds its name taken asks again for so long, in ns: its last start may have been killed, and is dead to the receiver after a silence.
const TAKEN_NS: u64 = 5_000_000_000;
/// Silence of the receiver before there is a configuration, in ns.
const SILENCE_NS: u64 = 2_000_000_000;

/// What a sender is.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// Another number for each start, not 0. When the receiver was lost, the next hello has another one that follows from it.
    pub nonce: u64,
    /// Its part of the port against the others', 1 to 65,535; default 1.
    pub share: u16,
    /// What its stream holds.
    pub carries: Carries,
    /// Most bytes of a datagram that its path carries in one piece.
    pub packet_bytes_max: u16,
    /// After a session it waits for the next one.
    pub repeat: bool,
    /// How long it waits for a receiver, and for its totals at the end, in ns; 0: without end, and for the totals the time of silence.
    pub wait_ns: u64,
    /// How late it wakes up, in ns: 99 % of trials were better.
    pub lateness_ns: u64,
    /// It runs at real-time priority.
    pub real_time: bool,
    /// The key that the receiver has, too.
    pub key: Option<Key>,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No receiver has answered.
    Hello,
    /// It learns the receiver's clock.
    Clock,
    /// It waits for the start.
    Ready,
    /// It sends.
    Running,
    /// It waits for the receiver's totals.
    Ending,
    /// It is over.
    Over(Over),
}

/// A control datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its bytes in the buffer.
    pub bytes: usize,
    /// It is a probe: the kernel's stamp of its departure is wanted under this number.
    pub stamp: Option<u32>,
}

/// What the data path is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send so many packets now.
    Burst(u32),
    /// Nothing before this time.
    At(u64),
    /// Nothing before there is input, or this time.
    Input(u64),
    /// Nothing before something has come.
    Idle,
}

/// One sender.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    phase: Phase,
    nonce: u64,
    session: u64,
    index: u16,
    start: u8,
    welcome: Option<Welcome>,
    clock: Clock,
    /// Wall clocks: here, and at the receiver.
    walls: [Option<Wall>; 2],
    exchanges: Exchanges,
    open: Option<Open>,
    next_window: u32,
    /// It knows which window of the session was its first.
    has_joined: bool,
    /// Windows went by while the clocks contradicted each other.
    was_unsure: bool,
    grant: Option<forebay_wire::tdm::Grant>,
    /// The start of the last grant, by the receiver's clock.
    granted_ns: u64,
    /// Packets, refused ones, bytes and windows of this session.
    here: Sent,
    all: Sent,
    offset: u64,
    heaps: u64,
    /// Times that it was over and waits for the next session.
    repeats: u64,
    reports: VecDeque<(Report, Option<u64>)>,
    preempted_since_report: u32,
    hello_ns: u64,
    say_ns: u64,
    /// The last time that was told.
    looked_ns: u64,
    clock_was_set: bool,
    heard_ns: u64,
    began_ns: u64,
    interrupted: bool,
    /// It was asked to end before it could send.
    stopped_early: bool,
    /// The windows of the session were over before the input was.
    input_left: bool,
    /// Since when the receiver says that another one has its name.
    taken_ns: Option<u64>,
    /// Bursts are given to the kernel so long before they shall leave, in ns.
    lead_ns: u64,
    stopped: Option<EndReason>,
    /// What the receiver says has come.
    received: Option<End>,
    sessions: Sessions,
}

impl Sender {
    /// A sender that begins at `now_ns`.
    #[must_use]
    pub fn new(config: SenderConfig, now_ns: u64) -> Self {
        let nonce = config.nonce;
        Self {
            config,
            nonce,
            phase: Phase::Hello,
            session: 0,
            index: NO_SENDER,
            start: 0,
            welcome: None,
            clock: Clock::default(),
            walls: [None; 2],
            exchanges: Exchanges::new(nonce),
            open: None,
            next_window: 0,
            has_joined: false,
            was_unsure: false,
            grant: None,
            granted_ns: 0,
            here: Sent::default(),
            all: Sent::default(),
            offset: 0,
            heaps: 0,
            repeats: 0,
            reports: VecDeque::new(),
            preempted_since_report: 0,
            hello_ns: now_ns,
            say_ns: now_ns,
            looked_ns: now_ns,
            clock_was_set: false,
            heard_ns: now_ns,
            began_ns: now_ns,
            interrupted: false,
            stopped_early: false,
            input_left: false,
            taken_ns: None,
            lead_ns: 0,
            stopped: None,
            received: None,
            sessions: Sessions::default(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The receiver's configuration, once it has come.
    #[must_use]
    pub const fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// What it knows of the receiver's clock.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The session, once there is one.
    #[must_use]
    pub const fn session(&self) -> u64 {
        self.session
    }

    /// What the receiver says has come, once it has said so: of the last session that was whole.
    #[must_use]
    pub const fn received(&self) -> Option<&End> {
        self.received.as_ref()
    }

    /// What it has sent since it began.
    #[must_use]
    pub const fn sent(&self) -> &Sent {
        &self.all
    }

    /// Reports without an answer; [`REPORTS_MAX`] at most.
    #[must_use]
    pub fn reports_waiting(&self) -> usize {
        self.reports.len()
    }

    /// Bytes of the input that were sent.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The windows that the receiver allows were over before the input of the last session was: the rest was not sent.
    #[must_use]
    pub const fn has_input_left(&self) -> bool {
        self.input_left
    }

    /// How often a session was over and it waits for the next one ([`SenderConfig::repeat`]): each has the input from its beginning. A receiver that
    /// was lost ends no session of this kind, and its input goes on.
    #[must_use]
    pub const fn repeats(&self) -> u64 {
        self.repeats
    }

    /// So many heaps have been sent, of the last one perhaps a part: its end tells the receiver.
    pub const fn handle_heaps(&mut self, heaps: u64) {
        self.heaps = heaps;
    }

    /// Bytes of payload that a full packet carries; 0 before there is a configuration.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let tag = if self.config.key.is_some() {
            TAG_BYTES
        } else {
            0
        };
        self.welcome.as_ref().map_or(0, |welcome| {
            usize::from(welcome.packet_bytes)
                .saturating_sub(forebay_wire::tdm::DATA_HEAD_BYTES + tag)
        })
    }

    /// From now on bursts may be given to the kernel `lead_ns` before they shall leave, as it lets them go at their instant ([`leaves_ns`](Self::leaves_ns)), which
    /// it is late for by `lateness_ns`: reports say that windows began so late at least. Bursts without a pace are not given ahead. With a lead of 0 they are given at their instant, and it is this host that is late.
    pub const fn give_ahead(&mut self, lead_ns: u64, lateness_ns: u64) {
        self.lead_ns = lead_ns;
        self.config.lateness_ns = lateness_ns;
    }

    /// Somebody asks for the end: what was sent is reported, and the receiver's totals are waited for.
    pub fn stop(&mut self) {
        self.stopped_early |= matches!(self.phase, Phase::Hello | Phase::Clock | Phase::Ready);
        self.interrupted = true;
        match self.phase {
            Phase::Running | Phase::Ready | Phase::Clock => self.begin_end(0),
            Phase::Hello => self.phase = Phase::Over(Over::Interrupted),
            Phase::Ending | Phase::Over(_) => {}
        }
    }

    /// Writes the next control datagram that is due into `out` (at least [`forebay_wire::tdm::CONTROL_BYTES_MAX`] bytes).
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Transmit> {
        self.look_at_time(now_ns);
        if self.phase == Phase::Hello {
            if now_ns < self.hello_ns {
                return None;
            }
            self.hello_ns = now_ns + HELLO_EVERY_NS;
            let name = self.config.name.clone();
            let hello = Hello {
                nonce: self.nonce,
                share: self.config.share,
                packet_bytes_max: self.config.packet_bytes_max,
                carries: self.config.carries,
                name: &name,
            };
            return self.emit(Message::Hello(hello), None, out);
        }
        if matches!(self.phase, Phase::Over(_)) {
            return None;
        }
        if let Some(probe) = self.probe_due(now_ns) {
            let sequence = probe.sequence;
            return self.emit(Message::Probe(probe), Some(sequence), out);
        }
        if let Some(report) = self.report_due(now_ns) {
            if self.phase != Phase::Ending {
                self.say_ns = now_ns + READY_EVERY_NS;
            }
            return self.emit(Message::Report(report), None, out);
        }
        if now_ns < self.say_ns {
            return None;
        }
        match self.phase {
            Phase::Ready | Phase::Running => {
                self.say_ns = now_ns + READY_EVERY_NS;
                let line = self.clock.line()?;
                let ready = Ready {
                    clock_error_ns: line.error_at_ns(now_ns),
                    lateness_ns: self.config.lateness_ns,
                    delay_ns: self.clock.delay_ns(),
                    skew_ppb: ((-line.skew * 1e9) as i32).cast_unsigned(),
                    offset: self.offset - self.here.payload_bytes,
                    real_time: u8::from(self.config.real_time),
                    disciplined: u8::from(self.clock.base() == Base::Disciplined),
                };
                self.emit(Message::Ready(ready), None, out)
            }
            Phase::Ending => {
                self.say_ns = now_ns + END_EVERY_NS;
                let end = self.end();
                self.emit(Message::End(end), None, out)
            }
            _ => None,
        }
    }

    /// When something is to be done that is no burst; `None` when it is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let silence = self.lost_ns();
        match self.phase {
            Phase::Over(_) => None,
            Phase::Hello => match self.config.wait_ns {
                0 => Some(self.hello_ns),
                wait_ns => Some(self.hello_ns.min(self.began_ns.saturating_add(wait_ns))),
            },
            Phase::Clock => Some(self.exchange_ns().min(silence)),
            Phase::Ready | Phase::Running | Phase::Ending => {
                let again = |told: &Option<u64>| told.map_or(0, |told| told + REPORT_AGAIN_NS);
                let report = self.reports.iter().map(|(_, told)| again(told)).min();
                let next = self.exchange_ns().min(silence).min(self.say_ns);
                Some(report.map_or(next, |report| report.min(next)))
            }
        }
    }

    /// A report that was not told, or not answered for long.
    fn report_due(&mut self, now_ns: u64) -> Option<Report> {
        let due = |told: &Option<u64>| told.is_none_or(|told| now_ns >= told + REPORT_AGAIN_NS);
        let (report, told) = self.reports.iter_mut().find(|(_, told)| due(told))?;
        *told = Some(now_ns);
        Some(*report)
    }

    fn forget_reports(&mut self, reported: Reported) {
        self.reports.retain(|(report, _)| {
            report.window >= reported.next && report.window != reported.highest
        });
    }

    fn look_at_time(&mut self, now_ns: u64) {
        // No other than a clock that was set goes back by as much.
        let goes_back = now_ns.saturating_add(CLOCK_BACK_NS) < self.looked_ns;
        self.looked_ns = now_ns;
        if std::mem::take(&mut self.clock_was_set) || goes_back {
            self.begin_times_anew(now_ns);
        }
        match self.phase {
            Phase::Over(_) => return,
            Phase::Hello => {
                let waited_ns = now_ns.saturating_sub(self.began_ns);
                if self.config.wait_ns != 0 && waited_ns >= self.config.wait_ns {
                    self.phase = Phase::Over(Over::NoReceiver);
                }
                return;
            }
            Phase::Clock | Phase::Ready | Phase::Running | Phase::Ending => {}
        }
        if now_ns >= self.lost_ns() {
            self.lose_receiver(now_ns);
            return;
        }
        if let Some(burst) = self.exchanges.look(now_ns, &mut self.clock) {
            let known_for_ns = match burst {
                Burst::Unsure | Burst::Stepped => 0,
                _ => self.clock.known_for_ns(),
            };
            self.exchanges.hurry(now_ns, known_for_ns);
            self.forget_unbegun_window(now_ns);
        }
        if self.phase == Phase::Clock && self.clock.is_settled() {
            self.phase = Phase::Ready;
            self.say_ns = now_ns;
        }
    }

    /// No time of before means anything any more.
    fn begin_times_anew(&mut self, now_ns: u64) {
        (self.say_ns, self.heard_ns, self.began_ns) = (now_ns, now_ns, now_ns);
        self.hello_ns = now_ns;
        for (_, told) in &mut self.reports {
            *told = None;
        }
        self.exchanges.drop_all();
        self.exchanges.begin(now_ns);
        self.clock.was_set();
        self.withhold(now_ns);
    }

    fn silence_ns(&self) -> u64 {
        self.welcome
            .map_or(SILENCE_NS, |welcome| welcome.silence_ns)
    }

    fn emit(&self, message: Message<'_>, stamp: Option<u32>, out: &mut [u8]) -> Option<Transmit> {
        let packet = Packet {
            session: self.session,
            sender: self.index,
            start: self.start,
            message,
            tag: None,
        };
        let bytes = packet.emit(self.config.key.is_some(), out)?;
        if let Some(key) = &self.config.key {
            key.seal(out.get_mut(..bytes)?);
        }
        Some(Transmit { bytes, stamp })
    }
}

// Disciplined wall clocks, here and at the receiver.
impl Sender {
    /// The wall clock here; none when nobody disciplines it. To be told again every now and then: bounds grow.
    pub fn handle_wall(&mut self, now_ns: u64, wall: Option<Wall>) {
        self.walls[0] = wall;
        self.bound_clock(now_ns);
    }

    /// What a welcome says of the receiver's.
    fn take_wall(&mut self, now_ns: u64, welcome: &Welcome) {
        self.walls[1] = (welcome.wall_error_ns > 0).then(|| Wall {
            ahead_ns: welcome.wall_ns.cast_signed(),
            error_ns: welcome.wall_error_ns,
        });
        self.bound_clock(now_ns);
    }

    /// The receiver says that its wall clock is disciplined.
    #[must_use]
    pub const fn receiver_is_disciplined(&self) -> bool {
        self.walls[1].is_some()
    }

    fn bound_clock(&mut self, now_ns: u64) {
        let [here, there] = self.walls;
        self.clock.bound(now_ns, here.zip(there));
    }
}

// When probes leave: while the port is quiet, as far as this is known.
//
// A probe that leaves in another sender's window waits in the port's buffer behind that one's burst, and so does not take the same time as
// its answer on the way back. In the guard behind the sender's own window nobody sends: what it has sent has left the port, and it has a whole cycle until its
// answers could hold it up. Where windows are granted nobody else sends when the grant has come.

/// Trains of probes in one guard.
const TRAINS_IN_A_GUARD: u64 = 2;
/// A probe that found no quiet time for so long goes nevertheless, in ns; at least two cycles.
const PATIENCE_NS: u64 = 250_000_000;

impl Sender {
    fn probe_due(&mut self, now_ns: u64) -> Option<Probe> {
        let due_ns = self.probe_ns()?;
        if now_ns < due_ns || now_ns < self.quiet_ns(due_ns, now_ns) {
            return None;
        }
        let every_ns = match self.shared_slots() {
            Some(welcome) => quiet_span_ns(&welcome) / TRAINS_IN_A_GUARD,
            None => PROBE_EVERY_NS,
        };
        self.exchanges.due(now_ns, every_ns)
    }

    /// A sender that has sent all it has to send needs no clock.
    fn probe_ns(&self) -> Option<u64> {
        let wanted = self.phase != Phase::Ending;
        self.exchanges.probe_ns().filter(|_| wanted)
    }

    /// When something of the exchanges is to be done.
    fn exchange_ns(&self) -> u64 {
        let probe = self
            .probe_ns()
            .map(|due_ns| self.quiet_ns(due_ns, due_ns.max(self.looked_ns)));
        let over = self.exchanges.over_ns();
        probe.into_iter().chain(over).min().unwrap_or(u64::MAX)
    }

    /// The configuration, when it has slots of which each sender has its own, and they are in use.
    fn shared_slots(&self) -> Option<Welcome> {
        let welcome = self.welcome.filter(|_| self.phase == Phase::Running)?;
        let has_slots = matches!(welcome.mode, Mode::Slots | Mode::SlotsPaced);
        (has_slots && quiet_span_ns(&welcome) > 0).then_some(welcome)
    }

    /// The first quiet time from `now_ns` on for a probe that is due since `due_ns`.
    fn quiet_ns(&self, due_ns: u64, now_ns: u64) -> u64 {
        let cycle_ns = self.welcome.map_or(0, |welcome| welcome.cycle_ns);
        let patience_ns = due_ns.saturating_add(PATIENCE_NS.max(2 * cycle_ns));
        if self.phase == Phase::Running && self.granted() {
            return if self.grant.is_some() {
                now_ns
            } else {
                patience_ns
            };
        }
        let (Some(welcome), Some(line)) = (self.shared_slots(), self.clock.line()) else {
            return now_ns;
        };
        let remote_ns = i128::from(line.remote_ns(now_ns));
        let into = (remote_ns - i128::from(welcome.start_ns)).rem_euclid(welcome.cycle_ns.into());
        let span_ns = quiet_span_ns(&welcome);
        let into_ns = u64::try_from(into).unwrap_or(0);
        let until_ns = welcome.window_ns.saturating_add(welcome.guard_ns);
        let from_ns = until_ns.saturating_sub(span_ns);
        if (from_ns..=until_ns).contains(&into_ns) {
            return now_ns;
        }
        let cycles_ns = if into_ns < from_ns {
            0
        } else {
            welcome.cycle_ns
        };
        let wait_ns = (from_ns + cycles_ns).saturating_sub(into_ns);
        now_ns.saturating_add(wait_ns).min(patience_ns.max(now_ns))
    }

    fn granted(&self) -> bool {
        self.welcome
            .is_some_and(|welcome| welcome.mode == Mode::Credit)
    }
}

/// The second half of the guard: the last packets of the window before it have left the port.
const fn quiet_span_ns(welcome: &Welcome) -> u64 {
    let half = welcome.guard_ns / 2;
    if half < welcome.cycle_ns { half } else { 0 }
}

// What comes from the receiver.
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
