//! A sender whose buffers hold something else than they say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use forebay_msg::session::{Dialer, Event, Limits, Session, Timing};
use forebay_msg::{Outbound, Role, Slow};
use forebay_run_net::{NetRecord, Receiver, Settings};
use forebay_wire::net::{DataFields, Frame};

const LIMIT: Duration = Duration::from_secs(30);
/// Without a sending end.
const NOBODY: Option<&mut Outbound> = None;

/// Three messages of the tag 1, with 3 bytes each.
const MESSAGES: &[u8] = b"\x03\0\0\x80\x01\0\0\0\0\0\0\0one\x03\0\0\0two\x03\0\0\0six";

/// What a receiver has to say of a sender that says so many messages and bytes and then gives it these; and what it delivered.
fn received(said: [u64; 2], messages: &[u8]) -> (NetRecord, Vec<Vec<u8>>) {
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &Settings::default()).unwrap();
    let at = receiver.address().unwrap().to_string();
    let mut stream = TcpStream::connect(at.strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let dialer = Dialer {
        role: Role::Sender,
        slow: Slow::Block,
        identity: 1,
    };
    let limits = Limits {
        buffer_bytes: 1024,
        buffer_count: 4,
    };
    let mut session = Session::dial(dialer, limits, Timing::default(), 0);
    let hello = session.poll_transmit(NOBODY).unwrap().bytes.to_vec();
    stream.write_all(&hello).unwrap();
    let (mut said_it, mut came, mut got) = (false, Vec::new(), Vec::new());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LIMIT, "the receiver keeps the connection");
        let delivered =
            |message: forebay_run_net::Delivered<'_>| got.push(message.message.payload.to_vec());
        receiver.poll(Duration::from_millis(1), delivered).unwrap();
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => came.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            // What it did not read any more.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break;
            }
        }
        let Some((frame, _)) = Frame::parse(&came, 0).unwrap().filter(|_| !said_it) else {
            continue;
        };
        let Event::Opened(agreed) = session.handle_frame(0, frame, NOBODY).unwrap() else {
            unreachable!("the first frame is a welcome");
        };
        let fields = DataFields {
            epoch: agreed.epoch,
            sequence: 0,
            messages_total: said[0],
            bytes_total: said[1],
            messages: said[0] as u32,
            bytes: messages.len() as u32,
        };
        stream.write_all(&fields.to_bytes()).unwrap();
        stream.write_all(messages).unwrap();
        said_it = true;
    }
    (receiver.finish(Duration::ZERO, |_| {}).unwrap(), got)
}

#[test]
fn what_is_good_is_delivered_and_the_connection_ends_by_name() {
    let cut = &MESSAGES[..MESSAGES.len() - 1];
    let cases: [(_, _, _, usize, [u64; 2]); 6] = [
        ("wrong_count", [1, 9], MESSAGES, 1, [0, 6]),
        ("wrong_count", [3, 7], MESSAGES, 2, [1, 1]),
        ("wrong_count", [5, 9], MESSAGES, 3, [2, 0]),
        ("payload_cut", [3, 9], cut, 2, [1, 3]),
        ("head_cut", [3, 9], &MESSAGES[..17], 1, [2, 6]),
        ("no_tag", [1, 3], &MESSAGES[15..22], 0, [1, 3]),
    ];
    for (reason, said, messages, good, dropped) in cases {
        let (summary, got) = received(said, messages);
        let parted: Vec<_> = summary.parted.iter().collect();
        assert_eq!(parted, [(&reason, &1)], "{said:?}: {summary:?}");
        assert_eq!(got, [b"one", b"two", b"six"][..good], "{reason}");
        let residual = [
            summary.envelope.books.residual_items,
            summary.envelope.books.residual_bytes,
        ];
        assert_eq!(residual, [0, 0], "{summary:?}");
        assert!(summary.is_closed());
        assert_eq!(summary.dropped, dropped[0], "{summary:?}");
        let bytes = summary.bytes;
        assert_eq!(bytes + dropped[1], said[1], "{summary:?}");
    }
}
