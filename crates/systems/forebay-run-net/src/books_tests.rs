//! Each count comes into its own term, and once.

use forebay_link::bytes::Piece;

use super::*;
use crate::summary::NetSummary;

fn books() -> Books {
    let settings = Settings {
        per_tag: true,
        ..Settings::default()
    };
    Books::open("test", 2, &settings).unwrap()
}

/// Counts that are all different, and greater with each time; what is held goes up and down.
fn counted(times: u64) -> Counts {
    let mut next = 100 * times;
    let mut one = || {
        next += 7 * times;
        [next, next + times]
    };
    Counts {
        pushed: one(),
        sent: one(),
        confirmed: one(),
        slow: one(),
        too_long: one(),
        lost: one(),
        held: [1_000 - 100 * times, 2_000 - 50 * times],
        told: one(),
        read: one(),
        handed: one(),
        gap: one(),
        broken: one(),
    }
}

/// What the account of a place says, in the order of [`terms`].
fn found(books: &Books, slot: usize) -> Vec<[u64; 2]> {
    let Slot {
        send,
        confirmed,
        receive,
        told,
    } = &books.slots[slot];
    let terms = [send.incoming, send.outgoing, *confirmed, send.held].into_iter();
    let terms = terms.chain(send.losses().map(|(_, term)| term));
    let terms = terms.chain([receive.incoming, receive.outgoing, receive.held]);
    let terms = terms.chain([told.incoming, told.outgoing]);
    let terms = terms.chain(told.losses().map(|(_, term)| term));
    let pair = |(items, bytes)| [items, bytes];
    terms.map(|it| pair(books.book.tally(it))).collect()
}

/// What the account of a connection with these counts has to say.
fn terms(now: &Counts) -> Vec<[u64; 2]> {
    let sending = [now.pushed, now.sent, now.confirmed, now.held];
    let dropped = [now.slow, now.lost, now.too_long];
    let receiving = [now.read, now.handed, [0, 0]];
    let told = [now.told, now.read, now.gap, now.broken];
    [&sending[..], &dropped, &receiving, &told].concat()
}

#[test]
fn what_a_connection_has_counted_is_added_once() {
    let mut books = books();
    let mut before = Counts::default();
    for times in 1..=3 {
        let now = counted(times);
        books.settle(1, &before, &now);
        before = now;
    }
    assert_eq!(found(&books, 1), terms(&before));
    assert_eq!(found(&books, 0), terms(&Counts::default()));
    books.settle(2, &Counts::default(), &before);
    assert_eq!(found(&books, 1), terms(&before), "there is no third place");
}

#[test]
fn what_is_handed_in_and_what_becomes_of_it_are_counts_of_their_own() {
    let mut books = books();
    books.handed_in(3, 10);
    books.copied(5, 2, 10);
    books.unheard([4, 40]);
    assert_eq!(books.told(Sent::NotNow, 100), Sent::NotNow);
    assert_eq!(books.told(Sent::Taken, 7), Sent::Taken);
    assert_eq!(books.pushed(Pushed::TooLong, 5, 100), None);
    assert_eq!(books.pushed(Pushed::Wait, 5, 100), Some(Sent::NotNow));
    assert_eq!(books.pushed(Pushed::Taken, 5, 8), Some(Sent::Taken));
    assert_eq!(books.pushed(Pushed::Dropped, 6, 9), Some(Sent::Dropped));
    assert_eq!(books.pushed(Pushed::GivenUp, 6, 11), Some(Sent::Dropped));
    books.given_up(13);
    let (publish, answers) = (&books.publish, &books.answers);
    let of = |tally| books.book.tally(tally);
    assert_eq!(of(publish.incoming), (3 + 1, 3 * 10 + 7));
    assert_eq!(of(publish.outgoing), (2 + 3, 2 * 10 + 8 + 9 + 11));
    assert_eq!(of(publish.lost(PublishDrop::NoSubscriber)), (4, 40));
    assert_eq!(
        (
            of(answers.incoming),
            of(answers.lost(AnswerDrop::NotAnswered))
        ),
        ((1, 13), (1, 13))
    );
    let tags = books.tags().unwrap();
    let rows = tags.iter().map(|row| (row.tag, row.messages, row.bytes));
    let expected = [(Some(5), 3, 28), (Some(6), 2, 20)];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

#[test]
fn what_comes_and_what_its_caller_makes_of_it_are_counts_of_their_own() {
    let mut books = books();
    (0..9).for_each(|n| books.arrived(5, 10 + n));
    books.delivered([1, 8], false);
    books.delivered([6, 60], true);
    books.taken(2, 20);
    books.declined(6);
    books.untaken(Untaken::NotWanted, 1, 5);
    books.untaken(Untaken::NotWritten, 2, 12);
    books.released(3, 25);
    books.removed(1, 2, 30);
    let deliver = &books.deliver;
    let of = |tally| books.book.tally(tally);
    assert_eq!(of(deliver.incoming), (9, 9 * 10 + 36));
    assert_eq!(of(deliver.outgoing), (1 + 2, 8 + 20));
    assert_eq!(of(deliver.held), (6 - 3, 60 - 25));
    let dropped = [Untaken::NotWanted, Untaken::NotWritten];
    let dropped = dropped.map(|why| of(deliver.lost(why)));
    assert_eq!(dropped, [(1 + 1, 6 + 5), (2, 12)]);
    // They are shown when it is time, and what is gone of files is told as shown.
    let gone = |books: &Books| {
        let removed = books.removed_output().unwrap();
        (removed.files, removed.messages.unwrap_or(0))
    };
    assert!(books.is_due(0));
    assert_eq!(gone(&books), (0, 0));
    books.commit(1_000);
    assert_eq!(books.next_commit_ns(), 100_001_000);
    assert!(!books.is_due(100_000_999) && books.is_due(100_001_000));
    assert_eq!(gone(&books), (1, 2));
}

#[test]
fn two_end_points_of_one_process_have_books_of_their_own() {
    let [one, two] = [(), ()].map(|()| run_id("peer"));
    let begin = format!("net-peer-{}", std::process::id());
    assert!(one.starts_with(&begin) && two.starts_with(&begin));
    assert_ne!(one, two);
    let ids = [0, 1, 12].map(|before| run_id_of("recv", 77, before));
    assert_eq!(ids, ["net-recv-77", "net-recv-77.1", "net-recv-77.12"]);
    assert!(format!("{:?}", books()).starts_with("Books { ledger: KeptLedger"));
}

/// A message that vanishes is in every term before the place of the fault, and in none behind it.
#[test]
fn a_message_vanishes_at_the_hop_that_is_named_and_nowhere_else() {
    let vanished = [
        ("publish", Some((0, 0, 0))),
        ("copies", Some((1, 40, 0))),
        ("send", Some((1, 40, 1))),
        ("read", None),
    ];
    for (hop, expected) in vanished {
        let mut books = books();
        let mut to = Outbound::in_memory(&forebay_msg::Config::default(), 1, Piece::plain).unwrap();
        assert!(!books.vanishes(&mut to, 5, 40), "{hop} is off");
        assert!(!books.leaks(hop));
        books.leak = format!("{hop}:2").parse().unwrap();
        let terms = |books: &Books, to: &Outbound| {
            let (copies, bytes) = books.book.tally(books.publish.outgoing);
            (copies, bytes, to.pushed()[0])
        };
        let vanishes = books.vanishes(&mut to, 5, 40);
        assert_eq!(vanishes, expected.is_some(), "{hop}");
        assert_eq!(terms(&books, &to), expected.unwrap_or_default(), "{hop}");
        assert!(!books.leaks("deliver") && books.leaks(hop), "{hop}");
        assert_eq!(
            books.leaks(hop),
            expected.is_none(),
            "two of {hop}, no more"
        );
    }
}

#[test]
fn what_was_counted_last_is_shown_and_kept_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        out: Some(directory.path().to_owned()),
        ..Settings::default()
    };
    let mut books = Books::open("test", 1, &settings).unwrap();
    books.arrived(1, 70);
    let reader = books.reader().unwrap();
    let envelope = books.close(Vec::new()).unwrap();
    let status = reader.run_status().unwrap();
    // No connection has handed it on: that is left over.
    assert_eq!(
        (status.condition, status.reason),
        (Condition::Tainted, Reason::Residual)
    );
    let shown = reader.snapshot().unwrap();
    assert_eq!(shown.tally(books.deliver.incoming), (1, 70));
    let summary = NetSummary::default();
    books.keep(&mut NetRecord { envelope, summary }).unwrap();
    for kept in ["run.json", "ledger"] {
        assert!(directory.path().join(kept).exists(), "{kept}");
    }
}
