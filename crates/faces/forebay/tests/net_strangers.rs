//! Peers that connect to a port of messaging and do not speak it, or not well: counted by name, told nothing that costs, and no other peer feels it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rig::{Ended, forebay, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A listening end point on a host of its own on the loopback network.
struct Listening {
    run: rig::Run,
    address: SocketAddr,
}

impl Listening {
    fn start(number: u8, verb: &str, more: &[&str]) -> Self {
        let pid = std::process::id();
        let [high, low] = [1 + (pid >> 8) % 250, pid % 256];
        let address: SocketAddr = format!("127.{high}.{low}.{number}:7200").parse().unwrap();
        let run = start(
            forebay()
                .args(["net", verb, &format!("tcp://{address}"), "--format", "json"])
                .args(more),
        );
        let listening = Self { run, address };
        listening.connect();
        listening
    }

    fn connect(&self) -> TcpStream {
        wait_for("the port", || TcpStream::connect(self.address).ok())
    }

    fn url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    fn end(self) -> Value {
        kill_process(Pid::from_raw(self.run.pid() as i32).unwrap(), Signal::INT).unwrap();
        let ended: Ended = self.run.end();
        let summary = ended.json_of(0);
        assert_eq!(summary["residual_items"], 0, "{summary}");
        summary
    }
}

fn receiver(number: u8, more: &[&str]) -> Listening {
    let null = ["--output", "null"];
    Listening::start(number, "recv", &[&null, more].concat())
}

/// What a stranger is told until it is let go.
fn answer(mut stranger: TcpStream) -> Vec<u8> {
    stranger.set_read_timeout(Some(rig::LIMIT)).unwrap();
    let mut said = Vec::new();
    // A reset is an answer, too.
    let _ = stranger.read_to_end(&mut said);
    said
}

/// A good sender still gets its messages through.
fn sends(to: &Listening, count: &str) {
    let generated = ["--input", "generate", "--count", count];
    let sender = start(forebay().args(["net", "send", &to.url()]).args(generated));
    let ended = sender.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

const HELLO: [u8; 32] = [
    b'F', b'N', 2, 1, 24, 0, 0, 0, // head
    0, 0, 1, 0, 16, 0, 0, 0, // 64 KiB, 16 buffers
    1, 0, 0, 0, 0, 0, 0, 0, // identity
    2, 0, 0, 0, 0, 0, 0, 0, // a sender
];

fn hello_with(at: usize, byte: u8) -> Vec<u8> {
    let mut hello = HELLO.to_vec();
    hello[at] = byte;
    hello
}

#[test]
fn what_is_not_understood_is_counted_by_name() {
    let listening = receiver(1, &[]);
    let credit_first = [&b"FN\x02\x07\x18\0\0\0"[..], &[0; 24]].concat();
    let too_long = [&HELLO[..], b"FN\x02\x06\xff\xff\xff\x7f"].concat();
    let other_epoch = {
        let mut fields = [0_u8; 48];
        fields[16] = 1;
        fields[24] = 4;
        fields[32] = 1;
        fields[36] = 8;
        fields[40..48].copy_from_slice(&[0, 0, 0, 0, 1, 2, 3, 4]);
        [&HELLO[..], b"FN\x02\x06\x30\0\0\0", &fields[..]].concat()
    };
    let strangers: [(&str, Vec<u8>); 8] = [
        ("not_the_protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("version", hello_with(2, 1)),
        ("unknown_kind", hello_with(3, 99)),
        ("bad_length", hello_with(4, 23)),
        ("bad_field", hello_with(24, 7)),
        ("out_of_place", credit_first),
        ("bad_length", too_long),
        ("wrong_epoch", other_epoch),
    ];
    for (_, bytes) in &strangers {
        let mut stranger = listening.connect();
        stranger.write_all(bytes).unwrap();
        answer(stranger);
    }
    // A subscriber at a receiver is told that it is in the wrong place.
    let mut stranger = listening.connect();
    stranger.write_all(&hello_with(24, 1)).unwrap();
    assert_eq!(answer(stranger), b"FN\x02\x03\x04\0\0\0\x02\0\0\0");
    sends(&listening, "1000");
    let summary = listening.end();
    for (reason, count) in [
        ("not_the_protocol", 1),
        ("version", 1),
        ("unknown_kind", 1),
        ("bad_length", 2),
        ("bad_field", 1),
        ("out_of_place", 1),
        ("wrong_epoch", 1),
        ("turned_away", 1),
    ] {
        assert_eq!(summary["parted"][reason], count, "{reason}: {summary}");
    }
    assert_eq!(summary["messages"], 1000);
}

#[test]
fn who_says_nothing_is_let_go_and_holds_nobody_up() {
    let listening = receiver(2, &[]);
    // On a busy host the silent connections may be let go meanwhile; then they do not show whether they hold others up.
    for attempt in 1..=10 {
        // Nothing, half a greeting, and a sender that vanishes in the middle of a buffer.
        let silent = listening.connect();
        let mut half = listening.connect();
        half.write_all(&HELLO[..20]).unwrap();
        let mut cut = listening.connect();
        cut.write_all(&HELLO).unwrap();
        cut.write_all(b"FN\x02\x06\xff\x0f\0\0 and no more")
            .unwrap();
        drop(cut);
        sends(&listening, "1000");
        let is_waited_for = [&silent, &half].into_iter().all(is_silent);
        answer(silent);
        answer(half);
        if is_waited_for {
            let summary = listening.end();
            assert_eq!(summary["parted"]["no_greeting"], 2 * attempt, "{summary}");
            assert_eq!(summary["messages"], 1000 * attempt);
            return;
        }
    }
    panic!("the silent ones held up a sender");
}

/// Whether a stranger is still there, and was told nothing.
fn is_silent(stranger: &TcpStream) -> bool {
    stranger.set_nonblocking(true).unwrap();
    let found = stranger.peek(&mut [0]);
    stranger.set_nonblocking(false).unwrap();
    found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let listening = receiver(3, &[]);
    let files = || {
        let path = format!("/proc/{}/fd", listening.run.pid());
        std::fs::read_dir(path).unwrap().count()
    };
    sends(&listening, "500");
    wait_for("the sender to be forgotten", || {
        (files() < 20).then_some(())
    });
    let before = files();
    for number in 0..1000 {
        let mut stranger = listening.connect();
        match number % 3 {
            0 => {}
            1 => stranger.write_all(&HELLO).unwrap(),
            _ => stranger.write_all(b"?").unwrap(),
        }
    }
    wait_for("the strangers to be forgotten", || {
        (files() <= before).then_some(())
    });
    sends(&listening, "500");
    let summary = listening.end();
    assert_eq!(summary["messages"], 1000, "{summary}");
    let parted = summary["parted"].as_object().unwrap();
    let counted: u64 = parted.values().map(|count| count.as_u64().unwrap()).sum();
    // The first one looked whether the port was there.
    assert_eq!(counted, 1001, "{summary}");
}

#[test]
fn more_than_are_served_are_told_that_it_is_busy() {
    let listening = receiver(4, &["--connections", "2"]);
    // The look at the port had one of the two places.
    let served: Vec<TcpStream> = wait_for("two that are served", || {
        let served: Vec<TcpStream> = (0..2).map(|_| listening.connect()).collect();
        served
            .iter()
            .all(|one| {
                let mut one = one;
                one.write_all(&HELLO).unwrap();
                let mut kind = [0; 4];
                one.read_exact(&mut kind).unwrap();
                kind[3] == 2
            })
            .then_some(served)
    });
    let mut stranger = listening.connect();
    stranger.write_all(&HELLO).unwrap();
    assert_eq!(answer(stranger), b"FN\x02\x03\x04\0\0\0\x01\0\0\0");
    drop(served);
    sends(&listening, "10");
    assert_eq!(listening.end()["messages"], 10);
}

#[test]
fn a_subscriber_that_is_refused_ends_with_the_reason() {
    let listening = receiver(30, &[]);
    let sub = |url: &str, more: &[&str]| {
        let ended = start(forebay().args(["net", "sub", url]).args(more)).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        ended.stderr
    };
    let said = sub(&listening.url(), &[]);
    assert!(
        said.contains("role") && said.contains("needs a publisher"),
        "{said}"
    );
    listening.end();
    let publishing = Listening::start(31, "pub", &["--input", "generate"]);
    let patterns: Vec<String> = (0..1025).map(|tag| format!("{tag}/0xffff")).collect();
    let said = sub(&publishing.url(), &["--tag", &patterns.join(",")]);
    assert!(said.contains("too_many"), "{said}");
    publishing.end();
}
