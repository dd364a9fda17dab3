//! `memcpy`: what memory gives when blocks of a message's size are copied and nothing else is done.

use std::hint::black_box;
use std::time::{Duration, Instant};

use forebay_report::rows::Row;

/// More than caches hold, so that the blocks come from memory as they would for large buffers.
const AREA_BYTES: usize = 64 << 20;
/// Bytes between two looks at the clock.
const LOOK_BYTES: usize = 8 << 20;

/// Copies for so long.
pub(super) fn measure(message_bytes: u32, duration: Duration) -> Row {
    let block = (message_bytes as usize).min(AREA_BYTES);
    let from = vec![0x5a_u8; AREA_BYTES];
    let mut to = vec![0_u8; AREA_BYTES];
    let cpu_before = forebay_sys::clock::process_cpu_ns();
    let start = Instant::now();
    let (mut at, mut bytes) = (0, 0_usize);
    while start.elapsed() < duration {
        let until = bytes + LOOK_BYTES;
        while bytes < until {
            if at + block > AREA_BYTES {
                at = 0;
            }
            black_box(&mut to[at..at + block]).copy_from_slice(black_box(&from[at..at + block]));
            at += block;
            bytes += block;
        }
    }
    let elapsed_s = start.elapsed().as_secs_f64();
    let messages = (bytes / block) as f64;
    let mut row = Row::default();
    row.add("messages", messages);
    row.add("bytes", bytes);
    row.add("elapsed_s", elapsed_s);
    row.add("message_rate_hz", messages / elapsed_s);
    row.add("goodput_bps", bytes as f64 * 8.0 / elapsed_s);
    let cpu_ns = forebay_sys::clock::process_cpu_ns() - cpu_before;
    row.add("cpu_sender_s", cpu_ns as f64 / 1e9);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_counted() {
        let row = measure(1000, Duration::from_millis(1));
        assert!(row.number("messages") >= 1.0);
        assert_eq!(row.number("bytes"), row.number("messages") * 1000.0);
    }
}
