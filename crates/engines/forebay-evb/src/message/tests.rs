//! Datagrams to messages, whole, in pieces and damaged.

use super::*;
use crate::numbers::Run;
use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventRepr};
use proptest::prelude::*;

/// A message of `count` sub-events of `payload` bytes each.
fn message(count: u32, payload: usize) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    for number in 0..count {
        let sub = SubEventRepr {
            id: 0x8000,
            trigger_word: number << 8,
            ..SubEventRepr::default()
        };
        writer.push(&sub, &vec![number as u8; payload]).unwrap();
    }
    writer.finish().to_vec()
}

/// Feeds datagrams as the receiver does and returns what they came to.
fn feed(datagrams: &[&[u8]]) -> Vec<Step> {
    let mut check = MessageCheck::new(1 << 20);
    let mut buffer: Vec<u8> = Vec::new();
    let mut steps = Vec::new();
    for datagram in datagrams {
        buffer.truncate(check.unfinished().0);
        buffer.extend_from_slice(datagram);
        loop {
            let len = datagram.len();
            let step = check.handle_datagram(&buffer, len);
            let retry_at = match &step {
                Step::Rejected(rejected) => rejected.retry_at,
                _ => None,
            };
            steps.push(step);
            match retry_at {
                Some(at) => drop(buffer.drain(..at)),
                None => break,
            }
        }
    }
    steps
}

#[test]
fn one_datagram_is_one_message() {
    let bytes = message(3, 100);
    let Step::Complete(accepted) = feed(&[&bytes])[0] else {
        panic!("refused")
    };
    assert_eq!(
        (accepted.items, accepted.datagrams, accepted.broken_bytes),
        (3, 1, 0)
    );
    assert_eq!(accepted.kept_bytes as usize, bytes.len() - TRAILER_BYTES);
}

#[test]
fn a_long_message_of_several_datagrams_is_joined() {
    let bytes = message(2, 100_000);
    let cut: Vec<&[u8]> = bytes.chunks(MTU_BYTES).collect();
    let steps = feed(&cut);
    assert_eq!(&steps[..3], &[Step::More, Step::More, Step::More]);
    let Step::Complete(accepted) = steps[3] else {
        panic!("refused: {steps:?}")
    };
    assert_eq!((accepted.items, accepted.datagrams), (2, 4));
}

#[test]
fn every_piece_of_a_message_that_is_too_long_says_so() {
    let long = message(3, 500_000);
    let good = message(2, 100_000);
    let refused = |step: &Step| {
        matches!(
            step,
            Step::Rejected(Rejected {
                reason: Reject::TooLong,
                datagrams: 1,
                ..
            })
        )
    };
    let pieces: Vec<&[u8]> = long.chunks(MTU_BYTES).collect();
    let mut datagrams = pieces.clone();
    datagrams.extend(good.chunks(MTU_BYTES));
    let steps = feed(&datagrams);
    assert!(steps[..pieces.len()].iter().all(refused), "{steps:?}");
    let items = steps[..pieces.len()].iter().map(|step| match step {
        Step::Rejected(rejected) => rejected.dropped.items(),
        _ => panic!("{step:?}"),
    });
    assert!(
        items
            .rev()
            .eq([3].into_iter().chain([0].repeat(pieces.len() - 1))),
        "{steps:?}"
    );
    assert!(matches!(steps.last(), Some(Step::Complete(_))), "{steps:?}");
    // A piece is lost: the good message behind it is not taken for the rest.
    for lost in 0..pieces.len() {
        let mut datagrams = pieces.clone();
        datagrams.remove(lost);
        datagrams.extend(good.chunks(MTU_BYTES));
        let steps = feed(&datagrams);
        assert!(
            matches!(steps.last(), Some(Step::Complete(_))),
            "{lost}: {steps:?}"
        );
        if lost > 0 && lost + 1 < pieces.len() {
            assert!(steps[..lost].iter().all(refused), "{lost}: {steps:?}");
        }
    }
}

/// Refuses the message after its first `kept` pieces; the last of those that came behind.
fn refuse_after(check: &mut MessageCheck, pieces: &[&[u8]], kept: usize) -> Vec<Rejected> {
    let front: Vec<u8> = pieces[..kept].concat();
    for piece in 1..=kept {
        let end = piece * MTU_BYTES;
        assert_eq!(check.handle_datagram(&front[..end], MTU_BYTES), Step::More);
    }
    let first = check.refuse(&front);
    let (bytes, datagrams) = (first.bytes as usize, first.datagrams as usize);
    assert_eq!((bytes, datagrams), (front.len(), kept));
    let rest = pieces[kept..].iter().map(|piece| {
        assert!(check.may_continue_refused(piece));
        match check.handle_datagram(piece, piece.len()) {
            Step::Rejected(rejected) => rejected,
            other => panic!("{other:?}"),
        }
    });
    let all: Vec<Rejected> = [first].into_iter().chain(rest).collect();
    assert!(!check.may_continue_refused(pieces[1]), "it is over");
    all
}

#[test]
fn the_subevents_of_a_message_without_room_are_known_when_all_of_it_came() {
    // The second sub-event of the last one is broken: it counts as one.
    let mut broken = message(4, 40_000);
    broken[UNIT_HEADER_BYTES + 3 * 40_016] ^= 0x40;
    let cases = [
        (message(5, 40_000), 5),
        (message(4_000, 40), 4_000),
        (message(1, 250_000), 1),
        (broken, 4),
    ];
    for (bytes, items) in &cases {
        let pieces: Vec<&[u8]> = bytes.chunks(MTU_BYTES).collect();
        let mut check = MessageCheck::new(1 << 20);
        for kept in 1..pieces.len() {
            let all = refuse_after(&mut check, &pieces, kept);
            let (last, before) = all.split_last().unwrap();
            assert!(all.iter().all(|it| it.reason == Reject::RingFull));
            assert!(
                before.iter().all(|it| it.dropped == Dropped::default()),
                "{before:?}"
            );
            let mut dropped = last.dropped.clone();
            let unnumbered = dropped.take_unnumbered();
            assert_eq!(unnumbered, u32::from(*bytes == cases[3].0), "after {kept}");
            let (first, step) = (0, u32::from(items - unnumbered > 1));
            let items = items - unnumbered;
            assert_eq!(
                dropped.take_run(),
                Some(Run { first, step, items }),
                "after {kept}"
            );
            assert_eq!(dropped, Dropped::default());
        }
    }
    // A false trailer: it is no message, and nothing is known.
    let mut bytes = cases[0].0.clone();
    *bytes.last_mut().unwrap() ^= 1;
    let pieces: Vec<&[u8]> = bytes.chunks(MTU_BYTES).collect();
    let all = refuse_after(&mut MessageCheck::new(1 << 20), &pieces, 1);
    assert!(
        all.iter().all(|it| it.dropped == Dropped::default()),
        "{all:?}"
    );
}

/// The datagram is a message with so many good sub-events.
fn assert_taken(check: &mut MessageCheck, datagram: &[u8], items: u32) {
    let step = check.handle_datagram(datagram, datagram.len());
    let is_right = matches!(step, Step::Complete(accepted) if accepted.items == items);
    assert!(is_right, "{step:?}");
}

#[test]
fn a_message_too_long_in_one_datagram_says_what_it_held() {
    let mut check = MessageCheck::new(1 << 10);
    let bytes = message(5, 400);
    let Step::Rejected(rejected) = check.handle_datagram(&bytes, bytes.len()) else {
        panic!("accepted")
    };
    assert_eq!(
        (rejected.reason, rejected.dropped.items()),
        (Reject::TooLong, 5)
    );
    assert_eq!(rejected.bytes, bytes.len() as u64);
    assert_taken(&mut check, &message(1, 40), 1);
}

#[test]
fn what_begins_a_message_continues_none() {
    let (long, other) = (message(2, 100_000), message(3, 90_000));
    let pieces: Vec<&[u8]> = long.chunks(MTU_BYTES).collect();
    let mut check = MessageCheck::new(1 << 20);
    assert!(!check.may_continue(pieces[1]));
    assert_eq!(check.handle_datagram(pieces[0], MTU_BYTES), Step::More);
    assert!(check.may_continue(pieces[1]) && !check.may_continue_refused(pieces[1]));
    assert!(!check.may_continue(&other[..MTU_BYTES]));
    check.refuse(pieces[0]);
    assert!(!check.may_continue(pieces[1]) && check.may_continue_refused(pieces[1]));
    assert!(!check.may_continue_refused(&other[..MTU_BYTES]));
    assert!(!check.may_continue_refused(pieces[3]), "another length");
}

#[test]
fn a_refused_message_that_misses_a_piece_ends_where_another_begins() {
    let bytes = message(5, 40_000);
    let pieces: Vec<&[u8]> = bytes.chunks(MTU_BYTES).collect();
    let good = message(2, 40);
    for lost in 1..pieces.len() {
        let mut check = MessageCheck::new(1 << 20);
        assert_eq!(check.handle_datagram(pieces[0], MTU_BYTES), Step::More);
        check.refuse(pieces[0]);
        for (at, piece) in pieces.iter().enumerate().skip(1) {
            if at != lost {
                let step = check.handle_datagram(piece, piece.len());
                assert!(
                    matches!(&step, Step::Rejected(it) if it.dropped == Dropped::default()),
                    "{step:?}"
                );
            }
        }
        assert_taken(&mut check, &good, 2);
    }
}

#[test]
fn a_message_that_fills_its_last_datagram_ends_there() {
    let payload = 2 * MTU_BYTES - TRAILER_BYTES - UNIT_HEADER_BYTES - SUB_EVENT_HEADER_BYTES;
    let bytes = message(1, payload);
    assert_eq!(bytes.len(), 2 * MTU_BYTES);
    let next = message(1, 8);
    let steps = feed(&[&bytes[..MTU_BYTES], &bytes[MTU_BYTES..], &next]);
    assert!(
        matches!(steps[1], Step::Complete(Accepted { datagrams: 2, .. })),
        "{steps:?}"
    );
    assert!(
        matches!(steps[2], Step::Complete(Accepted { datagrams: 1, .. })),
        "{steps:?}"
    );
}

#[test]
fn a_lost_piece_costs_its_own_message_only() {
    let long = message(1, 150_000);
    let pieces: Vec<&[u8]> = long.chunks(MTU_BYTES).collect();
    let good = message(2, 40);
    let steps = feed(&[pieces[0], &good, pieces[0], pieces[2], &good]);
    let Step::Rejected(first) = &steps[1] else {
        panic!("{steps:?}")
    };
    assert_eq!(
        (first.reason, first.datagrams, first.bytes),
        (Reject::FragmentMissing, 1, MTU_BYTES as u64)
    );
    assert!(
        matches!(steps[2], Step::Complete(Accepted { items: 2, .. })),
        "{steps:?}"
    );
    let completed = steps
        .iter()
        .filter(|step| matches!(step, Step::Complete(_)))
        .count();
    assert_eq!(completed, 2, "{steps:?}");
}

#[test]
fn each_fault_has_its_name() {
    let good = message(2, 40);
    let mut trailer = good.clone();
    *trailer.last_mut().unwrap() ^= 1;
    let mut header = good.clone();
    header[4..8].fill(0);
    let mut size = good.clone();
    size[0] = 0x40;
    let mut alignment = good.clone();
    alignment[5] = 1;
    let cases: [(&[u8], Reject); 6] = [
        (&good[..7], Reject::Short),
        (&good[..good.len() - 1], Reject::BadLength),
        (&trailer, Reject::BadTrailer),
        (&header, Reject::BadHeader),
        (&size, Reject::TooLong),
        (&alignment, Reject::BadAlignment),
    ];
    for (bytes, reason) in cases {
        let Step::Rejected(rejected) = &feed(&[bytes])[0] else {
            panic!("{reason:?} accepted")
        };
        assert_eq!(
            (rejected.reason, rejected.datagrams, rejected.bytes),
            (reason, 1, bytes.len() as u64)
        );
    }
}

#[test]
fn what_is_good_before_a_broken_subevent_is_kept() {
    let mut bytes = message(3, 40);
    let second = UNIT_HEADER_BYTES + 56;
    bytes[second..second + 4].copy_from_slice(&15_u32.to_be_bytes());
    let Step::Complete(accepted) = feed(&[&bytes])[0] else {
        panic!("refused")
    };
    assert_eq!((accepted.items, accepted.broken_bytes), (1, 112));
}

proptest! {
    #[test]
    fn garbage_is_accounted_to_the_last_datagram(datagrams in proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            Just(message(2, 40)),
            Just(message(1, 150_000)[..MTU_BYTES].to_vec()),
            Just(message(1, 150_000)[2 * MTU_BYTES..].to_vec()),
        ], 1..20))
    {
        let mut check = MessageCheck::new(1 << 20);
        let mut buffer: Vec<u8> = Vec::new();
        let (mut datagrams_seen, mut bytes_seen) = (0_u64, 0_u64);
        for datagram in &datagrams {
            buffer.truncate(check.unfinished().0);
            buffer.extend_from_slice(datagram);
            loop {
                match check.handle_datagram(&buffer, datagram.len()) {
                    Step::More => break,
                    Step::Complete(accepted) => {
                        datagrams_seen += u64::from(accepted.datagrams);
                        bytes_seen += u64::from(accepted.message_bytes);
                        break;
                    }
                    Step::Rejected(rejected) => {
                        datagrams_seen += u64::from(rejected.datagrams);
                        bytes_seen += rejected.bytes;
                        match rejected.retry_at {
                            Some(at) => drop(buffer.drain(..at)),
                            None => break,
                        }
                    }
                }
            }
        }
        let (held_bytes, held) = check.unfinished();
        prop_assert_eq!(datagrams_seen + u64::from(held), datagrams.len() as u64);
        let all: usize = datagrams.iter().map(Vec::len).sum();
        prop_assert_eq!(bytes_seen + held_bytes as u64, all as u64);
    }
}
