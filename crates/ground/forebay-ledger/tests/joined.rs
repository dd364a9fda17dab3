//! The books of several parties joined: each term of a link is that of the accounts at its two ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use forebay_ledger::join::{DESTINATION_PORT, Joined, JoinedLink, Party, join};
use forebay_ledger::{
    Amount, Condition, GroupWriter, LedgerReader, LinkSpec, Lossless, Reason, RunWriter, Schema,
    SchemaBuilder, Supervisor, Unit, Words, audit, reasons,
};

const SECOND_NS: u64 = 1_000_000_000;
/// When the books of a party begin and end, unless a test says otherwise.
const SPAN_NS: [u64; 2] = [SECOND_NS, 9 * SECOND_NS];

/// Items and bytes.
type Pair = (u64, u64);

/// What an account says; it closes.
#[derive(Clone, Copy)]
struct Line {
    place: &'static str,
    unit: Unit,
    outgoing: Pair,
    held: Pair,
    lost: Pair,
    confirmed: Option<Pair>,
}

impl Line {
    const fn new(place: &'static str, unit: Unit, outgoing: Pair) -> Self {
        Self {
            place,
            unit,
            outgoing,
            held: (0, 0),
            lost: (0, 0),
            confirmed: None,
        }
    }
}

/// The party of a run that ended by itself, or of one that was killed.
fn party(name: &str, schema: &Schema, words: &Words, end_ns: u64, ends: bool) -> Party {
    let run = RunWriter::attach(schema, words, 1).unwrap();
    if ends {
        run.finish(Condition::Ended, Reason::InputEnded, end_ns);
    } else {
        run.set_condition(Condition::Running, Reason::None);
        run.heartbeat(end_ns);
    }
    let snapshot = LedgerReader::open(words).unwrap().snapshot().unwrap();
    let verdict = audit(&snapshot, Supervisor::Gone);
    Party::new(name, &snapshot, verdict)
}

reasons! {
    /// Why messages are lost.
    enum Gap {
        Gap = "gap",
    }
}

/// A party with one account for each of `lines`.
fn books(name: &str, lines: &[Line], ends: bool) -> Party {
    let mut schema = SchemaBuilder::new(name);
    let group = schema.group("all");
    let mut accounts = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let owner = format!("one{n}");
        let (id, account) = schema.account::<Gap>(group, line.place, &owner, line.unit);
        let confirmed = line.confirmed.map(|pair| (schema.confirmed(id), pair));
        accounts.push((account, confirmed));
    }
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, SPAN_NS[0]).unwrap();
    let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
    let mut book = writer.restore();
    for ((account, confirmed), line) in accounts.iter().zip(lines) {
        for (term, (items, bytes)) in [
            (account.outgoing, line.outgoing),
            (account.held, line.held),
            (account.lost(Gap::Gap), line.lost),
        ] {
            book.add_tally(account.incoming, items, bytes);
            book.add_tally(term, items, bytes);
        }
        if let Some((tally, (items, bytes))) = confirmed {
            book.add_tally(*tally, *items, *bytes);
        }
    }
    writer.commit(&book);
    party(name, &schema, &words, SPAN_NS[1], ends)
}

/// A sender of datagrams of 100 bytes: to each port so many.
fn sender(name: &str, sent: &[(u64, u64)], span_ns: [u64; 2], ends: bool) -> Party {
    let mut schema = SchemaBuilder::new(name);
    let group = schema.group("generator");
    let owner = |n: usize| format!("source{n}");
    let sources: Vec<_> = (0..sent.len())
        .map(|n| {
            let (_, account) =
                schema.account::<Lossless>(group, "generator", &owner(n), Unit::Datagrams);
            (
                account,
                schema.gauge(group, DESTINATION_PORT, &owner(n), ""),
            )
        })
        .collect();
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, span_ns[0]).unwrap();
    let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
    let mut book = writer.restore();
    for ((account, to), (port, items)) in sources.iter().zip(sent) {
        book.set(*to, *port);
        book.add_tally(account.incoming, *items, items * 100);
        book.add_tally(account.outgoing, *items, items * 100);
    }
    writer.commit(&book);
    party(name, &schema, &words, span_ns[1], ends)
}

/// A receiver at a port that got so many datagrams, and whose kernel counts so many drops, each of one to four datagrams.
fn receiver(name: &str, port: u64, got: u64, drops: u64, span_ns: [u64; 2], ends: bool) -> Party {
    let mut schema = SchemaBuilder::new(name);
    let group = schema.group(&format!("receiver.port{port}"));
    let (id, account) = schema.account::<Lossless>(group, "receiver", "north", Unit::Datagrams);
    let kernel = schema.kernel_drop(group);
    schema.gauge(group, "socket_buffer_capacity_bytes", "north", "");
    let link = LinkSpec::new("socket", "north").to(id).bound_items(20);
    schema.link(link.merged_kernel_drops("buffer_full", kernel, 4, 100, 400));
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, span_ns[0]).unwrap();
    let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
    let mut book = writer.restore();
    book.add_tally(account.incoming, got, got * 100);
    book.add_tally(account.outgoing, got, got * 100);
    book.set(kernel, drops);
    writer.commit(&book);
    party(name, &schema, &words, span_ns[1], ends)
}

fn only(joined: &Joined) -> &JoinedLink {
    match joined.links.as_slice() {
        [link] => link,
        _ => panic!("{joined:?}"),
    }
}

const fn amount((items, bytes): Pair) -> Amount {
    Amount { items, bytes }
}

/// Of 100 messages 95 came, of which 2 were dropped and 3 are held by a receiver that was killed; the sender knows of 90. So 5 are in nobody's books.
#[test]
fn messages_in_a_receivers_books_are_confirmed_though_their_sender_does_not_know_it() {
    let sends = Line {
        confirmed: Some((90, 900)),
        ..Line::new("send", Unit::Messages, (100, 1_000))
    };
    let takes = Line {
        held: (3, 30),
        lost: (2, 20),
        ..Line::new("receive", Unit::Messages, (90, 900))
    };
    let parties = vec![books("near", &[sends], true), books("far", &[takes], false)];
    let joined = join(parties);
    let link = only(&joined);
    assert!(joined.closed, "{}", joined.sheet());
    let ends = (link.senders.as_slice(), link.receivers.as_slice());
    assert_eq!(ends, (&["near".to_owned()][..], &["far".to_owned()][..]));
    let is = (link.place.as_str(), link.which.as_str(), link.unit);
    assert_eq!(is, ("messaging", "all", Some(Unit::Messages)));
    assert_eq!(link.sent, amount((100, 1_000)));
    assert_eq!(link.received, amount((93, 930)), "out and held");
    assert_eq!((link.dropped[0].items, link.dropped[0].bytes_max), (2, 20));
    assert_eq!(link.unconfirmed, amount((5, 50)));
    assert!(link.unexplained.unwrap().is_zero() && !link.underway);
    // No more than the sender was not told of is unconfirmed: the rest is unexplained.
    let told = Line {
        confirmed: Some((98, 970)),
        ..sends
    };
    let joined = join(vec![
        books("near", &[told], true),
        books("far", &[takes], false),
    ]);
    let link = only(&joined);
    assert_eq!(link.unconfirmed, amount((2, 30)));
    let left = link.unexplained.unwrap();
    assert_eq!((left.items, left.bytes, joined.closed), (3, 20, false));
}

#[test]
fn what_a_sender_was_not_told_of_is_unconfirmed_where_no_receiver_has_books() {
    let sends = Line {
        confirmed: Some((60, 600)),
        ..Line::new("send", Unit::Messages, (100, 1_000))
    };
    let joined = join(vec![books("near", &[sends], true)]);
    let link = only(&joined);
    assert_eq!(link.unconfirmed, amount((40, 400)));
    assert!(!joined.closed && link.unexplained.is_none());
}

/// Of packets that were lost nobody knows the bytes: they are not compared.
#[test]
fn packets_are_compared_by_their_number_alone() {
    let sends = Line {
        confirmed: Some((40, 400)),
        ..Line::new("send", Unit::Packets, (50, 500))
    };
    let takes = Line {
        lost: (4, 0),
        ..Line::new("windows", Unit::Packets, (46, 460))
    };
    // Accounts of other units and places are none of these links.
    let other_unit = Line::new("send", Unit::Messages, (0, 0));
    let other_place = Line::new("publisher", Unit::Messages, (7, 70));
    let near = books("near", &[sends, other_unit, other_place], true);
    let joined = join(vec![near, books("far", &[takes], true)]);
    let link = only(&joined);
    assert!(joined.closed, "{}", joined.sheet());
    assert_eq!(
        (link.place.as_str(), link.unit),
        ("tdm", Some(Unit::Packets))
    );
    assert_eq!(
        (link.sent, link.received),
        (amount((50, 0)), amount((46, 0)))
    );
    assert_eq!(link.unconfirmed, amount((0, 0)));
}

#[test]
fn messages_and_packets_of_one_party_are_two_links() {
    let lines = |from, to| {
        [
            Line::new(from, Unit::Messages, (100, 1_000)),
            Line::new(to, Unit::Packets, (40, 400)),
        ]
    };
    let near = books("near", &lines("send", "send"), true);
    let far = books("far", &lines("receive", "windows"), true);
    let joined = join(vec![near, far]);
    assert!(joined.closed, "{}", joined.sheet());
    let ends = joined.links.iter().map(|link| {
        let place = link.place.as_str();
        (place, link.sent.items, link.received.items)
    });
    let expected = [("messaging", 100, 100), ("tdm", 40, 40)];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

/// One drop of the kernel was one to four datagrams, of 100 bytes each.
#[test]
fn losses_of_one_name_add_up_over_the_receivers() {
    let west = receiver("west", 50_000, 40, 3, SPAN_NS, true);
    let east = receiver("east", 50_000, 50, 5, SPAN_NS, true);
    let both = sender("emu", &[(50_000, 60), (50_000, 50)], SPAN_NS, true);
    let joined = join(vec![both, west, east]);
    let link = only(&joined);
    assert!(joined.closed, "{}", joined.sheet());
    assert_eq!(link.senders, ["emu"], "once, with two sources");
    assert_eq!(link.receivers, ["west", "east"]);
    assert_eq!(
        (link.sent, link.received),
        (amount((110, 11_000)), amount((90, 9_000)))
    );
    let [lost] = link.dropped.as_slice() else {
        panic!("{link:?}")
    };
    let items = (lost.items, lost.items_max);
    let bytes = (lost.bytes_min, lost.bytes_max);
    assert_eq!((items, bytes), ((8, 32), (800, 3_200)));
    assert_eq!(link.which, "port 50000");
}

#[test]
fn the_time_in_which_senders_were_alone_is_told() {
    let span = |from_ms: u64, to_ms: u64| [from_ms, to_ms].map(|ms| ms * SECOND_NS / 1_000);
    let one = sender("one", &[(50_000, 60)], span(2_000, 6_000), true);
    let two = sender("two", &[(50_000, 40)], span(3_000, 9_000), true);
    // It was killed: its books end with its last sign of life.
    let west = receiver("west", 50_000, 70, 0, span(4_000, 5_000), true);
    let east = receiver("east", 50_000, 30, 0, span(4_500, 8_500), false);
    let joined = join(vec![one, two, west, east]);
    let link = only(&joined);
    assert_eq!((link.sent_before_s, link.sent_after_s), (2.0, 0.5));
    assert!(joined.closed && !link.underway, "nothing is left over");

    let inside = sender("one", &[(50_000, 60)], span(5_000, 6_000), true);
    let around = receiver("west", 50_000, 60, 0, span(4_000, 8_000), true);
    let joined = join(vec![inside, around]);
    let link = only(&joined);
    assert_eq!((link.sent_before_s, link.sent_after_s), (0.0, 0.0));
}

/// What is on its way is bounded, and only when somebody was killed; the bounds of several receivers add up.
#[test]
fn what_may_be_on_its_way_is_the_sum_of_the_bounds() {
    let of = |sent: u64, ends: [bool; 2]| {
        join(vec![
            sender("emu", &[(50_000, sent)], SPAN_NS, ends[0]),
            receiver("west", 50_000, 60, 0, SPAN_NS, true),
            receiver("east", 50_000, 40, 0, SPAN_NS, ends[1]),
        ])
    };
    for ends in [[true, false], [false, true]] {
        let (inside, beyond) = (of(140, ends), of(141, ends));
        assert!(inside.closed && only(&inside).underway);
        assert!(!beyond.closed && !only(&beyond).underway);
    }
    let ended = of(140, [true, true]);
    assert!(!ended.closed && !only(&ended).underway);
    assert_eq!(only(&ended).unexplained.unwrap().items, 40);
}

#[test]
fn an_end_without_traffic_or_without_a_known_sender_breaks_nothing() {
    let both = || {
        vec![
            sender("emu", &[(50_000, 100), (50_002, 0)], SPAN_NS, true),
            receiver("west", 50_000, 100, 0, SPAN_NS, true),
        ]
    };
    let mut parties = both();
    parties.push(receiver("foreign", 50_001, 5, 0, SPAN_NS, true));
    let joined = join(parties);
    assert!(joined.closed, "{}", joined.sheet());
    let known: Vec<_> = joined
        .links
        .iter()
        .map(|it| it.unexplained.is_some())
        .collect();
    assert_eq!(known, [true, false, false]);
    // A party whose own books do not close is not made good by links that do.
    let mut parties = both();
    let held = Line {
        held: (3, 30),
        ..Line::new("queue", Unit::Chunks, (0, 0))
    };
    parties.push(books("leaky", &[held], true));
    assert!(!join(parties).closed);
}
