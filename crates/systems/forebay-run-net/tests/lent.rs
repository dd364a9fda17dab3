//! Messages that go out from where their sender has them: over shared memory they are read there.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::single_range_in_vec_init,
    reason = "a test may stop at what must not be; lists of ranges of memory are what is meant"
)]

use std::time::{Duration, Instant};

use forebay_link::bytes::{self, Region, Room};
use forebay_run_net::{
    Address, Entry, Memory, NetError, Payload, Publisher, Receiver, Sender, Settings, Subscriber,
};

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(20);
const PAGES: usize = 8;
const PAGE_BYTES: usize = 4_096;

/// Of every backend that can be used here.
fn addresses() -> Vec<Address> {
    let place = format!(
        "lent-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let place: String = place.chars().filter(|c| !"()".contains(*c)).collect();
    let all = [
        "tcp://127.0.0.1:0",
        &format!("shm://{place}"),
        "fabric+tcp://127.0.0.1:0",
    ];
    let all = all.into_iter().map(|text| text.parse().unwrap());
    let usable = |address: &Address| {
        let opened = forebay_link::bytes::listen(address, Room::default());
        let skipped = opened
            .err()
            .filter(|_| matches!(address, Address::Fabric { .. }));
        skipped.is_none_or(|error| {
            forebay_testing::skip!("{address}: {error}");
            false
        })
    };
    all.filter(usable).collect()
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.messages.buffer_count = 4;
    settings
}

/// A clock that fails a test that hangs.
fn patience() -> impl FnMut() {
    let begun = Instant::now();
    move || assert!(begun.elapsed() < LIMIT, "stuck")
}

/// The byte at a place of a message.
fn byte_of(message: u64, at: usize) -> u8 {
    (message as usize * 31 + at * 7) as u8
}

#[test]
fn a_receiver_reads_them_where_they_lie() {
    for address in addresses() {
        let mut receiver = Receiver::listen(&address, &settings()).unwrap();
        let address = receiver.address().unwrap();
        let mut sender = Sender::connect(&address, &settings()).unwrap();
        let memory = sender.register(Memory::create("test", PAGES, PAGE_BYTES).unwrap());
        let (mut next, mut came, mut apart) = (0_u64, 0_u64, 0_u64);
        let mut waits = patience();
        while came < 500 {
            waits();
            while sender.returned().is_some() {}
            let page = sender.memory(memory).unwrap().free_page();
            if let Some(page) = page.filter(|_| next < 500) {
                let bytes = sender
                    .memory(memory)
                    .unwrap()
                    .bytes_mut(page.clone())
                    .unwrap();
                for (at, byte) in bytes.iter_mut().enumerate() {
                    *byte = byte_of(next, at);
                }
                // Three parts, which together are its first bytes.
                let (a, b) = (page.start + 5, page.start + 900);
                let end = page.start + 1_000 + next as usize;
                let parts = [page.start..a, a..b, b..end];
                let sent = sender.try_send_lent(next, 0, memory, &parts, next).unwrap();
                next += u64::from(sent == forebay_run_net::Sent::Taken);
            }
            sender.poll(Duration::ZERO, |_| {}).unwrap();
            let seen = receiver.poll_viewed(Duration::ZERO, |viewed| {
                assert_eq!(viewed.tag, came);
                let mut bytes = Vec::new();
                match viewed.payload {
                    Payload::Here(here) => bytes.extend_from_slice(here),
                    Payload::Apart(there) => {
                        apart += 1;
                        there.copy_to(&mut bytes);
                    }
                }
                assert_eq!(bytes.len(), 1_000 + came as usize);
                let good = bytes
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == byte_of(came, at));
                assert!(good, "message {came}");
                came += 1;
            });
            seen.unwrap();
        }
        let stays = matches!(address, Address::Shm { .. });
        assert_eq!(apart, if stays { 500 } else { 0 });
        let (sent, received) = finish(sender, receiver);
        assert_eq!(
            (
                sent.envelope.books.residual_items,
                received.envelope.books.residual_items
            ),
            (0, 0)
        );
        assert_eq!(
            (
                sent.envelope.books.residual_bytes,
                received.envelope.books.residual_bytes
            ),
            (0, 0)
        );
        assert_eq!(sent.unconfirmed, 0);
    }
}

fn finish(
    sender: Sender,
    receiver: Receiver,
) -> (forebay_run_net::NetRecord, forebay_run_net::NetRecord) {
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| sender.finish(LIMIT).unwrap());
        let mut receiver = receiver;
        let mut waits = patience();
        while !receiver.has_ended() {
            waits();
            receiver.poll(MOMENT, |_| {}).unwrap();
        }
        (
            sent.join().unwrap(),
            receiver.finish(LIMIT, |_| {}).unwrap(),
        )
    })
}

#[test]
fn what_is_on_its_way_cannot_be_written() {
    let address: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &settings()).unwrap();
    let mut sender = Sender::connect(&receiver.address().unwrap(), &settings()).unwrap();
    let memory = sender.register(Memory::create("test", 2, 100).unwrap());
    let mut waits = patience();
    while !sender.is_connected() {
        waits();
        sender.poll(Duration::ZERO, |_| {}).unwrap();
        receiver.poll(Duration::ZERO, |_| {}).unwrap();
    }
    sender.send_lent(1, 0, memory, &[90..110], 42).unwrap();
    let own = sender.memory(memory).unwrap();
    for range in [0..1, 99..101, 150..200] {
        let refused = own.bytes_mut(range).map(drop).unwrap_err();
        assert!(matches!(refused, NetError::Lent { .. }), "{refused}");
    }
    assert_eq!(own.free_page(), None);
    let outside = own.bytes_mut(150..201).map(drop).unwrap_err().to_string();
    assert!(
        outside.contains("150 to 201") && outside.contains("200"),
        "{outside}"
    );
    let outside = sender
        .try_send_lent(1, 0, memory, &[150..201], 1)
        .unwrap_err();
    assert!(
        matches!(outside, NetError::OutOfMemory { bytes: 200, .. }),
        "{outside}"
    );
    let parts = vec![0..1; 5];
    let many = sender
        .try_send_lent(1, 0, memory, &parts, 1)
        .unwrap_err()
        .to_string();
    assert!(
        many.contains("5 parts") && many.contains("at most 4"),
        "{many}"
    );
    assert_eq!(sender.returned(), None);
    let returned = loop {
        waits();
        receiver.poll(Duration::ZERO, |_| {}).unwrap();
        sender.poll(Duration::ZERO, |_| {}).unwrap();
        if let Some(token) = sender.returned() {
            break token;
        }
    };
    assert_eq!(returned, 42);
    assert!(sender.memory(memory).unwrap().bytes_mut(0..200).is_ok());
    finish(sender, receiver);
}

/// A receiver that goes without a word gives the memory back, too, and what it had not confirmed stays named.
#[test]
fn a_receiver_that_is_gone_gives_the_memory_back() {
    for address in addresses() {
        let mut receiver = Receiver::listen(&address, &settings()).unwrap();
        let mut sender = Sender::connect(&receiver.address().unwrap(), &settings()).unwrap();
        let memory = sender.register(Memory::create("test", PAGES, PAGE_BYTES).unwrap());
        let mut waits = patience();
        while !sender.is_connected() {
            waits();
            sender.poll(Duration::ZERO, |_| {}).unwrap();
            receiver.poll(Duration::ZERO, |_| {}).unwrap();
        }
        for token in 0..3_usize {
            let page = token * PAGE_BYTES..(token + 1) * PAGE_BYTES;
            sender
                .send_lent(1, 0, memory, &[page], token as u64)
                .unwrap();
        }
        drop(receiver);
        let mut returned = Vec::new();
        while returned.len() < 3 {
            waits();
            sender.poll(MOMENT, |_| {}).unwrap();
            returned.extend(sender.returned());
        }
        assert_eq!(returned, [0, 1, 2]);
        let summary = sender.finish(Duration::ZERO).unwrap();
        assert_eq!(
            (
                summary.envelope.books.residual_items,
                summary.envelope.books.residual_bytes
            ),
            (0, 0)
        );
        assert_eq!(summary.unconfirmed + summary.dropped, 3, "{summary:?}");
    }
}

#[test]
fn a_page_is_free_when_all_subscribers_are_through() {
    for address in addresses() {
        let mut publisher = Publisher::listen(&address, &settings()).unwrap();
        let at = publisher.address().unwrap();
        let subscriber = || {
            let at = std::slice::from_ref(&at);
            let mut subscriber = Subscriber::connect(at, &settings()).unwrap();
            subscriber.subscribe(&[Entry::one(5)]);
            subscriber
        };
        let mut subscribers = [subscriber(), subscriber()];
        let memory = publisher.register(Memory::create("test", PAGES, PAGE_BYTES).unwrap());
        let mut waits = patience();
        while publisher.ready_subscribers() < 2 {
            waits();
            publisher.poll(Duration::ZERO).unwrap();
            for subscriber in &mut subscribers {
                subscriber.poll(Duration::ZERO, |_| {}).unwrap();
            }
        }
        let page = publisher.memory(memory).unwrap().free_page().unwrap();
        publisher
            .memory(memory)
            .unwrap()
            .bytes_mut(page.clone())
            .unwrap()
            .fill(9);
        let nobody = publisher
            .publish_lent(6, 0, memory, std::slice::from_ref(&page), 1)
            .unwrap();
        assert_eq!((nobody, publisher.returned()), (0, Some(1)));
        let copies = publisher
            .publish_lent(5, 0, memory, std::slice::from_ref(&page), 2)
            .unwrap();
        assert_eq!((copies, publisher.returned()), (2, None));
        let mut one_after_the_other = Vec::new();
        for subscriber in &mut subscribers {
            let mut came = false;
            while !came {
                waits();
                publisher.poll(Duration::ZERO).unwrap();
                subscriber
                    .poll(Duration::ZERO, |delivered| {
                        came = delivered.message.payload == [9; PAGE_BYTES];
                    })
                    .unwrap();
            }
            // Its credit comes before long.
            for _ in 0..20 {
                subscriber.poll(MOMENT, |_| {}).unwrap();
                publisher.poll(MOMENT).unwrap();
            }
            one_after_the_other.push(publisher.returned());
        }
        assert_eq!(one_after_the_other, [None, Some(2)]);
    }
}

/// As many at once as one turn of a receiver takes in, and more.
#[test]
fn any_number_of_them_may_come_at_once() {
    const MANY: u64 = 200;
    for address in addresses() {
        let mut settings = settings();
        settings.messages.buffer_count = 256;
        let mut receiver = Receiver::listen(&address, &settings).unwrap();
        let address = receiver.address().unwrap();
        let mut sender = Sender::connect(&address, &settings).unwrap();
        let memory = sender.register(Memory::create("many", 1, PAGE_BYTES).unwrap());
        let mut waits = patience();
        while !sender.is_connected() {
            waits();
            sender.poll(MOMENT, |_| {}).unwrap();
            receiver.poll(Duration::ZERO, |_| {}).unwrap();
        }
        for message in 0..MANY {
            sender
                .send_lent(message, 0, memory, &[0..100], message)
                .unwrap();
        }
        sender.poll(Duration::ZERO, |_| {}).unwrap();
        let mut came = 0;
        while came < MANY {
            waits();
            receiver.poll_viewed(MOMENT, |_| came += 1).unwrap();
            sender.poll(Duration::ZERO, |_| {}).unwrap();
        }
        let (sent, received) = finish(sender, receiver);
        assert!(
            sent.parted.is_empty() && received.parted.is_empty(),
            "{received:?}"
        );
        assert_eq!((sent.messages, received.messages), (MANY, MANY));
    }
}

#[test]
fn a_piece_without_a_head_ends_its_connection_by_name() {
    let address: Address = addresses()[1].clone();
    let mut receiver = Receiver::listen(&address, &settings()).unwrap();
    let region = Region::create("headless", 1).unwrap();
    let mut liar = bytes::connect(&address, Room::default()).unwrap();
    let mut waits = patience();
    while liar.send_from(&[], &region, &[0..64]).unwrap_or(1) == 0 {
        waits();
        receiver.poll(MOMENT, |_| {}).unwrap();
    }
    let before = Instant::now();
    while before.elapsed() < Duration::from_millis(200) {
        receiver.poll(MOMENT, |_| {}).unwrap();
    }
    let summary = receiver.finish(LIMIT, |_| {}).unwrap();
    assert_eq!(summary.parted.get("bad_field"), Some(&1), "{summary:?}");
    assert!(summary.is_closed(), "{summary:?}");
}
