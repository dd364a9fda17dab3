//! Over cards in memory, and over halves that refuse, wait and fail.

use std::time::Instant;

use super::super::emulated::{self, EmulatedOptions, FarEnd};
use super::super::{FRAME_BYTES_MAX, Link};
use super::*;

const LONG: Duration = Duration::from_secs(30);

fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = number.to_be_bytes().to_vec();
    frame.resize(bytes, number as u8);
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]])
}

/// Asks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let most = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < most, "{what} did not come");
        std::thread::yield_now();
    }
}

/// A card in memory with room for so many frames at the far end.
fn card(send_frames: usize) -> (Driver, FarEnd) {
    let options = EmulatedOptions {
        send_frames,
        ..EmulatedOptions::default()
    };
    emulated::open(&options).unwrap()
}

fn is_writable(send: &dyn SendSide, most: Duration) -> bool {
    let mut room = Poller::create(1).unwrap();
    let (interest, trigger) = (Interest::Writable, Trigger::Level);
    room.add(send.descriptor(), 0, interest, trigger).unwrap();
    room.wait(Some(most), Duration::ZERO).unwrap().count() == 1
}

/// Flushes until all is with the card.
fn flush(send: &mut dyn SendSide) {
    until("the end", || {
        send.flush() == Flushed::All || !is_writable(send, LONG)
    });
    assert_eq!(send.flush(), Flushed::All);
}

fn closed(send: &mut dyn SendSide) -> SendCounts {
    let counts = send.counts().unwrap();
    assert_eq!(counts.residual(), 0, "{counts:?}");
    counts
}

fn fates(send: &mut dyn SendSide) -> Vec<Fate> {
    let mut fates = Vec::new();
    send.fates(&mut |fate| fates.push(fate));
    fates
}

/// Sends until there is no room, and nothing moves any more; how many there are then.
fn fill(send: &mut dyn SendSide, from: u32) -> u32 {
    let mut next = from;
    until("the end of room", || {
        let before = next;
        while send.send(&frame(next, 60)) == Sent::Taken {
            next += 1;
        }
        next == before && send.flush() == Flushed::Waits && !is_writable(send, LONG / 300)
    });
    next
}

#[test]
fn frames_go_in_order_and_the_fate_of_each_is_told_once() {
    const FRAMES: u32 = 5_000;
    let (driver, far) = card(50);
    let mut send = apart(driver, FRAME_BYTES_MAX).unwrap().send;
    let taking = std::thread::spawn(move || {
        let mut came = Vec::new();
        until("all frames", || {
            came.extend(far.receive());
            came.len() == FRAMES as usize
        });
        came
    });
    let (mut told, mut no_room) = (Vec::new(), 0);
    for next in 0..FRAMES {
        while send.send(&frame(next, 60 + next as usize % 1_400)) != Sent::Taken {
            no_room += 1;
            assert_ne!(send.flush(), Flushed::All);
            told.extend(fates(&mut *send));
            assert!(is_writable(&*send, LONG));
        }
        if next % 7 == 0 {
            send.flush();
            closed(&mut *send);
        }
    }
    flush(&mut *send);
    told.extend(fates(&mut *send));
    assert_eq!(told, [Fate::Out; FRAMES as usize]);
    let came = taking.join().unwrap();
    let sent = (0..FRAMES).map(|next| frame(next, 60 + next as usize % 1_400));
    assert!(came.into_iter().eq(sent));
    let counts = closed(&mut *send);
    let seen = (counts.taken.items, counts.out, counts.held, counts.no_room);
    assert_eq!(seen, (FRAMES.into(), FRAMES.into(), 0, no_room));
    assert!(no_room > 0, "there was always room");
}

#[test]
fn what_waits_for_a_full_card_has_an_end_and_goes_when_there_is_room() {
    let (driver, far) = card(10);
    let mut send = apart(driver, FRAME_BYTES_MAX).unwrap().send;
    let taken = fill(&mut *send, 0);
    // At the far end, with the card's own driver, and in places.
    let most = 10 + BATCH_FRAMES as u32 + PLACES;
    assert!((10 + PLACES..=most).contains(&taken), "{taken}");
    let counts = closed(&mut *send);
    assert_eq!((counts.out, counts.held), (10, u64::from(taken) - 10));
    // Room for one frame wakes nobody, that for many does.
    assert_eq!(far.receive(), Some(frame(0, 60)));
    until("the next frame", || closed(&mut *send).out == 11);
    send.flush();
    assert_eq!(send.send(&frame(taken, 60)), Sent::NoRoom);
    let mut came = 1;
    until("room", || {
        if let Some(next) = far.receive() {
            assert_eq!(number(&next), came);
            came += 1;
        }
        is_writable(&*send, Duration::ZERO)
    });
    let all = fill(&mut *send, taken);
    assert!(all > taken);
    until("all", || {
        if let Some(next) = far.receive() {
            assert_eq!(number(&next), came);
            came += 1;
        }
        came == all
    });
    flush(&mut *send);
    assert_eq!(fates(&mut *send).len(), all as usize);
    assert_eq!(closed(&mut *send).held, 0);
}

#[test]
fn a_card_that_goes_gives_up_what_waits_for_it() {
    let (driver, far) = card(10);
    let mut send = apart(driver, FRAME_BYTES_MAX).unwrap().send;
    let taken = fill(&mut *send, 0) as usize;
    far.set_link(Link::Gone);
    flush(&mut *send);
    let mut wanted = vec![Fate::Out; 10];
    wanted.resize(taken, Fate::Dropped(CardOutDrop::Gone));
    assert_eq!(fates(&mut *send), wanted);
    let counts = closed(&mut *send);
    assert_eq!(counts.dropped[CardOutDrop::Gone], taken as u64 - 10);
    assert_eq!((counts.out, counts.held), (10, 0));
    send.check().unwrap();
}

#[test]
fn nothing_goes_and_nothing_is_lost_behind_the_end() {
    let (driver, far) = card(10);
    let mut send = apart(driver, FRAME_BYTES_MAX).unwrap().send;
    let taken = fill(&mut *send, 0);
    send.close();
    while far.receive().is_some() {}
    assert_eq!(send.flush(), Flushed::Waits);
    assert_eq!(send.send(&frame(taken, 60)), Sent::NoRoom);
    let counts = closed(&mut *send);
    assert_eq!((counts.out, counts.held), (10, u64::from(taken) - 10));
    assert_eq!((fates(&mut *send).len(), far.receive()), (10, None));
    send.check().unwrap();
    let mut with_room = apart(card(10).0, FRAME_BYTES_MAX).unwrap().send;
    with_room.close();
    assert_eq!(with_room.send(&frame(0, 60)), Sent::NoRoom);
    assert_eq!(closed(&mut *with_room).taken.items, 0);
}

#[test]
fn what_the_driver_has_and_the_card_has_no_room_for_waits_though_all_places_are_free() {
    let (driver, far) = card(10);
    let mut send = apart(driver, FRAME_BYTES_MAX).unwrap().send;
    for number in 0..15 {
        assert_eq!(send.send(&frame(number, 60)), Sent::Taken);
    }
    until("the card's end of room", || {
        assert_ne!(send.flush(), Flushed::All);
        let counts = closed(&mut *send);
        (counts.out, counts.held) == (10, 5)
    });
    assert_eq!(send.flush(), Flushed::Waits);
    until("all", || {
        drop(far.receive());
        send.flush() == Flushed::All
    });
    assert_eq!(fates(&mut *send), [Fate::Out; 15]);
}

/// How the half below is odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    /// It says fates when it is let alone.
    Late,
    /// It has no batch: what it has no room for it has nothing of.
    Shut,
    /// It fails at the tenth frame, before it has it.
    Fails,
    /// It fails when it is flushed with the tenth one.
    FailsWithIt,
}

#[derive(Debug)]
struct OddSend {
    odd: Odd,
    half: Box<dyn SendSide>,
    is_open: Arc<AtomicBool>,
    taken: u32,
}

impl SendSide for OddSend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        self.taken += 1;
        assert!(
            self.odd != Odd::Fails || self.taken < 10,
            "as the test has it"
        );
        if self.odd == Odd::Shut && !self.is_open.load(Ordering::Relaxed) {
            return Sent::NoRoom;
        }
        self.half.send_with(bytes, fill)
    }

    fn flush(&mut self) -> Flushed {
        assert!(
            self.odd != Odd::FailsWithIt || self.taken < 10,
            "as the test has it"
        );
        self.half.flush()
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        if self.odd != Odd::Late || self.is_open.load(Ordering::Relaxed) {
            self.half.fates(told);
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.half.descriptor()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        self.half.counts()
    }
}

/// The half that sends, over one that is odd and takes frames of 1,000 bytes at most; what opens it; the far end.
fn odd(odd: Odd) -> (Box<dyn SendSide>, Arc<AtomicBool>, FarEnd) {
    let options = EmulatedOptions {
        frame_bytes_max: 1_000,
        ..EmulatedOptions::default()
    };
    let (driver, far) = emulated::open(&options).unwrap();
    let is_open = Arc::new(AtomicBool::new(false));
    let send = Box::new(OddSend {
        odd,
        half: driver.send,
        is_open: Arc::clone(&is_open),
        taken: 0,
    });
    let driver = apart(Driver { send, ..driver }, FRAME_BYTES_MAX).unwrap();
    (driver.send, is_open, far)
}

#[test]
fn what_the_half_below_refuses_has_its_fate_in_its_place() {
    let (mut send, is_open, far) = odd(Odd::Late);
    for (number, bytes) in [1_200, 60, 1_001, 1_200, 60, 1_200].into_iter().enumerate() {
        assert_eq!(send.send(&frame(number as u32, bytes)), Sent::Taken);
    }
    flush(&mut *send);
    let (out, dropped) = (Fate::Out, Fate::Dropped(CardOutDrop::TooLong));
    // The first one has none before it.
    assert_eq!(fates(&mut *send), [dropped]);
    is_open.store(true, Ordering::Relaxed);
    let mut told = Vec::new();
    // Nobody flushes: the thread looks by itself.
    until("fates", || {
        told.extend(fates(&mut *send));
        told.len() == 5
    });
    assert_eq!(told, [out, dropped, dropped, out, dropped]);
    let counts = closed(&mut *send);
    assert_eq!((counts.taken.items, counts.out, counts.held), (6, 2, 0));
    assert_eq!(counts.dropped, [(CardOutDrop::TooLong, 4)].into());
    assert_eq!(counts.refused.total(), 0);
    assert_eq!(far.receive(), Some(frame(1, 60)));
}

#[test]
fn a_frame_that_the_half_below_has_no_room_for_stays_in_its_place() {
    let (mut send, is_open, far) = odd(Odd::Shut);
    let mut taken = 0;
    while send.send(&frame(taken, 60)) == Sent::Taken {
        taken += 1;
    }
    // None was taken out of its place, and one was tried.
    assert_eq!(taken, PLACES);
    until("a look", || send.flush() == Flushed::Waits);
    assert_eq!(closed(&mut *send).held, u64::from(PLACES));
    is_open.store(true, Ordering::Relaxed);
    flush(&mut *send);
    let counts = closed(&mut *send);
    assert_eq!((counts.out, counts.held), (PLACES.into(), 0));
    for next in 0..PLACES {
        assert_eq!(far.receive(), Some(frame(next, 60)));
    }
}

#[test]
fn a_thread_that_fails_is_told_and_its_books_close() {
    for how in [Odd::Fails, Odd::FailsWithIt] {
        let (mut send, _, far) = odd(how);
        send.check().unwrap();
        for number in 0..20 {
            assert_eq!(send.send(&frame(number, 60)), Sent::Taken);
        }
        send.flush();
        until("the end of the thread", || send.check().is_err());
        assert_ne!(send.flush(), Flushed::All);
        let told = send.check().unwrap_err().to_string();
        assert!(told.contains("driver_threads = 1"), "{told}");
        send.close();
        assert!(send.check().is_err());
        let counts = closed(&mut *send);
        let came = std::iter::from_fn(|| far.receive()).count() as u64;
        assert_eq!((counts.out, counts.taken.items), (came, 20), "{how:?}");
        assert!((11..=20).contains(&counts.held), "{counts:?}");
    }
}
