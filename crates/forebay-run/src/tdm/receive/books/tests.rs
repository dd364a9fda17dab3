use forebay_ledger::{AccountLine, Balance};
use forebay_wire::tdm::Kind;

use super::*;

fn open(leak: &str) -> (Books, WriterBooks) {
    let leak = Leak::parse(leak, crate::hops::TDM_RECEIVE).unwrap();
    Books::open(None, 1, true, leak, &mut Vec::new()).unwrap()
}

fn balance(books: &mut Books) -> Balance {
    books.commit();
    books.ledger.verdict().unwrap().balance
}

fn line(balance: &Balance, place: &str) -> AccountLine {
    let mut lines = balance.accounts.iter();
    lines.find(|line| line.place == place).unwrap().clone()
}

const DATA: Arrival<'_> = Arrival::Data {
    sender: 0,
    packet: 0,
    window: 0,
    sent_ns: 1,
    offset: 0,
    payload: &[7; 40],
};

#[test]
fn the_page_of_accounts_has_this_ledger() {
    let (books, _) = open("datagrams:0");
    let outline = books.ledger.reader().unwrap().outline();
    crate::accounts::assert_section("tdm-receive", &[outline]);
}

#[test]
fn what_came_is_counted_by_the_buffer_and_what_became_of_it_by_the_datagram() {
    let (mut books, _writer) = open("datagrams:0");
    books.came(12, 1_200);
    books.arrived(100, &DATA);
    books.arrived(100, &Arrival::Control(Kind::Hello));
    books.nameless(100);
    let drops = [
        (Drop::Duplicate, "duplicate"),
        (Drop::Late, "late"),
        (Drop::Ahead, "ahead"),
        (Drop::Unexpected, "unexpected"),
        (Drop::Foreign, "foreign_session"),
        (Drop::Key, "wrong_key"),
    ];
    for (why, name) in drops {
        let before = line(&balance(&mut books), "datagrams");
        assert!(before.dropped.iter().all(|it| it.reason != name), "{name}");
        books.arrived(100, &Arrival::Dropped(why));
        let after = line(&balance(&mut books), "datagrams");
        let dropped = after.dropped.iter().find(|it| it.reason == name).unwrap();
        assert_eq!((dropped.items, dropped.bytes_min), (1, 100), "{name}");
    }
    let all = line(&balance(&mut books), "datagrams");
    assert_eq!((all.outgoing.items, all.outgoing.bytes), (2, 200));
    assert_eq!(
        (all.residual.items, all.residual.bytes),
        (3, 300),
        "three are not told of"
    );
    let handed = line(&balance(&mut books), "hand_over");
    assert_eq!((handed.incoming.items, handed.held.bytes), (1, 40));
}

#[test]
fn what_the_kernel_dropped_is_named_by_the_socket_and_came_nowhere_in() {
    let (mut books, _writer) = open("datagrams:0");
    books.came(2, 200);
    books.overflowed(5);
    books.overflowed(1);
    let balance = balance(&mut books);
    let link = balance
        .links
        .iter()
        .find(|it| it.place == "socket")
        .unwrap();
    assert!(
        link.sent.is_none() && link.residual.is_none(),
        "nobody tells what was sent"
    );
    assert_eq!((link.received.items, link.received.bytes), (2, 200));
    let [dropped] = link.dropped.as_slice() else {
        panic!("{link:?}");
    };
    assert_eq!(
        (dropped.reason.as_str(), dropped.items),
        ("socket_overflow", 6)
    );
    assert_eq!(dropped.items_max, 6 * MERGED_DATAGRAMS_MAX);
    assert_eq!(line(&balance, "datagrams").residual.items, 2);
}

#[test]
fn a_window_closes_by_what_its_sender_says_what_came_and_what_is_missing() {
    let (mut books, _writer) = open("datagrams:0");
    let row = |sent, received, inside| Row {
        sent,
        received,
        lost: Lost {
            inside,
            tail: 1,
            ..Lost::default()
        },
        ..Row::default()
    };
    let mut of = |arrivals: usize, row: Row| {
        (0..arrivals).for_each(|_| books.arrived(96, &DATA));
        books.closed(&row);
        let line = line(&balance(&mut books), "windows");
        (line.residual.items, line.held.items)
    };
    assert_eq!(of(4, row(7, 4, 2)), (0, 0));
    assert_eq!(of(4, row(7, 4, 1)), (1, 0), "one is neither here nor lost");
    assert_eq!(of(4, row(7, 3, 3)), (1, 1), "one more came than is said");
}

/// Seven packets were handed over and three of them taken; so many are said to be in blocks that nobody wrote.
fn given_up(outstanding: u64) -> (Ended, Balance) {
    let (mut books, mut writer) = open("datagrams:0");
    let mut became = HeapTally::default();
    became.sent.add(5, 500);
    became.whole.add(2, 200);
    became.dropped[0].add(1, 100);
    writer.heaps(0, &became);
    for _ in 0..3 {
        writer.took(0, 40);
        writer.advance(0, 1, 40);
    }
    writer.commit();
    for _ in 0..7 {
        books.arrived(96, &DATA);
        books.published(0, 40);
    }
    let handed = Given {
        sender: 0,
        handed: packets(7),
    };
    books.handed_over(std::iter::once(handed));
    let ended = books.write_off(&[packets(outstanding)]).unwrap();
    let balance = balance(&mut books);
    (ended, balance)
}

const fn packets(packets: u64) -> Sum {
    Sum {
        packets,
        bytes: 40 * packets,
    }
}

#[test]
fn a_writer_that_is_given_up_leaves_what_it_did_not_write_by_name() {
    let (ended, balance) = given_up(4);
    let heaps = &ended.heaps[0];
    assert_eq!((heaps.sent.heaps, heaps.whole.heaps), (5, 2));
    let dropped: Vec<u64> = heaps.dropped.iter().map(|it| it.heaps).collect();
    assert_eq!(dropped, [1, 0, 0, 0, 0, 0, 2]);
    let written = &ended.written[0];
    assert_eq!(written.dropped[WRITER_STALLED].packets, 7);
    let in_flight = |balance: &Balance| {
        let mut links = balance.links.iter();
        links
            .find(|it| it.place == "writer_queue")
            .unwrap()
            .in_flight
            .items
    };
    assert_eq!(in_flight(&balance), 0);
    assert_eq!(in_flight(&given_up(3).1), 1, "one is in no block");
    let closed = line(&balance, "heaps");
    assert!(
        closed.residual.is_zero() && closed.held.items == 0,
        "{closed:?}"
    );
    let closed = line(&balance, "write");
    assert!(
        closed.residual.is_zero() && closed.held.items == 0,
        "{closed:?}"
    );
}
