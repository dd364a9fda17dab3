//! Processes that came to the door of an end point and were not let in.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use forebay_link::bytes::{Room, ShmDoor};
use forebay_run_net::{Receiver, Settings};
use forebay_sys::seqpacket::SeqSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether the other side has said something or gone.
fn is_answered(socket: &SeqSocket) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn the_summary_counts_them_by_reason() {
    let name = format!("turned-away-{}", std::process::id());
    let neighbour = ShmDoor::listen(&format!("{name}-neighbour"), Room::default()).unwrap();
    let address = format!("shm://{name}").parse().unwrap();
    let mut receiver = Receiver::listen(&address, &Settings::default()).unwrap();
    let path = neighbour.path().with_file_name(format!("{name}.sock"));
    let strangers = [b"GET / HTTP/1.1\r\n\r\n", b"EHLO example.org\r\n"].map(|said| {
        let socket = SeqSocket::connect(&path).unwrap();
        assert!(socket.send(said, &[]).unwrap());
        socket
    });
    let begun = Instant::now();
    while !strangers.iter().all(is_answered) {
        assert!(begun.elapsed() < Duration::from_secs(30));
        receiver.poll(Duration::from_millis(1), |_| {}).unwrap();
    }
    let summary = receiver.finish(Duration::ZERO, |_| {}).unwrap();
    let counted: Vec<_> = summary.turned_away.iter().collect();
    assert_eq!(counted, [(&"malformed", &2)], "{summary:?}");
    assert_eq!(summary.accept_errors, 0);
}
