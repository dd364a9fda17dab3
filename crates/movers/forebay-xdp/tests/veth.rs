//! The program on a virtual interface, in a network namespace that ends with its thread; and on all CPUs at once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay_xdp::{
    Config, Connections, Entry, Key, Mode, Offload, Programs, Seed, State, Tally, Term, XdpError,
};
use frames::cable::{cable, packet_socket, received, send};
use frames::{FIN, Made, SOON, filter_in_kernel, in_kernel, until};

const SEED: Seed = Seed {
    heard_ns: 0,
    active_due_ns: u64::MAX,
};
/// Set for the child that is killed.
const CHILD: &str = "FOREBAY_XDP_CHILD";

/// Runs in a thread, with the cable and the program, or not at all.
fn on_cable(test: impl FnOnce() + Send + 'static) {
    if in_kernel(&config()).is_none() {
        return;
    }
    let thread = std::thread::spawn(move || match cable() {
        Ok(()) => test(),
        Err(why) => forebay_testing::skip!("{why}"),
    });
    thread.join().unwrap();
}

fn config() -> Config {
    Config {
        idle_timeout_ns: i64::MAX.unsigned_abs(),
        ..Config::default()
    }
}

#[test]
fn frames_on_an_interface_are_counted_below_and_others_go_up() {
    on_cable(|| {
        let mut offload = Offload::attach("near", &config()).unwrap();
        assert_eq!(offload.mode(), Mode::Native);
        assert!(offload.is_attached().unwrap());
        let (far, _) = packet_socket("far", 0);
        let (near, _) = packet_socket("near", libc::ETH_P_ALL as u16);
        let heavy = Made {
            payload_bytes: 1000,
            ..Made::new()
        };
        let light = Made {
            ports: [1, 2],
            tags: vec![7],
            ..Made::new()
        };
        offload.insert(&heavy.key(), State::Stat, &SEED).unwrap();
        let mut up = Vec::new();
        for _ in 0..1000 {
            up.extend(received(&near));
            send(&far, &heavy.frame());
            send(&far, &heavy.clone().turned().frame());
            send(&far, &light.frame());
        }
        send(&far, &heavy.clone().flags(FIN).frame());
        until("the last frame", || {
            up.extend(received(&near));
            offload.counts().unwrap().of(Term::Seen).frames == 3001
        });
        until("1001 frames at the socket", || {
            up.extend(received(&near));
            up.len() >= 1001
        });
        let counts = offload.counts().unwrap();
        assert_eq!((counts.residual_frames(), counts.residual_octets()), (0, 0));
        let counted = Tally {
            frames: 2000,
            octets: 2000 * heavy.octets(),
        };
        assert_eq!(counts.of(Term::Counted), counted);
        assert_eq!(counts.of(Term::NewFlow).frames, 1000);
        assert_eq!(counts.of(Term::Closed).frames, 1);
        let mut exports = 0;
        offload.poll_exports(10, &mut |_| exports += 1);
        assert_eq!((exports, up.len()), (1, 1001));
        assert!(up[..1000].iter().all(|frame| frame.len() < 100));
        let entry = offload.remove(&heavy.key()).unwrap().unwrap();
        assert_eq!(entry.frames, [1000; 2]);
        assert!(entry.first_ns > 0 && entry.first_ns < entry.last_ns);
    });
}

#[test]
fn a_program_of_somebody_else_stays() {
    on_cable(|| {
        let offload = Offload::attach("near", &config()).unwrap();
        let error = Offload::attach("near", &config()).unwrap_err();
        assert!(matches!(error, XdpError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("near has an XDP program"));
        assert!(offload.is_attached().unwrap());
        // It goes with its owner.
        drop(offload);
        until("the end of the link", || {
            Offload::attach("near", &config()).is_ok()
        });
        let error = Offload::attach("nowhere", &config()).unwrap_err();
        assert!(matches!(error, XdpError::NoInterface(_)), "{error}");
    });
}

#[test]
fn what_was_counted_stays_when_the_interface_goes() {
    on_cable(|| {
        let mut offload = Offload::attach("near", &config()).unwrap();
        let (far, _) = packet_socket("far", 0);
        let made = Made::new();
        offload.insert(&made.key(), State::Stat, &SEED).unwrap();
        send(&far, &made.frame());
        until("the frame", || {
            offload.counts().unwrap().of(Term::Counted).frames == 1
        });
        let gone = Command::new("ip").args(["link", "delete", "near"]).status();
        assert!(gone.unwrap().success());
        assert!(!offload.is_attached().unwrap());
        assert_eq!(offload.counts().unwrap().of(Term::Counted).frames, 1);
        let entry = offload.remove(&made.key()).unwrap().unwrap();
        assert_eq!(entry.frames, [1, 0]);
    });
}

/// The loopback's driver takes no programs.
#[test]
fn without_native_mode_it_is_generic() {
    on_cable(|| {
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
        let mut offload = Offload::attach("lo", &config()).unwrap();
        assert_eq!(offload.mode(), Mode::Generic);
        let error = Offload::attach("lo", &config()).unwrap_err();
        assert!(matches!(error, XdpError::Foreign { .. }), "{error}");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let end = socket.local_addr().unwrap();
        let end = (end.ip(), end.port());
        let (key, _) = Key::of(end, end, 0, frames::UDP);
        offload.insert(&key, State::Stat, &SEED).unwrap();
        for _ in 0..10 {
            socket.send_to(b"12 octets...", end).unwrap();
        }
        until("ten frames", || {
            offload.counts().unwrap().of(Term::Counted).frames == 10
        });
        let entry = offload.remove(&key).unwrap().unwrap();
        assert_eq!((entry.frames, entry.octets), ([10, 0], [400, 0]));
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 20]).is_err());
    });
}

/// Of the one link of this process.
fn detach_link() {
    let is_link = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains("link_type:")
    };
    let mut entries = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let found = entries.find_map(|entry| Some(entry.ok()?.path()).filter(|path| is_link(path)));
    let found = found.unwrap();
    let number: u32 = found
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let attributes = [number];
    // SAFETY: BPF_LINK_DETACH with its structure, which is the number of a descriptor.
    let result = unsafe { libc::syscall(libc::SYS_bpf, 34, attributes.as_ptr(), 4) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The part of the child in the tests below.
#[test]
fn child_that_attaches() {
    let Some(what) = std::env::var_os(CHILD) else {
        return;
    };
    let offload = Offload::attach("near", &config()).unwrap();
    if what == "detach" {
        assert!(offload.is_attached().unwrap());
        detach_link();
        assert!(!offload.is_attached().unwrap());
    }
    println!("\nattached");
    // Until it is killed.
    let _ = std::io::stdin().read(&mut [0]);
}

fn child(what: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_attaches", "--nocapture"])
        .env(CHILD, what)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let attached = lines.map_while(Result::ok).any(|line| line == "attached");
    assert!(attached);
    child
}

#[test]
fn a_program_that_somebody_else_took_off_is_noticed() {
    on_cable(|| {
        let mut child = child("detach");
        Offload::attach("near", &config()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_killed_process_leaves_no_program() {
    on_cable(|| {
        let mut child = child("stay");
        let error = Offload::attach("near", &config()).unwrap_err();
        assert!(matches!(error, XdpError::Foreign { .. }), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
        until("the end of the link", || {
            Offload::attach("near", &config()).is_ok()
        });
    });
}

/// Two CPUs count one flow in both directions while it is taken out and put in again: each frame is in one entry, or went up.
#[test]
fn what_is_counted_on_all_cpus_is_taken_out_exactly() {
    for kind in [in_kernel, filter_in_kernel] {
        if let Some(programs) = kind(&config()) {
            is_taken_out_exactly(programs);
        }
    }
}

fn is_taken_out_exactly(mut programs: Programs) {
    const REPEAT: u32 = 1000;
    /// Entries that were there for more than one run of either thread.
    const USED: u32 = 30;
    let made = Made::new();
    let key = made.key();
    let (there, back) = (made.frame(), made.turned().frame());
    let mut entries: Vec<Entry> = Vec::new();
    let runners = [0, 1].map(|_| programs.runner().unwrap());
    let is_over = AtomicBool::new(false);
    let frames: u64 = std::thread::scope(|scope| {
        let threads = runners.each_ref().map(|runner| {
            let (is_over, both) = (&is_over, [&there, &back]);
            scope.spawn(move || {
                let mut frames = 0;
                while !is_over.load(Ordering::Relaxed) {
                    for frame in both {
                        runner.run(frame, REPEAT).unwrap();
                        frames += u64::from(REPEAT);
                    }
                }
                frames
            })
        });
        let mut used = 0;
        let begin = Instant::now();
        while used < USED && begin.elapsed() < 3 * SOON {
            programs.insert(&key, State::Stat, &SEED).unwrap();
            std::thread::yield_now();
            let entry = programs.remove(&key).unwrap().unwrap();
            used += u32::from(entry.frames[0] > 0 && entry.frames[1] > 0);
            entries.push(entry);
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(used, USED);
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    let sum = |way: usize| entries.iter().map(|entry| entry.frames[way]).sum::<u64>();
    let counts = programs.counts().unwrap();
    assert_eq!(counts.of(Term::Seen).frames, frames);
    assert_eq!((counts.residual_frames(), counts.residual_octets()), (0, 0));
    assert_eq!(counts.of(Term::Counted).frames, sum(0) + sum(1));
    assert!(counts.of(Term::NewFlow).frames > 0);
    for entry in &entries {
        assert_eq!(entry.octets, entry.frames.map(|frames| frames * 50));
    }
}
