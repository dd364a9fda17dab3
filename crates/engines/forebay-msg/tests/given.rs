//! Buffers whose memory a link takes: none is written or free before it has come back, and the books close.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_msg::{Config, Credit, Inbound, Outbound, Pushed, Slow, Totals};
use forebay_wire::net::Frame;
use proptest::prelude::*;

const EPOCH: u64 = 9;
const BUFFERS: usize = 3;

/// So many buffers are given back, and nothing is confirmed.
fn back(buffers: u64) -> Credit {
    Credit {
        buffers,
        ..Credit::default()
    }
}

fn config(slow: Slow) -> Config {
    Config {
        buffer_bytes: 100,
        buffer_count: BUFFERS as u32,
        flush_ns: 50,
        slow,
        block_ns: 1_000,
        ..Config::default()
    }
}

/// Memory that can be told from other memory.
#[derive(Debug)]
struct Given {
    id: usize,
    bytes: Vec<u8>,
}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Given {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

fn outbound(slow: Slow) -> Outbound<Given> {
    let mut id = 0;
    let memory = |bytes| {
        id += 1;
        Given {
            id,
            bytes: vec![0; bytes],
        }
    };
    Outbound::in_memory(&config(slow), EPOCH, memory).unwrap()
}

/// A frame on its way.
#[derive(Clone)]
struct OnTheWay {
    own: Vec<u8>,
    /// Bytes behind it that lie elsewhere.
    lent: Option<usize>,
}

/// A buffer that a link has.
struct Sent {
    number: u64,
    memory: Given,
    frame: OnTheWay,
}

/// The link takes the next frame, if there is one.
fn take(sending: &mut Outbound<Given>) -> Option<Sent> {
    sending.poll_transmit()?;
    let on_link = sending.on_link().unwrap();
    let (number, own_bytes) = (on_link.number, on_link.own_bytes);
    let lent = on_link.lent.map(|lent| lent.bytes);
    let memory = on_link.memory.take().unwrap();
    assert!(sending.frame_from(own_bytes + lent.unwrap_or(0)).is_none());
    sending.handle_transmitted();
    let own = memory.bytes[..own_bytes].to_vec();
    Some(Sent {
        number,
        memory,
        frame: OnTheWay { own, lent },
    })
}

/// The frame arrives: messages in it.
fn arrive(frame: &OnTheWay, receiving: &mut Inbound) -> u64 {
    let Some(lent) = frame.lent else {
        return receiving.handle_frame(&frame.own).unwrap().count() as u64;
    };
    let (fields, head) = Frame::parse_apart(&frame.own, lent, 200).unwrap();
    let found = receiving.handle_apart(&fields, head, lent).unwrap();
    u64::from(found.is_some())
}

#[test]
fn a_buffer_is_free_when_it_is_given_back_by_both() {
    let mut receiving = Inbound::new(EPOCH, 100);
    let mut sending = outbound(Slow::Block);
    assert_eq!(sending.push_lent(0, 1, 0, 90, 7), Pushed::Taken);
    assert_eq!(sending.push(0, 1, 0, &[0; 90]), Pushed::Taken);
    assert_eq!(sending.push(0, 1, 0, &[0; 90]), Pushed::Taken);
    sending.flush();
    let all: Vec<Sent> = std::iter::from_fn(|| take(&mut sending)).collect();
    assert_eq!((all.len(), sending.has_free_buffer()), (BUFFERS, false));
    let mut all = all.into_iter().inspect(|sent| {
        arrive(&sent.frame, &mut receiving);
    });
    let (first, second) = (all.next().unwrap(), all.next().unwrap());
    // The receiver first.
    sending.handle_credit(&back(1)).unwrap();
    assert_eq!(sending.returned(), None, "the link still reads it");
    assert!(!sending.has_free_buffer());
    sending.give_back(first.number, first.memory);
    assert_eq!(sending.returned(), Some(7));
    assert!(sending.has_free_buffer());
    // The link first.
    assert_eq!(sending.push(0, 1, 0, &[0; 90]), Pushed::Taken);
    sending.give_back(second.number, second.memory);
    assert!(!sending.has_free_buffer());
    sending.handle_credit(&back(2)).unwrap();
    assert!(sending.has_free_buffer());
    // The receiver, and then the connection is lost: the link keeps the memory.
    assert_eq!(sending.push_lent(0, 1, 0, 90, 8), Pushed::Taken);
    let third = all.next().unwrap();
    let fourth = take(&mut sending).unwrap();
    arrive(&fourth.frame, &mut receiving);
    sending.handle_credit(&receiving.credit()).unwrap();
    assert_eq!(sending.returned(), None);
    sending.abandon(|_, _| {});
    assert_eq!((sending.returned(), sending.returned()), (Some(8), None));
    drop((third, fourth));
    // No such buffer is nobody's.
    sending.give_back(
        99,
        Given {
            id: 99,
            bytes: Vec::new(),
        },
    );
    assert_eq!(sending.residual(), [0, 0]);
}

/// What a link does not take stays where it is, and goes out the same.
#[test]
fn what_is_not_taken_is_offered_again() {
    let mut sending = outbound(Slow::Block);
    sending.push(0, 1, 0, b"hello");
    sending.flush();
    let frame = sending.poll_transmit().unwrap().to_vec();
    let on_link = sending.on_link().unwrap();
    assert_eq!(on_link.memory.as_ref().unwrap().bytes[..frame.len()], frame);
    assert_eq!(on_link.own_bytes, frame.len());
    assert_eq!(sending.poll_transmit().unwrap(), frame);
    let mut lost = Vec::new();
    sending.abandon(|tag, bytes| lost.push((tag, bytes)));
    assert_eq!(lost, [(1, 5)]);
    assert_eq!((sending.residual(), sending.held()), ([0, 0], [0, 0]));
}

#[derive(Clone, Debug)]
enum Act {
    Push(usize),
    Lend(usize),
    Take,
    /// The first that is on its way arrives.
    Arrive,
    /// It never arrives.
    Lose,
    /// The link gives one back, of those that arrived or not.
    GiveBack(usize),
    Credit,
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..110_usize).prop_map(Act::Push),
        8 => (0..110_usize).prop_map(Act::Lend),
        6 => Just(Act::Take),
        6 => Just(Act::Arrive),
        1 => Just(Act::Lose),
        6 => (0..BUFFERS).prop_map(Act::GiveBack),
        4 => Just(Act::Credit),
        2 => (1..400_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn nothing_is_free_too_early_and_the_books_close(
        acts in proptest::collection::vec(act(), 0..300),
        slow in prop_oneof![Just(Slow::Block), Just(Slow::DropNewest), Just(Slow::DropOldest), Just(Slow::Disconnect)],
        ends_in_order in any::<bool>(),
    ) {
        let mut sending = outbound(slow);
        let mut receiving = Inbound::new(EPOCH, 100);
        let (mut now_ns, mut came, mut lost) = (0, 0_u64, 0_u64);
        let (mut next_token, mut out) = (0_u64, BTreeSet::new());
        // Tokens whose buffer the link has, by its number.
        let mut with_link: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        let mut waiting_tokens = VecDeque::new();
        let (mut on_the_way, mut at_link) = (VecDeque::new(), Vec::<Sent>::new());
        for act in acts {
            match act {
                Act::Push(bytes) => {
                    let _ = sending.push(now_ns, 1, 0, &vec![1; bytes]);
                }
                Act::Lend(bytes) => {
                    if sending.push_lent(now_ns, 2, 0, bytes, next_token) == Pushed::Taken {
                        out.insert(next_token);
                        waiting_tokens.push_back(next_token);
                    }
                    next_token += 1;
                }
                Act::Take => if let Some(sent) = take(&mut sending) {
                    let token = sent.frame.lent.map(|_| loop {
                        // Those that were dropped are not sent.
                        let token = waiting_tokens.pop_front().unwrap();
                        if out.contains(&token) {
                            break token;
                        }
                    });
                    let others = at_link.iter().all(|other: &Sent| other.memory.id != sent.memory.id);
                    prop_assert!(others, "one memory at two places");
                    with_link.insert(sent.number, token);
                    on_the_way.push_back(sent.frame.clone());
                    at_link.push(sent);
                },
                Act::Arrive => if let Some(frame) = on_the_way.pop_front() {
                    came += arrive(&frame, &mut receiving);
                },
                Act::Lose => lost += u64::from(on_the_way.pop_front().is_some()),
                Act::GiveBack(at) => if at < at_link.len() {
                    let sent = at_link.remove(at);
                    let frame = &sent.frame.own;
                    prop_assert_eq!(&sent.memory.bytes[..frame.len()], &frame[..]);
                    with_link.remove(&sent.number);
                    sending.give_back(sent.number, sent.memory);
                },
                Act::Credit => {
                    let _ = sending.handle_credit(&receiving.credit());
                }
                Act::Wait(ns) => {
                    now_ns += ns;
                    sending.handle_time(now_ns);
                }
            }
            while let Some(token) = sending.returned() {
                prop_assert!(out.remove(&token), "{} came back twice, or was never out", token);
                let early = with_link.values().any(|lent| *lent == Some(token));
                prop_assert!(!early, "{} came back while the link had it", token);
            }
            prop_assert_eq!(sending.residual(), [0, 0]);
        }
        prop_assert_eq!(receiving.totals().messages, came);
        prop_assert!(receiving.losses().gap_buffers <= lost);
        if ends_in_order {
            sending.close();
            at_link.extend(std::iter::from_fn(|| take(&mut sending)));
            let took = Totals {
                messages_dropped: 0,
                bytes_dropped: 0,
                ..sending.totals()
            };
            sending.handle_farewell(&took).unwrap();
            for sent in at_link {
                sending.give_back(sent.number, sent.memory);
            }
            prop_assert!(sending.is_done());
            prop_assert!(sending.has_free_buffer());
        } else {
            // What the link has stays with it.
            sending.abandon(|_, _| {});
        }
        while let Some(token) = sending.returned() {
            prop_assert!(out.remove(&token));
        }
        prop_assert!(out.is_empty(), "never came back: {:?}", out);
        prop_assert_eq!(sending.residual(), [0, 0]);
        prop_assert_eq!(sending.held(), [0, 0]);
    }
}
