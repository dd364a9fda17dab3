//! Emulated readouts and a network in virtual time before the builder, with the receiving side between them.

use forebay_emu::world::{Arrival, Consumer, Layer, World};
use forebay_emu::{Config as Emulated, SoftReadouts, Verifier};
use forebay_evb::{Config, MessageCheck, Rejected, Step};
use forebay_wire::hadtu::UNIT_HEADER_BYTES;

use super::Rig;
use super::check::Check;

/// Largest message taken.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// A port of the receiver: what it has of an unfinished message.
struct Port {
    check: MessageCheck,
    buffer: Vec<u8>,
}

/// Ports in front of a builder.
pub(crate) struct Station {
    pub(crate) rig: Rig,
    ports: Vec<Port>,
    /// Datagrams and bytes that made no message.
    pub(crate) rejected: (u64, u64),
}

impl Station {
    pub(crate) fn new(config: Config) -> Self {
        let port = |_| Port {
            check: MessageCheck::new(MESSAGE_BYTES_MAX),
            buffer: Vec::new(),
        };
        let ports = (0..config.sources).map(port).collect();
        let mut rig = Rig::new(config);
        rig.serials = false;
        rig.sink.set_room(1 << 20);
        Self {
            rig,
            ports,
            rejected: (0, 0),
        }
    }

    fn receive(&mut self, source: usize, datagram: &[u8]) {
        let port = &mut self.ports[source];
        port.buffer.truncate(port.check.unfinished().0);
        port.buffer.extend_from_slice(datagram);
        loop {
            let port = &mut self.ports[source];
            match port.check.handle_datagram(&port.buffer, datagram.len()) {
                Step::More => return,
                Step::Complete(message) => {
                    let body = port.buffer[UNIT_HEADER_BYTES..message.kept_bytes as usize].to_vec();
                    return self.rig.send_raw(source, &body, message.items);
                }
                Step::Rejected(rejected) => {
                    self.reject(&rejected);
                    let Some(at) = rejected.retry_at else { return };
                    self.ports[source].buffer.drain(..at);
                }
            }
        }
    }

    fn reject(&mut self, rejected: &Rejected) {
        self.rejected.0 += u64::from(rejected.datagrams);
        self.rejected.1 += rejected.bytes;
    }
}

impl Consumer for Station {
    fn handle_datagram(&mut self, arrival: Arrival<'_>) {
        self.rig.now_ns = arrival.now_ns;
        self.receive(arrival.source, arrival.bytes);
    }

    fn handle_time(&mut self, now_ns: u64) {
        self.rig.now_ns = now_ns;
        self.rig.poll();
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.rig.builder.poll_timeout()
    }
}

/// A run from its first trigger to its last.
pub(crate) struct Run {
    pub(crate) check: Check,
    /// Sub-events sent by each source.
    pub(crate) sent: Vec<u64>,
    /// Triggers that the emulator gave.
    pub(crate) events: u64,
    /// Triggers for which each source made nothing.
    pub(crate) silent: Vec<u64>,
    /// Built sub-events that are not what the emulator sends.
    pub(crate) foreign: u64,
}

/// Sends all that `emulated` sends through `layers` into a builder with `config`, and checks what comes out.
pub(crate) fn run(emulated: &Emulated, layers: Vec<Layer>, config: Config) -> Run {
    let (world, station) = play(emulated, layers, config);
    verify(emulated, &world, station.rig.finish())
}

/// The same with a network that spoils bytes: not all that comes out can be as it should.
pub(crate) fn run_hostile(emulated: &Emulated, layers: Vec<Layer>, config: Config) -> Run {
    let (world, station) = play(emulated, layers, config);
    verify(emulated, &world, station.rig.finish_hostile())
}

fn play(emulated: &Emulated, layers: Vec<Layer>, config: Config) -> (World, Station) {
    let readouts = SoftReadouts::new(emulated).unwrap();
    let mut world = World::new(emulated.seed, readouts, layers);
    let mut station = Station::new(config);
    world.run(&mut station);
    (world, station)
}

fn verify(emulated: &Emulated, world: &World, check: Check) -> Run {
    let totals = world.readouts.totals();
    let mut verifier = Verifier::new(emulated).unwrap();
    let subs = check.events.iter().flat_map(|event| &event.subs);
    let foreign = subs.filter(|sub| {
        let verified = verifier.check(&sub.bytes);
        !verified.is_ok_and(|verified| verified.source == sub.source)
    });
    let foreign = foreign.count() as u64;
    let sent = totals.by_source.iter().map(|books| books.sent.items);
    Run {
        sent: sent.collect(),
        silent: totals.by_source.iter().map(|books| books.silent).collect(),
        events: totals.events,
        foreign,
        check,
    }
}
