//! The engine: which packets are due, and what becomes of them.

use forebay_emu::rng::hash;
use forebay_ledger::Leak;
use forebay_wire::load::{HEAD_BYTES, LoadError, LoadHead};

use crate::account::{AnswerDrop, Counts, FlightDrop, SendDrop};
use crate::config::{Config, ConfigError};
use crate::moments::Moments;
use crate::target::Target;

/// Most packets of a target that wait for room; those behind them are made when there is some.
pub const BATCH_PACKETS: usize = 64;
/// What was due before the end of the duration is still sent for so long, in ns.
pub const CATCH_UP_NS: u64 = 100_000_000;

/// A packet that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its number, from 0.
    pub sequence: u64,
    /// Its length, in bytes of payload, with what is in front of its head.
    pub bytes: usize,
    /// When it is due.
    pub due_ns: u64,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// An answer in time.
    Answer {
        /// Since the packet was given to the kernel, by the clock of the program.
        rtt_ns: u64,
        /// Between the kernel's stamps of both, if there are.
        kernel_rtt_ns: Option<u64>,
    },
    /// It is none, by this reason.
    Dropped(AnswerDrop),
}

/// Load for all targets.
#[derive(Clone, Debug)]
pub struct Load {
    config: Config,
    targets: Vec<Target>,
    filling: Box<[u8]>,
    /// No packet is made that is due then or later.
    end_ns: Option<u64>,
    /// None is made then, whenever it was due.
    over_ns: Option<u64>,
    /// When the kernel took the last packet.
    sent_ns: Option<u64>,
    leak: Leak,
}

/// The accounts of packets to send, of those whose answers are waited for, of frames in a ring, and of what comes.
const SEND: &str = "load_send";
const FLIGHT: &str = "load_flight";
const RING: &str = "load_ring";
const ANSWER: &str = "load_answer";
/// Accounts at which packets can be made to vanish ([`Load::leak`]).
pub const HOPS: &[&str] = &[SEND, FLIGHT, RING, ANSWER];

impl Load {
    /// Begins at `now_ns`, of any clock that never jumps.
    ///
    /// # Errors
    /// Such load cannot be made.
    pub fn new(config: Config, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let target = |pace: &_| Target::new(*pace, config.window(*pace), now_ns);
        let words = (0..config.sizes.most().div_ceil(8) as u64)
            .map(|at| hash(u64::from(config.run), at).to_be_bytes());
        let end_ns = config.duration_ns.map(|ns| now_ns.saturating_add(ns));
        Ok(Self {
            targets: config.paces.iter().map(target).collect(),
            filling: words.flatten().collect(),
            end_ns,
            over_ns: end_ns.map(|end_ns| end_ns.saturating_add(CATCH_UP_NS)),
            sent_ns: None,
            config,
            leak: Leak::off(),
        })
    }

    /// Has packets vanish uncounted from now on at one of [`HOPS`], for tests of the books.
    pub fn leak(&mut self, leak: Leak) {
        self.leak = leak;
    }

    /// Whether the next frame of a ring has to vanish before anything counts it.
    pub fn take_ring_leak(&mut self) -> bool {
        self.leak.take(RING)
    }

    /// The packets of a target that are to be sent now, in order.
    pub fn poll_due(&mut self, target: usize, now_ns: u64) -> &[Due] {
        let ends = (self.end_ns, self.over_ns);
        let target = &mut self.targets[target];
        let is_leaking = || self.leak.take(SEND);
        target.make(&self.config.sizes, now_ns, ends, is_leaking);
        target.waiting()
    }

    /// Writes a packet of a target, but for what is in front of its head; room for its length is needed.
    #[inline]
    pub fn emit(&self, target: usize, due: &Due, packet: &mut [u8]) {
        let own = &mut packet[self.config.front_bytes..due.bytes];
        let head = self.head(target, due.sequence, own.len());
        let (to_head, to_filling) = own.split_at_mut(HEAD_BYTES);
        to_head.copy_from_slice(&head.emit());
        to_filling.copy_from_slice(&self.filling[HEAD_BYTES..][..to_filling.len()]);
    }

    const fn head(&self, target: usize, sequence: u64, bytes: usize) -> LoadHead {
        LoadHead {
            target: target as u16,
            run: self.config.run,
            sequence,
            bytes: bytes as u32,
        }
    }

    /// The kernel took the first so many packets of those that were due.
    pub fn handle_sent(&mut self, target: usize, packets: usize, now_ns: u64) {
        if packets > 0 {
            self.sent_ns = Some(now_ns);
        }
        let is_leaking = || self.leak.take(FLIGHT);
        self.targets[target].sent(packets, now_ns, is_leaking);
    }

    /// When the kernel took the last packet: up to [`CATCH_UP_NS`] behind the end of the duration, for packets that were due before. None: it took none.
    #[must_use]
    pub const fn sent_ns(&self) -> Option<u64> {
        self.sent_ns
    }

    /// The first of those that were due is not sent.
    pub fn handle_refused(&mut self, target: usize, why: SendDrop) {
        self.targets[target].refused(why);
    }

    /// The kernel says when a packet left, by a clock of its own. It may say so after the answer has come.
    pub fn handle_stamp(&mut self, target: usize, sequence: u64, stamp_ns: u64) {
        self.targets[target].stamp(sequence, stamp_ns);
    }

    /// A packet came at a target's socket, with what is in front of its head, which is not looked at. The kernel may have a stamp of it.
    pub fn handle_packet(
        &mut self,
        target: usize,
        packet: &[u8],
        now_ns: u64,
        stamp_ns: Option<u64>,
    ) -> Came {
        let sequence = self.read(target, packet);
        // Counted as one that came, and as nothing else.
        if sequence.is_ok() && self.leak.take(ANSWER) {
            return self.targets[target].vanished(packet.len());
        }
        self.targets[target].came(packet.len(), sequence, (now_ns, stamp_ns))
    }

    /// The number of the packet that this one answers.
    fn read(&self, target: usize, packet: &[u8]) -> Result<u64, AnswerDrop> {
        let packet = packet.get(self.config.front_bytes..).unwrap_or_default();
        let head = LoadHead::parse(packet).map_err(|error| match error {
            LoadError::Short(_) | LoadError::Magic(_) => AnswerDrop::Foreign,
            LoadError::Checksum { .. } => AnswerDrop::Corrupt,
        })?;
        if head.run != self.config.run || usize::from(head.target) != target {
            return Err(AnswerDrop::Foreign);
        }
        let is_whole = head.bytes as usize == packet.len()
            && self.filling.get(HEAD_BYTES..packet.len()) == Some(&packet[HEAD_BYTES..]);
        is_whole.then_some(head.sequence).ok_or(AnswerDrop::Corrupt)
    }

    /// Gives up what was not answered in time, and what found no room within that time behind the end.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if self
            .room_until_ns()
            .is_some_and(|until_ns| now_ns >= until_ns)
        {
            for target in &mut self.targets {
                target.give_up_waiting(SendDrop::NotSent);
            }
        }
        if let Some(until_ns) = now_ns.checked_sub(self.config.time_out_ns) {
            for target in &mut self.targets {
                target.expire(until_ns, FlightDrop::TimeOut);
            }
        }
    }

    /// What waits for room then is given up.
    fn room_until_ns(&self) -> Option<u64> {
        let over_ns = self.over_ns?;
        Some(over_ns.saturating_add(self.config.time_out_ns))
    }

    /// The connection to a target is lost: nothing of it is answered any more.
    pub fn handle_lost(&mut self, target: usize) {
        self.targets[target].lose();
    }

    /// When packets are due or given up next.
    pub fn poll_timeout(&mut self, now_ns: u64) -> Option<u64> {
        let (ends, time_out_ns) = ((self.end_ns, self.over_ns), self.config.time_out_ns);
        let is_waiting = self.targets.iter().any(Target::is_waiting);
        let room_ns = self.room_until_ns().filter(|_| is_waiting);
        let targets = self.targets.iter_mut();
        let wakes = targets.filter_map(|target| target.wake_ns(now_ns, ends, time_out_ns));
        wakes.chain(room_ns).min()
    }

    /// No packet is made from now on.
    pub fn stop(&mut self, now_ns: u64) {
        self.end_ns = Some(self.end_ns.map_or(now_ns, |end_ns| end_ns.min(now_ns)));
        self.over_ns = self.end_ns;
    }

    /// Whether nothing is made, waits for room or for an answer.
    #[must_use]
    pub fn is_over(&self, now_ns: u64) -> bool {
        let ends = (self.end_ns, self.over_ns);
        self.targets
            .iter()
            .all(|target| target.is_over(now_ns, ends))
    }

    /// Gives up all that waits for room or for an answer.
    pub fn end(&mut self) {
        for target in &mut self.targets {
            target.give_up_waiting(SendDrop::NotSent);
            target.expire(u64::MAX, FlightDrop::RunEnded);
        }
    }

    /// What was counted of a target.
    #[must_use]
    pub fn counts(&self, target: usize) -> Counts {
        self.targets[target].counts()
    }

    /// When the last answer in time of a target came; none: none did.
    #[must_use]
    pub fn answered_ns(&self, target: usize) -> Option<u64> {
        self.targets[target].answered_ns
    }

    /// By how much packets of a target were sent later than they were due, in ns.
    #[must_use]
    pub fn lateness(&self, target: usize) -> &Moments {
        &self.targets[target].late
    }

    /// Round-trip times of a target by the program's clock, in ns, of all answers.
    #[must_use]
    pub fn rtt(&self, target: usize) -> &Moments {
        &self.targets[target].rtt
    }

    /// Round-trip times of a target between the kernel's stamps, in ns, of those answers that have both.
    #[must_use]
    pub fn kernel_rtt(&self, target: usize) -> &Moments {
        &self.targets[target].kernel_rtt
    }

    /// The part of what was due of a target until `now_ns` that was not made, 0 to 1.
    #[must_use]
    pub fn short(&self, target: usize, now_ns: u64) -> f64 {
        let until_ns = self.end_ns.map_or(now_ns, |end_ns| end_ns.min(now_ns));
        self.targets[target].short(until_ns)
    }
}
