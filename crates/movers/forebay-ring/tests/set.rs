//! Sets of rings: what is refused when mapping, what a side cannot write, and which side wakes which.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use forebay_ring::{
    CAPACITY_BYTES_MIN, Carried, Consumers, Full, Meta, Producers, RINGS_MAX, Record, RingError,
    RingSetMemory, RingSetSpec, SIDE_FDS, SpecFault,
};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(2);

fn spec(rings: usize) -> RingSetSpec {
    RingSetSpec::new("set", vec![CAPACITY_BYTES_MIN; rings], 1000)
}

fn pair(rings: usize) -> (Producers, Consumers) {
    let (spec, memory) = (spec(rings), RingSetMemory::create(&spec(rings)).unwrap());
    let consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
    (
        Producers::map(&spec, memory.producer_fds().unwrap()).unwrap(),
        consumers,
    )
}

fn write(producers: &mut Producers, ring: usize, len: usize) -> Result<u64, Full> {
    let position = producers.rings[ring]
        .reserve(len)?
        .commit(len, Meta::default());
    producers.rings[ring].publish();
    Ok(position)
}

#[test]
fn impossible_sets_are_refused_with_what_would_be_right() {
    let fault = |capacities, record| match RingSetMemory::create(&RingSetSpec::new(
        "no", capacities, record,
    )) {
        Err(RingError::Spec { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        fault(vec![], 1),
        SpecFault::Rings {
            found: 0,
            max: RINGS_MAX
        }
    );
    assert!(matches!(
        fault(vec![65536, 65537], 1),
        SpecFault::Capacity {
            ring: 1,
            bytes: 65537,
            ..
        }
    ));
    assert!(matches!(
        fault(vec![32768], 1),
        SpecFault::Capacity { ring: 0, .. }
    ));
    assert!(matches!(
        fault(vec![1 << 40], 1),
        SpecFault::Capacity { ring: 0, .. }
    ));
    assert!(matches!(
        fault(vec![65536], 65505),
        SpecFault::RecordBytes { ring: 0, .. }
    ));
    assert!(RingSetMemory::create(&RingSetSpec::new("yes", vec![65536], 65504)).is_ok());
}

#[test]
fn the_largest_record_fills_its_ring_exactly() {
    let spec = RingSetSpec {
        populate: true,
        ..RingSetSpec::new("exact", vec![65536], 65504)
    };
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    assert_eq!(write(&mut producers, 0, 65504), Ok(65536));
    assert_eq!(
        producers.rings[0].reserve(0).unwrap_err(),
        Full::NoSpace {
            needed_bytes: 32,
            free_bytes: 0
        }
    );
    assert_eq!(
        (
            producers.rings[0].fill_bytes(),
            producers.rings[0].free_bytes()
        ),
        (65536, 0)
    );
}

#[test]
fn rings_of_one_set_do_not_touch_each_other() {
    let rings = 1024;
    let (mut producers, mut consumers) = pair(rings);
    for ring in 0..rings {
        let mut loan = producers.ring(ring).unwrap().reserve(8).unwrap();
        loan.copy_from_slice(&(ring as u64).to_le_bytes());
        loan.commit(
            8,
            Meta {
                tag: ring as u32,
                ..Meta::default()
            },
        );
    }
    producers.rings.iter_mut().for_each(|ring| ring.publish());
    for ring in 0..rings {
        let consumer = consumers.ring(ring).unwrap();
        let record = consumer.next().unwrap().unwrap();
        assert_eq!(record.meta.tag, ring as u32);
        assert_eq!(
            consumer.view(record.position, 8).unwrap().read_u64_le(0),
            Some(ring as u64)
        );
        assert_eq!(consumer.next(), Ok(None));
    }
    assert!(consumers.ring(rings).is_none());
}

fn memory_file(bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = rustix::fs::memfd_create("other", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn foreign_memory_is_refused() {
    let (spec, memory) = (spec(2), RingSetMemory::create(&spec(2)).unwrap());
    let with_data = |data| {
        let mut fds = memory.consumer_fds().unwrap();
        fds[0] = data;
        Consumers::map(&spec, fds).map(drop).unwrap_err()
    };
    let sealed = SealFlags::GROW | SealFlags::SHRINK;
    let refused = with_data(memory_file(131_071, sealed));
    assert_eq!(
        refused,
        RingError::Size {
            what: "ring data",
            expected: 131_072,
            found: 131_071
        }
    );
    // It could be cut under our feet, and reading it would be a SIGBUS.
    let refused = with_data(memory_file(131_072, SealFlags::GROW));
    assert!(
        matches!(
            refused,
            RingError::Seals {
                what: "ring data",
                ..
            }
        ),
        "{refused}"
    );
    let mut fds = memory.consumer_fds().unwrap();
    fds.pop();
    let refused = Consumers::map(&spec, fds).map(drop).unwrap_err();
    assert_eq!(
        refused,
        RingError::Descriptors {
            expected: SIDE_FDS,
            found: 4
        }
    );
}

fn writable(fd: &OwnedFd) -> bool {
    let (protection, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: the kernel chooses a free range, which nobody uses.
    let mapped = unsafe { rustix::mm::mmap(null, 4096, protection, MapFlags::SHARED, fd, 0) };
    // SAFETY: the range was just mapped and is not used.
    mapped
        .map(|at| unsafe { rustix::mm::munmap(at, 4096) })
        .is_ok()
}

#[test]
fn a_side_cannot_map_for_writing_what_is_not_its_own() {
    let memory = RingSetMemory::create(&spec(1)).unwrap();
    let rights = |fds: Vec<OwnedFd>| fds[..3].iter().map(writable).collect::<Vec<_>>();
    assert_eq!(rights(memory.producer_fds().unwrap()), [true, true, false]);
    assert_eq!(rights(memory.consumer_fds().unwrap()), [false, false, true]);
    let data = &memory.producer_fds().unwrap()[0];
    assert!(
        rustix::fs::ftruncate(data, 4096).is_err(),
        "a producer could cut the memory under the consumer"
    );
    assert!(
        rustix::fs::fcntl_add_seals(data, SealFlags::WRITE).is_err(),
        "seals are sealed"
    );
}

#[test]
fn only_who_asked_is_signalled() {
    let (mut producers, consumers) = pair(1);
    write(&mut producers, 0, 8).unwrap();
    assert!(!producers.notify());
    consumers.prepare_wait();
    assert!(producers.notify() && producers.notify());
    assert!(consumers.data.sleep(LONG).unwrap());
    assert!(consumers.data.as_fd().try_clone_to_owned().is_ok());
    consumers.finish_wait();
    assert!(!producers.notify());
    assert!(
        !consumers.data.sleep(SHORT).unwrap(),
        "the signal was cleared"
    );
    producers.prepare_wait_space();
    assert!(consumers.notify_space());
    producers.finish_wait_space();
    assert!(!consumers.notify_space());
}

#[test]
fn a_flag_left_by_the_dead_is_cleared_by_the_next_life() {
    let (spec, memory) = (spec(1), RingSetMemory::create(&spec(1)).unwrap());
    let producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    Consumers::map(&spec, memory.consumer_fds().unwrap())
        .unwrap()
        .prepare_wait();
    assert!(producers.notify());
    let _next_life = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
    assert!(!producers.notify());
}

#[test]
fn wait_reports_records_and_the_end_once_each() {
    let (mut producers, mut consumers) = pair(2);
    assert!(!consumers.wait(SHORT).unwrap());
    write(&mut producers, 1, 8).unwrap();
    let began = Instant::now();
    assert!(consumers.wait(LONG).unwrap());
    assert!(consumers.rings[1].next().unwrap().is_some());
    assert!(!consumers.wait(SHORT).unwrap());
    producers.rings[0].close();
    assert!(consumers.rings[0].is_closed() && !consumers.rings[1].is_closed());
    assert!(consumers.wait(LONG).unwrap());
    assert!(!consumers.wait(SHORT).unwrap(), "an end is news once");
    assert!(began.elapsed() < LONG);
}

/// Each side does a step only when the other has done one; none polls. A lost wake-up costs `LONG`.
#[test]
fn two_threads_hand_over_by_sleeping() {
    let (mut producers, mut consumers) = pair(1);
    let (rounds, began) = (3_000, Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..rounds {
                while write(&mut producers, 0, 1000).is_err() {
                    producers.wait_space(0, 1000, LONG).unwrap();
                    assert!(began.elapsed() < LONG, "a wake-up was lost");
                }
                producers.notify();
            }
            producers.rings[0].close();
            producers.notify();
        });
        let mut read = 0;
        while !consumers.rings[0].is_closed() {
            let ring = &mut consumers.rings[0];
            match ring.next().unwrap() {
                Some(record) => {
                    read += 1;
                    ring.release(record.end);
                    consumers.notify_space();
                }
                None => {
                    consumers.wait(LONG).unwrap();
                    assert!(began.elapsed() < LONG, "a wake-up was lost");
                }
            }
        }
        assert_eq!(read, rounds);
    });
}

#[test]
fn sides_and_views_may_move_to_threads() {
    fn sendable<T: Send>() {}
    sendable::<Producers>();
    sendable::<Consumers>();
    sendable::<forebay_ring::FrameSender>();
    sendable::<forebay_ring::FrameReceiver>();
    sendable::<forebay_ring::View<'_>>();
}

#[test]
fn each_side_has_one_owner_at_a_time() {
    let spec = RingSetSpec::new("owned", vec![65_536; 2], 1_000);
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    let consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
    // Closing other descriptors of the same memory ends nobody's right to it.
    drop(memory.producer_fds().unwrap());
    let refused =
        |result: Result<Producers, RingError>| matches!(result, Err(RingError::Claimed { .. }));
    assert!(refused(Producers::map(
        &spec,
        memory.producer_fds().unwrap()
    )));
    assert!(Consumers::map(&spec, memory.consumer_fds().unwrap()).is_err());
    // One ring that went to a thread still owns the side.
    let ring = producers.rings.pop();
    drop(producers);
    assert!(refused(Producers::map(
        &spec,
        memory.producer_fds().unwrap()
    )));
    drop(ring);
    Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    drop(consumers);
    Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
}

/// What a consumer that hangs has left can be counted by the side that wrote it.
#[test]
fn what_was_written_is_found_again_by_its_writer() {
    let (mut producers, mut consumers) = pair(1);
    let record = |items, len| {
        let meta = Meta {
            items,
            ..Meta::default()
        };
        move |producers: &mut Producers| {
            let mut loan = producers.rings[0].reserve(len).unwrap();
            loan.fill(items as u8);
            loan.commit(len, meta)
        }
    };
    let mut at = 0;
    // Three times round the ring, which the consumer reads and gives back.
    for turn in 0..3 * CAPACITY_BYTES_MIN as u32 / 1024 {
        let (first, second) = (
            record(turn, 900)(&mut producers),
            record(7, 0)(&mut producers),
        );
        producers.rings[0].publish();
        let ring = &producers.rings[0];
        let look = |record: Record| {
            let bytes = ring.view(&record).unwrap().to_vec();
            assert_eq!(bytes, vec![record.meta.items as u8; record.len as usize]);
            (record.meta.items, record.len, record.end)
        };
        let found: Vec<_> = ring.written_since(at).map(look).collect();
        assert_eq!(found, [(turn, 900, first), (7, 0, second)]);
        while consumers.rings[0].next().unwrap().is_some() {}
        assert!(consumers.rings[0].release(second));
        at = second;
    }
    for nowhere in [at + 32, at - 32 * 7, at + 1, at.wrapping_sub(1 << 40)] {
        assert_eq!(producers.rings[0].written_since(nowhere).count(), 0);
    }
}

/// Each end counts what goes through it by itself, and what is read a second time once.
#[test]
fn both_ends_count_what_they_carry() {
    let (mut producers, mut consumers) = pair(1);
    let ring = &mut producers.rings[0];
    for items in 1..=3 {
        let meta = Meta {
            items,
            ..Meta::default()
        };
        ring.reserve(200).unwrap().commit(100, meta);
    }
    let carried = |records, items, bytes| Carried {
        records,
        items,
        bytes,
    };
    assert_eq!(ring.carried(), carried(3, 6, 300));
    ring.publish();
    let ring = &mut consumers.rings[0];
    assert_eq!(ring.carried(), Carried::default());
    let first = ring.next().unwrap().unwrap();
    ring.next().unwrap();
    assert_eq!(ring.carried(), carried(2, 3, 200));
    ring.resume(first.end).unwrap();
    ring.next().unwrap();
    assert_eq!(ring.carried(), carried(2, 3, 200), "read twice");
    ring.next().unwrap();
    assert_eq!(ring.carried(), carried(3, 6, 300));
}

/// A successor does not count what is in its predecessor's book.
#[test]
fn a_successor_counts_from_where_its_book_ends() {
    let (spec, memory) = (spec(1), RingSetMemory::create(&spec(1)).unwrap());
    let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    write(&mut producers, 0, 10).unwrap();
    let booked = write(&mut producers, 0, 20).unwrap();
    write(&mut producers, 0, 40).unwrap();
    let mut consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
    let ring = &mut consumers.rings[0];
    ring.resume(0).unwrap();
    ring.count_from(booked);
    while ring.next().unwrap().is_some() {}
    assert_eq!((ring.carried().records, ring.carried().bytes), (1, 40));
}
