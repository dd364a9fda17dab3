//! Messages whose payload stays with its owner: they come in order with the others, the books close, and every token comes back once.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use std::collections::BTreeMap;

use forebay_msg::session::SessionError;
use forebay_msg::{
    Apart, Config, Credit, Inbound, Lent, Outbound, Publisher, Pushed, Slow, Totals,
};
use forebay_wire::net::{Entry, Frame};
use proptest::prelude::*;

const EPOCH: u64 = 9;

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
        buffer_count: 3,
        flush_ns: 50,
        slow,
        block_ns: 1_000,
        ..Config::default()
    }
}

/// What came: tag, bytes, and whether its payload was elsewhere.
type Came = Vec<(u64, usize, bool)>;

fn carry(sending: &mut Outbound, receiving: &mut Inbound) -> Came {
    let mut came = Came::new();
    let mut frames = 0;
    while sending.poll_transmit().is_some() {
        frames += 1;
        assert!(frames <= 10_000, "the same frame again and again");
        let frame = sending.frame_from(0).unwrap();
        match frame.lent {
            None => {
                let reading = receiving.handle_frame(frame.bytes).unwrap();
                came.extend(reading.map(|message| (message.tag, message.payload.len(), false)));
            }
            Some(lent) => {
                let parsed = Frame::parse_apart(frame.bytes, lent.bytes, 200);
                let (fields, head) = parsed.unwrap();
                let found = receiving.handle_apart(&fields, head, lent.bytes).unwrap();
                came.extend(found.map(|found| (found.tag, found.payload_bytes, true)));
            }
        }
        sending.handle_transmitted();
    }
    came
}

#[test]
fn they_keep_their_place_among_the_others() {
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    let mut receiving = Inbound::new(EPOCH, 100);
    assert_eq!(sending.push(0, 1, 0, &[0; 10]), Pushed::Taken);
    assert_eq!(sending.push_lent(0, 2, 5, 100, 77), Pushed::Taken);
    assert_eq!(sending.push(0, 3, 0, &[0; 10]), Pushed::Taken);
    assert_eq!(sending.push_lent(0, 2, 5, 101, 78), Pushed::TooLong);
    sending.flush();
    assert_eq!(
        carry(&mut sending, &mut receiving),
        [(1, 10, false), (2, 100, true), (3, 10, false)]
    );
    assert_eq!(sending.returned(), None, "the receiver may still read it");
    sending.handle_credit(&back(1)).unwrap();
    assert_eq!(sending.returned(), None);
    sending.handle_credit(&back(2)).unwrap();
    assert_eq!((sending.returned(), sending.returned()), (Some(77), None));
    assert_eq!(receiving.missing(&sending.totals()), [0, 0]);
}

#[test]
fn a_link_that_takes_little_gets_the_rest_of_it() {
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    sending.push_lent(0, 2, 0, 50, 7);
    let own = sending.poll_transmit().unwrap().len();
    let lent = |from| {
        Some(Lent {
            token: 7,
            from,
            bytes: 50,
        })
    };
    let rest = |taken| {
        let rest = sending.frame_from(taken);
        rest.map(|rest| (rest.bytes.len(), rest.lent))
    };
    assert_eq!(rest(0), Some((own, lent(0))));
    assert_eq!(rest(own - 1), Some((1, lent(0))));
    assert_eq!(rest(own), Some((0, lent(0))));
    assert_eq!(rest(own + 49), Some((0, lent(49))));
    assert_eq!(rest(own + 50), None);
}

/// A head that says something else than what lies elsewhere is counted as broken, nothing is delivered, and nothing more is taken.
#[test]
fn a_head_that_does_not_fit_is_broken() {
    let lies: [fn(&mut Vec<u8>); 4] = [
        // One byte less in the message's own header, behind 48 bytes of the frame's.
        |frame| frame[48] -= 1,
        // Without a tag.
        |frame| frame[51] &= 0x7f,
        // Two messages.
        |frame| frame[40] = 2,
        // More bytes than came since the buffer before.
        |frame| frame[32] += 1,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
        let mut receiving = Inbound::new(EPOCH, 100);
        sending.push_lent(0, 2, 0, 50, 7);
        let mut frame = sending.poll_transmit().unwrap().to_vec();
        lie(&mut frame);
        // Of two messages the totals must say so, too.
        if number == 2 {
            frame[24] = 2;
        }
        let (fields, head) = Frame::parse_apart(&frame, 50, 200).unwrap();
        let wrong = receiving.handle_apart(&fields, head, 50).unwrap_err();
        let reason = SessionError::from(wrong).reason();
        assert_eq!(reason, ["wrong_count", "no_tag"][usize::from(number == 1)]);
        let losses = receiving.losses();
        assert_eq!(losses.broken_buffers, 1, "{number}");
        assert_eq!(receiving.totals().messages, 0);
        let broken = [losses.broken_messages, losses.broken_bytes];
        assert_eq!(receiving.told(), broken, "{number}");
        assert_eq!(receiving.handle_apart(&fields, head, 50), Err(wrong));
    }
    // A repetition is not looked at.
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    let mut receiving = Inbound::new(EPOCH, 100);
    sending.push_lent(0, 2, 0, 50, 7);
    let frame = sending.poll_transmit().unwrap().to_vec();
    let (fields, head) = Frame::parse_apart(&frame, 50, 200).unwrap();
    let first = receiving.handle_apart(&fields, head, 50).unwrap();
    assert_eq!(
        first,
        Some(Apart {
            tag: 2,
            status: 0,
            payload_bytes: 50
        })
    );
    assert_eq!(receiving.handle_apart(&fields, head, 50), Ok(None));
    assert_eq!(receiving.losses().repeated_buffers, 1);
}

#[test]
fn all_subscribers_have_it_or_none() {
    let mut publisher = Publisher::new(&config(Slow::Block)).unwrap();
    let ids = [1, 2].map(|epoch| publisher.add(epoch, Slow::Block, 100, 1).unwrap());
    for id in ids {
        publisher.subscribe(id, [Entry::one(5)]).unwrap();
    }
    assert_eq!(publisher.publish_lent(0, 5, 0, 60, 1).taken, 2);
    let next = publisher.publish_lent(0, 5, 0, 60, 2);
    assert!(next.wait && next.taken == 0, "{next:?}");
    assert!(publisher.publish_lent(0, 5, 0, 101, 2).too_long);
    assert_eq!(publisher.publish_lent(0, 6, 0, 60, 3).taken, 0);
    assert_eq!(publisher.unheard(), [1, 60]);
    let returned = |publisher: &mut Publisher, id| publisher.peer(id).unwrap().returned();
    for (epoch, id) in [(1, ids[0]), (2, ids[1])] {
        let mut receiving = Inbound::new(epoch, 100);
        assert_eq!(returned(&mut publisher, id), None);
        let outbound = publisher.peer(id).unwrap();
        assert_eq!(carry(outbound, &mut receiving), [(5, 60, true)]);
        outbound.handle_credit(&back(1)).unwrap();
        assert_eq!(returned(&mut publisher, id), Some(1));
    }
}

#[derive(Clone, Debug)]
enum Act {
    Push(usize),
    Lend(usize),
    Carry,
    /// The link takes a frame, and it never arrives.
    Lose,
    Credit,
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..110_usize).prop_map(Act::Push),
        8 => (0..110_usize).prop_map(Act::Lend),
        4 => Just(Act::Carry),
        1 => Just(Act::Lose),
        3 => Just(Act::Credit),
        2 => (1..400_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn every_token_comes_back_once_and_the_books_close(
        acts in proptest::collection::vec(act(), 0..200),
        slow in prop_oneof![Just(Slow::Block), Just(Slow::DropNewest), Just(Slow::DropOldest), Just(Slow::Disconnect)],
        ends_in_order in any::<bool>(),
    ) {
        let mut sending = Outbound::new(&config(slow), EPOCH).unwrap();
        let mut receiving = Inbound::new(EPOCH, 100);
        let (mut now_ns, mut lost, mut came) = (0, [0_u64; 2], [0_u64; 2]);
        let (mut next_token, mut out) = (0_u64, BTreeMap::new());
        for act in acts {
            match act {
                Act::Push(bytes) => {
                    let _ = sending.push(now_ns, 1, 0, &vec![1; bytes]);
                }
                Act::Lend(bytes) => {
                    if sending.push_lent(now_ns, 2, 0, bytes, next_token) == Pushed::Taken {
                        out.insert(next_token, bytes);
                    }
                    next_token += 1;
                }
                Act::Carry => for (_, bytes, _) in carry(&mut sending, &mut receiving) {
                    came[0] += 1;
                    came[1] += bytes as u64;
                },
                Act::Lose => {
                    let before = sending.totals();
                    if sending.poll_transmit().is_some() {
                        sending.handle_transmitted();
                        lost[0] += sending.totals().messages - before.messages;
                        lost[1] += sending.totals().bytes - before.bytes;
                    }
                }
                Act::Credit => {
                    let _ = sending.handle_credit(&receiving.credit());
                }
                Act::Wait(ns) => {
                    now_ns += ns;
                    sending.handle_time(now_ns);
                }
            }
            while let Some(token) = sending.returned() {
                prop_assert!(out.remove(&token).is_some(), "{} came back twice, or was never out", token);
            }
            prop_assert_eq!(sending.residual(), [0, 0]);
        }
        prop_assert_eq!([receiving.totals().messages, receiving.totals().bytes], came);
        prop_assert_eq!(receiving.missing(&sending.totals()), lost.map(i128::from));
        prop_assert_eq!(receiving.losses().broken_buffers, 0);
        if ends_in_order {
            sending.close();
            let _ = carry(&mut sending, &mut receiving);
            let took = Totals {
                messages_dropped: 0,
                bytes_dropped: 0,
                ..sending.totals()
            };
            sending.handle_farewell(&took).unwrap();
        } else {
            sending.abandon(|_, _| {});
        }
        while let Some(token) = sending.returned() {
            prop_assert!(out.remove(&token).is_some());
        }
        prop_assert!(out.is_empty(), "never came back: {:?}", out);
        prop_assert_eq!(sending.residual(), [0, 0]);
        prop_assert_eq!(sending.held(), [0, 0]);
    }
}
