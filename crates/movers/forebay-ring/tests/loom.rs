//! Model-checks the index and wake-up protocols: `RUSTFLAGS="--cfg loom" cargo test -p forebay-ring --test loom --release`.
//!
//! The code under test is the crate's own (`index.rs`, `wake.rs`), compiled against loom's atomics. Record memory is modelled by loom's
//! cells, which report any two accesses that the protocol does not order; a lost wake-up shows as a deadlock.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use forebay_ring::index::{Head, Slot, Tail};
use forebay_ring::wake::WaitFlag;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const CAPACITY: u64 = 2;

/// What the three memory files hold.
#[derive(Default)]
struct Memory {
    producer: Slot,
    consumer: Slot,
    cells: [UnsafeCell<u64>; CAPACITY as usize],
    wants_data: WaitFlag,
    wants_space: WaitFlag,
    data_ready: Bell,
    space_free: Bell,
}

/// An eventfd.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn write(memory: &Memory, tail: &mut Tail, value: u64) {
    let cell = (tail.private() % CAPACITY) as usize;
    // SAFETY: loom checks that nobody else accesses the cell.
    memory.cells[cell].with_mut(|at| unsafe { *at = value });
    tail.advance(1);
}

fn read(memory: &Memory, head: &mut Head) -> u64 {
    let cell = (head.read() % CAPACITY) as usize;
    // SAFETY: loom checks that nobody writes the cell.
    let value = memory.cells[cell].with(|at| unsafe { *at });
    head.advance(1);
    value
}

/// Writes 0..count one by one, polling for space.
fn produce(memory: &Memory, count: u64) {
    let mut tail = Tail::new(CAPACITY, &memory.producer);
    for value in 0..count {
        while tail.free() == 0 {
            tail.reload(&memory.consumer).unwrap();
            if tail.free() == 0 {
                thread::yield_now();
            }
        }
        write(memory, &mut tail, value);
        tail.publish(&memory.producer);
    }
}

#[test]
fn every_entry_arrives_once_and_in_order() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || produce(&theirs, 3));
        let mut head = Head::new(CAPACITY, &memory.consumer);
        for expected in 0..3 {
            while head.unread() == 0 {
                head.reload(&memory.producer).unwrap();
                if head.unread() == 0 {
                    thread::yield_now();
                }
            }
            assert_eq!(read(&memory, &mut head), expected);
            assert!(head.release(head.read(), &memory.consumer));
        }
        producer.join().unwrap();
    });
}

#[test]
fn entries_read_ahead_stay_until_they_are_released() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut tail = Tail::new(CAPACITY, &theirs.producer);
            tail.reload(&theirs.consumer).unwrap();
            write(&theirs, &mut tail, 10);
            write(&theirs, &mut tail, 11);
            tail.publish(&theirs.producer);
            tail.reload(&theirs.consumer).unwrap();
            if tail.free() > 0 {
                write(&theirs, &mut tail, 12);
                tail.publish(&theirs.producer);
            }
        });
        let mut head = Head::new(CAPACITY, &memory.consumer);
        head.reload(&memory.producer).unwrap();
        if head.unread() == 2 {
            assert_eq!(
                (read(&memory, &mut head), read(&memory, &mut head)),
                (10, 11)
            );
            // The first goes back, the second is looked at once more.
            assert!(head.release(1, &memory.consumer));
            memory.cells[1].with(|at| assert_eq!(unsafe { *at }, 11)); // SAFETY: loom checks it
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_stream_seen_closed_is_seen_whole() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut tail = Tail::new(CAPACITY, &theirs.producer);
            tail.reload(&theirs.consumer).unwrap();
            write(&theirs, &mut tail, 1);
            tail.publish(&theirs.producer);
            theirs.producer.close();
        });
        let mut head = Head::new(CAPACITY, &memory.consumer);
        if memory.producer.is_closed() {
            head.reload(&memory.producer).unwrap();
            assert_eq!(head.unread(), 1);
            assert_eq!(read(&memory, &mut head), 1);
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_restarted_consumer_goes_on_where_its_book_says() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || produce(&theirs, 3));
        let mut book = 0;
        while book < 3 {
            // Each life reads what is there, commits its book and is killed before the release: only `resume` gives anything back.
            let mut head = Head::new(CAPACITY, &memory.consumer);
            head.resume(book, &memory.consumer, &memory.producer)
                .unwrap();
            if head.unread() == 0 {
                thread::yield_now();
            }
            while head.unread() > 0 {
                assert_eq!(read(&memory, &mut head), book);
                book += 1;
            }
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_restarted_producer_overwrites_only_what_was_released() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let mut tail = Tail::new(CAPACITY, &memory.producer);
        tail.reload(&memory.consumer).unwrap();
        write(&memory, &mut tail, 0);
        write(&memory, &mut tail, 1);
        tail.publish(&memory.producer);
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut tail = Tail::new(CAPACITY, &theirs.producer);
            tail.resume(2, &theirs.producer, &theirs.consumer).unwrap();
            while tail.free() > 0 {
                write(&theirs, &mut tail, 9);
            }
        });
        let mut head = Head::new(CAPACITY, &memory.consumer);
        head.reload(&memory.producer).unwrap();
        for expected in 0..2 {
            assert_eq!(read(&memory, &mut head), expected);
            assert!(head.release(head.read(), &memory.consumer));
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_restarted_producer_shows_what_its_book_holds() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut tail = Tail::new(CAPACITY, &theirs.producer);
            tail.reload(&theirs.consumer).unwrap();
            write(&theirs, &mut tail, 0);
            let book = tail.private(); // committed
            write(&theirs, &mut tail, 99); // not committed, and killed before the publish
            let mut tail = Tail::new(CAPACITY, &theirs.producer);
            tail.resume(book, &theirs.producer, &theirs.consumer)
                .unwrap();
            write(&theirs, &mut tail, 1);
            tail.publish(&theirs.producer);
        });
        let mut head = Head::new(CAPACITY, &memory.consumer);
        for expected in 0..2 {
            while head.unread() == 0 {
                head.reload(&memory.producer).unwrap();
                if head.unread() == 0 {
                    thread::yield_now();
                }
            }
            assert_eq!(read(&memory, &mut head), expected);
        }
        producer.join().unwrap();
    });
}

/// Both sides sleep on their bells, never polling: a side that misses a signal sleeps forever, which loom reports.
#[test]
fn no_wake_up_is_lost() {
    check(|| {
        let memory = Arc::new(Memory::default());
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut tail = Tail::new(1, &theirs.producer);
            for value in 0..2 {
                tail.reload(&theirs.consumer).unwrap();
                while tail.free() == 0 {
                    theirs.wants_space.ask();
                    tail.reload(&theirs.consumer).unwrap();
                    if tail.free() == 0 {
                        theirs.space_free.sleep();
                    }
                    theirs.wants_space.done();
                    tail.reload(&theirs.consumer).unwrap();
                }
                // A ring of one entry.
                theirs.cells[0].with_mut(|at| unsafe { *at = value }); // SAFETY: loom checks it
                tail.advance(1);
                tail.publish(&theirs.producer);
                if theirs.wants_data.is_asked() {
                    theirs.data_ready.ring();
                }
            }
        });
        let mut head = Head::new(1, &memory.consumer);
        for expected in 0..2 {
            head.reload(&memory.producer).unwrap();
            while head.unread() == 0 {
                memory.wants_data.ask();
                head.reload(&memory.producer).unwrap();
                if head.unread() == 0 {
                    memory.data_ready.sleep();
                }
                memory.wants_data.done();
                head.reload(&memory.producer).unwrap();
            }
            memory.cells[0].with(|at| assert_eq!(unsafe { *at }, expected)); // SAFETY: loom checks it
            head.advance(1);
            assert!(head.release(head.read(), &memory.consumer));
            if memory.wants_space.is_asked() {
                memory.space_free.ring();
            }
        }
        producer.join().unwrap();
    });
}
