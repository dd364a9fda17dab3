//! End points in a loop that waits by itself: woken by what comes, and not before.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use std::time::{Duration, Instant};

use forebay_run_net::{Address, Doze, Receiver, Sender, Sent, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const LIMIT: Duration = Duration::from_secs(20);
const MESSAGES: u64 = 20;
/// After so long without a message nothing is on its way.
const STILL: Duration = Duration::from_millis(50);

/// Sleeps as it is told; whether it slept all its time and nothing woke it.
fn sleep(doze: Doze<'_>) -> bool {
    let most = Timespec {
        tv_sec: doze.most.as_secs() as i64,
        tv_nsec: doze.most.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(&doze.fd, PollFlags::IN)];
    poll(&mut fds, Some(&most)).unwrap() == 0 && !doze.most.is_zero()
}

/// Sends a message, sleeps until it is confirmed, lies still, and sends the next one.
fn send(address: &Address) {
    let mut sender = Sender::connect(address, &Settings::default()).unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    while sent < MESSAGES {
        assert!(begun.elapsed() < LIMIT, "stuck");
        let free = sender.is_connected() && sender.is_done();
        if free && sender.try_send(7, 0, &sent.to_le_bytes()).unwrap() == Sent::Taken {
            sender.flush().unwrap();
            sent += 1;
            if sent == MESSAGES / 2 {
                // The receiver has nothing to do for a while.
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        sleep(sender.doze());
        sender.poll(Duration::ZERO, |_| {}).unwrap();
    }
    let summary = sender.finish(LIMIT).unwrap();
    assert_eq!(
        (summary.envelope.books.residual_items, summary.unconfirmed),
        (0, 0)
    );
}

#[test]
fn it_is_woken_by_what_comes_and_not_before() {
    let shm = format!("shm://own-loop-{}", std::process::id());
    for address in ["tcp://127.0.0.1:0", &shm] {
        let address: Address = address.parse().unwrap();
        let mut receiver = Receiver::listen(&address, &Settings::default()).unwrap();
        let address = receiver.address().unwrap();
        let sending = std::thread::spawn(move || send(&address));
        let (begun, mut came) = (Instant::now(), 0);
        let (mut silent_rounds, mut slept_through) = (0_u64, 0_u64);
        let (mut heard, mut silence) = (Instant::now(), Duration::ZERO);
        while !receiver.has_ended() {
            assert!(begun.elapsed() < LIMIT, "stuck");
            let before = came;
            let by_time = sleep(receiver.doze());
            let waited = heard.elapsed();
            silent_rounds += u64::from(waited > STILL);
            receiver
                .poll(Duration::ZERO, |delivered| {
                    assert_eq!(delivered.message.payload, u64::to_le_bytes(came));
                    came += 1;
                })
                .unwrap();
            slept_through += u64::from(by_time && came > before);
            if came > before {
                heard = Instant::now();
                silence += waited;
            }
        }
        sending.join().unwrap();
        let summary = receiver.finish(LIMIT, |_| {}).unwrap();
        assert_eq!((came, summary.envelope.books.residual_items), (MESSAGES, 0));
        // While nothing comes, every 50 ms of silence cost a round, and the books some: nothing spins. How many rounds a message costs that is on its way
        // depends on how long its sender is kept from its CPU.
        let most = 40 + u64::try_from(silence.as_millis()).unwrap() / 10;
        assert!(
            silent_rounds < most,
            "{silent_rounds} rounds in {silence:?}"
        );
        // What comes while it goes to sleep is found there, and what comes later wakes it: no message waits until the time is over.
        // One may come just as it is.
        assert!(
            slept_through <= MESSAGES / 4,
            "{slept_through} of {MESSAGES} messages were slept through"
        );
    }
}
