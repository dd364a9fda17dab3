//! Frames that the kernel repeats onto a virtual cable, counted at its other end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use forebay_xdp::{
    Config, Connections, Offload, OneVerdict, REPEATED_BYTES_MAX, REPEATED_RATE_MIN_HZ, Repeat,
    Repeater, Seed, State, Term, Verdict, XdpError,
};
use frames::cable::cable;
use frames::{Made, UDP, until};

const TIMES: u32 = 1_000;
const RATE_HZ: f64 = 1e6;
const REPEAT: Repeat = Repeat {
    frames: TIMES,
    rate_hz: RATE_HZ,
    first_port: 0,
    flows: 0,
};

/// Runs in a thread, with the cable and the rights, or not at all.
fn on_cable(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || match cable() {
        Ok(()) => match Repeater::open("far") {
            Err(XdpError::NotAllowed { missing }) => forebay_testing::skip!("needs {missing}"),
            Err(XdpError::NotBuilt { why }) => forebay_testing::skip!("{why}"),
            _ => test(),
        },
        Err(why) => forebay_testing::skip!("{why}"),
    });
    thread.join().unwrap();
}

/// Packets that came in at the near end, as the kernel counts them.
fn arrived() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table
        .lines()
        .find(|line| line.trim_start().starts_with("near:"));
    let numbers = line.unwrap().split_once(':').unwrap().1;
    numbers.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn each_repeated_frame_comes_in_at_the_other_end_whatever_its_verdict_there() {
    on_cable(|| {
        let repeater = Repeater::open("far").unwrap();
        let frame = Made::new().frame();
        for (done, verdict) in [(1, Verdict::Drop), (2, Verdict::Pass)] {
            let _there = OneVerdict::attach("near", verdict).unwrap();
            let sent = repeater.send(&frame, &REPEAT).unwrap();
            assert_eq!(sent.frames, u64::from(TIMES));
            // The last one is due 999 us behind the first.
            assert!(sent.elapsed_ns >= 998_000, "{sent:?}");
            until("the last frame", || arrived() == done * u64::from(TIMES));
        }
    });
}

#[test]
fn each_flow_of_repeated_frames_is_counted_by_the_table_of_connections() {
    on_cable(|| {
        // A flow does not end while it is counted.
        let config = Config {
            idle_timeout_ns: i64::MAX.unsigned_abs(),
            ..Config::default()
        };
        let mut offload = match Offload::attach("near", &config) {
            Ok(offload) => offload,
            Err(XdpError::NotBuilt { why }) => return forebay_testing::skip!("{why}"),
            Err(error) => panic!("{error}"),
        };
        let of = |port| Made {
            protocol: UDP,
            ports: [port, 9_000],
            ..Made::new()
        };
        let seed = Seed {
            heard_ns: 0,
            active_due_ns: u64::MAX,
        };
        // A thousand frames over three flows: the first one has one more.
        let ports = [40_000, 40_001, 40_002];
        for port in ports {
            offload.insert(&of(port).key(), State::Stat, &seed).unwrap();
        }
        let repeat = Repeat {
            first_port: ports[0],
            flows: 3,
            ..REPEAT
        };
        let repeater = Repeater::open("far").unwrap();
        repeater.send(&of(1).frame(), &repeat).unwrap();
        until("the last frame", || arrived() == u64::from(TIMES));
        for (port, frames) in ports.into_iter().zip([334, 333, 333]) {
            let entry = offload.remove(&of(port).key()).unwrap().unwrap();
            assert_eq!(entry.frames.iter().sum::<u64>(), frames, "{port}");
        }
        let seen = offload.counts().unwrap().of(Term::Seen).frames;
        assert_eq!(seen, u64::from(TIMES));
    });
}

#[test]
fn what_cannot_be_sent_is_refused() {
    on_cable(|| {
        let missing = Repeater::open("nowhere").unwrap_err();
        assert!(matches!(missing, XdpError::NoInterface(_)), "{missing}");
        let repeater = Repeater::open("far").unwrap();
        let _there = OneVerdict::attach("near", Verdict::Drop).unwrap();
        let one = Repeat {
            frames: 1,
            ..REPEAT
        };
        for (bytes, is_sent) in [
            (13, false),
            (14, true),
            (REPEATED_BYTES_MAX, true),
            (4_096, false),
        ] {
            let sent = repeater.send(&vec![0; bytes], &one);
            assert_eq!(sent.is_ok(), is_sent, "{bytes} bytes: {sent:?}");
        }
        let slow = Repeat {
            rate_hz: REPEATED_RATE_MIN_HZ / 2.0,
            ..one
        };
        let slow = repeater.send(&[0; 60], &slow).unwrap_err();
        assert!(matches!(slow, XdpError::Setting(_)), "{slow}");
        let taken = OneVerdict::attach("near", Verdict::Pass).unwrap_err();
        assert!(taken.to_string().contains("near"), "{taken}");
    });
}
