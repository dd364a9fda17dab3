//! The whole engine in virtual time: clients that behave, that never give back, that lie and that die, under every policy.

#![allow(clippy::unwrap_used)]

mod world;

use std::collections::VecDeque;

use forebay_ledger::{
    DropReason, GroupWriter, LedgerReader, OneOf, RunWriter, SchemaBuilder, Words,
};
use forebay_mux::account::Accounts;
use forebay_mux::buffers::{BufferId, DeliveryDrop, Lent, ReturnFault, Share};
use forebay_mux::classify::{Classifier, FrameDrop, Multicast, Rule, Wish};
use forebay_mux::descriptor::{Descriptor, TransmitFault, TransmitLimits};
use forebay_mux::policy::{PerClient, PolicyConfig};
use forebay_mux::responder::Address;
use forebay_mux::transmit::{ClassConfig, Next, Packet, Sender, TransmitDrop};
use forebay_mux::{ClientConfig, ClientId, Items, Mac, Mux, MuxConfig, Outlet, Refused, Returned};
use proptest::prelude::*;
use world::{MS, bucket, id, schedule, window};

const CLIENTS: u8 = 5;
/// It behaves: holds less than its guarantee, hands over what fits.
const POLITE: u8 = 0;
const POLITE_TOO: u8 = 1;
/// It never gives back.
const SLOW: u8 = 2;
/// It lies.
const HOSTILE: u8 = 3;
/// It comes and goes.
const MORTAL: u8 = 4;
const GUARANTEED: u32 = 6;
const REGION: u32 = 16;
/// Buffers that the card always has: every other frame is received into one of them, and the others are copied.
const CARD: u32 = 3;

fn mac(client: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, client])
}

fn config(client: u8) -> ClientConfig {
    ClientConfig {
        share: Share {
            queue_frames: if client == SLOW { 200 } else { 12 },
            guaranteed_frames: GUARANTEED,
        },
        sender: Sender {
            class: usize::from(client == POLITE_TOO),
            queue_packets: 12,
            sojourn_max_ns: (client > POLITE_TOO).then_some(2 * MS),
        },
        limits: TransmitLimits {
            buffers: REGION,
            buffer_bytes: 2048,
            frame_bytes_max: 1514,
            source: mac(client).into(),
        },
    }
}

fn policies() -> Vec<PolicyConfig> {
    let level = PerClient::all(0).with(id(POLITE), 1);
    vec![
        PolicyConfig::Signalled { burst_packets: 4 },
        PolicyConfig::RoundRobin,
        PolicyConfig::DeficitRoundRobin {
            quantum_bytes: PerClient::all(1514),
        },
        PolicyConfig::Priority {
            level,
            guard_ns: Some(MS),
        },
        bucket(50_000_000, 3000),
        window(50_000_000),
        PolicyConfig::Tdm(schedule(CLIENTS, 1_000_000_000)),
    ]
}

/// Memory of the receive buffers, and what each client was given.
struct Memory {
    frame: Vec<u8>,
    /// The buffer that the frame was received into.
    landed: Option<u32>,
    buffers: Vec<Vec<u8>>,
    given: Vec<VecDeque<(BufferId, Vec<u8>)>>,
    answers: u64,
}

impl Outlet for Memory {
    fn give(&mut self, client: ClientId, buffer: BufferId) {
        match self.landed {
            Some(landed) => assert_eq!(buffer, BufferId(landed)),
            None => self.buffers[buffer.0 as usize].clone_from(&self.frame),
        }
        self.given[client.index()].push_back((buffer, self.frame.clone()));
    }

    fn answer(&mut self, frame: &[u8]) {
        assert!(frame.len() >= 60);
        self.answers += 1;
    }
}

struct World {
    mux: Mux,
    memory: Memory,
    in_card: VecDeque<(ClientId, Packet)>,
    /// Buffers that the card receives into.
    lent: VecDeque<Lent>,
    /// Buffers of their regions that well-behaved clients have themselves.
    own: Vec<Vec<u32>>,
    now_ns: u64,
    frames: u64,
}

fn classifier() -> Classifier {
    let rules: Vec<_> = (0..CLIENTS)
        .map(|client| Rule {
            destination_mac: Some(mac(client)),
            ..Rule::of(id(client))
        })
        .collect();
    let wish = |client| Wish {
        client: id(client),
        vlan: None,
        broadcast: true,
        multicast: Multicast::All,
    };
    Classifier::new(&rules, &[wish(POLITE), wish(SLOW), wish(MORTAL)]).unwrap()
}

impl World {
    fn new(first: usize, second: usize) -> Self {
        let class = |policy: usize| ClassConfig {
            policy: policies()[policy].clone(),
            guard_ns: Some(MS),
        };
        let buffers = u32::from(CLIENTS) * GUARANTEED + 5;
        let config_of_mux = MuxConfig {
            receive_buffers: buffers,
            card_buffers: CARD,
            classes: vec![class(first), class(second)],
            faults_of_a_kind_max: Some(20),
        };
        let mut mux = Mux::new(&config_of_mux, classifier()).unwrap();
        for client in 0..CLIENTS {
            mux.add_client(id(client), &config(client)).unwrap();
            let address = Address {
                client: id(client),
                ip: [10, 0, 0, client + 1].into(),
                mac: mac(client),
                vlan: None,
            };
            mux.responder().add(address).unwrap();
        }
        let memory = Memory {
            frame: Vec::new(),
            landed: None,
            buffers: vec![Vec::new(); (buffers + CARD) as usize],
            given: vec![VecDeque::new(); CLIENTS.into()],
            answers: 0,
        };
        let own = vec![(0..REGION).collect(); CLIENTS.into()];
        Self {
            mux,
            memory,
            in_card: VecDeque::new(),
            lent: VecDeque::new(),
            own,
            now_ns: 0,
            frames: 0,
        }
    }

    fn frame(&mut self, to: Mac, length: usize) {
        let mut frame = [&to.0[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5]].concat();
        frame.extend(self.frames.to_be_bytes());
        frame.resize(length.max(22), 7);
        self.receive(frame);
    }

    fn receive(&mut self, frame: Vec<u8>) {
        self.frames += 1;
        self.memory.frame.clone_from(&frame);
        if self.frames.is_multiple_of(2) {
            self.memory.landed = None;
            self.mux.handle_frame(&frame, &mut self.memory);
            return;
        }
        // As a card does: it has all that it may have before a frame comes, and writes it into the one that it had first.
        self.lent.extend(std::iter::from_fn(|| self.mux.lend()));
        assert_eq!(self.lent.len(), CARD as usize);
        let buffer = self.lent.pop_front().unwrap();
        let number = buffer.number();
        self.memory.buffers[number as usize].clone_from(&frame);
        self.memory.landed = Some(number);
        let back = self.mux.handle_frame_in(buffer, &frame, &mut self.memory);
        self.lent.extend(back);
    }

    /// A well-behaved client gives back all that it has, and finds it as it was given.
    fn tidy(&mut self, client: u8) {
        while let Some((buffer, frame)) = self.memory.given[usize::from(client)].pop_front() {
            assert_eq!(
                self.memory.buffers[buffer.0 as usize], frame,
                "another client wrote into a buffer that client {client} has"
            );
            assert_eq!(self.mux.take_back(id(client), buffer), Returned::Taken);
        }
    }

    /// A well-behaved client hands over a packet, if its queue has room.
    fn send(&mut self, client: u8, length: u32) {
        if self.own[usize::from(client)].len() <= 4 {
            return;
        }
        let buffer = self.own[usize::from(client)].pop().unwrap();
        let descriptor = Descriptor {
            buffer,
            offset: 0,
            length,
        };
        let offered = self.mux.offer(id(client), descriptor, self.now_ns, |_| {
            Some(mac(client).into())
        });
        assert_eq!(offered, Ok(()));
    }

    fn lie(&mut self, client: u8, descriptor: Descriptor, source: u8) {
        let _ = self.mux.offer(id(client), descriptor, self.now_ns, |_| {
            Some(mac(source).into())
        });
    }

    fn poll(&mut self, ns: u64) {
        self.now_ns += ns;
        let (own, now_ns) = (&mut self.own, self.now_ns);
        let next = self
            .mux
            .poll(now_ns, |client, buffer| own[client.index()].push(buffer));
        match next {
            Next::Send(client, packet) => self.in_card.push_back((client, packet)),
            Next::AskAt(at_ns) => assert!(at_ns > now_ns),
            Next::Idle => {}
        }
    }

    fn finish(&mut self, is_sent: bool) {
        if let Some((client, packet)) = self.in_card.pop_front()
            && self.mux.finish(client, packet, is_sent)
        {
            self.own[client.index()].push(packet.buffer);
        }
    }

    fn die(&mut self, client: u8) {
        self.mux.remove_client(id(client));
        self.memory.given[usize::from(client)].clear();
    }

    fn live(&mut self, client: u8) {
        let is_new = self.mux.add_client(id(client), &config(client)).is_ok();
        if is_new {
            self.own[usize::from(client)] = (0..REGION).collect();
        }
    }

    /// Clients that behave have lost nothing, but what the card did not take.
    fn check(&self) {
        let residual = self.mux.residual();
        assert!(residual.is_zero(), "{residual:?}");
        for client in (0..CLIENTS).map(id) {
            assert_eq!(self.mux.counts(client), self.mux.counts_now(client));
        }
        for client in [POLITE, POLITE_TOO] {
            let counts = self.mux.counts(id(client));
            assert_eq!(
                counts.delivery.dropped.total(),
                Items::default(),
                "client {client}"
            );
            for (why, items) in counts.transmit.dropped.iter() {
                let is_of_card = why == OneOf::Second(TransmitDrop::Card);
                assert!(
                    is_of_card || items == Items::default(),
                    "client {client}: {}",
                    why.name()
                );
            }
        }
    }

    /// The ledger closes as well, with terms of two observers on each link.
    fn check_ledger(&self) {
        let mut schema = SchemaBuilder::new("a run");
        let accounts = Accounts::declare(&mut schema, &["a", "b", "c", "d", "e"]);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut group = GroupWriter::attach(&schema, &words, accounts.group).unwrap();
        let mut book = group.restore();
        accounts.write_all(&mut book, self.mux.frames(), self.mux.questions());
        for client in 0..CLIENTS {
            accounts.write_client(&mut book, client.into(), &self.mux.counts(id(client)));
        }
        group.commit(&book);
        let balance = LedgerReader::open(&words)
            .unwrap()
            .snapshot()
            .unwrap()
            .balance();
        assert_eq!((balance.residual_items, balance.residual_bytes), (0, 0));
        let sheet = |place: &str, owner: &str| {
            balance
                .accounts
                .iter()
                .find(|line| line.place == place && line.owner == owner)
                .unwrap()
                .incoming
                .items
        };
        assert_eq!(sheet("mux_classify", "card"), self.frames);
        assert_eq!(
            sheet("mux_transmit", "a"),
            self.mux.counts(id(0)).transmit.asked.items
        );
        assert_eq!(balance.links.len(), usize::from(CLIENTS));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame(u8, usize),
    Group(bool, usize),
    Question(u8),
    Garbage(Vec<u8>),
    Send(u8, u32),
    Lie(u32, u32, u32, u8),
    Return(u32),
    Poll(u64),
    Finish(bool),
    Die(u8),
    Live(u8),
    Policy(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let buffer = || prop_oneof![0..20_u32, any::<u32>()];
    let length = || prop_oneof![14..1515_u32, any::<u32>()];
    prop_oneof![
        6 => (0..CLIENTS + 1, 22..1514_usize).prop_map(|(client, length)| Step::Frame(client, length)),
        2 => (any::<bool>(), 22..100_usize).prop_map(|(is_all, length)| Step::Group(is_all, length)),
        1 => (0..CLIENTS + 2).prop_map(Step::Question),
        1 => proptest::collection::vec(any::<u8>(), 0..80).prop_map(Step::Garbage),
        6 => (prop_oneof![Just(POLITE), Just(POLITE_TOO), Just(SLOW), Just(MORTAL)], 14..1515_u32).prop_map(|(client, length)| Step::Send(client, length)),
        3 => (buffer(), buffer(), length(), 2..5_u8).prop_map(|(buffer, offset, length, source)| Step::Lie(buffer, offset, length, source)),
        2 => (0..40_u32).prop_map(Step::Return),
        8 => (0..300_000_u64).prop_map(Step::Poll),
        6 => any::<bool>().prop_map(Step::Finish),
        1 => prop_oneof![Just(HOSTILE), Just(MORTAL), Just(SLOW)].prop_map(Step::Die),
        2 => prop_oneof![Just(HOSTILE), Just(MORTAL), Just(SLOW)].prop_map(Step::Live),
        1 => (0..2_usize, 0..7_usize).prop_map(|(class, policy)| Step::Policy(class, policy)),
    ]
}

fn question(target: u8) -> Vec<u8> {
    let mut frame = [
        &[0xff; 6][..],
        &[2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
    ]
    .concat();
    frame.extend([
        2, 0, 0, 0, 0, 9, 10, 0, 0, 99, 0, 0, 0, 0, 0, 0, 10, 0, 0, target,
    ]);
    frame
}

fn apply(world: &mut World, step: &Step) {
    match step {
        Step::Frame(client, length) => world.frame(mac(*client), *length),
        Step::Group(is_all, length) => {
            let to = if *is_all {
                Mac::BROADCAST
            } else {
                Mac([1, 0, 0x5e, 0, 0, 1])
            };
            world.frame(to, *length);
        }
        Step::Question(target) => world.receive(question(*target)),
        Step::Garbage(bytes) => world.receive(bytes.clone()),
        Step::Send(client, length) if *client <= POLITE_TOO => world.send(*client, *length),
        Step::Send(client, length) => {
            // Of a region of 16: some of it again before it came back.
            let buffer = *length % REGION;
            world.lie(
                *client,
                Descriptor {
                    buffer,
                    offset: 0,
                    length: *length,
                },
                *client,
            );
        }
        Step::Lie(buffer, offset, length, source) => {
            world.lie(
                HOSTILE,
                Descriptor {
                    buffer: *buffer,
                    offset: *offset,
                    length: *length,
                },
                *source,
            );
        }
        Step::Return(buffer) => {
            let _ = world.mux.take_back(id(HOSTILE), BufferId(*buffer));
        }
        Step::Poll(ns) => world.poll(*ns),
        Step::Finish(is_sent) => world.finish(*is_sent),
        Step::Die(client) => world.die(*client),
        Step::Live(client) => world.live(*client),
        Step::Policy(class, policy) => world
            .mux
            .set_policy(*class, &policies()[*policy], world.now_ns)
            .unwrap(),
    }
    for client in [POLITE, POLITE_TOO] {
        // They hold one less than they are guaranteed before the next frame comes.
        if world.memory.given[usize::from(client)].len() as u32 >= GUARANTEED - 1 {
            world.tidy(client);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_equation_closes_and_clients_that_behave_lose_nothing(
        first in 0..7_usize,
        second in 0..7_usize,
        steps in proptest::collection::vec(step(), 0..400),
    ) {
        let mut world = World::new(first, second);
        for step in &steps {
            apply(&mut world, step);
            world.check();
        }
        world.check_ledger();
        [POLITE, POLITE_TOO].into_iter().for_each(|client| world.tidy(client));
        (0..CLIENTS).for_each(|client| world.die(client));
        while !world.in_card.is_empty() {
            world.finish(true);
        }
        prop_assert_eq!(world.mux.lent_frames() as usize, world.lent.len());
        world.lent.drain(..).for_each(|buffer| world.mux.put_back(buffer));
        prop_assert_eq!(world.mux.free_frames() as usize, world.memory.buffers.len());
        for client in 0..CLIENTS {
            let counts = world.mux.counts(id(client));
            prop_assert_eq!((counts.receive_held, counts.transmit_held), (Items::default(), Items::default()));
        }
        prop_assert!(world.mux.residual().is_zero());
        world.check_ledger();
    }
}

#[test]
fn a_frame_to_all_lies_in_one_buffer_and_its_question_is_answered() {
    let mut world = World::new(1, 1);
    let free = world.mux.free_frames();
    // The first of two that are received into buffers of the card: it has three of them, then two.
    world.receive(question(1));
    assert_eq!(world.mux.free_frames(), free - CARD);
    assert_eq!(world.mux.lent_frames(), CARD - 1);
    let given: Vec<_> = world.memory.given.iter().map(VecDeque::len).collect();
    assert_eq!((given, world.memory.answers), (vec![1, 0, 1, 0, 1], 1));
    world.receive(question(77));
    assert_eq!((world.mux.questions().asked, world.memory.answers), (2, 1));
    // To one station it is for the responder alone.
    let mut single = question(1);
    single[..6].copy_from_slice(&mac(1).0);
    world.receive(single);
    assert_eq!(
        (world.memory.answers, world.mux.frames().to_responder.items),
        (2, 1)
    );
    world.check();
}

#[test]
fn one_that_lies_too_often_is_disconnected_and_no_other_notices() {
    let mut world = World::new(1, 1);
    world.frame(mac(HOSTILE), 100);
    let lie = Descriptor {
        buffer: 99,
        offset: 0,
        length: 64,
    };
    for _ in 0..20 {
        let refused = world.mux.offer(id(HOSTILE), lie, 0, |_| None);
        assert!(matches!(refused, Err(Refused::Fault(_))));
    }
    let refused = world.mux.offer(id(HOSTILE), lie, 0, |_| panic!("copied"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "buffer 99; there are 16, once too often"
    );
    assert!(!world.mux.clients().contains(id(HOSTILE)));
    let counts = world.mux.counts(id(HOSTILE));
    assert_eq!(
        (counts.receive.reclaimed.items, counts.receive_held.items),
        (1, 0)
    );
    let lost = counts.transmit.dropped[OneOf::First(TransmitFault::BufferUnknown)];
    assert_eq!(
        lost,
        Items {
            items: 21,
            bytes: 0
        }
    );
    // What it says then, and what comes for it, is dropped by name.
    let refused = world.mux.offer(
        id(HOSTILE),
        Descriptor {
            buffer: 0,
            offset: 0,
            length: 64,
        },
        0,
        |_| None,
    );
    assert_eq!(refused, Err(Refused::Dropped(TransmitDrop::ClientGone)));
    let counts = world.mux.counts(id(HOSTILE));
    let lost = counts.transmit.dropped[OneOf::Second(TransmitDrop::ClientGone)];
    assert_eq!(lost, Items { items: 1, bytes: 0 });
    // Its address is answered for no longer.
    world.receive(question(HOSTILE + 1));
    assert_eq!(world.memory.answers, 0);
    world.frame(mac(HOSTILE), 100);
    let counts = world.mux.counts(id(HOSTILE));
    assert_eq!(
        counts.delivery.dropped[DeliveryDrop::ClientGone],
        Items {
            items: 1,
            bytes: 100
        }
    );
    world.check();
    // Lies about what it has are another kind; a new life begins at none.
    world.live(HOSTILE);
    for _ in 0..20 {
        let returned = world.mux.take_back(id(HOSTILE), BufferId(0));
        assert_eq!(returned, Returned::Fault(ReturnFault::NotHeld));
    }
    let returned = world.mux.take_back(id(HOSTILE), BufferId(0));
    assert_eq!(returned, Returned::Disconnected(ReturnFault::NotHeld));
    world.live(HOSTILE);
    let returned = world.mux.take_back(id(HOSTILE), BufferId(u32::MAX));
    assert_eq!(returned, Returned::Fault(ReturnFault::BufferUnknown));
    world.check();
}

#[test]
fn one_that_gives_another_as_its_sender_gets_its_buffer_back() {
    let mut world = World::new(1, 1);
    let descriptor = Descriptor {
        buffer: 3,
        offset: 0,
        length: 64,
    };
    let foreign = world
        .mux
        .offer(id(HOSTILE), descriptor, 0, |_| Some(mac(POLITE).into()));
    assert!(matches!(foreign, Err(Refused::Fault(_))), "{foreign:?}");
    let own = world
        .mux
        .offer(id(HOSTILE), descriptor, 0, |_| Some(mac(HOSTILE).into()));
    assert_eq!(own, Ok(()));
    world.check();
}

#[test]
fn what_is_for_no_client_has_its_reason() {
    let mut world = World::new(1, 1);
    world.frame(mac(99), 100);
    world.receive(vec![0; 13]);
    let dropped = world.mux.frames().dropped;
    let one = |bytes| Items { items: 1, bytes };
    assert_eq!(
        (dropped[FrameDrop::Unmatched], dropped[FrameDrop::Malformed]),
        (one(100), one(13))
    );
    assert_eq!(
        world.mux.frames().came,
        Items {
            items: 2,
            bytes: 113
        }
    );
    world.check();
}

/// A client that floods and keeps all that it gets: the other one gets all of its frames, without the flooder's queue being made smaller.
#[test]
fn a_slow_client_starves_no_other() {
    let mut world = World::new(1, 1);
    for _ in 0..1000 {
        world.frame(mac(SLOW), 1000);
        world.frame(Mac::BROADCAST, 60);
        world.frame(mac(POLITE), 500);
        world.tidy(POLITE);
    }
    let counts = world.mux.counts(id(POLITE));
    assert_eq!(counts.receive.taken_back.items, 2000);
    let slow = world.mux.counts(id(SLOW));
    assert!(slow.delivery.dropped[DeliveryDrop::PoolEmpty].items > 1900);
    assert_eq!(slow.receive_held.items, u64::from(GUARANTEED) + 5);
    world.check();
}
