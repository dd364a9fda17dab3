//! How a connection ends: in order, without a word, by a kill; and how one does not begin.

use std::io::ErrorKind;

use forebay_link::bytes::{ByteLinkError, Received, Room};

use crate::child::{self, Child, Role};
use crate::pieces::Lender;
use crate::world::{
    Backend, Deadline, Dice, Reader, Writer, connect, leave, listen_fresh, pair, take,
};

/// No more than a link takes whose peer does not read.
const STREAM_BYTES: u64 = 50_000;

pub(crate) fn the_end_comes_after_everything(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    pair.fill_far(&mut writer, STREAM_BYTES, &mut dice);
    pair.near.finish();
    pair.near.finish();
    let late = pair.near.send(&[b"late"]).unwrap_err();
    assert!(matches!(late, ByteLinkError::Lost { .. }), "{late}");
    leave(backend, pair.near);
    reader.look_to_the_end(&mut *pair.far).unwrap();
    assert_eq!(reader.position, writer.position);
    assert_eq!(pair.far.receive().unwrap(), Received::Ended, "it stays so");
}

pub(crate) fn who_has_handed_over_everything_can_be_dropped_without_a_wait(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let mut writer = Writer::new();
    pair.fill_far(&mut writer, STREAM_BYTES, &mut dice);
    assert!(!pair.near.lingers(), "nobody wants to leave");
    pair.near.finish();
    // What was taken may lie with the sender until it is read.
    let mut reader = Reader::new();
    let deadline = Deadline::begin();
    while reader.position < writer.position || pair.near.lingers() {
        deadline.check();
        reader.look(&mut *pair.far).unwrap();
        pair.near.arm(false).unwrap();
        pair.near.disarm();
    }
    leave(backend, pair.near);
    reader.look_to_the_end(&mut *pair.far).unwrap();
}

pub(crate) fn one_side_may_end_before_the_other(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    pair.near.finish();
    Reader::new().look_to_the_end(&mut *pair.far).unwrap();
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    pair.fill_near(&mut writer, STREAM_BYTES, &mut dice);
    pair.far.finish();
    leave(backend, pair.far);
    reader.look_to_the_end(&mut *pair.near).unwrap();
    assert_eq!(reader.position, writer.position);
}

/// What was read of what was taken from a sender that has gone.
fn assert_cut(backend: &Backend, read: u64, sent: u64) {
    if backend.death_cuts {
        assert!(read <= sent);
    } else {
        assert_eq!(read, sent);
    }
}

/// Whether the end of a sender that has gone may pass for an orderly one is the backend's.
fn assert_end(backend: &Backend, end: &Result<(), ByteLinkError>) {
    match end {
        Ok(()) => assert!(backend.end_may_be_death, "an end that nobody has declared"),
        Err(error) => assert!(matches!(error, ByteLinkError::Lost { .. }), "{error}"),
    }
}

pub(crate) fn a_link_dropped_without_an_end(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    pair.fill_far(&mut writer, STREAM_BYTES, &mut dice);
    drop(pair.near);
    let end = reader.look_to_the_end(&mut *pair.far);
    assert_end(backend, &end);
    assert_cut(backend, reader.position, writer.position);
    let deadline = Deadline::begin();
    let lost = loop {
        if let Err(error) = pair.far.send(&[b"?"]) {
            break error;
        }
        deadline.check();
    };
    assert!(matches!(lost, ByteLinkError::Lost { .. }), "{lost}");
}

pub(crate) fn an_end_of_a_peer_that_has_not_read_all(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    // What comes from a peer can come before the word that it is connected.
    let deadline = Deadline::begin();
    while pair.far.send(&[b"unread"]).unwrap() == 0 {
        pair.far.arm(false).unwrap();
        pair.far.disarm();
        deadline.check();
    }
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    pair.fill_far(&mut writer, STREAM_BYTES, &mut dice);
    pair.near.finish();
    drop(pair.near);
    match reader.look_to_the_end(&mut *pair.far) {
        Ok(()) => assert_eq!(reader.position, writer.position),
        Err(ByteLinkError::Lost { .. }) => assert!(backend.unread_cuts),
        Err(other) => panic!("{other}"),
    }
}

pub(crate) fn a_peer_that_was_killed_when_all_was_sent(backend: &Backend) {
    let mut door = listen_fresh(backend);
    let mut child = Child::start(Role::SendAndDie, &door.address().unwrap());
    let mut link = take(&mut *door);
    child.wait_killed_beside(&mut *link);
    let mut reader = Reader::new();
    let end = reader.look_to_the_end(&mut *link);
    assert_end(backend, &end);
    assert_cut(backend, reader.position, child::SENT_BYTES);
}

pub(crate) fn a_peer_that_is_killed_in_the_middle(backend: &Backend) {
    let mut dice = Dice::seeded();
    for _ in 0..5 {
        let mut door = listen_fresh(backend);
        let mut child = Child::start(Role::SendForever, &door.address().unwrap());
        let mut link = take(&mut *door);
        let mut reader = Reader::new();
        let (deadline, enough) = (Deadline::begin(), dice.roll(4 << 20));
        while reader.position < enough {
            reader.look(&mut *link).unwrap();
            deadline.check();
        }
        child.kill();
        let end = reader.look_to_the_end(&mut *link);
        assert_end(backend, &end);
    }
}

/// Whether a backend lends pieces.
fn lends(backend: &Backend) -> bool {
    let lends = pair(backend).near.lending().is_some();
    if !lends {
        println!("it lends no pieces");
    }
    lends
}

/// What came is whole and in order as far as it comes, though the sender's memory goes with it.
pub(crate) fn a_peer_that_is_killed_while_its_pieces_are_under_way(backend: &Backend) {
    if !lends(backend) {
        return;
    }
    let mut dice = Dice::seeded();
    for _ in 0..5 {
        let mut door = listen_fresh(backend);
        let mut child = Child::start(Role::LendForever, &door.address().unwrap());
        let mut link = take(&mut *door);
        let mut reader = Reader::new();
        let (deadline, enough) = (Deadline::begin(), dice.roll(4 << 20));
        while reader.position < enough {
            reader.look(&mut *link).unwrap();
            deadline.check();
        }
        child.kill();
        let end = reader.look_to_the_end(&mut *link);
        assert_end(backend, &end);
    }
}

/// Each piece is at one place: with its user, or with the link, which is lost.
pub(crate) fn a_receiver_that_is_killed_while_pieces_are_under_way(backend: &Backend) {
    if !lends(backend) {
        return;
    }
    let mut dice = Dice::seeded();
    for _ in 0..5 {
        let mut door = listen_fresh(backend);
        let mut child = Child::start(Role::ReadForever, &door.address().unwrap());
        let mut link = take(&mut *door);
        let deadline = Deadline::begin();
        while link.bytes().is_empty() {
            link.receive().unwrap();
            deadline.check();
        }
        link.used(1);
        let mut lender = Lender::new(&mut *link, 16 << 20).unwrap();
        let enough = dice.roll(4 << 20);
        let mut killed = false;
        let lost = loop {
            if lender.position >= enough && !killed {
                child.kill();
                killed = true;
            }
            let offered = lender.offer(&mut *link, 60_000, &mut dice);
            if let Err(error) = offered.and_then(|_| link.receive()) {
                break error;
            }
            deadline.check();
        };
        assert!(killed, "{lost}");
        assert!(matches!(lost, ByteLinkError::Lost { .. }), "{lost}");
        lender.take_back(&mut *link);
        drop(link);
        // What came back is there to be written, whatever became of the link.
        lender.write_all();
    }
}

pub(crate) fn nobody_listens(backend: &Backend) {
    let deadline = Deadline::begin();
    let refused = match connect(&(backend.fresh)(), Room::default()) {
        Err(error) => error,
        Ok(mut link) => loop {
            match link.receive() {
                Ok(found) => assert_eq!(found, Received::Nothing),
                Err(error) => break error,
            }
            deadline.check();
        },
    };
    let ByteLinkError::Connect { source, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(source.kind(), ErrorKind::ConnectionRefused);
}
