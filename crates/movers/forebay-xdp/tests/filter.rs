//! The program at packet sockets of a virtual interface: what it counts does not come to them, and to everybody else it does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;

use forebay_xdp::{Config, Connections, Key, Programs, Seed, State, Tally, Term};
use frames::cable::{cable, packet_socket, received, send};
use frames::{FIN, Made, filter_in_kernel, until};

const SEED: Seed = Seed {
    heard_ns: 0,
    active_due_ns: u64::MAX,
};
/// Bytes that go to the socket of a frame that is not cut otherwise.
const SNAP_BYTES: u32 = 200;

fn config() -> Config {
    Config {
        idle_timeout_ns: i64::MAX.unsigned_abs(),
        vlan_in_key: true,
        trim_bytes: 70,
        ..Config::default()
    }
}

/// Runs in a thread, with the cable and the program, or not at all.
fn on_cable(test: impl FnOnce(Programs) + Send + 'static) {
    if filter_in_kernel(&config()).is_none() {
        return;
    }
    let thread = std::thread::spawn(move || match cable() {
        Ok(()) => test(Programs::load_filter(&config(), SNAP_BYTES).unwrap()),
        Err(why) => forebay_testing::skip!("{why}"),
    });
    thread.join().unwrap();
}

/// A socket that gets what comes in and goes out at an interface.
fn listening(interface: &str) -> OwnedFd {
    packet_socket(interface, libc::ETH_P_ALL as u16).0
}

fn attach(programs: &Programs, socket: &OwnedFd) {
    let program = programs.as_fd().as_raw_fd();
    // SAFETY: the kernel reads a number of 4 bytes.
    let attached = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            (&raw const program).cast(),
            4,
        )
    };
    assert_eq!(attached, 0, "{}", std::io::Error::last_os_error());
}

/// So many frames of a socket, and no more.
fn taken(socket: &OwnedFd, frames: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    until("the frames at a socket", || {
        all.extend(received(socket));
        all.len() >= frames
    });
    assert_eq!(all.len(), frames);
    all
}

/// Sends frames, and waits until the table and a socket without it have seen them; gives what that got.
fn sent(programs: &Programs, [far, other]: [&OwnedFd; 2], frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let before = programs.counts().unwrap().of(Term::Seen).frames;
    let mut got = Vec::new();
    for frame in frames {
        send(far, frame);
        got.extend(received(other));
    }
    until("the last frame", || {
        got.extend(received(other));
        let seen = programs.counts().unwrap().of(Term::Seen).frames - before;
        got.len() >= frames.len() && seen >= frames.len() as u64
    });
    let counts = programs.counts().unwrap();
    assert_eq!((counts.residual_frames(), counts.residual_octets()), (0, 0));
    assert_eq!(counts.of(Term::Seen).frames - before, frames.len() as u64);
    got
}

#[test]
fn what_is_counted_comes_to_all_but_the_socket() {
    on_cable(|mut programs| {
        let (other, filtered) = (listening("near"), listening("near"));
        attach(&programs, &filtered);
        let (far, _) = packet_socket("far", 0);
        let heavy = Made {
            payload_bytes: 1000,
            ..Made::new()
        };
        let light = Made {
            ports: [1, 2],
            payload_bytes: 20,
            ..Made::new()
        };
        programs.insert(&heavy.key(), State::Stat, &SEED).unwrap();
        let mut frames = Vec::new();
        for _ in 0..100 {
            frames.extend([&heavy, &heavy.clone().turned(), &light].map(Made::frame));
        }
        frames.push(heavy.clone().flags(FIN).frame());
        assert_eq!(sent(&programs, [&far, &other], &frames), frames);
        let up = taken(&filtered, 101);
        // Light ones whole, and of the last one so many bytes.
        assert!(up[..100].iter().all(|frame| *frame == light.frame()));
        assert_eq!(up[100], frames[300][..SNAP_BYTES as usize]);
        let counted = Tally {
            frames: 200,
            octets: 200 * heavy.octets(),
        };
        assert_eq!(programs.counts().unwrap().of(Term::Counted), counted);
        assert_eq!(programs.counts().unwrap().of(Term::Closed).frames, 1);
        let entry = programs.remove(&heavy.key()).unwrap().unwrap();
        assert_eq!(
            (entry.frames, entry.octets),
            ([100; 2], [100 * heavy.octets(); 2])
        );
        assert!(entry.first_ns > 0 && entry.first_ns < entry.last_ns);
    });
}

/// The kernel takes the outermost tag out of a frame before a socket gets it: flows, octets and lengths are those of the frame that was on the cable.
#[test]
fn a_tag_that_the_kernel_took_out_is_one() {
    on_cable(|mut programs| {
        let (other, filtered) = (listening("near"), listening("near"));
        attach(&programs, &filtered);
        let (far, _) = packet_socket("far", 0);
        let tagged = |tags: &[u16]| Made {
            tags: tags.to_vec(),
            payload_bytes: 100,
            ..Made::new()
        };
        let all = [tagged(&[]), tagged(&[0x6007]), tagged(&[8, 9])];
        for made in &all {
            let vlan = made.tags.first().map_or(0, |tag| tag & 0xfff);
            programs
                .insert(&made.key_in(vlan), State::Stat, &SEED)
                .unwrap();
        }
        let frames: Vec<_> = all.iter().map(Made::frame).collect();
        let seen = sent(&programs, [&far, &other], &frames);
        // The tags are not there, so that they came with the frame and not in it.
        let lengths: Vec<_> = seen.iter().map(Vec::len).collect();
        assert_eq!(lengths, [154, 154, 158]);
        for (made, vlan) in all.iter().zip([0, 7, 8]) {
            let entry = programs.remove(&made.key_in(vlan)).unwrap().unwrap();
            assert_eq!((entry.frames, entry.octets), ([1, 0], [140, 0]), "{vlan}");
        }
        // Five tags are too many, four are not; so many bytes are kept, a hidden tag among them.
        let many = [tagged(&[1, 2, 3, 4, 5]), tagged(&[1, 2, 3, 4])];
        let key = many[1].key_in(1);
        programs.insert(&key, State::Trim, &SEED).unwrap();
        sent(
            &programs,
            [&far, &other],
            &many.clone().map(|made| made.frame()),
        );
        let lengths: Vec<_> = taken(&filtered, 2).iter().map(Vec::len).collect();
        assert_eq!(lengths, [14 + 16 + 140, 14 + 12 + 40]);
        let counts = programs.counts().unwrap();
        assert_eq!(
            counts.of(Term::NotIp),
            Tally {
                frames: 1,
                octets: 144
            }
        );
        assert_eq!(
            counts.of(Term::Trimmed),
            Tally {
                frames: 1,
                octets: 140
            }
        );
        programs.remove(&key).unwrap().unwrap();
        programs
            .insert(&tagged(&[3]).key_in(3), State::Trim, &SEED)
            .unwrap();
        sent(&programs, [&far, &other], &[tagged(&[3]).frame()]);
        assert_eq!(taken(&filtered, 1)[0].len(), 70 - 4);
    });
}

/// Several sockets that share the frames of an interface have one table, which sees each frame once.
#[test]
fn in_a_group_each_frame_is_seen_once() {
    on_cable(|mut programs| {
        let other = listening("near");
        let group = [listening("near"), listening("near")];
        for socket in &group {
            attach(&programs, socket);
            // By turns (PACKET_FANOUT_LB), so that frames of one flow come to both.
            let kind: libc::c_int = 77 | 1 << 16;
            // SAFETY: the kernel reads a number of 4 bytes.
            let joined = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_FANOUT,
                    (&raw const kind).cast(),
                    4,
                )
            };
            assert_eq!(joined, 0, "{}", std::io::Error::last_os_error());
        }
        let (far, _) = packet_socket("far", 0);
        let heavy = Made::new();
        let light = Made {
            ports: [1, 2],
            ..Made::new()
        };
        programs.insert(&heavy.key(), State::Stat, &SEED).unwrap();
        // Two of each kind, as two take turns.
        let four = [&heavy, &heavy, &light, &light].map(Made::frame);
        let frames: Vec<_> = (0..50).flat_map(|_| four.clone()).collect();
        sent(&programs, [&far, &other], &frames);
        let mut up = 0;
        until("the frames at both sockets", || {
            up += group
                .iter()
                .map(|socket| received(socket).len())
                .sum::<usize>();
            up >= 100
        });
        assert_eq!(up, 100);
        let counts = programs.counts().unwrap();
        assert_eq!(counts.of(Term::Counted).frames, 100);
        assert_eq!(counts.of(Term::NewFlow).frames, 100);
        assert_eq!(
            programs.remove(&heavy.key()).unwrap().unwrap().frames,
            [100, 0]
        );
    });
}

/// The host itself is reached through the interface all the same.
#[test]
fn a_host_in_line_receives_what_is_counted() {
    on_cable(|mut programs| {
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
        let filtered = listening("lo");
        attach(&programs, &filtered);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let end = socket.local_addr().unwrap();
        let end = (end.ip(), end.port());
        let (key, _) = Key::of(end, end, 0, frames::UDP);
        programs.insert(&key, State::Stat, &SEED).unwrap();
        for _ in 0..10 {
            socket.send_to(b"12 octets...", end).unwrap();
            assert_eq!(socket.recv(&mut [0; 20]).unwrap(), 12);
        }
        // Of loopback a socket sees what goes out and comes in.
        until("twenty frames", || {
            programs.counts().unwrap().of(Term::Counted).frames == 20
        });
        assert!(received(&filtered).is_empty());
        let entry = programs.remove(&key).unwrap().unwrap();
        assert_eq!((entry.frames, entry.octets), ([20, 0], [800, 0]));
    });
}
