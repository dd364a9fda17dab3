use forebay_ledger::{AccountLine, Balance};
use forebay_tdm::heaps::Why;
use forebay_tdm::receiver::{Drop, Lost};
use forebay_wire::tdm::{Kind, TdmError};

use super::super::heaps::Sum as HeapSum;
use super::super::streams::Sum as Lies;
use super::*;

fn open(leak: &str) -> (Books, WriterBooks) {
    let leak = Leak::parse(leak, crate::hops::RECEIVE).unwrap();
    Books::open(None, 1, true, leak, &mut |_| {}).unwrap()
}

fn balance(books: &mut Books) -> Balance {
    balance_with(books, 0)
}

const fn lies(packets: u64) -> Lies {
    Lies {
        packets,
        bytes: 40 * packets,
    }
}

/// With so many packets in the block that is being filled.
fn balance_with(books: &mut Books, gathered: u64) -> Balance {
    let given = (gathered > 0).then(|| given(gathered));
    books.commit(given.into_iter());
    books.ledger.verdict().unwrap().balance
}

const fn given(packets: u64) -> Given {
    Given {
        sender: 0,
        handed: sum(packets),
    }
}

fn line(balance: &Balance, place: &str) -> AccountLine {
    let mut lines = balance.accounts.iter();
    lines.find(|line| line.place == place).unwrap().clone()
}

const DATA: Arrival<'_> = of_window(0);

const fn of_window(window: u32) -> Arrival<'static> {
    Arrival::Data {
        sender: 0,
        packet: 0,
        window,
        sent_ns: 1,
        offset: 0,
        payload: &[7; 40],
    }
}

#[test]
fn the_page_of_accounts_has_this_ledger() {
    let (books, _) = open("datagrams:0");
    let outline = books.ledger.reader().unwrap().outline();
    forebay_testing::accounts::assert_section("tdm-receive", &[outline]);
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
        books.arrived(100, &Arrival::Dropped(OneOf::First(why)));
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
    let handed = line(&balance_with(&mut books, 1), "hand_over");
    assert_eq!((handed.incoming.items, handed.held.bytes), (1, 40));
}

#[test]
fn a_packet_is_in_the_block_that_is_filled_or_handed_over_or_found_no_room() {
    let (mut books, mut writer) = open("datagrams:0");
    let at_hand = |balance: &Balance| {
        let line = line(balance, "hand_over");
        let dropped = line.dropped.first().map_or(0, |it| it.items);
        let residual = (line.residual.items, line.residual.bytes);
        (line.outgoing.items, dropped, line.held.items, residual)
    };
    (0..9).for_each(|_| books.arrived(96, &DATA));
    (0..8).for_each(|_| books.published(0, 40));
    books.missed(0, 40);
    assert_eq!(
        at_hand(&balance_with(&mut books, 8)),
        (0, 1, 8, (0, 0)),
        "all are in the block"
    );
    assert_eq!(
        at_hand(&balance_with(&mut books, 7)),
        (0, 1, 7, (1, 40)),
        "one is not in it"
    );
    books.handed_over(std::iter::once(given(8)));
    let verdict = books.ledger.verdict().unwrap();
    assert_eq!(at_hand(&verdict.balance), (8, 1, 0, (0, 0)));
    assert_eq!(queue(&verdict.balance), (8, Some(0)));
    for _ in 0..8 {
        writer.took(0, 40);
        writer.advance(0, 1, 40);
    }
    writer.holds(0, lies(8), HeapSum::default());
    writer.commit();
    let balance = balance(&mut books);
    assert_eq!(queue(&balance), (0, Some(0)));
    let write = line(&balance, "write");
    assert_eq!((write.held.items, write.residual.items), (8, 0));
}

/// Packets that wait in the writer's queue, and what does not add up there.
fn queue(balance: &Balance) -> (i128, Option<i128>) {
    let mut links = balance.links.iter();
    let link = links.find(|it| it.place == "writer_queue").unwrap();
    let residual = link.residual.map(|residual| residual.items);
    (link.in_flight.items.into(), residual)
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
    let row = |sent, received, inside| Row {
        sent,
        received,
        lost: Lost::from([(LossCause::Inside, inside), (LossCause::Tail, 1)]),
        ..Row::default()
    };
    let of = |arrivals: usize, row: Row| {
        let (mut books, _writer) = open("datagrams:0");
        (0..arrivals).for_each(|_| books.arrived(96, &DATA));
        let before = line(&balance_with(&mut books, 4), "windows");
        assert_eq!(before.held.items, arrivals as i64);
        assert!(before.residual.is_zero(), "{before:?}");
        books.closed(&row);
        let line = line(&balance(&mut books), "windows");
        assert_eq!(line.incoming.items, row.sent);
        (line.residual.items, line.held.items)
    };
    assert_eq!(of(4, row(7, 4, 2)), (0, 0));
    assert_eq!(of(4, row(7, 4, 1)), (1, 0), "one is neither here nor lost");
    assert_eq!(of(4, row(8, 4, 2)), (1, 0), "one more was sent");
    assert_eq!(of(4, row(7, 3, 3)), (-1, 0), "one more came than is said");
    assert_eq!(of(3, row(7, 4, 2)), (1, 0), "one came to nobody");
}

#[test]
fn a_closed_window_takes_what_came_in_it_and_no_other() {
    let (mut books, _writer) = open("datagrams:0");
    // Packets overtake each other.
    for (window, packets) in [(3, 2), (5, 4), (4, 8), (3, 16), (7, 32), (4, 64)] {
        (0..packets).for_each(|_| books.arrived(96, &of_window(window)));
    }
    let mut held = |window: u32, window_last: u32, sent: u64| {
        books.closed(&Row {
            window,
            window_last,
            sent,
            ..Row::default()
        });
        let line = line(&balance(&mut books), "windows");
        assert!(line.residual.is_zero(), "{line:?}");
        line.held.items
    };
    assert_eq!(held(3, 3, 18), 108);
    // Without reports two are closed together.
    assert_eq!(held(4, 5, 76), 32);
    assert_eq!(held(6, 6, 0), 32);
    assert_eq!(held(7, 7, 32), 0);
}

/// Nine packets were handed over and five of them taken, two of which were written; so many are said to be in blocks that nobody wrote.
fn given_up(outstanding: u64) -> (Ended, Balance) {
    let (mut books, mut writer) = open("datagrams:0");
    let mut became = HeapTally::default();
    became.sent.add(5, 500);
    became.whole.add(2, 200);
    became.dropped[OneOf::First(Why::Hole)].add(1, 100);
    writer.heaps(0, &became);
    let waiting = HeapSum {
        heaps: 2,
        bytes: 200,
    };
    for packet in 0..5 {
        writer.took(0, 40);
        writer.advance(0, 1, 40);
        if packet < 2 {
            writer.written(0, &Written::whole(&[7; 40]));
        }
    }
    writer.holds(0, lies(3), waiting);
    writer.commit();
    for _ in 0..9 {
        books.arrived(96, &DATA);
        books.published(0, 40);
    }
    books.handed_over(std::iter::once(given(9)));
    let ended = books.write_off(&[sum(outstanding)]).unwrap();
    let balance = balance(&mut books);
    (ended, balance)
}

const fn sum(packets: u64) -> Sum {
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
    let dropped: Vec<u64> = heaps.dropped.iter().map(|(_, it)| it.heaps).collect();
    assert_eq!(dropped, [1, 0, 0, 0, 0, 0, 2]);
    let written = &ended.written[0];
    assert_eq!(written.dropped[WriteDrop::WriterStalled].packets, 7);
    assert_eq!((written.written.packets, written.ranges), (2, 1));
    assert_eq!(queue(&balance), (0, Some(0)));
    assert_eq!(queue(&given_up(3).1), (1, Some(0)), "one is in no block");
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

#[test]
fn what_leaks_of_heaps_is_missing_in_what_went_out() {
    let (mut books, mut writer) = open("heaps:1");
    let mut became = HeapTally::default();
    became.sent.add(3, 300);
    became.whole.add(3, 300);
    writer.heaps(0, &became);
    writer.commit();
    let line = line(&balance(&mut books), "heaps");
    assert_eq!((line.incoming.items, line.outgoing.items), (3, 2));
}

#[test]
fn what_leaks_of_a_window_is_missing_in_what_went_out() {
    let (mut books, _writer) = open("windows:2");
    (0..5).for_each(|_| books.arrived(96, &DATA));
    let row = Row {
        sent: 5,
        received: 5,
        ..Row::default()
    };
    books.closed(&row);
    let line = line(&balance(&mut books), "windows");
    let counts = (line.incoming.items, line.outgoing.items, line.held.items);
    assert_eq!(counts, (5, 3, 0));
}

#[test]
fn a_datagram_that_is_malformed_has_the_reason_of_its_format() {
    let errors = [
        (TdmError::Magic { found: [7; 4] }, "not_the_protocol"),
        (TdmError::Version { found: 7 }, "version"),
        (TdmError::Kind { found: 7 }, "unknown_kind"),
    ];
    for (error, name) in errors {
        let (mut books, _writer) = open("datagrams:0");
        books.arrived(100, &Arrival::Dropped(OneOf::Second(error.into())));
        let line = line(&balance(&mut books), "datagrams");
        let dropped: Vec<_> = line.dropped.iter().map(|it| it.reason.as_str()).collect();
        assert_eq!(dropped, [name]);
    }
}

#[test]
fn sums_stalls_and_the_queue_are_shown_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let out = Some(directory.path());
    let (mut books, _writer) = Books::open(out, 2, true, Leak::off(), &mut |_| {}).unwrap();
    for bytes in [40, 50, 60] {
        books.published(1, bytes);
        books.missed(0, 2 * bytes);
    }
    assert_eq!(books.published, [(0, 0), (3, 150)]);
    assert_eq!(books.missed_by_sender(), [(3, 300), (0, 0)]);
    books.stalled(2, 700);
    books.stalled(1, 50);
    books.queue((4_096, 96));
    let reader = books.ledger.reader().unwrap();
    books.commit(std::iter::empty());
    let snapshot = reader.snapshot().unwrap();
    let words = [books.stalls, books.queue].concat();
    let values: Vec<u64> = words.iter().map(|it| snapshot.value(*it)).collect();
    assert_eq!(values, [3, 750, 4_096, 96]);
    let before = reader.run_status().unwrap().heartbeat_ns;
    books.heartbeat();
    assert!(reader.run_status().unwrap().heartbeat_ns > before);
    assert_eq!(books.removed_output().unwrap().packets, Some(0));
}

/// What found no room is in the sum of what is not written, and one range for each sender of which any did.
#[test]
fn what_found_no_room_is_not_written_either() {
    let (mut books, _writer) = Books::open(None, 3, true, Leak::off(), &mut |_| {}).unwrap();
    books.missed(0, 40);
    books.missed(0, 50);
    books.missed(2, 60);
    let ended = books.write_off(&[sum(0), sum(0), sum(0)]).unwrap();
    assert_eq!(ended.unwritten, (150, 2));
    let told = ended.failed.unwrap();
    assert!(told.contains(" 0 packets with 0 bytes"), "{told}");
    let ended = books.write_off(&[sum(2), sum(0), sum(3)]).unwrap();
    let told = ended.failed.unwrap();
    assert!(told.contains(" 5 packets with 200 bytes"), "{told}");
}
