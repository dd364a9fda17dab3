//! The accounts of both ends of messaging, term by term: a term that is forgotten or counted twice leaves something over.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_ledger::{Amount, Condition, Reason, Supervisor, Verdict, audit};
use forebay_run::run_dir::open_ledger;
use forebay_run_net::{
    Address, Entry, NetRecord, PeerId, Publisher, Receiver, Sender, Settings, Subscriber, Untaken,
};

const LIMIT: Duration = Duration::from_secs(20);
const ZERO: Duration = Duration::ZERO;

fn addresses(name: &str) -> [Address; 2] {
    let shm = format!("shm://{name}-{}", std::process::id());
    ["tcp://127.0.0.1:0", &shm].map(|text| text.parse().unwrap())
}

fn gathering() -> Settings {
    Settings {
        gathers: true,
        ..Settings::default()
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT);
    }
}

/// Settings that leave the ledger there.
fn kept(out: &Path, settings: Settings) -> Settings {
    Settings {
        out: Some(out.to_owned()),
        ..settings
    }
}

/// What the audit says of a ledger that was left.
fn audited(out: &Path) -> Verdict {
    let snapshot = open_ledger(out).unwrap().snapshot().unwrap();
    audit(&snapshot, Supervisor::Gone)
}

/// A publisher that has published ten messages of 1 to 10 bytes, and one more that nobody wants; a subscriber that has all ten.
fn ten_came(address: &Address) -> (Publisher, Subscriber) {
    ten_came_to(address, &Settings::default(), &gathering())
}

/// The same with these settings of both.
fn ten_came_to(address: &Address, from: &Settings, to: &Settings) -> (Publisher, Subscriber) {
    let mut publisher = Publisher::listen(address, from).unwrap();
    let at = publisher.address().unwrap();
    let mut subscriber = Subscriber::connect(&[at], to).unwrap();
    subscriber.subscribe(&[Entry::one(1)]);
    until(|| {
        publisher.poll(ZERO).unwrap();
        subscriber.poll(ZERO, |_| {}).unwrap();
        publisher.ready_subscribers() > 0
    });
    assert_eq!(publisher.publish(2, 0, &[0; 50]).unwrap(), 0);
    for bytes in 1..=10 {
        assert_eq!(publisher.publish(1, 0, &[7; 10][..bytes]).unwrap(), 1);
    }
    come(&mut publisher, &mut subscriber, 10);
    (publisher, subscriber)
}

fn come(publisher: &mut Publisher, subscriber: &mut Subscriber, messages: u32) {
    let mut came = 0;
    publisher.flush().unwrap();
    until(|| {
        publisher.poll(ZERO).unwrap();
        subscriber.poll(ZERO, |_| came += 1).unwrap();
        came >= messages
    });
}

/// Both ends' summaries; the publisher waits no longer than that for its subscriber.
fn ended(mut publisher: Publisher, mut subscriber: Subscriber) -> [NetRecord; 2] {
    publisher.begin_end();
    let begun = Instant::now();
    while publisher.subscribers() > 0 && begun.elapsed() < Duration::from_millis(300) {
        publisher.poll(ZERO).unwrap();
        subscriber.poll(ZERO, |_| {}).unwrap();
    }
    let subscribed = subscriber.finish(ZERO, |_| {}).unwrap();
    [publisher.finish(ZERO).unwrap(), subscribed]
}

#[test]
fn what_became_of_each_message_is_counted_once() {
    for address in addresses("each") {
        let (mut publisher, mut subscriber) = ten_came(&address);
        subscriber.acknowledge().taken(4, 1 + 2 + 3 + 4);
        let acknowledgement = subscriber.acknowledge();
        acknowledgement.untaken(Untaken::NotWanted, 2, 5 + 6);
        subscriber.acknowledge().taken(4, 7 + 8 + 9 + 10);
        subscriber.acknowledge().decline();
        for _ in 0..3 {
            publisher.publish(1, 0, &[0; 100]).unwrap();
        }
        let [published, subscribed] = ended(publisher, subscriber);
        assert!(published.is_closed(), "{published:?}");
        assert!(subscribed.is_closed(), "{subscribed:?}");
        for summary in [&published, &subscribed] {
            assert_eq!((summary.messages, summary.bytes), (13, 355), "{summary:?}");
            assert_eq!((summary.held, summary.unconfirmed), (0, 0), "{summary:?}");
        }
        assert_eq!(published.envelope.lost("no_subscriber"), 1, "{published:?}");
        assert_eq!(published.dropped, 1);
        assert_eq!(subscribed.envelope.lost("not_wanted"), 5, "{subscribed:?}");
        assert_eq!(subscribed.dropped, 5);
    }
}

#[test]
fn what_nobody_has_taken_is_left_in_the_books_and_unconfirmed_at_its_sender() {
    for address in addresses("left") {
        let (publisher, mut subscriber) = ten_came(&address);
        subscriber.acknowledge().taken(4, 10);
        let [published, subscribed] = ended(publisher, subscriber);
        let books = subscribed.envelope.books;
        assert_eq!((books.residual_items, books.residual_bytes), (0, 0));
        assert_eq!((books.left_items, books.left_bytes), (6, 45));
        assert!(!subscribed.is_closed() && subscribed.held == 6);
        assert!(published.is_closed(), "{published:?}");
        let unconfirmed = (published.unconfirmed, published.unconfirmed_bytes);
        assert_eq!(unconfirmed, (6, 45), "{published:?}");
    }
}

#[test]
fn who_says_more_of_it_than_came_leaves_books_that_do_not_close() {
    for (messages, bytes) in [(11, 55), (10, 54), (10, 56)] {
        let [address, _] = addresses("lie");
        let (publisher, mut subscriber) = ten_came(&address);
        subscriber.acknowledge().taken(messages, bytes);
        let [_, subscribed] = ended(publisher, subscriber);
        let books = subscribed.envelope.books;
        let residual = [books.residual_items, books.residual_bytes];
        let lie = [messages.abs_diff(10), bytes.abs_diff(55)];
        assert_eq!(residual, lie, "{subscribed:?}");
    }
}

#[test]
fn a_ledger_that_does_not_close_says_so_itself() {
    // Too many by one, too few by one, and the right number.
    for (messages, bytes, is_closed) in [(11, 55, false), (9, 45, false), (10, 55, true)] {
        let [address, _] = addresses("tainted");
        let out = tempfile::tempdir().unwrap();
        let settings = kept(&out.path().join("to"), gathering());
        let (publisher, mut subscriber) = ten_came_to(&address, &Settings::default(), &settings);
        subscriber.acknowledge().taken(messages, bytes);
        let [_, subscribed] = ended(publisher, subscriber);
        assert_eq!(subscribed.is_closed(), is_closed, "{subscribed:?}");
        let verdict = audited(&out.path().join("to"));
        assert_eq!(verdict.closed, is_closed, "{}", verdict.sheet());
        let run = &verdict.balance.run;
        let right = if is_closed {
            (Condition::Ended, Reason::Requested)
        } else {
            (Condition::Tainted, Reason::Residual)
        };
        assert_eq!((run.condition, run.reason), right, "{messages} were taken");
    }
}

#[test]
fn the_ledger_says_what_was_confirmed_and_no_more() {
    for (taken, bytes) in [(0, 0), (4, 10), (10, 55)] {
        let [address, _] = addresses("confirmed");
        let out = tempfile::tempdir().unwrap();
        let settings = kept(&out.path().join("from"), Settings::default());
        let (publisher, mut subscriber) = ten_came_to(&address, &settings, &gathering());
        subscriber.acknowledge().taken(taken, bytes);
        let [published, _] = ended(publisher, subscriber);
        let verdict = audited(&out.path().join("from"));
        let lines = verdict.balance.accounts.iter();
        let mut lines = lines.filter(|line| line.place == "send" && line.outgoing.items > 0);
        let line = lines.next().unwrap();
        assert!(lines.next().is_none(), "there was one subscriber");
        let amount = |items, bytes| Some(Amount { items, bytes });
        assert_eq!(Some(line.outgoing), amount(10, 55));
        assert_eq!(line.confirmed, amount(taken, bytes));
        assert_eq!(line.unconfirmed, amount(10 - taken, 55 - bytes));
        let unconfirmed = (published.unconfirmed, published.unconfirmed_bytes);
        assert_eq!(unconfirmed, (10 - taken, 55 - bytes));
    }
}

/// A sender that has sent a message of 20 bytes, its receiver that has it and can answer, and the peer that it has it from.
fn one_asked(address: &Address, of_receiver: &Settings) -> (Sender, Receiver, PeerId) {
    let mut receiver = Receiver::listen_and_answer(address, of_receiver).unwrap();
    let at = receiver.address().unwrap();
    let mut sender = Sender::connect(&at, &Settings::default()).unwrap();
    until(|| {
        receiver.poll(ZERO, |_| {}).unwrap();
        sender.poll(ZERO, |_| {}).unwrap();
        sender.is_connected() && receiver.senders() > 0
    });
    sender.send(1, 0, &[0; 20]).unwrap();
    sender.flush().unwrap();
    let mut from = None;
    until(|| {
        let heard = |one: forebay_run_net::Delivered<'_>| from = Some(one.peer);
        receiver.poll(ZERO, heard).unwrap();
        from.is_some()
    });
    (sender, receiver, from.unwrap())
}

#[test]
fn answers_that_nobody_listens_to_are_lost_by_name() {
    for address in addresses("unheard") {
        let (mut sender, mut receiver, from) = one_asked(&address, &Settings::default());
        receiver.try_send(from, 2, 0, &[0; 30]).unwrap();
        receiver.begin_end();
        receiver.flush();
        // It can be read now, and what goes out does not read it.
        sender.flush().unwrap();
        let receiving = std::thread::spawn(move || receiver.finish(LIMIT, |_| {}).unwrap());
        let sent = sender.finish(LIMIT).unwrap();
        let received = receiving.join().unwrap();
        for summary in [&sent, &received] {
            assert!(summary.is_closed(), "{summary:?}");
            assert_eq!((summary.messages, summary.bytes), (2, 50), "{summary:?}");
        }
        assert_eq!(sent.envelope.lost("not_wanted"), 1, "{sent:?}");
        assert_eq!(sent.dropped, 1);
    }
}

#[test]
fn answers_and_those_that_are_given_up_are_counted_once() {
    for address in addresses("answers") {
        let out = tempfile::tempdir().unwrap();
        let settings = kept(&out.path().join("at"), Settings::default());
        let (mut sender, mut receiver, from) = one_asked(&address, &settings);
        receiver.try_send(from, 2, 0, &[0; 30]).unwrap();
        receiver.give_up(40);
        receiver.flush();
        let mut answers = 0;
        until(|| {
            receiver.poll(ZERO, |_| {}).unwrap();
            sender.poll(ZERO, |_| answers += 1).unwrap();
            answers > 0
        });
        sender.begin_end();
        receiver.begin_end();
        until(|| {
            receiver.poll(ZERO, |_| {}).unwrap();
            sender.poll(ZERO, |_| {}).unwrap();
            receiver.senders() == 0
        });
        let (sent, received) = (
            sender.finish(ZERO).unwrap(),
            receiver.finish(ZERO, |_| {}).unwrap(),
        );
        for summary in [&sent, &received] {
            assert!(summary.is_closed(), "{summary:?}");
            assert_eq!((summary.messages, summary.bytes), (2, 50), "{summary:?}");
        }
        assert_eq!(received.envelope.lost("not_answered"), 1, "{received:?}");
        assert_eq!(received.dropped, 1);
        let verdict = audited(&out.path().join("at"));
        let mut lines = verdict.balance.accounts.iter();
        let answers = lines.find(|line| line.place == "answers").unwrap();
        let given_up = Amount {
            items: 1,
            bytes: 40,
        };
        assert_eq!(answers.incoming, given_up, "{}", verdict.sheet());
    }
}
