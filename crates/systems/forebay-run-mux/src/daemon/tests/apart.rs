//! A card whose frames go in a thread of their own.

use forebay_ledger::Leak;
use forebay_run::Stop;

use super::*;
use crate::driver::{FRAME_BYTES_MAX, apart};

/// Has the card's frames go in a thread of their own.
fn apart_rig(options: &EmulatedOptions) -> Rig {
    let mut rig = Rig::new("", options);
    let (spare, _) = emulated::open(options).unwrap();
    let driver = std::mem::replace(&mut rig.daemon.driver, spare);
    rig.daemon.driver = apart(driver, FRAME_BYTES_MAX).unwrap();
    rig
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let most_ns = monotonic_ns() + 30_000_000_000;
    while !is_so() {
        assert!(monotonic_ns() < most_ns, "{what} did not come");
    }
}

#[test]
fn a_client_has_its_buffers_back_when_the_thread_has_sent() {
    let mut rig = apart_rig(&EmulatedOptions::default());
    let mut client = rig.join("a");
    client.send(250);
    let mut freed = 0;
    until("all buffers", || {
        // It sleeps between, until the thread wakes it.
        if rig.daemon.round(monotonic_ns()).unwrap() == 0 {
            rig.daemon
                .look(rig.daemon.patience(monotonic_ns()))
                .unwrap();
        }
        freed += client.freed();
        freed == 250
    });
    assert!(!rig.daemon.is_send_waiting);
    let counts = rig.counts(0);
    assert_eq!((counts.packets_asked, counts.packets_sent), (250, 250));
    for number in 0..250 {
        assert_eq!(rig.far.receive(), Some(frame_from(0, number)));
    }
    assert_eq!(rig.daemon.mux.residual().items, 0);
}

#[test]
fn all_that_a_client_sent_before_it_left_is_given_to_the_thread() {
    let mut rig = apart_rig(&EmulatedOptions::default());
    let mut client = rig.join("a");
    client.send(250);
    drop(client);
    rig.daemon.look(Duration::ZERO).unwrap();
    assert_eq!(rig.counts(0).parted.get("left"), Some(&1));
    rig.daemon.send_out(Duration::from_secs(30));
    let counts = rig.counts(0);
    assert_eq!((counts.packets_asked, counts.packets_sent), (250, 250));
    for number in 0..250 {
        assert_eq!(rig.far.receive(), Some(frame_from(0, number)));
    }
}

#[test]
fn one_that_leaves_while_the_card_is_full_is_not_waited_for() {
    let options = EmulatedOptions {
        send_frames: 10,
        ..EmulatedOptions::default()
    };
    let mut rig = apart_rig(&options);
    let mut client = rig.join("a");
    client.send(1_000);
    drop(client);
    rig.daemon.look(Duration::ZERO).unwrap();
    rig.daemon.close(Ok(()), Urgency::Now).unwrap();
    // Behind the end nothing goes, and what had no room is in the books.
    let went = std::iter::from_fn(|| rig.far.receive()).count() as u64;
    let card = rig.daemon.driver.send.counts().unwrap();
    assert_eq!((went, card.out, card.residual()), (10, 10, 0));
    assert_eq!(rig.counts(0).packets_sent, 10);
    assert!(rig.far.receive().is_none());
    assert_eq!(rig.daemon.mux.residual().items, 0);
}

/// A card that fails at its first frame.
#[derive(Debug)]
struct Failing(EventFd);

impl SendSide for Failing {
    fn send_with(&mut self, _: usize, _: Fill<'_>) -> Sent {
        panic!("as the test has it")
    }

    fn flush(&mut self) -> Flushed {
        Flushed::All
    }

    fn fates(&mut self, _: &mut dyn FnMut(Fate)) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        Ok(SendCounts::default())
    }
}

#[test]
fn a_thread_that_fails_ends_the_daemon_with_its_books() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let (driver, _far) = emulated::open(&EmulatedOptions::default()).unwrap();
    let send = Box::new(Failing(EventFd::create().unwrap()));
    rig.daemon.driver = apart(Driver { send, ..driver }, FRAME_BYTES_MAX).unwrap();
    let mut client = rig.join("a");
    client.send(5);
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let plan = rig.daemon.plan.clone();
    let mut books = Books::open(None, &plan, "emulated", &mut |_| {}).unwrap();
    // Nobody tells it to end.
    let worked = rig.daemon.work(&host, &mut books);
    let closed = rig.daemon.close(worked, Urgency::Drain);
    assert!(matches!(
        closed,
        Err(MuxError::Driver(DriverError::SendThread))
    ));
    let card = rig.daemon.driver.send.counts().unwrap();
    assert_eq!((card.taken.items, card.held, card.residual()), (5, 5, 0));
    assert_eq!(rig.daemon.mux.residual().items, 0);
}
