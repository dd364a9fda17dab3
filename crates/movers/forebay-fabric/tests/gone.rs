//! A peer in another process that goes while it still sends: what comes of it is right, as far as it comes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![allow(clippy::print_stdout, reason = "tests say what they met")]

mod pair;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use forebay_fabric::{Config, Endpoint, FabricError, Libfabric, Received};
use pair::{Pair, listener, pair, until};

const PLACE: &str = "FABRIC_TEST_PLACE";
const ROLE: &str = "FABRIC_TEST_ROLE";
/// Long pages and short ones, together more than what goes out at once.
const LONG: usize = 60_000;
const SHORT: usize = 100;
const PAGES: u8 = 8;

fn config() -> Config {
    Config {
        page_bytes: LONG,
        receive_pages: usize::from(PAGES) + 1,
        send_pages: usize::from(PAGES) + 1,
        region_sends: usize::from(PAGES),
        ..Config::default()
    }
}

/// Not a test of its own: the peer as a process. It sends long pages and short ones in turn, each full of its number, and may be gone before they are taken.
#[test]
fn peer() {
    let (Ok(place), Ok(role)) = (std::env::var(PLACE), std::env::var(ROLE)) else {
        return;
    };
    let libfabric = Libfabric::load().unwrap();
    let mut endpoint = libfabric.connect("tcp", &place, &config()).unwrap();
    until("the first page is taken", || {
        (endpoint.send(&[b"met"]).unwrap() > 0).then_some(())
    });
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let mut memory = endpoint
        .domain()
        .register(vec![0; LONG * usize::from(PAGES)].into());
    for number in 0..PAGES {
        let bytes = if number % 2 == 0 { LONG } else { SHORT };
        let memory = memory.as_mut().unwrap();
        let mut piece = Some(memory.split_off(memory.bytes().len() - LONG));
        piece.as_mut().unwrap().bytes_mut().fill(number);
        until("a page is taken", || {
            let taken = if role == "leaves with pieces" {
                endpoint.send_piece(&mut piece, bytes, None, 0)
            } else {
                endpoint.send(&[&vec![number; bytes]])
            };
            (taken.unwrap() > 0).then_some(())
        });
    }
    drop(memory);
    if role.starts_with("leaves") {
        drop(endpoint);
        use_free_memory();
    }
    println!("\nhas sent");
    std::io::stdin().read_exact(&mut [0]).ok();
}

/// Whatever was freed is somebody else's now, and full of something else.
fn use_free_memory() {
    for _ in 0..200 {
        let (len, access) = (64 << 10, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, of the length that is written.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().write_bytes(0xff, len);
        }
    }
}

/// Reads a peer's pages when it has gone: each is whole and the next one, as far as they come.
fn read_after(role: &str, goes: impl Fn(&mut Child)) {
    let Some((_, mut listener)) = listener("tcp", &config()) else {
        return;
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peer", "--nocapture"])
        .env(PLACE, listener.local_address().unwrap())
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut far: Endpoint = until("the peer comes", || listener.accept().unwrap());
    until("the first page comes", || {
        (far.receive().unwrap() == Received::Some).then_some(())
    });
    far.used(usize::MAX);
    // From here on nothing is taken until the peer has gone.
    let mut ears = child.stdin.take().unwrap();
    ears.write_all(b".").unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    assert!(said.lines().any(|line| line.unwrap() == "has sent"));
    goes(&mut child);
    let mut pages = 0_u8;
    let error = until("the loss shows", || match far.receive() {
        Ok(Received::Some) => {
            let bytes = if pages.is_multiple_of(2) { LONG } else { SHORT };
            assert_eq!(far.bytes(), vec![pages; bytes], "page {pages}");
            far.used(usize::MAX);
            pages += 1;
            None
        }
        Ok(Received::Nothing) => None,
        Ok(Received::Ended) => panic!("an end that nobody has declared"),
        Err(error) => Some(error),
    });
    assert!(matches!(error, FabricError::Lost { .. }), "{error}");
    println!("{pages} pages came");
    assert!(pages <= PAGES);
    child.kill().ok();
    child.wait().unwrap();
}

#[test]
fn nothing_comes_from_behind_a_page_that_is_missing() {
    let killed = |child: &mut Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    read_after("is killed", killed);
}

#[test]
fn no_memory_is_sent_that_is_free_again() {
    read_after("leaves", |_| {});
}

#[test]
fn no_piece_is_sent_that_is_free_again() {
    read_after("leaves with pieces", |_| {});
}

/// What came before a loss can be read, also by a side that sends first.
fn read_before_the_loss_shows(provider: &str) {
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config())
    else {
        return;
    };
    until("a page is taken", || {
        far.arm(false).unwrap();
        (near.send(&[b"last"]).unwrap() > 0).then_some(())
    });
    until("it is there", || (!far.arm(false).unwrap()).then_some(()));
    drop(near);
    until("the end of the connection shows", || {
        let taken = far.send(&[b"?"]).unwrap();
        far.arm(false).unwrap();
        (taken == 0).then_some(())
    });
    assert_eq!(far.receive().unwrap(), Received::Some);
    assert_eq!(far.bytes(), b"last");
    far.used(usize::MAX);
    let error = far.send(&[b"?"]).unwrap_err();
    assert!(matches!(error, FabricError::Lost { .. }), "{error}");
}

#[test]
fn what_came_is_read_before_a_loss_shows_over_tcp() {
    read_before_the_loss_shows("tcp");
}
