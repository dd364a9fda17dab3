//! The receiver: its socket, its clock, its files and its books.

mod books;
mod end;
mod found;
mod heaps;
mod histograms;
mod kernel;
mod lines;
mod original;
mod outputs;
mod plan;
mod rows;
mod streams;
mod summary;
mod watch;
mod writer;

use std::os::fd::AsFd;
use std::time::Duration;

use forebay_run::record::Record;
use forebay_run::{Host, Stop, System, Urgency};
use forebay_sys::cpu_latency::Awake;
use forebay_sys::gso::GroReceive;
use forebay_sys::socket::{self, DropCounter, UdpOptions};
use forebay_sys::stamped::Stamped;
use forebay_sys::{clock, sched, wait};
use forebay_tdm::plan::{Plan, PlanInput};
use forebay_tdm::receiver::presence::Presence;
use forebay_tdm::receiver::{Arrival, Phase, Receiver, ReceiverConfig};
use forebay_wire::tdm::{CONTROL_BYTES_MAX, Carries};

use super::local_clock::LocalClock;
use super::outbound::{Outbound, Wanted};
use super::{TdmError, hops};
use books::Books;
pub use forebay_tdm::receiver::{LossCause, Lost, Row};
pub use forebay_tdm::stalls::StallSummary;
use forebay_tdm::stalls::Stalls;
pub use original::{CsvOf, OriginalCsv};
use outputs::{Files, Outputs};
pub use plan::ReceivePlan;
pub use streams::Output;
pub use summary::{ReceiveSummary, SchemeSummary, SenderSummary, closing};
pub use watch::{Came, Watch};
use writer::{PANICKED, Told, Writer};
pub use writer::{QUEUE_BYTES_MAX, QUEUE_BYTES_MIN, default_queue_bytes};

/// Buffers of 64 KiB that are taken from the socket at once.
const BUFFERS: usize = 32;
/// Payload bytes of the socket's buffer: 60 ms at 1 Gb/s.
const SOCKET_BYTES: usize = 8 << 20;
/// The kernel's counters are looked at, and the books are shown, so often, in ns.
const TEND_NS: u64 = 10_000_000;
/// The kernel's count of fragments is looked at so often, in ns.
const REASSEMBLY_NS: u64 = 100_000_000;
/// After the end senders may still ask for their last answer, for so long, in ns: four times what they wait for it.
const LINGER_NS: u64 = 200_000_000;
/// Lines that are not told at the end are waited for so long.
const TELL: Duration = Duration::from_secs(1);
/// Nothing is waited for longer than this at once, in ns.
const WAIT_NS: u64 = 100_000_000;

/// Where datagrams follow each other as fast as this, the next ones are looked for without a sleep: the sender pays for each wake-up, in ns.
const BRISK_NS: u64 = 30_000;

/// Which has a place: the place of one that left before the start may go to another one, which has another stream.
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
    writer: Writer,
    /// A line for each packet is wanted.
    lists_packets: bool,
    /// A line for each window is.
    lists_windows: bool,
    /// Senders whose streams have ended, and the block with which all of theirs is written.
    ending: Vec<(u16, u64)>,
    stalls: Stalls,
    outputs: Outputs<'a>,
    books: Books,
    sums: summary::Sums,
    drops: DropCounter,
    /// The host's count at the last look.
    reassembly_failed: Option<u64>,
    tended_ns: u64,
    looked_ns: u64,
    /// Whose stream is open at each place.
    open: Vec<Identity>,
    presence: Presence,
    planned: bool,
    /// Lines for the operator that found no reader in time.
    lines_untold: u64,
    failed: Option<String>,
}

/// One session, until its senders have ended.
pub struct ReceiveSession<'a> {
    /// What is received, and where it goes.
    pub plan: ReceivePlan,
    /// They see what happens.
    pub watches: Vec<&'a mut dyn Watch>,
}

impl System for ReceiveSession<'_> {
    const HOPS: &'static [&'static str] = hops::RECEIVE;
    type Summary = ReceiveSummary;
    type Error = TdmError;

    fn run(self, host: &Host) -> Result<Record<ReceiveSummary>, TdmError> {
        receive(&self.plan, host, self.watches)
    }
}

fn receive(
    plan: &ReceivePlan,
    host: &Host,
    watches: Vec<&mut dyn Watch>,
) -> Result<Record<ReceiveSummary>, TdmError> {
    let stop = &host.stop;
    let mut tell = |line: &str| host.say(line);
    if plan.output == Output::Stdout && plan.senders > 1 {
        return Err(TdmError::OneStream {
            senders: plan.senders,
        });
    }
    let is_near = plan.bind.ip().to_canonical().is_loopback();
    if !is_near && plan.key.is_none() && !plan.no_key {
        return Err(TdmError::NoKey { bind: plan.bind });
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
    let options = UdpOptions {
        receive_buffer_bytes: Some(SOCKET_BYTES),
        gro: !plan.no_gro,
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
    let leak = host.leak.clone();
    let opened = Books::open(out, plan.senders, !plan.no_gro, leak, &mut tell)?;
    let (mut books, writer_books) = opened;
    if let Output::Directory(directory) = &plan.output {
        std::fs::create_dir_all(directory)
            .map_err(TdmError::file("making the directory", directory))?;
    }
    let outputs = Outputs::create(plan, watches)?;
    let files = Files::create(plan)?;
    let bytes = plan.writer_queue_bytes;
    let writer = Writer::start(plan.output.clone(), bytes, files, writer_books)?;
    books.page(plan.metrics)?;
    let epoch = socket::cookie(&bound.fd)?;
    let drops = DropCounter::starting_at(epoch, socket::mem_info(&bound.fd)?.drops);
    // The other threads run where they may.
    if let Some(cpu) = plan.cpu {
        sched::pin_to_cpu(cpu)?;
    }
    let csv_of = plan.csv.as_ref().map(|csv| csv.of);
    let mut work = Work {
        receiver: Receiver::new(config_of(plan)).confirmed_by_caller(),
        socket: Stamped::new(bound.fd)?,
        outbound: Outbound::default(),
        clock: LocalClock::new(None),
        writer,
        lists_packets: csv_of == Some(CsvOf::Packets),
        lists_windows: csv_of == Some(CsvOf::Windows) || plan.rows,
        ending: Vec::new(),
        stalls: Stalls::default(),
        outputs,
        books,
        sums: summary::Sums::default(),
        drops,
        reassembly_failed: None,
        tended_ns: 0,
        looked_ns: 0,
        open: Vec::new(),
        presence: Presence::new(plan.senders, plan.silence),
        planned: false,
        lines_untold: 0,
        failed: None,
    };
    super::await_stamps(&mut tell);
    let many = if plan.senders == 1 { "" } else { "s" };
    host.say(format_args!(
        "waiting for {} sender{many} at {}",
        plan.senders, bound.address
    ));
    let worked = work.go(plan, stop, epoch, &mut tell);
    work.lines_untold = host.untold(TELL);
    work.conclude(plan, worked, stop)
}

/// What the engine is told of a plan.
fn config_of(plan: &ReceivePlan) -> ReceiverConfig {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    ReceiverConfig {
        session: clock::realtime_ns() ^ (u64::from(std::process::id()) << 40) | 1,
        senders: plan.senders,
        port: plan.port.clone(),
        windows: plan.windows,
        wait_ns: plan.wait.map_or(0, nanos),
        lead_ns: nanos(plan.lead),
        silence_ns: nanos(plan.silence),
        settle_ns: nanos(plan.settle),
        key: plan.key.clone(),
    }
}

impl Work<'_> {
    fn go(
        &mut self,
        plan: &ReceivePlan,
        stop: &Stop,
        epoch: u64,
        tell: &mut impl FnMut(&str),
    ) -> Result<(), TdmError> {
        let mut receive = GroReceive::new(BUFFERS)?;
        let mut control = [0; CONTROL_BYTES_MAX];
        let mut asked = Urgency::Go;
        let mut leave_ns = None;
        let mut awake = Awake::new(!plan.cpus_may_sleep);
        let (mut came_ns, mut is_brisk) = (0, false);
        loop {
            if stop.urgency() > asked {
                asked = stop.urgency();
                stop.drain();
                if asked == Urgency::Now {
                    return Ok(());
                }
                self.receiver.stop(self.clock.now_ns());
            }
            self.clock.look(clock::monotonic_ns());
            // Before anything of a new sender is written, its file is there: it has joined at least an exchange of clocks earlier.
            self.open_streams();
            let came = self.take(&mut receive)?;
            let now_ns = self.clock.now_ns();
            self.look_at_stalls(came, now_ns, (epoch, plan.no_gro))?;
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
                self.tend((epoch, plan.no_gro), tell)?;
                self.presence.look(&mut self.receiver, tell);
                let is_near = self.receiver.peers().next().is_some();
                awake.keep(is_near, tell);
            }
            self.settle(tell);
            if matches!(self.receiver.phase(), Phase::Over(_) | Phase::Failed(_)) {
                // One that did not hear the last answer asks again; one that waits for it hears it when all is written.
                let is_written = self.writer.is_idle() && self.ending.is_empty();
                let is_written = is_written || asked > Urgency::Go || !self.writer.is_there();
                if is_written && now_ns >= *leave_ns.get_or_insert(now_ns + LINGER_NS)
                    || asked >= Urgency::Hurry
                {
                    return Ok(());
                }
            }
            if came > 0 {
                is_brisk = now_ns < came_ns + BRISK_NS;
                came_ns = now_ns;
            } else if is_brisk && now_ns < came_ns + BRISK_NS {
                std::thread::yield_now();
            } else {
                let now_ns = self.clock.now_ns();
                let due_ns = self.receiver.poll_timeout().unwrap_or(u64::MAX);
                let until_ns = due_ns.min(self.tended_ns + TEND_NS).min(now_ns + WAIT_NS);
                wait::sleep_until_or([self.socket.as_fd(), stop.as_fd()], until_ns, 0)?;
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
            self.books
                .came(buffer.datagrams().len() as u64, buffer.bytes.len() as u64);
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
                    self.outputs.packet(&came);
                    let wall_ns = self.clock.wall_minus_monotonic_ns();
                    let line = self.lists_packets.then_some(wall_ns);
                    let bytes = payload.len() as u64;
                    if self.writer.data(&came, offset, payload, line) {
                        self.books.published(sender, bytes);
                    } else {
                        self.books.missed(sender, bytes);
                    }
                    if self.writer.is_due_when_full() {
                        self.hand_over();
                    }
                }
            }
        }
        Ok(came)
    }

    /// Senders that are new, were started again, or took the place of one that left get their files.
    fn open_streams(&mut self) {
        for (sender, peer) in self.receiver.peers().enumerate() {
            if self.open.get(sender).is_some_and(|open| {
                open.restarts == peer.restarts
                    && open.carries == peer.carries
                    && open.name == peer.name
            }) {
                continue;
            }
            self.outputs.joined(sender, &peer.name);
            self.writer.open(sender, &peer.name, peer.carries);
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

    /// What is gathered goes to the writer, first in the books and then in the queue.
    fn hand_over(&mut self) {
        self.books.handed_over(self.writer.sums());
        self.writer.give();
    }

    /// The kernel's counters, and what is gathered.
    fn tend(
        &mut self,
        (epoch, is_exact): (u64, bool),
        tell: &mut impl FnMut(&str),
    ) -> Result<(), TdmError> {
        self.look_at_drops(epoch, is_exact)?;
        if let Some(wall) = self.clock.wall(clock::monotonic_ns()) {
            self.receiver.handle_wall(wall);
        }
        let now_ns = self.clock.now_ns();
        if now_ns >= self.looked_ns + REASSEMBLY_NS {
            self.looked_ns = now_ns;
            self.look_at_reassembly();
        }
        while let Some(told) = self.writer.poll() {
            match told {
                Told::Line(line) => tell(&line),
                Told::Failed(failure) => self.fail(failure, now_ns, tell),
            }
        }
        if !self.writer.is_there() {
            self.fail(PANICKED.to_owned(), now_ns, tell);
        }
        self.receiver.hold_grants(self.writer.is_half_full());
        self.books.queue(self.writer.bytes());
        self.books.commit(self.writer.sums());
        self.books.heartbeat();
        Ok(())
    }

    /// Something cannot be written: the session ends. Only the first reason counts.
    fn fail(&mut self, failure: String, now_ns: u64, tell: &mut impl FnMut(&str)) {
        if self.failed.is_none() {
            tell(&failure);
            self.failed = Some(failure);
            self.receiver.fail(now_ns);
        }
    }

    /// What the engine has to say: closed windows, lost ranges, the plan.
    fn settle(&mut self, tell: &mut impl FnMut(&str)) {
        let mut closed = false;
        let wall_ns = self.clock.wall_minus_monotonic_ns();
        while let Some(row) = self.receiver.poll_row() {
            closed = true;
            self.books.closed(&row);
            self.sums.add(&row);
            self.outputs.window(&row, wall_ns);
            if self.lists_windows {
                self.writer.window(&row, wall_ns);
            }
        }
        while let Some(range) = self.receiver.poll_lost() {
            self.sums.lost_bytes += range.bytes;
            self.sums.lost_ranges += 1;
            let mut peers = self.receiver.peers();
            let peer = peers.nth(usize::from(range.sender));
            let begins = peer.map_or(0, |peer| peer.ready.offset);
            self.writer.lost(range, begins);
        }
        if closed {
            self.books.commit(self.writer.sums());
        }
        if !self.planned
            && let Some(plan) = self.receiver.plan()
        {
            self.planned = true;
            self.presence.begins(&self.receiver, plan.mode, tell);
            tell(&summary::describe(plan));
            plan.warnings.iter().for_each(|warning| tell(warning));
            self.outputs.planned(plan, self.receiver.start_ns());
            self.writer.planned(plan);
        }
        // A sender hears what came of its stream when that is written.
        while let Some(sender) = self.receiver.poll_ended() {
            self.ending.push((sender, self.writer.settle()));
        }
        if self.writer.is_due() {
            self.hand_over();
        }
        let (receiver, writer) = (&mut self.receiver, &self.writer);
        self.ending.retain(|(sender, blocks)| {
            let is_written = writer.has_taken(*blocks);
            if is_written {
                receiver.confirm(*sender, writer.unwritten(*sender));
            }
            !is_written
        });
    }
}
