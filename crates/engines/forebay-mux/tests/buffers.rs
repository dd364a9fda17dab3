//! The pool against a plain list of holders, and what a guarantee promises.

#![allow(clippy::unwrap_used)]

use forebay_mux::buffers::{
    BufferId, DeliveryDrop, Lent, ReceivePool, ReturnFault, Share, ShareError,
};
use forebay_mux::{ClientId, ClientSet, Items, OutOfRange};
use proptest::prelude::*;

const CLIENTS: u8 = 5;

/// The holders of buffers: each reference a row.
#[derive(Debug, Default)]
struct Model {
    size: u32,
    shares: Vec<(u8, Share)>,
    /// As much of its guarantee as is kept for a client.
    granted: [u32; CLIENTS as usize],
    rows: Vec<(u8, u32)>,
    /// Buffers beyond those that clients share.
    card: usize,
    /// Those that the card has.
    lent: Vec<Lent>,
}

impl Model {
    fn held(&self, client: u8) -> u32 {
        self.rows.iter().filter(|(of, _)| *of == client).count() as u32
    }

    fn share(&self, client: u8) -> Option<Share> {
        let mut shares = self.shares.iter();
        shares
            .find(|(of, _)| *of == client)
            .map(|(_, share)| *share)
    }

    fn left(&self) -> u32 {
        self.size - self.rows.len() as u32
    }

    /// What is kept for clients and not in their hands.
    fn reserved(&self) -> u32 {
        let clients = self.shares.iter();
        clients
            .map(|(of, _)| self.granted[usize::from(*of)].saturating_sub(self.held(*of)))
            .sum()
    }

    fn admit(&self, client: u8) -> Result<(), DeliveryDrop> {
        let share = self.share(client).ok_or(DeliveryDrop::ClientGone)?;
        if self.held(client) >= share.queue_frames {
            Err(DeliveryDrop::QueueFull)
        } else if self.held(client) < self.granted[usize::from(client)]
            || self.left() > self.reserved()
        {
            Ok(())
        } else {
            Err(DeliveryDrop::PoolEmpty)
        }
    }

    /// One by one, in the order of their numbers: what a client holds is its own, and what is left and kept for no other client is kept for it.
    fn settle(&mut self) {
        for client in 0..CLIENTS {
            let at = usize::from(client);
            let guaranteed = self
                .share(client)
                .map_or(0, |share| share.guaranteed_frames);
            while self.granted[at] < guaranteed
                && (self.granted[at] < self.held(client) || self.left() > self.reserved())
            {
                self.granted[at] += 1;
            }
        }
    }

    fn is_free(&self, buffer: u32) -> bool {
        let is_held = self.rows.iter().any(|(_, held)| *held == buffer);
        !is_held && self.lent.iter().all(|lent| lent.number() != buffer)
    }

    fn take_lent(&mut self, at: usize) -> Option<Lent> {
        let count = self.lent.len();
        (count > 0).then(|| self.lent.swap_remove(at % count))
    }

    fn distinct(&self) -> usize {
        let mut buffers: Vec<_> = self.rows.iter().map(|(_, buffer)| *buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        buffers.len()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Give(u8),
    GiveAll(Vec<u8>),
    /// The buffer of this row of those that the client holds, or any number.
    TakeBack(u8, usize, Option<u32>),
    Remove(u8),
    Add(u8, u32, u32),
    Change(u8, u32, u32),
    Lend,
    /// One of those that the card has.
    PutBack(usize),
    /// The same with a frame for these clients in it.
    Fill(usize, Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    prop_oneof![
        6 => client().prop_map(Step::Give),
        2 => proptest::collection::vec(client(), 0..5).prop_map(Step::GiveAll),
        4 => (client(), any::<usize>()).prop_map(|(client, row)| Step::TakeBack(client, row, None)),
        1 => (client(), 0..40_u32).prop_map(|(client, buffer)| Step::TakeBack(client, 0, Some(buffer))),
        1 => client().prop_map(Step::Remove),
        2 => (client(), 1..20_u32, 0..12_u32).prop_map(|(client, queue, guaranteed)| Step::Add(client, queue, guaranteed)),
        2 => (client(), 1..20_u32, 0..12_u32).prop_map(|(client, queue, guaranteed)| Step::Change(client, queue, guaranteed)),
        2 => Just(Step::Lend),
        1 => any::<usize>().prop_map(Step::PutBack),
        3 => (any::<usize>(), proptest::collection::vec(client(), 0..5)).prop_map(|(at, clients)| Step::Fill(at, clients)),
    ]
}

fn id(client: u8) -> ClientId {
    ClientId::new(client)
}

fn give_all(pool: &mut ReceivePool, model: &mut Model, clients: &[u8], card: &mut Option<Lent>) {
    let mut set = ClientSet::EMPTY;
    clients.iter().for_each(|client| set.insert(id(*client)));
    pool.give_all(&set, 60, card, |client, given| {
        let client = client.index() as u8;
        assert_eq!(given.map(|_| ()), model.admit(client));
        if let Ok(buffer) = given {
            assert!(model.lent.iter().all(|lent| lent.number() != buffer.0));
            model.rows.push((client, buffer.0));
        }
    });
}

/// One step of the card, of both.
fn apply_card(pool: &mut ReceivePool, model: &mut Model, step: &Step) {
    match step {
        Step::Lend => {
            let lent = pool.lend();
            assert_eq!(lent.is_some(), model.lent.len() < model.card);
            if let Some(lent) = lent {
                assert!(model.is_free(lent.number()), "{lent:?} twice");
                model.lent.push(lent);
            }
        }
        Step::PutBack(at) => {
            if let Some(lent) = model.take_lent(*at) {
                pool.put_back(lent);
            }
        }
        Step::Fill(at, clients) => {
            let mut card = model.take_lent(*at);
            let number = card.as_ref().map(Lent::number);
            let before = model.rows.len();
            give_all(pool, model, clients, &mut card);
            let mut given = model.rows[before..].iter();
            // It is the clients' as soon as one of them has it, and the card's otherwise.
            assert_eq!(card.is_some(), number.is_some() && given.len() == 0);
            assert!(given.all(|(_, buffer)| number.is_none_or(|number| *buffer == number)));
            model.lent.extend(card);
        }
        _ => {}
    }
}

/// One step of both.
fn apply(pool: &mut ReceivePool, model: &mut Model, step: &Step) {
    match step {
        Step::Give(client) => {
            let given = pool.give(id(*client), 64, &mut None);
            assert_eq!(given.map(|_| ()), model.admit(*client));
            if let Ok(buffer) = given {
                assert!(model.is_free(buffer.0), "{buffer:?} twice");
                model.rows.push((*client, buffer.0));
            }
        }
        Step::GiveAll(clients) => give_all(pool, model, clients, &mut None),
        Step::Lend | Step::PutBack(_) | Step::Fill(..) => apply_card(pool, model, step),
        Step::TakeBack(client, row, foreign) => {
            let held: Vec<u32> = model
                .rows
                .iter()
                .filter(|(of, _)| of == client)
                .map(|(_, buffer)| *buffer)
                .collect();
            let named = foreign
                .or_else(|| held.get(row % held.len().max(1)).copied())
                .unwrap_or(0);
            let expected = if held.contains(&named) {
                model.rows.retain(|row| *row != (*client, named));
                model.settle();
                Ok(())
            } else if named as usize >= model.size as usize + model.card {
                Err(ReturnFault::BufferUnknown)
            } else {
                Err(ReturnFault::NotHeld)
            };
            assert_eq!(pool.take_back(id(*client), BufferId(named)), expected);
        }
        Step::Remove(client) => {
            assert_eq!(
                pool.remove_client(id(*client)).items,
                u64::from(model.held(*client))
            );
            model.rows.retain(|(of, _)| of != client);
            model.shares.retain(|(of, _)| of != client);
            model.granted[usize::from(*client)] = 0;
            model.settle();
        }
        Step::Add(client, queue_frames, guaranteed_frames) => {
            let share = Share {
                queue_frames: *queue_frames,
                guaranteed_frames: *guaranteed_frames,
            };
            let promised: u32 = model
                .shares
                .iter()
                .map(|(_, share)| share.guaranteed_frames)
                .sum();
            let stands = model.share(*client).is_none()
                && guaranteed_frames <= queue_frames
                && promised + guaranteed_frames <= model.size;
            assert_eq!(pool.add_client(id(*client), share).is_ok(), stands);
            if stands {
                model.shares.push((*client, share));
                model.settle();
            }
        }
        Step::Change(client, queue_frames, guaranteed_frames) => {
            let share = Share {
                queue_frames: *queue_frames,
                guaranteed_frames: *guaranteed_frames,
            };
            let others = model.shares.iter().filter(|(of, _)| of != client);
            let promised: u32 = others.map(|(_, share)| share.guaranteed_frames).sum();
            let stands = model.share(*client).is_some()
                && guaranteed_frames <= queue_frames
                && promised + guaranteed_frames <= model.size;
            assert_eq!(pool.set_share(id(*client), share).is_ok(), stands);
            if stands {
                let said = model.shares.iter_mut().find(|(of, _)| of == client);
                said.unwrap().1 = share;
                let granted = &mut model.granted[usize::from(*client)];
                *granted = (*granted).min(*guaranteed_frames);
                model.settle();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pool_does_what_a_list_of_holders_says(
        size in 1..40_u32,
        card in 0..6_u32,
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let mut pool = ReceivePool::new(size, card).unwrap();
        let mut model = Model { size, card: card as usize, ..Model::default() };
        for step in &steps {
            apply(&mut pool, &mut model, step);
            prop_assert!(model.reserved() <= model.left() && model.left() <= pool.free_frames());
            prop_assert_eq!(pool.lent_frames() as usize, model.lent.len());
            prop_assert_eq!(pool.free_frames() as usize, size as usize + model.card - model.lent.len() - model.distinct());
            for client in 0..CLIENTS {
                prop_assert_eq!(pool.held_frames(id(client)), model.held(client));
                let counts = pool.counts(id(client));
                let held = pool.held(id(client));
                prop_assert_eq!(held.items, u64::from(model.held(client)));
                prop_assert_eq!(held, counts.held_now);
                for of in [|items: Items| items.items, |items: Items| items.bytes] {
                    prop_assert_eq!(of(counts.given), of(counts.taken_back) + of(counts.reclaimed) + of(held));
                }
            }
        }
        (0..CLIENTS).for_each(|client| apply(&mut pool, &mut model, &Step::Remove(client)));
        model.lent.drain(..).for_each(|lent| pool.put_back(lent));
        prop_assert_eq!(pool.free_frames(), size + card);
    }

    /// All clients are there from the begin: one that is below its guarantee is never refused, whatever others hold, alone or together with it.
    #[test]
    fn a_client_below_its_guarantee_always_gets_a_buffer(
        shares in proptest::collection::vec((1..20_u32, 0..12_u32), CLIENTS as usize),
        spare in 0..4_u32,
        card in 0..6_u32,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let shares: Vec<_> = shares.iter().map(|(queue, guaranteed)| Share { queue_frames: *queue, guaranteed_frames: *guaranteed.min(queue) }).collect();
        let promised: u32 = shares.iter().map(|share| share.guaranteed_frames).sum();
        let mut pool = ReceivePool::new((promised + spare).max(1), card).unwrap();
        let mut model = Model { size: (promised + spare).max(1), card: card as usize, ..Model::default() };
        for (client, share) in (0..).zip(&shares) {
            pool.add_client(id(client), *share).unwrap();
            model.shares.push((client, *share));
            model.settle();
        }
        for step in steps.iter().filter(|step| !matches!(step, Step::Remove(_) | Step::Add(..) | Step::Change(..))) {
            apply(&mut pool, &mut model, step);
            for (client, share) in (0..).zip(&shares) {
                let is_below = model.held(client) < share.guaranteed_frames;
                prop_assert!(!is_below || pool.admit(id(client)).is_ok(), "client {client}: {share:?}");
                prop_assert!(!is_below || pool.free_frames() > 0);
            }
        }
    }
}

#[test]
fn one_that_keeps_what_all_got_takes_nothing_from_the_guarantee_of_another() {
    let mut pool = ReceivePool::new(2, 0).unwrap();
    let one = Share {
        queue_frames: 2,
        guaranteed_frames: 1,
    };
    let greedy = Share {
        queue_frames: 2,
        guaranteed_frames: 0,
    };
    for (client, share) in [(0, one), (1, one), (2, greedy)] {
        pool.add_client(id(client), share).unwrap();
    }
    let mut both = ClientSet::EMPTY;
    both.insert(id(0));
    both.insert(id(1));
    let mut buffers = Vec::new();
    pool.give_all(&both, 60, &mut None, |_, given| {
        buffers.push(given.unwrap())
    });
    assert_eq!(buffers[0], buffers[1]);
    assert_eq!(pool.free_frames(), 1);
    // The free buffer is not for the greedy one: client 0 gives back its half of the shared one, which client 1 keeps.
    assert_eq!(
        pool.give(id(2), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    pool.take_back(id(0), buffers[0]).unwrap();
    assert_eq!(
        pool.give(id(2), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    assert!(pool.give(id(0), 60, &mut None).is_ok());
}

/// It comes when another holds all: what a third one is guaranteed stays that one's, and what comes back is kept for the new one.
#[test]
fn one_that_comes_late_takes_nothing_from_the_guarantee_of_a_third() {
    let mut pool = ReceivePool::new(8, 0).unwrap();
    let share = |queue_frames, guaranteed_frames| Share {
        queue_frames,
        guaranteed_frames,
    };
    pool.add_client(id(0), share(8, 0)).unwrap();
    pool.add_client(id(1), share(8, 2)).unwrap();
    let held: Vec<_> = (0..6)
        .map(|_| pool.give(id(0), 60, &mut None).unwrap())
        .collect();
    assert_eq!(
        pool.give(id(0), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    pool.add_client(id(2), share(8, 3)).unwrap();
    assert_eq!(
        pool.give(id(2), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    held[..2]
        .iter()
        .for_each(|buffer| pool.take_back(id(0), *buffer).unwrap());
    assert_eq!(
        pool.give(id(0), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    for client in [2, 1, 2, 1] {
        assert!(
            pool.give(id(client), 60, &mut None).is_ok(),
            "client {client}"
        );
    }
    assert_eq!(pool.free_frames(), 0);
    pool.take_back(id(0), held[2]).unwrap();
    assert_eq!(
        pool.give(id(0), 60, &mut None),
        Err(DeliveryDrop::PoolEmpty)
    );
    assert!(pool.give(id(2), 60, &mut None).is_ok());
}

#[test]
fn no_more_is_guaranteed_than_there_is() {
    let mut pool = ReceivePool::new(10, 0).unwrap();
    let share = |queue_frames, guaranteed_frames| Share {
        queue_frames,
        guaranteed_frames,
    };
    pool.add_client(id(0), share(8, 6)).unwrap();
    let error = pool.add_client(id(1), share(8, 5)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "5 buffers guaranteed to client 1; 4 of the pool are not promised yet"
    );
    let known = ShareError::Known { client: id(0) };
    assert_eq!(pool.add_client(id(0), share(1, 0)), Err(known));
    let error = pool.add_client(id(1), share(4, 5)).unwrap_err().to_string();
    assert_eq!(error, "guaranteed_frames is 5; it must be from 0 to 4");
    assert!(pool.add_client(id(1), share(0, 0)).is_err());
    assert_eq!(pool.remove_client(id(0)).items, 0);
    assert!(pool.add_client(id(1), share(8, 5)).is_ok());
    let none: OutOfRange = ReceivePool::new(0, 0).unwrap_err();
    assert_eq!(none.name, "buffers");
}
