//! A process that connects over shared memory is told anything by what listens there: it names what is wrong, or is connected to what was agreed.

use std::os::fd::{AsFd, OwnedFd};

use forebay_link::bytes::{ByteLink, ByteLinkError, Received};
use forebay_ring::{RingSetMemory, RingSetSpec};
use proptest::prelude::*;

use crate::hostile::{ROOM, knocked};
use crate::world::greeting;

/// Rings of rooms that small are all as large.
const CAPACITY: u64 = 64 << 10;
/// Of the descriptors of both rings, those on which the other side waits.
const BELLS: [usize; 2] = [4, 8];

/// What comes with the record.
#[derive(Debug, Clone)]
enum Given {
    Memory,
    /// The first ones of them.
    Some(usize),
    OneMore,
    /// Rings of another size.
    Larger,
    /// An ordinary file in the place of one of them.
    File(usize),
    /// Both rings the wrong way around.
    Swapped,
}

fn memory(capacity: u64, piece_bytes_max: u64) -> Vec<OwnedFd> {
    let spec = RingSetSpec::new("", vec![capacity], piece_bytes_max as u32);
    let ring = || RingSetMemory::create(&spec).unwrap();
    let mut fds = ring().consumer_fds().unwrap();
    fds.extend(ring().producer_fds().unwrap());
    fds
}

fn file() -> OwnedFd {
    tempfile::tempfile().unwrap().into()
}

impl Given {
    fn fds(&self, piece_bytes_max: u64) -> Vec<OwnedFd> {
        let most = ROOM.piece_bytes_max as u64;
        let mut fds = memory(CAPACITY, piece_bytes_max.clamp(1, most));
        match self {
            Self::Memory => {}
            Self::Some(count) => fds.truncate(*count),
            Self::OneMore => fds.push(file()),
            Self::Larger => return memory(2 * CAPACITY, most),
            Self::File(at) => fds[*at] = file(),
            Self::Swapped => fds.rotate_left(5),
        }
        fds
    }
}

/// The right word, one near it, or any.
fn near(right: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(right),
        2 => (0..4_u64).prop_map(move |by| (right + 2).saturating_sub(by)),
        1 => any::<u64>(),
    ]
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    let nearly = (
        prop_oneof![6 => Just(2_u8), 1 => 0..7_u8],
        near(ROOM.piece_bytes_max as u64),
        near(ROOM.pieces as u64),
        prop_oneof![6 => Just(None), 1 => (0..24_usize, any::<u8>()).prop_map(Some)],
        prop_oneof![10 => Just(24_usize), 1 => 1..40_usize],
    );
    nearly.prop_map(|(kind, bytes, pieces, damaged, length)| {
        let mut record = greeting(kind, bytes, pieces);
        if let Some((at, byte)) = damaged {
            record[at] = byte;
        }
        record.resize(length, 0);
        record
    })
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![
        4 => Just(Given::Memory),
        1 => (0..10_usize).prop_map(Given::Some),
        1 => Just(Given::OneMore),
        1 => Just(Given::Larger),
        1 => (0..10_usize).prop_map(Given::File),
        1 => Just(Given::Swapped),
    ]
}

fn word(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().unwrap())
}

/// What is to come of it: a connection, or the name of the fault; `connect` stands for a listener that has no place for this one.
fn expected(record: &[u8], given: &Given) -> Result<(), &'static str> {
    if record.len() != 24 || !record.starts_with(b"FBSM") {
        return Err("greeting");
    }
    if record[4..6] != [1, 0] {
        return Err("connect");
    }
    match (record[6], record[7]) {
        (3, 1..=4) => return Err("connect"),
        (2, 0) => {}
        _ => return Err("greeting"),
    }
    let (bytes, pieces) = (word(record, 8), word(record, 16));
    let can_be = (1..=65 << 20).contains(&bytes) && (1..=1 << 16).contains(&pieces);
    if !can_be {
        return Err("greeting");
    }
    if bytes > ROOM.piece_bytes_max as u64 || pieces > ROOM.pieces as u64 {
        return Err("room");
    }
    match given {
        Given::Memory => Ok(()),
        Given::Some(_) | Given::OneMore => Err("descriptors"),
        Given::Larger => Err("memory_size"),
        // The bell that this side rings is found out by nobody.
        Given::File(at) if BELLS.contains(at) => Ok(()),
        Given::File(_) | Given::Swapped => Err("memory"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_a_listener_says_is_named_or_agreed(record in record(), given in given()) {
        let (mut link, socket) = knocked();
        let piece_bytes_max = record.get(8..16).map_or(0, |_| word(&record, 8));
        let fds = given.fds(piece_bytes_max);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        socket.send(&record, &fds).unwrap();
        let found = match link.receive() {
            Ok(found) => {
                prop_assert_eq!(found, Received::Nothing);
                let most = piece_bytes_max as usize;
                prop_assert_eq!(link.send(&[&vec![1; most]]).unwrap(), most);
                Ok(())
            }
            Err(ByteLinkError::Connect { .. }) => Err("connect"),
            Err(ByteLinkError::Broken { what, .. }) => Err(what),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        match expected(&record, &given) {
            // Which of them is found first is no matter.
            Err("memory") => prop_assert!(found.is_err()),
            right => prop_assert_eq!(found, right),
        }
    }
}
