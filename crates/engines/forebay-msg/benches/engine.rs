//! What a message costs from one end to the other, in memory: pushed, framed, read, given back.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use forebay_msg::{Config, Inbound, Outbound, Publisher, Pushed, Slow};
use forebay_wire::net::Entry;

fn main() {
    divan::main();
}

const MESSAGES: u64 = 100_000;

fn config() -> Config {
    Config {
        buffer_bytes: 64 << 10,
        buffer_count: 4,
        ..Config::default()
    }
}

/// Hands every frame that is ready to the other end.
fn carry(sending: &mut Outbound, receiving: &mut Inbound) -> u64 {
    let mut bytes = 0;
    while let Some(frame) = sending.poll_transmit() {
        for message in receiving.handle_frame(frame).expect("a frame of ours") {
            bytes += black_box(message.payload).len() as u64;
        }
        sending.handle_transmitted();
    }
    sending
        .handle_credit(&receiving.credit())
        .expect("what was sent");
    bytes
}

/// Buffered, one tag.
#[divan::bench(args = [16, 64, 256, 1024, 8192])]
fn pair(bencher: Bencher<'_, '_>, payload_bytes: usize) {
    let payload = vec![7; payload_bytes];
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .counter(BytesCount::new(MESSAGES * payload_bytes as u64))
        .bench_local(|| {
            let mut sending = Outbound::new(&config(), 1).expect("sound");
            let mut receiving = Inbound::new(1, 64 << 10);
            for _ in 0..MESSAGES {
                while sending.push(0, 42, 0, &payload) == Pushed::Wait {
                    carry(&mut sending, &mut receiving);
                }
            }
            sending.flush();
            carry(&mut sending, &mut receiving)
        });
}

/// One subscriber of so many tags, which take turns: the cost must not grow with their number, but for the memory of the table.
#[divan::bench(args = [1, 100, 10_000])]
fn tags(bencher: Bencher<'_, '_>, tags: u64) {
    let payload = [7; 64];
    let mut publisher = Publisher::new(&config()).expect("sound");
    let id = publisher.add(1, Slow::Block, 64 << 10, 4).expect("sound");
    publisher
        .subscribe(id, (0..tags).map(Entry::one))
        .expect("tags are few");
    let mut receiving = Inbound::new(1, 64 << 10);
    bencher.counter(ItemsCount::new(MESSAGES)).bench_local(|| {
        let mut bytes = 0;
        for number in 0..MESSAGES {
            while publisher.publish(0, number % tags, 0, &payload).wait {
                bytes += carry(publisher.peer(id).expect("there"), &mut receiving);
            }
        }
        bytes
    });
}

/// The same bytes copied twice, into a buffer and out of it: the limit.
#[divan::bench(args = [64, 1024, 8192])]
fn two_copies(bencher: Bencher<'_, '_>, payload_bytes: usize) {
    let payload = vec![7_u8; payload_bytes];
    let mut buffer = vec![0_u8; 64 << 10];
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .counter(BytesCount::new(MESSAGES * payload_bytes as u64))
        .bench_local(|| {
            let room = buffer.len() / payload_bytes;
            for number in 0..MESSAGES as usize {
                let at = number % room * payload_bytes;
                buffer[at..at + payload_bytes].copy_from_slice(black_box(&payload));
                black_box(&buffer[at..at + payload_bytes]);
            }
        });
}
