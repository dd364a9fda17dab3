//! What parsing costs: sub-event headers, whole messages, whole files.
#![allow(missing_docs)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use forebay_wire::hadtu::{ByteOrder, MessageWriter, Queue};
use forebay_wire::hld::{EventHeader, EventId};
use forebay_wire::hld_scan::Scanner;
use forebay_wire::subevent::{SubEventHeader, SubEventRepr};

const SOURCES: u32 = 90;
const EVENTS: u32 = 1_000;

fn main() {
    divan::main();
}

fn message(payload_bytes: usize) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    while writer.size() < 32_000 {
        let trigger_word = writer.sub_events() << 8;
        let sub = SubEventRepr {
            trigger_word,
            ..SubEventRepr::default()
        };
        let _ = writer.push(&sub, &vec![1; payload_bytes]);
    }
    writer.finish().to_vec()
}

fn file(payload_bytes: usize) -> Vec<u8> {
    let head = |id| EventHeader::new(id, 1_795_289_046, 7);
    let mut file = head(EventId::START).to_bytes().to_vec();
    for sequence in 1..=EVENTS {
        let mut writer = MessageWriter::new(ByteOrder::Big);
        for id in 0..SOURCES {
            let sub = SubEventRepr {
                id,
                ..SubEventRepr::default()
            };
            let _ = writer.push(&sub, &vec![1; payload_bytes]);
        }
        let size = writer.size() - 8;
        let event = EventHeader {
            sequence,
            size: size as u32 + 32,
            ..head(EventId::data(1))
        };
        file.extend_from_slice(&event.to_bytes());
        file.extend_from_slice(&writer.finish()[8..8 + size]);
    }
    file.extend_from_slice(&head(EventId::STOP).to_bytes());
    file
}

#[divan::bench]
fn sub_event_header(bencher: Bencher<'_, '_>) {
    let message = message(100);
    let head: [u8; 16] = *message[8..].first_chunk().unwrap_or(&[0; 16]);
    bencher
        .counter(ItemsCount::new(1_000_usize))
        .bench_local(|| {
            for _ in 0..1_000 {
                let _ = black_box(SubEventHeader::parse(black_box(&head)));
            }
        });
}

#[divan::bench(args = [100, 1_000])]
fn queue_walk(bencher: Bencher<'_, '_>, payload_bytes: usize) {
    let message = message(payload_bytes);
    let subs = message.len() / (payload_bytes + 16);
    bencher.counter(ItemsCount::new(subs)).bench_local(|| {
        let queue = Queue::new_checked(black_box(&message[..]));
        queue.map(|queue| queue.sub_events().flatten().map(|s| s.size()).sum::<u32>())
    });
}

#[divan::bench(args = [100, 1_000])]
fn hld_scan(bencher: Bencher<'_, '_>, payload_bytes: usize) {
    let file = file(payload_bytes);
    bencher
        .counter(BytesCount::new(file.len()))
        .bench_local(|| {
            let mut scanner = Scanner::new();
            let mut items = 0;
            for chunk in file.chunks(1 << 20) {
                scanner.feed(chunk);
                while scanner.poll_item().is_some() {
                    items += 1;
                }
            }
            assert_eq!(items, EVENTS + 2);
        });
}
