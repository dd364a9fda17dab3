//! An E-link whose front end sends back what it is sent, as chunks.

use std::collections::VecDeque;

use super::account::ElinkAccount;
use super::link::Link;
use super::triggers::Triggers;
use super::ttc::Trigger;

/// Messages whose bytes may still be asked for. Their memory is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct Messages {
    /// Number of the first.
    first: u64,
    kept: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Messages {
    fn push(&mut self, bytes: &[u8]) {
        let mut message = self.spare.pop().unwrap_or_default();
        message.extend_from_slice(bytes);
        self.kept.push_back(message);
    }

    fn forget_before(&mut self, number: u64) {
        while self.first < number
            && let Some(mut message) = self.kept.pop_front()
        {
            message.clear();
            self.spare.push(message);
            self.first += 1;
        }
    }

    /// The bytes of a message from `done` on.
    pub(super) fn copy(&self, number: u64, done: usize, to: &mut [u8]) {
        let message = self.kept.get((number - self.first) as usize);
        let piece = message.and_then(|bytes| bytes.get(done..done + to.len()));
        match piece {
            Some(piece) => to.copy_from_slice(piece),
            // Only what is kept is asked for.
            None => debug_assert!(false, "message {number} is not there"),
        }
    }
}

/// The link of such a front end. To it a message is what a trigger is to others.
#[derive(Debug, Clone)]
pub(super) struct LoopBack {
    link: Link,
    arrivals: Triggers,
}

impl LoopBack {
    /// With a queue of so many messages at most.
    pub(super) fn new(link: Link, most: u64) -> Self {
        Self {
            link,
            arrivals: Triggers::new(most),
        }
    }

    pub(super) fn with(&mut self, work: impl FnOnce(&mut Link, &Triggers)) {
        work(&mut self.link, &self.arrivals);
        let oldest = self.link.oldest();
        if let Some(messages) = self.link.messages() {
            messages.forget_before(oldest);
        }
    }

    /// Whether one more message fits into a queue of so many.
    #[inline]
    pub(super) fn has_room(&self, most: u64) -> bool {
        self.link.queued(&self.arrivals) < most
    }

    /// A message comes, at a time in ticks.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        if let Some(messages) = self.link.messages() {
            messages.push(bytes);
        }
        self.arrivals.push(Trigger {
            number: self.arrivals.accepted(),
            l1id: bytes.len() as u32,
            at,
        });
        self.link.made(bytes.len());
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.link.due(&self.arrivals)
    }

    pub(super) fn waits_for_dma(&self, now: u64) -> bool {
        self.link.waits_for_dma(now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.link.is_empty(&self.arrivals)
    }

    pub(super) fn account(&self) -> ElinkAccount {
        self.link.account(&self.arrivals)
    }
}
