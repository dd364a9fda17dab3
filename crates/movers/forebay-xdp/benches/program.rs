//! What a frame costs in the program, as the kernel measures it over a million runs; no interface is involved.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench prints, and ends where it cannot go on"
)]

#[path = "../tests/frames/mod.rs"]
mod frames;

use forebay_xdp::{Config, Connections, Seed, State};
use frames::Made;

const SEED: Seed = Seed {
    heard_ns: 0,
    active_due_ns: u64::MAX,
};
const RUNS: u32 = 1_000_000;
const SESSIONS: usize = 9;

fn main() {
    let config = Config {
        idle_timeout_ns: i64::MAX.unsigned_abs(),
        ..Config::default()
    };
    let Some(mut programs) = frames::in_kernel(&config) else {
        return;
    };
    let made = Made {
        payload_bytes: 64 - 54,
        ..Made::new()
    };
    let six = Made {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..Made::new()
    };
    let arp = made.framed(0x0806, &[0; 46]);
    let cases = [
        ("no IP packet, up", arp, None),
        ("of no flow, up", made.frame(), None),
        ("watched, up", made.frame(), Some(State::Data)),
        ("counted, dropped", made.frame(), Some(State::Stat)),
        ("counted, dropped, IPv6", six.frame(), Some(State::Stat)),
    ];
    for (name, frame, state) in cases {
        let keys = [made.key(), six.key()];
        for key in keys {
            programs.remove(&key).unwrap();
            if let Some(state) = state {
                programs.insert(&key, state, &SEED).unwrap();
            }
        }
        let mut times_ns: Vec<u32> = (0..SESSIONS)
            .map(|_| programs.run(&frame, RUNS).unwrap().2)
            .collect();
        times_ns.sort_unstable();
        let (least, median) = (times_ns[0], times_ns[SESSIONS / 2]);
        println!("{name:24} {median:4} ns a frame (median of {SESSIONS}; least {least})");
    }
}
