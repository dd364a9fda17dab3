//! Virtual time, real senders and a real receiver, and a switch's port between them.
//!
//! ```text
//! sender's clock ─ sender ─ NIC 10 Gb/s ─┐
//! sender's clock ─ sender ─ NIC 10 Gb/s ─┼─▶ port: rate, shallow buffer ─▶ a network that misbehaves ─▶ receiver
//!                                        └────────── a port of the same rate ◀── answers ──────────────────┘
//! ```
//!
//! The world knows the truth of every clock. Datagrams are the real ones, byte by byte. All follows from the seed, which a test that fails prints.

#![allow(dead_code, reason = "each test uses a part of it")]

mod books;
mod host;
mod stream;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

use forebay_emu::affine_clock::AffineClock;
use forebay_emu::port::Port;
use forebay_emu::rng::Xoshiro256;
use forebay_emu::world::{Layer, NetworkTotals, pass};
use forebay_tdm::clock::Wall;
use forebay_tdm::key::Key;
use forebay_tdm::plan::{PlanInput, WIRE_OVERHEAD_BYTES};
use forebay_tdm::receiver::{Arrival, Phase, Receiver, ReceiverConfig};
use forebay_tdm::sender::{Next, Phase as SenderPhase, Sender, SenderConfig};
use forebay_wire::tdm::{Carries, DATA_HEAD_BYTES, Kind, Mode, Packet};

pub(crate) use host::{Host, Input, Lateness, Site};
pub(crate) use stream::{Pattern, Ranges};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
/// The world begins so long after the true time 0, so that clocks may be hours behind, in ns.
pub(crate) const BEGIN_NS: u64 = 20_000 * SECOND;
const NIC_BPS: u64 = 10_000_000_000;
/// From NIC to port and from port to host, in ps.
const WAY_PS: u64 = 500_000;
const OTHERS_ADDRESS: &str = "10.0.9.9:9";

/// What a world is.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) senders: usize,
    pub(crate) planned: u16,
    pub(crate) port: PlanInput,
    pub(crate) windows: u32,
    pub(crate) bytes: u64,
    pub(crate) lateness: Lateness,
    pub(crate) key: Option<Key>,
    pub(crate) wait_ns: u64,
    pub(crate) repeat: bool,
    pub(crate) sender_wait_ns: u64,
    /// What the network does to what the port has let through, and to answers.
    pub(crate) forth: Vec<Layer>,
    pub(crate) back: Vec<Layer>,
    /// Wall clocks of all hosts are off by so much, the receiver's not, and each says this bound of its error, in ns.
    pub(crate) walls: Option<(i64, u64)>,
}

impl Setup {
    /// Senders on a port of 1 Gb/s with 128 KiB of buffer, and windows of so many ns.
    pub(crate) fn new(seed: u64, senders: usize, mode: Mode, window_ns: u64) -> Self {
        Self {
            seed,
            senders,
            planned: senders as u16,
            port: PlanInput {
                mode,
                lateness_ns: 0,
                clock_error_ns: 0,
                window_ns: Some(window_ns),
                ..PlanInput::default()
            },
            windows: 0,
            bytes: 20_000_000 / senders as u64,
            lateness: Lateness::SPIN,
            key: None,
            wait_ns: 0,
            repeat: false,
            sender_wait_ns: 0,
            forth: Vec::new(),
            back: Vec::new(),
            walls: None,
        }
    }
}

enum Event {
    /// A queue of the sender's host lets it go.
    Launch(usize, Vec<u8>),
    AtPort(usize, Vec<u8>),
    ToReceiver(SocketAddr, Vec<u8>),
    ToSender(SocketAddr, Vec<u8>),
    SenderLeft(usize, u32, u64),
    ReceiverLeft(u64, u64),
    WakeSender(usize, u64),
    WakeReceiver(u64),
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) hosts: Vec<Host>,
    pub(crate) site: Option<Site>,
    pub(crate) port: Port,
    pub(crate) forth: NetworkTotals,
    pub(crate) back: NetworkTotals,
    /// Datagrams of or for a host that are lost: a rule of the test.
    pub(crate) loses: Box<dyn FnMut(Kind, usize) -> bool>,
    /// All datagrams that reached the receiver, when a test wants them.
    pub(crate) tape: Option<Vec<(SocketAddr, Vec<u8>)>>,
    /// All answers that were sent, likewise.
    pub(crate) answers_tape: Option<Vec<(SocketAddr, Vec<u8>)>>,
    pub(crate) now_ps: u64,
    /// What has reached the receiver's socket while its process stands still.
    backlog: Option<Vec<(SocketAddr, Vec<u8>)>>,
    answers: Port,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    serial: u64,
    random: Xoshiro256,
    pattern: Pattern,
    wake: u64,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut world = Self {
            hosts: Vec::new(),
            site: None,
            port: Port::new(setup.port.link_rate_bps, setup.port.port_buffer_bytes),
            answers: Port::new(setup.port.link_rate_bps, u64::MAX / 2),
            forth: NetworkTotals::default(),
            back: NetworkTotals::default(),
            loses: Box::new(|_, _| false),
            tape: None,
            answers_tape: None,
            now_ps: BEGIN_NS * 1_000,
            backlog: None,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            serial: 0,
            random: Xoshiro256::new(setup.seed),
            pattern: Pattern::new(setup.seed),
            wake: 0,
            setup,
        };
        world.start_receiver(1);
        for _ in 0..world.setup.senders {
            world.add_host();
        }
        world
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ps / 1_000
    }

    /// Another receiver at the same address; what the one before knew is given back.
    pub(crate) fn start_receiver(&mut self, session: u64) -> Option<Site> {
        let setup = &self.setup;
        let config = ReceiverConfig {
            session,
            senders: setup.planned,
            port: setup.port.clone(),
            windows: setup.windows,
            wait_ns: setup.wait_ns,
            lead_ns: 20 * MS,
            silence_ns: SECOND,
            settle_ns: 5 * MS,
            key: setup.key.clone(),
        };
        let skew_ppb = self.random.below(20_000) as i64 - 10_000;
        let site = Site {
            receiver: Receiver::new(config),
            clock: AffineClock::new(self.random.below(SECOND * 1_000) as i64, skew_ppb),
            wake: 0,
            rows: Vec::new(),
            keeps_rows: true,
            sums: BTreeMap::new(),
            open: BTreeMap::new(),
            rows_waiting: 0,
            lost: Vec::new(),
            streams: BTreeMap::new(),
            data: 0,
            data_bytes: 0,
            wire_bytes: 0,
            last_ps: 0,
            order: Vec::new(),
        };
        let before = self.site.replace(site);
        self.push(self.now_ps, Event::WakeReceiver(0));
        before
    }

    /// The test says when a stream is written.
    pub(crate) fn confirm_by_hand(&mut self) {
        let site = self.site.take().unwrap();
        let receiver = site.receiver.confirmed_by_caller();
        self.site = Some(Site { receiver, ..site });
    }

    /// One more sender's host, which starts at once.
    pub(crate) fn add_host(&mut self) -> usize {
        let at = self.hosts.len();
        let hours = 4 * 3_600 * SECOND;
        let offset_ns = self.random.below(2 * hours) as i64 - hours as i64;
        let skew_ppb = self.random.below(200_001) as i64 - 100_000;
        self.hosts.push(Host {
            name: format!("s{at}"),
            address: SocketAddr::from(([10, 0, (at / 200) as u8, (at % 200) as u8], 4_000)),
            sender: None,
            clock: AffineClock::new(offset_ns, skew_ppb),
            lateness: self.setup.lateness,
            input: Input::of(self.setup.bytes),
            nic: Port::new(NIC_BPS, u64::MAX / 2),
            key: self.setup.key.clone(),
            wake: 0,
            data_sent: 0,
            data_dropped: 0,
            refuses: 0,
            data_refused: 0,
            errors: Vec::new(),
            starts: Vec::new(),
            window: None,
            launch_ns: 0,
        });
        self.start_sender(at);
        at
    }

    /// A new start of a sender, as a new process has it: its stream begins anew.
    pub(crate) fn start_sender(&mut self, at: usize) {
        let now_ns = self.hosts[at].clock.shows(self.now_ns());
        let host = &self.hosts[at];
        let config = SenderConfig {
            name: host.name.clone(),
            nonce: self.random.bits() | 1,
            share: 1,
            packet_bytes_max: 1472,
            carries: Carries::Bytes,
            repeat: self.setup.repeat,
            wait_ns: self.setup.sender_wait_ns,
            lateness_ns: host.lateness.most_ns,
            real_time: true,
            key: host.key.clone(),
        };
        self.hosts[at].sender = Some(Sender::new(config, now_ns));
        self.drive_sender(at);
    }

    pub(crate) fn sender(&self, at: usize) -> &Sender {
        self.hosts[at].sender.as_ref().unwrap()
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.site.as_ref().unwrap().receiver
    }

    /// Somebody presses Ctrl-C at a sender.
    pub(crate) fn stop_sender(&mut self, at: usize) {
        self.hosts[at].sender.as_mut().unwrap().stop();
        self.drive_sender(at);
    }

    pub(crate) fn stop_receiver(&mut self) {
        let now_ns = self.now_ns();
        let site = self.site.as_mut().unwrap();
        site.receiver.stop(site.clock.shows(now_ns));
        self.drive_receiver();
    }

    /// A sender's clock is set; `is_told`: it learns of it from its kernel.
    pub(crate) fn step_clock(&mut self, at: usize, by_ns: i64, is_told: bool) {
        let now_ns = self.now_ns();
        self.hosts[at].clock.step(now_ns, by_ns);
        if let Some(sender) = self.hosts[at].sender.as_mut().filter(|_| is_told) {
            sender.drop_exchanges();
        }
        self.drive_sender(at);
    }

    /// Somebody else sends the receiver a datagram.
    pub(crate) fn inject(&mut self, from: Option<SocketAddr>, bytes: Vec<u8>) {
        let from = from.unwrap_or_else(|| OTHERS_ADDRESS.parse().unwrap());
        let tape = self.tape.take();
        self.arrive_at_receiver(from, &bytes);
        self.tape = tape;
    }

    /// Somebody else sends a sender a datagram in the receiver's name.
    pub(crate) fn inject_answer(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.arrive_at_sender(to, bytes);
    }

    /// Runs until all are over; a side that is not by `limit_ns` after the beginning hangs.
    pub(crate) fn run(&mut self, limit_ns: u64) {
        while !self.is_over() {
            assert!(
                self.step(),
                "nothing is due, and it is not over: {}",
                self.shows()
            );
            assert!(
                self.now_ns() < BEGIN_NS + limit_ns,
                "it hangs: {}",
                self.shows()
            );
        }
    }

    /// Runs until so long after the beginning.
    pub(crate) fn run_until(&mut self, ns: u64) {
        let until_ps = (BEGIN_NS + ns) * 1_000;
        while let Some(Reverse((at_ps, _))) = self.queue.peek() {
            if *at_ps > until_ps {
                break;
            }
            self.step();
        }
        self.now_ps = self.now_ps.max(until_ps);
    }

    /// Runs until the receiver's first window begins.
    pub(crate) fn run_to_start(&mut self) {
        while *self.receiver().phase() != Phase::Running {
            assert!(
                self.step() && self.now_ns() < BEGIN_NS + 60 * SECOND,
                "{}",
                self.shows()
            );
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        let over = |host: &Host| {
            host.sender
                .as_ref()
                .is_none_or(|sender| matches!(sender.phase(), SenderPhase::Over(_)))
        };
        let site = self.site.as_ref();
        self.hosts.iter().all(over)
            && site.is_none_or(|site| {
                matches!(site.receiver.phase(), Phase::Over(_) | Phase::Failed(_))
            })
    }

    /// Where everybody stands.
    pub(crate) fn shows(&self) -> String {
        let mut text = format!("at {} us", (self.now_ns() - BEGIN_NS) / 1_000);
        for host in &self.hosts {
            let phase = host.sender.as_ref().map(Sender::phase);
            text += &format!(", {} {phase:?}", host.name);
        }
        if let Some(site) = &self.site {
            text += &format!(", receiver {:?}", site.receiver.phase());
            for peer in site.receiver.peers() {
                text += &format!("\n  {peer:?}");
            }
        }
        text
    }

    fn push(&mut self, at_ps: u64, event: Event) {
        self.serial += 1;
        self.queue.push(Reverse((at_ps, self.serial)));
        self.events.insert(self.serial, event);
    }

    /// The next event; false when there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(Reverse((at_ps, serial))) = self.queue.pop() else {
            return false;
        };
        self.now_ps = self.now_ps.max(at_ps);
        match self.events.remove(&serial).unwrap() {
            Event::Launch(host, bytes) => self.leave(host, bytes),
            Event::AtPort(host, bytes) => self.at_port(host, bytes),
            Event::ToReceiver(from, bytes) => self.arrive_at_receiver(from, &bytes),
            Event::ToSender(to, bytes) => self.arrive_at_sender(to, &bytes),
            Event::SenderLeft(at, sequence, stamp_ns) => {
                if let Some(sender) = &mut self.hosts[at].sender {
                    sender.handle_left(sequence, stamp_ns);
                }
                self.drive_sender(at);
            }
            Event::ReceiverLeft(stamp, left_ns) => {
                if let Some(site) = &mut self.site {
                    site.receiver.handle_left(stamp, left_ns);
                }
                self.drive_receiver();
            }
            Event::WakeSender(at, wake) => {
                if self.hosts[at].wake == wake {
                    self.drive_sender(at);
                }
            }
            Event::WakeReceiver(wake) => {
                if self.site.as_ref().is_some_and(|site| site.wake == wake) {
                    self.drive_receiver();
                }
            }
        }
        true
    }

    fn at_port(&mut self, at: usize, bytes: Vec<u8>) {
        let wire = bytes.len() as u64 + u64::from(WIRE_OVERHEAD_BYTES);
        let is_data = kind_of(&bytes) == Some(Kind::Data);
        let address = self.hosts[at].address;
        let Some(left_ps) = self.port.offer(self.now_ps, wire) else {
            self.hosts[at].data_dropped += u64::from(is_data);
            return;
        };
        if kind_of(&bytes).is_some_and(|kind| (self.loses)(kind, at)) {
            self.forth.lost += 1;
            self.hosts[at].data_dropped += u64::from(is_data);
            return;
        }
        if self.setup.forth.is_empty() {
            self.push(left_ps + WAY_PS, Event::ToReceiver(address, bytes));
            return;
        }
        let copies = pass(
            &self.setup.forth,
            &mut self.random,
            &mut self.forth,
            bytes.clone(),
        );
        let mut good = false;
        for copy in copies {
            let same_head = copy.bytes.get(..DATA_HEAD_BYTES) == bytes.get(..DATA_HEAD_BYTES);
            if is_data && same_head && copy.bytes != bytes && self.setup.key.is_none() {
                // UDP's own checksum holds the payload.
                continue;
            }
            good |= copy.bytes == bytes;
            let at_ps = left_ps + WAY_PS + copy.delay_ns * 1_000;
            self.push(at_ps, Event::ToReceiver(address, copy.bytes));
        }
        self.hosts[at].data_dropped += u64::from(is_data && !good);
    }

    /// What the kernel's stamp is late by, in ns.
    fn noise_ns(&mut self) -> u64 {
        let most = if self.random.below(100) == 0 {
            5_000
        } else {
            200
        };
        self.random.below(most)
    }

    /// The receiver's process stands still for so long, and then reads what lies in its socket.
    pub(crate) fn hold_receiver(&mut self, for_ns: u64) {
        self.backlog = Some(Vec::new());
        self.run_until(self.now_ns() - BEGIN_NS + for_ns);
        for (from, bytes) in self.backlog.take().unwrap_or_default() {
            self.arrive_at_receiver(from, &bytes);
            self.drive_receiver();
        }
        self.wake_receiver(self.now_ns());
    }

    fn arrive_at_receiver(&mut self, from: SocketAddr, bytes: &[u8]) {
        if let Some(backlog) = &mut self.backlog {
            backlog.push((from, bytes.to_vec()));
            return;
        }
        if let Some(tape) = &mut self.tape {
            tape.push((from, bytes.to_vec()));
        }
        let now_ns = self.now_ns() + self.noise_ns();
        let Some(site) = &mut self.site else {
            return;
        };
        let shown_ns = site.clock.shows(now_ns);
        let arrival = site
            .receiver
            .handle_datagram(shown_ns, from, Some(shown_ns), bytes);
        match arrival {
            Arrival::Data {
                sender,
                window,
                offset,
                payload,
                ..
            } => {
                let host = self.hosts.iter().position(|host| host.address == from);
                let host = host.expect("data of a host that there is");
                assert!(
                    payload == self.pattern.bytes(host, offset, payload.len()),
                    "wrong bytes at {offset} of {host}"
                );
                let restarts = site
                    .receiver
                    .peers()
                    .nth(usize::from(sender))
                    .unwrap()
                    .restarts;
                let stream = site.streams.entry((sender, restarts)).or_default();
                let end = offset + payload.len() as u64;
                assert!(stream.add(offset, end), "{offset} of {sender} came twice");
                *site.open.entry((sender, window)).or_default() += 1;
                site.data += 1;
                site.data_bytes += payload.len() as u64;
                site.wire_bytes += bytes.len() as u64 + u64::from(WIRE_OVERHEAD_BYTES);
                site.last_ps = self.now_ps;
                if site.keeps_rows {
                    let window = Packet::parse(bytes).map(|packet| packet.message);
                    let Ok(forebay_wire::tdm::Message::Data(data)) = window else {
                        panic!("data that is none")
                    };
                    site.order.push((sender, data.window));
                }
            }
            Arrival::Dropped(_) if kind_of(bytes) == Some(Kind::Data) => {}
            Arrival::Dropped(_) | Arrival::Control(_) => {
                // The receiver's thread answers a little later.
                let later_ns = 2_000 + self.random.below(15_000);
                self.wake_receiver(self.now_ns() + later_ns);
            }
        }
    }

    fn arrive_at_sender(&mut self, to: SocketAddr, bytes: &[u8]) {
        let noise_ns = self.noise_ns();
        let Some(at) = self.hosts.iter().position(|host| host.address == to) else {
            return;
        };
        let now_ns = self.now_ns() + noise_ns;
        let host = &mut self.hosts[at];
        let shown_ns = host.clock.shows(now_ns);
        if let Some(sender) = &mut host.sender {
            // What is not taken is counted by the sender itself.
            let _ = sender.handle_datagram(shown_ns, Some(shown_ns), bytes);
            self.drive_sender(at);
        }
    }

    fn wake_receiver(&mut self, at_ns: u64) {
        self.wake += 1;
        let wake = self.wake;
        if let Some(site) = &mut self.site {
            site.wake = wake;
            self.push(at_ns.max(self.now_ns()) * 1_000, Event::WakeReceiver(wake));
        }
    }

    pub(crate) fn drive_receiver(&mut self) {
        if self.backlog.is_some() {
            return;
        }
        let now_ns = self.now_ns();
        let mut out = [0; 256];
        loop {
            let Some(site) = &mut self.site else { return };
            let shown_ns = site.clock.shows(now_ns);
            let Some(transmit) = site.receiver.poll_transmit(shown_ns, &mut out) else {
                break;
            };
            let bytes = out[..transmit.bytes].to_vec();
            if let Some(tape) = &mut self.answers_tape {
                tape.push((transmit.to, bytes.clone()));
            }
            if let Some(stamp) = transmit.stamp {
                let left_ns = site.clock.shows(now_ns + self.random.below(200));
                self.push(self.now_ps + 3_000_000, Event::ReceiverLeft(stamp, left_ns));
            }
            let wire = bytes.len() as u64 + u64::from(WIRE_OVERHEAD_BYTES);
            let left_ps = self.answers.offer(self.now_ps, wire).unwrap();
            let to = self
                .hosts
                .iter()
                .position(|host| host.address == transmit.to);
            let to = to.unwrap_or(usize::MAX);
            if kind_of(&bytes).is_some_and(|kind| (self.loses)(kind, to)) {
                self.back.lost += 1;
                continue;
            }
            // As many hops as on the way there: the NIC's time is on it, too.
            let nic_ps = wire * 8 * 1_000_000_000_000 / NIC_BPS;
            let copies = pass(&self.setup.back, &mut self.random, &mut self.back, bytes);
            for copy in copies {
                let at_ps = left_ps + 2 * WAY_PS + nic_ps + copy.delay_ns * 1_000;
                self.push(at_ps, Event::ToSender(transmit.to, copy.bytes));
            }
        }
        self.take_rows();
        let Some(site) = &mut self.site else { return };
        if let Some(timeout_ns) = site.receiver.poll_timeout() {
            let shown_ns = site.clock.shows(now_ns);
            assert!(
                timeout_ns > shown_ns,
                "the receiver has nothing to do, and wants to be woken in the past: {timeout_ns} at {shown_ns}"
            );
            let late_ns = self.random.below(5_000);
            let at_ns = site.clock.truth(timeout_ns).max(now_ns) + late_ns;
            self.wake_receiver(at_ns);
        }
    }

    pub(crate) fn drive_sender(&mut self, at: usize) {
        let now_ns = self.now_ns();
        let shown_ns = self.hosts[at].clock.shows(now_ns);
        if let (Some((off_ns, error_ns)), Some(sender)) =
            (self.setup.walls, &mut self.hosts[at].sender)
        {
            let ahead_ns = now_ns.cast_signed() - shown_ns.cast_signed() + off_ns;
            sender.handle_wall(shown_ns, Some(Wall { ahead_ns, error_ns }));
            if let Some(site) = &mut self.site {
                let shown_ns = site.clock.shows(now_ns).cast_signed();
                let ahead_ns = now_ns.cast_signed() - shown_ns;
                site.receiver.handle_wall(Some(Wall { ahead_ns, error_ns }));
            }
        }
        let mut next = self.send_all(at, shown_ns);
        let host = &mut self.hosts[at];
        let Some(sender) = &host.sender else { return };
        if let Next::Input(until_ns) = next {
            // Input comes when it comes; here it is looked for often.
            next = Next::At(until_ns.min(shown_ns + 50_000));
        }
        let next_ns = match next {
            Next::At(at_ns) => Some(at_ns),
            _ => None,
        };
        if let Some(wake_ns) = sender.poll_timeout().into_iter().chain(next_ns).min() {
            assert!(
                wake_ns > shown_ns,
                "{} has nothing to do, and wants to be woken in the past: {wake_ns} at {shown_ns}, {next:?}, {:?}",
                host.name,
                sender.poll_timeout()
            );
            let late_ns = host.lateness.draw(&mut self.random);
            let at_ns = host.clock.truth(wake_ns).max(now_ns) + late_ns;
            self.wake += 1;
            self.hosts[at].wake = self.wake;
            self.push(at_ns * 1_000, Event::WakeSender(at, self.wake));
        }
    }

    fn send_all(&mut self, at: usize, shown_ns: u64) -> Next {
        let mut out = [0; 2_048];
        let mut again = true;
        loop {
            loop {
                let Some(sender) = &mut self.hosts[at].sender else {
                    return Next::Idle;
                };
                let Some(transmit) = sender.poll_transmit(shown_ns, &mut out) else {
                    break;
                };
                let bytes = out[..transmit.bytes].to_vec();
                if let Some(sequence) = transmit.stamp {
                    let left_ns = self.now_ns().max(self.hosts[at].launch_ns);
                    let left_ns = left_ns + self.random.below(200);
                    let left_ns = self.hosts[at].clock.shows(left_ns);
                    self.push(
                        self.now_ps + 2_000_000,
                        Event::SenderLeft(at, sequence, left_ns),
                    );
                }
                self.through_nic(at, bytes);
            }
            let since_ns = self.now_ns() - BEGIN_NS;
            let host = &mut self.hosts[at];
            let Some(sender) = &mut host.sender else {
                return Next::Idle;
            };
            let full = sender.payload_bytes() as u64;
            let come = host.input.come(since_ns);
            let ended = come == host.input.bytes;
            let left = come.saturating_sub(sender.offset());
            let available = match full {
                0 => 0,
                full if ended => left.div_ceil(full),
                full => left / full,
            };
            match sender.poll_burst(shown_ns, available, ended) {
                Next::Burst(packets) => self.burst(at, shown_ns, packets, left),
                next => {
                    // A window that was closed has made a report.
                    let is_due = sender
                        .poll_timeout()
                        .is_some_and(|due_ns| due_ns <= shown_ns);
                    if !(is_due && std::mem::take(&mut again)) {
                        return next;
                    }
                }
            }
        }
    }

    fn burst(&mut self, at: usize, shown_ns: u64, packets: u32, left: u64) {
        assert!(packets > 0);
        let host = &mut self.hosts[at];
        let leaves_ns = host.sender.as_ref().unwrap().leaves_ns(shown_ns);
        if leaves_ns > shown_ns {
            host.launch_ns = host.clock.truth(leaves_ns);
        }
        let shown_ns = leaves_ns;
        self.look_at_clock(at, shown_ns);
        let (mut ahead, mut refused) = (0, 0);
        for packet in 0..packets {
            let host = &self.hosts[at];
            let sender = host.sender.as_ref().unwrap();
            let length = (sender.payload_bytes() as u64).min(left - ahead) as usize;
            assert!(length > 0);
            let mut out = [0; 2_048];
            let front = sender
                .front(shown_ns, packet, ahead, length, &mut out)
                .unwrap();
            let payload = self.pattern.bytes(at, sender.offset() + ahead, length);
            let mut bytes = out[..front].to_vec();
            bytes.extend_from_slice(payload);
            if let Some(key) = &host.key {
                bytes.extend_from_slice(&key.tag(&[&out[..front], payload]));
            }
            ahead += length as u64;
            let host = &mut self.hosts[at];
            host.data_sent += 1;
            if host.data_sent.is_multiple_of(host.refuses) {
                host.data_refused += 1;
                host.data_dropped += 1;
                refused += 1;
            } else {
                self.through_nic(at, bytes);
            }
        }
        let sender = self.hosts[at].sender.as_mut().unwrap();
        sender.burst_sent(shown_ns, packets, refused, ahead);
    }

    /// The truth about a sender's clock, at the first packet of each window.
    fn look_at_clock(&mut self, at: usize, shown_ns: u64) {
        let now_ns = self.now_ns().max(self.hosts[at].launch_ns);
        let host = &mut self.hosts[at];
        let sender = host.sender.as_ref().unwrap();
        let mut out = [0; 2_048];
        let front = sender.front(shown_ns, 0, 0, 100, &mut out).unwrap();
        // Its number stands behind the packet's, the offset and the time.
        let window = out[front - 8..front - 4].first_chunk::<4>().unwrap();
        let window = u32::from_be_bytes(*window);
        if host.window.replace(window) == Some(window) {
            return;
        }
        let (Some(line), Some(site)) = (sender.clock().line(), &self.site) else {
            return;
        };
        let error_ns = line.remote_ns(shown_ns).abs_diff(site.clock.shows(now_ns));
        host.errors.push((error_ns, line.error_at_ns(shown_ns)));
        let welcome = sender.welcome().unwrap();
        if welcome.mode != Mode::Credit {
            let start_ns = welcome.start_ns + u64::from(window) * welcome.cycle_ns;
            let start_ns = site.clock.truth(start_ns);
            host.starts
                .push(now_ns.cast_signed() - start_ns.cast_signed());
        }
    }

    /// What is sent behind a burst with a launch time leaves behind it.
    fn through_nic(&mut self, at: usize, bytes: Vec<u8>) {
        let launch_ps = self.hosts[at].launch_ns * 1_000;
        if launch_ps > self.now_ps {
            self.push(launch_ps, Event::Launch(at, bytes));
        } else {
            self.leave(at, bytes);
        }
    }

    fn leave(&mut self, at: usize, bytes: Vec<u8>) {
        let wire = bytes.len() as u64 + u64::from(WIRE_OVERHEAD_BYTES);
        let left_ps = self.hosts[at].nic.offer(self.now_ps, wire).unwrap();
        self.push(left_ps + WAY_PS, Event::AtPort(at, bytes));
    }
}

/// The kind of a datagram that a sender or receiver here has made.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<Kind> {
    Packet::parse(bytes)
        .ok()
        .map(|packet| packet.message.kind())
}

impl Drop for World {
    /// A test that fails tells how to repeat it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("world: seed {}, {}", self.setup.seed, self.shows());
        }
    }
}
