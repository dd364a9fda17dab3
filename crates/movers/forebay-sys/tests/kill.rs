//! A receiver is killed at random points and started again: every datagram is accounted once, in order.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use forebay_sys::control::Control;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::mapping::{Access, Mapping, sealed_memfd};
use forebay_sys::process;
use forebay_sys::socket::{BoundUdp, UdpOptions, bind_udp, mem_info};
use forebay_sys::udp_batch::{Ancillary, BatchTag, RecvBatch};

const SLOTS: usize = 32;
const KILLS: u32 = 40;
const WINDOW: u64 = 1_000;
const LIMIT: Duration = Duration::from_secs(120);
const SEQ: usize = 0;
const STOP: usize = 1;
const COPIES: usize = 8;

/// What the receiver commits as one record: two copies, the one that `seq` names is valid.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Book {
    batch_id: u64,
    count: u64,
    out_of_order: u64,
    adopted: u64,
}

impl Book {
    fn restore(memory: &Mapping) -> Self {
        let words = memory.words();
        let copy = COPIES + 4 * (words[SEQ].load(Acquire) as usize & 1);
        let [batch_id, count, out_of_order, adopted] =
            std::array::from_fn(|at| words[copy + at].load(Relaxed));
        Self {
            batch_id,
            count,
            out_of_order,
            adopted,
        }
    }

    fn commit(&self, memory: &Mapping) {
        let words = memory.words();
        let next = words[SEQ].load(Relaxed) + 1;
        let copy = COPIES + 4 * (next as usize & 1);
        for (at, value) in [self.batch_id, self.count, self.out_of_order, self.adopted]
            .into_iter()
            .enumerate()
        {
            words[copy + at].store(value, Relaxed);
        }
        words[SEQ].store(next, Release);
    }

    fn account(&mut self, batch: &RecvBatch, tag: BatchTag, count: usize) {
        for index in 0..count {
            let number = u64::from_le_bytes(batch.payload(index)[..8].try_into().unwrap());
            self.out_of_order += u64::from(number != self.count);
            self.count += 1;
        }
        self.batch_id = tag.batch_id;
        // Widens the window between the kernel's delivery and the commit.
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(30) {
            std::hint::spin_loop();
        }
    }
}

/// The killed process: run by `every_datagram_is_accounted_once`, not by hand.
#[test]
#[ignore = "the child of the test below"]
fn receiver() {
    let control = Control::from_stdin(LIMIT).unwrap();
    let Ok(Some(message)) = control.receive() else {
        forebay_testing::skip!("standard input is not a control channel");
        return;
    };
    let [arena, socket, memory]: [OwnedFd; 3] = message.fds.try_into().unwrap();
    let memory = Mapping::of_fd(memory, Access::ReadWrite).unwrap();
    let mut batch = RecvBatch::attach(arena, SLOTS, Ancillary::default()).unwrap();
    let mut book = Book::restore(&memory);
    if let Some(left) = batch.adopt()
        && left.tag.batch_id == book.batch_id + 1
    {
        book.account(&batch, left.tag, left.count);
        book.adopted += left.count as u64;
        book.commit(&memory);
    }
    let mut poller = Poller::create(1).unwrap();
    poller
        .add(&socket, 0, Interest::Readable, Trigger::Level)
        .unwrap();
    while memory.words()[STOP].load(Acquire) == 0 {
        let tag = BatchTag {
            batch_id: book.batch_id + 1,
            ..BatchTag::default()
        };
        match batch.receive_scratch(socket.as_fd(), SLOTS, tag).unwrap() {
            0 => drop(
                poller
                    .wait(Some(Duration::from_millis(5)), Duration::ZERO)
                    .unwrap(),
            ),
            count => {
                book.account(&batch, tag, count);
                book.commit(&memory);
            }
        }
    }
}

#[allow(clippy::zombie_processes, reason = "reaped by pid")]
fn start_receiver(arena: &OwnedFd, bound: &BoundUdp, memory: &OwnedFd) -> (u32, Control) {
    let (mine, theirs) = Control::pair(LIMIT).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "receiver", "--nocapture"])
        .stdin(Stdio::from(theirs.into_fd()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    mine.send(b"", &[arena.as_fd(), bound.fd.as_fd(), memory.as_fd()])
        .unwrap();
    (child.id(), mine)
}

/// A small generator of kill points (xorshift).
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn every_datagram_is_accounted_once() {
    let seed = forebay_sys::clock::monotonic_ns() | 1;
    println!("seed {seed}");
    let options = UdpOptions {
        receive_buffer_bytes: Some(2 << 20),
        ..UdpOptions::default()
    };
    let bound = bind_udp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    if let Some(shortfall) = &bound.shortfall {
        forebay_testing::skip!("{shortfall}");
        return;
    }
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(bound.address).unwrap();
    let arena = RecvBatch::create_arena(SLOTS).unwrap();
    let memory_fd = sealed_memfd("book", 4096).unwrap();
    let memory = Mapping::of_fd(&memory_fd, Access::ReadWrite).unwrap();

    let (mut random, mut sent, mut kills) = (seed, 0_u64, 0);
    let start = Instant::now();
    let (mut pid, mut channel) = start_receiver(&arena, &bound, &memory_fd);
    let mut kill_at = 100;
    while kills < KILLS || Book::restore(&memory).count < sent {
        assert!(
            start.elapsed() < LIMIT,
            "seed {seed}: stuck at {:?} of {sent}",
            Book::restore(&memory)
        );
        let accounted = Book::restore(&memory).count;
        if kills < KILLS && sent < accounted + WINDOW {
            let mut payload = [0; 300];
            payload[..8].copy_from_slice(&sent.to_le_bytes());
            sender.send(&payload).unwrap();
            sent += 1;
        }
        if kills < KILLS && accounted >= kill_at {
            let turns = next_random(&mut random) % 20_000;
            (0..turns).for_each(|_| std::hint::spin_loop());
            process::kill(pid).unwrap();
            process::wait(pid).unwrap();
            drop(channel);
            (pid, channel) = start_receiver(&arena, &bound, &memory_fd);
            kills += 1;
            kill_at = accounted + 50 + next_random(&mut random) % 1_500;
        }
    }
    memory.words()[STOP].store(1, Release);
    let ended = process::wait(pid).unwrap();
    let book = Book::restore(&memory);
    println!("{sent} sent, {kills} kills, {book:?}");
    assert!(ended.status.success(), "seed {seed}: {ended:?}");
    assert_eq!((book.count, book.out_of_order), (sent, 0), "seed {seed}");
    assert_eq!(mem_info(&bound.fd).unwrap().drops, 0);
    assert!(
        book.adopted > 0,
        "seed {seed}: no kill met the window; the test shows nothing"
    );
}
