//! Clients that say anything, and a system that has no descriptors left.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use forebay_msg::Entry;
use proptest::prelude::*;

use super::large::ask;
use super::*;

const LIMIT: Duration = Duration::from_secs(120);
const KEPT_BYTES: usize = 100_000;

/// One that keeps little.
fn small() -> (Registry, (String, u16)) {
    let (mut registry, at) = registry();
    registry.bounds.queued_bytes = KEPT_BYTES;
    registry.bounds.offers_bytes = KEPT_BYTES;
    (registry, at)
}

pub(super) fn registry() -> (Registry, (String, u16)) {
    let place = "tcp://127.0.0.1:0".parse().unwrap();
    let registry = Registry::listen(&place, &Security::default()).unwrap();
    let Address::Tcp { host, port } = registry.address().unwrap() else {
        unreachable!("it listens on TCP");
    };
    (registry, (host, port))
}

pub(super) fn connect(at: &(String, u16)) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

pub(super) fn line(request: &Request) -> Vec<u8> {
    let mut line = serde_json::to_vec(request).unwrap();
    line.push(b'\n');
    line
}

fn announce() -> Vec<u8> {
    let address = "tcp://127.0.0.1:7100".parse().unwrap();
    let entries: Vec<Entry> = (0..50).map(Entry::one).collect();
    line(&Request::Announce(Offer::new("a", &address, &entries)))
}

/// Serves until it is so.
pub(super) fn until(registry: &mut Registry, mut done: impl FnMut(&Registry) -> bool) {
    let begun = Instant::now();
    while !done(registry) {
        assert!(begun.elapsed() < LIMIT);
        registry.serve(Duration::from_millis(1)).unwrap();
    }
}

fn said() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..2_000),
        Just(line(&Request::Find)),
        Just(line(&Request::Find).repeat(3_000)),
        Just(announce()),
        (1_usize..100).prop_map(|cut| announce()[..cut].to_vec()),
        Just(vec![b'x'; 70_000]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_said_its_memory_is_bounded_and_others_are_served(
        all in proptest::collection::vec((0_usize..4, said()), 1..20),
    ) {
        let (mut registry, at) = small();
        let honest = connect(&at);
        let clients: [TcpStream; 4] = std::array::from_fn(|_| connect(&at));
        until(&mut registry, |registry| registry.summary.connections == 5);
        for (client, bytes) in &all {
            // One that was let go is not listened to.
            let _ = (&clients[*client]).write(bytes);
            for _ in 0..3 {
                registry.serve(Duration::ZERO).unwrap();
                prop_assert!(registry.queued_bytes() <= KEPT_BYTES);
            }
            // All the while somebody else is served.
            let answer = ask(&mut registry, &honest, &line(&Request::Find));
            prop_assert!(matches!(answer, Some(Answer::Offers(_))), "{answer:?}");
            let answer = ask(&mut registry, &honest, &announce());
            prop_assert_eq!(answer, Some(Answer::Kept));
        }
        drop(clients);
        until(&mut registry, |registry| registry.clients.len() == 1);
    }
}

#[test]
fn a_client_that_needs_too_much_is_let_go_by_name() {
    let (mut registry, at) = small();
    let clients = [connect(&at), connect(&at)];
    let long = vec![b'x'; 60_000];
    for client in &clients {
        let mut written = 0;
        until(&mut registry, |_| {
            written += (&*client).write(&long[written..]).unwrap_or(0);
            written == long.len()
        });
    }
    until(&mut registry, |registry| registry.clients.len() == 1);
    assert_eq!(registry.summary.refused, BTreeMap::from([("memory", 1)]));
}

#[test]
fn without_descriptors_it_rests_and_opens_again() {
    let (mut registry, at) = small();
    let now_ns = clock::monotonic_ns();
    let exhausted = DoorError::Accept {
        address: "tcp://127.0.0.1:0".into(),
        source: std::io::Error::from_raw_os_error(24),
    };
    registry.shut(&exhausted, now_ns);
    let _waits = connect(&at);
    // Nothing wakes it meanwhile.
    registry.serve(Duration::from_millis(20)).unwrap();
    let waited_ns = clock::monotonic_ns() - now_ns;
    assert!(waited_ns >= 20_000_000, "woken after {waited_ns} ns");
    until(&mut registry, |registry| registry.summary.connections == 1);
    assert!(clock::monotonic_ns() - now_ns >= SHUT_NS);
    assert_eq!(registry.summary.accept_errors, 1);
}

const PLACES: u64 = 8;

/// One of few places, which connections that say nothing have taken, or only the beginning of a request.
fn crowded() -> (Registry, (String, u16), Vec<TcpStream>) {
    let (mut registry, at) = registry();
    registry.bounds.connections = PLACES as usize;
    // A slow host shall not let them go before it is their turn.
    registry.bounds.stranger_ns = SILENCE_NS;
    let strangers: Vec<TcpStream> = (0..PLACES).map(|_| connect(&at)).collect();
    until(&mut registry, |registry| {
        registry.summary.connections == PLACES
    });
    (&strangers[1]).write_all(&announce()[..9]).unwrap();
    (registry, at, strangers)
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let (mut registry, at, _strangers) = crowded();
    let honest: Vec<TcpStream> = (0..PLACES).map(|_| connect(&at)).collect();
    for one in &honest {
        assert_eq!(ask(&mut registry, one, &announce()), Some(Answer::Kept));
    }
    assert_eq!(
        registry.summary.refused,
        BTreeMap::from([("crowded", PLACES)])
    );
    // Those that are served stay, and one more is told.
    let late = connect(&at);
    let answer = ask(&mut registry, &late, b"");
    assert!(matches!(answer, Some(Answer::Refused(why)) if why.contains("too many")));
    assert_eq!(registry.clients.len() as u64, PLACES);
    assert_eq!(registry.summary.refused.get("busy"), Some(&1));
}

#[test]
fn who_has_only_asked_and_is_silent_makes_room_after_a_lease() {
    let (mut registry, _at, strangers) = crowded();
    assert_eq!(
        ask(&mut registry, &strangers[0], &announce()),
        Some(Answer::Kept)
    );
    for one in &strangers[1..] {
        // The first of them has begun to say something else, and is a stranger.
        ask(&mut registry, one, &line(&Request::Find));
    }
    until(&mut registry, |registry| {
        registry.clients.len() as u64 == PLACES - 1
    });
    let now_ns = clock::monotonic_ns();
    registry.crowd_out(now_ns);
    assert_eq!(registry.clients.len() as u64, PLACES - 1);
    let lease_ns = registry.bounds.lease_ns;
    for left in (1..PLACES - 1).rev() {
        registry.crowd_out(now_ns + lease_ns);
        assert_eq!(registry.clients.len() as u64, left);
    }
    // It has an offer.
    registry.crowd_out(now_ns + lease_ns);
    assert_eq!(registry.clients.len(), 1);
}

#[test]
fn a_stranger_has_five_seconds_for_a_whole_request() {
    let (mut registry, _at, strangers) = crowded();
    ask(&mut registry, &strangers[2], &line(&Request::Find)).unwrap();
    let came_ns = registry.clients.values().map(|client| client.came_ns);
    let (first_ns, last_ns) = (came_ns.clone().min().unwrap(), came_ns.max().unwrap());
    registry.bounds.stranger_ns = STRANGER_NS;
    registry.expire(first_ns + 4_999_999_999);
    assert_eq!(registry.clients.len() as u64, PLACES);
    registry.expire(last_ns + 5_000_000_000);
    assert_eq!(registry.clients.len(), 1);
    assert_eq!(
        registry.summary.refused,
        BTreeMap::from([("silent", PLACES - 1)])
    );
}

/// The other tests have smaller ones.
#[test]
fn its_bounds_are_those_that_are_promised() {
    const SECOND_NS: u64 = 1_000_000_000;
    let (registry, _at) = registry();
    let Bounds {
        connections,
        offers_bytes,
        queued_bytes,
        lease_ns,
        slow_ns,
        stranger_ns,
        silence_ns,
    } = registry.bounds;
    assert_eq!(connections, 1_024);
    assert_eq!((offers_bytes, queued_bytes), (128 << 20, 128 << 20));
    // When that is exceeded, more than this is kept of somebody.
    assert_eq!(queued_bytes / connections, 128 << 10);
    assert_eq!(lease_ns, LEASE.as_nanos() as u64);
    assert_eq!((slow_ns, stranger_ns), (5 * SECOND_NS, 5 * SECOND_NS));
    assert_eq!((silence_ns, SHUT_NS), (60 * SECOND_NS, SECOND_NS / 10));
    assert_eq!(LINE_BYTES_MAX, 4 << 20);
    assert_eq!(PAGE_BYTES_MAX, 64 << 10);
}
