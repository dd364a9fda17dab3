//! A peer that keeps up loses nothing, however seldom the one that sends is polled.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use forebay_run_net::{
    Address, Entry, NetRecord, Publisher, Receiver, Sender, Settings, Slow, Subscriber,
};

const LIMIT: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(1);
const MESSAGES: u64 = 2_000;
const MESSAGE: [u8; 1000] = [7; 1000];

fn settings(slow: Slow) -> Settings {
    let mut settings = Settings::default();
    settings.messages.buffer_bytes = 1000;
    settings.messages.buffer_count = 4;
    settings.messages.slow = slow;
    settings
}

fn addresses(name: &str) -> [Address; 2] {
    let shm = format!("shm://{name}-{}", std::process::id());
    ["tcp://127.0.0.1:0", &shm].map(|text| text.parse().unwrap())
}

/// Nearly all: how often credit may be looked for has a bound.
fn kept_up(summary: &NetRecord, came: u64) {
    assert!(summary.is_closed(), "{summary:?}");
    assert!(came > MESSAGES / 2, "only {came} came: {summary:?}");
}

#[test]
fn a_publisher_reads_credit_before_it_drops() {
    for slow in [Slow::DropNewest, Slow::DropOldest, Slow::Disconnect] {
        for address in addresses("published") {
            let mut publisher = Publisher::listen(&address, &settings(slow)).unwrap();
            let address = publisher.address().unwrap();
            let mut subscriber = Subscriber::connect(&[address], &settings(slow)).unwrap();
            subscriber.subscribe(&[Entry::one(1)]);
            let begun = Instant::now();
            while publisher.ready_subscribers() == 0 {
                assert!(begun.elapsed() < LIMIT);
                publisher.poll(MOMENT).unwrap();
                subscriber.poll(Duration::ZERO, |_| {}).unwrap();
            }
            let mut came = 0;
            for _ in 0..MESSAGES {
                publisher.publish(1, 0, &MESSAGE).unwrap();
                // One that reads whatever has come, several times over: it may be on its way.
                for _ in 0..4 {
                    subscriber.poll(Duration::ZERO, |_| came += 1).unwrap();
                }
            }
            drop(subscriber);
            let summary = publisher.finish(LIMIT).unwrap();
            kept_up(&summary, came);
        }
    }
}

#[test]
fn a_sender_reads_credit_before_it_drops() {
    for slow in [Slow::DropNewest, Slow::DropOldest] {
        for address in addresses("sent") {
            let mut receiver = Receiver::listen(&address, &settings(slow)).unwrap();
            let address = receiver.address().unwrap();
            let mut sender = Sender::connect(&address, &settings(slow)).unwrap();
            let begun = Instant::now();
            while !sender.is_connected() {
                assert!(begun.elapsed() < LIMIT);
                sender.poll(MOMENT, |_| {}).unwrap();
                receiver.poll(Duration::ZERO, |_| {}).unwrap();
            }
            let mut came = 0;
            for _ in 0..MESSAGES {
                sender.send(1, 0, &MESSAGE).unwrap();
                for _ in 0..4 {
                    receiver.poll(Duration::ZERO, |_| came += 1).unwrap();
                }
            }
            drop(receiver);
            let summary = sender.finish(LIMIT).unwrap();
            kept_up(&summary, came);
        }
    }
}
