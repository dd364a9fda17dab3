//! Connections that carry bytes in order, backend by backend: a round trip of 64 B, and a stream of 64 KiB pieces beside a `memcpy` of the same
//! pieces.
//!
//! `cargo bench -p forebay-link --bench bytes`. Both ends poll, each in a thread that wants a processor of its own: with other load the numbers
//! mean little. The median of `round_trip` is that of single round trips.

#![allow(
    clippy::expect_used,
    reason = "a benchmark without its connection cannot run"
)]

use std::hint::{black_box, spin_loop};
use std::thread::JoinHandle;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use forebay_link::bytes::{ByteLink, Received, Room, connect, listen};

const MESSAGE_BYTES: usize = 64;
const PIECE_BYTES: usize = 64 << 10;
/// Pieces of one stream: 256 MiB.
const PIECES: usize = 4_096;
/// As large as the ring of the default room.
const MEMCPY_BYTES: usize = 8 << 20;

fn main() {
    divan::main();
}

fn address(backend: &str) -> String {
    match backend {
        "tcp" => "tcp://127.0.0.1:0".into(),
        shm => format!("{shm}://bench-{}", std::process::id()),
    }
}

/// The side that connected, and the side that listened.
fn pair(backend: &str) -> (Box<dyn ByteLink>, Box<dyn ByteLink>) {
    let room = Room::default();
    let address = address(backend).parse().expect("an address");
    let mut door = listen(&address, room).expect("a door");
    let address = door.address().expect("where it listens");
    let mut near = connect(&address, room).expect("a connection");
    let mut far = loop {
        if let Some(link) = door.accept().expect("a visitor") {
            break link;
        }
    };
    send(&mut *near, &[1]);
    take(&mut *far, 1);
    (near, far)
}

fn send(link: &mut dyn ByteLink, bytes: &[u8]) {
    let mut left = bytes;
    while !left.is_empty() {
        match link.send(&[left]).expect("a peer") {
            0 => spin_loop(),
            taken => left = &left[taken..],
        }
    }
}

/// Receives so many bytes; false at the end.
fn take(link: &mut dyn ByteLink, bytes: usize) -> bool {
    let mut left = bytes;
    while left > 0 {
        match link.receive().expect("a peer") {
            Received::Some => {
                let found = black_box(link.bytes()).len();
                link.used(found);
                left -= found;
            }
            Received::Nothing => spin_loop(),
            Received::Ended => return false,
        }
    }
    true
}

/// Answers every `bytes` with `answer` until the end.
fn serve(mut link: Box<dyn ByteLink>, bytes: usize, answer: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let answer = vec![0x5a; answer];
        while take(&mut *link, bytes) {
            send(&mut *link, &answer);
        }
    })
}

fn end(mut link: Box<dyn ByteLink>, server: JoinHandle<()>) {
    link.finish();
    server.join().expect("a server that ended");
}

/// One message there and back.
#[divan::bench(args = ["shm", "tcp"], sample_count = 100_000, sample_size = 1)]
fn round_trip(bencher: Bencher<'_, '_>, backend: &str) {
    let (mut near, far) = pair(backend);
    let server = serve(far, MESSAGE_BYTES, MESSAGE_BYTES);
    bencher.counter(ItemsCount::new(1_u32)).bench_local(|| {
        send(&mut *near, &[0xa5; MESSAGE_BYTES]);
        take(&mut *near, MESSAGE_BYTES);
    });
    end(near, server);
}

/// Many pieces there, a byte back when all have come.
#[divan::bench(args = ["shm", "tcp"], sample_count = 25, sample_size = 1)]
fn stream(bencher: Bencher<'_, '_>, backend: &str) {
    let (mut near, far) = pair(backend);
    let server = serve(far, PIECES * PIECE_BYTES, 1);
    let piece = vec![0xa5; PIECE_BYTES];
    bencher
        .counter(BytesCount::new(PIECES * PIECE_BYTES))
        .counter(ItemsCount::new(PIECES))
        .bench_local(|| {
            (0..PIECES).for_each(|_| send(&mut *near, &piece));
            take(&mut *near, 1);
        });
    end(near, server);
}

/// The reference: one copy of each piece, through memory as large as a ring.
#[divan::bench(sample_count = 25, sample_size = 1)]
fn memcpy(bencher: Bencher<'_, '_>) {
    let piece = vec![0xa5_u8; PIECE_BYTES];
    let mut memory = vec![0_u8; MEMCPY_BYTES];
    bencher
        .counter(BytesCount::new(PIECES * PIECE_BYTES))
        .counter(ItemsCount::new(PIECES))
        .bench_local(|| {
            for at in 0..PIECES {
                let from = at * PIECE_BYTES % MEMCPY_BYTES;
                memory[from..from + PIECE_BYTES].copy_from_slice(black_box(&piece));
                black_box(&memory[from]);
            }
        });
}
