//! Many large offers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;

use forebay_msg::Entry;

use super::hostile::{connect, line, registry, until};
use super::*;
use crate::bus::{Bus, Finder, TAGS_MAX};

/// One with the real limits but for time: much is said here, by a slow host perhaps, and nobody renews.
fn patient() -> (Registry, (String, u16)) {
    let (mut registry, at) = registry();
    let long_ns = 600_000_000_000;
    registry.bounds = Bounds {
        lease_ns: long_ns,
        slow_ns: long_ns,
        stranger_ns: long_ns,
        silence_ns: long_ns,
        ..registry.bounds
    };
    (registry, at)
}

/// As long as offers get.
fn largest() -> Vec<u8> {
    let address = "tcp://127.0.0.1:7100".parse().unwrap();
    let entries: Vec<Entry> = (0..TAGS_MAX as u64)
        .map(|at| Entry::one(u64::MAX - at))
        .collect();
    line(&Request::Announce(Offer::new("large", &address, &entries)))
}

fn say(registry: &mut Registry, stream: &TcpStream, line: &[u8]) {
    let mut written = 0;
    until(registry, |_| {
        written += (&*stream).write(&line[written..]).unwrap_or(0);
        written == line.len()
    });
}

/// What it answers to one line; nothing when it has let that client go.
pub(super) fn ask(registry: &mut Registry, stream: &TcpStream, line: &[u8]) -> Option<Answer> {
    say(registry, stream, line);
    let mut answer = Vec::new();
    let mut piece = vec![0; 1 << 20];
    let mut is_over = false;
    until(registry, |_| {
        match (&*stream).read(&mut piece) {
            Ok(0) => is_over = true,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) => is_over = error.kind() != std::io::ErrorKind::WouldBlock,
        }
        is_over || answer.ends_with(b"\n")
    });
    serde_json::from_slice(&answer).ok()
}

#[test]
fn offers_of_any_sum_are_found() {
    let (mut registry, at) = patient();
    let offer = largest();
    // More than 64 MiB.
    let publishers: Vec<TcpStream> = (0..19).map(|_| connect(&at)).collect();
    for publisher in &publishers {
        say(&mut registry, publisher, &offer);
    }
    until(&mut registry, |registry| registry.summary.offers == 19);
    let bus = Bus::Registry(registry.address().unwrap());
    let mut finder = Finder::start(&bus, &Security::default()).unwrap();
    let mut found = 0;
    until(&mut registry, |_| {
        found = finder.changed().map_or(found, |offers| offers.len());
        found > 0
    });
    assert_eq!(found, 19);
}

/// An offer of which two fill a page.
fn middling() -> Vec<u8> {
    let address = "tcp://127.0.0.1:7100".parse().unwrap();
    let entries: Vec<Entry> = (0..1000).map(|at| Entry::one(u64::MAX - at)).collect();
    line(&Request::Announce(Offer::new("a", &address, &entries)))
}

/// Publishers with offers that fill many pages.
fn publishers(registry: &mut Registry, at: &(String, u16)) -> Vec<TcpStream> {
    let all: Vec<TcpStream> = (0..80).map(|_| connect(at)).collect();
    for one in &all {
        assert_eq!(ask(registry, one, &middling()), Some(Answer::Kept));
    }
    all
}

/// How many offers a client is told page by page, which is not let go.
fn told(registry: &mut Registry, client: &TcpStream) -> Option<usize> {
    let mut request = Request::Find;
    let mut count = 0;
    loop {
        match ask(registry, client, &line(&request))? {
            Answer::Page { offers, last } => {
                count += offers.len();
                request = Request::FindAfter(last);
            }
            Answer::Offers(offers) => return Some(count + offers.len()),
            _ => return None,
        }
    }
}

#[test]
fn who_takes_much_memory_costs_nobody_else() {
    let (mut registry, at) = patient();
    let honest = connect(&at);
    let publishers = publishers(&mut registry, &at);
    let large = connect(&at);
    assert_eq!(ask(&mut registry, &large, &largest()), Some(Answer::Kept));
    // With the real limits: lines that never end, of all sizes, until there is no room left for another one.
    let mut hostile = Vec::new();
    for (bytes, count) in [(3_900_000, 75), (500_000, 10), (20_000, 30)] {
        let endless = vec![b'x'; bytes];
        for _ in 0..count {
            let one = connect(&at);
            hostile.push(one);
            let come = 82 + hostile.len() as u64;
            until(&mut registry, |registry| {
                registry.summary.connections == come
            });
            let token = registry.next_token - 1;
            say(&mut registry, &hostile[hostile.len() - 1], &endless);
            // It has read all of it, or has let it go.
            let is_kept = |client: &Client| client.queued_bytes() >= bytes;
            until(&mut registry, |registry| {
                registry.clients.get(&token).is_none_or(is_kept)
            });
        }
    }
    assert_eq!(told(&mut registry, &honest), Some(publishers.len() + 1));
    assert_eq!(ask(&mut registry, &honest, &middling()), Some(Answer::Kept));
    assert_eq!(registry.summary.offers, 82);
    let refused: Vec<_> = registry.summary.refused.keys().collect();
    assert_eq!(refused, [&"memory"]);
}

#[test]
fn who_asks_and_does_not_read_is_told_one_page_and_let_go() {
    let (mut registry, at) = patient();
    let honest = connect(&at);
    let publishers = publishers(&mut registry, &at);
    let hostile: Vec<TcpStream> = (0..4).map(|_| connect(&at)).collect();
    let mut most = 0;
    for one in &hostile {
        let finds = line(&Request::Find).repeat(500);
        say(&mut registry, one, &finds);
        for _ in 0..1000 {
            registry.serve(Duration::ZERO).unwrap();
            most = most.max(registry.queued_bytes());
        }
    }
    assert!(
        most < 4 * 2 * PAGE_BYTES_MAX,
        "{most} bytes for four clients"
    );
    // The kernel keeps less than they have asked for.
    let is_owed = |client: &&Client| client.owed_since_ns().is_some();
    assert_eq!(registry.clients.values().filter(is_owed).count(), 4);
    assert_eq!(told(&mut registry, &honest), Some(publishers.len()));
    registry.bounds.slow_ns = SLOW_NS;
    registry.expire(clock::monotonic_ns() + SLOW_NS);
    assert_eq!(registry.summary.refused, BTreeMap::from([("slow", 4)]));
}

#[test]
fn what_all_offers_take_is_bounded_and_who_is_beyond_is_told() {
    let (mut registry, at) = patient();
    let offer = |tags: u64| {
        let address = "tcp://127.0.0.1:7100".parse().unwrap();
        let entries: Vec<Entry> = (0..tags).map(Entry::one).collect();
        line(&Request::Announce(Offer::new("a", &address, &entries)))
    };
    registry.bounds.offers_bytes = offer(300).len();
    let clients = [connect(&at), connect(&at), connect(&at)];
    // One's own is not counted beside the new one.
    for tags in [100, 200, 200] {
        assert_eq!(
            ask(&mut registry, &clients[0], &offer(tags)),
            Some(Answer::Kept)
        );
    }
    let Some(Answer::Refused(why)) = ask(&mut registry, &clients[1], &offer(200)) else {
        unreachable!("it has no room for both");
    };
    assert!(why.contains("offer fewer tags"), "{why}");
    assert_eq!(
        ask(&mut registry, &clients[2], &offer(50)),
        Some(Answer::Kept)
    );
    until(&mut registry, |registry| registry.clients.len() == 2);
    assert_eq!(registry.summary.refused, BTreeMap::from([("full", 1)]));
}

#[test]
fn an_offer_that_is_longer_than_it_seems_is_refused() {
    let (mut registry, at) = patient();
    // Tags as arrays, and a host of any length.
    let mut said = br#"{"announce":{"name":"a","address":"tcp://127.0.0.1:1","host":""#.to_vec();
    said.resize(LINE_BYTES_MAX - (6 * TAGS_MAX) - 100, b'h');
    said.extend_from_slice(br#"","pid":1,"tags":["#);
    said.extend_from_slice(&b"[0,0],".repeat(TAGS_MAX));
    said.pop();
    said.extend_from_slice(b"]}}\n");
    assert!(said.len() < LINE_BYTES_MAX);
    let answer = ask(&mut registry, &connect(&at), &said);
    assert!(matches!(answer, Some(Answer::Refused(why)) if why.contains("one has up to")));
}
