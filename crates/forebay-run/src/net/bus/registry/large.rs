//! Many large offers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;

use forebay_msg::Entry;

use super::hostile::{connect, line, registry, until};
use super::*;
use crate::net::bus::{Bus, Finder, TAGS_MAX};

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
fn ask(registry: &mut Registry, stream: &TcpStream, line: &[u8]) -> Option<Answer> {
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
    let (mut registry, at) = registry();
    // Nobody renews here.
    registry.bounds.lease_ns = 600_000_000_000;
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

#[test]
fn what_all_offers_take_is_bounded_and_who_is_beyond_is_told() {
    let (mut registry, at) = registry();
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
    let (mut registry, at) = registry();
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
