//! Sleepers: a side that asked to be woken is woken.

use std::hint::spin_loop;
use std::time::Duration;

use forebay_link::bytes::{ByteLink, ByteLinkError, Received, Room};
use forebay_sys::epoll::{Interest, Poller, Trigger};

use crate::world::{Backend, Dice, LIMIT, Pair, Reader, Writer, pair, pair_with};

const ROUNDS: u64 = 10_000;
/// Nothing wakes a sleeper over a link that must be polled: there is less that can go wrong, and each sleep is as long as it was said.
const POLLED_SHARE: u64 = 20;
/// How long one sleeps over a link that has nothing to wake it.
const POLLED: Duration = Duration::from_micros(50);
const PIECE_BYTES: usize = 40_000;
const PIECES: u64 = 20_000;

/// A link, and how to sleep until it has something.
struct Sleeper {
    link: Box<dyn ByteLink>,
    poller: Poller,
    sleeps: u64,
}

impl Sleeper {
    fn new(link: Box<dyn ByteLink>) -> Self {
        let poller = Poller::create(8).unwrap();
        for (token, fd) in link.fds().into_iter().flatten().enumerate() {
            poller
                .add(fd, token as u64, Interest::Readable, Trigger::Level)
                .unwrap();
        }
        Self {
            link,
            poller,
            sleeps: 0,
        }
    }

    /// An error: the connection is gone.
    fn sleep(&mut self, for_room: bool) -> Result<(), ByteLinkError> {
        if self.link.room_is_writable() {
            let interest = if for_room {
                Interest::Both
            } else {
                Interest::Readable
            };
            let first = self.link.fds()[0].unwrap();
            self.poller
                .modify(first, 0, interest, Trigger::Level)
                .unwrap();
        }
        if self.link.arm(for_room)? {
            self.sleeps += 1;
            let (polled, limit) = match self.link.must_be_polled() {
                true => (true, POLLED),
                false => (false, LIMIT),
            };
            let woken = self.poller.wait(Some(limit), Duration::ZERO).unwrap();
            assert!(woken.count() > 0 || polled, "a lost wake-up");
        }
        self.link.disarm();
        Ok(())
    }

    /// Exactly so many bytes of the stream.
    fn read(&mut self, reader: &mut Reader, until: u64) {
        while reader.position < until {
            match reader.look(&mut *self.link).unwrap() {
                Received::Some => {}
                Received::Nothing => self.sleep(false).unwrap(),
                Received::Ended => panic!("ended at {}", reader.position),
            }
        }
        assert_eq!(reader.position, until);
    }

    fn write(&mut self, writer: &mut Writer, until: u64, dice: &mut Dice) {
        while writer.position < until {
            let bytes = (until - writer.position).min(1 + dice.roll(4_000)) as usize;
            if writer.offer(&mut *self.link, bytes, dice).unwrap() == 0 {
                self.sleep(true).unwrap();
            }
        }
    }
}

/// One so-many-th of the rounds is played.
fn share(backend: &Backend, pair: &Pair) -> u64 {
    if pair.near.must_be_polled() {
        POLLED_SHARE.max(backend.share)
    } else {
        backend.share
    }
}

/// Of any length around that of a sleeper's way to its sleep.
fn pause(dice: &mut Dice) {
    match dice.roll(16) {
        0 => std::thread::sleep(Duration::from_micros(dice.roll(100))),
        1..=8 => (0..dice.roll(2_000)).for_each(|_| spin_loop()),
        _ => {}
    }
}

pub(crate) fn a_sleeper_is_woken_by_what_comes(backend: &Backend) {
    let mut dice = Dice::seeded();
    let seeds = [dice.roll(1 << 40), dice.roll(1 << 40)];
    let pair = pair(backend);
    let rounds = ROUNDS / share(backend, &pair);
    let play = |link, seed, serves: bool| {
        let (mut sleeper, mut dice) = (Sleeper::new(link), Dice::new(seed));
        let (mut reader, mut writer) = (Reader::new(), Writer::new());
        for round in 1..=rounds {
            if serves {
                sleeper.write(&mut writer, round, &mut dice);
            }
            pause(&mut dice);
            sleeper.read(&mut reader, round);
            if !serves {
                sleeper.write(&mut writer, round, &mut dice);
            }
        }
        sleeper
    };
    let (near, far) = (pair.near, pair.far);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| play(near, seeds[0], true));
        let two = scope.spawn(|| play(far, seeds[1], false));
        let sleeps = one.join().unwrap().sleeps + two.join().unwrap().sleeps;
        println!("{sleeps} sleeps in {rounds} rounds");
        assert!(sleeps > 0);
    });
}

pub(crate) fn a_sleeper_is_woken_by_room(backend: &Backend) {
    let mut dice = Dice::seeded();
    let seeds = [dice.roll(1 << 40), dice.roll(1 << 40)];
    // So that one piece fills a ring: the room for the next one comes about only once.
    let room = Room {
        piece_bytes_max: PIECE_BYTES,
        pieces: 1,
    };
    let pair = pair_with(backend, room);
    let stream_bytes = (PIECES / share(backend, &pair)) as usize * PIECE_BYTES;
    let (near, far) = (pair.near, pair.far);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut sleeper, mut dice) = (Sleeper::new(near), Dice::new(seeds[0]));
            let (piece, mut left) = (vec![7; PIECE_BYTES], stream_bytes);
            while left > 0 {
                let bytes = left.min(PIECE_BYTES);
                match sleeper.link.send(&[&piece[..bytes]]).unwrap() {
                    0 => sleeper.sleep(true).unwrap(),
                    taken => left -= taken,
                }
                pause(&mut dice);
            }
            println!("{} sleeps of the sender", sleeper.sleeps);
            sleeper.link.finish();
        });
        scope.spawn(|| {
            let (mut sleeper, mut dice) = (Sleeper::new(far), Dice::new(seeds[1]));
            let mut come = 0;
            loop {
                match sleeper.link.receive().unwrap() {
                    Received::Some => {
                        let found = sleeper.link.bytes().len();
                        sleeper.link.used(found);
                        come += found;
                    }
                    Received::Nothing => sleeper.sleep(false).unwrap(),
                    Received::Ended => break,
                }
                sleeper
                    .link
                    .used(PIECE_BYTES.max(sleeper.link.bytes().len()));
                pause(&mut dice);
            }
            assert_eq!(come, stream_bytes);
            println!("{} sleeps of the receiver", sleeper.sleeps);
        });
    });
}

pub(crate) fn a_sleeper_is_woken_by_the_end(backend: &Backend) {
    for finish in [true, false] {
        let pair = pair(backend);
        let (mut near, mut sleeper) = (pair.near, Sleeper::new(pair.far));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                if finish {
                    near.finish();
                }
            });
            let mut reader = Reader::new();
            while matches!(reader.look(&mut *sleeper.link), Ok(Received::Nothing)) {
                if sleeper.sleep(false).is_err() {
                    break;
                }
            }
        });
    }
}
