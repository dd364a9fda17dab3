//! The fault switch at a card: frames vanish between the card and the driver's counts, so that a test can see that the card's own accounts find them.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use forebay_ledger::Leak;
use forebay_mux::Items;
use forebay_mux::buffers::Lent;

use super::{
    CardOutDrop, Desk, Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Fill, Flushed,
    ReceiveCounts, ReceiveSide, SendCounts, SendSide, Sent, SharedMemory,
};

const CARD_IN: &str = "mux_card_in";
const CARD_OUT: &str = "mux_card_out";
/// Frames that no driver refuses for their length.
const LENGTHS: RangeInclusive<usize> = FRAME_BYTES_MIN..=FRAME_BYTES_MAX;
/// The accounts at which frames can be made to vanish ([`leaking`]).
pub const HOPS: [&str; 2] = [CARD_IN, CARD_OUT];

/// The same driver, of which frames vanish at one of [`HOPS`]: some that came are neither visited nor counted as visited, and some that were taken never go. For tests only.
#[must_use]
pub fn leaking(driver: Driver, leak: &Leak) -> Driver {
    Driver {
        receive: Box::new(LeakyReceive {
            inner: driver.receive,
            leak: leak.clone(),
            lost: Items::default(),
        }),
        send: Box::new(LeakySend {
            inner: driver.send,
            leak: leak.clone(),
            lost: Items::default(),
            not_filled: 0,
            taken: 0,
            fates_told: 0,
            lost_after: VecDeque::new(),
        }),
        ..driver
    }
}

#[derive(Debug)]
struct LeakyReceive {
    inner: Box<dyn ReceiveSide>,
    leak: Leak,
    lost: Items,
}

/// A desk at which frames vanish before they land.
struct LeakyDesk<'a> {
    inner: &'a mut dyn Desk,
    leak: &'a mut Leak,
    lost: &'a mut Items,
}

impl Desk for LeakyDesk<'_> {
    fn lend(&mut self) -> Option<Lent> {
        self.inner.lend()
    }

    fn land(&mut self, buffer: Lent, offset: u32, frame: &[u8]) -> Option<Lent> {
        if self.leak.take(CARD_IN) {
            self.lost.add(frame.len() as u32);
            return Some(buffer);
        }
        self.inner.land(buffer, offset, frame)
    }
}

impl ReceiveSide for LeakyReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let (leak, lost) = (&mut self.leak, &mut self.lost);
        self.inner.receive(most, &mut |frame| {
            if leak.take(CARD_IN) {
                lost.add(frame.len() as u32);
            } else {
                visit(frame);
            }
        })
    }

    fn share(&mut self, client_frames: u32) -> Result<Option<SharedMemory>, DriverError> {
        self.inner.share(client_frames)
    }

    fn receive_shared(&mut self, most: usize, desk: &mut dyn Desk) -> Result<usize, DriverError> {
        let mut desk = LeakyDesk {
            inner: desk,
            leak: &mut self.leak,
            lost: &mut self.lost,
        };
        self.inner.receive_shared(most, &mut desk)
    }

    fn burst_frames(&self) -> usize {
        self.inner.burst_frames()
    }

    fn is_ready(&mut self) -> bool {
        self.inner.is_ready()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.descriptor()
    }

    fn settle(&mut self) {
        self.inner.settle();
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        let mut counts = self.inner.counts()?;
        counts.visited.items -= self.lost.items;
        counts.visited.bytes -= self.lost.bytes;
        Ok(counts)
    }
}

#[derive(Debug)]
struct LeakySend {
    inner: Box<dyn SendSide>,
    leak: Leak,
    lost: Items,
    /// Frames that could not be had.
    not_filled: u64,
    /// Frames that the driver itself took, and fates of which it has told.
    taken: u64,
    fates_told: u64,
    /// For each frame that vanished and was not told of: how many the driver had taken before it.
    lost_after: VecDeque<u64>,
}

impl SendSide for LeakySend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        if !self.leak.is_armed() || !LENGTHS.contains(&bytes) {
            let sent = self.inner.send_with(bytes, fill);
            self.taken += u64::from(sent == Sent::Taken);
            return sent;
        }
        // What vanishes is whole, and is asked for once.
        let mut frame = vec![0; bytes];
        if !fill(&mut frame) {
            self.not_filled += 1;
            return Sent::Refused(CardOutDrop::NotFilled);
        }
        if self.leak.take(CARD_OUT) {
            self.lost.add(bytes as u32);
            self.lost_after.push_back(self.taken);
            return Sent::Taken;
        }
        let sent = self.inner.send(&frame);
        self.taken += u64::from(sent == Sent::Taken);
        sent
    }

    fn flush(&mut self) -> Flushed {
        self.inner.flush()
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        let (lost_after, fates_told) = (&mut self.lost_after, &mut self.fates_told);
        let mut tell_lost = |fates_told: u64, told: &mut dyn FnMut(Fate)| {
            while lost_after.front().is_some_and(|at| *at <= fates_told) {
                lost_after.pop_front();
                told(Fate::Out);
            }
        };
        self.inner.fates(&mut |fate| {
            tell_lost(*fates_told, told);
            *fates_told += 1;
            told(fate);
        });
        tell_lost(*fates_told, told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.descriptor()
    }

    fn check(&mut self) -> Result<(), DriverError> {
        self.inner.check()
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let mut counts = self.inner.counts()?;
        counts.taken.items += self.lost.items;
        counts.taken.bytes += self.lost.bytes;
        counts.refused[CardOutDrop::NotFilled] += self.not_filled;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use crate::emulated::{EmulatedOptions, open};

    fn frame(number: u8) -> Vec<u8> {
        vec![number; 60]
    }

    #[test]
    fn frames_that_vanish_before_a_visit_are_left_over() {
        let (driver, far) = open(&EmulatedOptions::default()).unwrap();
        let mut driver = leaking(driver, &"mux_card_in:2".parse().unwrap());
        assert!((1..=5).all(|number| far.send(&frame(number))));
        let mut seen = Vec::new();
        let visited = driver.receive.receive(9, &mut |frame| seen.push(frame[0]));
        assert_eq!((visited.unwrap(), seen), (5, vec![3, 4, 5]));
        let counts = driver.receive.counts().unwrap();
        assert_eq!((counts.visited.items, counts.visited.bytes), (3, 180));
        assert_eq!(counts.residual(), 2);
    }

    #[test]
    fn the_fate_of_frames_that_vanish_is_told_in_its_place_and_they_are_left_over() {
        let (mut driver, far) = open(&EmulatedOptions::default()).unwrap();
        // The driver itself has taken one before.
        assert_eq!(driver.send.send(&frame(1)), Sent::Taken);
        driver.send.flush();
        driver.send.fates(&mut |_| {});
        let mut driver = leaking(driver, &"mux_card_out:2".parse().unwrap());
        let mut not_filled = |_: &mut [u8]| false;
        let refused = driver.send.send_with(60, &mut not_filled);
        assert_eq!(refused, Sent::Refused(CardOutDrop::NotFilled));
        for number in 2..=4 {
            assert_eq!(driver.send.send(&frame(number)), Sent::Taken);
        }
        driver.send.flush();
        far.set_link(Link::Down);
        assert_eq!(driver.send.send(&frame(5)), Sent::Taken);
        driver.send.flush();
        let mut fates = Vec::new();
        driver.send.fates(&mut |fate| fates.push(fate));
        let down = Fate::Dropped(CardOutDrop::Down);
        assert_eq!(fates, [Fate::Out, Fate::Out, Fate::Out, down]);
        let counts = driver.send.counts().unwrap();
        assert_eq!((counts.taken.items, counts.out), (5, 2));
        assert_eq!(counts.refused[CardOutDrop::NotFilled], 1);
        assert_eq!(counts.residual(), 2);
    }
}
