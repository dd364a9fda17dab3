//! Two processes, one of them killed with signal 9 again and again, at seeded points of its own code and at any point from outside. Started
//! again, each goes on at the position in its own book: nothing is lost and nothing comes twice.
//!
//! `FOREBAY_SEED=n` repeats a run's kill points.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use forebay_ring::{Consumers, Meta, Producers, RingSetMemory, RingSetSpec, SIDE_FDS};
use rustix::io::FdFlags;

const DEATHS: u32 = 80;
const LIMIT: Duration = Duration::from_secs(120);
const WAIT: Duration = Duration::from_millis(5);
const LEN_MAX: u64 = 3_000;
/// Of each so many passages through a point of the code, one is deadly.
const DEADLY_ONE_IN: u64 = 1_500;

fn spec() -> RingSetSpec {
    RingSetSpec::new("kill", vec![64 * 1024], LEN_MAX as u32)
}

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    /// A point of the code at which a life may end.
    fn may_die(&mut self) {
        if self.roll(DEADLY_ONE_IN) == 0 {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
    }
}

/// {sequence, copy 0, copy 1}: the copy that the sequence's lowest bit names is valid, as in the ledger.
struct Book(OwnedFd);

impl Book {
    fn word(&self, index: u64) -> u64 {
        let mut bytes = [0; 8];
        assert_eq!(
            rustix::io::pread(&self.0, &mut bytes, index * 8).unwrap(),
            8
        );
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, index: u64, word: u64) {
        rustix::io::pwrite(&self.0, &word.to_ne_bytes(), index * 8).unwrap();
    }

    /// Position, and number of the next record.
    fn read(&self) -> (u64, u64) {
        let copy = 1 + 2 * (self.word(0) & 1);
        (self.word(copy), self.word(copy + 1))
    }

    fn commit(&self, dice: &mut Dice, position: u64, number: u64) {
        let sequence = self.word(0) + 1;
        let copy = 1 + 2 * (sequence & 1);
        self.set(copy, position);
        dice.may_die();
        self.set(copy + 1, number);
        dice.may_die();
        self.set(0, sequence);
    }
}

fn len_of(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % LEN_MAX as usize
}

fn byte_of(number: u64, i: usize) -> u8 {
    (number as usize * 13 + i) as u8
}

fn produce(fds: Vec<OwnedFd>, book: &Book, stop: &Book, dice: &mut Dice) {
    let mut producers = Producers::map(&spec(), fds).unwrap();
    let (position, mut number) = book.read();
    producers.rings[0].resume(position).unwrap();
    while stop.word(0) == 0 {
        for _ in 0..1 + dice.roll(8) {
            let len = len_of(number);
            let Ok(mut loan) = producers.rings[0].reserve(len) else {
                break;
            };
            for (i, byte) in loan.iter_mut().enumerate() {
                *byte = byte_of(number, i);
            }
            dice.may_die();
            loan.commit(
                len,
                Meta {
                    tag: number as u32,
                    ..Meta::default()
                },
            );
            number += 1;
        }
        dice.may_die();
        book.commit(dice, producers.rings[0].position(), number);
        dice.may_die();
        producers.rings[0].publish();
        dice.may_die();
        producers.notify();
        producers.wait_space(0, LEN_MAX as usize, WAIT).unwrap();
    }
    producers.rings[0].close();
    producers.notify();
}

fn consume(fds: Vec<OwnedFd>, book: &Book, dice: &mut Dice) {
    let mut consumers = Consumers::map(&spec(), fds).unwrap();
    let (position, mut number) = book.read();
    consumers.rings[0].resume(position).unwrap();
    while !consumers.rings[0].is_closed() {
        let ring = &mut consumers.rings[0];
        for _ in 0..1 + dice.roll(8) {
            let Some(record) = ring.next().unwrap() else {
                break;
            };
            let bytes = ring
                .view(record.position, record.len as usize)
                .unwrap()
                .to_vec();
            assert_eq!(
                (record.meta.tag, bytes.len()),
                (number as u32, len_of(number))
            );
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(i, &byte)| byte == byte_of(number, i)),
                "record {number}"
            );
            number += 1;
            dice.may_die();
        }
        let position = ring.read_position();
        book.commit(dice, position, number);
        dice.may_die();
        assert!(ring.release(position));
        dice.may_die();
        consumers.notify_space();
        consumers.wait(WAIT).unwrap();
    }
}

/// Not a test of its own: what this binary does when `killed_sides_lose_and_repeat_nothing` starts it.
#[test]
fn role_of_a_child() {
    let Ok(role) = std::env::var("RING_KILL_ROLE") else {
        return;
    };
    let numbers = std::env::var("RING_KILL_FDS").unwrap();
    // SAFETY: the parent left exactly these descriptors open for this process, and nobody else here uses them.
    let mut fds: Vec<_> = numbers
        .split(',')
        .map(|n| unsafe { OwnedFd::from_raw_fd(n.parse().unwrap()) })
        .collect();
    let stop = Book(fds.remove(SIDE_FDS + 1));
    let book = Book(fds.remove(SIDE_FDS));
    let mut dice = Dice(std::env::var("RING_KILL_SEED").unwrap().parse().unwrap());
    match role.as_str() {
        "producer" => produce(fds, &book, &stop, &mut dice),
        "consumer" => consume(fds, &book, &mut dice),
        other => panic!("{other}"),
    }
}

fn file() -> OwnedFd {
    let fd = rustix::fs::memfd_create("book", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 64).unwrap();
    fd
}

/// Starts a side with its descriptors, its book and the stop word.
fn start(role: &str, mut fds: Vec<OwnedFd>, book: &Book, stop: &Book, seed: u64) -> Child {
    fds.push(book.0.try_clone().unwrap());
    fds.push(stop.0.try_clone().unwrap());
    for fd in &fds {
        rustix::io::fcntl_setfd(fd, FdFlags::empty()).unwrap();
    }
    let numbers: Vec<_> = fds.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role_of_a_child", "--nocapture", "--quiet"])
        .env("RING_KILL_ROLE", role)
        .env("RING_KILL_FDS", numbers.join(","))
        .env("RING_KILL_SEED", seed.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

struct Drill {
    memory: RingSetMemory,
    books: [Book; 2],
    stop: Book,
    dice: Dice,
    deaths: u32,
}

impl Drill {
    fn start(&mut self, side: usize) -> Child {
        let seed = 1 + self.dice.roll(1 << 30);
        let fds = if side == 0 {
            self.memory.producer_fds()
        } else {
            self.memory.consumer_fds()
        };
        start(
            ["producer", "consumer"][side],
            fds.unwrap(),
            &self.books[side],
            &self.stop,
            seed,
        )
    }

    /// Whether the side has ended well; one that was killed is started again.
    fn tend(&mut self, side: usize, child: &mut Child) -> bool {
        let Some(status) = child.try_wait().unwrap() else {
            return false;
        };
        if status.success() {
            return true;
        }
        assert_eq!(status.signal(), Some(9), "side {side}: {status}");
        self.deaths += 1;
        *child = self.start(side);
        false
    }
}

#[test]
fn killed_sides_lose_and_repeat_nothing() {
    let seed = std::env::var("FOREBAY_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20_261_121_u64);
    println!("FOREBAY_SEED={seed}");
    let mut drill = Drill {
        memory: RingSetMemory::create(&spec()).unwrap(),
        books: [Book(file()), Book(file())],
        stop: Book(file()),
        dice: Dice(seed | 1),
        deaths: 0,
    };
    let mut children = [drill.start(0), drill.start(1)];
    let began = Instant::now();
    let mut killed_at = [0; 2];
    loop {
        assert!(
            began.elapsed() < LIMIT,
            "stuck: {:?} {:?}",
            drill.books[0].read(),
            drill.books[1].read()
        );
        let ended = [0, 1].map(|side| drill.tend(side, &mut children[side]));
        if ended == [true, true] {
            break;
        }
        if drill.deaths >= DEATHS {
            drill.stop.set(0, 1);
        }
        // From outside too, at any point of a life that has done something.
        let side = drill.dice.roll(2) as usize;
        let done = drill.books[side].word(0);
        if drill.dice.roll(16) == 0 && done > killed_at[side] && drill.deaths < DEATHS {
            children[side].kill().unwrap();
            killed_at[side] = done;
        }
        std::thread::sleep(Duration::from_micros(300)); // only paces this watch
    }
    let (produced, consumed) = (drill.books[0].read(), drill.books[1].read());
    println!(
        "{} deaths, {} records, {} bytes",
        drill.deaths, consumed.1, consumed.0
    );
    assert_eq!(produced, consumed);
    assert!(consumed.1 > 0 && drill.deaths >= DEATHS);
}
