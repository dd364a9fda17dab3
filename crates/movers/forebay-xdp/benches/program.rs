//! What a frame costs in the program: as the kernel measures runs on frames that are given to it, and on a virtual cable in a network namespace.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench prints, and ends where it cannot go on"
)]

#[path = "../tests/frames/mod.rs"]
mod frames;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use forebay_xdp::{Config, Connections, Offload, Programs, Seed, State, Term};
use frames::Made;
use frames::cable::{cable, packet_socket};

const SEED: Seed = Seed {
    heard_ns: 0,
    active_due_ns: u64::MAX,
};
const RUNS: u32 = 1_000_000;
const SESSIONS: usize = 9;
/// Frames that go to the cable with one call.
const BATCH: usize = 64;
const FRAMES: u64 = 1_000_000;

fn config() -> Config {
    Config {
        idle_timeout_ns: i64::MAX.unsigned_abs(),
        ..Config::default()
    }
}

/// 64 bytes.
fn made(port: u16) -> Made {
    Made {
        ports: [port, 443],
        payload_bytes: 10,
        ..Made::new()
    }
}

fn main() {
    given("interface", frames::in_kernel);
    given("socket", frames::filter_in_kernel);
    let thread = std::thread::spawn(|| match cable() {
        Ok(()) => on_cable(),
        Err(why) => println!("not on a cable: {why}"),
    });
    thread.join().unwrap();
}

/// The same frame again and again: all that it needs is in the cache.
fn given(at: &str, kind: fn(&Config) -> Option<Programs>) {
    let Some(mut programs) = kind(&config()) else {
        return;
    };
    let six = Made {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..made(1)
    };
    let arp = made(1).framed(0x0806, &[0; 46]);
    let cases = [
        ("no IP packet, up", arp, None),
        ("of no flow, up", made(1).frame(), None),
        ("watched, up", made(1).frame(), Some(State::Data)),
        ("counted, dropped", made(1).frame(), Some(State::Stat)),
        ("counted, dropped, IPv6", six.frame(), Some(State::Stat)),
    ];
    for (name, frame, state) in cases {
        for key in [made(1).key(), six.key()] {
            programs.remove(&key).unwrap();
            if let Some(state) = state {
                programs.insert(&key, state, &SEED).unwrap();
            }
        }
        let runs = (0..SESSIONS).map(|_| programs.run(&frame, RUNS).unwrap().2);
        let mut times_ns: Vec<u32> = runs.collect();
        times_ns.sort_unstable();
        let (least, median) = (times_ns[0], times_ns[SESSIONS / 2]);
        println!(
            "given, {at}: {name:24} {median:4} ns a frame (median of {SESSIONS}; least {least})"
        );
    }
}

/// Has the kernel measure programs for as long as it is open.
fn measure_programs() -> OwnedFd {
    let attributes = [0_u32];
    // SAFETY: BPF_ENABLE_STATS with its structure, which is one number: what to measure (time of runs).
    let descriptor = unsafe { libc::syscall(libc::SYS_bpf, 32, attributes.as_ptr(), 4) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was just opened.
    unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
}

/// Time and number of the runs of the program of this process that ran most.
fn runs() -> [u64; 2] {
    let mut most = [0; 2];
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map_or(0, |line| line.trim().parse::<u64>().unwrap_or(0))
        };
        let of_it = [number("run_time_ns:"), number("run_cnt:")];
        if of_it[1] > most[1] {
            most = of_it;
        }
    }
    most
}

/// Sends so many frames, those given one after the other.
fn send_all(socket: &OwnedFd, frames: &[Vec<u8>], count: u64) {
    let parts: Vec<libc::iovec> = frames
        .iter()
        .map(|frame| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        })
        .collect();
    let mut sent = 0_usize;
    while (sent as u64) < count {
        // SAFETY: all bytes of a message's head may be 0.
        let mut heads: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (n, head) in heads.iter_mut().enumerate() {
            head.msg_hdr.msg_iov = (&raw const parts[(sent + n) % parts.len()]).cast_mut();
            head.msg_hdr.msg_iovlen = 1;
        }
        let most = BATCH.min((count - sent as u64) as usize) as u32;
        // SAFETY: as many heads are there, each with one part that is.
        let taken = unsafe { libc::sendmmsg(socket.as_raw_fd(), heads.as_mut_ptr(), most, 0) };
        sent += usize::try_from(taken).unwrap_or(0);
    }
}

fn on_cable() {
    let _measured = measure_programs();
    for (name, flows, state) in [
        ("of no flow, up", 1, None),
        ("counted, dropped, 1 flow", 1, Some(State::Stat)),
        ("counted, dropped, 1000 flows", 1000, Some(State::Stat)),
        ("counted, dropped, 10000 flows", 10_000, Some(State::Stat)),
        ("told of, dropped, 1 flow", 1, Some(State::NoData)),
    ] {
        let Ok(mut offload) = Offload::attach("near", &config()) else {
            println!("not on a cable: no program");
            return;
        };
        let (far, _) = packet_socket("far", 0);
        // In an order as if at random.
        let ports = (0..flows).map(|flow: u32| (flow * 7919 % flows) as u16);
        let frames: Vec<Vec<u8>> = ports.map(|port| made(port).frame()).collect();
        for port in 0..flows as u16 {
            if let Some(state) = state {
                offload.insert(&made(port).key(), state, &SEED).unwrap();
            }
        }
        let begin = Instant::now();
        let mut told = 0;
        for _ in 0..FRAMES / 1000 {
            send_all(&far, &frames, 1000);
            told += offload.poll_metadata(usize::MAX, &mut |_| {});
        }
        while offload.counts().unwrap().of(Term::Seen).frames < FRAMES {
            std::thread::yield_now();
        }
        let rate = FRAMES as f64 / begin.elapsed().as_secs_f64() / 1e6;
        told += offload.poll_metadata(usize::MAX, &mut |_| {});
        let [time_ns, count] = runs();
        let mode = offload.mode();
        println!(
            "cable ({mode:?}): {name:30} {:4} ns a frame of {count}; {rate:.2} M/s with the sender; told of {told}",
            time_ns / count.max(1)
        );
        drop(offload);
    }
}
