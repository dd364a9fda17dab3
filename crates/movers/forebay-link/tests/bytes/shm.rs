//! What only the hand-shake of shared memory can get wrong, on either side of it.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forebay_link::bytes::{
    Address, ByteLink, ByteLinkError, Door, Received, Room, ShmDoor, ShmLink, TurnedAway,
};
use forebay_ring::{RingSetMemory, RingSetSpec};
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::seqpacket::{Arrived, SeqListener, SeqSocket};

use crate::world::{Deadline, LIMIT, free_name, greeting, hello, take};

fn door() -> (ShmDoor, String) {
    let Address::Shm { name } = free_name() else {
        panic!("no name");
    };
    (ShmDoor::listen(&name, Room::default()).unwrap(), name)
}

fn say(door: &ShmDoor, record: &[u8]) -> SeqSocket {
    let socket = SeqSocket::connect(&door.path()).unwrap();
    socket.send(record, &[]).unwrap();
    socket
}

/// The fourth word of what the door answers: kind and reason.
fn answer(socket: &SeqSocket) -> (u8, u8) {
    let mut record = [0; 32];
    assert_eq!(socket.receive(&mut record).unwrap(), Arrived::Record(24));
    assert_eq!(socket.receive(&mut [0; 1]).unwrap(), Arrived::End);
    (record[6], record[7])
}

#[test]
fn who_is_not_let_in_is_told_why_and_counted() {
    let (mut door, _) = door();
    let mut version = hello(1_000, 1);
    version[4] = 9;
    let version = say(&door, &version);
    let malformed = [
        say(&door, b"?"),
        say(&door, &greeting(2, 1_000, 1)),
        say(&door, &hello(0, 1)),
    ];
    drop(SeqSocket::connect(&door.path()).unwrap());
    assert!(door.accept().unwrap().is_none());
    assert_eq!(answer(&version), (3, 1));
    for socket in &malformed {
        assert_eq!(answer(socket), (3, 2));
    }
    let expected = TurnedAway {
        malformed: 4,
        left: 1,
        ..TurnedAway::default()
    };
    assert_eq!(door.turned_away(), expected);
}

#[test]
fn who_says_nothing_is_waited_for_and_given_up() {
    let (mut door, name) = door();
    let silent: Vec<_> = (0..70)
        .map(|_| SeqSocket::connect(&door.path()).unwrap())
        .collect();
    for _ in 0..3 {
        assert!(door.accept().unwrap().is_none());
    }
    assert_eq!(door.turned_away().crowded, 6);
    assert_eq!(answer(&silent[69]), (3, 3));

    // One of them speaks after all, and wakes the door.
    let mut poller = Poller::create(1).unwrap();
    poller
        .add(
            door.fds()[0].unwrap(),
            0,
            Interest::Readable,
            Trigger::Level,
        )
        .unwrap();
    let woken =
        |poller: &mut Poller, limit| poller.wait(Some(limit), Duration::ZERO).unwrap().count();
    assert_eq!(woken(&mut poller, Duration::ZERO), 0);
    silent[7].send(&hello(1_000, 1), &[]).unwrap();
    assert_eq!(woken(&mut poller, LIMIT), 1);
    let link = door.accept().unwrap().unwrap();
    assert_eq!(
        woken(&mut poller, Duration::ZERO),
        0,
        "the link's socket is no longer the door's"
    );
    drop(link);

    let deadline = Deadline::begin();
    while door.turned_away().silent < 63 {
        assert!(door.accept().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(50));
        deadline.check();
    }
    assert_eq!(door.turned_away().silent, 63);
    let _near = ShmLink::connect(&name, Room::default()).unwrap();
    take(&mut door);
}

#[test]
fn the_smaller_room_counts() {
    let Address::Shm { name } = free_name() else {
        panic!("no name");
    };
    let room = |piece_bytes_max| Room {
        piece_bytes_max,
        pieces: 4,
    };
    let mut door = ShmDoor::listen(&name, room(1_000)).unwrap();
    let mut wide = ShmLink::connect(&name, room(5_000)).unwrap();
    let mut narrow = ShmLink::connect(&name, room(300)).unwrap();
    for (link, most) in [(&mut wide, 1_000), (&mut narrow, 300)] {
        let mut far = take(&mut door);
        assert_eq!(link.receive().unwrap(), Received::Nothing);
        for end in [link as &mut dyn ByteLink, &mut *far] {
            assert_eq!(end.send(&[&vec![0; most]]).unwrap(), most);
            let error = end.send(&[&vec![0; most], b"+"]).unwrap_err();
            assert!(
                matches!(error, ByteLinkError::TooLong { bytes, most: m } if bytes == most + 1 && m == most)
            );
            end.expect(most).unwrap();
            assert!(end.expect(most + 1).is_err());
        }
    }
    let mut demanding = ShmLink::connect(&name, room(5_000)).unwrap();
    demanding.expect(2_000).unwrap();
    take(&mut door);
    let error = demanding.receive().unwrap_err();
    assert!(
        matches!(
            error,
            ByteLinkError::TooLong {
                bytes: 2_000,
                most: 1_000
            }
        ),
        "{error}"
    );
    let none = ShmLink::connect(&name, room(0)).unwrap_err();
    assert!(
        none.to_string().contains("a room of 4 pieces of 0 bytes"),
        "{none}"
    );
}

#[test]
fn pieces_are_used_up_one_by_one_and_their_copies_counted() {
    let (mut door, name) = door();
    let mut near = ShmLink::connect(&name, Room::default()).unwrap();
    let mut far = take(&mut door);
    assert_eq!(near.receive().unwrap(), Received::Nothing);
    near.send(&[b"a piece", b" in parts"]).unwrap();
    near.send(&[b"another"]).unwrap();
    assert_eq!(far.receive().unwrap(), Received::Some);
    assert_eq!(far.bytes(), b"a piece in parts");
    far.used(8);
    assert_eq!(far.bytes(), b"in parts");
    let error = far.receive().unwrap_err().to_string();
    assert!(error.contains("a piece ends within a frame"), "{error}");
    far.used(100);
    assert_eq!(far.receive().unwrap(), Received::Some);
    assert_eq!((far.bytes(), far.copied_bytes()), (b"another" as &[u8], 23));
}

#[test]
fn an_end_before_the_connection_is_made_holds() {
    let (mut door, name) = door();
    let mut near = ShmLink::connect(&name, Room::default()).unwrap();
    assert_eq!(near.send(&[b"too early"]).unwrap(), 0);
    near.finish();
    let mut far = take(&mut door);
    assert_eq!(far.receive().unwrap(), Received::Nothing);
    assert_eq!(near.receive().unwrap(), Received::Nothing);
    assert_eq!(far.receive().unwrap(), Received::Ended);
}

/// A listener that answers as the test likes.
fn answered(record: &[u8], fds: &[OwnedFd]) -> ByteLinkError {
    let (door, name) = door();
    let path = door.path();
    drop(door);
    let listener = SeqListener::bind(&path, 1).unwrap();
    let mut link = ShmLink::connect(&name, Room::default()).unwrap();
    let socket = listener.accept().unwrap().unwrap();
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    if !record.is_empty() {
        socket.send(record, &fds).unwrap();
    }
    drop((socket, listener));
    std::fs::remove_file(path).unwrap();
    let deadline = Deadline::begin();
    loop {
        if let Err(error) = link.receive() {
            return error;
        }
        deadline.check();
    }
}

fn memory(capacity: u64) -> Vec<OwnedFd> {
    let spec = RingSetSpec::new("lie", vec![capacity], 1_000);
    let ring = || RingSetMemory::create(&spec).unwrap();
    let mut fds = ring().consumer_fds().unwrap();
    fds.extend(ring().producer_fds().unwrap());
    fds
}

#[test]
fn a_listener_that_lies_is_named() {
    let room = Room::default();
    let (bytes, pieces) = (room.piece_bytes_max as u64, room.pieces as u64);
    let welcome = greeting(2, bytes, pieces);
    let eight_mib = memory(8 << 20);
    let cases: [(&[u8], &[OwnedFd], &str); 6] = [
        (b"220 smtp", &[], "greeting"),
        (&hello(bytes, pieces), &[], "greeting"),
        (&greeting(2, bytes + 1, pieces), &[], "room"),
        (&welcome, &[], "descriptors"),
        (&welcome, &eight_mib[1..], "descriptors"),
        (&welcome, &memory(64 << 10), "memory_size"),
    ];
    for (record, fds, expected) in cases {
        match answered(record, fds) {
            ByteLinkError::Broken { what, .. } => assert_eq!(what, expected),
            other => panic!("{other} instead of {expected}"),
        }
    }
    // What is no memory at all is refused by the kernel, and a bell that is none.
    for at in [0, 9] {
        let mut wrong = memory(8 << 20);
        wrong[at] = tempfile::tempfile().unwrap().into();
        let found = answered(&welcome, &wrong);
        assert!(matches!(found, ByteLinkError::Broken { .. }), "{found}");
    }
    let mut swapped = memory(8 << 20);
    swapped.swap(0, 3);
    let found = answered(&welcome, &swapped);
    assert!(matches!(found, ByteLinkError::Broken { .. }), "{found}");
}

#[test]
fn a_listener_that_refuses_or_goes_is_not_connected() {
    let mut version = greeting(2, 1_000, 1);
    version[4] = 2;
    let mut crowded = greeting(3, 0, 0);
    crowded[7] = 3;
    for (record, expected) in [
        (&version, "version"),
        (&crowded, "say nothing"),
        (&vec![], "without an answer"),
    ] {
        match answered(record, &[]) {
            ByteLinkError::Connect { source, .. } => {
                assert_eq!(source.kind(), ErrorKind::ConnectionRefused);
                assert!(source.to_string().contains(expected), "{source}");
            }
            other => panic!("{other} instead of {expected}"),
        }
    }
}
