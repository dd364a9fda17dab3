//! A sending and a receiving end: whatever is pushed is taken, held, dropped by name, or missing by the totals.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_msg::session::SessionError;
use forebay_msg::{
    Config, Credit, Dropped, Inbound, InboundError, Losses, Outbound, Pushed, Slow, Totals,
};
use forebay_wire::net::{BUFFER_COUNT_MAX, DataFields};
use forebay_wire::netio3::{HEAD_BYTES_MAX, HEADER_BYTES};
use proptest::prelude::*;

const EPOCH: u64 = 9;
/// More frames than any of these tests carries at once.
const FRAMES_MAX: u32 = 10_000;
/// A message of 5 bytes with the tag 1.
const MESSAGE: [u8; 17] = *b"\x05\0\0\x80\x01\0\0\0\0\0\0\0hello";

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

/// Everything that is ready goes over; the receiver gives all of it back when `credit`. What came: tag and payload.
fn carry(sending: &mut Outbound, receiving: &mut Inbound, credit: bool) -> Vec<(u64, Vec<u8>)> {
    let mut came = Vec::new();
    let mut frames = 0;
    while let Some(frame) = sending.poll_transmit() {
        frames += 1;
        assert!(frames <= FRAMES_MAX, "the same frame again and again");
        let frame = frame.to_vec();
        let reading = receiving.handle_frame(&frame).unwrap();
        came.extend(reading.map(|message| (message.tag, message.payload.to_vec())));
        sending.handle_transmitted();
    }
    if credit {
        sending.handle_credit(&receiving.credit()).unwrap();
    }
    came
}

#[test]
fn messages_are_gathered_until_the_mark_or_the_time() {
    let mut sending = Outbound::new(
        &Config {
            water_mark_bytes: 40,
            ..config(Slow::Block)
        },
        EPOCH,
    )
    .unwrap();
    let mut receiving = Inbound::new(EPOCH, 100);
    assert_eq!(sending.push(1_000, 5, 0, &[1; 10]), Pushed::Taken);
    assert_eq!(sending.poll_timeout(), Some(1_050));
    assert!(sending.poll_transmit().is_none());
    sending.handle_time(1_049);
    assert!(sending.poll_transmit().is_none());
    sending.handle_time(1_050);
    assert_eq!(
        carry(&mut sending, &mut receiving, true),
        [(5, vec![1; 10])]
    );
    for byte in 0..2 {
        sending.push(2_000, 5, 0, &[byte; 15]);
    }
    assert_eq!(sending.poll_timeout(), None, "the mark is reached");
    assert_eq!(carry(&mut sending, &mut receiving, true).len(), 2);
    assert!(sending.is_done());
    assert_eq!(receiving.missing(&sending.totals()), [0, 0]);
}

#[test]
fn a_message_as_long_as_a_buffer_fits_and_a_longer_one_is_refused() {
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    let mut receiving = Inbound::new(EPOCH, 100);
    assert_eq!(sending.push(0, 1, 3, &[7; 100]), Pushed::Taken);
    assert_eq!(sending.push(0, 1, 3, &[7; 101]), Pushed::TooLong);
    sending.flush();
    assert_eq!(
        carry(&mut sending, &mut receiving, true),
        [(1, vec![7; 100])]
    );
    assert_eq!(sending.pushed(), [1, 100]);
}

/// Pushes until nothing is taken any more; how many messages were taken, and what became of the next one.
fn fill(sending: &mut Outbound) -> (u32, Pushed) {
    for number in 0.. {
        match sending.push(0, 1, 0, &[number as u8; 60]) {
            Pushed::Taken => {}
            other => return (number, other),
        }
    }
    unreachable!()
}

#[test]
fn a_slow_receiver_costs_what_the_policy_says() {
    // Three buffers of one message each; the link takes none.
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    assert_eq!(fill(&mut sending), (3, Pushed::Wait));
    assert_eq!(sending.push(999, 1, 0, &[0; 60]), Pushed::Wait);
    assert_eq!(sending.push(1_000, 1, 0, &[0; 60]), Pushed::GivenUp);
    assert_eq!(sending.totals().messages_dropped, 1);

    let mut sending = Outbound::new(&config(Slow::DropNewest), EPOCH).unwrap();
    assert_eq!(fill(&mut sending), (3, Pushed::Dropped));
    let came = carry(&mut sending, &mut Inbound::new(EPOCH, 100), true);
    assert_eq!(
        came.iter()
            .map(|(_, payload)| payload[0])
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );

    let mut sending = Outbound::new(&config(Slow::DropOldest), EPOCH).unwrap();
    for number in 0..10 {
        assert_eq!(sending.push(0, 1, 0, &[number; 60]), Pushed::Taken);
    }
    sending.flush();
    let mut receiving = Inbound::new(EPOCH, 100);
    let came = carry(&mut sending, &mut receiving, true);
    assert_eq!(
        came.iter()
            .map(|(_, payload)| payload[0])
            .collect::<Vec<_>>(),
        [7, 8, 9]
    );
    assert_eq!(sending.totals().messages_dropped, 7);
    assert_eq!(
        receiving.losses(),
        Default::default(),
        "what was never sent is no gap"
    );

    // What is on its way cannot be taken back: what is new is dropped.
    let mut sending = Outbound::new(&config(Slow::DropOldest), EPOCH).unwrap();
    for number in 0..3 {
        assert_eq!(sending.push(0, 1, 0, &[number; 60]), Pushed::Taken);
    }
    sending.flush();
    let came = carry(&mut sending, &mut Inbound::new(EPOCH, 100), false);
    assert_eq!((came.len(), sending.held()), (3, [0, 0]));
    assert_eq!(sending.push(0, 1, 0, &[3; 60]), Pushed::Dropped);
    let dropped = (sending.dropped().slow, sending.totals().messages);
    assert_eq!(dropped, ([1, 60], 3));

    let mut sending = Outbound::new(&config(Slow::Disconnect), EPOCH).unwrap();
    assert_eq!(fill(&mut sending), (3, Pushed::GivenUp));
    assert_eq!(sending.push(0, 1, 0, b"more"), Pushed::GivenUp);
    let mut lost = Vec::new();
    sending.abandon(|tag, bytes| lost.push((tag, bytes)));
    assert_eq!(lost, [(1, 60); 3]);
    assert_eq!((sending.residual(), sending.held()), ([0, 0], [0, 0]));
}

#[test]
fn what_is_dropped_is_counted_by_its_reason_where_it_happens() {
    for policy in [Slow::DropNewest, Slow::DropOldest, Slow::Disconnect] {
        // Three buffers, of one message each, and one message more.
        let mut sending = Outbound::new(&config(policy), EPOCH).unwrap();
        for number in 0..4 {
            sending.push(0, 1, 0, &[number; 60]);
        }
        sending.flush();
        let mut expected = Dropped {
            slow: [1, 60],
            ..Dropped::default()
        };
        assert_eq!(sending.dropped(), expected, "{policy:?}");
        sending.drop_too_long(101);
        expected.too_long = [1, 101];
        assert_eq!(sending.dropped(), expected, "{policy:?}");
        // One is on its way, and two wait; the receiver is let go, and then the connection is gone.
        assert!(sending.poll_transmit().is_some());
        sending.let_go(|_, _| {});
        expected.lost = [2, 120];
        assert_eq!(sending.dropped(), expected, "{policy:?}");
        sending.abandon(|_, _| {});
        expected.lost = [3, 180];
        assert_eq!(sending.dropped(), expected, "{policy:?}");
        let totals = sending.totals();
        assert_eq!([totals.messages_dropped, totals.bytes_dropped], [5, 341]);
        assert_eq!((sending.residual(), sending.held()), ([0, 0], [0, 0]));
    }
}

#[test]
fn gaps_repetitions_and_truncations_are_found_and_sized() {
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    let mut receiving = Inbound::new(EPOCH, 100);
    let mut frames = Vec::new();
    for number in 0..5_u8 {
        sending.push(0, 1, 0, &[number; 10]);
        sending.push(0, 2, 0, &[number; 20]);
        sending.flush();
        frames.push(sending.poll_transmit().unwrap().to_vec());
        sending.handle_transmitted();
        let _ = sending.handle_credit(&back(u64::from(number) + 1));
    }
    let read =
        |receiving: &mut Inbound, frame: &[u8]| receiving.handle_frame(frame).unwrap().count();
    assert_eq!(read(&mut receiving, &frames[0]), 2);
    assert_eq!(read(&mut receiving, &frames[3]), 2);
    let losses = receiving.losses();
    assert_eq!(
        (losses.gap_buffers, losses.gap_messages, losses.gap_bytes),
        (2, 4, 60)
    );
    assert_eq!(read(&mut receiving, &frames[3]), 0);
    assert_eq!(receiving.losses().repeated_buffers, 1);
    // A length in the middle is too great: what is before it is good.
    let mut broken = frames[4].clone();
    let second = broken.len() - 20 - 12;
    broken[second] = 200;
    assert_eq!(read(&mut receiving, &broken), 1);
    let losses = receiving.losses();
    assert_eq!((losses.broken_buffers, losses.broken_messages), (1, 1));
    assert_eq!(receiving.missing(&sending.totals()), [5, 80]);
    // That was its last one.
    let wrong = receiving.handle_frame(&frames[4]).unwrap_err();
    assert!(matches!(wrong, InboundError::Buffer(_)), "{wrong}");
    let mut receiving = Inbound::new(EPOCH, 100);
    let other = Outbound::new(&config(Slow::Block), 1).map(|mut other| {
        other.push(0, 1, 0, b"x");
        other.flush();
        other.poll_transmit().unwrap().to_vec()
    });
    let error = receiving.handle_frame(&other.unwrap()).unwrap_err();
    assert!(error.to_string().contains("connection 1"), "{error}");
}

#[test]
fn credit_that_cannot_be_is_refused() {
    let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
    sending.push(0, 1, 0, b"x");
    sending.flush();
    assert!(sending.handle_credit(&back(1)).is_err(), "nothing is sent");
    sending.poll_transmit();
    sending.handle_transmitted();
    assert!(sending.handle_credit(&back(2)).is_err());
    sending.handle_credit(&back(1)).unwrap();
    assert!(sending.handle_credit(&back(0)).is_err());
    let confirmed = |messages, bytes| Credit {
        buffers: 1,
        messages,
        bytes,
    };
    let wrong = sending.handle_credit(&confirmed(2, 1)).unwrap_err();
    assert_eq!((wrong.what, wrong.given, wrong.sent), ("messages", 2, 1));
    assert!(sending.handle_credit(&confirmed(1, 2)).is_err());
    assert_eq!(
        (sending.confirmed(), sending.unconfirmed()),
        ([0, 0], [1, 1])
    );
    sending.handle_credit(&confirmed(1, 1)).unwrap();
    assert_eq!(
        (sending.confirmed(), sending.unconfirmed()),
        ([1, 1], [0, 0])
    );
    assert!(sending.handle_credit(&confirmed(0, 1)).is_err());
}

/// A receiver cannot have taken more than it was sent.
#[test]
fn a_farewell_that_cannot_be_is_refused() {
    let after = |lie: fn(&mut Totals)| {
        let mut sending = Outbound::new(&config(Slow::Block), EPOCH).unwrap();
        sending.push(0, 1, 0, &[0; 10]);
        sending.push(0, 1, 0, &[0; 10]);
        sending.flush();
        sending.poll_transmit();
        sending.handle_transmitted();
        let mut took = sending.totals();
        lie(&mut took);
        let ended = sending.handle_farewell(&took).map_err(SessionError::from);
        (ended.map_err(|error| error.reason()), sending.unconfirmed())
    };
    assert_eq!(after(|_| ()), (Ok(()), [0, 0]));
    // Less is no lie: the rest is missing, and not confirmed.
    let less = after(|took| (took.messages, took.bytes) = (1, 10));
    assert_eq!(less, (Ok(()), [1, 10]));
    let lies: [fn(&mut Totals); 7] = [
        |took| took.messages = 3,
        |took| took.messages = u64::MAX,
        |took| took.messages_dropped = 1,
        |took| took.messages_dropped = u64::MAX,
        |took| took.bytes = 21,
        |took| took.bytes_dropped = u64::MAX,
        |took| took.buffers = 2,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        assert_eq!(after(lie), (Err("bad_field"), [2, 20]), "{number}");
    }
}

#[derive(Debug, Clone)]
enum Act {
    Push { tag: u64, bytes: usize },
    Flush,
    Carry,
    Lose,
    Credit,
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (0..3_u64, 0..110_usize).prop_map(|(tag, bytes)| Act::Push { tag, bytes }),
        2 => Just(Act::Flush),
        4 => Just(Act::Carry),
        1 => Just(Act::Lose),
        3 => Just(Act::Credit),
        2 => (1..400_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn the_books_close_whatever_happens(
        acts in proptest::collection::vec(act(), 0..200),
        slow in prop_oneof![Just(Slow::Block), Just(Slow::DropNewest), Just(Slow::DropOldest), Just(Slow::Disconnect)],
    ) {
        let mut sending = Outbound::new(&config(slow), EPOCH).unwrap();
        let mut receiving = Inbound::new(EPOCH, 100);
        let (mut now_ns, mut lost, mut came) = (0, [0_u64; 2], 0_u64);
        for act in acts {
            match act {
                Act::Push { tag, bytes } => {
                    let _ = sending.push(now_ns, tag, 0, &vec![1; bytes]);
                }
                Act::Flush => sending.flush(),
                Act::Carry => came += carry(&mut sending, &mut receiving, false).len() as u64,
                Act::Lose => {
                    let before = sending.totals();
                    if sending.poll_transmit().is_some() {
                        sending.handle_transmitted();
                        let after = sending.totals();
                        lost[0] += after.messages - before.messages;
                        lost[1] += after.bytes - before.bytes;
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
            prop_assert_eq!(sending.residual(), [0, 0]);
        }
        prop_assert_eq!(receiving.totals().messages, came);
        let missing = receiving.missing(&sending.totals());
        prop_assert_eq!(missing, lost.map(i128::from));
        prop_assert_eq!(receiving.losses().broken_buffers, 0);
        // What was lost before the last buffer that came is known without the totals of the end.
        prop_assert!(receiving.losses().gap_messages <= lost[0]);
        prop_assert!(receiving.losses().gap_bytes <= lost[1]);
    }
}

/// Frames whose numbers cannot be, after a good one of one message with 5 bytes: none is believed, none does harm.
#[test]
fn totals_that_cannot_be_end_the_connection() {
    let good = |fields: &DataFields| [&fields.to_bytes()[..], &MESSAGE].concat();
    let first = DataFields {
        epoch: EPOCH,
        sequence: 0,
        messages_total: 1,
        bytes_total: 5,
        messages: 1,
        bytes: MESSAGE.len() as u32,
    };
    let next = DataFields {
        sequence: 1,
        messages_total: 2,
        bytes_total: 10,
        ..first
    };
    let after = |fields: DataFields| {
        let mut receiving = Inbound::new(EPOCH, 100);
        assert_eq!(receiving.handle_frame(&good(&first)).unwrap().count(), 1);
        let read = receiving.handle_frame(&good(&fields)).map(Iterator::count);
        (read, receiving.told(), receiving.losses())
    };
    assert_eq!(after(next).0, Ok(1));
    let lies = [
        DataFields {
            messages_total: 1,
            ..next
        },
        DataFields {
            messages_total: 3,
            ..next
        },
        DataFields {
            messages_total: u64::MAX,
            ..next
        },
        DataFields {
            bytes_total: 4,
            ..next
        },
        DataFields {
            bytes_total: 1 << 63,
            ..next
        },
        DataFields {
            sequence: u64::MAX,
            messages_total: u64::MAX,
            ..next
        },
        DataFields {
            sequence: 3,
            messages_total: 1 << 40,
            ..next
        },
    ];
    for lie in lies {
        let (read, told, losses) = after(lie);
        assert!(
            matches!(read, Err(InboundError::Totals { .. })),
            "{lie:?}: {read:?}"
        );
        assert_eq!((told, losses), ([1, 5], Losses::default()), "{lie:?}");
    }
    // Bytes that were said and are not there have a name of their own, and are no gap.
    let (read, _, losses) = after(DataFields {
        bytes_total: 15,
        ..next
    });
    assert_eq!((read, losses.gap_bytes), (Ok(1), 0));
    assert_eq!((losses.broken_buffers, losses.broken_bytes), (1, 5));
    // Two buffers are missing, and what they held.
    let (_, _, losses) = after(DataFields {
        sequence: 3,
        messages_total: 5,
        bytes_total: 20,
        ..next
    });
    let lost = (losses.gap_buffers, losses.gap_messages, losses.gap_bytes);
    assert_eq!(lost, (2, 3, 10));
    for (messages, bytes, buffers) in [
        (0, 5, 1),
        (1, 4, 1),
        (1, 5, 0),
        (1 << 40, 5, 2),
        (1, 1 << 40, 2),
        (1, 5, u64::MAX),
    ] {
        let mut receiving = Inbound::new(EPOCH, 100);
        receiving
            .handle_frame(&good(&first))
            .unwrap()
            .for_each(drop);
        let end = Totals {
            messages,
            bytes,
            buffers,
            ..Totals::default()
        };
        assert!(receiving.handle_end(&end).is_err(), "{end:?}");
    }
}

/// A gap of so many buffers can have held so many messages and bytes, and no more: by the numbers of a buffer behind it, and by those of the end.
#[test]
fn a_gap_holds_what_its_buffers_can_and_no_more() {
    const GAP: u64 = 2;
    let gap_bytes = GAP * (100 + HEAD_BYTES_MAX as u64);
    let gap_messages = gap_bytes / HEADER_BYTES as u64;
    let behind = |gap: u64, messages: u64, bytes: u64| {
        let fields = DataFields {
            epoch: EPOCH,
            sequence: gap,
            messages_total: 1 + messages,
            bytes_total: bytes,
            messages: 1,
            bytes: MESSAGE.len() as u32,
        };
        let frame = [&fields.to_bytes()[..], &MESSAGE].concat();
        let mut receiving = Inbound::new(EPOCH, 100);
        receiving
            .handle_frame(&frame)
            .map(|_| ())
            .map_err(|error| what(&error))
    };
    let most = MESSAGE.len() as u64 + gap_bytes;
    assert_eq!(behind(GAP, gap_messages, most), Ok(()));
    assert_eq!(behind(GAP, gap_messages + 1, most), Err("messages"));
    assert_eq!(behind(GAP, gap_messages, most + 1), Err("bytes"));
    let count = u64::from(BUFFER_COUNT_MAX);
    assert_eq!(behind(count, 0, 5), Ok(()));
    assert_eq!(behind(count + 1, 0, 5), Err("buffers"));

    let end = |buffers, messages, bytes| {
        let totals = Totals {
            buffers,
            messages,
            bytes,
            ..Totals::default()
        };
        let mut receiving = Inbound::new(EPOCH, 100);
        let ended = receiving.handle_end(&totals);
        ended.map_err(|error| what(&error))
    };
    assert_eq!(end(GAP, gap_messages, gap_bytes), Ok(()));
    assert_eq!(end(GAP, gap_messages + 1, gap_bytes), Err("messages"));
    assert_eq!(end(GAP, gap_messages, gap_bytes + 1), Err("bytes"));
    assert_eq!(end(count, 0, 0), Ok(()));
    assert_eq!(end(count + 1, 0, 0), Err("buffers"));
}

/// What totals are wrong of.
fn what(error: &InboundError) -> &'static str {
    match error {
        InboundError::Totals { what, .. } => what,
        other => unreachable!("{other}"),
    }
}
