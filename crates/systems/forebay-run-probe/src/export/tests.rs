use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_flow::{EndReason, FlowKey};
use forebay_wire::ipfix::{Messages, SetKind, TemplateCache, TemplateRecord, elements};

use super::*;

/// Records that come in a second.
const RECORDS_HZ: u64 = 20_000;
/// What a test waits for comes before that.
const LIMIT: Duration = Duration::from_secs(60);

/// The record with this number: so many octets, at that rate.
pub(crate) fn row(number: u64) -> Row {
    let time_ns = number * SECOND_NS / RECORDS_HZ;
    row_of([1, 0], [number, 0], [time_ns; 2])
}

/// A record of so many packets and octets, there and back, of these times.
pub(crate) fn row_of(packets: [u64; 2], octets: [u64; 2], times_ns: [u64; 2]) -> Row {
    let record = FlowRecord {
        key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
        packets: packets[0],
        octets: octets[0],
        packets_rev: packets[1],
        octets_rev: octets[1],
        start_ns: times_ns[0],
        end_ns: times_ns[1],
        tcp_flags: 0,
        tcp_flags_rev: 0,
        end_reason: EndReason::Idle,
    };
    let fields = Fields::default();
    Row { record, fields }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Reads a connection to its end.
fn collect(mut connection: TcpStream) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Writes as the thread of all exporters does until `is_done`.
fn write_until(exporter: &mut Exporter, what: &str, is_done: impl Fn(&mut Exporter) -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_done(exporter) {
        assert!(Instant::now() < until, "{what} did not come");
        exporter.write_in_time();
        thread::yield_now();
    }
}

/// The numbers of all records of one connection, whose first message has their template and counts from 0.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let mut cache = TemplateCache::new(16, 4096);
    let mut numbers = Vec::new();
    for message in Messages::new(bytes) {
        let message = message.unwrap();
        let header = message.header();
        assert_eq!(header.sequence as usize, numbers.len());
        for set in message.sets() {
            match set.kind() {
                SetKind::Templates | SetKind::OptionsTemplates => {
                    for told in set.templates() {
                        let told: TemplateRecord<'_> = told.unwrap();
                        cache.learn(header.domain, told, 0).unwrap();
                    }
                }
                SetKind::Data(id) => {
                    let template = cache.template(header.domain, id).expect("it came before");
                    numbers.extend(template.records(set.body()).map(|record| {
                        let octets = record.unwrap().value(elements::OCTET_DELTA_COUNT.element);
                        octets.unwrap().unsigned().unwrap()
                    }));
                }
                SetKind::Reserved(id) => panic!("a set {id}"),
            }
        }
    }
    numbers
}

/// A minute of the host's clock is 1,200,000 records here, and no time at all: what is lost is a matter of the queue's bound alone.
#[test]
fn a_collector_that_is_away_for_a_minute_costs_what_has_no_room_and_gets_the_rest_with_templates() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let settings = ProbeSettings {
        interface: Some("eth0".to_owned()),
        ..ProbeSettings::default()
    };
    let limit = u64::from(settings.queue_flows);
    let export = Export::IpfixTcp(address.to_string());
    let stop = Stop::of_library().unwrap();
    let mut exporter = Exporter::begin(&export, &settings, None, &stop).unwrap();
    let (connection, _) = listener.accept().unwrap();
    let first = collect(connection.try_clone().unwrap());
    let before = RECORDS_HZ / 10;
    (0..before).for_each(|number| exporter.export(&row(number)));
    write_until(&mut exporter, "the end of what waits", |exporter| {
        exporter.held().flows == 0
    });
    // It goes when it has read all.
    drop(listener);
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    write_until(&mut exporter, "the news", |exporter| {
        let news = exporter.news();
        news.is_some_and(|news| news.contains("is away (it closed the connection)"))
    });
    drop(connection);
    let all = before + 60 * RECORDS_HZ;
    (before..all).for_each(|number| exporter.export(&row(number)));
    assert_eq!(limit, 262_144);
    assert_eq!(exporter.held().flows, 262_144);
    assert_eq!(exporter.full.flows, 1_200_000 - 262_144);
    // There again: the oldest have waited for it.
    let listener = TcpListener::bind(address).unwrap();
    let second = thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        collect(connection).join().unwrap()
    });
    write_until(&mut exporter, "the end of what waits", |exporter| {
        exporter.held().flows == 0
    });
    exporter.export(&row(all));
    exporter.write_all(&stop, u64::MAX);
    // In = out + lost + held, of records, packets and octets.
    let mut accounted = exporter.written;
    accounted += exporter.full;
    assert_eq!((accounted, exporter.came.flows), (exporter.came, all + 1));
    assert_eq!(exporter.unwritten, Amount::default());
    assert!(exporter.finish().is_ok());
    assert_eq!(
        numbers(&first.join().unwrap()),
        (0..before).collect::<Vec<_>>()
    );
    let expected: Vec<u64> = (before..before + limit).chain([all]).collect();
    assert!(numbers(&second.join().unwrap()) == expected);
}

/// An output that does what it is told to, and keeps what is reported.
struct Told {
    says: VecDeque<Result<usize, usize>>,
    is_whole_at_end: bool,
    closes: bool,
    reported: Arc<Mutex<Vec<Amount>>>,
}

impl Output for Told {
    fn write(&mut self, _: &[Row]) -> Result<usize, Unwritten> {
        self.says
            .pop_front()
            .unwrap_or(Ok(0))
            .map_err(|records| Unwritten {
                records,
                why: io::Error::other("told so"),
            })
    }

    fn report(&mut self, _: &Losses, not_sent: Amount) -> io::Result<()> {
        self.reported.lock().unwrap().push(not_sent);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn is_whole_at_end(&self) -> bool {
        self.is_whole_at_end
    }

    fn close(&mut self) -> io::Result<()> {
        match self.closes {
            true => Ok(()),
            false => Err(io::Error::other("told so")),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// An exporter of at most 6 records that wait.
fn told(
    says: &[Result<usize, usize>],
    is_whole_at_end: bool,
    closes: bool,
) -> (Exporter, Arc<Mutex<Vec<Amount>>>) {
    let settings = ProbeSettings {
        queue_flows: 6,
        ..ProbeSettings::default()
    };
    let stop = Stop::of_library().unwrap();
    let mut exporter = Exporter::begin(&Export::None, &settings, None, &stop).unwrap();
    let reported = Arc::default();
    exporter.to = Box::new(Told {
        says: says.iter().copied().collect(),
        is_whole_at_end,
        closes,
        reported: Arc::clone(&reported),
    });
    (exporter, reported)
}

/// So many flows of a packet each.
fn amount(flows: u64, octets: u64) -> Amount {
    Amount {
        flows,
        volume: Volume {
            packets: flows,
            octets,
        },
    }
}

/// Written, unwritten, without room, held.
fn terms(exporter: &Exporter) -> [Amount; 4] {
    [
        exporter.written,
        exporter.unwritten,
        exporter.full,
        exporter.held(),
    ]
}

#[test]
fn each_record_is_written_or_not_or_waits_as_its_output_says() {
    let (mut exporter, reported) = told(&[Ok(2), Err(1), Err(0)], false, true);
    [1, 10, 100, 1_000, 10_000, 100_000, 7, 70]
        .into_iter()
        .for_each(|octets| exporter.export(&row(octets)));
    let none = amount(0, 0);
    assert_eq!(exporter.came, amount(8, 111_188));
    assert_eq!(
        terms(&exporter),
        [none, none, amount(2, 77), amount(6, 111_111)]
    );
    exporter.write();
    let expected = [
        amount(2, 11),
        amount(2, 1_100),
        amount(2, 77),
        amount(2, 110_000),
    ];
    assert_eq!(terms(&exporter), expected);
    // Those that found no room in a lane were not sent either.
    exporter.report(&Losses {
        no_room: amount(5, 500_000),
        ..Losses::default()
    });
    assert_eq!(*reported.lock().unwrap(), [amount(9, 501_177)]);
    // There is no time left.
    exporter.write_all(&Stop::of_library().unwrap(), 0);
    let expected = [amount(2, 11), amount(4, 111_100), amount(2, 77), none];
    assert_eq!(terms(&exporter), expected);
    assert_eq!(exporter.came, amount(8, 111_188));
}

#[test]
fn what_nobody_can_read_before_the_end_is_held_until_then() {
    for closes in [true, false] {
        let (mut exporter, _) = told(&[Ok(2), Err(1), Ok(1)], true, closes);
        [1, 10, 100, 1_000]
            .into_iter()
            .for_each(|octets| exporter.export(&row(octets)));
        let none = amount(0, 0);
        assert_eq!(terms(&exporter), [none, none, none, amount(4, 1_111)]);
        exporter.write();
        let at_stake = amount(3, 1_011);
        assert_eq!(terms(&exporter), [none, amount(1, 100), none, at_stake]);
        exporter.write_all(&Stop::of_library().unwrap(), 0);
        let expected = match closes {
            true => [at_stake, amount(1, 100), none, none],
            false => [none, amount(4, 1_111), none, none],
        };
        assert_eq!(terms(&exporter), expected);
    }
}

#[test]
fn losses_of_all_threads_are_added_up_each_with_its_kind() {
    let losses = |by: u64, filter| Losses {
        unread_packets: by,
        ignored: amount(10 * by, 100 * by).volume,
        filter,
        no_room: amount(1_000 * by, 10_000 * by),
    };
    let judged = |by: u64| Judged {
        came_packets: 7 * by,
        discarded: amount(70 * by, 700 * by).volume,
    };
    let mut all = Losses::default();
    all += losses(1, None);
    assert_eq!(all, losses(1, None));
    all += losses(2, Some(judged(2)));
    all += losses(3, Some(judged(3)));
    all += losses(4, None);
    assert_eq!(all, losses(10, Some(judged(5))));
}

/// What an output was asked, with how many records.
pub(crate) type Calls = Arc<Mutex<Vec<(&'static str, usize)>>>;

/// An output that writes all it is given, or nothing, or fails.
struct Plain {
    writes: Option<bool>,
    next_ns: Option<u64>,
    calls: Calls,
}

impl Plain {
    fn hear(&self, call: &'static str, records: usize) {
        self.calls.lock().unwrap().push((call, records));
    }
}

impl Output for Plain {
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        self.hear("write", rows.len());
        match self.writes {
            Some(writes) => Ok(if writes { rows.len() } else { 0 }),
            None => Err(Unwritten {
                records: 1,
                why: io::Error::other("told so"),
            }),
        }
    }

    fn report(&mut self, _: &Losses, _: Amount) -> io::Result<()> {
        let told = self.writes.ok_or_else(|| io::Error::other("told so"));
        told.map(drop)
    }

    fn bare(&self) -> u64 {
        7
    }

    fn load(&mut self, waiting: usize) {
        self.hear("load", waiting);
    }

    fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    fn tend(&mut self) {
        self.hear("tend", 0);
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// An exporter of at most 300 records that wait, of which so many do.
pub(crate) fn plain(writes: Option<bool>, next_ns: Option<u64>, waiting: u64) -> (Exporter, Calls) {
    let (mut exporter, _) = told(&[], false, true);
    let calls = Calls::default();
    exporter.to = Box::new(Plain {
        writes,
        next_ns,
        calls: Arc::clone(&calls),
    });
    exporter.limit = 300;
    (0..waiting).for_each(|number| exporter.export(&row(number)));
    (exporter, calls)
}

#[test]
fn what_waits_for_a_pace_has_its_turn_and_is_full_one_batch_before() {
    let most = Duration::from_secs(9);
    for (next_ns, waiting, is_full, until) in [
        (Some(u64::MAX), 45, true, most),
        (Some(u64::MAX), 44, false, most),
        (Some(0), 44, false, Duration::ZERO),
        (Some(0), 0, false, most),
        (None, 45, false, most),
    ] {
        let (mut exporter, _) = plain(Some(false), next_ns, waiting);
        assert_eq!(
            (exporter.is_full(), exporter.until_turn(most)),
            (is_full, until)
        );
        assert_eq!((exporter.bare(), exporter.late_max_ns()), (7, None));
        exporter.has_failed = true;
        assert_eq!(exporter.next_ns(), None);
    }
}

#[test]
fn at_the_end_an_output_is_asked_until_it_has_all_or_there_is_no_time() {
    let stop = Stop::of_library().unwrap();
    let calls = |writes, until_ns| {
        let (mut exporter, calls) = plain(Some(writes), None, 81);
        exporter.write_all(&stop, until_ns);
        let (written, unwritten) = (exporter.written.flows, exporter.unwritten.flows);
        assert_eq!((written, unwritten), if writes { (81, 0) } else { (0, 81) });
        exporter.write();
        let calls = calls.lock().unwrap();
        calls.clone()
    };
    // A collector is looked after when nothing waits, and a pace is as if a 40th part waited.
    let once = [("load", 2), ("write", 81), ("tend", 0)];
    assert_eq!(calls(true, u64::MAX), once);
    assert_eq!(calls(false, 0), once);
    let (mut exporter, _) = told(&[Ok(1), Ok(0), Ok(2), Ok(0), Ok(3)], false, true);
    (0..6).for_each(|number| exporter.export(&row(number)));
    exporter.write_all(&stop, u64::MAX);
    assert_eq!(exporter.written.flows, 6);
    stop.order(Urgency::Hurry);
    assert_eq!(calls(false, u64::MAX), once);
}

#[test]
fn an_exporter_that_failed_says_how_and_writes_nothing_behind_it() {
    for (is_file, why, text, how) in [
        (
            true,
            "told so",
            "writing it: told so; what was written is in it.part",
            "file",
        ),
        (false, "told so", "writing it: told so", "collector"),
        (
            true,
            OUTPUT_REMOVED,
            &format!("writing it: {OUTPUT_REMOVED}"),
            "removed",
        ),
    ] {
        let (mut exporter, _) = plain(None, None, 3);
        (exporter.name, exporter.is_file) = ("it".into(), is_file);
        exporter.write();
        assert_eq!((exporter.unwritten.flows, exporter.has_failed), (3, true));
        let news = "it: told so; its records are counted as not written";
        assert_eq!(exporter.news().as_deref(), Some(news));
        assert_eq!(exporter.news(), None);
        exporter.why = Some(io::Error::other(why));
        let failed = exporter.finish().unwrap_err();
        let found = match failed.how {
            How::Unwritten => "file",
            How::Lost => "collector",
            How::Removed => "removed",
            How::InPart => "part",
        };
        assert_eq!((failed.text.as_str(), found), (text, how));
    }
    // One that goes on.
    let (mut exporter, _) = told(&[Err(1), Ok(1)], false, true);
    (0..2).for_each(|number| exporter.export(&row(number)));
    exporter.write();
    assert!(matches!(exporter.finish().unwrap_err().how, How::InPart));
    let (mut exporter, _) = plain(None, None, 0);
    exporter.report(&Losses::default());
    assert!(exporter.has_failed);
}

#[test]
fn datagrams_have_their_turn_where_nothing_may_be_held_back() {
    let collector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let export = Export::IpfixUdp(collector.local_addr().unwrap().to_string());
    for interface in [None, Some("eth0".to_owned())] {
        let is_live = interface.is_some();
        let settings = ProbeSettings {
            interface,
            ..ProbeSettings::default()
        };
        let stop = Stop::of_library().unwrap();
        let mut exporter = Exporter::begin(&export, &settings, None, &stop).unwrap();
        exporter.export(&row(1));
        assert_eq!(exporter.next_ns().is_some(), is_live);
    }
}
