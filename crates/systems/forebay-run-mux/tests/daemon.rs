//! The daemon on one end of a virtual wire, clients with their library, and a peer on the other end of the wire, which alone knows what it sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and a process of one says how far it is"
)]

mod world;

use forebay_client::protocol::{Message, Reason};
use forebay_client::{Client, ClientError, Handed, SendError, Woken};
use forebay_ring::BareSender;
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_testing::wire::{carries, is_inside, lay};
use rustix::fs::OFlags;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;
use world::{LONG, Peer, World, frame, mac, until};

fn is_on_wire(test: &str) -> bool {
    let is_inside = is_inside(test);
    if is_inside {
        lay();
        carries();
    }
    is_inside
}

/// Sends each frame back, and so many of them.
fn echo(mut client: Client, frames: u64) -> Client {
    let mut frame = Vec::new();
    while client.counts().sent < frames {
        while client.receive_into(&mut frame).unwrap() {
            let (to, from) = frame[..12].split_at_mut(6);
            to.swap_with_slice(from);
            while let Err(full) = client.send(&frame) {
                assert!(matches!(full, SendError::Full { .. }), "{full}");
                client.wait(Instant::now() + LONG).unwrap();
            }
        }
        if client.counts().sent < frames {
            assert_ne!(client.wait(Instant::now() + LONG).unwrap(), Woken::Due);
        }
    }
    client.flush();
    client
}

#[test]
fn each_client_gets_its_own_frames_and_all_parties_count_the_same() {
    if !is_on_wire("each_client_gets_its_own_frames_and_all_parties_count_the_same") {
        return;
    }
    const FRAMES: u64 = 5_000;
    let world = World::start("");
    let threads = ["a", "b"].map(|name| {
        let client = world.connect(name).unwrap();
        std::thread::spawn(move || echo(client, FRAMES))
    });
    let mut peer = Peer::open();
    let (mut sent_bytes, mut asked, mut had) = ([0; 2], [0; 2], [0; 2]);
    let most = Instant::now() + LONG;
    while had != [FRAMES; 2] {
        assert!(Instant::now() < most, "{had:?} of {FRAMES} came back");
        for place in 0..2 {
            while asked[place] < FRAMES && asked[place] < had[place] + 32 {
                let frame = frame(mac(place), asked[place], 60 + asked[place] as usize % 1_400);
                sent_bytes[place] += frame.len() as u64;
                peer.send(&frame);
                asked[place] += 1;
            }
        }
        for back in peer.receive() {
            let place = usize::from(back[11]) - 1;
            let right = frame(mac(place), had[place], 60 + had[place] as usize % 1_400);
            assert_eq!(back[..6], right[6..12], "to the peer");
            assert_eq!(back[6..12], right[..6], "from the client");
            assert_eq!(back[12..], right[12..], "frame {} of {place}", had[place]);
            had[place] += 1;
        }
    }
    let counts = threads.map(|thread| thread.join().unwrap().counts());
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let summary = &record.summary;
    for (place, (of, own)) in summary.clients.iter().zip(counts).enumerate() {
        assert_eq!(
            (own.received, own.sent, own.refused_full),
            (FRAMES, FRAMES, 0)
        );
        assert_eq!((of.frames_for, of.frames_given), (FRAMES, own.received));
        assert_eq!((of.packets_asked, of.packets_sent), (FRAMES, own.sent));
        assert_eq!(
            (of.bytes_given, of.bytes_sent),
            (own.received_bytes, own.sent_bytes)
        );
        assert_eq!(of.bytes_given, sent_bytes[place]);
        assert!(of.lies.is_empty());
    }
    assert_eq!(
        (summary.frames_in, summary.frames_out),
        (2 * FRAMES, 2 * FRAMES)
    );
    assert_eq!(summary.engine_residual_items, 0);
    assert!(
        record.envelope.drops.is_empty(),
        "{:?}",
        record.envelope.drops
    );
}

#[test]
fn a_client_that_dies_with_buffers_harms_nobody_and_its_place_is_free_again() {
    if !is_on_wire("a_client_that_dies_with_buffers_harms_nobody_and_its_place_is_free_again") {
        return;
    }
    let world = World::start("queue = 8");
    let (mut keeps, mut takes) = (world.connect("a").unwrap(), world.connect("b").unwrap());
    let mut peer = Peer::open();
    let mut held = Vec::new();
    for number in 0..50 {
        peer.send(&frame(mac(0), number, 100));
        peer.send(&frame(mac(1), number, 200));
        let mut came = Vec::new();
        until("the frame of the other one", || {
            takes.receive_into(&mut came).unwrap()
        });
        takes.flush();
        assert_eq!(came, frame(mac(1), number, 200));
        while let Some(frame) = keeps.receive().unwrap() {
            held.push(frame.hold());
        }
    }
    until("all that it may hold", || {
        let more = keeps.receive().unwrap().map(|frame| frame.hold());
        held.extend(more);
        held.len() == 8
    });
    assert!(keeps.receive().unwrap().is_none());
    drop(keeps);
    let mut again = None;
    until("the place", || {
        again = world.connect("a").ok();
        again.is_some()
    });
    let mut again = again.unwrap();
    peer.send(&frame(mac(0), 77, 100));
    let mut came = Vec::new();
    until("a frame for the next one", || {
        again.receive_into(&mut came).unwrap()
    });
    assert_eq!(came, frame(mac(0), 77, 100));
    again.flush();
    let counts = takes.counts();
    drop((again, takes));
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let [first, second] = &record.summary.clients[..] else {
        panic!("two clients");
    };
    assert_eq!(
        (first.frames_for, first.frames_given, first.connected),
        (51, 9, 2)
    );
    assert_eq!(first.buffers_returned, 1);
    assert_eq!(
        (second.frames_for, second.frames_given),
        (50, counts.received)
    );
    assert_eq!(second.buffers_returned, 50);
    let lost = |name: &str| record.envelope.drops.get(name).map(|lost| lost.items);
    assert_eq!(lost("mux_deliver.queue_full.a"), Some(42));
    assert_eq!(lost("mux_receive.client_gone.a"), Some(8));
    assert_eq!(
        record.envelope.drops.len(),
        2,
        "{:?}",
        record.envelope.drops
    );
}

#[test]
fn one_who_may_not_have_a_place_is_refused_and_told_why() {
    if !is_on_wire("one_who_may_not_have_a_place_is_refused_and_told_why") {
        return;
    }
    let world = World::start("");
    let refused = |name: &str| match world.connect(name) {
        Err(ClientError::Refused(refusal)) => (refusal.reason, refusal.text().to_owned()),
        other => panic!("{other:?}"),
    };
    let uid = world::uid();
    let no_place = |name: &str| {
        let text = format!("no place '{name}' for user {uid}");
        (Reason::NotAllowed, text)
    };
    assert_eq!(refused("nobody"), no_place("nobody"));
    // It is there, for another user: which is not told.
    assert_eq!(refused("other"), no_place("other"));
    let _first = world.connect("a").unwrap();
    let text = "the place 'a' has a client already".to_owned();
    assert_eq!(refused("a"), (Reason::Taken, text));
    let socket = SeqSocket::connect(&world.socket).unwrap();
    socket.send(b"let me in", &[]).unwrap();
    let mut record = [0; 256];
    let mut found = Arrived::Nothing;
    until("the refusal", || {
        found = socket.receive(&mut record).unwrap();
        found != Arrived::Nothing
    });
    let Arrived::Record(bytes) = found else {
        panic!("{found:?}");
    };
    let Ok(Message::Refusal(refusal)) = Message::parse(&record[..bytes]) else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, Reason::Malformed);
    until("the end", || {
        socket.receive(&mut record).unwrap() == Arrived::End
    });
    let summary = world.end().summary;
    assert_eq!(summary.connections, 5);
    let reasons: Vec<_> = summary.refused.into_iter().collect();
    assert_eq!(
        reasons,
        [("malformed", 1), ("not_allowed", 2), ("taken", 1)]
    );
}

/// Names the socket to a process that is only a client.
const SOCKET: &str = "FOREBAY_TEST_CLIENT_OF";
/// A user without any right.
const NOBODY: u32 = 65_534;

/// The other process of the test below: it says when it has all that it may hold, and gives nothing back.
#[test]
fn a_client_that_holds_what_it_gets() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let mut client = Client::connect(socket.as_ref(), "a", LONG).unwrap();
    println!("it has a place");
    let mut held = Vec::new();
    while held.len() < 8 {
        client.wait(Instant::now() + LONG).unwrap();
        held.extend(client.receive().unwrap().map(|frame| frame.hold()));
    }
    let mut frame = frame(mac(0), 99, 64);
    frame[..12].copy_from_slice(&[world::PEER, mac(0)].concat());
    client.send(&frame).unwrap();
    client.wait(Instant::now() + 2 * LONG).unwrap();
}

#[test]
fn a_process_of_another_user_is_a_client_and_may_be_killed() {
    if !is_on_wire("a_process_of_another_user_is_a_client_and_may_be_killed") {
        return;
    }
    let world = World::start_for(NOBODY, "queue = 8");
    // That user may not come to where this test lies.
    let own = world.folder.path().join("client");
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    let mut command = Command::new(&own);
    command.args(["--nocapture", "--exact", "a_client_that_holds_what_it_gets"]);
    let command = command.env(SOCKET, &world.socket).uid(NOBODY).gid(NOBODY);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("it has a place")));
    let mut other = world.connect("b").unwrap();
    let (mut peer, mut came) = (Peer::open(), Vec::new());
    (0..20).for_each(|number| peer.send(&frame(mac(0), number, 100)));
    until("what it sends when it has all that it may hold", || {
        came.extend(peer.receive());
        !came.is_empty()
    });
    assert_eq!(came[0][..12], [world::PEER, mac(0)].concat());
    child.kill().unwrap();
    child.wait().unwrap();
    for number in 0..50 {
        peer.send(&frame(mac(1), number, 200));
        let mut came = Vec::new();
        until("a frame of the other one", || {
            other.receive_into(&mut came).unwrap()
        });
        assert_eq!(came, frame(mac(1), number, 200));
        other.flush();
    }
    drop(other);
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let [first, second] = &record.summary.clients[..] else {
        panic!("two clients");
    };
    let (given, sent) = (first.frames_given, first.packets_sent);
    assert_eq!((given, first.buffers_returned, sent), (8, 0, 1));
    assert_eq!(first.parted.get("left"), Some(&1));
    let lost = |name: &str| record.envelope.drops.get(name).map_or(0, |lost| lost.items);
    assert_eq!(lost("mux_receive.client_gone.a"), 8);
    assert_eq!(
        (first.frames_for, lost("mux_deliver.queue_full.a")),
        (20, 12)
    );
    assert_eq!((second.frames_given, second.buffers_returned), (50, 50));
}

/// A client that maps its memory itself and writes into it what it likes.
fn liar(world: &World) -> (SeqSocket, BareSender, Vec<OwnedFd>) {
    let mut handed = None;
    until("the door", || {
        handed = Handed::ask(&world.socket, "a", LONG).ok();
        handed.is_some()
    });
    let Handed {
        socket,
        welcome,
        receive,
        transmit,
    } = handed.unwrap();
    let both = receive.iter().chain(&transmit);
    let all = both.map(|fd| fd.try_clone().unwrap()).collect();
    let sender = BareSender::map(&welcome.transmit.spec("liar"), transmit).unwrap();
    (socket, sender, all)
}

/// Bells are shared with clients: one may empty or fill them, and make the side that reads or rings wait.
#[test]
fn a_client_that_holds_the_bells_holds_nobody_else() {
    if !is_on_wire("a_client_that_holds_the_bells_holds_nobody_else") {
        return;
    }
    let world = World::start("");
    let (_socket, mut liar, fds) = liar(&world);
    let mut other = world.connect("b").unwrap();
    let mut peer = Peer::open();
    // The last two of each pool are its bells, for the one side and for the other.
    for bell in [&fds[3], &fds[4], &fds[8], &fds[9]] {
        rustix::fs::fcntl_setfl(bell, OFlags::empty()).unwrap();
        rustix::io::write(bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    }
    liar.returns.prepare();
    for number in 0..50 {
        peer.send(&frame(mac(0), number, 100));
        peer.send(&frame(mac(1), number, 100));
        let mut sent = frame(world::PEER, number, 60);
        sent[6..12].copy_from_slice(&mac(0));
        liar.send(number as u32, &sent, 0).unwrap();
        liar.publish();
        let mut came = Vec::new();
        until("a frame of the other one", || {
            other.receive_into(&mut came).unwrap()
        });
        assert_eq!(came, frame(mac(1), number, 100));
        other.flush();
    }
    let mut came = 0;
    until("what both have sent", || {
        came += peer.receive().len();
        came == 50
    });
    drop(other);
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    assert_eq!(record.summary.clients[1].frames_given, 50);
}

#[test]
fn a_client_that_lies_is_disconnected_by_name_and_the_other_loses_nothing() {
    if !is_on_wire("a_client_that_lies_is_disconnected_by_name_and_the_other_loses_nothing") {
        return;
    }
    let world = World::start("");
    let (socket, mut liar, _) = liar(&world);
    let mut other = world.connect("b").unwrap();
    let mut peer = Peer::open();
    // The sender of another client, four times; three are forgiven.
    for number in 0..4 {
        let frame = frame(mac(1), number, 60);
        let mut foreign = frame.clone();
        foreign[6..12].copy_from_slice(&mac(1));
        liar.send(number as u32, &foreign, 0).unwrap();
        other.send(&echoed(&frame)).unwrap();
    }
    liar.publish();
    liar.data.notify();
    other.flush();
    let mut came = Vec::new();
    until("what the other one sent", || {
        came.extend(peer.receive());
        came.len() == 4
    });
    assert!(came.iter().all(|frame| frame[6..12] == mac(1)), "{came:?}");
    let (mut record, mut said) = ([0; 256], None);
    until("the end", || match socket.receive(&mut record).unwrap() {
        Arrived::Record(bytes) => {
            said = Some(Message::parse(&record[..bytes]).unwrap());
            false
        }
        Arrived::Nothing => false,
        Arrived::End => true,
    });
    let Some(Message::Refusal(refusal)) = said else {
        panic!("{said:?}");
    };
    assert_eq!(refusal.reason, Reason::Faults);
    drop(other);
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let [first, second] = &record.summary.clients[..] else {
        panic!("two clients");
    };
    assert_eq!(first.lies.get("send.foreign_source"), Some(&4));
    assert_eq!(first.parted.get("lied"), Some(&1));
    assert_eq!((first.packets_asked, first.packets_sent), (4, 0));
    assert_eq!((second.packets_asked, second.packets_sent), (4, 4));
    assert!(second.lies.is_empty());
}

/// With receiver and sender in each other's place.
fn echoed(frame: &[u8]) -> Vec<u8> {
    let mut back = frame.to_vec();
    let (to, from) = back[..12].split_at_mut(6);
    to.swap_with_slice(from);
    back
}

#[test]
fn a_question_for_a_clients_address_is_answered_by_the_daemon() {
    if !is_on_wire("a_question_for_a_clients_address_is_answered_by_the_daemon") {
        return;
    }
    let world = World::start("");
    let client = world.connect("a").unwrap();
    let mut peer = Peer::open();
    let mut question = [
        &[0xff; 6][..],
        &world::PEER,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
    ]
    .concat();
    question.extend(world::PEER);
    question.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 10]);
    question.resize(60, 0);
    peer.send(&question);
    let mut answers = Vec::new();
    until("the answer", || {
        answers.extend(peer.receive());
        !answers.is_empty()
    });
    let answer = &answers[0];
    assert_eq!(answer[..12], [world::PEER, mac(0)].concat());
    assert_eq!(answer[20..22], [0, 2], "a reply");
    assert_eq!(answer[22..32], [&mac(0)[..], &[10, 0, 0, 10]].concat());
    drop(client);
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    assert_eq!((record.summary.answers, record.summary.frames_out), (1, 1));
}

#[test]
fn a_daemon_that_ends_is_an_error_of_its_clients_and_the_socket_is_free() {
    if !is_on_wire("a_daemon_that_ends_is_an_error_of_its_clients_and_the_socket_is_free") {
        return;
    }
    let world = World::start("");
    let mut client = world.connect("a").unwrap();
    let socket = world.socket.clone();
    assert!(world.end().is_closed());
    let gone = client.wait(Instant::now() + LONG).unwrap_err();
    assert!(matches!(gone, ClientError::Gone), "{gone}");
    assert!(!socket.exists());
}
