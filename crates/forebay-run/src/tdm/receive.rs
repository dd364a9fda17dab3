//! The receiver: its socket, its clock, its files and its books.

mod books;
mod end;
mod heaps;
mod histograms;
mod original;
mod outputs;
mod presence;
mod rows;
mod streams;
mod summary;
mod watch;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_ledger::Leak;
use forebay_sys::gso::GroReceive;
use forebay_sys::signals::StopSignals;
use forebay_sys::socket::{self, DropCounter, UdpOptions};
use forebay_sys::stamped::Stamped;
use forebay_sys::{clock, sched, snmp, wait};
use forebay_tdm::key::Key;
use forebay_tdm::plan::{Plan, PlanInput};
use forebay_tdm::receiver::{Arrival, Phase, Receiver, ReceiverConfig};
use forebay_wire::tdm::{CONTROL_BYTES_MAX, Carries};

use super::TdmError;
use super::awake::Awake;
use super::local_clock::LocalClock;
use super::outbound::{Outbound, Wanted};
use crate::metrics::{MetricsServer, Shown};
use books::Books;
pub use forebay_tdm::receiver::{Lost, Row};
pub use original::{CsvOf, OriginalCsv};
use outputs::Outputs;
use presence::Presence;
pub use streams::Output;
use streams::Streams;
pub use summary::{ReceiveSummary, SchemeSummary, SenderSummary};
pub use watch::{Came, Watch};

/// Buffers of 64 KiB that are taken from the socket at once.
const BUFFERS: usize = 32;
/// Payload bytes of the socket's buffer: 60 ms at 1 Gb/s.
const SOCKET_BYTES: usize = 8 << 20;
/// The kernel's counters are looked at, and the books are shown, so often, in ns.
const TEND_NS: u64 = 10_000_000;
/// Payload is gathered no longer than this, in ns.
const FLUSH_NS: u64 = 100_000_000;
/// After the end senders may still ask for their last answer, for so long, in ns: four times what they wait for it.
const LINGER_NS: u64 = 200_000_000;
/// Nothing is waited for longer than this at once, in ns.
const WAIT_NS: u64 = 100_000_000;

/// What a receiver does.
#[derive(Clone, Debug)]
pub struct ReceivePlan {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Senders that are planned.
    pub senders: u16,
    /// Port, mode, and what is set by hand.
    pub port: PlanInput,
    /// Windows of each sender; 0: until their inputs end.
    pub windows: u32,
    /// How long to wait for all senders since the first is ready; none: without end.
    pub wait: Option<Duration>,
    /// From the plan to the first window.
    pub lead: Duration,
    /// Who says nothing for so long is taken for dead.
    pub silence: Duration,
    /// From a window's report until it is closed.
    pub settle: Duration,
    /// The key that senders must have, too.
    pub key: Option<Key>,
    /// What becomes of payloads.
    pub output: Output,
    /// Directory of ledger and record; none: that of the payloads, or nothing is kept.
    pub out: Option<PathBuf>,
    /// A line for each window, into the output's directory.
    pub rows: bool,
    /// A file in the original's form, into the output's directory.
    pub csv: Option<OriginalCsv>,
    /// A file for the histograms of travel time, lateness of windows and error of the clock, of each sender.
    pub histograms: Option<PathBuf>,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
    /// A CPU for its thread.
    pub cpu: Option<usize>,
    /// The host's CPUs may sleep during a session; else they are kept awake, where they may.
    pub cpus_may_sleep: bool,
    /// Datagrams are taken one by one, without the kernel's merging.
    pub plain: bool,
    /// The fault switch of the tests, at `datagrams`, `write`, `heaps` or `windows`; off.
    pub leak: Leak,
}

/// Where datagrams follow each other as fast as this, the next ones are looked for without a sleep: whoever sends pays for each wake-up, in ns.
const BRISK_NS: u64 = 30_000;

/// Who has a place: the place of one who left before the start may go to another one, who has another stream.
struct Identity {
    name: String,
    restarts: u32,
    carries: Carries,
}

/// A receiver at work.
struct Work<'a> {
    receiver: Receiver,
    socket: Stamped,
    outbound: Outbound,
    clock: LocalClock,
    streams: Streams,
    outputs: Outputs<'a>,
    books: Books,
    sums: summary::Sums,
    drops: DropCounter,
    /// The host's count at the last look.
    reassembly_failed: Option<u64>,
    tended_ns: u64,
    flushed_ns: u64,
    /// Whose stream is open at each place.
    open: Vec<Identity>,
    presence: Presence,
    planned: bool,
    failed: Option<String>,
}

/// Receives one session, until its senders have ended, or `signals` say so. `ready` is told the address, `tell` what an operator should know, and `watches` what happens.
///
/// # Errors
/// The address cannot be listened at, or a file not be made; what fails later ends the session with its books closed, and is in the summary.
pub fn run(
    plan: &ReceivePlan,
    signals: &StopSignals,
    ready: impl FnOnce(SocketAddr),
    mut tell: impl FnMut(&str),
    watches: Vec<&mut dyn Watch>,
) -> Result<ReceiveSummary, TdmError> {
    let begun = Instant::now();
    if plan.output == Output::Stdout && plan.senders > 1 {
        return Err(TdmError::OneStream {
            senders: plan.senders,
        });
    }
    // A plan that cannot work whatever the senders measure is told before they are waited for.
    let shares = vec![1; usize::from(plan.senders)];
    let expected = Plan::compute(&PlanInput {
        shares,
        ..plan.port.clone()
    })?;
    // The name of the original's file is known when window and guard are; shares that differ make it another one.
    if let (Output::Directory(directory), Some(csv)) = (&plan.output, &plan.csv)
        && plan.port.window_ns.is_some()
        && plan.port.guard_ns.is_some()
    {
        original::look_for(directory, csv, plan.windows, &expected)?;
    }
    if let Some(cpu) = plan.cpu {
        sched::pin_to_cpu(cpu)?;
    }
    let options = UdpOptions {
        receive_buffer_bytes: Some(SOCKET_BYTES),
        gro: !plan.plain,
        ..UdpOptions::default()
    };
    let bound = socket::bind_udp(plan.bind, &options)?;
    if let Some(shortfall) = &bound.shortfall {
        tell(&shortfall.to_string());
    }
    let out = plan.out.as_deref().or(match &plan.output {
        Output::Directory(directory) => Some(directory.as_path()),
        _ => None,
    });
    let mut warnings = Vec::new();
    let books = Books::open(out, plan.senders, plan.leak.clone(), &mut warnings)?;
    warnings.iter().for_each(|warning| tell(warning));
    if let Output::Directory(directory) = &plan.output {
        std::fs::create_dir_all(directory)
            .map_err(TdmError::file("making the directory", directory))?;
    }
    let outputs = Outputs::create(plan, watches)?;
    let shown = Shown::from(books.reader()?);
    let _metrics = match plan.metrics {
        Some(address) => Some(MetricsServer::start(address, shown)?),
        None => None,
    };
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let config = ReceiverConfig {
        session: clock::realtime_ns() ^ (u64::from(std::process::id()) << 40) | 1,
        senders: plan.senders,
        port: plan.port.clone(),
        windows: plan.windows,
        wait_ns: plan.wait.map_or(0, nanos),
        lead_ns: nanos(plan.lead),
        silence_ns: nanos(plan.silence),
        settle_ns: nanos(plan.settle),
        key: plan.key.clone(),
    };
    let epoch = socket::cookie(&bound.fd)?;
    let drops = DropCounter::starting_at(epoch, socket::mem_info(&bound.fd)?.drops);
    let mut work = Work {
        receiver: Receiver::new(config),
        socket: Stamped::new(bound.fd)?,
        outbound: Outbound::default(),
        clock: LocalClock::new(None),
        streams: Streams::new(plan.output.clone()),
        outputs,
        books,
        sums: summary::Sums::default(),
        drops,
        reassembly_failed: None,
        tended_ns: 0,
        flushed_ns: 0,
        open: Vec::new(),
        presence: Presence::new(plan.senders, plan.silence),
        planned: false,
        failed: None,
    };
    super::await_stamps(&mut tell);
    ready(bound.address);
    let worked = work.go(plan, signals, epoch, &mut tell);
    work.conclude(plan, worked, begun, signals.count() > 0)
}

impl Work<'_> {
    fn go(
        &mut self,
        plan: &ReceivePlan,
        signals: &StopSignals,
        epoch: u64,
        tell: &mut impl FnMut(&str),
    ) -> Result<(), TdmError> {
        let mut receive = GroReceive::new(BUFFERS)?;
        let mut control = [0; CONTROL_BYTES_MAX];
        let mut asked = 0;
        let mut leave_ns = None;
        let mut awake = Awake::new(!plan.cpus_may_sleep);
        let (mut came_ns, mut is_brisk) = (0, false);
        loop {
            if signals.count() > asked {
                asked = signals.count();
                signals.drain();
                if asked >= 3 {
                    return Ok(());
                }
                self.receiver.stop(self.clock.now_ns());
            }
            self.clock.look(clock::monotonic_ns());
            // Before anything of a new sender is written, its file is there: it has joined at least an exchange of clocks earlier.
            self.open_streams(tell);
            let came = self.take(&mut receive)?;
            let now_ns = self.clock.now_ns();
            while let Some(transmit) = self.receiver.poll_transmit(now_ns, &mut control) {
                let bytes = control.get(..transmit.bytes).unwrap_or_default();
                let wanted = Wanted {
                    stamp: transmit.stamp,
                    launch_ns: None,
                };
                self.outbound
                    .send(&mut self.socket, bytes, Some(transmit.to), wanted);
            }
            // Also what the network says of what was sent lies there, which nobody waits for.
            if came == 0 || self.outbound.waits() {
                while let Some((wanted, left_ns)) = self.outbound.poll(&self.socket) {
                    let left_ns = self.clock.of_stamp(left_ns);
                    if let Some(stamp) = wanted.stamp {
                        self.receiver.handle_left(stamp, left_ns);
                    }
                }
            }
            if now_ns >= self.tended_ns + TEND_NS {
                self.tended_ns = now_ns;
                self.tend(epoch)?;
                self.presence.look(&mut self.receiver, tell);
                let is_near = self.receiver.peers().next().is_some();
                awake.keep(is_near, tell);
            }
            self.settle(plan, tell)?;
            if matches!(self.receiver.phase(), Phase::Over(_) | Phase::Failed(_)) {
                // Who did not hear the last answer asks again.
                let until_ns = *leave_ns.get_or_insert(now_ns + LINGER_NS);
                let is_written = asked > 0 || !self.streams.is_behind();
                if now_ns >= until_ns && is_written || asked >= 2 {
                    return Ok(());
                }
            }
            if came > 0 {
                is_brisk = now_ns < came_ns + BRISK_NS;
                came_ns = now_ns;
            } else if is_brisk && now_ns < came_ns + BRISK_NS || self.streams.is_behind() {
                std::thread::yield_now();
            } else {
                let now_ns = self.clock.now_ns();
                let due_ns = self.receiver.poll_timeout().unwrap_or(u64::MAX);
                let until_ns = due_ns.min(self.tended_ns + TEND_NS).min(now_ns + WAIT_NS);
                wait::sleep_until_or([self.socket.as_fd(), signals.as_fd()], until_ns, 0)?;
            }
        }
    }

    /// Takes what lies in the socket, at most one call's.
    fn take(&mut self, receive: &mut GroReceive) -> Result<usize, TdmError> {
        let came = match receive.receive(self.socket.as_fd()) {
            Ok(came) => came,
            // An answer met nobody: its sender is gone, and will be found silent.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                self.outbound.errors += 1;
                return Ok(1);
            }
            Err(error) => return Err(TdmError::file("receiving at the socket of", "tdm")(error)),
        };
        let now_ns = self.clock.now_ns();
        for buffer in receive.buffers() {
            let stamp_ns = buffer.stamp_ns.map(|stamp| self.clock.of_stamp(stamp));
            let Some(from) = buffer.from else {
                for datagram in buffer.datagrams() {
                    self.books.nameless(datagram.len() as u64);
                    self.sums.nameless += 1;
                }
                continue;
            };
            for datagram in buffer.datagrams() {
                let arrival = self
                    .receiver
                    .handle_datagram(now_ns, from, stamp_ns, datagram);
                self.books.arrived(datagram.len() as u64, &arrival);
                if let Arrival::Data {
                    sender,
                    packet,
                    window,
                    sent_ns,
                    offset,
                    payload,
                } = arrival
                {
                    let came = Came {
                        sender,
                        window,
                        packet,
                        sent_ns,
                        came_ns: stamp_ns.unwrap_or(now_ns),
                    };
                    let wall_ns = self.clock.wall_minus_monotonic_ns();
                    self.outputs.packet(&came, wall_ns);
                    let written = self.streams.write(sender, offset, payload);
                    self.books.written(sender, &written);
                }
            }
        }
        Ok(came)
    }

    /// Senders that are new, were started again, or took the place of one who left get their files.
    fn open_streams(&mut self, tell: &mut impl FnMut(&str)) {
        for (sender, peer) in self.receiver.peers().enumerate() {
            if self.open.get(sender).is_some_and(|open| {
                open.restarts == peer.restarts
                    && open.carries == peer.carries
                    && open.name == peer.name
            }) {
                continue;
            }
            let written = self.streams.close(sender);
            self.books.written(sender as u16, &written);
            self.outputs.joined(sender, &peer.name);
            if let Some(path) = self.streams.open(sender, &peer.name, peer.carries) {
                tell(&format!("the stream of {} goes to {path}", peer.name));
            }
            let identity = Identity {
                name: peer.name.clone(),
                restarts: peer.restarts,
                carries: peer.carries,
            };
            match self.open.get_mut(sender) {
                Some(open) => *open = identity,
                None => self.open.push(identity),
            }
        }
    }

    /// The kernel's counters, and what is gathered.
    fn tend(&mut self, epoch: u64) -> Result<(), TdmError> {
        let raw = socket::mem_info(&self.socket)?.drops;
        let drops = self.drops.observe(epoch, raw);
        if drops > 0 {
            self.receiver.handle_socket_drops(drops);
            self.books.overflowed(drops);
            self.sums.socket_drops += drops;
        }
        if let Some(wall) = self.clock.wall(clock::monotonic_ns()) {
            self.receiver.handle_wall(wall);
        }
        let now_ns = self.clock.now_ns();
        if now_ns >= self.flushed_ns + FLUSH_NS {
            self.flushed_ns = now_ns;
            self.look_at_reassembly();
            for (sender, written) in self.streams.flush() {
                self.books.written(sender, &written);
            }
        }
        for (sender, became) in self.streams.heaps_became() {
            self.books.heaps(sender, &became);
        }
        self.books.commit();
        self.books.heartbeat();
        Ok(())
    }

    /// Datagrams that this host could not put together from fragments since the last look. The kernel counts them for the whole host: some may be others'.
    fn look_at_reassembly(&mut self) {
        // A host that does not tell has the packets lost by their places.
        let Ok(now) = snmp::read() else {
            return;
        };
        let before = self.reassembly_failed.replace(now.ip_reasm_fails);
        let failed = before.map_or(0, |before| now.ip_reasm_fails.wrapping_sub(before));
        self.receiver.handle_reassembly_failures(failed);
    }

    /// What the engine has to say: closed windows, lost ranges, the plan.
    fn settle(
        &mut self,
        session: &ReceivePlan,
        tell: &mut impl FnMut(&str),
    ) -> Result<(), TdmError> {
        let mut closed = false;
        while let Some(row) = self.receiver.poll_row() {
            closed = true;
            self.books.closed(&row);
            self.sums.add(&row);
            self.outputs
                .window(&row, self.clock.wall_minus_monotonic_ns());
        }
        while let Some(range) = self.receiver.poll_lost() {
            self.sums.lost_bytes += range.bytes;
            self.sums.lost_ranges += 1;
            let mut peers = self.receiver.peers();
            let peer = peers.nth(usize::from(range.sender));
            let begins = peer.map_or(0, |peer| peer.ready.offset);
            let written = self.streams.lost(&range, begins);
            self.books.written(range.sender, &written);
        }
        if let Some((sender, written)) = self.streams.turn() {
            self.books.written(sender, &written);
        }
        if closed {
            self.books.commit();
        }
        if !self.planned
            && let Some(plan) = self.receiver.plan()
        {
            self.planned = true;
            self.presence.begins(&self.receiver, plan.mode, tell);
            tell(&summary::describe(plan));
            plan.warnings.iter().for_each(|warning| tell(warning));
            let start_ns = self.receiver.start_ns();
            if let Err(error) = self.outputs.planned(session, plan, start_ns) {
                tell(&error.to_string());
                self.failed.get_or_insert(error.to_string());
                self.receiver.stop(self.clock.now_ns());
            }
        }
        if let Some(failure) = self.streams.failure()
            && self.failed.is_none()
        {
            tell(&failure);
            self.failed = Some(failure);
            self.receiver.stop(self.clock.now_ns());
        }
        Ok(())
    }
}
