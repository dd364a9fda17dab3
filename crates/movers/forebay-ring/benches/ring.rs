//! Records between two threads, each copied in and copied out, beside a bare `memcpy` of the same sizes.
//!
//! `cargo bench -p forebay-ring`. Both threads want a processor of their own: with other load the numbers mean little.

#![allow(
    clippy::expect_used,
    reason = "a benchmark without its memory cannot run"
)]

use std::hint::{black_box, spin_loop};
use std::time::Duration;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use forebay_ring::{
    Consumer, Consumers, Full, Meta, Producer, Producers, RingSetMemory, RingSetSpec,
};

const LENGTHS: [usize; 3] = [64, 1024, 32 * 1024];
const CAPACITY: u64 = 4 << 20;
/// Records between two publishes, and between two releases.
const BATCH: usize = 32;
/// A sleeper gives up after this and looks again.
const WAIT: Duration = Duration::from_millis(20);
/// Empty looks before a sleep.
const SPINS: u32 = 2_000;

fn main() {
    divan::main();
}

fn records(len: usize) -> usize {
    (512 << 20) / len.max(256)
}

fn ring() -> (Producers, Consumers) {
    let mut spec = RingSetSpec::new("bench", vec![CAPACITY], 64 * 1024);
    spec.populate = true;
    let memory = RingSetMemory::create(&spec).expect("memory");
    let producers = Producers::map(&spec, memory.producer_fds().expect("descriptors"));
    let consumers = Consumers::map(&spec, memory.consumer_fds().expect("descriptors"));
    (producers.expect("producers"), consumers.expect("consumers"))
}

fn write(ring: &mut Producer, payload: &[u8]) -> Result<(), Full> {
    let mut loan = ring.reserve(payload.len())?;
    loan.copy_from_slice(payload);
    loan.commit(payload.len(), Meta::default());
    Ok(())
}

/// Copies out what is there, releasing every batch; how many records.
fn read(ring: &mut Consumer, out: &mut [u8]) -> usize {
    let mut count = 0;
    while count < BATCH {
        let Ok(Some(record)) = ring.next() else { break };
        let copied = ring
            .view(record.position, record.len as usize)
            .map(|view| view.copy_to(0, &mut out[..view.len()]));
        black_box(copied);
        count += 1;
    }
    if count > 0 {
        ring.release(ring.read_position());
    }
    count
}

fn counted(
    bencher: Bencher<'_, '_>,
    len: usize,
    run: impl Fn(&mut Producers, &mut Consumers, usize, &[u8]) + Sync,
) {
    let count = records(len);
    let payload = vec![0x5a; len];
    bencher
        .counter(BytesCount::new(len * count))
        .counter(ItemsCount::new(count))
        .with_inputs(ring)
        .bench_local_refs(|(producers, consumers)| run(producers, consumers, count, &payload));
}

/// Both sides spin.
#[divan::bench(args = LENGTHS, sample_count = 25, sample_size = 1)]
fn spinning(bencher: Bencher<'_, '_>, len: usize) {
    counted(bencher, len, |producers, consumers, count, payload| {
        std::thread::scope(|scope| {
            scope.spawn(|| spin_read(&mut consumers.rings[0], count, payload.len()));
            let ring = &mut producers.rings[0];
            for sent in 1..=count {
                while write(ring, payload).is_err() {
                    ring.publish();
                    spin_loop();
                }
                if sent % BATCH == 0 || sent == count {
                    ring.publish();
                }
            }
        });
    });
}

fn spin_read(ring: &mut Consumer, count: usize, len: usize) {
    let mut out = vec![0; len];
    let mut left = count;
    while left > 0 {
        match read(ring, &mut out) {
            0 => spin_loop(),
            n => left -= n,
        }
    }
}

/// A publish and a look at the wait flag per batch; a side that finds nothing spins a little and then sleeps.
#[divan::bench(args = LENGTHS, sample_count = 25, sample_size = 1)]
fn sleeping(bencher: Bencher<'_, '_>, len: usize) {
    counted(bencher, len, |producers, consumers, count, payload| {
        std::thread::scope(|scope| {
            scope.spawn(|| sleepy_read(consumers, count, payload.len()));
            let mut spins = 0;
            for sent in 1..=count {
                while write(&mut producers.rings[0], payload).is_err() {
                    producers.rings[0].publish();
                    producers.notify();
                    spins += 1;
                    if spins % SPINS == 0 {
                        let _ = producers.wait_space(0, payload.len(), WAIT);
                    }
                }
                if sent % BATCH == 0 || sent == count {
                    producers.rings[0].publish();
                    producers.notify();
                }
            }
        });
    });
}

fn sleepy_read(consumers: &mut Consumers, count: usize, len: usize) {
    let mut out = vec![0; len];
    let (mut left, mut spins) = (count, 0);
    while left > 0 {
        let n = read(&mut consumers.rings[0], &mut out);
        left -= n;
        if n > 0 {
            spins = 0;
            consumers.notify_space();
        } else {
            spins += 1;
            if spins > SPINS {
                let _ = consumers.wait(WAIT);
            }
        }
    }
}

/// One thread alone: the instructions of both sides, without the traffic between two caches.
#[divan::bench(args = LENGTHS, sample_count = 25, sample_size = 1)]
fn one_thread(bencher: Bencher<'_, '_>, len: usize) {
    counted(bencher, len, |producers, consumers, count, payload| {
        let mut out = vec![0; payload.len()];
        let mut left = count;
        while left > 0 {
            for _ in 0..BATCH.min(left) {
                let _ = write(&mut producers.rings[0], payload);
            }
            producers.rings[0].publish();
            left -= read(&mut consumers.rings[0], &mut out);
        }
    });
}

/// What the builder does with a record: a header of 16 bytes looked at, 116 bytes copied from further back.
#[divan::bench(sample_count = 25, sample_size = 1)]
fn header_and_copy_116(bencher: Bencher<'_, '_>) {
    let count = 1_000_000;
    let (mut producers, mut consumers) = ring();
    for _ in 0..8_000 {
        let _ = write(&mut producers.rings[0], &[0x5a; 232]);
    }
    producers.rings[0].publish();
    let ring = &mut consumers.rings[0];
    let records: Vec<_> = std::iter::from_fn(|| ring.next().ok().flatten()).collect();
    let mut out = [0; 116];
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        for record in records.iter().cycle().take(count) {
            let Some(view) = ring.view(record.position, record.len as usize) else {
                continue;
            };
            black_box((
                view.read_u32_be(0),
                view.read_u32_be(4),
                view.read_u32_be(8),
                view.read_u32_be(12),
            ));
            black_box(view.copy_to(100, &mut out));
        }
    });
}

/// The reference: one copy per record, within a buffer as large as the ring.
#[divan::bench(args = LENGTHS, sample_count = 25, sample_size = 1)]
fn memcpy(bencher: Bencher<'_, '_>, len: usize) {
    let count = records(len);
    let payload = vec![0x5a_u8; len];
    let mut buffer = vec![0_u8; CAPACITY as usize];
    bencher
        .counter(BytesCount::new(len * count))
        .counter(ItemsCount::new(count))
        .bench_local(|| {
            for i in 0..count {
                let at = i * len % (CAPACITY as usize - len + 1);
                buffer[at..at + len].copy_from_slice(&payload);
                black_box(&buffer[at]);
            }
        });
}
