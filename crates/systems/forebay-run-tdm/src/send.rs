//! One sender: its socket, its clock, its input.

mod books;
mod burst;
mod input;
mod name;
mod summary;
mod words;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use forebay_ledger::{Condition, Reason};
use forebay_run::record::Record;
use forebay_run::{Host, Stop, System, Urgency};
use forebay_run_net::Address;
use forebay_sys::cpu_latency::Awake;
use forebay_sys::gso::{GsoSend, SEGMENTS_MAX};
use forebay_sys::socket::{self, UdpOptions};
use forebay_sys::stamped::Stamped;
use forebay_sys::{clock, sched, txtime, wait};
use forebay_tdm::key::Key;
use forebay_tdm::launches::{Change, Lateness, Launches};
pub use forebay_tdm::launches::{LaunchSummary, LaunchTimes};
use forebay_tdm::sender::patience::Patience;
use forebay_tdm::sender::{Next, Over, Phase, Sender, SenderConfig};
use forebay_wire::tdm::{CONTROL_BYTES_MAX, Carries, DATA_HEAD_BYTES};

use super::lateness;
use super::local_clock::{EmulatedClock, LocalClock};
use super::outbound::{Outbound, Wanted};
use super::{TdmError, hops};
use books::Books;
use burst::Burst;
pub use input::HeapsSent;
use input::Input;
pub use name::default_name;
pub use summary::{ClockSummary, SendSummary};
pub use words::closing;

/// Nothing is waited for longer than this at once.
const WAIT_NS: u64 = 100_000_000;
/// With less time than this until the next burst, nothing else is looked at, in ns.
const BUSY_NS: u64 = 20_000;
/// Priority among real-time threads: above what an ordinary host runs, below its interrupt threads (50).
const PRIORITY: u8 = 40;
/// Most datagrams, stamps and errors that are taken before it looks whether a window is open.
const HEARD_MAX: usize = 64;
/// Bytes of the socket's send buffer.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// What a sender does.
#[derive(Clone, Debug)]
pub struct SendPlan {
    /// Where the receiver listens.
    pub receiver: SocketAddr,
    /// The sender's name.
    pub name: String,
    /// Its part of the port against the others'.
    pub share: u16,
    /// A file, or `-` for standard input; none: a test stream.
    pub input: Option<PathBuf>,
    /// Messages that others send here, in place of a file.
    pub messages: Option<MessageInput>,
    /// Length of the test stream; none: as long as windows go.
    pub bytes: Option<u64>,
    /// Most bytes of a datagram; none: what the path's MTU carries in one piece.
    pub packet_bytes: Option<u16>,
    /// After a session it waits for the next.
    pub repeat: bool,
    /// How long it waits for a receiver; none: without end.
    pub wait: Option<Duration>,
    /// Asks for real-time priority.
    pub real_time: bool,
    /// The host's CPUs may sleep while it sends; else they are kept awake, where it may.
    pub cpus_may_sleep: bool,
    /// The key that the receiver has, too.
    pub key: Option<Key>,
    /// When bursts are given to the kernel ahead.
    pub launch_times: LaunchTimes,
    /// A CPU for its thread.
    pub cpu: Option<usize>,
    /// Each datagram by a call of its own, without the kernel's cutting.
    pub plain: bool,
    /// Directory of ledger and record; none: nothing is kept.
    pub out: Option<PathBuf>,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
    /// For tests: the clock shows another time than the host's.
    pub clock: Option<EmulatedClock>,
}

/// Messages as input.
#[derive(Clone, Debug)]
pub struct MessageInput {
    /// Where they are received.
    pub address: Address,
    /// They keep their boundaries, and travel as heaps; else their payloads are a stream of bytes.
    pub heaps: bool,
}

/// A sender at work.
struct Work {
    sender: Sender,
    socket: Stamped,
    bursts: GsoSend,
    outbound: Outbound,
    launches: Launches,
    clock: LocalClock,
    input: Input,
    books: Books,
    keyed: Option<Key>,
    heads: Vec<[u8; DATA_HEAD_BYTES]>,
    /// Payloads with their hashes, where there is a key.
    sealed: Vec<Vec<u8>>,
    payload_bytes: usize,
    /// The last part of a wait for a burst, that is spun through, in ns.
    spin_ns: u64,
    in_vain: u64,
    awake: Awake,
    truth: summary::Truth,
}

/// Sends until its input or its windows end.
impl System for SendPlan {
    const HOPS: &'static [&'static str] = hops::SEND;
    type Summary = SendSummary;
    type Error = TdmError;

    fn run(self, host: &Host) -> Result<Record<SendSummary>, TdmError> {
        send(&self, host)
    }
}

fn send(plan: &SendPlan, host: &Host) -> Result<Record<SendSummary>, TdmError> {
    let (stop, mut tell) = (&host.stop, |line: &str| host.say(line));
    name::check(&plan.name)?;
    if let Some(cpu) = plan.cpu {
        sched::pin_to_cpu(cpu)?;
    }
    let (out, leak) = (plan.out.as_deref(), host.leak.clone());
    let books = Books::open(&plan.name, out, plan.metrics, leak, &mut tell)?;
    let input = Input::of(plan)?;
    // After the input's thread has begun: that one has no need of it.
    let mut real_time = false;
    if plan.real_time {
        match sched::real_time(PRIORITY) {
            Ok(()) => real_time = true,
            Err(error) => tell(&format!("windows may begin late: {error}")),
        }
    }
    wait::set_timer_slack_ns(1)?;
    let options = UdpOptions {
        send_buffer_bytes: Some(SEND_BUFFER_BYTES),
        ..UdpOptions::default()
    };
    let socket = socket::connect_udp(plan.receiver, &options)?;
    socket::set_dont_fragment(&socket)?;
    socket::report_errors(&socket, true)?;
    let fits = socket::payload_max_bytes(socket::path_mtu(&socket)?, plan.receiver.ip());
    let most = plan.packet_bytes.map_or(fits, usize::from).min(fits);
    let mut awake = Awake::new(!plan.cpus_may_sleep);
    awake.keep(true, &mut tell);
    let lateness = lateness::measure();
    let clock = LocalClock::new(plan.clock);
    let config = SenderConfig {
        name: plan.name.clone(),
        nonce: name::nonce(),
        share: plan.share,
        packet_bytes_max: u16::try_from(most).unwrap_or(u16::MAX),
        carries: match &plan.messages {
            Some(messages) if messages.heaps => Carries::Heaps,
            _ => Carries::Bytes,
        },
        repeat: plan.repeat,
        wait_ns: plan
            .wait
            .map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(0)),
        lateness_ns: lateness.p99_ns,
        real_time,
        key: plan.key.clone(),
    };
    let mut work = Work {
        sender: Sender::new(config, clock.now_ns()),
        launches: Launches::new(
            // A call of its own for each datagram makes it a place of its own in the queue, which has 100.
            if plan.plain {
                LaunchTimes::Off
            } else {
                plan.launch_times
            },
            Lateness {
                late_ns: lateness.p99_ns,
                spin_ns: lateness.spin_ns,
            },
            || txtime::enable(&socket),
        ),
        socket: Stamped::new(socket)?,
        bursts: if plan.plain {
            GsoSend::single()
        } else {
            GsoSend::new()
        },
        outbound: Outbound::default(),
        clock,
        input,
        books,
        keyed: plan.key.clone(),
        heads: vec![[0; DATA_HEAD_BYTES]; SEGMENTS_MAX],
        sealed: vec![Vec::new(); SEGMENTS_MAX],
        payload_bytes: 0,
        spin_ns: lateness.spin_ns,
        in_vain: 0,
        awake,
        truth: summary::Truth::default(),
    };
    super::await_stamps(&mut tell);
    work.go(plan, stop, &mut tell)?;
    let failed = work
        .input
        .failure()
        .map(|error| format!("reading the input: {error}"));
    work.conclude(plan, lateness, failed)
}

impl Work {
    fn go(
        &mut self,
        plan: &SendPlan,
        stop: &Stop,
        tell: &mut impl FnMut(&str),
    ) -> Result<(), TdmError> {
        let mut control = [0; CONTROL_BYTES_MAX];
        let mut came = [0; CONTROL_BYTES_MAX];
        let mut asked = Urgency::Go;
        let (mut phase, mut repeats, mut lost) = (Phase::Hello, 0, 0);
        let mut patience = Patience::default();
        self.awake.keep(false, tell);
        // The instant of a burst has come: nothing else is looked at before it is sent.
        let mut due = false;
        loop {
            // A reading of the clock costs as much as a packet's head: one serves all that is done at once.
            let true_ns = clock::monotonic_ns();
            let mut now_ns = self.clock.shows(true_ns);
            if !std::mem::take(&mut due) {
                if stop.urgency() > asked {
                    asked = stop.urgency();
                    stop.drain();
                    if asked == Urgency::Now {
                        return Ok(());
                    }
                    self.sender.stop();
                }
                if self.clock.look(true_ns) {
                    self.sender.drop_exchanges();
                    self.outbound.forget_launches();
                }
                if let Some(wall) = self.clock.wall(true_ns) {
                    self.sender.handle_wall(now_ns, wall);
                }
                let polled_ns = now_ns;
                while let Some(transmit) = self.sender.poll_transmit(polled_ns, &mut control) {
                    let bytes = control.get(..transmit.bytes).unwrap_or_default();
                    let wanted = Wanted {
                        stamp: transmit.stamp.map(u64::from),
                        launch_ns: self
                            .launches
                            .of_control(self.clock.true_ns(polled_ns), phase != Phase::Hello),
                    };
                    let is_sent = self.outbound.send(&mut self.socket, bytes, None, wanted);
                    if is_sent && wanted.launch_ns.is_some() {
                        self.launches.sent();
                    }
                    now_ns = self.clock.now_ns();
                }
                self.payload_bytes = self.sender.payload_bytes();
                self.books.tend(now_ns, &self.sender);
                if let Some(line) = patience.look(phase, now_ns) {
                    tell(&line);
                }
            }
            let (available, ended) = self.input.ready(self.payload_bytes);
            let next = self.sender.poll_burst(now_ns, available, ended);
            let mut is_held_up = false;
            if let Next::Burst(packets) = next {
                let became = self.burst(packets, now_ns);
                if became == Burst::Left {
                    continue;
                }
                is_held_up = true;
                self.wait_for_room(became, stop)?;
            }
            let heard = self.hear(&mut came);
            if self.sender.phase() != phase {
                let before = std::mem::replace(&mut phase, self.sender.phase());
                if before == Phase::Running {
                    self.books.withdraw();
                }
                // A sender that waits for a session may wait for weeks.
                self.awake.keep(phase != Phase::Hello, tell);
                if before == Phase::Hello {
                    self.launches.begin();
                    self.sender.give_ahead(0, self.launches.thread_late_ns());
                }
                if self.sender.repeats() > repeats {
                    // The next session has the whole input again; one that was lost goes on with what is left.
                    repeats = self.sender.repeats();
                    self.input = Input::of(plan)?;
                }
                let is_lost = self.sender.sent().receivers_lost > lost;
                lost = self.sender.sent().receivers_lost;
                self.say(plan, phase, is_lost, tell);
                if matches!(phase, Phase::Over(_)) {
                    return Ok(());
                }
                continue;
            }
            if heard || is_held_up {
                // It may be a window that is granted, or the time of another one.
                continue;
            }
            due = self.wait(next, stop)?;
        }
    }

    fn say(&self, plan: &SendPlan, phase: Phase, is_lost: bool, tell: &mut impl FnMut(&str)) {
        match phase {
            Phase::Hello if is_lost => tell(
                "the receiver is silent or was started again, and has not confirmed what came; saying hello",
            ),
            Phase::Ready => {
                let line = self.sender.clock().line();
                let error_ns = line.map_or(0, |line| line.error_at_ns(self.clock.now_ns()));
                tell(&format!(
                    "the receiver's clock is known within {error_ns} ns; waiting for the start"
                ));
            }
            Phase::Running => {
                tell("sending");
                if let Some(told) = lateness::shun_throttle(plan.real_time, self.sender.welcome()) {
                    tell(&told);
                }
            }
            Phase::Hello | Phase::Clock | Phase::Ending | Phase::Over(_) => {}
        }
    }

    /// Gives bursts ahead from now on, or no longer.
    fn follow(&mut self, changed: Option<Change>) {
        match changed {
            Some(Change::Kept { lead_ns, late_ns }) => self.sender.give_ahead(lead_ns, late_ns),
            Some(Change::Off) => self.sender.give_ahead(0, self.launches.thread_late_ns()),
            None => {}
        }
    }

    /// Takes what has come, not without limit: what floods the socket keeps no window waiting. True when there was something.
    fn hear(&mut self, came: &mut [u8]) -> bool {
        for _ in 0..HEARD_MAX {
            let Some((wanted, left_ns)) = self.outbound.poll(&self.socket) else {
                break;
            };
            let left_ns = self.clock.of_stamp(left_ns);
            if let Some(sequence) = wanted.stamp {
                self.sender.handle_left(sequence as u32, left_ns);
            }
            if let Some(launch_ns) = wanted.launch_ns {
                let changed = self.launches.left(launch_ns, self.clock.true_ns(left_ns));
                self.follow(changed);
            }
        }
        let changed = self.launches.look();
        self.follow(changed);
        let mut heard = false;
        for _ in 0..HEARD_MAX {
            match self.socket.receive(came) {
                Ok(Some(datagram)) => {
                    heard = true;
                    let stamp = datagram.stamp_ns.map(|stamp| self.clock.of_stamp(stamp));
                    let bytes = came
                        .get(..datagram.len.min(CONTROL_BYTES_MAX))
                        .unwrap_or_default();
                    // What is not taken is counted by the engine.
                    let _ = self
                        .sender
                        .handle_datagram(self.clock.now_ns(), stamp, bytes);
                }
                Ok(None) => break,
                // Nobody listens there: told once for each datagram that met nobody.
                Err(_) => self.outbound.errors += 1,
            }
        }
        heard
    }

    /// Waits for what comes next; true when it is a burst, and its instant has come.
    fn wait(&self, next: Next, stop: &Stop) -> Result<bool, TdmError> {
        let now_ns = self.clock.now_ns();
        let timeout_ns = self.sender.poll_timeout().unwrap_or(now_ns);
        let (data_ns, precise) = match next {
            Next::At(at_ns) => (at_ns, true),
            Next::Input(until_ns) => (until_ns, false),
            Next::Idle | Next::Burst(_) => (u64::MAX, false),
        };
        let until_ns = data_ns.min(timeout_ns).min(now_ns + WAIT_NS);
        let is_burst = precise && until_ns == data_ns;
        let until_ns = self.clock.true_ns(until_ns);
        let left_ns = until_ns.saturating_sub(self.clock.true_ns(now_ns));
        if precise && left_ns < BUSY_NS {
            wait::sleep_until(until_ns, BUSY_NS);
            return Ok(is_burst);
        }
        // What is nearer than a sleep is exact is spun to, such as the quiet time for a probe behind a window. A burst that is given ahead needs no such care.
        let is_ahead = precise && self.launches.are_kept();
        let near = precise || left_ns < self.spin_ns;
        let spin_ns = if near && !is_ahead { self.spin_ns } else { 0 };
        let woken = match (next, self.input.arrived()) {
            (Next::Input(_), Some(arrived)) => wait::sleep_until_or(
                [self.socket.as_fd(), stop.as_fd(), arrived],
                until_ns,
                spin_ns,
            )?,
            _ => wait::sleep_until_or([self.socket.as_fd(), stop.as_fd()], until_ns, spin_ns)?,
        };
        Ok(is_burst && matches!(woken, wait::Woken::Due { .. }))
    }

    fn conclude(
        mut self,
        plan: &SendPlan,
        lateness: lateness::Lateness,
        failed: Option<String>,
    ) -> Result<Record<SendSummary>, TdmError> {
        let is_finite = !self.input.is_endless();
        let input = self.input.end();
        let ended = match self.sender.phase() {
            _ if failed.is_some() => (Condition::Interrupted, Reason::ConnectionLost),
            _ if self.sender.ends_unconfirmed() => (Condition::Ended, Reason::ConnectionLost),
            _ if self.sender.was_stopped_early() => (Condition::Interrupted, Reason::Requested),
            Phase::Over(Over::NoReceiver) => (Condition::Interrupted, Reason::ConnectionLost),
            _ => (Condition::Ended, Reason::InputEnded),
        };
        let heaps = input.heaps;
        let host = summary::Host {
            name: plan.name.clone(),
            receiver: plan.receiver,
            is_finite,
            lateness,
            launches: self.launches.summary(),
            cpus: self.awake.why_not().map(str::to_owned),
            mode: self.bursts.mode(),
            datagrams_in_vain: self.in_vain + self.outbound.refused,
            network_errors: self.outbound.errors,
            hardware: summary::hardware_of(&self.socket),
            input,
        };
        let mut summary = summary::of(&self.sender, &self.clock, &self.truth, host);
        let taints = summary.taints(&self.sender);
        let mut envelope = self.books.close(&self.sender, heaps, ended, taints)?;
        if let Some(messages) = &mut summary.messages {
            envelope.include(&mut messages.envelope, |_| false);
        }
        envelope.failed = failed.or_else(|| summary.failed(&self.sender));
        let mut record = Record { envelope, summary };
        self.books.keep(&mut record)?;
        Ok(record)
    }
}
