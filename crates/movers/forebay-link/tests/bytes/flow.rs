//! What is sent comes: all of it, in order, and no faster than it is read.

use std::time::Duration;

use forebay_link::bytes::{Address, ByteLink, Received, Room};

use crate::world::{Backend, Deadline, Dice, Lender, Reader, Writer, pair};

const STREAM_BYTES: u64 = 24 << 20;
/// More than any backend may take of memory for a receiver that does not read.
const HELD_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn bytes_come_whole_and_in_order(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    let deadline = Deadline::begin();
    while reader.position < STREAM_BYTES {
        for _ in 0..dice.roll(20) {
            let bytes = dice.piece(Room::default().piece_bytes_max);
            writer.offer(&mut *pair.near, bytes, &mut dice).unwrap();
        }
        for _ in 0..dice.roll(20) {
            reader.look(&mut *pair.far).unwrap();
        }
        deadline.check();
    }
    pair.near.finish();
    reader.look_to_the_end(&mut *pair.far).unwrap();
    assert_eq!(reader.position, writer.position);
}

/// Bytes of the stream that is sent from a region.
const LENT_BYTES: u64 = 4 << 20;

pub(crate) fn what_lies_in_a_region_comes_from_there(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let (mut lender, mut reader) = (Lender::new(LENT_BYTES), Reader::new());
    let deadline = Deadline::begin();
    while reader.position < LENT_BYTES {
        for _ in 0..dice.roll(20) {
            let left = (LENT_BYTES - lender.position) as usize;
            if left > 0 {
                let bytes = dice.piece(Room::default().piece_bytes_max).min(left);
                lender.offer(&mut *pair.near, bytes, &mut dice);
            }
        }
        for _ in 0..dice.roll(20) {
            reader.look(&mut *pair.far).unwrap();
        }
        deadline.check();
    }
    pair.near.finish();
    reader.look_to_the_end(&mut *pair.far).unwrap();
    assert_eq!(reader.position, lender.position);
    let stays = matches!(pair.address(), Address::Shm { .. });
    assert_eq!(reader.apart_bytes > LENT_BYTES / 2, stays);
}

/// Sends a stream, and reads the peer's, until both have ended.
fn talk(mut link: Box<dyn ByteLink>, mut dice: Dice) {
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    let (mut finished, mut ended) = (false, false);
    let deadline = Deadline::begin();
    while !(finished && ended) {
        if writer.position < STREAM_BYTES / 2 {
            let bytes = dice.piece(Room::default().piece_bytes_max);
            writer.offer(&mut *link, bytes, &mut dice).unwrap();
        } else if !finished {
            link.finish();
            finished = true;
        }
        ended = ended || reader.look(&mut *link).unwrap() == Received::Ended;
        deadline.check();
    }
    assert!(reader.position >= STREAM_BYTES / 2);
}

pub(crate) fn both_directions_at_once(backend: &Backend) {
    let mut dice = Dice::seeded();
    let (one, two) = (dice.roll(1 << 40), dice.roll(1 << 40));
    let pair = pair(backend);
    let (near, far) = (pair.near, pair.far);
    std::thread::scope(|scope| {
        scope.spawn(move || talk(near, Dice::new(one)));
        scope.spawn(move || talk(far, Dice::new(two)));
    });
}

pub(crate) fn a_receiver_that_does_not_read_holds_the_sender_back(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    let mut refusals = 0;
    while refusals < 5 {
        if writer.offer(&mut *pair.near, 60_000, &mut dice).unwrap() == 0 {
            refusals += 1;
            // Where the kernel carries the bytes, some are still on their way to the receiver's buffer.
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(writer.position < HELD_BYTES_MAX, "nothing holds it back");
    }
    println!("{} bytes are held", writer.position);
    let deadline = Deadline::begin();
    while reader.position < writer.position {
        // It may have to get on with what it took.
        assert_eq!(pair.near.receive().unwrap(), Received::Nothing);
        reader.look(&mut *pair.far).unwrap();
        deadline.check();
    }
    while writer.offer(&mut *pair.near, 60_000, &mut dice).unwrap() == 0 {
        deadline.check();
    }
}
