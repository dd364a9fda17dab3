//! The emulator alone: Test-2 events per second, beside a memcpy of the same bytes in the same
//! pieces, which is the least that making them can cost.

#![expect(
    clippy::unwrap_used,
    reason = "a bench may stop at a wrong configuration"
)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use forebay_emu::{Config, SoftReadouts};

/// Events made in each sample; 100 kHz for a fifth of a second.
const EVENTS: u64 = 20_000;
const SUBEVENTS: u64 = EVENTS * 90;
const EVENT_BYTES: u64 = 25_420;
/// What a run layer does: it looks at the clock about every 320 µs.
const STEP_NS: u64 = 320_000;

fn main() {
    divan::main();
}

fn test2(water_mark_bytes: Option<u32>) -> Config {
    let mut config = Config::test2(100_000.0);
    config.transport.water_mark_bytes = water_mark_bytes;
    config.limit.events = Some(EVENTS);
    config
}

fn emulate(readouts: &mut SoftReadouts) -> u64 {
    let mut bytes = 0;
    for now_ns in (0..).step_by(STEP_NS as usize) {
        readouts.handle_time(now_ns);
        while let Some(batch) = readouts.poll_batch(64) {
            bytes += batch
                .datagrams()
                .map(|d| black_box(d.bytes).len() as u64)
                .sum::<u64>();
        }
        match readouts.poll_timeout() {
            Some(_) => {}
            None if readouts.is_finished() => break,
            None => readouts.finish(now_ns),
        }
    }
    bytes
}

#[divan::bench(args = [None, Some(2 << 10), Some(32 << 10)], max_time = 3)]
fn test2_subevents(bencher: Bencher, water_mark_bytes: Option<u32>) {
    let config = test2(water_mark_bytes);
    bencher
        .counter(ItemsCount::new(SUBEVENTS))
        .counter(BytesCount::new(EVENTS * EVENT_BYTES))
        .with_inputs(|| SoftReadouts::new(&config).unwrap())
        .bench_refs(emulate);
}

/// The same bytes in the same pieces, copied to 90 buffers of 32 KiB in turn.
#[divan::bench(max_time = 3)]
fn memcpy_of_the_same_pieces(bencher: Bencher) {
    let sizes: Vec<usize> = [(60, 116), (20, 336), (10, 1168)]
        .into_iter()
        .flat_map(|(count, bytes)| std::iter::repeat_n(bytes, count))
        .collect();
    let pattern = vec![0xa5_u8; 20 << 10];
    bencher
        .counter(ItemsCount::new(SUBEVENTS))
        .counter(BytesCount::new(EVENTS * EVENT_BYTES))
        .with_inputs(|| vec![vec![0_u8; 32 << 10]; 90])
        .bench_refs(|buffers| {
            for round in 0..EVENTS / 64 {
                for (buffer, &bytes) in buffers.iter_mut().zip(&sizes) {
                    for i in 0..64_u64 {
                        let at = ((round * 64 + i) as usize * bytes) % (buffer.len() - bytes);
                        let from = (i as usize * 12) % (16 << 10);
                        let out = &mut buffer[at..at + bytes];
                        out.copy_from_slice(black_box(&pattern[from..from + bytes]));
                    }
                }
            }
            black_box(buffers.len())
        });
}
