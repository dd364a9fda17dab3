//! A publisher that refuses a subscription.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use forebay_msg::session::{Event, Limits, Listener, Session, Timing};
use forebay_msg::{Outbound, Refusal, Role};
use forebay_run_net::{Address, Entry, NetError, Receiver, Settings, Subscriber};
use forebay_wire::net::Frame;

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(30);
/// It sends no messages.
const NOBODY: Option<&mut Outbound> = None;

/// A publisher that answers each subscription as it is told.
struct Publisher {
    door: TcpListener,
    peer: Option<(TcpStream, Session)>,
    came: Vec<u8>,
    /// The first answers; then it refuses nothing.
    refusals: Vec<Refusal>,
    asked: usize,
}

impl Publisher {
    fn new(refusals: &[Refusal]) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        door.set_nonblocking(true).unwrap();
        Self {
            door,
            peer: None,
            came: Vec::new(),
            refusals: refusals.to_vec(),
            asked: 0,
        }
    }

    fn address(&self) -> Address {
        let at = self.door.local_addr().unwrap();
        format!("tcp://{at}").parse().unwrap()
    }

    fn turn(&mut self) {
        if self.peer.is_none()
            && let Ok((stream, _)) = self.door.accept()
        {
            stream.set_nonblocking(true).unwrap();
            let listener = Listener {
                serves: Role::Subscriber,
                answers: false,
                epoch: 1,
                closed: None,
            };
            let limits = Limits {
                buffer_bytes: 64 << 10,
                buffer_count: 64,
            };
            let session = Session::listen(listener, limits, Timing::default(), 0);
            self.peer = Some((stream, session));
        }
        let Some((stream, session)) = &mut self.peer else {
            return;
        };
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(count) => self.came.extend_from_slice(&piece[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        while let Some((frame, bytes)) = Frame::parse(&self.came, session.area_bytes()).unwrap() {
            let request = match session.handle_frame(0, frame, NOBODY).unwrap() {
                Event::Subscribe(subscribe) => Some(subscribe.request),
                _ => None,
            };
            if let Some(request) = request {
                session.answer(request, self.refusals.get(self.asked).copied());
                self.asked += 1;
            }
            self.came.drain(..bytes);
        }
        while let Some(next) = session.poll_transmit(NOBODY) {
            let bytes = next.bytes.len();
            stream.write_all(next.bytes).unwrap();
            session.handle_transmitted(0, bytes, NOBODY);
        }
    }
}

fn subscriber(addresses: &[Address]) -> Subscriber {
    let mut subscriber = Subscriber::connect(addresses, &Settings::default()).unwrap();
    subscriber.subscribe(&[Entry::one(7)]);
    subscriber
}

/// The error by which a subscriber's wait ends.
fn error(subscriber: &mut Subscriber, mut work: impl FnMut()) -> NetError {
    let begun = Instant::now();
    loop {
        work();
        match subscriber.poll(MOMENT, |_| {}) {
            Ok(_) => assert!(begun.elapsed() < LIMIT, "{}", subscriber.trouble()),
            Err(error) => return error,
        }
    }
}

#[test]
fn what_is_refused_for_now_is_asked_for_again() {
    let mut publisher = Publisher::new(&[Refusal::Ending, Refusal::Busy]);
    let mut subscriber = subscriber(&[publisher.address()]);
    let begun = Instant::now();
    while publisher.asked < 3 {
        assert!(begun.elapsed() < LIMIT, "asked {} times", publisher.asked);
        publisher.turn();
        subscriber.poll(MOMENT, |_| {}).unwrap();
    }
    // 10 ms, and then 20 ms.
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert_eq!(subscriber.connections_made(), 1);
}

#[test]
fn what_all_refuse_for_good_ends_the_wait_with_the_reason() {
    let mut publishers = [
        Publisher::new(&[Refusal::TooMany]),
        Publisher::new(&[Refusal::TooMany]),
    ];
    let addresses = publishers.each_ref().map(Publisher::address);
    let mut subscriber = subscriber(&addresses);
    // One that refuses is no reason to give up.
    let begun = Instant::now();
    while publishers[0].asked == 0 || begun.elapsed() < Duration::from_millis(100) {
        assert!(begun.elapsed() < LIMIT);
        publishers[0].turn();
        subscriber.poll(MOMENT, |_| {}).unwrap();
    }
    let error = error(&mut subscriber, || {
        publishers.iter_mut().for_each(Publisher::turn)
    });
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("too_many"), "{error}");
    // Another wish, another answer.
    subscriber.unsubscribe(&[Entry::one(7)]);
    subscriber.poll(MOMENT, |_| {}).unwrap();
}

#[test]
fn who_serves_no_subscribers_ends_the_wait_with_the_reason() {
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &Settings::default()).unwrap();
    let mut subscriber = subscriber(&[receiver.address().unwrap()]);
    let error = error(&mut subscriber, || {
        receiver.poll(Duration::ZERO, |_| {}).unwrap();
    });
    assert!(error.to_string().contains("role"), "{error}");
}
