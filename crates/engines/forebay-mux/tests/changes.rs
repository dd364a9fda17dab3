//! Whatever is changed while packets wait: none is lost, and those of a client leave in their order.

#![allow(clippy::unwrap_used)]

mod world;

use std::collections::VecDeque;

use forebay_ledger::OneOf;
use forebay_mux::Items;
use forebay_mux::policy::{PerClient, PolicyConfig};
use forebay_mux::transmit::{
    ClassConfig, Next, Packet, Sender, SenderError, Transmit, TransmitDrop,
};
use proptest::prelude::*;
use world::{MS, SENDER, bucket, id, one_class, packet, schedule, window};

const CLIENTS: u8 = 4;

fn policies() -> Vec<PolicyConfig> {
    let level = PerClient::all(1).with(id(0), 0);
    vec![
        PolicyConfig::Signalled { burst_packets: 3 },
        PolicyConfig::RoundRobin,
        PolicyConfig::DeficitRoundRobin {
            quantum_bytes: PerClient::all(1514),
        },
        PolicyConfig::Priority {
            level,
            guard_ns: Some(MS),
        },
        bucket(20_000_000, 3000),
        bucket(900_000_000, 1514),
        window(50_000_000),
        PolicyConfig::Tdm(schedule(CLIENTS, 1_000_000_000)),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Offer(u8, u32),
    Poll(u64),
    Finish(bool),
    Policy(usize, usize),
    Class(u8, usize),
    Bound(u8, Option<u64>),
    Remove(u8),
    Add(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    prop_oneof![
        8 => (client(), 14..1515_u32).prop_map(|(client, bytes)| Step::Offer(client, bytes)),
        8 => (0..400_000_u64).prop_map(Step::Poll),
        4 => any::<bool>().prop_map(Step::Finish),
        1 => (0..2_usize, 0..8_usize).prop_map(|(class, policy)| Step::Policy(class, policy)),
        1 => (client(), 0..2_usize).prop_map(|(client, class)| Step::Class(client, class)),
        1 => (client(), proptest::option::of(1000..5 * MS)).prop_map(|(client, bound)| Step::Bound(client, bound)),
        1 => client().prop_map(Step::Remove),
        1 => client().prop_map(Step::Add),
    ]
}

/// What waits, by client, and what is in the card.
#[derive(Default)]
struct Model {
    waiting: Vec<VecDeque<u32>>,
    in_card: VecDeque<(u8, Packet)>,
    now_ns: u64,
    next: u32,
}

impl Model {
    fn dropped(&mut self, client: u8, buffer: u32) {
        assert_eq!(
            self.waiting[usize::from(client)].pop_front(),
            Some(buffer),
            "out of order"
        );
    }
}

fn apply(transmit: &mut Transmit, model: &mut Model, step: &Step) {
    match *step {
        Step::Offer(client, bytes) => {
            let of = packet(model.next, bytes);
            if transmit.offer(id(client), of, model.now_ns).is_ok() {
                model.waiting[usize::from(client)].push_back(model.next);
            }
            model.next += 1;
        }
        Step::Poll(ns) => {
            model.now_ns += ns;
            let now_ns = model.now_ns;
            match transmit.poll(now_ns, |client, packet| {
                model.dropped(client.index() as u8, packet.buffer)
            }) {
                Next::Send(client, packet) => {
                    model.dropped(client.index() as u8, packet.buffer);
                    let bound = transmit.sender(client).unwrap().sojourn_max_ns;
                    assert!(bound.is_none_or(|bound| now_ns - packet.arrival_ns <= bound));
                    model.in_card.push_back((client.index() as u8, packet));
                }
                Next::AskAt(at_ns) => assert!(at_ns > now_ns),
                Next::Idle => {}
            }
        }
        Step::Finish(is_sent) => {
            if let Some((client, packet)) = model.in_card.pop_front() {
                transmit.finish(id(client), packet, is_sent);
            }
        }
        Step::Policy(class, policy) => transmit
            .set_policy(class, &policies()[policy], model.now_ns)
            .unwrap(),
        Step::Class(client, class) => {
            if let Some(sender) = transmit.sender(id(client)) {
                transmit
                    .set_client(id(client), Sender { class, ..sender })
                    .unwrap();
            }
        }
        Step::Bound(client, sojourn_max_ns) => {
            if let Some(sender) = transmit.sender(id(client)) {
                transmit
                    .set_client(
                        id(client),
                        Sender {
                            sojourn_max_ns,
                            ..sender
                        },
                    )
                    .unwrap();
            }
        }
        Step::Remove(client) => {
            transmit.remove_client(id(client), |packet| model.dropped(client, packet.buffer));
            assert!(model.waiting[usize::from(client)].is_empty());
        }
        Step::Add(client) => {
            let _ = transmit.add_client(
                id(client),
                Sender {
                    queue_packets: 20,
                    ..SENDER
                },
            );
        }
    }
}

/// Each client's equation, in packets and in bytes, with what is held as the model has it.
fn check(transmit: &Transmit, model: &Model) {
    for client in 0..CLIENTS {
        let counts = transmit.counts(id(client));
        let in_card = model.in_card.iter().filter(|(of, _)| *of == client).count();
        let waiting = model.waiting[usize::from(client)].len();
        let held = transmit.held(id(client));
        assert_eq!(held.items as usize, waiting + in_card);
        assert_eq!(held, counts.held_now);
        assert_eq!(transmit.waiting(id(client)), waiting);
        let dropped = counts.dropped.total();
        for of in [|items: Items| items.items, |items: Items| items.bytes] {
            assert_eq!(of(counts.asked), of(counts.sent) + of(dropped) + of(held));
        }
    }
}

/// Two classes of these policies, and all clients in the first one.
fn world(policy: usize) -> (Transmit, Model) {
    let class = |policy: usize| ClassConfig {
        policy: policies()[policy].clone(),
        guard_ns: Some(MS),
    };
    let mut transmit = Transmit::new(&[class(policy), class(1)]).unwrap();
    let sender = Sender {
        queue_packets: 20,
        ..SENDER
    };
    (0..CLIENTS).for_each(|client| transmit.add_client(id(client), sender).unwrap());
    let model = Model {
        waiting: vec![VecDeque::new(); CLIENTS.into()],
        ..Model::default()
    };
    (transmit, model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_changes_no_packet_is_lost_and_all_keep_their_order(
        policy in 0..8_usize,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let (mut transmit, mut model) = world(policy);
        for step in &steps {
            apply(&mut transmit, &mut model, step);
            check(&transmit, &model);
        }
        // What waits leaves, in time that is told and not sought: all but what a schedule has no window for.
        let mut turns = 0;
        loop {
            let now_ns = model.now_ns;
            match transmit.poll(now_ns, |client, packet| model.dropped(client.index() as u8, packet.buffer)) {
                Next::Send(client, packet) => {
                    model.dropped(client.index() as u8, packet.buffer);
                    transmit.finish(client, packet, true);
                }
                Next::AskAt(at_ns) => {
                    prop_assert!(at_ns > now_ns);
                    model.now_ns = at_ns;
                }
                Next::Idle => break,
            }
            turns += 1;
            prop_assert!(turns < 2000);
        }
        check(&transmit, &model);
        prop_assert!(model.waiting.iter().all(VecDeque::is_empty), "{:?}", model.waiting);
    }
}

#[test]
fn a_queue_takes_as_many_packets_as_it_may() {
    let mut transmit = one_class(PolicyConfig::RoundRobin);
    transmit
        .add_client(
            id(1),
            Sender {
                queue_packets: 2,
                ..SENDER
            },
        )
        .unwrap();
    let mut offer = |client| transmit.offer(id(client), packet(7, 100), 0);
    assert_eq!([offer(1), offer(1)], [Ok(()), Ok(())]);
    assert_eq!(offer(1), Err(TransmitDrop::QueueFull));
    assert_eq!(offer(2), Err(TransmitDrop::ClientGone));
    let lost = |client, why| transmit.counts(id(client)).dropped[OneOf::Second(why)];
    let one = Items {
        items: 1,
        bytes: 100,
    };
    assert_eq!(lost(1, TransmitDrop::QueueFull), one);
    assert_eq!(lost(2, TransmitDrop::ClientGone), one);
}

#[test]
fn a_number_is_free_again_when_the_card_has_nothing_of_it() {
    let mut transmit = one_class(PolicyConfig::RoundRobin);
    transmit.add_client(id(1), SENDER).unwrap();
    let known = SenderError::Known { client: id(1) };
    assert_eq!(transmit.add_client(id(1), SENDER), Err(known));
    transmit.offer(id(1), packet(7, 100), 0).unwrap();
    let Next::Send(client, in_card) = transmit.poll(0, |_, _| {}) else {
        panic!("nothing to send");
    };
    transmit.remove_client(client, |_| panic!("nothing waits"));
    let busy = transmit.add_client(id(1), SENDER).unwrap_err();
    assert_eq!(
        busy.to_string(),
        "1 packets of the former client 1 are still in the card"
    );
    let unknown = SenderError::Unknown { client: id(1) };
    assert_eq!(transmit.set_client(id(1), SENDER), Err(unknown));
    transmit.finish(client, in_card, false);
    assert_eq!(transmit.add_client(id(1), SENDER), Ok(()));
}

#[test]
fn what_is_out_of_range_is_named_and_changes_nothing() {
    let mut transmit = one_class(PolicyConfig::RoundRobin);
    let mut named = |sender: Sender| match transmit.add_client(id(1), sender) {
        Err(SenderError::Config(error)) => error.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(Sender { class: 1, ..SENDER }), "class");
    assert_eq!(
        named(Sender {
            queue_packets: 0,
            ..SENDER
        }),
        "queue_packets"
    );
    assert_eq!(
        named(Sender {
            sojourn_max_ns: Some(999),
            ..SENDER
        }),
        "sojourn_max_ns"
    );
    assert_eq!(
        transmit
            .set_policy(1, &PolicyConfig::RoundRobin, 0)
            .unwrap_err()
            .name,
        "class"
    );
    let bad = PolicyConfig::Signalled { burst_packets: 0 };
    assert_eq!(
        transmit.set_policy(0, &bad, 0).unwrap_err().name,
        "burst_packets"
    );
    assert_eq!(Transmit::new(&[]).unwrap_err().name, "classes");
}
