//! The receiver stage: datagrams off the sockets, checked, into one ring per source.

mod chunks;
mod drain;
mod lane;
mod port;
mod replay;
mod route;
pub(crate) mod unsaid;

use std::os::fd::OwnedFd;
use std::time::Duration;

use forebay_ledger::{Counter, Leak, Words};
use forebay_link::gather::{Gather, Round};
use forebay_link::{Ancillary, RecvBatch};
use forebay_ring::{Producers, RingSetSpec};
use forebay_run::error::RunError;
use forebay_run::host_losses::HostBook;
use forebay_run::stage::{Order, StageControl};
use forebay_sys::clock;
use forebay_sys::epoll::{Interest, Poller, Trigger};

use crate::books::Books;
use crate::plan::{FullPolicy, Plan, SourceKey};
pub(crate) use chunks::run as chunks;
use port::{Port, Turn};
pub(crate) use replay::{BATCH_DATAGRAMS as REPLAY_BATCH, run as replay};

/// Slots of the receive batch.
pub const BATCH_SLOTS: usize = 64;
/// How often kernel counters are read and idle books committed.
pub(crate) const KERNEL_LOOK: Duration = Duration::from_millis(50);
/// Longest sleep: a peer killed before it rang the bell costs this much.
const SLEEP: Duration = Duration::from_millis(20);
/// Sleep while a ring is full.
const BLOCKED_SLEEP: Duration = Duration::from_micros(300);
/// Longest time to empty the sockets after the order to stop.
const DRAIN_LIMIT_NS: u64 = 10_000_000_000;
/// Token of the control channel.
const CONTROL_TOKEN: u64 = u64::MAX;

/// What the supervisor hands over.
#[derive(Debug)]
pub struct ReceiverParts {
    /// The ledger.
    pub words: Words,
    /// The producer's side of the rings.
    pub rings: Vec<OwnedFd>,
    /// Arena of the receive batch.
    pub arena: OwnedFd,
    /// One socket per port.
    pub sockets: Vec<OwnedFd>,
}

struct Receiver<'a> {
    plan: &'a Plan,
    ports: Vec<Port>,
    producers: Producers,
    batch: RecvBatch,
    poller: Poller,
    control: &'a StageControl,
    host: HostBook,
    /// Its word for sleeps in which datagrams gather.
    gathers: Counter,
    /// The largest part of a socket's buffer that was taken since all were empty, in 1/1024.
    fullest: u64,
    /// Rounds that left the sockets empty.
    rounds: u64,
    leak: Leak,
    /// Ports whose ring was full at their last turn.
    blocked: Vec<usize>,
    housekeeping_ns: u64,
}

/// Runs the stage until it is told to stop and the sockets are empty.
///
/// # Errors
/// A part cannot be mapped, or the ledger is another run's.
pub fn run(
    plan: &Plan,
    parts: ReceiverParts,
    control: &StageControl,
    leak: Leak,
) -> Result<(), RunError> {
    let mut receiver = Receiver::attach(plan, parts, control, leak)?;
    receiver.adopt_batch();
    control.ready()?;
    let stop_ns = receiver.serve()?;
    receiver.drain(stop_ns)?;
    receiver.close();
    Ok(())
}

impl<'a> Receiver<'a> {
    fn attach(
        plan: &'a Plan,
        parts: ReceiverParts,
        control: &'a StageControl,
        leak: Leak,
    ) -> Result<Self, RunError> {
        let books = Books::declare(plan)?;
        let spec: RingSetSpec = plan.event_rings();
        let mut producers = Producers::map(&spec, parts.rings)?;
        let by_sender = plan
            .sources
            .iter()
            .any(|source| matches!(source.key, SourceKey::Sender(_)));
        let ancillary = Ancillary {
            addresses: by_sender,
            control: plan.receiver.stamps || plan.receiver.gro,
        };
        let batch = RecvBatch::attach(parts.arena, BATCH_SLOTS, ancillary)?;
        let poller = Poller::create(256)?;
        let mut ports = Vec::new();
        for (index, socket) in parts.sockets.into_iter().enumerate() {
            poller.add(&socket, index as u64, Interest::Readable, Trigger::Level)?;
            ports.push(Port::attach(
                plan,
                index,
                socket,
                &books,
                &parts.words,
                &mut producers,
            )?);
        }
        poller.add(
            control.fd(),
            CONTROL_TOKEN,
            Interest::Readable,
            Trigger::Level,
        )?;
        let host = HostBook::attach(&books.schema, &parts.words, books.host)?;
        Ok(Self {
            plan,
            ports,
            producers,
            batch,
            poller,
            control,
            host,
            gathers: books.gathers,
            fullest: 0,
            rounds: 0,
            leak,
            blocked: Vec::new(),
            housekeeping_ns: 0,
        })
    }

    /// What a killed predecessor had taken from the kernel and not yet booked is handled first.
    fn adopt_batch(&mut self) {
        let Some(adopted) = self.batch.adopt() else {
            return;
        };
        let Some(port) = self.ports.get_mut(adopted.tag.socket as usize) else {
            return;
        };
        if adopted.count > 0 && !port.has_booked(adopted.tag.batch_id) {
            tracing::info!(
                datagrams = adopted.count,
                "taking over what the last receiver had in hand"
            );
            port.adopt(
                &adopted,
                &mut self.batch,
                &mut self.producers,
                &mut self.leak,
            );
        }
        self.batch.disarm();
    }

    /// Receives until the order to stop; returns when it came.
    fn serve(&mut self) -> Result<u64, RunError> {
        let spin = Duration::from_micros(self.plan.receiver.spin_us);
        let buffers = self.ports.iter().map(Port::buffer_bytes);
        let few = self.plan.receiver.gather();
        let budget = self.plan.receiver.latency_budget();
        let mut gather = Gather::new(budget, few, buffers.min().unwrap_or(0));
        let said = self.plan.receiver.latency_budget_us;
        if let Some(most) = said.and(budget).and_then(|budget| gather.shortened(budget)) {
            let left = match most.as_micros() {
                0 => "has no effect (gather_us decides)".to_owned(),
                us => format!("is {us} µs"),
            };
            tracing::warn!(
                "latency_budget_us {left} in this run: the smallest buffer that the kernel granted a socket leaves no more time; set socket_buffer_bytes in [receiver] higher, and net.core.rmem_max where it cuts that"
            );
        }
        let mut ready = Vec::with_capacity(256);
        loop {
            let sleep = if self.blocked.is_empty() {
                SLEEP
            } else {
                BLOCKED_SLEEP
            };
            ready.clear();
            ready.extend(
                self.poller
                    .wait(Some(sleep), spin)?
                    .map(|event| event.token),
            );
            if ready.contains(&CONTROL_TOKEN)
                && matches!(self.control.poll()?, Some(Order::Stop | Order::Abandoned))
            {
                return Ok(clock::monotonic_ns());
            }
            let begun_ns = clock::monotonic_ns();
            let has_more = self.turns(
                ready
                    .iter()
                    .filter(|token| **token != CONTROL_TOKEN)
                    .map(|token| *token as usize),
            )?;
            let has_blocked = !self.blocked.is_empty();
            self.unblock()?;
            let mut now_ns = clock::monotonic_ns();
            let round = Round {
                ready: ready.len(),
                has_more,
                fullest: self.fullest,
                took_ns: now_ns - begun_ns,
            };
            let pause = gather.pause(round);
            if !has_more {
                // The sockets were empty: what comes is counted anew.
                (self.fullest, self.rounds) = (0, self.rounds + 1);
            }
            // The socket of a port whose queue was full fills up.
            if let Some(pause) = pause.filter(|_| !has_blocked) {
                self.host.add(self.gathers, 1);
                std::thread::sleep(pause);
                now_ns = clock::monotonic_ns();
            }
            if now_ns >= self.housekeeping_ns {
                self.housekeeping_ns = now_ns + KERNEL_LOOK.as_nanos() as u64;
                self.housekeeping();
            }
        }
    }

    /// Gives each of `ports` its turn, then rings the bell once. Tells whether any of them has more than a turn takes.
    fn turns(&mut self, ports: impl Iterator<Item = usize>) -> Result<bool, RunError> {
        let (mut published, mut more) = (false, false);
        for index in ports {
            let Some(port) = self.ports.get_mut(index) else {
                continue;
            };
            port.gather_from(self.rounds);
            match port.turn(
                &self.plan.receiver,
                &mut self.batch,
                &mut self.producers,
                &mut self.leak,
            )? {
                Turn::Empty => {}
                Turn::Took { full } => {
                    published = true;
                    more |= full;
                    self.fullest = self.fullest.max(port.filled());
                }
                Turn::Blocked => {
                    published = true;
                    self.block(index)?;
                }
            }
        }
        if published {
            self.producers.notify();
        }
        Ok(more)
    }

    /// The ring of this port is full: its socket is left alone until there is room.
    fn block(&mut self, index: usize) -> Result<(), RunError> {
        debug_assert_eq!(self.plan.receiver.full, FullPolicy::Hold);
        self.poller.remove(self.ports[index].socket())?;
        self.blocked.push(index);
        Ok(())
    }

    fn unblock(&mut self) -> Result<(), RunError> {
        let mut still = std::mem::take(&mut self.blocked);
        let (producers, ports, poller) = (&self.producers, &self.ports, &self.poller);
        let mut failed = None;
        still.retain(|index| {
            let wait = !ports[*index].has_room(producers);
            if !wait
                && let Err(error) = poller.add(
                    ports[*index].socket(),
                    *index as u64,
                    Interest::Readable,
                    Trigger::Level,
                )
            {
                failed = Some(error);
            }
            wait
        });
        self.blocked = still;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Reads the kernel's counters into the books.
    fn housekeeping(&mut self) {
        for port in &mut self.ports {
            port.read_kernel();
        }
        self.host.read();
        self.producers.notify();
    }
}
