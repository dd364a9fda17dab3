//! A receiver that could not write a message confirms neither it nor anything behind it.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

mod ends;

use ends::{End, send, talk, whole};
use forebay_msg::Role;
use proptest::prelude::*;

/// Messages and bytes that the receiver has confirmed, as its sender knows it.
fn confirmed(sender: &End) -> [u64; 2] {
    let sending = sender.outbound.as_ref().unwrap();
    let (sent, unconfirmed) = (sending.totals(), sending.unconfirmed());
    let confirmed = [sent.messages - unconfirmed[0], sent.bytes - unconfirmed[1]];
    assert_eq!(sending.confirmed(), confirmed);
    confirmed
}

fn sum(messages: &[(u64, Vec<u8>)]) -> [u64; 2] {
    let bytes: usize = messages.iter().map(|(_, payload)| payload.len()).sum();
    [messages.len() as u64, bytes as u64]
}

proptest! {
    /// Messages are settled one after the other, some at a time. From the `hole` on they are not confirmed, though the receiver says of those behind it that they took
    /// effect; all of them come.
    #[test]
    fn what_is_confirmed_ends_at_the_first_message_that_was_not_written(
        messages in proptest::collection::vec((0..3_u64, proptest::collection::vec(any::<u8>(), 0..150)), 1..60),
        pieces in proptest::collection::vec(1..90_usize, 1..20),
        settled_at_once in proptest::collection::vec(0..5_usize, 1..9),
        hole in 0..60_usize,
    ) {
        let mut at = 0;
        let mut piece = || {
            at += 1;
            pieces[at % pieces.len()]
        };
        let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
        b.session.confirm_by_hand();
        talk(&mut a, &mut b, &mut piece);
        let mut settled = 0;
        let mut settle = |b: &mut End, most: usize| {
            for (_, payload) in b.got[settled..].iter().take(most) {
                if settled == hole {
                    b.session.withhold();
                } else {
                    b.session.confirm(1, payload.len() as u64);
                }
                settled += 1;
            }
            settled
        };
        for (message, at_once) in messages.iter().zip(settled_at_once.iter().cycle()) {
            send(&mut a, &mut b, std::slice::from_ref(message), &mut piece);
            let settled = settle(&mut b, *at_once);
            b.session.give_credit(true);
            talk(&mut a, &mut b, &mut piece);
            prop_assert_eq!(confirmed(&a), sum(&messages[..settled.min(hole)]));
        }
        a.session.end();
        talk(&mut a, &mut b, &mut piece);
        settle(&mut b, usize::MAX);
        talk(&mut a, &mut b, &mut piece);
        prop_assert_eq!(&b.got, &messages);
        prop_assert_eq!(confirmed(&a), sum(&messages[..messages.len().min(hole)]));
        // The side that withholds has answered by its end, and waits for nothing.
        prop_assert!(b.session.is_over());
        let holds = hole < messages.len();
        prop_assert_eq!((a.session.farewell().is_none(), a.session.is_over()), (holds, !holds));
        prop_assert!(a.outbound.as_ref().unwrap().is_done(), "all buffers came back");
    }
}

#[test]
fn where_reading_confirms_what_was_read_before_stays_so() {
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    let message = (1, vec![7; 150]);
    send(&mut a, &mut b, &[message.clone(), message.clone()], whole);
    a.outbound.as_mut().unwrap().flush();
    talk(&mut a, &mut b, whole);
    b.session.withhold();
    send(&mut a, &mut b, &[message.clone(), message], whole);
    a.session.end();
    talk(&mut a, &mut b, whole);
    assert_eq!((b.got.len(), confirmed(&a)), (4, [2, 300]));
    assert!(b.session.is_over() && a.session.farewell().is_none());
}
