//! Pages over libfabric as they are, and bytes over TCP beside them: the reference for messaging, which rests on both.
//!
//! `cargo bench -p forebay-fabric --bench bare` prints a table; each row is one run of `SECONDS`, in this process, one thread per end. A thread that
//! finds nothing spins for a while and then sleeps. `copy`: the sender copies into a page; `region`: it
//! sends from registered memory. The ratio is to TCP's row of the same size.
#![allow(clippy::print_stdout, reason = "rows are its result")]
#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use forebay_fabric::{Config, Endpoint, Libfabric, Received};

const SIZES: [usize; 4] = [64, 1 << 10, 8 << 10, 64 << 10];
const PAGES: [usize; 2] = [1, 16];
const RUN: Duration = Duration::from_millis(700);
/// Looks before a sleep.
const SPINS: u32 = 50;

fn main() {
    let libfabric = match Libfabric::load() {
        Ok(libfabric) => libfabric,
        Err(error) => return println!("skipped: {error}"),
    };
    // Cargo runs it for tests, too: once, to see that it goes.
    let run = if std::env::args().any(|argument| argument == "--bench") {
        RUN
    } else {
        Duration::from_millis(20)
    };
    println!("kind       over  send    bytes  pages        round trip or rate   of TCP");
    for bytes in SIZES {
        let tcp = tcp_round_trip(bytes, run);
        trip_row("TCP", bytes, tcp, tcp);
        if let Some((near, far)) = pair(&libfabric, bytes, 4) {
            trip_row("tcp", bytes, round_trip(near, far, bytes, run), tcp);
        }
    }
    for bytes in SIZES {
        let tcp = tcp_stream(bytes, run);
        stream_row("TCP", "copy", bytes, 0, tcp, tcp);
        for pages in PAGES.into_iter().chain([64]) {
            for region in [false, true] {
                if let Some((near, far)) = pair(&libfabric, bytes, pages) {
                    let rate = stream(near, far, bytes, region, run);
                    let send = if region { "region" } else { "copy" };
                    stream_row("tcp", send, bytes, pages, rate, tcp);
                }
            }
        }
    }
}

fn trip_row(over: &str, bytes: usize, seconds: f64, tcp: f64) {
    let (us, ratio) = (seconds * 1e6, seconds / tcp);
    println!(
        "ping-pong  {over:4}  copy    {bytes:>5}      1  {us:>14.2} us/round trip   {ratio:>6.2}"
    );
}

fn stream_row(over: &str, send: &str, bytes: usize, pages: usize, rate: f64, tcp: f64) {
    let (gbps, khz, ratio) = (rate * bytes as f64 * 8e-9, rate * 1e-3, rate / tcp);
    println!(
        "stream     {over:4}  {send:6}  {bytes:>5}  {pages:>5}  {khz:>9.1} kHz {gbps:>7.2} Gb/s   {ratio:>6.2}"
    );
}

fn pair(libfabric: &Libfabric, bytes: usize, pages: usize) -> Option<(Endpoint, Endpoint)> {
    let config = Config {
        page_bytes: bytes,
        receive_pages: pages,
        send_pages: pages,
        region_sends: pages,
        ..Config::default()
    };
    let mut listener = match libfabric.listen("tcp", "127.0.0.1:0", &config) {
        Ok(listener) => listener,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let address = listener.local_address().unwrap();
    let mut near = libfabric.connect("tcp", &address, &config).unwrap();
    let mut far = loop {
        near.receive().unwrap();
        if let Some(far) = listener.accept().unwrap() {
            break far;
        }
    };
    while !near.is_connected() || !far.is_connected() {
        near.receive().unwrap();
        far.receive().unwrap();
    }
    Some((near, far))
}

/// Waits for the next page; false at the end.
fn next(end: &mut Endpoint) -> bool {
    let mut spins = 0;
    loop {
        match end.receive().unwrap() {
            Received::Some => return true,
            Received::Ended => return false,
            Received::Nothing => rest(end, false, &mut spins),
        }
    }
}

fn send(end: &mut Endpoint, page: &[u8]) {
    let mut spins = 0;
    while end.send(&[page]).unwrap() == 0 {
        rest(end, true, &mut spins);
    }
}

fn rest(end: &mut Endpoint, for_room: bool, spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS {
        return std::hint::spin_loop();
    }
    if end.arm(for_room).unwrap() {
        let mut fds = end.fds().map(|fd| libc::pollfd {
            fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: as many entries as said.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, 1_000) };
    }
}

/// Seconds per round trip.
fn round_trip(mut near: Endpoint, mut far: Endpoint, bytes: usize, run: Duration) -> f64 {
    let page = vec![1; bytes];
    let echo = std::thread::spawn(move || {
        let page = vec![2; bytes];
        while next(&mut far) {
            far.used(bytes);
            send(&mut far, &page);
        }
    });
    let begun = Instant::now();
    let mut trips = 0_u32;
    while begun.elapsed() < run {
        send(&mut near, &page);
        assert!(next(&mut near));
        near.used(bytes);
        trips += 1;
    }
    let seconds = begun.elapsed().as_secs_f64() / f64::from(trips);
    near.finish();
    while !near.is_drained() {}
    echo.join().unwrap();
    seconds
}

/// Pages per second.
fn stream(mut near: Endpoint, mut far: Endpoint, bytes: usize, region: bool, run: Duration) -> f64 {
    let mut memory = Some(near.domain().register(vec![1; 64 * bytes].into()).unwrap());
    let split = || {
        memory
            .as_mut()
            .map(|memory| memory.split_off(memory.bytes().len() - bytes))
    };
    let mut pieces: Vec<_> = std::iter::repeat_with(split).take(64).collect();
    let sink = std::thread::spawn(move || {
        while next(&mut far) {
            far.used(bytes);
        }
        far.totals().pages_received
    });
    let page = vec![1; bytes];
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < run {
        for _ in 0..64 {
            if region {
                let mut spins = 0;
                let mut piece = pieces.pop().flatten();
                while near.send_piece(&mut piece, bytes, None, 0).unwrap() == 0 {
                    rest(&mut near, false, &mut spins);
                    let back = std::iter::from_fn(|| near.returned());
                    pieces.extend(back.map(|returned| Some(returned.piece)));
                    piece = piece.or_else(|| pieces.pop().flatten());
                }
                let back = std::iter::from_fn(|| near.returned());
                pieces.extend(back.map(|returned| Some(returned.piece)));
            } else {
                send(&mut near, &page);
            }
            count += 1;
        }
    }
    near.finish();
    while !near.is_drained() {
        std::thread::yield_now();
    }
    assert_eq!(sink.join().unwrap(), count);
    count as f64 / begun.elapsed().as_secs_f64()
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

fn tcp_round_trip(bytes: usize, run: Duration) -> f64 {
    let (mut near, mut far) = tcp_pair();
    let echo = std::thread::spawn(move || {
        let mut page = vec![0; bytes];
        while far.read_exact(&mut page).is_ok() {
            far.write_all(&page).unwrap();
        }
    });
    let mut page = vec![0; bytes];
    let begun = Instant::now();
    let mut trips = 0_u32;
    while begun.elapsed() < run {
        near.write_all(&page).unwrap();
        near.read_exact(&mut page).unwrap();
        trips += 1;
    }
    let seconds = begun.elapsed().as_secs_f64() / f64::from(trips);
    drop(near);
    echo.join().unwrap();
    seconds
}

fn tcp_stream(bytes: usize, run: Duration) -> f64 {
    let (mut near, mut far) = tcp_pair();
    let sink = std::thread::spawn(move || {
        let mut room = vec![0; 256 << 10];
        while far.read(&mut room).unwrap() > 0 {}
    });
    let page = vec![1; bytes];
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < run {
        for _ in 0..64 {
            near.write_all(&page).unwrap();
            count += 1;
        }
    }
    drop(near);
    sink.join().unwrap();
    count as f64 / begun.elapsed().as_secs_f64()
}
