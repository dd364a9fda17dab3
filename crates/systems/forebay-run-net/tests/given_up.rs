//! A sender whose receiver takes nothing for too long.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use forebay_msg::Config;
use forebay_run_net::{Receiver, Sender, Sent, Settings};

const LIMIT: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn what_is_dropped_is_not_called_taken() {
    let settings = Settings {
        messages: Config {
            buffer_bytes: 100,
            buffer_count: 2,
            block_ns: 20_000_000,
            ..Config::default()
        },
        ..Settings::default()
    };
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &settings).unwrap();
    let mut sender = Sender::connect(&receiver.address().unwrap(), &settings).unwrap();
    let begun = Instant::now();
    while !sender.is_connected() {
        assert!(begun.elapsed() < LIMIT);
        receiver.poll(MOMENT, |_| {}).unwrap();
        sender.poll(MOMENT, |_| {}).unwrap();
    }
    // From now on the receiver reads nothing, and gives nothing back.
    let mut taken = 0;
    loop {
        assert!(begun.elapsed() < LIMIT);
        match sender.try_send(7, 0, &[0; 100]).unwrap() {
            Sent::Taken => taken += 1,
            Sent::NotNow => drop(sender.poll(MOMENT, |_| {}).unwrap()),
            Sent::Dropped => break,
        }
    }
    assert_eq!(taken, 2);
    let summary = sender.finish(Duration::ZERO).unwrap();
    let slow = summary.envelope.lost("slow_receiver");
    assert_eq!(slow, 1, "{summary:?}");
    assert_eq!(summary.messages, 2);
    assert!(summary.is_closed(), "{summary:?}");
    drop(receiver);
}
