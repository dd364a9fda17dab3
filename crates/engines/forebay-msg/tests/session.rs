//! Whole connections, from the first frame to the last, over a link that takes and gives bytes in any pieces.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

mod ends;

use ends::{End, send, talk, whole};
use forebay_msg::session::SessionError;
use forebay_msg::{Config, Entry, Outbound, Pushed, Refusal, Role, Slow};
use forebay_wire::net::{Frame, Kind, NetError};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

proptest! {
    /// Whatever is sent comes, in order, and both ends have counted the same, in however small pieces the link takes the bytes.
    #[test]
    fn a_connection_says_all_and_ends(
        messages in proptest::collection::vec((0..3_u64, proptest::collection::vec(any::<u8>(), 0..150)), 0..60),
        pieces in proptest::collection::vec(1..90_usize, 1..20),
        answers in any::<bool>(),
    ) {
        let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, answers));
        let mut at = 0;
        let mut piece = || {
            at += 1;
            pieces[at % pieces.len()]
        };
        talk(&mut a, &mut b, &mut piece);
        prop_assert_eq!(a.session.agreed().unwrap().buffer_bytes, 150);
        prop_assert_eq!(a.session.agreed().unwrap().buffer_count, 3);
        send(&mut a, &mut b, &messages, &mut piece);
        if answers {
            send(&mut b, &mut a, &messages, &mut piece);
            b.session.end();
        }
        a.session.end();
        for _ in 0..4 {
            talk(&mut a, &mut b, &mut piece);
            a.session.give_credit(true);
            b.session.give_credit(true);
        }
        talk(&mut a, &mut b, &mut piece);
        prop_assert_eq!(&b.got, &messages);
        prop_assert_eq!(a.got.len(), if answers { messages.len() } else { 0 });
        prop_assert!(a.session.is_over() && b.session.is_over());
        let sent = a.outbound.as_ref().unwrap();
        prop_assert_eq!(sent.residual(), [0, 0]);
        prop_assert!(sent.is_done());
        let farewell = a.session.farewell().unwrap();
        prop_assert_eq!((farewell.messages, farewell.bytes), (sent.totals().messages, sent.totals().bytes));
        prop_assert_eq!(b.session.peer_end().unwrap(), &sent.totals());
        prop_assert_eq!(b.session.inbound().unwrap().missing(&sent.totals()), [0, 0]);
    }

    #[test]
    fn rubbish_ends_a_connection_and_nothing_else(bytes in proptest::collection::vec(any::<u8>(), 0..300), greeted in any::<bool>(), framed in any::<bool>()) {
        let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, true));
        if greeted {
            talk(&mut a, &mut b, whole);
        }
        if framed {
            b.inbox.extend_from_slice(&[b'F', b'N', 2, bytes.first().map_or(6, |kind| kind % 13), bytes.len() as u8, 0, 0, 0]);
        }
        let is_foreign = !framed && bytes.len() >= 2 && !bytes.starts_with(b"FN");
        b.inbox.extend_from_slice(&bytes);
        let heard = b.hear(0);
        // It has a name, and what is no frame ends it.
        if let Err(error) = &heard {
            prop_assert!(!error.reason().is_empty() && !error.to_string().is_empty());
        }
        prop_assert!(heard.is_err() || !is_foreign, "{:?}", bytes);
        // Nothing was said to be delivered that was not, and nothing was made up.
        prop_assert!(b.session.peer_end().is_none() || heard.is_ok());
        if let Some(inbound) = b.session.inbound() {
            let (read, losses) = (inbound.totals(), inbound.losses());
            prop_assert_eq!(read.messages, b.got.len() as u64);
            let known = read.messages + losses.gap_messages + losses.broken_messages;
            prop_assert_eq!(inbound.told()[0], known);
        }
        prop_assert!(b.outbound.as_ref().is_none_or(|sending| sending.residual() == [0, 0] && sending.pushed() == [0, 0]));
        // Another connection knows nothing of it.
        let (mut c, mut d) = (End::sender(), End::listen(Role::Sender, true));
        talk(&mut c, &mut d, whole);
        prop_assert!(d.session.agreed().is_some());
    }
}

#[test]
fn a_subscriber_asks_and_leaves() {
    let (mut a, mut b) = (
        End::dial(Role::Subscriber),
        End::listen(Role::Subscriber, false),
    );
    talk(&mut a, &mut b, whole);
    assert_eq!(b.session.agreed().unwrap().slow, Slow::DropOldest);
    let entries: Vec<Entry> = (0..20).map(Entry::one).collect();
    // Room for three entries in a frame.
    a.session.subscribe(9, true, &entries, 16 + 3 * 16);
    talk(&mut a, &mut b, whole);
    assert_eq!(b.asked, entries);
    assert_eq!(a.answered, [(9, true); 7]);
    send(&mut b, &mut a, &[(3, vec![1; 10])], whole);
    a.session.leave();
    talk(&mut a, &mut b, whole);
    assert_eq!(
        a.got,
        [(3, vec![1; 10])],
        "what was held comes before the end"
    );
    assert!(b.session.is_ending() && a.session.is_over() && b.session.is_over());
    let late = b.outbound.as_mut().unwrap().push(0, 3, 0, &[1]);
    assert_eq!(late, Pushed::Wait, "nothing goes after the end");
}

#[test]
fn who_is_not_served_is_told_why() {
    let (mut a, mut b) = (
        End::dial(Role::Subscriber),
        End::listen(Role::Sender, false),
    );
    a.say(0, &mut b.inbox, usize::MAX);
    let turned = SessionError::Turned {
        reason: Refusal::Role,
    };
    assert_eq!(b.hear(0), Err(turned));
    b.say(0, &mut a.inbox, usize::MAX);
    let refused = SessionError::Refused {
        reason: Ok(Refusal::Role),
    };
    assert_eq!(a.hear(0), Err(refused));
}

/// What a frame leads to at a sender that is connected.
fn after(frame: &[u8]) -> Result<(), SessionError> {
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    a.inbox.extend_from_slice(frame);
    a.hear(0)
}

#[test]
fn what_has_no_place_ends_the_connection() {
    for kind in [
        Kind::Hello,
        Kind::Welcome,
        Kind::Data,
        Kind::End,
        Kind::Farewell,
    ] {
        let frame = match kind {
            Kind::Hello => {
                let mut sender = End::sender();
                sender
                    .session
                    .poll_transmit(None::<&mut Outbound>)
                    .unwrap()
                    .bytes
                    .to_vec()
            }
            Kind::Welcome => [&b"FN\x02\x02\x14\0\0\0"[..], &[1; 16], &[0; 4]].concat(),
            Kind::Data => {
                let mut outbound = Outbound::new(&Config::default(), 77).unwrap();
                outbound.push(0, 1, 0, b"x");
                outbound.flush();
                outbound.poll_transmit().unwrap().to_vec()
            }
            Kind::End => Frame::End(forebay_msg::Totals::default()).emit(),
            _ => Frame::Farewell(forebay_msg::Totals::default()).emit(),
        };
        let result = after(&frame);
        // A welcome that says more than can be is refused before its place is asked for.
        let placed = result == Err(SessionError::OutOfPlace { kind });
        let unread = matches!(result, Err(SessionError::Frame(NetError::Field { .. })));
        assert!(
            placed || (kind == Kind::Welcome && unread),
            "{kind}: {result:?}"
        );
    }
    let credit = after(
        &Frame::Credit(forebay_msg::Credit {
            buffers: 1,
            ..forebay_msg::Credit::default()
        })
        .emit(),
    );
    assert!(matches!(credit, Err(SessionError::Credit(_))), "{credit:?}");
    assert_eq!(after(&Frame::Alive.emit()), Ok(()));
}

#[test]
fn who_is_let_go_is_told_why_and_what_it_missed() {
    let (mut publisher, mut subscriber) = (
        End::listen(Role::Subscriber, false),
        End::dial(Role::Subscriber),
    );
    talk(&mut publisher, &mut subscriber, whole);
    let outbound = publisher.outbound.as_mut().unwrap();
    // Three buffers; the oldest make room.
    for tag in 0..6 {
        outbound.push(0, tag, 0, &[0; 150]);
    }
    outbound.flush();
    // One has begun to go out, and has to go on; two have not.
    assert!(publisher.say(0, &mut subscriber.inbox, 10));
    let mut lost = [0; 2];
    let outbound = publisher.outbound.as_mut().unwrap();
    outbound.let_go(|_, bytes| lost = [lost[0] + 1, lost[1] + bytes]);
    assert_eq!((lost, outbound.residual()), ([2, 300], [0, 0]));
    publisher.session.let_go();
    while publisher.say(0, &mut subscriber.inbox, 7) {}
    let told = subscriber.hear(0).unwrap_err();
    assert_eq!(told, SessionError::LetGo { messages: 5 });
    assert_eq!(told.reason(), "too_slow");
    assert_eq!(subscriber.got.len(), 1);
    assert_eq!(subscriber.session.dropped_by_peer(), Some([5, 750]));
    let inbound = subscriber.session.inbound().unwrap();
    assert_eq!(
        (inbound.told(), inbound.losses().gap_messages),
        ([1, 150], 0)
    );
    // That is no end in order.
    assert!(!subscriber.session.has_heard_all() && !publisher.session.has_heard_all());
}

#[test]
fn one_that_asks_and_does_not_read_is_let_go() {
    let (mut a, mut b) = (
        End::dial(Role::Subscriber),
        End::listen(Role::Subscriber, false),
    );
    talk(&mut a, &mut b, whole);
    let mut result = Ok(());
    for request in 0..3_000 {
        a.session.subscribe(request, true, &[Entry::one(1)], 100);
        while a.say(0, &mut b.inbox, usize::MAX) {}
        result = b.hear(0);
        if result.is_err() {
            break;
        }
    }
    assert_eq!(result.unwrap_err().reason(), "answers_unread");
    // Credit is no answer: one frame tells it all.
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    for _ in 0..2_000 {
        if a.outbound.as_mut().unwrap().push(0, 1, 0, b"x") != Pushed::Taken {
            b.session.give_credit(true);
            talk(&mut a, &mut b, whole);
            continue;
        }
        a.outbound.as_mut().unwrap().flush();
        while a.say(0, &mut b.inbox, usize::MAX) {}
        b.hear(0).unwrap();
        b.session.give_credit(true);
    }
}

/// What this side asks for is no answer that the peer does not read, however much of it waits.
#[test]
fn own_subscriptions_do_not_count_as_answers() {
    let connected = || {
        let (mut a, mut b) = (
            End::dial(Role::Subscriber),
            End::listen(Role::Subscriber, false),
        );
        talk(&mut a, &mut b, whole);
        (a, b)
    };
    let entries: Vec<Entry> = (0..5_000).map(Entry::one).collect();
    // One call with frames of one entry, and calls that each have their own number.
    for numbered in [false, true] {
        let (mut a, mut b) = connected();
        if numbered {
            for (request, one) in (0..).zip(&entries) {
                a.session.subscribe(request, true, &[*one], 4096);
            }
        } else {
            a.session.subscribe(0, true, &entries, 32);
        }
        a.inbox.extend(Frame::Alive.emit());
        assert_eq!(a.hear(0), Ok(()), "numbered {numbered}");
        talk(&mut a, &mut b, whole);
        assert_eq!((b.asked, a.answered.len()), (entries.clone(), 5_000));
    }
    // Many calls of one number go together, but for what the link has begun to take, and for what ends others.
    let (mut a, mut b) = connected();
    a.session.subscribe(0, true, &entries[..1], 1 << 20);
    assert!(a.say(0, &mut b.inbox, 3));
    for one in &entries[1..] {
        a.session.subscribe(0, true, &[*one], 1 << 20);
    }
    a.session.subscribe(0, false, &entries[..9], 1 << 20);
    a.session.subscribe(0, true, &entries[..9], 1 << 20);
    talk(&mut a, &mut b, whole);
    let asked = [&entries[..], &entries[..9], &entries[..9]].concat();
    assert_eq!(b.asked, asked);
    assert_eq!(a.answered, [(0, true); 5], "1, 4,096, 903, 9 and 9 entries");
}

/// With something on its way that the link does not take, there is nothing to wake up for before the peer counts as silent.
#[test]
fn a_link_that_takes_nothing_is_no_reason_to_turn() {
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    assert_eq!(a.session.poll_timeout(), SECOND_NS);
    a.session.handle_time(SECOND_NS).unwrap();
    assert_eq!(a.session.poll_timeout(), 10 * SECOND_NS);
    a.session.handle_time(5 * SECOND_NS).unwrap();
    assert_eq!(a.session.poll_timeout(), 10 * SECOND_NS);
}

#[test]
fn a_silent_peer_is_given_up_and_a_quiet_one_is_not() {
    let mut nobody = End::listen(Role::Sender, false);
    assert_eq!(nobody.session.poll_timeout(), 5 * SECOND_NS);
    assert_eq!(nobody.session.handle_time(5 * SECOND_NS - 1), Ok(()));
    let none = nobody.session.handle_time(5 * SECOND_NS);
    assert_eq!(none, Err(SessionError::NoGreeting));

    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    for second in 1..40 {
        let now_ns = second * SECOND_NS;
        a.session.handle_time(now_ns).unwrap();
        b.session.handle_time(now_ns).unwrap();
        assert!(
            a.say(now_ns, &mut b.inbox, usize::MAX),
            "alive, once a second"
        );
        assert!(b.say(now_ns, &mut a.inbox, usize::MAX));
        a.hear(now_ns).unwrap();
        b.hear(now_ns).unwrap();
    }
    let silent = a.session.handle_time(49 * SECOND_NS);
    let expected = SessionError::Silent {
        silent_ns: 10 * SECOND_NS,
    };
    assert_eq!(silent, Err(expected));
}

#[test]
fn who_did_not_listen_calls_nobody_silent_and_says_still_that_he_is_there() {
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    talk(&mut a, &mut b, whole);
    for second in 1..40 {
        let now_ns = second * SECOND_NS;
        b.session.handle_deafness(now_ns);
        b.session.handle_time(now_ns).unwrap();
        assert!(b.say(now_ns, &mut a.inbox, usize::MAX));
        a.hear(now_ns).unwrap();
        a.session.handle_time(now_ns).unwrap();
    }
    // From then on the peer's silence is its own again.
    assert_eq!(b.session.handle_time(49 * SECOND_NS - 1), Ok(()));
    assert!(b.session.handle_time(49 * SECOND_NS).is_err());
}

#[test]
fn what_is_confirmed_by_hand_is_unconfirmed_until_then_and_the_end_waits_for_it() {
    let (mut a, mut b) = (End::sender(), End::listen(Role::Sender, false));
    b.session.confirm_by_hand();
    talk(&mut a, &mut b, whole);
    send(&mut a, &mut b, &vec![(1, vec![7; 40]); 30], whole);
    a.session.end();
    talk(&mut a, &mut b, whole);
    let unconfirmed = |a: &End| a.outbound.as_ref().unwrap().unconfirmed();
    // All buffers came back long ago, or the last ones would not have gone out.
    assert_eq!((b.got.len(), unconfirmed(&a)), (30, [30, 1200]));
    b.session.confirm(29, 29 * 40);
    assert!(b.session.give_credit(true) && !b.session.give_credit(true));
    talk(&mut a, &mut b, whole);
    assert_eq!((unconfirmed(&a), a.session.farewell()), ([1, 40], None));
    assert!(b.session.has_heard_all() && !b.session.is_over());
    // No more of them than came.
    b.session.confirm(5, 5 * 40);
    talk(&mut a, &mut b, whole);
    assert_eq!((unconfirmed(&a), b.session.is_over()), ([0, 0], true));
    assert_eq!(a.session.farewell().unwrap().messages, 30);
}
