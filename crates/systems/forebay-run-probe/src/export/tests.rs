use std::io::Read;
use std::net::{TcpListener, TcpStream};
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
fn row(number: u64) -> Row {
    let time_ns = number * SECOND_NS / RECORDS_HZ;
    let record = FlowRecord {
        key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
        packets: 1,
        octets: number,
        packets_rev: 0,
        octets_rev: 0,
        start_ns: time_ns,
        end_ns: time_ns,
        tcp_flags: 0,
        tcp_flags_rev: 0,
        end_reason: EndReason::Idle,
    };
    Row {
        record,
        fields: Fields::default(),
    }
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
