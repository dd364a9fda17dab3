//! Clients that mean harm to the daemon, on a virtual wire: what they cost others.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[expect(
    dead_code,
    reason = "what comes out of the wire is of no interest here"
)]
mod world;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_client::Client;
use forebay_client::protocol::{Message, Reason};
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_testing::wire::{carries, is_inside, lay};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use world::{Peer, World, frame, mac, until};

const HELLO: &[u8] = b"FBMX\x01\x00\x01\x01a";

fn is_on_wire(test: &str) -> bool {
    let is_inside = is_inside(test);
    if is_inside {
        lay();
        carries();
    }
    is_inside
}

/// Frames of the peer come to a client, each alone.
fn is_served(peer: &mut Peer, client: &mut Client, frames: u64) {
    for number in 0..frames {
        peer.send(&frame(mac(1), number, 100));
        let mut came = Vec::new();
        until("a frame of the other one", || {
            client.receive_into(&mut came).unwrap()
        });
        assert_eq!(came, frame(mac(1), number, 100));
        client.flush();
    }
}

#[test]
fn one_that_comes_and_goes_without_end_holds_nobody_else() {
    if !is_on_wire("one_that_comes_and_goes_without_end_holds_nobody_else") {
        return;
    }
    let world = World::start("");
    let (mut other, mut peer) = (world.connect("b").unwrap(), Peer::open());
    let (is_over, knocks) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (over, count, path) = (is_over.clone(), knocks.clone(), world.socket.clone());
    let since = Instant::now();
    let knocking = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            // A full backlog is as it should be.
            if let Ok(socket) = SeqSocket::connect(&path) {
                let _ = socket.send(HELLO, &[]);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    until("many that came", || knocks.load(Ordering::Relaxed) > 1_000);
    is_served(&mut peer, &mut other, 50);
    is_over.store(true, Ordering::Relaxed);
    knocking.join().unwrap();
    drop(other);
    let record = world.end();
    let most = 2 + since.elapsed().as_millis() / 100;
    assert!(record.is_closed(), "{:?}", record.envelope);
    let [first, second] = &record.summary.clients[..] else {
        panic!("two clients");
    };
    assert!(u128::from(first.connected) <= most, "{first:?} of {most}");
    assert_eq!((second.frames_given, second.buffers_returned), (50, 50));
}

/// All descriptors of this process but one, which is the daemon's as well.
fn take_descriptors() -> Vec<File> {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(256);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let mut files = Vec::new();
    // The daemon asks for the counts of links once a second, by a descriptor that is free again: all are taken for longer than that.
    let until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < until {
        files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        std::thread::yield_now();
    }
    files.pop();
    files
}

#[test]
fn descriptors_that_run_out_keep_others_out_and_end_nobody() {
    if !is_on_wire("descriptors_that_run_out_keep_others_out_and_end_nobody") {
        return;
    }
    let world = World::start("");
    let (mut other, mut peer) = (world.connect("b").unwrap(), Peer::open());
    let files = take_descriptors();
    let mut found = None;
    until("one descriptor", || {
        found = SeqSocket::connect(&world.socket).ok();
        found.is_some()
    });
    let socket = found.unwrap();
    is_served(&mut peer, &mut other, 100);
    drop(files);
    socket.send(HELLO, &[]).unwrap();
    let mut record = [0; 256];
    until("the welcome", || {
        socket.receive(&mut record).unwrap() != Arrived::Nothing
    });
    assert_eq!(&record[..4], b"FBMX");
    drop((socket, other));
    let summary = world.end().summary;
    assert_eq!(summary.clients[0].connected, 1);
    assert!(summary.refused["not_taken_in"] > 0, "{summary:?}");
}

#[test]
fn one_for_whom_there_are_no_descriptors_is_told_so() {
    if !is_on_wire("one_for_whom_there_are_no_descriptors_is_told_so") {
        return;
    }
    let world = World::start("");
    let (mut other, mut peer) = (world.connect("b").unwrap(), Peer::open());
    let socket = SeqSocket::connect(&world.socket).unwrap();
    // It is taken in meanwhile.
    is_served(&mut peer, &mut other, 50);
    let files = take_descriptors();
    socket.send(HELLO, &[]).unwrap();
    let (mut record, mut bytes) = ([0; 256], 0);
    until("an answer", || {
        if let Arrived::Record(found) = socket.receive(&mut record).unwrap() {
            bytes = found;
        }
        bytes > 0
    });
    let Ok(Message::Refusal(refusal)) = Message::parse(&record[..bytes]) else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, Reason::Resource);
    drop(files);
    drop(world.connect("a").unwrap());
    is_served(&mut peer, &mut other, 10);
    drop(other);
    let summary = world.end().summary;
    assert_eq!(summary.refused.get("resource"), Some(&1), "{summary:?}");
}
