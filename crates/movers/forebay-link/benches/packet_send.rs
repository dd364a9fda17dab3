//! What a frame costs onto a virtual cable in a network namespace, by `sendmmsg` and through a ring that the kernel shares, in turns: CPU time of the thread, the way of
//! the frame to the other end included.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and ends where it cannot go on"
)]

use std::process::Command;

use forebay_link::packet::{BATCH_FRAMES_MAX, FrameBatch, SendPort};
use forebay_sys::clock::thread_cpu_ns;
use forebay_testing::wire::{carries, lay};

/// Set in the namespace.
const INSIDE: &str = "FOREBAY_BENCH_INSIDE";
const SESSIONS: usize = 9;
const FRAMES: usize = 200_000;

fn main() {
    if std::env::var_os(INSIDE).is_some() {
        return on_cable();
    }
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    let ended = command.arg("--net").arg(own).env(INSIDE, "1").status();
    if !ended.is_ok_and(|status| status.success()) {
        println!("nothing measured: a network namespace needs root, and `unshare` of util-linux");
    }
}

fn on_cable() {
    lay();
    carries();
    for bytes in [128, 1_400] {
        let mut batch = FrameBatch::new(bytes);
        while let Some(room) = batch.room() {
            room.fill(0);
            room[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            batch.push(bytes);
        }
        let mut ways = [
            ("sendmmsg", SendPort::open("near").unwrap(), Vec::new()),
            (
                "ring",
                SendPort::open("near").unwrap().through_ring(bytes).unwrap(),
                Vec::new(),
            ),
        ];
        for _ in 0..SESSIONS {
            for (_, port, rates) in &mut ways {
                let begun_ns = thread_cpu_ns();
                let mut sent = 0;
                while sent < FRAMES {
                    let (more, stopped) = {
                        let sent = port.send(&batch, 0..BATCH_FRAMES_MAX);
                        (sent.frames, sent.stopped)
                    };
                    assert_eq!(stopped, None);
                    sent += more;
                }
                rates.push(sent as f64 * 1e3 / (thread_cpu_ns() - begun_ns) as f64);
            }
        }
        for (name, _, rates) in &mut ways {
            rates.sort_by(f64::total_cmp);
            let (least, median, most) = (rates[0], rates[SESSIONS / 2], rates[SESSIONS - 1]);
            println!(
                "{name:9} {bytes:5} bytes: {median:.3} M frames in a second of CPU time (median of {SESSIONS}; {least:.3} to {most:.3})"
            );
        }
    }
}
