//! Two ends that have met, and how to wait for them.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::fd::{AsRawFd, BorrowedFd};
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

/// Any free port.
pub(crate) const PLACE: &str = "127.0.0.1:0";

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
    let listener = libfabric.listen(provider, PLACE, config).unwrap();
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

/// Sends one page; both ends look meanwhile.
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
