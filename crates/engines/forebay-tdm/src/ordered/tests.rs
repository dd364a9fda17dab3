use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::written::Sum;

/// Keeps what is written, as far as it has room.
#[derive(Clone)]
struct Taker {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Taker {
    fn new(room: usize) -> Self {
        Self {
            bytes: Arc::default(),
            room,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for Taker {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.bytes.lock().unwrap();
        let room = bytes.len().min(self.room - taken.len());
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        taken.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ordered(room: usize) -> (Ordered, Taker) {
    let taker = Taker::new(room);
    (Ordered::new(Box::new(taker.clone())), taker)
}

/// Counts what is written, as far as it has room: each write is of ones or of zeroes.
#[derive(Clone)]
struct Counter {
    taken: Arc<Mutex<[u64; 2]>>,
    room: u64,
}

impl Counter {
    /// Zeroes and ones.
    fn taken(&self) -> [u64; 2] {
        *self.taken.lock().unwrap()
    }
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken.lock().unwrap();
        let room = (bytes.len() as u64).min(self.room - taken[0] - taken[1]);
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        taken[usize::from(bytes[0])] += room;
        Ok(room as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize),
    Skip(u64, u64, bool),
    Turn,
    Anew,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let near = || 0_u64..2_000;
    let anywhere =
        || prop_oneof![6 => near(), 1 => any::<u64>(), 1 => (u64::MAX - 2_000)..=u64::MAX];
    let step = prop_oneof![
        8 => (anywhere(), 0_usize..300).prop_map(|(at, length)| Step::Write(at, length)),
        4 => (anywhere(), anywhere(), any::<bool>())
            .prop_map(|(at, length, resumes)| Step::Skip(at, length, resumes)),
        1 => Just(Step::Turn),
        1 => Just(Step::Anew),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever offsets a sender has: each packet is written or dropped by name, once, and no turn takes long.
    #[test]
    fn the_account_closes_whatever_offsets_come(steps in steps(), room in prop_oneof![Just(u64::MAX), 0_u64..5_000]) {
        let taker = Counter { taken: Arc::default(), room };
        let mut ordered = Ordered::new(Box::new(taker.clone()));
        let (mut came, mut all) = (Sum::default(), Written::default());
        for step in steps {
            let before: u64 = taker.taken().iter().sum();
            match step {
                Step::Write(at, length) => {
                    came.packets += 1;
                    came.bytes += length as u64;
                    all.add(&ordered.write(at, &vec![1; length]));
                }
                Step::Skip(at, length, resumes) => all.add(&ordered.skip(at, length, resumes)),
                Step::Turn => all.add(&ordered.turn()),
                Step::Anew => {
                    all.add(&ordered.finish());
                    prop_assert_eq!(all.settled(), came);
                    ordered.begin_anew();
                    continue;
                }
            }
            let written = taker.taken().iter().sum::<u64>() - before;
            prop_assert!(written <= TURN_ZEROES + came.bytes);
            let settled = all.settled();
            let held = ordered.held();
            prop_assert_eq!((came.packets - settled.packets, came.bytes - settled.bytes), (held.packets, held.bytes));
            let waits: Vec<u64> = ordered.waiting.values().filter(|piece| matches!(piece, Piece::Bytes(_))).map(Piece::length).collect();
            prop_assert_eq!((waits.len() as u64, waits.iter().sum::<u64>()), (held.packets, held.bytes));
        }
        all.add(&ordered.finish());
        prop_assert_eq!(all.settled(), came);
        // What counts as written is there.
        let [_, ones] = taker.taken();
        if room == u64::MAX {
            prop_assert_eq!(ones, all.written.bytes);
        } else {
            prop_assert!(ones >= all.written.bytes);
        }
    }

    /// Pieces that do not overlap are in their places in whatever order they come, with zeroes where some are lost.
    #[test]
    fn bytes_are_in_order_whatever_order_they_come_in(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle(), lost in 0..40_u64) {
        let (mut ordered, taker) = ordered(usize::MAX);
        let mut expected = Vec::new();
        for at in 0..40 {
            expected.extend([if at < lost { 0 } else { at as u8 + 1 }; 7]);
        }
        for at in order {
            if at < lost {
                ordered.skip(at * 7, 7, false);
            } else {
                ordered.write(at * 7, &[at as u8 + 1; 7]);
            }
        }
        prop_assert_eq!(taker.bytes(), expected);
    }
}

#[test]
fn a_place_that_is_taken_or_behind_is_no_place() {
    let (mut ordered, taker) = ordered(usize::MAX);
    assert_eq!(ordered.write(0, b"abc"), Written::whole(b"abc"));
    assert_eq!(
        ordered.write(1, b"x").dropped[WriteDrop::NoPlace].packets,
        1
    );
    assert_eq!(ordered.write(6, b"ghi"), Written::default());
    assert_eq!(
        ordered.write(6, b"xyz").dropped[WriteDrop::NoPlace].packets,
        1
    );
    assert_eq!(
        ordered.write(u64::MAX, b"xyz").dropped[WriteDrop::NoPlace].packets,
        1
    );
    assert_eq!(ordered.write(3, b"def").written.packets, 2);
    assert_eq!(taker.bytes(), b"abcdefghi");
}

#[test]
fn what_waits_is_bounded_and_what_found_no_room_is_zeroes() {
    let (mut ordered, taker) = ordered(usize::MAX);
    let packets = WAITING_PACKETS_MAX as u64;
    for at in 0..packets {
        assert_eq!(ordered.write(1 + at, b"x"), Written::default());
    }
    assert_eq!(
        ordered.write(1 + packets, b"y").dropped[WriteDrop::NoRoom].packets,
        1
    );
    assert_eq!(ordered.write(0, b"a").written.packets, packets + 1);
    assert_eq!(ordered.write(2 + packets, b"b").written.packets, 1);
    assert_eq!(taker.bytes().len() as u64, packets + 3);
    assert!(taker.bytes().ends_with(b"x\0b"));
}

#[test]
fn a_range_without_end_is_written_turn_by_turn_and_not_at_all_where_nobody_takes_it() {
    let (mut open, taker) = ordered(usize::MAX);
    open.skip(0, u64::MAX - 5, false);
    assert_eq!(taker.bytes().len() as u64, TURN_ZEROES);
    assert!(open.is_behind());
    open.turn();
    assert_eq!(taker.bytes().len() as u64, 2 * TURN_ZEROES);
    assert_eq!(open.write(u64::MAX - 5, b"a"), Written::default());
    assert_eq!(open.finish().dropped[WriteDrop::NoRoom].packets, 1);
    assert_eq!(taker.bytes().len() as u64, 2 * TURN_ZEROES + END_ZEROES);
    let (mut full, _) = ordered(100);
    full.skip(0, u64::MAX - 5, false);
    assert!(full.failed.is_some());
    assert!(!full.is_behind());
}

#[test]
fn a_stream_that_resumes_has_no_zeroes_for_what_is_there() {
    let (mut ordered, taker) = ordered(usize::MAX);
    ordered.write(0, b"abc");
    ordered.finish();
    ordered.begin_anew();
    ordered.skip(0, 5, true);
    ordered.write(5, b"fgh");
    assert_eq!(taker.bytes(), b"abc\0\0fgh");
    // Another stream under the same name: it has lost its first bytes.
    ordered.finish();
    ordered.begin_anew();
    ordered.skip(0, 2, false);
    ordered.write(2, b"c");
    assert_eq!(taker.bytes(), b"abc\0\0fgh\0\0c");
}
