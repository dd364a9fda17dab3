//! Doors: one per address, open whatever comes, and nothing left behind.

use std::fs;
use std::io::ErrorKind;

use forebay_link::bytes::{Address, ByteLink, ByteLinkError, DoorError, Room};

use crate::child::{Child, Role};
use crate::world::{Backend, Deadline, admit, connect, listen, listen_fresh, meet};

/// Little memory, for many connections.
const ROOM: Room = Room {
    piece_bytes_max: 1_000,
    pieces: 4,
};

pub(crate) fn an_address_is_in_use(backend: &Backend) {
    let door = listen_fresh(backend);
    let error = listen(&door.address().unwrap(), Room::default()).unwrap_err();
    let DoorError::Listen { source, remedy, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), ErrorKind::AddrInUse);
    assert!(!remedy.is_empty());
    let address = door.address().unwrap();
    drop(door);
    listen(&address, Room::default()).unwrap();
}

pub(crate) fn a_dead_listener_leaves_its_address(backend: &Backend) {
    let address = (backend.fresh)();
    let mut child = Child::start(Role::Listen, &address);
    let deadline = Deadline::begin();
    while !listens(&address) {
        deadline.check();
    }
    child.kill();
    assert!(!listens(&address));
    let mut door = listen(&address, Room::default()).unwrap();
    let mut link = connect(&address, Room::default()).unwrap();
    meet(&mut *door, &mut *link);
}

fn listens(address: &Address) -> bool {
    let deadline = Deadline::begin();
    let refused = match connect(address, Room::default()) {
        Err(error) => error,
        Ok(mut link) => loop {
            match link.send(&[b"?"]) {
                Ok(0) => deadline.check(),
                Ok(_) => return true,
                Err(error) => break error,
            }
        },
    };
    assert!(
        matches!(refused, ByteLinkError::Connect { .. }),
        "{refused}"
    );
    false
}

pub(crate) fn garbage_does_not_close_a_door(backend: &Backend) {
    let mut door = listen_fresh(backend);
    let address = door.address().unwrap();
    let _staying = (backend.garbage)(&address);
    let mut near = connect(&address, Room::default()).unwrap();
    let mut visitors: Vec<Box<dyn ByteLink>> = Vec::new();
    let deadline = Deadline::begin();
    let mut sent = 0;
    // Where anybody can connect, the ones before came in too; what they are shows in what they say.
    while !visitors.iter().any(|link| link.bytes() == b"well met") {
        visitors.extend(door.accept().unwrap());
        if sent == 0 {
            sent = near.send(&[b"well", b" met"]).unwrap();
        }
        near.receive().unwrap();
        visitors.retain_mut(|link| !link.bytes().is_empty() || link.receive().is_ok());
        deadline.check();
    }
}

pub(crate) fn connections_leave_no_descriptors_behind(backend: &Backend) {
    // In a process of its own, where no other test opens any.
    Child::start(Role::CountDescriptors, &(backend.fresh)()).wait_well();
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What that child does.
pub(crate) fn connect_and_disconnect(address: &Address) {
    // What the library of a backend keeps for good, it opens with its first connection.
    let mut door = listen(address, ROOM).unwrap();
    let mut near = connect(address, ROOM).unwrap();
    meet(&mut *door, &mut *near);
    drop((near, door));
    let outside = descriptors();
    let mut door = listen(address, ROOM).unwrap();
    let before = descriptors();
    // A connection over libfabric takes long to open.
    let connections = match address {
        Address::Fabric { .. } => 200,
        _ => 1_000,
    };
    for number in 0..connections {
        let mut near = connect(address, ROOM).unwrap();
        // Some go before they were let in, some with something unread.
        if number % 4 == 0 {
            drop(near);
            while door.accept().unwrap().is_some() {}
            continue;
        }
        if number % 4 == 1 {
            admit(&mut *door, &mut *near);
            continue;
        }
        let far = meet(&mut *door, &mut *near);
        let deadline = Deadline::begin();
        while near.send(&[b"unread"]).unwrap() == 0 {
            deadline.check();
        }
        drop(far);
    }
    while door.accept().unwrap().is_some() {}
    assert_eq!(descriptors(), before);
    drop(door);
    assert_eq!(descriptors(), outside);
}
