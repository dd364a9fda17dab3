//! The control channel: bodies, thousands of descriptors, the peer's death.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use forebay_sys::control::{BODY_MAX_BYTES, Control, ControlError};
use forebay_sys::mapping::{Access, Mapping, sealed_memfd};
use forebay_sys::process::raise_open_files;

const STALL: Duration = Duration::from_secs(20);

#[test]
fn bodies_and_descriptors_come_whole_and_in_order() {
    let (one, two) = Control::pair(STALL).unwrap();
    let reader = std::thread::spawn(move || {
        (0..3)
            .map(|_| two.receive().unwrap().unwrap())
            .collect::<Vec<_>>()
    });
    let body: Vec<u8> = (0..BODY_MAX_BYTES as u32)
        .map(|at| (at / 7) as u8)
        .collect();
    let memory: Vec<OwnedFd> = (1..=3)
        .map(|pages| sealed_memfd("m", pages * 4096).unwrap())
        .collect();
    let borrowed: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
    one.send(&body, &[]).unwrap();
    one.send(b"", &borrowed).unwrap();
    one.send(b"last", &borrowed[..1]).unwrap();
    let messages = reader.join().unwrap();
    assert!(messages[0].body == body && messages[0].fds.is_empty());
    let sizes: Vec<_> = messages[1]
        .fds
        .iter()
        .map(|fd| Mapping::of_fd(fd, Access::ReadOnly).unwrap().words().len() * 8)
        .collect();
    assert_eq!(sizes, [4096, 8192, 12_288]);
    assert_eq!(
        (messages[2].body.as_slice(), messages[2].fds.len()),
        (b"last" as &[u8], 1)
    );
}

#[test]
fn thousands_of_descriptors_pass_and_are_closed_on_exec() {
    let limit = raise_open_files().unwrap();
    let count = 3_001.min(limit.saturating_sub(200) / 2) as usize;
    let (one, two) = Control::pair(STALL).unwrap();
    let reader = std::thread::spawn(move || two.receive().unwrap().unwrap());
    let null = std::fs::File::open("/dev/null").unwrap();
    one.send(b"many", &vec![null.as_fd(); count]).unwrap();
    let message = reader.join().unwrap();
    assert_eq!(message.fds.len(), count);
    for fd in &message.fds {
        let text =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
        let flags = text
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap()
            .trim();
        assert_ne!(
            i32::from_str_radix(flags, 8).unwrap() & 0o2_000_000,
            0,
            "O_CLOEXEC in {flags}"
        );
    }
}

#[test]
fn the_peers_death_is_seen_from_both_sides() {
    let (one, two) = Control::pair(STALL).unwrap();
    one.send(b"unread", &[]).unwrap();
    drop(one);
    assert_eq!(two.receive().unwrap().unwrap().body, b"unread");
    assert!(
        two.poll(Duration::ZERO).unwrap(),
        "an end of file is readable"
    );
    assert!(two.receive().unwrap().is_none());
    assert!(matches!(two.send(b"x", &[]), Err(ControlError::PeerGone)));
}

#[test]
fn death_within_a_message_is_not_an_orderly_end() {
    let (one, two) = Control::pair(STALL).unwrap();
    let raw = std::os::unix::net::UnixStream::from(one.into_fd());
    std::io::Write::write_all(&mut &raw, &0x4642_4354_u32.to_ne_bytes()).unwrap();
    drop(raw);
    assert!(matches!(two.receive(), Err(ControlError::PeerGone)));
}

#[test]
fn a_stalled_peer_is_named_and_silence_is_not() {
    let (one, two) = Control::pair(Duration::from_millis(20)).unwrap();
    let raw = std::os::unix::net::UnixStream::from(one.into_fd());
    assert!(!two.poll(Duration::from_millis(1)).unwrap());
    std::io::Write::write_all(&mut &raw, &0x4642_4354_u32.to_ne_bytes()).unwrap();
    let text = two.receive().unwrap_err().to_string();
    assert!(text.contains("stopped within a message"), "{text}");
}

#[test]
fn garbage_and_excess_are_refused() {
    let (one, two) = Control::pair(STALL).unwrap();
    let too_large = vec![0; BODY_MAX_BYTES + 1];
    assert!(matches!(
        one.send(&too_large, &[]),
        Err(ControlError::TooLarge { .. })
    ));
    let raw = std::os::unix::net::UnixStream::from(one.into_fd());
    std::io::Write::write_all(&mut &raw, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(matches!(two.receive(), Err(ControlError::Garbled { .. })));
}
