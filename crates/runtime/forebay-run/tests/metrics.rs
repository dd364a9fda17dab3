//! Prometheus' door, over a real socket.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at what must not be, and says what it leaves out"
)]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use forebay_ledger::{GroupWriter, LedgerReader, RunWriter, SchemaBuilder, Unit, Words, reasons};
use forebay_run::metrics::{CONNECTIONS_MAX, MetricsServer, REQUEST_BYTES_MAX};
use proptest::prelude::*;

reasons! {
    /// Why datagrams are dropped.
    enum Bad {
        Malformed = "malformed",
    }
}

/// A ledger with one account, and its door.
fn server() -> MetricsServer {
    let mut schema = SchemaBuilder::new("run 7");
    let group = schema.group("receiver");
    let (_, account) = schema.account::<Bad>(group, "receiver", "source0", Unit::Datagrams);
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, 0).unwrap();
    let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
    let mut book = writer.restore();
    book.add_tally(account.incoming, 3, 300);
    book.add_tally(account.lost(Bad::Malformed), 1, 100);
    writer.commit(&book);
    let reader = LedgerReader::open(&words).unwrap();
    MetricsServer::start("127.0.0.1:0".parse().unwrap(), reader).unwrap()
}

fn ask(server: &MetricsServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    // It may refuse before everything was sent.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_scrape_gets_every_account_in_lines_that_parse() {
    let server = server();
    let answer = ask(
        &server,
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    let samples: Vec<(&str, f64)> = body
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect();
    let value = |has: &[&str]| {
        let found = samples
            .iter()
            .find(|(name, _)| has.iter().all(|part| name.contains(part)));
        found.map(|(_, value)| *value)
    };
    assert_eq!(
        value(&[
            "forebay_items_total",
            "place=\"receiver\"",
            "owner=\"source0\"",
            "direction=\"in\""
        ]),
        Some(3.0)
    );
    assert_eq!(
        value(&["forebay_dropped_items_total", "reason=\"malformed\""]),
        Some(1.0)
    );
    assert_eq!(
        value(&["forebay_residual_items", "place=\"receiver\""]),
        Some(2.0)
    );
    assert_eq!(body.lines().last(), Some("# EOF"));
}

#[test]
fn only_the_one_page_exists() {
    let server = server();
    let status = |request: &str| {
        ask(&server, request.as_bytes())
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(
        status("GET /metrics?x=1 HTTP/1.0\r\n\r\n"),
        "HTTP/1.1 200 OK"
    );
    assert_eq!(
        status("POST /metrics HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 405 Method Not Allowed"
    );
    assert_eq!(status("GET /metrics\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(
        status("\u{16}\u{3}\u{1}\r\n\r\n"),
        "HTTP/1.1 400 Bad Request"
    );
    assert_eq!(status("GET /metr"), "HTTP/1.1 400 Bad Request");
    let head = ask(&server, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn a_request_without_end_is_refused_and_the_next_one_served() {
    let server = server();
    let long = ask(&server, &vec![b'a'; 2 * REQUEST_BYTES_MAX]);
    assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
    let next = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(next.starts_with("HTTP/1.1 200 OK"), "{next}");
}

/// What the page says of connections to it, by how they ended.
fn cut(page: &str, how: &str) -> usize {
    let name = format!("forebay_metrics_connections_cut_total{{how=\"{how}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap().parse::<f64>().unwrap() as usize
}

#[test]
fn a_client_that_says_nothing_holds_nobody_up_and_is_dismissed() {
    let server = server();
    let mut silent = TcpStream::connect(server.address()).unwrap();
    let next = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(next.starts_with("HTTP/1.1 200 OK"), "{next}");
    // It was answered while the other one had its whole time yet.
    assert_eq!(cut(&next, "timed_out"), 0);
    let mut answer = String::new();
    silent.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let last = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(cut(&last, "timed_out"), 1);
}

/// Connections that say nothing, and descriptors of the test beside them.
const SILENT: usize = 1_000;
const BESIDE: u64 = 400;
/// A scrape takes no longer.
const SCRAPE_MAX: Duration = Duration::from_secs(1);

/// One after the other, each with its whole time, they would hold it up for half an hour.
#[test]
fn a_scrape_takes_less_than_a_second_beside_a_thousand_silent_connections_that_come_again() {
    let limit = forebay_sys::process::raise_open_files().unwrap();
    if limit < SILENT as u64 + BESIDE {
        forebay_testing::skip!(
            "this process may open {limit} files, and {SILENT} connections need more"
        );
        return;
    }
    let server = server();
    let address = server.address();
    let mut silent: VecDeque<TcpStream> = VecDeque::new();
    let mut scrapes = Vec::new();
    let mut came = 0;
    for round in 0..5 {
        // All of them at first, then every tenth comes anew.
        let fresh = if round == 0 { SILENT } else { SILENT / 10 };
        silent.drain(..silent.len().min(fresh));
        came += fresh;
        silent.extend((0..fresh).map(|_| TcpStream::connect(address).unwrap()));
        assert_eq!(silent.len(), SILENT);
        let begun = Instant::now();
        let page = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
        scrapes.push(begun.elapsed());
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    }
    // The best of them: the host may be busy with other things.
    let best = scrapes.iter().min().unwrap();
    assert!(*best < SCRAPE_MAX, "{scrapes:?}");
    let page = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    let ended = cut(&page, "crowded_out") + cut(&page, "timed_out");
    assert!(ended >= came - CONNECTIONS_MAX, "{page}");
    assert_eq!(cut(&page, "not_accepted"), 0);
}

#[test]
fn a_client_that_does_not_read_its_answer_holds_nobody_up() {
    let server = server();
    let mut deaf = TcpStream::connect(server.address()).unwrap();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let page = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert_eq!(cut(&page, "timed_out"), 0);
}

#[test]
fn the_door_closes_with_the_run() {
    let server = server();
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn garbage_is_answered_and_stops_nothing(garbage in prop::collection::vec(any::<u8>(), 0..300)) {
        let server = server();
        let mut request = garbage;
        request.extend_from_slice(b"\r\n\r\n");
        let answer = ask(&server, &request);
        prop_assert!(answer.starts_with("HTTP/1.1 4"), "{}", answer);
        prop_assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    }
}
