//! The emulated link alone: each fault shows and is counted, and the books close at any time.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use forebay_link::emulated::{Config, EmulatedPort, LINK_MAX_DATAGRAMS, LinkCounters};
use forebay_link::{Ancillary, BatchTag, DatagramSource, RecvBatch};
use proptest::prelude::*;

fn drain(port: &mut EmulatedPort) -> Vec<Vec<u8>> {
    let mut batch = RecvBatch::private(4, Ancillary::default()).unwrap();
    let mut all = Vec::new();
    loop {
        match port
            .receive_scratch(&mut batch, 4, BatchTag::default())
            .unwrap()
        {
            0 => return all,
            count => all.extend((0..count).map(|index| batch.payload(index).to_vec())),
        }
    }
}

/// Sends `count` numbered datagrams, one per µs, and lets all arrive.
fn course(config: Config, count: u32) -> (Vec<Vec<u8>>, LinkCounters) {
    let mut port = EmulatedPort::new(config).unwrap();
    for number in 0..count {
        port.offer(u64::from(number) * 1_000, &number.to_le_bytes());
    }
    port.advance(u64::MAX);
    (drain(&mut port), port.counters())
}

#[test]
fn a_seed_gives_the_same_course_and_another_seed_another() {
    let config = Config {
        loss_ppm: 300_000,
        duplicate_ppm: 200_000,
        reorder_ppm: 100_000,
        ..Config::default()
    };
    assert_eq!(course(config, 500), course(config, 500));
    assert_ne!(
        course(config, 500),
        course(Config { seed: 2, ..config }, 500)
    );
}

#[test]
fn each_fault_alone_shows_and_is_counted() {
    let (lossy, counters) = course(
        Config {
            loss_ppm: 500_000,
            ..Config::default()
        },
        1_000,
    );
    assert_eq!(lossy.len() as u64, 1_000 - counters.lost);
    assert!((400..600).contains(&counters.lost), "{counters:?}");

    let (doubled, counters) = course(
        Config {
            duplicate_ppm: 1_000_000,
            ..Config::default()
        },
        10,
    );
    assert_eq!(
        (doubled.len(), counters.duplicated, &doubled[0]),
        (20, 10, &doubled[1])
    );

    let (mixed, counters) = course(
        Config {
            reorder_ppm: 100_000,
            reorder_ns: 5_000,
            ..Config::default()
        },
        1_000,
    );
    assert!(
        counters.reordered > 0
            && !mixed.is_sorted_by_key(|bytes| u32::from_le_bytes(bytes[..].try_into().unwrap()))
    );

    let (damaged, counters) = course(
        Config {
            corrupt_ppm: 1_000_000,
            ..Config::default()
        },
        10,
    );
    assert_eq!(counters.corrupted, 10);
    for (number, bytes) in damaged.iter().enumerate() {
        let turned = u32::from_le_bytes(bytes[..].try_into().unwrap()) ^ number as u32;
        assert_eq!(turned.count_ones(), 1);
    }
}

#[test]
fn nothing_arrives_before_its_delay() {
    let mut port = EmulatedPort::new(Config {
        delay_ns: 100,
        ..Config::default()
    })
    .unwrap();
    port.offer(50, b"x");
    assert_eq!(port.poll_timeout(), Some(150));
    port.advance(149);
    assert_eq!((port.in_buffer(), port.on_link()), (0, 1));
    port.advance(150);
    assert_eq!(
        (port.in_buffer(), port.on_link(), port.poll_timeout()),
        (1, 0, None)
    );
}

#[test]
fn the_link_is_bounded() {
    let mut port = EmulatedPort::new(Config {
        delay_ns: 1,
        ..Config::default()
    })
    .unwrap();
    for _ in 0..LINK_MAX_DATAGRAMS + 3 {
        port.offer(0, b"");
    }
    assert_eq!(
        (port.on_link(), port.counters().link_full),
        (LINK_MAX_DATAGRAMS as u64, 3)
    );
}

#[test]
fn a_rate_beyond_all_is_named() {
    let error = EmulatedPort::new(Config {
        loss_ppm: 1_000_001,
        ..Config::default()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "loss_ppm = 1000001 is outside 0 … 1000000"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_books_close_at_any_time(
        seed: u64,
        rates in proptest::array::uniform4(0_u32..=1_000_000),
        delay_ns in 0_u64..10_000,
        buffer_bytes in 1_u64..20_000,
        steps in proptest::collection::vec((0_u64..2_000, 0_usize..600, 0_usize..6), 0..200),
    ) {
        let [loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm] = rates;
        let config = Config {
            seed, loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm, delay_ns, buffer_bytes,
            reorder_ns: 3_000,
            ..Config::default()
        };
        let mut port = EmulatedPort::new(config).unwrap();
        let mut batch = RecvBatch::private(4, Ancillary::default()).unwrap();
        let (mut now_ns, mut received) = (0, 0);
        for (wait_ns, len, max) in steps {
            now_ns += wait_ns;
            port.offer(now_ns, &vec![0x5a; len]);
            port.advance(now_ns);
            received += port.receive_scratch(&mut batch, max, BatchTag::default()).unwrap() as u64;
            let counters = port.counters();
            prop_assert_eq!(
                counters.offered + counters.duplicated,
                counters.lost + counters.link_full + port.on_link() + counters.dropped + port.in_buffer() + received
            );
            prop_assert_eq!(port.received().datagrams, received);
        }
    }
}
