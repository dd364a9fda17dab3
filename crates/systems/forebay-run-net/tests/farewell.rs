//! Peers whose totals at the end cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use forebay_msg::session::{Dialer, Event, Limits, Session, Timing};
use forebay_msg::{Outbound, Role, Slow, Totals};
use forebay_run_net::{Address, Entry, NetRecord, Publisher, Receiver, Settings};
use forebay_wire::net::Frame;

const LIMIT: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);
/// Without a sending end.
const NOBODY: Option<&mut Outbound> = None;

/// A peer of this test's.
struct Peer {
    stream: TcpStream,
    session: Session,
    came: Vec<u8>,
    is_open: bool,
    /// The other side's totals as a sender.
    end: Option<Totals>,
}

impl Peer {
    fn connect(address: &Address, role: Role) -> Self {
        let at = address.to_string();
        let stream = TcpStream::connect(at.strip_prefix("tcp://").unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let dialer = Dialer {
            role,
            slow: Slow::Block,
            identity: 1,
        };
        let limits = Limits {
            buffer_bytes: 1024,
            buffer_count: 4,
        };
        let mut peer = Self {
            stream,
            session: Session::dial(dialer, limits, Timing::default(), 0),
            came: Vec::new(),
            is_open: false,
            end: None,
        };
        peer.say();
        peer
    }

    /// What the session has to say.
    fn say(&mut self) {
        while let Some(next) = self.session.poll_transmit(NOBODY) {
            let bytes = next.bytes.to_vec();
            self.stream.write_all(&bytes).unwrap();
            self.session.handle_transmitted(0, bytes.len(), NOBODY);
        }
    }

    /// Reads; its own answer to the end stays unsaid. False when the other side has gone.
    fn hear(&mut self) -> bool {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => return false,
            Ok(count) => self.came.extend_from_slice(&piece[..count]),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        let area_bytes = self.session.area_bytes().max(1024);
        while let Some((frame, bytes)) = Frame::parse(&self.came, area_bytes).unwrap() {
            match self.session.handle_frame(0, frame, NOBODY).unwrap() {
                Event::Opened(_) => self.is_open = true,
                Event::PeerEnded(totals) => self.end = Some(totals),
                _ => {}
            }
            self.came.drain(..bytes);
        }
        true
    }
}

/// Turns until it is so.
fn until(mut work: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !work() {
        assert!(begun.elapsed() < LIMIT);
    }
}

/// What a publisher says of subscribers that took all of two messages with 10 bytes, and say otherwise.
fn published(lies: &[fn(&mut Totals)]) -> NetRecord {
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut publisher = Publisher::listen(&address, &Settings::default()).unwrap();
    let address = publisher.address().unwrap();
    let connect = |_: &_| Peer::connect(&address, Role::Subscriber);
    let mut peers: Vec<Peer> = lies.iter().map(connect).collect();
    until(|| {
        publisher.poll(MOMENT).unwrap();
        peers.iter_mut().all(|peer| peer.hear() && peer.is_open)
    });
    for peer in &mut peers {
        peer.session.subscribe(0, true, &[Entry::one(7)], 1024);
        peer.say();
    }
    until(|| {
        publisher.poll(MOMENT).unwrap();
        publisher.ready_subscribers() == peers.len()
    });
    for _ in 0..2 {
        publisher.publish(7, 0, &[0; 5]).unwrap();
    }
    publisher.begin_end();
    until(|| {
        publisher.poll(MOMENT).unwrap();
        peers
            .iter_mut()
            .all(|peer| peer.hear() && peer.end.is_some())
    });
    for (peer, lie) in peers.iter_mut().zip(lies) {
        let mut took = peer.end.unwrap();
        assert_eq!((took.messages, took.bytes), (2, 10));
        lie(&mut took);
        peer.stream
            .write_all(&Frame::Farewell(took).emit())
            .unwrap();
    }
    until(|| {
        publisher.poll(MOMENT).unwrap();
        publisher.subscribers() == 0 || peers.iter_mut().all(|peer| !peer.hear())
    });
    publisher.finish(LIMIT).unwrap()
}

#[test]
fn who_took_more_than_was_sent_is_not_believed() {
    let lies: [fn(&mut Totals); 5] = [
        |took| took.messages = u64::MAX,
        |took| took.messages = 3,
        |took| took.messages_dropped = u64::MAX,
        |took| took.bytes = 11,
        |_| (),
    ];
    let summary = published(&lies);
    assert_eq!(summary.parted.get("bad_field"), Some(&4), "{summary:?}");
    assert_eq!(summary.unconfirmed, 8, "{summary:?}");
    assert!(summary.is_closed(), "{summary:?}");
}

#[test]
fn what_is_missing_at_one_is_not_made_up_for_by_another() {
    let summary = published(&[|took| took.messages = 1, |took| took.messages = 3]);
    assert_eq!(summary.missing_at_peers, 1, "{summary:?}");
    assert!(!summary.is_closed());
    let summary = published(&[|took| took.bytes = 7]);
    let missing = [summary.missing_at_peers, summary.missing_bytes_at_peers];
    assert_eq!(missing, [0, 3], "{summary:?}");
    assert!(!summary.is_closed(), "bytes count, too");
}

/// What senders say that they dropped may be any number; the sum stays one.
#[test]
fn drops_that_senders_tell_do_not_overflow() {
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &Settings::default()).unwrap();
    let address = receiver.address().unwrap();
    let mut peers = [0; 2].map(|_| Peer::connect(&address, Role::Sender));
    until(|| {
        receiver.poll(MOMENT, |_| {}).unwrap();
        peers.iter_mut().all(|peer| peer.hear() && peer.is_open)
    });
    let end = Totals {
        messages_dropped: u64::MAX,
        bytes_dropped: u64::MAX,
        ..Totals::default()
    };
    for peer in &mut peers {
        peer.stream.write_all(&Frame::End(end).emit()).unwrap();
    }
    let summary = receiver.finish(LIMIT, |_| {}).unwrap();
    assert_eq!(summary.dropped_at_peers, u64::MAX, "{summary:?}");
    assert!(summary.is_closed() && summary.parted.is_empty());
}
