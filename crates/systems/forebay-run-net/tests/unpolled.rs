//! An end point that nobody polls for longer than its peers may be silent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_run_net::{Receiver, Sender, Settings};

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(30);
/// A peer that is silent for so long is gone.
const SILENCE: Duration = Duration::from_millis(200);

#[test]
fn what_has_come_is_looked_at_before_a_peer_counts_as_silent() {
    let mut settings = Settings::default();
    settings.timing.alive_ns = 10_000_000;
    let mut own = settings.clone();
    own.timing.silence_ns = SILENCE.as_nanos() as u64;
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let mut receiver = Receiver::listen(&address, &own).unwrap();
    let address = receiver.address().unwrap();
    let pause_is_over = AtomicBool::new(false);
    let (sent, received) = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sender = Sender::connect(&address, &settings).unwrap();
            sender.send(1, 0, b"before").unwrap();
            // It says all the time that it is there.
            while !pause_is_over.load(Ordering::Relaxed) {
                sender.poll(MOMENT, |_| {}).unwrap();
            }
            sender.send(1, 0, b"after").unwrap();
            sender.finish(LIMIT).unwrap()
        });
        let mut got = Vec::new();
        let begun = Instant::now();
        while got.len() < 2 && begun.elapsed() < LIMIT {
            receiver
                .poll(MOMENT, |delivered| {
                    got.push(delivered.message.payload.to_vec());
                })
                .unwrap();
            if got.len() == 1 && !pause_is_over.load(Ordering::Relaxed) {
                // The pause is what this is about.
                thread::sleep(SILENCE * 3);
                receiver.poll(Duration::ZERO, |_| {}).unwrap();
                pause_is_over.store(true, Ordering::Relaxed);
            }
        }
        assert_eq!(got, [b"before".to_vec(), b"after".to_vec()]);
        while !receiver.has_ended() && begun.elapsed() < LIMIT {
            receiver.poll(MOMENT, |_| {}).unwrap();
        }
        let received = receiver.finish(LIMIT, |_| {}).unwrap();
        (sending.join().unwrap(), received)
    });
    for summary in [sent, received] {
        assert_eq!(summary.connections_made, 1, "{summary:?}");
        assert!(summary.parted.is_empty(), "{summary:?}");
        assert!(summary.is_closed(), "{summary:?}");
    }
}
