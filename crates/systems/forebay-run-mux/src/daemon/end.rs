//! The end: in whichever way it comes, the card is shut, all clients are parted with, and books are closed over what is left.

use std::time::Duration;

use forebay_run::Urgency;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::epoll::{Interest, Poller, Trigger};

use super::Daemon;
use crate::driver::Flushed;
use crate::error::MuxError;

/// So long frames that came before the end are taken in.
const CLOSE_NS: u64 = 120_000_000;
/// So long the card may have no room for what the driver has.
const OUT: Duration = Duration::from_millis(100);

impl Daemon {
    /// Ends. What failed before, or now.
    pub(super) fn close(
        &mut self,
        worked: Result<(), MuxError>,
        urgency: Urgency,
    ) -> Result<(), MuxError> {
        // A card that takes frames on while books are closed has counts that fit nothing.
        self.driver.receive.close();
        let closed = worked.and_then(|()| match urgency {
            Urgency::Now => Ok(()),
            _ => self.take_in_last(),
        });
        self.part_everybody();
        self.send_out(OUT);
        self.answers.held = self.answers_given();
        closed
    }

    /// Takes in what came before.
    fn take_in_last(&mut self) -> Result<(), MuxError> {
        let until_ns = monotonic_ns() + CLOSE_NS;
        while monotonic_ns() < until_ns {
            if !self.round(monotonic_ns())? {
                self.look(Duration::from_millis(1))?;
            }
        }
        Ok(())
    }

    fn part_everybody(&mut self) {
        for (client, _) in self.plan.clone().places() {
            self.part(client, "end", None);
        }
    }

    /// Gives the card what the driver has, as long as it takes it within this time. What is left is held in the books: nobody knows what would have become of it.
    pub(super) fn send_out(&mut self, most: Duration) {
        let until_ns = monotonic_ns() + most.as_nanos() as u64;
        let mut room = Poller::create(1).ok();
        let card = self.driver.send.descriptor();
        // Where it cannot be waited for, the first flush is the last.
        room.take_if(|room| {
            let (interest, trigger) = (Interest::Writable, Trigger::Level);
            room.add(card, 0, interest, trigger).is_err()
        });
        while self.driver.send.flush() == Flushed::Waits {
            let rest_ns = until_ns.saturating_sub(monotonic_ns());
            let waited = room.as_mut().map(|room| {
                let rest = Some(Duration::from_nanos(rest_ns));
                room.wait(rest, Duration::ZERO).map(drop)
            });
            if rest_ns == 0 || !matches!(waited, Some(Ok(()))) {
                break;
            }
        }
        self.learn();
    }
}
