//! Two ends that have met, and how to wait for them.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_fabric::{Config, Endpoint, Libfabric, Listener};

/// Far beyond what anything here takes, also on a busy host.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn deadline() -> Instant {
    Instant::now() + LIMIT
}

pub(crate) struct Pair {
    pub(crate) listener: Listener,
    pub(crate) near: Endpoint,
    pub(crate) far: Endpoint,
}

/// The library, or a line that says why the test is skipped.
pub(crate) fn libfabric() -> Option<Libfabric> {
    Libfabric::load()
        .inspect_err(|error| forebay_testing::skip!("{error}"))
        .ok()
}

/// A place that nobody else has.
pub(crate) fn place(provider: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    match provider {
        "shm" => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("test-{}-{number}", std::process::id())
        }
        _ => "127.0.0.1:0".into(),
    }
}

/// A listener, or a line that says why the test is skipped.
pub(crate) fn listener(provider: &str, config: &Config) -> Option<(Libfabric, Listener)> {
    let libfabric = libfabric()?;
    match libfabric.probe(provider) {
        Ok(found) if found.can_be_used => {}
        Ok(_) => {
            forebay_testing::skip!("{provider} cannot be used here");
            return None;
        }
        Err(error) => {
            forebay_testing::skip!("{error}");
            return None;
        }
    }
    let listener = libfabric
        .listen(provider, &place(provider), config)
        .unwrap();
    Some((libfabric, listener))
}

pub(crate) fn pair(provider: &str, config: &Config) -> Option<Pair> {
    let (libfabric, mut listener) = listener(provider, config)?;
    let address = listener.local_address().unwrap();
    let mut near = libfabric.connect(provider, &address, config).unwrap();
    let far = meet(&mut listener, &mut near);
    Some(Pair {
        listener,
        near,
        far,
    })
}

/// Both ends of a connection that is being made.
pub(crate) fn meet(listener: &mut Listener, near: &mut Endpoint) -> Endpoint {
    let mut far = until("somebody comes", || {
        near.receive().unwrap();
        listener.accept().unwrap()
    });
    until("both are connected", || {
        near.receive().unwrap();
        far.receive().unwrap();
        (near.is_connected() && far.is_connected()).then_some(())
    });
    far
}

/// Asks until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = deadline();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::yield_now();
    }
}

/// Sleeps until one of the descriptors is readable.
pub(crate) fn sleep(fds: [Option<BorrowedFd<'_>>; 2]) {
    assert!(is_readable(fds, 60_000), "nothing woke it");
}

/// Whether one of the descriptors becomes readable.
pub(crate) fn is_readable(fds: [Option<BorrowedFd<'_>>; 2], limit_ms: i32) -> bool {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: as many entries as said.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, limit_ms) };
    ready > 0
}

/// A stranger's socket, connected to an abstract name, that has said something.
pub(crate) fn packet_socket(name: &str, record: &[u8]) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: the address is as long as said, the descriptor is checked and then owned.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let len = (2 + 1 + name.len()) as libc::socklen_t;
        assert_eq!(libc::connect(fd, (&raw const address).cast(), len), 0);
        if !record.is_empty() {
            assert!(libc::send(fd, record.as_ptr().cast(), record.len(), 0) > 0);
        }
        std::os::fd::OwnedFd::from_raw_fd(fd)
    }
}

/// Sends one page; over `shm`, both ends have to look before the first one goes out.
pub(crate) fn push(from: &mut Endpoint, to: &mut Endpoint, page: &[u8]) {
    until("a page goes out", || {
        to.receive().unwrap();
        (from.send(&[page]).unwrap() > 0).then_some(())
    });
}

pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |at: usize| (seed.wrapping_mul(31).wrapping_add(at as u64 * 7)) as u8;
    (0..len).map(byte).collect()
}
